"""The same mistake in numpy, for a board that is the twin."""

import numpy as np

from kernels.op import Step


def wrong(step: Step) -> np.ndarray:
    product: np.ndarray = step.arrays["gate"] * step.arrays["up"]
    return product
