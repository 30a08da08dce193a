"""Loggers whose lines carry what they are about: campaign, job, lease, device; workers/log.py writes them."""

from __future__ import annotations

import logging

import structlog
from structlog.stdlib import BoundLogger

from workers.log import ROOT

# The last one hands name and fields to the standard library, whose handlers write them.
PROCESSORS: list[structlog.typing.Processor] = [
    structlog.stdlib.filter_by_level,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.render_to_log_kwargs,
]


def logger(role: str, **bound: object) -> BoundLogger:
    """A logger of that role; `bound` and what is bound later is in all its lines.

    Nothing is configured for the whole process: a Ray worker is shared with code that isn't ours.
    """
    made: BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"{ROOT}.{role}"), processors=PROCESSORS, wrapper_class=BoundLogger
    )
    return made.bind(**bound)
