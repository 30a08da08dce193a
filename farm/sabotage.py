"""Mutates kernels and counts what the rules catch: from names to jobs, from judgements to scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from db.sabotage import Score
from farm.sabotage_record import Open, Recorded, cases_of, digest_of
from kernels import catalog, equivalents, mutants, registry, source
from kernels.catalog import Selection
from kernels.declared.catalog import Catalog
from kernels.equivalents import Equivalent, changed_line
from kernels.errors import UsageError
from kernels.mutants import Mutant
from workers import packs
from workers.sabotage import Fate, Job, Judgement, Report

MOST_EQUIVALENT = 0.10  # of a kernel's compiled mutants; more would be an excuse


@dataclass(frozen=True)
class Survivor:
    """A mutant that every rule let pass, as a diff of one line."""

    mutant: str
    line: int  # of the file, or else of the text that `farm kernels --text` prints
    was: str
    now: str
    file: str = ""  # of a user's catalog


@dataclass
class Tally:
    """One text's judgements as they come in."""

    job: Job
    judgements: list[Judgement] = field(default_factory=list)
    report: Report | None = None

    def take(self, value: Judgement | Report) -> None:
        if isinstance(value, Report):
            self.report = value
        else:
            self.judgements.append(value)


@dataclass(frozen=True)
class Outcome:
    """One text judged: its score, what is left alive without an argument, and entries that don't apply."""

    score: Score
    survivors: tuple[Survivor, ...]
    faults: tuple[str, ...]
    seconds: float
    judgements: tuple[Judgement, ...]
    recorded: Recorded


def label(job: Job) -> str:
    return f"{job.kernel} {job.kind or catalog.NO_KIND}"


def catalog_jobs(found: Catalog, names: Sequence[str], kinds: Sequence[str]) -> list[Job]:
    """The kernels of a user's catalog, all unless some are named; UsageError where one has no text here."""
    wanted = {label for name in kinds for label in _kind_names(name)}
    folder = packs.store()
    packs.keep(found.pack, folder)
    chosen = [
        Job(kernel_id, kind, pack=found.pack.address, packs=str(folder))
        for kernel_id in found.selected(Selection(kernels=tuple(names))).kernels
        for kind in found.kernels[kernel_id].declaration.kinds or ("",)
        if not wanted or kind in wanted
    ]
    if not chosen:
        raise UsageError(f"no kernel named is declared for {', '.join(kinds)}")
    for job in chosen:
        if binary := found.kernels[job.kernel].cubins(job.kind):
            raise UsageError(f"{label(job)} launches {binary[0]}, which no host runs; name the other kernels")
    return chosen


def argued(found: Catalog, path: Path) -> tuple[Equivalent, ...]:
    """What the file beside a user's catalog argues; UsageError for a kernel that the catalog hasn't."""
    entries = equivalents.read(path)
    for number, name in ((n, name) for n, entry in enumerate(entries, start=1) for name in entry.kernels):
        if name not in found.kernels:
            there = ", ".join(found.kernels)
            raise UsageError(f"{path}: entry {number} is about {name}, the catalog has {there}")
    return entries


def jobs(names: Sequence[str], every: bool, kinds: Sequence[str]) -> list[Job]:
    """The texts that a command line names; UsageError where it names none, or a kernel without one."""
    if bool(names) == every:
        raise UsageError("name kernels, for example matvec/block, or say --all")
    wanted = {label for name in kinds for label in _kind_names(name)}
    for name in names:
        registry.kernel(name)
    chosen = [
        Job(kernel_id, kind)
        for kernel_id, kind in source.texts()
        if (every or kernel_id in names) and (not wanted or kind in wanted)
    ]
    if lacking := [name for name in names if name not in {job.kernel for job in chosen}]:
        have = ", ".join(dict.fromkeys(kernel_id for kernel_id, _ in source.texts()))
        raise UsageError(f"{lacking[0]} has no text of its own for these kinds; there are {have}")
    if not chosen:
        raise UsageError(f"no kernel has a text for {', '.join(kinds)}")
    return chosen


def _kind_names(name: str) -> tuple[str, ...]:
    """A kind's name as texts have it; F32 is the kind and the texts of ops without kinds."""
    return ("", catalog.NO_KIND) if name.upper() == catalog.NO_KIND else (registry.kind(name).name,)


def outcome(tally: Tally, now_us: int, entries: Sequence[Equivalent] | None = None) -> Outcome:
    """The score of a finished job; entries of the equivalents are the catalog's unless given."""
    job, report = tally.job, tally.report
    assert report is not None  # its job is finished
    made = mutants.mutants(job.kernel, job.kind)
    texts = texts_of(job, made)
    mine = about(job, equivalents.equivalents() if entries is None else entries)
    alive = {j.mutant for j in tally.judgements if j.fate is Fate.SURVIVED}
    argued = alive & {entry.mutant for entry in mine}
    counts = Counter(j.fate for j in tally.judgements)
    compiled = len(tally.judgements) - counts[Fate.COMPILE]
    survivors = tuple(
        _survivor(texts[mutant.unit], mutant) for mutant in made if mutant.name in alive - argued
    )
    same = {
        j.mutant for j in tally.judgements if j.fate is Fate.SAME
    }  # with this compiler; alive with others
    faults = equivalents.faults(mine, texts, made, alive | same) if not report.failure else []
    faults += _excess(len(argued), compiled)
    score = Score(
        kernel=job.kernel,
        kind=job.kind or catalog.NO_KIND,
        source_digest=digest_of(job),
        ran_us=now_us,
        cases=report.cases,
        mutants=len(tally.judgements),
        compiled=compiled,
        killed=tuple((fate.value, counts[fate]) for fate in Fate if fate.killed),
        by_relative=sum(j.relative for j in tally.judgements),
        by_nmse=sum(j.nmse for j in tally.judgements),
        same=counts[Fate.SAME],
        equivalents=len(argued),
        survivors=tuple(survivor.mutant for survivor in survivors),
    )
    left = Open(cases_of(job), tuple(sorted(argued)), tuple(sorted(same)))
    judgements = tuple(tally.judgements)
    return Outcome(score, survivors, tuple(faults), report.seconds, judgements, Recorded(score, left))


def standing_faults(job: Job, one: Recorded, entries: Sequence[Equivalent]) -> list[str]:
    """What is wrong with the arguments about a text that was judged before, as `outcome` would say it."""
    made = mutants.mutants(job.kernel, job.kind)
    unkilled = {*one.open.argued, *one.open.same} if one.open else {mutant.name for mutant in made}
    found = equivalents.faults(about(job, entries), texts_of(job, made), made, unkilled)
    return found + _excess(one.score.equivalents, one.score.compiled)


def about(job: Job, entries: Sequence[Equivalent]) -> list[Equivalent]:
    return [entry for entry in entries if entry.is_about(job.kernel, job.kind)]


def texts_of(job: Job, made: Sequence[Mutant]) -> dict[str, str]:
    """The texts that a job's mutants change, by unit."""
    return {unit: source.text(job.kernel, job.kind, unit) for unit in {mutant.unit for mutant in made}}


def _excess(argued: int, compiled: int) -> list[str]:
    if argued <= MOST_EQUIVALENT * compiled:
        return []
    return [f"{argued} of {compiled} mutants are entered as equivalent; the most is {MOST_EQUIVALENT:.0%}"]


def _survivor(text: str, mutant: Mutant) -> Survivor:
    was, now = text.splitlines()[mutant.line - 1].strip(), changed_line(text, mutant)
    file, line = source.place(text, mutant.line) if mutant.unit else ("", mutant.line)
    return Survivor(mutant.name, line, was, now, file)
