"""The target GPUs: figures that a data sheet can have, and slugs that a cell's name can have."""

import re

import pytest

from farm.targets import TargetGpu, target_gpus


def test_targets_reach_from_pascal_to_blackwell_once_each() -> None:
    classes = [target.device_class for target in target_gpus()]
    assert len(classes) == len(set(classes)) >= 20
    assert (target_gpus()[0].sm, target_gpus()[-1].sm) == ("sm_61", "sm_120")
    assert {"h200", "b200", "rtx-3060"} <= set(classes)


@pytest.mark.parametrize("target", target_gpus(), ids=lambda target: target.device_class)
def test_a_target_is_plausible_and_says_where_it_is_from(target: TargetGpu) -> None:
    assert re.fullmatch(r"[a-z0-9_.-]+", target.device_class)
    assert re.fullmatch(r"sm_\d+", target.sm)
    assert 6 <= target.memory_gb <= 300
    assert 200 <= target.bandwidth_gbs <= 10_000
    assert target.source.startswith("NVIDIA")


PINS = re.compile(r"(?P<rate>[0-9.]+) Gb/s, (?P<bits>[0-9]+) bit")
BY_PINS = [target for target in target_gpus() if PINS.search(target.source)]


def test_some_targets_tell_the_rate_and_width_of_their_memory() -> None:
    assert len(BY_PINS) >= 10


@pytest.mark.parametrize("target", BY_PINS, ids=lambda target: target.device_class)
def test_a_bandwidth_is_the_rate_times_the_width(target: TargetGpu) -> None:
    pins = PINS.search(target.source)
    assert pins is not None
    assert target.bandwidth_gbs == pytest.approx(float(pins["rate"]) * int(pins["bits"]) / 8, abs=0.5)
