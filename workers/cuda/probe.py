"""Looks for boards: quiet where there are none, and never with a context of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import workers
from kernels import codec
from kernels.model import Device
from workers.backend import Unavailable
from workers.cuda import libcuda, nvml
from workers.cuda.arch import Toolkit, choose, cuda_version, sm_of
from workers.cuda.errors import CudaError
from workers.cuda.fingerprint import Machine, device_of
from workers.cuda.libcuda import Answers, bare
from workers.cuda.nvml import NO_DRIVER, Facts, System
from workers.cuda.trouble import Watch
from workers.cuda.visible import visible
from workers.machine import cpu_device
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc
from workers.rented import rented
from workers.timed import BoardState

ANSWER_S = 60.0  # for a driver that wakes eight boards; one that is broken may never answer
CUPYS = ("cupy-cuda13x", "cupy-cuda12x")
RUNTIMES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")
ELSEWHERE = "; to run on GPUs, go where one is"
NO_LIBRARY = (
    "NVML shows boards, but CUDA's library libcuda.so.1 isn't here; a container needs "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)
CUPY_EXTRA = "CuPy isn't installed; ./run pip install -e '.[gpu]'"


def package(names: tuple[str, ...]) -> str:
    """`cupy-cuda12x 14.2.0`, the first of these that is installed; empty where none is."""
    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "cupy" if names is CUPYS and find_spec("cupy") else ""


@dataclass
class Probe:
    """One look at a machine; what it finds it asks for once."""

    nvml: Any  # NVIDIA's module, or None
    environ: Mapping[str, str]
    ask_driver: Callable[
        [], Answers
    ]  # under that environment; CudaError, or OSError where there is no driver
    find_nvrtc: Callable[[], Nvrtc] = library.find
    installed: Callable[[tuple[str, ...]], str] = package

    @cached_property
    def system(self) -> System:
        return System("", None, (), NO_DRIVER) if self.nvml is None else nvml.read(self.nvml)

    @cached_property
    def answers(self) -> Answers:
        """The driver's; Unavailable says why there are none."""
        try:
            answers = self.ask_driver()
        except OSError:
            raise Unavailable(NO_LIBRARY if self.system.boards else NO_DRIVER + ELSEWHERE) from None
        except CudaError as error:
            raise Unavailable(f"the driver doesn't answer ({error}); see nvidia-smi") from None
        if answers.version < libcuda.OLDEST:
            major, minor = cuda_version(answers.version)
            raise Unavailable(f"the driver is too old, it knows CUDA {major}.{minor}; install 525 or newer")
        return answers

    def devices(self) -> tuple[Device, ...]:
        """The boards that can be used here, in the mask's order; Unavailable with one line where none can."""
        try:
            return self._devices()
        except Unavailable as error:
            because = "cuda is unavailable because "
            raise Unavailable(because + str(error).removeprefix(because)) from None

    def state(self, uuid: str) -> BoardState:
        return BoardState() if self.nvml is None else nvml.state(self.nvml, uuid)

    def watch(self, uuid: str) -> Watch:
        """Made when a board is opened; called, it says what is wrong with it."""
        return Watch(self.nvml, uuid)

    def _devices(self) -> tuple[Device, ...]:
        known = {facts.uuid: facts for facts in self.system.boards}
        if not known:
            self._demand_driver()
        uuids = visible(self.environ, tuple(known), lambda: self.answers)
        _ = self.answers  # which says why where CUDA can't run what NVML shows
        found = self._nvrtc()
        if not self.installed(CUPYS):
            raise Unavailable(CUPY_EXTRA)
        machine = self._machine(found)
        devices = [device_of(known.get(uuid, Facts(uuid, "")), self._seen(uuid), machine) for uuid in uuids]
        reasons = {device.uuid: self._why_not(device, found) for device in devices}
        usable = tuple(device for device in devices if not reasons[device.uuid])
        if not usable:
            raise Unavailable(next(iter(reasons.values())))
        return usable

    def _demand_driver(self) -> None:
        """Whether it is worth asking further; a machine without any driver costs nothing."""
        if self.system.complaint == NO_DRIVER:
            _ = self.answers
        elif self.system.complaint:
            raise Unavailable(self.system.complaint)

    def _nvrtc(self) -> Nvrtc:
        try:
            return self.find_nvrtc()
        except Unavailable as error:
            raise Unavailable(str(error).removeprefix("nvrtc is unavailable because ")) from None

    def _seen(self, uuid: str) -> libcuda.Seen | None:
        """The driver's description of a board; none where it doesn't see it, as of most MIG instances."""
        try:
            return next((one for one in self.answers.boards if bare(one.uuid) == bare(uuid)), None)
        except Unavailable:
            return None

    def _cuda(self) -> int | None:
        if self.system.cuda is not None:
            return self.system.cuda
        try:
            return self.answers.version
        except Unavailable:
            return None

    def _why_not(self, device: Device, found: Nvrtc) -> str:
        """Why code can't be built and run on a board; empty where it can, or where too little is known."""
        sm, cuda = sm_of(dict(device.fingerprint).get("sm", "")), self._cuda()
        if not sm or not cuda:
            return ""
        chosen = choose(sm, Toolkit(found.version, found.archs, cuda_version(cuda)))
        return f"{device.name} can't be used: {chosen}" if isinstance(chosen, str) else ""

    def _machine(self, found: Nvrtc) -> Machine:
        words = tuple(pair for pair in cpu_device().fingerprint if pair[0] in ("cpu", "os"))
        return Machine(
            driver=self.system.driver,
            cuda=self._cuda(),
            nvrtc=found.label,
            cupy=self.installed(CUPYS),
            runtime=self.installed(RUNTIMES),
            words=words + rented(self.environ),
        )


def look() -> Probe:
    """This machine, as this process's environment lets it be seen."""
    return Probe(_pynvml(), dict(os.environ), ask_driver)


def ask_driver() -> Answers:
    """The driver's answers, from a process of its own: a broken driver may crash or hang what asks it.

    The environment is this one's, so that it is the driver that reads the mask.
    """
    libcuda.library()  # OSError at once, and no process, where there is no driver
    path = [str(Path(workers.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        asked = subprocess.run(
            [sys.executable, "-P", "-m", "workers.cuda.libcuda"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
        said = json.loads(asked.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise CudaError(999, "cuInit") from None
    if "answers" not in said:
        raise OSError("no driver") if said["code"] < 0 else CudaError(said["code"], said["call"])
    return codec.decode(Answers, said["answers"])


def _pynvml() -> Any:
    try:
        import pynvml  # of the package nvidia-ml-py, which a bare worker may lack
    except ModuleNotFoundError:
        return None
    return pynvml
