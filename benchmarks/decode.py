"""Decode speed of every kind against the gguf package's, on the same random blocks in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from kernels import plain_codecs, registry
from kernels.kind import Kind

ROWS, COLS = 1024, 4096
TURNS = 5
NOT_COMPARED = {*plain_codecs.CODECS, "F32"}  # gguf has no decoder; nothing is decoded, both give a view


def weights(kind: Kind) -> np.ndarray:
    """(ROWS, packed row bytes) uint8 with finite scales."""
    content = np.random.default_rng(1).integers(0, 256, (ROWS, kind.row_bytes(COLS)), np.uint8)
    blocks = content.view(kind.block)
    kind.pin(blocks)
    return blocks.view(np.uint8)


def elapsed_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def medians_ms(kind: Kind) -> tuple[float, float]:
    """Ours and gguf's, in turns so that both see the same machine, after one of each that isn't counted."""
    rows, qtype = weights(kind), GGMLQuantizationType[kind.name]
    assert np.array_equal(kind.weights(rows), dequantize(rows, qtype))
    turns = [
        (elapsed_ms(lambda: kind.weights(rows)), elapsed_ms(lambda: dequantize(rows, qtype)))
        for _ in range(TURNS)
    ]
    ours, theirs = zip(*turns, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    print(f"decode {ROWS}x{COLS}, median of {TURNS}")
    print(f"{'kind':8}{'ours ms':>10}{'gguf ms':>10}{'gguf/ours':>11}{'ours Mw/s':>11}")
    for kind in registry.kinds().values():
        if kind.name in NOT_COMPARED:
            continue
        ours, theirs = medians_ms(kind)
        speed = ROWS * COLS / ours / 1e3
        print(f"{kind.name:8}{ours:10.3f}{theirs:10.3f}{theirs / ours:11.2f}{speed:11.0f}")


if __name__ == "__main__":
    main()
