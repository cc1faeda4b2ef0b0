"""The closed form against enumeration of all compatible cleartext tables."""

import numpy as np
import pytest
from enumeration import enumerate_posterior
from scipy.sparse import csr_array
from scipy.special import gammaln
from tables import PRIOR, crossing, nested

import anonbayes as ab
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.horizontal.tree import CellTree, DirichletTree
from anonbayes.tables.evidence import Evidence


def trees(table, prior):
    return {
        name: DirichletTree(column.evidence, table.counts[name], prior.beta[name])
        for name, column in table.columns.items()
    }


def test_means_and_rows_equal_enumeration():
    table = nested()
    prior = resolve_prior(table, **PRIOR)
    truth = enumerate_posterior(table, prior)
    rows = {n: np.zeros((table.n_rows, len(table.domains[n]))) for n in table.attributes}
    for j in range(table.n_rows):
        by_row = truth.rows[j, table.secret_codes[j]]
        rows["age"][j], rows["sex"][j] = by_row.sum(axis=1), by_row.sum(axis=0)
    for name, tree in trees(table, prior).items():
        np.testing.assert_allclose(tree.mean, truth.pi[name], atol=1e-12)
        cells, codes = tree.evidence.matrix, table.columns[name].codes
        for j, (cell, secret) in enumerate(zip(codes, table.secret_codes, strict=True)):
            entries = slice(*cells.indptr[cell : cell + 2])
            found = np.zeros(cells.shape[1])
            found[cells.indices[entries]] = tree.entry_probabilities()[secret, entries]
            np.testing.assert_allclose(found, rows[name][j], atol=1e-12)


def test_moments_and_evidence_equal_enumeration():
    """Second moments and the marginal likelihood of one attribute, cell by cell."""
    rng = np.random.default_rng(3)
    members = [[0, 1], [0], [2, 3, 4], [2, 3], range(5), [4]]
    evidence = Evidence.from_members(ab.Domain("x", range(5)), members, list("abcdef"))
    counts = np.array([2, 1, 1, 1, 2, 1])
    beta = rng.uniform(0.3, 2.0, 5)
    tree = DirichletTree(evidence, csr_array(counts[:, None]), beta[None])
    cells = np.repeat(np.arange(6), counts)
    total, first, second = 0.0, np.zeros(5), np.zeros(5)
    for world in np.ndindex(*(len(members[c]) for c in cells)):
        values = [list(members[c])[i] for c, i in zip(cells, world, strict=True)]
        a = beta + np.bincount(values, minlength=5)
        weight = np.exp(gammaln(a).sum() - gammaln(a.sum()))
        total += weight
        first += weight * a / a.sum()
        second += weight * a * (a + 1) / (a.sum() * (a.sum() + 1))
    first, second = first / total, second / total
    np.testing.assert_allclose(tree.mean[0], first, atol=1e-13)
    squares = tree.draw(40_000, np.random.default_rng(5))[:, 0] ** 2
    z = (squares.mean(axis=0) - second) / (squares.std(axis=0) / 200)
    assert np.abs(z).max() < 4.5  # 5 values; P(|z| > 4.5) is 7e-6 each
    log_prior = gammaln(beta.sum()) - gammaln(beta).sum()
    assert tree.log_evidence()[0] == pytest.approx(np.log(total) + log_prior, abs=1e-12)


def test_draws_have_the_closed_form_means():
    table = nested()
    prior = resolve_prior(table, **PRIOR)
    tree = trees(table, prior)["age"]
    n = 40_000
    draws = tree.draw(n, np.random.default_rng(5))
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0, atol=1e-12)
    z = (draws.mean(axis=0) - tree.mean) / (draws.std(axis=0) / np.sqrt(n))
    assert np.abs(z).max() < 4.5  # 8 values; P(|z| > 4.5) is 7e-6 each


def test_tiny_weights_do_not_underflow():
    evidence = Evidence.from_members(ab.Domain("x", range(3)), [[0, 1]], ["ab"])
    tree = DirichletTree(evidence, csr_array(np.array([[2]])), np.full((1, 3), 1e-4))
    draws = tree.draw(2000, np.random.default_rng(1))
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0, atol=1e-9)


def test_domain_of_one_value():
    evidence = Evidence.from_members(ab.Domain("x", ["only"]), [[0]], ["only"])
    tree = DirichletTree(evidence, csr_array(np.array([[3, 1]])), np.ones((2, 1)))
    assert tree.mean.tolist() == [[1.0], [1.0]]
    assert tree.draw(2, np.random.default_rng(1)).tolist() == [[[1.0], [1.0]]] * 2


def test_overlapping_cells_are_named():
    evidence = crossing().columns["nat"].evidence
    with pytest.raises(ab.AnonbayesError, match=r"nat.*not nested.*overlap.*gibbs"):
        CellTree.of(evidence)
