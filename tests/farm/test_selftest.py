"""`python -m workers` on a box with numpy and gguf alone: the selftest's table, and its bundle taken home."""

from __future__ import annotations

import subprocess
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernels.evidence import Verdict
from workers import bundle, selftest
from workers.command import main
from workers.machine import cpu_device

ROOT = Path(__file__).parents[2]


def place(module: str) -> Path:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has numpy and nothing else; `lent` beside it is a folder with gguf and its imports."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "venv", symlinks=True)
    (own,) = (folder / "venv").glob("lib/python3*/site-packages")
    numpy = place("numpy")
    for path in (numpy, *numpy.parent.glob("numpy.libs")):
        (own / path.name).symlink_to(path)
    (folder / "lent").mkdir()
    for name in ("gguf", "yaml"):
        (folder / "lent" / name).symlink_to(place(name))
    return folder


def workers(bare: Path, cwd: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    python = bare / "venv" / "bin" / "python"
    return subprocess.run(
        [python, "-m", "workers", *words],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


def test_a_bare_box_is_tried_by_one_command_and_its_bundle_comes_home(
    farm, bare: Path, tmp_path: Path
) -> None:
    words = ("selftest", "--backend", "host", "--minutes", "0.05")
    done = workers(bare, tmp_path, "--path", str(bare / "lent"), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    title, *lines = done.stdout.splitlines()
    assert title == f"selftest of {cpu_device().slug}, 0.05 minutes"
    assert [line.split()[:2] for line in lines] == [
        [name, "ok"]
        for name in ("probe", "admission", "quick", *["benchmark"] * 3, "crash", "hang", "bundle")
    ]
    path = tmp_path / "selftest.jsonl"
    found = bundle.read(path).evidence
    assert {line.verdict for line in found} <= {Verdict.PASS, Verdict.SKIP}
    assert not [
        line for line in found if "on_purpose" in line.case.kernel or line.case.kernel == "known_wrong"
    ]
    taken_home(farm, path, len(found))


def taken_home(farm, path: Path, count: int) -> None:
    """Imported twice, cut and edited."""
    assert f"{count} new" in farm("import", str(path)).output
    assert f"{count} " in farm("import", str(path)).output
    assert "0 new" in farm("import", str(path)).output
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    cut = farm("import", str(path))
    assert (cut.exit_code, "torn" in cut.output) == (0, True)
    path.write_bytes(whole.replace(b'"verdict":"PASS"', b'"verdict":"FAIL"', 1))
    edited = farm("import", str(path))
    assert (edited.exit_code, "this line was changed" in edited.output) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("devices",),
            1,
            "workers: no module named gguf here; pip install gguf, or --path FOLDER that has it\n",
        ),
        (("--path", "nowhere", "devices"), 2, "workers: --path wants a folder, got nowhere\n"),
        (("--path",), 2, "workers: --path wants a folder, got nothing\n"),
    ],
)
def test_what_is_missing_is_one_line(
    bare: Path, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = workers(bare, tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_a_box_that_can_run_nothing_says_why_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert main(["selftest", "--backend", "host"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_box_without_a_gpu_says_so_and_exits_1(bare: Path, tmp_path: Path) -> None:
    done = workers(bare, tmp_path, "--path", str(bare / "lent"), "selftest", "--minutes", "0.1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert done.stderr.startswith("workers: ")
    assert not (tmp_path / "selftest.jsonl").exists()


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> selftest.Wanted:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    return selftest.Wanted("twin", cpu_device(), tmp_path / "b.jsonl", 0.01)


def test_a_board_that_is_not_admitted_runs_nothing_else(
    wanted: selftest.Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "admit", lambda *_: "exam: matvec/coalesced put out abc, def is right")
    steps = selftest.run(wanted, lambda line: None)
    assert [(step.name, step.good) for step in steps] == [("probe", True), ("admission", False)]
    assert not wanted.bundle.exists()
    assert list(selftest.table(steps))[1] == (
        "admission  BAD  exam: matvec/coalesced put out abc, def is right"
    )
