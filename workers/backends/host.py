"""The CUDA text itself, compiled by the machine's C++ compiler and executed on the CPU."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels import source
from kernels.evidence import LaunchRecord
from kernels.model import Arg, Buffer, BufferArg, Build, Device, Launch, Options, Plan, Role
from workers.backend import NO_OPTIONS, Run, filled
from workers.host import compiler, libraries
from workers.host.check import Checker
from workers.host.memory import Arena, alignment
from workers.host.module import Argument, Module
from workers.machine import cpu_device
from workers.state import compile_cache
from workers.timed import BoardState, Rounds, Timing, rewritten

# What a GPU does in hardware and the host's runtime in code of its own.
SUBSTITUTE = re.compile(r"\b(expf|rsqrtf|halves_fma|halves_sub)\s*\(")


@dataclass(frozen=True)
class Loaded:
    """A text ready to launch."""

    module: Module
    digest: str  # SHA-256 of the module's file
    substitutes: tuple[str, ...]


class Host:
    name = "host"
    orders = 2  # lanes, warps and blocks ascending, then descending

    def __init__(self, text: Callable[[str, str], str] = source.text) -> None:
        self._text = text  # of a kernel id and a kind
        # By digest of the text, build, options and entries.
        self._loaded: dict[tuple[str, Build, Options, tuple[str, ...]], Loaded] = {}

    def devices(self) -> tuple[Device, ...]:
        compiler.find()
        return (cpu_device(),)

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        """Launches in order, inputs sealed, guards checked behind every launch.

        In the check build a launch that is found wrong is the last.
        """
        by_library = all(launch.library for launch in plan.launches)
        version, flags = (libraries.blas(), "") if by_library else self.toolchain(plan.build, plan.options)
        began = time.perf_counter()
        texts = [None if one.library else self._load(one, plan) for one in plan.launches]
        compile_us = (time.perf_counter() - began) * 1e6
        arena = _fill(plan, images, turn)
        checker = _watch(plan, arena) if plan.build is Build.CHECK else None
        records, guards = [], []
        with arena.sealed(buffer.name for buffer in plan.buffers if buffer.role is Role.IN):
            for number, (launch, text) in enumerate(zip(plan.launches, texts, strict=True)):
                records.append(
                    _launch(launch, text, plan, arena, turn % self.orders, checker)
                    if text
                    else libraries.call(launch, _arrays(launch, plan, arena))
                )
                guards += [f"launch {number} {launch.kernel}: {line}" for line in _written(plan, arena)]
                if checker and checker.findings:
                    break
        return Run(
            images={buffer.name: _collect(buffer, images, arena) for buffer in plan.buffers},
            launches=tuple(records),
            guards=tuple(guards),
            compiler=version,
            flags=flags,
            compile_us=compile_us,
            substitutes=tuple(sorted({name for text in texts if text for name in text.substitutes})),
            findings=tuple(checker.findings) if checker else (),
        )

    def time(
        self,
        plan: Plan,
        copies: Sequence[Mapping[str, np.ndarray]],
        device: Device,
        rounds: Rounds,
        turn: int,
    ) -> Timing:
        """As the contract has it, by this processor's clock: it says nothing about any GPU."""
        texts = [None if one.library else self._load(one, plan) for one in plan.launches]
        arenas = [_fill(plan, images, turn) for images in copies]
        picked = copies[rounds.chosen % len(copies)]
        chosen = _fill(plan, picked, turn)
        for arena in (*arenas, chosen):
            _pass(plan, texts, arena, slice(plan.setup))
        behind, took = slice(plan.setup, None), []
        before = {name: filled(plan.buffer(name), turn) for name in rewritten(plan)}
        launches: tuple[LaunchRecord, ...] = ()
        for number in range(rounds.warmups):
            _pass(plan, texts, arenas[number % len(arenas)], behind)
        for number in range(rounds.batches * rounds.passes):
            is_chosen = number == rounds.chosen
            arena = chosen if is_chosen else arenas[number % len(arenas)]
            for name, image in before.items():
                arena.buffers[name].view[:] = image
            records = _pass(plan, texts, arena, behind)
            took.append(sum(record.elapsed_us for record in records))
            launches = tuple(records) if is_chosen else launches
        by_batch = np.array(took).reshape(rounds.batches, rounds.passes).mean(axis=1)
        version, flags = self.toolchain(plan.build, plan.options)
        held = {buffer.name: _collect(buffer, picked, chosen) for buffer in plan.buffers}
        run = Run(held, launches, tuple(_written(plan, chosen)), version, flags)
        return Timing(tuple(map(float, by_batch)), run, self.state(device), self.state(device))

    def state(self, device: Device) -> BoardState:
        """Nothing: a processor's clocks and heat are not this backend's to tell."""
        return BoardState()

    def toolchain(self, build: Build, options: Options = NO_OPTIONS) -> tuple[str, str]:
        used = compiler.find()
        return used.version, " ".join(compiler.flags(build, used, options))

    def _load(self, launch: Launch, plan: Plan) -> Loaded:
        text = (
            source.text(launch.kernel, launch.kind, launch.unit)
            if launch.unit
            else self._text(launch.kernel, launch.kind)
        )
        entries = told_entries(launch, plan)
        key = (hashlib.sha256(text.encode()).hexdigest(), plan.build, plan.options, entries)
        if key not in self._loaded:
            name = launch.unit or f"{launch.entry}.cu"
            path = compiler.build(
                text, name, plan.build.value, compile_cache(), entries, options=plan.options
            )
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            bare = compiler.COMMENT.sub(" ", text)
            self._loaded[key] = Loaded(
                Module(path, name, compiler.files(text)), digest, tuple(sorted(set(SUBSTITUTE.findall(bare))))
            )
        return self._loaded[key]


def told_entries(launch: Launch, plan: Plan) -> tuple[str, ...]:
    """The entries of a unit that the plan launches: a text with a unit may have templates and namespaces."""
    same = (launch.kernel, launch.kind, launch.unit)
    found = {one.entry for one in plan.launches if one.unit and (one.kernel, one.kind, one.unit) == same}
    return tuple(sorted(found))


def _fill(plan: Plan, images: Mapping[str, np.ndarray], turn: int) -> Arena:
    """Guarded buffers: inputs copied in, everything else filled.

    In the first turn they are flush against their pages, in the second and in the check build, which watches
    every access, as a GPU's allocator has them: a kernel that goes by a bit of an address meets both.
    """
    arena, as_allocated = Arena(), plan.build is Build.CHECK or turn % 2 == 1
    for buffer in plan.buffers:
        given = images[buffer.name] if buffer.given else filled(buffer, turn)
        arena.place(buffer.name, given, alignment(buffer, as_allocated))
    return arena


def _pass(plan: Plan, texts: Sequence[Loaded | None], arena: Arena, some: slice) -> list[LaunchRecord]:
    """Some of a plan's launches in order, inputs sealed."""
    with arena.sealed(buffer.name for buffer in plan.buffers if buffer.role is Role.IN):
        return [
            _launch(launch, text, plan, arena, 0, None)
            if text
            else libraries.call(launch, _arrays(launch, plan, arena))
            for launch, text in zip(plan.launches[some], texts[some], strict=True)
        ]


def _watch(plan: Plan, arena: Arena) -> Checker:
    checker = Checker()
    for buffer in plan.buffers:
        is_filled = buffer.role is Role.INOUT or buffer.fill is not None
        checker.watch(arena.buffers[buffer.name], buffer.role is Role.IN, is_filled)
    return checker


def _launch(
    launch: Launch, text: Loaded, plan: Plan, arena: Arena, order: int, checker: Checker | None
) -> LaunchRecord:
    args = [_argument(arg, plan, arena) for arg in launch.args]
    size = launch.grid, launch.block, launch.dynamic_shared_bytes
    done = text.module.launch(launch.entry, *size, args, order, checker=checker)
    return LaunchRecord(
        launch.kernel,
        done.entry,
        done.grid,
        done.block,
        done.static_shared_bytes,
        done.dynamic_shared_bytes,
        text.digest,
        done.elapsed_us,
    )


def _arrays(launch: Launch, plan: Plan, arena: Arena) -> dict[str, np.ndarray]:
    return plan.arrays(launch, {buffer.name: arena.buffers[buffer.name].view for buffer in plan.buffers})


def _argument(arg: Arg, plan: Plan, arena: Arena) -> Argument:
    if isinstance(arg, BufferArg):
        return arena.buffers[arg.buffer].address + plan.buffer(arg.buffer).offset
    return float(arg.value) if arg.dtype.startswith("f") else int(arg.value)


def _written(plan: Plan, arena: Arena) -> list[str]:
    """Broken guards of the buffers a kernel can write; a sealed buffer's guards are sealed with it."""
    writable = [buffer.name for buffer in plan.buffers if buffer.role is not Role.IN]
    return [line for name in writable for line in arena.buffers[name].broken()]


def _collect(buffer: Buffer, images: Mapping[str, np.ndarray], arena: Arena) -> np.ndarray:
    """What is in a buffer now; a sealed input is what was given."""
    return images[buffer.name] if buffer.role is Role.IN else arena.buffers[buffer.name].view.copy()


BACKEND = Host()
