"""Library calls on the host: what they compute, what they say of themselves, and how a plan has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.model import BufferArg, Build, Launch, Plan, Role, packed
from workers.backend import CannotRun, Unavailable
from workers.backends.host import Host
from workers.host import libraries

ROWS, COLS, BATCH = 3, 64, 2
CALL = Launch(
    "gemm/library",
    "F16",
    "gemm",
    tuple(BufferArg(name, name) for name in ("weights", "x", "out")),
    (0, 0, 0),
    (0, 0, 0),
    library=True,
)


def operands() -> tuple[np.ndarray, np.ndarray]:
    """(3, 64) and (2, 64) float16 whose products and sums are exact in float32."""
    w = np.arange(ROWS * COLS).reshape(ROWS, COLS) % 13 - 6
    x = np.arange(BATCH * COLS).reshape(BATCH, COLS) % 7 - 3
    return w.astype(np.float16), x.astype(np.float16)


def by_hand(w: np.ndarray, x: np.ndarray) -> list[list[float]]:
    return [
        [sum(float(w[row, k]) * float(x[token, k]) for k in range(COLS)) for row in range(ROWS)]
        for token in range(BATCH)
    ]


def test_gemm_is_every_sum_of_products() -> None:
    w, x = operands()
    out = np.full((BATCH, ROWS), np.nan, np.float32)
    libraries.gemm({"weights": w.view(np.uint8), "x": x, "out": out})
    assert out.tolist() == by_hand(w, x)


def test_gemm_reads_rows_that_are_apart_and_at_an_odd_place() -> None:
    w, x = operands()
    pitch = 2 * COLS + 6
    memory = np.full(1 + ROWS * pitch, 0xFF, np.uint8)
    apart = np.ndarray((ROWS, 2 * COLS), np.uint8, memory, 1, (pitch, 1))
    apart[...] = w.view(np.uint8)
    out = np.empty((BATCH, ROWS), np.float32)
    libraries.gemm({"weights": apart, "x": x, "out": out})
    assert out.tolist() == by_hand(w, x)


def test_gemm_keeps_what_float16_cannot_add() -> None:
    """2,048 + 1 is 2,048 in float16; subnormal float16 aren't flushed; 65,504 squared is no float16."""
    w = np.array([[2048, 1, 2.0**-24, 65504]], np.float16)
    x = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 65504]], np.float16)
    out = np.empty((3, 1), np.float32)
    libraries.gemm({"weights": w.view(np.uint8), "x": x, "out": out})
    assert out[:, 0].tolist() == [2049, 2.0**-24, np.float32(65504.0**2)]


def test_a_routine_that_no_library_here_has_is_named() -> None:
    with pytest.raises(CannotRun, match="no library here does conv; there are gemm"):
        libraries.call(replace(CALL, entry="conv"), {})


def test_blas_says_name_version_and_whose() -> None:
    name, version, *whose = libraries.blas().split()
    assert name
    assert version[0].isdigit() or version == "of"
    assert " ".join(whose).endswith(f"(numpy {np.__version__})")


def host() -> Host:
    found = Host()
    try:
        found.devices()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return found


def test_a_plan_with_a_library_call_runs_in_guarded_memory_and_says_who_did_it() -> None:
    w, x = operands()
    buffers = (
        packed("weights", (ROWS, 2 * COLS), Role.IN, "u1"),
        packed("x", (BATCH, COLS), Role.IN, "f2"),
        packed("out", (BATCH, ROWS), Role.OUT),
    )
    backend = host()
    images = {"weights": w.view(np.uint8).reshape(-1), "x": x.view(np.uint8).reshape(-1)}
    ran = backend.run(Plan(buffers, (CALL,), Build.DEFAULT), images, backend.devices()[0], 0)
    (record,) = ran.launches
    assert (record.kernel, record.entry, record.grid, record.block) == (CALL.kernel, "gemm", *2 * ((0,) * 3,))
    assert record.library == libraries.blas()
    assert record.elapsed_us > 0
    assert buffers[2].view(ran.images["out"]).tolist() == by_hand(w, x)
    assert (ran.guards, ran.substitutes) == ((), ())
