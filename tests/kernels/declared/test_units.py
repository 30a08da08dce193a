"""Translation units: includes inlined with the lines of their files, and includes that lead nowhere."""

from __future__ import annotations

import pytest

from kernels import registry
from kernels.declared.declaration import BuildOf
from kernels.declared.mistake import Misdeclared
from kernels.declared.pack import Pack
from kernels.declared.units import filled, unit

FILES = {
    "src/k.cu": '#include <stdint.h>\n#include "h.cuh"\nint after;\n#include "h.cuh"\n'
    '/*\n#include "none.h"\n*/\n',
    "src/h.cuh": '#pragma once\n#include "../lib/deep.h"\nint h;\n',
    "lib/deep.h": "int deep;\n",
}


def of(**changes: str) -> Pack:
    files = FILES | {name.replace("__", "/"): text for name, text in changes.items()}
    return Pack.of({name: text.encode() for name, text in files.items()})


def test_includes_stand_where_they_were_with_their_own_lines():
    made = unit(of(), "src/k.cu", BuildOf(), None)
    assert made.text.split("\n") == [
        '#line 1 "src/k.cu"', "#include <stdint.h>",
        '#line 1 "src/h.cuh"', "", '#line 1 "lib/deep.h"', "int deep;", "",
        '#line 3 "src/h.cuh"', "int h;", "",
        '#line 3 "src/k.cu"', "int after;", "", '#line 5 "src/k.cu"', "/*", '#include "none.h"', "*/", "",
    ]  # fmt: skip
    assert made.files == ("src/k.cu", "src/h.cuh", "lib/deep.h")
    assert made.system == ("stdint.h",)


def test_angle_brackets_look_in_the_include_folders_alone():
    pack = of(**{"src__k.cu": "#include <deep.h>\n"})
    assert "int deep;" not in unit(pack, "src/k.cu", BuildOf(), None).text
    assert "int deep;" in unit(pack, "src/k.cu", BuildOf(include=("lib",)), None).text


def test_defines_stand_before_and_are_filled_for_the_kind():
    build = BuildOf(defines=(("QK", "{block_elements}"), ("NAME", "q_{kind}"), ("FLAG", "")))
    text = unit(of(), "src/k.cu", build, registry.kind("Q4_0")).text
    assert text.split("\n")[:3] == ["#define QK 32", "#define NAME q_q4_0", "#define FLAG"]


def test_only_placeholders_are_filled():
    assert filled("f<{block_bytes}, {other}>", registry.kind("Q8_0")) == "f<34, {other}>"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'int a;\n#include "hh.cuh"\n',
            "src/k.cu:2: no file to include named 'hh.cuh'; did you mean 'src/h.cuh'?",
        ),
        ('#include "../../up.h"\n', "src/k.cu:1: include '../../up.h' leads out of the catalog"),
        ('#include "/etc/passwd"\n', "src/k.cu:1: include '/etc/passwd' leads out of the catalog"),
        ('\n\n#include "k.cu"\n', "src/k.cu:3: include 'src/k.cu' goes round in a circle"),
    ],
)
def test_an_include_that_leads_nowhere_says_its_line(text, says):
    with pytest.raises(Misdeclared, match=r"^src") as raised:
        unit(of(**{"src__k.cu": text}), "src/k.cu", BuildOf(), None)
    assert str(raised.value).startswith(says)


@pytest.mark.parametrize("name", ["cuda_fp16.h", "cuda_bf16.h", "stdint.h", "mma.h", "cuda_runtime.h"])
def test_headers_of_the_toolkit_are_left_to_the_compiler(name):
    pack = of(**{"src__k.cu": f'#include "{name}"\n'})
    assert unit(pack, "src/k.cu", BuildOf(), None).system == (name,)


def test_a_text_that_is_no_utf_8_says_which_byte():
    with pytest.raises(Misdeclared, match=r"k.cu:1: byte 3 is no UTF-8"):
        unit(Pack.of({"k.cu": b"// \xff"}), "k.cu", BuildOf(), None)
