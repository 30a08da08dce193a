"""The token commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from farm.cli import main
from workers.gateway_calls import read_token


@pytest.fixture
def new(tmp_path: Path):
    def run(name: str, *words: str) -> Result:
        url = f"sqlite:///{tmp_path}/farm.db"
        return CliRunner().invoke(main, ["token", "new", name, "--db", url, *words])

    return run


def test_a_token_goes_into_a_new_file_that_its_owner_alone_can_read(new, tmp_path: Path) -> None:
    path = tmp_path / "a.token"
    made = new("a", "--output", str(path))
    assert (made.exit_code, made.stdout) == (0, "")
    assert read_token(path).startswith("farm_")
    assert path.read_text().strip() not in made.stderr
    assert f"it is in {path}" in made.stderr


def test_a_file_that_is_there_is_kept_and_no_token_made(new, tmp_path: Path) -> None:
    path = tmp_path / "a.token"
    path.write_text("mine")
    refused = new("a", "--output", str(path))
    assert refused.stderr == f"farm: {path}: File exists; name a file that isn't there yet\n"
    assert path.read_text() == "mine"
    assert new("a").exit_code == 0  # the name is free


def test_a_name_that_is_taken_leaves_no_file(new, tmp_path: Path) -> None:
    assert new("a").stdout.startswith("farm_")
    refused = new("a", "--output", str(tmp_path / "a.token"))
    assert refused.stderr == "farm: a token named 'a' is there already; choose another name\n"
    assert not (tmp_path / "a.token").exists()
    nowhere = new("b", "--output", str(tmp_path / "none" / "b.token"))
    assert (nowhere.exit_code, nowhere.stderr.count("\n")) == (1, 1)
