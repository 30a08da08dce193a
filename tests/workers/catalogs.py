"""Catalogs as the tests of this room run them: folders of tests/data, with edits, and small ones as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernels import catalog, registry
from kernels.catalog import Selection
from kernels.declared import catalog as declared
from kernels.declared import twin
from kernels.declared.catalog import Catalog
from kernels.declared.pack import Pack
from kernels.evidence import Evidence
from kernels.inputs import FIXTURE_VERSION
from kernels.model import Build, Seeded
from kernels.op import Workload
from workers import packs
from workers.backend import backend
from workers.image_cache import ImageCache
from workers.request import Request
from workers.runner import new_id, run_case

DATA = Path(__file__).parents[1] / "data" / "catalogs"
Edits = Mapping[str, tuple[tuple[str, str], ...]]  # file to (old, new)


def edited(folder: str, edits: Edits | None = None) -> Catalog:
    """A folder of tests/data with edits of its files; an edit that changes nothing is an error."""
    files = dict(packs.read(DATA / folder).files)
    for file, pairs in (edits or {}).items():
        text = files[file].decode()
        for old, new in pairs:
            if text.count(old) != 1:
                raise LookupError(f"{folder}/{file} has {text.count(old)} of {old!r}")
            text = text.replace(old, new)
        files[file] = text.encode()
    return declared.load(Pack.of(files))


def written(**files: str) -> Catalog:
    """A catalog of texts: `k_toml` is k.toml."""
    return declared.load(Pack.of({name.replace("_", "."): text.encode() for name, text in files.items()}))


def ran(
    mine: Catalog,
    workload: Workload,
    kind: str = "",
    build: Build = Build.EXACT,
    family: str = "ordinary",
    backend_name: str = "host",
) -> Evidence:
    """The evidence of the catalog's one kernel on this machine, in this process."""
    (kernel,) = mine.kernels.values()
    chosen = backend(backend_name)
    drawn = Seeded(family, 0, FIXTURE_VERSION)
    with registry.searching(mine.kernels), twin.allowed():
        case = catalog.case_of(kernel, (kind,) if kind else (), workload, drawn, build)
        request = Request(new_id(), case, backend_name, chosen.devices()[-1], workload.repeats)
        return run_case(request, chosen, ImageCache(None))


def quick(mine: Catalog, kinds: tuple[str, ...] = (), build: Build = Build.EXACT) -> list[Evidence]:
    """The evidence of every case that a plain submit runs, in one build."""
    chosen = backend("host")
    found = []
    with registry.searching(mine.kernels), twin.allowed():
        for item in catalog.expand(Selection(kernels=tuple(mine.kernels), kinds=kinds, builds=(build,))):
            request = Request(new_id(), item.case, "host", chosen.devices()[0], item.repeats)
            found.append(run_case(request, chosen, ImageCache(None)))
    return found
