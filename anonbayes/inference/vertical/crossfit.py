"""Cross-fitted weighted evidence of a vertical table, for calibrated beliefs (MODEL 1.9).

The product model counts attributes that depend on each other twice, and a group that is judged by
a population learned from itself confirms its own errors. So the groups are divided into folds. For
each fold, the population is learned from the groups of the *other* folds by soft EM, starting from
random worlds (exact group marginals, `block`), and the lifts ``lam_a(k|s) = pi_a|s(k) / m_a(k)`` of
this population are the evidence about the groups left out. Two numbers per attribute, its weight
``eta_a`` and its pooling ``kappa_a``, maximise the likelihood of the groups left out,

    ``sum_g log sum_sigma prod_l p(s_sigma(l) | r_l)``,
    ``p(s | r)  proportional to  pi_S(s) prod_a lam_a(r_a | s) ** eta_a``,

which can be computed without the truth. EM and the weights alternate, and each turn goes half-way
to the new weights, because full steps oscillate if groups are large.

Each lift is pooled separately: with ``c`` expected rows of value ``k`` among the ``n_s`` rows of
secret ``s``, ``lam_a(k|s) = (kappa_a + c) / (kappa_a + n_s m_a(k))``, the posterior mean of a lift
under a gamma prior with mean 1 and shape ``kappa_a``. Lifts of rare values, which are noisier, are
thus shrunk towards 1 more than those of frequent values; ``Dir(kappa m)`` would shrink all alike,
and scores lower on tables with and without a true product.

Everything is a map and a reduce over blocks of groups: given the population, each block returns
sums of counts, which are added in the order of the blocks and yield the new population. Blocks are
distributed over threads, and stretches (successive blocks) over the workers of a cluster. Both
depend only on the table, so no number depends on the number of threads or workers.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.errors import ModelError
from anonbayes.inference.vertical.block import MAX_BLOCK, owned_counts
from anonbayes.inference.vertical.group_layout import CellShape, Threads, VerticalLayout, shard_cuts
from anonbayes.inference.vertical.left_out import (
    Stretch,
    Workers,
    rows_by_fold,
    spread,
    sum_in_order,
)
from anonbayes.inference.weight_kernels import fold_error, lift_spread, unsettled

CANDIDATES = ("independent", "weighted", "random_worlds")
"""Kinds of evidence scored on the groups left out."""

ROUNDS = 20
"""Rounds of soft EM from random worlds: fewer leave evidence unused, many more drift."""

TURNS = 8
"""Most alternations of EM and weights; three to five are usual."""

SETTLED = 0.01
"""Change of all weights below which the alternation ends."""

WEIGHT_PRIOR = (0.7, 0.5)
"""Mean and standard deviation of the normal prior of a weight."""

POOLING_PRIOR = (1.0, 1.5)
"""Median of the prior of ``kappa_a``, and standard deviation of its logarithm."""

SAMPLE_GROUPS, LEAST_STEP = 25_000, 4
"""Groups in the sample on which the turns begin (or a twentieth of all), and the least step."""

SMALL_ROWS = 2000
MOST_WEIGHT = 3.0
UNIT_BOUNDS = (0.1, MOST_WEIGHT)
ALONE_STEPS = 6
POOLING_BOUNDS = (0.01, 1e4)
MOST_STRETCHES, LEAST_STRETCHES, ROUND_BYTES = 256, 16, 6.4e7
"""Number of stretches of a large table, limited by the bytes of sums sent back per round."""
STEP = 1e-3
"""Step of the differences of exact gradients from which the Hessian is computed."""


# ---------------------------------------------------------------------------- result
@dataclass(frozen=True, eq=False)
class CrossFit:
    """Result of cross-fitting, with arrays in the order of a `VerticalLayout`.

    `precision` and `gradient` are those of the log posterior of the weights, given pooling and
    left-out populations (Laplace); the gradient is zero except for weights at the bound of zero.
    `unit` is the best weight of each attribute on its own, and `error` the standard error of
    ``weights / unit`` by the jackknife over folds. Scores are log-likelihoods of groups left out,
    also when weights and pooling are determined.
    """

    weights: Floats  # eta, the mode, (A,)
    precision: Floats  # (A, A), the negative Hessian
    gradient: Floats  # (A,)
    unit: Floats
    error: Floats
    pooling: Floats  # kappa: expected rows of a value at which its lift is shrunk half-way
    alone: Floats  # gain in held-out log score from an attribute on its own at full weight, summed
    added: Floats  # gain when it is added to the others, with the weights
    ownership: Floats  # P(item belongs to value), (n_links,), see VerticalLayout.ownership
    fold: Ints  # of each group
    secret_shares: Floats  # pi_S
    population: Floats  # pi_a|s from the cross-fitted beliefs of all groups, flat
    left_out_lifts: Floats  # log lifts used to judge each fold, (folds, n_cells)
    group_scores: Floats  # (G, 3), one column per entry of CANDIDATES
    turns: int  # alternations of EM and weights, not counting those on the sample

    def features(self, layout: VerticalLayout) -> tuple[VerticalLayout, list[Floats]]:
        """The table with separate categories for each fold, and their log lifts by attribute."""
        return folds_apart(layout, self.fold), scores_apart(layout, self.left_out_lifts)

    def objective(
        self, layout: VerticalLayout, *, factor: float = 1.0, secrets: Ints | None = None
    ) -> _Objective:
        """Objective of the weights, with the counts from which the lifts were computed.

        Every ``kappa`` is multiplied by `factor` and fixed. If given, `secrets` replace those of
        the rows.
        """
        dealt = Folds(layout, self.fold, None)
        counts = dealt.joined(
            np.maximum(np.exp(lift) * (k + dealt.secret_rows[..., None] * margin) - k, 0.0)
            for k, lift, margin in zip(
                self.pooling, layout.split(self.left_out_lifts), dealt.margins, strict=True
            )
        )
        if secrets is not None:
            other = VerticalLayout(
                layout.items, secrets, layout.offsets, layout.sizes, layout.n_secrets
            )
            rows, base = dealt.secret_rows, dealt.base
            dealt = Folds(other, self.fold, None)
            dealt.secret_rows, dealt.base = rows, base
        return _Objective(dealt, counts, np.log(self.pooling * factor))

    def pooled_more(self, layout: VerticalLayout, factor: float) -> CrossFit:
        """The same with every ``kappa`` multiplied by `factor`, and the weights refitted.

        Scores are left unchanged.
        """
        if factor == 1.0:
            return self
        objective, pooling = self.objective(layout, factor=factor), self.pooling * factor
        weights = objective.maximise(np.concatenate([self.weights, np.log(pooling)]))[: objective.n]
        lift = objective.folds.lifts(objective.counts, pooling)
        owner, population = _beliefs(objective.folds, lift, weights, pooling)
        return replace(
            self, weights=weights, pooling=pooling, ownership=owner, population=population,
            left_out_lifts=lift,
        )  # fmt: skip


def folds_apart(layout: VerticalLayout, fold: Ints) -> VerticalLayout:
    """The same table with separate categories for each fold."""
    folds, shift = int(fold.max()) + 1, fold[layout.groups][:, None] * layout.sizes
    return VerticalLayout(
        layout.items + shift, layout.secrets, layout.offsets, layout.sizes * folds, layout.n_secrets
    )


def scores_apart(layout: VerticalLayout, score: Floats) -> list[Floats]:
    """Scores ``(folds, n_cells)`` in the form of `folds_apart`: ``(S, folds * K_a)`` each."""
    parts = layout.split(score)
    return [part.transpose(1, 0, 2).reshape(layout.n_secrets, -1) for part in parts]


# ---------------------------------------------------------------------------- driver
class Folds:
    """A table divided into folds, and the sums over its groups that cross-fitting needs."""

    workers: Workers | None
    cells: CellShape
    margins: list[Floats]
    base: Floats

    def __init__(
        self, layout: VerticalLayout, fold: Ints, threads: int | None, client: Any = None,
        whole: Folds | None = None,
    ) -> None:  # fmt: skip
        self.layout, self.cells = layout, layout
        self.n = int(fold.max()) + 1
        self.fold = fold
        small = layout.n_rows < SMALL_ROWS  # starting threads would take longer than the work
        self.threads = Threads(threads or (1 if small else os.cpu_count()) or 1)
        self.margins = layout.margins if whole is None else whole.margins
        own = rows_by_fold(layout.secrets, layout.offsets, fold, (self.n, layout.n_secrets))
        self._know(layout.secret_counts, own, None if whole is None else whole.base)
        self.stretches = self._cut()
        self.workers = None if client is None else spread(client, layout, self.stretches)

    def _know(self, secret_counts: Ints, own: Floats, base: Floats | None) -> None:
        """Set the numbers of rows with each secret, in total and outside each fold."""
        self.secret_counts, self.secret_rows = secret_counts, secret_counts - own
        if base is None:
            base = np.log((secret_counts + 1.0) / (secret_counts.sum() + len(secret_counts)))
        self.base = base
        cells = self.cells
        self.attribute = np.repeat(np.arange(cells.n_attributes), cells.n_secrets * cells.sizes)

    def _cut(self) -> list[Stretch]:
        layout = self.layout
        cuts = shard_cuts(layout.offsets)
        most = int(ROUND_BYTES / (8 * self.n * layout.n_cells))
        most = min(max(most, LEAST_STRETCHES), MOST_STRETCHES, len(cuts) - 1)
        ends = np.linspace(0, len(cuts) - 1, most + 1).astype(int)
        block = min(MAX_BLOCK, int(layout.group_sizes.max()))
        sums = self.base, layout.n_cells
        return [
            Stretch(layout.arrays, self.fold, cuts[a : b + 1], 0, block, *sums)
            for a, b in itertools.pairwise(ends.tolist())
        ]

    def sample(self) -> Folds | None:
        """Some of the groups in the same folds, if the table is large; without workers."""
        step = sample_step(self.layout.n_groups)
        if step == 1:
            return None
        return Folds(self.layout.every(step), self.fold[::step], self.threads.n, whole=self)

    # -- populations ------------------------------------------------------------------------
    def lifts(self, counts: Floats, pooling: Floats, rows: Floats | None = None) -> Floats:
        """Log of ``(kappa + counts) / (kappa + n_s m)``, which is 0 for values that never occur."""
        rows = self.secret_rows if rows is None else rows
        return self.joined(
            np.log((k + count) / (k + rows[..., None] * margin))
            for k, count, margin in zip(
                pooling, self.cells.split(counts), self.margins, strict=True
            )
        )

    def lift_slopes(self, counts: Floats, pooling: Floats) -> Floats:
        """Derivatives of `lifts` with respect to ``log kappa``."""
        return self.joined(
            k / (k + count) - k / (k + self.secret_rows[..., None] * margin)
            for k, count, margin in zip(
                pooling, self.cells.split(counts), self.margins, strict=True
            )
        )

    def independent_lifts(self, counts: Floats, beta: Floats) -> Floats:
        """Log lifts of populations under the Dirichlet prior `beta`, as in Groups."""
        parts = zip(self.cells.split(counts), self.cells.split(beta), self.margins, strict=True)
        return self.joined(
            np.where(
                margin > 0,
                np.log(
                    (prior + count)
                    / (prior.sum(axis=-1) + self.secret_rows)[..., None]
                    / np.maximum(margin, np.finfo(float).tiny)
                ),
                0.0,
            )
            for count, prior, margin in parts
        )

    def joined(self, parts: Iterable[Floats]) -> Floats:
        """Join parts ``(..., S, K_a)`` of all attributes into flat arrays."""
        return np.concatenate([part.reshape(*part.shape[:-2], -1) for part in parts], axis=-1)

    # -- sums over groups -------------------------------------------------------------------
    def expected_counts(self, score: Floats) -> Floats:
        """E-step: for each fold, expected counts of the groups of all other folds."""
        if self.workers is not None:
            return self.workers.count(score)
        return self._reduce(score.shape, lambda stretch, job: stretch.expect(job, score))

    def judge(
        self, score: Floats, owner: Floats | None = None, *, each: bool = True,
        only: int | None = None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Log-likelihood of each left-out group, and its gradient in the score, fold by fold.

        Unless `each` is set, only the sum is needed, and workers send sums over stretches. With
        `only`, a single attribute is used, and the score has only its cells.
        """
        if self.workers is not None:
            return self.workers.judge(score, each=each, owner=owner, only=only)
        scores = np.empty(self.layout.n_groups)
        owned = np.empty(0) if owner is None else owner
        return scores, self._reduce(
            score.shape, lambda stretch, job: stretch.judge(job, score, scores, owned, only)
        )

    @property
    def random_worlds(self) -> Floats:
        """Log-likelihood of each group if all orders are equally likely."""
        layout = self.layout
        slots = np.add.reduceat(self.base[layout.secrets], layout.offsets[:-1])
        return gammaln(layout.group_sizes + 1.0) + slots

    def owned(self, score: Floats) -> tuple[Floats, Floats]:
        """Ownership probabilities from the scores of the folds, and the expected counts."""
        owner = np.zeros(self.layout.n_links)
        self.judge(score, owner, each=False)
        return owner, owned_counts(self.layout.arrays, owner, self.cells.n_cells)

    def in_all(self, scores: Floats) -> float:
        """Sum of the scores from `judge`, added stretch by stretch, as workers do."""
        if self.workers is None:
            cuts = [(s.blocks[0], s.blocks[-1]) for s in self.stretches]
            scores = np.array([scores[first:last].sum() for first, last in cuts])
        return float(scores.sum())

    def _reduce(
        self, shape: tuple[int, ...], work: Callable[[Stretch, tuple[int, int]], Floats]
    ) -> Floats:
        """Distribute jobs over threads; add their results in the order of the stretches."""
        jobs = [(stretch, job) for stretch in self.stretches for job in stretch.jobs]
        found = self.threads.each(lambda i: work(*jobs[i]), range(len(jobs)))
        total = np.zeros(shape)
        for stretch in self.stretches:
            total += sum_in_order(itertools.islice(found, len(stretch.jobs)))
        return total

    def alone(self, values: Floats, a: int) -> Floats:
        """Cells of one attribute, one line per fold."""
        return np.ascontiguousarray(values[:, self.cells.starts[a] : self.cells.starts[a + 1]])

    # -- EM ---------------------------------------------------------------------------------
    def learn(self, start: Floats, weights: Floats, pooling: Floats, rounds: int) -> Floats:
        """Soft EM with weighted evidence."""
        counts = start
        for _ in range(rounds):
            counts = self.expected_counts(self.lifts(counts, pooling) * weights[self.attribute])
        return counts

    def by_attribute(self, values: Floats) -> Floats:
        """Sum the last axis over the cells of each attribute."""
        return np.add.reduceat(values, self.cells.starts[:-1], axis=-1)


class _Objective:
    """Penalised held-out log-likelihood of weights and log pooling, with its gradient.

    If the pooling is given, it is fixed.
    """

    def __init__(self, folds: Folds, counts: Floats, pooling: Floats | None = None) -> None:
        self.folds = folds
        self.counts = counts
        self.n = folds.cells.n_attributes
        mean, deviation = WEIGHT_PRIOR
        median, spread = POOLING_PRIOR
        self.center = np.repeat([mean, np.log(median)], self.n)
        self.precision = np.repeat([deviation**-2.0, spread**-2.0], self.n)
        low, high = np.log(POOLING_BOUNDS)
        self.free = pooling is None
        self.bounds = [(0.0, MOST_WEIGHT)] * self.n
        self.bounds += [(low, high)] * self.n if pooling is None else [(k, k) for k in pooling]

    def parts(self, point: Floats) -> tuple[Floats, Floats]:
        """Scores from `Folds.judge`, and the gradient by fold, without the prior."""
        folds = self.folds
        weights, pooling = point[: self.n], np.exp(point[self.n :])
        lift = folds.lifts(self.counts, pooling)
        spread = weights[folds.attribute]
        group_score, residual = folds.judge(lift * spread, each=False)
        slope = folds.lift_slopes(self.counts, pooling) * spread
        gradient = [folds.by_attribute(residual * lift), folds.by_attribute(residual * slope)]
        return group_score, np.concatenate(gradient, axis=1)

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        group_score, gradient = self.parts(point)
        off = point - self.center
        value = self.folds.in_all(group_score) - 0.5 * (self.precision * off**2).sum()
        return -value, -(gradient.sum(axis=0) - self.precision * off)

    def maximise(self, start: Floats) -> Floats:
        """Point with the largest penalised likelihood."""
        from scipy.optimize import minimize  # which takes long to load

        found = minimize(
            self, start, jac=True, method="L-BFGS-B", bounds=self.bounds,
            options={"maxiter": 60, "ftol": 1e-8},
        )  # fmt: skip
        return np.asarray(found.x)

    def laplace(self, point: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Precision of the weights at a point, and the gradient of weights at the bound of zero."""
        whole = hessian[: self.n, : self.n] - np.diag(self.precision)[: self.n, : self.n]
        weights, slope = point[: self.n], -self(point)[1][: self.n]
        return -_definite(whole), np.where(weights > 0, 0.0, np.minimum(slope, 0.0))

    def curvature(self, point: Floats) -> Floats:
        """Hessians by fold, without the prior, from central differences of exact gradients.

        If the pooling is fixed, these are the Hessians of the weights.
        """
        columns = []
        size = 2 * self.n if self.free else self.n
        for i in range(size):
            ahead, behind = point.copy(), point.copy()
            ahead[i] += STEP
            behind[i] -= STEP
            change = self.parts(ahead)[1] - self.parts(behind)[1]
            columns.append(change[:, :size] / (2 * STEP))
        hessian = np.stack(columns, axis=-1)
        return (hessian + hessian.swapaxes(-1, -2)) / 2

    def without_own_fold(self, point: Floats, hessians: Floats) -> Floats:
        """Optimum without each fold, by one Newton step from the overall optimum; one row each."""
        _, gradient = self.parts(point)
        total = hessians.sum(axis=0) - np.diag(self.precision)
        low, high = np.array(self.bounds).T
        rows = [
            np.clip(point + np.linalg.solve(_definite(total - h), g), low, high)
            for h, g in zip(hessians, gradient, strict=True)
        ]
        return np.stack(rows)


def _definite(hessian: Floats) -> Floats:
    """Make a Hessian negative definite: flat or rising directions get the prior's curvature."""
    values, vectors = np.linalg.eigh(hessian)
    least = min(WEIGHT_PRIOR[1] ** -2.0, POOLING_PRIOR[1] ** -2.0)
    return np.asarray((vectors * np.minimum(values, -least)) @ vectors.T)


def default_folds(n_groups: int, n_cells: int) -> int:
    """Number of folds for a table; small tables get many, because they can spare few groups."""
    cost = max(n_groups, n_cells // 10)
    wanted = 20 if cost <= 10_000 else 10 if cost <= 50_000 else 5
    return min(wanted, n_groups)


def cross_fit(
    layout: VerticalLayout,
    *,
    folds: int | None = None,
    beta: ArrayLike = 1.0,
    rounds: int = ROUNDS,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    client: Any = None,
) -> CrossFit:
    """Learn evidence weights of a vertical table, and who owns what, from the release alone.

    `beta` is the prior of the candidate ``"independent"``. With a `client`, the workers of a Dask
    cluster hold the groups. No number depends on the number of workers or threads.
    """
    n_folds = check_folds(layout.n_groups, layout, folds, rounds)
    fold = np.random.default_rng(seed).permutation(np.arange(layout.n_groups) % n_folds)
    dealt = Folds(layout, fold, threads, client)
    with contextlib.nullcontext() if dealt.workers is None else dealt.workers.tasks:
        return fit_folds(dealt, layout.check_prior(1.0, beta)[1], rounds)


def sample_step(n_groups: int) -> int:
    """Number of groups for each one in the sample of a table; 1 if no sample is needed."""
    step = n_groups // max(SAMPLE_GROUPS, n_groups // 20)
    return step if step >= LEAST_STEP else 1


def fit_folds(dealt: Folds, beta: Floats, rounds: int) -> CrossFit:
    """Alternate EM and weights until they settle; large tables begin with a sample."""
    n = dealt.cells.n_attributes
    used = np.concatenate([np.full(n, WEIGHT_PRIOR[0]), np.full(n, np.log(POOLING_PRIOR[0]))])
    sample = dealt.sample()
    if sample is not None:
        used = _take_turns(sample, used, rounds).used
    done = _take_turns(dealt, used, rounds)
    return _result(dealt, done.objective, done.point, done.start, beta, rounds, done.turns)


class _Turns(NamedTuple):
    objective: _Objective
    point: Floats  # where the objective was best
    used: Floats  # half-way to the last point
    start: Floats  # counts if all orders are equally likely
    turns: int


def _take_turns(dealt: Folds, used: Floats, rounds: int) -> _Turns:
    n = dealt.cells.n_attributes
    start = dealt.expected_counts(np.zeros((dealt.n, dealt.cells.n_cells)))
    best = -np.inf
    turn, change = 0, np.inf
    while turn < TURNS and change >= SETTLED:
        turn += 1
        counts = dealt.learn(start, used[:n], np.exp(used[n:]), rounds)
        objective = _Objective(dealt, counts)
        point = objective.maximise(used)
        value = -objective(point)[0]
        change = np.abs(point - used)[:n].max()
        used = (used + point) / 2
        if turn == 1 or value > best:
            best, done = value, (objective, point)
    return _Turns(*done, used, start, turn)


def vertical_spread(layout: VerticalLayout, lifts: Floats, pooling: Floats) -> list[Floats]:
    """`lift_spread` of every attribute of a vertical table."""
    chance = [layout.secret_counts[:, None] * margin for margin in layout.margins]
    return [*map(lift_spread, layout.split(lifts), pooling, chance)]


def left_out_ownership(
    layout: VerticalLayout, fold: Ints, score: Floats, threads: int | None = None
) -> Floats:
    """``P(item belongs to value)`` of every group under the scores of its fold.

    `score` (folds, n_cells) holds weighted log lifts, or ``log pi`` of a single population.
    """
    owner = np.zeros(layout.n_links)
    Folds(layout, fold, threads).judge(np.ascontiguousarray(score), owner)
    return owner


def check_folds(n_groups: int, cells: CellShape, folds: int | None, rounds: int) -> int:
    """Return the number of folds, or raise a `ModelError`."""
    if n_groups < 2:
        raise ModelError(
            "Weighted evidence needs at least 2 groups, so that one can be left out; the table has "
            f"{n_groups}. Use evidence='independent'."
        )
    if cells.n_attributes == 0:
        raise ModelError(
            "Weighted evidence needs at least one attribute besides the sensitive one."
        )
    for name, value, least in (("folds", folds, 2), ("rounds", rounds, 1)):
        if value is not None:
            read_whole(name, value, least=least, error=ModelError)
    return default_folds(n_groups, cells.n_cells) if folds is None else min(folds, n_groups)


def _result(
    dealt: Folds, objective: _Objective, point: Floats, start: Floats, beta: Floats, rounds: int,
    turns: int,
) -> CrossFit:  # fmt: skip
    """Beliefs, scores and errors at the optimum."""
    n = dealt.cells.n_attributes
    hessians = objective.curvature(point)
    precision, gradient = objective.laplace(point, hessians.sum(axis=0))
    weights, pooling = point[:n], np.exp(point[n:])
    lift = dealt.lifts(objective.counts, pooling)
    owner, population = _beliefs(dealt, lift, weights, pooling)
    # For the score, weights and pooling are also determined without the fold's own groups.
    score = np.empty_like(lift)
    for f, row in enumerate(objective.without_own_fold(point, hessians)):
        lifts = dealt.lifts(objective.counts[f], np.exp(row[n:]), dealt.secret_rows[f])
        score[f] = lifts * row[:n][dealt.attribute]
    weighted, _ = dealt.judge(score)
    counts = start
    for _ in range(rounds):
        counts = dealt.expected_counts(dealt.independent_lifts(counts, beta))
    independent, _ = dealt.judge(dealt.independent_lifts(counts, beta))
    random_worlds = dealt.random_worlds

    def score_with(score: Floats, only: int | None = None) -> float:
        return dealt.in_all(dealt.judge(score, each=False, only=only)[0])

    whole = score_with(lift * weights[dealt.attribute])
    alone, added, inverse = np.empty(n), np.zeros(n), np.linalg.inv(precision)
    for a in range(n):
        alone[a] = score_with(dealt.alone(lift, a), a)
        if weights[a] > 0:
            # Without the attribute, the others move to the optimum of the same parabola.
            others = np.maximum(weights - inverse[:, a] / inverse[a, a] * weights[a], 0.0)
            others[a] = 0.0
            added[a] = whole - score_with(lift * others[dealt.attribute])
    unit, error = _relative(dealt, lift, weights, precision)
    return CrossFit(
        weights=weights,
        precision=precision,
        gradient=gradient,
        unit=unit,
        error=error,
        pooling=pooling,
        alone=alone - random_worlds.sum(),
        added=added,
        ownership=owner,
        fold=dealt.fold,
        secret_shares=np.exp(dealt.base),
        population=population,
        left_out_lifts=lift,
        group_scores=np.stack([independent, weighted, random_worlds], axis=1),
        turns=turns,
    )


def _relative(
    dealt: Folds, lift: Floats, weights: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """Compute `CrossFit.unit` and `CrossFit.error`.

    To first order, the groups of a fold move the log lifts of each other fold as they move the
    mean.
    """
    n, folds = len(weights), dealt.n
    mean, deviation = WEIGHT_PRIOR

    def slope_alone(at: float, a: int, lifts: Floats, fold: int = -1) -> float:
        own = dealt.alone(lifts, a)
        _, residual = dealt.judge(own * at, each=False, only=a)
        kept = (residual * own).sum(axis=1)[np.arange(folds) != fold]
        return float(kept.sum() - (at - mean) / deviation**2)

    unit, bend = np.ones(n), np.empty(n)
    for a in range(n):
        for _ in range(ALONE_STEPS):
            now = slope_alone(unit[a], a, lift)
            rise = (now - slope_alone(unit[a] + STEP, a, lift)) / STEP
            bend[a] = max(rise, deviation**-2.0)
            step = np.clip(now / bend[a], -0.5, 0.5)
            unit[a] = np.clip(unit[a] + step, *UNIT_BOUNDS)
            if abs(step) < SETTLED:
                break
    moved = np.empty((folds, n))
    for f in range(folds):
        lifts, rest = lift + lift[f] - lift.mean(axis=0), (folds - 1) / folds
        _, residual = dealt.judge(lifts * weights[dealt.attribute], each=False)
        kept = dealt.by_attribute(residual * lifts)[np.arange(folds) != f].sum(axis=0)
        slope = kept - (weights - mean) / deviation**2
        without = weights + np.linalg.solve(rest * precision, slope)
        alone = [unit[a] + slope_alone(unit[a], a, lifts, f) / (rest * bend[a]) for a in range(n)]
        moved[f] = without / np.maximum(alone, UNIT_BOUNDS[0])
    return unit, np.hypot(fold_error(moved), unsettled(precision, deviation) / unit)


def _beliefs(dealt: Folds, lift: Floats, weights: Floats, pooling: Floats) -> tuple[Floats, Floats]:
    """Ownership probabilities from the lifts of the other folds, and the resulting ``pi_a|s``."""
    owner, expected = dealt.owned(lift * weights[dealt.attribute])
    lifts = dealt.lifts(expected, pooling, dealt.secret_counts.astype(float))
    parts = zip(dealt.cells.split(lifts), dealt.margins, strict=True)
    pi = [np.exp(part) * margin for part, margin in parts]
    return owner, dealt.cells.flatten([part / part.sum(axis=-1, keepdims=True) for part in pi])
