"""Builds CUDA C text into a shared object with the machine's C++ compiler, once per content."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernels import exp32
from kernels.declared.flags import for_host
from kernels.errors import FarmError
from kernels.model import Options
from workers.backend import NO_OPTIONS, Rejected, Unavailable

RUNTIME = Path(__file__).parent / "runtime"
SOURCES = (
    "thread.h", "called.h", "halves.h", "fragments.h", "mma.h", "cuda_host.h", "fibers.h", "faults.h",
    "shadow.h", "hooks.h", "scheduler.cpp", "small_floats.h", "include/cuda_fp16.h", "include/cuda_bf16.h",
    "include/cuda_runtime.h", "include/cuda.h", "include/device_launch_parameters.h",
    "include/vector_types.h",
)  # fmt: skip
SEARCHED = (f"-I{RUNTIME}", f"-I{RUNTIME / 'include'}")  # by a text's own #include as well
CANDIDATES = ("g++", "clang++", "c++")
# What a compiler says when the machine is at fault, not the text that it was given.
OUT_OF_MEANS = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Input/output error"
    r"|Cannot allocate memory|virtual memory exhausted|(Killed|Terminated) signal terminated"
)
LARGEST_PAGE_BYTES = 16384  # a fiber's region has room for guard pages of this size

COMMON = (
    "-std=c++17",
    "-O2",  # -O3 is slower on mul_mm
    "-funroll-loops",  # a third faster on mul_mm
    "-fPIC",
    "-fsigned-char",  # as on a GPU; Arm's char is unsigned
    "-fno-strict-aliasing",  # CUDA text reads bytes as words
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",  # two loaded modules never share a symbol
    "-fstack-clash-protection",  # no frame is so large that it steps over the guard page
    "-U_FORTIFY_SOURCE",  # its longjmp check takes leaving a fiber for an attack
    "-w",
)
# What local variables hold before they are written: no likely value, the same in every run (gcc 12, clang 8).
FILLED = "-ftrivial-auto-var-init=pattern"
CHECKED = "-DFARM_CHECK"
BUILDS = {
    "exact": ("-ffp-contract=off",),
    "default": ("-ffp-contract=fast",),
    "check": ("-ffp-contract=off", CHECKED),
    "declared": ("-ffp-contract=fast",),  # and what the flags of a catalog's kernel are here
}
NEWER = {"c++20": "-std=c++20"}  # the runtime itself needs C++17, which takes older texts
# Compiled into the text alone, and never linked with what they are made for: the scheduler has their hooks.
INSTRUMENTS = (
    "-fsanitize=thread,alignment,bounds,object-size,shift-exponent,signed-integer-overflow,"
    "integer-divide-by-zero,float-cast-overflow",
    "-O3",  # unrolls local arrays into registers before the checks of objects let them escape
    "-g1",  # a place in the code has its line, and the lines it was inlined at
    "-gdwarf-4",  # addr2line takes one file for another in DWARF 5 of some compilers
)
GNU_INSTRUMENTS = (
    "--param=tsan-instrument-func-entry-exit=0",
    "-fno-var-tracking",  # lines are all that findings say, and this is a tenth of the time
)
CLANG_INSTRUMENTS = ("-mllvm", "-tsan-instrument-func-entry-exit=0")
LINK = ("-shared", "-pthread", "-Wl,-Bsymbolic", "-Wl,--as-needed", "-Wl,-z,defs")
GLUE = 'extern "C" __attribute__((visibility("default"))) const __host_kernel farm_kernels[] = {'
ENTRY = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?void\s+"
                   r"(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(")  # fmt: skip
LINE = re.compile(r'^#line (\d+) "([^"\n]*)"$', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
DYNAMIC = re.compile(
    r"\bextern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w\s:]+?)\s*\b(\w+)\s*\[\s*\]\s*;"
)


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler that builds kernels here."""

    command: tuple[str, ...]  # the program and what CXX said after it
    version: str  # the first line of --version
    target: str  # x86_64-linux-gnu
    cpu: str  # digest of the CPU's features: code built for one CPU may not run on another
    more: tuple[str, ...] = ()  # of what not every compiler takes

    @property
    def path(self) -> str:
        return self.command[0]

    @property
    def native(self) -> str:
        """Lets the compiler use what this CPU has; with contraction off the results don't change."""
        return "-mcpu=native" if self.target.startswith("aarch64") else "-march=native"


def find() -> Compiler:
    """The compiler named by CXX, or the first of g++, clang++ and c++; raises Unavailable with the remedy."""
    if platform.system() != "Linux":
        raise Unavailable(f"host is unavailable because its fibers need Linux; this is {platform.system()}")
    if platform.machine() not in ("x86_64", "aarch64"):
        raise Unavailable(
            f"host is unavailable because it knows x86_64 and aarch64; this is {platform.machine()}"
        )
    if (page := os.sysconf("SC_PAGE_SIZE")) > LARGEST_PAGE_BYTES:
        raise Unavailable(
            f"host is unavailable because it needs pages of at most {LARGEST_PAGE_BYTES} bytes, not of {page}"
        )
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@cache
def _find(named: str, path: str) -> Compiler:
    for words in _candidates(named):
        if program := shutil.which(words[0], path=path):
            command = (program, *words[1:])
            version, target = _ask(command, "--version"), _ask(command, "-dumpmachine")
            if version and target:
                return Compiler(
                    command, version, target, _cpu(), (FILLED,) if _takes(command, FILLED) else ()
                )
    wanted = "there is no C++ compiler; apt-get install g++"
    if named:
        wanted = f"CXX={named} is no working C++ compiler; unset CXX, or name one that answers --version"
    raise Unavailable(f"host is unavailable because {wanted}")


def _candidates(named: str) -> list[list[str]]:
    """The command that CXX names, else every name that is tried."""
    if not named:
        return [[name] for name in CANDIDATES]
    try:
        words = shlex.split(named)
    except ValueError:  # an open quote
        words = []
    return [words] if words else []


def _ask(command: Sequence[str], flag: str) -> str:
    try:
        answer = subprocess.run(
            [*command, flag], capture_output=True, text=True, errors="replace", timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.split("\n")[0] if answer.returncode == 0 else ""


def _takes(command: Sequence[str], flag: str) -> bool:
    words = [*command, "-Werror", flag, "-x", "c++", "-fsyntax-only", os.devnull]
    try:
        return subprocess.run(words, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _cpu() -> str:
    """Digest of the first processor's model and feature lines."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf8").split("\n\n")[0].split("\n")
    kept = [
        s for s in lines if re.match(r"(flags|Features|model|cpu family|CPU (part|implementer|variant))", s)
    ]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


def flags(build: str, compiler: Compiler, options: Options = NO_OPTIONS) -> tuple[str, ...]:
    """What the compiler is told for a build; evidence carries it."""
    if build not in BUILDS:
        raise Rejected(f"host has no build {build!r}; there are {', '.join(BUILDS)}")
    clang = "clang" in compiler.version
    gnu = () if clang else ("-fno-gnu-unique",)
    # A fiber switch is a return that a shadow stack would not know.
    x86 = ("-fcf-protection=none",) if compiler.target.startswith("x86_64") else ()
    told = (*COMMON, *compiler.more, compiler.native, *gnu, *x86, *BUILDS[build], *own_flags(options))
    if build != "check":
        return told
    return (*told, *INSTRUMENTS, *(CLANG_INSTRUMENTS if clang else GNU_INSTRUMENTS))


def own_flags(options: Options) -> tuple[str, ...]:
    """What a catalog's kernel asks for, in this compiler's words."""
    return (*([NEWER[options.std]] if options.std in NEWER else []), *for_host(options.flags))


def build(
    text: str,
    name: str,
    build: str,
    cache: Path,
    entries: Sequence[str] = (),
    ucontext: bool = False,
    options: Options = NO_OPTIONS,
) -> Path:
    """The shared object of a CUDA text; `name` stands for its file in messages.

    Entries are the text's own __global__ functions unless given (then template names are possible).
    Raises Rejected with the compiler's first error line, or Unavailable. Safe when several processes build
    the same text.
    """
    compiler = find()
    told = (*flags(build, compiler, options), *(("-DFARM_UCONTEXT",) if ucontext else ()))
    defines = tuple(flag for flag in told if flag in (CHECKED, "-DFARM_UCONTEXT"))
    source = translate(text, name, entries)
    key = _digest(source, _runtime_digest(), compiler.version, compiler.cpu, *compiler.command, *told)
    target = cache / f"{key}.so"
    if target.exists():
        return target
    runtime = _runtime(compiler, defines, cache)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        file = Path(folder) / "kernel.cpp"
        file.write_text(source, encoding="utf8")
        out = Path(folder) / "kernel.so"
        for words in _steps(told, file, runtime, out):
            _compile(compiler, words, folder)
        os.replace(out, target)
    return target


def attempt(
    source: str,
    out: Path,
    build: str,
    cache: Path,
    more: Sequence[str] = (),
    options: Options = NO_OPTIONS,
) -> list[str]:
    """Builds a translated text into `out` with further flags, uncached; what the compiler complains of."""
    compiler = find()
    told = (*flags(build, compiler, options), *more)
    runtime = _runtime(compiler, [flag for flag in told if flag == CHECKED], cache)
    file = out.with_suffix(".cpp")
    file.write_text(source, encoding="utf8")
    for words in _steps(told, file, runtime, out):
        if complaints := _complaints(compiler, words):
            return complaints
    return []


def _steps(told: Sequence[str], file: Path, runtime: Path, out: Path) -> list[list[str]]:
    """The compiler's calls from a translated text to a shared object.

    An instrumented text is linked apart, lest the instruments' own libraries come with it.
    """
    link = [str(runtime), "-lm", "-o", str(out)]
    if CHECKED not in told:
        return [[*told, *SEARCHED, *LINK, str(file), *link]]
    # Lines have a file's name; this way the same text gives the same file wherever it is built.
    here, compiled = f"-fdebug-prefix-map={out.parent}=.", str(out.with_suffix(".o"))
    return [
        [*told, here, *SEARCHED, "-c", str(file), "-o", compiled],
        [*LINK, compiled, *link],
    ]


def translate(text: str, name: str, entries: Sequence[str] = ()) -> str:
    """The text as the compiler sees it: header before, dynamic shared memory declared, glue after."""
    bare = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    found = list(entries) or _entries(bare)
    if not found:
        raise Rejected(f"{name}: no __global__ function")
    glue = "".join(f"HOST_KERNEL({entry}) " for entry in dict.fromkeys(found))
    parts = ['#include "cuda_host.h"', f'#line 1 "{name}"', _declare_dynamic(text, bare, name)]
    return "\n".join([*parts, '#line 1 "launch glue"', GLUE, glue, "{0, 0, 0, 0}};", ""])


def _entries(bare: str) -> list[str]:
    """The text's __global__ functions; a template's instances have to be told."""
    return [m[1] for m in ENTRY.finditer(bare) if not bare[: m.start()].rstrip().endswith(">")]


def _declare_dynamic(text: str, bare: str, name: str) -> str:
    """Replaces each `extern __shared__ T s[];`: by a pointer in a function, by a macro outside of any."""
    out, end = [], 0
    for match in DYNAMIC.finditer(bare):
        of, variable = match.group(1), match.group(2)
        value = f"(({of} *)HOST_DYNAMIC_SHARED)"
        file, line = _spot(text, match.end(), name)
        outside = bare.count("{", 0, match.start()) == bare.count("}", 0, match.start())
        macro = f'\n#define {variable} {value}\n#line {line} "{file}"\n'
        out += [text[end : match.start()], macro if outside else f"{of} *const {variable} = {value};"]
        if not outside:
            out.append("\n" * match.group().count("\n"))
        end = match.end()
    return "".join([*out, text[end:]])


def files(text: str) -> tuple[str, ...]:
    """The files that a text says by #line it is made of, the longest path first; none if it says none."""
    return tuple(sorted({match[2] for match in LINE.finditer(text)}, key=lambda name: (-len(name), name)))


def _spot(text: str, at: int, name: str) -> tuple[str, int]:
    """File and line of an offset into a text, which may say by #line that it is made of several files."""
    said = list(LINE.finditer(text, 0, at))
    if not said:
        return name, text.count("\n", 0, at) + 1
    return said[-1][2], int(said[-1][1]) + text.count("\n", said[-1].end(), at) - 1


def _runtime(compiler: Compiler, defines: Sequence[str], cache: Path) -> Path:
    """The scheduler's object file, always without contraction: the farm's expf is in it."""
    constants = [f"-D{key}={value}" for key, value in exp32.defines().items()]
    told = [*flags("exact", compiler), *constants, *defines]
    key = _digest(_runtime_digest(), compiler.version, compiler.cpu, *compiler.command, *told)
    target = cache / f"{key}.o"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            out = Path(folder) / "scheduler.o"
            _compile(compiler, [*told, "-pthread", "-c", str(RUNTIME / "scheduler.cpp"), "-o", str(out)])
            os.replace(out, target)
    return target


def _compile(compiler: Compiler, words: Sequence[str], folder: str | None = None) -> None:
    if lines := _complaints(compiler, words, folder):
        raise Rejected(next((s for s in lines if re.search(r"\berror\b|undefined reference", s)), lines[0]))


def _complaints(compiler: Compiler, words: Sequence[str], folder: str | None = None) -> list[str]:
    """What the compiler says when it refuses, line by line; nothing where it doesn't."""
    env = os.environ | {"LC_ALL": "C"}
    answer = subprocess.run(
        [*compiler.command, *words], capture_output=True, text=True, errors="replace", env=env, cwd=folder
    )
    if not answer.returncode:
        return []
    lines = [line for line in answer.stderr.splitlines() if OUT_OF_MEANS.search(line)]
    if lines or answer.returncode < 0:
        said = lines[0] if lines else f"killed by signal {-answer.returncode}"
        raise FarmError(f"the compiler could not work here: {said}")
    return answer.stderr.splitlines() or [f"{compiler.path} ended with {answer.returncode}"]


@cache
def _runtime_digest() -> str:
    return _digest(
        *((RUNTIME / name).read_text(encoding="utf8") for name in SOURCES), *exp32.defines().values()
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
