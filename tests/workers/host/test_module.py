"""Loading and launching: what the signature, the limits and a second module have to say."""

import threading

import numpy as np
import pytest

from workers.backend import Rejected
from workers.host.memory import Arena

K = 'extern "C" __global__ void k'
ONE = (1, 1, 1)


@pytest.fixture
def typed(load):
    return load(
        K + "(const unsigned char *w, float *out, int rows, float eps, long long pitch, unsigned char u) {}"
    )


def good():
    return [4096, Arena().allocate("out", 4), 3, 0.5, 2**40, 255]


def test_the_signature_is_what_the_compiler_deduced(typed):
    assert typed.entries["k"].signature == "k(const u8*, f32*, i32, f32, i64, u8)"


def test_fitting_arguments_are_taken(typed):
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
def test_an_argument_that_does_not_fit_is_refused(typed, at, value, reason):
    args = good()
    args[at] = value
    with pytest.raises(Rejected, match=reason):
        typed.launch("k", ONE, ONE, 0, args)


def test_a_buffer_for_a_scalar_is_refused_by_its_name(typed):
    args = good()
    args[2] = args[1]
    with pytest.raises(Rejected, match="got GuardedBuffer out, want i32"):
        typed.launch("k", ONE, ONE, 0, args)


def test_a_missing_argument_is_refused(typed):
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
def test_limits_of_every_gpu_are_kept(load, grid, block, shared, reason):
    module = load(K + "(int *out) { __shared__ float s[32]; s[0] = 1; __syncthreads(); out[0] = s[0]; }")
    with pytest.raises(Rejected, match=reason):
        module.launch("k", grid, block, shared, [4096])


def test_static_shared_bytes_are_those_of_the_entry(load):
    other = (
        K.replace("k", "other") + "(int *o) { __shared__ int s[3]; s[0] = 1; __syncthreads(); *o = s[0]; }"
    )
    module = load(
        K
        + "(float *out) { __shared__ float4 t[64]; t[0].x = 1; __syncthreads(); out[0] = t[0].x; }\n"
        + other
    )
    assert {n: e.static_shared_bytes for n, e in module.entries.items()} == {"k": 1024, "other": 12}


def test_a_launch_says_what_it_was(load):
    launch = load(K + "() {}").launch("k", (3, 2, 1), (40, 1, 1), 64, [])
    assert (launch.grid, launch.block, launch.dynamic_shared_bytes) == ((3, 2, 1), (40, 1, 1), 64)
    assert 0 < launch.elapsed_us < 1e6


def test_an_unknown_entry_is_refused(load):
    with pytest.raises(Rejected, match="no entry named 'j'; there are k"):
        load(K + "() {}").launch("j", ONE, ONE, 0, [])


def test_two_modules_with_the_same_names_do_not_collide(load):
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


def test_a_closed_module_has_no_entries(load):
    module = load(K + "() { }  // closed")
    module.close()
    with pytest.raises(Rejected, match="no entry"):
        module.launch("k", ONE, ONE, 0, [])


def test_launches_from_two_threads_take_turns(load):
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
