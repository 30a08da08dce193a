"""Other queues, a no-op job at a time, beside the farm's road in the same run.

They live in an environment of their own, which the farm never imports:

    uv venv .bench && uv pip install --python .bench/bin/python --require-hashes -r requirements-bench.txt

FARM_BENCH_PYTHON names its Python where it is elsewhere, FARM_BENCH_RIVAL_JOBS the jobs of a turn. RQ needs
the system's redis-server (Debian: apt-get install redis-server); where there is none, that is said.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks import road
from tests.postgres import started

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("FARM_BENCH_PYTHON", str(HERE.parent.parent / ".bench" / "bin" / "python")))
JOBS = os.environ.get("FARM_BENCH_RIVAL_JOBS", "500")
TURNS = 3
GOALS = {"celery": 10, "huey": 5, "procrastinate": 10, "pytest": 5, "rq": 10}  # times the rival's rate


def main() -> None:
    if not PYTHON.exists():
        print(f"no Python at {PYTHON}; python -c 'help(\"benchmarks.rivals\")' says how to make it")
        return
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as folder, started() as postgres:
        postgres.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")  # synced, as in use
        ours = road.told("the farm", road.rates(f"sqlite:///{folder}/farm.db", Path(folder), road.threads), 0)
        for name, goal in GOALS.items():
            if name == "rq" and not shutil.which("redis-server"):
                print("rq: not measured, no redis-server here")
                continue
            found = [rate(name, postgres.empty() if name == "procrastinate" else "") for _ in range(TURNS)]
            median = statistics.median(found)
            print(f"{name}: {median:,.0f} jobs a second, {min(found):,.0f} to {max(found):,.0f};"
                  f" the farm's is {ours / median:.1f} times that (goal {goal})", flush=True)  # fmt: skip


def rate(name: str, postgres: str) -> float:
    """Jobs a second of one turn, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="farm-rival-") as folder:
        environ = os.environ | {"RIVAL_FOLDER": folder, "RIVAL_JOBS": JOBS, "RIVAL_POSTGRES": postgres,
                                "PYTHONPATH": str(HERE)}  # fmt: skip
        command = [str(PYTHON), str(HERE / f"{name}_jobs.py")]
        said = subprocess.run(command, env=environ, cwd=folder, check=True, capture_output=True, text=True)
        return (int(JOBS) - 1) / float(said.stdout.split()[-1])


if __name__ == "__main__":
    main()
