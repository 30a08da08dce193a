"""What workers say in the protocol's words, as the queue says it, and back."""

from __future__ import annotations

from db import queue
from db.fit import unfit_worker
from db.needs import offer_of
from farm.campaign import deadline_s
from workers import protocol
from workers.protocol import Hello, Lease


def mismatch(message: Hello, catalog_digest: str) -> str:
    """Why a worker isn't of this coordinator's version; empty if it is."""
    if message.protocol != protocol.VERSION:
        theirs, ours = message.protocol, protocol.VERSION
        return f"protocol {theirs} here, {ours} at the coordinator; update the older one"
    if message.catalog_digest != catalog_digest:
        here, there = message.catalog_digest[:12], catalog_digest[:12]
        return f"catalog {here} here, {there} at the coordinator: sources differ; bring both to one version"
    return ""


def misfit(message: Hello) -> str:
    """Why no worker may say of itself what this one does; empty if it may."""
    return unfit_worker(message.worker_id, message.backends, message.device)


def worker_of(hello: Hello) -> queue.Worker:
    board = hello.device
    offer = offer_of(board, frozenset(hello.files))
    return queue.Worker(hello.worker_id, board.slug, board.device_class, hello.backends, offer)


def lease_of(leased: queue.Leased) -> Lease:
    return Lease(
        attempt_id=leased.attempt_id,
        job_id=leased.job_id,
        campaign_id=leased.campaign_id,
        case=leased.case,
        backend=leased.backend,
        source_digest=leased.source_digest,
        inputs_digest=leased.inputs_digest,
        repeats=leased.repeats,
        rule=leased.rule,
        deadline_s=deadline_s(leased.case, leased.bench),
        pack=leased.pack,
        bench=leased.bench,
    )
