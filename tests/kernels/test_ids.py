"""Expert ids: always in range, the same everywhere, and what must be among them for a kernel to be tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import inputs, registry
from kernels.families import routed
from kernels.model import Build, Case, FromFile, Plan, Role, Seeded, Shape, Source, packed
from kernels.op import Ids, Matrix, Operand, Vector


def case_with(x: Source) -> Case:
    weights = Seeded("ordinary", 1, inputs.FIXTURE_VERSION)
    return Case("any", "any", (), Shape.of(), weights, x, Build.EXACT)


def drawn(ids: Ids, seed: int = 1, *others: Operand) -> np.ndarray:
    source = Seeded("ordinary", seed, inputs.FIXTURE_VERSION)
    buffers = (packed(ids.name, ids.shape, Role.IN, "i4"), *(buffer_of(other) for other in others))
    plan = Plan(buffers, (), Build.EXACT)
    return buffers[0].view(inputs.images(case_with(source), plan, (*others, ids))[ids.name])


def buffer_of(operand: Operand):  # type: ignore[no-untyped-def]
    if isinstance(operand, Matrix):
        row_bytes = operand.kind.row_bytes(operand.cols)
        return packed(operand.name, (operand.rows, row_bytes), Role.IN, "u1")
    return packed(operand.name, operand.shape, Role.IN)


@given(
    tokens=st.integers(1, 40),
    experts=st.integers(1, 130),
    slots=st.integers(1, 8),
    seed=st.integers(0, 2**64 - 1),
)
def test_ids_are_in_range_and_the_first_token_has_each_expert_once(
    tokens: int, experts: int, slots: int, seed: int
) -> None:
    slots = min(slots, experts)
    ids = routed(inputs.words(seed, tokens * slots).reshape(tokens, slots), experts)
    assert (ids.dtype, ids.shape) == (np.int32, (tokens, slots))
    assert ids.min() >= 0
    assert ids.max() == experts - 1 == ids[0, 0]  # the last expert: a read past it leaves the buffer
    assert len(set(ids[0].tolist())) == slots
    if tokens * slots > 1:
        assert 0 in ids


@pytest.mark.parametrize(("experts", "slots"), [(3, 1), (3, 2), (8, 2), (8, 7), (128, 8)])
def test_an_expert_in_the_middle_stays_empty_and_others_repeat(experts: int, slots: int) -> None:
    ids = drawn(Ids("ids", (33, slots), experts))
    counts = np.bincount(ids.reshape(-1), minlength=experts)
    assert counts[experts // 2] == 0
    assert counts.max() > 1
    assert len(set(ids[0].tolist())) == slots


def test_every_expert_is_taken_where_there_are_no_more_than_slots() -> None:
    assert sorted(drawn(Ids("ids", (2, 4), 4))[0].tolist()) == [0, 1, 2, 3]


def test_ids_have_a_stream_of_their_own() -> None:
    ids, x = Ids("ids", (9, 2), 8), Vector("x", (9, 32))
    matrix = Matrix("weights", registry.kind("Q4_0"), 3, 32)
    assert np.array_equal(drawn(ids), drawn(ids, 1, x, matrix))
    assert not np.array_equal(drawn(ids, seed=1)[1:], drawn(ids, seed=2)[1:])


# Of FIXTURE_VERSION 1: a change here is a new version.
GOLDEN = [[7, 0], [7, 7], [1, 5], [5, 0]]


def test_ids_are_the_same_everywhere() -> None:
    assert drawn(Ids("ids", (4, 2), 8)).tolist() == GOLDEN


class Held:
    """A file of activations."""

    def weights(self, source: FromFile, matrix: int) -> np.ndarray:
        raise LookupError(source)

    def activations(self, source: FromFile) -> np.ndarray:
        return np.ones((9, 32), np.float32)


def test_ids_beside_activations_from_a_file_are_those_of_seed_0(tmp_path: Path) -> None:
    ids, x = Ids("ids", (9, 2), 8), Vector("x", (9, 32))
    buffers = (packed("ids", ids.shape, Role.IN, "i4"), packed("x", x.shape, Role.IN))
    images = inputs.images(case_with(FromFile("ab" * 32)), Plan(buffers, (), Build.EXACT), (x, ids), Held())
    assert np.array_equal(buffers[0].view(images["ids"]), drawn(ids, seed=0))
