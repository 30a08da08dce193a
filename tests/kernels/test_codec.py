"""codec: what is written is read back the same, and what isn't what the type says is refused by field."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import codec
from kernels.codec import CodecError, canonical, decode, digest, encode
from kernels.errors import FarmError
from kernels.evidence import Comparison, Evidence, LaunchRecord, Rule, Verdict, Worst
from kernels.model import Build, Case, Device, FromFile, Layout, Seeded, Shape

text = st.text(max_size=8)
names = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
whole = st.integers(0, 2**63)
number = st.floats()
pairs = st.lists(st.tuples(names, number), max_size=3).map(tuple)
words = st.lists(st.tuples(text, text), max_size=2).map(tuple)
grids = st.tuples(whole, whole, whole)
seeded = st.builds(Seeded, text, st.integers(), whole)
from_file = st.builds(FromFile, text, st.lists(text, max_size=2).map(tuple), whole)
sources = seeded | from_file
shapes = st.lists(st.tuples(names, whole), max_size=3).map(lambda axes: Shape(tuple(axes)))
layouts = st.builds(Layout, whole, whole, whole, whole)
cases = st.builds(
    Case, text, text, st.lists(text, max_size=3).map(tuple), shapes, sources, sources,
    st.sampled_from(Build), layouts, pairs, text, text,
)  # fmt: skip
worsts = st.builds(
    Worst, whole, text, text, st.lists(whole, max_size=2).map(tuple), number, number, number, number, text
)
ranked = st.lists(st.tuples(whole, number), max_size=4).map(tuple)
comparisons = st.builds(
    Comparison, st.sampled_from(Verdict), text, text, whole, whole, number, number, st.booleans(), number,
    st.booleans(), st.booleans(), st.none() | worsts, ranked
)  # fmt: skip
devices = st.builds(Device, text, text, text, text, whole, words)
records = st.builds(LaunchRecord, text, text, grids, grids, whole, whole, text, number)
evidences = st.builds(
    Evidence, text, cases, text, text, text, text, devices, text, st.sampled_from(Verdict), text,
    st.none() | comparisons, whole, st.lists(records, max_size=2).map(tuple), text, text, whole, whole, words,
    text, st.sampled_from(Rule), st.none() | st.sampled_from(Verdict), st.lists(text, max_size=2).map(tuple),
    pairs, text, text,
)  # fmt: skip

quick = settings(deadline=None, max_examples=60)

CASE = Case(
    op="matvec",
    kernel="block",
    kinds=("Q4_0",),
    shape=Shape.of(rows=37, cols=864),
    weights=Seeded("ordinary", 1, 1),
    x=FromFile("ab" * 32, ("t",), 8),
    build=Build.EXACT,
    scalars=(("eps", 1e-5),),
)
COMPARISON = Comparison(
    verdict=Verdict.FAIL,
    reason="element (3,) …",
    judge="oracle",
    positions=37,
    bad=1,
    bound_ratio=math.inf,
    relative_ratio=0.5,
    nan_positions_equal=False,
    nmse=math.nan,
    bit_exact=False,
    twin_agrees=True,
    worst=Worst(0, "matvec/block", "out", (3,), math.nan, 1.0, 1.0, 1e-6, "00ff"),
    worst_rows=((3, math.inf),),
)
EVIDENCE = Evidence(
    evidence_id="e",
    case=CASE,
    case_id=CASE.id,
    source_digest="s",
    inputs_digest="i",
    output_digest="o",
    device=Device("cpu", "cpu-x86_64", "A CPU", "u", 2, (("cores", "2"),)),
    backend="host",
    verdict=Verdict.FAIL,
    reason="r",
    comparison=COMPARISON,
    repeats=3,
    launches=(LaunchRecord("matvec/block", "entry", (37, 1, 1), (256, 1, 1), 0, 1024, "d", 12.5),),
    compiler="c++",
    flags="-O2",
    started_us=1,
    finished_us=2,
    versions=(("numpy", "2"),),
    rule=Rule.RELATIVE,
    rule_verdict=Verdict.PASS,
)


def through_json(value: Any) -> Any:
    """As it arrives: by way of text."""
    return decode(type(value), json.loads(canonical(value)))


@quick
@given(cases)
def test_any_case_comes_back_with_the_same_id(case: Case) -> None:
    back = through_json(case)
    assert repr(back) == repr(case)  # repr: NaN scalars are equal in it
    assert back.id == case.id


@quick
@given(evidences)
def test_any_evidence_comes_back_nan_and_inf_included(evidence: Evidence) -> None:
    assert repr(through_json(evidence)) == repr(evidence)


def test_an_evidence_with_a_failed_comparison_comes_back() -> None:
    back = through_json(EVIDENCE)
    assert back.comparison.bound_ratio == math.inf
    assert math.isnan(back.comparison.worst.got)
    assert digest(back) == digest(EVIDENCE)


def test_canonical_json_is_sorted_ascii_and_without_nan() -> None:
    found = canonical(COMPARISON)
    assert found.isascii()
    assert list(json.loads(found)) == sorted(json.loads(found))
    assert '"bound_ratio":"inf"' in found
    assert '"nmse":"nan"' in found
    assert " " not in canonical(CASE)


def test_a_source_says_which_of_the_two_it_is() -> None:
    found = encode(CASE)
    assert list(found["weights"]) == ["Seeded"]
    assert list(found["x"]) == ["FromFile"]
    assert found["shape"] == [["rows", 37], ["cols", 864]]


def test_defaults_may_be_left_out() -> None:
    data = encode(CASE)
    for name in ("layout", "scalars", "x_dtype", "out_dtype"):
        del data[name]
    assert decode(Case, data) == dataclasses.replace(CASE, scalars=())


def required(cls: type) -> list[str]:
    return [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]


@pytest.mark.parametrize(
    ("value", "name"),
    [(value, name) for value in (CASE, EVIDENCE, COMPARISON) for name in required(type(value))],
)
def test_a_missing_field_is_named(value: Any, name: str) -> None:
    data = encode(value)
    del data[name]
    with pytest.raises(CodecError, match=f"^{type(value).__name__}.{name}: got 'nothing', want a value"):
        decode(type(value), data)


@pytest.mark.parametrize("value", [CASE, EVIDENCE, COMPARISON], ids=lambda value: type(value).__name__)
def test_a_wrong_value_is_refused_in_every_field(value: Any) -> None:
    """A complex object is right for no field; its place is named."""
    for name in encode(value):
        data = encode(value) | {name: {"no": ["such", "thing"]}}
        with pytest.raises(CodecError, match=f"^{type(value).__name__}.{name}[.: ]"):
            decode(type(value), data)


@pytest.mark.parametrize(
    ("path", "wrong", "where", "want"),
    [
        ((), [], "Evidence", "an object"),
        ((), None, "Evidence", "an object"),
        (("more",), 1, "Evidence", "no field besides evidence_id"),
        (("verdict",), "MISS", "Evidence.verdict", "one of FAIL, CRASH"),
        (("verdict",), None, "Evidence.verdict", "one of FAIL, CRASH"),
        (("repeats",), True, "Evidence.repeats", "a whole number"),
        (("repeats",), 3.0, "Evidence.repeats", "a whole number"),
        (("repeats",), "3", "Evidence.repeats", "a whole number"),
        (("reason",), 3, "Evidence.reason", "str"),
        (("launches",), "x", "Evidence.launches", "a list"),
        (("launches", 0, "grid"), [1, 2], "Evidence.launches[0].grid", "3 items"),
        (("launches", 0, "grid", 1), "1", "Evidence.launches[0].grid[1]", "a whole number"),
        (("launches", 0, "elapsed_us"), "fast", "Evidence.launches[0].elapsed_us", "a number"),
        (("comparison", "nmse"), True, "Evidence.comparison.nmse", "a number"),
        (("comparison", "bit_exact"), 1, "Evidence.comparison.bit_exact", "bool"),
        (("comparison", "worst", "index"), 3, "Evidence.comparison.worst.index", "a list"),
        (("comparison", "worst_rows", 0), [1], "Evidence.comparison.worst_rows[0]", "2 items"),
        (("case", "build"), "fast", "Evidence.case.build", "one of exact, default"),
        (("case", "shape"), {"rows": 1}, "Evidence.case.shape", "a list"),
        (("case", "shape", 1), ["cols"], "Evidence.case.shape[1]", "2 items"),
        (("case", "weights"), {}, "Evidence.case.weights", "one of Seeded, FromFile"),
        (("case", "weights"), {"Random": {}}, "Evidence.case.weights", "one of Seeded, FromFile"),
        (("case", "weights", "Seeded", "seed"), "1", "Evidence.case.weights.Seeded.seed", "a whole number"),
        (("case", "x", "FromFile", "tensors"), None, "Evidence.case.x.FromFile.tensors", "a list"),
        (("case", "layout", "pitch"), 1, "Evidence.case.layout", "no field besides row_padding"),
        (("device", "fingerprint", 0), "ab", "Evidence.device.fingerprint[0]", "a list"),
        (("rule_verdict",), "GOOD", "Evidence.rule_verdict", "one of FAIL"),
    ],
)
def test_malformed_json_is_refused_naming_the_field(
    path: tuple[Any, ...], wrong: Any, where: str, want: str
) -> None:
    data = changed(encode(EVIDENCE), path, wrong)
    with pytest.raises(CodecError) as refused:
        decode(Evidence, data)
    assert str(refused.value).startswith(f"{where}: got ")
    assert f", want {want}" in str(refused.value)
    assert isinstance(refused.value, FarmError)


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """`data` with the value at `path` replaced, or added."""
    if not path:
        return value
    head, *rest = path
    inner = data[head] if rest else None
    data[head] = changed(inner, tuple(rest), value)
    return data


@given(
    st.recursive(
        st.none() | st.booleans() | number | text,
        lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    )
)
@quick
def test_no_json_breaks_the_decoder(data: Any) -> None:
    """Anything is either refused with one line or is a value of the type."""
    for cls in (Case, Evidence, Comparison, Seeded, Shape):
        assert isinstance(decoded(cls, data), cls) or refused(cls, data).startswith(cls.__name__)


def decoded(cls: type, data: Any) -> Any:
    try:
        return decode(cls, data)
    except CodecError:
        return None


def refused(cls: type, data: Any) -> str:
    with pytest.raises(CodecError) as caught:
        decode(cls, data)
    return str(caught.value)


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(CodecError) as refused:
        decode(Case, "x" * 10_000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1])
def test_numbers_keep_their_bits(value: float) -> None:
    worst = dataclasses.replace(EVIDENCE.comparison.worst, got=value)
    got = decode(Worst, json.loads(canonical(worst))).got
    assert repr(got) == repr(value)


def test_a_digest_is_sha256_of_the_canonical_text() -> None:
    assert digest(Shape.of(rows=1)) == digest((("rows", 1),))
    assert len(digest(CASE)) == 64
    assert codec.digest(CASE) != codec.digest(EVIDENCE)


@dataclasses.dataclass(frozen=True)
class Grown:
    first: int
    added: str = codec.later("")


def test_a_later_field_shows_only_where_it_is_not_its_default() -> None:
    assert codec.canonical(Grown(1)) == '{"first":1}'
    assert codec.canonical(Grown(1, "x")) == '{"added":"x","first":1}'
    assert [codec.decode(Grown, codec.encode(one)) for one in (Grown(1), Grown(1, "x"))] == [
        Grown(1),
        Grown(1, "x"),
    ]
