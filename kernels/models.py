"""Real models by name, from models.toml: the sizes that their ops' shapes are derived from."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("models.toml")
PREFILL = 512  # tokens of a batch that a prompt is read in


@dataclass(frozen=True)
class Model:
    """One model's quantized matrices, rows x cols as stored: (outputs, inputs)."""

    name: str
    hidden: int
    inner: int  # of its ffn, or of one of its experts
    attention: tuple[tuple[int, int], ...]  # projections, equal ones once
    vocabulary: int  # rows of the head, which only the last token of a prompt meets
    experts: int = 0  # of a layer; 0 where its ffn has none
    top_k: int = 0  # experts that a token takes

    @property
    def layer(self) -> tuple[tuple[int, int], ...]:
        """The matrices of one layer: attention, then the ffn's gate (or up) and down."""
        return *self.attention, (self.inner, self.hidden), (self.hidden, self.inner)

    @property
    def head(self) -> tuple[int, int]:
        return self.vocabulary, self.hidden


@cache
def all_models() -> tuple[Model, ...]:
    """Every model of the file, in its order."""
    entries = tomllib.loads(FILE.read_text(encoding="utf8"))["model"]
    return tuple(
        Model(**{**entry, "attention": tuple((rows, cols) for rows, cols in entry["attention"])})
        for entry in entries
    )
