"""Relations between a secret and its release, and measures of information without probabilities.

Every measure uses three facts about a pair of uncertain variables, a secret ``X`` and a release
``Y``: the size of the range of ``X``, its size after each release, and the number of
taxicab-connected components of the possible pairs. Finite relations (`Relation`) and quantized
queries (`Policy`) both provide them, so the same functions apply to both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from anonbayes.arrays import Codes, Floats, read_numbers, read_whole
from anonbayes.channels.coarsening import UniformQuantizer
from anonbayes.channels.reports import whole_numbers
from anonbayes.domains import list_of
from anonbayes.errors import ChannelError, TableError, one_of
from anonbayes.nonstochastic.geometry import Box
from anonbayes.tables.table import ReleasedTable


class Uncertain(ABC):
    """Pair of uncertain variables ``(X, Y)``: a secret and its release."""

    dimension: int | None = None
    """Number of coordinates of the secret, if sizes are volumes."""

    @property
    @abstractmethod
    def log_measure(self) -> float:
        """Logarithm of the size of the range of ``X``: the entropy ``h0(X)``."""

    @property
    @abstractmethod
    def conditional_log_measures(self) -> Floats:
        """Logarithm of the size of the range of ``X`` that remains after each release."""

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of taxicab-connected components of the possible pairs (Quantize Def. II.2)."""


# -------------------------------------------------------------------------------------------------
# Finite relations: which secrets and releases can occur together.


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Relation(Uncertain):
    """Sparse set of jointly possible pairs ``(x, y)`` of a secret and its release.

    Parameters
    ----------
    matrix : array_like or sparse matrix, shape (n_x, n_y)
        Nonzero where ``x`` and ``y`` can occur together.
    measure : array_like of float, optional
        Size of each ``x``: by default 1 (counting measure); for the cells of a continuous secret,
        their volumes.
    dimension : int, optional
        Number of coordinates of such a continuous secret.

    Examples
    --------
    A survey that reports ages 0 and 1 as a bracket, and ages 2 and 3 as they are:

    >>> import anonbayes as ab
    >>> r = ab.nonstochastic.Relation.from_function(["0-1", "0-1", "2", "3"])
    >>> r
    Relation(4 secrets, 3 releases, 4 pairs, 3 components)
    >>> round(ab.nonstochastic.leakage(r), 6), round(ab.nonstochastic.information(r), 6)
    (1.386294, 0.693147)
    """

    matrix: sparse.csr_matrix
    measure: Floats
    dimension: int | None

    def __init__(
        self, matrix: object, *, measure: npt.ArrayLike | None = None, dimension: int | None = None
    ) -> None:
        try:
            given = sparse.csr_matrix(matrix, dtype=float)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ChannelError(
                f"A relation is a matrix of possible pairs (secrets x releases): {error}"
            ) from error
        if np.isnan(given.data).any():
            row = int(np.searchsorted(given.indptr, np.argmax(np.isnan(given.data)), "right")) - 1
            raise ChannelError(
                f"Row {row} of the relation holds NaN; mark a possible pair by 1, others by 0."
            )
        pairs = (given != 0).astype(np.int8).tocsr()
        pairs.eliminate_zeros()
        if pairs.nnz == 0:
            raise ChannelError("The relation has no possible pairs; mark at least one.")
        sizes = (
            np.ones(pairs.shape[0])
            if measure is None
            else read_numbers("measure", measure, error=ChannelError)
        )
        if sizes.shape != (pairs.shape[0],):
            raise ChannelError(
                f"measure has shape {sizes.shape}, but the relation has {pairs.shape[0]} secrets."
            )
        if not np.all(np.isfinite(sizes)) or np.any(sizes < 0):
            row = int(np.argmax(~np.isfinite(sizes) | (sizes < 0)))
            raise ChannelError(
                f"measure[{row}] = {sizes[row]!r}; a size is finite and not negative."
            )
        object.__setattr__(self, "matrix", pairs)
        object.__setattr__(self, "measure", sizes)
        object.__setattr__(self, "dimension", dimension)

    @classmethod
    def from_pairs(
        cls,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        measure: npt.ArrayLike | None = None,
        dimension: int | None = None,
    ) -> Relation:
        """Build a relation from pairs of codes; repeated pairs count once.

        Examples
        --------
        >>> Relation.from_pairs([0, 1, 1], [0, 0, 1], shape=(3, 2))
        Relation(2 secrets, 2 releases, 3 pairs, 1 component)
        """
        rows, columns = whole_numbers("x", x), whole_numbers("y", y)
        if rows.shape != columns.shape or rows.ndim != 1:
            raise ChannelError(
                f"x has shape {rows.shape} and y {columns.shape}; give two lists of equal length."
            )
        try:
            pairs = sparse.coo_matrix((np.ones(rows.size), (rows, columns)), shape=shape)
        except ValueError as error:
            raise ChannelError(f"Pairs do not fit shape {shape}: {error}") from error
        return cls(pairs, measure=measure, dimension=dimension)

    @classmethod
    def from_function(
        cls,
        answers: Sequence[object] | npt.NDArray[np.generic],
        *,
        measure: npt.ArrayLike | None = None,
        dimension: int | None = None,
    ) -> Relation:
        """Build the relation of a deterministic release: secret ``x`` publishes ``answers[x]``."""
        items = list_of("answers", answers)
        try:
            codes = {answer: code for code, answer in enumerate(dict.fromkeys(items))}
        except TypeError as error:
            raise ChannelError(f"answers must be plain values: {error}.") from None
        y = np.fromiter((codes[answer] for answer in items), dtype=np.intp, count=len(items))
        return cls.from_pairs(np.arange(len(items)), y, measure=measure, dimension=dimension)

    @cached_property
    def range_x(self) -> Codes:
        """Codes of the secrets that occur."""
        return np.flatnonzero(np.diff(self.matrix.indptr))

    @cached_property
    def range_y(self) -> Codes:
        """Codes of the releases that occur."""
        return np.unique(self.matrix.indices)

    @cached_property
    def log_measure(self) -> float:  # type: ignore[override]
        """Entropy ``h0(X)``."""
        return float(_log(self.measure[self.range_x].sum()))

    @cached_property
    def conditional_log_measures(self) -> Floats:  # type: ignore[override]
        """Log-size of the range of ``X`` after each release in `range_y`; may be -infinity."""
        return _log(np.asarray(self.matrix.T.astype(float) @ self.measure)[self.range_y])

    @cached_property
    def n_components(self) -> int:  # type: ignore[override]
        """Number of taxicab components of the possible pairs.

        Two pairs that share a secret or a release are one taxicab step apart, so these are the
        components of the bipartite graph whose edges are the pairs.
        """
        graph = sparse.bmat([[None, self.matrix], [self.matrix.T, None]], format="csr")
        labels = connected_components(graph, directed=False)[1]
        return len(np.unique(labels[self.range_x]))

    def __repr__(self) -> str:
        n = self.n_components
        return (
            f"Relation({self.range_x.size} secrets, {self.range_y.size} releases, "
            f"{self.matrix.nnz} pairs, {n} component{'s' if n != 1 else ''})"
        )


def _log(values: npt.ArrayLike) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


# -------------------------------------------------------------------------------------------------
# Entropy, information, leakage, privacy.

Pair = Uncertain | UniformQuantizer | npt.ArrayLike
"""A relation or policy, a quantizer, or the 0/1 matrix of a finite relation."""


def _pair(pair: Pair) -> Uncertain:
    if isinstance(pair, Uncertain):
        return pair
    if isinstance(pair, UniformQuantizer):
        width = (pair.upper - pair.lower) / pair.bins
        return Relation(sparse.eye(pair.bins), measure=np.full(pair.bins, width), dimension=1)
    return Relation(pair)


def entropy(x: Pair | Box) -> float:
    """Non-stochastic entropy ``h0(X) = log mu([[X]])`` (Quantize (1)), in nats.

    Parameters
    ----------
    x : Box, Relation, Policy, UniformQuantizer or array_like
        A box (Lebesgue measure), a relation or policy (the measure of its ``X``), or the 0/1
        matrix of a finite relation (counting measure).

    Examples
    --------
    >>> import anonbayes as ab
    >>> round(ab.nonstochastic.entropy(ab.nonstochastic.Box.cube(-2, 2, 2)), 6)
    2.772589
    """
    return x.log_measure if isinstance(x, Box) else _pair(x).log_measure


def conditional_entropy(pair: Pair) -> float:
    """Conditional entropy ``h0(X|Y)``: the largest range that a release leaves (Quantize (2)).

    Examples
    --------
    >>> conditional_entropy([[1, 0], [0, 1], [0, 1]]) == math.log(2)
    True
    """
    return float(np.max(_pair(pair).conditional_log_measures))


def relative_disarray(pair: Pair) -> float:
    """Relative disarray ``d0(X|Y)``: the smallest range that a release leaves (Quantize (5)).

    Minus infinity if some release reduces ``X`` to a set of measure zero.

    Examples
    --------
    >>> relative_disarray([[1, 0], [0, 1], [0, 1]])
    0.0
    """
    return float(np.min(_pair(pair).conditional_log_measures))


def information(pair: Pair) -> float:
    """Non-stochastic information ``I0(X;Y) = h0(X) - h0(X|Y)`` (Quantize (3)).

    What the *least* informative release reveals. A mechanism can publish half of the secrets in
    clear and still have a small value; use `leakage` to judge privacy.

    Examples
    --------
    >>> round(information([[1, 0], [0, 1], [0, 1]]), 6)
    0.405465
    """
    return entropy(pair) - conditional_entropy(pair)


def leakage(pair: Pair) -> float:
    """Non-stochastic information leakage ``L0(X;Y) = h0(X) - d0(X|Y)`` (Quantize (6)).

    What the *most* informative release reveals; infinite if some release reveals ``X``.

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


def maximin_information(pair: Pair) -> float:
    """Maximin information ``I*(X;Y)``: log of the number of taxicab components (Quantize (9)).

    Symmetric in ``X`` and ``Y``. For a deterministic release it is the logarithm of the number of
    different answers.

    Examples
    --------
    >>> round(maximin_information([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), 6)   # two components
    0.693147
    """
    return math.log(_pair(pair).n_components)


def transmission(relation: Relation | npt.ArrayLike) -> float:
    """Information transmission ``T0 = h0(X) + h0(Y) - h0(X,Y)`` (Quantize (8)).

    Uses counting measure on both sides of a finite relation. It is zero if and only if ``X`` and
    ``Y`` are unrelated.

    Examples
    --------
    >>> transmission([[1, 1], [1, 1]])
    0.0
    >>> round(transmission([[1, 0], [0, 1]]), 6)
    0.693147
    """
    pairs = relation if isinstance(relation, Relation) else Relation(relation)
    n_x, n_y = pairs.range_x.size, pairs.range_y.size
    return math.log(n_x) + math.log(n_y) - math.log(pairs.matrix.nnz)


def privacy(pair: Pair, *, measure: str = "leakage") -> float:
    """Measure of privacy of a release (Quantize Def. III.1).

    Parameters
    ----------
    pair : Relation, Policy, UniformQuantizer or array_like
        The secret and its release.
    measure : {"leakage", "maximin"}
        ``P1 = 1/L0`` or ``P2 = 1/I*``.

    Returns
    -------
    float
        Infinite if nothing leaks, zero if everything may leak.

    Examples
    --------
    >>> privacy([[1], [1]]), privacy([[1, 0], [0, 1]], measure="maximin") == 1 / math.log(2)
    (inf, True)
    """
    one_of("measure", measure, ["leakage", "maximin"])
    amount = leakage(pair) if measure == "leakage" else maximin_information(pair)
    return math.inf if amount <= 0 else 1 / amount


def adversary_error_bound(
    pair: Pair, *, dimension: int | None = None, release: str = "smallest"
) -> float:
    """Lower bound on the worst-case error of any estimate of ``X`` (Quantize Thms. II.1, II.2).

    It is the radius of a ball whose volume is that of the range left by a release,
    ``Gamma(n/2+1)^(1/n) / sqrt(pi) * exp(d0/n)`` for the release that leaves the smallest range.

    Parameters
    ----------
    pair : Policy, Relation, UniformQuantizer or float
        The secret and its release (with respect to Lebesgue measure), or the logarithm of the size
        of a range, such as the relative disarray ``d0``.
    dimension : int, optional
        Dimension ``n`` of the secret; not needed for policies and quantizers.
    release : {"smallest", "largest"}
        Whether to bound ``d_min``, the error after the most informative release (``d0``, Thm.
        II.2), or ``d_max``, the error after the least informative one (``h0(X|Y)``, Thm. II.1).

    Examples
    --------
    >>> round(adversary_error_bound(math.log(2), dimension=2), 6)     # sqrt(2/pi)
    0.797885
    """
    one_of("release", release, ["smallest", "largest"])
    n = dimension
    if isinstance(pair, int | float):
        log_size = float(pair)
    else:
        both = _pair(pair)
        n = both.dimension if n is None else n
        log_size = (relative_disarray if release == "smallest" else conditional_entropy)(both)
    if n is None:
        raise ChannelError("adversary_error_bound needs dimension=, the dimension of the secret.")
    n = read_whole("dimension", n, least=1)
    with np.errstate(over="ignore"):
        return float(np.exp((math.lgamma(n / 2 + 1) + log_size) / n) / math.sqrt(math.pi))


# -------------------------------------------------------------------------------------------------
# Released tables: what group membership reveals about a secret.
#
# For a person known to be in group ``i``, the conditional range of the sensitive value is the set
# of values that the group publishes. A group with a single value reveals it, however large the
# group is: the homogeneity attack, which is why k-anonymity alone is not private (Quantize Sec. V).


@dataclass(frozen=True, eq=False)
class GroupLeakage:
    """What a released table reveals for certain about the sensitive values of its people.

    Attributes
    ----------
    relation : Relation
        Sensitive values and groups.
    groups : DataFrame
        One row per group: ``size``, ``n_values`` (the conditional range), ``disarray`` (its
        log-size), ``leakage``, ``homogeneous``, ``revealed`` (the value of a homogeneous group).
    n_secrets : int
        Size of the sensitive domain, the range before the release.
    """

    relation: Relation
    groups: pd.DataFrame
    n_secrets: int

    @property
    def leakage(self) -> float:
        """Largest leakage of a group, ``L0`` relative to the whole domain, in nats."""
        return float(self.groups["leakage"].max())

    @property
    def relative_disarray(self) -> float:
        """Smallest log-size of a conditional range, ``d0``."""
        return float(self.groups["disarray"].min())

    @property
    def maximin_information(self) -> float:
        """Maximin information between sensitive value and group, in nats."""
        return maximin_information(self.relation)

    @property
    def homogeneous(self) -> pd.DataFrame:
        """Groups with a single sensitive value, in which everyone is exposed."""
        return self.groups[self.groups["homogeneous"]]

    @property
    def exposed(self) -> int:
        """Number of rows in homogeneous groups."""
        return int(self.homogeneous["size"].sum())

    @property
    def k(self) -> int:
        """Size of the smallest group."""
        return int(self.groups["size"].min())

    @property
    def is_private(self) -> bool:
        """Whether no group reveals the sensitive value of its members."""
        return self.homogeneous.empty

    @property
    def text(self) -> str:
        """The findings in a sentence."""
        attacked = self.homogeneous
        if attacked.empty:
            smallest = int(self.groups["n_values"].min())
            return (
                f"No group reveals a sensitive value: at least {smallest} of {self.n_secrets} "
                f"values remain possible for everyone (leakage {self.leakage:.4g} nats)."
            )
        return (
            f"{len(attacked)} of {len(self.groups)} groups are homogeneous: the table is "
            f"{self.k}-anonymous, yet it reveals the sensitive value of {self.exposed} rows "
            f"(leakage {self.leakage:.4g} nats)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain types, with the groups as a list of records."""
        groups = self.groups.reset_index().astype(object).to_dict(orient="records")
        names = ["text", "is_private", "k", "exposed", "leakage", "relative_disarray"]
        plain = {name: getattr(self, name) for name in [*names, "maximin_information"]}
        return {**plain, "groups": groups}

    def _repr_html_(self) -> str:
        shown = self.groups.sort_values("leakage", ascending=False, kind="stable")
        return f"<p>{escape(self.text)}</p>{shown.to_html(max_rows=20)}"


def table_leakage(table: ReleasedTable, *, measure: npt.ArrayLike | None = None) -> GroupLeakage:
    """Compute what each group of a table reveals for certain, and the homogeneity attack.

    Suppressed rows reveal nothing about the group of their owner and are left out.

    Parameters
    ----------
    table : ReleasedTable
        A released table with sensitive values in clear.
    measure : array_like of float, optional
        Size of each value of the sensitive domain: by default 1; for binned numbers, the width of
        each bin; 0 for a number published as it is.

    Examples
    --------
    >>> import anonbayes as ab
    >>> frame = pd.DataFrame({"ward": list("aabbb"), "ill": ["flu", "cold", "HIV", "HIV", "HIV"]})
    >>> said = ab.nonstochastic.table_leakage(ab.ReleasedTable.horizontal(frame, "ill"))
    >>> said.homogeneous[["size", "n_values", "revealed"]].values.tolist(), said.exposed
    ([[3, 1, 'HIV']], 3)
    >>> print(said.text)
    1 of 2 groups are homogeneous: the table is 2-anonymous, yet it reveals the sensitive value \
of 3 rows (leakage 1.099 nats).
    """
    domain = table.domains[table.sensitive]
    published = table.group_codes >= 0
    if not published.any():
        raise TableError("Every row is suppressed, so there is no group.")
    groups, secrets = table.group_codes[published], table.secret_codes[published]
    relation = Relation.from_pairs(
        secrets, groups, shape=(len(domain), int(groups.max()) + 1), measure=measure
    )
    by_group = relation.matrix.tocsc()
    numbers = relation.range_y
    n_values = np.diff(by_group.indptr)[numbers]
    weights = None if table.weights is None else np.asarray(table.weights, dtype=float)[published]
    sizes = np.bincount(groups, weights).astype(np.int64)[numbers]
    with np.errstate(divide="ignore"):
        whole = float(np.log(relation.measure.sum()))
    disarray = relation.conditional_log_measures
    # Values of size zero (published numbers of a continuous range) leave nothing of the range.
    leaked = np.full(len(disarray), math.inf)
    known = np.isfinite(disarray)
    leaked[known] = whole - disarray[known]
    values = list(domain)
    first = by_group.indices[by_group.indptr[numbers]]
    single = n_values == 1
    only = [values[code] if one else None for code, one in zip(first, single, strict=True)]
    index = pd.Index(numbers, name="group")
    frame = pd.DataFrame(
        {
            "size": sizes,
            "n_values": n_values,
            "disarray": disarray,
            "leakage": leaked,
            "homogeneous": single,
            "revealed": pd.Series(only, index=index, dtype=object),
        },
        index=index,
    )
    return GroupLeakage(relation, frame, len(domain))
