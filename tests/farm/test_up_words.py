"""What a head's own process is told on its command line, which everybody on the machine can read."""

from __future__ import annotations

from farm.cli.up import options_of


def test_the_database_and_its_password_are_not_among_the_words() -> None:
    words = {
        "url": "postgresql://farm:hunter2@db/farm",
        "host": "10.0.0.5",
        "port": 6379,
        "firewalled": True,
        "no_worker": True,
        "behind_proxy": False,
        "cert": "",
        "backends": ("host", "twin"),
    }
    assert options_of(words) == [
        "--host=10.0.0.5", "--port=6379", "--firewalled", "--no-worker", "--backend=host", "--backend=twin"
    ]  # fmt: skip
