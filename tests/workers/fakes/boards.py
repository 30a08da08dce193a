"""NVML and CUDA's driver as a file of `tests/data/boards` says that they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernels import codec
from workers.cuda.errors import CudaError
from workers.cuda.libcuda import Answers, bare
from workers.cuda.probe import Probe
from workers.nvrtc.library import Nvrtc

FOLDER = Path(__file__).parents[2] / "data" / "boards"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
NVRTC = Nvrtc((12, 9), (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121))
NOT_SUPPORTED, INVALID = 3, 2


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf8"))
    return found


class NVMLError(Exception):
    """As NVIDIA's module raises it: the code is `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class FakeNvml:
    """The module `pynvml`: a handle is a board's or an instance's dictionary; `xids` are raised, in order.

    An Xid comes where it is waited for `xid_after_ms` at least.
    """

    NVMLError = NVMLError

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self.boards: list[dict[str, Any]] = told.get("nvml", {}).get("boards", [])
        self.xids: list[int] = []
        self.xid_after_ms = 0
        self.lost = 0  # the code that a lost board gives

    def nvmlInit(self) -> None:
        if "init_error" in self._told:
            raise NVMLError(self._told["init_error"])

    def nvmlSystemGetDriverVersion(self) -> str:
        return str(self._told["nvml"]["nvmlSystemGetDriverVersion"])

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return int(self._told["nvml"]["nvmlSystemGetCudaDriverVersion_v2"])

    def nvmlDeviceGetCount(self) -> int:
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> dict[str, Any]:
        return self.boards[number]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, board: dict[str, Any], number: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = board["parts"]
        if number >= len(parts):
            raise NVMLError(INVALID)
        return parts[number]

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceRegisterEvents(self, board: dict[str, Any], kinds: int, events: object) -> None:
        assert kinds == 0x8

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        if not self.xids or timeout_ms < self.xid_after_ms:
            raise NVMLError(10)
        return SimpleNamespace(eventData=self.xids.pop(0))

    def __getattr__(self, call: str) -> Callable[..., Any]:
        """Every other call about a board: what the file has under its name, by the second argument if any."""
        if not call.startswith("nvmlDeviceGet"):
            raise AttributeError(call)

        def answer(board: dict[str, Any], *args: int) -> Any:
            if self.lost:
                raise NVMLError(self.lost)
            if call not in board:
                raise NVMLError(NOT_SUPPORTED)
            found = board[call]
            if isinstance(found, dict):
                if not args or str(args[0]) not in found:
                    return SimpleNamespace(**found)
                found = found[str(args[0])]
            return found

        return answer


def driver_of(told: Mapping[str, Any], environ: Mapping[str, str]) -> Callable[[], Answers]:
    """CUDA's driver under a mask of indices or names, as the CUDA C++ Programming Guide has it."""

    def ask() -> Answers:
        if "driver" not in told:
            raise OSError("libcuda.so.1: cannot open shared object file")
        if "code" in told["driver"]:
            raise CudaError(told["driver"]["code"], told["driver"]["call"])
        answers = codec.decode(Answers, told["driver"])
        mask = environ.get("CUDA_VISIBLE_DEVICES")
        if mask is None:
            return answers
        chosen = []
        for word in mask.split(","):
            at = int(word) if word.isdigit() else -1
            named = [one for one in answers.boards if bare(one.uuid).startswith(bare(word))]
            fitting = answers.boards[at : at + 1] if at >= 0 else tuple(named)
            if not fitting:
                break
            chosen.append(fitting[0])
        return Answers(answers.version, tuple(chosen))

    return ask


def machine(name: str, nvrtc: Nvrtc = NVRTC, **environ: str) -> Probe:
    """A look at the machine of that file, under that environment."""
    told = recorded(name)
    driver = driver_of(told, environ)
    return Probe(FakeNvml(told), environ, driver, lambda: nvrtc, lambda names: f"{names[-1]} 14.2.0")
