"""Every wrong kernel of the zoo FAILs on the quick cases of the kernel it was made from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from kernels import registry
from kernels.catalog import Selection, expand
from kernels.evidence import Evidence, Verdict
from kernels.model import Case, Device, Plan
from tests.workers.zoo import ZOO, Wrong
from workers.backend import Run, Unavailable
from workers.backends.host import Host
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import new_id, run_case


class Caged(Host):
    """The host backend, given a wrong kernel instead of the right one."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.text)
        self._wrong = wrong

    def run(self, plan: Plan, images: Mapping[str, np.ndarray], device: Device, turn: int) -> Run:
        return super().run(self._wrong.plan(plan), images, device, turn)


@pytest.fixture(scope="module")
def device() -> Device:
    try:
        return Host().devices()[0]
    except Unavailable as reason:
        pytest.skip(str(reason))


def quick(wrong: Wrong) -> tuple[Case, ...]:
    kinds = (wrong.kind,) if wrong.kind else ()
    first = registry.kernel(wrong.kernel).builds[:1]  # exact, where it has that
    chosen = Selection(kernels=(wrong.kernel,), kinds=kinds, builds=first)
    return tuple(planned.case for planned in expand(chosen))


def run_all(backend: Host, cases: tuple[Case, ...], device: Device) -> list[Evidence]:
    images = ImageCache(FileStore())
    return [run_case(Request(new_id(), case, "host", device), backend, images) for case in cases]


@pytest.mark.parametrize("wrong", ZOO, ids=lambda wrong: wrong.name)
def test_a_wrong_kernel_fails_where_the_right_one_passes(wrong: Wrong, device: Device) -> None:
    cases = quick(wrong)
    right = run_all(Host(), cases, device)
    caught = [line for line in run_all(Caged(wrong), cases, device) if line.verdict is Verdict.FAIL]
    assert {line.verdict for line in right} == {Verdict.PASS}
    assert caught, f"{wrong.name} passes all {len(cases)} cases"
    assert all(line.comparison is not None and line.comparison.positions > 0 for line in caught)


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(LookupError, match="has no 'sigma' any more"):
        Wrong("typo", "matvec/block", "Q4_0", (("sigma", ""),)).text("matvec/block", "Q4_0")
