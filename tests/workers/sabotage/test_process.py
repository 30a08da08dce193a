"""Jobs in processes of their own: all are answered, and none is left behind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kernels import codec
from kernels.mutants import mutants
from workers.backend import Unavailable
from workers.host import compiler
from workers.sabotage import Fate, Job, Judgement, Report
from workers.sabotage.process import Process, run_jobs

SILU = Job("silu_mul/flat", "", tuple(m.name for m in mutants("silu_mul/flat", "")[:3]))


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("FARM_STATE", str(tmp_path_factory.getbasetemp() / "sabotage"))


def test_every_mutant_is_judged_and_every_job_reported() -> None:
    told: list[tuple[Job, Judgement | Report]] = []
    other = Job("rmsnorm/block", "", (mutants("rmsnorm/block", "")[0].name,))
    run_jobs([SILU, other], 2, lambda job, value: told.append((job, value)))
    counts = Counter((job.kernel, type(value).__name__) for job, value in told)
    assert counts == {
        ("silu_mul/flat", "Judgement"): 3, ("silu_mul/flat", "Report"): 1,
        ("rmsnorm/block", "Judgement"): 1, ("rmsnorm/block", "Report"): 1,
    }  # fmt: skip
    assert all(isinstance(v, Report) or v.fate is not Fate.SURVIVED for _, v in told)


def test_a_job_that_cannot_be_done_says_why() -> None:
    told: list[Judgement | Report] = []
    run_jobs([Job("matvec/none", "")], 1, lambda _, value: told.append(value))
    (report,) = told
    assert isinstance(report, Report)
    assert "no kernel named 'matvec/none'" in report.failure


def test_a_process_that_dies_is_a_job_that_failed() -> None:
    process = Process()
    process.kill()
    assert not process.run(SILU, lambda _job, _value: None)
    process.end()


def test_an_interrupted_run_ends_its_processes_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    begun: list[Process] = []

    class Noted(Process):
        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

    def stop(_job: Job, _value: Judgement | Report) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([SILU, SILU], 1, stop, start=Noted)
    assert [process.returncode is not None for process in begun] == [True]
    assert list(tmp_path.iterdir()) == []


def test_values_cross_as_json() -> None:
    judgement = Judgement("ENTRY:1:drop", Fate.BOUND, "9x64 ordinary", "why", True, False)
    assert codec.decode(Judgement, json.loads(json.dumps(codec.encode(judgement)))) == judgement
