"""Cuts a full golden folder to what the tests carry: `python tests/data/trim_golden.py GOLDEN_FOLDER`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from kernels import registry

HERE = Path(__file__).parent
ROWS = [*range(8), *range(56, 64)]  # of 64: eight of real weights, eight synthetic
FINITE_BLOCKS = 64  # of 256
FINITE = {"finite_blocks", "finite_dequant", "finite_y_f64"}
ACTIVATIONS = "activations_q8.npz"
WHOLE = {"edge_blocks", "edge_dequant", "adversarial_blocks", "adversarial_dequant"}
SWEEP = {"scale_sweep_blocks", "scale_sweep_dequant"}  # MXFP4 and NVFP4 have them


def trim(full: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays kept, in a fixed order so that equal input gives an equal file."""
    kept = {name: full[name][ROWS] for name in ("blocks", "dequant", "y_f64")}
    rows_kept = len(full["finite_y_f64"]) * FINITE_BLOCKS // len(full["finite_blocks"])
    for name in sorted(FINITE):
        kept[name] = full[name][: rows_kept if name == "finite_y_f64" else FINITE_BLOCKS]
    for name in sorted((WHOLE | SWEEP) & set(full)):
        kept[name] = full[name]
    return kept | {"x": full["x"], "meta": full["meta"]}


def main(source: Path) -> None:
    (HERE / "golden").mkdir(exist_ok=True)
    for name in registry.kinds():
        with np.load(source / f"{name.lower()}.npz", allow_pickle=False) as archive:
            full = {key: archive[key] for key in archive.files}
        np.savez_compressed(HERE / "golden" / f"{name.lower()}.npz", allow_pickle=False, **trim(full))
    with np.load(source / ACTIVATIONS, allow_pickle=False) as archive:
        kept = {key: archive[key] for key in ("x", "q8_1_ref_blocks", "q8_1_avx2_blocks", "meta")}
    np.savez_compressed(HERE / ACTIVATIONS, allow_pickle=False, **kept)
    for name in ("tiny-mixed", "tiny-q2_0"):
        for ending in (".gguf", ".manifest.json"):
            shutil.copyfile(source / f"{name}{ending}", HERE / f"{name}{ending}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
