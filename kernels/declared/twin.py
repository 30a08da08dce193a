"""Runs a catalog's own Python: only where it was allowed, which is in the isolated child."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from kernels.errors import FarmError
from kernels.op import Step

_ALLOWED = ContextVar("a catalog's Python may run", default=False)


@contextmanager
def allowed() -> Iterator[None]:
    """While in it, twins of a catalog are run; for a process that may die of them."""
    token = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def load(text: str, file: str, function: str) -> Callable[[Step], Any]:
    """The function of a Python text; FarmError where none may run here, or the text can't be run."""
    if not _ALLOWED.get():
        raise FarmError(f"{file} is a catalog's own code: it runs in the isolated child alone")
    names: dict[str, Any] = {"__name__": f"catalog_{function}"}
    with _told(file):
        exec(compile(text, file, "exec"), names)
        found: Callable[[Step], Any] = names[function]
    return found


def output(twin: Callable[[Step], Any], step: Step, file: str) -> np.ndarray:
    """What a twin gives; FarmError unless it is a float32 array."""
    with _told(file):
        made = twin(step)
    if isinstance(made, np.ndarray) and made.dtype == np.float32:
        return made
    got = f"a {made.dtype} array" if isinstance(made, np.ndarray) else type(made).__name__
    raise FarmError(f"{file}: the twin gave {got}, want a float32 array in the output's shape")


@contextmanager
def _told(file: str) -> Iterator[None]:
    """Whatever goes wrong in a user's Python becomes FarmError with the line of that file."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a user's Python may fail in any way: it becomes evidence
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
        ]
        where = f"{file}:{lines[-1]}" if lines else file
        raise FarmError(
            f"{where}: the twin failed with {type(error).__name__}: {error}".rstrip(": ")
        ) from None
