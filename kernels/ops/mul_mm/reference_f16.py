"""mul_mm/reference_f16: mul_mm/reference over float16 activations, made float32 where they are loaded."""

from kernels.ops.mul_mm.reference import Reference


class ReferenceF16(Reference):
    name = "reference_f16"
    x_dtype = "f16"
    narrow = True


KERNEL = ReferenceF16()
