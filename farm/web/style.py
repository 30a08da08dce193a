"""The pages' style, within each of them: a browser paints at once, and the policy allows this text alone."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "static" / "farm.css"


@cache
def text() -> str:
    return FILE.read_text(encoding="utf8")


@cache
def allowed() -> str:
    """What a content security policy calls it: 'sha256-…'."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text().encode()).digest()).decode()}'"
