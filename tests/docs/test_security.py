"""Every test that docs/SECURITY.md names is there, and every threat names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/.]+\.py)::(\w+)`")
THREATS = (
    "A rented host",
    "A stranger on the network",
    "Hostile kernel text",
    "A hostile bundle",
    "A stolen token",
    "The supply chain",
)


def document() -> str:
    return (ROOT / "docs/SECURITY.md").read_text(encoding="utf8")


def missing(text: str) -> list[str]:
    """The tests that a text names and that don't exist."""
    return [f"{path}::{name}" for path, name in NAMED.findall(text) if name not in names_in(ROOT / path)]


def names_in(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_exists() -> None:
    assert len(NAMED.findall(document())) > 50
    assert missing(document()) == []


def test_every_line_of_every_threat_names_a_test() -> None:
    parts = re.split(r"^## ", document(), flags=re.MULTILINE)[1:]
    lines = {part.splitlines()[0]: part.splitlines() for part in parts}
    for threat in THREATS:
        rows = [line for line in lines[threat] if re.match(r"\| (?!threat)", line)]
        assert len(rows) >= 3, threat
        assert [row for row in rows if not NAMED.search(row)] == []


def test_a_test_that_is_gone_is_seen() -> None:
    here = "tests/docs/test_security.py"
    text = f"`{here}::test_a_test_that_is_gone_is_seen` `{here}::test_x` "
    assert missing(text + "`tests/nowhere.py::test_y`") == [
        "tests/docs/test_security.py::test_x",
        "tests/nowhere.py::test_y",
    ]
