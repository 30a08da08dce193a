"""The compiler driver: what it finds, what it keeps, what it refuses."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.errors import FarmError
from workers.backend import Rejected, Unavailable
from workers.host import compiler
from workers.host.module import Module

EMPTY = 'extern "C" __global__ void k() {}'


def test_the_compiler_says_what_it_is(cache: Path) -> None:
    found = compiler.find()
    assert os.access(found.path, os.X_OK)
    assert found.version
    assert "-" in found.target


@pytest.mark.parametrize("named", ["/nowhere/c++", "/bin/false", "/bin/true", "   ", "'g++"])
def test_a_cxx_that_is_none_says_so_and_what_to_do(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(Unavailable, match=re.escape(f"CXX={named} is no working C++ compiler; unset CXX")):
        compiler.find()


@pytest.mark.parametrize(
    "ends", ["echo 'k.s: Fatal error: can not write: No space left on device' >&2; exit 1", "kill -9 $$"]
)
def test_a_machine_at_its_end_is_no_refusal_of_the_kernel(
    ends: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "c++"
    script.write_text(f"#!/bin/sh\ncase $1 in --version | -dumpmachine) echo x86_64 ;; *) {ends} ;; esac\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(FarmError, match=r"^the compiler could not work here: .*(No space|signal 9)") as error:
        compiler.build(EMPTY, "k.cu", "exact", cache)
    assert not isinstance(error.value, Rejected)


def test_the_same_text_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler.build(EMPTY + "// once", "k.cu", "exact", cache)
    monkeypatch.setattr(compiler.subprocess, "run", None)
    assert compiler.build(EMPTY + "// once", "k.cu", "exact", cache) == path


def test_text_name_and_build_each_have_their_own_object(cache: Path) -> None:
    paths = {
        compiler.build(EMPTY + t, n, b, cache)
        for t, n, b in [("", "a", "exact"), (" ", "a", "exact"), ("", "b", "exact"), ("", "a", "default")]
    }
    assert len(paths) == 4


def test_two_builds_at_once_both_load(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: compiler.build(EMPTY, "k.cu", "exact", tmp_path), range(2)))
    assert paths[0] == paths[1]
    assert list(Module(paths[0]).entries) == ["k"]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".o", ".so"]


def test_a_refusal_is_the_compilers_first_error_with_the_texts_line(cache: Path) -> None:
    text = '__device__ int f() { return 1; }\nextern "C" __global__ void k(int *o) {\n  o[0] = undeclared;\n}'
    with pytest.raises(Rejected, match=r"^k\.cu:3:\d+: error: .*undeclared"):
        compiler.build(text, "k.cu", "exact", cache)


def test_lines_stay_right_behind_dynamic_shared_memory(cache: Path) -> None:
    declared = "extern __shared__ __align__(16) unsigned int\n    s[];"
    text = f'extern "C" __global__ void k() {{\n  {declared}\n  oops;\n}}'
    with pytest.raises(Rejected, match=r"^k\.cu:4:"):
        compiler.build(text, "k.cu", "exact", cache)


def test_an_undefined_function_is_refused(cache: Path) -> None:
    with pytest.raises(Rejected, match=r"undefined (reference|symbol).*missing"):
        compiler.build("void missing();" + EMPTY.replace("{}", "{ missing(); }"), "k.cu", "exact", cache)


def test_a_text_without_a_kernel_is_refused(cache: Path) -> None:
    with pytest.raises(Rejected, match=r"k\.cu: no __global__ function"):
        compiler.build("// __global__ void k() {}", "k.cu", "exact", cache)


def test_an_unknown_build_is_refused(cache: Path) -> None:
    with pytest.raises(Rejected, match="no build 'fast'; there are exact, default, check"):
        compiler.build(EMPTY, "k.cu", "fast", cache)


def test_no_compiler_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unavailable, match=r"there is no C\+\+ compiler; apt-get install g\+\+"):
        compiler.find()


def test_cxx_chooses_and_may_have_words(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("g++") or compiler.find().path
    monkeypatch.setenv("CXX", f"{program} -DWORD")
    assert compiler.find().command == (program, "-DWORD")


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [("Darwin", "arm64", "need Linux; this is Darwin"), ("Linux", "riscv64", "this is riscv64")],
)
def test_elsewhere_the_host_says_why_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, reason: str
) -> None:
    monkeypatch.setattr(compiler.platform, "system", lambda: system)
    monkeypatch.setattr(compiler.platform, "machine", lambda: machine)
    with pytest.raises(Unavailable, match=reason):
        compiler.find()


def test_the_check_build_says_what_instruments_it(cache: Path) -> None:
    told = compiler.flags("check", compiler.find())
    assert "-ffp-contract=off" in told
    assert any(flag.startswith("-fsanitize=thread,") for flag in told)
    assert not any("sanitize" in flag for flag in compiler.flags("exact", compiler.find()))


@pytest.mark.parametrize("build", ["exact", "check"])
def test_the_same_text_is_the_same_file_wherever_it_is_built(tmp_path: Path, build: str) -> None:
    images = set()
    for folder in (tmp_path / "a", tmp_path / "b"):
        images.add(compiler.build(EMPTY, "k.cu", build, folder).read_bytes())
    assert len(images) == 1
