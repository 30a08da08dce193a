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


def test_copies_of_one_image_are_told_apart_by_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARM_MACHINE", raising=False)
    plain = machine.machine_id()
    found = {plain}
    for name in ("one", "two"):
        monkeypatch.setenv("FARM_MACHINE", name)
        found.add(machine.machine_id())
        assert machine.cpu_device().slug.endswith(machine.machine_id()[:8])
    assert len(found) == 3
    monkeypatch.setenv("FARM_MACHINE", "")
    assert machine.machine_id() == plain


def test_a_boot_is_told_without_its_real_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "boot_id"
    monkeypatch.setattr(machine, "BOOT_ID", real)
    assert machine.boot_id() == ""
    real.write_text("0fedcba9-8765\n")
    first = machine.boot_id()
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first == machine.boot_id()
    real.write_text("89abcdef-0123\n")
    assert machine.boot_id() != first


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


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 64 KiB of memory, 32 of them available, and a folder for its control groups."""
    (tmp_path / "meminfo").write_text("MemTotal: 64 kB\nMemFree: 8 kB\nMemAvailable: 32 kB\n")
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    return tmp_path / "cgroup"


def told(groups: Path, files: dict[str, object]) -> None:
    """Writes what the kernel would say."""
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n")


V1, V2 = "memory/memory.limit_in_bytes", "memory.max"


@pytest.mark.parametrize(
    ("files", "nbytes"),
    [
        ({}, 65536),
        ({V2: 40960}, 40960),
        ({V1: 40960}, 40960),
        ({V1: 40960, V2: 50000}, 40960),
        ({V1: 50000, V2: 40960}, 40960),
        ({V2: "max", V1: 2**63 - 4096}, 65536),  # no limit, as either version writes it
        ({V2: "nonsense", V1: ""}, 65536),
    ],
)
def test_memory_is_the_least_of_the_machine_and_both_versions_of_groups(
    files: dict[str, object], nbytes: int, groups: Path
) -> None:
    told(groups, files)
    assert machine.memory_bytes() == nbytes


@pytest.mark.parametrize(
    ("own", "files", "nbytes"),
    [
        ("0::/jobs/7", {"jobs/7/memory.max": 20000, V2: 50000}, 20000),
        ("0::/jobs/7", {"jobs/7/memory.max": "max", "jobs/memory.max": 30000}, 30000),
        ("5:cpu:/a\n4:cpu,memory:/jobs/7", {"memory/jobs/7/memory.limit_in_bytes": 20000, V1: 2**62}, 20000),
        ("4:memory:/docker/ab12", {V1: 40960}, 40960),  # seen from outside; here the container is the root
        ("0::/jobs/7", {"jobs/8/memory.max": 20000}, 65536),
        ("nonsense", {V2: 40960}, 40960),
    ],
)
def test_the_group_that_a_process_is_in_counts_with_those_above_it(
    own: str, files: dict[str, object], nbytes: int, groups: Path
) -> None:
    (groups.parent / "own").write_text(own)
    told(groups, files)
    assert machine.memory_bytes() == nbytes


V2_USED = {"memory.current": 30000, "memory.stat": "anon 9000\ninactive_file 15000\nactive_file 5000"}
V1_USED = {
    "memory/memory.usage_in_bytes": 30000,
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 15000\ntotal_active_file 5000",
}


@pytest.mark.parametrize(
    ("files", "nbytes"),
    [
        ({}, 32768),
        ({V2: 40960} | V2_USED, 40960 - 10000),  # what files take can be let go
        ({V1: 40960} | V1_USED, 40960 - 10000),
        ({V2: 20000} | V2_USED, 10000),
        ({V2: 60000} | V2_USED, 32768),  # the machine has less than that left
        ({V2: 9000} | V2_USED, 0),  # the limit was lowered below what is held
        ({V2: "max"} | V2_USED, 32768),
        ({V2: 20000}, 20000),  # nothing says what is held
    ],
)
def test_free_memory_is_no_more_than_a_group_has_left(
    files: dict[str, object], nbytes: int, groups: Path
) -> None:
    told(groups, files)
    assert machine.free_bytes() == nbytes
