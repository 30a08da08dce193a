"""`farm bench` and `farm submit --bench`: times from the host, shown for what they are, and kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from db import evidence
from db.session import open_database
from farm import times
from farm.campaign import Order, deadline_s, plan, submit
from farm.cli.bench import SHAPES, _selection
from farm.coordinator import Coordinator
from kernels import catalog, registry
from kernels.model import Device
from tests.db.making import case, line
from tests.db.test_benchmark import times as benchmark_of
from tests.farm.conftest import DEVICE, SMALL, Clock, FakeAgent
from tests.workers.fakes.timed import FakeTimed
from workers.agent import request
from workers.boards import Board
from workers.effort import CACHES, Bench
from workers.machine import cpu_device

GPU = Device("rtx-3060-1", "rtx-3060", "RTX 3060", "GPU-1", fingerprint=(("sm", "sm_86"),))


def test_times_of_the_host_are_printed_kept_and_prove_nothing_of_a_gpu(farm) -> None:
    words = ("silu_mul/flat", "--shape", "257", "--backend", "host", "--local")
    text = farm("bench", *words)
    assert text.exit_code == 0
    assert "silu_mul/flat F32 257 default on cpu-" in text.stdout
    assert f"  {times.NO_GPU}\n" in text.stdout
    document = json.loads(farm("bench", *words, "--json").stdout)
    (found,) = document["benchmarks"]
    assert (document["verdicts"], found["valid"], found["shape"], found["least"]) == (
        {"PASS": 1}, True, "257", found["least"]
    )  # fmt: skip
    assert found["nbytes"] == 3 * 4 * 257
    assert [mark["name"] for mark in found["marks"]] == ["copy", "read"]
    exported = json.loads(farm("export", "--format", "json").stdout)
    assert [one["evidence_id"] for one in exported["benchmarks"]] == [found["evidence_id"]]
    assert not [cell for cell in exported["cells"] if "timed" in cell["rungs"]]
    shown = farm("show", "cpu-*/host/silu_mul/flat/F32/default".replace("cpu-*", found["device_class"]))
    assert times.NO_GPU in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("matvec/nope",), "no kernel named 'matvec/nope'"),
        (
            ("mul_mat_id/block",),
            "no shape of mul_mat_id is timed unless it is named; give --shape mul_mat_id:",
        ),
        ((), "Missing argument 'KERNEL...'"),
    ],
)
def test_wrong_words_are_one_line_and_2(farm, words: tuple[str, ...], message: str) -> None:
    result = farm("bench", *words)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_backend_that_measures_nothing_says_so_and_the_case_counts(farm) -> None:
    result = farm("bench", "silu_mul/flat", "--shape", "257", "--backend", "twin", "--local", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["verdicts"], document["benchmarks"]) == (0, {"PASS": 1}, [])


@pytest.mark.parametrize("bench", [False, True])
def test_a_lease_says_whether_its_campaign_is_timed(database, clock: Clock, bench: bool) -> None:
    order = Order(SMALL, ("twin",), bench=bench)
    submit(database, order, plan(order), [Board(DEVICE, ("twin",))], 1)
    agent = FakeAgent(Coordinator(database, catalog.digest(), clock=clock))
    assert agent.hello().accepted
    leases = agent.ask().leases
    assert {lease.bench for lease in leases} == {request(lease, DEVICE).bench for lease in leases} == {bench}
    assert leases[0].deadline_s == deadline_s(leases[0].case, bench)
    assert (leases[0].deadline_s > deadline_s(leases[0].case)) is bench
    agent.coordinator.close()


def test_a_board_wears_the_rung_and_its_shares_are_shown(farm) -> None:
    sent = line(case(3), device=GPU, backend="cuda", benchmark=benchmark_of(5.0))
    hot = line(
        case(4), device=GPU, backend="cuda", source_digest="6" * 64, benchmark=benchmark_of(6.0, "hot")
    )
    database = open_database("sqlite:///.farm/farm.db")
    with database.writing() as s:
        evidence.import_lines(s, [sent, hot], 1)
    database.close()
    exported = json.loads(farm("export", "--format", "json").stdout)
    ran = [cell for cell in exported["cells"] if cell["verdict"] and cell["backend"] == "cuda"]
    assert [("timed" in cell["rungs"], cell["source_digest"][:1]) for cell in ran] in (
        [(True, "5")], [(False, "6")], [(True, "5"), (False, "6")]
    )  # fmt: skip
    assert sorted(one["valid"] for one in exported["benchmarks"]) == [False, True]
    text = list(times.words(replace(benchmark_of(5.0), notes=("power cap",)), "cuda"))
    assert text == [
        "5.0 µs ± 1.0 (p10 4.2, p90 5.8, 3 x 4 passes), 0.2 GB/s",
        "10.0% of copy (2.0 GB/s)",
        "10.0% of the least limit, copy (limits: copy 0.5 µs)",
        "note: power cap",
    ]


@pytest.mark.parametrize("op", SHAPES)
def test_shapes_that_are_timed_unless_named_outgrow_the_largest_cache(op: str) -> None:
    """Of 128 MB, as a B200's: copies that fit four of those prove nothing."""
    board = replace(cpu_device(), fingerprint=(("l2_bytes", str(128 << 20)),))
    bench = Bench(FakeTimed(), board)
    name = next(kernel.id for kernel in registry.built_in().values() if kernel.op == op)
    planned = catalog.expand(_selection((name,), (), (), ()))
    assert planned
    for item in planned:
        plan = registry.kernel(name).plan(item.case)
        nbytes = sum(buffer.nbytes for buffer in plan.buffers if buffer.given)
        assert bench.copies_of(nbytes) * nbytes >= CACHES * bench.cache_bytes, item.case.shape
