"""A kind's integer form says the same weights as its decode, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernels import registry, source
from kernels.ints._ints import PIECE

Load = Callable[[str], dict[str, np.ndarray]]
Differing = Callable[[np.ndarray, np.ndarray], int]

# What engines multiply as integers; a kind that comes later joins by a file of its own.
AT_LEAST = {
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
    "MXFP4", "NVFP4",
}  # fmt: skip
NAMES = sorted(registry.all_ints())


def test_the_kinds_that_engines_multiply_as_integers_are_there() -> None:
    assert AT_LEAST <= set(NAMES) <= set(registry.kinds())
    assert registry.ints("TQ1_0") is None


def put_together(name: str, blocks: np.ndarray) -> np.ndarray:
    """(n, elements) float32 from quants, scale and low, in the decode's order."""
    ints = registry.ints(name)
    assert ints is not None
    with np.errstate(all="ignore"):
        q, scale, low = ints.split(blocks)
        w = np.repeat(scale, PIECE, axis=1) * q
        return w if low is None else w + np.repeat(low, PIECE, axis=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", ["blocks", "finite_blocks", "adversarial_blocks", "edge_blocks"])
def test_quants_scales_and_lows_make_the_decoded_weights(
    golden: Load, differing: Differing, name: str, of: str
) -> None:
    kind = registry.kind(name)
    blocks = np.ascontiguousarray(golden(name)[of]).reshape(-1, kind.block_bytes).view(kind.block).reshape(-1)
    want = kind.decode(blocks)
    assert want.size >= 64 * 32
    assert differing(put_together(name, blocks), want) == 0


@pytest.mark.parametrize("name", NAMES)
def test_types_and_shapes_are_those_that_a_kernel_counts_on(name: str) -> None:
    kind, ints = registry.kind(name), registry.ints(name)
    assert ints is not None
    q, scale, low = ints.split(np.zeros(3, kind.block))
    assert (q.dtype, q.shape) == (np.int8, (3, kind.elements))
    assert (scale.dtype, scale.shape) == (np.float32, (3, kind.elements // PIECE))
    assert (low is not None) == ints.low
    assert low is None or (low.dtype, low.shape) == (scale.dtype, scale.shape)


def test_a_wrong_quant_is_seen(golden: Load, differing: Differing) -> None:
    kind = registry.kind("Q5_K")
    blocks = np.ascontiguousarray(golden("Q5_K")["finite_blocks"]).view(kind.block).reshape(-1)
    wrong = blocks.copy()
    wrong["qh"] ^= 1
    assert (
        60 * 32 < differing(put_together("Q5_K", wrong), kind.decode(blocks)) <= 64 * 32
    )  # a scale may be 0


@pytest.mark.parametrize("name", NAMES)
def test_the_text_has_the_integer_form_and_one_branch(name: str) -> None:
    text, ints = source.text("matvec/dp4a", name), registry.ints(name)
    assert ints is not None
    assert ints.cuda.strip("\n") in text
    assert ("&scale, &low)" in text) == ints.low
    assert "#ifdef LOW" not in text
    assert ints.cuda.strip("\n") not in source.text("matvec/block", name)


@pytest.mark.parametrize(("kernel_id", "reads"), [("matvec/dp4a", True), ("matvec/block", False)])
def test_the_digest_covers_the_integer_form_where_it_is_read(kernel_id: str, reads: bool) -> None:
    modules = source._kind_modules(registry.kernel(kernel_id), "Q4_K")
    assert [path.as_posix().rpartition("kernels/")[2] for path in modules] == [
        "kinds/q4_k.py",
        *(["ints/q4_k.py"] if reads else []),
    ]
    assert source.counted("kernels.ints._ints")
