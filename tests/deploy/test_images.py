"""The images' recipes: linted, pinned, not root, watched, of the hashed locks. containers.sh builds them."""

from __future__ import annotations

import re
import socket
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, ROOT, document, said, tool

RECIPES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
HEALTHY = DEPLOY / "docker" / "healthy.py"


def recipe(path: Path) -> str:
    return path.read_text(encoding="utf8")


def sources(text: str) -> set[str]:
    """What COPY takes from the checkout."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
    return {word for line in lines for word in line.split()[:-1]}


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a path through: the last line that fits decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        if line and line[0] != "#" and any(fnmatch(head, pattern) for head in [*heads, *parts]):
            sent = line[0] == "!"
    return sent


def test_hadolint_has_nothing_to_say() -> None:
    assert [path.stem for path in RECIPES] == ["head", "worker"]
    found = said(tool("hadolint"), *RECIPES)
    assert found.returncode == 0, found.stdout


def test_hadolint_sees_a_tag_that_moves() -> None:
    found = said(tool("hadolint"), "-", stdin="FROM python:latest\nUSER farm\n")
    assert found.returncode == 1
    assert "DL3007" in found.stdout


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_an_image_is_pinned_hashed_unprivileged_and_watched(path: Path) -> None:
    text = recipe(path)
    bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert len(bases) == 1
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert text.count("pip install") == text.count("--no-deps") == 2
    assert text.count("--require-hashes") == 1
    assert re.search(r"^USER 10001:10001$", text.rpartition("FROM")[2], re.MULTILINE)
    assert "\nHEALTHCHECK " in text
    assert not re.search(r"^(ARG|ENV).*(TOKEN|PASSWORD|SECRET)", text, re.MULTILINE)


def test_stand_ins_have_the_names_of_the_bases() -> None:
    script = (ROOT / "tests/deploy/containers.sh").read_text(encoding="utf8")
    named = set(re.findall(r"^\w+_base=(\S+)$", script, re.MULTILINE))
    bases = {base for path in RECIPES for base in re.findall(r"^FROM (\S+)", recipe(path), re.MULTILINE)}
    assert named == bases | {document(DEPLOY / "compose.yaml")["services"]["db"]["image"]}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_is_copied_is_there_and_sent(path: Path) -> None:
    found = sources(recipe(path))
    assert {"kernels", "workers", "db", "farm", "requirements.txt"} <= found
    for name in found:
        assert (ROOT / name).exists(), name
        assert is_sent(name), name


@pytest.mark.parametrize(
    "name",
    [".farm/token", ".git/config", "deploy/secrets/db.password", "bench.token", "farm.key",
     ".venv/bin/python", "kernels/.farm/token", "tests/conftest.py"],
)  # fmt: skip
def test_secrets_and_state_never_reach_an_image(name: str) -> None:
    assert not is_sent(name)


def test_a_worker_is_made_for_both_cudas() -> None:
    text = recipe(DEPLOY / "docker" / "worker.Dockerfile")
    assert "requirements-cuda${CUDA}.txt" in text
    assert {f"requirements-cuda{version}.txt" for version in (12, 13)} <= sources(text)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in text


def test_a_port_that_nobody_listens_on_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert said(sys.executable, HEALTHY, "port", port).returncode == 0
        assert said(sys.executable, HEALTHY, "port", f"localhost:{port}").returncode == 0
    found = said(sys.executable, HEALTHY, "port", port)
    assert found.returncode == 1
    assert found.stderr == f"healthy: nothing listens at 127.0.0.1:{port}: Connection refused\n"
    assert (
        said(sys.executable, HEALTHY, "spirits").stderr
        == "healthy: want port [HOST:]NUMBER or boards, got spirits\n"
    )
