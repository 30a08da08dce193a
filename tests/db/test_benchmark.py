"""Times: stored with their lines, in series over sources, and kept when lines are pruned."""

from __future__ import annotations

from dataclasses import replace

from db import benchmark, capability, evidence
from db.prune import prune
from kernels.benchmark import Benchmark, Mark, spread
from kernels.evidence import Evidence, Verdict
from kernels.limits import by_memory
from kernels.model import Device
from tests.db.making import Farm, case, line

GPU = Device("rtx-3060-1", "rtx-3060", "RTX 3060", "GPU-1")


def times(median_us: float, refused: str = "") -> Benchmark:
    mark = Mark("copy", 2_000, spread([1.0]))
    return Benchmark(
        spread([median_us - 1, median_us, median_us + 1]), 1_000, 4, 8, 3, 3_000, 64, 5, 77, "d" * 64,
        (mark,), (by_memory("copy", 1_000, 2_000.0, "measured"),), refused=refused,
    )  # fmt: skip


def timed(rows: int, median_us: float, when: int = 10, refused: str = "", **fields: object) -> Evidence:
    return line(case(rows), finished_us=when, benchmark=times(median_us, refused), **fields)


def test_a_benchmark_comes_back_with_its_cell_and_shape(farm: Farm) -> None:
    sent = timed(3, 5.0)
    farm.complete(sent, line(case(4)))
    with farm.database.reading() as s:
        (found,) = benchmark.newest(s)
        stored = evidence.get(s, sent.evidence_id)
        (cell,) = capability.cells(s)
    assert stored is not None
    assert (found.benchmark, stored.line.benchmark) == (sent.benchmark, sent.benchmark)
    assert (found.key, found.shape, found.evidence_id) == (cell.key, "3x256", sent.evidence_id)
    assert found.benchmark.share_of_least == 0.1


def test_the_newest_of_a_case_counts_and_all_make_its_series(farm: Farm) -> None:
    other = "6" * 64
    sent = [timed(3, 7.0, 30), timed(3, 5.0, 10), timed(3, 6.0, 20, source_digest=other), timed(4, 9.0, 40)]
    farm.complete(*sent, timed(3, 99.0, 25, refused="hot"))
    with farm.database.reading() as s:
        newest = benchmark.newest(s)
        series = benchmark.all_series(s)
    found = [(one.shape, one.key.source_digest, one.benchmark.spread.median_us) for one in newest]
    assert found == [("3x256", "5" * 64, 7.0), ("4x256", "5" * 64, 9.0), ("3x256", other, 6.0)]
    by_shape = {one[0].shape: [part.benchmark.spread.median_us for part in one] for one in series.values()}
    assert by_shape == {"3x256": [5.0, 6.0, 7.0], "4x256": [9.0]}


def test_only_a_valid_benchmark_on_a_board_proves_a_cell(farm: Farm) -> None:
    cuda = {"device": GPU, "backend": "cuda"}
    farm.complete(
        timed(3, 5.0),
        timed(3, 5.0, **cuda),
        timed(4, 5.0, refused="slowed down by hw_slowdown", **(cuda | {"source_digest": "6" * 64})),
    )
    with farm.database.reading() as s:
        proved = benchmark.proved(s)
    assert {(key.device, key.backend, key.source_digest) for key in proved} == {(GPU.slug, "cuda", "5" * 64)}


def test_times_of_a_case_that_was_bad_are_refused(farm: Farm) -> None:
    wrong = line(case(3), Verdict.FAIL, benchmark=times(5.0), device=GPU, backend="cuda")
    farm.complete(wrong)
    with farm.database.reading() as s:
        assert (benchmark.proved(s), benchmark.all_series(s)) == (set(), {})


def test_a_line_that_arrives_twice_is_one_benchmark_and_pruning_keeps_it(farm: Farm) -> None:
    old, new = timed(3, 5.0, 10), timed(3, 6.0, 20)
    with farm.database.writing() as s:
        evidence.import_lines(s, [old, old, new], 30)
        evidence.import_lines(s, [replace(old)], 31)
    with farm.database.writing() as s:
        gone = {removed.noun: removed.rows for removed in prune(s, 1_000)}
        kept = [
            one.benchmark.spread.median_us for series in benchmark.all_series(s).values() for one in series
        ]
    assert gone["lines of evidence"] == 1
    assert kept == [5.0, 6.0]
