"""The check build: every planted bug is found at its line, and what is right is left alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import numpy as np
import pytest

from tests.workers.host.bugs import BUGS, HEAD, Bug
from workers.host import check as findings
from workers.host.check import Checker
from workers.host.memory import Arena
from workers.host.module import Module


@pytest.fixture(params=["g++", "clang++"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which(request.param):
        pytest.skip(f"needs {request.param}")
    monkeypatch.setenv("CXX", request.param)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_at_its_line(
    compiled: None, check: Callable[..., list[str]], bug: Bug
) -> None:
    found = check(bug.text, grid=bug.grid)
    assert found
    assert found[0].startswith("k.cu:")
    assert re.search(rf"^k.cu:{bug.line}[: ]|\(called at line {bug.line}\)", found[0]), found
    assert bug.says in found[0] or re.search(bug.says, found[0]), found


@pytest.mark.parametrize("bug", BUGS[:13], ids=lambda bug: bug.name)
def test_the_portable_switch_and_the_other_order_find_it_too(
    check: Callable[..., list[str]], bug: Bug
) -> None:
    assert check(bug.text, grid=bug.grid, order=1, ucontext=True)


CLEAN = {
    "a tree in shared memory": """__shared__ float s[64]; s[t] = x[t]; __syncthreads();
        for (int half = 32; half > 0; half /= 2) { if (t < half) s[t] += s[t + half]; __syncthreads(); }
        if (t == 0) out[0] = s[0];""",
    "two halves of dynamic shared memory": """extern __shared__ float s[]; float *other = s + 32;
        if (t < 32) s[t] = x[t]; else other[t - 32] = x[t];
        __syncthreads(); out[t] = s[63 - t];""",
    "vectors": """__shared__ float4 s[16]; if (t < 16) s[t] = *(const float4 *)(x + 4 * t); __syncthreads();
        float4 v = s[t / 4]; v = make_float4(v.w, v.z, v.y, v.x);
        if (t % 4 == 0) *(float4 *)(out + t) = v;""",
    "lanes that wait for one another": """__shared__ float s[64]; s[t] = x[t]; __syncwarp();
        float v = s[t ^ 1]; __syncwarp(); s[t] = v; __syncwarp(); out[t] = s[t ^ 2];""",
    "pairs that wait for one another": """__shared__ float s[64]; unsigned pair = 3u << (t & 30);
        s[t] = x[t]; __syncwarp(pair); float v = s[t ^ 1]; __syncwarp(pair); s[t ^ 1] = v;
        __syncwarp(pair); out[t] = s[t];""",
    "a barrier after partial waits": """__shared__ float s[64]; s[t] = x[t];
        __syncwarp(t & 16 ? 0xffff0000u : 0xffffu);
        out[t] = s[t ^ 8]; __syncthreads(); s[63 - t] = out[t];""",
    "bytes of one word by four threads": """unsigned char *b = (unsigned char *)out;
        for (int i = 0; i < 4; ++i) b[64 * i + t] = t;
        __syncthreads(); float v = out[t]; __syncthreads(); out[t] = v;""",
    "atomic sums of a block": """__shared__ unsigned sum; if (t == 0) sum = 0; __syncthreads();
        atomicAdd(&sum, t); __syncthreads(); if (t == 0) out[0] = sum;""",
    "local arrays by address": """float w[16]; for (int i = 0; i < 16; ++i) w[(i * 5 + t) & 15] = x[i];
        float *p = w + (t & 7); out[t] = p[0] + p[8];""",
    "tables of the text": "static const float table[4] = {1, 2, 3, 4}; out[t] = table[(int)x[t] & 3];",
    "promises that hold": """const float *from = x + 4 * (t / 4);
        out[t] = ((const float *)__builtin_assume_aligned(from, 16))[t & 3]
        + *(const float *)__builtin_assume_aligned(x + 1, 16, 4);""",
    "threads that leave": "if (t >= 40) return; out[t] = __shfl_down_sync(t < 32 ? ~0u : 0xffu, x[t], 1);",
}  # fmt: skip


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("body", CLEAN)
def test_what_is_right_is_left_alone(
    compiled: None, check: Callable[..., list[str]], body: str, order: int
) -> None:
    assert check(f"{HEAD}{CLEAN[body]}\n}}", order=order) == []


LAST_BLOCK = """__shared__ bool last; unsigned *count = (unsigned *)(out + 63);
    out[blockIdx.x] = x[blockIdx.x]; FENCE;
    last = atomicAdd(count, 1u) % 8 == 7;
    if (last) { float sum = 0; for (int i = 0; i < 8; ++i) sum += out[i]; out[62] = sum; }"""


def test_the_last_block_may_read_what_others_wrote_before_a_fence(check: Callable[..., list[str]]) -> None:
    found = check(f"{HEAD}{LAST_BLOCK.replace('FENCE', '__threadfence()')}\n}}", block=1, grid=8)
    assert [one.split(", ")[0] for one in found] == ["k.cu:5: read of 4 bytes that nobody has written"]
    unfenced = check(f"{HEAD}{LAST_BLOCK.replace('FENCE', ';')}\n}}", block=1, grid=8)
    assert "races with the write at line 4 by another block" in unfenced[1]


def test_each_place_is_told_once(check: Callable[..., list[str]]) -> None:
    found = check(f"{HEAD}for (int i = 0; i < 3; ++i)\n out[t] += x[t];\n}}", grid=3)
    assert [one.split(",")[0] for one in found][:1] == ["k.cu:4: read of 4 bytes that nobody has written"]
    assert len(found) == len(set(found)) < 8


def test_shared_memory_of_the_block_before_is_not_written_any_more(check: Callable[..., list[str]]) -> None:
    text = HEAD + "__shared__ float s;\n if (blockIdx.x == 0) s = x[0];\n out[blockIdx.x] = s;\n}"
    (found,) = check(text, block=1, grid=2)
    assert re.match(
        r"k.cu:5: read .* written, 0 bytes into shared array 's', thread \(0,0,0\) of block \(1,0,0\)",
        found,
    )


def test_without_a_checker_nothing_is_looked_at(load: Callable[..., Module]) -> None:
    arena = Arena()
    x, out = arena.place("x", np.arange(64, dtype=np.float32)), arena.allocate("out", 256)
    load(HEAD + "out[t] += x[t];\n}", "check").launch("k", (1, 1, 1), (64, 1, 1), 0, [x, out])
    assert out.view.view(np.float32).tolist() == list(range(64))


def test_a_buffer_written_by_one_launch_is_read_by_the_next(load: Callable[..., Module]) -> None:
    arena, checker = Arena(), Checker()
    x, between, out = (
        arena.place("x", np.ones(64, np.float32)),
        arena.allocate("b", 256),
        arena.allocate("o", 256),
    )
    for buffer in (x, between, out):
        checker.watch(buffer, buffer is x)
    module = load(HEAD + "out[t] = x[63 - t];\n}", "check")
    for args in ([x, between], [between, out], [out, between]):
        module.launch("k", (1, 1, 1), (64, 1, 1), 0, args, checker=checker)
    assert checker.findings == []
    module.launch("k", (1, 1, 1), (64, 1, 1), 0, [out, out], checker=checker)
    assert "races with" in checker.findings[0]


def test_without_addr2line_a_finding_names_the_place(
    check: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings.shutil, "which", lambda name: None)
    (found,) = check(HEAD + "out[t] += x[t];\n}", block=1)
    assert re.match(r"k.cu:unknown \(offset 0x\w+ of \w+.so; install binutils\): read", found)
