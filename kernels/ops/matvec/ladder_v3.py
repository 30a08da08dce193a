"""matvec/ladder_v3: as ladder_v2, with the activations of 64 blocks at a time in shared memory."""

from __future__ import annotations

from kernels.kind import Kind
from kernels.ops.matvec._ladder import ELEMENTS, TILE
from kernels.ops.matvec.ladder_v2 import LadderV2

STRIDE = ELEMENTS + 1  # floats from block to block of a tile: lanes then read different banks


class LadderV3(LadderV2):
    name = "ladder_v3"
    body = "ladder_v3.cu"
    static_shared_bytes = 4 * TILE * STRIDE

    def constants(self, kind: Kind | None) -> dict[str, int]:
        return super().constants(kind) | {"STRIDE": STRIDE}


KERNEL = LadderV3()
