"""The host backend: what a wrong text becomes, what it records, and that nothing is compiled twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import inputs, registry, source
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Case, Layout, Seeded, Shape
from tests.workers.cases import matvec_case, request_for
from workers.backend import Unavailable
from workers.backends.host import Host, _fill
from workers.files import FileStore
from workers.host import compiler
from workers.host.memory import ALLOCATED, PAGE_BYTES
from workers.image_cache import ImageCache
from workers.machine import cpu_device
from workers.runner import run_case
from workers.timed import Rounds

STORE = "out[row] = sums[0];"


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def needs_a_compiler() -> None:
    try:
        compiler.find()
    except Unavailable as why:
        pytest.skip(str(why))


def ran(host: Host, case: Case | None = None) -> Evidence:
    return run_case(request_for(case or matvec_case(), "host"), host, ImageCache(FileStore()))


def changed(old: str, new: str) -> Callable[[str, str], str]:
    """The right text with one piece of it replaced."""

    def text(kernel_id: str, kind: str) -> str:
        right = source.text(kernel_id, kind)
        assert old in right
        return right.replace(old, new)

    return text


@pytest.mark.parametrize(
    ("new", "verdict", "reason"),
    [
        ("out[row] = sums[0] + nope;", Verdict.REJECT, "nope"),
        ("out[row] = 2.0f * sums[0];", Verdict.FAIL, "3 of 3 outside"),
        ("if (row != 1) out[row] = sums[0];", Verdict.FAIL, "1 of 3 outputs never written"),
        ("out[row] = sums[0]; out[-1] = 0.0f;", Verdict.FAIL, "bytes written before it"),
        ("out[row + 4096] = sums[0];", Verdict.CRASH, "past the end of buffer 'out'"),
        ("((float *)x)[0] = sums[0];", Verdict.CRASH, "write to read-only buffer 'x'"),
        ("out[row] = *(float *)0;", Verdict.CRASH, "a null pointer"),
    ],
)
def test_verdict_says_what_a_wrong_store_did(new: str, verdict: Verdict, reason: str) -> None:
    evidence = ran(Host(changed(STORE, new)))
    assert evidence.verdict is verdict, evidence.reason
    assert reason in evidence.reason
    assert "-ffp-contract=off" in evidence.flags
    assert evidence.compiler == compiler.find().version


def test_missing_barrier_shows_when_the_order_is_turned() -> None:
    text = changed("__syncthreads();", ";")
    assert ran(Host(text), matvec_case(cols=32 * 300)).verdict is Verdict.FAIL


def test_record_says_what_was_launched() -> None:
    evidence = ran(Host(), matvec_case(rows=9))
    (record,) = evidence.launches
    assert (record.kernel, record.entry) == ("matvec/block", "matvec_block_q4_0")
    assert (record.grid, record.block) == ((9, 1, 1), (256, 1, 1))
    assert (record.static_shared_bytes, record.dynamic_shared_bytes) == (0, 1024)
    assert record.elapsed_us > 0


@pytest.mark.parametrize(
    ("build", "flag"),
    [
        (Build.EXACT, "-ffp-contract=off"),
        (Build.DEFAULT, "-ffp-contract=fast"),
        (Build.CHECK, "-ffp-contract=off"),
        (Build.CHECK, "-DFARM_CHECK"),
    ],
)
def test_flags_of_the_build_are_in_the_evidence(build: Build, flag: str) -> None:
    evidence = ran(Host(), matvec_case(build=build))
    assert flag in evidence.flags.split()
    assert evidence.compiler == compiler.find().version


@pytest.mark.parametrize(
    ("op", "kernel", "substitutes"),
    [("silu_mul", "flat", ("expf",)), ("rmsnorm", "block", ("rsqrtf",))],
)
def test_substitutes_are_named_when_the_text_uses_them(
    op: str, kernel: str, substitutes: tuple[str, ...]
) -> None:
    axes = {axis.name: axis.default or 64 for axis in registry.op(op).axes}
    drawn = Seeded("ordinary", 1, 1)
    case = Case(op, kernel, (), Shape.of(**axes), drawn, drawn, Build.EXACT, scalars=registry.op(op).scalars)
    evidence = ran(Host(), case)
    assert (evidence.verdict, evidence.substitutes) == (Verdict.PASS, substitutes)
    assert ran(Host()).substitutes == ()


def test_text_is_compiled_once_for_a_process_and_once_for_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    host = Host()
    first, second, third = ran(host), ran(host), ran(Host())
    compile_us = [dict(evidence.timings_us)["compile"] for evidence in (first, second, third)]
    assert compile_us[0] > 10_000
    assert max(compile_us[1:]) < compile_us[0] / 3
    assert len(list((tmp_path / "cache").glob("*.so"))) == 1
    assert first.launches[0].symbol_digest == third.launches[0].symbol_digest


@pytest.mark.parametrize(
    ("build", "turn", "offset", "as_allocated"),
    [
        (Build.EXACT, 0, 1, False),
        (Build.EXACT, 1, 1, True),
        (Build.EXACT, 1, 0, False),
        (Build.CHECK, 0, 1, True),
        (Build.CHECK, 0, 0, False),
    ],
)
def test_a_base_with_an_offset_is_flush_first_and_then_as_a_gpu_allocates_it(
    build: Build, turn: int, offset: int, as_allocated: bool
) -> None:
    case = replace(matvec_case(), build=build, layout=Layout(weights_offset=offset))
    plan = registry.kernel("matvec/block").plan(case)
    images = {buffer.name: np.zeros(buffer.nbytes, np.uint8) for buffer in plan.buffers}
    weights = _fill(plan, images, turn).buffers["weights"]
    assert (weights.address % ALLOCATED == 0) is as_allocated
    behind = -(weights.address + weights.nbytes) % PAGE_BYTES  # bytes to the next page
    assert (behind < plan.buffer("weights").align) is not as_allocated


def test_every_pass_that_is_timed_finds_poison_in_its_output() -> None:
    """So that none can tell whether it is the one that is judged."""
    wild = Host(changed(STORE, "if (out[row] == out[row]) *(float *)0 = 1.0f; out[row] = sums[0];"))
    case = matvec_case(build=Build.DEFAULT)
    plan = registry.kernel("matvec/block").plan(case)
    images = inputs.images(case, plan, registry.op("matvec").operands(case))
    timing = wild.time(plan, [images, images], cpu_device(), Rounds(2, 3, 0, chosen=4), 1)
    assert len(timing.pass_us) == 2
