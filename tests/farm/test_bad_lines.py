"""Bad command lines: one line on stderr, the right exit code, no traceback and no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from db.session import open_database
from tests.db.making import case, line
from workers import bundle

Farm = Callable[..., Result]

BAD = [
    (("submit",), 2, "nothing selected"),
    (
        ("submit", "--tier", "full", "--op", "ffn", "--shape", "64x96"),
        2,
        "--shape and --tier each say which shapes run",
    ),
    (("submit", "--tier", "fast"), 2, "'fast' is not one of 'quick', 'full', 'models', 'limits'"),
    (("submit", "--all-kinds", "--kind", "Q9_Z"), 2, "Q9_Z"),
    (("submit", "--op", "matmul"), 2, "no op named 'matmul'"),
    (("submit", "--kernel", "matvec/blck"), 2, "matvec/blck"),
    (("submit", "--kind", "Q4_0", "--shape", "3x32"), 2, "3x32"),
    (("submit", "--op", "matvec", "--shape", "3by32"), 2, "3by32"),
    (("submit", "--op", "matvec", "--shape", "mul_mm:1x32x1"), 2, "mul_mm"),
    (("submit", "--op", "matvec", "--shape", "1" * 5000 + "x32"), 2, "5000 digits"),
    (("submit", "--op", "matvec", "--family", "odd"), 2, "odd"),
    (("submit", "--op", "matvec", "--seed", "-1"), 2, "-1"),
    (("submit", "--op", "matvec", "--build", "fast"), 2, "fast"),
    (("run", "matvec/block", "Q4_0", "8x32", "--build", "default", "--check"), 2, "leave out --build"),
    (("submit", "--op", "matvec", "--backend", "opencl"), 2, "opencl"),
    (("submit", "--op", "matvec", "--rule", "loose"), 2, "loose"),
    (("submit", "--op", "matvec", "--only", "old"), 2, "old"),
    (("submit", "--op", "matvec", "--twice", "101%"), 2, "'101%' is no share; write 5%"),
    (("submit", "--op", "matvec", "--twice", "often"), 2, "'often' is no share; write 5%"),
    (("submit", "--op", "matvec", "--device", "H100*", "--backend", "twin"), 1, "H100*"),
    (("submit", "--op", "matvec", "--batch", "3"), 2, "--gguf"),
    (("submit", "--op", "matvec", "--db", "mysql://x/y"), 2, "mysql"),
    (("submit", "--op", "matvec", "--backend", "twin", "--only", "stale"), 1, "stale"),
    (("submit", "--op", "matvec", "--backend", "twin", "--only", "bad"), 1, "bad"),
    (("submit", "--kernel", "rmsnorm/block", "--kind", "Q4_0", "--backend", "twin"), 1, "rmsnorm/block"),
    (("submit", "--gguf", "missing.gguf", "--backend", "twin"), 1, "missing.gguf"),
    (("submit", "--gguf", "junk", "--backend", "twin"), 1, "magic"),
    (("resume",), 1, "no database"),
    (("resume", "0"), 2, "0"),
    (("resume", "one"), 2, "one"),
    (("import",), 2, "BUNDLE"),
    (("import", "missing.jsonl"), 1, "missing.jsonl"),
    (("import", "junk"), 1, "junk"),
    (("run",), 2, "nothing to run"),
    (("run", "matvec/block", "Q4_0", "3x32", "--case", "{}"), 2, "two cases"),
    (("run", "--case", "{}"), 2, "no case"),
    (("run", "--case", '{"op":' * 20_000), 2, "no JSON"),
    (("run", "--case", "abc"), 1, "no database"),
    (("run", "matvec/block", "Q4_0", "3x32", "--backend", "opencl"), 2, "opencl"),
    (("run", "matvec/block", "Q4_0", "3x32", "--x", "x.npy"), 2, "x.npy"),
    (("run", "matvec/block", "Q4_0", "--weights", "junk"), 1, "junk"),
    (("run", "matvec/block", "Q4_0", "3x32", "--repeats", "0"), 2, "0"),
    (("run", "matvec/block", "--gguf", "junk", "--tensor", "a"), 1, "magic"),
    (("run", "--case", "{}", "--build", "default", "--seed", "0"), 2, "leave out --build, --seed"),
    (("run", "matvec/block", "Q4_0", "3x32", "--tensor", "a"), 2, "--gguf FILE"),
    (("run", "matvec/block", "Q4_0", "3x32", "--rows", "2"), 2, "--gguf FILE"),
    (("run", "matvec/block", "Q4_0", "3x32", "--batch", "2"), 2, "--batch goes with"),
    (("run", "matvec/block", "--gguf", "junk", "--weights", "junk"), 2, "two files"),
    (("run", "matvec/block", "Q4_0", "3x32", "--output", "no/y.npy"), 1, "no/y.npy"),
    (("submit", "--gguf", "junk", "--shape", "3x32"), 2, "--shape"),
    (("run", "--frobnicate"), 2, "--frobnicate"),
]


@pytest.mark.parametrize(("words", "code", "says"), BAD, ids=[" ".join(words)[:60] for words, _, _ in BAD])
def test_a_bad_command_line_is_one_line(
    words: tuple[str, ...], code: int, says: str, farm: Farm, tmp_path: Path
) -> None:
    (tmp_path / "junk").write_text("not what anybody wants\n")
    np.save(tmp_path / "x.npy", np.zeros(31, np.float32))
    result = farm(*words, *(["--local"] if words[0] == "submit" else []))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("farm: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_the_database_is_left_alone_by_a_bad_selection(farm: Farm, tmp_path: Path) -> None:
    assert farm("submit", "--op", "matmul", "--local").exit_code == 2
    assert not (tmp_path / ".farm").exists()


@pytest.mark.parametrize("number", ["7", "9" * 19, "1" + "0" * 5000])
@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_number_that_nothing_has_is_one_line(command: str, number: str, farm: Farm, tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path / '.farm' / 'farm.db'}").close()
    result = farm(command, number)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"{number[:5]}" in result.stderr


def test_a_bundle_with_a_line_that_no_database_takes_leaves_all_bundles_out(
    farm: Farm, tmp_path: Path
) -> None:
    (tmp_path / "good").write_text("".join(bundle.lines([line(case(1))])))
    (tmp_path / "bad").write_text("".join(bundle.lines([line(case(2)), line(case(3), backend="b" * 33)])))
    result = farm("import", "good", "bad")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("farm: bad: evidence '")
    assert "backend 'bbbbbbbbbbbbbbbbbbbbbbbb' has 33 characters, 32 are the most" in result.stderr
    with open_database(f"sqlite:///{tmp_path / '.farm' / 'farm.db'}").reading() as s:
        assert s.exec_driver_sql("SELECT count(*) FROM evidence").scalar_one() == 0
