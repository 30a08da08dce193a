"""Reads SkyPilot tasks with SkyPilot: `check.py FOLDER|FILE…`; a line for each, exit 1 where one is bad.

A task is read, held against what each market can do, and placed as `sky launch --dryrun` places it, alone
and as `farm plan` starts it. A table of prices (FILE.toml) must call boards as SkyPilot's own tables do.
"""

from __future__ import annotations

import ast
import io
import logging
import os
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import market
import sky
from sky.clouds import CloudImplementationFeatures as Feature
from sky.utils.registry import CLOUD_REGISTRY

# What makes a market's table, and its value that has the boards; it isn't imported, which may want more.
FETCHERS = {
    "lambda": ("fetch_lambda_cloud.py", "GPU_TO_MEMORY"),
    "runpod": ("fetch_runpod.py", "DEFAULT_GPU_INFO"),
}
# SkyPilot's table of Vast has whatever is offered there, without these endings.
VAST_DROPS = ("Ti", "PCIE", "SXM4", "SXM", "NVL")


def main(words: list[str]) -> int:
    logging.disable(logging.CRITICAL)  # the optimizer's advice
    market.open_markets(Path(os.environ["HOME"]))
    paths = [path for word in words for path in tasks(Path(word))]
    bad = 0
    for path in paths:
        try:
            with redirect_stdout(io.StringIO()):  # its progress
                found = names(path) if path.suffix == ".toml" else check(path)
            print(f"{path.name}: {found}")
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
        demand_features(each)
        alone = read(path)
        alone.set_resources(each)
        market.place(alone)
    if any(each.accelerators for each in task.resources):
        for name, board in market.BOARDS.items():
            plan(path, name, board)
    return ", ".join(sorted({str(each.cloud).lower() for each in task.resources}))


def names(path: Path) -> str:
    """How many offers call their board as SkyPilot does; raises the first that doesn't."""
    offers = tomllib.loads(path.read_text())["offer"]
    known = {provider: boards(*where) for provider, where in FETCHERS.items()}
    for offer in offers:
        provider, board = offer["provider"], offer["accelerator"]
        if board not in known.get(provider, (board,)) or (provider == "vast" and board.endswith(VAST_DROPS)):
            raise ValueError(f"SkyPilot knows no {board} at {provider}")
    return str(len(offers))


def boards(file: str, value: str) -> set[str]:
    """The keys of a dict that one of SkyPilot's files defines."""
    text = (Path(sky.__file__).parent / "catalog/data_fetchers" / file).read_text()
    for node in ast.walk(ast.parse(text)):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == value:
            return set(ast.literal_eval(node.value))
    raise ValueError(f"SkyPilot's {file} has no {value}")


def demand_features(each: sky.Resources) -> None:
    """By SkyPilot's own tables of what each market can do: a machine that stops must be one that can."""
    ends = {Feature.AUTODOWN} if each.autostop_config.down else {Feature.AUTOSTOP, Feature.STOP}
    each.cloud.check_features_are_supported(each, each.get_required_cloud_features() | ends)


def plan(path: Path, name: str, board: str) -> None:
    """As `farm plan` starts it: `sky launch --cloud NAME --gpus BOARD:1`, and --use-spot where that is."""
    cloud = CLOUD_REGISTRY.from_str(name)
    for more in ({}, {"use_spot": True}) if name != "lambda" else ({},):
        task = read(path)
        task.set_resources_override({"cloud": cloud, "accelerators": {board: 1}, **more})
        found = market.place(task)
        if not found.cloud.is_same_cloud(cloud) or found.accelerators != {board: 1}:
            raise ValueError(f"started for {board} at {name}, it would run on {found}")


def read(path: Path) -> sky.Task:
    """The task, as if every value that it wants had been given."""
    task = sky.Task.from_yaml(str(path))
    task.update_secrets(dict.fromkeys(task.secrets, "x"))
    return task


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
