"""Evidence of GPUs as a data set of FlashInfer-Bench: definitions, workloads, solutions and traces.

dataset(s, matrix) -> Folder(files, line)     # path in the folder -> text; how many, and what was left out

One definition for each op, kind, shape and types, all of its axes constant; one solution for each source that
ran; one trace for each case of a cell, by the line that counts. Their schema (flashinfer_bench.data, 0.1)
has a field `extra` in correctness alone: digests and margins are there, else at the end of the log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from db import blob, capability, evidence
from db.blob import SourceText
from db.cell import CellKey
from db.session import Session
from farm.exports import Folder
from farm.flashinfer_text import has_reference, reference
from farm.marks import timestamp
from farm.matrix import Cell, Matrix
from farm.trusted import FLAG
from kernels import registry
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from kernels.model import Buffer, Case

BACKEND = "cuda"
STATUS = {
    Verdict.PASS: "PASSED", Verdict.FAIL: "INCORRECT_NUMERICAL", Verdict.CRASH: "RUNTIME_ERROR",
    Verdict.TIMEOUT: "TIMEOUT", Verdict.REJECT: "COMPILE_ERROR",
}  # fmt: skip
JUDGED = (Verdict.PASS, Verdict.FAIL)
DTYPES = {
    "f4": "float32", "f2": "float16", "bf16": "bfloat16", "i4": "int32", "i8": "int64", "i1": "int8",
    "u1": "int8",  # their schema has no unsigned bytes
}  # fmt: skip
AUTHOR = "kernel farm"
Record = dict[str, Any]


@dataclass(frozen=True)
class Traced:
    """A line, and what names it in the data set."""

    line: Evidence
    texts: tuple[SourceText, ...]
    definition: str
    solution: str


def dataset(s: Session, matrix: Matrix) -> Folder:
    """What the matrix has of GPUs; stale cells are of the source that ran, as everything here."""
    left: Counter[str] = Counter()
    traced = list(_traced(s, matrix, left))
    definitions: dict[str, Record] = {}
    solutions: dict[str, Record] = {}
    workloads: dict[str, dict[str, Record]] = {}
    traces: dict[str, list[Record]] = {}
    for one in traced:
        name, case = one.definition, one.line.case
        definitions.setdefault(name, definition(name, case))
        solutions.setdefault(one.solution, solution(one))
        work = workload(case, definitions[name])
        workloads.setdefault(name, {}).setdefault(case.id, {"definition": name, "workload": work})
        traces.setdefault(name, []).append(trace(one, work))
    ops = {name: str(known["op_type"]) for name, known in definitions.items()}
    files = {f"definitions/{ops[name]}/{name}.json": _page(known) for name, known in definitions.items()}
    for name, known in solutions.items():
        files[f"solutions/{ops[known['definition']]}/{known['definition']}/{name}.json"] = _page(known)
    for name, op in ops.items():
        files[f"workloads/{op}/{name}.jsonl"] = _lines(list(workloads[name].values()))
        files[f"traces/{op}/{name}.jsonl"] = _lines(traces[name])
    told = ", ".join(f"{count:,} {reason}" for reason, count in left.items()) or "nothing"
    return Folder(files, f"{len(traced):,} traces of {len(definitions):,} definitions; left out: {told}")


def _traced(s: Session, matrix: Matrix, left: Counter[str]) -> Iterator[Traced]:
    """The lines of all cells that can be told; counts the others."""
    for cell in matrix.cells:
        if reason := no_evidence(cell):
            left[reason] += 1
            continue
        for line in _of_cell(s, cell):
            texts = blob.source_texts(s, line.source_digest)
            if reason := why_not(line, texts):
                left[reason] += 1
                continue
            name = definition_name(line.case)
            kernel = _slug(f"{line.case.kernel}_{line.case.build.value}_{line.source_digest[:12]}")
            yield Traced(line, texts, name, f"{name}_{kernel}")


def no_evidence(cell: Cell) -> str:
    """Why nothing of a cell is asked for; empty where its lines are."""
    if cell.backend != BACKEND:
        return f"cells of {cell.backend}, no GPU"
    if cell.verdict is None:
        return "cells less trusted than was asked for" if FLAG in cell.flags else "cells never run"
    return ""


def _of_cell(s: Session, cell: Cell) -> Iterator[Evidence]:
    """The line that counts of each case."""
    key = CellKey(cell.device or "", cell.backend, *cell.row, cell.source_digest)
    for standing in capability.standings(s, key):
        if stored := evidence.get(s, standing.counts.evidence_id):
            yield stored.line


def why_not(line: Evidence, texts: tuple[SourceText, ...]) -> str:
    """Why a line can't be a trace; empty if it can."""
    if line.verdict not in STATUS:
        return line.verdict.value
    if not has_reference(line.case):
        return f"of {line.case.op} without a definition"
    if line.verdict in JUDGED and line.comparison is None:
        return f"{line.verdict} without figures"
    if not texts:
        return "without its text in this database"
    try:
        buffers(line.case)
    except FarmError:
        return "of kernels that this catalog hasn't"
    return ""


def definition_name(case: Case) -> str:
    """matvec_q4_k_rows9_cols1280_f32_f32, and the scalars where there are any."""
    axes = (f"{name}{size}" for name, size in case.shape.axes)
    scalars = (f"{name}{value:g}" for name, value in case.scalars)
    return _slug("_".join((case.op, case.kind, *axes, *scalars, case.x_dtype, case.out_dtype)))


def buffers(case: Case) -> dict[str, Buffer]:
    """What goes in and comes out, by name, in the plan's order; FarmError where there is no such kernel."""
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    return {one.name: one for one in plan.buffers if one.given or one.put_out}


def definition(name: str, case: Case) -> Record:
    """Their Definition: each dimension of each buffer is an axis of its own name, and constant."""
    axes: dict[str, Record] = {}
    tensors: dict[bool, Record] = {True: {}, False: {}}
    for buffer in buffers(case).values():
        shape = [f"{buffer.name}_{place}" for place in range(len(buffer.shape))]
        axes |= {
            axis: {"type": "const", "value": size} for axis, size in zip(shape, buffer.shape, strict=True)
        }
        tensors[buffer.given][buffer.name] = {"shape": shape, "dtype": DTYPES[buffer.dtype]}
    return {
        "name": name, "op_type": case.op, "axes": axes, "inputs": tensors[True], "outputs": tensors[False],
        "reference": reference(case),
        "description": f"{case.op} {case.shape} over {case.kind} weights in GGML's blocks, given as bytes",
        "tags": [f"kind:{case.kind}"],
    }  # fmt: skip


def workload(case: Case, defined: Record) -> Record:
    """Their Workload; its id is the case's. Their only word for data made from a seed is `random`."""
    return {"uuid": case.id, "axes": {}, "inputs": {name: {"type": "random"} for name in defined["inputs"]}}


def solution(one: Traced) -> Record:
    """Their Solution: the texts as they ran, the first launch's entry."""
    texts = {f"{number}_{_slug(text.kernel)}.cu": text.text for number, text in enumerate(one.texts)}
    entry = one.line.launches[0].entry if one.line.launches else "kernel"
    spec = {"language": "cuda", "target_hardware": ["cuda"], "entry_point": f"{next(iter(texts))}::{entry}"}
    return {
        "name": one.solution, "definition": one.definition, "author": AUTHOR, "spec": spec,
        "sources": [{"path": path, "content": text} for path, text in texts.items()],
        "description": f"{one.line.case.op}/{one.line.case.kernel}, build {one.line.case.build.value}",
    }  # fmt: skip


def trace(one: Traced, work: Record) -> Record:
    line = one.line
    told: Record = {
        "status": STATUS[line.verdict],
        "environment": {"hardware": line.device.name.replace(" ", "_") or line.device.device_class,
                        "libs": dict(line.versions) | dict(line.device.fingerprint)},
        "timestamp": timestamp(line.finished_us),
        "log": line.reason,
    }  # fmt: skip
    if line.verdict in JUDGED:
        told["correctness"] = _correctness(line)
    else:
        told["log"] = f"{line.reason}\n{json.dumps(extra(line))}"
    if line.verdict is Verdict.PASS:
        told["performance"] = performance(line)
    return {"definition": one.definition, "workload": work, "solution": one.solution, "evaluation": told}


def _correctness(line: Evidence) -> Record:
    """The worst element's error; what is no number is written as their schema has it."""
    worst = line.comparison.worst if line.comparison else None
    error = abs(worst.got - worst.want) if worst else 0.0
    relative = error / abs(worst.want) if worst and worst.want else 0.0
    return {
        "max_absolute_error": _number(error),
        "max_relative_error": _number(relative),
        "extra": extra(line),
    }


def performance(line: Evidence) -> Record:
    """Launches of the run that was judged, which is no benchmark; no reference was timed."""
    return {"latency_ms": sum(launch.elapsed_us for launch in line.launches) / 1000}


def extra(line: Evidence) -> Record:
    """What the farm knows beside: digests, margins, rule and board."""
    found = line.comparison
    figures = {
        "bound_ratio": found.bound_ratio, "relative_ratio": found.relative_ratio, "nmse": found.nmse,
    } if found else {}  # fmt: skip
    known = {
        "evidence_id": line.evidence_id, "case_id": line.case_id, "source_digest": line.source_digest,
        "inputs_digest": line.inputs_digest, "output_digest": line.output_digest,
        "verdict": line.verdict.value,
        "device": line.device.slug, "device_class": line.device.device_class, "family": line.case.family,
        "build": line.case.build.value, "trust": line.trust, "compiler": line.compiler, "flags": line.flags,
    }  # fmt: skip
    counts = {"positions": found.positions, "bad": found.bad, "bit_exact": found.bit_exact} if found else {}
    return known | counts | {name: _number(figure) for name, figure in figures.items()}


def _number(figure: float) -> float | str:
    """JSON has no NaN and no Infinity; pydantic reads them as words."""
    if figure != figure:
        return "NaN"
    return figure if abs(figure) != float("inf") else "Infinity" if figure > 0 else "-Infinity"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _page(one: Record) -> str:
    return json.dumps(one, indent=2, allow_nan=False) + "\n"


def _lines(found: list[Record]) -> str:
    return "".join(json.dumps(one, allow_nan=False) + "\n" for one in found)
