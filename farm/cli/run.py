"""Runs one case here, alone: no Ray, and no database unless a case's id is looked up."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from db.cases import case_by_id
from db.session import open_existing
from farm import user_catalog
from farm.campaign import deadline_s
from farm.cli import options
from farm.one_case import Words, from_json, from_words
from farm.one_case_text import text
from kernels import codec
from kernels.errors import FarmError, UsageError
from kernels.evidence import Evidence, Rule
from kernels.model import Build, Case, Device
from workers import backend as backends
from workers import packs
from workers.boards import executes, matching, survey
from workers.files import FileStore
from workers.isolate import Isolated
from workers.request import Request

HOW = "KERNEL KIND SHAPE, --case ID-or-JSON, KERNEL --gguf FILE --tensor NAME or KERNEL KIND --weights FILE"
MAKE_A_CASE = ("gguf", "tensors", "rows", "weights", "x", "batch", "build", "family", "seed")


@click.command("run")
@click.argument("words", nargs=-1, metavar="[KERNEL [KIND] [SHAPE]]")
@click.option(
    "--case",
    "case_words",
    metavar="ID-or-JSON",
    help="A case of the database, or one as farm show prints it.",
)
@click.option("--gguf", type=options.FILE, default="", help="Weights from this file's --tensor.")
@click.option(
    "--tensor",
    "tensors",
    multiple=True,
    help="Once for each matrix of the op, in order: gate, up, down for ffn; q, k, v for multi_matvec.",
)
@click.option(
    "--rows", type=click.IntRange(0), default=0, help="Sample that many rows of the tensor; 0 takes all."
)
@click.option(
    "--weights", type=options.FILE, default="", help="Weights from .npy: uint8 (rows, blocks, block bytes)."
)
@click.option("--x", type=options.FILE, default="", help="Activations from .npy: float32.")
@click.option(
    "--batch",
    type=click.IntRange(0),
    default=0,
    help="Tokens for mul_mm, gemm, mul_mat_id; as many as --x has, else 1.",
)
@click.option("--output", type=options.FILE, default="", help="Write what the kernel computed as .npy.")
@click.option("--backend", "backend_name", default="host", show_default=True)
@click.option(
    "--device", "glob", default="*", metavar="GLOB", help="By class or name; the first that matches."
)
@click.option("--build", type=options.BUILDS, default="exact", show_default=True)
@options.check
@click.option("--family", default="ordinary", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@options.rule
@options.catalog
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Runs, each with other poison.",
)
@options.database
@options.as_json
def run(
    words: tuple[str, ...], case_words: str | None, backend_name: str, glob: str, rule: str, repeats: int,
    output: str, url: str, as_json: bool, check: bool, catalog_folder: str | None, **named: Any,
) -> int:  # fmt: skip
    """Run one case in a child process and say how it compares.

    \b
    farm run matvec/block Q4_K 64x4096
    farm run rmsnorm/block 3072
    farm run ffn/block Q4_K+Q4_K+Q6_K 256x512
    farm run mul_mm/reference Q8_0 65x256x33 --check
    farm run matvec/coalesced --gguf model.gguf --tensor output.weight
    farm run matvec/block Q4_K --weights blocks.npy --x x.npy --output y.npy
    farm run matvec/block Q4_K 64x4096 --backend nvrtc --device sm_86
    farm run --catalog my-kernels matvec/mine Q8_0 64x4096 --build declared

    Exit code 3 for a bad verdict, 0 for PASS and SKIP.
    """
    refuse_unused(case_words, named, given())
    refuse_unwritable(output)
    if check and "build" in given():
        raise UsageError("--check is --build check; leave out --build")
    with user_catalog.searching(catalog_folder) as found:
        case = _case(words, case_words, url, named)
        pack = user_catalog.address_of(found, f"{case.op}/{case.kernel}")
    if check:
        case = replace(case, build=Build.CHECK)
    device = _device(backend_name, glob)
    if output and not executes(backend_name):
        raise UsageError(f"{backend_name} runs nothing, so there is no output; leave --output out")
    evidence = run_alone(case, backend_name, device, repeats, Rule(rule), output, pack)
    click.echo(json.dumps(codec.encode(evidence), indent=2) if as_json else text(evidence))
    return 3 if (evidence.rule_verdict or evidence.verdict).bad else 0


def given() -> set[str]:
    """Which of the options that make a case are on the command line."""
    ctx = click.get_current_context()
    return {name for name in MAKE_A_CASE if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def refuse_unused(case_words: str | None, named: dict[str, Any], said: set[str]) -> None:
    """UsageError where an option would change nothing: the verdict would be about another case than meant."""
    if case_words and said:
        words = ", ".join(f"--{name.replace('tensors', 'tensor')}" for name in sorted(said))
        raise UsageError(f"--case says all of the case; leave out {words}")
    if named["gguf"] and named["weights"]:
        raise UsageError("two files of weights: give --gguf or --weights")
    if said & {"tensors", "rows"} and not named["gguf"]:
        raise UsageError("--tensor and --rows go with --gguf FILE")
    if "batch" in said and not (named["gguf"] or named["weights"]):
        raise UsageError("--batch goes with --gguf or --weights; a SHAPE has its own: ROWSxCOLSxBATCH")


def refuse_unwritable(output: str) -> None:
    """FarmError where --output can't be written, before anything runs."""
    folder = Path(output).absolute().parent
    if output and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise FarmError(f"can't write {output}: {folder} is no folder that can be written to; name another")


def _case(words: tuple[str, ...], case_words: str | None, url: str, named: dict[str, Any]) -> Case:
    if bool(words) == bool(case_words):
        raise UsageError(f"{'two cases at once' if words else 'nothing to run'}: give {HOW}")
    if not case_words:
        return from_words(Words(words[0], words[1:], **named), FileStore())
    if case_words.lstrip().startswith("{"):
        return from_json(case_words)
    database = open_existing(url)
    with database.reading() as s:
        return case_by_id(s, case_words)


def run_alone(
    case: Case, backend_name: str, device: Device, repeats: int, rule: Rule, output: str, pack: str = ""
) -> Evidence:
    """The evidence of one case on one device; `pack` is the address of the catalog that its kernel is in."""
    request = Request(
        str(uuid.uuid4()), case, backend_name, device, repeats, rule,
        output=str(Path(output).absolute()) if output else "",
        pack=pack, packs=str(packs.store()) if pack else "",
    )  # fmt: skip
    child = Isolated()
    try:
        return child.run(request, deadline_s(case))
    finally:
        child.close()


def _device(backend_name: str, glob: str) -> Device:
    """This machine's first device of that backend that the glob fits."""
    backends.backend(backend_name)
    found = survey([backend_name])
    if not found.boards:
        raise FarmError("; ".join(found.unavailable))
    return matching(found, glob)[0].device


COMMAND = run
