"""Digests of inputs as workers made them, stored for the next campaign."""

from __future__ import annotations

from collections.abc import Iterable

from db.cases import inputs_key, remember_inputs
from db.session import Session
from kernels.evidence import Evidence, Verdict

REMEMBERED = 100_000  # inputs whose digests are known to be stored


class KnownInputs:
    """Those of one coordinator; its writer's thread alone uses them."""

    def __init__(self) -> None:
        self._stored: set[str] = set()  # keys of those whose digests are stored

    def remember(self, s: Session, lines: Iterable[Evidence]) -> None:
        """Stores the digests of inputs; one that is missed is made again."""
        made = (line for line in lines if line.inputs_digest and line.verdict is not Verdict.ERROR)
        new = {inputs_key(line.case): line.inputs_digest for line in made}
        new = {key: digest for key, digest in new.items() if key not in self._stored}
        remember_inputs(s, new)
        if len(self._stored) < REMEMBERED:
            self._stored |= new.keys()
