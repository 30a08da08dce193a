"""Builds a text in a cache of the session and launches one of its kernels over named buffers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workers.backend import Unavailable
from workers.host import compiler
from workers.host.check import Checker
from workers.host.memory import Arena
from workers.host.module import Module


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def load(cache: Path) -> Callable[..., Module]:
    """load(text) -> the loaded module."""

    def _load(text: str, build: str = "exact", **options: Any) -> Module:
        return Module(compiler.build(text, "k.cu", build, cache, **options), "k.cu")

    return _load


@pytest.fixture
def run(load: Callable[..., Module]) -> Callable[..., np.ndarray]:
    """run(text, inputs, out, …) launches the kernel `k(inputs…, out)` and returns the output array."""

    def _run(
        text: str,
        inputs: list[np.ndarray],
        out: np.ndarray,
        block: int | tuple[int, int, int] = 32,
        grid: int = 1,
        shared: int = 0,
        order: int = 0,
        workers: int = 1,
        scalars: tuple[int, ...] = (),
        **options: Any,
    ) -> np.ndarray:
        arena = Arena()
        buffers = [arena.place(f"in{i}", np.asarray(a)) for i, a in enumerate(inputs)]
        target = arena.place("out", out)
        size = (grid, 1, 1), block if isinstance(block, tuple) else (block, 1, 1)
        load(text, **options).launch("k", *size, shared, [*buffers, target, *scalars], order, workers)
        assert arena.check() == []
        return target.view.view(out.dtype).copy()

    return _run


@pytest.fixture
def check(load: Callable[..., Module]) -> Callable[..., list[str]]:
    """check(text, …) launches `k(const float *x, float *out)` in the check build and returns its findings.

    x holds 64 floats, out has room for 64 and nothing in it.
    """

    def _check(
        text: str, block: int = 64, grid: int = 1, shared: int = 256, order: int = 0, **options: Any
    ) -> list[str]:
        arena, checker = Arena(), Checker()
        x = arena.place("x", np.arange(64, dtype=np.float32))
        out = arena.allocate("out", 256)
        checker.watch(x, is_input=True)
        checker.watch(out, is_input=False)
        module = load(text, "check", **options)
        module.launch("k", (grid, 1, 1), (block, 1, 1), shared, [x, out], order, checker=checker)
        assert arena.check() == []
        return checker.findings

    return _check
