"""Makes the matrix of what ran, what the catalog has, and which boards and target GPUs there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from db.cell import RUNGS, Capability, holds_for
from farm.matrix import Cell, Claim, Column, Matrix, Row
from farm.targets import TargetGpu
from kernels.evidence import Verdict
from kernels.model import Device

OF_TEXTS = {"host", "builds"}  # rungs that speak of a CUDA text
CPU_RUNGS = {"twin": ("twin", "host"), "host": ("host",)}  # rung -> backends whose evidence shows it on a CPU


class At(NamedTuple):
    """What the cells of a column have in common besides their board."""

    backend: str
    sm: str  # empty for a CPU


def pivot(
    capabilities: Iterable[Capability],
    claims: Sequence[Claim],
    devices: Iterable[Device],
    targets: Iterable[TargetGpu],
    catalog_digest: str,
    generated_us: int,
) -> Matrix:
    """Every listed claim in every column; the others, and evidence without a claim, only where they ran."""
    capabilities = tuple(capabilities)
    columns = tuple(columns_of(capabilities, devices, targets))
    found: defaultdict[tuple[str, str], defaultdict[Row, list[Capability]]]
    found = defaultdict(lambda: defaultdict(list))
    for capability in capabilities:
        found[capability.key.device, capability.key.backend][row_of(capability)].append(capability)
    listed = [claim for claim in claims if claim.listed]
    by_row = {claim.row: claim for claim in claims}
    elsewhere = _Elsewhere(capabilities)
    never_run = _NeverRun(listed, elsewhere)
    cells: list[Cell] = []
    for column in columns:
        ran = found[column.device, column.backend]
        for claim, rest in zip(listed, never_run.cells(column), strict=True):
            lines = ran.get(claim.row)
            cells.append(_cell(column, claim, lines, elsewhere) if lines else Cell(*column.place, *rest))
        strays = (by_row.get(row, Claim(row, "", listed=False)) for row in sorted(ran))
        cells += [_cell(column, claim, ran[claim.row], elsewhere) for claim in strays if not claim.listed]
    return Matrix(columns, tuple(cells), catalog_digest, generated_us)


def row_of(capability: Capability) -> Row:
    key = capability.key
    return Row(key.op, key.kernel, key.kind, key.build)


class _Elsewhere:
    """What CPUs and the compiler showed about a source: rungs that a GPU row may wear without having run."""

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        self._built: dict[tuple[Row, str, str], Capability] = {}
        self._on_cpu: defaultdict[tuple[Row, str], set[str]] = defaultdict(set)
        self._worn: dict[tuple[Row, str, tuple[str, ...], At], tuple[str, ...]] = {}
        denied: defaultdict[tuple[Row, str], set[str]] = defaultdict(set)
        for capability in capabilities:
            if not capability.verdict.about_kernel or capability.verdict is Verdict.SKIP:
                continue
            of_source = row_of(capability), capability.key.source_digest
            if capability.key.backend == "nvrtc":
                self._built[*of_source, capability.key.device] = capability
            elif capability.device_class.startswith("cpu-"):
                for rung, backends in CPU_RUNGS.items():
                    if capability.key.backend in backends:
                        (self._on_cpu if rung in capability.rungs else denied)[of_source].add(rung)
        for of_source, rungs in denied.items():
            self._on_cpu[of_source] -= rungs

    def rungs(self, row: Row, source_digest: str, sm: str) -> set[str]:
        """Rungs that all the evidence about this source agrees on."""
        built = self.built(row, source_digest, sm)
        on_cpu = self._on_cpu.get((row, source_digest), set())
        return on_cpu | {"builds"} if built and "builds" in built.rungs else on_cpu

    def worn(self, claim: Claim, source_digest: str, own: tuple[str, ...], at: At) -> tuple[str, ...]:
        """A cell's rungs: those of its own evidence, and on a GPU those that its source has elsewhere."""
        asked = claim.row, source_digest, own, at
        if asked not in self._worn:
            rungs = set(own)
            if at.backend == "cuda":
                rungs |= self.rungs(claim.row, source_digest, at.sm)
            if claim.library:
                rungs -= OF_TEXTS
            self._worn[asked] = tuple(rung for rung in RUNGS if rung in rungs)
        return self._worn[asked]

    def built(self, row: Row, source_digest: str, sm: str) -> Capability | None:
        """What the compiler made of this source for an architecture; None where nobody tried."""
        return self._built.get((row, source_digest, sm))


def columns_of(
    capabilities: Sequence[Capability], devices: Iterable[Device], targets: Iterable[TargetGpu]
) -> Iterable[Column]:
    """A column for each board and backend, and one for each target of a class that no board has."""
    devices = sorted(devices, key=lambda device: (device.device_class, device.slug))
    used: defaultdict[str, set[str]] = defaultdict(set)
    for capability in capabilities:
        used[capability.key.device].add(capability.key.backend)
    for device in devices:
        for backend in sorted(used[device.slug] | {default_backend(device.device_class)}):
            sm = dict(device.fingerprint).get("sm", "")
            yield Column(device.device_class, device.slug, device.name, device.uuid, backend, sm)
    filled = {device.device_class for device in devices}
    for target in targets:
        if target.device_class not in filled:
            yield Column(target.device_class, "", target.name, "", "cuda", target.sm, is_target=True)


def default_backend(device_class: str) -> str:
    """What a device is there for: its cells exist before anything ran."""
    by_prefix = {"cpu-": "host", "sm_": "nvrtc"}
    return next((name for prefix, name in by_prefix.items() if device_class.startswith(prefix)), "cuda")


class _NeverRun:
    """What cells show where nothing ran; columns of one backend and architecture share all but their name."""

    def __init__(self, claims: Sequence[Claim], elsewhere: _Elsewhere) -> None:
        self._claims = claims
        self._elsewhere = elsewhere
        self._known: dict[At, list[tuple[Any, ...]]] = {}

    def cells(self, column: Column) -> list[tuple[Any, ...]]:
        """The fields of `Cell` behind the device, claim by claim."""
        at = At(column.backend, column.sm)
        if at not in self._known:
            self._known[at] = [self._fields(claim, at) for claim in self._claims]
        return self._known[at]

    def _fields(self, claim: Claim, at: At) -> tuple[Any, ...]:
        built, none = None, (None, None, None, None)
        if at.backend == "cuda":
            built = self._elsewhere.built(claim.row, claim.source_digest, at.sm)
        rungs = self._elsewhere.worn(claim, claim.source_digest, (), at)
        notes, refusal = (built.flags, _refusal(built)) if built else ((), "")
        about = at.backend, *claim.row, None, notes, rungs, 0, 0, *none
        return *about, claim.source_digest, None, refusal, claim.packing


def _cell(column: Column, claim: Claim, found: Sequence[Capability], elsewhere: _Elsewhere) -> Cell:
    """A cell that ran, by its present source's evidence if there is any."""
    current = [c for c in found if c.key.source_digest == claim.source_digest]
    shown = max(current or found, key=lambda c: (c.last_run_us, c.key.source_digest))
    source_digest = shown.key.source_digest
    built = None
    if column.backend == "cuda":
        built = elsewhere.built(claim.row, claim.source_digest, column.sm)
    same_code = not current and holds_for(shown, built)
    return Cell(
        *column.place,
        column.backend,
        *claim.row,
        verdict=shown.verdict,
        flags=shown.flags if current or same_code else (*shown.flags, "stale"),
        rungs=elsewhere.worn(claim, source_digest, shown.rungs, At(column.backend, column.sm)),
        cases=shown.cases,
        positions=shown.positions,
        bound_ratio=shown.bound_ratio,
        relative_ratio=shown.relative_ratio,
        nmse=shown.nmse,
        bit_exact=shown.bit_exact,
        source_digest=source_digest,
        last_run_us=shown.last_run_us,
        reason="; ".join(filter(None, (shown.reason, _same_code(column.sm, claim) if same_code else ""))),
        packing=claim.packing,
        trust=shown.trust,
    )


def _refusal(built: Capability) -> str:
    """What the compiler says that will keep this from running; empty where it built."""
    return f"nvrtc, {built.key.device}: {built.reason}" if built.verdict is Verdict.REJECT else ""


def _same_code(sm: str, claim: Claim) -> str:
    """Why a verdict of an older source is no stale one."""
    return (
        f"the source is {claim.source_digest[:12]} since, and compiles to the same code for {sm}: "
        "flags, geometry, arguments and twin are unchanged, so nothing had to run again"
    )
