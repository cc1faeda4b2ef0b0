"""Beliefs of an attacker who knows that the victim is in the table.

``p_A(s | r_v, t*)`` is proportional to the expected number of rows with secret s that could be the
victim's (Groups (8), (15)), summed over all compatible rows of all groups. Under random worlds, all
compatible cleartext tables are equally likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints, Scaled
from anonbayes.beliefs.index import Compatibility, IndexedRecords, pair_values, records_of
from anonbayes.beliefs.learner import (
    LEAST_FIT,
    batch_averages,
    eta_draws,
    learner_weights,
    mean_shares,
)
from anonbayes.beliefs.register import PRIOR_ROWS, Register
from anonbayes.beliefs.victims import Victims, batch_slices, by_secret, in_terms_of
from anonbayes.inference.weight_kernels import tempered_fit, weighted_joint
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

TINY = np.finfo(float).tiny
LEAST_DRAWS, MOST_LINES = 400, 40_000_000
"""Fewest draws for latent secrets, and most lines times draws (about ten seconds)."""


def matched(table: ReleasedTable, victims: Victims) -> tuple[Victims, IndexedRecords]:
    """Return the victims and the table's rows; a known group becomes one more attribute."""
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
    return victims, rows


def attacker_weights(post: Posterior, victims: Victims) -> tuple[Floats, Floats | None, Ints]:
    """Unnormalised ``p_A`` of each distinct victim, ``(victims, S)``, each on its own scale.

    Also returns the same from batches of the draws (None if exact), and the number of distinct
    records compatible with each victim: 0 means that no row fits.
    """
    editions = post.editions
    if editions is not None and editions.worlds is not None:
        weights, records = editions.worlds.expected(victims)
        return weights[:, : len(post.table.secret.domain)], None, records
    if editions is not None and (editions.apart or editions.linked is not None):
        if editions.linked is None:
            weights, batches, records = attacker_weights(replace(post, editions=None), victims)
        else:
            rows, batches = editions.linked, None
            fit = _weighted(victims, rows, None, post.secret_mean, mean_shares(post), post.eta)
            sums, records = rows.add_up(victims, rows.secrets, fit)
            weights = sums.relative()[0]
        told = np.ones_like(weights)
        for other in editions.apart:
            if editions.linked is None or other.table.scheme == "vertical":
                told *= added_by(other, post.table, victims)
        return weights * told, None if batches is None else batches * told, records
    victims, rows = matched(post.table, victims)
    if post.table.scheme == "vertical":
        return _vertical(post, victims, rows)
    if not post.table.secrets_known:
        return _latent(post, victims, rows)
    if post.register is not None and post.register.corrects:
        return _registered(post.register, victims, rows)
    if post.simulated:
        return _sampled(post, victims, rows)
    exact = _exact_fits(post, victims, rows) if post.method == "exact" else None
    fit = _weighted(victims, rows, exact, post.secret_mean, post.means, post.eta, post.corrections)
    sums, records = rows.add_up(victims, rows.secrets, fit)
    return sums.relative()[0], None, records


def _registered(
    register: Register, victims: Victims, rows: IndexedRecords
) -> tuple[Floats, None, Ints]:
    """Attacker who has a register, with weighted evidence (MODEL 1.10).

    A row with cells y and secret s is the victim's with odds ``p(s | r) / m(y, s)``. For a victim
    known only in part, the matching people of the register stand for the possible records.
    """
    combinations = Victims(rows.index.codes, rows.evidence, np.arange(len(rows.index.codes)), None)
    model = PRIOR_ROWS * register.joint(combinations)
    odds = rows.secrets / np.maximum(register.mass(combinations) + model, TINY)
    sums, records = rows.add_up(victims, odds)
    weights = sums.plain
    whole, values = victims.whole_records()
    weights[whole] *= register.belief(values[whole])
    if not whole.all():
        rest = victims.some(~whole)
        others = Victims.of_records(register.codes, register.sizes)
        of_record = register.expected * rows.add_up(others, odds)[0].plain
        # The product model's people: those in the cells who match, by secret.
        fit = _weighted(rest, rows, None, register.share, list(register.means), register.eta)
        product, _ = rows.add_up(rest, odds * model, fit)
        weights[~whole] = register.mass(rest, of_record) + product.plain
    return weights, None, records


def added_by(other: Posterior, table: ReleasedTable, victims: Victims) -> Floats:
    """Factor ``p_A / p_L`` by which a further release changes the belief about each victim.

    If no row of the release fits a victim, the victim is not in it, and the factor is 1.
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
    """Random worlds of all releases: `random_world_weights` intersected with the further ones."""
    editions = post.editions
    if editions is None:
        return random_world_weights(post.table, victims)
    if editions.worlds is not None:
        weights, records = editions.worlds.expected(victims, evenly=True)
        return weights[:, : len(post.table.secret.domain)], records
    owned = None if editions.joint is None else editions.joint.worlds
    weights, records = random_world_weights(post.table, victims, owned)
    for other in editions.apart:
        told, there = worlds_apart(other, in_terms_of(victims, post.table, other.table))
        inside = there > 0  # compared with the release as a whole
        weights[inside] *= by_secret(told[inside] / other.secret_mean, other.table, post.table)
    return weights, records


def random_world_weights(
    table: ReleasedTable, victims: Victims, owned: sparse.csr_array | None = None
) -> tuple[Floats, Ints]:
    """Unnormalised random-worlds belief of each distinct victim, and its matching records.

    For a vertical table, `owned` can give the secrets of each item if more is known than its group.
    """
    victims, rows = matched(table, victims)
    sizes = [cells.sum(axis=1)[:, None] for cells in rows.evidence]
    each = zip(rows.item_fits(victims), sizes, rows.match(victims), strict=True)
    fit = [own / size[pairs.cell] for own, size, pairs in each]
    if table.scheme == "vertical":
        secrets = rows.gather(_group_shares(table) if owned is None else owned)
    elif table.secrets_known:
        secrets = rows.secrets
    else:
        matrix = table.secret.evidence.matrix.toarray()
        secrets = rows.gather((matrix / matrix.sum(axis=1, keepdims=True))[table.secret.codes])
    weights, records = rows.add_up(victims, secrets, fit)
    return weights.relative()[0], records


def candidate_rows(table: ReleasedTable, victims: Victims) -> Ints:
    """Number of released rows that each distinct victim could own."""
    victims, rows = matched(table, victims)
    possible = [np.ones((len(pairs.cell), 1)) for pairs in rows.match(victims)]
    number, _ = rows.add_up(victims, rows.counts[:, None], possible)
    return np.rint(number.plain[:, 0]).astype(np.int64)


def _group_shares(table: ReleasedTable) -> Floats:
    """Share of each secret in the group of every item of a vertical table."""
    size = len(table.secret.domain)
    keys = table.group_codes.astype(np.int64) * size + table.secret_codes
    counts = np.bincount(keys, minlength=table.n_groups * size).reshape(table.n_groups, size)
    share = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(share[table.group_codes])


def _exact_fits(post: Posterior, victims: Victims, rows: IndexedRecords) -> list[Floats]:
    """``E[pi(k) / pi(y)]`` summed over the possible values: a ratio of means (MODEL 1.3)."""
    out = []
    for a, (name, pairs) in enumerate(zip(post.table.attributes, rows.match(victims), strict=True)):
        tree = post.trees[name]
        known = victims.weights[a][pairs.knowledge]
        common = sparse.csr_array(known.multiply(rows.evidence[a][pairs.cell]))
        out.append(np.asarray(common @ tree.mean.T) / np.exp(tree.cell_log_mean.T[pairs.cell]))
    return out


def _weighted(
    victims: Victims,
    rows: IndexedRecords,
    fit: list[Floats] | None,
    share: Floats,
    means: list[Floats],
    eta: Floats | None,
    corrections: Sequence[Floats] | None = None,
) -> list[Floats]:
    """``[pi(r)/pi(y)]^eta [m(r)/m(y)]^(1 - eta)``: how well a cell fits, with weights (MODEL 1.9).

    The part common to all secrets comes from the marginal ``m = sum_s pi_S pi_a|s`` of `means`, as
    does ``pi(r)/pi(y)`` if no `fit` is given. Corrections multiply by ``exp(c(r) - c(y))``; the
    correction of a set is a mean weighted by the marginal.
    """
    known = list(zip(victims.weights, rows.evidence, rows.match(victims), strict=True))
    if fit is None:
        fit = [mean_fit(mean[None], *part) for mean, part in zip(means, known, strict=True)]
    if eta is None:
        return fit
    out = []
    for own, mean, weight, (knowledge, cells, pairs) in zip(fit, means, eta, known, strict=True):
        marginal = share @ mean
        scaled = sparse.csr_array(cells.multiply(marginal[None, :]))
        common = pair_values(knowledge, scaled, pairs) / (cells @ marginal)[pairs.cell]
        out.append(tempered_fit(own, common, weight))
        if corrections is not None:
            tilt = (marginal * corrections[len(out) - 1]).T
            both = sparse.csr_array(knowledge[pairs.knowledge].multiply(cells[pairs.cell]))
            of_both = (both @ tilt) / np.maximum(both @ marginal, TINY)[:, None]
            of_cell = (cells @ tilt) / np.maximum(cells @ marginal, TINY)[:, None]
            out[-1] *= np.exp(of_both - of_cell[pairs.cell])
    return out


def _sampled(
    post: Posterior, victims: Victims, rows: IndexedRecords
) -> tuple[Floats, Floats, Ints]:
    """Known secrets, crossing cells: given t*, the ``pi_a`` are independent over attributes.

    So the expectation of the product over attributes is the product of the expectations.
    """
    cuts = batch_slices(post.n_chains, post.n_draws)
    names = post.table.attributes
    fits: list[list[Floats]] = [[] for _ in names]
    means: list[list[Floats]] = [[] for _ in names]
    for a, name in enumerate(names):
        weight, cells, pairs = victims.weights[a], rows.evidence[a], rows.match(victims)[a]
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
        fit = _weighted(victims, rows, fit, post.secret_mean, mean, post.eta, post.corrections)
        return rows.add_up(victims, rows.secrets, fit)

    batches = [weights_of([f[b] for f in fits], [m[b] for m in means])[0] for b in range(len(cuts))]
    whole, records = weights_of(
        *([np.average(np.stack(x), axis=0, weights=sizes) for x in each] for each in (fits, means))
    )
    weights, *parts = whole.relative(*batches)
    return weights, np.stack(parts), records


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


def _latent(post: Posterior, victims: Victims, rows: IndexedRecords) -> tuple[Floats, Floats, Ints]:
    """Secrets behind a channel: each row counts for a secret by its probability, draw by draw."""
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in post.table.attributes]
    secret = post.draws[f"pi_{post.table.sensitive}"].to_numpy()
    eta = eta_draws(post)
    records = np.zeros(len(victims), dtype=np.int64)

    def of_draw(at: tuple[int, int]) -> Scaled:
        pi, weights = [d[at] for d in draws], None if eta is None else eta[at]
        sums, records[:] = draw_weights(post.table, victims, rows, secret[at], pi, weights)
        return sums

    most = max(LEAST_DRAWS, MOST_LINES // len(post.table.secret.codes))
    parts = np.stack(Scaled.relative(*batch_averages(post, most, of_draw)))
    return np.mean(parts, axis=0), parts, records


def draw_weights(
    table: ReleasedTable,
    victims: Victims,
    rows: IndexedRecords,
    share: Floats,
    pi: list[Floats],
    eta: Floats | None,
    corrections: Sequence[Floats] | None = None,
) -> tuple[Scaled, Ints]:
    """Unnormalised ``p_A`` under one draw of the distributions and of the weights, if any."""
    secrets = rows.secrets
    if not table.secrets_known:
        release = table.secret.evidence.matrix.toarray()[table.secret.codes]
        seen = [
            (cells @ p.T)[column.codes]
            for cells, p, column in zip(rows.evidence, pi, table.columns.values(), strict=True)
        ]
        joint = release * weighted_joint(share, seen, eta).relative()[0]
        secrets = rows.gather(joint / joint.sum(axis=1, keepdims=True))
    fit = _weighted(victims, rows, None, share, pi, eta, corrections)
    return rows.add_up(victims, secrets, fit)


def _vertical(
    post: Posterior, victims: Victims, rows: IndexedRecords
) -> tuple[Floats, Floats | None, Ints]:
    """Anatomy: an item counts for a secret by the probability that a slot of it owns the item."""
    fit = rows.item_fits(victims)
    parts = [rows.add_up(victims, rows.gather(owned), fit) for owned in post.ownership]
    batches = np.stack(Scaled.relative(*(weights for weights, _ in parts)))
    simulated = post.simulated and post.editions is None
    return np.mean(batches, axis=0), batches if simulated else None, parts[0][1]


# -------------------------------------------------------------------------------------------------
# How well a released cell fits the knowledge: ``P(knowledge | cell, secret)``, pair by pair.


def mean_fit(
    draws: Floats, weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility
) -> Floats:
    """Average over draws ``pi[s, k]`` of ``sum_k w_v(k) pi(k) E_y(k) / sum_k pi(k) E_y(k)``.

    Averages conditional probabilities rather than sampled values (Rao-Blackwell, MODEL 1.4).
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
                    # Tiny weights can leave a value, or a whole cell, without any probability
                    # in a draw; what is compatible stays possible.
                    out[p, s] += max(fit / total[y] if total[y] > 0.0 else 0.0, LEAST_FIT)
                for i in range(w_pointer[v], w_pointer[v + 1]):
                    known[w_index[i]] = 0.0
