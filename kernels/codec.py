"""Frozen dataclasses to JSON and back, strictly; and the digests of their canonical form."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from kernels.errors import FarmError

T = TypeVar("T")

LATER = "later"  # marks such a field

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class CodecError(FarmError):
    """JSON that isn't what the type says; the message names the field, the value and the type."""


def later(default: Any) -> Any:
    """A field that came after values had been digested: left out of JSON where it is its default."""
    return dataclasses.field(default=default, metadata={LATER: True})


def encode(value: Any) -> Any:
    """A JSON-able form: dataclass to object, tuple to list, NaN and Inf to strings.

    A class of one field may say `to_json` to stand for that field alone.
    """
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_json"):
        return encode(value.to_json())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names, unsaid = _field_encoders(type(value)), _later_defaults(type(value))
        return {
            name: encode_field(getattr(value, name))
            for name, encode_field in names
            if name not in unsaid or getattr(value, name) != unsaid[name]
        }
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    return value


@cache
def _field_encoders(cls: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """A class's fields, each with what encodes it: `tagged` for a union of dataclasses."""
    hints = _hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return tuple((name, tagged if _tagged_members(hints[name]) else encode) for name in names)


@cache
def _later_defaults(cls: type) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(cls) if LATER in f.metadata}


def tagged(value: Any) -> Any:
    """A member of a union of dataclasses, with its class name in front: {"Seeded": {…}}."""
    return None if value is None else {type(value).__name__: encode(value)}


def decode(cls: type[T], data: Any, where: str = "") -> T:
    """The value of type `cls` that `data` says; CodecError names the field where it does not."""
    result: T = _decode(cls, data, where or cls.__name__)
    return result


def _decode(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(hint, data, where)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), data, where)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(hint, data, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _decode_enum(hint, data, where)
    return _decode_scalar(hint, data, where)


def _decode_dataclass(cls: Any, data: Any, where: str) -> Any:
    if hasattr(cls, "to_json"):
        (f,) = dataclasses.fields(cls)
        return cls(_decode(_hints(cls)[f.name], data, where))
    _demand(isinstance(data, dict), where, data, "an object")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(data) - set(fields))
    _demand(not unknown, where, unknown, f"no field besides {', '.join(fields)}")
    hints = _hints(cls)
    for name, f in fields.items():
        optional = f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        _demand(name in data or optional, f"{where}.{name}", "nothing", "a value")
    return cls(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in data.items()})


def _decode_union(hint: Any, data: Any, where: str) -> Any:
    if data is None and type(None) in typing.get_args(hint):
        return None
    members = _tagged_members(hint)
    if members:
        _demand(isinstance(data, dict) and len(data) == 1, where, data, f"one of {', '.join(members)}")
        name, body = next(iter(data.items()))
        _demand(name in members, where, name, f"one of {', '.join(members)}")
        return _decode(members[name], body, f"{where}.{name}")
    plain = [member for member in typing.get_args(hint) if member is not type(None)]
    return _decode(plain[0], data, where)


def _decode_tuple(args: tuple[Any, ...], data: Any, where: str) -> Any:
    _demand(isinstance(data, (list, tuple)), where, data, "a list")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    _demand(len(data) == len(args), where, data, f"{len(args)} items")
    return tuple(
        _decode(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True))
    )


def _decode_enum(cls: type[Enum], data: Any, where: str) -> Enum:
    values = [member.value for member in cls]
    _demand(data in values, where, data, f"one of {', '.join(map(str, values))}")
    return cls(data)


def _decode_scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is float:
        data = NON_FINITE.get(data, data) if isinstance(data, str) else data
        _demand(isinstance(data, (int, float)) and not isinstance(data, bool), where, data, "a number")
        return data if isinstance(data, int) else float(data)
    if hint is int:
        _demand(isinstance(data, int) and not isinstance(data, bool), where, data, "a whole number")
    elif isinstance(hint, type):
        _demand(isinstance(data, hint), where, data, hint.__name__)
    return data


def _demand(true: bool, where: str, got: Any, want: str) -> None:
    if not true:
        raise CodecError(f"{where}: got {str(got)[:80]!r}, want {want}")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _tagged_members(hint: Any) -> dict[str, type]:
    """Class name to class for a union of two or more dataclasses, else nothing."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return {}
    members = [member for member in typing.get_args(hint) if dataclasses.is_dataclass(member)]
    return (
        {member.__name__: member for member in members if isinstance(member, type)}
        if len(members) > 1
        else {}
    )


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()
