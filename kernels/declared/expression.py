"""Whole-number expressions over named sizes: + - * / %, ceil_div, min, max. Python evaluates none of it.

    expression = term { ("+" | "-") term }        term = factor { ("*" | "/" | "%") factor }
    factor = "-" factor | NUMBER | NAME | FUNCTION "(" expression "," expression ")" | "(" expression ")"

`/` and `%` are those of whole numbers and round down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kernels.declared.mistake import no_such

LARGEST = 2**63 - 1  # what a 64-bit argument holds
LONGEST = 500  # characters
DEEPEST = 50  # parentheses in parentheses
TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[-+*/%(),])|(?P<other>\S))")
LEVELS = (("+", "-"), ("*", "/", "%"))


class BadExpression(Exception):
    """What is wrong with an expression, and in which column, counted from 1."""

    def __init__(self, text: str, column: int) -> None:
        super().__init__(text)
        self.column = column


@dataclass(frozen=True)
class Number:
    value: int
    column: int


@dataclass(frozen=True)
class Name:
    name: str
    column: int


@dataclass(frozen=True)
class Call:
    """An operator or a function of two values."""

    function: str
    left: Tree
    right: Tree
    column: int


Tree = Number | Name | Call


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


FUNCTIONS: dict[str, Callable[[int, int], int]] = {"ceil_div": _ceil_div, "min": min, "max": max}
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
DIVIDE = ("/", "%", "ceil_div")


@dataclass(frozen=True)
class Token:
    kind: str  # number, name, mark, end
    text: str
    column: int


def parse(text: str) -> Tree:
    """The tree of an expression; raises BadExpression."""
    if len(text) > LONGEST:
        raise BadExpression(f"an expression of {len(text)} characters, the most are {LONGEST}", 1)
    parser = _Parser(list(_tokens(text)))
    tree = parser.sum(0)
    if (token := parser.next).kind != "end":
        raise BadExpression(
            f"{token.text!r} where the expression should end or go on with + - * / %", token.column
        )
    return tree


def evaluate(tree: Tree, sizes: Mapping[str, int]) -> int:
    """The value over these sizes; BadExpression for an unknown name, a zero divisor, too many bits."""
    if isinstance(tree, Number):
        return _held(tree.value, tree.column)
    if isinstance(tree, Name):
        if tree.name not in sizes:
            raise BadExpression(no_such("size", tree.name, sizes), tree.column)
        return sizes[tree.name]
    left, right = evaluate(tree.left, sizes), evaluate(tree.right, sizes)
    if right == 0 and tree.function in DIVIDE:
        raise BadExpression(f"{tree.function!r} divides {left} by zero", tree.column)
    function = OPERATORS.get(tree.function) or FUNCTIONS[tree.function]
    return _held(function(left, right), tree.column)


def names(tree: Tree) -> Iterator[Name]:
    """The names that an expression reads, from left to right."""
    if isinstance(tree, Name):
        yield tree
    elif isinstance(tree, Call):
        yield from names(tree.left)
        yield from names(tree.right)


def _held(value: int, column: int) -> int:
    if not -LARGEST - 1 <= value <= LARGEST:
        raise BadExpression(f"the value {value} is past 64 bits, the most is {LARGEST}", column)
    return value


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while match := TOKEN.match(text, at):
        kind = str(match.lastgroup)
        column = match.start(kind) + 1
        if kind == "other":
            raise BadExpression(
                f"{match[kind]!r} is no part of an expression; there are + - * / % ( ) ,", column
            )
        yield Token(kind, match[kind], column)
        at = match.end()
    yield Token("end", "the end", len(text) + 1)


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def take(self) -> Token:
        token = self.next
        self._at += token.kind != "end"
        return token

    def sum(self, level: int) -> Tree:
        """Operators of one level, from left to right; the level behind the last one is that of factors."""
        if level == len(LEVELS):
            return self.factor()
        tree = self.sum(level + 1)
        while self.next.text in LEVELS[level]:
            operator = self.take()
            tree = Call(operator.text, tree, self.sum(level + 1), operator.column)
        return tree

    def factor(self) -> Tree:
        token = self.take()
        if token.text == "-":
            self._deeper(token)
            inner = Call("-", Number(0, token.column), self.factor(), token.column)
            self._depth -= 1
            return inner
        if token.text == "(":
            return self._inside(token)
        if token.kind == "number":
            return Number(int(token.text), token.column)
        if token.kind != "name":
            raise BadExpression(f"{token.text!r} where a number, a name or '(' should be", token.column)
        return self._call(token) if self.next.text == "(" else Name(token.text, token.column)

    def _inside(self, opened: Token) -> Tree:
        self._deeper(opened)
        tree = self.sum(0)
        self._demand(")")
        self._depth -= 1
        return tree

    def _call(self, name: Token) -> Tree:
        if name.text not in FUNCTIONS:
            raise BadExpression(no_such("function", name.text, FUNCTIONS), name.column)
        self._deeper(self.take())
        left = self.sum(0)
        self._demand(",")
        right = self.sum(0)
        self._demand(")")
        self._depth -= 1
        return Call(name.text, left, right, name.column)

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadExpression(f"nested deeper than {DEEPEST} levels", token.column)

    def _demand(self, mark: str) -> None:
        token = self.take()
        if token.text != mark:
            raise BadExpression(f"{token.text!r} where {mark!r} should be", token.column)
