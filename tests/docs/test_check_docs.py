"""The documents' help texts are the program's, and a changed one is found."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).with_name("check_docs.py")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_help_text_in_the_documents_is_current(docs: ModuleType) -> None:
    texts = [path.read_text(encoding="utf8") for path in docs.documents()]
    assert sum(len(docs.REGION.findall(text)) for text in texts) >= 4
    assert [words for text in texts for words in docs.outdated(text)] == []


def test_a_changed_help_text_is_outdated_and_renewed(docs: ModuleType) -> None:
    text = "before\n<!-- help: farm kinds -->\n```\nUsage: farm sorts\n```\n<!-- end -->\nbehind\n"
    assert docs.outdated(text) == ["kinds"]
    renewed = docs.refreshed(text)
    assert docs.outdated(renewed) == []
    assert "Usage: farm kinds" in renewed
    assert renewed.startswith("before\n")
    assert renewed.endswith("behind\n")


def test_an_unknown_command_is_said(docs: ModuleType) -> None:
    with pytest.raises(SystemExit, match="farm sorts --help fails"):
        docs.help_text("sorts")
