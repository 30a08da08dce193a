"""Cases from a file's tensors, and the reasons of those that make none."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from hypothesis import given
from hypothesis import strategies as st

from farm import gguf_cases
from farm.gguf_cases import Choice
from farm.one_case import Words, from_words
from kernels import registry
from kernels.evidence import Verdict
from kernels.model import Build, FromFile, Shape
from workers import backend as backends
from workers.files import FileStore, Held, sample_rows
from workers.gguf_file import Tensor, read_gguf
from workers.image_cache import ImageCache
from workers.machine import cpu_device
from workers.request import Request
from workers.runner import new_id, run_case

TINY = Path(__file__).parents[1] / "data" / "tiny-mixed.gguf"
KERNELS = tuple(registry.all_kernels())
ALL = Choice(KERNELS, tuple(registry.kinds()), (Build.EXACT,))


def file_of(*tensors: tuple[str, str, int, int]) -> Held:
    """A file with tensors of name, kind, rows and columns; no byte of it is read."""
    return Held("ab" * 32, "model.gguf", 0, 0, tuple(Tensor(*tensor, 0, 0) for tensor in tensors))


def layer(gate: str, up: str, down: str, rows: int = 512) -> Held:
    return file_of(
        ("blk.7.ffn_gate.weight", gate, 512, 256),
        ("blk.7.ffn_up.weight", up, rows, 256),
        ("blk.7.ffn_down.weight", down, 256, 512),
    )


def of_op(op: str, kind: str) -> set[str]:
    """The ids of an op's kernels that exist for a kind."""
    return {
        kernel.id for kernel in registry.built_in().values() if kernel.op == op and kernel.serves((kind,))
    }


def test_a_matrix_has_a_case_for_every_matvec_kernel() -> None:
    found = gguf_cases.cases(file_of(("a", "Q4_K", 300, 256)), ALL)
    assert {f"{case.op}/{case.kernel}" for case in found} == of_op("matvec", "Q4_K")
    assert {case.x_dtype for case in found} == {"f32", "f16", "bf16"}
    assert {case.shape for case in found} == {Shape.of(rows=300, cols=256)}


def test_a_large_matrix_is_sampled_and_says_so() -> None:
    case = gguf_cases.cases(file_of(("a", "Q4_K", 3000, 256)), ALL)[0]
    assert case.shape == Shape.of(rows=512, cols=256)
    assert case.weights == FromFile("ab" * 32, ("a",), 512)


def test_a_batch_adds_mul_mm() -> None:
    choice = Choice(KERNELS, ("Q4_K",), (Build.EXACT,), batch=33)
    found = gguf_cases.cases(file_of(("a", "Q4_K", 3, 256)), choice)
    batched = {f"mul_mm/{case.kernel}": str(case.shape) for case in found if case.op == "mul_mm"}
    exact = {name for name in of_op("mul_mm", "Q4_K") if Build.EXACT in registry.kernel(name).builds}
    assert batched == dict.fromkeys(exact, "3x256x33")


def test_a_batch_over_float16_adds_a_gemm_in_its_own_build() -> None:
    choice = Choice(KERNELS, ("F16",), (), batch=33)
    found = [case for case in gguf_cases.cases(file_of(("a", "F16", 3, 256)), choice) if case.op == "gemm"]
    assert [(str(case.shape), case.x_dtype, case.build) for case in found] == [
        ("3x256x33", "f16", Build.DEFAULT)
    ]


def test_a_layer_makes_an_ffn_of_its_own_kinds() -> None:
    found = [case for case in gguf_cases.cases(layer("Q4_K", "Q4_K", "Q6_K"), ALL) if case.op == "ffn"]
    assert {case.kernel for case in found} == {"block", "coalesced"}
    assert found[0].kinds == ("Q4_K", "Q4_K", "Q6_K")
    assert found[0].shape == Shape.of(hidden=256, inner=512)
    assert found[0].weights == FromFile(
        "ab" * 32, tuple(f"blk.7.ffn_{p}.weight" for p in ("gate", "up", "down"))
    )


def attention(q: str, k: str, v: str, v_rows: int = 128) -> Held:
    return file_of(
        ("blk.7.attn_q.weight", q, 512, 256),
        ("blk.7.attn_k.weight", k, 128, 256),
        ("blk.7.attn_v.weight", v, v_rows, 256),
    )


def test_a_layers_q_k_and_v_make_a_multi_matvec_of_their_own_kinds() -> None:
    every = gguf_cases.cases(attention("Q4_K", "Q4_K", "Q6_K"), ALL)
    found = [case for case in every if case.op == "multi_matvec"]
    assert {case.kernel for case in found} == {"block", "coalesced"}
    assert found[0].kinds == ("Q4_K", "Q4_K", "Q6_K")
    assert found[0].shape == Shape.of(q_rows=512, kv_rows=128, cols=256)
    assert found[0].weights == FromFile("ab" * 32, tuple(f"blk.7.attn_{p}.weight" for p in "qkv"))


def test_k_and_v_of_different_rows_are_listed() -> None:
    held = attention("Q4_K", "Q4_K", "Q6_K", v_rows=64)
    assert "multi_matvec" not in {case.op for case in gguf_cases.cases(held, ALL)}
    (told,) = gguf_cases.listed(held, ALL.kinds)
    assert told.name == "blk.7.multi_matvec"
    assert told.reason.endswith("q 512x256, k 128x256, v 64x256")


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (layer("Q4_K", "I8", "I16"), "no kernels for I8"),
        (layer("Q4_K", "Q4_K", "Q6_K", rows=768), "gate 512x256, up 768x256, down 256x512"),
    ],
)
def test_a_layer_that_cannot_run_is_listed_with_its_first_reason(held: Held, reason: str) -> None:
    (last,) = [item for item in gguf_cases.listed(held, ALL.kinds) if item.name == "blk.7.ffn"]
    assert reason in last.reason
    assert not [case for case in gguf_cases.cases(held, ALL) if case.op == "ffn"]


def mixture(name: str, experts: int = 8, rows: int = 96, top_k: int = 3) -> Held:
    tensor = Tensor(name, "Q4_K", experts * rows, 256, 0, 0, dims=3, experts=experts, top_k=top_k)
    return Held("ab" * 32, "model.gguf", 0, 0, (tensor,))


@pytest.mark.parametrize(
    ("name", "rows", "batch", "shape", "sampled"),
    [
        ("blk.0.ffn_up_exps.weight", 0, 0, "96x256x8x3x1x1", 0),
        ("blk.0.ffn_down_exps.weight", 0, 0, "96x256x8x3x1x3", 0),
        ("blk.0.ffn_gate_exps.weight", 512, 33, "64x256x8x3x33x1", 512),
        ("blk.0.ffn_gate_exps.weight", 5, 0, "1x256x8x3x1x1", 8),
        ("blk.0.ffn_gate_exps.weight", 1000, 0, "96x256x8x3x1x1", 0),
    ],
)
def test_experts_make_mul_mat_id_cases_with_as_many_rows_of_each(
    name: str, rows: int, batch: int, shape: str, sampled: int
) -> None:
    choice = Choice(KERNELS, ("Q4_K",), (Build.EXACT,), rows=rows, batch=batch)
    found = [case for case in gguf_cases.cases(mixture(name), choice) if case.op == "mul_mat_id"]
    assert {case.kernel for case in found} == {"block", "coalesced"}
    assert {str(case.shape) for case in found} == {shape}
    assert {case.weights for case in found} == {FromFile("ab" * 32, (name,), sampled)}


def test_a_file_that_does_not_say_how_many_experts_a_token_takes_gets_two() -> None:
    found = gguf_cases.cases(mixture("blk.0.ffn_up_exps.weight", top_k=0), ALL)
    assert {case.shape["top_k"] for case in found if case.op == "mul_mat_id"} == {2}


@given(experts=st.integers(2, 64), every=st.integers(1, 300), data=st.data())
def test_rows_sampled_over_all_experts_are_as_many_of_each(
    experts: int, every: int, data: st.DataObject
) -> None:
    of_each = data.draw(st.integers(1, every))
    taken = sample_rows(experts * every, experts * of_each)
    assert np.array_equal(taken // every, np.repeat(np.arange(experts), of_each))


def test_an_incomplete_layer_is_no_layer() -> None:
    held = file_of(("blk.0.ffn_gate.weight", "Q4_K", 512, 256), ("blk.0.ffn_up.weight", "Q4_K", 512, 256))
    assert {case.op for case in gguf_cases.cases(held, ALL)} == {"matvec"}
    assert gguf_cases.listed(held, ALL.kinds) == ()


def test_every_tensor_of_a_file_runs_or_is_listed() -> None:
    held = Held("ab" * 32, str(TINY), 0, 0, read_gguf(TINY))
    run = {name for case in gguf_cases.cases(held, ALL) for name in case.weights.tensors}
    told = {item.name for item in gguf_cases.listed(held, ALL.kinds)} & {t.name for t in held.tensors}
    runs = sum(tensor.kind in ALL.kinds and tensor.dims > 1 for tensor in held.tensors)
    assert (len(held.tensors), len(run), len(told)) == (58, runs, 58 - runs)
    assert runs >= 30
    assert not run & told


SCALED = "blk.5.attn_output"
MANIFEST = json.loads(TINY.with_suffix(".manifest.json").read_text(encoding="utf8"))


def scaled_file(scale_kind: str = "F32", scale_count: int = 1, kind: str = "NVFP4") -> Held:
    return file_of(("a.weight", kind, 64, 128), ("a.scale", scale_kind, 1, scale_count))


def test_a_tensors_scale_is_the_files_own() -> None:
    held = Held("ab" * 32, str(TINY), 0, 0, read_gguf(TINY))
    found = [c for c in gguf_cases.cases(held, ALL) if c.weights.tensors == (f"{SCALED}.weight",)]
    tensor = next(tensor for tensor in held.tensors if tensor.name == f"{SCALED}.scale")
    content = TINY.read_bytes()[tensor.offset : tensor.offset + 4]
    scale = float(np.frombuffer(content, "<f4")[0])
    assert 1e-5 < scale < 1e-3
    assert {case.scalars for case in found} == {(("weights_scale", scale),)}


def test_evidence_is_the_scale_times_what_ggml_decodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    store, out = FileStore(), tmp_path / "y.npy"
    np.save(tmp_path / "x.npy", np.linspace(-1, 2, 256, dtype=np.float32))
    words = Words("matvec/block", x=str(tmp_path / "x.npy"), gguf=str(TINY), tensors=(f"{SCALED}.weight",))
    case = from_words(words, store)
    request = Request(new_id(), case, "twin", cpu_device(), output=str(out))
    evidence = run_case(request, backends.backend("twin"), ImageCache(store))
    assert (evidence.verdict, evidence.reason) == (Verdict.PASS, "")

    tensor = next(tensor for tensor in gguf.GGUFReader(TINY).tensors if tensor.name == f"{SCALED}.weight")
    w = dequantize(np.array(tensor.data), gguf.GGMLQuantizationType.NVFP4)
    told = next(one for one in MANIFEST["tensors"] if one["name"] == f"{SCALED}.weight")
    assert hashlib.sha256(w.astype("<f4").tobytes()).hexdigest() == told["dequant_sha256"]
    x = np.linspace(-1, 2, 256, dtype=np.float32).astype(np.float64)
    scale = dict(case.scalars)["weights_scale"]
    want, magnitude = scale * (w.astype(np.float64) @ x), scale * (np.abs(w.astype(np.float64)) @ np.abs(x))
    assert (np.abs(np.load(out) - want) <= 1e-5 * magnitude).all()
    assert np.abs(want).max() > 100 * scale  # it is far from what the blocks alone give


def test_a_tensor_without_a_scale_has_one() -> None:
    (case, *_) = gguf_cases.cases(file_of(("a.weight", "NVFP4", 64, 128)), ALL)
    assert case.scalars == (("weights_scale", 1.0),)


def test_a_scale_is_listed_as_what_it_is() -> None:
    (listed,) = gguf_cases.listed(Held("", str(TINY), 0, 0, scaled_file().tensors), ALL.kinds)
    assert (listed.name, listed.reason) == ("a.scale", "the scale of a.weight, an argument of its kernels")


def test_a_scale_beside_weights_that_take_none_is_an_ordinary_tensor() -> None:
    reasons = {item.name: item.reason for item in gguf_cases.listed(scaled_file(kind="Q4_0"), ("Q4_0",))}
    assert reasons == {"a.scale": "no kernels for F32"}


@pytest.mark.parametrize(
    ("kind", "count", "got"), [("F32", 8, "a.scale is 8 F32"), ("F16", 1, "a.scale is 1 F16")]
)
def test_weights_with_another_scale_than_one_float_are_listed(kind: str, count: int, got: str) -> None:
    held = scaled_file(kind, count)
    reasons = {item.name: item.reason for item in gguf_cases.listed(held, ALL.kinds)}
    assert reasons["a.weight"] == f"{got}, want one F32: kernels take one scale for a tensor"
    assert gguf_cases.cases(held, ALL) == ()


def test_norm_weights_are_no_matrix_whatever_their_kind() -> None:
    norm = Tensor("output_norm.weight", "Q8_0", 1, 256, 0, 272, dims=1)
    held = Held("ab" * 32, "model.gguf", 0, 0, (norm,))
    assert gguf_cases.cases(held, ALL) == ()
    (told,) = gguf_cases.listed(held, ALL.kinds)
    assert told.reason == "one dimension: norm weights or a bias, not a matrix"
