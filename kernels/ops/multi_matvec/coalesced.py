"""multi_matvec/coalesced: Q, K and V by matvec/coalesced."""

from kernels import registry
from kernels.model import Case
from kernels.ops._linear import refuses_lanes
from kernels.ops.matvec.coalesced import KERNEL as MATVEC
from kernels.ops.multi_matvec._launches import MATRICES, MultiMatvecKernel


class Coalesced(MultiMatvecKernel):
    name = "coalesced"
    matvec = MATVEC

    def refuses(self, case: Case) -> str:
        for name, kind in zip(MATRICES, case.kinds, strict=True):
            if reason := refuses_lanes(registry.kind(kind), case.shape["cols"], case.layout):
                return f"{name}: {reason}"
        return ""


KERNEL = Coalesced()
