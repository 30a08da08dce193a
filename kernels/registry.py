"""Finds kinds, layouts, ops and kernels by folder, imports them when asked; names all if one is missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any

import kernels.ints
import kernels.kinds
import kernels.layouts
import kernels.ops
from kernels.errors import UnknownName, UsageError
from kernels.ints._ints import Ints
from kernels.kind import Kind
from kernels.layout import WeightLayout
from kernels.op import Kernel, LaunchKernel, Op, SelfContained


def _modules(package: Any) -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))


@cache
def kinds() -> dict[str, Kind]:
    """Every kind by its name in capitals."""
    found = [importlib.import_module(f"kernels.kinds.{name}").KIND for name in _modules(kernels.kinds)]
    return {kind.name: kind for kind in sorted(found, key=natural)}


def natural(kind: Kind) -> tuple[bool, bool, str]:
    """Sorts Q kinds before the IQ, MX and TQ ones, and plain numbers behind them."""
    return (kind.is_plain, not kind.name.startswith("Q"), kind.name)


def kind(name: str) -> Kind:
    """The kind of that name, in any case of letters."""
    try:
        return kinds()[name.upper()]
    except KeyError:
        raise UnknownName("kind", name, list(kinds())) from None


@cache
def all_ints() -> dict[str, Ints]:
    """Every kind's integer form by the kind's name."""
    names = _modules(kernels.ints)
    return {name.upper(): importlib.import_module(f"kernels.ints.{name}").INTS for name in names}


def ints(kind_name: str) -> Ints | None:
    """A kind's integer form; None where it has none."""
    return all_ints().get(kind_name)


@cache
def layouts() -> dict[str, WeightLayout]:
    """Every weight layout by its id."""
    names = _modules(kernels.layouts)
    found = [importlib.import_module(f"kernels.layouts.{name}").LAYOUT for name in names]
    return {layout.id: layout for layout in found}


def layout(name: str) -> WeightLayout:
    try:
        return layouts()[name]
    except KeyError:
        raise UnknownName("weight layout", name, list(layouts())) from None


@cache
def ops() -> dict[str, Op]:
    found = [importlib.import_module(f"kernels.ops.{name}").OP for name in _modules(kernels.ops)]
    return {op.name: op for op in found}


def op(name: str) -> Op:
    try:
        return ops()[name]
    except KeyError:
        raise UnknownName("op", name, list(ops())) from None


@cache
def built_in() -> dict[str, Kernel]:
    """Every kernel of the farm's own by its id, op/name."""
    found: list[Kernel] = []
    for op_name in ops():
        package = importlib.import_module(f"kernels.ops.{op_name}")
        modules = [importlib.import_module(f"{package.__name__}.{name}") for name in _modules(package)]
        found += [module.KERNEL for module in modules if hasattr(module, "KERNEL")]
    return {kernel.id: kernel for kernel in found}


# Kernels of a user's catalog, by id; of this thread of work alone, so that one never meets another's.
_ADDED: ContextVar[Mapping[str, Kernel]] = ContextVar("added kernels", default=MappingProxyType({}))


@contextmanager
def searching(added: Mapping[str, Kernel]) -> Iterator[None]:
    """While in it, these kernels are found beside the farm's own, in place of any that were added before.

    UsageError where one of them has the name of a kernel of the farm's own.
    """
    if taken := sorted(set(added) & set(built_in())):
        raise UsageError(
            f"a catalog's kernel may not be named {taken[0]!r}: the farm has that one; rename it"
        )
    token = _ADDED.set(added)
    try:
        yield
    finally:
        _ADDED.reset(token)


def all_kernels() -> Mapping[str, Kernel]:
    """Every kernel by its id, op/name: the farm's own, then those of the catalog that is searched."""
    added = _ADDED.get()
    return {**built_in(), **added} if added else built_in()


def self_contained(kernel_id: str) -> SelfContained | None:
    """The kernel of that id if it brings its own texts and digests."""
    found = _ADDED.get().get(kernel_id)
    return found if isinstance(found, SelfContained) else None


def kernel(kernel_id: str) -> Kernel:
    try:
        return all_kernels()[kernel_id]
    except KeyError:
        raise UnknownName("kernel", kernel_id, list(all_kernels())) from None


def launch_kernel(kernel_id: str) -> LaunchKernel:
    """A kernel that a launch names; an ffn isn't one."""
    found = kernel(kernel_id)
    if not isinstance(found, LaunchKernel):
        raise UnknownName("kernel with a launch of its own", kernel_id, list(all_kernels()))
    return found
