"""Marked regions of a Markdown file: where they are, what they ask for, and how their text is exchanged.

<!-- farm:matrix device=cpu-* rows="matvec/*" --> … <!-- farm:end -->
<!-- farm:cell cpu-x86_64/host/matvec/block/Q4_0/exact claims=host,exact -->PASS, …<!-- farm:end -->

A mark stands on one line. In code, fenced or between backticks, it is no mark.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernels.errors import UnknownName, UsageError

MARK = re.compile(r"<!--[ \t]*farm:(?P<word>[\w-]*)[ \t]*(?P<rest>[^\r\n]*?)[ \t]*-->")
OPENING = re.compile(r"<!--[ \t]*farm:")
FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[`~]*[ \t]*\r?$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)(`+)(?!`)([^\r\n]*?)(?<!`)\1(?!`)")
END = "end"
# Word -> the names that may stand behind it as name=value.
WORDS = {
    "matrix": ("device", "backend", "build", "rows", "columns", "since", "rungs", "claims"),
    "cell": ("claims",),
}


@dataclass(frozen=True)
class Region:
    """What stands between a mark and its end."""

    line: int  # of the mark, from 1
    word: str  # matrix or cell
    name: str  # the cell; empty for a matrix
    options: tuple[tuple[str, str], ...]
    start: int  # of the text, in characters
    end: int
    text: str

    def option(self, name: str) -> str:
        return dict(self.options).get(name, "")

    @property
    def claims(self) -> tuple[str, ...]:
        """The rungs that the document says a PASS has."""
        return tuple(filter(None, self.option("claims").split(",")))


def regions(text: str) -> tuple[Region, ...]:
    """In the order of the text; UsageError `LINE: what is damaged` for the first that isn't whole."""
    found: list[Region] = []
    opened: re.Match[str] | None = None
    bare = without_code(text)
    for mark in _marks(bare):
        line = line_of(bare, mark.start())
        if mark["word"] != END:
            if opened:
                raise UsageError(
                    f"{line}: farm:{mark['word']} inside the region of line {line_of(bare, opened.start())}; "
                    "end that one first with <!-- farm:end -->"
                )
            opened = mark
        elif opened is None:
            raise UsageError(f"{line}: farm:end without a region; put <!-- farm:matrix … --> before it")
        else:
            found.append(_region(text, opened, mark))
            opened = None
    if opened:
        line = line_of(bare, opened.start())
        raise UsageError(f"{line}: farm:{opened['word']} without an end; put <!-- farm:end --> behind it")
    return tuple(found)


def exchanged(text: str, new: Callable[[Region], str]) -> str:
    """The document with another text in every region; its line breaks stay of the kind they are."""
    crlf = "\r\n" in text
    parts, reached = [], 0
    for region in regions(text):
        body = new(region)
        parts += [text[reached : region.start], body.replace("\n", "\r\n") if crlf else body]
        reached = region.end
    return "".join([*parts, text[reached:]])


def without_code(text: str) -> str:
    """The same length, blanks where code is."""
    for pattern in (FENCE, CODE):
        text = pattern.sub(lambda found: re.sub(r"[^\r\n]", " ", found[0]), text)
    return text


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _marks(bare: str) -> Iterator[re.Match[str]]:
    for opening in OPENING.finditer(bare):
        mark = MARK.match(bare, opening.start())
        if mark is None:
            raise UsageError(f"{line_of(bare, opening.start())}: a mark without --> on its line")
        yield mark


def _region(text: str, opened: re.Match[str], ended: re.Match[str]) -> Region:
    line = line_of(text, opened.start())
    try:
        name, options = _asked(opened["word"], text[opened.start("rest") : opened.end("rest")])
    except (ValueError, UsageError) as error:
        raise UsageError(f"{line}: {error}") from None
    start, end = opened.end(), ended.start()
    body = text[start:end].replace("\r\n", "\n")
    return Region(line, opened["word"], name, options, start, end, body)


def _asked(word: str, rest: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The cell's name and the options of a mark."""
    if word not in WORDS:
        raise UnknownName("region", f"farm:{word}", [f"farm:{known}" for known in (*WORDS, END)])
    parts = shlex.split(rest)
    names = [part for part in parts if "=" not in part]
    if len(names) != (word == "cell"):
        want = "one cell, DEVICE/BACKEND/OP/KERNEL/KIND[/BUILD]," if word == "cell" else "only name=value"
        raise UsageError(f"farm:{word} takes {want} and got {rest!r}")
    options = tuple((key, value) for key, _, value in (part.partition("=") for part in parts if "=" in part))
    for key, _ in options:
        if key not in WORDS[word]:
            raise UnknownName(f"option of farm:{word}", key, list(WORDS[word]))
    return (names[0] if names else ""), options
