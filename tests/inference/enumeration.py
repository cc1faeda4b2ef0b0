"""Independent reference: the posterior of a small horizontal table by brute force.

Every cleartext table compatible with the release is listed; its weight is the product of the
Dirichlet-multinomial probabilities of its counts and of the likelihoods of its cells. Nothing of
the package's inference code is used.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln


@dataclass
class Enumerated:
    """Posterior means of the distributions, and of the rows' hidden values."""

    pi_secret: np.ndarray
    pi: dict[str, np.ndarray]
    joint: np.ndarray
    """E[f(s, r | pi)], shape (S, K_1, K_2, ...)."""
    rows: np.ndarray
    """P(S_j = s, R_j = r | t*), shape (N, S, K_1, K_2, ...)."""


def enumerate_posterior(table, prior) -> Enumerated:
    names = table.attributes
    sizes = [len(table.domains[n]) for n in names]
    n_secrets = len(table.secret.domain)
    cells = [c.evidence.matrix.toarray()[c.codes] for c in table.columns.values()]
    secret = table.secret.evidence.matrix.toarray()[table.secret.codes]
    choices = []
    for j in range(table.n_rows):
        options = []
        for s in np.flatnonzero(secret[j]):
            for r in itertools.product(*(np.flatnonzero(c[j]) for c in cells)):
                likelihood = secret[j, s] * np.prod(
                    [c[j, k] for c, k in zip(cells, r, strict=True)]
                )
                options.append((s, r, likelihood))
        choices.append(options)
    total = 0.0
    pi_secret = np.zeros(n_secrets)
    pi = {n: np.zeros((n_secrets, k)) for n, k in zip(names, sizes, strict=True)}
    joint = np.zeros((n_secrets, *sizes))
    rows = np.zeros((table.n_rows, n_secrets, *sizes))
    for combination in itertools.product(*choices):
        alpha = np.array(prior.alpha)
        beta = {n: np.array(prior.beta[n]) for n in names}
        log_weight = 0.0
        for s, r, likelihood in combination:
            alpha[s] += 1
            log_weight += np.log(likelihood)
            for n, k in zip(names, r, strict=True):
                beta[n][s, k] += 1
        log_weight += gammaln(alpha).sum() - gammaln(alpha.sum())
        for n in names:
            log_weight += gammaln(beta[n]).sum() - gammaln(beta[n].sum(axis=1)).sum()
        weight = np.exp(log_weight)
        total += weight
        mean = alpha / alpha.sum()
        pi_secret += weight * mean
        outer = mean.reshape(-1, *[1] * len(names))
        for i, n in enumerate(names):
            m = beta[n] / beta[n].sum(axis=1, keepdims=True)
            pi[n] += weight * m
            shape = [sizes[i] if d == i else 1 for d in range(len(names))]
            outer = outer * m.reshape(n_secrets, *shape)
        joint += weight * outer
        for j, (s, r, _) in enumerate(combination):
            rows[(j, s, *r)] += weight
    return Enumerated(
        pi_secret / total, {n: p / total for n, p in pi.items()}, joint / total, rows / total
    )
