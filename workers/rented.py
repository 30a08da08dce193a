"""Whose machine this is and what it costs, where the environment or a label tells."""

from __future__ import annotations

from collections.abc import Mapping

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


def rented(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(word, value) for what is known; a label outweighs what a provider set."""
    found: dict[str, str] = {}
    for name, provider in SIGNS.items():
        if environ.get(name):
            found = {"provider": provider, "instance": environ[name]}
            break
    for label in environ.get(LABELS, "").split(","):
        word, _, value = label.partition("=")
        if word.strip() in KNOWN and value.strip():
            found[word.strip()] = value.strip()[:100]
    return tuple((word, found[word]) for word in KNOWN if word in found)
