"""The cache of compiled texts: once per content, refusals too, and never half a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.backend import Rejected
from workers.nvrtc.library import Compiled
from workers.nvrtc.store import Store, key_of


def never() -> Compiled:
    raise AssertionError("compiled again")


def test_what_was_compiled_is_not_compiled_again(tmp_path: Path) -> None:
    made = Store(tmp_path / "new").compiled("key", lambda: Compiled(b"\x7fELF", "log"))
    assert made == Compiled(b"\x7fELF", "log")
    assert Store(tmp_path / "new").compiled("key", never) == made


def test_another_key_is_compiled(tmp_path: Path) -> None:
    Store(tmp_path).compiled("key", lambda: Compiled(b"1", ""))
    assert Store(tmp_path).compiled("other", lambda: Compiled(b"2", "")).cubin == b"2"


def test_a_refusal_is_kept_and_raised_again(tmp_path: Path) -> None:
    def refuse() -> Compiled:
        raise Rejected("k.cu(1): error: no x")

    for make in (refuse, never):
        with pytest.raises(Rejected, match=r"k\.cu\(1\): error: no x"):
            Store(tmp_path).compiled("key", make)


def test_what_the_machine_failed_at_is_not_kept(tmp_path: Path) -> None:
    def fail() -> Compiled:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Store(tmp_path).compiled("key", fail)
    assert Store(tmp_path).compiled("key", lambda: Compiled(b"1", "")).cubin == b"1"


def test_a_cubin_without_its_log_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "key.cubin").write_bytes(b"half")
    assert Store(tmp_path).compiled("key", lambda: Compiled(b"whole", "")).cubin == b"whole"


def test_a_text_is_kept_under_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert not store.has("key")
    store.keep("key", "text")
    assert [store.has(key) for key in ("key", "other")] == [True, False]
    assert store.text("key") == "text"


def test_the_key_keeps_its_parts_apart() -> None:
    assert len({key_of("a", "b"), key_of("ab"), key_of("a", "", "b"), key_of("b", "a")}) == 4
