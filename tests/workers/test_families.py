"""What each family sees of a wrong kernel that one of them is there for, at the same shape."""

from __future__ import annotations

import pytest

from kernels import catalog, registry
from kernels.evidence import Verdict
from kernels.families import FAMILIES
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Device, Seeded
from kernels.op import Workload
from tests.workers.test_zoo import Caged, device, run_all
from tests.workers.zoo import CLAMPED, CUT, FLUSHED, Wrong
from workers.backends.host import Host

__all__ = ["device"]  # the fixture


def case_in(family: str, wrong: Wrong, shape: str) -> Case:
    kernel, kinds = registry.kernel(wrong.kernel), (wrong.kind,) if wrong.kind else ()
    workload = Workload(catalog.parse_shape(shape, registry.op(kernel.op)))
    return catalog.case_of(kernel, kinds, workload, Seeded(family, 0, FIXTURE_VERSION), Build.EXACT)


def seen(wrong: Wrong, shape: str, device: Device) -> dict[str, int]:
    """How many outputs each family finds wrong, all of which the right kernel passes; none isn't listed."""
    cases = {family: case_in(family, wrong, shape) for family in FAMILIES}
    right, caged = (run_all(backend, tuple(cases.values()), device) for backend in (Host(), Caged(wrong)))
    assert {line.verdict for line in right} == {Verdict.PASS}
    bad = {family: line.comparison.bad for family, line in zip(cases, caged, strict=True) if line.comparison}
    assert set(bad) == set(FAMILIES)
    return {family: count for family, count in bad.items() if count}


@pytest.mark.parametrize(
    ("wrong", "shape", "bad"),
    [
        (CLAMPED, "64x64", {"large": 64}),
        (CLAMPED, "64x160", {"large": 64, "specials": 16}),  # one row in four has a huge block
        (FLUSHED, "64x32", {"specials": 4, "extreme": 51}),
        (FLUSHED, "64x544", {"specials": 2, "extreme": 51}),
        (CUT, "1000", {"heavy_tailed": 2}),
    ],
    ids=lambda value: value.name if isinstance(value, Wrong) else None,
)
def test_a_new_family_sees_more_than_every_other(
    wrong: Wrong, shape: str, bad: dict[str, int], device: Device
) -> None:
    assert seen(wrong, shape, device) == bad


ROW_IN_16_BITS = Wrong(
    "row offset in 16 bits", "matvec/block", "Q4_0", (("row * row_bytes", "(unsigned short)row * row_bytes"),)
)


def test_last_row_sees_a_row_that_wraps_around(device: Device) -> None:
    """As other families do, but its truth and twin are those of two rows."""
    cases = tuple(case_in("last_row", ROW_IN_16_BITS, shape) for shape in ("65536x32", "65537x32"))
    lines = run_all(Caged(ROW_IN_16_BITS), cases, device)
    assert [line.verdict for line in lines] == [Verdict.PASS, Verdict.FAIL]
    found = lines[1].comparison
    assert found is not None
    assert (found.positions, found.bad) == (65537, 1)
    assert found.worst is not None
    assert found.worst.index == (65536,)
