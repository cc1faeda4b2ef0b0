"""Populations of the sizes in OneID Table IV: Zipf-like, and the real counts of ADL and RFID."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Population(NamedTuple):
    """How many users hold each value, and which values are sensitive."""

    name: str
    counts: np.ndarray
    sensitive: np.ndarray

    @property
    def n(self) -> int:
        return int(self.counts.sum())


# Users, values, sensitive values, and the shift of the Zipf law: the larger, the flatter at the
# top. A shift of 4 gives the most popular place two per cent of the users; with a shift of 100 no
# place has a hundredth of them, as in JK of the paper. Shares fall as one over the shifted rank, in
# the last one as its power 1.3: there W and P have the errors that the paper prints for Istanbul
# (4.43 and 2.04, taken as 10^5), and 15 places hold more than a quarter of the users.
CITIES = {
    "IST": (330_159, 70_557, 9_459, 4, 1.0),
    "NYK": (88_064, 25_483, 946, 3, 1.0),
    "TKY": (51_719, 21_008, 212, 3, 1.0),
    "SP": (67_697, 25_188, 2_532, 5, 1.0),
    "KL": (80_160, 24_493, 2_461, 4, 1.0),
    "JK": (151_315, 62_373, 11_261, 100, 1.0),
    "Local": (164_860, 11, 2, 1, 1.0),
    "IST steep": (330_159, 70_557, 9_459, 8, 1.3),
}
ADL = {
    "Spare_Time/TV": 193,
    "Grooming": 164,
    "Toileting": 137,
    "Snack": 58,
    "Leaving": 52,
    "Sleeping": 43,
    "Breakfast": 36,
    "Showering": 25,
    "Lunch": 22,
    "Dinner": 11,
}
RFID = {"sit on bed": 16_406, "sit on chair": 4_911, "lying": 51_520, "ambulating": 2_291}


def zipf(name: str, seed: int = 0) -> Population:
    """Synthetic counts: shares fall with the shifted rank (Zipf-Mandelbrot)."""
    n, size, n_sensitive, shift, power = CITIES[name]
    rng = np.random.default_rng([seed, list(CITIES).index(name)])
    shares = (np.arange(1, size + 1) + shift) ** -power
    counts = rng.multinomial(n, shares / shares.sum())
    # Homes and hospitals: any values but the most popular ones.
    spared = min(20, size - n_sensitive)
    chosen = spared + rng.choice(size - spared, n_sensitive, replace=False)
    sensitive = np.zeros(size, dtype=bool)
    sensitive[chosen] = True
    return Population(name, counts, sensitive)


def real(name: str) -> Population:
    """The counts of the real data set."""
    counts, chosen = {
        "ADL": (ADL, ("Toileting", "Sleeping", "Showering")),
        "RFID": (RFID, ("lying",)),
    }[name]
    sensitive = np.array([activity in chosen for activity in counts])
    return Population(name, np.array(list(counts.values())), sensitive)


def population(name: str) -> Population:
    return zipf(name) if name in CITIES else real(name)
