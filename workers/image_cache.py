"""Keeps the latest memory images, so that neighbouring cases over the same bytes make them once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels import inputs, registry
from kernels.model import Case, Plan

LIMIT_BYTES = 256 << 20  # a process; one set of images may be larger, and is then the only one kept


@dataclass(frozen=True)
class Images:
    """The input buffers of a case by name, read-only, and their digest."""

    by_name: Mapping[str, np.ndarray]  # (nbytes,) uint8 each
    digest: str

    @property
    def nbytes(self) -> int:
        return sum(image.nbytes for image in self.by_name.values())


class ImageCache:
    """Images by inputs key, the least recently used one out first."""

    def __init__(self, files: inputs.Files, limit_bytes: int = LIMIT_BYTES) -> None:
        self._files = files
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[str, Images] = OrderedDict()
        self._nbytes = 0  # of all that is kept

    def images(self, case: Case, plan: Plan) -> Images:
        """The case's inputs; raises what the file store raises for a file that isn't here."""
        key = case.inputs_key
        if key not in self._kept:
            self._kept[key] = self._make(case, plan)
            self._nbytes += self._kept[key].nbytes
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and self._nbytes > self._limit_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._nbytes -= oldest.nbytes
        return self._kept[key]

    def _make(self, case: Case, plan: Plan) -> Images:
        operands = registry.op(case.op).operands(case)
        by_name = inputs.images(case, plan, operands, self._files)
        for image in by_name.values():
            image.flags.writeable = False
        return Images(by_name, inputs.digest(by_name))
