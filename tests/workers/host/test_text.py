"""What CUDA text may say: built-in variables, vector types, intrinsics, shared memory, shuffles, atomics."""

import platform
from collections.abc import Callable

import numpy as np
import pytest

from workers.host import compiler
from workers.host.module import Module

K = 'extern "C" __global__ void k'
ZEROS = np.zeros(64, np.float32)
HALF_BITS = np.arange(65536, dtype=np.uint16)
HALVES = (
    K
    + """(const unsigned short *h, float *out) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = __host_half_to_float(h[i]);
    }"""
)


def test_built_in_variables_in_three_dimensions(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(int *out) {
        int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        int size = blockDim.x * blockDim.y * blockDim.z;
        out[blockIdx.x * size + t] = 10000 * gridDim.x + 1000 * threadIdx.x + 100 * threadIdx.y + threadIdx.z;
    }"""
    )
    got = run(text, [], np.zeros(48, np.int32), grid=2, block=(2, 3, 4)).reshape(2, 4, 3, 2)
    z, y, x = np.indices((4, 3, 2))
    assert (got == 20000 + 1000 * x + 100 * y + z).all()


@pytest.mark.parametrize(
    ("name", "nbytes", "align"),
    [
        ("float2", 8, 8),
        ("float4", 16, 16),
        ("uint2", 8, 8),
        ("uint4", 16, 16),
        ("int4", 16, 16),
        ("uchar4", 4, 4),
        ("char4", 4, 4),
        ("ushort2", 4, 4),
        ("float3", 12, 4),
        ("double2", 16, 16),
    ],
)
def test_vector_types_have_cudas_size_and_alignment(
    run: Callable[..., np.ndarray], name: str, nbytes: int, align: int
) -> None:
    text = K + f"(int *out) {{ out[0] = sizeof({name}); out[1] = alignof({name}); }}"
    assert run(text, [], np.zeros(2, np.int32), block=1).tolist() == [nbytes, align]


def test_vectors_are_made_and_read_as_words(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(const float *x, float *out) {
        float4 v = *(const float4 *)(x + 4);
        uchar4 b = make_uchar4(1, 2, 3, 255);
        out[0] = v.x + 10 * v.w; out[1] = b.w; out[2] = make_float2(5, 6).y;
    }"""
    )
    assert run(text, [np.arange(8, dtype=np.float32)], np.zeros(3, np.float32), block=1).tolist() == [
        74,
        255,
        6,
    ]


@pytest.mark.parametrize(
    ("call", "lane_5"),
    [
        ("__shfl_down_sync(~0u, v, 3)", 8),
        ("__shfl_up_sync(~0u, v, 2)", 3),
        ("__shfl_xor_sync(~0u, v, 4)", 1),
        ("__shfl_sync(~0u, v, 17)", 17),
        ("__shfl_sync(~0u, v, 1, 4)", 5),
        ("__shfl_down_sync(~0u, v, 3, 8)", 5),
        ("__shfl_up_sync(~0u, v, 6)", 5),
        ("__shfl_xor_sync(~0u, v, 1, 2)", 4),
    ],
)
@pytest.mark.parametrize(
    ("c_type", "dtype"), [("float", "f4"), ("int", "i4"), ("unsigned", "u4"), ("double", "f8")]
)
def test_shuffles(run: Callable[..., np.ndarray], call: str, lane_5: int, c_type: str, dtype: str) -> None:
    text = K + f"({c_type} *out) {{ {c_type} v = threadIdx.x; out[threadIdx.x] = {call}; }}"
    assert run(text, [], np.zeros(32, dtype))[5] == lane_5


def test_two_halves_of_a_warp_shuffle_by_themselves(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(int *out) {
        int v = threadIdx.x, upper = v / 16;
        for (int d = 8; d; d /= 2)
            v += upper ? __shfl_xor_sync(0xffff0000u, v, d) : __shfl_xor_sync(0xffffu, v, d);
        out[threadIdx.x] = __shfl_sync(0xffffffffu, v, 31 - threadIdx.x);
    }"""
    )
    assert run(text, [], np.zeros(32, np.int32)).tolist() == [376] * 16 + [120] * 16


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("ucontext", [False, True], ids=["inline", "ucontext"])
def test_a_row_of_shuffles_keeps_each_lanes_values_apart(
    run: Callable[..., np.ndarray], order: int, ucontext: bool
) -> None:
    text = (
        K
        + """(unsigned *out) {
        unsigned v = threadIdx.x;
        for (int i = 0; i < 100; ++i) {
            v = 5 * v + __shfl_sync(~0u, v, threadIdx.x * 7 + i);
            v ^= __shfl_xor_sync(~0u, v, 1 + i % 31);
            __syncwarp();
        }
        out[threadIdx.x] = v;
    }"""
    )
    lanes = np.arange(32)
    want = np.arange(64, dtype=np.uint32).reshape(2, 32)
    for i in range(100):
        want = 5 * want + want[:, (lanes * 7 + i) % 32]
        want = want ^ want[:, lanes ^ (1 + i % 31)]
    got = run(text, [], np.zeros(64, np.uint32), block=64, order=order, ucontext=ucontext)
    assert got.tolist() == want.reshape(-1).tolist()


@pytest.mark.parametrize("order", [0, 1])
def test_a_short_warp_shuffles_by_the_full_mask_and_gets_poison_from_lanes_it_lacks(
    run: Callable[..., np.ndarray], order: int
) -> None:
    text = K + "(unsigned *out) { out[threadIdx.x] = __shfl_down_sync(~0u, threadIdx.x, 2); }"
    got = run(text, [], np.zeros(37, np.uint32), block=37, order=order)
    poison = 0x7FC0DEAD
    assert got.tolist() == [*range(2, 32), 30, 31, 34, 35, 36, poison, poison]


def test_a_lane_outside_the_mask_gives_poison(run: Callable[..., np.ndarray]) -> None:
    text = K + "(unsigned *out) { if (threadIdx.x < 2) out[threadIdx.x] = __shfl_down_sync(3u, 7u, 1); }"
    assert run(text, [], np.zeros(2, np.uint32)).tolist() == [7, 0x7FC0DEAD]


def test_votes(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(unsigned *out) {
        unsigned odd = __ballot_sync(~0u, threadIdx.x & 1);
        out[0] = odd; out[1] = __any_sync(~0u, threadIdx.x == 9); out[2] = __all_sync(~0u, threadIdx.x < 31);
    }"""
    )
    assert run(text, [], np.zeros(3, np.uint32)).tolist() == [0xAAAAAAAA, 1, 0]


@pytest.mark.parametrize("scope", ["inside", "outside"])
def test_dynamic_shared_memory_is_declared_in_a_function_or_outside(
    run: Callable[..., np.ndarray], scope: str
) -> None:
    declared = "extern __shared__ float s[];"
    before, within = ("", declared) if scope == "inside" else (declared + "\n", "")
    text = (
        before
        + K
        + f"""(float *out) {{
        {within}
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = reinterpret_cast<const float *>(s)[63 - threadIdx.x];
    }}"""
    )
    assert run(text, [], ZEROS, block=64, shared=256).tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("workers", [1, 2])
def test_barriers_and_static_shared_memory_in_any_order(
    run: Callable[..., np.ndarray], order: int, workers: int
) -> None:
    text = (
        K
        + """(float *out) {
        __shared__ float s[96];
        s[threadIdx.x] = threadIdx.x;
        for (int half = 48; half >= 3; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        }
        __syncthreads();
        if (threadIdx.x == 0) out[blockIdx.x] = s[0] + s[1] + s[2];
    }"""
    )
    got = run(text, [], np.zeros(40, np.float32), block=96, grid=40, order=order, workers=workers)
    assert got.tolist() == [96 * 95 / 2] * 40


def test_order_0_ascends_and_order_1_descends(run: Callable[..., np.ndarray]) -> None:
    text = K + "(int *out) { out[atomicAdd(&out[64], 1)] = blockIdx.x * 32 + threadIdx.x; }"
    assert run(text, [], np.zeros(65, np.int32), grid=2)[:64].tolist() == list(range(64))
    assert run(text, [], np.zeros(65, np.int32), grid=2, order=1)[:64].tolist() == list(range(63, -1, -1))


def test_shared_memory_is_poison_before_every_block(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(unsigned *out) {
        __shared__ unsigned fixed[32];
        extern __shared__ unsigned dynamic[];
        out[blockIdx.x * 2] = fixed[31]; out[blockIdx.x * 2 + 1] = dynamic[31];
        fixed[31] = dynamic[31] = 1;
    }"""
    )
    assert run(text, [], np.zeros(6, np.uint32), block=1, grid=3, shared=128).tolist() == [0x7FC0DEAD] * 6


def test_a_missing_barrier_shows_in_one_of_the_orders(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(float *out) {
        __shared__ float s[64];
        s[threadIdx.x] = 1;
        out[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    )
    for order in (0, 1):
        assert np.isnan(run(text, [], ZEROS, block=64, order=order)).sum() == 32


def test_atomics_from_two_workers(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(float *out) {
        atomicAdd(out, 1.0f); atomicAdd((int *)out + 1, 2); atomicMax((int *)out + 2, threadIdx.x);
    }"""
    )
    got = run(text, [], np.zeros(3, np.float32), block=128, grid=100, workers=2)
    assert (got[0], got.view(np.int32)[1], got.view(np.int32)[2]) == (12800, 25600, 127)


def test_every_half_converts_exactly(run: Callable[..., np.ndarray]) -> None:
    got = run(HALVES, [HALF_BITS], np.zeros(65536, np.float32), block=256, grid=256)
    np.testing.assert_array_equal(got, HALF_BITS.view(np.float16).astype(np.float32))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="F16C is x86's")
def test_every_half_converts_exactly_without_the_cpus_help(
    run: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", f"{compiler.find().path} -mno-f16c -mno-avx512f -DNO_F16C")
    text = HALVES.replace("out[i]", "\n#ifdef __F16C__\n#error\n#endif\nout[i]")
    got = run(text, [HALF_BITS], np.zeros(65536, np.float32), block=256, grid=256)
    np.testing.assert_array_equal(got, HALF_BITS.view(np.float16).astype(np.float32))


def test_rsqrtf_is_the_rounded_double(run: Callable[..., np.ndarray]) -> None:
    x = np.abs(np.random.default_rng(1).standard_normal(1024)).astype(np.float32)
    text = K + "(const float *x, float *y) { int i = blockIdx.x * 32 + threadIdx.x; y[i] = rsqrtf(x[i]); }"
    want = (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32)
    np.testing.assert_array_equal(run(text, [x], np.zeros_like(x), grid=32), want)


def test_contraction_only_in_the_build_default_and_never_in_rn(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(const float *x, float *y) {
        y[0] = x[0] * x[0] + x[1];
        y[1] = __fadd_rn(__fmul_rn(x[0], x[0]), x[1]); y[2] = fmaf(x[0], x[0], x[1]);
    }"""
    )
    a = np.float32(1 + 2**-12)
    x = np.array([a, -a * a], np.float32)
    exact, default = (run(text, [x], np.zeros(3, np.float32), block=1, build=b) for b in ("exact", "default"))
    assert exact.tolist() == [0, 0, 2**-24]
    assert default[1:].tolist() == [0, 2**-24]
    assert default[0] in (0, 2**-24)  # fused where the CPU can


def test_integer_intrinsics(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(int *out) {
        out[0] = __dp4a(0x01ff7f80, 0x02030405, 10); out[1] = __byte_perm(0x33221100, 0x77665544, 0x7160);
        out[2] = __popc(0xf0f0); out[3] = __clz(1); out[4] = __float2int_rn(2.5f); out[5] = min(3, -4);
        out[6] = __float_as_int(1.0f); out[7] = max(2u, 5u); out[8] = __float2int_rn(1e20f);
    }"""
    )
    want = [10 + 2 - 3 + 4 * 127 - 5 * 128, 0x77116600, 8, 31, 2, -4, 0x3F800000, 5, 2**31 - 1]
    assert run(text, [], np.zeros(9, np.int32), block=1).tolist() == want


def test_char_is_signed_and_bytes_read_as_words(run: Callable[..., np.ndarray]) -> None:
    text = K + "(const char *x, int *out) { out[0] = x[0]; out[1] = *(const int *)x; }"
    assert run(text, [np.full(4, 0xFF, np.uint8)], np.zeros(2, np.int32), block=1).tolist() == [-1, -1]


def test_large_local_arrays_live_on_the_fibers_stack(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(float *out) {
        float local[16384];
        for (int i = 0; i < 16384; ++i) local[i] = i + threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = local[16383 - threadIdx.x];
    }"""
    )
    assert run(text, [], ZEROS, block=64).tolist() == [16383.0] * 64


@pytest.mark.parametrize("ucontext", [False, True], ids=["inline", "ucontext"])
def test_frames_of_any_shape_survive_a_switch(run: Callable[..., np.ndarray], ucontext: bool) -> None:
    text = (
        K
        + """(float *out, int n) {
        float sized[n];
        __attribute__((aligned(64))) float aligned[16];
        double many[8];
        for (int i = 0; i < 16; ++i) aligned[i] = i * threadIdx.x;
        for (int i = 0; i < 8; ++i) many[i] = i + 0.5 * threadIdx.x;
        sized[n - 1] = threadIdx.x;
        for (int i = 0; i < 8; ++i) {
            many[i] += __shfl_down_sync(~0u, many[7 - i], 1, 1);
            sized[n - 1] += __shfl_xor_sync(~0u, sized[n - 1], 1);
            __syncthreads();
        }
        out[threadIdx.x] = sized[n - 1] + aligned[3] + (float)many[2] + ((size_t)aligned % 64);
    }"""
    )
    lane = np.arange(64)
    pairs = (2 * (lane // 2) * 2 + 1) * 2**7
    many = (2 + 0.5 * lane) + (5 + 0.5 * lane)
    got = run(text, [], ZEROS, block=64, scalars=(37,), ucontext=ucontext)
    assert got.tolist() == (pairs + 3 * lane + many).tolist()


def test_template_entries_are_told_by_name(load: Callable[..., Module]) -> None:
    text = "template <int N> __global__ void t(int *out) { out[0] = N; }"
    module = load(text, entries=["t<3>", "t<4>"])
    assert [e.signature for e in module.entries.values()] == ["t<3>(i32*)", "t<4>(i32*)"]


def test_a_template_beside_a_kernel_is_no_entry(load: Callable[..., Module]) -> None:
    text = "template <int N> __global__ void t(int *out) { out[0] = N; }\n" + K + "(int *out) {}"
    assert list(load(text).entries) == ["k"]


def test_entry_named_by_a_macro(load: Callable[..., Module]) -> None:
    module = load('#define ENTRY matvec_q4_0\nextern "C" __global__ void ENTRY(const float *x, int n) {}')
    assert list(module.entries) == ["matvec_q4_0"]


def test_the_portable_switch_gives_the_same_bits(run: Callable[..., np.ndarray]) -> None:
    text = (
        K
        + """(const float *x, float *out) {
        __shared__ float s[64];
        s[threadIdx.x] = expf(x[threadIdx.x]);
        __syncthreads();
        float v = s[63 - threadIdx.x];
        for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
        out[threadIdx.x] = v / 3;
    }"""
    )
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    one, other = (run(text, [x], ZEROS, block=64, grid=3, ucontext=u) for u in (False, True))
    assert one.tobytes() == other.tobytes()
    assert one.any()
