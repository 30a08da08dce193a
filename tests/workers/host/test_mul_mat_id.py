"""mul_mat_id on the host: a wrong expert leaves the buffer and is named; experts may lie past 2^31 bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernels import catalog, registry, source
from kernels.catalog import Selection
from kernels.evidence import Evidence, Verdict
from kernels.model import Build
from tests.cases.making import run_with
from tests.workers.zoo import Wrong
from workers.backend import KernelFault, Unavailable
from workers.backends.host import Host
from workers.host import compiler
from workers.host.memory import GuardedBuffer
from workers.host.module import Module

KERNELS = ("mul_mat_id/block", "mul_mat_id/coalesced")
NEXT_EXPERT = (("ids[slot] * expert_bytes", "(ids[slot] + 1) * expert_bytes"),)
NARROW = (("ids[slot] * expert_bytes", "(int)(ids[slot] * expert_bytes)"),)


@pytest.fixture(autouse=True)
def has_a_compiler() -> None:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))


def lines(wrong: Wrong, build: Build) -> list[Evidence]:
    chosen = Selection(kernels=(wrong.kernel,), kinds=(wrong.kind,), families=("ordinary",), builds=(build,))
    return [run_with(Host(wrong.text), planned.case) for planned in catalog.expand(chosen)]


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_the_expert_behind_the_last_is_seen_in_every_case(kernel_id: str) -> None:
    """Every case has an id of the last expert, behind which the buffer ends."""
    wrong = Wrong("the next expert", kernel_id, "Q8_0", NEXT_EXPERT)
    crashed, found = lines(wrong, Build.EXACT), lines(wrong, Build.CHECK)
    assert len(crashed) == len(found) == 8
    assert {line.verdict for line in crashed} == {Verdict.CRASH}
    assert {line.verdict for line in found} == {Verdict.FAIL}
    assert all("past the end of buffer 'weights'" in line.reason for line in crashed + found)


FAR = 3 << 30  # bytes from one expert to the next, more than an int holds


def far_apart(kernel_id: str, folder: Path, wrong: Wrong | None = None) -> np.ndarray:
    """(2,): one block of Q8_0 of either of two experts, FAR apart in memory that is mostly never touched."""
    kind, kernel = registry.kind("Q8_0"), registry.launch_kernel(kernel_id)
    text = wrong.text(kernel_id, kind.name) if wrong else source.text(kernel_id, kind.name)
    weights = GuardedBuffer("weights", FAR + kind.block_bytes, 1)
    x, ids, out = (GuardedBuffer(name, nbytes, 4) for name, nbytes in (("x", 128), ("ids", 8), ("out", 8)))
    for at, value in ((0, 1), (FAR, 2)):
        block = weights.view[at : at + kind.block_bytes].view(kind.block)
        block["d"], block["qs"] = 1, value
    x.view.view(np.float32)[:] = 1
    ids.view.view(np.int32)[:] = (0, 1)
    scalars = [1, 32, 2, kind.block_bytes, FAR] + ([2] if kernel_id.endswith("coalesced") else [])
    module = Module(compiler.build(text, "k.cu", "exact", folder), "k.cu")
    grid, shared = ((2, 1, 1), 1024) if kernel_id.endswith("block") else ((1, 1, 1), 0)
    module.launch(kernel.entry(kind.name), grid, (256, 1, 1), shared, [weights, x, ids, out, *scalars])
    return out.view.view(np.float32).copy()


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_experts_may_lie_more_than_two_gigabytes_apart(kernel_id: str, tmp_path: Path) -> None:
    assert far_apart(kernel_id, tmp_path).tolist() == [32, 64]


@pytest.mark.parametrize("kernel_id", KERNELS)
def test_an_offset_in_32_bits_is_seen(kernel_id: str, tmp_path: Path) -> None:
    with pytest.raises(KernelFault, match="read"):
        far_apart(kernel_id, tmp_path, Wrong("narrow", kernel_id, "Q8_0", NARROW))
