"""Small cases, and a request for them, as the tests of this room need them."""

from __future__ import annotations

from dataclasses import replace

from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Seeded, Shape
from workers.machine import cpu_device
from workers.request import Request
from workers.runner import new_id


def matvec_case(rows: int = 3, cols: int = 64, **changes: object) -> Case:
    """A matvec/block case over Q4_0 blocks, in the exact build unless changed."""
    seeded = Seeded("ordinary", 1, FIXTURE_VERSION)
    case = Case("matvec", "block", ("Q4_0",), Shape.of(rows=rows, cols=cols), seeded, seeded, Build.EXACT)
    return replace(case, **changes)


def request_for(case: Case, backend: str = "twin", **changes: object) -> Request:
    return replace(Request(new_id(), case, backend, cpu_device()), **changes)
