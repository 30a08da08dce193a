"""Long matrices: one of their zero rows stands for all, so that truth and twin cost what the rest costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernels.op import JudgedOp, Step, Truth

FROM_BYTES = 64 << 20  # of weights; below that, looking for zero rows isn't worth it


@dataclass(frozen=True)
class Thinned:
    """A step over some of its weight rows, and where each row of the whole one is among them."""

    step: Step
    row: np.ndarray | None  # (all rows,) int64; None where nothing was left out

    def spread(self, outputs: np.ndarray) -> np.ndarray:
        """(…, some rows) -> (…, all rows)."""
        return outputs if self.row is None else outputs[..., self.row]

    def truth(self, found: Truth) -> Truth:
        """The whole step's truth."""
        if self.row is None:
            return found
        scale = None if found.scale is None else self.spread(found.scale)
        want, limit, by_twin = map(self.spread, (found.want, found.limit, found.by_twin))
        return replace(found, want=want, limit=limit, by_twin=by_twin, scale=scale)


def thinned(op: JudgedOp, step: Step, from_bytes: int = FROM_BYTES) -> Thinned:
    """The step with one zero row, where its matrix is long, has several, and outputs depend on a row each.

    Zero bytes are zero weights in every kind.
    """
    weights = step.arrays.get("weights")
    if not op.row_wise or step.kind is None or weights is None or weights.nbytes < from_bytes:
        return Thinned(step, None)
    full = weights.any(axis=1)
    kept = np.flatnonzero(full)
    if len(kept) >= len(weights) - 1:
        return Thinned(step, None)
    row = np.full(len(weights), len(kept), np.int64)
    row[kept] = np.arange(len(kept))
    return Thinned(with_rows(step, np.append(kept, np.argmin(full))), row)


def with_rows(step: Step, rows: np.ndarray) -> Step:
    """The step over these of its weight rows."""
    return replace(step, arrays={**step.arrays, "weights": step.arrays["weights"][rows]})
