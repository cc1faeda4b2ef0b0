"""The ideal learner, who sees the cleartext, and how faithful a release is to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numba import njit

from anonbayes.arrays import SMALL, Floats, Ints, Scaled, starts_of
from anonbayes.beliefs.belief import labelled, normalise
from anonbayes.beliefs.index import add_scaled
from anonbayes.beliefs.learner import learner_joint
from anonbayes.beliefs.victims import Victims, batch_slices, read_victims
from anonbayes.domains import Domain
from anonbayes.errors import TableError
from anonbayes.inference.corrections import learn_corrections
from anonbayes.inference.dirichlet import Prior, PriorLike
from anonbayes.inference.features import Features, pooled_beta
from anonbayes.inference.weight_kernels import maximise, record_tilts, weighted_joint
from anonbayes.inference.weights import choose_evidence
from anonbayes.io.text import pandas_frame
from anonbayes.risk.people import Truth, clear_release, read_truth
from anonbayes.risk.threats import replicate_error, replicate_weights
from anonbayes.tables.build import check_column, check_frame
from anonbayes.tables.table import ReleasedTable, only_domains

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior


# -------------------------------------------------------------------------------------------------
# The ideal learner, who sees the cleartext: the standard by which a release is measured.
#
# ``p_I(s, r | t) = (alpha_s + gamma_s)/(alpha_0 + N) * prod_a (beta + delta)/(beta_0 + gamma_s)``:
# Groups (19), (20) with several attributes (MODEL 1.5).


@dataclass(frozen=True, eq=False, repr=False)
class Ideal:
    """What can be learned about the population from the cleartext itself, in closed form.

    Attributes
    ----------
    table : ReleasedTable
        The cleartext as a release that hides nothing.
    prior : Prior
        Prior weights.
    secret_mean : numpy.ndarray
        ``E[pi_S | t]``, shape ``(S,)``.
    means : tuple of numpy.ndarray
        ``E[pi_a | t]`` per attribute, shape ``(S, K)``.
    eta : numpy.ndarray or None
        Weight of each attribute, learned from the cleartext (MODEL 1.9); None if every attribute
        counts in full.
    corrections : tuple of numpy.ndarray or None
        Corrections of single values, if the learner has them.
    """

    table: ReleasedTable
    prior: Prior
    secret_mean: Floats
    means: tuple[Floats, ...]
    eta: Floats | None = None
    corrections: tuple[Floats, ...] | None = None

    def belief(
        self, victim: Mapping[str, object] | pd.Series | pd.DataFrame
    ) -> pd.Series | pd.DataFrame:
        """``p_I(s | r, t)`` for one victim or a frame of victims.

        Victims are described as in `Posterior.learner`; the result is exact.
        """
        victims = read_victims(self.table, victim)
        found = normalise(self.weights(victims))
        return labelled(self.table, victims, found, "ideal")

    def weights(self, victims: Victims) -> Floats:
        """``p_I(s, knowledge)`` of each distinct victim, ``(victims, S)``, on its own scale."""
        return self.joint(victims).relative()[0]

    def joint(self, victims: Victims) -> Scaled:
        """``p_I(s, knowledge)`` of each distinct victim, ``(victims, S)``, on a common scale."""
        share = self.secret_mean
        tilt = record_tilts(self.corrections, share, self.means, victims.weights, victims.codes)
        return weighted_joint(share, victims.shares(self.means), self.eta, tilt)

    def __repr__(self) -> str:
        return f"Ideal({self.table.n_rows:,} rows, sensitive={self.table.sensitive!r})"


def ideal(
    cleartext: pd.DataFrame,
    *,
    sensitive: str | None = None,
    table: ReleasedTable | None = None,
    domains: Mapping[str, Domain | Iterable[object]] | None = None,
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    evidence: str = "auto",
    weights: str | None = None,
) -> Ideal:
    """Learn from the cleartext, as only the evaluator can (Groups (19), (20)).

    Parameters
    ----------
    cleartext : pandas.DataFrame
        One row per person.
    sensitive : str, optional
        The sensitive column; required unless `table` is given.
    table : ReleasedTable, optional
        A release of the cleartext, whose attributes and domains are used.
    domains : mapping, optional
        Possible values by column, by default those that occur. Not with `table`.
    alpha, beta, evidence
        Prior weights and kind of evidence, as in `fit`.
    weights : str, optional
        Column of the cleartext with the number of people that a row stands for.

    Examples
    --------
    >>> import anonbayes as ab
    >>> best = ab.ideal(ab.datasets.load("table1"), sensitive="Dis")
    >>> best.belief({"Nat": "M", "ZIP": "45501"}).idxmax()
    'Heart'
    """
    if (sensitive is None) == (table is None):
        raise TableError("Name the sensitive column (sensitive=) or give a release (table=).")
    if table is None:
        cleartext = pandas_frame(cleartext)
        check_frame(cleartext, "The cleartext table")
        assert sensitive is not None
        check_column(cleartext, sensitive, "sensitive")
        if weights is not None:
            check_column(cleartext, weights, "weights")
        shown = cleartext if weights is None else cleartext.drop(columns=weights)
        if domains is not None and not isinstance(domains, Mapping):
            raise TableError(f"domains must be a mapping from columns to values, not {domains!r}.")
        table = _shape(shown, sensitive, domains or {})
    elif domains is not None:
        raise TableError("table= defines the domains; leave out domains=.")
    truth = read_truth(table, cleartext, weights=weights)
    clear = _clear(table, truth)
    taken = choose_evidence(clear, evidence=evidence, alpha=alpha, beta=beta)
    known = None if taken.weights is None else taken.weights.corrections
    return _learn(clear, taken.prior, taken.evidence, None if known is None else known.variance)


def _clear(table: ReleasedTable, truth: Truth) -> ReleasedTable:
    return clear_release(table, list(truth.codes.T), truth.secret, truth.weights)


def ideal_of(post: Posterior, truth: Truth) -> Ideal:
    """`ideal` for an encoded cleartext, with the kind of prior and evidence of a posterior."""
    clear, prior = _clear(post.table, truth), post.prior
    if post.pooled:  # pool by the cleartext itself
        prior = Prior(prior.alpha, pooled_beta(clear, prior)[0])
    variance = None
    if post.corrections is not None and post.evidence_weights is not None:
        assert post.evidence_weights.corrections is not None
        variance = post.evidence_weights.corrections.variance
    return _learn(clear, prior, post.evidence, variance)


def _learn(trivial: ReleasedTable, known: Prior, evidence: str, variance: float | None) -> Ideal:
    secret = known.alpha + trivial.secret_counts
    means = []
    for name in trivial.attributes:
        weight = known.beta[name] + trivial.counts[name].toarray().T
        means.append(weight / weight.sum(axis=1, keepdims=True))
    eta, values = None, None
    if evidence == "weighted":
        features = Features.of(trivial, known)
        eta = maximise(features)[0]
        if variance is not None:
            found = learn_corrections(trivial, features, features.codes, eta, [], variance=variance)
            values = None if found is None else found[0].values
    return Ideal(trivial, known, secret / secret.sum(), tuple(means), eta, values)


def _shape(
    frame: pd.DataFrame, sensitive: str, domains: Mapping[str, Domain | Iterable[object]]
) -> ReleasedTable:
    """One-row release that carries nothing but the domains of a cleartext frame."""

    def domain(name: str) -> Domain:
        given = domains.get(name)
        if given is None:
            return Domain.infer(name, frame[name])
        return given if isinstance(given, Domain) else Domain(name, given)

    names = [c for c in frame.columns if c != sensitive]
    return only_domains([domain(c) for c in names], domain(sensitive))


# -------------------------------------------------------------------------------------------------
# How much of what the cleartext teaches a release keeps: ``RF = 1 - TV(p_I, p_L)``.
#
# Groups Definition 2 and (21). The distance is a sum over all secrets and records, usually far too
# many to enumerate; it is then estimated from draws of ``p_I``. If they can be enumerated, it is
# exact.

MOST_CELLS = 1_000_000
MOST_AVERAGED_CELLS = 20_000
MOST_DRAWS = 2000


@dataclass(frozen=True)
class Faithfulness:
    """Total variation ``TV(p_I, p_L)`` between what the cleartext and what the release teach.

    `tv` is a sum, or the average of ``(1 - p_L/p_I)+`` over draws of ``p_I``. `etv` (Groups (21))
    is the average of ``|1 - p_L/p_I| / 2``, which usually is too small and sometimes far too large:
    half of the distance comes from places where ``p_L > p_I``, which are rarely drawn. The errors
    include those of all draws.
    """

    tv: float
    tv_error: float
    etv: float
    etv_error: float
    samples: int  # draws of p_I; 0 if all secrets and records were enumerated

    @property
    def rf(self) -> float:
        """Relative faithfulness ``1 - TV``."""
        return 1.0 - self.tv


def faithfulness(
    post: Posterior, best: Ideal, *, samples: int = 20_000, seed: int | np.random.Generator | None
) -> Faithfulness:
    """Compare the learner with the ideal."""
    product = post.table.scheme == "horizontal" and post.table.secrets_known

    def of_cells(secret: Ints, codes: Ints) -> tuple[Scaled, list[Scaled]]:
        return _learner(post, secret, codes)

    return distance(
        best,
        lambda victims: learner_joint(post, victims),
        of_cells=of_cells if best.eta is None and post.eta is None else None,
        most=MOST_CELLS if product else MOST_AVERAGED_CELLS,
        samples=samples,
        seed=seed,
        n_chains=post.n_chains,
    )


def distance(
    best: Ideal,
    of_records: Callable[[Victims], tuple[Scaled, list[Scaled]]],
    *,
    of_cells: Callable[[Ints, Ints], tuple[Scaled, list[Scaled]]] | None = None,
    most: int = MOST_AVERAGED_CELLS,
    samples: int,
    seed: int | np.random.Generator | None,
    n_chains: int = 1,
) -> Faithfulness:
    """Compare a learner with the ideal: ``p_L(s, r)``, and the same by batches unless exact.

    Up to `most` cells are listed. Without weights, cells are computed one by one, if at all.
    """
    sizes = [len(best.secret_mean), *(m.shape[1] for m in best.means)]
    cells = math.prod(sizes)
    listed = cells <= most
    if listed:
        grid = np.indices(sizes).reshape(len(sizes), -1)
        secret, codes = grid[0], np.ascontiguousarray(grid[1:].T)
    else:
        secret, codes = _draw(best, samples, np.random.default_rng(seed))
    if of_cells is not None:
        p_ideal = _product(best.secret_mean, best.means, secret, codes)
        p_learner, batches = of_cells(secret, codes)
    else:
        records, which = codes, np.arange(len(codes))
        if listed:  # every record occurs once with each secret
            records, which = codes[: cells // sizes[0]], which % (cells // sizes[0])
        victims = Victims.of_records(records, sizes[1:])
        of_learner, parts = of_records(victims)
        p_ideal, p_learner, *batches = (
            Scaled(joint.number[which, secret], joint.power[which, secret])
            for joint in (best.joint(victims), of_learner, *parts)
        )
    share = p_ideal.over(Scaled.product(np.ones(len(secret)), [])) if listed else None

    def distances(ratio: Floats) -> Floats:
        """Terms of TV and of ETV, from ``p_L / p_I``."""
        return np.stack([np.maximum(1.0 - ratio, 0.0), np.abs(1.0 - ratio) / 2.0])

    def both(ratio: Floats) -> Floats:
        terms = distances(ratio)
        return np.asarray(terms.mean(axis=1) if share is None else terms @ share)

    ratio = _ratio(p_learner, p_ideal)
    value = both(ratio)
    variance = np.zeros(2)
    if not listed:
        variance += distances(ratio).var(axis=1, ddof=1) / len(secret)
    if len(batches) > 1:
        ratios = np.stack([_ratio(batch, p_ideal) for batch in batches])
        weights = replicate_weights(len(batches), n_chains)
        replicates = np.stack([both(w @ ratios) for w in weights])
        variance += replicate_error(replicates, len(batches), n_chains) ** 2
    error = np.sqrt(variance)
    drawn = 0 if listed else len(secret)
    return Faithfulness(float(value[0]), float(error[0]), float(value[1]), float(error[1]), drawn)


def _draw(best: Ideal, samples: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw independently from ``p_I``: the secret, then every attribute given the secret."""
    secret = np.sort(rng.choice(len(best.secret_mean), size=samples, p=best.secret_mean))
    codes = np.empty((samples, len(best.means)), dtype=np.int64)
    edges = np.searchsorted(secret, np.arange(len(best.secret_mean) + 1))
    for a, mean in enumerate(best.means):
        for s, (start, stop) in enumerate(itertools.pairwise(edges)):
            codes[start:stop, a] = rng.choice(mean.shape[1], size=stop - start, p=mean[s])
    if best.eta is None:
        return secret, codes
    # A record of the product model, and a secret given the record.
    clear = Victims.of_records(codes, [mean.shape[1] for mean in best.means])
    below = np.cumsum(normalise(best.weights(clear)), axis=1)
    drawn = (rng.random(samples)[:, None] > below).sum(axis=1)
    return np.minimum(drawn, len(best.secret_mean) - 1), codes


def _ratio(learner: Scaled, ideal: Scaled) -> Floats:
    """``p_L / p_I``; 1 where both are zero."""
    return np.where((learner.number == 0) & (ideal.number == 0), 1.0, learner.over(ideal))


def _product(secret_mean: Floats, means: tuple[Floats, ...], secret: Ints, codes: Ints) -> Scaled:
    of_attributes = (mean[secret, codes[:, a]] for a, mean in enumerate(means))
    return Scaled.product(secret_mean[secret], of_attributes)


def _learner(post: Posterior, secret: Ints, codes: Ints) -> tuple[Scaled, list[Scaled]]:
    """``p_L(s, r)`` of the records, and the same from batches of draws unless exact."""
    names = post.table.attributes
    if not post.simulated:
        means = tuple(post.means)
        return _product(post.secret_mean, means, secret, codes), []
    cuts = batch_slices(post.n_chains, post.n_draws)
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in names]
    if post.table.scheme == "horizontal" and post.table.secrets_known:
        # Given t*, the pi_a are independent (MODEL 1.2): the mean of the product is a product.
        parts = [tuple(d[c, cut].mean(axis=0) for d in draws) for c, cut in cuts]
        batches = [_product(post.secret_mean, m, secret, codes) for m in parts]
        means = tuple(d.mean(axis=(0, 1)) for d in draws)
        return _product(post.secret_mean, means, secret, codes), batches
    of_secret = post.draws[f"pi_{post.table.sensitive}"].to_numpy()
    step = max(1, post.n_chains * post.n_draws // MOST_DRAWS)
    start = starts_of([d.shape[-1] for d in draws])[:-1]
    whole = Scaled(np.zeros(len(secret)), np.zeros(len(secret), dtype=np.int64))
    batches = []
    for c, cut in cuts:
        total = Scaled(np.zeros(len(secret)), np.zeros(len(secret), dtype=np.int64))
        chosen = range(cut.start, cut.stop, step)
        for t in chosen:
            stacked = np.concatenate([d[c, t] for d in draws], axis=1)
            _add_joint(secret, codes, start, stacked, of_secret[c, t], total)
        batches.append(Scaled(total.number / len(chosen), total.power))
        whole = whole.plus(batches[-1])
    return Scaled(whole.number / len(batches), whole.power), batches


@njit(cache=True, nogil=True)
def _add_joint(secret, codes, start, pi, of_secret, total):  # type: ignore[no-untyped-def]
    """Add ``f(s_i, r_i | pi)`` under one draw."""
    for i in range(len(secret)):
        s = secret[i]
        p = of_secret[s]
        power = 0
        for a in range(codes.shape[1]):
            p *= pi[s, start[a] + codes[i, a]]
            while 0.0 < p < SMALL:
                p /= SMALL
                power -= 1
        add_scaled(total.number, total.power, i, p, power)
