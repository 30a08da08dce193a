"""Writes down what NVML and the driver of this machine answer, for `tests/data/boards`.

`python -m workers.cuda.recording > BOARD.json`. Serial numbers aren't asked for; UUIDs are in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from kernels import codec
from kernels.errors import FarmError
from workers.cuda import nvml, probe
from workers.cuda.libcuda import Answers

FIELDS = ("total", "multiprocessorCount")  # of the structures that NVML answers with, what is read
PARTS = "nvmlDeviceGetMigDeviceHandleByIndex"


class Recorder:
    """NVML's module, with a note of every answer that was given: by board, call and last argument."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.NVMLError = module.NVMLError
        self.told: dict[str, Any] = {"boards": []}
        self._of: list[tuple[Any, dict[str, Any]]] = []  # handle and its notes

    def __getattr__(self, call: str) -> Callable[..., Any]:
        asked = getattr(self._module, call)

        def answer(*args: Any) -> Any:
            found = asked(*args)
            self._note(call, args, found)
            return found

        return answer

    def _note(self, call: str, args: tuple[Any, ...], found: Any) -> None:
        if call.startswith("nvmlSystem"):
            self.told[call] = plain(found)
        elif call == "nvmlDeviceGetHandleByIndex":
            self._begin(found, self.told["boards"], args[0])
        elif call == PARTS:
            self._begin(found, self._notes(args[0]).setdefault("parts", []), args[1])
        elif call.startswith("nvmlDeviceGet") and args:
            notes = self._notes(args[0])
            if len(args) > 1:
                notes.setdefault(call, {})[str(args[1])] = plain(found)
            else:
                notes[call] = plain(found)

    def _begin(self, handle: Any, group: list[dict[str, Any]], number: int) -> None:
        if number < len(group):  # asked for again: another handle of the same
            self._of.append((handle, group[number]))
            return
        group.append({})
        self._of.append((handle, group[-1]))

    def _notes(self, handle: Any) -> dict[str, Any]:
        return next(notes for known, notes in reversed(self._of) if known is handle)


def plain(found: Any) -> Any:
    """An answer as JSON has it."""
    if isinstance(found, bytes):
        return found.decode(errors="replace")
    if isinstance(found, (str, int, float, list, tuple)):
        return list(found) if isinstance(found, tuple) else found
    return {name: int(getattr(found, name)) for name in FIELDS if hasattr(found, name)}


def record(module: Any, ask_driver: Callable[[], Answers]) -> dict[str, Any]:
    """A document of the form that `tests/data/boards` has; FarmError where there is nothing to record."""
    recorder = Recorder(module)
    system = nvml.read(recorder)
    if system.complaint:
        raise FarmError(f"nothing to record: {system.complaint}")
    for facts in system.boards:
        nvml.state(recorder, facts.uuid)
    answers = codec.encode(ask_driver())
    return {"provenance": "recorded on a board", "machine": "", "nvml": recorder.told, "driver": answers}


def main() -> int:
    """The exit status; one line where there is nothing to record."""
    try:
        import pynvml  # of the package nvidia-ml-py, which a bare worker may lack

        told = record(pynvml, probe.ask_driver)
    except (FarmError, OSError, ModuleNotFoundError) as error:
        print(f"recording: {error}", file=sys.stderr)
        return 1
    print(json.dumps(told, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
