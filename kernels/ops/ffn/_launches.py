"""What the ffn kernels share: the plan of four launches, over a matvec kernel of their choice."""

from __future__ import annotations

from kernels import registry
from kernels.model import Case, Launch, Plan, Role, packed
from kernels.op import Kernel
from kernels.ops._linear import refuses_lanes, scale_arg, weights_buffer, x_buffer
from kernels.ops.matvec.block import Block
from kernels.ops.matvec.coalesced import Coalesced
from kernels.ops.silu_mul.flat import KERNEL as SILU_MUL

FROM_TO = {"gate": ("x", "gate_out"), "up": ("x", "up_out"), "down": ("activated", "out")}


class FfnKernel(Kernel):
    """gate and up, silu_mul, down: one stream, the intermediates in scratch buffers."""

    op = "ffn"
    matvec: Block | Coalesced

    def parts(self, kinds: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        gate, up, down = kinds
        return (self.matvec.id, gate), (self.matvec.id, up), (SILU_MUL.id, ""), (self.matvec.id, down)

    def plan(self, case: Case) -> Plan:
        hidden, inner = case.shape["hidden"], case.shape["inner"]
        scratch = tuple(packed(name, (inner,), Role.SCRATCH) for name in ("gate_out", "up_out", "activated"))
        sizes = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
        kinds = dict(zip(FROM_TO, case.kinds, strict=True))
        weights = {
            name: weights_buffer(name, registry.kind(kinds[name]), *sizes[name], case.layout)
            for name in FROM_TO
        }

        def matvec(name: str) -> Launch:
            x, out = FROM_TO[name]
            names = {"weights": name, "x": x, "out": out}
            return self.matvec.launch(
                kinds[name], *sizes[name], weights[name].strides[0], names, scale_arg(case, name)
            )

        silu_mul = SILU_MUL.launch(inner, {"gate": "gate_out", "up": "up_out", "out": "activated"})
        x = x_buffer("x", (hidden,), case.layout)
        return Plan(
            (*weights.values(), x, *scratch, packed("out", (hidden,), Role.OUT)),
            (matvec("gate"), matvec("up"), silu_mul, matvec("down")),
            case.build,
        )


def refuses_ffn_lanes(case: Case) -> str:
    """Why coalesced loads can't read one of the three matrices; empty if they can."""
    hidden, inner = case.shape["hidden"], case.shape["inner"]
    for name, kind, cols in zip(FROM_TO, case.kinds, (hidden, hidden, inner), strict=True):
        if reason := refuses_lanes(registry.kind(kind), cols, case.layout):
            return f"{name}: {reason}"
    return ""
