"""Reads SkyPilot tasks with SkyPilot: `check.py FOLDER|FILE…`; a line for each, exit 1 where one is bad."""

from __future__ import annotations

import sys
from pathlib import Path

import sky
from sky.utils.registry import CLOUD_REGISTRY

MARKETS = ("vast", "runpod", "lambda", "aws", "gcp", "azure")


def main(words: list[str]) -> int:
    paths = [path for word in words for path in tasks(Path(word))]
    bad = 0
    for path in paths:
        try:
            print(f"{path.name}: {check(path)}")
        except Exception as error:  # noqa: BLE001 - SkyPilot raises its own, ValueError and AssertionError
            print(f"{path.name}: {' '.join(str(error).split())[:400]}", file=sys.stderr)
            bad += 1
    return 1 if bad or not paths else 0


def tasks(path: Path) -> list[Path]:
    return sorted(path.glob("*.yaml")) if path.is_dir() else [path]


def check(path: Path) -> str:
    """Where it may run; raises what SkyPilot says of a bad task."""
    task = read(path)
    for each in task.resources:
        if not each.max_hourly_cost or each.autostop_config is None or not each.autostop_config.enabled:
            raise ValueError("a machine without max_hourly_cost or autostop could run on")
    markets = sorted({str(each.cloud).lower() for each in task.resources})
    if any(each.accelerators for each in task.resources):
        for market in MARKETS:  # as `sky launch --cloud MARKET --gpus NAME:1` does
            cloud = CLOUD_REGISTRY.from_str(market)
            read(path).set_resources_override({"cloud": cloud, "accelerators": {"RTX4090": 1}})
    return ", ".join(markets)


def read(path: Path) -> sky.Task:
    """The task, as if every value that it wants had been given."""
    task = sky.Task.from_yaml(str(path))
    task.update_secrets(dict.fromkeys(task.secrets, "x"))
    return task


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
