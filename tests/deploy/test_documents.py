"""docs/DEPLOY.md names files, options and services that are there."""

from __future__ import annotations

import re
from pathlib import Path

from farm import prices
from tests.deploy.tools import DEPLOY, ROOT, document

TEXT = (ROOT / "docs/DEPLOY.md").read_text(encoding="utf8")


def test_files_that_are_named_are_there_and_none_is_left_out() -> None:
    named = set(re.findall(r"(?<!tests/)deploy/[\w/.-]+\.(?:sh|yaml|py|Dockerfile)", TEXT))
    assert [name for name in named if not (ROOT / name).exists()] == []
    for path in [*DEPLOY.rglob("*.yaml"), *DEPLOY.glob("*.sh"), *DEPLOY.rglob("*.Dockerfile")]:
        assert path.name in TEXT, path.name


def test_every_file_says_how_it_was_checked() -> None:
    rows = TEXT.partition("## What was checked")[2]
    for word in ("local.sh", "docker/", "compose.yaml", "secrets.sh", "wireguard.sh", "sky/", "kuberay.yaml"):
        assert word in rows


def test_services_and_options_are_composes_and_farms() -> None:
    services = document(DEPLOY / "compose.yaml")["services"]
    assert set(re.findall(r"compose\.yaml exec (\w+)", TEXT)) == {"head", "web"} <= set(services)
    for option in ("--gateway", "--cert", "--key"):
        assert option in (ROOT / "farm/cli/up.py").read_text(encoding="utf8")
        assert option in TEXT


def test_the_price_file_that_is_shown_is_one_and_has_every_field(tmp_path: Path) -> None:
    shown = TEXT.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "p.toml").write_text(shown)
    (offer,) = prices.offers(tmp_path / "p.toml")
    assert (offer.device_class, offer.provider, offer.road, offer.spot) == (
        "rtx-4090",
        "runpod",
        "gateway",
        True,
    )
    assert all(f"\n{name} = " in f"\n{shown}" for name in prices.FIELDS)
