"""Reads the steps of a declaration: entry points, arguments by role, and launch sizes."""

from __future__ import annotations

import re
from typing import Any

from kernels.declared.declaration import DTYPES, Argument, EntryPoint, StepOf
from kernels.declared.expression import Name
from kernels.declared.mistake import no_such
from kernels.declared.pack import CUBIN, Pack, refuses_path
from kernels.declared.scope import Scope
from kernels.declared.table import Table, short

DEFAULT_DTYPES = {"row_bytes": "i64"}  # of sizes that may pass 32 bits; all others are i32
PLACEHOLDER = re.compile(r"\{(\w*)\}")
PLACEHOLDERS = ("kind", "KIND", "block_bytes", "block_elements")
SYMBOL = re.compile(r"[A-Za-z_][\w:]*(<[^;{}\"\\]*>)?")


def read(pack: Pack, table: Table, scope: Scope) -> tuple[StepOf, ...]:
    """Set-up steps, then the others; a declaration without one is a mistake."""
    before = len(table.mistakes)
    setup = [_step(pack, one, scope, True) for one in table.tables("setup")]
    rest = [_step(pack, one, scope, False) for one in table.tables("step")]
    if not rest and "step" not in table:
        table.wrong("there is no step; write [[step]] with entry_point, args, grid and block")
    given = {argument.buffer for step in rest for argument in step.args}
    if rest and len(table.mistakes) == before and not given & {"out", scope.replaced or "out"}:
        table.wrong("no step gets `out`, so nothing would be written; name it in args", "step")
    return (*setup, *rest)


def _step(pack: Pack, table: Table, scope: Scope, setup: bool) -> StepOf:
    entry_points = _entry_points(pack, table, scope)
    args = tuple(_args(table, scope, setup))
    grid, block = (_size(table, scope, key) for key in ("grid", "block"))
    shared = scope.checked(table, table.formula("shared"))
    table.done("a step")
    return StepOf(entry_points, args, grid, block, shared, table.place(), table.place("args"), setup)


def _size(table: Table, scope: Scope, key: str) -> tuple[Any, ...]:
    """One to three expressions."""
    formulas = table.formulas(key)
    if key not in table:
        table.wrong(f'{key} is missing; write {key} = ["…"], one to three sizes')
    elif not 1 <= (count := table.count(key)) <= 3:
        table.wrong(f"{key} has {count} sizes, want one to three", key)
    return tuple(one for one in (scope.checked(table, formula) for formula in formulas) if one)


def _entry_points(pack: Pack, table: Table, scope: Scope) -> dict[str, EntryPoint]:
    """By kind where it is a table, else one for all."""
    value = table.get("entry_point", str, dict)
    if value is None:
        if "entry_point" not in table:
            table.wrong('entry_point is missing; write entry_point = "file.cu::symbol"')
        return {}
    if isinstance(value, str):
        found = {"": _entry_point(pack, table, value, ("entry_point",))}
        return {kind: entry for kind, entry in found.items() if entry}
    by_kind = {}
    for key, text in value.items():
        if key.upper() not in scope.kinds:
            table.wrong(no_such("kind of this kernel", key, scope.kinds), "entry_point", key)
        elif not isinstance(text, str):
            table.wrong(f'{key} = {short(text)}: want "file.cu::symbol"', "entry_point", key)
        elif entry := _entry_point(pack, table, text, ("entry_point", key)):
            by_kind[key.upper()] = entry
    known = {key.upper() for key in value} <= set(scope.kinds)
    if known and (missing := [kind for kind in scope.kinds if kind not in map(str.upper, value)]):
        table.wrong(f"entry_point has none for {', '.join(missing)}", "entry_point")
    return by_kind


def _entry_point(pack: Pack, table: Table, text: str, path: tuple[str, ...]) -> EntryPoint | None:
    file, mark, symbol = text.partition("::")
    plain = PLACEHOLDER.sub("0", symbol)
    if not mark or not SYMBOL.fullmatch(plain):
        table.wrong(
            f"entry_point {text!r}: write file.cu::symbol, or file.cu::symbol<{{block_bytes}}>", *path
        )
        return None
    for name in PLACEHOLDER.findall(symbol):
        if name not in PLACEHOLDERS:
            table.wrong(no_such("placeholder", name, PLACEHOLDERS), *path)
            return None
    if reason := refuses_path(file):
        table.wrong(f"entry_point {text!r}: {reason}", *path)
        return None
    if file not in pack.by_path:
        known = [name for name, _ in pack.files if name.endswith((".cu", ".cuh", CUBIN))]
        table.wrong(no_such("file of the catalog", file, known), *path)
        return None
    return EntryPoint(file, symbol, table.place(*path))


def _args(table: Table, scope: Scope, setup: bool) -> Any:
    """The arguments in the order of the kernel's parameters; those that are mistakes are left out."""
    value = table.get("args", list)
    if "args" not in table:
        table.wrong('args is missing; write args = ["weights", "x", "out", "rows", …] in the kernel\'s order')
    for number, item in enumerate(value or []):
        if isinstance(item, dict):
            argument = _typed(table, scope, item, number)
        elif isinstance(item, (str, int)) and not isinstance(item, bool):
            argument = _named(table, scope, item, number)
        else:
            table.wrong(
                f"args: {short(item)} where a name, an expression or a table should be", "args", number
            )
            continue
        if argument and setup and argument.buffer and not _may_set_up(argument.buffer, scope):
            allowed = ", ".join((*scope.weights, *scope.scratch))
            table.wrong(f"a setup step may not have {argument.buffer!r}, only {allowed}", "args", number)
        elif argument:
            yield argument


def _may_set_up(buffer: str, scope: Scope) -> bool:
    return buffer in scope.weights or buffer in scope.scratch


def _named(table: Table, scope: Scope, item: str | int, number: int) -> Argument | None:
    """A buffer's name, a scalar's, or an expression; numbers stand for themselves."""
    place = table.place("args", number)
    if isinstance(item, str) and item in scope.buffers:
        return Argument(place, buffer=item)
    if isinstance(item, str) and item in scope.scalars:
        return Argument(place, scalar=item, dtype="f32")
    formula = table.formula_of(item, "args", number)
    if formula is None:
        return None
    if isinstance(formula.tree, Name) and formula.tree.name not in scope.sizes:
        known = [*scope.buffers, *scope.scalars, *scope.sizes]
        table.wrong(no_such("buffer, scalar or size", formula.tree.name, known), "args", number)
        return None
    if scope.checked(table, formula) is None:
        return None
    return Argument(place, value=formula, dtype=DEFAULT_DTYPES.get(formula.text, "i32"))


def _typed(table: Table, scope: Scope, item: dict[str, Any], number: int) -> Argument | None:
    """{ value = …, dtype = … }: an expression, a number or a scalar in a type of its own."""
    if unknown := sorted(set(item) - {"value", "dtype"}):
        table.wrong(no_such("key of an argument", unknown[0], ["value", "dtype"]), "args", number, unknown[0])
        return None
    dtype, value = item.get("dtype", "i32"), item.get("value")
    if dtype not in DTYPES:
        table.wrong(no_such("type of an argument", str(dtype), DTYPES), "args", number, "dtype")
        return None
    place = table.place("args", number)
    if isinstance(value, str) and value in scope.scalars:
        return Argument(place, scalar=value, dtype=dtype)
    if isinstance(value, float):
        if not dtype.startswith("f"):
            table.wrong(
                f"value = {value}: a fraction needs dtype f32 or f64, not {dtype}", "args", number, "value"
            )
            return None
        return Argument(place, value=value, dtype=dtype)
    formula = scope.checked(table, table.formula_of(value, "args", number, "value"))
    return Argument(place, value=formula, dtype=dtype) if formula else None
