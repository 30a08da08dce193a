"""The database's password: in nothing that a command prints, logs or leaves, and in no child's words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from click.testing import Result

from tests.postgres import Postgres

ROOT = Path(__file__).parents[2]
MARKED = "pear-tree"  # in every form in which the password may be written
SECRET = f"{MARKED}/ of@mine"
SMALL = ("submit", "--kernel", "matvec/block", "--kind", "Q4_0", "--shape", "1x32", "--backend", "twin")
COMMANDS = [
    ("status",), ("db", "upgrade"), ("db", "check"), ("db", "backup", "copy"), (*SMALL, "--local"),
    ("doctor",),
]  # fmt: skip
NAMES = [" ".join(words)[:20] for words in COMMANDS]
# Every Python process of a command writes its own words down, and those of what it starts.
NOTES_WORDS = """
import os, sys
def note(event, words):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        with open(os.environ["FARM_TEST_WORDS"], "a") as file:
            print(words[:2], file=file)
with open(os.environ["FARM_TEST_WORDS"], "a") as file:
    print(sys.orig_argv, file=file)
sys.addaudithook(note)
"""


@dataclass
class Said:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def files_with_the_password(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if MARKED.encode() in path.read_bytes()]


@pytest.fixture
def command(
    farm: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs a command on a database; the password is in nothing that it said or left in its folder."""

    def run(url: str, *words: str) -> Said:
        monkeypatch.setenv("FARM_DB", url)
        ended = farm(*words)
        assert MARKED not in ended.stdout + ended.stderr
        assert files_with_the_password(tmp_path) == []
        return Said(ended.exit_code, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Said]:
    """As `command`, in a process of its own, which with all its children notes its words in a file."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(NOTES_WORDS)

    def run(url: str, *words: str) -> Said:
        environ = os.environ | {
            "FARM_DB": url,
            "FARM_TEST_WORDS": str(tmp_path / "words"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "hook"), str(ROOT)]),
            "TMPDIR": str(tmp_path),
        }
        started = [sys.executable, "-m", "farm", *words]
        ended = subprocess.run(
            started, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert MARKED not in ended.stdout + ended.stderr
        assert files_with_the_password(tmp_path) == []
        return Said(ended.returncode, ended.stdout, ended.stderr)

    return run


def is_said(said: Said, name: str, label: str, why: str) -> None:
    """One line with address and reason, and exit code 1; a checkup has it among its lines."""
    told = " ".join((said.out if name == "doctor" else said.err).split())
    assert (said.code, label in told, why in told) == (1, True, True), told
    if name != "doctor":
        assert (said.out, said.err.count("\n"), told.startswith(f"farm: {label}")) == ("", 1, True), told


@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
@pytest.mark.parametrize("form", ["postgresql://clerk:{}@{}", "postgresql://clerk@{1}&password={0}"])
def test_a_server_that_is_away_is_said_without_it(
    command: Callable[..., Said], words: tuple[str, ...], form: str
) -> None:
    url = form.format(quote(SECRET, safe=""), "127.0.0.1:1/farm?connect_timeout=1")
    is_said(command(url, *words), words[0], "postgresql://clerk:***@127.0.0.1:1/farm", "Connection refused")


@pytest.fixture
def gardener(postgres: Postgres) -> sa.URL:
    """The server's address for a user who must give the password, and may make tables."""
    if not postgres.is_ours:
        pytest.skip("who may come in to another's server is not ours to change")
    url = postgres.guarded("gardener", SECRET)
    postgres.execute("GRANT CREATE, USAGE ON SCHEMA public TO gardener")
    return url


@pytest.mark.postgres
@pytest.mark.parametrize("words", COMMANDS, ids=NAMES)
def test_a_wrong_one_is_said_and_not_shown(
    command: Callable[..., Said], words: tuple[str, ...], gardener: sa.URL
) -> None:
    url = gardener.set(password=f"{SECRET}, but not quite").render_as_string(hide_password=False)
    is_said(
        command(url, *words),
        words[0],
        "postgresql://gardener:***@",
        "password authentication failed for user",
    )


@pytest.mark.postgres
def test_a_campaign_leaves_it_in_no_log_and_gives_it_to_no_child(
    process: Callable[..., Said], gardener: sa.URL, tmp_path: Path
) -> None:
    url = gardener.render_as_string(hide_password=False)
    for words in ((*SMALL, "--local"), ("status",), ("db", "check")):
        ended = process(url, *words)
        assert ended.code == 0, ended.err
    assert [path.name for path in (tmp_path / ".farm" / "log").glob("*.jsonl") if path.stat().st_size]
    assert "workers.child" in (tmp_path / "words").read_text(encoding="utf8")


@pytest.mark.postgres
def test_a_checkup_of_a_sound_database_shows_none_of_its_options(
    command: Callable[..., Said], gardener: sa.URL
) -> None:
    url = gardener.set(password=None).update_query_dict({"password": SECRET})
    told = command(url.render_as_string(), "doctor", "--json").out
    assert "postgresql://gardener:***@" in told


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:pear@{MARKED}@host/farm",
        f"postgresql://u:pear@{MARKED}:x@host/farm",
        f"postgresql://u/v:{MARKED}@host/farm",
        f"user:{MARKED}@host/farm",
        f"postgres://u:{MARKED}@host/farm",
    ],
)
def test_an_address_that_is_written_wrong_is_not_quoted(command: Callable[..., Said], url: str) -> None:
    for words in COMMANDS:
        said = command(url, *words)
        assert said.code == (1 if words[0] == "doctor" else 2), said
