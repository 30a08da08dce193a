"""The processor as a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workers import machine


def test_slug_is_class_and_eight_hex_digits() -> None:
    device = machine.cpu_device()
    assert re.fullmatch(r"cpu-[a-z0-9_]+-[0-9a-f]{8}", device.slug)
    assert device.slug == f"{device.device_class}-{device.uuid[:8]}"
    assert device.slots == machine.usable_cores() >= 1


def test_machine_id_is_stable_and_does_not_show_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "machine-id"
    real.write_text("0123456789abcdef\n")
    monkeypatch.setattr(machine, "MACHINE_IDS", (tmp_path / "nope", real))
    first = machine.machine_id()
    assert first == machine.machine_id()
    assert len(first) == 32
    assert "0123456789abcdef" not in first
    real.write_text("fedcba9876543210\n")
    assert machine.machine_id() != first


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor: 0\nmodel name\t: Fast CPU @ 3 GHz: boost\n", "Fast CPU @ 3 GHz: boost"),
        ("Model : Small Board\n", "Small Board"),
    ],
)
def test_name_is_the_vendors_when_the_system_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    assert machine.cpu_name() == name


def test_name_is_the_architecture_when_nothing_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "nope")
    assert machine.cpu_name()
