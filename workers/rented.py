"""Whose machine this is and what it costs, where the environment or a label tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from kernels.errors import UsageError

LABELS = "FARM_LABELS"  # provider=runpod,instance=a100-80gb,price=1.19 USD/h
KNOWN = ("provider", "instance", "price", "region")
# Variables that providers set in what they rent out: the provider, and what names the instance.
SIGNS = {
    "RUNPOD_POD_ID": "runpod",
    "VAST_CONTAINERLABEL": "vast.ai",
    "MODAL_TASK_ID": "modal",
    "LAMBDA_INSTANCE_ID": "lambda",
    "KAGGLE_KERNEL_RUN_TYPE": "kaggle",
    "COLAB_RELEASE_TAG": "colab",
}
PRICE = re.compile(r"([0-9]{1,9}(?:[.][0-9]{1,9})?)\s*USD/h", re.IGNORECASE)  # 1.19 USD/h
DEAREST = 1000  # dollars an hour: more is a mistake


def dollars(price: str) -> Fraction | None:
    """Dollars an hour, 0 for none; None where the text is no price."""
    match = PRICE.fullmatch(price.strip())
    return Fraction(match[1]) if match and Fraction(match[1]) < DEAREST else None


def rented(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(word, value) for what is known; a label outweighs what a provider set.

    UsageError for a price that is none: the board would be reckoned by another, or by nothing.
    """
    found: dict[str, str] = {}
    for name, provider in SIGNS.items():
        if environ.get(name):
            found = {"provider": provider, "instance": environ[name]}
            break
    for label in environ.get(LABELS, "").split(","):
        word, _, value = label.partition("=")
        if word.strip() in KNOWN and value.strip():
            found[word.strip()] = value.strip()[:100]
    if "price" in found and dollars(found["price"]) is None:
        raise UsageError(
            f"{LABELS}: price is {found['price']!r}; dollars an hour below {DEAREST} are wanted: 0.40 USD/h"
        )
    return tuple((word, found[word]) for word in KNOWN if word in found)
