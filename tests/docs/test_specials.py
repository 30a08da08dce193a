"""docs/SPECIALS.md is what the code does now, covers every kind, and a changed line is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels import registry
from kernels.model import Build
from tests.docs import ggml_cuda, specials
from workers.backend import Unavailable
from workers.host import compiler


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    try:
        compiler.find()
    except Unavailable as why:
        pytest.skip(str(why))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def test_document_is_current() -> None:
    assert specials.DOCUMENT.read_text(encoding="utf8") == specials.document()


def test_document_has_every_kind_and_every_special_block() -> None:
    text = specials.DOCUMENT.read_text(encoding="utf8")
    for name in registry.kinds():
        section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert section.count("\n| ") == 16 + 1, name
    assert len(specials.all_rows()) == 16 * len(registry.kinds())


def test_a_changed_line_is_found_and_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "SPECIALS.md"
    copy.write_text(specials.DOCUMENT.read_text(encoding="utf8").replace("same bits", "same bots", 1))
    monkeypatch.setattr(specials, "DOCUMENT", copy)
    assert specials.main(write=False) == 3
    assert "--write renews it" in capsys.readouterr().out
    assert specials.main(write=True) == 0


def test_a_difference_here_would_stand_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = specials.rows("MXFP4")[-1]
    assert specials.here(row)[:2] == ("same bits", "same values")
    other = specials.Row(row.kind, row.number, row.scales, row.block, np.full_like(row.ggml, np.nan))
    assert specials.here(other)[:2] == ("32 bits differ", "32 values differ")


def test_kernels_that_disagree_are_named_one_by_one() -> None:
    said = dict.fromkeys(specials.WAYS, "NaN")
    assert specials.joined(said) == "NaN"
    said["matvec/block", Build.DEFAULT] = "+Inf"
    assert "matvec/block default: +Inf" in specials.joined(said)


def test_a_kind_that_nobody_read_says_so() -> None:
    assert set(ggml_cuda.READ) <= set(registry.kinds())
    words = (ggml_cuda.says("Q9_9", "inf"), ggml_cuda.sums("Q9_9"), ggml_cuda.functions("Q9_9"))
    assert set(words) == {"not looked at"}


def test_every_file_read_has_its_version() -> None:
    named = {name.split(":")[0] for reading in ggml_cuda.READ.values() for name in reading.functions}
    assert named <= set(ggml_cuda.FILES)


def test_every_kind_was_read() -> None:
    assert set(ggml_cuda.READ) == set(registry.kinds())
    tables = specials.DOCUMENT.read_text(encoding="utf8").split("\n## ", 1)[1]
    assert tables.count("not in the golden data") == 0
    assert [line for line in tables.splitlines() if line.endswith(f"{ggml_cuda.NOT_LOOKED_AT}.")] == []
    assert f"| {ggml_cuda.NOT_LOOKED_AT} |" not in tables


def test_scales_of_a_block_have_a_word_each_where_they_differ() -> None:
    assert ggml_cuda.says("NVFP4", "0", "120", "56", "7") == "as the CPU"
    assert ggml_cuda.says("NVFP4", "0", "129", "120", "56").startswith("0, 120, 56: as the CPU; 129: ")


def test_what_the_page_says_of_float16_activations() -> None:
    edge = np.float32(127 * 65520)
    scales = np.array([np.nextafter(edge, np.float32(0)), edge]) / np.float32(127)
    total = np.float32(specials.ACTIVATION) / np.float32(127) * 32 * 127  # of rounded activations
    with np.errstate(over="ignore"):
        assert np.isinf(scales.astype(np.float16)).tolist() == [False, True]
        assert np.isinf(np.float16(total))
        assert np.isinf(np.float32(65520).astype(np.float16))
