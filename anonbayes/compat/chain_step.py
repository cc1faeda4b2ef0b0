"""PyMC 5 and 6 step methods under one name."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.step_methods.compound import BlockedStep
from pymc.util import get_random_generator


class ChainStep(BlockedStep):
    """A step method that is notified when a chain begins.

    PyMC 5 announces a chain with ``set_rng(rng)``, PyMC 6 with ``setup_chain(rng, tune, draws)``;
    both call `begin_chain`. An instance may serve several chains in sequence.
    """

    rng: np.random.Generator

    def begin_chain(self) -> None:
        """Forget the previous chain; ``self.rng`` is the new chain's generator."""

    def set_rng(self, rng: Any) -> None:
        """Begin a chain (PyMC 5)."""
        self.rng = get_random_generator(rng, copy=False)
        self.begin_chain()

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Begin a chain (PyMC 6)."""
        self.set_rng(rng)
