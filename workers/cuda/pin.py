"""Ties a process to one board by its UUID before CUDA is there, and looks whether that is what it got."""

from __future__ import annotations

from collections.abc import MutableMapping

from workers.backend import BoardFault
from workers.cuda.libcuda import bare

MASK = "CUDA_VISIBLE_DEVICES"
# What changes how CUDA or CuPy behave, set for whatever ran here before: a worker has none of it.
# CUDA_INJECTION64_PATH stays: compute-sanitizer comes in by it.
DROPPED = (
    "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUPY_ACCELERATORS", "CUPY_CUDA_COMPILE_WITH_DEBUG",
    "CUPY_GPU_MEMORY_LIMIT", "CUPY_TF32", "NVIDIA_TF32_OVERRIDE",
)  # fmt: skip


def clean(environ: MutableMapping[str, str], uuid: str) -> None:
    """Leaves the environment with that board alone; to be called before CUDA is."""
    for name in DROPPED:
        environ.pop(name, None)
    environ[MASK] = uuid


def demand(seen: tuple[str, ...], uuid: str) -> None:
    """BoardFault unless the process sees that board and no other."""
    if [bare(name) for name in seen] == [bare(uuid)]:
        return
    there = ", ".join(seen) or "none"
    raise BoardFault(
        f"this process should see board {uuid} alone and sees {there}: CUDA was called before it was pinned, "
        f"or the board is gone"
    )
