"""Is a record unique in the population? Frequencies of records beyond the sample, with intervals.

A record that nobody else in a table has is a risk only if hardly anybody else in the population
has it. The population is not seen; `mixture` learns it from the sample.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes import compat
from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain, factorize
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.inference.run import join, run_chains
from anonbayes.io.files import write_text
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable
from anonbayes.uniqueness.mixture import (
    POOLING_MEAN,
    POOLING_SD,
    MixtureEngine,
    SampleRecords,
    cell_logs,
    log_probabilities,
    margins,
    record_arrays,
)

if TYPE_CHECKING:
    import pymc as pm
    from matplotlib.axes import Axes

__all__ = ["Identity", "identity", "identity_model"]

MEASURES: Mapping[str, str] = {
    "sample_uniques": "rows whose record occurs once in the sample",
    "unique_in_population": "of these, people who are alone with their record in the population",
    "population_uniques": "people of the population who are alone with their record",
    "matches_of_uniques": "correct matches when each sample unique is matched to somebody",
    "matches": "correct matches when every row is matched to somebody who shares its record",
    "prosecutor_highest": "chance to pick the right row, at most, knowing who is in the sample",
    "prosecutor_average": "the same, on average over the rows",
    "journalist_highest": "chance to pick the right person of the population, at most",
    "marketer": "share of the rows that are matched correctly",
    "k_map": "people of the population who share a record, at least",
    "bits": "information of a record about who its owner is, in bits",
}
"""Lines of `Identity.summary` and what they count."""


@dataclass(frozen=True, eq=False)
class Identity:
    """Who stands out in the population, by the posterior of a mixture of products.

    Attributes
    ----------
    summary : pandas.DataFrame
        One line per measure (see `MEASURES`): ``estimate``, and ``low`` and ``high`` of an
        equal-tailed interval for the actual, finite population; what is known from the sample
        alone has no interval.
    rows : pandas.DataFrame
        One line per row of the sample, in its order: ``sample_frequency``, ``people`` (expected
        number of people who share the record), ``unique`` (probability of being the only one),
        ``match`` (probability that somebody who picks one of those people picks the right one),
        and ``household_match`` where households were named.
    population, sample_size : int
        People in the population, and rows of the sample.
    attributes : tuple of str
        What makes a record.
    probability : float
        Probability of the intervals.
    idata : InferenceData or DataTree
        Draws of the measures by chain, for ArviZ and `diagnose`.
    """

    summary: pd.DataFrame
    rows: pd.DataFrame = field(repr=False)
    population: int
    sample_size: int
    attributes: tuple[str, ...]
    probability: float
    idata: Any = field(repr=False)
    _records: SampleRecords = field(repr=False)
    _line_of_row: Ints = field(repr=False)
    _mixtures: tuple[tuple[Floats, Floats], ...] = field(repr=False)

    def contributions(self, rows: Sequence[int] | None = None) -> pd.DataFrame:
        """How much likelier each attribute makes it that a row is unique.

        The probability of being unique less the same without the attribute, by the last
        parameters of each chain.

        Parameters
        ----------
        rows : sequence of int, optional
            Places of rows in the sample; by default the ten likeliest to be unique.

        Examples
        --------
        >>> import anonbayes as ab
        >>> clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
        >>> who = ab.identity(clinic, population=60_000, draws=100, seed=1, progressbar=False)
        >>> list(who.contributions([0, 1]).columns)
        ['age', 'sex', 'zip', 'marital_status', 'profession']
        """
        order = self.rows["unique"].to_numpy().argsort()[::-1]
        places = order[:10] if rows is None else np.asarray(rows, dtype=np.int64)
        if len(places) and not (0 <= places.min() and places.max() < len(self.rows)):
            raise AnonbayesError(f"Rows are numbered from 0 to {len(self.rows) - 1}, got {rows!r}.")
        lines = self._line_of_row[places]
        cells, alone = self._records.cells[lines], self._records.rows[lines] == 1
        others = self.population - self.sample_size

        def unique(kept: list[int]) -> Floats:
            total = np.zeros(len(lines))
            for theta, log_weights in self._mixtures:
                log_p = np.empty(len(lines))
                logs = cell_logs(theta, self._records)
                log_probabilities(log_weights, logs, np.ascontiguousarray(cells[:, kept]), log_p)
                total += np.exp(others * np.log1p(-np.minimum(np.exp(log_p), 1 - 1e-15)))
            return total / len(self._mixtures)

        everything = list(range(len(self.attributes)))
        whole = unique(everything)
        gains = {
            name: np.where(alone, whole - unique([b for b in everything if b != a]), 0.0)
            for a, name in enumerate(self.attributes)
        }
        return pd.DataFrame(gains, index=self.rows.index[places])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Rows whose record occurs once, by the probability that it is unique in the population."""
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        chances = self.rows.loc[self.rows["sample_frequency"] == 1, "unique"]
        axes.hist(chances, bins=np.linspace(0, 1, 21).tolist(), color="#0072B2", edgecolor="white")
        line = self.summary.loc["unique_in_population"]
        axes.set_title(
            f"{line['estimate']:,.0f} of {len(chances):,} sample uniques are unique among "
            f"{self.population:,} people\n({self.probability:.0%} interval {line['low']:,.0f} to "
            f"{line['high']:,.0f})",
            fontsize="medium",
        )
        axes.set(xlabel="Probability of being unique in the population", ylabel="Rows", xlim=(0, 1))
        return axes

    def to_json(self, path: str | Path | None = None) -> str:
        """Return, and write where a path is given, the summary; nothing about single rows."""
        lines = {
            name: {k: None if pd.isna(v) else float(v) for k, v in line.items()}
            for name, line in self.summary.drop(columns="meaning").iterrows()
        }
        content = {
            "population": self.population,
            "sample_size": self.sample_size,
            "attributes": list(self.attributes),
            "probability": self.probability,
            "measures": lines,
        }
        text = json.dumps(content, indent=1)
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
    population: int | None = None,
    weights: str | None = None,
    attributes: Sequence[str] | None = None,
    household: str | None = None,
    domains: Mapping[str, Sequence[Any]] | None = None,
    classes: int = 40,
    draws: int = 500,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    seed: int | None = None,
    probability: float = 0.9,
    progressbar: bool = True,
) -> Identity:
    """Estimate how many people of the population share each record of a sample.

    Parameters
    ----------
    data : DataFrame or ReleasedTable
        The sample in clear, one row per person; or a release, whose cells are taken as they were
        published (the nonsensitive attributes make the record).
    population : int, optional
        People in the population, those of the sample included.
    weights : str, optional
        Column of sampling weights, how many people each row stands for. Their sum is the
        population unless it is given. Rows count in the likelihood by their weight, scaled to
        Kish's effective sample size (a pseudo-likelihood).
    attributes : sequence of str, optional
        Columns that an intruder may know; by default all but `weights` and `household`.
    household : str, optional
        Column that names each row's household: a member is at risk when any of them is matched,
        which gives ``household_match`` (members are taken as independent).
    domains : mapping, optional
        Values that a column may have in the population; by default those of the sample.
    classes : int, default 40
        Length of the truncated stick; ``classes_used`` among the draws tells how many matter.
    draws, tune, chains, cores, seed, progressbar
        As in `fit`; `tune` is twice `draws` by default.
    probability : float, default 0.9
        Probability of the intervals.

    Returns
    -------
    Identity
        ``.summary``, ``.rows``, ``.contributions()``, ``.plot()``, ``.to_json()``.

    Notes
    -----
    MODEL 1.10. With ``f`` rows of the sample and ``B ~ Binomial(M - n, p)`` others, the record is
    shared by ``F = f + B`` people; it is unique with probability ``(1 - p)^(M - n)`` when
    ``f = 1``, and a match is right with probability ``E[1/F]``.

    References
    ----------
    .. [1] D. Manrique-Vallier, J. P. Reiter (2012). Estimating identification disclosure risk
       using mixed membership models. JASA 107, 1385-1394.

    Examples
    --------
    >>> import anonbayes as ab
    >>> clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
    >>> who = ab.identity(clinic, population=60_000, draws=100, seed=1, progressbar=False)
    >>> low, high = who.summary.loc["unique_in_population", ["low", "high"]]
    >>> bool(low < who.rows["unique"].sum() < high)
    True
    >>> who.rows[["sample_frequency", "unique", "match"]].shape
    (3000, 3)
    """
    sample = _read_sample(data, weights, attributes, household, domains)
    size = _population(population, None if weights is None else sample.mass, sample.size)
    for name, value, least in (("classes", classes, 2), ("draws", draws, 1), ("chains", chains, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise AnonbayesError(f"{name} must be a whole number from {least}, got {value!r}.")
    if not 0 < probability < 1:
        raise AnonbayesError(f"probability must be between 0 and 1, got {probability!r}.")
    n, records, line_of_row = sample.size, sample.records, sample.line_of_row
    engine = MixtureEngine(records, size - n, classes, margins(records))
    chains_made, _ = run_chains(
        engine,
        draws=draws,
        tune=2 * draws if tune is None else tune,
        thin=1,
        seeds=np.random.SeedSequence(seed).spawn(chains),
        cores=cores,
        progressbar=progressbar,
        label="people who share a record",
    )
    shortest = min(chain.n for chain in chains_made)
    if not shortest:
        raise AnonbayesError("Interrupted before every chain had a draw; nothing is known.")
    made = [join(chain.draws, shortest) for chain in chains_made]
    drawn = {name: np.stack([piece[name] for piece in made]) for name in made[0]}
    likelihood = np.stack([join(c.stats, shortest)["log_likelihood"] for c in chains_made])
    posterior = _measures(drawn, size, n)
    average = {
        name: np.mean([chain.averages[name] for chain in chains_made], axis=0)
        for name in ("unique", "match", "people")
    }
    by_row = pd.DataFrame(
        {"sample_frequency": records.rows} | {k: average[k] for k in ("people", "unique", "match")}
    ).iloc[line_of_row]
    by_row.index = sample.index
    if household is not None and isinstance(data, pd.DataFrame):
        miss = np.log1p(-np.minimum(by_row["match"].to_numpy(), 1.0 - 1e-15))
        key, _ = factorize(data[household], where=f"Column {household!r}")
        by_row["household_match"] = -np.expm1(np.bincount(key, weights=miss)[key])
    return Identity(
        summary=_summary(posterior, records, n, probability),
        rows=by_row,
        population=size,
        sample_size=n,
        attributes=sample.attributes,
        probability=probability,
        idata=compat.make_idata(
            {
                "posterior": posterior | {"classes_used": drawn["classes_used"]},
                "sample_stats": {"log_likelihood": likelihood},
            }
        ),
        _records=records,
        _line_of_row=line_of_row,
        _mixtures=tuple((c.averages["theta"], c.averages["log_weights"]) for c in chains_made),
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

    Classes are summed out, so NUTS draws the rest; their order means nothing. The deterministic
    variable ``log_share`` is the logarithm of ``p`` of each distinct record.

    Examples
    --------
    >>> import pandas as pd
    >>> model = identity_model(pd.DataFrame({"x": list("aab"), "y": list("uvu")}), classes=2)
    >>> sorted(v.name for v in model.free_RVs)
    ['concentration', 'kappa_x', 'kappa_y', 'stick', 'theta_x', 'theta_y']
    """
    import pymc as pm
    import pytensor.tensor as pt

    sample = _read_sample(data, weights, attributes, None, domains)
    records = sample.records
    coords: dict[str, Sequence[Any]] = {
        "latent_class": range(classes),
        "record": range(len(records.rows)),
    }
    coords |= {
        name: list(e.domain.values)
        for name, e in zip(sample.attributes, sample.evidence, strict=True)
    }
    shares = margins(records)
    first = np.concatenate([[0], np.cumsum([len(e) for e in sample.evidence])])
    with pm.Model(coords=coords) as model:
        alpha = pm.Gamma("concentration", 1.0, 1.0)
        stick = pm.Beta("stick", 1.0, alpha, shape=classes - 1)
        left = pt.concatenate([[0.0], pt.cumsum(pt.log1p(-stick))])
        total = left + pt.concatenate([pt.log(stick), [0.0]])
        for a, (name, evidence) in enumerate(zip(sample.attributes, sample.evidence, strict=True)):
            kappa = pm.LogNormal(f"kappa_{name}", POOLING_MEAN, POOLING_SD)
            own = shares[records.value_start[a] : records.value_start[a + 1]]
            theta = pm.Dirichlet(
                f"theta_{name}", kappa * np.tile(own, (classes, 1)), dims=("latent_class", name)
            )
            cells = pt.log(pt.dot(theta, evidence.matrix.toarray().T))
            total = total + cells[:, records.cells[:, a] - first[a]].T
        logs = pm.Deterministic(
            "log_share", pm.math.logsumexp(total, axis=1, keepdims=False), dims="record"
        )
        pm.Potential("records", (records.mass * logs).sum())
    return model


@dataclass(frozen=True, eq=False)
class _Sample:
    """A sample as distinct records, and what its rows are called."""

    attributes: tuple[str, ...]
    evidence: list[Evidence]
    records: SampleRecords
    line_of_row: Ints
    mass: Floats
    size: int
    index: pd.Index


def _read_sample(
    data: pd.DataFrame | ReleasedTable,
    weights: str | None,
    attributes: Sequence[str] | None,
    household: str | None,
    domains: Mapping[str, Sequence[Any]] | None,
) -> _Sample:
    if isinstance(data, ReleasedTable):
        if weights is not None or household is not None or domains is not None:
            raise AnonbayesError("weights, household and domains are for data frames.")
        names, evidence, codes, rows_of = _read_table(data, attributes)
        mass_of, index = rows_of.astype(float), pd.Index(range(len(rows_of)))
    else:
        names, evidence, codes = _read_frame(data, attributes, (weights, household), domains)
        rows_of, index = np.ones(len(data), dtype=np.int64), data.index
        mass_of = _read_weights(data, weights)
    n = int(rows_of.sum())
    lines, line_of_row = np.unique(codes, axis=0, return_inverse=True)
    line_of_row = line_of_row.ravel()
    mass = np.bincount(line_of_row, weights=mass_of)
    effective = float(n) if weights is None else mass_of.sum() ** 2 / (mass_of**2).sum()
    rows = np.bincount(line_of_row, weights=rows_of).astype(np.int64)
    records = record_arrays(evidence, lines, rows, mass * effective / mass.sum())
    return _Sample(names, evidence, records, line_of_row, mass_of, n, index)


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
    }


def _summary(
    posterior: Mapping[str, Floats], records: SampleRecords, n: int, probability: float
) -> pd.DataFrame:
    known = {
        "sample_uniques": float((records.rows == 1).sum()),
        "prosecutor_highest": 1.0 / records.rows.min(),
        "prosecutor_average": len(records.rows) / n,
    }
    tail = (1.0 - probability) / 2
    lines = {}
    for name, meaning in MEASURES.items():
        if name in known:
            lines[name] = (known[name], math.nan, math.nan, meaning)
        elif not np.isnan(posterior[name]).all():
            low, high = np.quantile(posterior[name], [tail, 1.0 - tail])
            lines[name] = (float(posterior[name].mean()), float(low), float(high), meaning)
    return pd.DataFrame.from_dict(
        lines, orient="index", columns=["estimate", "low", "high", "meaning"]
    )


def _read_table(
    table: ReleasedTable, attributes: Sequence[str] | None
) -> tuple[tuple[str, ...], list[Evidence], Ints, Ints]:
    names = _chosen(attributes, list(table.columns))
    columns = [table.columns[name] for name in names]
    codes = np.stack([c.codes.astype(np.int64) for c in columns], axis=1)
    rows = np.ones(len(codes), dtype=np.int64) if table.weights is None else table.weights
    return names, [c.evidence for c in columns], codes, np.asarray(rows, dtype=np.int64)


def _read_frame(
    frame: pd.DataFrame,
    attributes: Sequence[str] | None,
    others: tuple[str | None, ...],
    domains: Mapping[str, Sequence[Any]] | None,
) -> tuple[tuple[str, ...], list[Evidence], Ints]:
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"A data frame or a ReleasedTable is needed, got {type(frame).__name__}.")
    if not len(frame):
        raise TableError("The table has no rows.")
    for other in others:
        if other is not None and other not in frame:
            raise TableError(f"There is no column {other!r}. {nearest(other, frame.columns)}")
    names = _chosen(attributes, [c for c in frame.columns if c not in others])
    evidence, codes = [], []
    for name in names:
        column = frame[name]
        missing = column.isna().to_numpy()
        if missing.any():
            raise TableError(
                f"Column {name!r}: row {int(missing.argmax())} (from 0) has no value; drop such "
                'rows or give them a value of their own, as `frame.fillna("unknown")` does.'
            )
        code, values = factorize(column, where=f"Column {name!r}")
        domain = Domain(str(name), (domains or {}).get(name, values))
        places = domain.encode(values)
        members = [np.array([place]) for place in places]
        evidence.append(Evidence.from_members(domain, members, values))
        codes.append(np.asarray(code, dtype=np.int64))
    return tuple(str(name) for name in names), evidence, np.stack(codes, axis=1)


def _chosen(attributes: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    if attributes is None:
        chosen = tuple(known)
    else:
        chosen = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        for name in chosen:
            if name not in known:
                raise TableError(f"There is no attribute {name!r}. {nearest(name, known)}")
    if not chosen:
        raise TableError("A record needs at least one attribute.")
    if len(set(chosen)) < len(chosen):
        raise TableError(f"Attributes stand twice in {list(chosen)}.")
    return chosen


def _read_weights(frame: pd.DataFrame, weights: str | None) -> Floats:
    if weights is None:
        return np.ones(len(frame))
    try:
        values = frame[weights].to_numpy(dtype=float)
    except (TypeError, ValueError):
        raise TableError(f"Column {weights!r}: sampling weights must be numbers.") from None
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        place = int(bad.argmax())
        raise TableError(
            f"Column {weights!r}: row {place} (from 0) has the weight {values[place]!r}; a weight "
            "says how many people a row stands for and must be above 0."
        )
    return values


def _population(population: int | None, weights: Floats | None, n: int) -> int:
    if population is None:
        if weights is None:
            raise AnonbayesError(
                "population= says how many people there are, those of the sample included; or "
                "weights= names the column of sampling weights."
            )
        population = round(weights.sum())
    if isinstance(population, bool) or int(population) != population or population < 1:
        raise AnonbayesError(f"population must be a whole number, got {population!r}.")
    if population < n:
        raise AnonbayesError(
            f"A population of {population:,} is smaller than the sample of {n:,} rows"
            + (" (the sum of the weights)." if weights is not None else ".")
        )
    return int(population)
