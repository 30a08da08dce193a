"""`python -m workers`: cases alone, one bundle, the documented exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels import source
from kernels.catalog import Planned
from kernels.evidence import Evidence, Verdict
from kernels.model import Build, Device
from tests.workers.cases import matvec_case, request_for
from workers import bundle, command
from workers.agent import Slot
from workers.command import describe, first_fitting, main, remaining
from workers.machine import cpu_device
from workers.runner import ended
from workers.standalone import Order, run_cases
from workers.worth import most_valuable_first

ROOT = Path(__file__).parents[2]
GPU = Device("rtx-3060-1", "rtx-3060", "RTX 3060", "GPU-1", 1, (("sm", "sm_86"),))
TWIN = Order("twin", replace(cpu_device(), slots=1))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "b.jsonl"


def run(*words: str) -> int:
    return main(["run", *words, "--backend", "twin", "--bundle", "b.jsonl"])


def test_one_case_is_run_in_both_builds_when_kernel_kind_and_shape_are_given(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("matvec/block", "q4_0", "5x64") == 0
    found = bundle.read(path).evidence
    assert sorted(item.case.build.value for item in found) == ["default", "exact"]
    assert {(item.verdict, item.origin, str(item.case.shape)) for item in found} == {
        (Verdict.PASS, "bundle", "5x64")
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "2 PASS; evidence in b.jsonl"
    assert sorted(lines)[1].startswith("PASS    matvec/block Q4_0 5x64 ordinary default  5 compared, 0.")


def test_bundle_is_continued_when_it_exists(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("matvec/block", "Q4_0", "5x64", "--build", "exact")
    assert run("matvec/block", "Q4_0", "5x64") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 PASS, 1 there before; evidence in b.jsonl"
    assert len(bundle.read(path).evidence) == 2


def test_kernel_without_kinds_takes_a_shape(path: Path) -> None:
    assert run("rmsnorm/block", "257", "--build", "exact") == 0
    (item,) = bundle.read(path).evidence
    assert (item.case.kind, str(item.case.shape)) == ("F32", "257x1")


def test_skip_is_not_bad(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matvec/block", "Q4_0", "5x48", "--build", "exact") == 0
    assert "SKIP" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give KERNEL [KIND] [SHAPE]"),
        (("matvec/block", "--all-kinds"), "or --all-kinds"),
        (("matvec/nope",), "no kernel named 'matvec/nope'; there are"),
        (("matvec/block", "Q9_Z"), "no kind named 'Q9_Z'; there are Q"),
        (("matvec/block", "Q4_0", "1x2x3"), "write matvec:ROWSxCOLS"),
        (("rmsnorm/block", "Q4_0", "257"), "rmsnorm/block takes SHAPE; got Q4_0 257"),
        (("rmsnorm/block", "257", "--tier", "full"), "--tier and a shape each say which shapes run"),
    ],
)
def test_wrong_words_are_one_line_and_2(
    path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert run(*words) == 2
    assert message in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: command; see python -m workers --help"),
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["run", "--all-kinds"], "arguments are required: --bundle; see python -m workers run --help"),
        (
            ["run", "--bundle", "b", "--minutes", "0"],
            "argument --minutes: got '0'; a number over 0 is wanted",
        ),
        (["run", "--bundle", "b", "--deadline", "nan"], "argument --deadline: got 'nan'"),
        (["selftest", "--minutes", "inf"], "argument --minutes: got 'inf'"),
        (["selftest", "--minutes=-1"], "argument --minutes: got '-1'"),
    ],
)
def test_words_that_are_none_are_one_line_and_2(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    line = capsys.readouterr().err
    assert (ended.value.code, line.count("\n"), line.startswith("workers: ")) == (2, 1, True)
    assert said in line


def test_damaged_bundle_is_one_line_and_1(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("hello\n")
    assert run("matvec/block", "Q4_0", "5x64") == 1
    assert "line 1: not a line of evidence" in capsys.readouterr().err
    assert path.read_text() == "hello\n"


def test_bundle_that_can_not_be_written_is_one_line_and_1(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.mkdir()
    assert run("matvec/block", "Q4_0", "5x64") == 1
    assert capsys.readouterr().err == "workers: b.jsonl: Is a directory\n"


def test_second_writer_of_a_bundle_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = bundle.Writer(path)
    assert run("matvec/block", "Q4_0", "5x64") == 1
    assert "another process writes to it" in capsys.readouterr().err
    first.close()


def test_backend_that_is_unavailable_is_one_line_and_1(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert main(["run", "matvec/block", "Q4_0", "5x64", "--bundle", "b.jsonl"]) == 1
    assert "CXX=/nowhere/c++ is no working C++ compiler" in capsys.readouterr().err


ARCHS = [Device(name, name, name, f"uuid-{name}") for name in ("sm_61", "sm_86", "sm_89")]


@pytest.mark.parametrize(
    ("glob", "slug"), [("*", "sm_61"), ("SM_8*", "sm_86"), ("sm_89", "sm_89"), ("uuid-sm_8?", "sm_86")]
)
def test_the_first_device_that_fits_is_taken(glob: str, slug: str) -> None:
    assert first_fitting(ARCHS, glob).slug == slug


def test_a_device_that_is_not_here_is_one_line_and_2(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matvec/block", "Q4_0", "5x64", "--device", "h200") == 2
    assert capsys.readouterr().err.startswith("workers: no device here matches 'h200'; there are cpu-")


def test_devices_are_printed_or_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    found = {entry["backend"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found["twin"]["devices"][0]["slug"] == cpu_device().slug
    assert all(bool(entry["devices"]) != bool(entry["unavailable"]) for entry in found.values())
    assert main(["devices"]) == 0
    assert f"twin   {cpu_device().slug}" in capsys.readouterr().out


def test_nothing_but_numpy_and_gguf_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from workers.command import main; code = main(sys.argv[1:])\n"
        "print({'ray', 'click', 'sqlalchemy', 'rich', 'alembic'} & set(sys.modules), code)"
    )
    words = ["run", "matvec/block", "Q4_0", "5x64", "--backend", "twin", "--bundle", "b.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == ("set() 0", "")


def planned(count: int) -> list[Planned]:
    return [Planned(matvec_case(rows=rows + 1), 1) for rows in range(count)]


def test_no_case_is_started_when_the_time_is_over() -> None:
    taken: list[Evidence] = []
    ticks = iter([0.0, 1.0, 59.0, 61.0])
    left = run_cases(planned(5), replace(TWIN, minutes=1), taken.append, clock=lambda: next(ticks))
    assert (len(taken), left) == (2, 3)


def test_error_of_the_taker_is_raised_when_it_fails() -> None:
    def fail(evidence: Evidence) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_cases(planned(3), TWIN, fail)


def evidence(verdict: Verdict, change: Callable[[Evidence], Evidence] = lambda e: e) -> Evidence:
    case = matvec_case()
    made = ended(request_for(case, device=TWIN.device), verdict, "why", 1, 2)
    digest = source.digest("matvec/block", case.kinds, case.build)
    return change(replace(made, source_digest=digest))


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ((), 1),
        ((evidence(Verdict.PASS),), 0),
        ((evidence(Verdict.FAIL),), 0),
        ((evidence(Verdict.ERROR),), 1),
        ((evidence(Verdict.PASS, lambda e: replace(e, source_digest="old")),), 1),
        ((evidence(Verdict.PASS, lambda e: replace(e, backend="host")),), 1),
    ],
)
def test_case_remains_unless_the_bundle_has_its_verdict(there: tuple[Evidence, ...], left: int) -> None:
    assert len(remaining([Planned(matvec_case(), 1)], TWIN, there)) == left


def test_line_of_a_case_says_why_when_nothing_was_compared() -> None:
    assert describe(evidence(Verdict.CRASH)) == "CRASH   matvec/block Q4_0 3x64 ordinary exact  why"


def test_a_case_of_every_cell_comes_first_and_exact_ones_before_the_others() -> None:
    exact = [matvec_case(rows=rows) for rows in (1, 2)]
    default = [replace(case, build=Build.DEFAULT) for case in exact]
    other = matvec_case(rows=1, kinds=("Q8_0",))
    ordered = most_valuable_first([Planned(case, 1) for case in (*exact, *default, other)])
    assert [item.case for item in ordered] == [exact[0], other, default[0], exact[1], default[1]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bundle_is_whole_and_goes_on_when_the_run_was_stopped(tmp_path: Path, number: signal.Signals) -> None:
    words = ["run", "--kernel", "matvec/block", "--backend", "twin", "--bundle", "b.jsonl", "--minutes", "5"]
    command = [sys.executable, "-m", "workers", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run_ = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run_.stdout is not None
    first = run_.stdout.readline()
    run_.send_signal(number)
    rest, said = run_.communicate(timeout=60)
    assert run_.returncode == 130
    assert said == "workers: interrupted; the same command goes on where it stopped\n"
    found = bundle.read(tmp_path / "b.jsonl")
    assert found.torn == ""
    assert len(found.evidence) == len([first, *rest.splitlines()]) > 0
    assert {line.verdict for line in found.evidence} <= {Verdict.PASS, Verdict.SKIP}


@pytest.mark.parametrize("wrong", ["exam: silu_mul/known_wrong was PASS, FAIL is right (no reason)", ""])
def test_a_gpu_passes_the_exam_before_its_first_case(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    gpu = SimpleNamespace(name="twin", orders=1, devices=lambda: (GPU,))
    monkeypatch.setattr(command.backends, "backend", lambda name: gpu)
    examined: list[tuple[Device, str]] = []

    def admit(slot: Slot, device: Device, backend: str) -> str:
        examined.append((device, backend))
        return wrong

    monkeypatch.setattr(command, "admit", admit)
    assert run("matvec/block", "Q4_0", "5x64", "--build", "exact") == (1 if wrong else 0)
    assert examined == [(GPU, "twin")]
    assert len(bundle.read(path).evidence) == (0 if wrong else 1)
    said = f"workers: {GPU.slug} isn't believed, and nothing was run: {wrong}\n" if wrong else ""
    assert capsys.readouterr().err == said
    assert run("matvec/block", "Q4_0", "5x64", "--build", "exact") == (1 if wrong else 0)
    assert len(examined) == (2 if wrong else 1)  # nothing is left to run


def test_a_processor_is_not_examined(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "admit", lambda *_: "asked")
    assert run("matvec/block", "Q4_0", "5x64", "--build", "exact") == 0
