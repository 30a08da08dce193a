"""matvec/coalesced_bf16: matvec/coalesced over bfloat16 activations, made float32 where they are loaded."""

from kernels.ops.matvec.coalesced import Coalesced


class CoalescedBf16(Coalesced):
    name = "coalesced_bf16"
    x_dtype = "bf16"
    narrow = True


KERNEL = CoalescedBf16()
