"""What is found on machines from Pascal to Blackwell, under MIG, under masks, without a driver."""

from __future__ import annotations

import contextlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from kernels.model import Device
from tests.workers.fakes.boards import NAMES, NVRTC, FakeNvml, machine, recorded
from workers.backend import Unavailable
from workers.cuda import libcuda, nvml, probe, trouble
from workers.cuda.fingerprint import Machine, device_of
from workers.cuda.libcuda import Answers
from workers.cuda.nvml import Facts
from workers.cuda.trouble import Watch
from workers.nvrtc.library import Nvrtc
from workers.rented import rented
from workers.timed import BoardState

FIRST_PART, SECOND_PART = (
    "MIG-11111111-0000-5000-8000-000000000001",
    "MIG-22222222-0000-5000-8000-000000000002",
)
RTX_5090, B200 = "GPU-a1b2c3d4-0000-4000-8000-000000000120", "GPU-a1b2c3d4-0000-4000-8000-000000000100"


def classes(devices: tuple[Device, ...]) -> list[str]:
    return [device.device_class for device in devices]


def why_none(found: probe.Probe) -> str:
    with pytest.raises(Unavailable) as why:
        found.devices()
    return str(why.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_where_it_is_from(name: str) -> None:
    told = recorded(name)["provenance"]
    assert told.startswith(("Written from NVIDIA's documentation", "recorded on a board"))


def test_the_vendors_module_has_every_call_that_is_made() -> None:
    texts = [Path(module.__file__ or "").read_text(encoding="utf8") for module in (nvml, trouble)]
    calls = {name for text in texts for name in re.findall(r"\bnvml(?:System|Device|Event|Init)\w*", text)}
    asked = {name for name in calls if name != "nvmlEventTypeXidCriticalError"}
    assert len(asked) > 20
    assert {name for name in asked if not callable(getattr(pynvml, name, None))} == set()
    assert pynvml.nvmlEventTypeXidCriticalError == trouble.XID_EVENT
    reasons = {value for name, value in vars(pynvml).items() if name.startswith("nvmlClocksThrottleReason")}
    assert set(nvml.THROTTLES) <= reasons


@pytest.mark.parametrize(
    ("name", "device_class", "words"),
    [
        ("pascal", "gtx-1080-ti", {"sm": "sm_61", "driver": "580.95.05", "sms": "28"}),
        ("volta", "v100-sxm2-32gb", {"sm": "sm_70", "retired_pages": "3", "l2_bytes": "6291456"}),
        ("turing", "t4", {"sm": "sm_75", "pcie": "gen 3 x8", "power_cap_w": "70", "retired_pages": "0"}),
        ("ampere", "rtx-3060", {"sm": "sm_86", "driver_cuda": "12.9", "sm_clock_mhz": "2130"}),
        ("ada", "rtx-4090", {"sm": "sm_89", "memory_bytes": str(24 << 30)}),
        ("hopper", "h100-80gb-hbm3", {"sm": "sm_90", "remapped_rows": "0", "pcie": "gen 5 x16"}),
        ("without_nvml", "l4", {"sm": "sm_89", "sms": "58", "driver_cuda": "12.8"}),
    ],
)  # fmt: skip
def test_a_board_is_described_by_what_is_told(name: str, device_class: str, words: dict[str, str]) -> None:
    (device,) = machine(name).devices()
    told = dict(device.fingerprint)
    assert device.device_class == device_class
    assert device.slug.startswith(f"{device_class}-")
    assert {word: told.get(word) for word in words} == words
    assert told["nvrtc"] == "NVRTC 12.9"
    assert told["class_rule"] == "1"
    assert {"os", "cpu"} <= set(told)


def test_what_a_board_doesnt_tell_is_left_out_and_zero_is_not() -> None:
    ampere, turing = (dict(machine(name).devices()[0].fingerprint) for name in ("ampere", "turing"))
    assert {"ecc", "retired_pages", "remapped_rows", "mig"}.isdisjoint(ampere)
    assert turing["retired_pages"] == "0"


def test_the_fingerprint_is_the_same_at_any_moment() -> None:
    found = machine("turing")
    before = found.devices()
    found.nvml.boards[0]["nvmlDeviceGetTemperature"] = 40
    found.nvml.boards[0]["nvmlDeviceGetPowerUsage"] = 9000
    assert machine("turing").devices() == before


def test_a_boards_state_is_what_it_does_now() -> None:
    found = machine("turing")
    assert found.state(recorded("turing")["nvml"]["boards"][0]["nvmlDeviceGetUUID"]) == BoardState(
        585, 5001, 84, 69.9, 70.0, ("sw_power_cap", "sw_thermal"), 0, 0
    )
    assert found.state("GPU-unknown") == BoardState()
    assert machine("mig").state(SECOND_PART).temperature_c == 38  # of the board that it is part of


def test_instances_of_a_cut_board_are_boards_and_the_board_itself_is_none() -> None:
    devices = machine("mig").devices()
    assert classes(devices) == ["a100-sxm4-80gb-mig-1g.10gb", "a100-sxm4-80gb-mig-3g.40gb"]
    assert [device.uuid for device in devices] == [FIRST_PART, SECOND_PART]
    first, second = (dict(device.fingerprint) for device in devices)
    assert (first["sms"], second["sms"]) == ("14", "42")
    assert first["mig"] == "part of GPU-a1b2c3d4-0000-4000-8000-000000000080"
    assert "l2_bytes" not in second  # the driver shows the first alone


@pytest.mark.parametrize(
    ("name", "mask", "uuids"),
    [
        ("blackwell", None, [RTX_5090, B200]),
        ("blackwell", "0", [B200]),  # CUDA's first is the fastest, which is NVML's second
        ("blackwell", "1,0", [RTX_5090, B200]),
        ("blackwell", B200, [B200]),
        ("blackwell", f"{RTX_5090},{B200}", [RTX_5090, B200]),
        ("blackwell", "GPU-a1b2c3d4-0000-4000-8000-00000000010", [B200]),  # cut short
        (
            "blackwell",
            f"{B200},GPU-ffff,{RTX_5090}",
            [B200],
        ),  # nothing counts behind a name that fits nothing
        ("mig", SECOND_PART, [SECOND_PART]),
        ("mig", f"{SECOND_PART},{FIRST_PART}", [SECOND_PART, FIRST_PART]),
        ("mig", "0", [FIRST_PART]),
        ("without_nvml", "0", ["GPU-a1b2c3d4-0000-4000-8000-0000000000d0"]),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(name: str, mask: str | None, uuids: list[str]) -> None:
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert [device.uuid for device in machine(name, **environ).devices()] == uuids


@pytest.mark.parametrize("mask", ["", "-1", "NoDevFiles"])
def test_a_mask_that_hides_everything_is_named(mask: str) -> None:
    assert "hides every board; unset it" in why_none(machine("ampere", CUDA_VISIBLE_DEVICES=mask))


def test_a_mask_of_another_machine_is_named() -> None:
    told = why_none(machine("ampere", CUDA_VISIBLE_DEVICES=B200))
    assert f"CUDA_VISIBLE_DEVICES names {B200}, which isn't here; there are GPU-a1b2c3d4" in told
    assert "7 lets no board through; unset it" in why_none(machine("ampere", CUDA_VISIBLE_DEVICES="7"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "there is no NVIDIA driver; to run on GPUs, go where one is"),
        ("unloaded", "the NVIDIA driver isn't loaded; modprobe nvidia"),
        ("mismatch", "are of different versions; restart the machine"),
        ("old_driver", "drivers of CUDA 12, this one knows CUDA 11.4; install driver 525 or newer"),
    ],
)  # fmt: skip
def test_where_nothing_can_run_one_line_says_why(name: str, words: str) -> None:
    told = why_none(machine(name))
    assert told.startswith("cuda is unavailable because ")
    assert words in told
    assert "\n" not in told


def test_a_container_without_cudas_library_offers_no_board() -> None:
    def away() -> Answers:
        raise OSError("libcuda.so.1: cannot open shared object file")

    told = why_none(replace(machine("ampere"), ask_driver=away))
    assert "libcuda.so.1 isn't here; a container needs NVIDIA_DRIVER_CAPABILITIES=compute,utility" in told


class OldDriver:
    """libcuda before CUDA 11.4: a call that it lacks is an AttributeError of ctypes."""

    def cuDriverGetVersion(self, number: Any) -> int:
        number._obj.value = 11020
        return 0


def test_a_driver_without_the_calls_that_are_made_is_too_old() -> None:
    answers = libcuda.answers(OldDriver())
    assert answers == Answers(11020, ())
    told = why_none(replace(machine("none"), nvml=None, ask_driver=lambda: answers))
    assert told.endswith("the driver is too old, it knows CUDA 11.2; install 525 or newer")


def test_a_compiler_too_new_for_the_board_is_said_before_any_job() -> None:
    nvrtc_13 = Nvrtc((13, 0), (75, 80, 86, 90, 100, 120))
    told = why_none(machine("pascal", nvrtc_13))
    assert "NVIDIA GeForce GTX 1080 Ti can't be used: NVRTC 13.0 builds for sm_75 and newer" in told


def test_a_board_that_can_be_used_is_found_beside_one_that_cant() -> None:
    old = Nvrtc((12, 9), tuple(arch for arch in NVRTC.archs if arch >= 110))
    assert classes(machine("blackwell", old).devices()) == ["rtx-5090"]


def test_lacking_software_is_named_where_there_is_a_board() -> None:
    bare = replace(machine("ampere"), installed=lambda names: "")
    assert why_none(bare).endswith("CuPy isn't installed; ./run pip install -e '.[gpu]'")

    def away() -> Nvrtc:
        raise Unavailable("nvrtc is unavailable because NVIDIA's compiler isn't installed; x")

    told = why_none(replace(machine("ampere"), find_nvrtc=away))
    assert told == "cuda is unavailable because NVIDIA's compiler isn't installed; x"


def test_a_machine_without_nvml_and_driver_is_asked_nothing_more() -> None:
    def fails() -> Nvrtc:
        raise AssertionError("asked for the compiler")

    assert "no NVIDIA driver" in why_none(replace(machine("none"), nvml=None, find_nvrtc=fails))


def test_this_machine_answers_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(Unavailable):
        assert probe.look().devices()
    assert capfd.readouterr() == ("", "")


def test_nothing_of_the_vendors_is_imported_to_list_backends() -> None:
    from workers import backend

    before = set(sys.modules)
    backend.backend("cuda")
    assert not {
        name for name in set(sys.modules) - before if name.split(".")[0] in ("cupy", "cuda", "pynvml")
    }


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, ()),
        ({"RUNPOD_POD_ID": "abc"}, (("provider", "runpod"), ("instance", "abc"))),
        (
            {"VAST_CONTAINERLABEL": "C.1", "FARM_LABELS": "price=0.21 USD/h, provider=vast, a=b,instance="},
            (("provider", "vast"), ("instance", "C.1"), ("price", "0.21 USD/h")),
        ),
    ],
)  # fmt: skip
def test_provider_and_price_come_from_environment_or_label(
    environ: dict[str, str], told: tuple[tuple[str, str], ...]
) -> None:
    assert rented(environ) == told


def test_a_board_that_tells_its_name_alone_is_a_device() -> None:
    device = device_of(Facts("GPU-1234", ""), None, Machine("", None, "", "", "", ()))
    assert (device.device_class, device.fingerprint) == ("unnamed", (("class_rule", "1"),))


@pytest.mark.parametrize(
    ("xids", "lost", "ecc", "words"),
    [
        ([], 0, 0, ""),
        ([13, 31, 43], 0, 0, ""),  # what a kernel can do by itself
        ([8, 46, 109], 0, 0, ""),  # and one that never ends
        ([31, 79], 0, 0, "Xid 79, the board has fallen off the bus"),
        ([], 15, 0, "NVML says that the board is lost"),
        ([], 0, 2, "2 uncorrected ECC errors since the board was opened"),
    ],
)
def test_trouble_of_the_boards_own_is_told_from_a_kernels(
    xids: list[int], lost: int, ecc: int, words: str
) -> None:
    nvml = FakeNvml(recorded("turing"))
    watch = Watch(nvml, nvml.boards[0]["nvmlDeviceGetUUID"])
    nvml.xids, nvml.lost = xids, lost
    nvml.boards[0]["nvmlDeviceGetTotalEccErrors"] = {"1": ecc, "0": 0}
    assert watch() == words


def test_an_xid_that_comes_soon_after_is_waited_for() -> None:
    nvml = FakeNvml(recorded("turing"))
    watch = Watch(nvml, nvml.boards[0]["nvmlDeviceGetUUID"])
    nvml.xids, nvml.xid_after_ms = [79], 150
    assert watch() == "Xid 79, the board has fallen off the bus"


def test_xids_of_a_kernels_own_are_waited_behind_no_longer_than_that() -> None:
    nvml, now = FakeNvml(recorded("turing")), iter([0.0, 0.0, 0.15, 0.3])
    watch = Watch(nvml, nvml.boards[0]["nvmlDeviceGetUUID"], clock=lambda: next(now))
    nvml.xids = [31, 43]
    assert watch() == ""
    assert list(now) == []


def test_a_board_nobody_can_ask_has_no_trouble() -> None:
    assert Watch(None, "GPU-1")() == ""
    assert Watch(FakeNvml(recorded("ampere")), "GPU-other")() == ""


def test_the_drivers_answers_are_read_by_its_own_calls() -> None:
    """Without a driver the library isn't found, and no process is started."""
    found = probe.Probe(None, {}, lambda: Answers(12080, ()))
    assert "the driver has no board" in why_none(found)
