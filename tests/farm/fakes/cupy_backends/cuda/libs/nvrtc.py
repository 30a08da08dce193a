"""Plays NVRTC: a cubin is the flags and the text."""

from __future__ import annotations

import os


class NVRTCError(RuntimeError):
    pass


class Program:
    def __init__(self, text: str) -> None:
        self.text, self.flags = text, ""


def getSupportedArchs() -> list[int]:
    return [90] if os.environ["BOARD"] == "unknown" else [75, 86]


def createProgram(text: str, name: str, headers: list[bytes], names: list[bytes]) -> Program:
    assert len(headers) == len(names)
    return Program(text)


def compileProgram(program: Program, flags: tuple[str, ...]) -> None:
    program.flags = " ".join(flags)
    if os.environ["BOARD"] in LOGS:
        raise NVRTCError("NVRTC_ERROR_COMPILATION")


LOGS = {
    "refused": "k.cu(3): error: expected a ;",
    "no header": 'k.cu(1): catastrophic error: could not open source file "cuda_fp16.h"',
}


def getProgramLog(program: Program) -> str:
    return f"a warning\n{LOGS[os.environ['BOARD']]}"


def getCUBIN(program: Program) -> bytes:
    return f"{program.flags}\n{program.text}".encode()
