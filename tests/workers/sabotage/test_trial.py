"""One mutant in a forked process: what becomes of those that sleep or die midway."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import source
from kernels.mutants import Mutant
from workers.backend import Unavailable
from workers.host import compiler
from workers.sabotage import Fate
from workers.sabotage.batch import compile_batch
from workers.sabotage.fixture import fixtures
from workers.sabotage.text import Text
from workers.sabotage.trial import CPU_S, WALL_S, Findings, Timed, try_mutant

KERNEL, INDEX = "silu_mul/flat", "out[i] = g /"
BEFORE = 'extern "C" int pause(void); extern "C" void _exit(int);\n'


def tried(tmp_path: Path, first: str, wall_s: float = WALL_S) -> Findings:
    """What becomes of the kernel that does `first` before it writes, on its first three cases."""
    try:
        compiler.find()
    except Unavailable as reason:
        pytest.skip(str(reason))
    text = BEFORE + source.text(KERNEL, "")
    mutant = Mutant("it", "planted", 1, 1, text.rindex(INDEX), INDEX, f"{first} {INDEX}")
    compiled = compile_batch(Text(text, "k.cu"), [mutant], tmp_path, tmp_path / "cache")
    assert compiled.module is not None
    cases = [Timed(fixture, 0.0) for fixture in fixtures(KERNEL, "")[:3]]
    found = try_mutant([(compiled.module, compiled.entry("it"))], cases, wall_s)
    compiled.module.close()
    return found


def test_one_that_sleeps_is_killed_from_outside(tmp_path: Path) -> None:
    found = tried(tmp_path, "pause();", wall_s=0.5)
    assert (found.fate, found.reason) == (Fate.TIMEOUT, "ran for too long and was killed")


def test_one_that_ends_its_process_well_has_crashed(tmp_path: Path) -> None:
    found = tried(tmp_path, "if (n == 257) _exit(0);")
    assert (found.fate, found.case, found.relative, found.nmse) == (Fate.CRASH, "257 ordinary", True, True)


def test_what_was_known_before_the_death_counts(tmp_path: Path) -> None:
    """Zeros are wrong on the first case already; on the second, tiny values, the process ends."""
    found = tried(tmp_path, "if (gate[0] < 1e-2f && gate[0] > -1e-2f) _exit(1); out[i] = 0.0f; if (false)")
    assert (found.fate, found.case) == (Fate.BOUND, "257 ordinary")


def test_further_cases_add_what_they_show_and_dont_change_who_killed_first() -> None:
    found = Findings(Fate.CHECK, "1x256 ordinary", "a race")
    found.add(Findings(Fate.BOUND, "1x65792 ordinary", "off", relative=True))
    assert (found.fate, found.case, found.relative, found.nmse) == (Fate.CHECK, "1x256 ordinary", True, False)


@pytest.mark.parametrize(("cpu_s", "limit_s"), [(0.001, CPU_S), (0.5, 10.0)])
def test_a_case_may_take_a_multiple_of_what_the_right_kernel_takes(cpu_s: float, limit_s: float) -> None:
    assert Timed(None, cpu_s).limit_s == limit_s
