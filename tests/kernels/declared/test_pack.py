"""Packs: what is in their digests and what isn't, and paths that are refused."""

from __future__ import annotations

import hashlib

import pytest

from kernels.declared.pack import MOST_BYTES, MOST_FILES, Pack, refuses_whole
from kernels.errors import FarmError, UsageError

FILES = {
    "k.toml": b'name = "k"\nop = "silu_mul"\nauthor = "a"\n',
    "k.cu": b"// text\n",
    "src/h.cuh": b"#pragma once\n",
}


def changed(**files: bytes) -> Pack:
    return Pack.of(FILES | {name.replace("_", "."): content for name, content in files.items()})


def test_digest_is_that_of_what_may_change_a_result():
    first = Pack.of(FILES)
    same = [
        Pack.of(dict(reversed(FILES.items()))),
        changed(k_toml=b'author = "b"\nop = "silu_mul"\ndescription = "words"\nname = "other" # comment\n'),
        Pack.of({("renamed.toml" if name == "k.toml" else name): content for name, content in FILES.items()}),
    ]
    assert {one.digest for one in same} == {first.digest}
    other = [
        changed(k_toml=b'name = "k"\nop = "rmsnorm"\nauthor = "a"\n'),
        changed(k_cu=b"// text \n"),
        Pack.of(
            {("moved/h.cuh" if name == "src/h.cuh" else name): content for name, content in FILES.items()}
        ),
        changed(k_toml=b"no toml ["),
        changed(more_toml=b'op = "silu_mul"\n'),
    ]
    assert len({first.digest, *(one.digest for one in other)}) == 1 + len(other)


def test_address_is_that_of_every_byte():
    first = Pack.of(FILES)
    renamed = changed(k_toml=FILES["k.toml"].replace(b'"k"', b'"l"'))
    assert Pack.of(dict(reversed(FILES.items()))).address == first.address
    assert renamed.digest == first.digest
    assert renamed.address != first.address


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../k.cu", "a/../../k.cu", "a\\b.cu", "", "a//b.cu", "./k.cu", "C:k.cu", "a\nb.cu", "a/"],
)
def test_a_path_outside_is_refused_by_name(path):
    with pytest.raises(UsageError, match="is no file inside the catalog"):
        Pack.of({path: b""})


def test_more_than_a_pack_holds_is_refused():
    with pytest.raises(UsageError, match=r"big.cu has 16,777,217 bytes, the most .* 16,777,216"):
        Pack.of({"big.cu": bytes((16 << 20) + 1)})
    assert "1,001 files, the most are 1,000" in refuses_whole(MOST_FILES + 1, 0)
    assert "bytes, the most are" in refuses_whole(1, MOST_BYTES + 1)
    assert refuses_whole(MOST_FILES, MOST_BYTES) == ""


def test_a_pack_crosses_as_bytes_whose_digest_is_its_address():
    first = Pack.of(FILES | {"src/ä b 7.inc": b"\n12 x 3\n\0", "empty.h": b""})
    data = first.to_bytes()
    assert hashlib.sha256(data).hexdigest() == first.address
    assert Pack.from_bytes(data, first.address) == first
    for wrong in (data[:-1], data + b"x", b""):
        with pytest.raises(FarmError, match=f"what came is not catalog {first.address[:12]}"):
            Pack.from_bytes(wrong, first.address)


@pytest.mark.parametrize("path", ["../escape.cu", "/etc/x.cu", "a/../../b.cu"])
def test_a_pack_from_elsewhere_has_no_path_outside(path):
    data = f"{len(path)} {path} 1\nx".encode()
    with pytest.raises(UsageError, match="is no file inside the catalog"):
        Pack.from_bytes(data, hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    "data", [b"rows", b"x k.cu 1\na", b"4 \xff\xff 1\na", b"4 k.cu -10\n", b"4 k.cu 9\nabc", b"4 k.cu +1\na"]
)
def test_bytes_of_a_right_address_that_are_no_pack_are_refused(data):
    with pytest.raises(FarmError, match="is no catalog; have it written again"):
        Pack.from_bytes(data, hashlib.sha256(data).hexdigest())


def test_a_pack_from_elsewhere_has_no_files_without_end():
    data = b"".join(b"6 %04d.h 0\n" % number for number in range(MOST_FILES + 1))
    with pytest.raises(UsageError, match="a catalog of 1,001 files, the most are 1,000"):
        Pack.from_bytes(data, hashlib.sha256(data).hexdigest())
