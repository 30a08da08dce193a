"""Many mutants in one module: each in its namespace, and those that don't compile named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import mutants, source
from kernels.model import Build
from kernels.mutants import Mutant
from workers.backend import Rejected, Unavailable
from workers.host import compiler
from workers.sabotage.batch import Compiled, compile_alone, compile_batch
from workers.sabotage.text import Text

KERNEL, KIND = "matvec/coalesced", "Q4_K"
TEXT = source.text(KERNEL, KIND)
WHOLE = Text(TEXT, "text.cu")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return tmp_path_factory.mktemp("cache")


def changed(old: str, new: str) -> Mutant:
    return Mutant(f"{old} -> {new}", "planted", 1, 1, TEXT.rindex(old), old, new)


def compiled(cache: Path, folder: Path, *chosen: Mutant) -> Compiled:
    made = compile_batch(WHOLE, chosen, folder, cache)
    if made.module is not None:
        made.module.close()
    return made


def test_the_prelude_stands_once_unless_a_mutant_changes_it() -> None:
    ours = [m for m in mutants.of_text(TEXT) if m.name.startswith("ENTRY")][:2]
    helper = [m for m in mutants.of_text(TEXT) if m.name.startswith("half_at")][:1]
    assert WHOLE.joined(ours).count("float half_at(") == 1
    assert WHOLE.joined([*ours, *helper]).count("float half_at(") == 2


def test_every_mutant_has_an_entry_of_its_own(cache: Path, tmp_path: Path) -> None:
    chosen = mutants.of_text(TEXT)[:5]
    made = compiled(cache, tmp_path, *chosen)
    assert made.refused == {}
    assert list(made.numbers) == [mutant.name for mutant in chosen]
    assert len({made.entry(mutant.name) for mutant in chosen}) == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lane == 0", "lane == oops"),
        ("block += BLOCK_BYTES", "block = BLOCK_BYTES"),  # the compiler names the macro, and then the mutant
    ],
)
def test_a_mutant_that_does_not_compile_is_named_and_left_out(
    cache: Path, tmp_path: Path, old: str, new: str
) -> None:
    wrong, right = changed(old, new), changed("lane == 0", "lane == 1")
    made = compiled(cache, tmp_path, right, wrong)
    assert list(made.numbers) == [right.name]
    assert "error" in made.refused[wrong.name]


def test_a_batch_of_which_nothing_compiles_has_no_module(cache: Path, tmp_path: Path) -> None:
    made = compiled(cache, tmp_path, changed("lane == 0", "lane == oops"))
    assert (made.module, made.numbers, len(made.refused)) == (None, {}, 1)


def test_an_error_that_names_no_mutant_is_not_guessed_at(cache: Path, tmp_path: Path) -> None:
    pair = (changed("lane == 0", "lane == 1"), changed("lane == 0", "lane == 2"))
    with pytest.raises(Rejected, match="names a mutant"):
        compile_batch(WHOLE, pair, tmp_path, cache, ("-no-such-flag",))


@pytest.mark.parametrize(("new", "same"), [("0 == lane", True), ("lane == 1", False)])
def test_equal_code_alone_is_an_equal_file_in_both_builds(
    cache: Path, tmp_path: Path, new: str, same: bool
) -> None:
    """Columns differ, so no line table may have them."""
    for build in (Build.EXACT, Build.CHECK):
        files = []
        for number, mutant in enumerate((changed("lane == 0", "lane == 0"), changed("lane == 0", new))):
            folder = tmp_path / f"{build}{number}"
            folder.mkdir()
            module = compile_alone(WHOLE, mutant, build, folder, cache)
            assert module is not None
            files.append(module.path.read_bytes())
        assert (files[0] == files[1]) is same


def test_one_that_does_not_compile_alone_has_no_module(cache: Path, tmp_path: Path) -> None:
    mutant = changed("lane == 0", "lane == oops")
    assert compile_alone(WHOLE, mutant, Build.CHECK, tmp_path, cache) is None
