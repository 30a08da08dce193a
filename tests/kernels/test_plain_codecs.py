"""The oracle's own decoders: ggml's values for the kinds that gguf can't decode, and wrong ones noticed."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from kernels import oracle, plain_codecs, registry
from kernels.kind import Kind
from kernels.plain_codecs import CODECS

Load = Callable[[str], dict[str, np.ndarray]]
Differing = Callable[[np.ndarray, np.ndarray], int]
every_codec = pytest.mark.parametrize("name", CODECS)


def differing_values(decode: plain_codecs.Decode, arrays: dict[str, np.ndarray], differing: Differing) -> int:
    """float64 values, over every set of golden blocks, that aren't ggml's."""
    with np.errstate(invalid="ignore"):
        return sum(
            differing(decode(arrays[f"{name}blocks"]), arrays[f"{name}dequant"].astype(np.float64))
            for name in ("", "edge_", "finite_", "adversarial_")
        )


@every_codec
def test_values_are_ggmls(name: str, golden: Load, differing: Differing) -> None:
    assert differing_values(CODECS[name], golden(name), differing) == 0


def gguf_decodes(kind: Kind) -> bool:
    try:
        dequantize(np.zeros((1, kind.block_bytes), np.uint8), GGMLQuantizationType[kind.name])
    except (KeyError, NotImplementedError):
        return False
    return True


def test_every_kind_that_gguf_cannot_decode_has_one() -> None:
    lacking = {kind.name for kind in registry.kinds().values() if not gguf_decodes(kind)}
    assert lacking <= set(CODECS) <= set(registry.kinds())


@every_codec
def test_the_oracle_takes_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = registry.kind(name)
    monkeypatch.setitem(CODECS, name, lambda rows: np.full((len(rows), kind.elements), 7.0))
    assert (oracle.weights(kind, np.full((1, kind.block_bytes), 0x21, np.uint8)) == 7).all()


@every_codec
def test_codec_and_kind_share_no_code(name: str) -> None:
    kind = Path(inspect.getfile(importlib.import_module(registry.kind(name).decode.__module__)))
    own = Path(inspect.getfile(plain_codecs))
    assert modules_imported(own) == {"__future__", "collections.abc", "numpy"}
    assert not any("plain_codecs" in module for module in modules_imported(kind))


def modules_imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("Q1_0", "2 ** (i % 8)", "2 ** (7 - i % 8)"),
        ("Q1_0", "d, -d", "-d, d"),
        ("Q2_0", "4 ** (i % 4)", "4 ** (i % 2)"),
        ("Q2_0", "- 1) * d", "- 2) * d"),
        ("Q2_0", "fraction, -24", "0 * fraction, -24"),
        ("Q1_0", "high >= 128", "high > 128"),
    ],
)
def test_a_wrong_codec_is_noticed(
    name: str, right: str, wrong: str, golden: Load, differing: Differing
) -> None:
    text = inspect.getsource(plain_codecs)
    assert text.count(right) == 1
    module: dict[str, dict[str, plain_codecs.Decode]] = {}
    exec(compile(text.replace(right, wrong), name, "exec"), module)
    assert differing_values(module["CODECS"][name], golden(name), differing) > 0
