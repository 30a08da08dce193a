"""`./run` makes the environment once, from hashed locks, and says what it lacks; stand-ins, no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.txt", "requirements-dev.txt")
TOOLS = ("sh", "cat", "chmod", "cmp", "dirname", "flock", "mkdir", "rm", "sed")

UV = """#!/bin/sh
echo "uv $*" >>"$LOG"
[ ! -e "$LOG.offline" ] || exit 1
[ "$1" = venv ] || exit 0
for venv; do :; done
mkdir -p "$venv/bin"
printf '#!/bin/sh\\n[ "$2" != pip ] && echo python "$@"\\n' >"$venv/bin/python"
printf '#!/bin/sh\\necho farm "$@"\\n' >"$venv/bin/farm"
chmod +x "$venv/bin/python" "$venv/bin/farm"
"""


@dataclass(frozen=True)
class Checkout:
    root: Path  # a copy of run, pyproject.toml and the locks
    tools: Path  # all that is on PATH

    def put(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = {"PATH": str(self.tools), "LOG": str(self.root / "log")}
        command = [str(self.root / "run"), *words]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def installs(self) -> list[str]:
        """The locks that were installed so far, in order."""
        log = self.root / "log"
        return re.findall(r"--require-hashes --no-deps -r \S*/(\S+)", log.read_text() if log.exists() else "")


def python(version: str) -> str:
    return f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\necho {version} "$0"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout", tmp_path / "tools")
    made.root.mkdir()
    made.tools.mkdir()
    for name in ("run", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, made.root)
    for name in TOOLS:
        if path := shutil.which(name):
            (made.tools / name).symlink_to(path)
    made.put("python3", python("3.12"))
    made.put("uv", UV)
    return made


def test_usage_without_words(checkout: Checkout) -> None:
    status, out, err = checkout.run()
    assert (status, out, checkout.installs()) == (2, "", [])
    assert err.startswith("usage: ./run farm")


def test_one_line_when_python_is_too_old(checkout: Checkout) -> None:
    checkout.put("python3", python("3.9"))
    status, out, err = checkout.run("farm")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "python3 is 3.9" in err
    assert "wanted 3.11, 3.12 or 3.13" in err
    assert "apt-get install python3" in err


def test_one_line_when_there_is_no_python(checkout: Checkout) -> None:
    (checkout.tools / "python3").unlink()
    status, _, err = checkout.run("farm")
    assert (status, err.count("\n")) == (1, 1)
    assert "no python3 on PATH" in err


def test_next_python_when_the_first_is_a_stub(checkout: Checkout) -> None:
    checkout.put("python3", "#!/bin/sh\nexit 127\n")
    checkout.put("python3.13", python("3.13"))
    assert checkout.run("farm")[0] == 0


def test_package_is_named_when_venv_is_missing(checkout: Checkout) -> None:
    (checkout.tools / "uv").unlink()
    status, out, err = checkout.run("farm", "--help")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "apt-get install python3-venv" in err


def test_package_is_named_when_uv_does_not_work_and_venv_is_missing(checkout: Checkout) -> None:
    (checkout.root / "log.offline").touch()
    status, _, err = checkout.run("farm")
    assert status == 1
    assert "apt-get install python3-venv" in err.splitlines()[-1]


def test_first_use_installs_the_runtime_then_runs(checkout: Checkout) -> None:
    status, out, err = checkout.run("farm", "status", "two words")
    assert (status, out) == (0, "farm status two words\n")
    assert checkout.installs() == ["requirements.txt"]
    assert re.search(r"about \d+ MB to download", err)
    assert f"--no-build-isolation --no-deps -e {checkout.root}" in (checkout.root / "log").read_text()


def test_pip_is_uvs_where_uv_made_the_environment(checkout: Checkout) -> None:
    assert checkout.run("pip", "install", "-e", ".[nvrtc]")[0] == 0
    assert (checkout.root / "log").read_text().splitlines()[-1] == "uv pip install -e .[nvrtc]"


def test_pip_is_its_own_where_the_environment_has_one(checkout: Checkout) -> None:
    checkout.run("farm")
    pip = checkout.root / ".venv" / "bin" / "pip"
    pip.write_text('#!/bin/sh\necho own pip "$@"\n')
    pip.chmod(0o755)
    assert checkout.run("pip", "list")[:2] == (0, "own pip list\n")


def test_second_use_installs_nothing(checkout: Checkout) -> None:
    checkout.run("farm")
    assert checkout.run("farm") == (0, "farm\n", "")
    assert checkout.installs() == ["requirements.txt"]


def test_development_packages_only_for_reserved_words(checkout: Checkout) -> None:
    checkout.run("farm")
    assert checkout.run("test", "-q")[:2] == (0, "python -m pytest -n auto --dist loadfile -q\n")
    assert checkout.run("farm")[:2] == (0, "farm\n")
    assert checkout.installs() == ["requirements.txt", "requirements-dev.txt"]


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_installs_again_when_an_ingredient_changes(checkout: Checkout, name: str) -> None:
    checkout.run("farm")
    with (checkout.root / name).open("a") as file:
        file.write("# changed\n")
    checkout.run("farm")
    assert checkout.installs() == ["requirements.txt"] * 2


def test_half_made_environment_is_made_again(checkout: Checkout) -> None:
    checkout.run("farm")
    (checkout.root / ".venv/requirements.txt.stamp").unlink()
    (checkout.root / ".venv/left-over").touch()
    assert checkout.run("farm")[0] == 0
    assert not (checkout.root / ".venv/left-over").exists()


def test_moved_environment_is_made_again(checkout: Checkout) -> None:
    checkout.run("farm")
    (checkout.root / ".venv/left-over").touch()
    moved = replace(checkout, root=checkout.root.rename(checkout.root.with_name("moved")))
    assert moved.run("farm")[:2] == (0, "farm\n")
    assert not (moved.root / ".venv/left-over").exists()


def test_runtime_survives_a_failed_development_install(checkout: Checkout) -> None:
    checkout.run("farm")
    (checkout.root / "log.offline").touch()
    assert checkout.run("test")[0] == 1
    assert checkout.run("farm")[:2] == (0, "farm\n")


@pytest.mark.skipif(shutil.which("flock") is None, reason="two starts are kept apart by flock")
def test_one_of_two_starts_installs(checkout: Checkout) -> None:
    starts = [checkout.start("farm") for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in starts] == ["farm\n"] * 2
    assert checkout.installs() == ["requirements.txt"]


@pytest.mark.parametrize("word", ["frobnicate", "bin"])
def test_one_line_when_the_program_is_unknown(checkout: Checkout, word: str) -> None:
    checkout.run("farm")
    status, out, err = checkout.run(word)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"no program named '{word}'" in err


def locked(name: str) -> Iterator[tuple[Requirement, list[str]]]:
    """The requirements of a lock with their hashes."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        words, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        yield Requirement(words), hashes


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_and_hashes_everything(name: str) -> None:
    entries = list(locked(name))
    assert len(entries) > 25
    for requirement, hashes in entries:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_place(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"://|file:|--(extra-)?index-url |--find-links|--trusted-host| @ ", text)
    assert not re.search(r"\b[\w-]+\.(org|com|net|io|dev|example|invalid)\b", text)
    assert not re.search(r"(^|\s)[~/]\S*/", text, re.MULTILINE)


def test_development_lock_contains_the_runtime_lock() -> None:
    runtime, development = ({str(r): hashes for r, hashes in locked(name)} for name in LOCKS)
    assert runtime.items() <= development.items()


@pytest.mark.parametrize("name", LOCKS)
def test_lock_satisfies_pyproject(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    wanted = project["project"]["dependencies"] + groups["build"]
    if name == "requirements-dev.txt":
        wanted += [entry for entry in groups["dev"] if isinstance(entry, str)]
    pins: dict[str, list[str]] = {}
    for requirement, _ in locked(name):
        pins.setdefault(canonicalize_name(requirement.name), []).append(str(requirement.specifier)[2:])
    for requirement in map(Requirement, wanted):
        versions = pins[canonicalize_name(requirement.name)]
        assert all(version in requirement.specifier for version in versions), requirement


def test_nvrtc_lock_is_what_its_extra_adds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = {canonicalize_name(r.name): str(r.specifier)[2:] for r, _ in locked("requirements-nvrtc.txt")}
    for requirement in map(Requirement, project["project"]["optional-dependencies"]["nvrtc"]):
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement
    assert "nvidia-cuda-nvrtc-cu12" in pins  # what the extra `nvrtc` of cuda-toolkit stands for
    assert all(hashes for _, hashes in locked("requirements-nvrtc.txt"))
    assert not {canonicalize_name(r.name) for r, _ in locked("requirements-dev.txt")} & set(pins)


def test_build_group_is_what_the_build_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["dependency-groups"]["build"] == project["build-system"]["requires"]


def test_scripts_are_executable() -> None:
    assert all(os.access(ROOT / name, os.X_OK) for name in ("run", ".ci/run"))
