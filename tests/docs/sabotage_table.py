"""The table of docs/SABOTAGE.md from docs/evidence/sabotage.jsonl; `--write` puts the current one in."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from db.sabotage import Score
from farm.sabotage import jobs
from farm.sabotage_record import digest_of, read
from kernels import catalog
from workers.sabotage import Job

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "SABOTAGE.md"
RECORD = DOCS / "evidence" / "sabotage.jsonl"
REGION = re.compile(r"<!-- sabotage -->\n.*?<!-- end -->\n", re.DOTALL)
COLUMNS = ("crash", "writes", "bound", "orders", "check")
TOGETHER = {
    "timeout": "crash",
    "guards": "writes",
    "unwritten": "writes",
    "bits": "bound",
}  # as `farm sabotage` shows them
HEADS = ("kernel", "texts", "older", "never", "made", "built", *COLUMNS, "killed", "relative", "NMSE",
         "same + argued", "of built", "alive")  # fmt: skip


def table(scores: dict[tuple[str, str], Score], texts: Sequence[Job]) -> str:
    """A row a kernel, over its kinds; those judged from an older source count, and are counted as such."""
    by_kernel: defaultdict[str, list[Job]] = defaultdict(list)
    for job in texts:
        by_kernel[job.kernel].append(job)
    rows = [row(kernel, scores, mine) for kernel, mine in by_kernel.items()]
    lines = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    lines += ["| " + " | ".join(cells) + " |" for cells in (*rows, row("**all**", scores, texts))]
    return "\n".join(lines)


def row(name: str, scores: dict[tuple[str, str], Score], texts: Sequence[Job]) -> list[str]:
    found = [(job, scores.get(key(job))) for job in texts]
    judged = [(job, score) for job, score in found if score]
    older = sum(score.source_digest != digest_of(job) for job, score in judged)
    mine = [score for _, score in judged]
    killed = dict.fromkeys(COLUMNS, 0)
    for score in mine:
        for rule, count in score.killed:
            killed[TOGETHER.get(rule, rule)] += count
    made, built = (sum(getattr(score, name) for score in mine) for name in ("mutants", "compiled"))
    same, argued = (sum(getattr(score, name) for score in mine) for name in ("same", "equivalents"))
    killable = built - same - argued
    shares = (sum(killed.values()), sum(s.by_relative for s in mine), sum(s.by_nmse for s in mine))
    return [
        name, str(len(mine)), str(older), str(len(texts) - len(mine)), f"{made:,}", f"{built:,}",
        *(f"{count:,}" for count in killed.values()),
        *(f"{100 * share / killable:.1f} %" if killable else "–" for share in shares),
        f"{same:,} + {argued:,}", f"{100 * (same + argued) / built:.1f} %" if built else "–",
        str(sum(len(score.survivors) for score in mine)),
    ]  # fmt: skip


def key(job: Job) -> tuple[str, str]:
    return job.kernel, job.kind or catalog.NO_KIND


def region() -> str:
    scores = {key: one.score for key, one in read(RECORD).items()}
    return f"<!-- sabotage -->\n{table(scores, jobs((), True, ()))}\n<!-- end -->\n"


def outdated() -> Iterator[str]:
    """What the page says otherwise than the record does."""
    said = REGION.findall(PAGE.read_text("utf8"))
    if said != [region()]:
        yield f"{PAGE.name}: the table isn't the record's; python -m tests.docs.sabotage_table --write"


def main(words: Sequence[str]) -> int:
    if "--write" in words:
        text = PAGE.read_text("utf8")
        PAGE.write_text(REGION.sub(lambda _: region(), text), "utf8")
    for line in (lines := list(outdated())):
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
