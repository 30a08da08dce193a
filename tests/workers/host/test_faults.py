"""Every way a kernel can go wrong has its own words, and the next launch is well."""

import platform
from collections.abc import Callable

import numpy as np
import pytest

from workers.backend import KernelFault
from workers.host.memory import Arena
from workers.host.module import Module

K = 'extern "C" __global__ void k'
BODIES = {
    "half the block at the barrier": (
        "if (threadIdx.x < 16) __syncthreads();",
        r"barrier at line 1 reached by 16 of 64 threads",
    ),
    "two barriers in one warp": (
        "if (threadIdx.x & 1)\n __syncthreads();\n else\n __syncthreads();",
        r"divergent barriers: line (2|4) and line (2|4)",
    ),
    "two barriers in two warps": (
        "if (threadIdx.x < 32)\n __syncthreads();\n else\n __syncthreads();",
        r"divergent barriers: line 2 and line 4",
    ),
    "a shuffle names lanes that left": (
        "if (threadIdx.x & 1) return;\n out[0] = __shfl_down_sync(~0u, 1, 1);",
        r"line 2: mask 0xffffffff of a warp function names lanes that have left \(left: 0xaaaaaaaa\), warp 0",
    ),
    "a shuffle waits for lanes at a barrier": (
        "if (threadIdx.x & 1) __syncthreads();\n else out[0] = __shfl_down_sync(~0u, 1, 1);",
        r"line 2: mask 0xffffffff of a warp function .* lanes that never come \(at a barrier: 0xaaaaaaaa\)",
    ),
    "a shuffle whose mask lacks the caller": (
        "out[0] = __shfl_down_sync(1u, 1, 1);",
        r"mask 0x00000001 does not name the calling lane 1",
    ),
    "two shuffles at once": (
        "if (threadIdx.x & 1)\n out[0] = __shfl_sync(~0u, 1, 1);\n else\n out[0] = __shfl_sync(~0u, 1, 2);",
        r"divergent warp functions: line 2 .* against line 4|line 4 .* against line 2",
    ),
    "a whole warp's shuffle against one of some lanes": (
        "unsigned pair = 3u << (threadIdx.x & 30);\n"
        "if (threadIdx.x & 1)\n out[0] = __shfl_sync(~0u, 1, 1);\n else\n out[0] = __shfl_sync(pair, 1, 2);",
        r"divergent warp functions: line 5 with mask 0x00000003 against line 3 with mask 0xffffffff",
    ),
    "a whole warp's shuffle against a ballot": (
        "if (threadIdx.x & 1)\n out[0] = __shfl_sync(~0u, 1, 1);\n else\n out[0] = __ballot_sync(~0u, 1);",
        r"divergent warp functions: line (2|4) .* against line (4|2)",
    ),
    "a trap": (
        "if (threadIdx.x == 40)\n __trap();",
        r"__trap\(\) at line 2, thread \(40,0,0\) of block \(0,0,0\)",
    ),
    "an assertion": ("assert(threadIdx.x < 40);", r"assert\(.*40\) at line 1, thread \(40,0,0\)"),
    "an abort": (
        "if (threadIdx.x == 3) __builtin_abort();",
        r"the text gave up \(Aborted\), thread \(3,0,0\)",
    ),
    "a read past the end": (
        "out[0] = out[threadIdx.x + 1];",
        r"read of 0x\w+\): 0 bytes past the end of buffer 'out'",
    ),
    "a write past the end": ("out[64 + 1] = 1;", r"write to 0x\w+\): 4 bytes past the end of buffer 'out'"),
    "a write far before": (
        "out[-5000] = 1;",
        r"write to 0x\w+\): 20000 bytes before the start of buffer 'out'",
    ),
    "a null pointer": ("*(volatile int *)0 = 1;", r"write to 0x0\): a null pointer"),
    "an address in no buffer": (
        "out[0] = *(volatile int *)0x123456789000;",
        r"read of 0x123456789000\): in no buffer",
    ),
    "dynamic shared memory too small": (
        "extern __shared__ int s[]; s[64 + threadIdx.x] = 1;",
        r"wild access: 0 bytes past the end of the 256 bytes of dynamic shared memory, thread \(0,0,0\)",
    ),
    "one element past static shared memory": (
        "__shared__ float s[64];\n volatile float *p = s; p[threadIdx.x + 1] = 1;",
        r"wrote past its shared memory: 0 bytes past the end of what is static, block \(0,0,0\)",
    ),
    "far past static shared memory": (
        "__shared__ float s[64];\n volatile float *p = s; p[64 + 1000] = 1;",
        r"wrote past its shared memory: 4000 bytes past the end",
    ),
    "before static shared memory": (
        "__shared__ float s[64];\n volatile float *p = s; p[-2] = 1;",
        r"wrote past its shared memory: 8 bytes before the start",
    ),
    "endless recursion": (
        "struct R { static int f(volatile int *p) { int x = f(p); return x + *p; } }; out[0] = R::f(out);",
        r"stack overflow: local arrays and calls take more than \d+ bytes, thread \(0,0,0\)",
    ),
    "an array larger than the stack": (
        "volatile int big[1 << 20]; big[threadIdx.x] = 1; out[0] = big[threadIdx.x];",
        r"stack overflow",
    ),
}


def launch(load: Callable[..., Module], body: str, **options: bool) -> None:
    arena = Arena()
    out = arena.allocate("out", 256)
    load(f"{K}(int *out) {{ {body} }}", **options).launch("k", (1, 1, 1), (64, 1, 1), 256, [out])


@pytest.mark.parametrize("ucontext", [False, True], ids=["assembly", "ucontext"])
@pytest.mark.parametrize("body", BODIES)
def test_the_fault_is_named(load: Callable[..., Module], body: str, ucontext: bool) -> None:
    text, reason = BODIES[body]
    with pytest.raises(KernelFault, match=reason):
        launch(load, text, ucontext=ucontext)
    launch(load, "__syncthreads();")  # the process is well


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs divide by zero silently")
def test_division_by_zero_is_a_fault_where_the_cpu_says_so(load: Callable[..., Module]) -> None:
    with pytest.raises(KernelFault, match="arithmetic fault"):
        launch(load, "out[0] = 100 / *(volatile int *)out;")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_in_one_block_ends_the_launch(run: Callable[..., np.ndarray], workers: int) -> None:
    text = K + "(int *out) { if (blockIdx.x == 500) __trap(); out[blockIdx.x] = 1; }"
    with pytest.raises(KernelFault, match=r"block \(500,0,0\)"):
        run(text, [], np.zeros(1000, np.int32), grid=1000, workers=workers)


def test_a_write_to_a_sealed_input_is_a_fault(load: Callable[..., Module]) -> None:
    arena = Arena()
    x = arena.place("x", np.ones(8, np.float32))
    module = load(K + "(float *x) { x[3] = 1; }")
    with (
        arena.sealed(["x"]),
        pytest.raises(KernelFault, match="write to read-only buffer 'x', 12 bytes into"),
    ):
        module.launch("k", (1, 1, 1), (1, 1, 1), 0, [x])
    module.launch("k", (1, 1, 1), (1, 1, 1), 0, [x])


def test_lines_are_those_of_the_text_behind_an_outer_extern(load: Callable[..., Module]) -> None:
    text = "extern __shared__ float s[];\n" + K + "(int *out) {\n  __trap();\n}"
    with pytest.raises(KernelFault, match="at line 3"):
        load(text).launch("k", (1, 1, 1), (1, 1, 1), 16, [Arena().allocate("out", 4)])
