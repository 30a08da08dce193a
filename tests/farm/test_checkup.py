"""farm doctor: each check with an input that trips it, and the exit code that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm import checkup
from farm.checkup import State
from farm.cli import main
from workers.machine import UNTOLD_BYTES


def doctor(tmp_path: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--db", f"sqlite:///{tmp_path / 'farm.db'}", *args])


def without_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def test_a_machine_without_a_compiler_exits_1_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_compiler(tmp_path, monkeypatch)
    result = doctor(tmp_path)
    assert result.exit_code == 1
    assert "missing backend host  there is no C++ compiler\n" in result.stdout
    assert "→ apt-get install g++\n" in result.stdout
    assert result.stdout.endswith("what is marked missing is needed\n")


def test_a_compiler_whose_code_is_not_right_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ -Dwrong=!wrong")  # of the variable in which the exam's kernel counts
    result = doctor(tmp_path)
    assert result.exit_code == 1
    (found,) = (line for line in result.stdout.splitlines() if line.startswith("missing"))
    assert "; exam: silu_mul/pressed was REJECT, PASS is right (" in found
    assert "→ name another compiler, as in CXX=clang++, and report this\n" in result.stdout


def test_json_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_compiler(tmp_path, monkeypatch)
    result = doctor(tmp_path, "--json")
    document = json.loads(result.stdout)
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert (document["ok"], result.exit_code) == (False, 1)
    assert (states["backend host"], states["backend twin"], states["python"]) == ("missing", "ok", "ok")


def test_a_fit_machine_exits_0_and_nothing_is_made(tmp_path: Path) -> None:
    checks = {check.name: check for check in checkup.examine(f"sqlite:///{tmp_path / 'farm.db'}")}
    if checks["backend host"].state is not State.OK:
        pytest.skip(checks["backend host"].found)
    result = doctor(tmp_path)
    assert result.exit_code == 0
    assert result.stdout.endswith("all that is needed is here\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10), "missing"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "missing"), ((4, 0), "missing")],
)
def test_python_has_a_range(version: tuple[int, int], state: str) -> None:
    check = checkup.python(version)
    assert check.state == state
    assert bool(check.remedy) == (state == "missing")


def test_without_the_extra_web_there_is_no_dashboard() -> None:
    assert checkup.dashboard().state is State.OK
    check = checkup.dashboard(lambda name: name not in ("multipart", "uvicorn"))
    assert (check.state, check.found) == (State.LACKING, "python-multipart, uvicorn not installed")
    assert check.remedy == "./run pip install -e '.[web]'"


def test_without_ray_there_is_another_way() -> None:
    check = checkup.ray(lambda name: "")
    assert check.state is State.LACKING
    assert "--local" in check.remedy


@pytest.mark.parametrize(
    ("url", "state", "found"),
    [
        ("sqlite:///{0}/new/deep/farm.db", State.OK, "none at "),
        ("sqlite:///{0}/there.db", State.OK, "there.db"),
        ("sqlite:///{0}", State.MISSING, "is a folder"),
        ("sqlite:///{0}/there.db/farm.db", State.MISSING, "there.db: Not a directory"),
        ("nonsense", State.MISSING, "that is no database URL; write sqlite:///"),
        ("sqlite://", State.MISSING, "share a file; write sqlite:///"),
        ("mysql://u:secret@h/d", State.MISSING, "no database of type 'mysql' is supported"),
    ],
)
def test_a_database_must_be_a_file_that_can_be_written(
    tmp_path: Path, url: str, state: State, found: str
) -> None:
    (tmp_path / "there.db").touch()
    check = checkup.database(url.format(tmp_path))
    assert check.state is state
    assert found in check.found
    assert bool(check.remedy) == (state is not State.OK)


@pytest.mark.parametrize(
    ("free", "state", "found"),
    [
        (2_048_000_000, State.LACKING, "2.0 GB free"),
        (8_192_000_000, State.OK, "8.2 GB free"),
        (UNTOLD_BYTES, State.OK, "unknown: the system doesn't say"),
    ],
)
def test_memory_is_what_is_free_now(free: int, state: State, found: str) -> None:
    check = checkup.memory(lambda: free)
    assert (check.state, check.found) == (state, found)


@pytest.mark.parametrize(("free_bytes", "state"), [(2_000_000_000, State.OK), (10, State.LACKING)])
def test_disk_is_asked_where_the_state_would_be(tmp_path: Path, free_bytes: int, state: State) -> None:
    asked: list[Path] = []

    def free(path: Path) -> int:
        asked.append(path)
        return free_bytes

    assert checkup.disk(tmp_path / "not" / "yet", free).state is state
    assert asked == [tmp_path]


GO = "to run on GPUs, go where one is"


@pytest.mark.parametrize(
    ("installed", "driver", "state", "remedy"),
    [
        ((), False, State.LACKING, f"{GO}; to compile only, ./run pip install -e '.[nvrtc]'"),
        (("cuda-bindings",), False, State.LACKING, GO),
        ((), True, State.LACKING, "./run pip install -e '.[gpu]'"),
        (("cuda-bindings",), True, State.LACKING, "./run pip install -e '.[gpu]'"),
        (("cuda-bindings", "cupy-cuda12x"), True, State.OK, ""),
        (("cuda-bindings", "cupy-cuda13x"), True, State.OK, ""),
    ],
)
def test_gpu_says_what_is_left_to_do(
    installed: tuple[str, ...], driver: bool, state: State, remedy: str
) -> None:
    check = checkup.nvrtc(lambda name: "1" if name in installed else "", driver)
    assert (check.state, check.remedy) == (state, remedy)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 99, b""])
def test_a_database_that_is_none_is_missing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "farm.db"
    path.write_bytes(content)
    check = checkup.database(f"sqlite:///{path}")
    assert check.state is (State.MISSING if content else State.OK)  # an empty file is an empty database
    assert ("restore it from a backup" in check.remedy) == bool(content)
