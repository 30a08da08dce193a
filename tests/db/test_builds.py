"""What compilers made: notes, digests, one job per source, and which verdicts stay true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db import campaign, capability, evidence
from db.cell import Capability, CellKey, fold, holds_for
from db.job import PlannedCase, Target, add_targets, jobs_of, representatives
from db.session import Database
from kernels.built import BuildRecord
from kernels.evidence import Evidence, Rule, Verdict
from kernels.model import Build, Case
from tests.db.making import HOST, Farm, case, line
from tests.db.test_cell import finding, folded

ARCH = Target("nvrtc", "sm_86", per_source=True)
MADE = BuildRecord(
    "matvec/block", "Q4_K", "k", "sm_86", 256, 40, 0, 0, 0, 0, 1024, 6, 1.0, "threads", "c" * 64, 9, ""
)


def built(of: Case, **changes: object) -> Evidence:
    """The line of a compile-only backend."""
    record = replace(MADE, **changes)
    return line(of, backend="nvrtc", comparison=None, builds=(record,), frame_digest="f" * 64, flags="-x")


def planned(of: Case, source: str, inputs: str = "i") -> PlannedCase:
    return PlannedCase(of, 1, source, inputs)


def jobs(database: Database, planned: list[PlannedCase], *targets: Target) -> list[tuple[str, Case]]:
    with database.writing() as s:
        made = campaign.create(s, selection="{}", rule=Rule.BOUND, planned=planned, targets=targets, now_us=1)
    with database.reading() as s:
        return [(row.backend, row.case) for row in jobs_of(s, made)]


def test_one_case_of_every_source_is_a_job_where_nothing_runs(database: Database) -> None:
    cases = [case(rows) for rows in (1, 2, 3, 4)]
    work = [planned(cases[0], "a"), planned(cases[1], "a"), planned(cases[2], "b"), planned(cases[3], "b")]
    found = jobs(database, work, HOST, ARCH)
    assert [of for backend, of in found if backend == "nvrtc"] == [cases[0], cases[2]]
    assert [of for backend, of in found if backend == "host"] == cases


def test_a_refused_case_stands_for_others_only_where_there_is_no_other(database: Database) -> None:
    cases = [case(rows) for rows in (1, 2, 3)]
    work = [planned(cases[0], "a", ""), planned(cases[1], "a"), planned(cases[2], "b", "")]
    assert [of for _, of in jobs(database, work, ARCH)] == [cases[1], cases[2]]


def test_an_arch_that_joins_later_gets_the_same_cases(database: Database) -> None:
    cases = [case(rows) for rows in (1, 2)]
    work = [planned(cases[0], "a"), planned(cases[1], "a")]
    with database.writing() as s:
        made = campaign.create(s, selection="{}", rule=Rule.BOUND, planned=work, targets=[ARCH], now_us=1)
        assert add_targets(s, made, [replace(ARCH, device_class="sm_90")], 2) == 1
        assert add_targets(s, made, [ARCH], 2) == 0


def test_representatives_of_nothing_are_none() -> None:
    assert representatives([]) == set()


def stored(farm: Farm, line: Evidence) -> Capability:
    with farm.database.writing() as s:
        evidence.import_lines(s, [line], 5)
    with farm.database.reading() as s:
        (cell,) = capability.cells(s, backend="nvrtc")
        return cell


def test_a_build_reaches_its_rung_and_compares_nothing(farm: Farm) -> None:
    line = built(case())
    cell = stored(farm, line)
    assert (cell.verdict, cell.rungs, cell.flags, cell.positions) == (Verdict.PASS, ("builds",), (), 0)
    assert cell.build_digest == line.build_digest != ""


def test_one_code_at_two_shapes_is_one_code(farm: Farm) -> None:
    """A kernel that takes more shared memory for longer rows is built once."""
    first, second = built(case(1)), built(case(2), threads=64, dynamic_shared_bytes=36864)
    assert first.build_digest == second.build_digest
    stored(farm, first)
    assert stored(farm, second).build_digest == first.build_digest
    other = built(case(1), cubin_digest="e" * 64)
    assert other.build_digest not in ("", first.build_digest)


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"spill_store_bytes": 4}, ("spills",)),
        ({"spill_load_bytes": 4}, ("spills",)),
        ({"blocks_per_sm": 1}, ("one-block",)),
        ({"blocks_per_sm": 1, "spill_load_bytes": 4}, ("one-block", "spills")),
        ({"blocks_per_sm": 0}, ()),  # not known
        ({"blocks_per_sm": 3, "least_blocks_per_sm": 1}, ("one-block",)),
        ({"blocks_per_sm": 3, "least_blocks_per_sm": 2}, ()),
    ],
)
def test_what_its_author_should_know_is_marked(
    farm: Farm, changes: dict[str, int], flags: tuple[str, ...]
) -> None:
    assert stored(farm, built(case(), **changes)).flags == flags


def test_a_refused_build_has_no_rung_and_no_digest(farm: Farm) -> None:
    cell = stored(farm, replace(built(case()), verdict=Verdict.REJECT, reason="error", builds=()))
    assert (cell.verdict, cell.rungs, cell.build_digest) == (Verdict.REJECT, (), "")


def test_cells_keep_notes_and_digest_when_rebuilt(farm: Farm) -> None:
    cell = stored(farm, built(case(), spill_load_bytes=4))
    with farm.database.writing() as s:
        capability.rebuild(s)
        assert capability.cells(s, backend="nvrtc") == (cell,)


def test_a_digest_counts_only_where_all_cases_share_it() -> None:
    same = [finding(Verdict.PASS, name, build_digest="d") for name in "ab"]
    assert folded(*same).build_digest == "d"
    assert folded(*same, finding(Verdict.PASS, "c", build_digest="e")).build_digest == ""
    assert folded(*same, finding(Verdict.PASS, "c")).build_digest == ""
    assert folded(*same, finding(Verdict.SKIP, "c")).build_digest == "d"


def gpu(verdict: Verdict = Verdict.PASS, digest: str = "d", **fields: str) -> Capability:
    """A cell on a board, of an older source."""
    return _cell("cuda", "rtx-3060-0", "old", verdict, digest, fields)


def compiled(verdict: Verdict = Verdict.PASS, digest: str = "d", **fields: str) -> Capability:
    """The same row of today's source, built for the board's sm."""
    return _cell("nvrtc", "sm_86", "new", verdict, digest, fields)


def _cell(
    backend: str, device: str, source: str, verdict: Verdict, digest: str, fields: dict[str, str]
) -> Capability:
    key = CellKey(device, backend, "matvec", "block", "Q4_K", "exact", source)._replace(**fields)
    made = fold([finding(verdict, build_digest=digest)._replace(key=key)])
    assert made is not None
    return made


def test_a_verdict_holds_for_a_new_source_whose_code_is_the_same() -> None:
    assert holds_for(gpu(), compiled())
    assert holds_for(gpu(Verdict.FAIL), compiled())


@pytest.mark.parametrize(
    ("ran", "built"),
    [
        (gpu(digest="other"), compiled()),  # another cubin, other flags, another plan or another twin
        (gpu(digest=""), compiled(digest="")),  # nobody knows
        (gpu(), compiled(Verdict.REJECT)),
        (gpu(), compiled(Verdict.SKIP)),
        (gpu(Verdict.ERROR), compiled()),
        (gpu(Verdict.LOST), compiled()),
        (gpu(), compiled(build=Build.DEFAULT.value)),
        (gpu(), compiled(kind="Q6_K")),
        (gpu(), None),
    ],
)
def test_a_verdict_does_not_hold_otherwise(ran: Capability, built: Capability | None) -> None:
    assert not holds_for(ran, built)
