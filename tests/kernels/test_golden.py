"""Every kind's decode against what ggml itself decodes, and wrong decodes that this must notice."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import registry
from kernels.kind import Kind
from tests.docs.scale_forms import E4M3, form_of

DATA = Path(__file__).parents[1] / "data"
KINDS = list(registry.kinds().values())
NAMES = [kind.name for kind in KINDS]
SETS = ("", "edge_", "finite_", "adversarial_")

Load = Callable[[str], dict[str, np.ndarray]]
Differing = Callable[[np.ndarray, np.ndarray], int]


def positions_and_differing(
    kind: Kind, arrays: dict[str, np.ndarray], differing: Differing
) -> tuple[int, int]:
    """Weights compared over every set of blocks a kind has, and how many of them are wrong."""
    wanted = {name: arrays[f"{name}dequant"] for name in SETS if f"{name}blocks" in arrays}
    bad = sum(differing(kind.weights(arrays[f"{name}blocks"]), want) for name, want in wanted.items())
    return sum(want.size for want in wanted.values()), bad


def golden_positions(kind: Kind) -> int:
    """16 rows of blocks, 10 of edge_blocks, 64 finite and 64 adversarial blocks; all 16-bit floats."""
    beside = {"F16": 1 << 16, "BF16": 1 << 16, "F32": 0}
    return 26 * 1024 + beside.get(kind.name, 2 * 64 * kind.elements)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_decode_equals_ggml_bit_for_bit(kind: Kind, golden: Load, differing: Differing) -> None:
    arrays = golden(kind.name)
    assert positions_and_differing(kind, arrays, differing) == (golden_positions(kind), 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "F32"], ids=lambda kind: kind.name)
def test_adversarial_blocks_hold_every_class(kind: Kind, golden: Load) -> None:
    want = golden(kind.name)["adversarial_dequant"]
    assert np.isfinite(want).any()
    assert np.isinf(want).any() == (form_of(kind) is not E4M3)
    assert np.isnan(want).any() == form_of(kind).halves  # ggml's E8M0 and E4M3 have no NaN


def test_mxfp4_decodes_every_scale_byte_with_every_code(golden: Load, differing: Differing) -> None:
    arrays = golden("MXFP4")
    blocks, want = arrays["scale_sweep_blocks"], arrays["scale_sweep_dequant"]
    assert sorted(blocks[:, 0]) == list(range(256))
    assert want.shape == (256, 32)
    assert differing(registry.kind("MXFP4").weights(blocks), want) == 0


def test_nvfp4_decodes_every_scale_byte_with_every_code(golden: Load, differing: Differing) -> None:
    arrays = golden("NVFP4")
    blocks, want = arrays["scale_sweep_blocks"], arrays["scale_sweep_dequant"]
    assert sorted(blocks[:, :4].ravel()) == list(range(256))
    assert want.shape == (64, 64)
    assert differing(registry.kind("NVFP4").weights(blocks), want) == 0


@pytest.mark.parametrize("name", ["MXFP4", "NVFP4"])
def test_minus_zero_is_plus_zero_as_in_ggml(name: str) -> None:
    kind = registry.kind(name)
    block = np.full((1, kind.block_bytes), 0x88, np.uint8)  # code 8 in every nibble
    block[0, 0] = 0x38
    w = kind.weights(block)
    assert not w.any()
    assert not np.signbit(w).any()


# Per kind one mistake in its decode, and how many of the compared positions it spoils.
WRONG = {
    "Q1_0": ('bitorder="little"', 'bitorder="big"'),
    "Q2_0": (">> SHIFTS", ">> SHIFTS[::-1]"),
    "Q4_0": ("q -= np.int8(8)", "q = q.reshape(-1, 2, 16)[:, ::-1].reshape(-1, 32) - np.int8(8)"),
    "Q4_1": ("out += half(", "out -= half("),
    "Q5_0": ("fifth <<= 4", "fifth[:, 16:] = fifth[:, 12:28].copy() << 4"),  # qh shifted by 12, not by 16
    "Q5_1": ("q <<= 4", "q[:, 16:] = q[:, 12:28].copy() << 4"),  # the same
    "Q8_0": ('"i1", 32', '"u1", 32'),  # read unsigned
    "Q2_K": ("scales & 0xF", "scales >> 4"),
    "Q3_K": ("third &= 1", "third = ~third & 1"),  # hmask's meaning inverted
    "Q4_K": ("w -= low[:, :, None]", "pass"),  # min dropped
    "Q5_K": (">> BITS", ">> BITS[::-1]"),
    "Q6_K": ('"scales", "i1"', '"scales", "u1"'),  # scales read unsigned
    "TQ1_0": ("rest > 170", "rest > 128"),  # halves for thirds
    "TQ2_0": ("q &= 3", "q &= 1"),
    "F16": ('"<f2"', '">f2"'),
    "BF16": ("np.uint32(16)", "np.uint32(15)"),
    "F32": ('blocks["w"]', 'blocks["w"][:, ::-1]'),
    "IQ4_NL": ("-127, -104", "-104, -127"),
    "IQ4_XS": ("np.arange(0, 16, 2", "np.arange(0, 8, 1"),  # scales_h shifted by one bit a group
    "IQ1_S": ("np.int8(-1), np.int8(1)", "np.int8(1), np.int8(-1)"),  # the eighth's sign inverted
    "IQ1_M": ("(qh & 8,", "(qh & 4,"),
    "IQ2_XXS": ("SHIFTS & 127", "SHIFTS & 63"),
    "IQ2_XS": ("qs >> 9", "qs >> 8 & 127"),
    "IQ2_S": ("SHIFTS & 3", "SHIFTS & 1"),
    "IQ3_XXS": ("np.float32(0.5) + s", "np.float32(1) + s"),
    "IQ3_S": ('bitorder="little"', 'bitorder="big"'),
    "MXFP4": ("6, 8, 12, 0", "6, 8, 16, 0"),
    "NVFP4": ("(exponent, 1) - 11", "(exponent, 1) - 10"),
}


def broken(kind: Kind, right: str, wrong: str) -> Kind:
    """The kind made again from its module with one piece of text changed."""
    text = inspect.getsource(importlib.import_module(kind.decode.__module__))
    assert right in text
    module: dict[str, Kind] = {}
    exec(compile(text.replace(right, wrong, 1), kind.name, "exec"), module)
    return module["KIND"]


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_wrong_decode_is_noticed(kind: Kind, golden: Load, differing: Differing) -> None:
    positions, bad = positions_and_differing(broken(kind, *WRONG[kind.name]), golden(kind.name), differing)
    assert positions == golden_positions(kind)
    assert positions / 20 < bad <= positions


# The kinds that the files were made for; they have tensors of others, too.
WRITTEN = (
    "Q2_K",
    "Q3_K",
    "Q4_0",
    "Q4_K",
    "Q5_0",
    "Q5_K",
    "Q6_K",
    "Q8_0",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
    "Q2_0",
)
FILES = ("tiny-mixed", "tiny-q2_0")
MANIFESTS = [json.loads((DATA / f"{name}.manifest.json").read_text(encoding="utf8")) for name in FILES]
TENSORS = [
    (m["file"], tensor)
    for m in MANIFESTS
    for tensor in m["tensors"]
    if tensor["type"] in NAMES and tensor["ne"][0] % registry.kind(tensor["type"]).elements == 0
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=FILES)
def test_tiny_file_is_that_of_its_manifest(manifest: dict[str, Any]) -> None:
    content = (DATA / manifest["file"]).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (manifest["size"], manifest["sha256"])


def test_tiny_files_have_tensors_of_the_kinds_they_were_made_for() -> None:
    assert len(TENSORS) >= 31
    assert {tensor["type"] for _, tensor in TENSORS} >= set(WRITTEN)


@pytest.mark.parametrize(
    ("file", "tensor"), TENSORS, ids=[f"{file}-{t['name']}-{t['type']}" for file, t in TENSORS]
)
def test_tiny_tensor_decodes_as_ggml_says(file: str, tensor: dict[str, Any]) -> None:
    rows = np.fromfile(DATA / file, np.uint8, tensor["nbytes"], offset=tensor["abs_offset"])
    assert hashlib.sha256(rows.tobytes()).hexdigest() == tensor["sha256"]
    cols, *outer = tensor["ne"]
    w = registry.kind(tensor["type"]).weights(rows.reshape(int(np.prod(outer)), -1))
    assert w.shape == (np.prod(outer), cols)
    assert hashlib.sha256(w.astype("<f4").tobytes()).hexdigest() == tensor["dequant_sha256"]
