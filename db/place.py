"""Where a database file lies: SQLite's locks hold on a disk of this machine only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from kernels.errors import FarmError

MOUNTS = Path("/proc/self/mountinfo")
# File systems that other machines write too, as the kernel calls them; FUSE's by what comes behind the dot.
NETWORK = {
    "afs", "afp", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "smb", "smb2", "smb3", "smbfs", "sshfs", "s3fs", "gcsfuse", "goofys",
}  # fmt: skip


def refuse_network(file: Path, type_of: Callable[[Path], str] | None = None) -> None:
    """FarmError where another machine could write the file, too: a lock of one is none for the other."""
    found = (type_of or file_system)(file)
    if found.removeprefix("fuse.") in NETWORK:
        raise FarmError(
            f"{file} lies on {found}, where locks of SQLite don't hold;"
            " name a database on a local disk, or postgresql://USER@HOST/NAME"
        )


def file_system(file: Path) -> str:
    """The type of the file system that a file is on, or will be; empty where the system doesn't tell."""
    there = file.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        device = os.stat(there).st_dev
        lines = MOUNTS.read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        return ""
    return _by_device(f"{os.major(device)}:{os.minor(device)}", lines) or _by_folder(there, lines)


def _by_device(number: str, lines: list[str]) -> str:
    for line in lines:
        if line.split()[2] == number:
            return _type(line)
    return ""


def _by_folder(there: Path, lines: list[str]) -> str:
    """By the longest mount point above; btrfs and overlays give files numbers that no mount has."""
    above = {str(there.resolve()), *map(str, there.resolve().parents)}
    mounts = [(_unescaped(line.split()[4]), _type(line)) for line in lines]
    return max(((len(point), kind) for point, kind in mounts if point in above), default=(0, ""))[1]


def _type(line: str) -> str:
    return line.partition(" - ")[2].split()[0]


def _unescaped(point: str) -> str:
    """Spaces and the like are written as octal numbers."""
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point)
