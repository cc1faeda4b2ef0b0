"""``kind = "identity"``: which people in a sample stand out in the population."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anonbayes.scenario.choices import ENCODING, SEPARATOR
from anonbayes.scenario.keys import File, Section, Several, key
from anonbayes.scenario.outputs import AnyScenario, Result, compare_limits

if TYPE_CHECKING:
    import pandas as pd


# -------------------------------------------------------------------------------------------------
# The keys.


class SampleFile(Section):
    """The sample, one person per line."""

    file: File = key("Sample: delimited text with one person per line.")
    sep: str = key(SEPARATOR, "auto")
    encoding: str = key(ENCODING, "utf-8")
    attributes: Several[str] = key("Columns that an intruder may know; by default all.", ())
    drop: Several[str] = key("Columns to leave out.", ())
    weights: str | None = key(
        "Column of sampling weights: the number of people that a line represents.", None
    )
    household: str | None = key("Column with each person's household.", None)
    strata: str | None = key("Column by which the sample was stratified.", None)


class PopulationSize(Section):
    """The population from which the sample was drawn."""

    size: int | None = key("Number of people in the population, including the sample.", None, ge=1)
    strata: dict[str, int] = key("People in each stratum, by its value in sample.strata.", dict)


class MixtureSettings(Section):
    """The mixture model of the population."""

    classes: int = key("Largest number of classes of people.", 40, ge=2)
    draws: int = key("Draws per chain.", 300, ge=1)
    chains: int = key("Independent chains.", 4, ge=1)
    probability: float = key("Probability of the intervals.", 0.9, gt=0, lt=1)


class IdentityLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_unique_in_population: float | None = key(
        "Largest number of people in the sample who are unique in the population, at the upper "
        "end of the interval.", None, ge=0)  # fmt: skip
    max_population_uniques: float | None = key(
        "Largest number of people in the population who are unique in it, at the upper end of the "
        "interval.", None, ge=0)  # fmt: skip
    max_match_probability: float | None = key(
        "Largest probability that a match to any person is right.", None, ge=0, le=1
    )
    max_marketer_risk: float | None = key(
        "Largest share of correct matches if everybody is matched.", None, ge=0, le=1
    )


class IdentityQuestion(AnyScenario):
    """How many people in a sample are unique in the population, or nearly so."""

    kind: Literal["identity"] = key("Kind of the scenario.")
    sample: SampleFile = key("The sample.")
    population: PopulationSize = key("The population.", PopulationSize)
    model: MixtureSettings = key("How the population is estimated.", MixtureSettings)
    limits: IdentityLimits = key("Limits on the results.", IdentityLimits)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        strata = self.population.strata
        if self.population.size is None and self.sample.weights is None and not strata:
            yield "give population.size, or the column of sampling weights as sample.weights."
        if bool(strata) != (self.sample.strata is not None):
            yield "sample.strata (a column) and population.strata (its people) need each other."
        if strata and self.population.size is not None:
            yield "population.strata gives the size of the population; leave out population.size."

    def prepare(self) -> PreparedIdentity:
        """Read and check the sample before anything expensive."""
        from anonbayes.errors import TableError, nearest
        from anonbayes.io.text import read_csv_text

        asked = self.sample
        frame = read_csv_text(asked.file, sep=asked.sep, encoding=asked.encoding)
        named = [*asked.attributes, *asked.drop, asked.weights, asked.household, asked.strata]
        for name in named:
            if name is not None and name not in frame:
                hint = nearest(name, frame.columns)
                raise TableError(f"{asked.file.name}: there is no column {name!r}. {hint}")
        frame = frame.drop(columns=list(asked.drop))
        return PreparedIdentity(self, frame.mask(frame == ""))  # an empty cell is missing


# -------------------------------------------------------------------------------------------------
# The run.


@dataclass(frozen=True)
class PreparedIdentity:
    """The sample."""

    settings: IdentityQuestion
    frame: pd.DataFrame

    def run(self) -> Result:
        """Estimate the population, and count the people who stand out.

        Tables contain measures and line numbers, but no values of a person.
        """
        from anonbayes.uniqueness.identity import identity

        settings = self.settings
        who = identity(
            self.frame,
            population=settings.population.strata or settings.population.size,
            strata=settings.sample.strata,
            weights=settings.sample.weights,
            attributes=list(settings.sample.attributes) or None,
            household=settings.sample.household,
            classes=settings.model.classes,
            draws=settings.model.draws,
            chains=settings.model.chains,
            probability=settings.model.probability,
            seed=settings.seed,
        )
        summary = who.summary
        measures = {str(name): float(value) for name, value in summary["estimate"].items()}
        for name in ("unique_in_population", "population_uniques"):
            measures[f"{name}_high"] = float(summary["high"].to_dict()[name])
        measures["largest_match"] = float(who.rows["match"].max())
        if settings.sample.household is not None:
            measures["largest_household_match"] = float(who.rows["household_match"].max())
        rows = who.rows.reset_index(drop=True).rename_axis("row").reset_index()
        return Result(
            text=f"{who}\nMatching everybody would be right for {measures['marketer']:.1%}.",
            measures=measures,
            tables={"summary": summary.rename_axis("measure").reset_index(), "rows": rows},
            limits=compare_limits(
                settings.limits,
                measures,
                {
                    "max_unique_in_population": "unique_in_population_high",
                    "max_population_uniques": "population_uniques_high",
                    "max_match_probability": "largest_match",
                    "max_marketer_risk": "marketer",
                },
            ),
            plots={"uniqueness": who.plot},
        )
