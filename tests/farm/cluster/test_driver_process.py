"""A driver's process ends with its head's, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAD = """
import signal, sys
from farm.cluster import head
from db.session import open_database
head.sys.executable = sys.argv[1]
with head.driver_of("127.0.0.1:1", open_database(sys.argv[2]), head.Words(sys.argv[2])) as (child, said):
    print(child.pid, flush=True)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_driver_ends_when_its_head_is_killed(tmp_path: Path) -> None:
    idle = tmp_path / "driver"  # stands for a driver that waits for a Ray that is gone
    idle.write_text("#!/bin/sh\nexec sleep 1000\n")
    idle.chmod(0o755)
    words = [sys.executable, "-c", HEAD, str(idle), f"sqlite:///{tmp_path}/farm.db"]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True) as head:
        assert head.stdout is not None
        driver = int(head.stdout.readline())
        os.kill(driver, 0)
        head.send_signal(signal.SIGKILL)
        head.wait()
    until = time.monotonic() + 60
    while time.monotonic() < until and is_alive(driver):
        time.sleep(0.1)
    assert not is_alive(driver)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
