"""Cases from the words of `farm run`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

from farm.one_case import Words, from_json, from_words
from farm.one_case_text import scalar_words
from kernels import codec, registry
from kernels.errors import FarmError, UsageError
from kernels.evidence import Verdict
from kernels.model import Build, Case, FromFile, Seeded, Shape
from workers.backends.twin import BACKEND as TWIN
from workers.files import FileStore
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import run_case

MIX = ("Q4_K+Q4_K+Q6_K", "256x512")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "files")


@pytest.fixture
def blocks(tmp_path: Path) -> str:
    """7 rows of 3 blocks of Q4_0."""
    np.save(tmp_path / "blocks.npy", np.zeros((7, 3, 18), np.uint8))
    return str(tmp_path / "blocks.npy")


def test_a_kernel_a_kind_and_a_shape_make_a_seeded_case(store: FileStore) -> None:
    case = from_words(Words("matvec/block", ("q4_0", "7x96"), Build.DEFAULT, "sparse", 5), store)
    assert (case.kinds, case.shape) == (("Q4_0",), Shape.of(rows=7, cols=96))
    assert (case.build, case.x) == (Build.DEFAULT, Seeded("sparse", 5, 1))


def test_an_op_without_kinds_takes_a_shape_alone(store: FileStore) -> None:
    case = from_words(Words("rmsnorm/block", ("769",)), store)
    assert (case.kinds, case.shape["n"]) == ((), 769)
    assert dict(case.scalars).keys() == {"eps"}


@pytest.mark.parametrize("kernel", list(registry.all_kernels()))
def test_every_kernel_can_be_named(kernel: str, store: FileStore) -> None:
    op = registry.op(registry.kernel(kernel).op)
    kind = next(
        (one for one in registry.kinds() if registry.kernel(kernel).serves((one,) * len(op.matrices))), ""
    )
    shape = "x".join(["256"] * sum(axis.default is None for axis in op.axes))
    rest = (kind, shape) if op.matrices else (shape,)
    case = from_words(Words(kernel, rest, build=registry.kernel(kernel).builds[0]), store)
    assert op.refuses(case) == ""
    assert from_json(codec.canonical(case)) == case


def test_blocks_give_the_shape(store: FileStore, blocks: str) -> None:
    case = from_words(Words("matvec/block", ("Q4_0",), weights=blocks), store)
    assert case.shape == Shape.of(rows=7, cols=96)
    assert isinstance(case.weights, FromFile)
    assert store.held(case.weights.sha256).path == blocks


def test_activations_give_the_batch(store: FileStore, blocks: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 96), np.float32))
    words = Words("mul_mm/reference", ("Q4_0",), weights=blocks, x=str(tmp_path / "x.npy"))
    assert from_words(words, store).shape == Shape.of(rows=7, cols=96, batch=5)


GGUF = str(Path(__file__).parents[1] / "data" / "tiny-mixed.gguf")
QKV = tuple(f"blk.0.attn_{part}.weight" for part in "qkv")


def test_tensors_of_a_layer_give_shape_and_kinds(store: FileStore) -> None:
    case = from_words(Words("multi_matvec/block", gguf=GGUF, tensors=QKV), store)
    assert case.shape == Shape.of(q_rows=256, kv_rows=128, cols=256)
    assert case.kinds == ("Q4_K", "Q4_K", "Q6_K")
    assert isinstance(case.weights, FromFile)
    assert case.weights.tensors == QKV


@pytest.mark.parametrize(("kernel", "tensors"), [("ffn/block", QKV), ("multi_matvec/block", QKV[::-1])])
def test_tensors_that_do_not_fit_one_another_are_refused(
    store: FileStore, kernel: str, tensors: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match=r"no shape of .* has these as .*: blk.0.attn_.*x256"):
        from_words(Words(kernel, gguf=GGUF, tensors=tensors), store)


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    """Four experts of 6 rows of 64 columns of Q8_0, three of them for a token."""
    writer = GGUFWriter(tmp_path / "mixture.gguf", "qwen3moe")
    writer.add_expert_used_count(3)
    blocks = np.random.default_rng(1).integers(0, 256, (4, 6, 68), np.uint8)
    blocks.view(registry.kind("Q8_0").block)["d"] = 0.25
    for name in ("blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"):
        writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "mixture.gguf"


@pytest.mark.parametrize(("part", "x_rows"), [("up", 1), ("down", 3)])
def test_experts_of_a_file_pass_with_the_slots_that_it_names(
    store: FileStore, mixture: Path, part: str, x_rows: int
) -> None:
    tensors = (f"blk.0.ffn_{part}_exps.weight",)
    case = from_words(Words("mul_mat_id/block", gguf=str(mixture), tensors=tensors, rows=5, batch=2), store)
    assert str(case.shape) == f"5x64x4x3x2x{x_rows}"
    ran = run_case(Request("a", case, "twin", TWIN.devices()[0]), TWIN, ImageCache(store))
    assert ran.comparison is not None
    assert (ran.verdict, ran.comparison.positions) == (Verdict.PASS, 2 * 3 * 5)


def test_a_matrix_alone_makes_no_mixture(store: FileStore, blocks: str) -> None:
    with pytest.raises(
        UsageError, match="a matrix alone has no experts, which mul_mat_id needs: mul_mat_id:ROWS"
    ):
        from_words(Words("mul_mat_id/block", ("Q4_0",), weights=blocks), store)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (Words("matvec/block"), "KIND SHAPE"),
        (Words("matvec/block", ("Q4_0",)), "KIND SHAPE"),
        (Words("matvec/block", ("Q4_0", "1x32", "1x32")), "KIND SHAPE"),
        (Words("rmsnorm/block", ("Q4_0", "32")), "SHAPE"),
        (Words("matvec/block", ("Q9_Z", "1x32")), "no kind named 'Q9_Z'"),
        (Words("matvec/blck", ("Q4_0", "1x32")), "no kernel named 'matvec/blck'"),
        (Words("matvec/block", ("Q4_0", "1y32")), "'1y32'"),
        (Words("matvec/block", ("Q4_0+Q6_K", "1x256")), "2 kinds"),
        (Words("matvec/block", ("Q4_0", "1x32"), family="odd"), "no family named 'odd'"),
        (Words("matvec/block", ("Q4_0", "1x32"), gguf="no.gguf", tensors=("a",)), "alone"),
        (Words("matvec/block", gguf="no.gguf"), "one --tensor"),
        (Words("rmsnorm/block", gguf="no.gguf", tensors=("a",)), "reads a matrix"),
        (Words("matvec/block", gguf="no.gguf", tensors=("a",)), "no.gguf"),
        (Words("matvec/block", ("Q4_0",), weights="no.npy"), "no.npy"),
        (Words("rmsnorm/block", weights="no.npy"), "one matrix"),
    ],
)
def test_wrong_words_are_named(words: Words, says: str, store: FileStore) -> None:
    with pytest.raises(FarmError, match=says):
        from_words(words, store)


def test_blocks_of_another_kind_are_refused(store: FileStore, blocks: str) -> None:
    with pytest.raises(UsageError, match=r"\(rows, blocks, 22\) for Q5_0"):
        from_words(Words("matvec/block", ("Q5_0",), weights=blocks), store)


def test_activations_of_another_size_are_refused(store: FileStore, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(95, np.float32))
    words = Words("matvec/block", ("Q4_0", "7x96"), x=str(tmp_path / "x.npy"))
    with pytest.raises(UsageError, match=r"got float32 \(95,\), want x \(96,\)"):
        from_words(words, store)


def changed(**fields: object) -> str:
    case = Case("matvec", "block", ("Q4_0",), Shape.of(rows=1, cols=32), Seeded("ordinary", 0, 1),
                Seeded("ordinary", 0, 1), Build.EXACT)  # fmt: skip
    return codec.canonical(replace(case, **fields))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        json.dumps({**json.loads(changed()), "extra": 1}),
        json.dumps({**json.loads(changed()), "build": "slow"}),
        changed(kinds=()),
        changed(kinds=("q4_0",)),
        changed(shape=Shape.of(n=3)),
        changed(op="matmul"),
        changed(x=Seeded("odd", 0, 1)),
    ],
)
def test_json_that_is_no_case_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        from_json(text)


def test_weights_without_a_scale_have_one_and_seeded_ones_another(store: FileStore, tmp_path: Path) -> None:
    np.save(tmp_path / "nvfp4.npy", np.zeros((7, 3, 36), np.uint8))
    given = from_words(Words("matvec/block", ("NVFP4",), weights=str(tmp_path / "nvfp4.npy")), store)
    seeded = from_words(Words("matvec/block", ("NVFP4", "7x192")), store)
    assert given.scalars == (("weights_scale", 1.0),)
    assert scalar_words(seeded) == "weights_scale 0.0013"
