"""Wrong CUDA text through the isolator: a verdict each, neighbours with their bits, and nothing left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from kernels.declared.catalog import Catalog
from kernels.evidence import Evidence, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Seeded, Shape
from tests.workers.catalogs import written
from tests.workers.test_isolate import children
from workers import packs
from workers.isolate import Isolated
from workers.machine import cpu_device
from workers.request import Request
from workers.runner import new_id

CASES = 300
PLACE = 2  # of the bad one: the third
LONG_S, SHORT_S = 60.0, 1.0
MEMORY_BYTES = 3 << 30

HEAD = """
extern "C" int fork(); extern "C" int setsid(); extern "C" int pause();
extern "C" void *malloc(unsigned long);
extern "C" __global__ void bad(const float *gate, const float *up, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    if (i != 0) return;
"""
TOML = """
name = "{name}"
op = "silu_mul"
[[step]]
entry_point = "k.cu::bad"
args = ["gate", "up", "out", "n"]
grid = ["ceil_div(n, 256)"]
block = [256]
"""
# What one thread does beside the right thing, the verdict, and a part of its reason.
BAD = {
    "crash": ("*(volatile int *)16 = 1;", Verdict.CRASH, "wild access"),
    "abort": ("__builtin_abort();", Verdict.CRASH, "the text gave up"),
    "hang": ("for (volatile int on = 1; on;) {}", Verdict.TIMEOUT, "outlived its deadline of 1 s"),
    "eat": (
        "for (;;) { volatile char *p = (volatile char *)malloc(1ul << 28);\n"
        "for (unsigned long at = 0; at < 1ul << 28; at += 1ul << 26) p[at] = 1; }",
        Verdict.CRASH,
        "wild access",
    ),
    "fork": (
        "if (fork() == 0) { setsid(); pause(); }\nfork(); fork(); for (;;) pause();",
        Verdict.TIMEOUT,
        "",
    ),
    "guard": ("out[-1] = 1.0f;", Verdict.FAIL, "out"),
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("FARM_TEST", str(os.getpid()))
    monkeypatch.setenv("FARM_STATE", str(tmp_path_factory.getbasetemp() / "bad-kernels"))


@pytest.fixture
def slot() -> Iterator[Isolated]:
    with closing(Isolated(memory_bytes=MEMORY_BYTES)) as isolated:
        yield isolated


def catalog_of(name: str) -> Catalog:
    return written(k_toml=TOML.format(name=name), k_cu=HEAD + BAD[name][0] + "\n}\n")


def case(kernel: str, n: int) -> Case:
    drawn = Seeded("ordinary", n, FIXTURE_VERSION)
    return Case("silu_mul", kernel, (), Shape.of(n=n), drawn, drawn, Build.EXACT)


def right(slot: Isolated, n: int) -> Evidence:
    return slot.run(Request(new_id(), case("flat", n), "host", cpu_device()), LONG_S)


def bad(slot: Isolated, name: str) -> Evidence:
    address = packs.keep(catalog_of(name).pack, packs.store()).name
    asked = Request(new_id(), case(name, 300), "host", cpu_device(), pack=address, packs=str(packs.store()))
    # What hangs has been compiled before its short deadline.
    return slot.run(asked, SHORT_S if BAD[name][1] is Verdict.TIMEOUT else LONG_S)


def compiled(name: str) -> None:
    """Has the text in the compile cache, so that a short deadline is the kernel's own."""
    with closing(Isolated(memory_bytes=MEMORY_BYTES)) as isolated:
        bad(isolated, name)


def digests(lines: list[Evidence]) -> list[tuple[Verdict, str]]:
    return [(line.verdict, line.output_digest) for line in lines]


def test_300_cases_have_300_verdicts_and_neighbours_their_bits_when_the_third_and_others_are_bad(
    slot: Isolated,
) -> None:
    for name in ("hang", "fork"):
        compiled(name)
    places = {PLACE + 50 * number: name for number, name in enumerate(BAD)}
    alone = [right(slot, n + 1) for n in range(CASES)]
    lines = [bad(slot, places[n]) if n in places else right(slot, n + 1) for n in range(CASES)]
    slot.close()
    assert not children()
    for place, name in places.items():
        _, verdict, reason = BAD[name]
        assert (lines[place].verdict, reason in lines[place].reason) == (verdict, True), lines[place].reason
    good = [n for n in range(CASES) if n not in places]
    assert digests([lines[n] for n in good]) == digests([alone[n] for n in good])
    assert (len(good), {alone[n].verdict for n in good}) == (CASES - len(BAD), {Verdict.PASS})
