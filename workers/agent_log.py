"""What one agent logs: its device and worker in every line, campaign, job and lease where it is about one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kernels.evidence import Evidence
from workers.log import ROOT
from workers.protocol import Hello, Lease

LOG = logging.getLogger(f"{ROOT}.agent")


class AgentLog:
    """One agent's lines. The ordinary course of jobs is told at level debug, which people aren't shown."""

    def __init__(self, hello: Hello) -> None:
        self._about: dict[str, object] = {"device": hello.device.slug, "worker": hello.worker_id}
        self._is_away = False

    def greeted(self, reason: str, epoch: int) -> None:
        """The coordinator answered a hello; `reason` is why it said no, empty where it said yes."""
        self._is_away = False
        if reason:
            self._say(logging.WARNING, "refused", reason=reason)
        else:
            self._say(logging.INFO, "accepted", epoch=epoch)

    def away(self, error: Exception) -> None:
        """The coordinator can't be reached; told once until it answers again."""
        if not self._is_away:
            self._is_away = True
            self._say(logging.WARNING, "coordinator away", reason=str(error))

    def leased(self, leases: Sequence[Lease]) -> None:
        for campaign in dict.fromkeys(lease.campaign_id for lease in leases):
            jobs = [lease.job_id for lease in leases if lease.campaign_id == campaign]
            about = {"campaign": campaign, "jobs": jobs} if campaign else {"questions": len(jobs)}
            self._say(logging.DEBUG, "leased", **about)

    def started(self, lease: Lease) -> None:
        case = lease.case
        name = f"{case.op}/{case.kernel} {case.kind} {case.shape}"
        self._say(logging.DEBUG, "started", **_of(lease), case=name)

    def ran(self, lease: Lease, line: Evidence) -> None:
        """A case has its line in the spool."""
        level = logging.WARNING if line.verdict.bad else logging.DEBUG
        elapsed_us = line.finished_us - line.started_us
        told = {"verdict": line.verdict.value, "elapsed_us": elapsed_us, "evidence": line.evidence_id}
        self._say(level, "ran", **_of(lease), **told, reason=line.reason)

    def lost(self, leases: Sequence[Lease]) -> None:
        """The coordinator took back what nobody here had begun."""
        for lease in leases:
            self._say(logging.WARNING, "lease lost", **_of(lease))

    def without_catalog(self, address: str, error: Exception) -> None:
        self._say(logging.WARNING, "catalog can't be had", catalog=address, reason=str(error))

    def ended(self, ran: int, reason: str) -> None:
        self._say(logging.INFO, "ended", ran=ran, reason=reason)

    def _say(self, level: int, event: str, **fields: object) -> None:
        if LOG.isEnabledFor(level):
            LOG.log(level, event, extra=self._about | fields)


def _of(lease: Lease) -> dict[str, object]:
    """A question of an exam is of no campaign."""
    job = {"campaign": lease.campaign_id, "job": lease.job_id} if lease.campaign_id else {}
    return job | {"lease": lease.attempt_id}
