"""What SkyPilot may choose from without account and network: a table of nobody's prices for each market."""

from __future__ import annotations

from pathlib import Path

import sky
from sky import check as accounts
from sky import optimizer
from sky.skylet import constants
from sky.utils.registry import CLOUD_REGISTRY

HEADER = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice,Region"
ZONED = ("aws", "gcp")
# A machine with a board, and one without where a head may be. GCP sells the board and its host apart.
TABLES = {
    "vast": ("v-1,16,64,RTX4090,1,,0.40,0.25,US",),
    "runpod": ("r-1,16,64,RTX4090,1,,0.60,0.30,US",),
    "lambda": ("l-1,30,200,A10,1,,0.75,,us-east-1",),
    "aws": (
        "g6.xlarge,4,16,L4,1,,0.80,0.35,us-east-1,us-east-1a",
        "m6i.xlarge,4,16,,,,0.19,0.08,us-east-1,us-east-1a",
    ),
    "gcp": (
        ",,,L4,1,,0.56,0.22,us-central1,us-central1-a",
        "g2-standard-4,4,16,,,,0.15,0.06,us-central1,us-central1-a",
        "n2-standard-4,4,16,,,,0.19,0.05,us-central1,us-central1-a",
    ),
    "azure": (
        "Standard_NV36ads_A10_v5,36,440,A10,1,,3.20,0.90,eastus",
        "Standard_D4s_v5,4,16,,,,0.19,0.05,eastus",
    ),
}
BOARDS = {"vast": "RTX4090", "runpod": "RTX4090", "lambda": "A10", "aws": "L4", "gcp": "L4", "azure": "A10"}


def open_markets(home: Path) -> None:
    """Has SkyPilot find the tables where it keeps its own, and accounts with all of them."""
    folder = home / ".sky/catalogs" / constants.CATALOG_SCHEMA_VERSION
    for market, rows in TABLES.items():
        (folder / market).mkdir(parents=True, exist_ok=True)
        header = HEADER + ",AvailabilityZone" * (market in ZONED)
        (folder / market / "vms.csv").write_text("\n".join((header, *rows, "")))
    names = sorted(set(BOARDS.values()))
    (folder / "common").mkdir(exist_ok=True)
    lines = ("AcceleratorName,Clouds", *(f"{name},[]" for name in names), "")
    (folder / "common/accelerators.csv").write_text("\n".join(lines))
    clouds = [CLOUD_REGISTRY.from_str(market) for market in TABLES]
    accounts.get_cached_enabled_clouds_or_refresh = lambda *_, **__: clouds


def place(task: sky.Task) -> sky.Resources:
    """The machine that `sky launch --dryrun` would name; raises where there is none."""
    with sky.Dag() as dag:
        dag.add(task)
    optimizer.Optimizer.optimize(dag, quiet=True)
    return task.best_resources
