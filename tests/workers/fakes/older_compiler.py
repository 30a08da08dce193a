"""The backend `cuda` with a compiler older than the board: for tests on a real board, in a child."""

from __future__ import annotations

from dataclasses import replace

from workers.backends.cuda import Cuda
from workers.cuda import probe
from workers.nvrtc import library
from workers.nvrtc.library import Nvrtc


def find_nvrtc() -> Nvrtc:
    """The installed one without the architectures of boards here and newer; whole where that leaves none."""
    found = library.find()
    sm = min(board.sm for board in probe.ask_driver().boards)
    return replace(found, archs=tuple(arch for arch in found.archs if arch < sm) or found.archs)


BACKEND = Cuda(find_nvrtc=find_nvrtc, name="older_compiler")
