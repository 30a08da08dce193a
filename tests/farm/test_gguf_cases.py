"""Cases from a file's tensors, and the reasons of those that make none."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm import gguf_cases
from farm.gguf_cases import Choice
from kernels import registry
from kernels.model import Build, FromFile, Shape
from workers.files import Held
from workers.gguf_file import Tensor, read_gguf

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


def test_a_matrix_has_a_case_for_every_matvec_kernel() -> None:
    found = gguf_cases.cases(file_of(("a", "Q4_K", 300, 256)), ALL)
    assert {(case.op, case.kernel) for case in found} == {("matvec", "block"), ("matvec", "coalesced")}
    assert {case.shape for case in found} == {Shape.of(rows=300, cols=256)}


def test_a_large_matrix_is_sampled_and_says_so() -> None:
    case = gguf_cases.cases(file_of(("a", "Q4_K", 3000, 256)), ALL)[0]
    assert case.shape == Shape.of(rows=512, cols=256)
    assert case.weights == FromFile("ab" * 32, ("a",), 512)


def test_a_batch_adds_mul_mm() -> None:
    choice = Choice(KERNELS, ("Q4_K",), (Build.EXACT,), batch=33)
    found = gguf_cases.cases(file_of(("a", "Q4_K", 3, 256)), choice)
    assert [str(case.shape) for case in found if case.op == "mul_mm"] == ["3x256x33"]


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
        (layer("Q4_K", "IQ2_XS", "IQ3_S"), "no kernels for IQ2_XS"),
        (layer("Q4_K", "Q4_K", "Q6_K", rows=768), "gate 512x256, up 768x256, down 256x512"),
    ],
)
def test_a_layer_that_cannot_run_is_listed_with_its_first_reason(held: Held, reason: str) -> None:
    (last,) = [item for item in gguf_cases.listed(held, ALL.kinds) if item.name == "blk.7.ffn"]
    assert reason in last.reason
    assert not [case for case in gguf_cases.cases(held, ALL) if case.op == "ffn"]


def test_an_incomplete_layer_is_no_layer() -> None:
    held = file_of(("blk.0.ffn_gate.weight", "Q4_K", 512, 256), ("blk.0.ffn_up.weight", "Q4_K", 512, 256))
    assert {case.op for case in gguf_cases.cases(held, ALL)} == {"matvec"}
    assert gguf_cases.listed(held, ALL.kinds) == ()


def test_every_tensor_of_a_file_runs_or_is_listed() -> None:
    held = Held("ab" * 32, str(TINY), 0, 0, read_gguf(TINY))
    run = {name for case in gguf_cases.cases(held, ALL) for name in case.weights.tensors}  # type: ignore[union-attr]
    told = {item.name for item in gguf_cases.listed(held, ALL.kinds)} & {t.name for t in held.tensors}
    assert (len(held.tensors), len(run), len(told)) == (58, 29, 29)
    assert not run & told
