"""The bar and its figures."""

import io
from dataclasses import replace

from rich.console import Console

from db.campaign import CampaignRow
from farm.progress import Bar, tally
from kernels.evidence import Rule, Verdict

VERDICTS = ((Verdict.FAIL, 2), (Verdict.PASS, 1200), (Verdict.SKIP, 3))
ROW = CampaignRow(7, "{}", Rule.BOUND, 0, 1, None, 1200, 95, VERDICTS)


def test_the_tally_counts_by_verdict() -> None:
    assert tally(ROW) == "2 FAIL · 1,200 PASS · 3 SKIP"
    assert tally(replace(ROW, verdicts=())) == "no verdict yet"


def test_the_bar_shows_campaign_and_tally_at_the_end_without_a_terminal() -> None:
    text = io.StringIO()
    with Bar(Console(file=text, width=120)) as bar:
        bar.show(ROW)
        bar.note("an agent [died]")
    assert "campaign 7" in text.getvalue()
    assert "1205/2500" in text.getvalue()
    assert "1,200 PASS" in text.getvalue()
    assert "an agent [died]" in text.getvalue()
