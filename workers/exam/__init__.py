"""A board's exam: an answer that is known, and a kernel that is known to be wrong.

admit(slot, device, backend) -> str     # what went wrong, here and now; a head asks the same from afar
"""

from __future__ import annotations

import secrets
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
WRONG = ("silu_mul", "known_wrong", (), Shape.of(n=1000))
DEADLINE_S = 120.0
SHOWN = 64  # characters of a name


def admit(slot: Slot, device: Device, backend: str) -> str:
    """Why a board can't be believed; empty where it gave both answers right. Neither is evidence."""
    right, wrong = question(*RIGHT), question(*WRONG)
    pack = packs.keep(exam_catalog().pack, packs.store()).name
    known = slot.run(Request(new_id(), right, backend, device), DEADLINE_S)
    told = slot.run(
        Request(new_id(), wrong, backend, device, pack=pack, packs=str(packs.store())), DEADLINE_S
    )
    faults = (fault(known, Verdict.PASS, twin_digest(right)), fault(told, Verdict.FAIL, ""))
    return "; ".join(filter(None, faults))


@cache
def exam_catalog() -> Catalog:
    """The catalog with the kernel that is wrong; workers fetch it as any other."""
    folder = files(__name__)
    names = [one.name for one in folder.iterdir() if one.name.startswith("wrong.")]
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
