"""float64 truth from an independent decoder: the `gguf` package, or plain_codecs where that has none."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from kernels import plain_codecs
from kernels.kind import Kind

CACHE_BYTES = 256 << 20  # decoded matrices kept: several kernels and builds read the same one
WEIGHTS_AT_ONCE = 1 << 24  # decoded to float64, 128 MiB: half of what is kept
MIN_FIELDS = ("dmin", "m")  # scale of what a kind subtracts or adds per group, apart from d * q


def weights(kind: Kind, rows: np.ndarray) -> np.ndarray:
    """(rows, packed row bytes) uint8 -> (rows, cols) float64, read-only: every weight, exactly."""
    return _CACHE.get(kind, np.ascontiguousarray(rows))


def magnitudes(kind: Kind, rows: np.ndarray, arithmetic: str) -> np.ndarray:
    """(rows, cols) float64: |w| for `decoded`; |d*q| + |min|, exact but for one rounding, for `factored`.

    A kind without a min field has none to factor out: both are |w|.
    """
    if arithmetic == "decoded" or not _min_fields(kind):
        return np.asarray(np.abs(weights(kind, rows)))
    product, minimum = _apart(kind, rows)
    return np.asarray(np.abs(product) + minimum)


def minima(kind: Kind, rows: np.ndarray) -> np.ndarray:
    """(rows, cols) float64: |min| of every weight, what is added or subtracted apart from d * q."""
    if not _min_fields(kind):
        return np.zeros(weights(kind, rows).shape)
    return _apart(kind, rows)[1]


def _min_fields(kind: Kind) -> list[str]:
    return [name for name in MIN_FIELDS if name in (kind.block.names or ())]


def _apart(kind: Kind, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d * q of every weight, and |min|."""
    blocks = np.array(rows, order="C").view(kind.block)
    for name in _min_fields(kind):
        blocks[name] = 0
    product = weights(kind, blocks.view(np.uint8))
    with np.errstate(invalid="ignore"):  # Inf - Inf in rows that no bound judges
        return product, np.asarray(np.abs(product - weights(kind, rows)))


def sums(kind: Kind, rows: np.ndarray, x: np.ndarray, arithmetic: str) -> tuple[np.ndarray, np.ndarray]:
    """What rows times x is and S, the sum of magnitudes: (rows,) or (batch, rows) float64 each.

    A matrix of more than WEIGHTS_AT_ONCE weights is decoded a part after the other.
    """
    step = max(1, WEIGHTS_AT_ONCE // x.shape[-1])
    parts = [rows[first : first + step] for first in range(0, len(rows), step)]
    found = [
        (dot(weights(kind, part), x), dot(magnitudes(kind, part, arithmetic), np.abs(x))) for part in parts
    ]
    want, scale = zip(*found, strict=True)
    return np.concatenate(want, axis=-1), np.concatenate(scale, axis=-1)


def dot(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """float64 matrix (rows, cols) times x (cols,) or (batch, cols): (rows,) or (batch, rows).

    NaN and Inf come out as IEEE sums have them. BLAS may skip products with zero, which hides 0 * Inf: it
    only gets what is finite, and the rest is summed product by product.
    """
    bad_rows, bad_x = ~np.isfinite(matrix).all(axis=-1), ~np.isfinite(x).all(axis=-1)
    if not bad_rows.any() and not bad_x.any():
        return np.asarray(x @ matrix.T)
    with np.errstate(invalid="ignore", over="ignore"):
        out: np.ndarray = np.where(np.isfinite(x), x, 0) @ np.where(np.isfinite(matrix), matrix, 0).T
        out[..., bad_rows] = _sums(matrix[bad_rows], x)
        out[bad_x] = _sums(matrix, x[bad_x])
    return out


def _sums(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`dot` without BLAS, one activation vector at a time so that memory stays that of the matrix."""
    vectors = x.reshape(-1, matrix.shape[-1])
    sums = np.array([(matrix * vector).sum(axis=-1) for vector in vectors]).reshape(len(vectors), len(matrix))
    return sums.reshape(*x.shape[:-1], len(matrix))


class Cache:
    """Decoded matrices by kind and content, oldest out first when their bytes pass the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._held: OrderedDict[tuple[str, tuple[int, ...], bytes], np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, kind: Kind, rows: np.ndarray) -> np.ndarray:
        key = (kind.name, rows.shape, hashlib.blake2b(rows.data).digest())
        with self._lock:
            if (held := self._held.get(key)) is not None:
                self._held.move_to_end(key)
                return held
            decoded = _decode(kind, rows)
            self._held[key] = decoded
            self.held_bytes += decoded.nbytes
            while self.held_bytes > self.limit_bytes:
                self.held_bytes -= self._held.popitem(last=False)[1].nbytes
            return decoded


_CACHE = Cache(CACHE_BYTES)


def _decode(kind: Kind, rows: np.ndarray) -> np.ndarray:
    # gguf agrees with ggml's C code on every adversarial block of these kinds, also where MXFP4's e is 255:
    # 2^128.
    with np.errstate(invalid="ignore", over="ignore"):
        if plain := plain_codecs.CODECS.get(kind.name):
            decoded = plain(rows)
        else:
            decoded = dequantize(rows, GGMLQuantizationType[kind.name]).astype(np.float64)
    decoded.flags.writeable = False
    return decoded
