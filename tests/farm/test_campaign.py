"""Which cases an order keeps, what is stored of it, and on whom it waits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from db import blob, campaign
from db.cases import known_inputs
from db.cell import Capability, CellKey
from db.job import Target, jobs_of
from db.session import Database
from farm.campaign import Order, Submitted, deadline_s, keep, plan, source_digest, targets_here
from farm.lacking import Only
from kernels import catalog, codec, source
from kernels.catalog import Selection
from kernels.errors import UsageError
from kernels.evidence import Verdict
from kernels.model import Build, Device

ORDER = Order(Selection(kernels=("matvec/block",), kinds=("Q4_0", "Q6_K"), builds=(Build.EXACT,)), ("twin",))
TARGET = Target("twin", "cpu-a")
WORK = plan(ORDER)


def cell(kind: str, verdict: Verdict = Verdict.PASS, digest: str = "") -> Capability:
    digest = digest or source.digest("matvec/block", (kind,), Build.EXACT)
    key = CellKey("cpu-a-1", "twin", "matvec", "block", kind, "exact", digest)
    return Capability(key, "cpu-a", verdict, "", (), (), 1, 0, 1, None, None, None, None, 1)


def kinds_kept(only: Only, *known: Capability) -> set[str]:
    return {item.case.kind for item in keep(WORK.planned, only, [TARGET], known)}


OLD = "0" * 64


@pytest.mark.parametrize(
    ("only", "known", "kinds"),
    [
        (Only.NEVER, [], {"Q4_0", "Q6_K"}),
        (Only.NEVER, [cell("Q4_0")], {"Q6_K"}),
        (Only.NEVER, [cell("Q4_0", digest=OLD)], {"Q6_K"}),
        (Only.STALE, [], set()),
        (Only.STALE, [cell("Q4_0"), cell("Q6_K", digest=OLD)], {"Q6_K"}),
        (Only.STALE, [cell("Q4_0", digest=OLD), cell("Q4_0")], set()),
        (Only.BAD, [cell("Q4_0"), cell("Q6_K", Verdict.CRASH)], {"Q6_K"}),
        (Only.BAD, [cell("Q4_0", Verdict.FAIL, OLD), cell("Q6_K", Verdict.SKIP)], set()),
    ],
)
def test_only_keeps_cells_in_that_state(only: Only, known: list[Capability], kinds: set[str]) -> None:
    assert kinds_kept(only, *known) == kinds


def test_only_looks_at_the_targets_own_cells() -> None:
    elsewhere = cell("Q4_0")._replace(device_class="cpu-b")
    assert kinds_kept(Only.NEVER, elsewhere) == {"Q4_0", "Q6_K"}


def test_jobs_carry_digests_and_the_texts_are_kept(database: Database, submitted: Submitted) -> None:
    with database.reading() as s:
        job = jobs_of(s, submitted.campaign_id)[0]
        (text,) = blob.source_texts(s, job.source_digest)
        known = known_inputs(s, [job.case.inputs_key])
    assert job.source_digest == source_digest(job.case)
    assert text.text == source.text("matvec/block", "Q4_0")
    assert known == {job.case.inputs_key: job.inputs_digest}


def test_a_refused_case_has_no_inputs_and_is_stored_all_the_same(store_order, database: Database) -> None:
    order = Order(Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=("8x48",)), ("twin",))
    stored = store_order(order, Device("cpu-a-1", "cpu-a", "A", "u"))
    with database.reading() as s:
        assert {job.inputs_digest for job in jobs_of(s, stored.campaign_id)} == {""}


def test_inputs_that_no_memory_holds_have_no_digest_and_the_case_is_stored(
    store_order, database: Database
) -> None:
    order = Order(Selection(kernels=("flat",), shapes=("2147483647",), builds=(Build.EXACT,)), ("twin",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farm.campaign.free_bytes", lambda: 2**34 - 9)
        stored = store_order(order, Device("cpu-a-1", "cpu-a", "A", "u"))
    with database.reading() as s:
        assert {job.inputs_digest for job in jobs_of(s, stored.campaign_id)} == {""}


def test_an_order_is_stored_as_it_was_given(database: Database, submitted: Submitted) -> None:
    with database.reading() as s:
        text = campaign.campaign_row(s, submitted.campaign_id).selection
    assert codec.decode(Order, json.loads(text)).backends == ("twin",)


@pytest.mark.parametrize(
    ("device", "backends", "names"),
    [("*", ("host", "twin"), ["twin"]), ("cpu-b*", ("twin",), []), ("cpu-a*", ("host",), [])],
)
def test_a_device_gets_the_backends_that_the_order_names(
    device: str, backends: tuple[str, ...], names: list[str]
) -> None:
    text = codec.canonical(replace(ORDER, device=device))
    found = targets_here(text, Device("cpu-a-1", "cpu-a", "A", "u"), backends)
    assert [target.backend for target in found] == names


def test_a_larger_case_has_a_later_deadline() -> None:
    small, large = (
        catalog.expand(Selection(kernels=("matvec/block",), kinds=("Q4_0",), shapes=(shape,)))[0].case
        for shape in ("1x32", "28672x8192")
    )
    assert deadline_s(small) >= 30
    assert deadline_s(large) > deadline_s(small) + 100


def test_names_are_checked_before_anything_is_stored() -> None:
    with pytest.raises(UsageError, match="no family named 'odd'"):
        plan(replace(ORDER, selection=replace(ORDER.selection, families=("odd",))))
