"""The check build on the catalog: no kernel is found wrong, and wrong kernels are found with their lines."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from kernels import catalog, inputs, registry, source
from kernels.catalog import CellName, Selection
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Case, Role
from tests.workers.test_zoo import Caged
from tests.workers.zoo import ZOO, Wrong
from workers.backend import Unavailable
from workers.backends.host import Host
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import new_id, run_case


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """The host backend with a compile cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        found = Host()
        try:
            found.devices()
        except Unavailable as why:
            pytest.skip(str(why))
        yield found


def by_cell() -> dict[CellName, list[Case]]:
    """The quick tier's cases in the check build, those of ordinary inputs first."""
    cases: dict[CellName, list[Case]] = defaultdict(list)
    planned = catalog.expand(Selection(builds=(Build.CHECK,)))
    for one in sorted(planned, key=lambda one: one.case.family != "ordinary"):
        cases[CellName(one.case.op, one.case.kernel, one.case.kind, Build.CHECK)].append(one.case)
    return cases


CASES = by_cell()
# What is accessed depends on a kernel's text and on its kind's decode: every decode in the kernels that
# the others are made like, and every kernel with kinds of each sort. `farm submit --all-kinds --check` runs
# them all.
ALIKE = ("matvec/block", "matvec/coalesced", "mul_mm/reference")
SORTS = ("F32", "Q4_0", "Q6_K", "IQ2_S", "NVFP4", "Q4_K+Q4_K+Q6_K")
CHECKED = [cell for cell in CASES if f"{cell.op}/{cell.kernel}" in ALIKE or cell.kind in SORTS]
THOROUGHLY = [cell for cell in CASES if cell.kind in SORTS]


def found(host: Host, case: Case) -> tuple[str, ...]:
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    return host.run(plan, images, host.devices()[0], 0).findings


def test_every_kernel_and_every_kind_is_checked() -> None:
    assert {cell.kind for cell in CHECKED} == {cell.kind for cell in CASES}
    assert {(cell.op, cell.kernel) for cell in THOROUGHLY} == {(cell.op, cell.kernel) for cell in CASES}


@pytest.mark.parametrize("cell", CHECKED, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_a_kernel_of_the_catalog_is_clean(host: Host, cell: CellName) -> None:
    """The first five shapes and layouts of ordinary inputs: what is touched doesn't depend on values."""
    assert len(CASES[cell]) >= (8 if registry.kernel(f"{cell.op}/{cell.kernel}").narrow else 10)
    for case in CASES[cell][:5]:
        assert found(host, case) == (), f"{case.shape} {case.layout}"


@pytest.mark.slow
@pytest.mark.parametrize("cell", THOROUGHLY, ids=lambda cell: f"{cell.op}/{cell.kernel}/{cell.kind}")
def test_every_quick_case_is_clean(host: Host, cell: CellName) -> None:
    assert [found(host, case) for case in CASES[cell]] == [()] * len(CASES[cell])


def evidence_of(wrong: Wrong) -> list[Evidence]:
    backend, images = Caged(wrong), ImageCache(FileStore())
    kinds = (wrong.kind,) if wrong.kind else ()
    chosen = Selection(kernels=(wrong.kernel,), kinds=kinds, families=("ordinary",), builds=(Build.CHECK,))
    device = backend.devices()[0]
    return [
        run_case(Request(new_id(), one.case, "host", device), backend, images)
        for one in catalog.expand(chosen)[:3]
    ]


def line_of(text: str, piece: str) -> int:
    return 1 + text[: text.index(piece)].count("\n")


@pytest.mark.parametrize(
    ("name", "writes", "reads"),
    [
        ("missing barrier before the tree", "sums[threadIdx.x] = sum", "sums[threadIdx.x] += sums"),
        ("missing barrier in the tile loop", "x_tile[c * BN + t] = ", "&x_tile[c * BN"),
    ],
)
def test_a_missing_barrier_is_a_race_with_both_lines(host: Host, name: str, writes: str, reads: str) -> None:
    wrong = next(one for one in ZOO if one.name == name)
    text = wrong.text(wrong.kernel, wrong.kind)
    told = [one for one in evidence_of(wrong) if one.verdict is Verdict.FAIL]
    assert told
    for one in told:
        assert "races with the" in one.reason
        assert re.search(r"by another (thread of the block|lane of the warp), with .* between", one.reason)
    both = {f"{line_of(text, writes)}", f"{line_of(text, reads)}"}
    assert any(all(number in one.reason for number in both) for one in told), told[0].reason


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            Wrong("a row too many", "matvec/coalesced", "Q8_0", (("row >= rows", "row > rows"),)),
            "out of bounds",
        ),
        (
            Wrong("tokens past the end", "mul_mm/reference", "Q4_0", (("token < batch &&", ""),)),
            "out of bounds",
        ),
        (
            Wrong("one row for all", "rmsnorm/block", "", (("out + (long long)blockIdx.x * n", "out"),)),
            "another block",
        ),
        (
            Wrong(
                "17 weights",
                "matvec/block",
                "Q5_0",
                (("i < 16; ++i)\n        w", "i <= 16; ++i)\n        w"),),
            ),
            "outside",
        ),
        (
            Wrong("an odd place", "matvec/coalesced", "Q4_K", (("QS + 4 * lane", "QS + 4 * lane - 1"),)),
            "misaligned",
        ),
        (Wrong("two lanes write", "matvec/coalesced", "Q6_K", (("lane == 0", "lane <= 1"),)), "another lane"),
    ],
    ids=lambda one: one.name if isinstance(one, Wrong) else None,
)
def test_a_wrong_kernel_is_found_by_what_it_touches(host: Host, wrong: Wrong, says: str) -> None:
    told = [one.reason for one in evidence_of(wrong)]
    assert any(says in reason for reason in told), told


def test_a_launch_that_is_found_wrong_is_the_last(host: Host) -> None:
    def text(kernel: str, kind: str) -> str:
        return source.text(kernel, kind).replace("out[row] =", "out[row - 1] =")

    case = next(one for one in CASES[CellName("ffn", "block", "Q4_0", Build.CHECK)])
    plan = registry.kernel("ffn/block").plan(case)
    images = inputs.images(case, plan, registry.op("ffn").operands(case))
    run = Host(text).run(plan, images, host.devices()[0], 0)
    assert (len(run.launches), len(plan.launches)) == (1, 4)
    (finding,) = run.findings
    assert "write of 4 bytes out of bounds, 4 bytes before the start of buffer" in finding
    assert set(run.images) == {buffer.name for buffer in plan.buffers}
    assert all(run.images[b.name] is images[b.name] for b in plan.buffers if b.role is Role.IN)
