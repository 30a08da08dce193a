"""Every text of the catalog to a cubin for every architecture that NVRTC knows, cold and warm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workers.backend import Unavailable
from workers.nvrtc import disassembler, library

ROOT = Path(__file__).parents[1]
LIMIT_S = 600  # cold, on two cores


def main() -> None:
    try:
        found = library.find()
    except Unavailable as why:
        print(f"left out: {why}")
        return
    print(f"{found.label}, {len(found.archs)} architectures, {disassembler.label() or disassembler.LACKING}")
    folder = Path(tempfile.mkdtemp(prefix="farm-bench-"))
    try:
        cold_s, cold = campaign(folder)
        warm_s, warm = campaign(folder)
        kept = [path.stat().st_size for path in (folder / ".farm" / "cache" / "nvrtc").iterdir()]
    finally:
        shutil.rmtree(folder)
    print(f"cold: {cold_s:.0f} s (limit {LIMIT_S} s), {cold['jobs']} jobs: {cold['verdicts']}")
    print(f"warm: {warm_s:.0f} s, {warm['jobs']} jobs: {warm['verdicts']}")
    print(f"cache: {len(kept)} files, {sum(kept) / 1e6:.0f} MB")


def campaign(folder: Path) -> tuple[float, dict[str, object]]:
    """Seconds from command to exit of a campaign of builds in `folder`, and its figures."""
    began = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-m", "farm", "submit", "--all-kinds", "--backend", "nvrtc", "--local", "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=False,
    )
    figures: dict[str, object] = json.loads(told.stdout)
    return time.monotonic() - began, figures
