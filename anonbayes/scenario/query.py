"""``kind = "query"``: what a quantized average gives away, whatever the numbers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import AnonbayesError
from anonbayes.nonstochastic import (
    Box,
    LinearQuery,
    optimal_policy,
    plot_tradeoff,
    tradeoff,
)
from anonbayes.scenario.file_columns import read_named, with_numbers
from anonbayes.scenario.outputs import Result, compare_limits

if TYPE_CHECKING:
    from anonbayes.scenario.kinds import Numbers, Query

__all__ = ["PreparedQuery", "prepare"]

MOST_PEOPLE = 40
"""Volumes of slices of a cube are exact in rational arithmetic, which grows with the dimension."""


@dataclass(frozen=True)
class PreparedQuery:
    """The private numbers."""

    settings: Query
    data: npt.NDArray[np.float64]

    def run(self) -> Result:
        """Answer, and tabulate what answers of other quality would give away.

        The true average stays out of the result: it is what the quantizer hides.
        """
        numbers, asked = self.settings.numbers, self.settings.quality
        n = len(self.data)
        box, mean = Box.cube(numbers.lower, numbers.upper, n), LinearQuery.mean(n)
        errors = sorted({asked.largest_error, *asked.compare}, reverse=True)
        table = tradeoff(mean, box, [1 / error for error in errors])
        table.insert(0, "largest_error", errors)
        chosen = table.loc[table["largest_error"] == asked.largest_error].iloc[0]
        policy = optimal_policy(mean, box, 1 / asked.largest_error)
        answer, largest_error = policy.answer(self.data), 1 / policy.quality
        measures = {
            "answer": answer,
            "largest_error": largest_error,
            **{name: float(chosen[name]) for name in table.columns if name != "largest_error"},
        }
        return Result(
            text=(
                f"The average of {n} numbers is {answer:g}, give or take "
                f"{largest_error:g}.\nWhatever the numbers are, the answer gives away at "
                f"most {measures['leakage']:.3f} nats, and no adversary can guess all {n} numbers "
                f"with an error that is sure to stay below {measures['adversary_error']:.4g}."
            ),
            measures=measures,
            tables={"tradeoff": table},
            limits=compare_limits(
                self.settings.limits,
                measures,
                {"max_leakage": "leakage", "min_adversary_error": "adversary_error"},
            ),
            plots={"tradeoff": lambda: plot_tradeoff(table)} if len(table) > 1 else {},
        )


def prepare(settings: Query) -> PreparedQuery:
    """Read the numbers."""
    numbers = settings.numbers
    data = np.asarray(numbers.values or _column(numbers), dtype=float)
    outside = data[(data < numbers.lower) | (data > numbers.upper)]
    if len(outside):
        raise AnonbayesError(
            f"{numbers.column}: {outside[0]:g} lies outside [{numbers.lower:g}, {numbers.upper:g}]."
        )
    if len(data) > MOST_PEOPLE:
        raise AnonbayesError(
            f"{len(data)} numbers: the exact leakage is computed for at most {MOST_PEOPLE}."
        )
    return PreparedQuery(settings, data)


def _column(numbers: Numbers) -> list[float]:
    assert numbers.file is not None and numbers.column is not None
    texts = read_named(numbers.file, {"numbers.column": numbers.column}, sep=numbers.sep)
    values = with_numbers(texts)[numbers.column]
    if not pd.api.types.is_numeric_dtype(values):
        raise AnonbayesError(f"numbers.column = {numbers.column!r} does not hold numbers only.")
    return [float(value) for value in values]
