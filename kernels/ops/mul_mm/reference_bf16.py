"""mul_mm/reference_bf16: mul_mm/reference over bfloat16 activations, made float32 where they are loaded."""

from kernels.ops.mul_mm.reference import Reference


class ReferenceBf16(Reference):
    name = "reference_bf16"
    x_dtype = "bf16"
    narrow = True


KERNEL = ReferenceBf16()
