"""What a compiler made of a text: figures and a digest that belong to evidence."""

from __future__ import annotations

from dataclasses import dataclass

from kernels import codec


@dataclass(frozen=True)
class BuildRecord:
    """A text as a compiler built it for one architecture, and what that costs at one launch; nothing ran."""

    kernel: str  # op/name of the kernel launched
    kind: str  # empty for none
    entry: str
    arch: str  # sm_86
    threads: int  # a block, as the plan launches it
    registers: int  # a thread
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int  # as the plan launches it
    blocks_per_sm: int  # that fit at the same time; 0 where the architecture's limits aren't known
    occupancy: float  # those blocks' share of the threads that an SM holds; 0 where not known
    limited_by: str  # registers, shared, threads or blocks; empty where not known
    cubin_digest: str  # over code, constants and relocations alone
    cubin_bytes: int
    log: str  # the compiler's, without its own times
    instructions: int | None = None  # in the text, not run; None, as what follows, where nobody disassembled
    loads: tuple[tuple[str, int], ...] = ()  # global loads by width in bits: ("32", 4), widest last
    instructions_per_weight: float | None = None  # in the loop that multiplies most; None: it doesn't show
    disassembler: str = ""  # who read the code, or why nobody did
    most_dynamic_shared_bytes: int = codec.later(0)  # of the kernel's quick cases, where one takes more
    least_blocks_per_sm: int = codec.later(0)  # with those; 0 where none takes more, or it isn't known

    @property
    def notes(self) -> tuple[str, ...]:
        """What its author should know: registers that went to memory, an SM that holds a single block."""
        spilled = self.spill_store_bytes + self.spill_load_bytes > 0
        return ("one-block",) * (1 in (self.blocks_per_sm, self.least_blocks_per_sm)) + ("spills",) * spilled
