"""Measures in words: one sentence for each, and the verdict on a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["EXPLANATIONS", "verdict"]

EXPLANATIONS = {
    "GT_A": "Share of the people whose secret an attacker guesses right who knows that they are "
    "in the table.",
    "GT_L": "Share of the people whose secret is guessed right by somebody who only learned about "
    "the population.",
    "GT_RW": "Share guessed right by an attacker to whom all compatible tables are equally likely.",
    "RGT_A": "How much more often the attacker is right than the learner: what being in the table "
    "costs.",
    "RF": "Relative faithfulness: 1 if the release teaches as much about the population as the "
    "cleartext, 0 if nothing of it.",
    "ETV": "Empirical total variation between what cleartext and release teach (Groups (21)).",
    "ABS_A": "Sum over people and values of the error of the attacker's probabilities.",
    "ABS_L": "The same for the learner.",
    "ABS_RW": "The same for random worlds.",
    "baseline": "Share guessed right by always naming the most frequent value.",
    "ideal": "Share guessed right from a model of the population learned from the cleartext.",
    "max_Ti": "Largest relative threat: how many times likelier the attacker deems a secret he "
    "guesses right than the learner does.",
    "Ti_q50": "Half of the threatened people have a relative threat of at most this.",
    "Ti_q75": "Three quarters of the threatened people have a relative threat of at most this.",
    "Ti_q90": "90 % of the threatened people have a relative threat of at most this.",
    "Ti_q95": "95 % of the threatened people have a relative threat of at most this.",
    "Ti_q99": "99 % of the threatened people have a relative threat of at most this.",
    "doubled": "Share of the people who are threatened with a relative threat of 2 or more.",
    "skewness": "Skewness of log2 of the relative threat: positive if few are threatened much more "
    "than the rest.",
    "threatened": "Number of people whose secret the attacker guesses right.",
    "rows": "Number of people in the cleartext.",
}


def verdict(risk: RiskAssessment) -> str:
    """Two or three sentences that a person without statistics can act on."""
    s = risk.summary
    n = int(s["rows"])
    parts = [
        f"An attacker who knows that somebody is in the table guesses {risk.gain.text} right for "
        f"{s['GT_A']:.1%} of {n:,} people; somebody who only learned about the population, for "
        f"{s['GT_L']:.1%}."
    ]
    if np.isfinite(s["max_Ti"]) and s["threatened"] > 0:
        parts.append(
            f"The attacker is at most {s['max_Ti']:.3g} times as certain as the learner, and twice "
            f"as certain or more about {round(s['doubled'] * n):,} of them."
        )
    if risk.leakage is not None and not risk.leakage.is_private:
        parts.append(
            f"{risk.leakage.exposed:,} people are in groups that show one sensitive value only."
        )
    parts.append(
        f"What the release teaches about the population is {s['RF']:.0%} faithful to the cleartext."
    )
    return " ".join(parts)
