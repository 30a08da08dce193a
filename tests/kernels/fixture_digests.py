"""Prints the digests of a few fixtures as JSON; needs numpy and the checkout alone, so try any numpy."""

from __future__ import annotations

import json

import numpy as np

from kernels import inputs
from kernels.families import FAMILIES
from kernels.kinds.mxfp4 import KIND as MXFP4
from kernels.kinds.q4_0 import KIND as Q4_0
from kernels.kinds.q6_k import KIND as Q6_K
from kernels.model import Buffer, Build, Case, Plan, Role, Seeded, Shape, packed
from kernels.op import Matrix, Operand, Vector


def digest_of(family: str, operands: tuple[Operand, ...]) -> str:
    """Over packed buffers but for the activations, which start at an offset and have slack behind."""
    source = Seeded(family, 7, inputs.FIXTURE_VERSION)
    case = Case("any", "any/any", (), Shape.of(), source, source, Build.EXACT)
    buffers = tuple(buffer_of(operand) for operand in operands)
    return inputs.digest(inputs.images(case, Plan(buffers, (), Build.EXACT), operands))


def buffer_of(operand: Operand) -> Buffer:
    if isinstance(operand, Matrix):
        row_bytes = operand.kind.row_bytes(operand.cols)
        return packed(operand.name, (operand.rows, row_bytes), Role.IN, "u1")
    whole = packed(operand.name, operand.shape, Role.IN)
    return Buffer(whole.name, "f4", whole.shape, whole.strides, 8, whole.nbytes + 24, Role.IN)


def digests() -> dict[str, str]:
    """Every family over three kinds; a batch; a norm with its weights."""
    found = {}
    for family in FAMILIES:
        for kind, blocks in ((Q4_0, 257), (Q6_K, 5), (MXFP4, 9)):
            cols = blocks * kind.elements
            operands = (Matrix("weights", kind, 9, cols), Vector("x", (cols,)))
            found[f"{family}/{kind.name}"] = digest_of(family, operands)
    batch = (Matrix("weights", Q4_0, 9, 96), Vector("x", (33, 96)))
    found["specials/batch"] = digest_of("specials", batch)
    norm = (Vector("x", (2, 257), exponents=(66, -66)), Vector("weights", (257,), weights=True))
    found["specials/norm"] = digest_of("specials", norm)
    gate = (Vector("gate", (999,), specials=(0.0, -0.0, 88.0, np.inf, np.nan)),)
    found["specials/gate"] = digest_of("specials", gate)
    return found


if __name__ == "__main__":
    print(json.dumps({"numpy": np.__version__, "digests": digests()}))
