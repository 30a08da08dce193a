"""The calls as JSON texts, for whatever carries text between an agent and its coordinator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from kernels import codec
from kernels.errors import FarmError
from workers.protocol import (
    Acknowledged,
    Ask,
    Complete,
    Coordinator,
    Fetch,
    Fetched,
    Hello,
    Leases,
    Renew,
    Renewed,
    StaleEpoch,
    Welcome,
)

A = TypeVar("A")

MESSAGES: dict[str, type[Any]] = {
    "hello": Hello, "lease": Ask, "renew": Renew, "complete": Complete, "fetch": Fetch
}  # fmt: skip
STALE = "StaleEpoch"  # in place of an answer


def answer(coordinator: Coordinator, call: str, text: str) -> str:
    """The coordinator's answer to one call, as text; StaleEpoch becomes an answer too.

    Raises FarmError for a call that doesn't exist or a text that isn't its message.
    """
    message = message_of(call, text)
    try:
        return text_of(getattr(coordinator, call)(message))
    except StaleEpoch as error:
        return stale(error)


def message_of(call: str, text: str) -> Any:
    """The message of a call; FarmError where there is no such call, or the text isn't its message."""
    if call not in MESSAGES:
        raise FarmError(f"no call named {call!r}; there are {', '.join(MESSAGES)}")
    return codec.decode(MESSAGES[call], _parsed(text))


def text_of(answer: Any) -> str:
    """An answer under its class' name."""
    return f'{{"{type(answer).__name__}":{codec.canonical(answer)}}}'


def stale(error: StaleEpoch) -> str:
    """What stands in an answer's place where the epoch is over."""
    return codec.canonical({STALE: str(error)})


class Caller:
    """A coordinator at the far end of `carry`, which takes a call's name and text, returns the answer's."""

    def __init__(self, carry: Callable[[str, str], str]) -> None:
        self._carry = carry

    def hello(self, message: Hello) -> Welcome:
        return self._call("hello", message, Welcome)

    def lease(self, message: Ask) -> Leases:
        return self._call("lease", message, Leases)

    def renew(self, message: Renew) -> Renewed:
        return self._call("renew", message, Renewed)

    def complete(self, message: Complete) -> Acknowledged:
        return self._call("complete", message, Acknowledged)

    def fetch(self, message: Fetch) -> Fetched:
        return self._call("fetch", message, Fetched)

    def _call(self, call: str, message: Any, answers: type[A]) -> A:
        said = _parsed(self._carry(call, codec.canonical(message)))
        if isinstance(said, dict) and STALE in said:
            raise StaleEpoch(str(said[STALE]))
        if not isinstance(said, dict) or list(said) != [answers.__name__]:
            raise FarmError(f"the answer to {call} is no {answers.__name__}: {str(said)[:80]}")
        return codec.decode(answers, said[answers.__name__])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FarmError(f"not a JSON message: {error}") from None
