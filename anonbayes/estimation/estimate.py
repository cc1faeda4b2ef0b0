"""The result of estimating a distribution from reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.domains import Domain

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """Estimated distribution of the true values.

    Attributes
    ----------
    domain : Domain
        The values.
    method : str
        The estimator.
    n : int
        Number of reports.
    p : ndarray, shape (K,)
        The estimate, in domain order. Of the empirical estimator, entries may be negative.
    interval : ndarray, shape (K, 2), or None
        Lower and upper limit for each value: confidence limits (Wilson's, of the share of
        supporting reports) or, for ``method="bayes"``, equal-tailed credible limits.
    level : float
        Probability of `interval`.
    log_likelihood : float or None
        At `p`, when `p` is a distribution.
    path : ndarray or None
        Log-likelihood before each EM iteration.
    iterations : int
        Passes over the reports that EM used.
    converged : bool
        Whether the iteration reached its tolerance (always true for closed forms).
    gap : float
        Upper bound on what the log-likelihood could still gain, where it was computed.
    draws : xarray.DataArray or None
        Posterior draws with dims ``(chain, draw, <domain name>)``.
    intermediate : Estimate or None
        For personalized channels, the estimate over values and tags.
    """

    domain: Domain
    method: str
    n: int
    p: Floats
    interval: Floats | None = None
    level: float = 0.95
    log_likelihood: float | None = None
    path: Floats | None = field(default=None, repr=False)
    iterations: int = 0
    converged: bool = True
    gap: float = float("nan")
    draws: xr.DataArray | None = field(default=None, repr=False)
    intermediate: Estimate | None = field(default=None, repr=False)

    def to_series(self) -> pd.Series:
        """Return the estimate as a series over the domain's values."""
        index = pd.Index(self.domain.values, name=self.domain.name)
        return pd.Series(self.p, index=index, name="p")

    def summary(self) -> pd.DataFrame:
        """One row per value: estimate and limits.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=2.0)
        >>> reports = ["yes"] * 300 + ["no"] * 700
        >>> channel.estimate(reports, method="empirical").summary().round(2).reset_index()
          answer     p  lower  upper
        0    yes  0.24   0.20   0.28
        1     no  0.76   0.72   0.80
        """
        frame = self.to_series().to_frame()
        if self.interval is not None:
            frame["lower"], frame["upper"] = self.interval.T
        return frame

    def _repr_html_(self) -> str:
        title = f"{self.method} estimate of {self.domain.name} from {self.n:,} reports"
        return f"<b>{title}</b>{self.summary().to_html(max_rows=20)}"
