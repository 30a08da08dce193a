"""Wrong kernels: each an edit of the right CUDA text, or of its launch, that a check must see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernels import registry, source
from kernels.model import BufferArg, Launch, Plan, ScalarArg
from kernels.tensor_scale import seeded


@dataclass(frozen=True)
class Wrong:
    """One wrong kernel: what is edited, and in which text; an edit that changes nothing is an error."""

    name: str
    kernel: str
    kind: str
    edits: tuple[tuple[str, str], ...] = ()
    relaunch: Callable[[Launch], Launch] | None = None

    def text(self, kernel: str, kind: str) -> str:
        """The text as the host is given it; of a kernel with a body of its own only that is edited."""
        text = source.text(kernel, kind)
        if kernel != self.kernel and hasattr(registry.kernel(self.kernel), "body"):
            return text
        for old, new in self.edits:
            if old not in text:
                raise LookupError(f"{self.name}: {kernel} {kind} has no {old!r} any more")
            text = text.replace(old, new)
        return text

    def plan(self, plan: Plan) -> Plan:
        """The plan as the host is given it."""
        if self.relaunch is None:
            return plan
        return replace(plan, launches=tuple(map(self.relaunch, plan.launches)))


def launched_as_coalesced(launch: Launch) -> Launch:
    """The geometry of matvec/coalesced around another kernel: an eighth of the rows."""
    return replace(launch, grid=(-(-launch.grid[0] // 8), 1, 1))


def v_from_k(launch: Launch) -> Launch:
    """The launch for V over K's weights."""
    args = tuple(replace(arg, buffer="k") if arg == BufferArg("weights", "v") else arg for arg in launch.args)
    return replace(launch, args=args)


def with_other_scale(launch: Launch) -> Launch:
    """The launch for gate with the scale of up, as a kernel that mixes them up has it."""
    args = tuple(
        replace(arg, value=seeded(1)) if isinstance(arg, ScalarArg) and arg.value == seeded(0) else arg
        for arg in launch.args
    )
    return replace(launch, args=args)


LAST_DROPPED = "i < 16 - (b == blocks - 1 && sub == BLOCK_ELEMENTS / 16 - 1); ++i)\n                sum"

# Each best seen by one family: tests/workers/test_families.py says how much the others see.
CLAMPED = Wrong(
    "activations clamped to float16's range",
    "matvec/block",
    "Q4_0",
    (("w[i] * xs[i]", "w[i] * (xs[i] > 65504.0f ? 65504.0f : xs[i] < -65504.0f ? -65504.0f : xs[i])"),),
)
FLUSHED = Wrong(
    "subnormal scales flushed",
    "matvec/coalesced",
    "Q8_0",
    (("half_at(block + AT_D)", "(block[AT_D + 1] & 0x7C ? half_at(block + AT_D) : 0.0f)"),),
)
SIGMOID = "1.0f / (1.0f + expf(-g))"
CUT = Wrong(
    "sigmoids below 1e-8 cut",
    "silu_mul/flat",
    "",
    (("g / (1.0f + expf(-g))", f"g * ({SIGMOID} < 1e-8f ? 0.0f : {SIGMOID})"),),
)

ZOO = (
    Wrong("swapped nibbles", "matvec/block", "Q4_0", ((">> (4 * sub)", ">> (4 * (1 - sub))"),)),
    Wrong(
        "block stride off by one byte",
        "matvec/coalesced",
        "Q8_0",
        (("block += BLOCK_BYTES", "block += BLOCK_BYTES - 1"),),
    ),
    Wrong("loop stride off by one", "matvec/block", "Q4_K", (("b += THREADS", "b += THREADS - 1"),)),
    Wrong(
        "unsigned read of signed scales",
        "matvec/coalesced",
        "Q6_K",
        (("(float)(signed char)scales", "(float)scales"),),
    ),
    Wrong("dropped min", "matvec/coalesced", "Q4_K", ((" & 0xF) - low", " & 0xF)"),)),
    Wrong("wrong lane writes", "matvec/coalesced", "IQ4_NL", (("lane == 0", "lane == 1"),)),
    Wrong(
        "missing barrier before the tree",
        "matvec/block",
        "Q5_K",
        (("= sum;\n    __syncthreads();", "= sum;"),),
    ),
    Wrong(
        "missing barrier in the tile loop",
        "mul_mm/reference",
        "Q4_0",
        (("        }\n        __syncthreads();\n    }", "        }\n    }"),),
    ),
    Wrong("nothing written", "matvec/coalesced", "Q3_K", (("out[row] = sum;", ";"),)),
    Wrong(
        "one row skipped", "matvec/block", "Q2_K", (("threadIdx.x == 0)", "threadIdx.x == 0 && row != 2)"),)
    ),
    Wrong(
        "block 0's scale everywhere",
        "matvec/block",
        "Q8_0",
        (
            (
                "decode16(const unsigned char *block,",
                "decode16(const unsigned char *first, const unsigned char *block,",
            ),
            ("half_at(block + AT_D)", "half_at(first + AT_D)"),
            ("decode16(block, sub, w)", "decode16(row_start, block, sub, w)"),
            (
                "decode_lane(const unsigned char *block,",
                "decode_lane(const unsigned char *block, const unsigned char *first,",
            ),
        ),
    ),
    Wrong("other kernel's geometry", "matvec/block", "Q5_0", relaunch=launched_as_coalesced),
    Wrong(
        "dropped last element",
        "matvec/block",
        "IQ4_XS",
        (("i < 16; ++i)\n                sum", LAST_DROPPED),),
    ),
    Wrong("swapped activations", "matvec/block", "MXFP4", (("* xs[i];", "* xs[i ^ 1];"),)),
    Wrong(
        "token tail not zero-filled but dropped",
        "mul_mm/reference",
        "Q8_0",
        (("first_token + t < batch ?", "first_token + t < batch - 1 ?"),),
    ),
    Wrong("tensor's scale forgotten", "matvec/coalesced", "NVFP4", (("weights_scale * sum", "sum"),)),
    Wrong(
        "tensor's scale twice",
        "mul_mm/reference",
        "NVFP4",
        (("weights_scale * sums", "weights_scale * weights_scale * sums"),),
    ),
    Wrong("another tensor's scale", "ffn/block", "NVFP4", relaunch=with_other_scale),
    Wrong(
        "nibbles in the order of the weights",
        "matvec/ladder_v1",
        "Q4_0",
        (("i % 2 * 4 + i / 2", "i"),),
    ),
    Wrong("row's scales off by one", "matvec/ladder_v2", "Q4_0", (("row_scales[b]", "row_scales[b ^ 1]"),)),
    Wrong(
        "tile read before it is staged",
        "matvec/ladder_v3",
        "Q4_0",
        (("+ i];\n        __syncthreads();", "+ i];"),),
    ),
    Wrong("second sum forgotten", "matvec/ladder_v4", "Q4_0", (("    sum += other;\n", ""),)),
    CLAMPED,
    FLUSHED,
    Wrong(
        "float16 activations read as bfloat16",
        "matvec/coalesced_f16",
        "Q5_K",
        (("const f16 *", "const bf16 *"),),
    ),
    Wrong(
        "subnormal float16 activations flushed",
        "mul_mm/reference_f16",
        "Q8_0",
        (("half_bits_to_float(bits); }", "half_bits_to_float(bits & 0x7C00 ? bits : 0); }"),),
    ),
    Wrong(
        "bfloat16 activations cut to six bits",
        "mul_mm/reference_bf16",
        "MXFP4",
        (("(unsigned int)bits << 16", "(unsigned int)(bits & 0xFFFE) << 16"),),
    ),
    Wrong(
        "quants of the next sixteen",
        "matvec/dp4a",
        "Q8_0",
        (("piece % (Q8_ELEMENTS / PIECE) * PIECE", "(piece + 1) % (Q8_ELEMENTS / PIECE) * PIECE"),),
    ),
    Wrong(
        "min without the activations' scale", "matvec/dp4a", "Q4_K", (("(d * (float)total)", "(float)total"),)
    ),
    Wrong(
        "borrow between bytes",
        "matvec/dp4a",
        "Q6_K",
        (("(word | 0x80808080u) - k", "word - k"), (") ^ 0x80808080u", ")")),
    ),
    Wrong(
        "a warp's part of a row left out",
        "matvec/wide",
        "Q6_K",
        (("int s = 1; s < split", "int s = 2; s < split"),),
    ),
    Wrong(
        "staged bytes not moved back", "matvec/wide", "Q5_0", (("* VECTORS) + phases[r] +", "* VECTORS) +"),)
    ),
    Wrong("both halves of a tile the same", "mul_mm/tiled", "Q4_K", (("[1 - half]", "[half]"),)),
    Wrong("tokens of the first half twice", "mul_mm/tiled", "Q8_0", (("run * (BN / 2)", "0 * (BN / 2)"),)),
    Wrong(
        "second half of a fragment's columns",
        "mul_mm/mma",
        "Q6_K",
        (("of_token[pair + 4]", "of_token[pair + 5]"),),
    ),
    Wrong("halves rounded to even", "quantize_q8_1/warp", "", (("roundf(", "rintf("),)),
    Wrong(
        "a lane's byte left out",
        "quantize_q8_1/warp",
        "",
        (("block[AT_QS + lane] =", "if (lane != 31) block[AT_QS + lane] ="),),
    ),
    Wrong("the sum of q without its scale", "quantize_q8_1/warp", "", (("d * (float)sum", "(float)sum"),)),
    Wrong("bias of 1024 for 1032", "matvec/ladder_v5", "Q4_0", (("0x64086408u", "0x64006400u"),)),
    Wrong("pairs of neighbours", "matvec/ladder_v5", "Q4_0", (("xs[0], xs[4]", "xs[0], xs[1]"),)),
    Wrong("eps ignored", "rmsnorm/block", "", (("+ eps)", ")"),)),
    Wrong("residual ignored", "add_rmsnorm/fused", "", (("+ residual[", "+ 0.0f * residual["),)),
    Wrong(
        "one x for all of a token's slots", "mul_mat_id/block", "Q4_K", (("slot / slots_per_x", "slot / 2"),)
    ),
    Wrong("slot 0's expert", "mul_mat_id/coalesced", "Q5_0", (("ids[slot]", "ids[slot - slot % 2]"),)),
    Wrong("V read from K's weights", "multi_matvec/block", "Q4_K", relaunch=v_from_k),
    Wrong("gate without its sigmoid", "silu_mul/flat", "", (("1.0f + expf", "1.0f + 0.0f * expf"),)),
    CUT,
)
