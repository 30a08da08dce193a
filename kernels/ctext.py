"""Reads CUDA C as far as mutating it needs: tokens, and the functions and tables that an entry reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>\#[^\n]*)
    |(?P<number>0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?[uUlLfF]*|\.?\d[\d.]*(?:[eE][+-]?\d+)?[uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL,
)
DEVICE_ONLY = "__CUDA_ARCH__"  # the host compiles what stands where it isn't defined

TYPES = frozenset((
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned",
    "const", "volatile", "size_t", "half", "half2", "float2", "float4", "int2", "int4", "uint2",
    "uint4", "uchar4", "f16", "bf16",
))  # fmt: skip
DECLARES = TYPES | {"__shared__", "static", "extern", "__align__", "struct"}

# How tightly binary operators bind; the higher one first.
LEVELS = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1,
}  # fmt: skip
ASSIGNS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
ENDS = frozenset((")", "]", "}", ",", ";", "?", ":")) | ASSIGNS
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Token:
    kind: str  # number, name, string, mark
    text: str
    start: int  # offset into the text

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Part:
    """A function's body or a table's items: tokens `first` to `last`, without the braces."""

    name: str
    first: int
    last: int
    is_table: bool


@dataclass(frozen=True)
class Unit:
    """A text with its tokens, its parts by name and the names it defines by #define."""

    text: str
    tokens: tuple[Token, ...]
    parts: Mapping[str, Part]
    defines: Mapping[str, str]  # name to what it stands for
    partners: Mapping[int, int]  # index of a bracket to that of the one it belongs to

    def is_binary(self, i: int) -> bool:
        """Whether the operator at `i` has something to compute with on both sides."""
        before = self.tokens[i - 1]
        if before.text == ")":
            return not self.is_cast(self.partners[i - 1])
        return (
            before.text == "]"
            or before.kind in ("number", "string")
            or (before.kind == "name" and before.text not in TYPES and before.text != "return")
        )

    def is_cast(self, i: int) -> bool:
        """Whether the parenthesis that opens at `i` holds a type and nothing else."""
        if self.tokens[i].text != "(" or i not in self.partners:
            return False
        inside = [token.text for token in self.tokens[i + 1 : self.partners[i]]]
        return bool(inside) and inside[0] in TYPES and all(word in TYPES or word == "*" for word in inside)

    def right_operand(self, i: int) -> int:
        """The index behind the right operand of the binary operator (or the colon, or the ?) at `i`."""
        level = LEVELS.get(self.tokens[i].text, 0)
        at = i + 1
        while at < len(self.tokens):
            word = self.tokens[at].text
            if word in OPEN:
                at = self.partners[at] + 1
                continue
            ends = word in ENDS or (at > i + 1 and LEVELS.get(word, 99) <= level and self.is_binary(at))
            if ends:
                return at
            at += 1
        return at

    def statement_start(self, i: int) -> int:
        """The index of the first token of the statement, or of the for clause, that holds token `i`."""
        at = i
        while at > 0:
            word = self.tokens[at - 1].text
            if word in CLOSE and word != "}":
                at = self.partners[at - 1]
                continue
            if word in ("{", "}", ";", "("):
                return at
            at -= 1
        return at

    def declares_size(self, i: int) -> bool:
        """Whether token `i` is part of the size of an array that is declared there."""
        bracket = next(
            (at for at in range(i, -1, -1) if self.tokens[at].text == "[" and self.partners[at] >= i), None
        )
        if bracket is None:
            return False
        start = self.statement_start(bracket)
        before = [token.text for token in self.tokens[start:bracket]]
        return bool(before) and before[0] in DECLARES and "=" not in before

    def reached(self, entry: str) -> list[Part]:
        """The parts that `entry` uses, directly or not, in the order of the text."""
        waiting, found = [entry], set()
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.parts:
                continue
            found.add(name)
            part = self.parts[name]
            waiting += [t.text for t in self.tokens[part.first : part.last] if t.kind == "name"]
        return sorted((self.parts[name] for name in found), key=lambda part: part.first)


def read(text: str) -> Unit:
    """Tokens and parts of a text; what only a device compiles is left out."""
    tokens, defines = _tokens(text)
    partners = _partners(tokens)
    return Unit(text, tokens, {part.name: part for part in _parts(tokens, partners)}, defines, partners)


def _tokens(text: str) -> tuple[tuple[Token, ...], dict[str, str]]:
    tokens: list[Token] = []
    defines: dict[str, str] = {}
    conditions: list[bool] = []  # of every open #if: whether the host reads on
    for match in TOKEN.finditer(text):
        kind, word = str(match.lastgroup), match.group()
        if kind == "directive":
            _follow(word[1:].split(), conditions, defines)
        elif kind != "space" and all(conditions):
            tokens.append(Token(kind, word, match.start()))
    return tuple(tokens), defines


def _follow(words: list[str], conditions: list[bool], defines: dict[str, str]) -> None:
    """What a directive does to the conditions; one about anything but the device holds either way."""
    match words:
        case ["ifdef", name]:
            conditions.append(name != DEVICE_ONLY)
        case ["if" | "ifndef", *_]:
            conditions.append(True)
        case ["else", *_] if conditions:
            conditions[-1] = not conditions[-1]
        case ["endif", *_] if conditions:
            conditions.pop()
        case ["define", name, *value]:
            defines[name.partition("(")[0]] = " ".join(value)


def _partners(tokens: tuple[Token, ...]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.text in OPEN:
            opened.append(i)
        elif token.text in CLOSE and opened:
            first = opened.pop()
            pairs[first], pairs[i] = i, first
    return pairs


def _parts(tokens: tuple[Token, ...], partners: Mapping[int, int]) -> Iterator[Part]:
    """What stands in braces outside of any: a function's, a table's, or a struct's, whose functions count."""
    i = 0
    while i < len(tokens):
        if tokens[i].text != "{" or i not in partners:
            i += 1
            continue
        end = partners[i]
        before = tokens[i - 1].text
        if before == ")":
            yield Part(tokens[partners[i - 1] - 1].text, i + 1, end, is_table=False)
        elif before == "=" and tokens[i - 2].text == "]":
            yield Part(tokens[partners[i - 2] - 1].text, i + 1, end, is_table=True)
        elif tokens[i - 2].text == "struct":
            yield Part(before, i + 1, end, is_table=False)
        i = end + 1
