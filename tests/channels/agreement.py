"""A likelihood that a channel knows how to take fast, against its matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest

import anonbayes as ab


def assert_density_of_model(channel: Any, reports: Any, p: np.ndarray, expected: float) -> None:
    """A model's term for the reports is their log-likelihood at `p`."""
    with pm.Model() as model:
        share = pm.Dirichlet("p", np.ones(len(p)))
        ab.Released("reports", channel, share, observed=reports)
    point = {model.rvs_to_values[share].name: model.rvs_to_transforms[share].forward(p).eval()}
    density = model.compile_logp(sum=False, mode="FAST_COMPILE")
    assert float(density(point)[-1]) == pytest.approx(expected, rel=1e-9)


def assert_fast_likelihood(channel: Any, reports: np.ndarray, p: np.ndarray, keep: Any) -> None:
    """Transforms, rows, evidence of a table and a model give what the matrix gives at `p`.

    So do the gradients, also those of the values to `keep` alone.
    """
    q = channel.matrix()
    expected = np.log((p @ q)[reports]).sum()
    fast, rows = channel.fast_likelihood(reports), channel.likelihood(reports)
    assert fast.log(p) == pytest.approx(expected, rel=1e-12)
    assert rows.log(p) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(fast.gradient(p)[0], rows.gradient(p)[0], rtol=1e-10)
    keep = np.array(keep)
    part = p[keep] / p[keep].sum()
    np.testing.assert_allclose(
        fast.restrict(keep).gradient(part)[0], rows.restrict(keep).gradient(part)[0], rtol=1e-10
    )
    codes, _, matrix = channel.evidence(reports)
    np.testing.assert_allclose(matrix.toarray()[codes], q[:, reports].T, rtol=1e-12)
    assert_density_of_model(channel, reports, p, expected)
