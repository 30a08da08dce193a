"""The rule of device classes gives the boards of the farm's own table their columns."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from workers.cuda.device_class import class_of

TARGETS = json.loads((files("farm") / "targets.json").read_text(encoding="utf8"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["device_class"])
def test_a_target_has_the_class_that_its_board_will_have(target: dict[str, object]) -> None:
    memory_gb = target["memory_gb"]
    assert isinstance(memory_gb, int)
    assert class_of(str(target["name"]), memory_gb * 2**30) == target["device_class"]


@pytest.mark.parametrize(
    ("name", "memory_gb", "device_class"),
    [
        ("NVIDIA GeForce RTX 3060", 8, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 3060", 11.7, "rtx-3060"),  # as NVML rounds twelve
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 6, "rtx-3060-laptop"),
        ("NVIDIA T4", 15, "t4"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10, "a100-sxm4-80gb-mig-1g.10gb"),
        ("NVIDIA A100-SXM4-80GB MIG", 10, "a100-sxm4-80gb-mig-unknown"),
        ("Quadro RTX 6000", 24, "quadro-rtx-6000"),
        ("", 0, "unnamed"),
        ("<script>", 0, "script"),
    ],
)
def test_what_boards_share_is_a_class_and_what_they_dont_is_in_it(
    name: str, memory_gb: float, device_class: str
) -> None:
    assert class_of(name, int(memory_gb * 2**30)) == device_class
