"""Kernels of a user's catalog run, are judged, and get the verdict that each of them deserves."""

from __future__ import annotations

import pytest

from kernels.evidence import Verdict
from kernels.model import Build, Layout, Shape
from kernels.op import Workload
from tests.workers.catalogs import edited, quick, ran, written

SMALL = Workload(Shape.of(rows=37, cols=768))


@pytest.mark.parametrize(
    ("folder", "kinds", "skipped"),
    [("walk", ("Q8_0",), {"declared"}), ("engine", ("Q4_0", "Q8_0"), {"range"})],
)
def test_every_quick_case_passes_or_is_refused_with_its_reason(folder, kinds, skipped):
    found = quick(edited(folder), kinds)
    assert {one.verdict for one in found} == {Verdict.PASS, Verdict.SKIP}
    passed = [one for one in found if one.verdict is Verdict.PASS]
    assert len(passed) >= 20 * len(kinds)
    assert sum(one.comparison.positions for one in passed if one.comparison) > 300 * len(kinds)
    reasons = [one.reason for one in found if one.verdict is Verdict.SKIP]
    assert all(any(word in reason for word in skipped) for reason in reasons), reasons


@pytest.mark.parametrize("build", [Build.EXACT, Build.DEFAULT, Build.CHECK, Build.DECLARED])
@pytest.mark.parametrize(("folder", "kind"), [("walk", "Q8_0"), ("engine", "Q4_0"), ("engine", "Q8_0")])
def test_a_right_kernel_passes_in_every_build(folder, kind, build):
    found = ran(edited(folder), SMALL, kind, build)
    assert (found.verdict, found.reason) == (Verdict.PASS, "")
    assert found.comparison is not None
    assert (found.comparison.positions, found.comparison.judge) == (37, "oracle")
    # Nobody wrote a twin: nothing is claimed to equal one.
    assert (found.comparison.twinless, found.comparison.bit_exact, found.comparison.twin_agrees) == (
        True,
        False,
        False,
    )
    assert ("-freciprocal-math" in found.flags) is (build is Build.DECLARED)


WRONG = [
    ("walk", {"rows.cu": (("(float)block.q[lane]", "(float)(block.q[lane] & 127)"),)}, "Q8_0", "element ("),
    ("walk", {"rows.cu": (("b * 32 + lane", "b * 32 + (lane ^ 1)"),)}, "Q8_0", "element ("),
    ("walk", {"rows.cu": (("int b = 0; b < blocks", "int b = 0; b < blocks - 1"),)}, "Q8_0", "element ("),
    (
        "walk",
        {"rows.cu": (("if (row >= rows)", "if (row >= rows - 1)"),)},
        "Q8_0",
        "1 of 37 outputs never written",
    ),
    (
        "walk",
        {"rows.toml": (("ceil_div(rows, warps)", "rows / warps"),)},
        "Q8_0",
        "1 of 37 outputs never written",
    ),
    ("walk", {"rows.cu": (("step = 16", "step = 8"),)}, "Q8_0", "element ("),
    ("engine", {"src/blocks.cuh": (("qs[i - 16] >> 4", "qs[i - 16] & 15"),)}, "Q4_0", "element ("),
    ("engine", {"src/blocks.cuh": ((") - 8", ") - 7"),)}, "Q4_0", "element ("),
    ("engine", {"src/q8_1.cuh": (("/ 127.0f", "/ 128.0f"),)}, "Q8_0", "element ("),
    (
        "engine",
        {"src/half.h": (("__float2half_rn(value)", "__float2half_rn(value * 1.001f)"),)},
        "Q8_0",
        "element (",
    ),
    ("engine", {"matvec.toml": (('computes_on = "q8_1"', 'computes_on = "x"'),)}, "Q8_0", "element ("),
    (
        "engine",
        {"matvec.toml": (('["x", "quantized", "blocks"]', '["x", "quantized", "blocks - 1"]'),)},
        "Q8_0",
        "element (",
    ),
]


@pytest.mark.parametrize(("folder", "edits", "kind", "reason"), WRONG, ids=range(len(WRONG)))
def test_a_broken_copy_fails(folder, edits, kind, reason):
    found = ran(edited(folder, edits), SMALL, kind)
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith(reason), found.reason


def test_the_check_build_names_the_users_file_and_line():
    past = {"src/blocks.cuh": (("return qs[i]; }", "return qs[i + (i == 31)]; }"),)}
    found = ran(edited("engine", past), SMALL, "Q8_0", Build.CHECK)
    assert found.verdict is Verdict.FAIL
    assert found.reason.startswith("src/blocks.cuh:17 (called at line 25): read of 1 bytes"), found.reason
    last = {"src/matvec.cu": (("x[b].q[i]", "x[b + 1].q[i]"),)}
    found = ran(edited("engine", last), SMALL, "Q8_0", Build.CHECK)
    assert found.reason.startswith("src/matvec.cu:25: read of 1 bytes"), found.reason


def test_what_does_not_compile_says_the_users_file_and_line():
    found = ran(
        edited("engine", {"src/half.h": (("return __half2float", "return __half3float"),)}),
        SMALL,
        "Q8_0",
    )
    assert found.verdict is Verdict.REJECT
    assert found.reason.startswith("src/half.h:6:"), found.reason


def test_a_grid_past_the_limit_of_one_shape_is_a_reject_with_its_line():
    mine = edited("walk", {"rows.toml": (('["ceil_div(rows, warps)"]', '[1, "rows"]'),)})
    found = ran(mine, Workload(Shape.of(rows=70000, cols=32)), "Q8_0")
    assert (found.verdict, found.reason[:13]) == (Verdict.REJECT, "rows.toml:23:")


SILU = """
name = "mine"
op = "silu_mul"
[[step]]
entry_point = "k.cu::mine"
args = ["gate", "up", "out", "n"]
grid = ["ceil_div(n, 64)"]
block = [64]
"""
SILU_CU = """
__global__ void mine(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
"""
N300 = Workload(Shape.of(n=300), repeats=3)


def test_a_plain_kernel_of_an_op_without_kinds_passes():
    found = ran(written(k_toml=SILU, k_cu=SILU_CU), N300)
    assert (found.verdict, found.repeats) == (Verdict.PASS, 3)


TWIN = """
import numpy as np
from kernels.exp32 import exp32

def silu(step):
    gate, up = step.arrays["gate"], step.arrays["up"]
    assert step.scalars["n"] == len(gate)
    return gate / (np.float32(1) + exp32(-gate)) * up
"""


def test_a_twin_makes_bits_comparable_and_is_held_against_the_oracle_itself():
    toml = SILU.replace("[[step]]", 'twin = "t.py::silu"\n[[step]]')
    found = ran(written(k_toml=toml, k_cu=SILU_CU, t_py=TWIN), N300)
    assert found.comparison is not None
    assert (found.verdict, found.comparison.bit_exact, found.comparison.twinless) == (
        Verdict.PASS,
        True,
        False,
    )
    wrong = ran(written(k_toml=toml, k_cu=SILU_CU, t_py=TWIN.replace("* up", "* -up")), N300)
    assert wrong.comparison is not None
    assert (wrong.comparison.bit_exact, wrong.comparison.twin_agrees) == (False, False)
    fails = ran(written(k_toml=toml, k_cu=SILU_CU, t_py=TWIN.replace("len(gate)", "0")), N300)
    assert (fails.verdict, fails.reason) == (Verdict.ERROR, "t.py:7: the twin failed with AssertionError")


def test_without_a_twin_what_only_a_twin_could_judge_is_counted_out():
    found = ran(written(k_toml=SILU, k_cu=SILU_CU), N300, family="specials")
    assert found.verdict is Verdict.PASS
    assert "of 300 elements not judged" in found.reason
    assert found.comparison is not None
    assert 0 < found.comparison.positions < 300


def test_the_twin_backend_skips_a_kernel_without_a_twin():
    found = ran(written(k_toml=SILU, k_cu=SILU_CU), N300, backend_name="twin")
    assert (found.verdict, found.reason) == (
        Verdict.SKIP, "silu_mul/mine has no twin; take another backend, or declare one"
    )  # fmt: skip


IN_PLACE = """
__global__ void mine(const float *gate, float *up, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) up[i] *= gate[i] / (1.0f + expf(-gate[i]));
}
"""


@pytest.mark.parametrize("build", [Build.EXACT, Build.CHECK])
def test_an_output_may_take_the_place_of_an_input(build):
    toml = SILU.replace('"up", "out"', '"out"').replace("[[step]]", '[outputs.out]\ninout = "up"\n[[step]]')
    assert ran(written(k_toml=toml, k_cu=IN_PLACE), N300, build=build).verdict is Verdict.PASS
    wrong = ran(written(k_toml=toml, k_cu=IN_PLACE.replace("i < n", "i < n - 1")), N300, build=build)
    assert (wrong.verdict, wrong.comparison and wrong.comparison.bad) == (Verdict.FAIL, 1)


ADDS = """
__global__ void mine(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] += gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
"""


def test_an_output_may_be_filled_before_a_run():
    filled = SILU.replace("[[step]]", '[outputs.out]\nfill = "zero"\n[[step]]')
    assert ran(written(k_toml=filled, k_cu=ADDS), N300).verdict is Verdict.PASS
    assert ran(written(k_toml=SILU, k_cu=ADDS), N300).verdict is Verdict.FAIL
    assert ran(written(k_toml=filled.replace('"zero"', "0.5"), k_cu=ADDS), N300).verdict is Verdict.FAIL


# The last bit of the output depends on the order of blocks: each writes what the first to come left over.
UNSTEADY = """
__global__ void mine(const float *gate, const float *up, float *out, int *seen, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    const bool first = blockIdx.x == 0 || atomicAdd(seen, 1) < 64;
    const float right = i < n ? gate[i] / (1.0f + expf(-gate[i])) * up[i] : 0.0f;
    if (i < n) out[i] = first ? right : __uint_as_float(__float_as_uint(right) BY);
}
"""


@pytest.mark.parametrize(
    ("declared", "by", "verdict", "reason"),
    [
        (True, "", Verdict.FAIL, "nondeterministic: "),
        (False, "", Verdict.PASS, "3 runs, each judged; declared not deterministic"),
        (False, "+ 4096u", Verdict.FAIL, "element ("),
    ],
)
def test_repeats_may_differ_only_where_that_is_declared(declared, by, verdict, reason):
    toml = SILU.replace('"out", "n"', '"out", "seen", "n"').replace(
        "[[step]]",
        f"[outputs.out]\ndeterministic = {str(declared).lower()}\n"
        '[scratch.seen]\ndtype = "i32"\nshape = [1]\nfill = 0\n[[step]]',
    )
    found = ran(written(k_toml=toml, k_cu=UNSTEADY.replace("BY", by or "^ 1u")), N300)
    assert (found.verdict, found.repeats) == (verdict, 3)
    assert found.reason.startswith(reason), found.reason


SETUP = """
name = "mine"
op = "rmsnorm"
[scratch.doubled]
shape = ["n"]
[[setup]]
entry_point = "a.cu::prepare"
args = ["weights", "doubled", "n"]
grid = [1]
block = [32]
[[step]]
entry_point = "b.cu::mine"
args = ["x", "doubled", "out", "n", "eps"]
grid = ["rows"]
block = ["warp"]
"""
PREPARE = """
static __device__ float helper(float x) { return 2.0f * x; }
__global__ void prepare(const float *weights, float *doubled, int n) {
    for (int i = threadIdx.x; i < n; i += 32) doubled[i] = helper(weights[i]);
}
"""
NORM = """
static __device__ float helper(float x) { return 0.5f * x; }
__global__ void mine(const float *x, const float *doubled, float *out, int n, float eps) {
    const float *from = x + (long long)blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) sum += from[i] * from[i];
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, flip);
    const float scale = rsqrtf(sum / (float)n + eps);
    for (int i = threadIdx.x; i < n; i += 32)
        out[(long long)blockIdx.x * n + i] = from[i] * scale * helper(doubled[i]);
}
"""


def test_steps_may_be_of_several_files_and_set_up_is_timed_apart():
    mine = written(k_toml=SETUP, a_cu=PREPARE, b_cu=NORM)
    found = ran(mine, Workload(Shape.of(n=257, rows=3)))
    assert (found.verdict, [launch.entry for launch in found.launches]) == (Verdict.PASS, ["prepare", "mine"])
    assert len({launch.symbol_digest for launch in found.launches}) == 2
    assert dict(found.timings_us)["setup"] == pytest.approx(found.launches[0].elapsed_us)
    wrong = ran(
        written(k_toml=SETUP, a_cu=PREPARE.replace("2.0f", "2.5f"), b_cu=NORM),
        Workload(Shape.of(n=257, rows=3)),
    )
    assert wrong.verdict is Verdict.FAIL


ROUNDING = """
__device__ float half(float x) {
    const float whole = (__float_as_uint(x) & 0x7f800000u) ? x * 8193.0f : 0.0f;
    return whole - (whole - x);
}
__global__ void mine(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] = half(gate[i]) / (1.0f + expf(-half(gate[i]))) * half(up[i]);
}
"""


def test_rounded_activations_are_judged_as_such():
    as_half = SILU.replace(
        "[[step]]", '[inputs.gate]\ncomputes_on = "f16"\n[inputs.up]\ncomputes_on = "f16"\n[[step]]'
    )
    assert ran(written(k_toml=SILU, k_cu=ROUNDING), N300).verdict is Verdict.FAIL
    assert ran(written(k_toml=as_half, k_cu=ROUNDING), N300).verdict is Verdict.PASS
    assert ran(written(k_toml=as_half, k_cu=SILU_CU), N300).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("tolerance", "verdict"),
    [("units = 20000", Verdict.PASS), ("units = 20", Verdict.FAIL), ("relative = 0.004", Verdict.PASS),
     ("relative = 1e-7\nabsolute = 0.1", Verdict.PASS), ("absolute = 1e-7", Verdict.FAIL)],
)  # fmt: skip
def test_a_declared_tolerance_takes_the_place_of_float32s(tolerance, verdict):
    toml = SILU.replace("[[step]]", f'[tolerance]\nreason = "computes in half"\n{tolerance}\n[[step]]')
    found = ran(written(k_toml=toml, k_cu=ROUNDING), N300)
    assert found.verdict is verdict


HALVES = """
#define AT(p) (*(const unsigned short *)&(p))
__device__ float value(unsigned short bits) {
    const unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    float size = fraction * 0x1p-24f;
    if (exponent) size = __uint_as_float((exponent == 31u ? 255u : exponent + 112u) << 23 | fraction << 13);
    return bits & 0x8000u ? -size : size;
}
__global__ void mine(const unsigned short *gate, const unsigned short *up, float *out, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] = value(gate[i]) / (1.0f + expf(-value(gate[i]))) * value(up[i]);
}
"""


def test_activations_may_be_halves():
    toml = SILU.replace("[[step]]", '[inputs.gate]\ndtype = "f16"\n[inputs.up]\ndtype = "f16"\n[[step]]')
    found = ran(
        written(k_toml=toml, k_cu=HALVES), Workload(Shape.of(n=300), layout=Layout(x_offset=4, x_slack=32))
    )
    assert (found.verdict, found.case.x_dtype) == (Verdict.PASS, "f16")
    assert ran(written(k_toml=SILU, k_cu=HALVES), N300).verdict is Verdict.FAIL


def test_a_union_of_kinds_with_and_without_a_tensor_scale_has_one_signature():
    edits = {
        "rows.toml": (
            ('["Q8_0"]', '["Q8_0", "NVFP4"]'),
            ('"rows", "blocks"]', '"rows", "blocks", "weights_scale"]'),
        ),
        "rows.cu": (
            ("int blocks)", "int blocks, float scale)"),
            ("  out[row] = sum", "  out[row] = scale * sum"),
        ),
    }
    assert ran(edited("walk", edits), SMALL, "Q8_0").verdict is Verdict.PASS
    assert ran(edited("walk", edits), SMALL, "NVFP4").verdict is Verdict.FAIL  # it decodes Q8_0 alone


HEADERS = (
    "cuda_fp16.h", "cuda_bf16.h", "cuda.h", "cuda_runtime.h", "device_launch_parameters.h", "vector_types.h",
    "stdint.h", "cstdint", "math.h", "cmath", "assert.h", "cassert", "stdio.h", "cstdio", "stddef.h",
    "cstddef",
)  # fmt: skip


@pytest.mark.parametrize("backend_name", ["host", "nvrtc"])
def test_headers_that_engines_include_are_there(backend_name):
    if backend_name == "nvrtc":
        pytest.importorskip("cuda.bindings.nvrtc")
    one = "fmaxf(sqrtf(fabsf(roundf(0.0f))), 1.0f) * fminf(fmaf(1.0f, 1.0f, 0.0f), 1.0f)"
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    text += SILU_CU.replace("out[i] = ", f"out[i] = {one} * ")
    found = ran(written(k_toml=SILU, k_cu=text), N300, backend_name=backend_name)
    assert found.verdict is Verdict.PASS, found.reason


QUANTIZES = """
name = "mine"
op = "quantize_q8_1"
[[step]]
entry_point = "k.cu::mine"
args = ["x", "out"]
grid = ["rows * n / 32"]
block = ["warp"]
"""
Q8_1 = """
#include <cuda_fp16.h>
struct Block { half d, s; signed char q[32]; };
__global__ void mine(const float *x, Block *out) {
    const float value = x[blockIdx.x * 32 + threadIdx.x];
    float most = fabsf(value);
    for (int flip = 16; flip > 0; flip /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, flip));
    const float d = most / 127.0f;
    const int q = d == 0.0f ? 0 : (int)roundf(value * (1.0f / d));
    int sum = q;
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, flip);
    Block &block = out[blockIdx.x];
    block.q[threadIdx.x] = (signed char)q;
    if (threadIdx.x == 0) {
        block.d = __float2half_rn(d);
        block.s = __float2half_rn(d * (float)sum);
    }
}
"""


@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        (("roundf", "roundf"), Verdict.PASS),
        (("/ 127.0f", "/ 128.0f"), Verdict.FAIL),
        (("block.s =", "block.d ="), Verdict.FAIL),
    ],
)
def test_a_quantizer_of_ones_own_is_judged_byte_for_byte(edit, verdict):
    workload = Workload(Shape.of(n=96, rows=5), repeats=2)
    found = ran(written(k_toml=QUANTIZES, k_cu=Q8_1.replace(*edit)), workload)
    assert found.verdict is verdict, found.reason
    assert found.comparison is not None
    assert (found.case.out_dtype, found.comparison.positions) == ("q8_1", 5 * 3 * 36)


LADDER = """
name = "mine"
op = "matvec"
kinds = ["Q4_0"]
layout = "LAYOUT"
accumulates = "cols"
[axes]
quants_pitch = "4 * blocks + row_padding / 4"
scales_pitch = "blocks + row_padding / SCALE_BYTES"
[[step]]
entry_point = "k.cu::mine"
args = ["weights.quants", "weights.scales", "x", "out", "rows", "blocks", "quants_pitch", "scales_pitch"]
grid = ["ceil_div(rows, 32)"]
block = ["warp"]
"""
LADDER_CU = """
#include <cuda_fp16.h>
__device__ float value(float scale) { return scale; }
__device__ float value(half scale) { return __half2float(scale); }
__global__ void mine(const unsigned *quants, const SCALE *scales, const float *x, float *out, int rows,
                     int blocks, int quants_pitch, int scales_pitch) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < 32 * blocks; i++) {
        const unsigned word = quants[row * quants_pitch + i / 8];
        const int place = ORDER;
        sum += value(scales[row * scales_pitch + i / 32]) * (float)((int)(word >> 4 * place & 15) - 8) * x[i];
    }
    out[row] = sum;
}
"""
LINEAR, INTERLEAVED = "i % 8", "i % 4 * 2 + i % 8 / 4"  # the place of element i in its word
LAYOUTS = {
    "q4_linear_f16": ("half", LINEAR),
    "q4_interleaved_f16": ("half", INTERLEAVED),
    "q4_interleaved_f32": ("float", INTERLEAVED),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kernel_may_read_weights_in_another_layout(layout):
    scale, order = LAYOUTS[layout]
    toml = LADDER.replace("LAYOUT", layout).replace("SCALE_BYTES", str(2 if scale == "half" else 4))
    text = LADDER_CU.replace("SCALE", scale)
    right = quick(written(k_toml=toml, k_cu=text.replace("ORDER", order)))
    assert {one.verdict for one in right} == {Verdict.PASS}
    assert {one.case.packing for one in right} == {layout}
    assert any(one.case.layout.row_padding for one in right)
    other = next(one for one in (LINEAR, INTERLEAVED) if one != order)
    wrong = ran(written(k_toml=toml, k_cu=text.replace("ORDER", other)), SMALL, "Q4_0")
    assert (wrong.verdict, wrong.comparison and wrong.comparison.positions) == (Verdict.FAIL, 37)


def test_a_kernel_of_a_layout_may_refuse_padding():
    """The padding is each part's, whatever the layout's rows take."""
    toml = LADDER.replace("LAYOUT", "q4_linear_f16").replace("SCALE_BYTES", "2")
    toml = toml.replace("[[step]]", "[constraints]\nrow_padding = { most = 0 }\n[[step]]")
    mine = written(k_toml=toml, k_cu=LADDER_CU.replace("SCALE", "half").replace("ORDER", LINEAR))
    found = ran(mine, Workload(Shape.of(rows=7, cols=96), layout=Layout(row_padding=64)), "Q4_0")
    assert (found.verdict, found.reason) == (Verdict.SKIP, "row_padding 64 is more than 0, as declared")


GEMV = """
name = "mine"
op = "matvec"
kinds = ["Q4_0"]
arithmetic = "ARITHMETIC"
[inputs.weights]
align = 2
[constraints]
row_padding = { most = 0 }
[[step]]
entry_point = "k.cu::mine"
args = ["weights", "x", "out", "rows", "blocks"]
grid = ["rows"]
block = [1]
"""
GEMV_CU = """
#include <cuda_fp16.h>
struct Block { half d; unsigned char qs[16]; };
__global__ void mine(const Block *w, const float *x, float *out, int rows, int blocks) {
    float sum = 0.0f;
    for (int b = 0; b < blocks; b++) {
        const Block &block = w[(long long)blockIdx.x * blocks + b];
        float dot = 0.0f;
        for (int i = 0; i < 32; i++)
            dot += (float)((block.qs[i % 16] >> i / 16 * 4 & 15) - 8) * x[b * 32 + i];
        sum += __half2float(block.d) * dot;
    }
    out[blockIdx.x] = sum;
}
"""


@pytest.mark.parametrize(("arithmetic", "verdict"), [("factored", Verdict.PASS), ("decoded", Verdict.FAIL)])
def test_inf_times_a_sum_is_no_fault_of_a_kernel_that_multiplies_sums(arithmetic, verdict):
    """The oracle has Inf times 0, NaN, where such a kernel has Inf times what is left."""
    mine = written(k_toml=GEMV.replace("ARITHMETIC", arithmetic), k_cu=GEMV_CU)
    found = ran(mine, Workload(Shape.of(rows=40, cols=32)), "Q4_0", family="specials")
    assert found.verdict is verdict, found.reason
    assert found.comparison is not None
    assert 20 < found.comparison.positions <= 40
    wrong = written(k_toml=GEMV.replace("ARITHMETIC", arithmetic), k_cu=GEMV_CU.replace("- 8", "- 7"))
    assert ran(wrong, Workload(Shape.of(rows=40, cols=32)), "Q4_0", family="specials").verdict is Verdict.FAIL
