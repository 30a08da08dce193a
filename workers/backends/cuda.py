"""The CUDA text on a real board: compiled by NVRTC as `nvrtc` does, loaded and launched by CuPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.model import Build, Device, Options, Plan
from workers.backend import NO_OPTIONS, BoardFault, Run, Unavailable
from workers.backends import nvrtc as building
from workers.cuda import execution, pin, probe
from workers.cuda import rounds as passes
from workers.cuda.board import Board
from workers.cuda.driver import Driver, Opener
from workers.cuda.errors import CudaError, During, sorted_out
from workers.cuda.flush import Flush
from workers.cuda.memory import Allocator, Plain
from workers.cuda.trouble import Watch
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc
from workers.timed import BoardState, Rounds, Timing

ALLOCATOR = "FARM_CUDA_ALLOCATOR"  # `flush` puts every buffer's end against an unmapped page; else `plain`


def open_cupy() -> Driver:
    """Imports CuPy, which makes no context yet; raises Unavailable."""
    try:
        # Imported late: it imports the vendor's library, which most machines lack.
        from workers.cuda.cupy_driver import CupyDriver

        return CupyDriver()
    except ImportError as error:
        raise Unavailable(
            f"cuda is unavailable because CuPy doesn't load ({str(error).splitlines()[0][:120]}); "
            "./run pip install -e '.[gpu]'"
        ) from None


def allocator(driver: Driver) -> Allocator:
    return Flush() if os.environ.get(ALLOCATOR) == "flush" else Plain(driver)


@dataclass
class Cuda:
    """One process holds one board, from its first case to its end."""

    open_driver: Opener = open_cupy
    find_nvrtc: Callable[[], Nvrtc] = library.find
    compile_text: building.CompileText = library.compile_text
    look: Callable[[], probe.Probe] = probe.look
    allocator: Callable[[Driver], Allocator] = allocator
    name: str = "cuda"
    orders: int = 2  # the second time every buffer that doesn't stay on the board has moved
    _board: Board | None = field(default=None, repr=False)

    def devices(self) -> tuple[Device, ...]:
        """The boards that this process may use; makes no context. Raises Unavailable."""
        return self.look().devices()

    def toolchain(self, build: Build, options: Options = NO_OPTIONS) -> tuple[str, str]:
        return self.find_nvrtc().label, " ".join(building.said(build, options))

    def open(self, device: Device) -> None:
        self._open(device)

    def prepare(self, plan: Plan, device: Device) -> None:
        self._open(device).prepare(plan)

    def watch(self, device: Device) -> Watch:
        return self.look().watch(device.uuid)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        return execution.run(self._open(device), plan, images, turn)

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        board = self._open(device)
        return passes.timed(board, plan, copies, rounds, turn, lambda: self.state(device))

    def state(self, device: Device) -> BoardState:
        return self.look().state(device.uuid)

    def _open(self, device: Device) -> Board:
        """The board, pinned and looked at; BoardFault where this process holds another one."""
        if self._board is None:
            found = self.find_nvrtc()
            pin.clean(os.environ, device.uuid)
            driver = self.open_driver()
            watch = self.watch(device)
            _demand_pinned(driver, device.uuid, watch)
            self._board = Board(device, driver, found, self.allocator(driver), watch, self.compile_text)
        if self._board.device.uuid != device.uuid:
            raise BoardFault(
                f"this process holds board {self._board.device.uuid}; a case for {device.uuid} needs its own"
            )
        return self._board


def _demand_pinned(driver: Driver, uuid: str, trouble: Callable[[], str]) -> None:
    try:
        seen = driver.boards()
    except CudaError as error:
        raise sorted_out(error, During.ELSE, trouble) from None
    except OSError:
        raise BoardFault("the NVIDIA driver is gone") from None
    pin.demand(seen, uuid)


BACKEND = Cuda()
