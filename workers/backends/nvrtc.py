"""The CUDA text through NVIDIA's compiler to a cubin for every architecture it knows; nothing is executed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from kernels import catalog, registry, source
from kernels.built import BuildRecord
from kernels.declared.flags import for_nvrtc
from kernels.model import Build, Device, Launch, Options, Plan
from workers.backend import NO_OPTIONS, Rejected, Run
from workers.machine import usable_cores
from workers.nvrtc import cubin, headers, library, readings, resources
from workers.nvrtc.library import Compiled, Nvrtc
from workers.nvrtc.occupancy import occupancy
from workers.nvrtc.readings import Code
from workers.nvrtc.sass import Reading
from workers.nvrtc.store import Store, key_of
from workers.state import compile_cache

# Everything that changes code is said, whatever a version's default is; never fast-math, never flush-to-zero.
COMMON = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v")
BUILDS = {Build.EXACT: ("--fmad=false",), Build.DEFAULT: ("--fmad=true",), Build.DECLARED: ("--fmad=true",)}
# What --use_fast_math says in other words.
FAST = ("--ftz", "--prec-div", "--prec-sqrt", "--fmad")
MOST_AT_ONCE = 31  # texts that are compiled to be disassembled with one that was asked for


# Of a text, its file's name, flags, and an entry to be looked up by its name in the text.
CompileText = Callable[[str, str, tuple[str, ...], str], Compiled]


class NvrtcBackend:
    name = "nvrtc"
    orders = 0  # it compiles and executes nothing

    def devices(self) -> tuple[Device, ...]:
        """One device per architecture."""
        found = library.find()
        return tuple(arch_device(found, arch) for arch in found.archs)

    def toolchain(self, build: Build, options: Options = NO_OPTIONS) -> tuple[str, str]:
        """Compiler and flags of a build, but for the architecture, which the device says."""
        return library.find().label, " ".join(said(build, options))

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        """Compiles every text that the plan launches; there are no outputs and no launch records."""
        found = library.find()
        arch = device.device_class
        told = flags(plan.build, arch, plan.options)
        began = time.perf_counter()
        launches = {(one.kernel, one.kind, one.unit, one.entry): one for one in plan.launches}
        builds = tuple(build(launch, found, arch, told) for launch in launches.values())
        return Run(
            images={},
            launches=(),
            guards=(),
            compiler=found.label,
            flags=" ".join(told),
            compile_us=(time.perf_counter() - began) * 1e6,
            builds=builds,
        )


def arch_device(found: Nvrtc, arch: int) -> Device:
    """An architecture as a device; equal wherever the same NVRTC is installed."""
    name = f"sm_{arch}"
    return Device(
        slug=name,
        device_class=name,
        name=f"{name} ({found.label})",
        uuid=name,
        slots=usable_cores(),
        fingerprint=(("sm", name), ("compiler", found.label)),
    )


def flags(build: Build, arch: str, options: Options = NO_OPTIONS) -> tuple[str, ...]:
    """What the compiler is told for a build and an architecture; evidence carries it."""
    if build not in BUILDS:
        raise Rejected(f"nvrtc has no build {build.value!r}; there are {', '.join(BUILDS)}")
    return (f"--gpu-architecture={arch}", *said(build, options))


def said(build: Build, options: Options) -> tuple[str, ...]:
    """The farm's own flags, and instead of them what a catalog's kernel asks for."""
    own = for_nvrtc(options.flags) + ((f"--std={options.std}",) if options.std else ())
    replaced = {flag.partition("=")[0] for flag in own}
    replaced |= set(FAST) if "--use_fast_math" in replaced else set()
    kept = [flag for flag in (*COMMON, *BUILDS.get(build, ())) if flag.partition("=")[0] not in replaced]
    return (*kept, *own)


def build(launch: Launch, found: Nvrtc, arch: str, told: tuple[str, ...]) -> BuildRecord:
    """The record of one launch's text; compiling and disassembling happen once per content."""
    path, made = compiled(launch, found, told)
    others = (Code.of(other, one.entry) for one, other in _neighbours(launch, found, arch))
    return record(
        launch, arch, made, *readings.reading(Store(path.parent), Code.of(made, launch.entry), arch, others)
    )


def compiled(
    launch: Launch,
    found: Nvrtc,
    told: tuple[str, ...],
    compile_text: CompileText | None = None,
) -> tuple[Path, Compiled]:
    """One launch's text compiled, once per content, and the file that the code is in; raises Rejected."""
    text = source.text(launch.kernel, launch.kind, launch.unit)
    store, key = _store(), _key(launch, found, told)
    name, wanted = launch.unit or f"{launch.entry}.cu", launch.entry if launch.unit else ""
    compiling = compile_text or library.compile_text
    return store.code(key), store.compiled(key, lambda: compiling(text, name, told, wanted))


def _store() -> Store:
    return Store(compile_cache() / "nvrtc")


def _key(launch: Launch, found: Nvrtc, told: tuple[str, ...]) -> str:
    """Under which a launch's code is kept: its text, and all that the compiler is told of it."""
    text = source.text(launch.kernel, launch.kind, launch.unit)
    where = (launch.entry, headers.folder()) if launch.unit else ()
    return key_of(text, found.label, *told, *where)


def _neighbours(launch: Launch, found: Nvrtc, arch: str) -> Iterator[tuple[Launch, Compiled]]:
    """The same kernel's next texts, of other kinds and builds, read with this one: as many as there are.

    A campaign of all kinds asks for them soon; one of a single kind doesn't, and few are made in vain.
    """
    if registry.self_contained(launch.kernel):
        return
    entry = registry.launch_kernel(launch.kernel).entry
    texts = [
        (replace(launch, kind=kind, entry=entry(kind)), flags(build, arch))
        for kernel_id, kind in source.texts()
        if kernel_id == launch.kernel
        for build in (Build.EXACT, Build.DEFAULT)
    ]
    missing = [one for one in texts if not _store().has(_key(one[0], found, one[1]))]
    for one, told in missing[: min(len(texts) - len(missing), MOST_AT_ONCE)]:
        with suppress(Rejected):
            yield one, compiled(one, found, told)[1]


def record(launch: Launch, arch: str, made: Compiled, reading: Reading, by: str) -> BuildRecord:
    """Everything that a cubin and its log say, for one launch's geometry."""
    takes = resources.of_entry(made.log, made.lowered or launch.entry)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    most = max(launch.dynamic_shared_bytes, _most_dynamic_shared(launch.kernel, launch.kind))
    fits, least = (
        occupancy(
            int(arch.removeprefix("sm_")), threads, takes.registers, takes.static_shared_bytes + dynamic
        )
        for dynamic in (launch.dynamic_shared_bytes, most)
    )
    takes_more = most > launch.dynamic_shared_bytes
    return BuildRecord(
        kernel=launch.kernel,
        kind=launch.kind,
        entry=launch.entry,
        arch=arch,
        threads=threads,
        registers=takes.registers,
        spill_store_bytes=takes.spill_store_bytes,
        spill_load_bytes=takes.spill_load_bytes,
        stack_bytes=takes.stack_bytes,
        static_shared_bytes=takes.static_shared_bytes,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        blocks_per_sm=fits.blocks,
        occupancy=round(fits.share, 4),
        limited_by=fits.limited_by,
        cubin_digest=cubin.digest(made.cubin),
        cubin_bytes=len(made.cubin),
        log=made.log,
        instructions=reading.instructions,
        loads=reading.loads,
        instructions_per_weight=_per_weight(launch, reading),
        disassembler=by,
        most_dynamic_shared_bytes=most if takes_more else 0,
        least_blocks_per_sm=least.blocks if takes_more else 0,
    )


def _most_dynamic_shared(kernel_id: str, kind: str) -> int:
    """Bytes of a block, over the quick cases of a kernel of the farm's own; 0 for a catalog's."""
    return 0 if registry.self_contained(kernel_id) else _most_of_own(kernel_id, kind)


@cache
def _most_of_own(kernel_id: str, kind: str) -> int:
    """One case stands for all that a source is built for, but others may take more."""
    kernel = registry.launch_kernel(kernel_id)
    plans = (kernel.plan(case) for case in catalog.quick_cases(kernel_id, kind))
    own = (launch for plan in plans for launch in plan.launches if launch.kernel == kernel_id)
    return max((launch.dynamic_shared_bytes for launch in own), default=0)


def _per_weight(launch: Launch, reading: Reading) -> float | None:
    """A product takes a weight, except where a weight that was decoded is multiplied for many tokens."""
    if reading.per_product is None or launch.kernel.startswith("mul_mm/"):
        return None
    return round(reading.per_product, 2)


BACKEND = NvrtcBackend()
