"""Small released tables that the tests of inference share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import anonbayes as ab


class Response:
    """Randomized response with its evidence, written out for the tests."""

    def __init__(self, values, keep):
        self.domain = ab.Domain("report", values)
        self.keep = keep

    def evidence(self, reports):
        size = len(self.domain)
        matrix = np.full((size, size), (1 - self.keep) / (size - 1))
        np.fill_diagonal(matrix, self.keep)
        return self.domain.encode(list(reports)), self.domain.values, csr_array(matrix)


def nested():
    """Nested cells, a suppressed cell, repeated rows."""
    frame = pd.DataFrame(
        {
            "age": ["20-21", "20", "20-23", "22-23", "*", "21"],
            "sex": ["f", "*", "m", "f", "m", "f"],
            "ill": ["flu", "flu", "hiv", "flu", "hiv", "flu"],
        }
    )
    return ab.ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, 24)})


def crossing():
    """Cells that overlap without being nested."""
    frame = pd.DataFrame(
        {
            "nat": ["{M, J}", "{J, C}", "M", "{C, M}", "*", "{M, J}"],
            "sex": ["f", "*", "m", "f", "m", "f"],
            "ill": ["flu", "flu", "hiv", "flu", "hiv", "hiv"],
        }
    )
    return ab.ReleasedTable.horizontal(frame, "ill")


def soft():
    """One attribute through randomized response, one generalized."""
    frame = pd.DataFrame(
        {
            "nat": ["M", "J", "M", "C", "J"],
            "sex": ["f", "*", "m", "f", "m"],
            "ill": ["flu", "flu", "hiv", "flu", "hiv"],
        }
    )
    return ab.ReleasedTable.horizontal(frame, "ill", channels={"nat": Response(list("MJC"), 0.6)})


def latent():
    """The sensitive value went through randomized response as well."""
    frame = pd.DataFrame(
        {
            "nat": ["M", "{M, J}", "M", "J"],
            "ill": ["flu", "hiv", "hiv", "hiv"],
        }
    )
    return ab.ReleasedTable.horizontal(
        frame, "ill", channels={"ill": Response(("flu", "hiv"), 0.75)}
    )


ALL = {"nested": nested, "crossing": crossing, "soft": soft, "latent": latent}
PRIOR = {"alpha": {"hiv": 0.7}, "beta": lambda domain, secret: 0.5 + np.arange(len(domain)) / 2}
