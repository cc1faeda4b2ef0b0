"""Beliefs of an attacker who knows that the victim is in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints, Scaled
from anonbayes.beliefs.index import (
    Compatibility,
    IndexedRecords,
    accumulate,
    pair_values,
    records_of,
)
from anonbayes.beliefs.learner import LEAST_FIT, learner_weights, weight_draws
from anonbayes.beliefs.register import PRIOR_ROWS, Register, subset, whole_records
from anonbayes.beliefs.victims import Victims, batch_slices, by_secret, in_terms_of
from anonbayes.inference.weights import tempered_fit, weighted_joint
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = [
    "attacker_weights",
    "candidate_rows",
    "draw_weights",
    "item_fits",
    "matched",
    "random_world_weights",
    "told_by",
    "worlds_apart",
]
TINY = np.finfo(float).tiny


# -------------------------------------------------------------------------------------------------
# The attacker and random worlds: the victim is known to be in the table.
#
# ``p_A(s | r_v, t*)`` is proportional to the expected number of rows with secret s that could be
# the victim (Groups (8), (15)); the sum runs over all compatible rows of all groups. Under random
# worlds every compatible cleartext table counts the same.

LEAST_DRAWS, MOST_LINES = 400, 40_000_000
"""Least number of draws for latent secrets, and most lines times draws (about ten seconds)."""


def matched(
    table: ReleasedTable, victims: Victims
) -> tuple[Victims, IndexedRecords, tuple[Compatibility, ...]]:
    """Victims, the table's rows, and which cells fit; a known group is one more attribute."""
    rows = records_of(table, grouped=victims.group is not None)
    if victims.group is not None:
        groups = sparse.eye_array(table.n_groups, format="csr")
        known = sparse.csr_array(sparse.vstack([groups, np.ones((1, table.n_groups))]))
        codes = np.where(victims.group < 0, table.n_groups, victims.group)
        victims = replace(
            victims,
            codes=np.column_stack([victims.codes, codes]),
            weights=(*victims.weights, known),
        )
    return victims, rows, rows.match(victims)


def attacker_weights(post: Posterior, victims: Victims) -> tuple[Floats, Floats | None, Ints]:
    """Unnormalised ``p_A`` of each distinct victim.

    Returns
    -------
    weights : numpy.ndarray
        Shape ``(victims, S)``, each victim on a scale of its own.
    batches : numpy.ndarray or None
        The same from batches of the draws, ``(batches, victims, S)``; None when exact.
    records : numpy.ndarray
        Number of compatible distinct records; 0 means that what is known fits nobody.
    """
    if post.editions is not None and post.editions.matched:
        return _matched_in_all_ways(post.editions.matched, victims)
    if post.editions is not None and post.editions.apart:
        alone, batches, records = attacker_weights(replace(post, editions=None), victims)
        told = np.ones_like(alone)
        for other in post.editions.apart:
            told *= told_by(other, post.table, victims)
        return alone * told, None if batches is None else batches * told, records
    victims, rows, compatible = matched(post.table, victims)
    if post.table.scheme == "vertical":
        return _vertical(post, victims, rows, compatible)
    if not post.table.secrets_known:
        return _latent(post, victims, rows, compatible)
    secrets = rows.secrets
    if post.register is not None and post.register.corrects:
        return _registered(post.register, victims, rows, compatible)
    if post.method == "exact":
        fit = _exact_fits(post, victims, compatible)
    elif post.method == "crossfit":
        parts = zip(post.means, victims.weights, rows.evidence, compatible, strict=False)
        fit = [mean_fit(mean[None], *part) for mean, *part in parts]
    else:
        return _sampled(post, victims, rows, compatible, secrets)
    fit = _weighted(victims, rows, compatible, fit, post.secret_mean, post.means, post.eta)
    weights, found = accumulate(victims, rows.index, compatible, fit, secrets)
    return weights.relative()[0], None, found


def _registered(
    register: Register,
    victims: Victims,
    rows: IndexedRecords,
    compatible: tuple[Compatibility, ...],
) -> tuple[Floats, None, Ints]:
    """Attacker who holds a register, with weighted evidence (MODEL 1.10).

    A row with cells y and secret s is the victim's with odds ``p(s | r) / m(y, s)``. Where the
    victim is only partly known, the people of the register who fit represent the records that do.
    """
    combinations = Victims(rows.index.codes, rows.evidence, np.arange(len(rows.index.codes)), None)
    model = PRIOR_ROWS * register.joint(combinations)
    people = np.maximum(register.mass(combinations) + model, np.finfo(float).tiny)
    odds = rows.secrets / people

    def summed(who: Victims, pairs: tuple[Compatibility, ...]) -> tuple[Floats, Ints]:
        each = zip(who.weights, rows.evidence, pairs, strict=True)
        fit = [pair_values(weight, cells, pair)[:, None] for weight, cells, pair in each]
        sums, records = accumulate(who, rows.index, pairs, fit, odds)
        return sums.plain, records

    weights, records = summed(victims, compatible)
    whole, values = whole_records(victims)
    weights[whole] *= register.belief(values[whole])
    if not whole.all():
        rest, codes = subset(victims, ~whole), register.codes
        single = tuple(
            sparse.csr_array(sparse.eye_array(mean.shape[1], format="csr"))
            for mean in register.means
        )
        others = Victims(codes, single, np.arange(len(codes)), None)
        of_record = register.expected * summed(others, rows.match(others))[0]
        # The product model's people: those in the cells who fit, secret by secret.
        fits = []
        for a, pairs in enumerate(compatible):
            fits.append(_mean_share(register, a, victims.weights[a], rows.evidence[a], pairs))
        product, _ = accumulate(rest, rows.index, compatible, fits, odds * model)
        weights[~whole] = register.mass(rest, of_record) + product.plain
    return weights, None, records


def _mean_share(
    register: Register,
    a: int,
    weight: sparse.csr_array,
    cells: sparse.csr_array,
    pairs: Compatibility,
) -> Floats:
    """Weighted ``P(knowledge | cell, s)`` under the mean of one attribute's distribution."""
    mean = register.means[a]
    assert register.eta is not None

    def share(pi: Floats) -> Floats:
        scaled = sparse.csr_array(cells.multiply(pi[None, :]))
        return pair_values(weight, scaled, pairs) / np.maximum((cells @ pi)[pairs.cell], 1e-300)

    own = np.stack([share(pi) for pi in mean], axis=1)
    return tempered_fit(own, share(register.share @ mean), float(register.eta[a]))


def told_by(other: Posterior, table: ReleasedTable, victims: Victims) -> Floats:
    """What a further release adds to the belief about each victim of a table: ``p_A / p_L``.

    A release none of whose rows fits a victim does not hold the victim, and says nothing.
    """
    out = np.ones((len(victims), len(table.secret.domain)))
    there = in_terms_of(victims, table, other.table)
    attacker, _, records = attacker_weights(other, there)
    learner, _ = learner_weights(other, there, "predictive")
    inside = records > 0
    ratio = attacker[inside] / attacker[inside].sum(axis=1, keepdims=True)
    ratio /= np.maximum(learner[inside] / learner[inside].sum(axis=1, keepdims=True), TINY)
    out[inside] = by_secret(ratio, other.table, table)
    return out


def worlds_apart(post: Posterior, victims: Victims) -> tuple[Floats, Ints]:
    """Random worlds of all releases: `random_world_weights`, intersected with the further ones."""
    if post.editions is not None and post.editions.matched:
        each = [random_world_weights(way.table, victims) for _, way in post.editions.matched]
        tops = [w / np.maximum(w.sum(axis=1, keepdims=True), TINY) for w, _ in each]
        return np.mean(tops, axis=0), np.max([found for _, found in each], axis=0)
    joint = None if post.editions is None else post.editions.joint
    owned = None if joint is None else joint.worlds
    weights, found = random_world_weights(post.table, victims, owned)
    for other in () if post.editions is None else post.editions.apart:
        told, records = worlds_apart(other, in_terms_of(victims, post.table, other.table))
        inside = records > 0
        weights[inside] *= by_secret(told[inside], other.table, post.table)
    return weights, found


def random_world_weights(
    table: ReleasedTable, victims: Victims, owned: sparse.csr_array | None = None
) -> tuple[Floats, Ints]:
    """Unnormalised random-worlds belief of each distinct victim, and its compatible records.

    `owned` says of a vertical table whose an item can be, if more is known than its groups.
    """
    victims, rows, compatible = matched(table, victims)
    fit = []
    for weight, cells, pairs in zip(victims.weights, rows.evidence, compatible, strict=True):
        share = sparse.csr_array(cells.multiply(1.0 / cells.sum(axis=1)[:, None]))
        fit.append(pair_values(weight, share, pairs)[:, None])
    if table.scheme == "vertical":
        secrets = rows.gather(_group_shares(table) if owned is None else owned)
    elif table.secrets_known:
        secrets = rows.secrets
    else:
        matrix = table.secret.evidence.matrix.toarray()
        secrets = rows.gather((matrix / matrix.sum(axis=1, keepdims=True))[table.secret.codes])
    weights, found = accumulate(victims, rows.index, compatible, fit, secrets)
    return weights.relative()[0], found


def candidate_rows(table: ReleasedTable, victims: Victims) -> Ints:
    """Number of released rows that each distinct victim could own."""
    victims, rows, compatible = matched(table, victims)
    possible = [np.ones((len(pairs.cell), 1)) for pairs in compatible]
    found, _ = accumulate(victims, rows.index, compatible, possible, rows.counts[:, None])
    return np.rint(found.number[:, 0]).astype(np.int64)


def _group_shares(table: ReleasedTable) -> Floats:
    """Share of each secret in the group of every item of a vertical table."""
    size = len(table.secret.domain)
    keys = table.group_codes.astype(np.int64) * size + table.secret_codes
    counts = np.bincount(keys, minlength=table.n_groups * size).reshape(table.n_groups, size)
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(share[table.group_codes])


def _matched_in_all_ways(
    ways: Sequence[tuple[float, Posterior]], victims: Victims
) -> tuple[Floats, None, Ints]:
    """Expected rows of each victim by secret, over all ways to match two releases."""
    total, most = np.zeros(()), np.zeros(len(victims), dtype=np.int64)
    for share, post in ways:
        known, rows, compatible = matched(post.table, victims)
        fit = _exact_fits(post, known, compatible)
        weights, found = accumulate(known, rows.index, compatible, fit, rows.secrets)
        total, most = total + share * weights.plain, np.maximum(most, found)
    return total, None, most


def _exact_fits(
    post: Posterior, victims: Victims, compatible: tuple[Compatibility, ...]
) -> list[Floats]:
    return [
        _exact_fit(post, name, victims.weights[a], compatible[a])
        for a, name in enumerate(post.table.attributes)
    ]


def _exact_fit(
    post: Posterior, name: str, weight: sparse.csr_array, pairs: Compatibility
) -> Floats:
    """``E[pi(k) / pi(y)]`` summed over what is known: a ratio of closed-form means (MODEL 1.3)."""
    tree = post.trees[name]
    pattern = post.table.columns[name].evidence.matrix
    known = np.repeat(np.arange(len(pairs.pointer) - 1), np.diff(pairs.pointer))
    common = sparse.csr_array(weight[known].multiply(pattern[pairs.cell]))
    return np.asarray(common @ tree.mean.T) / np.exp(tree.cell_log_mean.T[pairs.cell])


def _weighted(
    victims: Victims,
    rows: IndexedRecords,
    compatible: tuple[Compatibility, ...],
    fit: list[Floats],
    share: Floats,
    means: list[Floats],
    eta: Floats | None,
) -> list[Floats]:
    """``[pi(r)/pi(y)]^eta [m(r)/m(y)]^(1 - eta)``: how well a cell fits, with weights (MODEL 1.9).

    What is common to all secrets comes from the marginal ``m = sum_s pi_S pi_a|s`` of `means`.
    """
    if eta is None:
        return fit
    out = []
    for a, (own, weight) in enumerate(zip(fit, eta, strict=True)):
        marginal, cells = share @ means[a], rows.evidence[a]
        scaled = sparse.csr_array(cells.multiply(marginal[None, :]))
        common = pair_values(victims.weights[a], scaled, compatible[a])
        out.append(tempered_fit(own, common / (cells @ marginal)[compatible[a].cell], weight))
    return out


def _sampled(
    post: Posterior,
    victims: Victims,
    rows: IndexedRecords,
    compatible: tuple[Compatibility, ...],
    secrets: Floats,
) -> tuple[Floats, Floats, Ints]:
    """Known secrets, crossing cells: given t* the ``pi_a`` are independent over attributes.

    So the expectation of the product over attributes is the product of the expectations.
    """
    cuts = batch_slices(post.n_chains, post.n_draws)
    names = post.table.attributes
    fits: list[list[Floats]] = [[] for _ in names]
    means: list[list[Floats]] = [[] for _ in names]
    for a, name in enumerate(names):
        weight, cells, pairs = victims.weights[a], rows.evidence[a], compatible[a]
        averaged = post.averaged(f"fit_{name}", cuts)
        if averaged is None:
            draws = post.draws[f"pi_{name}"].to_numpy()
            fits[a] = [mean_fit(draws[chain, cut], weight, cells, pairs) for chain, cut in cuts]
        else:
            size = len(post.secret_mean)
            fits[a] = [_recorded_fit(fit, size, weight, cells, pairs) for fit in averaged]
        means[a] = [*post.batch_means(name, cuts)]
    sizes = np.array([cut.stop - cut.start for _, cut in cuts], dtype=float)

    def weights_of(fit: list[Floats], mean: list[Floats]) -> tuple[Scaled, Ints]:
        share = post.secret_mean
        fit = _weighted(victims, rows, compatible, fit, share, mean, post.eta)
        return accumulate(victims, rows.index, compatible, fit, secrets)

    batches = [weights_of([f[b] for f in fits], [m[b] for m in means])[0] for b in range(len(cuts))]
    whole, found = weights_of(
        *([np.average(np.stack(x), axis=0, weights=sizes) for x in each] for each in (fits, means))
    )
    weights, *parts = whole.relative(*batches)
    return weights, np.stack(parts), found


def _recorded_fit(
    fit: Floats, size: int, weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility
) -> Floats:
    """``sum_k weight(k) P(R_j = k)`` from probabilities by sensitive value and entry of `cells`."""
    by_secret = fit.reshape(size, -1)[:, : cells.nnz]  # the cells of a register come last
    shape = (cells.indices, cells.indptr)
    return np.stack(
        [
            pair_values(weight, sparse.csr_array((p, *shape), shape=cells.shape), pairs)
            for p in by_secret
        ],
        axis=1,
    )


def _latent(
    post: Posterior, victims: Victims, rows: IndexedRecords, compatible: tuple[Compatibility, ...]
) -> tuple[Floats, Floats, Ints]:
    """Secrets behind a channel: rows count for a secret by its probability, draw by draw."""
    table = post.table
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    secret = post.draws[f"pi_{table.sensitive}"].to_numpy()
    eta = weight_draws(post)
    cuts = batch_slices(post.n_chains, post.n_draws)
    most = max(LEAST_DRAWS, MOST_LINES // len(table.secret.codes))
    step = max(1, post.n_chains * post.n_draws // most)
    found = np.zeros(len(victims), dtype=np.int64)
    nothing = np.zeros((len(victims), len(table.secret.domain)))
    batches = []
    for chain, cut in cuts:
        total = Scaled(nothing, nothing.astype(np.int64))
        chosen = range(cut.start, cut.stop, step)
        for t in chosen:
            now = None if eta is None else eta[chain, t]
            pi = [d[chain, t] for d in draws]
            weights, found = draw_weights(
                table, victims, rows, compatible, secret[chain, t], pi, now
            )
            total = total.plus(weights)
        batches.append(Scaled(total.number / len(chosen), total.power))
    parts = np.stack(Scaled.relative(*batches))
    return np.mean(parts, axis=0), parts, found


def draw_weights(
    table: ReleasedTable,
    victims: Victims,
    rows: IndexedRecords,
    compatible: tuple[Compatibility, ...],
    share: Floats,
    pi: list[Floats],
    eta: Floats | None,
) -> tuple[Scaled, Ints]:
    """Unnormalised ``p_A`` under one draw of the distributions and, if there are any, weights."""
    if table.secrets_known:
        secrets = rows.secrets
    else:
        release = table.secret.evidence.matrix.toarray()[table.secret.codes]
        seen = [
            (cells @ p.T)[column.codes]
            for cells, p, column in zip(rows.evidence, pi, table.columns.values(), strict=True)
        ]
        joint = release * weighted_joint(share, seen, eta).relative()[0]
        secrets = rows.gather(joint / joint.sum(axis=1, keepdims=True))
    fit = [
        mean_fit(p[None], weight, cells, pairs)
        for p, weight, cells, pairs in zip(
            pi, victims.weights, rows.evidence, compatible, strict=True
        )
    ]
    fit = _weighted(victims, rows, compatible, fit, share, pi, eta)
    return accumulate(victims, rows.index, compatible, fit, secrets)


def _vertical(
    post: Posterior, victims: Victims, rows: IndexedRecords, compatible: tuple[Compatibility, ...]
) -> tuple[Floats, Floats | None, Ints]:
    """Anatomy: an item counts for a secret by the probability that a slot of it owns the item."""
    fit = item_fits(victims, rows, compatible)
    parts = [
        accumulate(victims, rows.index, compatible, fit, rows.gather(owned))
        for owned in post.ownership
    ]
    found = parts[0][1]
    batches = np.stack(Scaled.relative(*(weights for weights, _ in parts)))
    simulated = post.simulated and post.editions is None
    return np.mean(batches, axis=0), batches if simulated else None, found


def item_fits(
    victims: Victims, rows: IndexedRecords, compatible: tuple[Compatibility, ...]
) -> list[Floats]:
    """How well the values of each item fit what is known, whoever owns it."""
    return [
        pair_values(weight, cells, pairs)[:, None]
        for weight, cells, pairs in zip(victims.weights, rows.evidence, compatible, strict=True)
    ]


# -------------------------------------------------------------------------------------------------
# How well a released cell fits what is known: ``P(knowledge | cell, secret)``, pair by pair.


def mean_fit(
    draws: Floats, weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility
) -> Floats:
    """Average over draws ``pi[s, k]`` of ``sum_k w_v(k) pi(k) E_y(k) / sum_k pi(k) E_y(k)``.

    The conditional probabilities are averaged, not sampled values (Rao-Blackwell, MODEL 1.4).
    """
    out = np.zeros((len(pairs.cell), draws.shape[1]))
    _add_fits(
        np.ascontiguousarray(draws),
        (weight.indptr, weight.indices, weight.data),
        (cells.indptr, cells.indices, cells.data),
        pairs,
        out,
    )
    return out / len(draws)


@njit(cache=True, nogil=True)
def _add_fits(draws, weight, cells, pairs, out):  # type: ignore[no-untyped-def]
    w_pointer, w_index, w_data = weight
    c_pointer, c_index, c_data = cells
    n_secrets, size = draws.shape[1], draws.shape[2]
    total = np.empty(len(c_pointer) - 1)
    known = np.zeros(size)
    for t in range(len(draws)):
        for s in range(n_secrets):
            pi = draws[t, s]
            for y in range(len(total)):
                total[y] = 0.0
                for i in range(c_pointer[y], c_pointer[y + 1]):
                    total[y] += pi[c_index[i]] * c_data[i]
            for v in range(len(pairs.pointer) - 1):
                for i in range(w_pointer[v], w_pointer[v + 1]):
                    known[w_index[i]] = w_data[i]
                for p in range(pairs.pointer[v], pairs.pointer[v + 1]):
                    y = pairs.cell[p]
                    fit = 0.0
                    for i in range(c_pointer[y], c_pointer[y + 1]):
                        fit += known[c_index[i]] * pi[c_index[i]] * c_data[i]
                    # Tiny weights leave values, or all of a cell, without any probability in a
                    # draw; what is compatible stays possible.
                    out[p, s] += max(fit / total[y] if total[y] > 0.0 else 0.0, LEAST_FIT)
                for i in range(w_pointer[v], w_pointer[v + 1]):
                    known[w_index[i]] = 0.0
