"""mul_mm/tiled: as mul_mm/reference, in larger padded tiles; the next one is staged while one is multiplied.

Every element's columns are added in the same order, so that the bits are the reference's. What bounds it is
written in docs/FLOOR.md.
"""

from __future__ import annotations

from kernels.kind import Kind
from kernels.model import Layout, Shape
from kernels.op import Workload
from kernels.ops.mul_mm.reference import Reference, Tile

PAD = 4  # floats from column to column: what is stored is spread over the banks, float4s stay aligned


class Tiled(Reference):
    name = "tiled"
    body = "tiled.cu"
    tile = Tile(rows=128, tokens=128, columns=16, threads=256)
    static_shared_bytes = 2 * 4 * 16 * (128 + PAD + 128 + PAD)

    def constants(self, kind: Kind | None) -> dict[str, int]:
        assert kind is not None  # every kind's text is its own
        tile = self.tile
        sizes = {"BM": tile.rows, "BN": tile.tokens, "BK": tile.columns, "PAD": PAD, "THREADS": tile.threads}
        return sizes | {"PIECES": kind.elements // tile.columns}

    def quick(self, kinds: tuple[Kind, ...]) -> tuple[Workload, ...]:
        """Activations that no 16-byte load takes."""
        shape = Shape.of(rows=5, cols=2 * kinds[0].elements, batch=3)
        return (Workload(shape, layout=Layout(x_offset=4)),)


KERNEL = Tiled()
