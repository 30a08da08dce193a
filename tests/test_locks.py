"""The supply chain, as far as it can be checked without a network: every requirement is pinned and hashed.

No list of known holes is asked: pip-audit wants a service on the network (docs/SECURITY.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted([*ROOT.glob("requirements*.txt"), *ROOT.glob("deploy/**/requirements*.txt")])
PIN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,]+\])?==[^\s;]+( ; [^\\]+)?$")
HASH = re.compile(r"^--hash=sha256:[0-9a-f]{64}$")


def wrong(text: str) -> list[str]:
    """Logical lines that are no pinned requirement with a SHA-256."""
    joined = re.sub(r"\n\s+#.*", "", text).replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pin, *hashes = re.split(r"\s+(?=--hash=)", line.strip())
        if not (PIN.match(pin.strip()) and hashes and all(map(HASH.match, hashes))):
            found.append(line[:80])
    return found


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_requirement_is_pinned_and_hashed_and_from_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf8")
    assert text.count("--hash=sha256:") > 0
    assert wrong(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy>=2",
        "numpy==2.0",
        "numpy==2.0 --hash=md5:0123",
        f"numpy @ https://example.org/numpy.whl --hash=sha256:{'0' * 64}",
        "--index-url https://example.org/simple",
        f"-e . --hash=sha256:{'0' * 64}",
    ],
)
def test_what_is_not_pinned_and_hashed_is_seen(line: str) -> None:
    assert wrong(f"# a comment\n{line}\n") == [line[:80]]
    assert wrong(f"numpy==2.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{'0' * 64}\n") == []
