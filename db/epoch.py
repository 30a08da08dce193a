"""Whose turn it is to lead: a number that every coordinator raises when it starts and every write checks.

epoch = raise_epoch(s, now_us)      # at the coordinator's start; refuses older ones from then on
demand_epoch(s, epoch)              # StaleEpoch when another coordinator has started since
"""

from __future__ import annotations

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import epoch as epoch_table
from kernels.errors import FarmError

HELD = sa.select(epoch_table.c.epoch).with_for_update(read=True)


class StaleEpoch(FarmError):
    """Another coordinator has started since; this one must stop."""


def raise_epoch(s: Session, now_us: int) -> int:
    """Begins an epoch: whoever still works under an older one is refused from here on."""
    insert_new(s, epoch_table, [{"id": 1, "epoch": 0, "raised_us": now_us}])
    s.execute(sa.update(epoch_table).values(epoch=epoch_table.c.epoch + 1, raised_us=now_us))
    return current_epoch(s)


def current_epoch(s: Session) -> int:
    """The epoch that counts; 0 before the first."""
    return s.execute(sa.select(epoch_table.c.epoch)).scalar() or 0


def demand_epoch(s: Session, epoch: int) -> None:
    """StaleEpoch unless `epoch` is the one that counts, and goes on to be until this transaction ends."""
    now = s.execute(HELD).scalar() or 0
    if now != epoch:
        raise StaleEpoch(
            f"epoch {epoch} is over, {now} has begun: another coordinator is in charge; this one stops"
        )
