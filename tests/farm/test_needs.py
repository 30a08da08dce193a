"""What cases ask of a board: memory by their buffers, an architecture by their kernel."""

from __future__ import annotations

import pytest

from db import campaign, evidence
from db.job import jobs_of
from db.session import Database
from farm.campaign import checked, target
from farm.needs import least_sm, needs
from kernels import registry
from kernels.catalog import Planned
from kernels.evidence import Rule, Verdict
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Case, Device, Seeded, Shape

DRAWN = Seeded("ordinary", 0, FIXTURE_VERSION)


def case(kernel: str, shape: Shape, kind: str = "Q4_K") -> Case:
    return Case("matvec", kernel, (kind,), shape, DRAWN, DRAWN, Build.DEFAULT)


def board(sm: int, gib: int) -> Device:
    told = (("sm", f"sm_{sm}"), ("memory_bytes", str(gib << 30)))
    return Device(f"gpu-{sm}", f"gpu-{sm}", "A GPU", f"u{sm}", fingerprint=told)


def test_a_large_case_needs_the_memory_of_its_buffers() -> None:
    """9 GiB of weights at 144 bytes for 256; a small case asks for nothing."""
    large = Shape.of(rows=65_536, cols=262_144)
    weights = 65_536 * 262_144 // 256 * 144
    found = needs(case("block", large)).memory_bytes
    assert weights < found < weights * 1.001
    assert needs(case("block", Shape.of(rows=37, cols=768))).memory_bytes == 0


@pytest.mark.parametrize(
    ("kernel", "least"),
    [("matvec/block", 0), ("matvec/dp4a", 61), ("matvec/ladder_v5", 53), ("gemm/library", 0)],
)
def test_a_kernel_needs_the_least_architecture_that_it_takes(kernel: str, least: int) -> None:
    assert least_sm(registry.kernel(kernel)) == least


def test_a_refused_case_asks_for_nothing_of_a_board() -> None:
    refused = case("dp4a", Shape.of(rows=3, cols=100))
    assert registry.op("matvec").refuses(refused) or registry.kernel("matvec/dp4a").refuses(refused)
    assert needs(refused).sm == 0


@pytest.mark.parametrize(
    ("of", "device", "why"),
    [
        (
            case("block", Shape.of(rows=65_536, cols=262_144)),
            board(86, 8),
            "needs 9.0 GiB of device memory, the board has 8.0",
        ),
        (case("dp4a", Shape.of(rows=37, cols=768)), board(60, 16), "needs sm_61, this is sm_60"),
        (case("dp4a", Shape.of(rows=37, cols=768)), board(61, 8), ""),
    ],
)
def test_a_class_without_enough_is_skip_when_jobs_are_made(
    database: Database, of: Case, device: Device, why: str
) -> None:
    with database.writing() as s:
        planned = [checked(Planned(of, 1), {})]
        words = {"selection": "{}", "rule": Rule.BOUND, "planned": planned, "now_us": 1}
        made = campaign.create(s, targets=[target("cuda", device)], **words)
        (job,) = jobs_of(s, made)
        assert job.verdict is (Verdict.SKIP if why else None)
        assert [stored.line.reason for stored in evidence.of_case(s, of.id)] == [why] * bool(why)
