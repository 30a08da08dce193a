"""Reads a data set with FlashInfer-Bench's own models: python flashinfer_check.py FOLDER

Its TraceSet, which reads a folder, wants torch. The models of what is in one don't, so they are loaded
alone, and what TraceSet demands of names is asked here.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any


def models() -> Any:
    """The package's modules of data, without what imports torch."""
    found = importlib.util.find_spec("flashinfer_bench")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("no flashinfer-bench here; pip install --no-deps -r requirements-flashinfer.txt")
    home = found.submodule_search_locations[0]
    for name, path in (("flashinfer_bench", home), ("flashinfer_bench.data", f"{home}/data")):
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    read = importlib.import_module
    return types.SimpleNamespace(
        Definition=read("flashinfer_bench.data.definition").Definition,
        Solution=read("flashinfer_bench.data.solution").Solution,
        Trace=read("flashinfer_bench.data.trace").Trace,
    )


def check(folder: Path) -> tuple[int, int, int, int]:
    """How many definitions, solutions, workloads and traces there are; an exception where one is wrong."""
    known = models()
    definitions = [
        known.Definition.model_validate_json(path.read_text()) for path in folder.glob("definitions/*/*.json")
    ]
    solutions = [
        known.Solution.model_validate_json(path.read_text()) for path in folder.glob("solutions/*/*/*.json")
    ]
    workloads, traces = (
        [known.Trace.model_validate_json(line) for path in folder.glob(f"{under}/*/*.jsonl")
         for line in path.read_text().splitlines()]
        for under in ("workloads", "traces")
    )  # fmt: skip
    names = {one.name: one for one in definitions}
    solved = {one.name: one for one in solutions}
    assert len(names) == len(definitions)
    assert len(solved) == len(solutions)
    assert all(one.definition in names for one in (*solutions, *workloads, *traces))
    assert all(one.is_workload_trace() for one in workloads)
    for one in traces:
        assert solved[one.solution].definition == one.definition
        assert not one.is_workload_trace()
        assert one.workload.inputs.keys() == names[one.definition].inputs.keys()
        assert one.workload.axes.keys() == set(names[one.definition].var_axes)
    return len(definitions), len(solutions), len(workloads), len(traces)


if __name__ == "__main__":
    print(
        "{} definitions, {} solutions, {} workloads, {} traces: all valid".format(*check(Path(sys.argv[1])))
    )
