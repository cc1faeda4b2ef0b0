"""How other priors would change the threats: measures over a range of Dirichlet weights.

For nested cells, beliefs have a closed form (MODEL 1.3), so that several priors cost little more
than one. Cross-fitted lifts are pooled again from the same counts. Only other tables need chains,
and have a simulation error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.beliefs.register import Register, join_register
from anonbayes.errors import AnonbayesError, ConvergenceWarning
from anonbayes.figures import SERIES, legend_below, make_axes, percent_axis, times_axis
from anonbayes.formats import Table, number
from anonbayes.inference.dirichlet import PriorLike
from anonbayes.inference.fit import crossfit_posterior, fit
from anonbayes.inference.posterior import Posterior, make_posterior
from anonbayes.inference.weights import Evidenced, choose_evidence
from anonbayes.risk.assess import threats_of
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.risk.measures import MEASURES, Evaluation, evaluate
from anonbayes.risk.people import Truth, read_truth
from anonbayes.risk.threats import Gain, read_gain
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
SHORT_SWEEPS, SHORT_DRAWS = 100_000, (100, 300)
"""Rows times draws of a chain in a report, and the least and largest number of draws."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FOLLOWED = {name: MEASURES[name] for name in ("GT_A", "RGT_A", "Ti_q50", "max_Ti", "log_loss_A")}
"""Measures computed for each prior."""


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Measures over a range of priors. Returned by `sensitivity`.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per prior, starting with the chosen one. ``alpha`` and ``beta`` are the factors by
        which the chosen weights of the secrets and of the other values are multiplied; the other
        columns are ``GT_A, RGT_A, Ti_q50, max_Ti, log_loss_A``.
    errors : pandas.DataFrame
        Their simulation errors; zero without chains.
    evidence : str
        Kind of evidence, the same for all priors.
    """

    table: pd.DataFrame
    errors: pd.DataFrame
    evidence: str

    @property
    def range(self) -> pd.DataFrame:
        """Smallest, chosen and largest value of each measure."""
        return pd.DataFrame(
            {"low": self.table.min(), "chosen": self.table.iloc[0], "high": self.table.max()}
        )

    @property
    def text(self) -> str:
        """The findings in plain words."""
        factors = self.table.index.to_frame().to_numpy()
        span = f"{number(factors.min(), 2)} to {number(factors.max(), 2)} times"
        parts = []
        for name, measure in FOLLOWED.items():
            values = self.range.loc[name].to_numpy(float).tolist()
            low, chosen, high = map(measure.show, values)
            worst = float(self.errors[name].max())
            error = f", s.e. up to {measure.show_error(worst)}" if worst > 0 else ""
            parts.append(f"{measure.title.lower()} {low} to {high} ({chosen} as chosen{error})")
        return f"With prior weights of {span} the chosen ones: {'; '.join(parts)}."

    def plot(self, *, measure: str = "GT_A", ax: Axes | None = None) -> Axes:
        """Plot a measure against the factor for the secrets, for the other values, and for both.

        Parameters
        ----------
        measure : str
            Column of `table`.
        ax : matplotlib axes, optional
            Where to draw.
        """
        if measure not in self.table:
            raise AnonbayesError(
                f"measure={measure!r} is not available; choose one of {', '.join(FOLLOWED)}."
            )
        ax = make_axes(ax, 5.6, 3.6)
        lines = self.table.reset_index()
        for label, kept, colour, style in (
            ("secrets", lines["beta"] == 1, SERIES[0], "o-"),
            ("other values", lines["alpha"] == 1, SERIES[1], "s--"),
            ("both", lines["alpha"] == lines["beta"], SERIES[2], "^:"),
        ):
            part = lines[kept].assign(factor=lines[["alpha", "beta"]].prod(axis=1))
            if label == "both":
                part = part.assign(factor=part["alpha"])
            part = part.sort_values("factor")
            ax.plot(part["factor"], part[measure], style, color=colour, label=label)
        ax.set(xlabel="Factor of the prior weights", ylabel=FOLLOWED[measure].title)
        times_axis(ax)
        if FOLLOWED[measure].kind == "share":
            percent_axis(ax.yaxis)
        legend_below(ax, 3)
        return ax

    def __repr__(self) -> str:
        return f"Sensitivity({len(self.table)} priors, evidence={self.evidence!r})"

    def _repr_html_(self) -> str:
        rows = []
        for name, measure in FOLLOWED.items():
            values = self.range.loc[name].to_numpy(float).tolist()
            worst = float(self.errors[name].max())
            error = [measure.show_error(worst)] if self.errors.to_numpy().any() else []
            rows.append([f"{measure.title} ({name})", *map(measure.show, values), *error])
        head = ["", "lowest", "as chosen", "highest", *(["s.e. up to"] if error else [])]
        title = f"Prior sensitivity, {len(self.table)} priors"
        return f"<div>{Table(head, rows, title).to_html()}</div>"


def sensitivity(
    table: ReleasedTable,
    people: pd.DataFrame,
    *,
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    evidence: str = "auto",
    factors: Sequence[float] | object = FACTORS,
    harm: Iterable[object] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
    weights: str | None = None,
    group: str | None = None,
    draws: int = 200,
    seed: int | np.random.Generator | None = 0,
) -> Sensitivity:
    """Compute how much the threats to people depend on the prior.

    The chosen weights of the secrets, those of the other values, and both, are multiplied by each
    of the factors. If weighted evidence is cross-fitted, the pooling ``kappa`` of its lifts is
    multiplied instead of `beta`, and the weights are fitted again. Tables without a closed form are
    sampled again for every prior, with the same random numbers.

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    people : pandas.DataFrame
        The people behind it, in clear, as in `Posterior.assess`.
    alpha, beta, evidence
        The chosen prior and evidence; see `fit`.
    factors : sequence of float, or a distribution of PreliZ
        Factors of the weights. For a distribution (``pz.Gamma``, ``pz.LogNormal``), its quantiles
        from 5% to 95%. 1 is always included.
    harm, gain, weights, group
        As in `Posterior.assess`.
    draws : int
        Draws of each of two chains, after as many tuning sweeps, if there is no closed form.
    seed : int, Generator or None
        Seed of these draws, the same for every prior.

    Examples
    --------
    >>> import anonbayes as ab
    >>> people = ab.datasets.load("clinic").head(300)[["sex", "marital_status", "diagnosis"]]
    >>> table = ab.ReleasedTable.horizontal(people, "diagnosis")
    >>> found = ab.sensitivity(table, people, evidence="independent")
    >>> found.range.loc["max_Ti"].round(2).to_dict()
    {'low': 2.5, 'chosen': 2.89, 'high': 3.65}
    """
    taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta)
    problem = read_gain(table.secret.domain, harm=harm, gain=gain)
    truth = read_truth(table, people, weights=weights, group=group)
    return _over(_Chosen(table, taken, truth, problem), _grid(_factors(factors)), draws, seed)


def sensitivity_of(risk: RiskAssessment) -> Sensitivity | None:
    """`sensitivity` of an assessment around its own prior, quick enough for a report.

    Uses only the ends of `FACTORS`. None for draws of a user's model, whose prior is unknown.
    """
    post = risk.post
    if post.method == "draws":
        return None
    before = None if post.register is None else post.register.before
    taken = Evidenced(post.evidence, before or post.prior, post.evidence_weights, post.pooled)
    if post.method == "crossfit":
        beta = dict(post.prior.beta) if post.table.scheme == "vertical" else None
        taken = choose_evidence(post.table, evidence="weighted", alpha=post.prior.alpha, beta=beta)
    chosen = _Chosen(
        post.table, taken, risk.truth, risk.gain, str(risk.settings["kind"]), post.register
    )
    known = risk.summary[list(FOLLOWED)], risk.standard_errors[list(FOLLOWED)]
    draws = int(np.clip(SHORT_SWEEPS // post.table.n_rows, *SHORT_DRAWS))
    return _over(chosen, _grid([FACTORS[0], 1.0, FACTORS[-1]]), draws, 0, known)


class _Chosen(NamedTuple):
    """Table, people, and the chosen prior and evidence."""

    table: ReleasedTable
    taken: Evidenced
    truth: Truth
    gain: Gain
    kind: str = "predictive"
    register: Register | None = None

    def under(self, one: float, two: float, draws: int, seed: int) -> Posterior:
        """Fit with prior weights multiplied by two factors."""
        table, known = self.table, self.register
        taken = self.taken.scaled(table, one, two)
        if taken.crossfit is not None or taken.lifts is not None:
            post = crossfit_posterior(table, taken, (1, 1), seed)
            return (
                post if known is None else replace(post, register=Register.of(post, known.people))
            )
        if table.is_nested:
            alpha, beta = taken.prior.alpha, dict(taken.prior.beta)
            single = None if taken.weights is None else taken.weights.corrections
            if known is not None and taken.evidence == "independent":
                table = join_register(table, known.people)
            again = choose_evidence(
                table,
                evidence=taken.evidence,
                alpha=alpha,
                beta=beta,
                errors=False,
                variance=0.0 if single is None else single.variance,
            )
            attrs = {"entropy": seed, "tune": 0, "thin": 1}
            post = make_posterior(
                table, again.prior, {}, {}, size=(1, 1), method="exact", step=None, rows=None,
                taken=again._replace(weights=None), attrs=attrs, versions=False,
            )  # fmt: skip
            post = replace(post, evidence_weights=again.weights)  # no file needs them as arrays
            if known is None:
                return post
            return replace(post, table=self.table, register=Register.of(post, known.people))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the errors show it
            return fit(
                table,
                alpha=taken.prior.alpha,
                beta=dict(taken.prior.beta),
                evidence=taken.evidence,
                register=None if known is None else known.people,
                seed=seed,
                progressbar=False,
                draws=draws,
                tune=draws,
                chains=2,
            )

    def measured(self, post: Posterior) -> tuple[pd.Series, pd.Series]:
        """Compute the measures and their errors."""
        records, replicates = threats_of(post, self.truth, self.gain, self.kind)
        found = Evaluation(records.threats, self.truth.pair_count, cast(Any, None), np.nan)
        return evaluate(found, replicates, FOLLOWED)


def _over(
    chosen: _Chosen,
    lines: list[tuple[float, float]],
    draws: int,
    seed: int | np.random.Generator | None,
    known: tuple[pd.Series, pd.Series] | None = None,
) -> Sensitivity:
    """Compute the measures for pairs of factors; those of the chosen prior may be `known`."""
    entropy = int(np.random.default_rng(seed).integers(2**31))
    found = [] if known is None else [known]
    for one, two in lines[len(found) :]:
        found.append(chosen.measured(chosen.under(one, two, draws, entropy)))
    index = pd.MultiIndex.from_tuples(lines, names=["alpha", "beta"])
    table, errors = (
        pd.DataFrame([pair[i].to_numpy() for pair in found], index=index, columns=list(FOLLOWED))
        for i in (0, 1)
    )
    return Sensitivity(table, errors, chosen.taken.evidence)


def _factors(given: Sequence[float] | object) -> list[float]:
    values = [float(x) for x in given.ppf(np.array(QUANTILES))] if hasattr(given, "ppf") else given
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise AnonbayesError(f"factors={given!r} must be positive numbers.") from None
    if array.ndim != 1 or not len(array) or not (np.isfinite(array) & (array > 0)).all():
        raise AnonbayesError(f"factors={given!r} must be positive numbers, such as (0.5, 1, 2).")
    return sorted({1.0, *array[np.abs(array - 1.0) > 1e-12].tolist()})


def _grid(factors: list[float]) -> list[tuple[float, float]]:
    out = [(1.0, 1.0)]
    for f in factors:
        out += [(f, 1.0), (1.0, f), (f, f)]
    return list(dict.fromkeys(out))
