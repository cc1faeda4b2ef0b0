"""Leave one attribute out: how much of a threat is due to knowing it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.errors import TableError
from anonbayes.inference.beliefs.attacker import attacker_weights
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.inference.beliefs.learner import learner_weights
from anonbayes.inference.beliefs.victims import Victims
from anonbayes.risk.measures import pair_threats
from anonbayes.risk.truth import Truth, read_truth

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["contributions", "places_of"]


def places_of(risk: RiskAssessment, labels: list[Any]) -> npt.NDArray[np.int64]:
    """Positions of the rows with these labels."""
    places: dict[Any, list[int]] = {}
    for place, label in enumerate(risk.rows.index):
        places.setdefault(label, []).append(place)
    missing = [label for label in labels if label not in places]
    if missing:
        raise TableError(f"The cleartext has no row {missing[0]!r} ({len(missing)} unknown).")
    return np.array([place for label in labels for place in places[label]], dtype=np.int64)


def contributions(risk: RiskAssessment, place: npt.NDArray[np.int64]) -> pd.DataFrame:
    """See `RiskAssessment.contributions`.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    place : numpy.ndarray
        Positions of rows of the cleartext, whose labels need not be distinct.
    """
    table = risk.post.table
    names = table.attributes
    full = risk.rows.iloc[place]
    level, ratio = np.empty((2, len(full), len(names)))
    if len(full):
        truth = read_truth(table, risk.cleartext.iloc[place])
        for a in range(len(names)):
            level[:, a], ratio[:, a] = _without(risk, truth, a)
    return pd.DataFrame(
        {
            "p_A_without": level.ravel(),
            "Ti_without": ratio.ravel(),
            "adds_p_A": (full["p_A"].to_numpy()[:, None] - level).ravel(),
            "adds_log2_Ti": np.log2(full["Ti"].to_numpy()[:, None] / ratio).ravel(),
        },
        index=pd.MultiIndex.from_arrays(
            [full.index.to_flat_index().repeat(len(names)), list(names) * len(full)],
            names=["row", "attribute"],
        ),
    )


def _without(risk: RiskAssessment, truth: Truth, a: int) -> tuple[Floats, Floats]:
    """Level and relative threat of each row when attribute `a` is not known."""
    post = risk.post
    victims = _forget(truth.victims, a, len(post.table.domains[post.table.attributes[a]]))
    levels = []
    for weights in (
        attacker_weights(post, victims)[0],
        learner_weights(post, victims, risk.settings["kind"])[0],
    ):
        found = pair_threats(normalise(weights), truth.pair_record, truth.pair_secret, risk.gain)
        levels.append(found.level[truth.pair])
    return levels[0], levels[0] / levels[1]


def _forget(victims: Victims, a: int, size: int) -> Victims:
    codes = victims.codes.copy()
    codes[:, a] = 0
    weights = list(victims.weights)
    weights[a] = sparse.csr_array(np.ones((1, size)))
    return replace(victims, codes=codes, weights=tuple(weights))
