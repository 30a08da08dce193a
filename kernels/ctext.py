"""Reads CUDA C as far as mutating it needs: tokens, and the functions and tables that an entry reaches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>\#(?:\\\n|[^\n])*)
    |(?P<number>0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?[uUlLfF]*|\.?\d[\d.]*(?:[eE][+-]?\d+)?[uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL,
)
NAME = re.compile(r"[A-Za-z_]\w*")
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
SPEAKS = frozenset(("return", "else", "do", "case", "goto", "throw", "delete", "new", "sizeof"))
RECORDS = ("struct", "class", "union")
ATTRIBUTES = frozenset((
    "__launch_bounds__", "__maxnreg__", "__align__", "__attribute__", "__declspec", "alignas", "noexcept",
    "decltype",
))  # fmt: skip
CASTS = ("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast")
FAR = 200  # tokens that a template's parameters may have
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
    """A function's body, a struct's or a table's items: tokens `first` to `last`, without the braces."""

    name: str  # its own in the text: where several have one, name#2, name#3, …
    first: int
    last: int
    is_table: bool
    symbol: str  # what the text calls it
    head: int  # the first token of what stands before the brace
    is_record: bool = False  # a struct, a class or a union


@dataclass(frozen=True)
class Unit:
    """A text with its tokens, its parts by name and the names it defines by #define."""

    text: str
    tokens: tuple[Token, ...]
    parts: Mapping[str, Part]
    defines: Mapping[str, str]  # name to what it stands for
    partners: Mapping[int, int]  # index of a bracket to that of the one it belongs to
    angles: frozenset[int]  # indexes of < and > around the arguments of a template or a cast
    records: frozenset[int]  # indexes of the braces that open a struct

    def is_binary(self, i: int) -> bool:
        """Whether the operator at `i` has something to compute with on both sides."""
        before = self.tokens[i - 1]
        if i in self.angles:
            return False
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
        """Whether token `i` is part of the size of an array that is declared there, not in a struct."""
        bracket = next(
            (at for at in range(i, -1, -1) if self.tokens[at].text == "[" and self.partners[at] >= i), None
        )
        if bracket is None:
            return False
        start = self.statement_start(bracket)
        before = self.tokens[start:bracket]
        return _declares(before) and self._around(bracket) not in self.records

    def _around(self, i: int) -> int:
        """The index of the innermost { that token `i` stands in; -1 for none."""
        opened = (
            at for at in range(i, -1, -1) if self.tokens[at].text == "{" and self.partners.get(at, 0) > i
        )
        return next(opened, -1)

    def reached(self, *entries: str) -> list[Part]:
        """The parts that entries use, directly, by macros or by others, in the order of the text."""
        waiting, found = list(entries), set()
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            waiting += [match[0] for match in NAME.finditer(self.defines.get(name, ""))]
            for part in self.parts.values():
                if part.symbol == name:
                    waiting += [t.text for t in self.tokens[part.head : part.last] if t.kind == "name"]
        return sorted(
            (part for part in self.parts.values() if part.symbol in found), key=lambda part: part.first
        )


def read(text: str) -> Unit:
    """Tokens and parts of a text; what only a device compiles is left out."""
    tokens, defines = _tokens(text)
    partners = _partners(tokens)
    angles = frozenset(_angles(tokens))
    parts = {part.name: part for part in _parts(tokens, partners)}
    records = frozenset(part.first - 1 for part in parts.values() if part.is_record)
    return Unit(text, tokens, parts, defines, partners, angles, records)


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


def _angles(tokens: tuple[Token, ...]) -> Iterator[int]:
    """The < and > behind template, a cast, or a name that a template has."""
    templates = {"template", *CASTS}
    for i, token in enumerate(tokens):
        if token.text == "template" and (end := _closing_angle(tokens, i + 1)):
            templates |= {t.text for t in _declared(tokens[end + 1 : end + 1 + FAR])}
    for i, token in enumerate(tokens[:-1]):
        if token.text in templates and (end := _closing_angle(tokens, i + 1)):
            yield from (i + 1, end)


def _declared(behind: tuple[Token, ...]) -> Iterator[Token]:
    """The names that may be that of a template: all before its own parentheses, base or body."""
    for token in behind:
        if token.text in ("(", "{", ";", ":"):
            return
        if token.kind == "name" and token.text not in DECLARES:
            yield token


def _closing_angle(tokens: tuple[Token, ...], opened: int) -> int:
    """The index of what closes the < at `opened`; 0 where no < stands there or nothing closes it."""
    depth = 0
    for at in range(opened, min(len(tokens), opened + FAR)):
        word = tokens[at].text
        if (at == opened and word != "<") or word in ("{", ";"):
            return 0
        depth += {"<": 1, ">": -1, ">>": -2}.get(word, 0)
        if depth <= 0:
            return at
    return 0


def _parts(tokens: tuple[Token, ...], partners: Mapping[int, int]) -> Iterator[Part]:
    """What stands in braces, outside of any but a namespace's: functions, tables, structs and theirs."""
    count: Counter[str] = Counter()
    i = head = 0
    while i < len(tokens):
        word = tokens[i].text
        if word == "{" and i in partners and not _is_scope(tokens[head:i]):
            end = partners[i]
            symbol, noun = _symbol(tokens, partners, head, i)
            if symbol:
                count[symbol] += 1
                name = symbol if count[symbol] == 1 else f"{symbol}#{count[symbol]}"
                yield Part(name, i + 1, end, noun == "table", symbol, head, noun == "record")
            i = end
        elif word not in ("{", "}", ";"):
            i += 1
            continue
        i += 1
        head = i


def _is_scope(before: tuple[Token, ...]) -> bool:
    """Whether a brace opens a namespace, or what has another language's linkage."""
    words = [token.text for token in before]
    return "namespace" in words[:2] or words == ["extern", '"C"']


def _symbol(tokens: tuple[Token, ...], partners: Mapping[int, int], head: int, brace: int) -> tuple[str, str]:
    """What the part is called whose brace this is, and what it is; no name for an enum and its like."""
    if tokens[brace - 1].text == "=" and tokens[brace - 2].text == "]":
        return tokens[partners[brace - 2] - 1].text, "table"
    at = head
    while tokens[at].text == "template" and (end := _closing_angle(tokens, at + 1)):
        at = end + 1
    record = ""
    while at < brace:
        token = tokens[at]
        if token.text in ATTRIBUTES and tokens[at + 1].text == "(":
            at = partners.get(at + 1, at)
        elif token.text == "(" and tokens[at - 1].kind == "name":
            return tokens[at - 1].text, "function"
        elif token.text in RECORDS:
            record = _record(tokens, partners, at + 1, brace)
        at += 1
    return record, "record"


def _declares(before: tuple[Token, ...]) -> bool:
    """Whether what stands before a [ in a statement declares an array: type and name, nothing assigned."""
    words = [token.text for token in before]
    if not words or "=" in words:
        return False
    typed = len(words) > 1 and words[0] not in SPEAKS and before[-1].kind == "name"
    after_type = typed and (before[-2].kind == "name" or words[-2] in ("*", ">"))
    return words[0] in DECLARES or (after_type and not ASSIGNS & set(words))


def _record(tokens: tuple[Token, ...], partners: Mapping[int, int], at: int, brace: int) -> str:
    """The name of a struct: before its brace, or behind it as typedef has it."""
    while at < brace and tokens[at].text in ATTRIBUTES:
        at = partners.get(at + 1, at) + 1
    named = at if at < brace else partners[brace] + 1
    return tokens[named].text if named < len(tokens) and tokens[named].kind == "name" else ""
