"""docs/DEPLOY.md names files, options and services that are there."""

from __future__ import annotations

import re

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
