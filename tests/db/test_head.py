"""Two heads on one database: the second is refused; one that comes in all the same stops the first."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from db import campaign
from db.head import only_head
from db.session import Database, open_database
from kernels.errors import FarmError
from kernels.evidence import Verdict
from tests.db.making import Farm, case, work_until_refused

JOBS = 600  # more than the older one can do before the newer has begun


def test_a_second_head_is_refused_until_the_first_ends(database: Database, url: str) -> None:
    second = open_database(url)
    refused = pytest.raises(
        FarmError, match=r"another farm \(.*\) is at work on .*; wait for its end, or .*--detach"
    )
    with only_head(database), refused, only_head(second):
        pass
    with only_head(second):
        pass
    second.close()


def test_a_head_that_was_killed_holds_nothing(database: Database, url: str) -> None:
    text = (
        "import sys, time\nfrom db.head import only_head\nfrom db.session import open_existing\n"
        "with only_head(open_existing(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    root = Path(__file__).parents[2]
    held = subprocess.Popen(
        [sys.executable, "-c", text, url], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(root)}
    )
    assert held.stdout is not None
    assert held.stdout.readline() == b"held\n"
    with pytest.raises(FarmError, match="another farm"), only_head(database):
        pass
    held.kill()
    held.wait()
    held.stdout.close()
    for _ in range(200):  # a server notices the closed connection a moment later
        try:
            with only_head(database):
                return
        except FarmError:
            pass
    pytest.fail("the lock outlived its process")


class Head:
    """A head in a process of its own."""

    def __init__(self, url: str, most: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.begin, self.told = context.Event(), context.Queue()
        self._process = context.Process(target=work_until_refused, args=(url, most, self.begin, self.told))
        self._process.start()

    def tells(self) -> Any:
        return self.told.get(timeout=60)

    def end(self) -> tuple[int, str]:
        """Jobs done, and why it stopped: nothing where no job was left."""
        done, complaint = self.tells()
        self._process.join(60)
        return done, complaint


def test_the_older_of_two_heads_that_write_is_stopped_by_one_line(farm: Farm, url: str) -> None:
    campaign_id = farm.submit([case(rows) for rows in range(1, JOBS + 1)])
    older, newer = Head(url, JOBS), Head(url, 5)
    assert (older.tells(), newer.tells()) == ("ready", "ready")
    for head in (older, newer):
        head.begin.set()
        assert head.tells() == "began"
    done, complaint = older.end()
    assert complaint == "epoch 2 is over, 3 has begun: another coordinator is in charge; this one stops"
    assert newer.end() == (5, "")
    assert 0 < done < JOBS - 5
    with farm.database.reading() as s:
        row = campaign.campaign_row(s, campaign_id)
    assert (row.verdicts, row.leased) == (((Verdict.PASS, done + 5),), 0)
