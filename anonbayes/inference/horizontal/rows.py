"""The hidden values of single rows of a horizontal table, drawn for given distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import code_dtype
from anonbayes.inference.horizontal.kernels import cell_probabilities
from anonbayes.inference.horizontal.layout import Arrays, HorizontalLayout
from anonbayes.release.table import ReleasedTable

__all__ = ["HiddenRows"]


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Rows whose hidden values are wanted.

    Given the distributions, the rows of a horizontal table are independent of one another, so any
    choice of them can be drawn on its own (MODEL 1.4).

    Attributes
    ----------
    layout : HorizontalLayout
        Of the table.
    dtypes : dict
        What is drawn, ``cleartext_<attribute>``, and the smallest integer type that holds its
        codes; the sensitive value is among it when it was released through a channel.
    cells, secret, secret_cells : numpy.ndarray
        The rows' cells, their sensitive values (-1 where latent) and sensitive cells.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "C"], "Dis": ["Heart", "Flu"]})
    >>> table = ab.ReleasedTable.horizontal(frame, "Dis")
    >>> rows = HiddenRows.of(table, HorizontalLayout.of(table), np.arange(2))
    >>> pi_secret, pi = np.full((5, 2), 1 / 2), np.full((5, 6), 1 / 3)
    >>> drawn = rows.draw(pi_secret, pi, np.random.default_rng(1))["cleartext_Nat"]
    >>> table.domains["Nat"].labels, drawn.tolist()
    (('C', 'J', 'M'), [[2, 0], [1, 0], [1, 0], [2, 0], [2, 0]])
    """

    layout: HorizontalLayout
    dtypes: dict[str, np.dtype[Any]]
    cells: Ints
    secret: Ints
    secret_cells: Ints

    @classmethod
    def of(cls, table: ReleasedTable, layout: HorizontalLayout, rows: Ints) -> HiddenRows:
        """Collect what the table says of the rows."""
        arrays = layout.arrays
        first = np.searchsorted(arrays.attribute, np.arange(len(layout.names)))
        cells = [column.codes[rows].astype(np.int64) for column in table.columns.values()]
        sizes = dict(zip(layout.names, arrays.sizes, strict=True))
        if table.secrets_known:
            secret = table.secret_codes[rows].astype(np.int64)
        else:
            secret = np.full(len(rows), -1, dtype=np.int64)
            sizes[table.sensitive] = layout.n_secrets
        return cls(
            layout=layout,
            dtypes={f"cleartext_{k}": code_dtype(int(n)) for k, n in sizes.items()},
            cells=np.stack(cells, axis=1) + first,
            secret=secret,
            secret_cells=table.secret.codes[rows].astype(np.int64),
        )

    def draw(
        self, pi_secret: Floats, pi: Floats, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[Any]]:
        """Draw the rows' values once for each given pair of distributions.

        Parameters
        ----------
        pi_secret : ndarray, shape (draws, S)
            Distribution of the sensitive value.
        pi : ndarray, shape (draws, length)
            Distributions of the attributes, flat as in the layout.
        rng : numpy.random.Generator
            Source.

        Returns
        -------
        dict of ndarray
            Codes of shape (draws, rows), with names and types as in `dtypes`.
        """
        widest = max(self.dtypes.values(), key=lambda dtype: dtype.itemsize)
        # One column more than attributes: the sensitive value.
        codes = np.empty((len(pi), len(self.layout.names) + 1, len(self.secret)), dtype=widest)
        _draw(
            pi_secret,
            pi,
            self.layout.arrays,
            self.cells,
            self.secret,
            self.secret_cells,
            codes,
            rng,
        )
        return {name: codes[:, a].astype(d) for a, (name, d) in enumerate(self.dtypes.items())}


@njit(cache=True, nogil=True)
def _draw(  # type: ignore[no-untyped-def]
    pi_secret, flat, d: Arrays, cells, known, secret_cells, codes, rng
):
    n_secrets, n_attributes = pi_secret.shape[1], cells.shape[1]
    weight = np.empty(n_secrets)
    for t in range(len(flat)):
        pi = flat[t]
        probability = cell_probabilities(pi, d, n_secrets)
        for j in range(cells.shape[0]):
            s = known[j]
            if s < 0:
                total = 0.0
                for z in range(n_secrets):
                    w = pi_secret[t, z] * d.secret_likelihood[secret_cells[j], z]
                    for a in range(n_attributes):
                        w *= probability[cells[j, a], z]
                    weight[z] = w
                    total += w
                u = rng.random() * total
                s = 0
                while s < n_secrets - 1 and u >= weight[s]:
                    u -= weight[s]
                    s += 1
                codes[t, n_attributes, j] = s
            for a in range(n_attributes):
                c = cells[j, a]
                where = d.start[a] + s * d.sizes[a]
                u = rng.random() * probability[c, s]
                i = d.pointer[c]
                while i < d.pointer[c + 1] - 1:
                    w = pi[where + d.values[i]] * d.likelihood[i]
                    if u < w:
                        break
                    u -= w
                    i += 1
                codes[t, a, j] = d.values[i]
