"""What the multi_matvec kernels share: the plan of three launches, over a matvec kernel of their choice."""

from __future__ import annotations

from kernels import registry
from kernels.model import Case, Launch, Plan, Role, packed
from kernels.op import Kernel
from kernels.ops._linear import scale_arg, weights_buffer, x_buffer
from kernels.ops.matvec.block import Block
from kernels.ops.matvec.coalesced import Coalesced

MATRICES = ("q", "k", "v")


class MultiMatvecKernel(Kernel):
    """One upload of x, three launches on one stream, three outputs."""

    op = "multi_matvec"
    matvec: Block | Coalesced

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((self.matvec.id, kind) for kind in kinds)

    def plan(self, case: Case) -> Plan:
        cols = case.shape["cols"]
        rows = {"q": case.shape["q_rows"], "k": case.shape["kv_rows"], "v": case.shape["kv_rows"]}
        kinds = dict(zip(MATRICES, case.kinds, strict=True))
        weights = {
            name: weights_buffer(name, registry.kind(kinds[name]), rows[name], cols, case.layout)
            for name in MATRICES
        }

        def matvec(name: str) -> Launch:
            names = {"weights": name, "x": "x", "out": f"{name}_out"}
            return self.matvec.launch(
                kinds[name], rows[name], cols, weights[name].strides[0], names, scale_arg(case, name)
            )

        outs = tuple(packed(f"{name}_out", (rows[name],), Role.OUT) for name in MATRICES)
        x = x_buffer("x", (cols,), case.layout)
        return Plan((*weights.values(), x, *outs), tuple(map(matvec, MATRICES)), case.build)
