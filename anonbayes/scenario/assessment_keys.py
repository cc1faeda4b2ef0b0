"""Keys of ``kind = "assessment"``: prior and sampler, threats, attackers, limits, outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from anonbayes.errors import AnonbayesError
from anonbayes.scenario.keys import Section, Several, key
from anonbayes.scenario.outputs import Outputs

__all__ = [
    "IDENTITY_LIMITS",
    "AssessedPopulation",
    "AssessmentLimits",
    "AssessmentOutputs",
    "Attacker",
    "Model",
    "Threats",
    "Victim",
]


class Model(Section):
    """Prior and sampler."""

    alpha: Any = key("Dirichlet weights of the sensitive values: a number, list or table.", 1.0)
    beta: Any = key('Weights of the other values: a number, a table by attribute, or "pooled"; by '
                    "default 1 with independent evidence, pooled with weighted evidence.",
                    None)  # fmt: skip
    evidence: Literal["auto", "independent", "weighted"] = key(
        "How attributes add up: each in full, by weights learned from the release, or whichever "
        "of the two tells held-out rows better.", "auto",
    )  # fmt: skip
    method: Literal["auto", "exact", "gibbs", "nuts"] = key("Engine.", "auto")
    step: str | None = key("Kind of Gibbs step for an Anatomy, such as tempered.", None)
    draws: int = key("Draws per chain.", 1000, ge=1)
    tune: int | None = key("Sweeps before them.", None, ge=0)
    chains: int = key("Number of chains.", 4, ge=1)
    cores: int | None = key("Chains that run at the same time.", None, ge=1)


Threat = Literal["RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A", "log_loss_gain"]


Preset = Literal["ema_0070", "health_canada", "cell_size_11", "group_of_5", "group_of_20"]


class Threats(Section):
    """What counts as a threat."""

    harm: Several[str] = key("Sensitive values that must not be inferred; by default any.", ())
    kind: Literal["predictive", "conditional"] = key("The learner's belief.", "predictive")
    minimality: bool = key(
        "Whether to find what the anonymizer's choice gives away (recode, mondrian): cleartexts "
        "are anonymized again.", False,
    )  # fmt: skip
    measure: Threat = key(
        "Measure of threat by which the releases of a sweep are compared.", "RGT_A"
    )


class Victim(Section):
    """A person about whom beliefs are asked."""

    name: str = key("How the person is called in the results.")
    known: dict[str, Any] = key("What is known: attribute = value; left out = unknown.", dict)
    group: Any = key("Group of an Anatomy that the person is known to be in.", None)
    secret: Any = key("Sensitive value that limits.max_belief is about.", None)


class Attacker(Section):
    """An attacker, by what is known; several are put side by side."""

    name: str = key("How the attacker is called in the results.")
    knows: Several[str] = key("Attributes of a person that are known; by default all.", ())
    coarse: dict[str, int] = key("Attributes of which only a level of the hierarchy is known.",
                                 dict)  # fmt: skip
    noisy: dict[str, float] = key(
        "Attributes that are known through randomized response, and its epsilon.", dict
    )
    group: bool = key("Whether the group of an Anatomy is known, which cleartext.group names.",
                      False)  # fmt: skip
    others: bool = key("Whether the attacker holds the register of [others].", False)
    also: bool = key("Whether the attacker holds the further releases of [[also]].", False)
    alpha: Any = key("Prior weights of the sensitive values; by default those of [model].", None)
    beta: Any = key("Prior weights of the other values; by default those of [model].", None)
    at_most: dict[str, float] = key(
        'Largest acceptable value of a measure, such as "right" = 0.5.', dict
    )


IDENTITY_LIMITS = {
    "max_population_uniques": "unique_in_population_high",
    "max_match_probability": "largest_match",
    "max_membership_tpr": "membership_tpr_high",
}
"""Limits that need the size of the population, and the measures that they limit."""


class AssessedPopulation(Section):
    """The population that the people of the table are part of."""

    size: int | None = key(
        "People in the population, those of the table included; then it is estimated who stands "
        "out among them and, with others, how surely it can be told who is in the table.",
        None, ge=1)  # fmt: skip


class AssessmentLimits(Section):
    """What is acceptable; beyond it the exit code is 3."""

    max_relative_threat: float | None = key("Largest relative threat of anybody.", None, gt=0)
    max_threatened: float | None = key("Largest share of threatened people.", None, ge=0, le=1)
    max_cost: float | None = key("Largest cost of being in the table: share of people guessed "
                                 "right beyond what the population gives away.", None, ge=0,
                                 le=1)  # fmt: skip
    max_doubled: float | None = key("Largest share of people threatened with a relative threat of "
                                    "2 or more.", None, ge=0, le=1)  # fmt: skip
    max_log_loss_gain: float | None = key("Most that being in the table may teach about a secret, "
                                          "in nats.", None, gt=0)  # fmt: skip
    max_population_uniques: float | None = key(
        "Largest number of people of the release who are unique in the population, at the upper "
        "end of the interval; needs population.size.", None, ge=0)  # fmt: skip
    max_match_probability: float | None = key(
        "Largest probability that a match of a released row to a person of the population is "
        "right; needs population.size.", None, ge=0, le=1)  # fmt: skip
    max_membership_tpr: float | None = key(
        "Largest share of the table's people found by asking who is in it, with 1 % of others "
        "found wrongly, at the upper end of the interval; needs population.size and others.",
        None, ge=0, le=1)  # fmt: skip
    max_belief: float | None = key("Largest belief of the attacker in anybody's true secret: of "
                                   "people in the cleartext, and of victims.", None, ge=0,
                                   le=1)  # fmt: skip
    at_most: dict[str, float] = key('Largest acceptable value of any measure, such as "Ti_q95" = '
                                    "2.0.", dict)  # fmt: skip
    at_least: dict[str, float] = key('Smallest acceptable value of any measure, such as "RF" = '
                                     "0.9.", dict)  # fmt: skip
    preset: Preset | None = key(
        "Named threshold of the highest risk of re-identification (1 over the smallest group).",
        None,
    )
    require_convergence: bool | None = key(
        "Whether the chains must be trustworthy; by default wherever another limit is set.", None
    )

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        from anonbayes.risk.limits import check_measure_limits

        for name in ("at_most", "at_least"):
            try:
                check_measure_limits(getattr(self, name), what=f"@{name}")
            except AnonbayesError as error:
                yield str(error)

    @property
    def threats(self) -> dict[str, Any]:
        """The limits on measures of the assessment that are set."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        others = ("require_convergence", "preset", *IDENTITY_LIMITS)
        return {k: v for k, v in given.items() if v not in (None, {}) and k not in others}

    @property
    def needs_convergence(self) -> bool:
        """Whether chains that cannot be trusted exceed a limit."""
        asked = self.require_convergence
        return bool(self.threats or self.preset) if asked is None else asked


class AssessmentOutputs(Outputs):
    """Where results go and which are written."""

    report: bool = key("Write a report as one HTML page.", True)
    show_values: bool = key(
        "Show the values of threatened people, and values that only the "
        "cleartext has, in the report.",
        False,
    )
    hide_values: bool = key(
        "Number the values that the release does not show in the netCDF file, too.", False
    )
    draws: bool = key("Store draws in the netCDF file also where a closed form makes the same ones "
                      "again when the file is read.", False)  # fmt: skip
