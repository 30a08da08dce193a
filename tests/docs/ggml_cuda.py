"""What ggml's CUDA source does with special scales: read from its text, not run; words for the document."""

from __future__ import annotations

from dataclasses import dataclass, field

NOT_LOOKED_AT = "not looked at"
NO_KERNEL = "no CUDA kernel in the version read"

# What reading one file means: its path below ggml/src/ggml-cuda and the first digits of the versions read.
# They are of different days; none is the commit that the golden data is of.
FILES = {
    "convert.cu": "009626c9f8ef (NVFP4: 2e5ff4fe1b29)",
    "convert.cuh": "009626c9f8ef",
    "dequantize.cuh": "2e5ff4fe1b29 (Q2_0: 73ae7526e1d1, whose blocks have 128 weights)",
    "getrows.cu": "009626c9f8ef",
    "vecdotq.cuh": "027ef8769913 (Q2_0: 067d44f6c484)",
    "mmvf.cu": "009626c9f8ef",
    "mmq.cuh": "067d44f6c484",
    "mmq-load-tiles.cuh": "027ef8769913",
    "common.cuh": "00108827d879",
    "quantize.cu": "000f4625abc4",
    "CMakeLists.txt": "00a2d6092159",
}

PRODUCT = {
    "nan": "NaN, as the CPU",
    "inf": "as the CPU: Inf of the code's sign, NaN for code 0",
    "max": "float32 target as the CPU; f16 target: Inf from 65520 on",
    "subnormal": "as the CPU: normal once it is float32",
    "zero": "±0, as the CPU",
    "ordinary": "as the CPU",
}
MINUS_MIN = PRODUCT | {
    "inf": "as the CPU: Inf - Inf and Inf * 0 are NaN",
    "zero": "as the CPU",
}
PLUS_M = PRODUCT | {
    "inf": "as the CPU: Inf * 0 is NaN",
    "max": "float32 target as the CPU, f16 target Inf from 65520 on; dot product: f16 products (`__hmul2`) "
    "of d and m with the activations' scale and sum, Inf from 65520 on",
    "subnormal": "as the CPU; dot product: f16 products, which lose bits and become 0",
    "zero": "as the CPU",
}
ONE_BIT = PRODUCT | {"inf": "as the CPU: Inf of the bit's sign, no code is 0"}
EIGHT_TIMES = PRODUCT | {
    "inf": "convert.cu: all NaN (d*q + (-8d)); dequantize.cuh: as the CPU",
    "zero": "convert.cu: +0 for every code; dequantize.cuh: as the CPU",
}

SUB_SCALED = PRODUCT | {"inf": "as the CPU: Inf of the product's sign, NaN for code or sub-scale 0"}
NEVER_ZERO = PRODUCT | {"inf": "as the CPU: Inf of the code's sign, no code is 0"}
TILE_OF_HALVES = NEVER_ZERO | {
    "max": "float32 target as the CPU, f16 target Inf from 65520 on; mmq: d times sub-scale and delta is "
    "f16, Inf from 65520 on",
    "subnormal": "as the CPU: normal once it is float32; mmq: d times sub-scale and delta is f16, "
    "which loses bits",
}
FLOAT16 = PRODUCT | {
    "inf": "as the CPU",
    "max": "as the CPU; mmvf at default precision: f16 products of weight and activation, Inf from 65520 on",
    "subnormal": "as the CPU; mmvf at default precision: f16 products, which lose bits and become 0",
}
FLUSHED = "dot product: flushed (`-ftz=true`)"
FLOAT32 = PRODUCT | {
    "inf": "as the CPU",
    "max": "float32 as the CPU, f16 target Inf",
    "subnormal": f"float32 as the CPU where it is copied, f16 target ±0; {FLUSHED}",
    "least": "float32 as the CPU, f16 target ±0; dot product: products below 2^-126 are flushed",
}
BFLOAT16 = FLOAT32 | {
    "subnormal": f"float32 target: `__bfloat162float`, not looked at; f16 target ±0; {FLUSHED}",
}
NEGATED = "the CPU's negated where `FP8_AVAILABLE` (bit 7 is a sign), else as the CPU"
FOUR_SCALES = {
    "128": "zeros of the other sign where `FP8_AVAILABLE` (the scale is -0), else as the CPU",
    "129": NEGATED,
    "184": NEGATED,
    "254": NEGATED,
    "255": "zeros where `FP8_AVAILABLE`, else as the CPU (480)",
    "ordinary": "as the CPU",
}

NO_SUM = "no f16 sum, in mmvq or mmq"
HALF_SUM = "the sum of 32 activations is f16: Inf from 65520 on"
HALF_PRODUCTS = (
    "mmvf at default precision, where f16 is fast: activations, products and each thread's sum are f16, "
    "Inf from 65520 on; at `GGML_PREC_F32`: no f16 sum"
)
NO_SUM_MMVF = "no f16 sum (mmvf)"


@dataclass(frozen=True)
class Reading:
    """One kind's part: the functions read, a word per class of scale, and what its sums pass through."""

    functions: tuple[str, ...]  # file:function
    says: dict[str, str] = field(default_factory=lambda: PRODUCT)
    sums: str = NO_SUM

    def word(self, group: str) -> str:
        return self.says.get(group, self.says["ordinary"])


def _scalar(name: str, dot: str, says: dict[str, str], sums: str) -> Reading:
    return Reading((f"dequantize.cuh:dequantize_{name}", f"vecdotq.cuh:{dot}"), says, sums)


def _super(name: str, says: dict[str, str], sums: str = NO_SUM, dot: str = "impl_mmvq") -> Reading:
    dequantize = f"convert.cu:dequantize_block_{name}"
    return Reading((dequantize, f"vecdotq.cuh:vec_dot_{name}_q8_1_{dot}"), says, sums)


def _grid(name: str, says: dict[str, str], sums: str = NO_SUM, *more: str) -> Reading:
    dequantize = (f"convert.cu:dequantize_block_{name}", f"dequantize.cuh:dequantize_{name}")
    return Reading((*dequantize, f"vecdotq.cuh:vec_dot_{name}_q8_1", *more), says, sums)


def _plain(says: dict[str, str], sums: str) -> Reading:
    return Reading(
        ("convert.cu:convert_unary", "getrows.cu:k_get_rows_float", "mmvf.cu:mul_mat_vec_f"), says, sums
    )


ABSENT = Reading((), {"ordinary": NO_KERNEL}, NO_KERNEL)
M_SUM = f"{HALF_SUM}, and its product with m is f16 too"
MMQ_HALF = "mmvq: no f16 sum; mmq (impl_mmq): " + HALF_SUM

READ = {
    "Q1_0": _scalar("q1_0", "vec_dot_q1_0_q8_1", ONE_BIT, NO_SUM),
    "Q2_0": _scalar("q2_0", "vec_dot_q2_0_q8_1", PRODUCT, NO_SUM),
    "Q4_1": Reading(
        (
            "convert.cu:dequantize_block_q4_1",
            "dequantize.cuh:dequantize_q4_1",
            "vecdotq.cuh:vec_dot_q4_1_q8_1_impl",
        ),
        PLUS_M,
        M_SUM,
    ),
    "Q5_1": _scalar("q5_1", "vec_dot_q5_1_q8_1_impl", PLUS_M, M_SUM),
    "Q4_0": Reading(
        (
            "convert.cu:dequantize_block_q4_0",
            "dequantize.cuh:dequantize_q4_0",
            "vecdotq.cuh:vec_dot_q4_0_q8_1_impl",
            "quantize.cu:quantize_q8_1",
        ),
        EIGHT_TIMES,
        HALF_SUM,
    ),
    "Q5_0": _scalar("q5_0", "vec_dot_q5_0_q8_1_impl", PRODUCT, f"mmvq: {HALF_SUM}; mmq: no f16 sum"),
    "Q8_0": Reading(
        (
            "convert.cu:dequantize_block_q8_0_f16",
            "dequantize.cuh:dequantize_q8_0",
            "vecdotq.cuh:vec_dot_q8_0_q8_1_impl",
        ),
        PRODUCT | {"subnormal": "float32 target as the CPU; f16 target: an f16 product (`__hmul2`)"},
    ),
    "Q2_K": _super("q2_K", MINUS_MIN, "mmvq: no f16 sum; mmq: f16 sums of 16 activations, Inf from 65520 on"),
    "Q3_K": _super("q3_K", SUB_SCALED),
    "Q4_K": _super("q4_K", MINUS_MIN, MMQ_HALF, "impl_vmmq"),
    "Q5_K": _super("q5_K", MINUS_MIN, MMQ_HALF, "impl_vmmq"),
    "Q6_K": _super("q6_K", SUB_SCALED),
    "IQ1_M": _grid("iq1_m", NEVER_ZERO, "no f16 sum in mmvq; no mmq kernel in the version read"),
    "IQ1_S": _grid(
        "iq1_s",
        TILE_OF_HALVES,
        f"{HALF_SUM}, in mmvq and mmq",
        "mmq-load-tiles.cuh:ggml_cuda_mmq_load_tiles_iq1_s",
    ),
    "IQ2_S": _grid("iq2_s", NEVER_ZERO),
    "IQ2_XS": _grid("iq2_xs", NEVER_ZERO),
    "IQ2_XXS": _grid("iq2_xxs", NEVER_ZERO),
    "IQ3_S": _grid("iq3_s", NEVER_ZERO),
    "IQ3_XXS": _grid("iq3_xxs", NEVER_ZERO),
    "IQ4_NL": Reading(("convert.cu:dequantize_block_iq4_nl", "vecdotq.cuh:vec_dot_iq4_nl_q8_1"), NEVER_ZERO),
    "IQ4_XS": Reading(("convert.cu:dequantize_block_iq4_xs", "vecdotq.cuh:vec_dot_iq4_xs_q8_1"), SUB_SCALED),
    "MXFP4": Reading(
        (
            "common.cuh:ggml_cuda_e8m0_to_fp32",
            "convert.cu:dequantize_block_mxfp4",
            "vecdotq.cuh:vec_dot_mxfp4_q8_1",
        ),
        {
            "0": "2^-127 is subnormal: 0 for every code, flushed",
            "1": "convert.cu: ±1 flushed; dot product: factor 2^-127, all flushed",
            "2": "convert.cu: as the CPU; dot product: 2^-126 times an activation scale below 1 is flushed",
            "252": "convert.cu: Inf for ±8 and ±12, which overflow before the half",
            "253": "convert.cu: Inf for ±4 and ±6 too; the CPU not",
            "254": "convert.cu: Inf for ±2 and ±3 too; the CPU not",
            "255": "NaN from CUDA 12.8 on; before, Inf, and NaN for code 0",
            "ordinary": "as the CPU",
        },
    ),
    "NVFP4": Reading(
        (
            "common.cuh:ggml_cuda_ue4m3_to_fp32",
            "convert.cu:dequantize_block_nvfp4",
            "vecdotq.cuh:vec_dot_nvfp4_q8_1",
        ),
        FOUR_SCALES,
    ),
    "TQ1_0": ABSENT,
    "TQ2_0": ABSENT,
    "BF16": _plain(BFLOAT16, NO_SUM_MMVF),
    "F16": _plain(FLOAT16, HALF_PRODUCTS),
    "F32": _plain(FLOAT32, NO_SUM_MMVF),
}


def says(kind_name: str, *groups: str) -> str:
    """The word for a kind and its classes of scale, each with its own where they differ."""
    reading = READ.get(kind_name)
    if reading is None:
        return NOT_LOOKED_AT
    found: dict[str, list[str]] = {}
    for group in groups:
        found.setdefault(reading.word(group), []).append(group)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(of)}: {word}" for word, of in found.items())


def sums(kind_name: str) -> str:
    reading = READ.get(kind_name)
    return reading.sums if reading else NOT_LOOKED_AT


def functions(kind_name: str) -> str:
    """Where the words come from: `file`: `function`, …"""
    reading = READ.get(kind_name)
    if reading is None:
        return NOT_LOOKED_AT
    return ", ".join("{}: `{}`".format(*name.split(":")) for name in reading.functions) or NO_KERNEL
