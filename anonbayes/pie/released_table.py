"""PIE of a released table: how well the owner of a sensitive record can be identified. Ours.

``U`` is one of the N people in the table, ``Y`` a released record: in a horizontal table a row with
its cells and its sensitive cell, in a vertical one (Anatomy) a line of the sensitive part with its
group. The adversary knows everybody's nonsensitive values, nobody's sensitive value, and the
posterior of the model. Bits and Bayes error follow from ``P(U | Y)`` for any scheme:

    bits = log2 N - mean_Y H(U|Y),      error = 1 - mean_Y max_u P(u|Y).

*Horizontal.* For each draw of the parameters, the hidden true values of all rows are also drawn.
Given them, ``P(u|y)`` is proportional to ``prod_a E_a(y_a, r_ua) * sum_s E_S(y_S, s) f(s|r_u)``.
Cells, reports of local channels, and clear values all enter through the evidence ``E``.

*Vertical.* The probability that an item owns a line is the posterior's; people with the same values
cannot be distinguished and share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes import compat
from anonbayes.arrays import Floats, SmallCodes, read_whole
from anonbayes.channels.randomness import generator
from anonbayes.errors import AnonbayesError
from anonbayes.figures import legend_below, make_axes, next_colour
from anonbayes.inference.horizontal.cell_engine import HiddenRows
from anonbayes.inference.horizontal.cell_layout import HorizontalLayout
from anonbayes.inference.posterior import Posterior
from anonbayes.pie.bounds import bayes_error
from anonbayes.pie.information import Number
from anonbayes.tables.evidence import Column
from anonbayes.tables.groups import distinct_rows
from anonbayes.uniqueness.identity import Identity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 10_000_000
"""Largest reduced table that is expanded to its rows."""


@dataclass(frozen=True, eq=False)
class ReleaseInformation(Number):
    """How much a release reveals about whose records it shows; as a number, the mean bits.

    Attributes
    ----------
    bits, error : ndarray
        PIE and Bayes error, one number per posterior draw (horizontal) or per batch of draws
        (vertical, where the posterior is averaged before the attack, and their spread is
        Monte-Carlo error).
    n_people : int
        People in the table, or in the population.
    scheme : str
        Scheme of the table; ``"population"`` if people of the population are distinguished.
    """

    bits: Floats
    error: Floats
    n_people: int
    scheme: str

    @cached_property
    def summary(self) -> pd.Series:
        """Key figures to compare releases by.

        ``bits`` of ``possible_bits = log2 N``, with a 95% interval; the Bayes ``error``, with an
        interval; ``error_bound``, the error that PIE guarantees from the bits alone (PIE (10)); and
        ``crowd``, ``2^(log2 N - bits)``, the number of people among whom a record's owner is
        hidden.
        """
        bits, possible = float(self.bits.mean()), float(np.log2(self.n_people))
        low, high = np.quantile(self.bits, [0.025, 0.975])
        error_low, error_high = np.quantile(self.error, [0.025, 0.975])
        return pd.Series(
            {
                "bits": bits,
                "bits_low": float(low),
                "bits_high": float(high),
                "possible_bits": possible,
                "error": float(self.error.mean()),
                "error_low": float(error_low),
                "error_high": float(error_high),
                "error_bound": bayes_error(max(bits, 0.0), self.n_people),
                "crowd": float(2.0 ** (possible - bits)),
            },
            name="PIE",
        )

    def __float__(self) -> float:
        return float(self.bits.mean())

    def __str__(self) -> str:
        s = self.summary
        return (
            f"{s['bits']:.3g} of {s['possible_bits']:.3g} bits: an owner hides among "
            f"{s['crowd']:.3g} people, Bayes error {s['error']:.3g}"
        )

    def _repr_html_(self) -> str:
        return self.summary.to_frame().to_html(float_format="{:.4g}".format)

    def plot(self, *, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Plot the distribution of the bits; several releases may share the axes."""
        ax = make_axes(ax, 5.6, 3.6)
        colour, possible = next_colour(ax), float(np.log2(self.n_people))
        text = (
            f"{'' if label is None else f'{label}: '}{float(self.bits.mean()):.2f} bits on average"
        )
        ax.hist(self.bits, bins="auto", density=True, color=colour, alpha=0.35)
        ax.hist(self.bits, bins="auto", density=True, histtype="step", color=colour, label=text)
        if not ax.texts:  # once, where several releases share the axes
            ax.axvline(possible, color="0.3", linestyle=":")
            ax.annotate(f"{possible:.1f} bits\nname the owner", (possible, 0.98), ha="right",
                        va="top", xycoords=("data", "axes fraction"), xytext=(-4, 0),
                        textcoords="offset points", fontsize=8)  # fmt: skip
        ax.set(xlabel="Bits about the owner of a record", ylabel="Density")
        legend_below(ax, 1)
        return ax


def release_information(
    post: Posterior | Identity,
    *,
    draws: int = 100,
    records: int = 200,
    seed: int | np.random.Generator | None = 0,
) -> ReleaseInformation:
    """Compute PIE of a released table from its posterior.

    Parameters
    ----------
    post : Posterior or Identity
        Posterior of the released table; or the result of `anonbayes.identity`, where ``U`` is one
        of the people in the population and ``Y`` a record of the sample or release, and nothing is
        drawn.
    draws : int
        Number of posterior draws used (horizontal tables).
    records : int
        Number of released records used per draw (horizontal tables), chosen at random each time.
    seed : int, Generator or None
        Seed of these choices and of the hidden true values.

    Examples
    --------
    Anatomy shows everybody's values but hides who owns which sensitive value:

    >>> import anonbayes as ab
    >>> for name in ("table1_recoded", "table1_anatomy"):
    ...     post = ab.fit(ab.datasets.load(name), seed=1, progressbar=False)
    ...     said = ab.pie.release_information(post).summary
    ...     print(f"{said['bits']:.1f} of {said['possible_bits']:.0f} bits")
    2.2 of 3 bits
    2.0 of 3 bits
    """
    draws, records = read_whole("draws", draws, least=1), read_whole("records", records, least=1)
    if isinstance(post, Identity):
        drawn = compat.posterior_dataset(post.idata)
        bits, matches = (drawn[name].to_numpy().ravel() for name in ("bits", "matches"))
        error = 1.0 - matches / post.sample_size
        return ReleaseInformation(bits, error, post.population, "population")
    if not isinstance(post, Posterior):
        raise AnonbayesError(f"post must be the result of fit, not a {type(post).__name__}.")
    if post.table.weights is not None and post.table.n_rows > MOST_ROWS:
        raise AnonbayesError(
            f"The hidden values of {post.table.n_rows:,} people are too many to draw; use a "
            f"release of a sample of at most {MOST_ROWS:,} people."
        )
    if post.table.scheme == "vertical":
        bits, error = _vertical(post)
    else:
        bits, error = _horizontal(post, draws, records, generator(seed, "worlds"))
    return ReleaseInformation(bits, error, post.table.n_rows, post.table.scheme)


def _horizontal(
    post: Posterior, draws: int, records: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    table, n = post.table.expanded(), post.table.n_rows
    secret = post.draws[f"pi_{table.sensitive}"].to_numpy().reshape(-1, len(table.secret.domain))
    number = len(secret)
    chosen = np.unique(np.linspace(0, number - 1, min(draws, number)).astype(int))
    parameters = {
        name: post.draws[f"pi_{name}"].to_numpy().reshape(number, len(secret[0]), -1)
        for name in table.attributes
    }
    layout = HorizontalLayout.of(table)
    everybody = HiddenRows.of(table, layout, np.arange(n))
    bits, error = np.empty(len(chosen)), np.empty(len(chosen))
    for i, draw in enumerate(chosen):
        pi = [parameters[name][draw] for name in table.attributes]
        flat = np.concatenate([block.ravel() for block in pi])
        drawn = everybody.draw(secret[[draw]], flat[None], rng)
        truth = [drawn[f"cleartext_{name}"][0] for name in table.attributes]
        _, first, count = distinct_rows(truth)
        values = [column[first] for column in truth]
        belief = _secret_given(values, secret[draw], pi)
        rows = rng.permutation(n)[:records]
        gain, best = np.empty(len(rows)), np.empty(len(rows))
        for j, row in enumerate(rows):
            weight = belief @ _cell(table.secret, row)
            for column, value in zip(table.columns.values(), values, strict=True):
                weight = weight * _cell(column, row)[value]
            gain[j], best[j] = _entropy(weight, count)
        bits[i], error[i] = np.log2(n) - gain.mean(), 1.0 - best.mean()
    return bits, error


def _secret_given(values: list[SmallCodes], pi_s: Floats, pi: list[Floats]) -> Floats:
    """``f(s | r)`` of each distinct record."""
    log_joint = np.tile(np.log(pi_s), (len(values[0]), 1))
    with np.errstate(divide="ignore"):
        for value, table in zip(values, pi, strict=True):
            log_joint += np.log(table).T[value]
    joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _cell(column: Column, row: int) -> Floats:
    """Evidence of one row's cell for each value."""
    matrix, code = column.evidence.matrix, int(column.codes[row])
    out = np.zeros(matrix.shape[1])
    inside = slice(matrix.indptr[code], matrix.indptr[code + 1])
    out[matrix.indices[inside]] = matrix.data[inside]
    return out


def _entropy(weight: Floats, count: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Entropy (bits) and largest entry of ``P(u|y)``; `count` people share each weight."""
    total = float(weight @ count)
    each = weight[weight > 0] / total
    crowd = count[weight > 0]
    return float(-(crowd * each) @ np.log2(each)), float(each.max())


def _vertical(post: Posterior) -> tuple[Floats, Floats]:
    table, n = post.table, post.table.n_rows
    people, _, count = distinct_rows([c.codes for c in table.columns.values()])
    group = table.group_codes.astype(np.int64)
    n_secrets = len(table.secret.domain)
    # A line is known by its group and its secret; equal lines have equally likely owners.
    lines, number = np.unique(
        group * n_secrets + table.secret_codes.astype(np.int64), return_counts=True
    )
    bits, error = [], []
    for owned in post.ownership:
        entry = owned.tocoo()
        item, secret = (np.asarray(c, dtype=np.int64) for c in entry.coords)
        line = np.searchsorted(lines, group[item] * n_secrets + secret)
        share = entry.data / number[line]
        # For people with equal values, sum the probabilities, then divide them equally.
        keys, place = np.unique(line * len(count) + people[item], return_inverse=True)
        mass = np.bincount(place, weights=share)
        crowd = count[keys % len(count)]
        at = keys // len(count)
        seen = mass > 0
        terms = np.zeros(len(mass))
        terms[seen] = -mass[seen] * np.log2(mass[seen] / crowd[seen])
        entropy = np.bincount(at, weights=terms, minlength=len(lines))
        best = np.zeros(len(lines))
        np.maximum.at(best, at, mass / crowd)
        bits.append(np.log2(n) - float(number @ entropy) / n)
        error.append(1.0 - float(number @ best) / n)
    return np.array(bits), np.array(error)
