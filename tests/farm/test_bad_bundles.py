"""Bundles that are chained well and say what is wrong: one line, exit code 1, and nothing of them is kept."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import Result

from db.session import open_database
from kernels import codec
from kernels.declared.pack import MOST_STREAM_BYTES
from tests.changing import NASTY, at, changed, leaves, nested, of_other_types
from tests.db.making import case, line, rich
from workers import bundle, packs

Farm = Callable[..., Result]
GOOD = codec.canonical(line(case(1)))
LINE = json.loads(codec.canonical(rich()))


def written(bodies: Iterable[str], digest: str = "") -> None:
    """The file `bad`: its lines follow one another as they must, but for a digest of another's choice."""
    text, chain = bundle.line(bundle.header(), bundle.START)
    for body in bodies:
        chain = bundle.link(body, chain)
        text += f'{{"body":{body},"sha256":{digest or json.dumps(chain)}}}\n'
    Path("bad").write_text(text, encoding="ascii")


def refusal(farm: Farm) -> str:
    """What is said of the file `bad`, as one line with exit code 1, a file beside it being good."""
    result = farm("import", "good", "bad")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.stderr[:500]
    told = result.stderr.removesuffix("\n")
    assert told.startswith("farm: bad: ")
    assert told.isprintable()
    assert len(told) < 500
    return told.removeprefix("farm: bad: ")


def count() -> int:
    """Stored lines."""
    database = open_database("sqlite:///.farm/farm.db")
    with database.reading() as s:
        found = s.exec_driver_sql("SELECT count(*) FROM evidence").scalar_one()
    database.close()
    return int(found)


@pytest.fixture(autouse=True)
def good(farm: Farm) -> None:
    """A bundle of one line, in the current folder."""
    Path("good").write_text("".join(bundle.lines([line(case(9))])), encoding="ascii")


def test_a_field_of_another_type_refuses_the_file_by_line_and_name(farm: Farm) -> None:
    tried = list(of_other_types(LINE))
    assert len(tried) == 4 * sum(at(LINE, path) is not None for path in leaves(LINE))
    for path, body in tried:
        written([GOOD, codec.canonical(body)])
        told = refusal(farm)
        assert told.startswith(f"line 3: Evidence.{path[0]}"), (path, told)
        assert told.endswith("; the file is refused")
    assert not Path(".farm").exists()
    assert farm("import", "good").stdout == "good: 1 new, 0 were here already\n"


def test_whatever_a_field_holds_it_is_kept_or_refused_in_one_line(farm: Farm) -> None:
    told, kept = [], 0
    places = [(path, value) for path in leaves(json.loads(GOOD)) for value in NASTY]
    for number, (path, value) in enumerate(places[::3]):
        body = json.loads(GOOD) | {"evidence_id": f"line-{number}"}
        written([codec.canonical(changed(body, path, value))])
        if farm("import", "bad").exit_code == 0:
            kept += 1
        else:
            told.append(refusal(farm))
    assert count() == kept
    assert len(told) > 100
    assert farm("db", "check").exit_code == 0


@pytest.mark.parametrize("levels", [100, 900, 100_000])
def test_levels_over_levels_refuse_the_file(farm: Farm, levels: int) -> None:
    deep = nested(levels)
    for path in leaves(LINE):
        written([GOOD, codec.canonical(changed(LINE, path, "HERE")).replace('"HERE"', deep)])
        assert refusal(farm).startswith(("line 3: Evidence.", "line 3: not a line of evidence; "))
    written([GOOD, deep])
    assert refusal(farm).startswith(("line 3: Evidence: got ", "line 3: not a line of evidence; "))
    written([GOOD], digest=deep)
    assert refusal(farm).startswith(("line 2: digest of another type", "line 2: not a line of evidence; "))
    header = f'{{"format":"{bundle.FORMAT}","version":{deep}}}'
    chained = bundle.link(header, bundle.START)
    Path("bad").write_text(f'{{"body":{header},"sha256":"{chained}"}}\n', encoding="ascii")
    assert refusal(farm).startswith(("line 1: version [[[[", "line 1: not a line of evidence; "))
    assert not Path(".farm").exists()


@pytest.mark.parametrize("digest", ["7", "null", "[]", "{}", '"\\u0007\\u009b2J\\ud800"'])
def test_a_digest_that_is_none_refuses_the_file(farm: Farm, digest: str) -> None:
    written([GOOD], digest)
    assert refusal(farm).startswith("line 2: digest ")


def test_a_field_of_many_megabytes_is_refused_in_a_short_line(farm: Farm) -> None:
    for name in ("backend", "evidence_id", "case_id"):
        written([GOOD, codec.canonical(json.loads(GOOD) | {name: "x" * (17 << 20)})])
        assert refusal(farm)
    assert count() == 0


def test_names_with_sql_in_them_are_kept_as_they_are(farm: Farm) -> None:
    told = line(case(1, kernel="'; DROP TABLE evidence; --"))
    Path("bad").write_text("".join(bundle.lines([told])), encoding="ascii")
    assert farm("import", "bad").exit_code == 0
    assert count() == 1
    assert "'; DROP TABLE evidence; --" in farm("export", "--format", "csv").stdout


def carried(content: bytes, address: str = "") -> str:
    """A line that carries a catalog."""
    address = address or hashlib.sha256(content).hexdigest()
    return codec.canonical({bundle.PACK: address, "content": packs.shipped(content)})


CATALOGS: dict[str, tuple[str, str]] = {
    "no length": (carried(b"rows"), "is no catalog; have it written again"),
    "no number": (carried(b"x k.cu 1\na"), "is no catalog; have it written again"),
    "no UTF-8": (carried(b"4 \xff\xff\xff\xff 1\na"), "is no catalog; have it written again"),
    "a length that leads back": (carried(b"4 k.cu -10\n"), "is no catalog; have it written again"),
    "cut short": (carried(b"4 k.cu 9\nabc"), "is no catalog; have it written again"),
    "an odd number": (carried(b"4 k.cu +1\na"), "is no catalog; have it written again"),
    "files without end": (
        carried(b"".join(b"6 %04d.h 0\n" % n for n in range(1001))),
        "1,001 files, the most",
    ),
    "a path outside": (carried(b"7 ../k.cu 1\na"), "is no file inside the catalog"),
    "nothing declared": (carried(b"4 k.cu 1\na"), "no declaration"),
    "no TOML": (carried(b"6 k.toml 1\n["), "k.toml"),
    "another address": (carried(b"4 k.cu 1\na", "0" * 64), "what came is not catalog 000000000000"),
    "a number": (codec.canonical({bundle.PACK: "0" * 64, "content": 7}), "damaged"),
    "a list for an address": (codec.canonical({bundle.PACK: [7], "content": ""}), "refused"),
}


@pytest.mark.parametrize("what", CATALOGS)
def test_a_catalog_that_is_none_refuses_all_files(farm: Farm, what: str) -> None:
    body, why = CATALOGS[what]
    written([GOOD, body])
    assert why in refusal(farm)
    assert count() == 0


def test_a_catalog_that_would_unpack_to_more_than_one_may_hold_is_refused(farm: Farm) -> None:
    content = base64.b64encode(zlib.compress(bytes(MOST_STREAM_BYTES + 1), 1)).decode("ascii")
    assert len(content) < 1 << 20
    written([codec.canonical({bundle.PACK: "0" * 64, "content": content})])
    assert f"more than {MOST_STREAM_BYTES:,} bytes" in refusal(farm)
