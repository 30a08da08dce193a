"""compose.yaml: as Compose's schema wants it, and so that a worker reaches the gateway and nothing else."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from farm.cli import main
from tests.deploy.tools import DEPLOY, document, said, tool

FILE = DEPLOY / "compose.yaml"
UNSET = "?run deploy/secrets.sh first"
SCHEMA = ("--builtin-schema", "vendor.compose-spec")

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl (Debian, Ubuntu: apt-get install openssl)"
)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = document(FILE)["services"]
    return found


def test_the_file_fits_the_schema() -> None:
    found = said(tool("check-jsonschema"), *SCHEMA, FILE)
    assert found.returncode == 0, found.stdout


def test_the_schema_sees_a_wrong_word(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("depends_on:", "depend_on:", 1))
    found = said(tool("check-jsonschema"), *SCHEMA, wrong)
    assert found.returncode == 1
    assert "depend_on" in found.stdout


def test_services_are_those_of_a_farm(services: dict[str, Any]) -> None:
    assert list(services) == ["db", "head", "web", "token", "worker"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services)
        assert service["cap_drop"] == ["ALL"], name
        assert service["user"] == f"${{FARM_UID:{UNSET}}}:${{FARM_GID:{UNSET}}}", name


def test_a_worker_sees_the_gateway_alone(services: dict[str, Any]) -> None:
    """Its one network leads nowhere else and holds the head, which opens no other port: it runs no Ray."""
    worker = services["worker"]
    assert worker["networks"] == ["work"]
    assert [name for name, each in services.items() if "work" in each["networks"]] == ["head", "worker"]
    assert services["head"]["command"].split()[0] == "gateway"
    assert worker["secrets"] == ["gateway.pem"]
    assert worker["environment"] == {"FARM_LABELS": "price=0 USD/h"}
    assert services["db"]["networks"] == ["rows"]
    networks = document(FILE)["networks"]
    closed = {"internal": True, "driver_opts": {"com.docker.network.bridge.inhibit_ipv4": "true"}}
    assert (networks["rows"], networks["work"]) == (closed, closed)


def test_a_worker_is_one_board_at_every_start(services: dict[str, Any]) -> None:
    """A container's own name is another each time, and a processor's board goes by its machine's."""
    assert services["worker"]["hostname"] == f"${{FARM_HOST:{UNSET}}}"


def test_what_holds_the_database_and_the_gateways_key_runs_no_kernel(services: dict[str, Any]) -> None:
    """A kernel could read both, as the head's user; so the one that pulls is all that takes jobs."""
    words = services["head"]["command"].split()
    assert {"db.pgpass", "gateway.key"} <= set(services["head"]["secrets"])
    command = main.get_command(click.Context(main), words[0])
    assert command is not None
    told = command.make_context(words[0], existing(words[1:])).params
    assert (told["host"], told["port"]) == ("0.0.0.0", 8443)
    assert "pull" in services["worker"]["command"].split()


def test_up_and_wait_can_tell_of_each_that_it_is_well(services: dict[str, Any]) -> None:
    """`up --wait` fails over a check that is switched off, unless others wait for the service's end."""
    ends = {
        name
        for each in services.values()
        for name, how in each.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    unseen = {name for name, each in services.items() if each["healthcheck"].get("disable")}
    assert unseen == ends == {"token"}


def existing(words: list[str]) -> list[str]:
    """The words with files that are there: an option may look for its own."""
    return [__file__ if word.startswith("/run/secrets/") else word for word in words]


def test_nothing_is_published_but_gateway_and_dashboard(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {
        "head": ["${FARM_GATEWAY_ADDRESS:-127.0.0.1}:${FARM_GATEWAY_PORT:-8443}:8443"],
        "web": ["127.0.0.1:${FARM_WEB_PORT:-8765}:8765"],
    }


def test_no_secret_stands_in_the_file(services: dict[str, Any]) -> None:
    assert services["head"]["environment"]["FARM_DB"] == "postgresql://farm@db:5432/farm"
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if name.endswith("_FILE") or name == "PGPASSFILE":
                assert value.startswith("/run/secrets/")
            else:
                assert "PASSWORD" not in name


@needs_openssl
def test_secrets_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = said(DEPLOY / "secrets.sh", "farm.example", "10.0.0.5", FARM_SECRETS=str(folder))
    assert made.returncode == 0, made.stderr
    wanted = {Path(each["file"]).name for each in document(FILE)["secrets"].values()}
    assert {path.name for path in folder.iterdir()} == wanted
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    password = (folder / "db.password").read_text().strip()
    assert (folder / "db.pgpass").read_text() == f"db:5432:*:farm:{password}\n"
    words = ("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", str(folder / "gateway.pem"))
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for name in ("DNS:head", "DNS:farm.example", "IP Address:10.0.0.5"):
        assert name in names
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert said(DEPLOY / "secrets.sh", FARM_SECRETS=str(folder)).returncode == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert password not in made.stdout + made.stderr


@needs_openssl
def test_compose_is_told_as_whom_and_where_all_runs(tmp_path: Path) -> None:
    """The secrets' owner, never root: PostgreSQL doesn't run as root. What is there is kept."""
    script = tmp_path / "deploy" / "secrets.sh"
    script.parent.mkdir()
    shutil.copy(DEPLOY / "secrets.sh", script)
    assert said(script).returncode == 0
    told = script.with_name(".env")
    key = (script.parent / "secrets" / "gateway.key").stat()
    assert key.st_uid == (os.getuid() or 10001)
    assert told.read_text() == f"FARM_UID={key.st_uid}\nFARM_GID={key.st_gid}\nFARM_HOST={platform.node()}\n"
    told.write_text("FARM_UID=4242\n")
    assert said(script).returncode == 0
    assert told.read_text() == "FARM_UID=4242\n"


@needs_openssl
def test_secrets_elsewhere_are_not_composes(tmp_path: Path) -> None:
    script = tmp_path / "deploy" / "secrets.sh"
    script.parent.mkdir()
    shutil.copy(DEPLOY / "secrets.sh", script)
    assert said(script, FARM_SECRETS=str(tmp_path / "tls")).returncode == 0
    assert not script.with_name(".env").exists()


def test_a_host_that_is_none_is_refused(tmp_path: Path) -> None:
    found = said(DEPLOY / "secrets.sh", "a,DNS:b", FARM_SECRETS=str(tmp_path))
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "HOST is 'a,DNS:b'; want a name or an address" in found.stderr
