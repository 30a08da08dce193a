"""A board's exam: answers that are known, and a kernel that is known to be wrong.

admit(slot, device, backend) -> str     # what went wrong, here and now; a head asks the same from afar
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from kernels import compare, inputs, judge, registry
from kernels.declared import catalog
from kernels.declared.catalog import Catalog
from kernels.declared.pack import Pack
from kernels.evidence import Evidence, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Device, Seeded, Shape
from workers import packs
from workers.agent import Slot
from workers.request import Request
from workers.runner import new_id, one_line

RIGHT = ("matvec", "coalesced", ("Q4_K",), Shape.of(rows=9, cols=1280))
PRESSED = ("silu_mul", "pressed", (), Shape.of(n=1000))  # right, with a value in every register
WRONG = ("silu_mul", "known_wrong", (), Shape.of(n=1000))
NAMES = ("pressed", "wrong")  # of the files of the exam's own kernels
DEADLINE_S = 120.0
SHOWN = 64  # characters of a name


@dataclass(frozen=True)
class Asked:
    """One question of an exam, and its answer."""

    case: Case
    verdict: Verdict
    output_digest: str = ""  # empty where none is known
    pack: str = ""  # address of the catalog that the kernel is in; empty for the farm's own


def admit(slot: Slot, device: Device, backend: str) -> str:
    """Why a board can't be believed; empty where it gave all answers right. None is evidence."""
    return "; ".join(filter(None, (ask(one, slot, device, backend) for one in questions())))


def questions() -> tuple[Asked, ...]:
    """Those of one exam, with fresh seeds so that no answer can be an old one."""
    right = question(*RIGHT)
    wrong = Asked(question(*WRONG), Verdict.FAIL, pack=exam_catalog().pack.address)
    return Asked(right, Verdict.PASS, twin_digest(right)), pressed(), wrong


def pressed() -> Asked:
    """The question that a host whose switch between lanes loses a register can't answer."""
    return Asked(question(*PRESSED), Verdict.PASS, pack=exam_catalog().pack.address)


def ask(asked: Asked, slot: Slot, device: Device, backend: str) -> str:
    """What a board here has wrong of one question; empty if it is right."""
    request = Request(new_id(), asked.case, backend, device)
    if asked.pack:
        packs.keep(exam_catalog().pack, packs.store())
        request = replace(request, pack=asked.pack, packs=str(packs.store()))
    return fault(slot.run(request, DEADLINE_S), asked.verdict, asked.output_digest)


@cache
def exam_catalog() -> Catalog:
    """The catalog with the exam's own kernels; workers fetch it as any other."""
    folder = files(__name__)
    names = [one.name for one in folder.iterdir() if one.name.partition(".")[0] in NAMES]
    return catalog.load(Pack.of({name: folder.joinpath(name).read_bytes() for name in names}))


def question(op: str, kernel: str, kinds: tuple[str, ...], shape: Shape) -> Case:
    drawn = Seeded("ordinary", secrets.randbelow(2**31), FIXTURE_VERSION)
    return Case(op, kernel, kinds, shape, drawn, drawn, Build.EXACT)


def fault(line: Evidence, verdict: Verdict, output_digest: str) -> str:
    """What an answer has wrong; empty if it is right."""
    name = one_line(f"{line.case.op}/{line.case.kernel}", SHOWN)
    if line.verdict is not verdict:
        why = one_line(line.reason) or "no reason"
        return f"exam: {name} was {line.verdict}, {verdict} is right ({why})"
    if output_digest and line.output_digest != output_digest:
        return f"exam: {name} put out {one_line(line.output_digest, 12)}, {output_digest[:12]} is right"
    return ""


def twin_digest(case: Case) -> str:
    """The output digest that every board has in the exact build."""
    kernel = registry.kernel(f"{case.op}/{case.kernel}")
    plan = kernel.plan(case)
    images = inputs.images(case, plan, registry.op(case.op).operands(case))
    return compare.output_digest(judge.outputs(plan, judge.twin_outputs(plan, images)))
