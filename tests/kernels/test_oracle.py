"""The oracle is independent, exact in class, and decodes a matrix once however many kernels ask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernels import oracle, registry
from kernels.kind import Kind

KINDS = list(registry.kinds().values())
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])

Load = Callable[[str], dict[str, np.ndarray]]
Differing = Callable[[np.ndarray, np.ndarray], int]


def pinned_rows(kind: Kind, rows: int = 4, blocks: int = 3) -> np.ndarray:
    """(rows, packed row bytes) uint8: random bytes with finite scales."""
    content = np.random.default_rng(11).integers(0, 256, (rows, blocks * kind.block_bytes), np.uint8)
    view = content.view(kind.block)
    kind.pin(view)
    return view.view(np.uint8)


@every_kind
def test_weights_equal_ggml(kind: Kind, golden: Load, differing: Differing) -> None:
    arrays = golden(kind.name)
    names = [name.removesuffix("blocks") for name in arrays if name.endswith("blocks")]
    with np.errstate(invalid="ignore"):  # signalling NaN
        wanted = {name: arrays[f"{name}dequant"].astype(np.float64) for name in names}
    sweep = {"MXFP4": 256 * 32, "NVFP4": 64 * 64}.get(kind.name, 0)  # every scale byte with every code
    beside = {"F16": 1 << 16, "BF16": 1 << 16, "F32": 0}  # every code
    count = 26 * 1024 + beside.get(kind.name, 128 * kind.elements) + sweep
    assert sum(want.size for want in wanted.values()) == count
    for name, want in wanted.items():
        assert differing(oracle.weights(kind, arrays[f"{name}blocks"]), want) == 0


@every_kind
def test_dot_agrees_with_the_exact_answer(kind: Kind, golden: Load) -> None:
    arrays = golden(kind.name)
    rows = arrays["blocks"].reshape(16, -1)
    got = oracle.dot(oracle.weights(kind, rows), arrays["x"].astype(np.float64))
    scale = oracle.dot(oracle.magnitudes(kind, rows, "decoded"), np.abs(arrays["x"]).astype(np.float64))
    # Both are float64 sums of the same 1,024 products, in orders of their own: 1,024 * 2^-53 apart at most.
    assert (np.abs(got - arrays["y_f64"]) <= 1024 * 2.0**-53 * scale).all()
    assert np.abs(arrays["y_f64"]).min() > 0


@every_kind
def test_weights_read_a_strided_view(kind: Kind) -> None:
    rows = pinned_rows(kind)
    padded = np.full((4, rows.shape[1] + 5), 0xFF, np.uint8)
    padded[:, 3:-2] = rows
    assert np.array_equal(oracle.weights(kind, padded[:, 3:-2]), oracle.weights(kind, rows))


@every_kind
def test_decoded_magnitudes_are_absolute_weights(kind: Kind) -> None:
    rows = pinned_rows(kind)
    assert np.array_equal(oracle.magnitudes(kind, rows, "decoded"), np.abs(oracle.weights(kind, rows)))


@every_kind
def test_factored_magnitudes_count_product_and_min_apart(kind: Kind) -> None:
    rows = pinned_rows(kind)
    decoded = oracle.magnitudes(kind, rows, "decoded")
    factored = oracle.magnitudes(kind, rows, "factored")
    assert (factored >= decoded * (1 - 2.0**-23)).all()
    assert (factored > 1.01 * decoded).any() == any(
        name in (kind.block.names or ()) for name in oracle.MIN_FIELDS
    )


def test_factored_magnitudes_of_one_known_weight() -> None:
    kind = registry.kind("Q4_K")
    blocks = np.zeros(1, kind.block)
    blocks["d"], blocks["dmin"], blocks["scales"], blocks["qs"] = 0.5, 0.25, 3, 0x77
    rows = blocks.view(np.uint8)[None, :]
    # First group: s = m = 3, q = 7, so d*s*q = 10.5 and dmin*m = 0.75.
    assert oracle.weights(kind, rows)[0, 0] == 9.75
    assert oracle.magnitudes(kind, rows, "factored")[0, 0] == 11.25


def test_magnitudes_leave_the_given_bytes_alone() -> None:
    rows = pinned_rows(registry.kind("Q4_K"))
    before = rows.copy()
    oracle.magnitudes(registry.kind("Q4_K"), rows, "factored")
    assert np.array_equal(rows, before)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("row", "x", "want"),
    [
        ([1, 2, 3], [4, 5, 6], 32),
        ([INF, 2, 3], [0, 5, 6], NAN),  # 0 * Inf, which BLAS may skip
        ([INF, 2, 3], [1, 5, 6], INF),
        ([INF, 2, 3], [-1, 5, 6], -INF),
        ([INF, INF, 3], [1, -1, 6], NAN),
        ([NAN, 2, 3], [0, 5, 6], NAN),
        ([0, 2, 3], [INF, 5, 6], NAN),
        ([0, 2, 3], [NAN, 5, 6], NAN),
        ([1, 2, 3], [4, 5, -INF], -INF),
    ],
)
@pytest.mark.parametrize("batched", [False, True])
def test_dot_has_the_class_of_an_ieee_sum(
    row: list[float], x: list[float], want: float, batched: bool
) -> None:
    matrix = np.array([[1, 1, 1], row, [2, 2, 2]], np.float64)
    vector = np.array(x, np.float64)
    got = oracle.dot(matrix, np.stack([np.ones(3), vector])) if batched else oracle.dot(matrix, vector)
    assert got.shape == ((2, 3) if batched else (3,))
    assert np.array_equal(got[-1, 1] if batched else got[1], want, equal_nan=True)
    if batched:  # a vector of ones sees the same row, and no neighbour's NaN
        assert np.array_equal(got[0], matrix.sum(axis=1), equal_nan=True)


def test_dot_keeps_finite_rows_exact_beside_a_row_of_nan() -> None:
    matrix = np.random.default_rng(5).integers(-9, 9, (6, 40)).astype(np.float64)
    x = np.arange(40, dtype=np.float64)
    want = matrix @ x
    matrix[2] = NAN
    got = oracle.dot(matrix, x)
    assert np.isnan(got[2])
    assert np.array_equal(np.delete(got, 2), np.delete(want, 2))


def test_weights_are_decoded_once_and_read_only() -> None:
    kind = registry.kind("Q8_0")
    first, again = oracle.weights(kind, pinned_rows(kind)), oracle.weights(kind, pinned_rows(kind))
    assert first is again
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 0


def test_equal_bytes_of_another_kind_are_another_matrix() -> None:
    rows = pinned_rows(registry.kind("Q4_0"))
    q4_0, iq4_nl = (oracle.weights(registry.kind(name), rows) for name in ("Q4_0", "IQ4_NL"))
    assert not np.array_equal(q4_0, iq4_nl)


def test_one_changed_byte_is_another_matrix() -> None:
    kind = registry.kind("Q8_0")
    rows = pinned_rows(kind)
    before = oracle.weights(kind, rows)
    rows[0, 5] ^= 1
    assert (oracle.weights(kind, rows) != before).sum() == 1


def test_cache_drops_the_oldest_when_it_is_full() -> None:
    kind = registry.kind("Q8_0")
    cache = oracle.Cache(limit_bytes=2 * 96 * 8)  # two rows of 96 float64
    a, b, c = (pinned_rows(kind, 1) + np.uint8(i) for i in range(3))
    first = cache.get(kind, a)
    second = cache.get(kind, b)
    assert cache.get(kind, a) is first  # now b is the oldest
    cache.get(kind, c)
    assert cache.held_bytes == 2 * 96 * 8
    assert cache.get(kind, a) is first
    assert cache.get(kind, b) is not second


def test_matrix_larger_than_the_cache_is_still_decoded() -> None:
    kind = registry.kind("Q8_0")
    cache = oracle.Cache(limit_bytes=8)
    assert cache.get(kind, pinned_rows(kind)).shape == (4, 96)
    assert cache.held_bytes == 0


@pytest.mark.parametrize("arithmetic", ["decoded", "factored"])
def test_sums_of_a_matrix_decoded_in_parts_are_those_of_the_whole(
    arithmetic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = registry.kind("Q4_K")
    rows = np.random.default_rng(1).integers(0, 256, (37, 3 * kind.block_bytes), np.uint8)
    kind.pin(rows.reshape(-1).view(kind.block))
    x = np.random.default_rng(2).normal(size=(5, 768))
    whole = oracle.sums(kind, rows, x, arithmetic)
    monkeypatch.setattr(oracle, "WEIGHTS_AT_ONCE", 10 * 768)
    parts = oracle.sums(kind, rows, x, arithmetic)
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == (5, 37)
        assert np.allclose(one, other, rtol=1e-13, atol=1e-13)
