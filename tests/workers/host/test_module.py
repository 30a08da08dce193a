"""Loading and launching: what the signature, the limits and a second module have to say."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from workers.backend import BoardFault, KernelFault, Rejected
from workers.host import compiler
from workers.host.memory import Arena
from workers.host.module import Module

K = 'extern "C" __global__ void k'
ONE = (1, 1, 1)


@pytest.fixture
def typed(load: Callable[..., Module]) -> Module:
    return load(
        K + "(const unsigned char *w, float *out, int rows, float eps, long long pitch, unsigned char u) {}"
    )


def good() -> list[object]:
    return [4096, Arena().allocate("out", 4), 3, 0.5, 2**40, 255]


def test_the_signature_is_what_the_compiler_deduced(typed: Module) -> None:
    assert typed.entries["k"].signature == "k(const u8*, f32*, i32, f32, i64, u8)"


def test_fitting_arguments_are_taken(typed: Module) -> None:
    typed.launch("k", ONE, ONE, 0, good())
    typed.launch("k", ONE, ONE, 0, [*good()[:2], np.int32(-1), np.float32(2), np.int64(7), np.uint8(1)])


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 1.5, r"argument 0 of k\(.*\): got float 1.5, want const u8\*"),
        (0, -1, r"argument 0 .* want const u8\*"),
        (2, 2**31, r"argument 2 .*: got int 2147483648, want i32"),
        (2, 1.0, r"argument 2 .*: got float 1.0, want i32"),
        (3, 1, r"argument 3 .*: got int 1, want f32"),
        (5, 256, r"argument 5 .*: got int 256, want u8"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(typed: Module, at: int, value: object, reason: str) -> None:
    args = good()
    args[at] = value
    with pytest.raises(Rejected, match=reason):
        typed.launch("k", ONE, ONE, 0, args)


def test_a_buffer_for_a_scalar_is_refused_by_its_name(typed: Module) -> None:
    args = good()
    args[2] = args[1]
    with pytest.raises(Rejected, match="got GuardedBuffer out, want i32"):
        typed.launch("k", ONE, ONE, 0, args)


def test_a_missing_argument_is_refused(typed: Module) -> None:
    with pytest.raises(Rejected, match=r"takes 6 arguments, got 5"):
        typed.launch("k", ONE, ONE, 0, good()[:5])


@pytest.mark.parametrize(
    ("grid", "block", "shared", "reason"),
    [
        ((1, 65536, 1), ONE, 0, r"grid \(1, 65536, 1\) is not between"),
        ((0, 1, 1), ONE, 0, r"grid \(0, 1, 1\)"),
        (ONE, (1, 1, 65), 0, r"block \(1, 1, 65\)"),
        (ONE, (32, 33, 1), 0, r"has 1056 threads, the most is 1024"),
        (ONE, ONE, 48 * 1024 - 127, r"128 static and 49025 dynamic bytes"),
    ],
)
def test_limits_of_every_gpu_are_kept(
    load: Callable[..., Module],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    reason: str,
) -> None:
    module = load(K + "(int *out) { __shared__ float s[32]; s[0] = 1; __syncthreads(); out[0] = s[0]; }")
    with pytest.raises(Rejected, match=reason):
        module.launch("k", grid, block, shared, [4096])


def test_static_shared_bytes_are_those_of_the_entry(load: Callable[..., Module]) -> None:
    other = (
        K.replace("k", "other") + "(int *o) { __shared__ int s[3]; s[0] = 1; __syncthreads(); *o = s[0]; }"
    )
    module = load(
        K
        + "(float *out) { __shared__ float4 t[64]; t[0].x = 1; __syncthreads(); out[0] = t[0].x; }\n"
        + other
    )
    assert {n: e.static_shared_bytes for n, e in module.entries.items()} == {"k": 1024, "other": 12}


def test_a_launch_says_what_it_was(load: Callable[..., Module]) -> None:
    launch = load(K + "() {}").launch("k", (3, 2, 1), (40, 1, 1), 64, [])
    assert (launch.grid, launch.block, launch.dynamic_shared_bytes) == ((3, 2, 1), (40, 1, 1), 64)
    assert 0 < launch.elapsed_us < 1e6


def test_an_unknown_entry_is_refused(load: Callable[..., Module]) -> None:
    with pytest.raises(Rejected, match="no entry named 'j'; there are k"):
        load(K + "() {}").launch("j", ONE, ONE, 0, [])


def test_a_folder_from_which_nothing_is_executed_is_no_fault_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "text.so"
    library.write_text("no library")
    with pytest.raises(Rejected, match=r"the loader refuses text\.so: "):
        Module(library)
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(
        BoardFault, match=r"mounted noexec, .* set FARM_STATE to a folder elsewhere"
    ) as raised:
        Module(library)
    assert not raised.value.sticky


def test_two_modules_with_the_same_names_do_not_collide(load: Callable[..., Module]) -> None:
    text = (
        "__device__ int state = %d; __device__ int get() { return state++; }\n"
        + K
        + "(int *o) { o[0] = get(); }"
    )
    modules = [load(text % n) for n in (10, 20)]
    out = Arena().allocate("out", 4)
    seen = []
    for module in [*modules, *modules]:
        module.launch("k", ONE, ONE, 0, [out])
        seen.append(int(out.view.view(np.int32)[0]))
    assert seen == [10, 20, 11, 21]


def test_a_closed_module_has_no_entries(load: Callable[..., Module]) -> None:
    module = load(K + "() { }  // closed")
    module.close()
    with pytest.raises(Rejected, match="no entry"):
        module.launch("k", ONE, ONE, 0, [])


def test_launches_from_two_threads_take_turns(load: Callable[..., Module]) -> None:
    module = load(
        K + "(int *out) { for (int i = 0; i < 1000; ++i) { __syncthreads(); out[threadIdx.x]++; } }"
    )
    arena = Arena()
    outs = [arena.allocate(f"out{i}", 256) for i in range(4)]
    threads = [threading.Thread(target=module.launch, args=("k", ONE, (64, 1, 1), 0, [o])) for o in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((o.view.view(np.int32) == 1000).all() for o in outs)


FAULTY = (
    K
    + """(int *out, int bad) {
    __shared__ int s[64];
    s[threadIdx.x] = bad;
    __syncthreads();
    if (bad == 1) out[threadIdx.x + (1 << 14)] = 1;
    if (bad == 2 && threadIdx.x < 9) __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x] + 7;
}"""
)


def held() -> tuple[int, int, int]:
    """Memory maps, open files and KiB of this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf8").count("\n")
    pages = int(Path("/proc/self/statm").read_text(encoding="utf8").split()[1])
    return maps, len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE") >> 10


def launch_good_or_bad(module: Module, i: int) -> None:
    """Two of three launches fault, in two ways; each has a buffer, an order and workers of its own."""
    out, bad = Arena().allocate("out", 256), i % 3
    launch = partial(module.launch, "k", (2, 1, 1), (64, 1, 1), 0, [out, bad], i % 2, 1 + i // 2 % 2)
    if bad:
        with pytest.raises(KernelFault, match="past the end of buffer" if bad == 1 else "reached by 9 of 64"):
            launch()
    else:
        launch()
        assert (out.view.view(np.int32) == 7).all()


def test_launches_with_faults_in_between_leak_nothing(load: Callable[..., Module]) -> None:
    module = load(FAULTY)
    for i in range(200):
        launch_good_or_bad(module, i)
    before = held()
    for i in range(10000):
        launch_good_or_bad(module, i)
    maps, files, kib = (b - a for a, b in zip(before, held(), strict=True))
    assert maps <= 4  # malloc may take another arena
    assert files == 0
    assert kib < 8192


def test_two_modules_in_two_threads_keep_their_faults_and_results_apart(load: Callable[..., Module]) -> None:
    modules = [load(FAULTY), load(FAULTY + "  // another")]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(launch_good_or_bad, modules[i % 2], j) for j in range(500) for i in range(2)]
        assert all(run.result() is None for run in runs)


def test_the_largest_block_with_the_most_shared_memory(load: Callable[..., Module]) -> None:
    text = (
        K
        + """(int *out) {
        extern __shared__ int s[];
        for (int i = threadIdx.x; i < 12288; i += blockDim.x) s[i] = i;
        __syncthreads();
        atomicAdd(out, s[12287 - threadIdx.x]);
    }"""
    )
    out = Arena().allocate("out", 4)
    load(text).launch("k", (10, 1, 1), (1024, 1, 1), 48 << 10, [out], workers=2)
    assert int(out.view.view(np.int32)[0]) == 10 * sum(range(12288 - 1024, 12288))


@pytest.mark.parametrize("order", [0, 1])
def test_a_grid_of_100000_blocks(load: Callable[..., Module], order: int) -> None:
    text = K + "(int *out) { __syncthreads(); if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x + 1; }"
    out = Arena().allocate("out", 400000)
    load(text).launch("k", (100000, 1, 1), (33, 1, 1), 0, [out], order)
    assert (out.view.view(np.int32) == np.arange(1, 100001)).all()


def test_a_local_that_nobody_has_written_holds_a_pattern(run: Callable[..., np.ndarray]) -> None:
    """By chance it would hold the 1.0 that the call before left on the stack, or 0."""
    if not compiler.find().more:
        pytest.skip("this compiler can't fill local variables")
    text = """extern "C" __global__ void k(const float *x, float *out) {
        float w[8]; if (x[0] > 1.0f) for (int i = 0; i < 8; ++i) w[i] = 1.0f;
        out[threadIdx.x] = w[threadIdx.x % 8]; }"""
    got = run(text, [np.zeros(1, np.float32)], np.zeros(32, np.float32))
    assert len(set(got.view(np.uint8).tolist())) <= 2  # gcc repeats a byte, clang has a NaN's
    assert not np.isin(got, (0.0, 1.0)).any()
