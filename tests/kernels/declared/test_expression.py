"""Expressions: values as arithmetic has them, and mistakes with their column."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.declared.expression import DEEPEST, LARGEST, BadExpression, evaluate, names, parse

SIZES = {"rows": 37, "cols": 768, "zero": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("rows", 37),
        ("rows + cols * 2", 37 + 1536),
        ("(rows + cols) * 2", 1610),
        ("cols - rows - 1", 730),
        ("cols / 5 % 7", 153 % 7),
        ("-rows + 40", 3),
        ("2 - -3", 5),
        ("ceil_div(rows, 8)", 5),
        ("ceil_div(rows, 37)", 1),
        ("min(rows, cols) + max(rows, cols)", 805),
        ("ceil_div(min(rows, 8) * 3, 2 + 3)", 5),
        ("  rows\t*  2 ", 74),
    ],
)
def test_value(text, value):
    assert evaluate(parse(text), SIZES) == value


trees = st.recursive(
    st.integers(0, 999).map(str) | st.sampled_from(["rows", "cols"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        | inner.map(lambda text: f"-{text}")
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(trees)
def test_values_are_those_of_whole_number_arithmetic(text):
    want = eval(text, {}, dict(SIZES))
    if abs(want) <= LARGEST:
        assert evaluate(parse(text), SIZES) == want


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="rows cl_div(),+-*/%0123456789[]{}.'\"\\é", max_size=40))
def test_any_text_is_an_expression_or_a_mistake_with_a_column(text):
    columns = [1]
    try:
        evaluate(parse(text), SIZES)
    except BadExpression as error:
        columns = [error.column]
    assert 1 <= columns[0] <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("rows / zero", 6, "'/' divides 37 by zero"),
        ("rows % (cols - 768)", 6, "'%' divides 37 by zero"),
        ("ceil_div(rows, zero)", 1, "'ceil_div' divides 37 by zero"),
        ("rowz * 2", 1, "no size named 'rowz'; did you mean 'rows'?"),
        ("rows * colz", 8, "did you mean 'cols'?"),
        (f"{LARGEST} + 1", 21, "past 64 bits"),
        ("99999999999999999999", 1, "past 64 bits"),
        ("rows +", 7, "'the end' where a number, a name or '(' should be"),
        ("", 1, "'the end' where a number"),
        ("rows cols", 6, "'cols' where the expression should end"),
        ("(rows", 6, "'the end' where ')' should be"),
        ("min(rows)", 9, "')' where ',' should be"),
        ("pow(rows, 2)", 1, "no function named 'pow'; there are ceil_div, min, max"),
        ("rows.__class__", 5, "'.' is no part of an expression"),
        ("__import__('os')", 12, "is no part of an expression"),
        ("__import__(rows)", 1, "no function named '__import__'"),
        ("rows * 1.5", 9, "'.' is no part"),
        ("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), DEEPEST + 1, "nested deeper than 50"),
        ("1+" * 300 + "1", 1, "an expression of 601 characters, the most are 500"),
    ],
)
def test_mistakes_say_their_column(text, column, says):
    with pytest.raises(BadExpression) as raised:
        evaluate(parse(text), SIZES)
    assert raised.value.column == column
    assert says in str(raised.value)


def test_names_come_from_left_to_right():
    assert [name.name for name in names(parse("ceil_div(b, a) - (c + 2) * a"))] == ["b", "a", "c", "a"]
