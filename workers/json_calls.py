"""The calls as JSON texts, for whatever carries text between an agent and its coordinator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
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
ANSWERS: dict[str, type[Any]] = {
    "hello": Welcome, "lease": Leases, "renew": Renewed, "complete": Acknowledged, "fetch": Fetched
}  # fmt: skip
CALLS = {message: call for call, message in MESSAGES.items()}
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


async def answer_apart(asked: Callable[[Any], Awaitable[Any]], call: str, text: str) -> str:
    """As `answer`, for an event loop: `asked` answers messages, and texts are read and made in threads."""
    message = await asyncio.to_thread(message_of, call, text)
    try:
        said = await asked(message)
    except StaleEpoch as error:
        return stale(error)
    return await asyncio.to_thread(text_of, said)


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
        return _answer_in(self._carry(call, codec.canonical(message)), call, answers)


async def ask_apart(carry: Callable[[str, str], Awaitable[str]], message: Any) -> Any:
    """The far end's answer, for an event loop: nothing is held while it comes, texts are made in threads."""
    call = CALLS[type(message)]
    text = await carry(call, await asyncio.to_thread(codec.canonical, message))
    return await asyncio.to_thread(_answer_in, text, call, ANSWERS[call])


def _answer_in(text: str, call: str, answers: type[A]) -> A:
    said = _parsed(text)
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
