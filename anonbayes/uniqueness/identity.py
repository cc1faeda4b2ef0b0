"""Is a record unique in the population? Population frequencies of records, with intervals.

A record that is unique in a table is a risk only if hardly anybody else in the population has it.
The population is not observed; `mixture` estimates it from the sample.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes import compat
from anonbayes.arrays import Floats, read_chains, read_whole
from anonbayes.domains import factorize
from anonbayes.errors import AnonbayesError
from anonbayes.figures import COLOURS, legend_below, make_axes, percent_axis
from anonbayes.inference.run import Recorded, join, run_chains
from anonbayes.io.files import write_text
from anonbayes.io.text import pandas_frame
from anonbayes.tables.table import ReleasedTable
from anonbayes.uniqueness.gibbs import MOST_MISSED
from anonbayes.uniqueness.mixture import (
    POOLING_MEAN,
    POOLING_SD,
    cell_shares,
    log_probabilities,
    splits_of,
)
from anonbayes.uniqueness.people_beyond import QUADRATURE, Beyond, MixtureEngine, chances
from anonbayes.uniqueness.sample import (
    MOST_SETS,
    Sample,
    beyond_sample,
    minimal_uniques,
    read_sample,
)

if TYPE_CHECKING:
    import pymc as pm
    from matplotlib.axes import Axes

__all__ = ["Identity", "identity", "identity_model"]

MEASURES: Mapping[str, str] = {
    "sample_uniques": "rows whose record occurs once in the sample",
    "unique_in_population": "of these, people who are alone with their record in the population",
    "population_uniques": "people in the population who are alone with their record",
    "matches_of_uniques": "correct matches if each sample unique is matched to somebody",
    "matches": "correct matches if every row is matched to somebody who shares its record",
    "prosecutor_highest": "highest probability of picking the right row, knowing who is in it",
    "prosecutor_average": "the same, on average over the rows",
    "journalist_highest": "highest probability of picking the right person in the population",
    "marketer": "share of the rows that are matched correctly",
    "k_map": "smallest number of people in the population who share a record",
    "bits": "information of a record about its owner's identity, in bits, on average",
    "bits_highest": "the same, for the most informative record",
    "bits_possible": "the worst case: everybody is unique",
}
"""Rows of `Identity.summary` and what they count."""
MOST_SWEEPS, RECORD_SWEEPS = 10, 50_000
"""Largest number of sweeps per draw, and of distinct records times sweeps if there are several."""
REPEATED = ("journalist_highest", "marketer", "bits_highest")
"""Measures that are others on another scale, and are not stored among the draws."""


@dataclass(frozen=True, eq=False)
class Identity:
    """Who stands out in the population, from the posterior of a mixture model. See `identity`.

    Attributes
    ----------
    summary : pandas.DataFrame
        One line per measure: ``estimate``, and ``low`` and ``high`` of an equal-tailed interval for
        the actual, finite population; what follows from the sample alone has no interval.
    rows : pandas.DataFrame
        One line per row of the sample, in its order: ``sample_frequency``, ``people`` (expected
        number of people who share the record), ``unique`` (probability of being the only one) and
        ``match`` (probability that somebody who picks one of those people picks the right one),
        each with ``_low`` and ``_high`` of an interval for its value if the population's
        distribution were known; and ``household_match`` if households were given.
    population, sample_size : int
        Number of people in the population, and of rows in the sample.
    attributes : tuple of str
        The attributes that form a record.
    probability : float
        Probability of the intervals.
    idata : InferenceData or DataTree
        Quantities on which chains must agree, for ArviZ and `diagnose`: draws of the measures, and
        of the ``people`` who share 20 of the records, common and rare ones. ``sample_stats`` has
        the log-likelihood (``records_log_likelihood``) and the effective number of classes
        (``classes_used``), in which chains may differ although the results agree.
    """

    summary: pd.DataFrame
    rows: pd.DataFrame = field(repr=False)
    population: int
    sample_size: int
    attributes: tuple[str, ...]
    probability: float
    idata: Any = field(repr=False)
    _sample: Sample = field(repr=False)
    _beyond: Beyond = field(repr=False)
    _mixtures: tuple[tuple[Floats, Floats], ...] = field(repr=False)

    def contributions(self, rows: Sequence[int] | None = None) -> pd.DataFrame:
        """How much each attribute increases the probability that a row is unique.

        This is the probability of being unique minus that without the attribute, from the last
        parameters of each chain.

        Parameters
        ----------
        rows : sequence of int, optional
            Positions of rows in the sample; by default the ten most likely to be unique.

        Examples
        --------
        >>> import anonbayes as ab
        >>> clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
        >>> who = ab.identity(clinic, population=60_000, draws=20, seed=1, progressbar=False)
        >>> list(who.contributions([0, 1]).columns)
        ['age', 'sex', 'zip', 'marital_status', 'profession']
        """
        places = self._places(rows)
        lines, records = self._sample.line_of_row[places], self._sample.records
        cells, own = records.cells[lines], records.rows[lines]
        beyond = self._beyond

        def unique(kept: list[int]) -> Floats:
            total = np.zeros(len(lines))
            everybody = beyond.attribute not in kept
            others = np.full(len(lines), beyond.of_value.sum())
            if not everybody:
                others = beyond.of_record[lines]
            for theta, weights in self._mixtures:
                within = np.zeros(1)
                if beyond.attribute >= 0:
                    first = records.value_start[beyond.attribute]
                    strata = theta[:, first : first + len(beyond.of_value)]
                    shares = weights @ strata
                    if everybody:  # strata as large as they are, not as they were sampled
                        mixed = weights * (strata @ (beyond.of_value / shares))
                        weights = mixed / max(mixed.sum(), 1e-300)
                    else:
                        place = records.cell_values[records.cell_start[cells[:, beyond.attribute]]]
                        within = np.log(shares)[place - first]
                log_p = np.empty(len(lines))
                of_cells = cell_shares(theta, records)
                log_probabilities(
                    weights, of_cells, np.ascontiguousarray(cells[:, kept], dtype=np.int32), log_p
                )
                total += chances(log_p - within, own, others, *QUADRATURE)[:, 0]
            return total / len(self._mixtures)

        everything = list(range(len(self.attributes)))
        whole = unique(everything)
        gains = {
            name: whole - unique([b for b in everything if b != a])
            for a, name in enumerate(self.attributes)
        }
        return pd.DataFrame(gains, index=self.rows.index[places])

    def minimal_uniques(
        self, rows: Sequence[int] | None = None, *, largest: int = 3
    ) -> pd.DataFrame:
        """Find the smallest sets of attributes on which rows are unique in the sample, as in SUDA.

        Parameters
        ----------
        rows : sequence of int, optional
            Positions of rows in the sample; by default the ten most likely to be unique.
        largest : int, default 3
            Largest size of a set.

        Returns
        -------
        pandas.DataFrame
            ``smallest`` (size of the smallest set, 0 if none is that small), ``sets`` (number of
            minimal sets), ``score`` (as in SUDA: small sets count more), and for each attribute the
            share of the score in sets that contain it.

        References
        ----------
        .. [1] M. J. Elliot, A. M. Manning, R. W. Ford (2002). A computational algorithm for
           handling the special uniques problem. Int. J. Uncertainty, Fuzziness and
           Knowledge-Based Systems 10, 493-509.

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"x": list("aabb"), "y": list("uvuv"), "z": list("rrrs")})
        >>> import anonbayes as ab
        >>> who = ab.identity(people, population=40, draws=20, seed=1, progressbar=False)
        >>> who.minimal_uniques([0, 3])[["smallest", "sets"]].to_numpy().tolist()
        [[2, 1], [1, 2]]
        """
        places = self._places(rows)
        n = len(self.attributes)
        largest = min(read_whole("largest", largest, least=1), n)
        n_sets = sum(math.comb(n, size) for size in range(1, largest + 1))
        if n_sets > MOST_SETS:
            raise AnonbayesError(
                f"{n} attributes have {n_sets:,} sets of at most {largest}, more than "
                f"{MOST_SETS:,}; use a smaller largest=."
            )
        records, lines = self._sample.records, self._sample.line_of_row[places]
        counted = minimal_uniques(records.cells, records.rows, largest)
        smallest, sets, score, of_attribute = (found[lines] for found in counted)
        shares = of_attribute / np.maximum(score, 1e-300)[:, None]
        return pd.DataFrame(
            {"smallest": smallest, "sets": sets, "score": score}
            | dict(zip(self.attributes, shares.T, strict=True)),
            index=self.rows.index[places],
        )

    def _places(self, rows: Sequence[int] | None) -> Any:
        if rows is None:
            return self.rows["unique"].to_numpy().argsort(kind="stable")[::-1][:10]
        places = np.asarray(rows, dtype=np.int64)
        if len(places) and not (0 <= places.min() and places.max() < len(self.rows)):
            raise AnonbayesError(f"Rows are numbered from 0 to {len(self.rows) - 1}, got {rows!r}.")
        return places

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the probability of identification by how often a record occurs in the sample.

        Dots are medians, bars contain nine of ten rows: the probability of a correct match, and of
        being unique in the population. Crosses show what the sample alone would suggest, ``1/f``.
        """
        axes = make_axes(ax, 6.0, 4.2)
        often = self.rows["sample_frequency"].to_numpy()
        groups = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, np.inf)]
        groups = [g for g in groups if ((often >= g[0]) & (often <= g[1])).any()]
        series = (
            ("match", COLOURS["more"], "o", "a match is correct"),
            ("unique", COLOURS["less"], "s", "unique in the population"),
        )
        for shift, (column, colour, mark, label) in zip((-0.12, 0.12), series, strict=True):
            for x, (first, last) in enumerate(groups):
                of_group = self.rows.loc[(often >= first) & (often <= last), column]
                low, middle, high = np.quantile(of_group, [0.05, 0.5, 0.95])
                axes.vlines(x + shift, low, high, color=colour, linewidth=6, alpha=0.5)
                axes.plot(x + shift, middle, mark, color=colour, label=label if x == 0 else None)
        naive = [(1.0 / often[(often >= a) & (often <= b)]).mean() for a, b in groups]
        axes.plot(range(len(groups)), naive, "x", color="black", label="sample alone: 1/f")
        names = [str(a) if a == b else f"{a} or more" if b == np.inf else f"{a} to {b}"
                 for a, b in groups]  # fmt: skip
        axes.set_xticks(range(len(groups)), names)
        line = self.summary.loc["unique_in_population"]
        axes.set_title(
            f"{line['estimate']:,.0f} of {self.sample_size:,} rows are unique among "
            f"{self.population:,} people\n({self.probability:.0%} interval {line['low']:,.0f} to "
            f"{line['high']:,.0f})",
            fontsize="medium",
        )
        axes.set(xlabel="Number of sample rows with the record", ylabel="Probability")
        axes.set_ylim(-0.02, 1.04)
        percent_axis(axes.yaxis)
        legend_below(axes, 3)
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain types, without data of single rows."""
        lines = {
            str(name): {k: None if pd.isna(v) else float(v) for k, v in line.items()}
            for name, line in self.summary.drop(columns="meaning").iterrows()
        }
        return {
            "population": self.population,
            "sample_size": self.sample_size,
            "attributes": list(self.attributes),
            "probability": self.probability,
            "measures": lines,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the summary as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def __str__(self) -> str:
        line = self.summary.loc["unique_in_population"]
        return (
            f"{line['estimate']:,.0f} ({self.probability:.0%} interval {line['low']:,.0f} to "
            f"{line['high']:,.0f}) of {self.sample_size:,} rows are unique among "
            f"{self.population:,} people by {', '.join(self.attributes)}."
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>" + self.summary.round(3).to_html(na_rep="")


def identity(
    data: pd.DataFrame | ReleasedTable,
    *,
    population: int | Mapping[Any, int] | None = None,
    weights: str | None = None,
    strata: str | None = None,
    attributes: Sequence[str] | None = None,
    household: str | None = None,
    domains: Mapping[str, Sequence[Any]] | None = None,
    classes: int = 40,
    draws: int = 300,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    seed: int | None = None,
    probability: float = 0.9,
    progressbar: bool = True,
) -> Identity:
    """Estimate how many people in the population share each record of a sample.

    Parameters
    ----------
    data : DataFrame or ReleasedTable
        The sample in clear, one row per person; or a release, whose cells are used as published
        (the nonsensitive attributes form the record). People share a released cell as far as their
        values explain it: behind a channel, a value that makes a report half as likely as the best
        one counts for half a person.
    population : int or mapping, optional
        Number of people in the population, including the sample; or in each stratum.
    weights : str, optional
        Column of sampling weights: the number of people that each row represents. Their sum is the
        population unless it is given. In the likelihood, rows count by their weight, scaled to
        Kish's effective sample size (a pseudo-likelihood).
    strata : str, optional
        Column by which the sample was stratified; it is one of the attributes. People outside the
        sample are drawn by stratum, so sampling rates may differ.
    attributes : sequence of str, optional
        Columns that an intruder may know; by default all but `weights` and `household`.
    household : str, optional
        Column with each row's household: a member is at risk if any of them is matched, which
        gives ``household_match`` (members are assumed to be independent).
    domains : mapping, optional
        All values that a column has in the population. Other columns are open: there may be values
        that the sample has missed.
    classes : int, default 40
        Largest number of classes; ``classes_used`` in the statistics is the effective number.
    draws : int, default 300
        Draws per chain, each after one to ten sweeps of the sampler (more for small samples).
    tune : int, optional
        Sweeps before the first draw; by default twice `draws`, at least 300 and at least half of
        all sweeps.
    chains, cores, seed, progressbar
        As in `fit`.
    probability : float, default 0.9
        Probability of the intervals.

    Returns
    -------
    Identity
        With ``.summary``, ``.rows``, ``.contributions()``, ``.minimal_uniques()``, ``.plot()`` and
        ``.to_json()``.

    Notes
    -----
    See MODEL 1.10. With ``f`` rows in the sample and ``B ~ Binomial(M - n, p)`` others, the record
    is shared by ``F = f + B`` people; it is unique with probability ``(1 - p)^(M - n)`` if
    ``f = 1``, and a match is right with probability ``E[1/F]``.

    References
    ----------
    .. [1] D. Manrique-Vallier, J. P. Reiter (2012). Estimating identification disclosure risk
       using mixed membership models. JASA 107, 1385-1394.
    .. [2] Y. W. Teh, M. I. Jordan, M. J. Beal, D. M. Blei (2006). Hierarchical Dirichlet processes.
       JASA 101, 1566-1581.

    Examples
    --------
    >>> import anonbayes as ab
    >>> clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
    >>> who = ab.identity(clinic, population=60_000, draws=20, seed=1, progressbar=False)
    >>> low, high = who.summary.loc["unique_in_population", ["low", "high"]]
    >>> bool(low < who.rows["unique"].sum() < high)
    True
    >>> who.rows[["sample_frequency", "unique", "match"]].shape
    (3000, 3)
    """
    classes = read_whole("classes", classes, least=2)
    draws, chains = read_whole("draws", draws, least=1), read_chains(chains)
    if not 0 < probability < 1:
        raise AnonbayesError(f"probability={probability!r} must be between 0 and 1.")
    data = pandas_frame(data)
    sample = read_sample(
        data, weights=weights, attributes=attributes, household=household, strata=strata,
        domains=domains,
    )  # fmt: skip
    beyond = beyond_sample(sample, population, weighted=weights is not None, strata=strata)
    n, size = sample.size, sample.size + int(beyond.of_value.sum())
    per_draw = sweeps_per_draw(len(sample.records.rows))
    enough = max(2 * draws, 300, draws * per_draw)
    tune = enough if tune is None else read_whole("tune", tune)
    chains_made, _ = run_chains(
        MixtureEngine(sample.records, beyond, classes, tune, per_draw),
        draws=draws,
        tune=tune,
        thin=1,
        seeds=np.random.SeedSequence(seed).spawn(chains),
        cores=cores,
        progressbar=progressbar,
        label="people who share a record",
    )
    shortest = min(chain.n for chain in chains_made)
    if not shortest:
        raise AnonbayesError("Interrupted before every chain had a draw; there is no result.")
    made = [join(chain.draws, shortest) for chain in chains_made]
    drawn = {name: np.stack([piece[name] for piece in made]) for name in made[0]}
    likelihood = np.stack([join(c.stats, shortest)["log_likelihood"] for c in chains_made])
    posterior = _measures(drawn, size, n)
    if (np.diff(sample.records.cell_start) > 1).any():  # nobody outside has a released cell
        del posterior["population_uniques"]
    rows = _by_record(chains_made, sample, beyond, probability).iloc[sample.line_of_row]
    rows.index = sample.index
    if household is not None and isinstance(data, pd.DataFrame):
        miss = np.log1p(-np.minimum(rows["match"].to_numpy(), 1.0 - 1e-15))
        key, _ = factorize(data[household], where=f"Column {household!r}")
        rows["household_match"] = -np.expm1(np.bincount(key, weights=miss)[key])
    return Identity(
        summary=_summary(posterior, sample, size, probability),
        rows=rows,
        population=size,
        sample_size=n,
        attributes=sample.attributes,
        probability=probability,
        idata=compat.make_idata(
            {
                "posterior": {k: v for k, v in posterior.items() if k not in REPEATED}
                | {"people": drawn["people"]},
                "sample_stats": {
                    "records_log_likelihood": likelihood,
                    "classes_used": drawn["classes_used"],
                },
            }
        ),
        _sample=sample,
        _beyond=beyond,
        _mixtures=tuple((c.averages["theta"], c.averages["weights"]) for c in chains_made),
    )


def sweeps_per_draw(n_records: int) -> int:
    """Number of sweeps between two draws of a chain."""
    return max(1, min(MOST_SWEEPS, RECORD_SWEEPS // n_records))


def _measures(drawn: Mapping[str, Floats], size: int, n: int) -> dict[str, Floats]:
    """Draws of all measures that depend on people outside the sample."""
    return {
        "unique_in_population": drawn["unique_in_population"],
        "population_uniques": drawn["population_uniques"],
        "matches_of_uniques": drawn["matches_of_uniques"],
        "matches": drawn["matches"],
        "journalist_highest": 1.0 / drawn["fewest_people"],
        "marketer": drawn["matches"] / n,
        "k_map": drawn["fewest_people"],
        "bits": math.log2(size) - drawn["log_people"] / n,
        "bits_highest": math.log2(size) - np.log2(drawn["fewest_people"]),
    }


def _by_record(
    chains: Sequence[Recorded], sample: Sample, beyond: Beyond, probability: float
) -> pd.DataFrame:
    """Probabilities for each distinct record, with intervals.

    Both decrease with ``p``, so their intervals follow from one for ``log p``, assumed normal.
    """
    names = ("unique", "match", "people", "log_p", "log_p_squared")
    mean = {name: np.mean([chain.averages[name] for chain in chains], axis=0) for name in names}
    spread = np.sqrt(np.maximum(mean["log_p_squared"] - mean["log_p"] ** 2, 0.0))
    wide = NormalDist().inv_cdf(0.5 + probability / 2) * spread
    rows = sample.records.rows
    high, low = (
        chances(np.minimum(mean["log_p"] + side * wide, 0.0), rows, beyond.of_record, *QUADRATURE)
        for side in (-1, 1)
    )
    frame = pd.DataFrame({"sample_frequency": rows, "people": mean["people"]})
    for i, name in enumerate(("unique", "match")):
        frame[name] = mean[name]
        # the mean may lie outside a very skewed interval
        frame[f"{name}_low"] = np.minimum(low[:, i], mean[name])
        frame[f"{name}_high"] = np.maximum(high[:, i], mean[name])
    return frame


def _summary(
    posterior: Mapping[str, Floats], sample: Sample, size: int, probability: float
) -> pd.DataFrame:
    rows = sample.records.rows
    known = {
        "sample_uniques": float((rows == 1).sum()),
        "prosecutor_highest": 1.0 / rows.min(),
        "prosecutor_average": len(rows) / sample.size,
        "bits_possible": math.log2(size),
    }
    tail = (1.0 - probability) / 2
    lines = {}
    for name, meaning in MEASURES.items():
        if name in known:
            lines[name] = (known[name], math.nan, math.nan, meaning)
        elif name in posterior:
            low, high = np.quantile(posterior[name], [tail, 1.0 - tail])
            mean = float(posterior[name].mean())  # may lie beyond a very skew interval
            lines[name] = (mean, min(float(low), mean), max(float(high), mean), meaning)
    return pd.DataFrame.from_dict(
        lines, orient="index", columns=["estimate", "low", "high", "meaning"]
    )


def identity_model(
    data: pd.DataFrame | ReleasedTable,
    *,
    weights: str | None = None,
    attributes: Sequence[str] | None = None,
    domains: Mapping[str, Sequence[Any]] | None = None,
    classes: int = 10,
) -> pm.Model:
    """Return the mixture behind `identity` as a PyMC model, for small samples and for checks.

    Classes are summed out, so NUTS draws the rest; the order of classes is arbitrary. The
    deterministic variable ``log_share`` is the logarithm of ``p`` of each distinct record.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"x": list("aab"), "y": list("uvu")})
    >>> model = identity_model(people, classes=2, domains={"x": "ab", "y": "uv"})
    >>> sorted(v.name for v in model.free_RVs if v.name.endswith("x"))
    ['gamma_x', 'kappa_x', 'margin_x', 'theta_x']
    """
    import pymc as pm
    import pytensor.tensor as pt

    sample = read_sample(
        data, weights=weights, attributes=attributes, household=None, strata=None, domains=domains
    )
    records = sample.records
    coords: dict[str, Sequence[Any]] = {
        "latent_class": range(classes),
        "record": range(len(records.rows)),
    }
    for name, evidence, missed in zip(
        sample.attributes, sample.evidence, sample.missed, strict=True
    ):
        coords[name] = [*evidence.domain.values, *(["missed values"] if missed else [])]
    first = np.concatenate([[0], np.cumsum([len(e) for e in sample.evidence])])
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("concentration", 1.0, 1.0)
        weight = pm.Dirichlet("weight", pt.fill(pt.zeros(classes), alpha / classes))
        total: Any = pt.log(weight)
        for a, (name, evidence) in enumerate(zip(sample.attributes, sample.evidence, strict=True)):
            known = len(evidence.domain)
            splits = splits_of(known, missed=sample.missed[a], ordered=sample.ordered[a])
            theta: Any = np.ones((classes, len(coords[name])))
            pools = {
                depth: (
                    pm.LogNormal(
                        f"kappa_{name}{end}", POOLING_MEAN + 2 * math.log(max(depth, 1)), POOLING_SD
                    ),
                    pm.HalfCauchy(f"gamma_{name}{end}", 1.0),
                )
                for depth in sorted(set(splits.depth))
                for end in ["" if len(splits.parts) == 1 else f"_{depth}"]
            }
            for i, (parts, depth) in enumerate(zip(splits.parts, splits.depth, strict=True)):
                end = "" if len(splits.parts) == 1 else f"_{i}"
                kappa, gamma = pools[depth]
                size = len(parts)
                share: Any = np.full(size, 1.0 / size)
                if parts[-1][0] >= known:
                    missed = pm.math.exp(
                        pm.Uniform(f"log_missed_{name}", 0.0, math.log(MOST_MISSED))
                    )
                    ways = pt.gammaln(size + missed) - pt.gammaln(missed + 1.0)
                    pm.Potential(f"ways_{name}", ways)
                    share = pt.concatenate([np.ones(size - 1), [missed]]) / (size - 1 + missed)
                margin = pm.Dirichlet(f"margin_{name}{end}", gamma * share)
                split = pm.Dirichlet(f"theta_{name}{end}", kappa * pt.tile(margin, (classes, 1)))
                inside = np.zeros((size, len(coords[name])))
                for part, (start, stop) in enumerate(parts):
                    inside[part, start:stop] = 1.0
                theta = theta * (pt.dot(split, inside) + (1.0 - inside.sum(axis=0)))
            shown = theta[:, :known]
            likely = evidence.matrix.toarray()
            cells = pt.log(pt.dot(shown, (likely / likely.max(axis=1, keepdims=True)).T))
            total = total + cells[:, records.cells[:, a] - first[a]].T
        logs = pm.Deterministic(
            "log_share", pm.math.logsumexp(total, axis=1, keepdims=False), dims="record"
        )
        pm.Potential("records", (records.mass * logs).sum())
    return model
