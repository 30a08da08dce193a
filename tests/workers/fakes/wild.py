"""The backend `cuda` with a kernel that goes wild for some kinds: for tests on a real board, in a child."""

from __future__ import annotations

from dataclasses import replace

from workers.backends.cuda import Cuda
from workers.nvrtc import library
from workers.nvrtc.library import Compiled, Nvrtc

# By the kind that the text's first line names.
DOES = {
    "Q8_0": "*(volatile int *)16 = 1;",
    "Q5_0": "while (true) __threadfence();",
    "Q5_1": "__trap();",
    "Q6_K": "(void)((volatile const unsigned char *)x)[4 * cols];",
    "Q4_1": "((volatile float *)out)[-1 - (int)threadIdx.x] = 1.0f;",
}


def compile_text(text: str, name: str, flags: tuple[str, ...], entry: str = "") -> Compiled:
    kind = text.split("\n", 1)[0].rpartition(" ")[2]
    body = text.index("{", text.index("__global__")) + 1
    wild = f"{text[:body]} {DOES.get(kind, '')} {text[body:]}"
    return library.compile_text(wild, name, flags, entry)


def find_nvrtc() -> Nvrtc:
    """Under another version, so that nothing of it is ever found in the real compiler's cache."""
    return replace(library.find(), version=(library.find().version[0], 99))


BACKEND = Cuda(compile_text=compile_text, find_nvrtc=find_nvrtc, name="wild")
