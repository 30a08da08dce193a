"""One board, opened by this process: what is built for it, what is loaded, and what lies in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kernels.model import Buffer, Device, Launch, Plan
from workers.backend import BoardFault, Unavailable, filled
from workers.backends import nvrtc as building
from workers.cuda import calls, code, memory
from workers.cuda.arch import Target, Toolkit, choose
from workers.cuda.calls import Call
from workers.cuda.code import Code, Modules
from workers.cuda.driver import Driver
from workers.cuda.errors import CudaError, During, row_of, sorted_out
from workers.cuda.memory import RESIDENT_SHARE, Allocator, Residents, Span
from workers.nvrtc.library import Nvrtc

Spans = dict[str, Span]  # by a buffer's name


@dataclass
class Board:
    """Made once a process; after a fault that poisons its context it can't be used again."""

    device: Device
    driver: Driver
    nvrtc: Nvrtc
    allocator: Allocator
    trouble: Callable[[], str]  # a fault of the board's own, in words; empty where it has none
    compile_text: building.CompileText
    modules: Modules = field(init=False)
    residents: Residents = field(init=False)
    target: Target = field(init=False)
    dead: str = ""  # why its context can't be used any more

    def __post_init__(self) -> None:
        self.modules = Modules(self.driver)
        with self.doing(During.ELSE):
            has = Toolkit(self.nvrtc.version, self.nvrtc.archs, self.driver.version())
            chosen = choose(self.driver.capability(), has)
            self.residents = Residents(self.allocator, self.driver.room()[1] // RESIDENT_SHARE)
        if isinstance(chosen, str):
            raise Unavailable(chosen)
        self.target = chosen

    @contextmanager
    def doing(self, during: During) -> Iterator[None]:
        """The vendor's codes as the errors that the contract knows."""
        if self.dead:
            raise BoardFault(f"this process can't use the board any more: {self.dead}")
        try:
            yield
        except CudaError as error:
            if row_of(error).sticky:
                self.dead = str(error)
            raise sorted_out(error, during, self.trouble) from None

    def flags(self, plan: Plan) -> tuple[str, ...]:
        """Empty where a plan has no text."""
        if not any(map(has_text, plan.launches)):
            return ()
        return building.flags(plan.build, self.target.arch, plan.options)

    def compiler(self, plan: Plan) -> str:
        """`NVRTC 12.9, cubin sm_86`, or whose code it is where a plan has no text."""
        if all(launch.library for launch in plan.launches):
            return self.driver.blas()
        if not any(map(has_text, plan.launches)):
            return "the catalog's own cubin"
        how = f"PTX {self.target.arch}, JIT" if self.target.is_ptx else f"cubin {self.target.arch}"
        return f"{self.nvrtc.label}, {how}"

    def codes(self, plan: Plan) -> tuple[Code | None, ...]:
        """What each launch runs, nothing for a library's; raises Rejected."""
        return tuple(
            None
            if launch.library
            else code.compiled(launch, self.nvrtc, self.target, self.flags(plan), self.compile_text)
            for launch in plan.launches
        )

    def prepare(self, plan: Plan) -> None:
        """Compiles and loads what a run of the plan will find done; raises Rejected."""
        codes = self.codes(plan)
        with self.doing(During.LOAD):
            for loaded in filter(None, codes):
                self.modules.entry(loaded)

    def calls(self, plan: Plan, codes: tuple[Code | None, ...], spans: Spans) -> tuple[Call, ...]:
        """The plan's launches, ready to be queued; modules are loaded."""
        at = {name: span.address for name, span in spans.items()}
        with self.doing(During.LOAD):
            pairs = zip(plan.launches, codes, strict=True)
            return tuple(self._call(launch, plan, at, loaded) for launch, loaded in pairs)

    def _call(self, launch: Launch, plan: Plan, at: Mapping[str, int], loaded: Code | None) -> Call:
        if loaded is None:
            return calls.of_library(launch, plan, at, self.driver)
        return calls.of_text(launch, plan, at, loaded, self.modules.entry(loaded), self.driver)

    def place(self, buffer: Buffer, image: np.ndarray, front: int) -> Span:
        """A new allocation with the image between guard bands."""
        span = self.allocator.allocate(image.nbytes, front, buffer.align)
        self.driver.upload(span.base, memory.guarded(image, span))
        return span

    def fetch(self, name: str, span: Span) -> tuple[np.ndarray, list[str]]:
        """What is in a buffer now, (nbytes,) uint8, and a line per broken guard band."""
        whole = self.driver.download(span.base, span.whole)
        return whole[span.front : span.front + span.nbytes], memory.broken(name, whole, span)


def has_text(launch: Launch) -> bool:
    return not launch.library and not code.built(launch)


def image_of(buffer: Buffer, images: Mapping[str, np.ndarray], turn: int) -> np.ndarray:
    """What a buffer holds before a run."""
    return images[buffer.name] if buffer.given else filled(buffer, turn)
