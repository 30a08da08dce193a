"""Holds the `--help` texts in the documents against the program; `--write` puts the current ones in."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from click.testing import CliRunner

from farm.cli import main

ROOT = Path(__file__).resolve().parents[2]
REGION = re.compile(r"<!-- help: farm *(?P<words>[^>]*?) -->\n```\n(?P<text>.*?)```\n<!-- end -->", re.DOTALL)
WIDTH = 100  # columns that the help is wrapped at, whatever the terminal


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def help_text(words: str) -> str:
    """What `farm WORDS --help` prints."""
    result = CliRunner().invoke(main, [*words.split(), "--help"], prog_name="farm", terminal_width=WIDTH)
    if result.exit_code:
        raise SystemExit(f"farm {words} --help fails: {result.output.strip()}")
    return result.output


def refreshed(text: str) -> str:
    """The document with every help region as the program has it now."""
    return REGION.sub(
        lambda region: (
            f"<!-- help: farm {region['words']} -->\n```\n{help_text(region['words'])}```\n<!-- end -->"
        ),
        text,
    )


def outdated(text: str) -> list[str]:
    """The commands whose help in this document isn't the program's."""
    return [
        region["words"] for region in REGION.finditer(text) if region["text"] != help_text(region["words"])
    ]


def check(write: bool) -> int:
    """0 when every region is current (or was made so), 3 when one is not; says how many there were."""
    regions, stale = 0, 0
    for path in documents():
        text = path.read_text(encoding="utf8")
        regions += len(REGION.findall(text))
        for words in outdated(text):
            stale += 1
            print(
                f"{path.relative_to(ROOT)}: `farm {words} --help` is outdated; ./run docs --write renews it"
            )
        if write:
            path.write_text(refreshed(text), encoding="utf8")
    print(f"{regions} help texts in {len(documents())} documents, {stale} outdated")
    return 3 if (stale and not write) or not regions else 0


if __name__ == "__main__":
    sys.exit(check("--write" in sys.argv[1:]))
