"""Cuts a full golden folder to what the tests carry: `python tests/data/trim_golden.py GOLDEN_FOLDER`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from kernels import registry
from kernels.kind import Kind

HERE = Path(__file__).parent
ROWS = [*range(8), *range(56, 64)]  # of 64: eight of real weights, eight synthetic; floats have 16 rows
FINITE_BLOCKS = 64  # of 256
FINITE = {"finite_blocks", "finite_dequant", "finite_y_f64"}
ACTIVATIONS = "activations_q8.npz"
WHOLE = {"edge_blocks", "edge_dequant", "adversarial_blocks", "adversarial_dequant"}
SWEEP = {"scale_sweep_blocks", "scale_sweep_dequant"}  # MXFP4 and NVFP4 have them


def trim(full: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays kept, in a fixed order so that equal input gives an equal file."""
    rows = ROWS if len(full["blocks"]) == 64 else slice(None)
    kept = {name: full[name][rows] for name in ("blocks", "dequant", "y_f64")}
    for name in sorted(FINITE & set(full)):
        rows_kept = len(full["finite_y_f64"]) * FINITE_BLOCKS // len(full["finite_blocks"])
        kept[name] = full[name][: rows_kept if name == "finite_y_f64" else FINITE_BLOCKS]
    for name in sorted((WHOLE | SWEEP) & set(full)):
        kept[name] = full[name]
    return kept | {"x": full["x"], "meta": full["meta"]}


def regrouped(full: dict[str, np.ndarray], kind: Kind) -> dict[str, np.ndarray]:
    """Floats, whose block in ggml is one weight, as blocks of the kind's size."""
    if full["blocks"].shape[-1] == kind.block_bytes:
        return full
    made = dict(full)
    for name in ("blocks", "edge_blocks"):
        if name in full:
            made[name] = full[name].reshape(len(full[name]), -1, kind.block_bytes)
    if "adversarial_blocks" in full:
        made["adversarial_blocks"] = full["adversarial_blocks"].reshape(-1, kind.block_bytes)
        made["adversarial_dequant"] = full["adversarial_dequant"].reshape(-1, kind.elements)
    return made


def main(source: Path) -> None:
    (HERE / "golden").mkdir(exist_ok=True)
    for name, kind in registry.kinds().items():
        with np.load(source / f"{name.lower()}.npz", allow_pickle=False) as archive:
            full = {key: archive[key] for key in archive.files}
        np.savez_compressed(
            HERE / "golden" / f"{name.lower()}.npz", allow_pickle=False, **trim(regrouped(full, kind))
        )
    with np.load(source / ACTIVATIONS, allow_pickle=False) as archive:
        kept = {key: archive[key] for key in ("x", "q8_1_ref_blocks", "q8_1_avx2_blocks", "meta")}
    np.savez_compressed(HERE / ACTIVATIONS, allow_pickle=False, **kept)
    for name in ("tiny-mixed", "tiny-q2_0"):
        for ending in (".gguf", ".manifest.json"):
            shutil.copyfile(source / f"{name}{ending}", HERE / f"{name}{ending}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
