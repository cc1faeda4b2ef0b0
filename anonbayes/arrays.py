"""Types of the arrays that kernels take and return."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""Probabilities, weights, logarithms."""

Ints = npt.NDArray[np.int64]
"""Counts, offsets, numbers of rows."""

Codes = npt.NDArray[np.intp]
"""Places of values in their domain."""

Mask = npt.NDArray[np.bool_]
"""Which of several are meant."""
