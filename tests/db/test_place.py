"""Database files on file systems of other machines are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from db import place
from db.place import file_system, refuse_network
from db.session import open_database, open_existing
from kernels.errors import FarmError


@pytest.mark.parametrize("found", ["nfs4", "cifs", "fuse.sshfs", "lustre"])
def test_a_file_that_other_machines_can_write_is_refused(tmp_path: Path, found: str) -> None:
    with pytest.raises(FarmError, match=rf"lies on {found}, where locks .* postgresql://USER@HOST/NAME"):
        refuse_network(tmp_path / "farm.db", lambda file: found)


@pytest.mark.parametrize("found", ["ext4", "xfs", "tmpfs", "overlay", "fuse.fuseblk", ""])
def test_a_local_file_is_not(tmp_path: Path, found: str) -> None:
    refuse_network(tmp_path / "farm.db", lambda file: found)


def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str, Path, str]) -> None:
    """Has the system tell of these mounts: number, folder, type."""
    table = tmp_path / "mountinfo"
    lines = [f"20 1 {number} / {folder} rw - {kind} x rw" for number, folder, kind in mounts]
    table.write_text("\n".join(lines).replace("with space", "with\\040space"))
    monkeypatch.setattr(place, "MOUNTS", table)


def test_the_mount_with_the_files_number_tells_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounted(tmp_path, monkeypatch, ("0:1", tmp_path, "nfs"), (number, Path("/"), "ext4"))
    assert file_system(tmp_path / "to be" / "made" / "farm.db") == "ext4"


def test_else_the_longest_folder_above_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    mounted(tmp_path, monkeypatch, ("x:1", Path("/"), "ext4"), ("x:2", folder, "nfs"))
    assert file_system(folder / "farm.db") == "nfs"
    assert file_system(tmp_path / "farm.db") == "ext4"


@pytest.mark.parametrize("opening", [open_database, open_existing])
def test_it_is_refused_before_anything_is_made(opening, tmp_path, monkeypatch) -> None:
    (tmp_path / "farm.db").touch()
    mounted(tmp_path, monkeypatch, ("x:1", Path("/"), "nfs4"))
    with pytest.raises(FarmError, match="lies on nfs4"):
        opening(f"sqlite:///{tmp_path}/farm.db")
    assert (tmp_path / "farm.db").stat().st_size == 0


def test_where_the_system_does_not_tell_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "MOUNTS", tmp_path / "absent")
    assert file_system(tmp_path) == ""
