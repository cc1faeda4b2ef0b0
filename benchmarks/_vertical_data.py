"""The Anatomy tables of the shared data, as layouts, with the true links for scoring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from anonbayes.inference.vertical.group_layout import VerticalLayout

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "anatomy"
SENSITIVE = "occupation"


@dataclass(frozen=True)
class Anatomy:
    """A vertical release, and for each distinct tuple its rows and their true values."""

    layout: VerticalLayout
    tuple_of_item: np.ndarray
    true_tuple: np.ndarray
    true_secret: np.ndarray

    def beliefs(self, ownership: np.ndarray) -> np.ndarray:
        """Attacker's beliefs (MODEL 1.5) of each distinct tuple, from ownership probabilities."""
        dense = self.layout.ownership(ownership).toarray()
        total = np.zeros((self.tuple_of_item.max() + 1, self.layout.n_secrets))
        np.add.at(total, self.tuple_of_item, dense)
        return total / total.sum(axis=1, keepdims=True)

    def accuracy(self, ownership: np.ndarray) -> float:
        """Share of cleartext rows whose sensitive value the attacker guesses."""
        guess = self.beliefs(ownership).argmax(axis=1)
        return float(np.mean(guess[self.true_tuple] == self.true_secret))


def load(name: str) -> Anatomy:
    """Read ``<name>_qit.csv``, ``_st.csv`` and ``_truth.csv``."""
    if not SHARED.exists():
        raise SystemExit(f"The Anatomy tables are not at {SHARED}; nothing to measure.")
    qit, st, truth = (
        pd.read_csv(SHARED / f"{name}_{part}.csv", sep=";") for part in ("qit", "st", "truth")
    )
    columns = [c for c in qit.columns if c != "group"]
    domains = {c: np.unique(qit[c]) for c in columns}
    values = np.unique(st[SENSITIVE])

    def codes(frame: pd.DataFrame) -> np.ndarray:
        return np.stack([np.searchsorted(domains[c], frame[c]) for c in columns], axis=1)

    items, true_items = codes(qit), codes(truth)
    _, tuples = np.unique(np.concatenate([items, true_items]), axis=0, return_inverse=True)
    layout = VerticalLayout(
        items=items,
        secrets=np.searchsorted(values, st[SENSITIVE]),
        offsets=np.concatenate([[0], np.cumsum(st.groupby("group").size())]),
        sizes=[len(domains[c]) for c in columns],
        n_secrets=len(values),
    )
    return Anatomy(
        layout,
        tuples.ravel()[: len(items)],
        tuples.ravel()[len(items) :],
        np.searchsorted(values, truth[SENSITIVE]),
    )
