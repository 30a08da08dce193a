"""evidence: verdicts have an order, and each rule decides by a figure of its own."""

from __future__ import annotations

import pytest

from kernels.evidence import Comparison, Rule, Verdict


def test_verdicts_are_in_the_order_of_their_severity() -> None:
    assert [verdict.value for verdict in Verdict] == [
        "FAIL", "CRASH", "TIMEOUT", "REJECT", "ERROR", "LOST", "PASS", "SKIP",
    ]  # fmt: skip
    assert [verdict for verdict in Verdict if not verdict.bad] == [Verdict.PASS, Verdict.SKIP]
    assert [verdict for verdict in Verdict if not verdict.about_kernel] == [Verdict.ERROR, Verdict.LOST]


def comparison(verdict: Verdict, relative: float, nan_equal: bool, exact: bool) -> Comparison:
    return Comparison(
        verdict, "", "oracle", 1, 0, 0.0, relative, nan_equal, 0.0, exact, twin_agrees=True, worst=None
    )


@pytest.mark.parametrize(
    ("found", "bound", "relative", "exact"),
    [
        (comparison(Verdict.PASS, 0.5, True, True), True, True, True),
        (comparison(Verdict.FAIL, 1.0, True, False), False, True, False),
        (comparison(Verdict.PASS, 1.1, True, False), True, False, False),
        (comparison(Verdict.PASS, 0.0, False, False), True, False, False),
        (comparison(Verdict.ERROR, 0.0, True, True), False, False, False),
    ],
)
def test_each_rule_decides_by_its_own_figure(
    found: Comparison, bound: bool, relative: bool, exact: bool
) -> None:
    passed = [found.passes(rule) for rule in (Rule.BOUND, Rule.RELATIVE, Rule.EXACT)]
    assert passed == [bound, relative, exact]
