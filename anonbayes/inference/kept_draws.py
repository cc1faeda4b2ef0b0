"""What beliefs ask of a posterior: draws, averages that engines kept, and closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.beliefs.editions import Editions
from anonbayes.beliefs.register import Register
from anonbayes.beliefs.victims import batch_slices
from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.horizontal.tree import DirichletTree
from anonbayes.inference.stacking import lift_parts
from anonbayes.inference.stored import AVERAGES_GROUP
from anonbayes.inference.vertical.group_engine import layout_of
from anonbayes.tables.table import ReleasedTable

__all__ = ["KeptDraws"]


class KeptDraws:
    """Draws, averages and closed forms of a `Posterior`, as the beliefs about people need them."""

    table: ReleasedTable
    prior: Prior
    groups: Mapping[str, xr.Dataset]
    attrs: Mapping[str, Any]
    method: str
    register: Register | None
    editions: Editions | None

    @property
    def population(self) -> ReleasedTable:
        """What the population was learned from: the release, and a register if there is one."""
        return self.table if self.register is None else self.register.population

    @cached_property
    def trees(self) -> Mapping[str, DirichletTree]:
        """Closed-form posterior of each attribute; only for the exact method."""
        if self.method != "exact":
            raise ModelError(f"Closed forms exist for method='exact', not {self.method!r}.")
        return {
            name: DirichletTree(
                column.evidence, self.population.counts[name], self.prior.beta[name]
            )
            for name, column in self.population.columns.items()
        }

    @property
    def simulated(self) -> bool:
        """Whether beliefs come from draws, and so have a Monte-Carlo error."""
        return self.method not in ("exact", "crossfit")

    @cached_property
    def means(self) -> list[npt.NDArray[np.float64]]:
        """Mean of each attribute's distribution, ``(S, K_a)``, where it needs no draws."""
        if self.method == "exact":
            return [self.trees[name].mean for name in self.table.attributes]
        if self.method != "crossfit":
            raise ModelError(f"The means of method={self.method!r} come from its draws.")
        return lift_parts(self.table, self.groups[AVERAGES_GROUP], "mean")

    @property
    def draws(self) -> xr.Dataset:
        """The draws, with dimensions chain and draw first."""
        return self.groups["posterior"]

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.draws.sizes["chain"])

    @property
    def n_draws(self) -> int:
        """Draws per chain."""
        return int(self.draws.sizes["draw"])

    @cached_property
    def secret_mean(self) -> npt.NDArray[np.float64]:
        """``E[pi_S]``, in closed form where sensitive values are known."""
        if self.table.secrets_known:
            weight = self.prior.alpha + self.population.secret_counts
            return weight / weight.sum()
        mean = self.draws[f"pi_{self.table.sensitive}"].mean(("chain", "draw"))
        return np.asarray(mean.to_numpy())

    @cached_property
    def ownership(self) -> list[sparse.csr_array]:
        """Vertical tables: ``P(item belongs to sensitive value s)``, one matrix per batch.

        Each matrix has shape ``(N, S)``: the average, over a stretch of one chain, of the
        conditional probabilities (Rao-Blackwell, MODEL 1.4).
        """
        if self.table.scheme != "vertical":
            raise ModelError("Only in a vertical table is it hidden who owns which values.")
        if self.editions is not None and self.editions.joint is not None:
            return [self.editions.joint.owned]
        layout = layout_of(self.table)
        if self.register is not None and self.register.corrects:
            kept, eta = self.groups[AVERAGES_GROUP], self.register.eta
            assert eta is not None
            lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
            fold = kept["fold"].to_numpy().ravel().astype(np.int64)
            weights = np.repeat(eta, layout.n_secrets * layout.sizes)
            return [self.register.ownership(layout, fold)(lifts * weights)]
        blocks = self.groups[AVERAGES_GROUP]["ownership"].to_numpy()
        chains, n_blocks = blocks.shape[:2]
        return [
            layout.ownership(blocks[chain, cut].mean(axis=0, dtype=float))
            for chain, cut in batch_slices(chains, n_blocks)
        ]

    def batch_means(self, name: str, cuts: Sequence[tuple[int, slice]]) -> Floats:
        """``E[pi_<name>]`` by batch, ``(batches, S, K)``; from ``E[pi | counts]`` where kept."""
        averaged = self.averaged(f"mean_{name}", cuts)
        if averaged is not None:
            return averaged.reshape(len(cuts), len(self.secret_mean), -1)
        draws = self.draws[f"pi_{name}"].to_numpy()
        return np.stack([draws[chain, cut].mean(axis=0) for chain, cut in cuts])

    def averaged(self, key: str, cuts: Sequence[tuple[int, slice]]) -> Floats | None:
        """Average what the engine summed up for beliefs over batches of draws.

        Parameters
        ----------
        key : str
            ``mean_<attribute>`` or ``fit_<attribute>``; see `HorizontalEngine.averages`.
        cuts : sequence of (chain, slice of draws)
            The batches.

        Returns
        -------
        numpy.ndarray or None
            One line per batch; None where the draws of ``pi`` are all there is.
        """
        content = self.groups.get(AVERAGES_GROUP)
        if content is None or key not in content:
            return None
        blocks = content[key].to_numpy()
        share = blocks.shape[1] / self.n_draws
        ends = [(c, int(cut.start * share), math.ceil(cut.stop * share)) for c, cut in cuts]
        return np.stack([blocks[c, a : max(a + 1, b)].mean(axis=0) for c, a, b in ends])
