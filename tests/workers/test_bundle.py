"""Evidence on disk: chained, synced, and refused when damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.declared.pack import Pack
from kernels.errors import FarmError
from kernels.evidence import Evidence, Verdict
from tests.workers.cases import matvec_case, request_for
from workers import bundle, packs
from workers.bundle import DamagedBundle
from workers.runner import ended
from workers.spool import Spool


def evidence(number: int) -> Evidence:
    request = replace(request_for(matvec_case()), evidence_id=f"id-{number}")
    return ended(request, Verdict.ERROR, f"reason {number}", 1, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A bundle of three lines of evidence."""
    path = tmp_path / "b.jsonl"
    writer = bundle.Writer(path)
    for number in range(3):
        writer.append(evidence(number))
    writer.close()
    return path


def test_read_gives_back_what_was_appended(path: Path) -> None:
    found = bundle.read(path)
    assert found.evidence == tuple(evidence(number) for number in range(3))
    assert (found.torn, found.nbytes) == ("", path.stat().st_size)


def test_lines_are_the_same_when_written_at_once(path: Path) -> None:
    assert "".join(bundle.lines(evidence(number) for number in range(3))) == path.read_text()


@pytest.mark.parametrize("kept", [1, 40, -2, -1])
def test_torn_last_line_is_dropped_and_reported(path: Path, kept: int) -> None:
    *whole, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole) + last[:kept])
    found = bundle.read(path)
    assert len(found.evidence) == 2
    assert found.torn == f"{path}: line 4: torn after {len(last[:kept])} bytes, dropped"


def test_writer_goes_on_behind_the_last_whole_line_when_one_is_torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    writer = bundle.Writer(path)
    writer.append(evidence(7))
    writer.close()
    assert [item.evidence_id for item in bundle.read(path).evidence] == ["id-0", "id-1", "id-7"]


@pytest.mark.parametrize("number", range(4))
def test_file_is_refused_with_its_line_when_one_byte_is_changed(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(0, len(lines[number]) - 1, 37):
        changed = bytearray(lines[number])
        changed[at] ^= 1
        path.write_bytes(b"".join([*lines[:number], bytes(changed), *lines[number + 1 :]]))
        with pytest.raises(DamagedBundle, match=f"line {number + 1}:"):
            bundle.read(path)


def test_file_is_refused_when_a_number_is_written_otherwise(path: Path) -> None:
    text = path.read_text()
    assert '"finished_us":' in text
    path.write_text(text.replace('"finished_us":', '"finished_us": ', 1))
    with pytest.raises(DamagedBundle, match="line 2:"):
        bundle.read(path)


@pytest.mark.parametrize("order", [(0, 2, 3), (0, 2, 1, 3), (1, 2, 3), (0, 1, 1, 2, 3)])
def test_file_is_refused_when_lines_are_missing_moved_or_doubled(path: Path, order: tuple[int, ...]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(DamagedBundle):
        bundle.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: an empty file"),
        (b"{", "line 1: no whole line"),
        (b"hello\n", "line 1: not a line of evidence"),
        (b"[]\n", "line 1: not a line of evidence"),
        (b"\xff\xfe\n", "line 1: not a line of evidence"),
        (b'{"body":' * 20_000 + b"\n", "line 1: not a line of evidence"),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DamagedBundle, match=message):
        bundle.read(tmp_path / "x")


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_without_an_end_in_sight_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    longest = max(map(len, path.read_bytes().splitlines(keepends=True)))
    monkeypatch.setattr(bundle, "MOST_LINE_BYTES", longest)
    assert len(bundle.read(path).evidence) == 3
    path.write_text(path.read_text() + "x" * longest + "x" + end)
    with pytest.raises(DamagedBundle, match=f"line 5: more than {longest:,} bytes, the most"):
        bundle.read(path)


def test_other_versions_and_formats_are_refused(tmp_path: Path) -> None:
    for body, message in (
        ({**bundle.header(), "version": 2}, "version 2, want 1"),
        ({"format": "recipe"}, "not a kernel-farm evidence file"),
    ):
        (tmp_path / "x").write_text(bundle.line(body, bundle.START)[0])
        with pytest.raises(DamagedBundle, match=message):
            bundle.read(tmp_path / "x")


def test_evidence_is_refused_when_its_case_is_not_the_one_it_names(tmp_path: Path) -> None:
    forged = replace(evidence(0), case_id="0" * 64)
    (tmp_path / "x").write_text("".join(bundle.lines([forged])))
    with pytest.raises(DamagedBundle, match="line 2: case id 000000000000 is not its case's"):
        bundle.read(tmp_path / "x")


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="nope: No such file or directory"):
        bundle.read(tmp_path / "nope")


def test_every_line_is_json_on_its_own(path: Path) -> None:
    assert [set(json.loads(text)) for text in path.read_text().splitlines()] == [{"body", "sha256"}] * 4


def test_spool_gives_back_unacknowledged_lines_when_opened_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.jsonl")
    for number in range(3):
        spool.append(evidence(number))
    spool.acknowledge(["id-1"])
    spool.close()
    again = Spool(tmp_path / "s.jsonl")
    assert [item.evidence_id for item in again.pending()] == ["id-0", "id-2"]
    again.close()


def test_spool_shrinks_when_most_lines_are_acknowledged(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.jsonl", rotate_bytes=1)
    for number in range(4):
        spool.append(evidence(number))
    before = spool_bytes(tmp_path)
    spool.acknowledge(["id-0", "id-1"])
    assert spool_bytes(tmp_path) == before
    spool.acknowledge(["id-2"])
    assert spool_bytes(tmp_path) < before / 2
    assert [item.evidence_id for item in spool.pending()] == ["id-3"]
    spool.append(evidence(5))
    assert len(bundle.read(tmp_path / "s.jsonl").evidence) == 2
    spool.close()


def spool_bytes(folder: Path) -> int:
    return (folder / "s.jsonl").stat().st_size


def test_spool_begins_anew_when_its_header_was_torn(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(b'{"body":{"form')
    spool = Spool(tmp_path / "s.jsonl")
    assert spool.pending() == ()
    spool.close()


def test_second_agent_is_refused_while_the_first_has_the_board(tmp_path: Path) -> None:
    first = Spool(tmp_path / "s.jsonl")
    with pytest.raises(FarmError, match="another agent works for this board"):
        Spool(tmp_path / "s.jsonl")
    first.close()
    Spool(tmp_path / "s.jsonl").close()


PACK = Pack.of({"k.toml": b'name = "k"\n', "k.cu": b"// text\n"})


def test_a_bundle_carries_a_catalog_once(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    for number in range(2):
        writer = bundle.Writer(path)
        writer.carry(PACK)
        writer.append(evidence(number))
        writer.close()
    found = bundle.read(path)
    assert found.packs == (PACK,)
    assert found.evidence == (evidence(0), evidence(1))


def test_a_catalog_that_is_not_what_its_address_says_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    text, chain = bundle.line(bundle.header(), bundle.START)
    other = packs.shipped(PACK.to_bytes() + b"x")
    line, _ = bundle.line({bundle.PACK: PACK.address, "content": other}, chain)
    path.write_text(text + line)
    with pytest.raises(DamagedBundle, match=r"line 2: what came is not catalog"):
        bundle.read(path)
