"""Measures what special scales do per kind for docs/SPECIALS.md; `python -m tests.docs.specials --write`.

Rows are ggml's own blocks (tests/data/golden, `adversarial_*`): the last sixteen of every kind have special
scales. Their bytes go through the kind's decode, through the oracle and, as rows of a matrix, through the
CUDA text on the host backend.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kernels import judge, oracle, registry, tensor_scale
from kernels.compare import MINUS_INF, NAN, PLUS_INF, bits, classes, ratios
from kernels.inputs import FIXTURE_VERSION
from kernels.kind import Kind
from kernels.model import Build, Case, Seeded, Shape
from kernels.op import JudgedOp
from tests.docs import ggml_cpu, ggml_cuda
from tests.docs.scale_forms import HALF, HALVES, form_of, names_of, scale_bits
from workers.backend import Backend
from workers.backends.host import Host

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "SPECIALS.md"
INTRO = Path(__file__).with_name("specials_intro.md")
GOLDEN = ROOT / "tests" / "data" / "golden"

SPECIAL = slice(48, 64)  # of the adversarial blocks
KERNELS = ("matvec/block", "matvec/coalesced")
BUILDS = (Build.EXACT, Build.DEFAULT)
WAYS = tuple((kernel, build) for kernel in KERNELS for build in BUILDS)
TINY = 2.0**-126  # float32's smallest normal number
ACTIVATION = 2048.0  # 32 of them add up to 65,536, which float16 has not

# A kind may have several: the first that one of its scales is says which word of ggml_cuda it gets.
GROUPS = {
    "nan": (0x7E00, 0x7D01, 0xFE00),
    "inf": (0x7C00, 0xFC00),
    "max": (0x7BFF, 0xFBFF),
    "subnormal": (0x0001, 0x8001, 0x03FF),
    "zero": (0x0000, 0x8000),
    "least": (0x0400,),
}
EDGES = {  # rows of the quantizer's edge cases whose scales may be special, by what the weights were
    0: "+0",
    1: "-0",
    7: "N(0, 1e-9)",
    8: "N(0, 1e-39)",
    9: "N(0, 3e4)",
}


@dataclass(frozen=True)
class Row:
    """One of ggml's blocks with special scales, and what ggml's CPU code decodes from it."""

    kind: Kind
    number: int  # of the adversarial block
    scales: tuple[int, ...]  # bits of every scale field, in the order of its fields
    block: np.ndarray  # (1, block bytes) uint8
    ggml: np.ndarray  # (elements,) float32

    @property
    def groups(self) -> tuple[str, ...]:
        """The class of scale that ggml_cuda has a word for; of bytes they themselves."""
        if not form_of(self.kind).halves:
            return tuple(map(str, self.scales))
        return (next((name for name, of in GROUPS.items() if set(of) & set(self.scales)), "ordinary"),)

    @property
    def place(self) -> str:
        """Which block it is: a number, or the bits of the one weight that fills it."""
        if not self.kind.is_plain:
            return str(self.number)
        width = self.kind.block["w"].base.itemsize
        return f"0x{int.from_bytes(self.block[0, :width].tobytes(), 'little'):0{2 * width}x}"

    @property
    def label(self) -> str:
        form, fields = form_of(self.kind), names_of(self.kind)
        each = np.split(np.array(self.scales), len(fields))
        return ", ".join(
            f"{name} = {' '.join(form.label(bits) for bits in scales)}"
            for name, scales in zip(fields, each, strict=True)
        )


@cache
def golden(kind_name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{kind_name.lower()}.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@cache
def rows(kind_name: str) -> tuple[Row, ...]:
    """The table's lines of one kind: those of ggml's special blocks."""
    kind, arrays = registry.kind(kind_name), golden(kind_name)
    if kind.is_plain:
        return plain_rows(kind)
    blocks, decoded = arrays["adversarial_blocks"][SPECIAL], arrays["adversarial_dequant"][SPECIAL]
    scales = scale_bits(kind, blocks)
    return tuple(
        Row(kind, SPECIAL.start + i, tuple(scales[i].tolist()), blocks[i : i + 1], decoded[i])
        for i in range(len(blocks))
    )


def plain_rows(kind: Kind) -> tuple[Row, ...]:
    """Blocks of one value, for which ggml's output is that of the weight with these bits."""
    blocks, (weight, _) = one_sign(kind, tuple(HALVES)), kind.block["w"].subdtype
    bits = blocks.view(f"<u{weight.itemsize}")
    decoded = ggml_by_code(kind)[bits] if weight.itemsize == 2 else bits.view("<f4")
    return tuple(
        Row(kind, SPECIAL.start + i, (half,), blocks[i : i + 1], decoded[i]) for i, half in enumerate(HALVES)
    )


def ggml_by_code(kind: Kind) -> np.ndarray:
    """(65536,) float32: what ggml decodes from every code of a 16-bit float."""
    arrays = golden(kind.name)
    decoded = np.full(1 << 16, np.nan, np.float32)
    decoded[arrays["adversarial_blocks"].view("<u2").reshape(-1)] = arrays["adversarial_dequant"].reshape(-1)
    return decoded


def all_rows() -> list[Row]:
    return [row for name in registry.kinds() for row in rows(name)]


def differing(got: np.ndarray, want: np.ndarray) -> int:
    """float32 positions whose bits differ, any NaN being equal to any other."""
    return int(((bits(got) != bits(want)) & ~(np.isnan(got) & np.isnan(want))).sum())


def unequal(truth: np.ndarray, want: np.ndarray) -> int:
    """Positions of another class or value; zeros have no sign here."""
    with np.errstate(invalid="ignore"):  # a signalling NaN made float64
        return int(((truth != want) & ~(np.isnan(truth) & np.isnan(want))).sum())


def tally(values: np.ndarray) -> str:
    """How many of each class: `59 NaN, 197 +Inf`."""
    negative, zero = np.signbit(values), values == 0
    subnormal = ~zero & (np.abs(values) < TINY)
    of = {
        "NaN": classes(values) == NAN,
        "+Inf": classes(values) == PLUS_INF,
        "-Inf": classes(values) == MINUS_INF,
        "+0": zero & ~negative,
        "-0": zero & negative,
        "subnormal": subnormal,
        "finite": np.isfinite(values) & ~zero & ~subnormal,
    }
    return ", ".join(f"{mask.sum()} {name}" for name, mask in of.items() if mask.any())


def word(value: np.ndarray) -> str:
    """The class of one output."""
    return tally(value.reshape(1)).removeprefix("1 ")


@dataclass(frozen=True)
class Product:
    """One matrix times x on the host backend: what came out, its twin's, and how far from what is allowed."""

    got: np.ndarray  # (rows,) float32
    twin: np.ndarray  # (rows,) float32
    want: np.ndarray  # (rows,) float64, the oracle's, or the twin's where that judges
    ratio: np.ndarray  # (rows,) float64: error over limit; Inf where the class is missed


def product(
    kernel_id: str, build: Build, kind: Kind, matrix: np.ndarray, x: np.ndarray, host: Backend
) -> Product:
    """(rows, packed row bytes) uint8 times (cols,) float32 through a matvec kernel's CUDA text."""
    op, name = kernel_id.split("/")
    drawn = Seeded("specials", 1, FIXTURE_VERSION)  # stands for the inputs; the buffers are filled below
    case = Case(
        op, name, (kind.name,), Shape.of(rows=len(matrix), cols=len(x)), drawn, drawn, build,
        scalars=tensor_scale.given(registry.op(op), (kind.name,), (tensor_scale.ABSENT,)),
    )  # fmt: skip
    plan = registry.kernel(kernel_id).plan(case)
    images = {}
    for role, values in (("weights", matrix), ("x", x)):
        buffer = plan.buffer(role)
        images[role] = np.zeros(buffer.nbytes, np.uint8)
        buffer.view(images[role])[...] = values
    ran = host.run(plan, images, host.devices()[0], 0)
    step = judge.step_of(plan.launches[0], plan, ran.images, "specials")
    judged, kernel = registry.op(op), registry.launch_kernel(kernel_id)
    assert isinstance(judged, JudgedOp)
    got = plan.buffer("out").view(ran.images["out"])
    with np.errstate(all="ignore"):
        truth, twin = judged.truth(kernel, step), kernel.twin(step)
        return Product(got, twin, np.where(truth.by_twin, twin, truth.want), ratios(got, twin, truth))


@cache
def specials_product(kernel_id: str, build: Build, kind_name: str) -> Product:
    """A kind's special blocks as the rows of a matrix, times the golden activations."""
    matrix = np.concatenate([row.block for row in rows(kind_name)])
    kind = registry.kind(kind_name)
    return product(kernel_id, build, kind, matrix, golden(kind_name)["x"][: kind.elements], Host())


def poked(kind: Kind, blocks: np.ndarray, scales: tuple[int, ...] | np.ndarray) -> np.ndarray:
    """(n, block bytes) uint8 with their scales set to n bit patterns, in place; the same array."""
    assert kind.poke is not None
    kind.poke(blocks.view(kind.block)[:, 0], np.array(scales, np.uint16))
    return blocks


def one_sign(kind: Kind, scales: tuple[int, ...] | np.ndarray, fill: int = 0xFF) -> np.ndarray:
    """(n, block bytes) uint8 of equal bytes: all weights of a row have one sign and none is zero."""
    return poked(kind, np.full((len(scales), kind.block_bytes), fill, np.uint8), scales)


@cache
def one_sign_product(kernel_id: str, build: Build, kind_name: str) -> Product:
    """Poked blocks of one sign times ones: the sum of a row has the class of its weights."""
    kind = registry.kind(kind_name)
    matrix = one_sign(kind, form_of(kind).poked)
    return product(kernel_id, build, kind, matrix, np.ones(kind.elements, np.float32), Host())


def one_sign_table() -> list[str]:
    """The class of a row of equal weights, by scale."""
    head = [
        "## Rows of one sign",
        "",
        "| kind | weights at scale 1 | matvec, by scale |",
        "|---|---|---|",
    ]
    lines = [f"| {name} | {' | '.join(one_sign_cells(registry.kind(name)))} |" for name in registry.kinds()]
    return [*head, *lines, ""]


def one_sign_cells(kind: Kind) -> tuple[str, str]:
    """The weight at scale 1, and `scale: class` for every scale."""
    form = form_of(kind)
    unit = kind.weights(one_sign(kind, (form.one,)))[0]
    made = {way: one_sign_product(*way, kind.name).got for way in WAYS}
    cells = [
        f"{label}: {joined({way: word(got[i]) for way, got in made.items()})}"
        for i, label in enumerate(map(form.label, form.poked))
    ]
    return ", ".join(f"{w:g}" for w in np.unique(unit)), ", ".join(cells)


def sums_matrix(kind: Kind, count: int = 5) -> np.ndarray:
    """(count, block bytes) uint8: random blocks whose scales are large."""
    content = np.random.default_rng(11).integers(0, 256, (count, kind.block_bytes), np.uint8)
    return poked(kind, content, np.full(count, form_of(kind).large))


@cache
def sums_product(kernel_id: str, build: Build, kind_name: str) -> Product:
    """Rows of one block times activations of 2048: sums that float16 has not and float32 has."""
    kind = registry.kind(kind_name)
    x = np.full(kind.elements, ACTIVATION, np.float32)
    return product(kernel_id, build, kind, sums_matrix(kind), x, Host())


def here(row: Row) -> tuple[str, str, str]:
    """What this project does with a row: its decode, its oracle, and its CUDA text on the host."""
    bad = differing(row.kind.weights(row.block)[0], row.ggml)
    wrong = unequal(oracle.weights(row.kind, row.block)[0], row.ggml)
    at = row.number - SPECIAL.start
    said = {way: word(specials_product(*way, row.kind.name).got[at]) for way in WAYS}
    return (
        f"{bad} bits differ" if bad else "same bits",
        f"{wrong} values differ" if wrong else "same values",
        joined(said),
    )


def joined(said: dict[tuple[str, Build], str]) -> str:
    """One word where all kernels and builds say the same, else each with its own."""
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{kernel} {build}: {text}" for (kernel, build), text in said.items())


def kind_table(name: str) -> list[str]:
    """The section of one kind."""
    lines = [
        f"## {name}",
        "",
        f"CUDA source: {ggml_cuda.functions(name)}.",
        "",
        "| block | scales | ggml CPU | ggml CUDA | decode | oracle | matvec |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows(name):
        decode, truth, matvec = here(row)
        cuda = ggml_cuda.says(name, *row.groups)
        lines.append(
            f"| {row.place} | {row.label} | {tally(row.ggml)} | {cuda} | {decode} | {truth} | {matvec} |"
        )
    return [*lines, ""]


def edge_table() -> list[str]:
    """What ggml's own quantizer makes of extreme weights, all kinds."""
    head = [
        "## Blocks that ggml's quantizer makes",
        "",
        "| kind | weights | d, ggml's blocks | ggml CPU | decode | oracle |",
        "|---|---|---|---|---|---|",
    ]
    lines = []
    for name in registry.kinds():
        for number, weights in EDGES.items():
            cells = " | ".join(edge_cells(registry.kind(name), number))
            lines.append(f"| {name} | {weights} | {cells} |")
    return [*head, *lines, ""]


def edge(kind: Kind, number: int) -> tuple[np.ndarray, np.ndarray]:
    """(blocks, block bytes) uint8 and (blocks, elements) float32 of one row of edge cases."""
    arrays = golden(kind.name)
    return arrays["edge_blocks"][number], arrays["edge_dequant"][number].reshape(-1, kind.elements)


def edge_cells(kind: Kind, number: int) -> tuple[str, str, str, str]:
    blocks, ggml = edge(kind, number)
    first = scale_bits(kind, blocks)[:, 0]
    bad = differing(kind.weights(blocks), ggml)
    wrong = unequal(oracle.weights(kind, blocks), ggml)
    return (
        scale_tally(kind, first),
        tally(ggml),
        f"{bad} bits differ" if bad else "same bits",
        f"{wrong} values differ" if wrong else "same values",
    )


def scale_tally(kind: Kind, scales: np.ndarray) -> str:
    """Classes of float16 scales, the range of bytes."""
    if kind.is_plain:
        return "no scale"
    if form_of(kind) is not HALF:
        return f"{names_of(kind)[0]} in {scales.min()}..{scales.max()}"
    values = scales.astype(np.uint16).view(np.float16)
    subnormal = (values != 0) & (np.abs(values) < 2.0**-14)
    counted = f"{subnormal.sum()} f16 subnormal" if subnormal.any() else ""
    rest = values[~subnormal].astype(np.float32)
    return ", ".join(part for part in (counted, tally(rest)) if part)


def sums_table() -> list[str]:
    """Every kind against activations whose sum float16 can't hold."""
    head = [
        "## Sums beyond float16",
        "",
        "`ggml CPU` and `ggml CUDA` are read, not run: what of an activation is float16 in its dot product.",
        "",
        "| kind | ggml CPU, read | ggml CUDA, read | matvec |",
        "|---|---|---|---|",
    ]
    lines = []
    for name in registry.kinds():
        said = {way: tally(sums_product(*way, name).got) for way in WAYS}
        cpu = ggml_cpu.sums(str(golden(name)["meta"]))
        lines.append(f"| {name} | {cpu} | {ggml_cuda.sums(name)} | {joined(said)} |")
    return [*head, *lines, ""]


def document() -> str:
    """The whole text: the written part, then the tables."""
    intro = INTRO.read_text(encoding="utf8")
    for word, read in (("CUDA_FILES", ggml_cuda.FILES), ("CPU_FILES", ggml_cpu.FILES)):
        intro = intro.replace(word, ", ".join(f"`{name}` {version}" for name, version in read.items()))
    tables = [line for name in registry.kinds() for line in kind_table(name)]
    return "\n".join([intro, *tables, *one_sign_table(), *edge_table(), *sums_table()]).rstrip() + "\n"


def main(write: bool) -> int:
    """0 when the document is current or was made so, 3 when it is not."""
    text = document()
    if write:
        DOCUMENT.write_text(text, encoding="utf8")
    current = DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf8") == text
    if not current:
        print("docs/SPECIALS.md is outdated; python -m tests.docs.specials --write renews it")
    return 0 if current else 3


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
