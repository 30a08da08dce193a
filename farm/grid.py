"""A table of marks that goes on below itself where the terminal is too narrow for its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

GAP = 2  # blanks between columns


class Grid:
    """Rows of one mark a column; every part repeats the rows' names, and no name is cut in two."""

    def __init__(self, corner: str, headers: Sequence[str]) -> None:
        self._corner = corner
        self._headers = tuple(headers)
        self._rows: list[tuple[Text, tuple[Text, ...]]] = []

    def add_row(self, name: Text, *marks: Text) -> None:
        self._rows.append((name, marks))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        for part in self._parts(options.max_width):
            made = Table(box=None, pad_edge=False)
            for header in (self._corner, *self._headers[part]):
                made.add_column(header, no_wrap=True)
            for name, marks in self._rows:
                made.add_row(name, *marks[part])
            yield made

    def _parts(self, width: int) -> Iterator[slice]:
        """Columns that fit beside the names, one at least."""
        names = max([len(self._corner), *(name.cell_len for name, _ in self._rows)])
        first, used = 0, names
        for at, wide in enumerate(self._widths()):
            if used + wide > width and at > first:
                yield slice(first, at)
                first, used = at, names
            used += wide
        yield slice(first, len(self._headers))

    def _widths(self) -> list[int]:
        columns = (
            zip(*(marks for _, marks in self._rows), strict=True) if self._rows else [()] * len(self._headers)
        )
        return [
            GAP + max([len(header), *(mark.cell_len for mark in marks)])
            for header, marks in zip(self._headers, columns, strict=True)
        ]
