"""Simulation-based calibration: whether `fit` draws from the posterior.

True parameters are drawn from the prior, releases from these, and posteriors from the releases. The
rank of the true value among the posterior draws is uniform if the draws are correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, stats
from scipy.special import logsumexp

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.errors import ModelError, one_of
from anonbayes.figures import SERIES, legend_below, make_axes, percent_axis
from anonbayes.formats import Table, number
from anonbayes.inference.dirichlet import WEIGHT, Prior, PriorLike, draw_simplexes
from anonbayes.inference.fit import fit
from anonbayes.inference.vertical.crossfit import WEIGHT_PRIOR, CrossFit
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import CENTRE, SPREAD, dense_features, maximise
from anonbayes.inference.weights import Evidenced, choose_evidence
from anonbayes.inference.workflow import OTHERS, cell_rates, draw_codes
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BINS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Ranks:
    """Ranks of true values among draws of their posteriors. Returned by `sbc`.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per simulation, one column per quantity: the number of draws below the true value.
    draws : int
        Number of draws of each posterior; ranks range from 0 to this number.
    """

    table: pd.DataFrame
    draws: int

    def counts(self, name: str) -> Ints:
        """Number of ranks of a quantity in each of ten bins of equal probability."""
        edges = np.linspace(0, self.draws + 1, BINS + 1)
        return np.histogram(self.table[name], bins=edges)[0]

    @property
    def p_values(self) -> pd.Series:
        """P-value of a chi-square test for uniform ranks, by quantity."""
        ways = np.histogram(np.arange(self.draws + 1), np.linspace(0, self.draws + 1, BINS + 1))[0]
        expected = ways / ways.sum() * len(self.table)
        found = {n: stats.chisquare(self.counts(n), expected).pvalue for n in map(str, self.table)}
        return pd.Series(found, name="p_value")

    @property
    def passed(self) -> bool:
        """Whether uniformity is rejected for no quantity at 1%, with Bonferroni's correction."""
        return bool(self.p_values.min() * len(self.p_values) > 0.01)

    def plot(self, name: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot the ranks of a quantity, by default the least uniform, with the range of chance."""
        chosen = str(self.p_values.idxmin()) if name is None else name
        ax = make_axes(ax, 5.6, 3.4)
        n = len(self.table)
        room = stats.binom.ppf([0.005, 0.995], n, 1 / BINS)
        ax.axhspan(*room, color="0.88", label="99% range under correct sampling", zorder=0)
        ax.bar(np.arange(BINS) / BINS + 0.5 / BINS, self.counts(chosen), width=0.9 / BINS,
               color=SERIES[0], alpha=0.85)  # fmt: skip
        ax.set(xlabel="Rank of the true value among the draws", ylabel="Simulations", title=chosen)
        percent_axis(ax.xaxis)
        legend_below(ax)
        return ax

    def __repr__(self) -> str:
        return f"Ranks({len(self.table)} simulations, smallest p-value {self.p_values.min():.3g})"

    def _repr_html_(self) -> str:
        rows = [[str(n), number(p, 2)] for n, p in self.p_values.items()]
        words = "agree with" if self.passed else "are not"
        title = f"Draws {words} the posterior: ranks in {len(self.table)} simulations"
        return f"<div>{Table(['quantity', 'p-value'], rows, title).to_html()}</div>"


def sbc(
    table: ReleasedTable,
    *,
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    evidence: str = "independent",
    simulations: int = 200,
    draws: int = 99,
    seed: int | np.random.Generator | None = None,
    **settings: Any,
) -> Ranks:
    """Check the sampler of a table by simulation-based calibration (Talts et al. 2018).

    In each simulation, as many people as the table has are drawn from the prior and released as in
    the table: through its cells at their rates (`cell_rates`), its channels, and its groups. The
    simulated release is fitted. For weighted evidence, weights are drawn from their prior and
    secrets given the features of the table.

    Parameters
    ----------
    table : ReleasedTable
        A table like the one in question; a small one saves time.
    alpha, beta, evidence
        As in `fit`; weighted evidence needs sensitive values in clear.
    simulations : int
        Number of simulations: a few hundred reveal gross errors, a few thousand subtle ones.
    draws : int
        Number of draws of each posterior, from a single chain.
    seed : int, Generator or None
        Seed of the whole check.
    **settings
        Arguments of `fit`: ``method=``, ``step=``, ``tune=``, ``thin=``. Thin chains enough to make
        their draws nearly independent.

    References
    ----------
    S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman (2018). Validating Bayesian inference
    algorithms with simulation-based calibration. arXiv:1804.06788.

    Examples
    --------
    >>> import anonbayes as ab
    >>> ranks = ab.sbc(ab.datasets.load("table1_recoded"), simulations=100, seed=1)
    >>> ranks.passed
    True
    """
    one_of("evidence", evidence, ("independent", "weighted"))
    for name, value in (("simulations", simulations), ("draws", draws)):
        read_whole(name, value, least=BINS)
    rng = np.random.default_rng(seed)
    taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta)
    if evidence == "weighted":
        if not table.secrets_known:
            raise ModelError(
                "Calibration with weighted evidence needs sensitive values in clear; otherwise, "
                "simulate from build_model(table) with pm.sample_prior_predictive."
            )
        lines = _weights(table, taken, simulations, draws, rng)
    else:
        lines = _populations(table, taken.prior, simulations, draws, rng, settings)
    return Ranks(pd.DataFrame(list(lines)), draws)


def _populations(
    table: ReleasedTable,
    prior: Prior,
    simulations: int,
    draws: int,
    rng: np.random.Generator,
    settings: dict[str, Any],
) -> Iterator[dict[str, int]]:
    shown = {name: _Release.of(table, name) for name in table.attributes}
    reports = None if table.secrets_known else _Release.of(table, table.sensitive)
    n = table.n_rows
    for _ in range(simulations):
        pi_secret = _dirichlet(prior.alpha[None], rng)[0]
        pis = {name: _dirichlet(weight, rng) for name, weight in prior.beta.items()}
        secret = draw_codes(pi_secret[None], np.zeros(n, dtype=np.int64), rng)
        values = {name: draw_codes(pi, secret, rng) for name, pi in pis.items()}
        again = _released(table, shown, reports, secret, values, rng)
        post = fit(
            again,
            alpha=prior.alpha,
            beta=dict(prior.beta),
            evidence="independent",
            draws=draws,
            chains=1,
            seed=int(rng.integers(2**31)),
            progressbar=False,
            **settings,
        )
        truth = {f"pi_{table.sensitive}": pi_secret[0]}
        truth |= {f"pi_{name}": pi[0, 0] for name, pi in pis.items()}
        drawn = {k: post.draws[k].to_numpy()[0].reshape(draws, -1)[:, 0] for k in truth}
        yield {k: int((drawn[k] < value).sum()) for k, value in truth.items()}


def _dirichlet(weights: Floats, rng: np.random.Generator) -> Floats:
    bounds = np.arange(len(weights) + 1) * weights.shape[1]
    return draw_simplexes(weights.ravel(), bounds, rng).reshape(weights.shape)


@dataclass(frozen=True, eq=False)
class _Release:
    """Cells of a column, completed so that every value is released as one of them.

    `chance[k, y]` is the probability that value k is released as cell y. The probability that the
    table's cells leave over goes to the value in clear, or for a channel to one further report.
    """

    evidence: Evidence
    chance: Floats

    @classmethod
    def of(cls, table: ReleasedTable, name: str) -> _Release:
        column = table.secret if name == table.sensitive else table.columns[name]
        evidence = column.evidence
        counts = table.tally(column.codes, len(evidence))
        matrix = evidence.matrix.toarray() * cell_rates(evidence, counts).rate[:, None]
        left = np.maximum(1.0 - matrix.sum(axis=0), 0.0)
        if left.max() < 1e-12:
            return cls(evidence, matrix.T)
        more = np.diag(left) if evidence.is_hard else left[None]
        rows = np.flatnonzero(more.max(axis=1) > 0)
        own = (more[rows] > 0).astype(float) if evidence.is_hard else more[rows]
        labels = [*evidence.labels, *(f"{OTHERS} {i}" for i in rows)]
        whole = sparse.csr_array(sparse.vstack([evidence.matrix, sparse.csr_array(own)]))
        chance = np.vstack([matrix, more[rows]]).T
        return cls(Evidence(evidence.domain, tuple(labels), whole), chance)

    def draw(self, values: Ints, rng: np.random.Generator) -> Column:
        """Release values."""
        return Column(self.evidence, draw_codes(self.chance, values, rng))


def _released(
    table: ReleasedTable,
    shown: dict[str, _Release],
    reports: _Release | None,
    secret: Ints,
    values: dict[str, Ints],
    rng: np.random.Generator,
) -> ReleasedTable:
    """Release people as this table would; groups keep their positions."""
    clear = Evidence(
        table.secret.domain, table.secret.domain.values, sparse.eye_array(len(table.secret.domain))
    )
    column = Column(clear, secret) if reports is None else reports.draw(secret, rng)
    groups = table.group_codes
    if table.weights is not None:
        groups = np.repeat(groups, table.weights)
    if table.scheme == "vertical":  # the link inside groups is forgotten
        order = np.lexsort((rng.random(len(secret)), groups))
        place = np.argsort(groups, kind="stable")
        for name, codes in values.items():
            mixed = np.empty_like(codes)
            mixed[place] = codes[order]
            values[name] = mixed
    return replace(
        table,
        columns={name: release.draw(values[name], rng) for name, release in shown.items()},
        secret=column,
        group_codes=groups,
        weights=None,
    )


def _weights(
    table: ReleasedTable, taken: Evidenced, simulations: int, draws: int, rng: np.random.Generator
) -> Iterator[dict[str, int]]:
    """Draw weights from their prior, secrets given the table's features, and fit the weights."""
    found = taken.weights
    assert found is not None
    mean, spread = (CENTRE, SPREAD) if taken.crossfit is None else WEIGHT_PRIOR
    link = _cells(table, taken) if taken.crossfit is None else _ownership(table, taken.crossfit)
    for _ in range(simulations):
        eta = stats.truncnorm.rvs(
            -mean / spread, np.inf, mean, spread, size=len(found.names), random_state=rng
        )
        score = np.einsum("a,ras->rs", np.append(1.0, eta), link.features)
        p = np.exp(score - logsumexp(score, axis=1, keepdims=True))
        below = np.cumsum(p, axis=1)
        drawn = rng.random(len(p))[:, None] * below[:, -1:]
        mode, precision, gradient = link.fit(np.asarray((below < drawn).sum(axis=1)))
        again = replace(found, eta=mode, precision=precision, gradient=gradient)
        smaller = (again.draw(draws, rng) < eta).sum(axis=0)
        yield {f"{WEIGHT}{name}": int(r) for name, r in zip(found.names, smaller, strict=True)}


class _Link(NamedTuple):
    """Features of rows, ``(rows, 1 + A, S)``, and the function that fits weights to secrets."""

    features: Floats
    fit: Callable[[Ints], tuple[Floats, Floats, Floats]]


def _cells(table: ReleasedTable, taken: Evidenced) -> _Link:
    features = taken.features(table)
    rows = np.repeat(np.arange(len(features.rows)), features.rows.astype(np.int64))
    alone = features._replace(
        share_step=np.zeros_like(features.share_step),
        step=np.zeros_like(features.step),
        codes=np.ascontiguousarray(features.codes[rows]),
        rows=np.ones(len(rows)),
        secret=features.secret[rows],
    )
    x = np.empty((len(rows), len(table.attributes) + 1, len(features.share)))
    dense_features(alone, x)
    return _Link(x, lambda secret: maximise(alone._replace(secret=secret)))


def _ownership(table: ReleasedTable, found: CrossFit) -> _Link:
    """Rows of an Anatomy release, where weights are fitted without knowing the link in groups."""
    layout = layout_of(table)
    apart, lifts = found.features(layout)
    share = np.tile(np.log(found.secret_shares), (layout.n_rows, 1))
    own = [lift.T[apart.items[:, a]] for a, lift in enumerate(lifts)]

    def fit(secret: Ints) -> tuple[Floats, Floats, Floats]:
        objective = found.objective(layout, secrets=secret)
        point = objective.maximise(np.concatenate([found.weights, np.log(found.pooling)]))
        hessian = objective.curvature(point).sum(axis=0)
        return point[: objective.n], *objective.laplace(point, hessian)

    return _Link(np.stack([share, *own], axis=1), fit)
