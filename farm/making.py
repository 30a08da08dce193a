"""Jobs of open campaigns, made for the boards that are there: often a campaign is stored before any is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from db import campaign
from db.job import add_targets
from db.session import Session
from farm.campaign import targets_here
from farm.roll import Roll
from farm.second_looks import SecondLooks
from workers.protocol import Hello


class Making:
    """What makes one coordinator's jobs."""

    def __init__(self, roll: Roll, second_looks: SecondLooks) -> None:
        self._roll = roll
        self._second_looks = second_looks
        self._told = 0  # the newest campaign of which everybody at work has jobs

    def jobs(self, s: Session, hellos: Sequence[Hello], seen: int, now_us: int) -> int:
        """Makes what open campaigns newer than `seen` want of boards; the newest campaign's id.

        The first who asks makes a campaign's jobs for everybody at work: a board that is busy for long would
        else find it closed, and its class would have no job of it.
        """
        newest = max(seen, campaign.newest_open(s))
        if newest > seen:
            if newest > self._told:
                hellos = (*hellos, *self._roll.hellos())
                self._told = newest
            rows = campaign.still_open(s)
            self._second_looks.share = max((row.twice for row in rows), default=0.0)
            for row in rows:
                if row.id > seen and row.takes_targets:
                    each = (targets_here(row.selection, hello.device, hello.backends) for hello in hellos)
                    add_targets(s, row.id, chain.from_iterable(each), now_us)
            campaign.close_finished(s, now_us)  # what no board of a class can run is done at once
        return newest
