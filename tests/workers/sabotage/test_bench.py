"""What becomes of planted mutants: each rule kills its own, and none of them stops the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import source
from kernels.catalog import Selection, expand
from kernels.errors import FarmError
from kernels.model import Build
from kernels.mutants import Mutant
from workers.backend import Unavailable
from workers.files import FileStore
from workers.host import compiler
from workers.image_cache import ImageCache
from workers.sabotage import Fate, Judgement
from workers.sabotage.bench import Bench, judge_mutants
from workers.sabotage.fixture import Fixture, fixture, fixtures
from workers.sabotage.text import Text
from workers.sabotage.trial import Timed

SILU, NORM, MMA = "silu_mul/flat", "rmsnorm/block", "mul_mm/mma"
EXIT = 'extern "C" void _exit(int);\n'


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module")
def silu() -> list[Fixture]:
    return fixtures(SILU, "")


@pytest.fixture(scope="module")
def norm() -> list[Fixture]:
    return fixtures(NORM, "")


def planted(text: str, old: str, new: str) -> Mutant:
    """The last `old`, which must be there, becomes `new`; the first may be in a comment."""
    return Mutant(f"{old} -> {new}", "planted", 1, 1, text.rindex(old), old, new)


def whole(text: str, kernel: str) -> dict[str, Text]:
    return {"": Text(text, f"{kernel.replace('/', '_')}.cu")}


def judged(kernel: str, ready: list[Fixture], *changes: tuple[str, str], before: str = "") -> list[Judgement]:
    text = before + source.text(kernel, "")
    return list(judge_mutants(whole(text, kernel), [planted(text, *change) for change in changes], ready))


INDEX = "out[i] = g /"


@pytest.mark.parametrize(
    ("old", "new", "fate"),
    [
        ("* up[i]", "+ up[i]", Fate.BOUND),
        ("* up[i]", "* up[i] * 1.0000001f", Fate.BITS),
        ("if (i < n)", "if (i < n - 1)", Fate.UNWRITTEN),
        ("gate[i]", "gate[i + 4096]", Fate.CRASH),
        (INDEX, "if (i == 1) out[-1] = 0.0f; out[i] = g /", Fate.GUARDS),
        (INDEX, "*(float *)&gate[i] = 0.0f; out[i] = g /", Fate.CRASH),  # inputs are sealed
        ("if (i < n)", "while (true)", Fate.TIMEOUT),
        ("if (i < n)", "if (n > i)", Fate.SAME),
        ("if (i < n)", "if (i < n && gate != out)", Fate.SURVIVED),
        ("gate[i]", "gate[oops]", Fate.COMPILE),
        (INDEX, "float a[4]; for (int k = 0; k <= 4; ++k) a[k] = g; out[i] = a[0] /", Fate.CHECK),
        (INDEX, "if (out[i] == 7.0f) return; out[i] = g /", Fate.CHECK),  # nobody has written it
    ],
)
def test_a_planted_mutant_meets_its_rule(silu: list[Fixture], old: str, new: str, fate: Fate) -> None:
    (judgement,) = judged(SILU, silu, (old, new))
    assert (judgement.fate, bool(judgement.case)) == (fate, fate.killed), judgement


def test_a_race_shows_in_the_other_order(norm: list[Fixture]) -> None:
    (judgement,) = judged(NORM, norm, ("threadIdx.x < half", "threadIdx.x <= half"))
    assert judgement.fate is Fate.ORDERS
    assert not judgement.relative


def test_what_the_check_build_finds_has_its_line(norm: list[Fixture]) -> None:
    """Equal values are written by all threads at once: no order of execution shows that."""
    text = source.text(NORM, "")
    change = ("i = threadIdx.x; i < n; i += THREADS", "i = threadIdx.x; i < n; i += THREADS - 1")
    (judgement,) = judged(NORM, norm, change)
    line = text[: text.rindex(change[0])].count("\n") + 2  # of the store in the loop
    assert judgement.fate is Fate.CHECK
    assert judgement.reason.startswith(
        f"rmsnorm_block.cu:{line}: write of 4 bytes races with the write at line {line}"
    )
    assert (judgement.relative, judgement.nmse) == (False, False)


@pytest.mark.parametrize("heavy", [1, 3])
def test_heavy_cases_judge_what_the_others_leave_open(
    silu: list[Fixture], monkeypatch: pytest.MonkeyPatch, heavy: int
) -> None:
    """With a limit of nothing every case is heavy: then the exact build alone finds the error."""
    monkeypatch.setattr("workers.sabotage.trial.HEAVY_S", 0.0)
    (judgement,) = judged(SILU, silu[:heavy], ("* up[i]", "+ up[i]"))
    assert (judgement.fate, judgement.relative) == (Fate.BOUND, True)


def test_what_is_dead_meets_the_heavy_cases_in_its_batch(
    silu: list[Fixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They only say what the usual rules see there, which needs no module of its own."""
    light, heavy = silu[0], next(one for one in silu if one.label == "1000 ordinary")
    monkeypatch.setattr(Timed, "heavy", property(lambda case: case.fixture.label == heavy.label))
    monkeypatch.setattr(Bench, "_finish", None)
    change = ("* up[i]", "* (n == 1000 ? up[i] + 1.0f : up[i] * 1.00001f)")
    for cases, seen in (([light], False), ([light, heavy], True)):
        (judgement,) = judged(SILU, cases, change)
        assert (judgement.fate, judgement.case) == (Fate.BOUND, light.label)
        assert (judgement.relative, judgement.nmse) == (seen, seen)


def test_crashing_hanging_and_broken_mutants_dont_stop_the_run(silu: list[Fixture]) -> None:
    changes = (
        (INDEX, "_exit(0); out[i] = g /"),
        (INDEX, "for (;;) {} out[i] = g /"),
        ("gate[i]", "oops"),
        ("gate[i]", "gate[0]"),
        ("if (i < n)", "if (i < n && gate != out)"),
    )
    fates = [one.fate for one in judged(SILU, silu, *changes, before=EXIT)]
    assert fates == [Fate.CRASH, Fate.TIMEOUT, Fate.COMPILE, Fate.BOUND, Fate.SURVIVED]


def test_a_small_error_is_seen_by_the_bound_and_not_by_the_others(silu: list[Fixture]) -> None:
    (judgement,) = judged(SILU, silu, ("* up[i]", "* up[i] * 1.00001f"))
    assert (judgement.fate, judgement.relative, judgement.nmse) == (Fate.BOUND, False, False)


def test_without_a_twin_a_usual_rule_that_the_right_kernel_breaks_is_not_asked() -> None:
    """mul_mm/mma rounds to float16, which is more than 1e-4."""
    chosen = Selection(kernels=(MMA,), kinds=("Q8_0",), shapes=("mul_mm:5x64x3",), builds=(Build.DEFAULT,))
    ready = [fixture(planned.case, ImageCache(FileStore())) for planned in expand(chosen)]
    text = source.text(MMA, "Q8_0")
    mutant = planted(text, "sums[m][n][i] = 0.0f", "sums[m][n][i] = 1.0f")
    (judgement,) = judge_mutants(whole(text, MMA), [mutant], ready)
    assert (judgement.fate, judgement.relative) == (Fate.BOUND, False)


def test_a_crash_is_seen_by_every_rule(silu: list[Fixture]) -> None:
    (judgement,) = judged(SILU, silu, ("if (i < n)", "while (true)"))
    assert judgement.relative
    assert judgement.nmse


def test_a_wrong_kernel_has_no_mutants_to_judge(silu: list[Fixture]) -> None:
    text = source.text(SILU, "").replace("* up[i]", "+ up[i]")
    with pytest.raises(FarmError, match="the right kernel itself is killed by case 257 ordinary"):
        list(judge_mutants(whole(text, SILU), [], silu))


def test_no_process_and_no_file_is_left(silu: list[Fixture], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        judged(SILU, silu, ("if (i < n)", "while (true)"))
    assert list(tmp_path.iterdir()) == []
