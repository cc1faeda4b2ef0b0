"""Reports in bulk: bits stored as positions of ones, and support counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, SmallCodes, read_numbers, read_whole
from anonbayes.domains import code_dtype, list_of
from anonbayes.errors import ChannelError

if TYPE_CHECKING:
    from scipy import sparse


class BitReports:
    """Many reports of `size` bits each, as compressed rows: only the ones are stored.

    Parameters
    ----------
    indptr : array of int, shape (n + 1,)
        The ones of report ``i`` are ``indices[indptr[i]:indptr[i + 1]]``.
    indices : array of int
        Positions of the ones, ascending within each report.
    size : int
        Number of bits of a report.

    Examples
    --------
    >>> reports = BitReports.from_dense([[1, 0, 1], [0, 0, 0]])
    >>> len(reports), reports.size, reports[0].tolist(), reports.counts().tolist()
    (2, 3, [0, 2], [1, 0, 1])
    """

    __slots__ = ("indices", "indptr", "size")

    def __init__(self, indptr: npt.ArrayLike, indices: npt.ArrayLike, size: int) -> None:
        size = read_whole("size", size, error=ChannelError)
        pointers, ones = whole_numbers("indptr", indptr), whole_numbers("indices", indices)
        if pointers.ndim != 1 or len(pointers) < 1 or pointers[0] != 0:
            raise ChannelError("The row pointers of bit reports must start with 0.")
        if ones.ndim != 1:
            raise ChannelError(
                "The positions of ones in bit reports must be a list, not an array of shape "
                f"{ones.shape}."
            )
        if np.any(np.diff(pointers) < 0) or pointers[-1] != len(ones):
            raise ChannelError(
                f"The row pointers of bit reports must ascend to the number of ones ({len(ones)}), "
                f"but end with {int(pointers[-1])}."
            )
        if len(ones) and (ones.min() < 0 or ones.max() >= size):
            bad = int(np.flatnonzero((ones < 0) | (ones >= size))[0])
            row = int(np.searchsorted(pointers, bad, side="right")) - 1
            raise ChannelError(
                f"Report {row} raises bit {ones[bad]}, but reports have {size} bits, counted from "
                "0."
            )
        steps = np.diff(ones.astype(np.int64)) <= 0
        steps[pointers[1:-1][(pointers[1:-1] > 0) & (pointers[1:-1] < len(ones))] - 1] = False
        if steps.any():
            row = int(np.searchsorted(pointers, int(np.argmax(steps)), side="right")) - 1
            raise ChannelError(f"The ones of report {row} must be distinct and ascend.")
        # Copies that nothing else can change, because compiled code relies on these checks.
        self.indptr, self.indices = pointers.copy(), ones.astype(code_dtype(size))
        self.indptr.flags.writeable = self.indices.flags.writeable = False
        self.size = size

    @classmethod
    def trusted(cls, indptr: Ints, indices: SmallCodes, size: int) -> BitReports:
        """Wrap arrays that are known to be valid, without checking them again."""
        self = cls.__new__(cls)
        self.indptr, self.indices, self.size = indptr.view(), indices.view(), size
        self.indptr.flags.writeable = self.indices.flags.writeable = False
        return self

    @classmethod
    def from_dense(cls, bits: npt.ArrayLike) -> BitReports:
        """Read a matrix of zeros and ones, one row per report."""
        array = read_numbers("bits", bits, error=ChannelError)
        if array.ndim != 2:
            raise ChannelError(
                f"Bit reports must be a matrix, not an array of shape {array.shape}."
            )
        if not np.isin(array, (0, 1)).all():
            row, column = np.argwhere(~np.isin(array, (0, 1)))[0]
            raise ChannelError(
                f"Report {row}, bit {column} is {array[row, column]!r}; bits are 0 or 1."
            )
        return cls._of(array)

    @classmethod
    def from_ones(cls, ones: Iterable[npt.ArrayLike], size: int) -> BitReports:
        """Read the positions of the ones, one array per report: a column of a data frame.

        Examples
        --------
        >>> BitReports.from_ones([[0, 2], []], 3).to_dense().tolist()
        [[1, 0, 1], [0, 0, 0]]
        """
        rows = [whole_numbers("ones", row).ravel() for row in list_of("ones", ones)]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return cls(indptr, np.concatenate([*rows, np.zeros(0, dtype=np.int64)]), size)

    @classmethod
    def from_bytes(cls, rows: Iterable[bytes], size: int) -> BitReports:
        r"""Read what a bit channel's reporter returned, one byte 0 or 1 per bit.

        Examples
        --------
        >>> BitReports.from_bytes([b"\x01\x00\x01", b"\x00\x00\x00"], 3)
        BitReports(2 reports of 3 bits, 2 ones)
        """
        return cls._of(bit_matrix(rows, size))

    @classmethod
    def _of(cls, matrix: SmallCodes | Floats) -> BitReports:
        """Store the positions of the ones of a matrix of zeros and ones."""
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(matrix, axis=1))])
        size = matrix.shape[1]
        return cls.trusted(indptr, np.nonzero(matrix)[1].astype(code_dtype(size)), size)

    def to_dense(self) -> npt.NDArray[np.uint8]:
        """Return the matrix of zeros and ones, one row per report; for small numbers of reports."""
        dense = np.zeros((len(self), self.size), dtype=np.uint8)
        dense[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] = 1
        return dense

    def texts(self, *, rows: int = 50_000) -> Iterator[str]:
        """Write each report as a text of zeros and ones, expanding `rows` of them at a time."""
        for start in range(0, len(self), rows):
            ends = self.indptr[start : start + rows + 1]
            part = BitReports.trusted(ends - ends[0], self.indices[ends[0] : ends[-1]], self.size)
            letters = part.to_dense() + ord("0")
            yield from letters.view(f"S{self.size}").ravel().astype(str).tolist()

    @classmethod
    def from_texts(cls, texts: Sequence[str], size: int, *, where: str = "reports") -> BitReports:
        """Read texts of zeros and ones, one for each value.

        Examples
        --------
        >>> list(BitReports.from_texts(["011", "000"], 3).texts())
        ['011', '000']
        """
        for row, text in enumerate(texts):
            if len(text) != size or text.strip("01"):
                raise ChannelError(
                    f"{where}, row {row}: {text[:40]!r} is not a string of {size} zeros and ones, "
                    "one for each value."
                )
        letters = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8)
        return cls.from_dense(letters.reshape(-1, size) - ord("0"))

    def to_csr(self) -> sparse.csr_array:
        """Return the reports as a sparse matrix of SciPy."""
        from scipy import sparse

        data = np.ones(len(self.indices), dtype=np.int64)
        return sparse.csr_array((data, self.indices, self.indptr), shape=(len(self), self.size))

    def counts(self) -> Ints:
        """Count the reports that raise each bit."""
        return estimation.kernels.count(self.indices, self.size)

    def unique(self) -> tuple[Ints, BitReports]:
        """Index of each report among the distinct ones, and these in order of appearance."""
        raw, width = self.indices.tobytes(), self.indices.itemsize
        bounds = (self.indptr * width).tolist()
        seen: dict[bytes, int] = {}
        codes = np.empty(len(self), dtype=np.int64)
        for i in range(len(self)):
            codes[i] = seen.setdefault(raw[bounds[i] : bounds[i + 1]], len(seen))
        lengths = np.fromiter((len(row) // width for row in seen), np.int64, len(seen))
        ones = np.frombuffer(b"".join(seen), dtype=self.indices.dtype)
        return codes, BitReports(np.concatenate([[0], np.cumsum(lengths)]), ones, self.size)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, i: int) -> SmallCodes:
        """Positions of the ones of report `i`."""
        if not -len(self) <= i < len(self):
            raise IndexError(
                f"There is no report {i}; there are {len(self)} reports, counted from 0."
            )
        i %= len(self)
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def __iter__(self) -> Iterator[SmallCodes]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BitReports):
            return NotImplemented
        return (
            self.size == other.size
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BitReports({len(self)} reports of {self.size} bits, {len(self.indices)} ones)"


def single(reports: object) -> Any:
    """Return the reports; raise `ChannelError` for counts if each report must be known."""
    if isinstance(reports, SupportCounts):
        raise ChannelError(
            "Counts of support do not determine the likelihood of these reports; give the reports, "
            "or use method='empirical', 'threshold', 'shrinkage' or 'norm_sub'."
        )
    return reports


def is_one_by_one(reports: object) -> TypeGuard[Iterable[bytes]]:
    """Whether these are bit reports made by a channel's reporter."""
    if isinstance(reports, BitReports | SupportCounts):
        return False
    return isinstance(next(iter(list_of("reports", reports)), None), bytes)


def bit_matrix(rows: Iterable[bytes], size: int) -> npt.NDArray[np.uint8]:
    r"""Matrix of the bits of each report; raise `ChannelError` for anything but bit reports."""
    reports = list_of("reports", rows)
    for i, row in enumerate(reports):
        if not isinstance(row, bytes) or len(row) != size:
            raise ChannelError(f"Report {i} must be {size} bytes, one per value, got {row!r}.")
    matrix = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), size)
    if matrix.size and matrix.max() > 1:
        i, bit = np.argwhere(matrix > 1)[0]
        raise ChannelError(f"Report {i}, bit {bit} is {matrix[i, bit]}; bits are 0 or 1.")
    return matrix


@dataclass(frozen=True)
class SupportCounts:
    """Reports that were counted elsewhere: how many of `n` support each value.

    Can replace the reports wherever only their counts matter: in all estimators of the
    randomized-response family, and in ``"empirical"``, ``"threshold"`` and ``"shrinkage"`` for all
    pure channels.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=2.0)
    >>> channel.estimate(ab.SupportCounts([300, 700], n=1000)).p.round(3)
    array([0.237, 0.763])
    """

    counts: Ints
    n: int

    def __post_init__(self) -> None:
        counts = whole_numbers("counts", self.counts)
        if counts.ndim != 1:
            raise ChannelError("Support counts must be a list of whole numbers.")
        object.__setattr__(self, "n", read_whole("n", self.n, error=ChannelError))
        if len(counts) and (counts.min() < 0 or counts.max() > self.n):
            bad = int(np.flatnonzero((counts < 0) | (counts > self.n))[0])
            raise ChannelError(f"counts[{bad}] = {counts[bad]} is impossible for {self.n} reports.")
        object.__setattr__(self, "counts", counts.astype(np.int64))

    def __len__(self) -> int:
        return self.n

    def one_each(self, size: int) -> Ints:
        """Return the counts of `size` reports, one per person; else raise `ChannelError`."""
        if len(self.counts) != size or self.counts.sum() != self.n:
            raise ChannelError(
                f"Everybody sends one of {size} reports, so give {size} counts that sum to "
                f"{self.n}; got {len(self.counts)} counts that sum to {self.counts.sum()}."
            )
        return self.counts


def whole_numbers(argument: str, values: npt.ArrayLike) -> Ints:
    """Return whole numbers as an array; raise `ChannelError` for anything else."""
    array = np.asarray(values) if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    numbers = read_numbers(argument, values, error=ChannelError)
    if (numbers.size and not (np.abs(numbers) < 2**63).all()) or (numbers % 1 != 0).any():
        raise ChannelError(f"{argument} must be a list of whole numbers.")
    return numbers.astype(np.int64)
