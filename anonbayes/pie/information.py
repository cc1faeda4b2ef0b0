"""How much a report reveals about its sender: ``I(U;Y)`` in bits (PIE (4)), digits kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit, vectorize
from scipy import sparse

from anonbayes.arrays import Floats, read_numbers
from anonbayes.channels.base import Channel
from anonbayes.channels.randomness import Seed, generator
from anonbayes.domains import in_domain_order
from anonbayes.errors import AnonbayesError
from anonbayes.notions.ldp import check_matrix

# -------------------------------------------------------------------------------------------------
# Sums of Kullback-Leibler terms without cancellation.
#
# ``D(q||r) = sum r phi(q/r - 1)`` with ``phi(d) = (1+d) ln(1+d) - d >= 0``: because every term is
# positive, bits of the order of 1e-7 are not lost in the entropies of the two distributions.

LOG2E = math.log2(math.e)


@njit(cache=True)
def _phi(d: float) -> float:
    if abs(d) < 1e-3:
        return d * d * (1 / 2 - d * (1 / 6 - d * (1 / 12 - d * (1 / 20 - d / 30))))
    return -d if d <= -1.0 else (1.0 + d) * math.log1p(d) - d


@vectorize(cache=True)
def _excess(d: float) -> float:
    return _phi(d)


@vectorize(cache=True)
def _terms(q: float, r: float) -> float:
    return r * _phi((q - r) / r) * LOG2E if r > 0.0 else 0.0


def excess(deviation: npt.ArrayLike) -> Floats:
    """``(1+d) ln(1+d) - d`` for ``d >= -1``, by its series near zero."""
    return _excess(np.asarray(deviation, dtype=float))


def divergence_terms(q: npt.ArrayLike, r: npt.ArrayLike) -> Floats:
    """Terms of ``D(q||r)`` in bits; all are positive, and sum to it if ``q`` and ``r`` sum to one.

    ``q`` must be zero where ``r`` is.
    """
    return _terms(np.asarray(q, dtype=float), np.asarray(r, dtype=float))


# -------------------------------------------------------------------------------------------------
# Results that can be used as a number.


class Number:
    """Result that can be used as a number: ``float()``, formatting, comparisons and arithmetic.

    Two results are equal if their numbers are.
    """

    def __float__(self) -> float:
        raise NotImplementedError

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        return float(self) == float(other) if isinstance(other, Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(float(self))

    def __lt__(self, other: float) -> bool:
        return float(self) < other

    def __le__(self, other: float) -> bool:
        return float(self) <= other

    def __gt__(self, other: float) -> bool:
        return float(self) > other

    def __ge__(self, other: float) -> bool:
        return float(self) >= other

    def __add__(self, other: float) -> float:
        return float(self) + other

    def __sub__(self, other: float) -> float:
        return float(self) - other

    def __rsub__(self, other: float) -> float:
        return other - float(self)

    def __mul__(self, other: float) -> float:
        return float(self) * other

    def __truediv__(self, other: float) -> float:
        return float(self) / other

    def __rtruediv__(self, other: float) -> float:
        return other / float(self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> float:
        return -float(self)

    def __abs__(self) -> float:
        return abs(float(self))

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)


Real.register(Number)


# -------------------------------------------------------------------------------------------------
# The information itself, exactly.

# Number of entries of the users-by-reports block held at a time.
BLOCK = 4_000_000
# Number of hash functions over which to average if they are too many to list.
HASHES = 200


@dataclass(frozen=True, eq=False)
class Information(Number):
    """``I(U;Y)`` in bits, usable as that number, with the two quantities that bound it.

    Attributes
    ----------
    bits : float
        ``I(U;Y)``: what the report reveals about the user.
    user_value : float
        ``I(U;X)``: what the value itself reveals about the user.
    value_report : float
        ``I(X;Y)``: what the report reveals about the value.
    standard_error : float
        Standard error of ``I(U;Y)`` if hash functions were sampled, else 0.
    """

    bits: float
    user_value: float
    value_report: float
    standard_error: float = 0.0

    def __float__(self) -> float:
        return self.bits


def information(
    p_ux: npt.ArrayLike | pd.DataFrame | sparse.sparray,
    channel: Channel | npt.ArrayLike,
    *,
    seed: Seed = 0,
) -> Information:
    """Compute personal information entropy ``I(U;Y)`` exactly, for given knowledge about the users.

    Parameters
    ----------
    p_ux : array, pandas.DataFrame or scipy sparse array, shape (users, K)
        Joint distribution of user and value, PIE's ``p_UX``, in the order of the channel's domain
        unless the columns of a frame are labelled. For randomized response and invertible local
        hashing, sparse arrays stay sparse, and the cost depends on the number of entries.
    channel : Channel or array-like, shape (K, number of reports)
        What the users' devices run, or its matrix ``Q``.
    seed : int, numpy.random.Generator or None
        For local hashing that is not invertible: the information is then averaged over 200
        sampled hash functions (all of whose randomness is public), with a standard error.

    Returns
    -------
    Information
        ``I(U;Y)``, usable as a number, with ``I(U;X)`` and ``I(X;Y)``, which are never smaller
        (PIE Prop. 9).

    Examples
    --------
    >>> import anonbayes as ab
    >>> joint = [[0.20, 0.05, 0.05], [0.10, 0.30, 0.30]]
    >>> bits = ab.pie.information(joint, ab.RandomizedResponse(ab.Domain("x", "abc"), 1.0))
    >>> round(float(bits), 6), round(bits.user_value, 6), round(bits.value_report, 6)
    (0.024581, 0.191631, 0.177381)
    """
    if isinstance(p_ux, pd.DataFrame) and isinstance(channel, Channel):
        p_ux = p_ux.iloc[:, in_domain_order(p_ux.columns, channel.domain, what="p_ux")]
    joint = _read_joint(p_ux)
    own = mutual_information(joint)
    values = np.asarray(joint.sum(axis=0)).ravel()
    held = np.flatnonzero(values)
    diagonal = sparse.csr_array(
        (values[held], held, np.arange(len(held) + 1)), shape=(len(held), len(values))
    )
    if isinstance(channel, Channel) and _merges(channel):
        _check_size(joint, len(channel.domain))
        return _sampled(joint, diagonal, channel, own, seed)
    return Information(_bits(joint, channel), own, _bits(diagonal, channel))


def _read_joint(p_ux: npt.ArrayLike | sparse.sparray) -> sparse.csr_array:
    """Check a joint distribution and return it as compressed rows."""
    given = p_ux if isinstance(p_ux, sparse.sparray) else read_numbers("p_ux", p_ux)
    if given.ndim != 2 or 0 in given.shape:
        raise AnonbayesError(f"p_ux must be a matrix, users by values; got shape {given.shape}.")
    joint = sparse.csr_array(given, dtype=float)
    bad = ~(np.isfinite(joint.data) & (joint.data >= 0))
    if bad.any():
        raise AnonbayesError(f"p_ux contains {joint.data[bad][0]!r}, which is not a probability.")
    if abs(joint.sum() - 1.0) > 1e-6:
        raise AnonbayesError(f"p_ux sums to {joint.sum():.9g}, not to 1.")
    joint.sum_duplicates()
    joint.eliminate_zeros()
    return joint


def mutual_information(joint: npt.ArrayLike | sparse.sparray) -> float:
    """Mutual information of a joint distribution, in bits.

    Examples
    --------
    >>> round(mutual_information(np.eye(4) / 4), 9)
    2.0
    """
    table = _read_joint(joint).tocoo()
    first, second = (np.asarray(table.sum(axis=k)).ravel() for k in (1, 0))
    rows, columns = table.coords
    independent = first[rows] * second[columns]
    # Empty cells contribute 1 minus the independent distribution's share on the entries.
    missing = max(0.0, 1.0 - float(independent.sum()))
    return float(divergence_terms(table.data, independent).sum()) + missing * float(np.log2(np.e))


def _conditional(joint: sparse.csr_array) -> tuple[Floats, sparse.csr_array]:
    """``p_U`` and ``p_X|U``, without users of probability zero."""
    users = np.asarray(joint.sum(axis=1)).ravel()
    if not (users > 0).all():
        joint = sparse.csr_array(joint[users > 0])
        users = users[users > 0]
    share = joint.data / np.repeat(users, np.diff(joint.indptr))
    return users, sparse.csr_array((share, joint.indices, joint.indptr), shape=joint.shape)


def _check_size(joint: sparse.csr_array, size: int) -> None:
    if joint.shape[1] != size:
        raise AnonbayesError(
            f"p_ux has {joint.shape[1]} columns, but the channel's domain has {size} values."
        )


def _bits(joint: sparse.csr_array, channel: Channel | npt.ArrayLike) -> float:
    """``I(U;Y)`` by the cheapest exact method."""
    if isinstance(channel, Channel) and (naming := channel.naming()) is not None:
        _check_size(joint, len(channel.domain))
        return naming.share * _named(joint, naming.floor, naming.gain)
    q = channel.matrix() if isinstance(channel, Channel) else check_matrix(channel)
    _check_size(joint, len(q))
    return _dense(joint, q)


def _merges(channel: Channel) -> bool:
    """Whether reports name symbols that several values share, as hash functions do."""
    symbols = channel.symbols()
    return symbols is not None and symbols.silent is None


def _named(joint: sparse.csr_array, floor: Floats, gain: Floats | float) -> float:
    """Reports that name a value: ``Q(y|u) = floor_y + gain_y p(y|u)``, in ``O(entries + K)``.

    Reports produced by no value in use are equally likely from every user and add nothing.
    """
    users, given = _conditional(joint)
    values = np.asarray(joint.sum(axis=0)).ravel()
    gains = np.broadcast_to(gain, values.shape)
    marginal = floor + gains * values
    rows = np.repeat(np.arange(len(users)), np.diff(given.indptr))
    columns = given.indices
    inside = divergence_terms(floor[columns] + gains[columns] * given.data, marginal[columns])
    # Users who never have y report it only with the floor's probability.
    holders = np.bincount(columns, weights=users[rows], minlength=len(values))
    outside = divergence_terms(floor, marginal) * np.maximum(1.0 - holders, 0.0)
    return float(users[rows] @ inside + outside.sum())


def _dense(joint: sparse.csr_array, q: Floats) -> float:
    users, given = _conditional(joint)
    marginal = np.asarray(joint.sum(axis=0)).ravel() @ q
    step = max(1, BLOCK // q.shape[1])
    total = 0.0
    for start in range(0, len(users), step):
        part = given[start : start + step] @ q
        total += float(users[start : start + step] @ divergence_terms(part, marginal).sum(axis=1))
    return total


def _sampled(
    joint: sparse.csr_array, diagonal: sparse.csr_array, channel: Channel, own: float, seed: Seed
) -> Information:
    """Average over hash functions of the information that a report gives, the function known."""
    rng, noise = generator(seed, "information"), channel.symbols()
    assert noise is not None
    bits = np.empty((HASHES, 2))
    columns = np.unique(np.concatenate([joint.indices, diagonal.indices])).astype(np.int64)
    for i in range(HASHES):
        place = np.zeros(joint.shape[1], dtype=np.int64)
        symbols = channel.draw_symbols(columns, rng)
        assert symbols is not None
        used, place[columns] = np.unique(symbols, return_inverse=True)
        for k, table in enumerate((joint, diagonal)):
            merged = sparse.coo_array(table)
            hashed = sparse.csr_array(
                (merged.data, (merged.coords[0], place[merged.coords[1]])),
                shape=(table.shape[0], len(used)),
            )
            bits[i, k] = _named(hashed, np.broadcast_to(noise.noise, len(used)), noise.theta)
    error = float(bits[:, 0].std(ddof=1) / np.sqrt(HASHES))
    return Information(float(bits[:, 0].mean()), own, float(bits[:, 1].mean()), error)
