"""Special scales through the CUDA text on the host: the lines of docs/SPECIALS.md, and wrong texts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels import registry, source
from kernels.compare import FINITE, MINUS_INF, NAN, PLUS_INF, classes
from kernels.model import Build
from tests.docs import specials
from tests.docs.scale_forms import E4M3, E8M0, form_of
from tests.docs.specials import ACTIVATION, BUILDS, WAYS, Product, Row, differing
from workers.backend import Unavailable
from workers.backends.host import Host
from workers.host import compiler

NAMES = list(registry.kinds())
HALF_NAMES = [name for name in NAMES if form_of(registry.kind(name)).halves]
ROWS = specials.all_rows()
every_way = pytest.mark.parametrize(("kernel_id", "build"), WAYS, ids=lambda value: str(value))
every_kind = pytest.mark.parametrize("name", NAMES)

LARGEST_HALF = float(np.finfo(np.float16).max)
SUBNORMALS = np.concatenate([np.arange(0x0001, 0x0400), np.arange(0x8001, 0x8400)])


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    try:
        compiler.find()
    except Unavailable as why:
        pytest.skip(str(why))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def assert_right(product: Product, build: Build, at: slice = slice(None)) -> None:
    """Its twin's bits in the exact build; class and bound in both."""
    assert (product.ratio[at] <= 1).all()
    assert (classes(product.got[at]) == classes(product.want[at])).all()
    if build is Build.EXACT:
        assert differing(product.got[at], product.twin[at]) == 0


@every_way
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.kind.name}-{row.number}" for row in ROWS])
def test_a_special_block_times_activations_is_right(row: Row, kernel_id: str, build: Build) -> None:
    at = row.number - specials.SPECIAL.start
    assert_right(specials.specials_product(kernel_id, build, row.kind.name), build, slice(at, at + 1))


@every_way
@every_kind
def test_a_row_of_one_sign_has_the_class_of_its_scale(name: str, kernel_id: str, build: Build) -> None:
    product = specials.one_sign_product(kernel_id, build, name)
    assert_right(product, build)
    found = set(classes(product.got).tolist())
    has_min = "dmin" in (registry.kind(name).block.names or ())
    half = {FINITE, NAN} if has_min else {FINITE, NAN, PLUS_INF, MINUS_INF}  # Inf - Inf where both are Inf
    form = form_of(registry.kind(name))
    assert found == (half if form.halves else {E8M0: {FINITE, MINUS_INF}, E4M3: {FINITE}}[form])


def onehot(kernel_id: str, build: Build, name: str, matrix: np.ndarray, host: Host) -> Product:
    """Only the first weight of a row counts."""
    kind = registry.kind(name)
    x = np.zeros(kind.elements, np.float32)
    x[0] = 1
    return specials.product(kernel_id, build, kind, matrix, x, host)


@every_way
@pytest.mark.parametrize("name", HALF_NAMES)
def test_no_subnormal_half_is_flushed(name: str, kernel_id: str, build: Build) -> None:
    matrix = specials.one_sign(registry.kind(name), SUBNORMALS)
    got = onehot(kernel_id, build, name, matrix, Host()).got
    want = registry.kind(name).weights(matrix)[:, 0]
    assert np.count_nonzero(want) == 2046
    assert np.array_equal(got, want)


@every_way
def test_every_e8m0_byte_is_a_power_of_two(kernel_id: str, build: Build) -> None:
    matrix = specials.one_sign(registry.kind("MXFP4"), np.arange(256), fill=0x11)  # code 1: one half
    got = onehot(kernel_id, build, "MXFP4", matrix, Host()).got
    assert np.array_equal(got, np.ldexp(1.0, np.arange(256) - 128))


@every_way
@every_kind
def test_sums_beyond_float16_stay_finite(name: str, kernel_id: str, build: Build) -> None:
    product = specials.sums_product(kernel_id, build, name)
    assert (np.abs(product.want) > LARGEST_HALF).all()
    assert_right(product, build)
    assert np.isfinite(product.got).all()


def changed(old: str, new: str) -> Host:
    """The host backend with one piece of every text replaced."""

    def text(kernel_id: str, kind: str) -> str:
        right = source.text(kernel_id, kind)
        assert old in right
        return right.replace(old, new)

    return Host(text)


HALF_READ = "return __host_half_to_float(bits);"
FLUSHED_HALF = "return bits & 0x7C00 ? __host_half_to_float(bits) : 0.0f;"


@pytest.mark.parametrize("build", BUILDS, ids=str)
@pytest.mark.parametrize("name", ["Q4_0", "Q4_K"])
def test_a_text_that_flushes_subnormal_halves_is_noticed(name: str, build: Build) -> None:
    host = changed(HALF_READ, FLUSHED_HALF)
    matrix = specials.one_sign(registry.kind(name), SUBNORMALS)
    product = onehot("matvec/block", build, name, matrix, host)
    assert not product.got.any()
    assert (product.ratio > 1).all()


SCALE = "bits_to_float(e < 2 ? 0x00200000u << e : (e - 1) << 23)"


@pytest.mark.parametrize(
    ("wrong", "noticing"),
    [
        (f"(e < 2 ? 0.0f : {SCALE})", {0, 1}),  # as with float32 subnormals flushed
        (f"(e == 255 ? bits_to_float(0x7FC00000u) : {SCALE})", {255}),  # as the OCP format has it
        ("bits_to_float((e - 1) << 23)", {0, 1}),
    ],
)
def test_a_text_with_another_e8m0_is_noticed_at_its_bytes(wrong: str, noticing: set[int]) -> None:
    matrix = specials.one_sign(registry.kind("MXFP4"), np.arange(256), fill=0x11)
    product = onehot("matvec/coalesced", Build.EXACT, "MXFP4", matrix, changed(SCALE, wrong))
    assert set(np.flatnonzero(product.ratio > 1).tolist()) == noticing


def through_half(name: str) -> Product:
    """Sums that overflow where float16 would."""
    overflow = "if (__builtin_fabsf(sum) >= 65520.0f) sum *= bits_to_float(0x7F800000u);"
    host = changed("sum += w[i] * xs[i];", f"{{ sum += w[i] * xs[i]; {overflow} }}")
    kind = registry.kind(name)
    x = np.full(kind.elements, ACTIVATION, np.float32)
    return specials.product("matvec/block", Build.EXACT, kind, specials.sums_matrix(kind), x, host)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_K", "Q5_K"])
def test_a_text_that_sums_in_float16_is_noticed(name: str) -> None:
    product = through_half(name)
    assert not np.isfinite(product.got).any()
    assert (product.ratio > 1).all()
