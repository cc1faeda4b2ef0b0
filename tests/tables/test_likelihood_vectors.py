"""Evidence: likelihood vectors, nesting, immutability."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse

from anonbayes import Domain
from anonbayes.errors import CellError
from anonbayes.tables.evidence import Evidence

ABC = Domain("x", ["a", "b", "c"])


def hard(domain, *members):
    return Evidence.from_members(domain, members, [str(m) for m in members])


def test_hard_and_exact():
    cells = hard(ABC, [1, 0], [2])
    assert cells.matrix.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert cells.is_hard and cells.sizes.tolist() == [2, 1]
    assert cells.members(0).tolist() == [0, 1]
    assert Evidence.exact(ABC).matrix.toarray().tolist() == np.eye(3).tolist()
    assert repr(cells) == "Evidence('x', 2 hard cells)"


def test_soft():
    cells = Evidence(ABC, ("y", "z"), sparse.csr_array([[0.5, 0.25, 0.0], [0.5, 0.75, 1.0]]))
    assert not cells.is_hard and not cells.is_nested
    assert cells.sizes.tolist() == [2, 3]


def is_laminar(sets):
    return all(a <= b or b <= a or not a & b for a, b in itertools.combinations(sets, 2))


def test_nesting_agrees_with_its_definition():
    rng = np.random.default_rng(5)
    domain = Domain("x", range(6))
    seen = set()
    for _ in range(600):
        sets = [set(np.flatnonzero(rng.random(6) < 0.4)) or {0} for _ in range(rng.integers(1, 5))]
        cells = hard(domain, *(sorted(s) for s in sets))
        assert cells.is_nested == is_laminar(sets), sets
        if cells.overlap is not None:
            a, b = (sets[i] for i in cells.overlap)
            assert a & b and a - b and b - a, (sets, cells.overlap)
        seen.add(cells.is_nested)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("matrix", "labels", "part"),
    [
        ([[1.0, 0.0, 0.0]], ("y", "z"), "shape"),
        ([[1.0, -0.5, 0.0]], ("y",), "non-negative"),
        ([[1.0, np.nan, 0.0]], ("y",), "finite"),
        ([[1.0, np.inf, 0.0]], ("y",), "finite"),
        ([[1.0, 0, 0], [0, 0, 0]], ("y", "z"), "'z' is impossible"),
    ],
)
def test_impossible_evidence(matrix, labels, part):
    with pytest.raises(CellError, match=part):
        Evidence(ABC, labels, sparse.csr_array(np.array(matrix)))


@pytest.mark.parametrize("place", [-1, 3, 10**6])
def test_evidence_stays_inside_its_matrix(place):
    """SciPy takes such a matrix, and computes with whatever lies beside it."""
    matrix = sparse.csr_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    matrix.indices[1] = place
    with pytest.raises(CellError, match=r"Column 'x'.*indices must be"):
        Evidence(ABC, ("y", "z"), matrix)


def test_evidence_is_frozen_and_apart_from_its_source():
    source = sparse.csr_array(np.array([[1.0, 0.0, 1.0]]))
    cells = Evidence(ABC, ("y",), source)
    for evidence in (cells, pickle.loads(pickle.dumps(cells))):
        for array in (evidence.matrix.data, evidence.matrix.indices, evidence.matrix.indptr):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    source.data[:] = 9.0
    assert cells.matrix.toarray().tolist() == [[1, 0, 1]]
    assert source.nnz == 2


def test_stored_zeros_and_unsorted_indices_are_cleaned():
    messy = sparse.csr_array(
        (np.array([1.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3)
    )
    assert Evidence(ABC, ("y",), messy).members(0).tolist() == [0, 2]
