"""Texts for the check build, each with one line that is wrong in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from kernels import source

HEAD = 'extern "C" __global__ void k(const float *x, float *out) {\n  int t = threadIdx.x;\n'
# clang takes what lies behind the array for unreachable and leaves an instruction there that no CPU has.
GCC_SAYS = r"an access outside of the array it points into|the text gave up \(Illegal instruction\)"
DOUBLED = """__device__ __forceinline__ void doubled(const float *x, float *w, int n) {
for (int i = 0; i < n; ++i)
w[i] = 2 * x[i]; // BUG
}
"""
WORD_AT = (
    source.text("matvec/block", "Q4_0").split("as one load; p must be a multiple of 4.\n")[1].split("}\n")[0]
    + "}\n"
)


@dataclass(frozen=True)
class Bug:
    """A text whose line marked BUG is wrong, and what the finding says of it."""

    name: str
    body: str
    says: str
    before: str = ""  # functions
    grid: int = 1

    @property
    def text(self) -> str:
        return self.before + HEAD + dedent(self.body).strip() + "\n}"

    @property
    def line(self) -> int:
        return 1 + next(i for i, line in enumerate(self.text.splitlines()) if "BUG" in line)


BUGS = (
    Bug(
        "a read past the end",
        """
        out[t] =
        x[t + 1]; // BUG
        """,
        "read of 4 bytes out of bounds, 0 bytes past the end of buffer 'x'",
    ),
    Bug(
        "a read before the start",
        """
        out[t] =
        x[t - 1]; // BUG
        """,
        "read of 4 bytes out of bounds, 4 bytes before the start of buffer 'x'",
    ),
    Bug(
        "a write past the end",
        """
        out[t] = x[t];
        if (t == 63) out[t + 1] = 0; // BUG
        """,
        "out of bounds, 0 bytes past the end of buffer 'out'",
    ),
    Bug(
        "a write to what is const",
        """
        ((float *)x)[t] = 1; // BUG
        """,
        "write of 4 bytes of what is const, 0 bytes into buffer 'x'",
    ),
    Bug(
        "a read of an output nobody wrote",
        """
        float old = out[t]; // BUG
        out[t] = old + x[t];
        """,
        "read of 4 bytes that nobody has written, 0 bytes into buffer 'out'",
    ),
    Bug(
        "a read of shared memory nobody wrote",
        """
        __shared__ float s[64];
        if (t < 63) s[t] = x[t];
        __syncthreads();
        out[t] =
        s[t]; // BUG
        """,
        "read of 4 bytes that nobody has written, 252 bytes into shared array 's'",
    ),
    Bug(
        "no barrier between write and read",
        """
        __shared__ float s[64];
        s[t] = x[t]; // BUG
        out[t] = s[63 - t];
        """,
        "write of 4 bytes races with the read at line 5 by another thread of "
        "the block, with no barrier between",
    ),
    Bug(
        "no barrier between read and next write",
        """
        __shared__ float s[64];
        s[t] = x[t];
        __syncthreads();
        out[t] = s[63 - t]; // BUG
        s[t] = out[t];
        """,
        "read of 4 bytes races with the write at line 7 by another thread of "
        "the block, with no barrier between",
    ),
    Bug(
        "lanes of a warp without a sync",
        """
        __shared__ float s[64];
        s[t] = x[t];
        __syncthreads();
        s[t] = 2 * x[t];
        out[t] = s[t & ~1]; // BUG
        """,
        "read of 4 bytes races with the write at line 6 by another lane of the "
        "warp, with neither a barrier nor a __syncwarp between",
    ),
    Bug(
        "two blocks write one element",
        """
        out[t] = x[t]; // BUG
        """,
        "write of 4 bytes races with the write at line 3 by another block",
        grid=2,
    ),
    Bug(
        "a block reads what another wrote",
        """
        if (blockIdx.x) {
        out[1] =
        out[0]; // BUG
        } else if (t == 0) out[0] = 1;
        """,
        "read of 4 bytes races with the write at line 6 by another block of the launch",
        grid=2,
    ),
    Bug(
        "a barrier in divergent code",
        """
        if (t < 16)
        __syncthreads(); // BUG
        out[t] = x[t];
        """,
        "barrier at line 4 reached by 16 of 64 threads",
    ),
    Bug(
        "a shuffle that names lanes that left",
        """
        if (t & 1) return;
        out[t] = __shfl_down_sync(~0u, x[t], 1); // BUG
        """,
        "names lanes that have left",
    ),
    Bug(
        "a misaligned float4",
        """
        float4 v =
        *(const float4 *)(x + 2); // BUG
        out[t] = v.x + v.w;
        """,
        "misaligned read of 16 bytes, 8 over a multiple of that",
    ),
    Bug(
        "a promise of alignment that doesn't hold",
        """
        const float *from = x + 3;
        out[t] = *(const float *)__builtin_assume_aligned(from, 16); // BUG
        """,
        "an address promised to be a multiple of 16 is 12 over one",
    ),
    Bug(
        "a misaligned word_at",
        """
        out[t] = word_at((const unsigned char *)x + 5); // BUG
        """,
        "misaligned read of 4 bytes, 1 over a multiple of that",
        before=WORD_AT,
    ),
    Bug(
        "an index into the next shared array",
        """
        __shared__ float a[64], b[64];
        a[t] = b[t] = x[t];
        __syncthreads();
        out[t] =
        a[t + 1]; // BUG
        """,
        "an index outside of its array",
    ),
    Bug(
        "past the end of dynamic shared memory",
        """
        extern __shared__ float s[];
        s[t +
        1] = x[t]; // BUG
        """,
        "write of 4 bytes out of bounds, 0 bytes past the end of the 256 bytes of dynamic shared memory",
    ),
    Bug(
        "a local array overrun by a function",
        """
        float w[16];
        doubled(x, w, 16 + (int)x[1]);
        out[t] = w[t & 15];
        """,
        GCC_SAYS,
        before=DOUBLED,
    ),
    Bug(
        "another thread's local array",
        """
        __shared__ float *s;
        float w[4] = {x[t], x[0], x[1], x[2]};
        if (t == 0) s = w;
        __syncthreads();
        out[t] =
        s[t & 3]; // BUG
        """,
        "read of 4 bytes in the local memory of another thread",
    ),
    Bug(
        "an atomic access and a plain one",
        """
        if (t == 0) out[0] = 0;
        __syncthreads();
        if (t == 40) out[0] = 1; // BUG
        atomicMax((int *)out, t);
        """,
        "write of 4 bytes races with the write at line 6 by another",
    ),
    Bug(
        "a null pointer",
        """
        float *none = t < 64 ? 0 : out;
        *none = 1; // BUG
        """,
        "a null pointer",
    ),
    Bug(
        "a shift by all bits",
        """
        out[t] = 1 << (int)x[t]; // BUG
        """,
        "a shift by a negative number or by as many bits as there are",
    ),
    Bug(
        "a negative number cast to unsigned",
        """
        out[t] = (float)(unsigned int)(x[t] - 100.0f); // BUG
        """,
        "a number that doesn't fit the integer it is cast to",
    ),
    Bug(
        "an index past int32",
        """
        out[t] = x[((int)x[t] + 2) * 1073741824 & 7]; // BUG
        """,
        "a signed integer overflows",
    ),
    Bug(
        "a division by zero",
        """
        out[t] = 7 / (int)x[t]; // BUG
        """,
        "an integer division by zero",
    ),
    Bug(
        "bytes of a word that nobody wrote",
        """
        unsigned char *b = (unsigned char *)out;
        b[4 * t] = 1;
        out[t] = b[4 * t + 1]; // BUG
        """,
        "read of 1 bytes that nobody has written, 1 bytes into buffer 'out'",
    ),
)
