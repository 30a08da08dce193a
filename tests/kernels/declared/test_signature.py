"""Parameters read off CUDA texts."""

from __future__ import annotations

import pytest

from kernels.declared.signature import by_macro, signatures

TEXT = """
// __global__ void in_a_comment(int);
template <int A, typename T = float>
__global__ void __launch_bounds__(256, 2)
one(const T *__restrict__ x, unsigned int n, long long stride,
    /* float */ const float eps, half scale = half(1, 2), int (&list)[4], size_t m) { }
extern "C" __global__ __launch_bounds__(64) void two(void);
namespace a { __global__ void three(std::int64_t *p, uint32_t q[], Pair<int, float> pair, double d); }
"""


def test_names_parameters_and_types():
    one, two, three = signatures(TEXT)
    assert [parameter.dtype for parameter in one.parameters] == ["", "u32", "i64", "f32", "", "", "u64"]
    assert [parameter.pointer for parameter in one.parameters] == [True, *[False] * 4, True, False]
    assert (two.name, two.parameters) == ("two", ())
    assert [(parameter.pointer, parameter.dtype) for parameter in three.parameters] == [
        (True, ""), (True, ""), (False, ""), (False, "f64"),
    ]  # fmt: skip
    assert (one.line, three.line) == (5, 8)


@pytest.mark.parametrize(
    ("parameter", "dtype", "takes"),
    [
        ("int n", "i32", True), ("unsigned n", "i32", True), ("long long n", "i32", False),
        ("int n", "i64", False), ("float e", "i32", False), ("float e", "f32", True), ("float e", "", False),
        ("const float *x", "", True), ("const float *x", "i64", False), ("index_t n", "i64", True),
        ("const int n", "u32", True), ("size_t n", "i64", True), ("double d", "f32", False),
    ],
)  # fmt: skip
def test_what_a_parameter_takes(parameter, dtype, takes):
    (found,) = signatures(f"__global__ void f({parameter})")
    assert found.parameters[0].takes(dtype) is takes


def test_functions_made_by_macros_are_told():
    assert by_macro("#define MAKE(name) \\\n  __global__ void name(int n) {}\nMAKE(f)")
    assert not by_macro(TEXT)
    assert signatures("__global__ void broken(int n") == ()
