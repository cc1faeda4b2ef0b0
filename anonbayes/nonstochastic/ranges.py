"""Non-stochastic entropy, leakage, information, privacy, quality."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import ChannelError, one_of
from anonbayes.io.files import write_text

__all__ = [
    "Uncertain",
    "adversary_error_bound",
    "conditional_entropy",
    "entropy",
    "information",
    "leakage",
    "maximin_information",
    "privacy",
    "quality",
    "relative_disarray",
    "transmission",
    "write_json",
]


# -------------------------------------------------------------------------------------------------
# Results as JSON that every reader accepts.


def write_json(content: dict[str, Any], path: str | Path | None = None) -> str:
    """Return `content` as JSON text; write it to `path` if given.

    Tables become lists of records. JSON has no infinity: infinite numbers become the texts "inf"
    and "-inf", missing ones null.

    Examples
    --------
    >>> print(write_json({"leakage": math.inf, "radius": math.nan, "k": np.int64(3)}))
    {
      "leakage": "inf",
      "radius": null,
      "k": 3
    }
    """
    text = json.dumps(_plain(content), indent=2, allow_nan=False)
    if path is not None:
        write_text(path, text + "\n")
    return text


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {str(key): _plain(value) for key, value in item.items()}
    if isinstance(item, pd.DataFrame):
        return _plain(item.astype(object).to_dict(orient="records"))
    if isinstance(item, list | tuple | np.ndarray):
        return [_plain(value) for value in item]
    if isinstance(item, np.generic):
        item = item.item()
    if item is pd.NA or (isinstance(item, float) and math.isnan(item)):
        return None
    if isinstance(item, float) and math.isinf(item):
        return "inf" if item > 0 else "-inf"
    return item


# -------------------------------------------------------------------------------------------------
# Entropy, information and leakage of uncertain variables: sizes of sets, no probabilities.
#
# Every measure reads three facts of a relation between a secret ``X`` and a release ``Y``: how
# large the range of ``X`` is, how large it remains after each release, and how many
# taxicab-connected components the possible pairs have. Finite relations (`Relation`) and quantized
# queries on a box (`Policy`) both know these facts, so the same functions serve both.


@runtime_checkable
class Uncertain(Protocol):
    """What the measures ask of a pair of uncertain variables ``(X, Y)``."""

    @property
    def log_measure(self) -> float:
        """Logarithm of the size of the range of ``X``."""

    @property
    def conditional_log_measures(self) -> npt.NDArray[np.float64]:
        """Logarithm of the size of the range of ``X`` that remains after each release ``y``."""

    @property
    def n_components(self) -> float:
        """Number of taxicab-connected components of the possible pairs; may be infinite."""


def entropy(x: Any) -> float:
    """Non-stochastic entropy ``h0(X) = log mu([[X]])`` (Quantize (1)), in nats.

    Parameters
    ----------
    x : Box, Relation, Policy or array_like
        A box (Lebesgue measure), a relation or policy (the measure of its ``X``), or the 0/1
        matrix of a finite relation (counting measure).

    Examples
    --------
    >>> import anonbayes as ab
    >>> round(ab.nonstochastic.entropy(ab.nonstochastic.Box.cube(-2, 2, 2)), 6)
    2.772589
    """
    known = getattr(x, "log_measure", None)
    return float(known if known is not None else _pair(x).log_measure)


def conditional_entropy(pair: Any) -> float:
    """Conditional entropy ``h0(X|Y)``: the largest range that a release leaves (Quantize (2)).

    Examples
    --------
    >>> conditional_entropy([[1, 0], [0, 1], [0, 1]]) == math.log(2)
    True
    """
    return float(np.max(_pair(pair).conditional_log_measures))


def relative_disarray(pair: Any) -> float:
    """Relative disarray ``d0(X|Y)``: the smallest range that a release leaves (Quantize (5)).

    It is minus infinity when some release pins ``X`` down to a set of measure zero.

    Examples
    --------
    >>> relative_disarray([[1, 0], [0, 1], [0, 1]])
    0.0
    """
    return float(np.min(_pair(pair).conditional_log_measures))


def information(pair: Any) -> float:
    """Non-stochastic information ``I0(X;Y) = h0(X) - h0(X|Y)`` (Quantize (3)).

    What the *least* telling release says. A mechanism can publish half of the secrets as they are
    and keep it small; use `leakage` to judge privacy.

    Examples
    --------
    >>> round(information([[1, 0], [0, 1], [0, 1]]), 6)
    0.405465
    """
    return entropy(pair) - conditional_entropy(pair)


def leakage(pair: Any) -> float:
    """Non-stochastic information leakage ``L0(X;Y) = h0(X) - d0(X|Y)`` (Quantize (6)).

    What the *most* telling release says; infinite when some release reveals ``X``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> mean = ab.nonstochastic.LinearQuery.mean(2)
    >>> policy = ab.nonstochastic.optimal_policy(
    ...     mean, ab.nonstochastic.Box.cube(-2, 2, 2), gamma=2)
    >>> round(ab.nonstochastic.leakage(policy), 6)     # log 8
    2.079442
    """
    return entropy(pair) - relative_disarray(pair)


def maximin_information(pair: Any) -> float:
    """Maximin information ``I*(X;Y)``: log of the number of taxicab components (Quantize (9)).

    Symmetric in ``X`` and ``Y``. For a deterministic release it is the logarithm of the number of
    different answers.

    Examples
    --------
    >>> round(maximin_information([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), 6)   # two components
    0.693147
    """
    return math.log(_pair(pair).n_components)


def transmission(relation: Any) -> float:
    """Information transmission ``T0 = h0(X) + h0(Y) - h0(X,Y)`` (Quantize (8)).

    Counting measure on both sides of a finite relation. It is zero exactly when ``X`` and ``Y``
    are unrelated.

    Examples
    --------
    >>> transmission([[1, 1], [1, 1]])
    0.0
    >>> round(transmission([[1, 0], [0, 1]]), 6)
    0.693147
    """
    from anonbayes.nonstochastic.relations import Relation

    pairs = relation if isinstance(relation, Relation) else Relation(relation)
    n_x, n_y = pairs.range_x.size, pairs.range_y.size
    return math.log(n_x) + math.log(n_y) - math.log(pairs.matrix.nnz)


def privacy(pair: Any, *, measure: str = "leakage") -> float:
    """Measure of privacy of a release (Quantize Def. III.1).

    Parameters
    ----------
    pair : Relation, Policy or array_like
        The secret and its release.
    measure : {"leakage", "maximin"}
        ``P1 = 1/L0`` or ``P2 = 1/I*``.

    Returns
    -------
    float
        Infinite when nothing leaks, zero when everything may.

    Examples
    --------
    >>> privacy([[1], [1]]), privacy([[1, 0], [0, 1]], measure="maximin") == 1 / math.log(2)
    (inf, True)
    """
    one_of("measure", measure, ["leakage", "maximin"])
    amount = leakage(pair) if measure == "leakage" else maximin_information(pair)
    return math.inf if amount <= 0 else 1 / amount


def quality(release: Any, true: npt.ArrayLike | None = None) -> float:
    """Measure of quality ``Q = 1 / ess sup ||f - f~||`` (Quantize (11)).

    Parameters
    ----------
    release : Policy, UniformQuantizer or array_like
        Something that knows its own ``quality``, or the released answers, one row per possible
        ``x``.
    true : array_like, optional
        The true answers in the same order; needed with an array of answers.

    Examples
    --------
    >>> quality([0.5, 0.5, 2.0], true=[0.0, 1.0, 2.0])
    2.0
    """
    known = getattr(release, "quality", None)
    if known is not None:
        return float(known)
    if true is None:
        raise ChannelError("quality() of released answers needs the true answers: give true=...")
    exact, given = np.asarray(true, dtype=float), np.asarray(release, dtype=float)
    if exact.shape != given.shape or exact.size == 0:
        raise ChannelError(
            f"Released answers have shape {given.shape}, true answers {exact.shape}; give one "
            "released answer per true one."
        )
    worst = float(np.max(np.linalg.norm((given - exact).reshape(len(exact), -1), axis=1)))
    return math.inf if worst == 0 else 1 / worst


def adversary_error_bound(
    pair: Any, *, dimension: int | None = None, release: str = "smallest"
) -> float:
    """Lower bound on the worst-case error of any estimate of ``X`` (Quantize Thms. II.1, II.2).

    The radius of a ball whose volume is that of the range that a release leaves:
    ``Gamma(n/2+1)^(1/n) / sqrt(pi) * exp(d0/n)`` for the release that leaves least.

    Parameters
    ----------
    pair : Policy, Relation or float
        The secret and its release (with respect to Lebesgue measure), or the logarithm of the size
        of one range, such as the relative disarray ``d0``.
    dimension : int, optional
        Dimension ``n`` of the secret; a policy knows it.
    release : {"smallest", "largest"}
        Bound ``d_min``, the error after the most telling release (``d0``, Thm. II.2), or
        ``d_max``, the error after the least telling one (``h0(X|Y)``, Thm. II.1).

    Examples
    --------
    >>> round(adversary_error_bound(math.log(2), dimension=2), 6)     # sqrt(2/pi)
    0.797885
    """
    n = dimension if dimension is not None else getattr(pair, "dimension", None)
    if n is None:
        raise ChannelError("adversary_error_bound needs dimension=, the dimension of the secret.")
    if n < 1:
        raise ChannelError(f"dimension={n!r} must be at least 1.")
    one_of("release", release, ["smallest", "largest"])
    if isinstance(pair, int | float):
        log_size = float(pair)
    else:
        log_size = (relative_disarray if release == "smallest" else conditional_entropy)(pair)
    return math.exp((math.lgamma(n / 2 + 1) + log_size) / n) / math.sqrt(math.pi)


def _pair(pair: Any) -> Uncertain:
    if isinstance(pair, Uncertain):
        return pair
    from anonbayes.nonstochastic.relations import Relation

    return Relation(pair)
