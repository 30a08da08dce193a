"""Writes a case, its texts and what it must give into one Python file, whose program is body.py.

A GPU's has board.py behind it.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from db.blob import SourceText
from kernels import exp32, registry, source
from kernels.errors import FarmError, UsageError
from kernels.evidence import Evidence
from kernels.expected import Expected, expected
from kernels.inputs import images as inputs_of
from kernels.model import BufferArg, Build, Launch, Plan
from workers.backends.host import told_entries
from workers.cuda import code
from workers.cuda.errors import CUDA, TABLE, Says
from workers.files import FileStore
from workers.host import compiler
from workers.nvrtc import headers
from workers.runner import turns_of

MOST_BYTES = 32 << 20  # of inputs and wants, before they are packed
ABI = re.compile(r"^from workers\.host\.abi import .*\n", re.M)  # in body.py
ALREADY = re.compile(r"^from (__future__|farm\.repro\.body) import .*\n", re.M)  # in board.py
BACKENDS = ("host", "cuda")
ARCH = "--gpu-architecture="  # a flag that the file says itself, of the board that it finds
# What a code of CUDA's says of the kernel; the others say nothing of it.
VERDICTS = {Says.KERNEL: "CRASH", Says.OVERRUN: "TIMEOUT", Says.REFUSED: "REJECT"}
LINE = 100  # characters of packed data a line


@dataclass(frozen=True)
class Packed:
    """Arrays and texts as the file holds them."""

    images: Mapping[str, np.ndarray]
    wants: Sequence[Expected]
    texts: Sequence[str]  # for the host translated, one a launch source
    numbers: Mapping[tuple[str, str, str], int]  # kernel, kind and unit of a launch to its text


def text_of(name: str, line: Evidence, sources: Sequence[SourceText], store: FileStore) -> str:
    """The whole file; UsageError where a line can't be run again, or takes more than MOST_BYTES."""
    _demand_repeatable(line)
    case = line.case
    plan = registry.kernel(f"{case.op}/{case.kernel}").plan(case)
    _demand_same_launches(line, plan)
    images = inputs_of(case, plan, registry.op(case.op).operands(case), store)
    _demand_small(images, plan)
    wants = expected(plan, images, case.family)
    numbers, texts = _texts(plan, sources, line.backend)
    packed = Packed(images, wants, texts, numbers)
    head = _values(name, line, plan, packed)
    parts = [_title(name, line), *_body(line.backend), "", *_data(head, packed), "", _ending()]
    return "\n".join(parts)


def _demand_repeatable(line: Evidence) -> None:
    if line.backend not in BACKENDS:
        raise UsageError(
            f"that was run by {line.backend}; a file runs cells of {' and '.join(BACKENDS)}; "
            "farm run --backend host first"
        )
    if line.case.build is Build.CHECK:
        raise UsageError("the check build needs its checker; farm run --check --case … runs it again")
    if not line.verdict.about_kernel or line.verdict == "SKIP":
        raise UsageError(f"that is {line.verdict}, {line.reason}: it says nothing of the kernel to repeat")


def _demand_same_launches(line: Evidence, plan: Plan) -> None:
    """A source that changed since may be launched otherwise: then its text alone repeats nothing."""
    then = [(one.entry, one.grid, one.block, one.dynamic_shared_bytes) for one in line.launches]
    now = [(one.entry, one.grid, one.block, one.dynamic_shared_bytes) for one in plan.launches]
    if any(one.library for one in plan.launches):
        raise UsageError("a library does it: there is no text to put into a file")
    if any(code.built(one) for one in plan.launches):
        raise UsageError("it is a cubin of its catalog's: there is no text to put into a file")
    if then and then != now:
        raise FarmError("this catalog launches it otherwise than it ran; run it again, and repeat that")


def _demand_small(images: Mapping[str, np.ndarray], plan: Plan) -> None:
    nbytes = sum(image.nbytes for image in images.values()) + sum(
        b.nbytes for b in plan.buffers if not b.given
    )
    if nbytes > MOST_BYTES:
        raise UsageError(
            f"its buffers take {nbytes >> 20} MiB, a file holds {MOST_BYTES >> 20}; repeat a smaller case of "
            "the cell: farm show names the jobs"
        )


def _texts(
    plan: Plan, sources: Sequence[SourceText], backend: str
) -> tuple[dict[tuple[str, str, str], int], list[str]]:
    """Every launch's text as it ran, where that was kept; for the host translated."""
    kept = {(one.kernel, one.kind): one.text for one in sources}
    numbers: dict[tuple[str, str, str], int] = {}
    texts: list[str] = []
    for launch in plan.launches:
        key = (launch.kernel, launch.kind, launch.unit)
        if key in numbers:
            continue
        whole = source.text(launch.kernel, launch.kind, launch.unit) if launch.unit else ""
        text = whole or kept.get(key[:2]) or source.text(launch.kernel, launch.kind)
        numbers[key] = len(texts)
        name = launch.unit or f"{launch.entry}.cu"
        on_host = backend == "host"
        texts.append(compiler.translate(text, name, told_entries(launch, plan)) if on_host else text)
    return numbers, texts


def _values(name: str, line: Evidence, plan: Plan, packed: Packed) -> dict[str, Any]:
    """All that isn't an array or a text."""
    on_host = line.backend == "host"
    flags = _host_flags(line, plan) if on_host else _board_flags(line)
    constants = [f"-D{key}={value}" for key, value in exp32.defines().items()]
    return {
        "name": name, "verdict": line.verdict.value, "reason": line.reason, "flags": flags,
        "backend": line.backend, "codes": {str(row.code): VERDICTS[row.says] for row in TABLE
                                           if row.api == CUDA and row.says in VERDICTS},
        "scheduler_flags": [*compiler.COMMON, *compiler.BUILDS["exact"], *constants],
        "link": list(compiler.LINK), "turns": max(line.repeats, turns_of(line.case, plan)),
        "deterministic": plan.deterministic,
        "buffers": [
            {"name": b.name, "dtype": b.dtype, "shape": b.shape, "strides": b.strides, "offset": b.offset,
             "nbytes": b.nbytes, "role": b.role.value, "align": b.align, "fill": b.fill}
            for b in plan.buffers
        ],
        "launches": [_launch(launch, packed) for launch in plan.launches],
    }  # fmt: skip


def _host_flags(line: Evidence, plan: Plan) -> list[str]:
    return [*compiler.COMMON, *compiler.BUILDS[line.case.build.value], *compiler.own_flags(plan.options)]


def _board_flags(line: Evidence) -> list[str]:
    """NVRTC's, as the evidence has them, but for the architecture."""
    return [flag for flag in line.flags.split() if not flag.startswith(ARCH)]


def _launch(launch: Launch, packed: Packed) -> dict[str, Any]:
    args = [
        ("buffer", arg.buffer) if isinstance(arg, BufferArg) else (arg.dtype, arg.value)
        for arg in launch.args
    ]
    return {
        "entry": launch.entry, "args": args, "grid": launch.grid, "block": launch.block,
        "shared": launch.dynamic_shared_bytes, "file": launch.unit or f"{launch.entry}.cu",
        "by_name": bool(launch.unit), "headers": headers.OWN if launch.unit else {},
        "text": packed.numbers[launch.kernel, launch.kind, launch.unit],
    }  # fmt: skip


def _title(name: str, line: Evidence) -> str:
    """Whose case this is; `repr` keeps whatever is in a name or a reason inside its line."""
    told = f"{line.verdict} of {name} on {line.device.slug} ({line.device.name}), evidence {line.evidence_id}"
    return f"# {told!r}\n# {line.reason!r}\n# source {line.source_digest}\n# inputs {line.inputs_digest}"


def _body(backend: str) -> Iterator[str]:
    """The program, with the structs in the place of what imports them; a board's way behind it."""
    program = files("farm.repro").joinpath("body.py").read_text(encoding="utf8")
    structs = files("workers.host").joinpath("abi.py").read_text(encoding="utf8").partition("\nclass ")
    yield ABI.sub(lambda _: f"{''.join(structs[1:])}\n", program)
    if backend == "cuda":
        yield ALREADY.sub("", files("farm.repro").joinpath("board.py").read_text(encoding="utf8"))


def _ending() -> str:
    return 'if __name__ == "__main__":\n    sys.exit(main(CASE))\n'


def _data(head: Mapping[str, Any], packed: Packed) -> Iterator[str]:
    """The lines that make CASE: texts to be read, everything else packed."""
    yield "import base64\nimport json\nimport sys\nimport zlib\n"
    for number, text in enumerate(packed.texts):
        yield f"TEXT_{number} = ("
        yield from (f"    {line!r}" for line in text.splitlines(keepends=True))
        yield ")\n"
    names = compiler.SOURCES if head["backend"] == "host" else ()
    runtime = {name: (compiler.RUNTIME / name).read_text(encoding="utf8") for name in names}
    yield from _packed("RUNTIME", json.dumps(runtime).encode())
    yield f"CASE = json.loads({json.dumps(head)!r})"
    yield f"CASE['texts'] = [{', '.join(f'TEXT_{number}' for number in range(len(packed.texts)))}]"
    yield "CASE['runtime'] = json.loads(RUNTIME)"
    yield "CASE['images'] = {}"
    for name, image in packed.images.items():
        yield from _packed("IMAGE", image.tobytes())
        yield f"CASE['images'][{name!r}] = np.frombuffer(IMAGE, np.uint8)"
    yield "CASE['wants'] = []"
    for want in packed.wants:
        yield from _packed("WANT", np.stack([want.want, want.limit]).astype("<f8").tobytes())
        shape = (2, *want.want.shape)
        yield f"WANTED, LIMITS = np.frombuffer(WANT, '<f8').reshape({shape})"
        values = f"buffer={want.buffer!r}, kernel={want.kernel!r}, want=WANTED, limit=LIMITS"
        yield f"CASE['wants'].append(dict({values}))"


def _packed(name: str, content: bytes) -> Iterator[str]:
    """NAME = the bytes again."""
    text = base64.b85encode(zlib.compress(content, 9)).decode()
    yield f"{name} = zlib.decompress(base64.b85decode("
    yield from (f"    {text[start : start + LINE]!r}" for start in range(0, len(text), LINE))
    yield "))"
