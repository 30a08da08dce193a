"""The linters that requirements-deploy.txt brings, and the YAML of deploy/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str) -> str:
    """A linter of this environment; the test is skipped where it isn't installed."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"no {name} here: pip install --require-hashes --no-deps -r requirements-deploy.txt")
    return str(path)


def said(*words: object, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a program printed, from the checkout's folder."""
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **environment}
    return subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
    )


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf8"))
    return loaded
