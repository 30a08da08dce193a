"""The runner: what becomes which verdict, and what the evidence carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import codec, registry
from kernels.errors import FarmError
from kernels.evidence import Evidence, LaunchRecord, Rule, Verdict
from kernels.inputs import Unfit
from kernels.model import Build, Case, Device, FromFile, Plan, Shape
from tests.workers.cases import matvec_case, request_for
from workers.backend import CannotRun, KernelFault, Rejected, Run, Unavailable, poisoned
from workers.backends.twin import BACKEND as TWIN
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.need import too_large
from workers.request import Request
from workers.runner import run_case

Change = Callable[[Run, int], Run]


class Fake:
    """The twin, with something done to each of its runs."""

    name = "fake"

    def __init__(self, change: Change, orders: int = 1) -> None:
        self.change = change
        self.orders = orders
        self.turns: list[int] = []

    def devices(self) -> tuple[Device, ...]:
        return TWIN.devices()

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        self.turns.append(turn)
        return self.change(TWIN.run(plan, images, device, turn), turn)


def raising(error: Exception) -> Change:
    def change(run: Run, turn: int) -> Run:
        raise error

    return change


def with_out(run: Run, change: Callable[[np.ndarray], None]) -> Run:
    out = run.images["out"].copy()
    change(out.view(np.float32))
    return replace(run, images={**run.images, "out": out})


def ran(change: Change, request: Request | None = None, orders: int = 1) -> Evidence:
    return run_case(request or request_for(matvec_case()), Fake(change, orders), ImageCache(FileStore()))


def untouched(run: Run, turn: int) -> Run:
    return run


def test_evidence_has_all_fields_when_a_case_passes() -> None:
    request = request_for(matvec_case(rows=5), attempt_id="a-1")
    evidence = ran(untouched, request)
    assert (evidence.verdict, evidence.reason) == (Verdict.PASS, "")
    assert (evidence.evidence_id, evidence.attempt_id) == (request.evidence_id, "a-1")
    assert evidence.case_id == request.case.id
    assert len(evidence.source_digest) == len(evidence.inputs_digest) == len(evidence.output_digest) == 64
    assert evidence.comparison is not None
    assert evidence.comparison.positions == 5
    assert set(dict(evidence.timings_us)) == {"inputs", "compile", "launch", "oracle", "twin", "compare"}
    assert codec.decode(Evidence, codec.encode(evidence)) == evidence


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (CannotRun("needs 9 GiB, the board has 8"), Verdict.SKIP),
        (Unfit("file abc: activation buffer too small: got 64 float32, want 128"), Verdict.SKIP),
        (Rejected("k.cu:3: error: expected ';'"), Verdict.REJECT),
        (KernelFault("wild access: 4 bytes past the end of buffer 'x'"), Verdict.CRASH),
        (Unavailable("no compiler; apt-get install g++"), Verdict.ERROR),
        (FarmError("disk full"), Verdict.ERROR),
    ],
)
def test_verdict_is_that_of_the_error_when_a_run_raises(error: Exception, verdict: Verdict) -> None:
    evidence = ran(raising(error))
    assert (evidence.verdict, evidence.reason) == (verdict, str(error))
    assert evidence.comparison is None


def test_verdict_is_error_with_its_type_when_anything_else_is_raised() -> None:
    evidence = ran(raising(ZeroDivisionError("division\nby zero")))
    assert (evidence.verdict, evidence.reason) == (Verdict.ERROR, "ZeroDivisionError: division by zero")


def test_verdict_is_fail_when_an_element_is_wrong() -> None:
    def spoil(run: Run, turn: int) -> Run:
        return with_out(run, lambda out: np.copyto(out, out * 1.01))

    evidence = ran(spoil)
    assert evidence.verdict is Verdict.FAIL
    assert evidence.comparison is not None
    assert (evidence.comparison.bad, evidence.comparison.positions) == (3, 3)


def test_verdict_is_fail_when_an_output_is_never_written() -> None:
    def leave(run: Run, turn: int) -> Run:
        return with_out(run, lambda out: np.copyto(out[2:], poisoned(4, turn).view(np.float32)))

    evidence = ran(leave, request_for(matvec_case(), repeats=3))
    assert evidence.verdict is Verdict.FAIL
    assert "1 of 3 outputs never written" in evidence.reason


def test_verdict_is_fail_when_turns_differ_inside_the_bound() -> None:
    def wobble(run: Run, turn: int) -> Run:
        return with_out(
            run, lambda out: np.copyto(out, np.nextafter(out, np.float32(9))) if turn == 2 else None
        )

    evidence = ran(wobble, request_for(matvec_case(), repeats=3))
    assert evidence.verdict is Verdict.FAIL
    assert evidence.reason.startswith("nondeterministic")
    assert ran(wobble, request_for(matvec_case(), repeats=2)).verdict is Verdict.PASS


def test_verdict_is_fail_when_a_guard_band_broke_though_numbers_are_right() -> None:
    phases: list[str] = []
    fake = Fake(lambda run, turn: replace(run, guards=("buffer 'out': 4 bytes written behind it",)))
    request = request_for(matvec_case())
    evidence = run_case(request, fake, ImageCache(FileStore()), announce=phases.append)
    assert (evidence.verdict, evidence.reason) == (Verdict.FAIL, "buffer 'out': 4 bytes written behind it")
    assert phases == ["inputs", "launch", "compare", "spoiled"]


def test_verdict_is_fail_with_the_first_finding_though_numbers_are_right() -> None:
    fake = Fake(lambda run, turn: replace(run, findings=("k.cu:7: a race", "k.cu:9: another"), guards=("x",)))
    evidence = run_case(request_for(matvec_case()), fake, ImageCache(FileStore()))
    assert (evidence.verdict, evidence.reason) == (Verdict.FAIL, "k.cu:7: a race (and 1 more)")
    only = ran(lambda run, turn: replace(run, findings=("k.cu:7: a race",)))
    assert only.reason == "k.cu:7: a race"


def test_verdict_is_fail_when_an_input_was_written() -> None:
    def scribble(run: Run, turn: int) -> Run:
        x = run.images["x"].copy()
        x[0] ^= 1
        return replace(run, images={**run.images, "x": x})

    assert (ran(scribble).verdict, ran(scribble).reason) == (Verdict.FAIL, "wrote to its input x in turn 0")


@pytest.mark.parametrize(
    ("build", "repeats", "orders", "turns"),
    [
        (Build.EXACT, 1, 2, [0, 1]),
        (Build.EXACT, 3, 2, [0, 1, 2]),
        (Build.DEFAULT, 1, 2, [0]),
        (Build.EXACT, 1, 1, [0]),
    ],
)
def test_exact_build_takes_every_order_when_a_backend_has_several(
    build: Build, repeats: int, orders: int, turns: list[int]
) -> None:
    fake = Fake(untouched, orders)
    request = request_for(matvec_case(build=build), repeats=repeats)
    evidence = run_case(request, fake, ImageCache(FileStore()))
    assert (fake.turns, evidence.repeats) == (turns, len(turns))


def test_verdict_is_skip_with_got_and_want_when_the_op_refuses() -> None:
    request = request_for(matvec_case(shape=Shape.of(rows=3, cols=48)))
    evidence = ran(raising(AssertionError("never run")), request)
    assert (evidence.verdict, evidence.reason) == (
        Verdict.SKIP,
        "cols 48 is not a multiple of the K-tile 32; pad to 64",
    )


def test_verdict_is_skip_when_the_file_is_not_here() -> None:
    request = request_for(matvec_case(weights=FromFile("ab" * 32)))
    evidence = ran(untouched, request)
    assert (evidence.verdict, evidence.reason) == (Verdict.SKIP, "file not here: abababababab")


@pytest.mark.parametrize("field", ["source_digest", "inputs_digest"])
def test_verdict_is_error_when_a_digest_differs_from_the_one_asked_for(field: str) -> None:
    request = request_for(matvec_case())
    good = ran(untouched, request)
    agreed = replace(request, **{field: getattr(good, field)})
    assert ran(untouched, agreed).verdict is Verdict.PASS
    evidence = ran(untouched, replace(request, **{field: "f" * 64}))
    assert evidence.verdict is Verdict.ERROR
    assert "ffffffffffff asked for" in evidence.reason


def test_verdict_is_error_when_the_kernel_is_unknown() -> None:
    evidence = ran(untouched, request_for(matvec_case(kernel="nope")))
    assert evidence.verdict is Verdict.ERROR
    assert "no kernel named 'matvec/nope'" in evidence.reason


def test_rule_verdict_stands_beside_the_bound_when_another_rule_is_chosen() -> None:
    def nudge(run: Run, turn: int) -> Run:
        return with_out(run, lambda out: np.copyto(out, np.nextafter(out, np.float32(9))))

    assert ran(nudge).rule_verdict is None
    evidence = ran(nudge, request_for(matvec_case(), rule=Rule.EXACT))
    assert (evidence.verdict, evidence.rule_verdict) == (Verdict.PASS, Verdict.FAIL)
    evidence = ran(nudge, request_for(matvec_case(), rule=Rule.RELATIVE))
    assert (evidence.verdict, evidence.rule_verdict) == (Verdict.PASS, Verdict.PASS)


def test_output_is_written_as_npy_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "y.npy"
    ran(untouched, request_for(matvec_case(rows=7), output=str(path)))
    assert np.load(path).shape == (7,)


def test_several_outputs_are_written_one_after_another(tmp_path: Path) -> None:
    path, case = tmp_path / "y.npy", matvec_case()
    shape = Shape.of(q_rows=5, kv_rows=2, cols=64)
    case = replace(case, op="multi_matvec", kinds=("Q4_0", "Q8_0", "Q4_0"), shape=shape)
    found: dict[str, np.ndarray] = {}

    def keep(run: Run, turn: int) -> Run:
        found.update(run.images)
        return run

    assert ran(keep, request_for(case, output=str(path))).verdict is Verdict.PASS
    whole = np.concatenate([found[name].view(np.float32) for name in ("q_out", "k_out", "v_out")])
    assert np.load(path).tolist() == whole.tolist()
    assert whole.shape == (9,)


def test_images_are_made_once_when_cases_read_the_same_bytes() -> None:
    cache = ImageCache(FileStore())
    exact, default = matvec_case(), matvec_case(build=Build.DEFAULT)
    plan = plan_of(exact)
    first = cache.images(exact, plan)
    assert cache.images(default, plan) is first
    assert not first.by_name["weights"].flags.writeable


def plan_of(case: Case) -> Plan:
    return registry.kernel("matvec/block").plan(case)


@pytest.mark.parametrize(("free", "reason"), [(1 << 40, ""), (1000, "GiB of memory, 0.0 GiB are free")])
def test_a_case_is_too_large_when_its_oracle_does_not_fit(free: int, reason: str) -> None:
    case = matvec_case()
    plan = registry.kernel("matvec/block").plan(case)
    found = too_large(case, plan, free)
    assert (reason in found) if reason else (found == "")


def test_of_experts_one_at_a_time_is_decoded() -> None:
    def need(experts: int) -> str:
        shape = Shape.of(rows=64, cols=4096, experts=experts, top_k=1, tokens=1, x_rows=1)
        case = replace(matvec_case(), op="mul_mat_id", kinds=("Q8_0",), shape=shape)
        return too_large(case, registry.kernel("mul_mat_id/block").plan(case), 12 << 20)

    assert need(1) == need(4) == ""
    assert "needs about" in need(64)  # their blocks alone


def test_verdict_is_skip_when_the_memory_of_this_machine_is_too_small() -> None:
    case = replace(matvec_case(), shape=Shape.of(rows=2**31 - 1, cols=2**20))
    evidence = ran(lambda run, turn: run, request_for(case))
    assert evidence.verdict is Verdict.SKIP
    assert "take a smaller shape" in evidence.reason


def test_verdict_is_error_when_another_launch_gave_the_right_numbers() -> None:
    def wider(run: Run, turn: int) -> Run:
        record = LaunchRecord("matvec/block", "matvec_block_q4_0", (9, 9, 9), (256, 1, 1), 0, 1024, "", 1.0)
        return replace(run, launches=(record,))

    evidence = ran(wider)
    assert evidence.verdict is Verdict.ERROR
    assert "launch 0 was ('matvec_block_q4_0', (9, 9, 9)" in evidence.reason


def test_verdict_is_error_when_one_launch_too_many_happened() -> None:
    record = LaunchRecord("matvec/block", "matvec_block_q4_0", (5, 1, 1), (256, 1, 1), 0, 1024, "", 1.0)
    evidence = ran(lambda run, turn: replace(run, launches=(record, record)))
    assert (evidence.verdict, evidence.reason) == (Verdict.ERROR, "2 launches happened, 1 were planned")


def test_a_kernel_without_declared_flags_has_no_build_declared() -> None:
    evidence = run_case(request_for(matvec_case(build=Build.DECLARED)), TWIN, ImageCache(FileStore()))
    assert (evidence.verdict, evidence.reason) == (
        Verdict.SKIP, "matvec/block declares no flags of its own: it has no build 'declared'"
    )  # fmt: skip


def test_a_reason_has_no_character_that_a_database_refuses() -> None:
    found = ran(raising(KernelFault("at a\0b in \udcff.cu\nline 2")))
    assert found.reason == "at a␀b in ?.cu line 2"
