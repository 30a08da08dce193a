"""Runs the benchmarks named on the command line, or all; says first what machine they ran on."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

from workers.interrupt import sigterm_interrupts

HERE = Path(__file__).parent


def names() -> list[str]:
    """Every benchmark: a module of this package with a main()."""
    return sorted(m.name for m in pkgutil.iter_modules([str(HERE)]) if not m.name.startswith("_"))


def machine() -> str:
    """Processor, cores this process may use, memory and Python: what the figures belong to."""
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        models = [
            line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = models[0] if models else cpu
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cpu}, {cores} cores, {memory_gib:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def main(words: list[str]) -> int:
    unknown = sorted(set(words) - set(names()))
    if unknown:
        print(f"no benchmark named {unknown[0]!r}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    print(machine())
    try:
        with sigterm_interrupts():  # servers that a benchmark started are ended on the way out
            for name in words or names():
                print(f"\n== {name}", flush=True)
                importlib.import_module(f"benchmarks.{name}").main()
    except KeyboardInterrupt:
        print("ended early; what was printed above holds", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
