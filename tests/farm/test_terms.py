"""Until when leases hold, by a clock that the test turns."""

from __future__ import annotations

from farm.terms import Term, Terms


def held(**until: float) -> Terms:
    terms = Terms()
    terms.hold({name: Term("w", 1, end, 100.0) for name, end in until.items()})
    return terms


def test_what_nobody_renewed_ends_and_what_was_renewed_does_not() -> None:
    terms = held(a=5, b=5)
    assert terms.renew(["a", "x"], until=9) == ("x",)
    assert terms.expire(5) == ([], [])
    assert terms.expire(6) == (["b"], [])
    assert terms.expire(8) == ([], [])
    assert terms.expire(10) == (["a"], [])
    assert len(terms) == 0


def test_a_lease_ends_at_its_latest_however_often_it_is_renewed() -> None:
    terms = held(a=5)
    terms.renew(["a"], until=500)
    assert terms.expire(100) == ([], [])
    assert terms.expire(101) == ([], ["a"])


def test_a_workers_latest_is_that_of_what_it_holds() -> None:
    terms = held(a=5)
    assert (terms.latest_of("w", 7), terms.latest_of("other", 7)) == (100, 7)
    terms.drop(["a", "a"])
    assert terms.latest_of("w", 7) == 7


def test_what_nobody_noted_belongs_to_every_campaign() -> None:
    terms = held(a=5)
    terms.hold({"b": Term("", 0, 5, 5), "c": Term("w", 2, 5, 5)})
    assert (terms.of_campaigns([2]), terms.of_campaigns([])) == (["b", "c"], ["b"])


def test_what_was_begun_is_kept_until_it_is_written() -> None:
    terms = Terms()
    terms.begin(["a", "b"])
    terms.written(["a"])
    terms.begin(["c", "b"])
    assert terms.began == ("b", "c")
