"""Reads one declaration of a pack: TOML to frozen values, with every mistake and its line."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from kernels import codec, registry
from kernels.declared import steps
from kernels.declared.declaration import (
    BUFFER_DTYPES,
    VALUE_DTYPES,
    BuildOf,
    ComputesOn,
    Constraints,
    Declaration,
    Output,
    Range,
    Scratch,
    Tolerance,
    Twin,
)
from kernels.declared.flags import STANDARDS, unknown_flag
from kernels.declared.mistake import Mistakes, Place, no_such
from kernels.declared.pack import TOLD_APART, Pack
from kernels.declared.positions import lines
from kernels.declared.scope import Scope
from kernels.declared.table import Formula, Table
from kernels.errors import UnknownName
from kernels.op import JudgedOp, Op

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
ARITHMETIC = ("factored", "decoded")


def read(pack: Pack, file: str, mistakes: Mistakes) -> Declaration | None:
    """The kernel that a file declares; None, and mistakes, where it declares none that could be planned."""
    try:
        text = pack.by_path[file].decode("utf8")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        mistakes.add(Place(file), f"byte {error.start} is no UTF-8; save the file as UTF-8")
        return None
    except RecursionError:
        mistakes.add(Place(file), "no TOML that can be read: nested too deeply")
        return None
    except tomllib.TOMLDecodeError as error:
        mistakes.add(*_syntax(file, text, str(error)))
        return None
    before = len(mistakes)
    declaration = _declaration(pack, Table(file, values, lines(text), mistakes), values)
    return declaration if len(mistakes) == before else None


def _syntax(file: str, text: str, said: str) -> tuple[Place, str]:
    """tomllib's own words, at the line that they name."""
    if not (match := AT.fullmatch(said)):
        return Place(file), f"no TOML: {said}"
    line = int(match[2]) if match[2] else text.count("\n") + 1
    return Place(file, line, int(match[3] or 0)), f"no TOML: {match[1]}"


def _declaration(pack: Pack, table: Table, values: dict[str, Any]) -> Declaration | None:
    op = _op(table)
    head = _head(table)
    build = _build(table.table("build"), pack)
    if op is None:
        return None
    kinds = _kinds(table, op)
    scope = Scope(op, kinds, _layout(table, op, kinds))
    axes = _axes(table.table("axes"), scope)
    x_dtype, computes_on, align = _inputs(table.table("inputs"), scope)
    output = _outputs(table.table("outputs"), scope)
    scratch = _scratch(table.table("scratch"), scope)
    found = Declaration(
        place=Place(table.file, table.place("name").line),
        op=op.name,
        kinds=scope.kinds,
        steps=steps.read(pack, table, scope),
        told=codec.canonical(_told(values)),
        axes=axes,
        x_dtype=x_dtype,
        computes_on=computes_on,
        layout=scope.layout,
        scratch=scratch,
        output=output,
        tolerance=_tolerance(table.table("tolerance")) if "tolerance" in table else None,
        accumulates=scope.checked(table, table.formula("accumulates")),
        arithmetic=table.one_of("arithmetic", ARITHMETIC, "factored"),
        constraints=_constraints(table.table("constraints"), scope, align),
        build=build,
        twin=_twin(table, pack),
        **head,
    )
    table.done("a declaration")
    return found


def _told(values: dict[str, Any]) -> dict[str, Any]:
    """What may change a result in every build: no names, and not the flags of the build declared."""
    told = {key: _plain(value) for key, value in values.items() if key not in TOLD_APART}
    if isinstance(told.get("build"), dict):
        told["build"].pop("flags", None)
    return told


def _plain(value: Any) -> Any:
    """A TOML value as JSON has it; dates are texts."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float)) else str(value)


def _head(table: Table) -> dict[str, str]:
    """Name, author and description: words that change no result."""
    name = table.text("name", "name" if "name" in table else "")  # of another type: said already
    if not NAME.fullmatch(name):
        wanted = "want up to 64 of a-z 0-9 _ . -, the first one a letter or digit"
        table.wrong(f"name {name!r}: {wanted}", "name")
    return {"name": name, "author": table.text("author"), "description": table.text("description")}


def _op(table: Table) -> JudgedOp | None:
    """The op, if it is one that a single output is judged of."""
    name = table.text("op")
    declarable = [op.name for op in registry.ops().values() if _declarable(op)]
    if not name:
        table.wrong(f"op is missing; write op = one of {', '.join(declarable)}")
        return None
    try:
        op = registry.op(name)
    except UnknownName:
        table.wrong(no_such("op", name, declarable), "op")
        return None
    if isinstance(op, JudgedOp) and _declarable(op):
        return op
    table.wrong(f"op {name!r} is made of launches of other ops; declare one of {', '.join(declarable)}", "op")
    return None


def _declarable(op: Op) -> bool:
    return isinstance(op, JudgedOp) and type(op).out_shape is not JudgedOp.out_shape


def _kinds(table: Table, op: JudgedOp) -> tuple[str, ...]:
    names = table.texts("kinds")
    if not op.matrices:
        if names:
            table.wrong(
                f"kinds = {list(names)}: {op.name} reads no quantized matrix; leave kinds out", "kinds"
            )
        return ()
    if not names:
        table.wrong(
            f'kinds is missing; {op.name} reads a quantized matrix: write kinds = ["Q8_0", …]', "kinds"
        )
    known = registry.kinds()
    for number, name in enumerate(names):
        if name.upper() not in known:
            table.wrong(no_such("kind", name, known), "kinds", number)
    return tuple(dict.fromkeys(name.upper() for name in names if name.upper() in known))


def _layout(table: Table, op: JudgedOp, kinds: tuple[str, ...]) -> str:
    """The weight layout, if it can hold every kind."""
    name = table.one_of("layout", registry.layouts())
    held = registry.layout(name).kinds if name else kinds
    if not op.matrices and name:
        table.wrong(f"layout = {name!r}: {op.name} reads no quantized matrix; leave layout out", "layout")
    if others := [kind for kind in kinds if kind not in held]:
        table.wrong(f"layout = {name!r} holds {', '.join(held)}, not {', '.join(others)}", "layout")
        return ""
    return name


def _axes(table: Table, scope: Scope) -> tuple[tuple[str, Formula], ...]:
    """Sizes that the declaration derives, each known to those behind it."""
    found = []
    for key in table.keys:
        if not IDENTIFIER.fullmatch(key) or scope.knows(key):
            table.wrong(f"axis {key!r}: want a name of letters, digits and _ that nothing else has", key)
        if formula := scope.checked(table, table.formula(key)):
            found.append((key, formula))
        scope.sizes.append(key)  # one that is wrong is no second mistake where it is used
    return tuple(found)


def _inputs(table: Table, scope: Scope) -> tuple[str, dict[str, ComputesOn], dict[str, int]]:
    """The activations' type, and by input what it is rounded to and how it is aligned."""
    dtypes, computes_on, align = {}, {}, {}
    for name in table.keys:
        one = table.table(name)
        if name not in scope.inputs:
            table.wrong(no_such("input", name, scope.inputs), name)
            continue
        if name in scope.activations:
            dtypes[name] = one.one_of("dtype", VALUE_DTYPES, "f32")
            computes_on[name] = ComputesOn(one.one_of("computes_on", list(ComputesOn), "x"))
            if computes_on[name] is ComputesOn.Q8_1 and not scope.is_linear:
                one.wrong(
                    f"computes_on = 'q8_1': {scope.op.name} is more than one matrix times x", "computes_on"
                )
        align[name] = one.whole("align")
        if align[name] < 0 or align[name] & (align[name] - 1) or align[name] > 256:
            one.wrong(f"align = {align[name]}: want a power of two up to 256", "align")
        one.done(f"inputs.{name}")
    given = {dtypes.get(name, "f32") for name in scope.activations}
    if len(given) > 1:
        table.wrong(f"inputs of types {', '.join(sorted(given))}: a case's activations have one type")
    return given.pop() if given else "f32", computes_on, {name: n for name, n in align.items() if n}


def _outputs(table: Table, scope: Scope) -> Output:
    for name in table.keys:
        if name != "out":
            table.wrong(no_such("output", name, ["out"]), name)
    one = table.table("out")
    filled = one.get("fill", str, float)
    fill = {"zero": 0.0, "poison": None, None: None}.get(filled, filled)
    if isinstance(fill, str):
        one.wrong(f"fill = {fill!r}: want 'poison', 'zero' or a number", "fill")
        fill = None
    inout = one.one_of("inout", scope.activations)
    if inout:
        scope.replaced = inout
    known = scope.output_dtypes
    output = Output(
        one.one_of("dtype", known, known[0]),
        None if fill is None else float(fill),
        inout,
        one.flag("deterministic", True),
    )
    one.done("outputs.out")
    return output


def _scratch(table: Table, scope: Scope) -> tuple[Scratch, ...]:
    found = []
    for name in table.keys:
        if not IDENTIFIER.fullmatch(name) or scope.knows(name):
            table.wrong(f"scratch {name!r}: want a name of letters, digits and _ that nothing else has", name)
        one = table.table(name)
        filled = one.get("fill", str, float)
        if isinstance(filled, str) and filled not in ("zero", "poison"):
            one.wrong(f"fill = {filled!r}: want 'poison', 'zero' or a number", "fill")
        shape = tuple(scope.checked(one, formula) for formula in one.formulas("shape"))
        if not shape:
            one.wrong('shape is missing; write shape = ["rows", 64]', "shape")
        fill = (
            0.0 if filled == "zero" else None if filled is None or isinstance(filled, str) else float(filled)
        )
        dtype = one.one_of("dtype", BUFFER_DTYPES, "f32")
        one.done(f"scratch.{name}")
        found.append(Scratch(name, dtype, tuple(side for side in shape if side), fill, table.place(name)))
        scope.scratch.append(name)
    return tuple(found)


def _tolerance(table: Table) -> Tolerance | None:
    reason = table.text("reason")
    if not reason.strip():
        table.wrong("reason is missing: say why float32's own limit isn't fair to this kernel", "reason")
    units, relative, absolute = (table.get(key, float) for key in ("units", "relative", "absolute"))
    table.done("tolerance")
    for key, value in (("units", units), ("relative", relative), ("absolute", absolute)):
        if value is not None and not 0 <= value < float("inf"):
            table.wrong(f"{key} = {value}: want a number of 0 or more", key)
    if (units is None) == (relative is None and absolute is None):
        table.wrong("want either units, of 2^-24 S, or relative and absolute")
        return None
    return Tolerance(reason, table.place(), units, relative or 0.0, absolute or 0.0)


def _constraints(table: Table, scope: Scope, align: dict[str, int]) -> Constraints:
    sm = table.whole("sm")
    if sm and not 30 <= sm <= 999:
        table.wrong(
            f"sm = {sm}: want the least compute capability as two or three digits, 75 for sm_75", "sm"
        )
    sizes = {}
    for key in table.keys:
        if key == "sm":
            continue
        if key not in scope.sizes:
            table.wrong(no_such("size", key, ["sm", *scope.sizes]), key)
            continue
        one = table.table(key)
        sizes[key] = Range(*(one.get(name, int) for name in ("multiple_of", "least", "most")))
        one.done(f"constraints.{key}")
        if (of := sizes[key].multiple_of) is not None and of < 1:
            one.wrong(f"multiple_of = {of}: want 1 or more", "multiple_of")
    return Constraints(sm, align, sizes)


def _build(table: Table, pack: Pack) -> BuildOf:
    defines = table.table("defines")
    pairs = []
    for name in defines.keys:
        value = defines.get(name, str, int, float)
        if not IDENTIFIER.fullmatch(name):
            defines.wrong(f"define {name!r}: want a name of letters, digits and _", name)
        pairs.append((name, str(value)))
    flags, include = table.texts("flags"), table.texts("include")
    for number, flag in enumerate(flags):
        if reason := unknown_flag(flag):
            table.wrong(reason, "flags", number)
    folders = {path.rpartition("/")[0] for path, _ in pack.files}
    known = sorted(
        {"/".join(one.split("/")[:n]) for one in folders for n in range(1, one.count("/") + 2)} - {""}
    )
    for number, folder in enumerate(include):
        if folder not in (".", *known):
            table.wrong(
                no_such("include folder inside the catalog", folder, [".", *known]), "include", number
            )
    std = table.one_of("std", STANDARDS)
    told = "flags" in table
    table.done("build")
    return BuildOf(std, tuple(pairs), include, flags, told)


def _twin(table: Table, pack: Pack) -> Twin | None:
    text = table.text("twin")
    if not text:
        return None
    file, mark, function = text.partition("::")
    if not mark or not IDENTIFIER.fullmatch(function):
        table.wrong(f"twin = {text!r}: write file.py::function", "twin")
        return None
    if file not in pack.by_path:
        pythons = [path for path, _ in pack.files if path.endswith(".py")]
        table.wrong(no_such("file of the catalog", file, pythons), "twin")
        return None
    return Twin(file, function, table.place("twin"))
