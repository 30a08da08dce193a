"""matvec/coalesced_f16: matvec/coalesced over float16 activations, made float32 where they are loaded."""

from kernels.ops.matvec.coalesced import Coalesced


class CoalescedF16(Coalesced):
    name = "coalesced_f16"
    x_dtype = "f16"
    narrow = True


KERNEL = CoalescedF16()
