"""Many processes that write to a farm's database beside it: python -m tests.chaos.writers URL FIRST COUNT."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence

from db.session import open_existing
from kernels.errors import FarmError
from tests.db.making import write_lines

WRITES = 20  # of each process


def write(url: str, number: int) -> int:
    """Writes this writer's lines; again from the first that isn't there where the database was away."""
    for _ in range(60):
        try:
            open_existing(url).close()
            return write_lines(url, number, WRITES)
        except FarmError:
            time.sleep(1.0)
    raise SystemExit("the database stayed away")


def main(words: Sequence[str]) -> None:
    url, first, count = words[0], int(words[1]), int(words[2])
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        told = pool.starmap(write, [(url, first + n) for n in range(count)], chunksize=1)
    print(sum(told), "lines")


if __name__ == "__main__":
    main(sys.argv[1:])
