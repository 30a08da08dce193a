"""What `farm catalog check --run` finds out: what a declaration lets pass, and how its kernel does."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from farm.campaign import deadline_s
from farm.one_case_text import case_words
from kernels.declared.catalog import Catalog
from kernels.declared.kernel import DeclaredKernel
from kernels.declared.mistake import Mistake
from kernels.evidence import Evidence
from workers import packs
from workers.boards import Board, survey
from workers.idle import Idle, Seen, Tried, quick_cases, try_all
from workers.isolate import Isolated
from workers.request import Request

HOST = "host"
# Of what passes for another reason than the declaration, in words.
APART = {
    Seen.RIGHT: "are right, to the bit",
    Seen.FLOAT32: "are within what float32 may err by at the longest chain of additions",
    Seen.CANCELLED: "are within the tolerance where sums cancel",
    Seen.UNJUDGED: "have no element that the oracle judges",
}


@dataclass(frozen=True)
class Trial:
    """One kernel of a catalog tried."""

    kernel: DeclaredKernel
    tried: tuple[Tried, ...]
    evidence: tuple[Evidence, ...]  # of its own cases on the host; none where there is no host

    @property
    def refused(self) -> tuple[Mistake, ...]:
        """What the declaration lets pass, at the line that allows it."""
        place = self.kernel.declaration.allows or self.kernel.declaration.place
        passed = [one for one in self.tried if one.seen is Seen.PASSED]
        return tuple(Mistake(place, self._refusal(one)) for one in passed)

    def _refusal(self, one: Tried) -> str:
        word = "tolerance" if self.kernel.declaration.tolerance else "accumulates"
        worst, ratio = one.comparison.worst, one.comparison.bound_ratio
        assert worst is not None  # it was judged
        element = (
            f"element {worst.index}: got {worst.got:.3g}, want {worst.want:.3g}, limit {worst.limit:.3g}"
        )
        where = case_words(one.case).removesuffix(f" {one.case.build}")
        return (
            f"{word} lets a {one.idle} kernel pass {where}: {ratio:.2g} of what is allowed, {element}; "
            "allow less, or leave that size out by [constraints]"
        )

    @property
    def bad(self) -> tuple[Evidence, ...]:
        return tuple(one for one in self.evidence if one.verdict.bad)

    def lines(self) -> Iterator[str]:
        """How much was compared, and what is no fault of the declaration."""
        seen = Counter(one.seen for one in self.tried)
        positions = sum(one.comparison.positions for one in self.tried)
        passes = f"{seen[Seen.PASSED]} pass" if seen[Seen.PASSED] else "none passes"
        names = ", ".join(Idle)
        yield (
            f"{self.kernel.id}: {len(self.tried):,} outputs of kernels that compute nothing ({names}), "
            f"{positions:,} elements compared: {passes}"
        )
        for apart, words in APART.items():
            if seen[apart]:
                yield f"  {seen[apart]:,} {words}: not counted"
        if verdicts := ", ".join(f"{count:,} {verdict}" for verdict, count in self.verdicts.items()):
            yield f"{self.kernel.id} itself on host, build exact: {verdicts}"

    @property
    def verdicts(self) -> dict[str, int]:
        return dict(Counter(str(one.verdict) for one in self.evidence))

    def record(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel.id,
            "outputs": len(self.tried),
            "positions": sum(one.comparison.positions for one in self.tried),
            "seen": dict(Counter(str(one.seen) for one in self.tried)),
            "refused": [{"file": m.place.file, "line": m.place.line, "text": m.text} for m in self.refused],
            "verdicts": self.verdicts,
            "bad": [
                {"case": case_words(one.case), "verdict": one.verdict, "reason": one.reason}
                for one in self.bad
            ],
        }


def host() -> tuple[Board | None, str]:
    """This machine's CPU, or why it runs nothing."""
    found = survey([HOST])
    return (found.boards[0], "") if found.boards else (None, "; ".join(found.unavailable))


def trials(found: Catalog, board: Board | None) -> Iterator[Trial]:
    """Every kernel of a catalog, tried; its own cases run in a child process."""
    folder = packs.store()
    packs.keep(found.pack, folder)
    child = Isolated()
    try:
        for kernel in found.kernels.values():
            yield Trial(kernel, tuple(try_all(kernel)), tuple(_ran(kernel, board, child)) if board else ())
    finally:
        child.close()


def _ran(kernel: DeclaredKernel, board: Board, child: Isolated) -> Iterator[Evidence]:
    for case in quick_cases(kernel):
        request = Request(
            str(uuid.uuid4()), case, HOST, board.device, pack=kernel.pack.address, packs=str(packs.store())
        )
        yield child.run(request, deadline_s(case))


def exit_code(found: Sequence[Trial]) -> int:
    """2 where a declaration allows too much, 3 where a kernel itself has a bad verdict."""
    if any(one.refused for one in found):
        return 2
    return 3 if any(one.bad for one in found) else 0
