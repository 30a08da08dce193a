"""A data set of FlashInfer-Bench, written into a folder: what GPUs ran, and nothing else."""

from __future__ import annotations

from farm.exports import FolderExport
from farm.flashinfer_data import dataset

EXPORT = FolderExport("flashinfer-trace", dataset)
