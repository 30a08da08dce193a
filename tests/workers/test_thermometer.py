"""Temperatures where a machine tells them, and none where it doesn't."""

from __future__ import annotations

from pathlib import Path

from workers import thermometer
from workers.machine import machine_id


class Nvml:
    """Two boards, of which the second won't say; or no driver at all."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self, has_driver: bool = True) -> None:
        self._has_driver = has_driver

    def nvmlInit(self) -> None:
        if not self._has_driver:
            raise self.NVMLError

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        if handle:
            raise self.NVMLError
        return 61


def test_boards_that_tell_are_known_by_uuid() -> None:
    assert thermometer.gpus(Nvml()) == {"GPU-0": 61.0}


def test_a_machine_without_driver_or_module_tells_nothing() -> None:
    assert thermometer.gpus(Nvml(has_driver=False)) == thermometer.gpus(None) == {}


def test_the_processors_warmest_sensor_counts(tmp_path: Path) -> None:
    for number, (name, *values) in enumerate([("k10temp", 41_500, 55_250), ("nvme", 90_000)]):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        for sensor, value in enumerate(values):
            (folder / f"temp{sensor}_input").write_text(f"{value}\n")
    assert thermometer.processor(tmp_path) == {machine_id(): 55.25}
    assert thermometer.processor(tmp_path / "none") == {}


def test_this_machine_answers_whatever_it_has() -> None:
    assert all(-50 < degrees < 150 for degrees in thermometer.celsius().values())
