"""ffn/block: gate, up and down by matvec/block."""

from kernels.ops.ffn._launches import FfnKernel
from kernels.ops.matvec.block import KERNEL as MATVEC


class Block(FfnKernel):
    name = "block"
    matvec = MATVEC


KERNEL = Block()
