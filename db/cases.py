"""Cases by their id, and the digests of inputs that earlier campaigns found.

store_cases(s, cases) · case_by_id(s, "3f2a") -> Case
known_inputs(s, keys) -> {inputs_key: inputs_digest} · remember_inputs(s, {inputs_key: inputs_digest})
kernels_of(s, campaign_id) -> {"matvec/block"} · asked_for(s, case_ids) -> those of campaigns here
inputs_key(case) · case_of(case_json)      # each worked out once per process
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

import sqlalchemy as sa

from db.session import Session, insert_new
from db.tables import campaign, cases, fixture, planned
from kernels import codec
from kernels.errors import UsageError
from kernels.model import Case


def store_cases(s: Session, wanted: Iterable[Case]) -> None:
    """Stores cases by their id; a case that is there stays as it is."""
    rows = {case: {"inputs_key": inputs_key(case), "case_json": codec.canonical(case)} for case in wanted}
    insert_new(s, cases, [row | {"case_id": case.id} for case, row in rows.items()])


def case_by_id(s: Session, start: str) -> Case:
    """The stored case whose id starts with these hex digits; UsageError where none or several do."""
    query = sa.select(cases.c.case_json).where(cases.c.case_id.startswith(start, autoescape=True)).limit(2)
    found = s.execute(query).scalars().all()
    if len(found) != 1:
        raise UsageError(
            f"{'no case' if not found else 'several cases'} with an id that starts with {start!r} here"
        )
    return case_of(found[0])


def kernels_of(s: Session, campaign_id: int) -> frozenset[str]:
    """The kernels, op/name, that a campaign has cases of."""
    query = sa.select(cases.c.case_json).join(planned, planned.c.case_id == cases.c.case_id)
    found = map(json.loads, s.execute(query.where(planned.c.campaign_id == campaign_id)).scalars())
    return frozenset(f"{case['op']}/{case['kernel']}" for case in found)


def asked_for(s: Session, case_ids: Iterable[str]) -> set[str]:
    """Those of the cases that a campaign here has: the others came with a worker's lines or a bundle's."""
    here = planned.c.campaign_id.in_(sa.select(campaign.c.id))  # by campaign and case, as the index has them
    query = sa.select(planned.c.case_id).where(here, planned.c.case_id.in_(list(case_ids))).distinct()
    return set(s.execute(query).scalars())


def known_inputs(s: Session, keys: Iterable[str]) -> dict[str, str]:
    """The inputs digests that earlier campaigns found, by inputs key."""
    wanted = set(keys)
    query = sa.select(fixture.c.inputs_key, fixture.c.inputs_digest)
    return {key: digest for key, digest in s.execute(query) if key in wanted}


def remember_inputs(s: Session, digests: Mapping[str, str]) -> None:
    """Keeps digests so that the next campaign need not make the inputs to know them."""
    insert_new(s, fixture, [{"inputs_key": key, "inputs_digest": value} for key, value in digests.items()])


@lru_cache(maxsize=16384)
def inputs_key(case: Case) -> str:
    """The case's inputs key; worked out once per process."""
    return case.inputs_key


@lru_cache(maxsize=16384)
def case_of(case_json: str) -> Case:
    """The case of a stored text; campaigns repeat the same few thousand."""
    return codec.decode(Case, json.loads(case_json))
