"""The exam's kernel that holds a value in every register: a runtime that loses one is not believed."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from workers.exam import ask, pressed
from workers.host import compiler
from workers.isolate import Isolated
from workers.machine import CPUINFO, cpu_device

# Where the last arm begins that is another processor's.
ARM = "#elif defined(HOST_INLINE_SWITCH)\n"
FORGETFUL = """
from workers.backends.host import Host
from workers.host import compiler

compiler.SEARCHED = tuple(word.replace(str(compiler.RUNTIME), {0!r}) for word in compiler.SEARCHED)
compiler.RUNTIME = type(compiler.RUNTIME)({0!r})
BACKEND = Host()
BACKEND.name = "forgetful"
"""


def answered(folder: Path, forgotten: str) -> str:
    """What is wrong of the exam's question on a runtime whose switch doesn't name that register as lost."""
    runtime = folder / "runtime"
    shutil.copytree(compiler.RUNTIME, runtime)
    ours, arm, theirs = (runtime / "thread.h").read_text().partition(ARM)
    without, count = re.subn(f'"{forgotten}",? ?', "", ours)
    assert count == bool(forgotten)
    (runtime / "thread.h").write_text(without + arm + theirs)
    (folder / "forgetful.py").write_text(FORGETFUL.format(str(runtime)))
    with closing(Isolated(backends_from=folder, checker=lambda _: "")) as slot:
        return ask(pressed(), slot, cpu_device(), "forgetful")


@pytest.mark.parametrize("register", ["r12", "r15", "xmm15", "xmm31", "k0"])
def test_a_switch_that_forgets_a_register_is_found_out(
    register: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiler.find().target.startswith("x86_64"):
        pytest.skip("another processor's registers")
    if register in ("xmm31", "k0") and "avx512f" not in CPUINFO.read_text():
        pytest.skip("this processor has no AVX-512")
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    assert re.match("exam: silu_mul/pressed was (FAIL|CRASH), PASS is right", answered(tmp_path, register))


def test_the_switch_as_it_is_forgets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path / "state"))
    assert answered(tmp_path, "") == ""
