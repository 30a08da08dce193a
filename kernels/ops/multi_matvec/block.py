"""multi_matvec/block: Q, K and V by matvec/block."""

from kernels.ops.matvec.block import KERNEL as MATVEC
from kernels.ops.multi_matvec._launches import MultiMatvecKernel


class Block(MultiMatvecKernel):
    name = "block"
    matvec = MATVEC


KERNEL = Block()
