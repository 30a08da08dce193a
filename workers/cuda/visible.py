"""Which boards a process may use: what CUDA_VISIBLE_DEVICES lets through, by indices, UUIDs or MIG ids.

Its rules: NVIDIA, CUDA C++ Programming Guide, "CUDA Environment Variables". An index counts in CUDA's own
order, which is not NVML's, so that only the driver itself can say what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.backend import Unavailable
from workers.cuda.libcuda import Answers, bare
from workers.cuda.pin import MASK

HIDDEN = ("", "-1", "nodevfiles")
BY_NAME = ("gpu-", "mig-")


def visible(
    environ: Mapping[str, str], known: tuple[str, ...], ask_driver: Callable[[], Answers]
) -> tuple[str, ...]:
    """UUIDs, of those that NVML knows, in the mask's order; all of them without a mask.

    `ask_driver` gives what the driver sees under the same environment; it is asked about indices, and where
    NVML knows nothing. Raises Unavailable where nothing is let through.
    """
    mask = environ.get(MASK)
    if mask is not None and mask.strip().lower() in HIDDEN:
        raise Unavailable(f"{MASK}={mask} hides every board; unset it")
    words = [word.strip() for word in mask.split(",")] if mask else []
    by_name = all(word.lower().startswith(BY_NAME) and "/" not in word for word in words)
    if not known or not by_name:
        return _named(ask_driver(), known, mask)
    if mask is None:
        return known
    found = _taken(words, known)
    if not found:
        raise Unavailable(f"{MASK} names {words[0]}, which isn't here; there are {', '.join(known)}")
    return found


def _taken(words: list[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """What CUDA takes: names may be cut short, and what follows one that fits nothing isn't looked at."""
    found: list[str] = []
    for word in words:
        fitting = [uuid for uuid in known if uuid.lower().startswith(word.lower())]
        if len(fitting) != 1:
            break
        found.append(fitting[0])
    return tuple(found)


def _named(answers: Answers, known: tuple[str, ...], mask: str | None) -> tuple[str, ...]:
    """The driver's boards by the names that NVML has for them."""
    if not answers.boards:
        told = f"{MASK}={mask} lets no board through; unset it"
        raise Unavailable(told if mask else "the driver has no board")
    names = {bare(uuid): uuid for uuid in known}
    return tuple(names.get(bare(seen.uuid), f"GPU-{bare(seen.uuid)}") for seen in answers.boards)
