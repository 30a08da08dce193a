"""Every mistake in a catalog is found, with its file and line, whatever else is wrong."""

from __future__ import annotations

import pytest

from kernels.declared import catalog
from kernels.declared.mistake import Misdeclared
from tests.kernels.declared.making import CU, FILES, TOML, edited, mistakes, packed

STEP = 'args = ["weights", "x", "out", "rows", "row_bytes"]'
GRID = 'grid = ["ceil_div(rows, warps)"]'
BLOCK = 'block = ["warp", "warps"]'


def test_the_catalog_that_is_edited_here_is_right():
    checked, found = catalog.check(packed(FILES))
    assert found == ()
    assert (checked.kernels, checked.steps, checked.refused) == (1, 1, 0)
    assert checked.shapes >= 10  # of matvec's quick tier


SETUP = """\
[[setup]]
entry_point = "k.cu::mine"
args = [
"weights",
"x"
]
grid = 1
block = 1
"""
# Edits of the declaration, and the one line that they give.
WRONG = [
    # syntax and keys
    (('op = "matvec"', "op = matvec"), "k.toml:2:6: no TOML: Invalid value"),
    (('name = "mine"', 'name = "mine'), "k.toml:1:13: no TOML: "),
    (('name = "mine"\n', ""), "k.toml:1: name '': want up to 64 of"),
    (('name = "mine"', 'name = "My Kernel"'), "k.toml:1: name 'My Kernel': want up to 64 of"),
    (('name = "mine"', "name = 7"), "k.toml:1: name = 7: want a text"),
    (('name = "mine"', 'name = "block"'), "k.toml:1: name 'block': the farm has a kernel matvec/block"),
    (("[axes]", 'desciption = "x"\n\n[axes]'),
     "k.toml:6: no key of a declaration named 'desciption'; did you mean 'description'?"),
    ((GRID, GRID + "\ngrids = 1"), "k.toml:16: no key of a step named 'grids'; did you mean 'grid'?"),
    # names that aren't there
    (('op = "matvec"', 'op = "matvecs"'), "k.toml:2: no op named 'matvecs'; did you mean 'matvec'?"),
    (('op = "matvec"\n', ""), "k.toml:1: op is missing; write op = one of"),
    (('op = "matvec"', 'op = "ffn"'), "k.toml:2: op 'ffn' is made of launches of other ops"),
    (('["Q8_0"]', '["Q8_O"]'), "k.toml:3: no kind named 'Q8_O'; did you mean 'Q8_0'?"),
    (('kinds = ["Q8_0"]\n', ""), "k.toml:1: kinds is missing"),
    (('kinds = ["Q8_0"]', 'kinds = ["Q8_0"]\nlayout = "q4_liner_f16"'),
     "k.toml:4: no layout named 'q4_liner_f16'; did you mean 'q4_linear_f16'?"),
    (('kinds = ["Q8_0"]', 'kinds = ["Q8_0"]\nlayout = "q4_linear_f16"'),
     "k.toml:4: layout = 'q4_linear_f16' holds Q4_0, not Q8_0"),
    (("[axes]", '[inputs.y]\ndtype = "f32"\n[axes]'), "k.toml:6: no input named 'y'"),
    (("[axes]", '[inputs.x]\ndtype = "f8"\n[axes]'),
     "k.toml:7: no dtype named 'f8'; there are f32, f16, bf16"),
    (("[axes]", '[inputs.x]\ncomputes_on = "q8"\n[axes]'), "k.toml:7: no computes on named 'q8'"),
    (("[axes]", "[inputs.x]\nalign = 3\n[axes]"), "k.toml:7: align = 3: want a power of two up to 256"),
    (("[axes]", '[outputs.y]\nfill = "zero"\n[axes]'), "k.toml:6: no output named 'y'"),
    (("[axes]", '[outputs.out]\nfill = "none"\n[axes]'), "k.toml:7: fill = 'none': want 'poison', 'zero'"),
    (("[axes]", '[outputs.out]\ninout = "weights"\n[axes]'), "k.toml:7: no inout named 'weights'"),
    (("[axes]", '[build]\nflags = ["--use_fastmath"]\n[axes]'),
     "k.toml:7: no compiler flag that the farm can hand on named '--use_fastmath'; did you mean '--use_fas"),
    (("[axes]", '[build]\nstd = "c++11"\n[axes]'), "k.toml:7: no std named 'c++11'; did you mean 'c++"),
    (("[axes]", '[build]\ninclude = ["../up"]\n[axes]'),
     "k.toml:7: no include folder inside the catalog named"),
    (("[axes]", '[tolerance]\nunits = 40\n[axes]'), "k.toml:6: reason is missing"),
    (("[axes]", '[tolerance]\nreason = "x"\n[axes]'), "k.toml:6: want either units"),
    (("[axes]", '[constraints]\nrowz = { most = 1 }\n[axes]'),
     "k.toml:7: no size named 'rowz'; did you mean 'rows'?"),
    (("[axes]", "[constraints]\nsm = 8\n[axes]"), "k.toml:7: sm = 8: want the least compute capability"),
    # entry points
    (('entry_point = "k.cu::mine"\n', ""), "k.toml:12: entry_point is missing"),
    (("k.cu::mine", "k.cu:mine"), "k.toml:13: entry_point 'k.cu:mine': write file.cu::symbol"),
    (("k.cu::mine", "kk.cu::mine"), "k.toml:13: no file of the catalog named 'kk.cu'; did you mean 'k.cu'?"),
    (("k.cu::mine", "../k.cu::mine"),
     "k.toml:13: entry_point '../k.cu::mine': '../k.cu' is no file inside the catalog"),
    (("k.cu::mine", "k.cu::mind"),
     "k.toml:13: no __global__ function in k.cu named 'mind'; did you mean 'mine'?"),
    (("k.cu::mine", "k.cu::mine<{blok}>"), "k.toml:13: no placeholder named 'blok'"),
    (('"k.cu::mine"', '{ Q4_0 = "k.cu::mine" }'), "k.toml:13: no kind of this kernel named 'Q4_0'"),
    # arguments
    ((STEP + "\n", ""), "k.toml:12: args is missing"),
    (('"weights", "x"', '"weigths", "x"'),
     "k.toml:14: no buffer, scalar or size named 'weigths'; did you mean 'weights'?"),
    (('"rows", "row_bytes"]', '"rows"]'),
     "k.toml:14: args has 4, mine(const unsigned char *weights, const float *x, float *out, int rows, "
     "size_t row_bytes) takes 5; name one for each parameter"),
    (('"row_bytes"]', '{ value = "row_bytes", dtype = "i32" }]'),
     "k.toml:14: argument 4 is a value of type i32, mine takes 'size_t row_bytes'; give it a dtype"),
    (('"x", "out"', '"rows", "out"'),
     "k.toml:14: argument 1 is a value of type i32, mine takes 'const float *x'"),
    (('"rows", "row_bytes"', '"sums", "row_bytes"'),
     "k.toml:14: argument 3 is buffer 'sums', mine takes 'int rows'"),
    (('"row_bytes"]', '{ value = "row_bytes", dtype = "int" }]'),
     "k.toml:14: no type of an argument named 'int'"),
    (('"row_bytes"]', '{ valu = "row_bytes" }]'), "k.toml:14: no key of an argument named 'valu'"),
    (('"rows", "row_bytes"', "1.5, \"row_bytes\""), "k.toml:14: args: 1.5 where a name"),
    (('"out", "rows"', '"x", "rows"'), "k.toml:12: no step gets `out`"),
    (("[[step]]", SETUP + "[[step]]"),
     "k.toml:16: a setup step may not have 'x', only weights, sums"),
    # expressions and sizes
    ((GRID, 'grid = ["rows / (warps - 4)"]'),
     "k.toml:15:6: in 'rows / (warps - 4)': '/' divides 9 by zero (for Q8_0 9x160)"),
    ((GRID, 'grid = [\n1,\n"ceil_div(rowz, warps)"]'),
     "k.toml:17:10: in 'ceil_div(rowz, warps)': no size named 'rowz'"),
    ((GRID, 'grid = ["ceil_div(rows"]'), "k.toml:15:14: in 'ceil_div(rows': 'the end' where ',' should be"),
    (('warps = "4"', 'warps = "4 * blokcs"'),
     "k.toml:7:5: in '4 * blokcs': no size named 'blokcs'; did you mean 'blocks'?"),
    (('warps = "4"', 'warps = "4"\nrows = "4"'), "k.toml:8: axis 'rows': want a name"),
    ((GRID, "grid = [1, 65536]"), "k.toml:15: grid.y is 65536 by '65536', want 1 to 65,535 (for Q8_0 9x160)"),
    ((GRID, 'grid = ["rows - 9"]'), "k.toml:15: grid.x is 0 by 'rows - 9', want 1 to 2,147,483,647"),
    ((GRID, "grid = []"), "k.toml:15: grid has 0 sizes, want one to three"),
    ((BLOCK, 'block = ["warp", "warps * 9"]'),
     "k.toml:16: block (32, 36, 1) has 1,152 threads, the most are 1,024"),
    ((BLOCK, "block = [1025]"), "k.toml:16: block.x is 1025 by '1025', want 1 to 1,024"),
    ((BLOCK, BLOCK + '\nshared = "rows * 65536"'),
     "k.toml:17: shared is 589,824 by 'rows * 65536' bytes, the most are 49,152"),
    (('shape = ["rows"]', 'shape = ["rows - 9"]'),
     "k.toml:9: scratch 'sums' of shape (0,): want each side at least 1"),
    (('shape = ["rows"]', "shape = []"), "k.toml:10: shape is missing"),
    # the twin
    (("twin.py::matvec", "twin.py"), "k.toml:4: twin = 'twin.py': write file.py::function"),
    (("twin.py::matvec", "twins.py::matvec"),
     "k.toml:4: no file of the catalog named 'twins.py'; did you mean 'twin.py'?"),
    (("twin.py::matvec", "twin.py::mat"), "k.toml:4: no function in twin.py named 'mat'"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "says"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_mistake_is_one_line_with_its_place(edit, says):
    found = mistakes(edited("k.toml", edit))
    assert len(found) == 1, found
    assert found[0].startswith(says), found[0]


def test_mistakes_of_other_files_name_those():
    assert mistakes(edited("k.cu", ('"h.cuh"', '"hh.cuh"')))[0].startswith(
        "k.cu:1: no file to include named 'hh.cuh'"
    )
    assert mistakes(edited("twin.py", ("(step)", "(step")))[0].startswith("twin.py:1:11: no Python: ")
    assert mistakes(edited("twin.py", ("(step)", "(step, x)"))) == [
        "twin.py:1: matvec should take one argument, the step"
    ]


def test_all_mistakes_are_found_and_in_order():
    wrong = edited(
        "k.toml",
        ('["Q8_0"]', '["Q8_0", "Q9"]'),
        ('warps = "4"', 'warps = "4 +"'),
        ('shape = ["rows"]', 'shape = ["row"]'),
        ('"out", "rows"', '"oud", "rows"'),
    )
    found = mistakes(wrong)
    assert [line.split(":")[1] for line in found] == ["3", "7", "10", "14"]
    with pytest.raises(Misdeclared, match=r"k.toml:3: no kind named 'Q9'.* \(and 3 more"):
        catalog.load(wrong)


def test_one_file_that_is_wrong_hides_no_other():
    files = {**FILES, "a.toml": "x = ", "l.toml": TOML.replace("mine", "mine2", 1), "m.toml": TOML}
    found = mistakes(packed({**files, "k.toml": TOML.replace("kinds", "kind")}))
    assert [line.partition(":")[0] for line in found] == ["a.toml", "k.toml", "k.toml"]
    assert mistakes(packed({**FILES, "m.toml": TOML})) == [
        "m.toml:1: name 'mine': k.toml:1 declares matvec/mine already; choose another"
    ]


def test_a_catalog_without_a_declaration_is_none():
    assert mistakes(packed({"k.cu": CU})) == [
        ".:1: no declaration: a catalog has a .toml file per kernel; farm catalog new writes one"
    ]


def test_a_signature_is_looked_for_in_includes_and_macros():
    files = {**FILES, "h.cuh": CU.partition("\n")[2], "k.cu": '#include "h.cuh"\n'}
    assert mistakes(packed(files)) == []
    by_macro = '#define MAKE(name) __global__ void name(float *out)\n#include "h.cuh"\nMAKE(mine) {}\n'
    assert mistakes(packed({**FILES, "k.cu": by_macro})) == []
