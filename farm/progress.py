"""The bar on stderr that shows how far a campaign is."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from db.campaign import CampaignRow


def tally(row: CampaignRow) -> str:
    """2,460 PASS · 3 SKIP"""
    return " · ".join(f"{count:,} {verdict}" for verdict, count in row.verdicts) or "no verdict yet"


class Bar:
    """A progress bar on `console`; where that is no terminal, one line at the end."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[tally]}"),
            console=console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("starting", total=None, tally="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, row: CampaignRow) -> None:
        self._progress.update(
            self._task,
            description=f"campaign {row.id}",
            completed=row.done,
            total=row.jobs,
            tally=tally(row),
        )

    def note(self, line: str) -> None:
        """A line above the bar."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
