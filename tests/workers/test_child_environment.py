"""A child runs strangers' kernels: its environment has no secret of its agent's."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from workers.child_process import Child, Setting

SECRETS = {
    "FARM_DB": "postgresql://farm:hunter2@db/farm",
    "PGPASSWORD": "hunter2",
    "PGPASSFILE": "/run/hunter2",
    "TOKEN": "hunter2",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "RAY_AUTH_TOKEN_PATH": "/run/hunter2",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FARM_CUDA_ALLOCATOR", "flush")
    child = Child(Setting())
    try:
        until = time.monotonic() + 30
        while not (given := Path(f"/proc/{child.pid}/environ").read_bytes()) and time.monotonic() < until:
            time.sleep(0.01)  # it isn't there before the program is
        words = Path(f"/proc/{child.pid}/cmdline").read_bytes()
    finally:
        child.end()
    assert b"hunter2" not in given + words
    assert b"FARM_CUDA_ALLOCATOR=flush" in given
