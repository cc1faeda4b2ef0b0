"""What is possible when a request is not: the message of an infeasible recoding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonbayes.release.schemes.records import RecordSet

__all__ = ["what_is_possible"]


def what_is_possible(records: RecordSet, k: int, l: int, limit: int) -> str:  # noqa: E741
    """Say which k and l the coarsest informative levels reach.

    By monotonicity a request is feasible only if it holds one step below the top of the lattice,
    so looking at these nodes, one per attribute, settles it.
    """
    top = [len(level) - 1 for level in records.levels]
    best_k = best_l = 0
    fewest = records.n_rows
    for a, height in enumerate(top):
        if height == 0:
            continue
        node = [*top[:a], height - 1, *top[a + 1 :]]
        _, rows, secrets = records.group(node)
        best_k = max(best_k, _largest(rows, np.where(secrets >= l, rows, 0), limit))
        best_l = max(best_l, _largest(rows, np.where(rows >= k, secrets, 0), limit))
        fewest = min(fewest, int(rows[(rows < k) | (secrets < l)].sum()))
    reach = [
        f"with l={l}, k can be at most {best_k}" if best_k else f"l={l} is out of reach for any k",
        f"with k={k}, l can be at most {best_l}" if best_l else f"k={k} is out of reach for any l",
    ]
    if fewest < records.n_rows:
        reach.append(
            f"with both, suppression must be at least {fewest}/{records.n_rows} = "
            f"{np.ceil(1e4 * fewest / records.n_rows) / 1e4:g}"
        )
    return (
        f"No levels below '*' in every column satisfy k={k} and l={l} with at most {limit} "
        f"suppressed rows: {'; '.join(reach)}. Lower k or l, allow more suppression, leave "
        "columns out, or add levels to the hierarchies."
    )


def _largest(rows: npt.NDArray[np.float64], score: npt.NDArray[np.generic], limit: int) -> int:
    """Largest demand on a group's score for which at most `limit` rows are in failing groups."""
    order = np.argsort(score, kind="stable")
    values = np.asarray(score)[order]
    # below[i]: rows in groups that score less than the i-th group
    total = np.concatenate([[0.0], np.cumsum(rows[order])])
    below = total[np.searchsorted(values, values, side="left")]
    feasible = values[below <= limit]
    return int(feasible.max(initial=0))
