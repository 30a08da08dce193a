"""Generates the CUDA text of a kernel for a kind, and the digest that says when evidence is stale."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kernels import registry
from kernels.kind import Kind
from kernels.model import Build
from kernels.op import Kernel, LaunchKernel

# What a kernel, a kind or a layout may import that changes a result: sums, buffers, lanes, exp. Contracts and
# judges stand outside.
COUNTED = (
    "kernels.exp32", "kernels.ints.", "kernels.kind", "kernels.kinds.", "kernels.layout", "kernels.layouts.",
    "kernels.ops.", "kernels.packing",
)  # fmt: skip

# What a body calls the type of its activations, for the kernels that share it.
X_TYPE = re.compile(r"\bX_TYPE\b")
LINE = re.compile(r'#line (\d+) "([^"\n]*)"')

C_FLOATS = {"f32": "float", "f16": "f16", "bf16": "bf16"}
NARROW_TYPES = ("f16", "bf16")

CUDA_NAMES = ("CUDA",)  # what a kind's module calls its CUDA text

# A body has all: what a kind with a scale of its whole tensor needs, one whose integers have something to add
# per group (LOW), one whose integers have not (INTS), one that is read as floats (FLOATS), and what the
# others do.
BRANCHES = re.compile(
    r"^#ifdef (TENSOR_SCALE|LOW|INTS|FLOATS)\n(.*?)(?:^#else\n(.*?))?^#endif\n", re.M | re.S
)

C_TYPES = {"i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short",
           "i4": "int", "u4": "unsigned int", "u8": "unsigned long long", "f4": "float"}  # fmt: skip

SHORT_TABLE = 16  # items
TABLE_WIDTH = 100  # characters of a line of items

# What a build means to any compiler; the backends translate it, the digest covers it.
BUILD_MEANS = {
    Build.EXACT: "contraction off",
    Build.DEFAULT: "contraction on",
    Build.CHECK: "contraction off, instrumented",
    Build.DECLARED: "as declared",
}


def texts() -> list[tuple[str, str]]:
    """Every (kernel, kind) with a text of its own, in the catalog's order; kind is empty for none."""
    return [
        (kernel_id, kind)
        for kernel_id, kernel in registry.built_in().items()
        if hasattr(kernel, "body")
        for kind in (registry.kinds() if registry.op(kernel.op).matrices else [""])
        if not kind or kernel.serves((kind,))
    ]


def text(kernel_id: str, kind_name: str, unit: str = "") -> str:
    """The whole translation unit: defines, prelude, the kind's decode body, the kernel's body.

    A catalog's kernel gives its own, of all its files or of the one that `unit` names.
    """
    own = registry.self_contained(kernel_id)
    return own.text(kind_name, unit) if own else _text(kernel_id, kind_name)


@cache
def _text(kernel_id: str, kind_name: str) -> str:
    kernel = registry.launch_kernel(kernel_id)
    kind = registry.kind(kind_name) if kind_name else None
    defines = {
        "ENTRY": kernel.entry(kind_name),
        **(kind_constants(kind) if kind else {}),
        **kernel.constants(kind),
    }
    parts = [f"// {kernel_id} {kind_name}".rstrip()]
    parts += [f"#define {name} {value}" for name, value in defines.items()]
    folder = _module(kernel).parent
    parts += [prelude(), *((folder / name).read_text(encoding="utf8") for name in kernel.ahead)]
    if kind:
        parts += [table(name, values) for name, values in kind.tables]
        parts.append(kind.cuda.strip("\n"))
    ints = registry.ints(kind_name) if kernel.reads_ints else None
    if ints:
        parts.append(ints.cuda.strip("\n"))
    if kernel.x_dtype in NARROW_TYPES:
        parts.append(activations())
    holds = {
        "TENSOR_SCALE": kind is not None and kind.tensor_scale,
        "LOW": ints is not None and ints.low,
        "INTS": ints is not None and not ints.low,
        "FLOATS": ints is None,
    }
    bodies = [(folder / name).read_text(encoding="utf8") for name in (*kernel.before, kernel.body)]
    parts += [X_TYPE.sub(C_FLOATS[kernel.x_dtype], branched(body, holds)) for body in bodies]
    return "\n".join(parts)


def branched(body: str, holds: Mapping[str, bool]) -> str:
    """A kernel's body with one branch of every `#ifdef` in BRANCHES, and without the directives."""
    return BRANCHES.sub(lambda branches: branches[2 if holds[branches[1]] else 3] or "", body)


def place(text: str, line: int) -> tuple[str, int]:
    """The file and line that #line gives a line of a catalog's text; no file before the first of them."""
    lines = text.split("\n")
    for at in range(line - 1, -1, -1):
        if match := LINE.fullmatch(lines[at]):
            return match[2], int(match[1]) + line - at - 2
    return "", line


@cache
def activations() -> str:
    """What stands before the body of a kernel whose activations have 16 bits."""
    return (files("kernels") / "activations.cuh").read_text(encoding="utf8")


@cache
def prelude() -> str:
    """What stands in every text behind its defines."""
    return (files("kernels") / "prelude.cuh").read_text(encoding="utf8")


def kind_constants(kind: Kind) -> dict[str, int]:
    """Sizes, field offsets (AT_<FIELD>) and the lane mapping of a kind, all derived."""
    constants = {"BLOCK_BYTES": kind.block_bytes, "BLOCK_ELEMENTS": kind.elements}
    for name in kind.block.names or ():
        fields = kind.block.fields
        assert fields is not None  # a dtype with names has fields
        constants[f"AT_{name.upper()}"] = fields[name][1]
    lanes = kind.lanes
    return constants | {
        "LANE_WIDTH": lanes.width,
        "LANE_RUNS": lanes.runs,
        "LANE_STRIDE": lanes.stride,
        "LANE_WEIGHTS": lanes.weights,
    }


def table(name: str, values: np.ndarray) -> str:
    """A constant array in CUDA C, one line up to SHORT_TABLE items.

    Floats are written as hexadecimal so that no digit is lost, words of four or eight bytes so that their
    bytes show.
    """
    items = _items(values)
    head = f"__device__ const {C_TYPES[values.dtype.str[1:]]} {name}[{len(items)}] = {{"
    if len(items) <= SHORT_TABLE:
        return f"{head}{', '.join(items)}}};"
    a_line = TABLE_WIDTH // (max(map(len, items)) + 2)
    lines = [", ".join(items[first : first + a_line]) for first in range(0, len(items), a_line)]
    return "\n    ".join([head, *(f"{line}," for line in lines)]) + "\n};"


def _items(values: np.ndarray) -> list[str]:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f":
        return [f"{float(value).hex()}f" for value in values.tolist()]
    if kind == "u" and size >= 4:
        suffix = "ull" if size == 8 else "u"
        return [f"{value:#0{2 + 2 * size}x}{suffix}" for value in values.tolist()]
    return [str(value) for value in values.tolist()]


def digest(kernel_id: str, kinds: tuple[str, ...], build: Build) -> str:
    """SHA-256 over every text a case launches, the code of plan, twin and decode, and the build's meaning."""
    own = registry.self_contained(kernel_id)
    return own.digest(kinds, build) if own else _digest(kernel_id, kinds, build)


@cache
def _digest(kernel_id: str, kinds: tuple[str, ...], build: Build) -> str:
    kernel = registry.kernel(kernel_id)
    parts = [BUILD_MEANS[build], *(code for module in _modules(kernel) for code in _code_digests(module))]
    for part_id, kind_name in kernel.parts(kinds):
        part = registry.kernel(part_id)
        parts.append(_text_digest(part_id, kind_name))
        parts += (code for module in _modules(part) for code in _code_digests(module))
        parts += (code for module in _kind_modules(part, kind_name) for code in _code_digests(module))
    return _sha256("\0".join(parts))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _text_digest(kernel_id: str, kind_name: str) -> str:
    """Texts and modules are in many digests: each is hashed once, and its digest stands for it."""
    return _sha256(_text(kernel_id, kind_name))


@cache
def _code_digests(module: Path) -> tuple[str, ...]:
    return tuple(map(_sha256, _codes(module)))


def frame_digest(kernel_id: str, kinds: tuple[str, ...], build: Build) -> str:
    """SHA-256 over what `digest` covers except the CUDA texts: geometry, arguments, twin, decode, flags.

    Two sources of one frame whose texts compile to the same code can't give different results.
    """
    own = registry.self_contained(kernel_id)
    return own.frame_digest(kinds, build) if own else _frame_digest(kernel_id, kinds, build)


@cache
def _frame_digest(kernel_id: str, kinds: tuple[str, ...], build: Build) -> str:
    kernel = registry.kernel(kernel_id)
    paths = frozenset[str]().union(*map(_paths, _modules(kernel)))
    for part_id, kind_name in kernel.parts(kinds):
        paths = paths.union(*map(_paths, _modules(registry.kernel(part_id))))
        paths = paths.union(*map(_paths, _kind_modules(registry.kernel(part_id), kind_name)))
    parts = [BUILD_MEANS[build], *map(str, kinds), *sorted(code(path, CUDA_NAMES) for path in paths)]
    return _sha256("\0".join(parts))


@cache
def _codes(module: Path) -> tuple[str, ...]:
    """The code of a module and of what it imports from COUNTED, directly or not."""
    return tuple(sorted(code(path) for path in _paths(module)))


@cache
def _paths(module: Path) -> frozenset[str]:
    """The files of a module and of what it imports from COUNTED, directly or not."""
    paths: set[str] = set()
    waiting = {str(module)}
    while waiting:
        path = waiting.pop()
        paths.add(path)
        waiting |= set(_imports(path)) - paths
    return frozenset(paths)


@cache
def _imports(path: str) -> tuple[str, ...]:
    files = [
        getattr(sys.modules.get(name), "__file__", None) for name in _read(path).imports if counted(name)
    ]
    return tuple(file for file in files if file)


class _Read(NamedTuple):
    """What a module names in `from … import …`, and its code."""

    imports: tuple[str, ...]
    code: str


@cache
def _read(path: str) -> _Read:
    """Parses a module once for both."""
    tree = ast.parse(Path(path).read_text(encoding="utf8"))
    names = [
        name
        for node in _statements(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    ]
    return _Read(tuple(names), _code(tree, ()))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below a node, deeper ones too; expressions hold none."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, ())
        for child in inner if isinstance(inner, list) else ():
            yield child
            yield from _statements(child)


def counted(name: str) -> bool:
    """Whether a module of this name is part of the source of what imports it."""
    return any(name.startswith(own) if own.endswith(".") else name == own for own in COUNTED)


@cache
def code(path: str, without: tuple[str, ...] = ()) -> str:
    """A module's code without comments, docstrings and formatting: what changes a result and nothing else.

    Nor does it matter which cases there are: methods that say so, which have workloads in their signature,
    are left out. Assignments to the module's names in `without` are left out too.
    """
    return _code(ast.parse(Path(path).read_text(encoding="utf8")), without) if without else _read(path).code


def _code(tree: ast.Module, without: tuple[str, ...]) -> str:
    tree.body = [node for node in tree.body if not _assigns(node, without)]
    for node in (tree, *_statements(tree)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
        if isinstance(node, ast.ClassDef):
            node.body = [inner for inner in node.body if not _says_which_cases(inner)]
    return _dump(tree)


def _says_which_cases(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    hints = (node.returns, *(argument.annotation for argument in node.args.args))
    return any(hint and "Workload" in map(_name, ast.walk(hint)) for hint in hints)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _assigns(node: ast.stmt, names: tuple[str, ...]) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id in names for target in targets)


def _dump(node: Any) -> str:
    """Like ast.dump, but the same in every Python: fields that are empty don't show, whether known or not."""
    if isinstance(node, list):
        return f"[{','.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
    return f"{type(node).__name__}({','.join(f'{name}={_dump(value)}' for name, value in fields)})"


def _modules(kernel: Kernel) -> tuple[Path, ...]:
    """A kernel's own module, and that of the weight layout it reads."""
    own = _module(kernel)
    return (own, _module(registry.layout(kernel.packing).pack)) if kernel.packing else (own,)


def _kind_modules(kernel: Kernel, kind_name: str) -> tuple[Path, ...]:
    """A kind's own module, and that of its integer form where the kernel reads it."""
    if not kind_name:
        return ()
    own = _module(registry.kind(kind_name).decode)
    ints = registry.ints(kind_name) if isinstance(kernel, LaunchKernel) and kernel.reads_ints else None
    return (own, _module(ints.split)) if ints else (own,)


def _module(thing: object) -> Path:
    name = getattr(thing, "__module__", None) or type(thing).__module__
    module: ModuleType = sys.modules[name]
    assert module.__file__ is not None  # kernels and kinds are files
    return Path(module.__file__)
