"""Makes wrong kernels of a right one, mechanically: each mutant is one small change of the CUDA text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from kernels import registry, source
from kernels.ctext import LEVELS, Part, Unit, read
from kernels.op import SelfContained

ENTRY = "ENTRY"  # what every text calls its kernel
LONG_TABLE = 200  # tokens, commas among them: a codebook or the patterns of its signs


@dataclass(frozen=True)
class Mutant:
    """One change: `old` at `start` becomes `new`."""

    name: str  # function:token:operator, the token counted from the function's first: stable under comments
    operator: str
    line: int  # in the text, from 1
    column: int
    start: int
    old: str
    new: str
    unit: str = (
        ""  # file of a catalog whose text, with what it includes, is changed; empty for the farm's own
    )

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


Edit = tuple[str, int, int, str]  # operator, first and last token, what stands there instead
Operator = Callable[[Unit, int], Iterator[Edit]]


def mutants(kernel_id: str, kind_name: str) -> tuple[Mutant, ...]:
    """The mutants of a kernel's text for a kind, in the order of the text.

    A helper of the prelude and a long table belong to the first kernel and kind that reach them, so that each
    counts once. A catalog's kernel has those of each of its files, with all that they include.
    """
    if own := registry.self_contained(kernel_id):
        return _of_units(own, kind_name)
    text = source.text(kernel_id, kind_name)
    owners = shared_owners()
    elsewhere = {
        part.name
        for code, part in shared_parts(read(text))
        if owners.get(code, (kernel_id, kind_name)) != (kernel_id, kind_name)
    }
    return of_text(text, leave_out=elsewhere)


def _of_units(kernel: SelfContained, kind_name: str) -> tuple[Mutant, ...]:
    units = kernel.entries(kind_name)
    found = []
    for file, symbols in units.items():
        roots = [symbol.partition("<")[0].rpartition("::")[2] for symbol in symbols]
        made = of_text(kernel.text(kind_name, file), roots=roots)
        front = f"{file}:" if len(units) > 1 else ""
        found += [replace(one, unit=file, name=front + one.name) for one in made]
    return tuple(found)


@cache
def shared_owners() -> dict[str, tuple[str, str]]:
    """Name and code of what several texts have alike to the catalog's first (kernel, kind) that has it."""
    owners: dict[str, tuple[str, str]] = {}
    for kernel_id, kind_name in source.texts():
        for code, _ in shared_parts(read(source.text(kernel_id, kind_name))):
            owners.setdefault(code, (kernel_id, kind_name))
    return owners


def shared_parts(unit: Unit) -> Iterator[tuple[str, Part]]:
    """Helpers of the prelude and long tables that ENTRY reaches, each with its name and code."""
    for part in unit.reached(ENTRY):
        is_long = part.is_table and part.last - part.first >= LONG_TABLE
        if is_long or part.name in _helpers():
            code = unit.text[unit.tokens[part.first].start : unit.tokens[part.last].start]
            yield f"{part.name} {code}", part


@cache
def _helpers() -> frozenset[str]:
    return frozenset(read(source.prelude()).parts)


def of_text(text: str, leave_out: Iterable[str] = (), roots: Iterable[str] = (ENTRY,)) -> tuple[Mutant, ...]:
    """The mutants of what the roots reach in a text, without the functions named; no two texts are equal."""
    unit, left_out = read(text), set(leave_out)
    words = tuple(token.text for token in unit.tokens)
    seen, found = {hash(words)}, []  # hashes: a long table's mutants would be as many copies of it
    for part in unit.reached(*roots):
        if part.name in left_out:
            continue
        for i in range(part.first, part.last):
            for edit in _edits(unit, part, i):
                changed = words[: edit[1]] + tokens_of(edit[3]) + words[edit[2] + 1 :]
                if (key := hash(changed)) not in seen:
                    seen.add(key)
                    found.append(_mutant(unit, part, edit))
    return tuple(found)


@cache
def tokens_of(text: str) -> tuple[str, ...]:
    return tuple(token.text for token in read(text).tokens)


def _edits(unit: Unit, part: Part, i: int) -> Iterator[Edit]:
    for operator in TABLE_OPERATORS if part.is_table else OPERATORS:
        yield from operator(unit, i)


def _mutant(unit: Unit, part: Part, edit: Edit) -> Mutant:
    operator, first, last, new = edit
    start, end = unit.tokens[first].start, unit.tokens[last].end
    line = unit.text.count("\n", 0, start) + 1
    column = start - unit.text.rfind("\n", 0, start)
    name = f"{part.name}:{first - part.first}:{operator}"
    return Mutant(name, operator, line, column, start, unit.text[start:end], new)


# ---- operators: what each may change at one token ----------------------------------------------------------


def number_of(word: str) -> tuple[int, str] | None:
    """Value and suffix of an integer literal; None for a float."""
    digits = word.rstrip("uUlL")
    try:
        return int(digits, 0), word[len(digits) :]
    except ValueError:
        return None


def literals(unit: Unit, i: int) -> Iterator[Edit]:
    """Shifts and counts one off, masks a bit narrower and wider, floats one more."""
    token, before = unit.tokens[i], unit.tokens[i - 1].text
    if token.kind != "number" or unit.declares_size(i):
        return
    if (number := number_of(token.text)) is None:
        yield "float+1", i, i, f"({token.text} + 1.0f)"
        return
    value, suffix = number
    if token.text.lower().startswith("0x") or before == "&":
        yield "mask-narrow", i, i, f"{value & ~(1 << value.bit_length() >> 1):#x}{suffix}"
        yield "mask-wide", i, i, f"{(2 * value + 1) & 0xFFFFFFFF:#x}{suffix}"
        return
    noun = "shift" if before in ("<<", ">>") else "literal"
    yield f"{noun}+1", i, i, f"{value + 1}{suffix}"
    if value:
        yield f"{noun}-1", i, i, f"{value - 1}{suffix}"


LARGEST = (127, 255, 2**32 - 1, 2**64 - 1)  # of the types that tables have


def entries(unit: Unit, i: int) -> Iterator[Edit]:
    """A table's entry one off."""
    token = unit.tokens[i]
    if token.kind != "number":
        return
    if (number := number_of(token.text)) is None:
        yield "entry", i, i, f"({token.text} + 1.0f)"
        return
    value, suffix = number
    yield "entry", i, i, f"{value - 1 if value in LARGEST else value + 1}{suffix}"


def constants(unit: Unit, i: int) -> Iterator[Edit]:
    """Strides, offsets, block sizes and whatever else is a #define, one off."""
    token = unit.tokens[i]
    if (
        token.kind == "name"
        and token.text in unit.defines
        and token.text != ENTRY
        and not unit.declares_size(i)
    ):
        yield "constant+1", i, i, f"({token.text} + 1)"
        yield "constant-1", i, i, f"({token.text} - 1)"


FIELDS = {"x": "y", "y": "x", "z": "w", "w": "z"}
CALLS = {
    "__shfl_down_sync": "__shfl_up_sync",
    "__shfl_up_sync": "__shfl_down_sync",
    "__shfl_xor_sync": "__shfl_down_sync",
    "__shfl_sync": "__shfl_xor_sync",
}
BARRIERS = ("__syncthreads", "__syncwarp")


def names(unit: Unit, i: int) -> Iterator[Edit]:
    """A barrier gone, lanes shuffled the other way, another field of a vector."""
    token, before = unit.tokens[i], unit.tokens[i - 1].text
    if token.kind != "name":
        return
    if token.text in BARRIERS:
        yield "barrier", i, unit.partners[i + 1], ""
    if token.text in CALLS:
        yield "lanes", i, i, CALLS[token.text]
    if before == "." and token.text in FIELDS:
        yield "field", i, i, FIELDS[token.text]


BINARY = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|",
    "&&": "||", "||": "&&",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
}  # fmt: skip
KEEPS_LEFT = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&&", "||")
ASSIGN = {
    "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "<<=": ">>=", ">>=": "<<=", "&=": "|=", "|=": "&=",
}  # fmt: skip


def operators(unit: Unit, i: int) -> Iterator[Edit]:
    """Another operator in place of one; and a term dropped."""
    word = unit.tokens[i].text
    if word in ASSIGN:
        yield "assign", i, i, ASSIGN[word]
        if not in_for_header(unit, i):
            yield "overwrite", i, i, "="
    if word in LEVELS and unit.is_binary(i) and not (adds_nothing(unit, i) or unit.declares_size(i)):
        yield "operator", i, i, BINARY[word]
        if word in KEEPS_LEFT:
            yield "drop", i, unit.right_operand(i) - 1, ""
    elif word == "-" and not unit.is_binary(i):
        yield "sign-lost", i, i, ""


def adds_nothing(unit: Unit, i: int) -> bool:
    """Whether the operator at `i` adds or takes away a zero, above all an offset AT_D of 0: no mutant."""
    operand = unit.tokens[i + 1].text
    alone = unit.right_operand(i) == i + 2
    return unit.tokens[i].text in "+-" and alone and unit.defines.get(operand, operand) == "0"


def in_for_header(unit: Unit, i: int) -> bool:
    """Whether a token stands in the parentheses of a for."""
    opened = (at for at in range(i, 0, -1) if unit.tokens[at].text == "(" and unit.partners[at] > i)
    return any(unit.tokens[at - 1].text == "for" for at in opened)


def sizes(unit: Unit, i: int) -> Iterator[Edit]:
    """A shared array of half its size; one of more is the same kernel."""
    if unit.tokens[i].text == "[" and unit.declares_size(i) and unit.partners[i] > i + 1:
        start = unit.statement_start(i)
        if "__shared__" in [token.text for token in unit.tokens[start:i]]:
            end = unit.partners[i]
            yield "size", i + 1, end - 1, f"({_between(unit, i + 1, end)}) / 2"


def steps(unit: Unit, i: int) -> Iterator[Edit]:
    """A loop that takes every other turn."""
    if unit.tokens[i].text != "++":
        return
    before, behind = unit.tokens[i - 1], unit.tokens[i + 1]
    if behind.kind == "name":
        yield "step", i, i + 1, f"{behind.text} += 2"
    elif before.kind == "name" and unit.tokens[i - 2].text in (";", "{", "}", ","):
        yield "step", i - 1, i, f"{before.text} += 2"


def conditions(unit: Unit, i: int) -> Iterator[Edit]:
    """An if always or never taken; the arms of ?: exchanged, or one in both places."""
    word = unit.tokens[i].text
    if word == "if":
        yield "if-always", i + 1, unit.partners[i + 1], "(true)"
        yield "if-never", i + 1, unit.partners[i + 1], "(false)"
    if word == "?":
        colon = unit.right_operand(i)
        end = unit.right_operand(colon)
        first, second = _between(unit, i + 1, colon), _between(unit, colon + 1, end)
        for operator, arms in (
            ("arms", (second, first)), ("arm-first", (first, first)), ("arm-second", (second, second))
        ):  # fmt: skip
            yield operator, i + 1, end - 1, f"{arms[0]} : {arms[1]}"


def _between(unit: Unit, first: int, end: int) -> str:
    return unit.text[unit.tokens[first].start : unit.tokens[end - 1].end]


CASTS = {
    ("signed", "char"): "(unsigned char)",
    ("unsigned", "char"): "(signed char)",
    ("int",): "(unsigned int)",
    ("unsigned", "int"): "(int)",
    ("short",): "(unsigned short)",
    ("unsigned", "short"): "(short)",
}


def casts(unit: Unit, i: int) -> Iterator[Edit]:
    """A cast to the type of the other signedness."""
    if unit.is_cast(i):
        inside = tuple(token.text for token in unit.tokens[i + 1 : unit.partners[i]])
        if inside in CASTS:
            yield "sign", i, unit.partners[i], CASTS[inside]


OPERATORS: tuple[Operator, ...] = (literals, constants, names, operators, sizes, steps, conditions, casts)
TABLE_OPERATORS: tuple[Operator, ...] = (entries,)
