"""inputs: the same bytes everywhere, and of each family what it promises."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tracemalloc
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import inputs, registry
from kernels.compare import MAY_BE_NON_FINITE
from kernels.errors import FarmError, UsageError
from kernels.families import FAMILIES, normal
from kernels.kind import Kind
from kernels.model import Build, Case, FromFile, Layout, Plan, Role, Seeded, Shape, packed
from kernels.op import Operand, Vector
from tests.docs.scale_forms import E4M3, form_of

ROOT = Path(__file__).parents[2]
KINDS = list(registry.kinds().values())
FINITE_FAMILIES = [name for name in FAMILIES if name not in MAY_BE_NON_FINITE]

GOLDEN = {
    "ordinary/Q4_0": "496f278a563a238ff02f0d3c",
    "ordinary/Q6_K": "1ca6fc28f3578457040d4f9a",
    "ordinary/MXFP4": "341a99cab7498f8f479ba127",
    "tiny/Q4_0": "73443234c23f8599ee4920f5",
    "tiny/Q6_K": "5983323edda1712ddbee6fa1",
    "tiny/MXFP4": "f49cced338cbefaf8b988045",
    "onehot/Q4_0": "19591ce884f413b78daa3180",
    "onehot/Q6_K": "47e8c9ee3ad5c214ac83411b",
    "onehot/MXFP4": "f624cbdf036f7675486478a8",
    "sparse/Q4_0": "0ba02bf4c4d016d3c5a7af95",
    "sparse/Q6_K": "3e76f3bea96067d514ea656d",
    "sparse/MXFP4": "121c86b9ea49dd242aa186e7",
    "constant/Q4_0": "3f165bca8ba7f88e5ed13cd7",
    "constant/Q6_K": "bb14d707b47ebd864df57fc4",
    "constant/MXFP4": "868fe38cdda55d3dab7612bd",
    "cancelling/Q4_0": "87dc9b273a5631f2e2cf458b",
    "cancelling/Q6_K": "1722abb3971658db0223fede",
    "cancelling/MXFP4": "2b9231add7646e240993a5d1",
    "specials/Q4_0": "b91554eba37e51450b353617",
    "specials/Q6_K": "15bb70f88dc66a509cb2e655",
    "specials/MXFP4": "4a90fc9923f7601565073e72",
    "large/Q4_0": "f953c65a723742e47fc32a8b",
    "large/Q6_K": "b85a14d407b72223b9ddbebd",
    "large/MXFP4": "83a017e71aa76525eadc9808",
    "heavy_tailed/Q4_0": "d445165a71f2d3cfbad0ee56",
    "heavy_tailed/Q6_K": "8d2f05b23d67d4d3076049d5",
    "heavy_tailed/MXFP4": "63d25eef17ef7660d4bd5f86",
    "extreme/Q4_0": "0a9238a704b9eae7ddf725d2",
    "extreme/Q6_K": "c606e404c97505e98cc4842d",
    "extreme/MXFP4": "85d86a322e10d17c5950c02c",
    "last_row/Q4_0": "3bd10aa4844d1b52c7dc901c",
    "last_row/Q6_K": "77daae1c7b0b6d3fccdde99e",
    "last_row/MXFP4": "e40a42691965db95f2fa452f",
    "specials/batch": "d0c06cee29b912fc860c225a",
    "specials/norm": "070d1ef892a578a618c45b82",
    "specials/gate": "040f5c9be5ce74909a797ef2",
}


def matvec(
    family: str = "ordinary",
    kind: str = "Q4_0",
    rows: int = 9,
    blocks: int = 5,
    seed: int = 1,
    layout: Layout | None = None,
) -> Case:
    source = Seeded(family, seed, inputs.FIXTURE_VERSION)
    shape = Shape.of(rows=rows, cols=blocks * registry.kind(kind).elements)
    return Case("matvec", "block", (kind,), shape, source, source, Build.EXACT, layout or Layout())


def mul_mm(family: str, batch: int, blocks: int = 5) -> Case:
    one = matvec(family, blocks=blocks)
    shape = Shape.of(rows=9, cols=one.shape["cols"], batch=batch)
    return replace(one, op="mul_mm", kernel="reference", shape=shape)


def plan_of(case: Case) -> Plan:
    return registry.kernel(f"{case.op}/{case.kernel}").plan(case)


def made(case: Case, files: inputs.Files | None = None) -> dict[str, np.ndarray]:
    return inputs.images(case, plan_of(case), registry.op(case.op).operands(case), files)


def array(case: Case, name: str, files: inputs.Files | None = None) -> np.ndarray:
    return plan_of(case).buffer(name).view(made(case, files)[name])


def decoded(case: Case) -> np.ndarray:
    with np.errstate(all="ignore"):
        return registry.kind(case.kinds[0]).weights(array(case, "weights")).astype(np.float64)


def vector(family: str, operand: Vector, seed: int = 1) -> np.ndarray:
    """One array of an op without matrices."""
    source = Seeded(family, seed, inputs.FIXTURE_VERSION)
    case = Case("any", "any", (), Shape.of(), source, source, Build.EXACT)
    buffer = packed(operand.name, operand.shape, Role.IN)
    operands: tuple[Operand, ...] = (operand,)
    return buffer.view(inputs.images(case, Plan((buffer,), (), Build.EXACT), operands)[operand.name])


def digests_by(python: str) -> tuple[str, dict[str, str]]:
    """Version of numpy, and the digests under it."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    script = str(Path(__file__).with_name("fixture_digests.py"))
    ran = subprocess.run([python, script], env=env, check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    return found["numpy"], {name: digest[:24] for name, digest in found["digests"].items()}


def test_fixtures_have_their_golden_digests() -> None:
    """A change here is a new FIXTURE_VERSION: evidence about the old bytes must stay repeatable."""
    assert digests_by(sys.executable) == (np.__version__, GOLDEN)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.26.4", "2.1.3"])
def test_fixtures_are_the_same_under_another_numpy(version: str, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=True)
    python = str(tmp_path / "bin" / "python")
    got = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--only-binary=:all:", f"numpy=={version}"],
        capture_output=True,
        check=False,
    )
    if got.returncode:
        pytest.skip(f"numpy {version} can't be installed here: {got.stderr.decode()[-200:]}")
    assert digests_by(python) == (version, GOLDEN)


@settings(deadline=None, max_examples=25)
@given(st.integers(-(2**70), 2**70), st.sampled_from(list(FAMILIES)), st.sampled_from([1, 3, 9]))
def test_equal_keys_give_equal_bytes_whatever_kernel_and_build(seed: int, family: str, blocks: int) -> None:
    case = matvec(family, blocks=blocks, seed=seed)
    other = replace(case, kernel="coalesced", build=Build.DEFAULT)
    assert case.inputs_key == other.inputs_key
    assert inputs.digest(made(case)) == inputs.digest(made(other))


def test_every_seed_family_and_stream_has_bytes_of_its_own() -> None:
    cases = [matvec(family, seed=seed) for family in FAMILIES for seed in range(5)]
    assert len({inputs.digest(made(case)) for case in cases}) == len(cases)
    first, second = (vector("ordinary", Vector(name, (64,))) for name in ("gate", "up"))
    assert not np.intersect1d(first, second).size


def test_a_longer_stream_begins_like_a_shorter_one() -> None:
    whole = inputs.words(5, 3 * inputs.CHUNK + 7)
    assert np.array_equal(whole[: inputs.CHUNK + 1], inputs.words(5, inputs.CHUNK + 1))
    filled = np.empty(8 * inputs.CHUNK + 21, np.uint8)
    inputs.fill(5, filled)
    assert np.array_equal(filled, whole.astype("<u8").view(np.uint8)[: len(filled)])


def test_random_bytes_are_spread_evenly() -> None:
    """Chi-square over 256 values: 255 +- 23, here within 5 deviations."""
    filled = np.empty(1 << 20, np.uint8)
    inputs.fill(1, filled)
    counts = np.bincount(filled, minlength=256)
    assert abs(float(((counts - 4096.0) ** 2 / 4096).sum()) - 255) < 115


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("family", FINITE_FAMILIES)
def test_weights_are_finite_in_all_families_but_those_of_special_scales(kind: Kind, family: str) -> None:
    case = matvec(family, kind.name, blocks=4)
    assert np.isfinite(decoded(case)).all()
    assert np.isfinite(array(case, "x")).all()


def test_ordinary_is_zero_mean_with_deviation_1_and_never_zero() -> None:
    x = normal(inputs.words(3, 1 << 18))
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1) < 0.01
    assert np.abs(x).max() < 3
    assert np.abs(x).min() >= 2.0**-16


def test_tiny_is_ordinary_about_a_thousand_times_smaller() -> None:
    assert np.array_equal(array(matvec("tiny"), "x") * 1024, array(matvec("ordinary"), "x"))


def test_large_is_ordinary_past_the_range_of_float16() -> None:
    x = array(matvec("large"), "x")
    assert np.array_equal(x, array(matvec("ordinary"), "x") * np.float32(2.0**17))
    assert (np.abs(x) > np.finfo(np.float16).max).mean() > 0.5


def test_heavy_tailed_has_outliers_up_to_a_thousand_times_as_large_in_every_vector() -> None:
    x, plain = (np.abs(array(mul_mm(family, 33, 27), "x")) for family in ("heavy_tailed", "ordinary"))
    factors = x / plain
    assert set(np.log2(factors).reshape(-1).tolist()) == {0.0, *range(3, 11)}
    assert 1 / 80 < (factors > 1).mean() < 1 / 50
    assert (factors > 1).any(axis=1).all()


def scale_bits(kind: str, rows: int, family: str = "extreme") -> np.ndarray:
    """(rows, blocks) uint16 or uint8: the bits of every scale."""
    blocks = array(matvec(family, kind, rows, 3), "weights").view(registry.kind(kind).block)
    return blocks["e"] if kind == "MXFP4" else blocks["d"].view(np.uint16)


def test_extreme_rows_have_one_scale_each_and_meet_every_float16_subnormal() -> None:
    bits = scale_bits("Q8_0", 2560)
    assert (bits == bits[:, :1]).all()
    subnormal = set(range(0x0400)) | set(range(0x8000, 0x8400))
    largest = set(range(0x7B00, 0x7C00)) | set(range(0xFB00, 0xFC00))
    assert set(bits[:, 0].tolist()) == subnormal | largest
    assert len(set(scale_bits("Q8_0", 9)[:, 0].tolist()) & subnormal) >= 6


def test_extreme_rows_meet_every_e8m0_byte_in_256() -> None:
    assert sorted(scale_bits("MXFP4", 256)[:, 0].tolist()) == list(range(256))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_extreme_leaves_finite_what_another_matrix_reads(kind: Kind) -> None:
    case = replace(
        matvec("extreme"), op="ffn", kinds=(kind.name,) * 3, shape=Shape.of(hidden=768, inner=1024)
    )
    case = replace(case, scalars=registry.op("ffn").scalars_of(case.kinds))
    for name in ("gate", "up"):
        scale = dict(case.scalars).get(f"{name}_scale", 1.0)
        assert np.abs(kind.weights(array(case, name))).max() * scale < 64


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_last_row_is_the_only_one_that_is_not_zero(kind: Kind) -> None:
    weights = decoded(matvec("last_row", kind.name, rows=9))
    assert not weights[:-1].any()
    assert weights[-1].any()
    padded = matvec("last_row", kind.name, rows=9, layout=Layout(row_padding=2 * kind.lane_align))
    assert np.array_equal(array(padded, "weights"), array(matvec("last_row", kind.name, rows=9), "weights"))


def test_a_long_matrix_is_made_in_place_and_only_its_last_row_drawn() -> None:
    """64 MiB: a second copy, or a draw of every row, would show in what numpy allocates beside the image."""
    case = matvec("last_row", rows=1 + (64 << 20) // 90)
    tracemalloc.start()
    found = made(case)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["weights"].nbytes > 64 << 20
    assert peak < found["weights"].nbytes + (4 << 20)


def test_onehot_has_one_value_a_vector_and_the_first_is_last() -> None:
    x = array(mul_mm("onehot", 33), "x")
    assert (np.count_nonzero(x, axis=1) == 1).all()
    assert x[0, -1] != 0
    assert len(set(np.argmax(x != 0, axis=1).tolist())) > 16


def test_sparse_keeps_one_in_sixteen_and_the_last() -> None:
    x = array(mul_mm("sparse", 33, blocks=27), "x")
    assert 1 / 20 < np.count_nonzero(x) / x.size < 1 / 13
    assert (x[:, -1] != 0).all()


def test_constant_has_one_value_a_vector_and_one_block_a_row() -> None:
    case = mul_mm("constant", 3)
    x = array(case, "x")
    assert (x == x[:, :1]).all()
    assert len(set(x[:, 0].tolist())) == 3
    blocks = array(case, "weights").reshape(9, 5, -1)
    assert (blocks == blocks[:, :1]).all()
    assert len({row.tobytes() for row in blocks}) == 9


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("blocks", [2, 3, 8, 27])
def test_cancelling_leaves_a_small_rest(kind: Kind, blocks: int) -> None:
    case = matvec("cancelling", kind.name, blocks=blocks)
    products = decoded(case) * array(case, "x")
    left = np.abs(products.sum(axis=1)) / np.abs(products).sum(axis=1)
    assert (left < 2.0**-5).all()
    assert (left > 0).any()


def test_cancelling_has_pairs_where_there_is_one_block() -> None:
    x = array(matvec("cancelling", blocks=1), "x")
    assert np.abs(x[1::2] + x[0::2]).max() <= 2.0**-12
    assert (x[1::2] != -x[0::2]).any()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("rows", "blocks"), [(37, 27), (17, 3), (9, 5)])
def test_specials_leave_most_rows_finite_and_some_huge(kind: Kind, rows: int, blocks: int) -> None:
    case = matvec("specials", kind.name, rows, blocks)
    w, x = decoded(case), array(case, "x").astype(np.float64)
    with np.errstate(all="ignore"):
        out = (w * x).sum(axis=1)
    assert np.isfinite(out).mean() >= 0.8
    assert rows < 17 or np.isfinite(out).all() == (form_of(kind) is E4M3)  # which has no Inf and no NaN here
    assert (np.abs(out[np.isfinite(out)]) > 2.0**90).any()
    assert (np.abs(out) < 2.0**40).any()
    assert np.signbit(x[x == 0]).any()
    assert not np.signbit(x[x == 0]).all()


def test_specials_of_one_row_and_one_block_stay_finite() -> None:
    for kind in KINDS:
        case = matvec("specials", kind.name, 1, 1)
        assert np.isfinite(decoded(case) @ array(case, "x").astype(np.float64)).all()


def test_specials_of_a_batch_spoil_every_fourth_vector_only() -> None:
    x = array(mul_mm("specials", 33), "x")
    odd = np.flatnonzero(~(np.abs(x) < 2.0**100).all(axis=1))
    assert odd.tolist() == [1, 5, 9, 13, 17, 21, 25, 29]
    assert np.isnan(x).any()
    assert np.isposinf(x).any()
    assert np.isneginf(x).any()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_specials_leave_finite_what_another_matrix_reads(kind: Kind) -> None:
    """One NaN in an ffn's intermediate would make every output NaN, and huge activations all of them huge."""
    case = replace(
        matvec("specials"), op="ffn", kinds=(kind.name,) * 3, shape=Shape.of(hidden=768, inner=1024)
    )
    x = array(case, "x").astype(np.float64)
    assert np.abs(x).max() < 4
    finite = {}
    for name in ("gate", "up", "down"):
        with np.errstate(all="ignore"):
            weights = kind.weights(array(case, name))
        finite[name] = np.isfinite(weights).all()
    assert finite == {"gate": True, "up": True, "down": form_of(kind) is E4M3}


def test_specials_take_what_the_op_names_in_turn() -> None:
    x = vector("specials", Vector("gate", (16,), specials=(88.0, -math.inf, math.nan)))
    assert x[0] == 88
    assert x[2] == -math.inf
    assert math.isnan(x[4])
    assert x[6] == 88
    assert (np.abs(x[1::2]) < 3).all()


@pytest.mark.parametrize(("seed", "size"), [(0, 2.0**66), (1, 2.0**-66)])
def test_specials_scale_a_whole_array_where_the_op_says_so(seed: int, size: float) -> None:
    x = np.abs(vector("specials", Vector("x", (512,), exponents=(66, -66)), seed))
    assert 0.5 * size < x.mean() < size


def test_norm_weights_are_around_one() -> None:
    w = vector("ordinary", Vector("weights", (4096,), weights=True))
    assert 0.8 < w.min() < w.max() < 1.2
    assert abs(w.mean() - 1) < 0.01


def test_what_is_outside_the_views_is_no_number() -> None:
    case = matvec(layout=Layout(row_padding=64, weights_offset=2, x_offset=4, x_slack=8))
    found, row_bytes = made(case), registry.kind("Q4_0").row_bytes(160)
    assert (found["weights"][:2] == inputs.BEFORE).all()
    rows = found["weights"][2:].reshape(9, row_bytes + 64)
    assert (rows[:, row_bytes:] == 0xFF).all()
    assert np.isnan(found["x"][-32:].view(np.float32)).all()
    assert np.array_equal(array(case, "weights"), array(matvec(), "weights"))
    assert np.array_equal(array(case, "x"), array(matvec(), "x"))


class Held:
    """A worker's files, as arrays."""

    def __init__(self, weights: np.ndarray, activations: np.ndarray) -> None:
        self._weights, self._activations = weights, activations

    def weights(self, source: FromFile, matrix: int) -> np.ndarray:
        return self._weights

    def activations(self, source: FromFile) -> np.ndarray:
        return self._activations


def from_file() -> Case:
    return replace(matvec(rows=2, blocks=1), weights=FromFile("ab" * 32, ("t",)), x=FromFile("cd" * 32))


WEIGHTS = np.arange(36, dtype=np.uint8).reshape(2, 18)
X = np.arange(32, dtype=np.float32)


def test_file_sources_are_taken_as_they_are() -> None:
    files = Held(WEIGHTS, X)
    assert np.array_equal(array(from_file(), "weights", files), WEIGHTS)
    assert np.array_equal(array(from_file(), "x", files), X)


@pytest.mark.parametrize(
    ("weights", "x", "reason"),
    [
        (WEIGHTS[:1], X, "weight buffer too small: got 18 bytes, want 36 for 2 rows"),
        (WEIGHTS[:, :17], X, "row_bytes: got 17, want 18 for 32 columns of Q4_0"),
        (WEIGHTS.astype(np.int8), X, "weights from file abababababab: got int8, want uint8"),
        (WEIGHTS, X[:31], "activation buffer too small: got 31 float32, want 32"),
        (WEIGHTS, X.astype(np.float64), "x from file cdcdcdcdcdcd: got float64, want float32"),
        (WEIGHTS, X.reshape(2, 16), "x: got rows of 16, want 32"),
    ],
)
def test_a_file_that_is_too_small_is_refused_with_got_and_want(
    weights: np.ndarray, x: np.ndarray, reason: str
) -> None:
    with pytest.raises(inputs.Unfit, match=reason):
        made(from_file(), Held(weights, x))


def test_of_a_larger_file_the_front_is_taken() -> None:
    files = Held(np.vstack([WEIGHTS, WEIGHTS]), np.append(X, X))
    assert np.array_equal(array(from_file(), "weights", files), WEIGHTS)
    assert np.array_equal(array(from_file(), "x", files), X)


def test_a_file_with_several_activations_is_split_in_their_order() -> None:
    case = replace(from_file(), kinds=(), weights=matvec().weights)
    operands = Vector("gate", (16,)), Vector("up", (16,))
    buffers = tuple(packed(name, (16,), Role.IN) for name in ("gate", "up"))
    found = inputs.images(case, Plan(buffers, (), Build.EXACT), operands, Held(WEIGHTS, X))
    assert np.array_equal(found["up"].view(np.float32), X[16:])


def test_norm_weights_come_from_a_file_as_float32_bytes() -> None:
    case = replace(from_file(), kinds=(), x=matvec().x)
    operands: tuple[Operand, ...] = (Vector("weights", (9,), weights=True),)
    plan = Plan((packed("weights", (9,), Role.IN),), (), Build.EXACT)
    found = inputs.images(case, plan, operands, Held(WEIGHTS.reshape(1, 36), X))
    assert np.array_equal(found["weights"], WEIGHTS.reshape(-1))


def test_a_file_case_without_files_is_refused() -> None:
    with pytest.raises(FarmError, match="file abababababab is not here"):
        made(from_file())


def test_an_unknown_family_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="no family named 'dense'; there are ordinary, tiny"):
        made(matvec("dense"))


def test_another_fixture_version_is_refused() -> None:
    with pytest.raises(FarmError, match="fixture version is 9, this farm makes 1"):
        made(replace(matvec(), x=Seeded("ordinary", 1, 9)))


def test_the_digest_sees_one_bit_a_name_and_a_border() -> None:
    base = {"a": np.zeros(8, np.uint8), "b": np.zeros(4, np.uint8)}
    bit = {"a": np.eye(1, 8, 3, np.uint8)[0], "b": base["b"]}
    others = (bit, {"a": base["b"], "b": base["a"]}, {"a": base["a"], "c": base["b"]}, {"a": base["a"]})
    assert len({inputs.digest(found) for found in (base, *others)}) == 5


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_says_what_it_detects(family: str) -> None:
    assert len(FAMILIES[family].detects) > 20
