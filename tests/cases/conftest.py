"""Runs a case on the host backend, with the right kernel or a wrong one."""

from __future__ import annotations

import pytest

from tests.cases.making import RunCase, run_on_host
from workers.backend import Unavailable
from workers.backends.host import BACKEND


@pytest.fixture(scope="session")
def run() -> RunCase:
    """run(case) is the right kernel's evidence, run(case, wrong) that of a wrong one."""
    try:
        BACKEND.devices()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return run_on_host
