"""``kind = "query"``: what a quantized average reveals, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anonbayes.errors import AnonbayesError
from anonbayes.scenario.choices import SEPARATOR
from anonbayes.scenario.keys import File, Section, Several, key
from anonbayes.scenario.outputs import AnyScenario, Result, compare_limits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# -------------------------------------------------------------------------------------------------
# The keys.


class Numbers(Section):
    """Private numbers whose average is asked for."""

    lower: float = key("Smallest possible number.")
    upper: float = key("Largest possible number.")
    values: Several[float] = key("The numbers.", ())
    file: File | None = key("Delimited UTF-8 file with one person per line.", None)
    column: str | None = key("Column with the numbers.", None)
    sep: str = key(SEPARATOR, "auto")

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        if not self.lower < self.upper:
            yield "@lower must be smaller than @upper."
        if bool(self.values) == (self.file is not None and self.column is not None):
            yield "give either @values, or @file and @column."
        for value in self.values:
            if not self.lower <= value <= self.upper:
                yield f"value {value:g} lies outside [{self.lower:g}, {self.upper:g}]."


class Quality(Section):
    """Required accuracy of the answer."""

    largest_error: float = key("Largest distance of the answer from the average.", gt=0)
    compare: Several[Annotated[float, Field(gt=0)]] = key(
        "Further largest errors for comparison.", ()
    )


class QueryLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_leakage: float | None = key("Largest leakage in nats.", None, ge=0)
    min_adversary_error: float | None = key("Least error of an adversary's best guess.", None, ge=0)


class Query(AnyScenario):
    """What a quantized average can reveal, whatever the numbers are."""

    kind: Literal["query"] = key("Kind of the scenario.")
    numbers: Numbers = key("The private numbers.")
    quality: Quality = key("Required accuracy of the answer.")
    limits: QueryLimits = key("Limits on the results.", QueryLimits)

    def prepare(self) -> PreparedQuery:
        """Read the numbers."""
        import numpy as np

        numbers = self.numbers
        data = np.asarray(numbers.values or _column(numbers), dtype=float)
        low, high = numbers.lower, numbers.upper
        if len(outside := data[(data < low) | (data > high)]):
            raise AnonbayesError(
                f"{numbers.column}: {outside[0]:g} lies outside [{low:g}, {high:g}]."
            )
        if len(data) > MOST_PEOPLE:
            raise AnonbayesError(
                f"{len(data)} numbers are too many: the exact leakage is computed for at most "
                f"{MOST_PEOPLE}."
            )
        return PreparedQuery(self, data)


# -------------------------------------------------------------------------------------------------
# The run.


MOST_PEOPLE = 40
"""Volumes of slices of a cube are computed in rational numbers, which grow with the dimension."""


@dataclass(frozen=True)
class PreparedQuery:
    """The private numbers."""

    settings: Query
    data: npt.NDArray[np.float64]

    def run(self) -> Result:
        """Compute the answer, and what answers of other accuracy would reveal.

        The true average is not part of the result: it is what the quantizer hides.
        """
        from anonbayes.nonstochastic import (
            Box,
            LinearQuery,
            optimal_policy,
            plot_tradeoff,
            tradeoff,
        )

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
                f"The average of {n} numbers is {answer:g}, within {largest_error:g}.\n"
                "Whatever the numbers are, the answer reveals at "
                f"most {measures['leakage']:.3f} nats, and no adversary can guess all {n} numbers "
                f"with an error that is certain to be below {measures['adversary_error']:.4g}."
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


def _column(numbers: Numbers) -> list[float]:
    import pandas as pd

    from anonbayes.io.text import read_columns
    from anonbayes.scenario.people_in_clear import with_numbers

    assert numbers.file is not None and numbers.column is not None
    texts = read_columns(numbers.file, {"numbers.column": numbers.column}, sep=numbers.sep)
    values = with_numbers(texts)[numbers.column]
    if not pd.api.types.is_numeric_dtype(values):
        raise AnonbayesError(
            f"numbers.column = {numbers.column!r} contains other cells than numbers."
        )
    return [float(value) for value in values]
