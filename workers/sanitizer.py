"""A second look at a crash: the case once more under the vendor's checker, where that is installed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

# By backend: the program, and where NVIDIA's toolkit puts it when it isn't on the path.
PROGRAMS: Mapping[str, str] = {"cuda": "compute-sanitizer"}
TOOLKITS = ("CUDA_HOME", "CUDA_PATH")
USUAL_PLACE = "/usr/local/cuda"
OPTIONS = ("--tool=memcheck", "--print-limit=4", "--destroy-on-device-error=context")
SLOWER = 10.0  # how much longer a case may take under it
REPORT_S = 20.0  # for its report, once the case has ended
# Its own lines begin so; rules and summaries tell nothing.
LINE = re.compile(r"^=+ +(?!ERROR SUMMARY|COMPUTE-SANITIZER|Saved host backtrace|\s*Host Frame)(\S.*)$")
MOST_LINES = 3


def find(backend: str) -> str:
    """The checker's path; empty where the backend has none or it isn't installed."""
    program = PROGRAMS.get(backend, "")
    if not program:
        return ""
    toolkits = [*filter(None, map(os.environ.get, TOOLKITS)), USUAL_PLACE]
    places = [os.environ.get("PATH", ""), *(str(Path(toolkit) / "bin") for toolkit in toolkits)]
    return shutil.which(program, path=os.pathsep.join(places)) or ""


def command(path: str) -> tuple[str, ...]:
    """What a child's command line begins with."""
    return path, *OPTIONS


def said(printed: str) -> str:
    """What the checker found, on one line; empty where it found nothing."""
    found = [match[1].strip() for line in printed.splitlines() if (match := LINE.match(line.strip()))]
    return ", ".join(found[:MOST_LINES])
