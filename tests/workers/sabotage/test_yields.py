"""Three bugs of the reference's own sabotage, planted here: how many outputs each makes wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernels import source
from kernels.catalog import Selection, expand
from kernels.compare import RELATIVE
from kernels.model import Build
from workers.backend import Unavailable
from workers.files import FileStore
from workers.host import compiler
from workers.host.module import Module
from workers.image_cache import ImageCache
from workers.sabotage.fixture import Fixture, fixture

KERNEL = "mul_mm/reference"
LARGE, TALL, SMALL = (64, 64), (71, 31), (25, 21)  # rows and tokens: 4,096, 2,201 and 525 outputs


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return tmp_path_factory.mktemp("cache")


def dense(kind: str, sizes: list[tuple[int, int]]) -> list[Fixture]:
    """256 columns of zero-mean random numbers, as the reference's check has them."""
    shapes = tuple(f"mul_mm:{rows}x256x{tokens}" for rows, tokens in sizes)
    chosen = Selection(kernels=(KERNEL,), kinds=(kind,), shapes=shapes, builds=(Build.EXACT,))
    images = ImageCache(FileStore())
    return [fixture(planned.case, images) for planned in expand(chosen)]


def mismatches(module: Module, entry: str, case: Fixture) -> int:
    """Outputs that even the usual rule finds wrong."""
    got = case.run([(module, entry)], 0).astype(np.float64)
    assert case.twin is not None
    return int(np.count_nonzero(np.abs(got - case.twin) > RELATIVE * np.maximum(np.abs(case.twin), 1)))


# Kind, what stands there, the bug, what the reference's check compared and found wrong, the shapes here.
YIELDS = [
    (
        "Q5_0",
        "block[AT_QH + 2 * sub] | block[AT_QH + 2 * sub + 1] << 8",
        "bytes_at(block + AT_QH) >> 12 * sub",  # 12 for 16: the upper half's fifth bits
        (6822, 6096),
        [LARGE, TALL, SMALL],
    ),
    ("IQ4_XS", ">> ((group & 3) << 1) & 3", ">> (group & 3) & 3", (4096, 4000), [LARGE]),
    ("Q3_K", "(hmask[i] >> bit & 1) << 2", "(~hmask[i] >> bit & 1) << 2", (4096, 3968), [LARGE]),
]


@pytest.mark.parametrize(("kind", "right", "wrong", "reference", "sizes"), YIELDS)
def test_the_references_bugs_make_at_least_as_many_outputs_wrong(
    cache: Path, kind: str, right: str, wrong: str, reference: tuple[int, int], sizes: list[tuple[int, int]]
) -> None:
    text = source.text(KERNEL, kind)
    assert text.count(right) == 1
    cases = dense(kind, sizes)
    assert sum(case.truth.want.size for case in cases) == reference[0]
    for version, least, most in ((text, 0, 0), (text.replace(right, wrong), reference[1], reference[0])):
        module = Module(compiler.build(version, "k.cu", "exact", cache))
        wrongs = sum(mismatches(module, cases[0].flush.launches[0][0].entry, case) for case in cases)
        module.close()
        assert least <= wrongs <= most
