"""How `python -m workers` refuses words: one line, and the exit code of usage."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn

from kernels.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; the usage is --help's."""

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"workers: {' '.join(message.split())}; see {self.prog} --help\n")


def positive(text: str) -> float:
    """A time that ends: a finite number over 0. argparse adds the option's name to what is wrong."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}; a number over 0 is wanted")
    return found
