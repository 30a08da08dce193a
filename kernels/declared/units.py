"""Makes one translation unit of a file of a pack: defines first, its includes inlined, lines as they were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kernels.declared.declaration import BuildOf
from kernels.declared.mistake import Misdeclared, Mistake, Place, no_such
from kernels.declared.pack import Pack
from kernels.kind import Kind

INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"(?P<own>[^"\n]+)"|<(?P<system>[^>\n]+)>)')
ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
COMMENT_OPEN, COMMENT_CLOSE = "/*", "*/"
DEEPEST = 64  # files in files
MOST_BYTES = 32 << 20
# Headers of CUDA and C++ that a text may ask for in quotes: the compiler has them, not the pack.
TOOLKIT = re.compile(
    r"(cuda\w*|math_constants|mma|cooperative_groups|vector_types|device_\w+|sm_\w+|std\w+|c\w+)(\.h|\.hpp)?"
)


@dataclass(frozen=True)
class Unit:
    """A text that a compiler takes as it is."""

    text: str
    files: tuple[str, ...]  # of the pack, that are in it
    system: tuple[str, ...]  # headers that it leaves to the compiler


def filled(template: str, kind: Kind | None) -> str:
    """A symbol or a define's value with its placeholders filled for a kind."""
    if kind is None:
        return template
    values = {
        "kind": kind.name.lower(),
        "KIND": kind.name,
        "block_bytes": str(kind.block_bytes),
        "block_elements": str(kind.elements),
    }
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def unit(pack: Pack, file: str, build: BuildOf, kind: Kind | None) -> Unit:
    """The translation unit of a file for a kind; Misdeclared for what can't be included."""
    inliner = _Inliner(pack, build.include)
    defines = [f"#define {name} {filled(value, kind)}".rstrip() for name, value in build.defines]
    body = inliner.inlined(file, ())
    return Unit("\n".join([*defines, body]), tuple(inliner.seen), tuple(sorted(inliner.system)))


class _Inliner:
    def __init__(self, pack: Pack, folders: tuple[str, ...]) -> None:
        self._pack = pack
        self._folders = folders
        self._bytes = 0
        self.seen: dict[str, None] = {}
        self.system: set[str] = set()

    def inlined(self, file: str, around: tuple[str, ...]) -> str:
        """A file's text with the pack's files in place of includes; `around` are those that include it."""
        text = decoded(self._pack, file)
        if file in self.seen and ONCE.search(text):
            return ""
        self.seen[file] = None
        self._bytes += len(text)
        lines = [f'#line 1 "{file}"']
        for number, (line, in_code) in enumerate(_code_lines(text), start=1):
            match = INCLUDE.match(line) if in_code else None
            inner = self._found(match, Place(file, number), around) if match else ""
            if inner:
                lines += [self.inlined(inner, (*around, file)), f'#line {number + 1} "{file}"']
            else:
                lines.append(_without_once(line) if in_code else line)
        return "\n".join(lines)

    def _found(self, match: re.Match[str], place: Place, around: tuple[str, ...]) -> str:
        """The pack's file that an include names; empty where the compiler is to find it."""
        name = match["own"] or match["system"]
        near = [str(PurePosixPath(place.file).parent)] if match["own"] else []
        for folder in (*near, *self._folders):
            path = _joined(folder, name)
            if path is None:
                raise Misdeclared(
                    [Mistake(place, f"include {name!r} leads out of the catalog; copy the file into it")]
                )
            if path in self._pack.by_path:
                self._demand_end(path, place, around)
                return path
        if match["own"] and not TOOLKIT.fullmatch(name):
            known = [path for path, _ in self._pack.files if not path.endswith((".toml", ".cubin", ".py"))]
            raise Misdeclared([Mistake(place, no_such("file to include", name, known))])
        self.system.add(name)
        return ""

    def _demand_end(self, path: str, place: Place, around: tuple[str, ...]) -> None:
        if around.count(path) > 1 or len(around) >= DEEPEST:
            raise Misdeclared(
                [Mistake(place, f"include {path!r} goes round in a circle; give it #pragma once")]
            )
        if self._bytes > MOST_BYTES:
            raise Misdeclared(
                [Mistake(place, f"more than {MOST_BYTES:,} bytes with all includes; include less")]
            )


def includes(text: str) -> list[str]:
    """The lines of a unit that include what is left to the compiler."""
    return [line for line, in_code in _code_lines(text) if in_code and INCLUDE.match(line)]


def decoded(pack: Pack, file: str) -> str:
    """A file of the pack as text, lines ended by \\n; Misdeclared where it is none."""
    try:
        return pack.by_path[file].decode("utf8").replace("\r\n", "\n").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Misdeclared(
            [Mistake(Place(file), f"byte {error.start} is no UTF-8; save the file as UTF-8")]
        ) from None


def _joined(folder: str, name: str) -> str | None:
    """A path below a folder of the pack with its dots resolved; None where it leads out of the pack."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(name).parts):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part == "/":
            return None
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _code_lines(text: str) -> list[tuple[str, bool]]:
    """Every line, and whether it starts outside of a /* comment */."""
    found, inside = [], False
    for line in text.split("\n"):
        found.append((line, not inside))
        bare = re.sub(r'"(?:\\.|[^"\\\n])*"|//.*', "", line) if not inside else line
        inside = bare.rfind(COMMENT_OPEN) > bare.rfind(COMMENT_CLOSE) or (
            inside and COMMENT_CLOSE not in bare
        )
    return found


def _without_once(line: str) -> str:
    """`#pragma once` is done with where a file is inlined, and warned of in a main file."""
    return "" if ONCE.match(line) else line
