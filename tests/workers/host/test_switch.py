"""What the inline switch tells the compiler: that no register but those it keeps outlives a turn."""

import re
import shutil
import subprocess

import pytest

from workers.host import compiler

CROSS = "aarch64-linux-gnu-g++"


def numbered(prefix: str, first: int, last: int) -> set[str]:
    return {f"{prefix}{number}" for number in range(first, last + 1)}


LEGACY = {"rax", "rcx", "rdx", "rdi", "rsi"} | numbered("r", 8, 15) | numbered("xmm", 0, 15)
MASKS = numbered("xmm", 16, 31) | numbered("k", 0, 7)
# All of aarch64's but x19, x29 and sp, which the switch keeps.
ARM = numbered("x", 0, 30) - {"x19", "x29"} | numbered("v", 0, 31)


def lost(program: str, *words: str) -> set[str]:
    """The registers that the switch names as lost or, as operands, takes."""
    command = [program, "-E", "-P", "-x", "c++", "-DHOST_INLINE_SWITCH", *words, "-"]
    text = f'#include "{compiler.RUNTIME}/cuda_host.h"\n'
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    (body,) = re.findall(r"void __host_switch\([^)]*\) \{(.*?)\n\}", done.stdout, re.DOTALL)
    names = set(re.findall(r'"(\w+)"', body.rsplit(":", 1)[1])) - {"memory", "cc"}
    operands = {"D": "rdi", "S": "rsi"}
    named = {operands[letter] for letter in re.findall(r'"\+([DS])"', body)}
    return names | named | set(re.findall(r'__asm__\("(x\d+)"\)', body))


@pytest.mark.parametrize(
    ("words", "registers"),
    [
        (["-march=x86-64-v3"], LEGACY),
        (["-march=x86-64-v4"], LEGACY | MASKS),
        (["-march=x86-64-v4", "-D__APX_F__"], LEGACY | MASKS | numbered("r", 16, 31)),
    ],
    ids=["AVX2", "AVX-512", "APX"],
)
def test_x86_loses_every_register_but_the_stack_its_frame_and_rbx(
    words: list[str], registers: set[str]
) -> None:
    if not (found := compiler.find()).target.startswith("x86_64"):
        pytest.skip("another processor's compiler")
    assert lost(found.path, *words) == registers


@pytest.mark.skipif(not shutil.which(CROSS), reason=f"needs {CROSS}")
@pytest.mark.parametrize(
    ("words", "registers"),
    [(["-march=armv8-a"], ARM), (["-march=armv8-a+sve"], ARM | numbered("p", 0, 15))],
    ids=["NEON", "SVE"],
)
def test_aarch64_loses_every_register_but_the_stack_its_frame_and_x19(
    words: list[str], registers: set[str]
) -> None:
    assert lost(CROSS, *words) == registers
