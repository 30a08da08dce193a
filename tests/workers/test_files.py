"""Files by digest, GGUF tensors checked against the file's size, and sampled rows."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.model import FromFile
from workers.files import FileNotHere, FileStore, load_npy, sample_rows
from workers.gguf_file import BadFile, Tensor, read_gguf

DATA = Path(__file__).parents[1] / "data"
TINY = DATA / "tiny-mixed.gguf"
MANIFEST = json.loads((DATA / "tiny-mixed.manifest.json").read_text())
LATER = json.loads(
    (DATA / "tiny-q2_0.manifest.json").read_text()
)  # its file has a type that gguf came to know late
FIRST = "token_embd.weight"


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "files")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / "copy.gguf"
    path.write_bytes(TINY.read_bytes())
    return path


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def info_of(name: str) -> int:
    """Where a tensor's info starts in the header: name length, name, dimensions, type, offset."""
    data = TINY.read_bytes()
    return data.index(struct.pack("<Q", len(name)) + name.encode())


def type_at(name: str) -> int:
    return info_of(name) + 8 + len(name) + 4 + 2 * 8


def as_said(said: dict[str, Any]) -> Tensor:
    """A tensor as its manifest has it."""
    rows, cols = int(np.prod(said["ne"][1:])), said["ne"][0]
    place = said["abs_offset"], said["nbytes"]
    return Tensor(said["name"], said["type"].upper(), rows, cols, *place, len(said["ne"]))


@pytest.mark.parametrize(("manifest", "count"), [(MANIFEST, 58), (LATER, 2)])
def test_tensors_are_those_of_the_manifest(manifest: dict[str, Any], count: int) -> None:
    found = read_gguf(DATA / manifest["file"])
    assert found == tuple(as_said(said) for said in manifest["tensors"])
    assert len(found) == count


@pytest.mark.parametrize("manifest", [MANIFEST, LATER], ids=lambda manifest: manifest["file"])
def test_bytes_of_every_tensor_are_those_of_the_manifest(store: FileStore, manifest: dict[str, Any]) -> None:
    sha256 = store.register(DATA / manifest["file"]).sha256
    assert sha256 == manifest["sha256"]
    for said in manifest["tensors"]:
        rows = store.weights(FromFile(sha256, (said["name"],)), 0)
        assert hashlib.sha256(rows.tobytes()).hexdigest() == said["sha256"]


def test_sampled_rows_are_those_of_the_whole_tensor(store: FileStore) -> None:
    sha256 = store.register(TINY).sha256
    whole = store.weights(FromFile(sha256, (FIRST,)), 0)
    some = store.weights(FromFile(sha256, ("output_norm.weight", FIRST), rows=5), 1)
    assert (whole.shape, some.shape) == ((3072, 144), (5, 144))
    assert np.array_equal(some, whole[[0, 767, 1535, 2303, 3071]])


@pytest.mark.parametrize(
    ("total", "wanted", "rows"),
    [
        (5, 0, [0, 1, 2, 3, 4]),
        (5, 9, [0, 1, 2, 3, 4]),
        (5, 2, [0, 4]),
        (10, 4, [0, 3, 6, 9]),
        (5, 1, [0]),
    ],
)
def test_sample_has_first_and_last_row(total: int, wanted: int, rows: list[int]) -> None:
    assert sample_rows(total, wanted).tolist() == rows


def test_file_is_refused_when_data_is_cut_off(copy: Path) -> None:
    os.truncate(copy, MANIFEST["size"] - 1)
    with pytest.raises(BadFile, match=r"copy.gguf: tensor [\w.]+: needs bytes \d+ to 2957248, .* truncated"):
        read_gguf(copy)


@pytest.mark.parametrize("size", [3, 4, 8, 23, 24, 100, 5_000, 40_000, 73_000])
def test_file_is_refused_when_the_header_is_cut_off(copy: Path, size: int) -> None:
    os.truncate(copy, size)
    with pytest.raises(BadFile, match=r"copy.gguf: (the header can't be read|wrong magic)"):
        read_gguf(copy)


def test_file_is_refused_when_an_offset_is_past_the_end(copy: Path) -> None:
    patch(copy, type_at(FIRST) + 4, struct.pack("<Q", 1 << 40))
    with pytest.raises(BadFile, match=f"tensor {FIRST}: starts at byte 1099511700896, past the end"):
        read_gguf(copy)


def test_file_is_refused_when_an_offset_is_not_aligned(copy: Path) -> None:
    patch(copy, type_at(FIRST) + 4, struct.pack("<Q", 8))
    with pytest.raises(BadFile, match=f"tensor {FIRST}: offset 8 is not a multiple of the alignment 32"):
        read_gguf(copy)


def test_a_tensor_of_an_unknown_type_is_kept_out_and_no_other_suffers(copy: Path, store: FileStore) -> None:
    patch(copy, type_at(FIRST), struct.pack("<I", 99))
    first, *others = read_gguf(copy)
    assert others == [as_said(said) for said in MANIFEST["tensors"][1:]]
    assert (first.kind, first.nbytes) == ("type 99", MANIFEST["tensors"][0]["nbytes"])  # no padding behind it
    assert re.fullmatch(r"type id 99 is unknown to gguf [\d.]+ and has no kind here", first.unknown)
    sha256 = store.register(copy).sha256
    with pytest.raises(BadFile, match=rf"copy.gguf: tensor {FIRST}: type id 99 is unknown"):
        store.weights(FromFile(sha256, (FIRST,)), 0)


def test_file_is_refused_when_nothing_tells_the_size_of_an_unknown_type(copy: Path) -> None:
    last = max(MANIFEST["tensors"], key=lambda said: said["offset"])["name"]
    patch(copy, type_at(last), struct.pack("<I", 99))
    fault = rf"tensor {last}: type id 99 is unknown .*; no tensor behind it tells its size; install a gguf"
    with pytest.raises(BadFile, match=fault):
        read_gguf(copy)


def test_file_is_refused_when_rows_are_not_whole_blocks(copy: Path) -> None:
    patch(copy, info_of(FIRST) + 8 + len(FIRST) + 4, struct.pack("<Q", 255))
    with pytest.raises(BadFile, match=f"tensor {FIRST}: rows of 255 are not whole Q4_K blocks of 256"):
        read_gguf(copy)


def test_file_is_refused_when_a_tensor_is_there_twice(copy: Path) -> None:
    patch(copy, info_of("blk.1.ffn_up.weight") + 8, b"blk.0.ffn_up.weight")
    with pytest.raises(BadFile, match=r"tensor blk.0.ffn_up.weight: is there 2 times"):
        read_gguf(copy)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"GGML" + bytes(100), r"wrong magic b'GGML', want b'GGUF'"),
        (b"", "wrong magic"),
        (b"GGUF\x09\0\0\0" + bytes(100), "version 9"),
    ],
)
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(BadFile, match=fault) as caught:
        read_gguf(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path, store: FileStore) -> None:
    with pytest.raises(BadFile, match="nope: No such file or directory"):
        store.register(tmp_path / "nope")


def test_registered_file_is_not_hashed_again(store: FileStore, copy: Path) -> None:
    first = store.register(copy)
    stamp = os.stat(copy)
    patch(copy, MANIFEST["size"] - 1, b"\0")
    os.utime(copy, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert store.register(copy) == first


def test_file_is_not_here_when_it_has_changed(store: FileStore, copy: Path) -> None:
    sha256 = store.register(copy).sha256
    os.utime(copy, ns=(0, 0))
    with pytest.raises(FileNotHere, match=rf"file not here: {sha256[:12]} was .*copy\.gguf"):
        store.weights(FromFile(sha256, (FIRST,)), 0)
    assert store.register(copy).sha256 == sha256
    assert len(store.weights(FromFile(sha256, (FIRST,)), 0)) == 3072


def test_unknown_file_and_unknown_tensor_are_named(store: FileStore) -> None:
    with pytest.raises(FileNotHere, match="file not here: abababababab"):
        store.weights(FromFile("ab" * 32), 0)
    sha256 = store.register(TINY).sha256
    with pytest.raises(BadFile, match="no tensor 'nope'; it has 58 others"):
        store.weights(FromFile(sha256, ("nope",)), 0)


@pytest.mark.parametrize("shape", [(6, 36), (6, 2, 18)])
def test_npy_weights_are_rows_of_bytes(tmp_path: Path, store: FileStore, shape: tuple[int, ...]) -> None:
    blocks = np.arange(216, dtype=np.uint8).reshape(shape)
    np.save(tmp_path / "w.npy", blocks)
    sha256 = store.register(tmp_path / "w.npy").sha256
    assert np.array_equal(store.weights(FromFile(sha256), 0), blocks.reshape(6, 36))
    assert np.array_equal(store.weights(FromFile(sha256, rows=2), 0), blocks.reshape(6, 36)[[0, 5]])


def test_npy_activations_are_float32(tmp_path: Path, store: FileStore) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    assert np.array_equal(store.activations(FromFile(store.register(tmp_path / "x.npy").sha256)), x)


@pytest.mark.parametrize("array", [np.zeros(4), np.zeros((1, 1, 1), np.float32), np.zeros(0, np.float32)])
def test_npy_of_another_type_or_shape_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(BadFile, match="want float32 of 1 or 2 dimensions"):
        load_npy(tmp_path / "x.npy", np.float32, (1, 2))


def test_npy_with_pickled_objects_or_cut_off_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "c.npy", np.zeros(100, np.float32))
    os.truncate(tmp_path / "c.npy", 300)
    for name in ("o.npy", "c.npy"):
        with pytest.raises(BadFile, match="not a readable"):
            load_npy(tmp_path / name, np.float32, (1,))
