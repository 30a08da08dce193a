"""What became of cells over time: lines of every source, states of boards, ends of campaigns, days gone by.

lines(s, place, most) -> tuple[Line, ...]        # newest first, over all sources
states(s, slug) -> tuple[State, ...]             # a board with each driver and system it was seen with
ends(s, campaign_id) · as_of(s, us)              # {Place: Verdict}: the worst of a cell's cases
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from db.cases import case_of
from db.cell import SEVERITY
from db.session import Session
from db.tables import attempt, capability, cases, evidence, fingerprint, job
from kernels import codec
from kernels.evidence import Verdict
from kernels.model import Case, Device


class Place(NamedTuple):
    """A cell of a board or a class, whatever the source."""

    device: str
    backend: str
    op: str
    kernel: str
    kind: str
    build: str


@dataclass(frozen=True)
class Line:
    """A line of evidence, as a history shows it."""

    evidence_id: str
    device: str
    build: str
    source_digest: str
    fingerprint_digest: str
    verdict: Verdict
    reason: str
    bound_ratio: float | None
    positions: int
    bad: int
    finished_us: int
    trust: str
    folded: bool  # false for a late line and for an attempt that was tried again
    case: Case
    campaign_id: int | None  # None where it came in a bundle


@dataclass(frozen=True)
class State:
    """A board as it was for a while, and how the lines from that time ended."""

    digest: str
    device: Device
    first_seen_us: int
    verdicts: tuple[tuple[Verdict, int], ...]  # worst first; of this board's lines

    @property
    def is_good(self) -> bool:
        """Whether something passed and nothing was bad."""
        words = [verdict for verdict, _ in self.verdicts]
        return Verdict.PASS in words and not any(verdict.bad for verdict in words)


def lines(s: Session, places: Iterable[Place], most: int) -> tuple[Line, ...]:
    """The newest lines of these cells together, whatever source they ran, newest first."""
    own = [name for name in Line.__dataclass_fields__ if name not in ("case", "campaign_id")]
    found: list[Line] = []
    for place in places:
        query = (
            sa.select(*(evidence.c[name] for name in own), cases.c.case_json, job.c.campaign_id)
            .join_from(evidence, cases)
            .outerjoin(attempt, attempt.c.attempt_id == evidence.c.attempt_id)
            .outerjoin(job, job.c.id == attempt.c.job_id)
            .where(_is(place))
            .order_by(evidence.c.finished_us.desc(), evidence.c.evidence_id.desc())
            .limit(most)
        )
        for *values, case_json, campaign_id in s.execute(query):
            told = dict(zip(own, values, strict=True)) | {"case": case_of(case_json)}
            told["verdict"] = Verdict(told["verdict"])
            found.append(Line(**told, campaign_id=campaign_id))
    found.sort(key=lambda line: (line.finished_us, line.evidence_id), reverse=True)
    return tuple(found[:most])


def _is(place: Place) -> sa.ColumnElement[bool]:
    """Lines of a cell; the sources are named, since that is what the index begins with."""
    mine = [capability.c[name] == value for name, value in place._asdict().items()]
    sources = sa.select(capability.c.source_digest).where(*mine)
    equal = (evidence.c[name] == value for name, value in place._asdict().items())
    return sa.and_(*equal, evidence.c.source_digest.in_(sources))


def states(s: Session, slug: str) -> tuple[State, ...]:
    """Every state that a board was seen in, oldest first."""
    sources = sa.select(capability.c.source_digest).where(capability.c.device == slug)
    columns = (evidence.c.fingerprint_digest, evidence.c.verdict)
    counts = (
        sa.select(*columns, sa.func.count())
        .where(evidence.c.device == slug, evidence.c.source_digest.in_(sources))
        .group_by(*columns)
    )
    tally: defaultdict[str, Counter[Verdict]] = defaultdict(Counter)
    for digest, verdict, count in s.execute(counts):
        tally[digest][Verdict(verdict)] += count
    query = sa.select(fingerprint).where(fingerprint.c.device == slug).order_by(fingerprint.c.first_seen_us)
    return tuple(_state(row, tally[row.digest]) for row in s.execute(query))


def _state(row: Any, counts: Counter[Verdict]) -> State:
    worst_first = tuple((verdict, counts[verdict]) for verdict in Verdict if counts[verdict])
    device = codec.decode(Device, json.loads(row.device_json))
    return State(row.digest, device, row.first_seen_us, worst_first)


def ends(s: Session, campaign_id: int) -> dict[Place, Verdict]:
    """The worst verdict of a campaign's jobs, by cell of a device class; jobs without a line are left out."""
    about = [evidence.c[name] for name in ("op", "kernel", "kind", "build")]
    query = (
        sa.select(job.c.device_class, job.c.backend, *about, job.c.verdict)
        .join_from(job, evidence, evidence.c.evidence_id == job.c.evidence_id)
        .where(job.c.campaign_id == campaign_id, job.c.verdict.is_not(None))
        .distinct()
    )
    return _worst(s.execute(query).all())


def as_of(s: Session, us: int) -> dict[Place, Verdict]:
    """Verdicts as they stood at a moment: by the newest line until then of every case, of any source."""
    about = [evidence.c[name] for name in ("device_class", "backend", "op", "kernel", "kind", "build")]
    place = sa.func.row_number().over(
        partition_by=[*about, evidence.c.device, evidence.c.case_id],
        order_by=[evidence.c.finished_us.desc(), evidence.c.evidence_id.desc()],
    )
    words = [verdict.value for verdict in Verdict if verdict.about_kernel]
    where = evidence.c.folded, evidence.c.finished_us <= us, evidence.c.verdict.in_(words)
    ranked = sa.select(*about, evidence.c.verdict, place.label("place")).where(*where).subquery()
    columns = [ranked.c[column.name] for column in about]
    query = sa.select(*columns, ranked.c.verdict).where(ranked.c.place == 1).distinct()
    return _worst(s.execute(query).all())


def _worst(rows: Iterable[Any]) -> dict[Place, Verdict]:
    found: dict[Place, Verdict] = {}
    for *place, word in rows:
        key, verdict = Place(*place), Verdict(word)
        found[key] = min(verdict, found.get(key, verdict), key=SEVERITY.__getitem__)
    return found
