"""The runner where nothing runs: a backend that compiles only, and what its evidence says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels import source
from kernels.built import BuildRecord
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Device, Plan
from tests.workers.cases import matvec_case, request_for
from workers.backend import Rejected, Run
from workers.backends.twin import BACKEND as TWIN
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import run_case

MADE = BuildRecord(
    "matvec/block", "Q4_0", "k", "sm_86", 256, 40, 0, 0, 0, 0, 1024, 6, 1.0, "threads", "c" * 64, 9, "log"
)


class Compiler:
    """A backend that compiles and executes nothing."""

    name = "compiler"
    orders = 0

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.given: list[Mapping[str, np.ndarray]] = []

    def devices(self) -> tuple[Device, ...]:
        return TWIN.devices()

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        self.given.append(images)
        if self.refusal:
            raise Rejected(self.refusal)
        return Run({}, (), (), "cc 1", "-x", compile_us=5.0, builds=(MADE,))


def built(backend: Compiler, request: Request | None = None) -> Evidence:
    return run_case(request or request_for(matvec_case()), backend, ImageCache(FileStore()))


def test_where_nothing_runs_pass_says_built_and_compares_nothing() -> None:
    compiler = Compiler()
    evidence = built(compiler, request_for(matvec_case(), repeats=3, inputs_digest="not looked at"))
    assert (evidence.verdict, evidence.reason, evidence.comparison) == (Verdict.PASS, "built, not run", None)
    assert (evidence.builds, evidence.launches, evidence.repeats) == ((MADE,), (), 1)
    assert (evidence.inputs_digest, evidence.output_digest) == ("", "")
    assert compiler.given == [{}]
    assert dict(evidence.timings_us)["compile"] == 5.0


def test_a_build_carries_the_frame_of_its_source() -> None:
    frame = source.frame_digest("matvec/block", ("Q4_0",), Build.EXACT)
    evidence = built(Compiler())
    assert evidence.frame_digest == frame
    assert evidence.build_digest
    assert replace(evidence, flags="-y").build_digest != evidence.build_digest
    assert replace(evidence, frame_digest="other").build_digest != evidence.build_digest
    other = replace(MADE, cubin_digest="d" * 64)
    assert replace(evidence, builds=(other,)).build_digest != evidence.build_digest
    assert replace(evidence, builds=(replace(MADE, log="later"),)).build_digest == evidence.build_digest
    assert replace(evidence, builds=()).build_digest == replace(evidence, frame_digest="").build_digest == ""


def test_a_run_that_says_what_it_was_built_as_carries_the_frame_too() -> None:
    class Board(Compiler):
        orders = 1

        def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
            return replace(TWIN.run(plan, images, device, turn), builds=(MADE,))

    evidence = built(Board())
    assert (evidence.verdict, evidence.builds) == (Verdict.PASS, (MADE,))
    assert evidence.comparison is not None
    assert evidence.frame_digest == built(Compiler()).frame_digest != ""


def test_a_refused_build_is_reject_with_the_compilers_line() -> None:
    evidence = built(Compiler("k.cu(1): error: no x"))
    assert (evidence.verdict, evidence.reason) == (Verdict.REJECT, "k.cu(1): error: no x")
    assert (evidence.builds, evidence.build_digest) == ((), "")


def test_a_case_that_the_op_refuses_is_not_built() -> None:
    compiler = Compiler()
    evidence = built(compiler, request_for(matvec_case(cols=48)))
    assert (evidence.verdict, compiler.given) == (Verdict.SKIP, [])


def test_a_build_of_another_source_is_the_farms_error() -> None:
    compiler = Compiler()
    evidence = built(compiler, request_for(matvec_case(), source_digest="0" * 64))
    assert (evidence.verdict, compiler.given) == (Verdict.ERROR, [])
