"""NVIDIA's disassembler, where its package is installed: a cubin's instructions as values."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from kernels.errors import FarmError

PACKAGE = "nvidia-cuda-nvdisasm"
LACKING = f"no disassembler: {PACKAGE} isn't installed"
TIMEOUT_S = 60.0


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


def listing(cubin: bytes, entry: str) -> tuple[Instruction, ...]:
    """The instructions of one entry; Unreadable where the disassembler is away, or too new for them."""
    if not label():
        raise Unreadable(LACKING)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run(
            [str(program()), "-json", "-ndf", file.name],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S,
            env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    if said.returncode:
        raise Unreadable(f"{label()}: {_first_line(said.stderr)}")
    found = parse(said.stdout, entry)
    if not found:
        raise Unreadable(f"{label()}: no function {entry}")
    return found


def parse(text: str, entry: str) -> tuple[Instruction, ...]:
    """The instructions of one function from the disassembler's JSON; empty where it isn't there."""
    functions = [item for part in json.loads(text) if isinstance(part, list) for item in part]
    mine = (item for item in functions if item["function-name"] == entry)
    return tuple(_instruction(raw) for item in mine for raw in item["sass-instructions"])


def _instruction(raw: dict[str, str]) -> Instruction:
    return Instruction(raw["opcode"], _operands(raw.get("operands", "")), raw.get("predicate", ""))


def _operands(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^nvdisasm (fatal|error)\s*:\s*", "", lines[0]) if lines else "it said nothing"
