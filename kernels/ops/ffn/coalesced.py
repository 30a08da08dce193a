"""ffn/coalesced: gate, up and down by matvec/coalesced."""

from kernels.model import Case
from kernels.ops.ffn._launches import FfnKernel, refuses_ffn_lanes
from kernels.ops.matvec.coalesced import KERNEL as MATVEC


class Coalesced(FfnKernel):
    name = "coalesced"
    matvec = MATVEC

    def refuses(self, case: Case) -> str:
        return refuses_ffn_lanes(case)


KERNEL = Coalesced()
