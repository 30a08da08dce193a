"""Frozen dataclasses to JSON and back, strictly; and the digests of their canonical form."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import marshal
import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache, lru_cache
from itertools import cycle
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, TypeVar

from kernels.errors import FarmError

T = TypeVar("T")

LATER = "later"  # marks such a field
KEPT = 16_384  # values of each recurrent type
TEXT = "_canonical"  # where such a value has its text

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
PLAIN = {str, int, bool, type(None)}  # types that are their own JSON
LARGEST = 10**308  # of whole numbers in the place of a float
NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class CodecError(FarmError):
    """JSON that isn't what the type says; the message names the field, the value and the type."""


def later(default: Any) -> Any:
    """A field that came after values had been digested: left out of JSON where it is its default."""
    return dataclasses.field(default=default, metadata={LATER: True})


def recurrent(cls: type[T]) -> type[T]:
    """Marks a dataclass whose values come again and again: what is read and written of them is kept."""
    RECURRENT.add(cls)
    return cls


RECURRENT: set[type] = set()


def encode(value: Any) -> Any:
    """A JSON-able form: dataclass to object, tuple to list, NaN and Inf to strings.

    A class of one field may say `to_json` to stand for that field alone.
    """
    kind: Any = type(value)
    return value if kind in PLAIN else _encoder(kind)(value)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any]:
    """What encodes values of exactly this type; looked up once, since evidence is made of a few types."""
    if issubclass(kind, Enum):
        return lambda value: value.value
    if hasattr(kind, "to_json"):
        return lambda value: encode(value.to_json())
    if issubclass(kind, float):
        return lambda value: value if math.isfinite(value) else str(value)
    if dataclasses.is_dataclass(kind):
        return _dataclass_encoder(kind)
    if issubclass(kind, (list, tuple)):
        return lambda value: [item if type(item) in PLAIN else encode(item) for item in value]
    if issubclass(kind, dict):
        return lambda value: {str(key): encode(item) for key, item in value.items()}
    return lambda value: value


def _dataclass_encoder(cls: Any) -> Callable[[Any], Any]:
    """Field by field; `tagged` for a union of dataclasses."""
    hints = _hints(cls)
    fields = dataclasses.fields(cls)
    encoders = [(f.name, tagged if _tagged_members(hints[f.name]) else encode) for f in fields]
    unsaid = {f.name: f.default for f in fields if LATER in f.metadata}

    def encode_fields(value: Any) -> dict[str, Any]:
        found = {name: encode_field(getattr(value, name)) for name, encode_field in encoders}
        for name, default in unsaid.items():
            if getattr(value, name) == default:
                del found[name]
        return found

    return encode_fields


def tagged(value: Any) -> Any:
    """A member of a union of dataclasses, with its class name in front: {"Seeded": {…}}."""
    return None if value is None else {type(value).__name__: encode(value)}


def decode(cls: type[T], data: Any, where: str = "") -> T:
    """The value of type `cls` that `data` says; CodecError names the field where it does not."""
    hint: Any = cls
    try:
        result: T = _decoder(hint)(data)
    except _Wrong as wrong:
        place = (where or cls.__name__) + "".join(reversed(wrong.path))
        raise CodecError(f"{place}: got {_shown(wrong.got)!r}, want {wrong.want}") from None
    return result


def _shown(got: Any) -> str:
    """The beginning of what was read; a parser takes in more levels than can be printed."""
    try:
        return str(got)[:80]
    except RecursionError:
        return "levels over levels"


class _Wrong(Exception):
    """JSON that isn't what its type says; on its way out it learns where it was found."""

    def __init__(self, got: Any, want: str, *path: str) -> None:
        self.got, self.want = got, want
        self.path = list(path)  # innermost first


@cache
def _decoder(hint: Any) -> Callable[[Any], Any]:
    """What decodes a value of this type; raises _Wrong."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(hint)
    if origin is tuple:
        return _tuple_decoder(typing.get_args(hint))
    if dataclasses.is_dataclass(hint):
        decode_fields = _dataclass_decoder(hint)
        return _keeping(decode_fields) if hint in RECURRENT else decode_fields
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_decoder(hint)
    return _scalar_decoder(hint)


def _dataclass_decoder(cls: Any) -> Callable[[Any], Any]:
    hints, fields = _hints(cls), dataclasses.fields(cls)
    decoders = {f.name: _decoder(hints[f.name]) for f in fields}
    if hasattr(cls, "to_json"):
        (only,) = decoders.values()
        return lambda data: cls(only(data))
    missing = dataclasses.MISSING
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    names = f"no field besides {', '.join(decoders)}"

    def decode_fields(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _Wrong(data, "an object")
        if not data.keys() <= decoders.keys():
            raise _Wrong(sorted(data.keys() - decoders.keys()), names)
        for name in required:
            if name not in data:
                raise _Wrong("nothing", "a value", f".{name}")
        values = {}
        for name, item in data.items():
            try:
                values[name] = decoders[name](item)
            except _Wrong as wrong:
                wrong.path.append(f".{name}")
                raise
        return cls(**values)

    return decode_fields


def _keeping(decode_fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same decoder, which gives equal data the value that it made of them before."""

    @lru_cache(maxsize=KEPT)
    def decoded(packed: bytes) -> Any:
        return decode_fields(marshal.loads(packed))

    def kept(data: Any) -> Any:
        try:
            # Version 2 has no references: equal data, down to the types of numbers, are equal bytes.
            packed = marshal.dumps(data, 2)
        except ValueError:  # too many levels
            return decode_fields(data)
        return decoded(packed)

    return kept


def _union_decoder(hint: Any) -> Callable[[Any], Any]:
    members = {name: _decoder(member) for name, member in _tagged_members(hint).items()}
    plain = [member for member in typing.get_args(hint) if member is not type(None)]
    only = None if members else _decoder(plain[0])
    optional = type(None) in typing.get_args(hint)
    names = f"one of {', '.join(members)}"

    def decode_member(data: Any) -> Any:
        if data is None and optional:
            return None
        if only:
            return only(data)
        if not isinstance(data, dict) or len(data) != 1:
            raise _Wrong(data, names)
        ((name, body),) = data.items()
        if name not in members:
            raise _Wrong(name, names)
        try:
            return members[name](body)
        except _Wrong as wrong:
            wrong.path.append(f".{name}")
            raise

    return decode_member


def _tuple_decoder(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    any_length = len(args) == 2 and args[1] is Ellipsis
    decoders = [_decoder(arg) for arg in args[: 1 if any_length else None]]

    def decode_items(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)):
            raise _Wrong(data, "a list")
        if not any_length and len(data) != len(decoders):
            raise _Wrong(data, f"{len(decoders)} items")
        found: list[Any] = []
        try:
            for decode_item, item in zip(cycle(decoders) if any_length else decoders, data, strict=False):
                found.append(decode_item(item))
        except _Wrong as wrong:
            wrong.path.append(f"[{len(found)}]")
            raise
        return tuple(found)

    return decode_items


def _enum_decoder(cls: type[Enum]) -> Callable[[Any], Any]:
    values = [member.value for member in cls]
    names = f"one of {', '.join(map(str, values))}"

    def decode_member(data: Any) -> Enum:
        if data not in values:
            raise _Wrong(data, names)
        return cls(data)

    return decode_member


def _scalar_decoder(hint: Any) -> Callable[[Any], Any]:
    if hint is float:
        return _decode_float
    if hint is int:
        return _decode_int
    if not isinstance(hint, type):
        return lambda data: data
    name = hint.__name__

    def decode_plain(data: Any) -> Any:
        if not isinstance(data, hint):
            raise _Wrong(data, name)
        return data

    return decode_plain


def _decode_float(data: Any) -> float:
    data = NON_FINITE.get(data, data) if isinstance(data, str) else data
    if not isinstance(data, (int, float)) or isinstance(data, bool):
        raise _Wrong(data, "a number")
    if isinstance(data, int):
        if abs(data) > LARGEST:
            raise _Wrong(data, f"a number below {LARGEST:.0e}")
        return data
    return float(data)


def _decode_int(data: Any) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise _Wrong(data, "a whole number")
    return data


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
    kind: Any = type(value)
    return _writer(kind)(value)


@cache
def _writer(kind: Any) -> Callable[[Any], str]:
    """What writes values of exactly this type, as CANONICAL writes what `encode` makes of them."""
    if kind is str:
        return quoted
    if kind is int:
        return int.__repr__
    if kind is bool:
        return lambda value: "true" if value else "false"
    if kind is type(None):
        return lambda value: "null"
    if issubclass(kind, Enum):
        return cache(lambda value: CANONICAL.encode(value.value))
    if kind is float:
        return lambda value: repr(value) if math.isfinite(value) else f'"{value}"'
    if kind in (list, tuple):
        return lambda value: f"[{','.join([canonical(item) for item in value])}]"
    if dataclasses.is_dataclass(kind) and not hasattr(kind, "to_json"):
        write_fields = _dataclass_writer(kind)
        return _noting(write_fields) if kind in RECURRENT else write_fields
    return lambda value: CANONICAL.encode(encode(value))


def _dataclass_writer(cls: Any) -> Callable[[Any], str]:
    hints = _hints(cls)
    fields = sorted(dataclasses.fields(cls), key=lambda field: field.name)
    nothing = object()  # equal to no value
    names = [
        (
            f.name,
            f'"{f.name}":',
            f.default if LATER in f.metadata else nothing,
            bool(_tagged_members(hints[f.name])),
        )
        for f in fields
    ]

    def write_fields(value: Any) -> str:
        held, said = value.__dict__, []
        for name, key, unsaid, is_tagged in names:
            item = held[name]
            kind: Any = type(item)
            if kind is str and unsaid is nothing:  # most of them: told apart for speed
                said.append(key + quoted(item))
            elif unsaid is nothing or item != unsaid:
                if is_tagged:
                    item = tagged(item)
                    kind = type(item)
                said.append(key + _writer(kind)(item))
        return "{" + ",".join(said) + "}"

    return write_fields


def _noting(write_fields: Callable[[Any], str]) -> Callable[[Any], str]:
    """The same writer, which notes the text on the object: equal numbers may differ in text."""

    def write(value: Any) -> str:
        held = value.__dict__
        if (text := held.get(TEXT)) is None:
            text = held[TEXT] = write_fields(value)
        return str(text)

    return write


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()
