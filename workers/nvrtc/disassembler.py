"""NVIDIA's disassembler, where its package is installed: machine code's instructions as values."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from itertools import accumulate
from pathlib import Path

from kernels.errors import FarmError

PACKAGE = "nvidia-cuda-nvdisasm"
LACKING = f"no disassembler: {PACKAGE} isn't installed"
TIMEOUT_S = 60.0
INSTRUCTION_BYTES = 16  # from sm_70 on
TARGET = re.compile(r"0x[0-9a-f]+$")  # of a branch, in bytes from the beginning


@dataclass(frozen=True)
class Instruction:
    """One machine instruction."""

    opcode: str  # LDG.E.64
    operands: tuple[str, ...]  # R2, [R4.64+0x10]
    predicate: str = ""  # @P0


class Unreadable(FarmError):
    """Code that the disassembler can't read, or has none of; the message names it and gives its own line."""


@cache
def program() -> Path | None:
    """The package's program, else one on the PATH."""
    here = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = next(iter(sorted(here.glob("*/bin/nvdisasm"))), None)
    on_path = shutil.which("nvdisasm")
    return found or (Path(on_path) if on_path else None)


@cache
def label() -> str:
    """nvdisasm 13.5.37; empty where there is none."""
    if program() is None:
        return ""
    try:
        return f"nvdisasm {metadata.version(PACKAGE)}"
    except metadata.PackageNotFoundError:
        said = subprocess.run(
            [str(program()), "--version"], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        version = re.search(r"V([\d.]+)", said.stdout)
        return f"nvdisasm {version[1] if version else 'of unknown version'}"


def listings(codes: Sequence[bytes], arch: str) -> tuple[tuple[Instruction, ...], ...]:
    """The instructions of machine codes for an architecture, sm_86, all by one start of the program.

    A start takes longer than NVRTC takes for a kernel. Unreadable where the disassembler is away, or doesn't
    know the architecture, or gives another number of instructions than the codes have.
    """
    if not label():
        raise Unreadable(LACKING)
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(codes))
        file.flush()
        said = subprocess.run(
            [str(program()), "--binary", arch.upper().replace("_", ""), "--emit-json", file.name],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S,
            env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    if said.returncode:
        raise Unreadable(f"{label()}: {_first_line(said.stderr)}")
    return split(parse(said.stdout), [len(code) // INSTRUCTION_BYTES for code in codes])


def parse(text: str) -> tuple[Instruction, ...]:
    """The instructions in the disassembler's JSON, one function behind the other."""
    functions = [item for part in json.loads(text) if isinstance(part, list) for item in part]
    return tuple(_instruction(raw) for item in functions for raw in item["sass-instructions"])


def split(found: tuple[Instruction, ...], counts: Sequence[int]) -> tuple[tuple[Instruction, ...], ...]:
    """So many instructions for each code, branches counting from its own beginning."""
    if len(found) != sum(counts):
        raise Unreadable(f"{label()}: {len(found)} instructions of {sum(counts)}")
    ends = list(accumulate(counts))
    return tuple(
        tuple(_moved(line, first) for line in found[first:end])
        for first, end in zip([0, *ends], ends, strict=False)
    )


def _moved(line: Instruction, first: int) -> Instruction:
    """A branch's target less what stands before its code."""
    if not (line.opcode.startswith("BRA") and line.operands and (target := TARGET.search(line.operands[-1]))):
        return line
    moved = hex(int(target[0], 16) - first * INSTRUCTION_BYTES)
    return replace(line, operands=(*line.operands[:-1], TARGET.sub(moved, line.operands[-1])))


def _instruction(raw: dict[str, str]) -> Instruction:
    return Instruction(raw["opcode"], _operands(raw.get("operands", "")), raw.get("predicate", ""))


def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^nvdisasm (fatal|error)\s*:\s*", "", lines[0]) if lines else "it said nothing"
