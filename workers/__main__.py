"""`python -m workers [--path FOLDER]`: see workers.command, which this imports once the path is known."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

OPTION = "--path"
NEEDED = ("numpy", "gguf", "yaml")  # the last is gguf's own
CANNOT, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: list[str]) -> int:
    """The exit status. What can't be installed may lie in folders given by --path, before the command."""
    while argv[:1] == [OPTION]:
        if len(argv) < 2 or not Path(argv[1]).is_dir():
            print(
                f"workers: {OPTION} wants a folder, got {' '.join(argv[1:2]) or 'nothing'}", file=sys.stderr
            )
            return USAGE
        search(Path(argv[1]).absolute())
        argv = argv[2:]
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        told = f"no module named {missing[0]} here; pip install gguf, or {OPTION} FOLDER that has it"
        print(f"workers: {told}", file=sys.stderr)
        return CANNOT
    try:
        from workers import command  # not earlier: what it imports may lie in such a folder

        return command.main(argv)
    except KeyboardInterrupt:  # while modules are loaded; later, commands say what goes on where
        print("workers: interrupted", file=sys.stderr)
        return INTERRUPTED


def search(folder: Path) -> None:
    """Has this process and its children look for modules in a folder, too."""
    sys.path.append(str(folder))
    known = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([*known, str(folder)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
