"""What ggml's CUDA source does with special scales: read from its text, not run; words for the document."""

from __future__ import annotations

from dataclasses import dataclass, field

NOT_LOOKED_AT = "not looked at"

# What reading one file means: its path below ggml/src/ggml-cuda and the first digits of the version read.
# They are of different days; none is the commit that the golden data is of.
FILES = {
    "convert.cu": "009626c9f8ef",
    "dequantize.cuh": "2e5ff4fe1b29",
    "vecdotq.cuh": "027ef8769913",
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

NO_SUM = "no f16 sum in the dot product read (mmvq)"
HALF_SUM = "the sum of 32 activations is f16: Inf from 65520 on"


@dataclass(frozen=True)
class Reading:
    """One kind's part: the functions read, a word per class of scale, and what its sums pass through."""

    functions: tuple[str, ...]  # file:function
    says: dict[str, str] = field(default_factory=lambda: PRODUCT)
    sums: str = NO_SUM


def _scalar(name: str, dot: str, says: dict[str, str], sums: str) -> Reading:
    return Reading((f"dequantize.cuh:dequantize_{name}", f"vecdotq.cuh:{dot}"), says, sums)


def _super(name: str, says: dict[str, str], sums: str = NO_SUM, dot: str = "impl_mmvq") -> Reading:
    dequantize = f"convert.cu:dequantize_block_{name}"
    return Reading((dequantize, f"vecdotq.cuh:vec_dot_{name}_q8_1_{dot}"), says, sums)


M_SUM = f"{HALF_SUM}, and its product with m is f16 too"
MMQ_HALF = "mmvq: no f16 sum; mmq (impl_mmq): " + HALF_SUM

READ = {
    "Q1_0": _scalar("q1_0", "vec_dot_q1_0_q8_1", ONE_BIT, NO_SUM),
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
    "Q5_0": _scalar("q5_0", "vec_dot_q5_0_q8_1_impl", PRODUCT, HALF_SUM),
    "Q8_0": Reading(
        (
            "convert.cu:dequantize_block_q8_0_f16",
            "dequantize.cuh:dequantize_q8_0",
            "vecdotq.cuh:vec_dot_q8_0_q8_1_impl",
        ),
        PRODUCT | {"subnormal": "float32 target as the CPU; f16 target: an f16 product (`__hmul2`)"},
    ),
    "Q2_K": _super("q2_K", MINUS_MIN, "mmvq: no f16 sum; mmq: f16 sums of 16 activations, Inf from 65520 on"),
    "Q3_K": _super("q3_K", PRODUCT),
    "Q4_K": _super("q4_K", MINUS_MIN, MMQ_HALF, "impl_vmmq"),
    "Q5_K": _super("q5_K", MINUS_MIN, MMQ_HALF, "impl_vmmq"),
    "Q6_K": _super("q6_K", PRODUCT),
    "IQ4_NL": Reading(("convert.cu:dequantize_block_iq4_nl", "vecdotq.cuh:vec_dot_iq4_nl_q8_1")),
    "IQ4_XS": Reading(("convert.cu:dequantize_block_iq4_xs", "vecdotq.cuh:vec_dot_iq4_xs_q8_1")),
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
}


def says(kind_name: str, group: str) -> str:
    """The word for a kind and a class of scale; `not looked at` for a kind that nobody read."""
    reading = READ.get(kind_name)
    return reading.says.get(group, reading.says["ordinary"]) if reading else NOT_LOOKED_AT


def sums(kind_name: str) -> str:
    reading = READ.get(kind_name)
    return reading.sums if reading else NOT_LOOKED_AT


def functions(kind_name: str) -> str:
    """Where the words come from: `file`: `function`, …"""
    reading = READ.get(kind_name)
    if reading is None:
        return NOT_LOOKED_AT
    return ", ".join("{}: `{}`".format(*name.split(":")) for name in reading.functions)
