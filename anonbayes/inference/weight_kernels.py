"""Kernels of weighted evidence: log scores, their derivatives and modes, errors from folds.

In the Numba kernels, `f` is a `Features`; no array of records by secrets is ever built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints, Scaled
from anonbayes.inference.features import Features

CENTRE, SPREAD = 1.0, 0.5
"""Normal prior of a weight, truncated at zero: approximately the product model."""
STEPS = 60
"""Largest number of Newton steps."""
WIDE, BLOCK = 16, 1024
"""Number of attributes from which matrix products pay, and of records by secrets in a block."""


@njit(cache=True, nogil=True)
def _record(r, f, x, own):  # type: ignore[no-untyped-def]
    """Write features of record r, without its own row, to ``x[0]`` (share) and ``x[1:]``."""
    n_secrets = len(f.share)
    latent = len(f.likelihood) > 0
    z = f.secret[r]
    for a in range(x.shape[0]):
        base = f.share if a == 0 else f.cell[f.codes[r, a - 1]]
        step = f.share_step if a == 0 else f.step[f.codes[r, a - 1]]
        if not latent:
            for s in range(n_secrets):
                x[a, s] = base[s]
            x[a, z] += step[z]
            continue
        # Share of the row in the counts of each secret, by this attribute alone.
        top = -np.inf
        for s in range(n_secrets):
            own[s] = f.share[s] + (base[s] if a > 0 else 0.0)
            top = max(top, own[s])
        total = 0.0
        for s in range(n_secrets):
            own[s] = np.exp(own[s] - top) * f.likelihood[z, s]
            total += own[s]
        for s in range(n_secrets):
            x[a, s] = base[s] + own[s] / total * step[s]


@njit(cache=True, nogil=True)
def _log_score(r, f, x, eta, p, w):  # type: ignore[no-untyped-def]
    """Log score of record r; writes its belief to `p`, and the belief given its report to `w`."""
    n_secrets = len(p)
    for s in range(n_secrets):
        p[s] = x[0, s]
    for a in range(len(eta)):
        for s in range(n_secrets):
            p[s] += eta[a] * x[a + 1, s]
    top = -np.inf
    for s in range(n_secrets):
        top = max(top, p[s])
    total = 0.0
    for s in range(n_secrets):
        p[s] = np.exp(p[s] - top)
        total += p[s]
    mine = 0.0
    z = f.secret[r]
    for s in range(n_secrets):
        p[s] /= total
        if len(f.likelihood) > 0:
            w[s] = p[s] * f.likelihood[z, s]
        else:
            w[s] = p[s] if s == z else 0.0
        mine += w[s]
    if mine <= 0.0:  # underflow: use logarithms, for a known secret
        for s in range(n_secrets):
            w[s] = 1.0 if s == z else 0.0
        score = x[0, z] - top - np.log(total)
        for a in range(len(eta)):
            score += eta[a] * x[a + 1, z]
        return score
    for s in range(n_secrets):
        w[s] /= mine
    return np.log(mine)


@njit(cache=True, nogil=True)
def _gradient(x, p, w, g):  # type: ignore[no-untyped-def]
    """Gradient of a record's log score: mean features after observing its secret minus before."""
    for a in range(len(g)):
        g[a] = 0.0
        for s in range(len(p)):
            g[a] += (w[s] - p[s]) * x[a + 1, s]


@njit(cache=True, nogil=True)
def derivatives(eta, f, gradient, fisher, observed):  # type: ignore[no-untyped-def]
    """Value, gradient and information of the log scores, summed over all rows."""
    n_secrets, size = len(f.share), len(eta)
    x, own = np.empty((size + 1, n_secrets)), np.empty(n_secrets)
    p, w = np.empty(n_secrets), np.empty(n_secrets)
    g, away = np.empty(size), np.empty((n_secrets, size))
    latent = len(f.likelihood) > 0
    wide = size > WIDE and not latent
    at_once = max(1, BLOCK // n_secrets)
    block = np.empty((size, at_once * n_secrets if wide else 0))
    filled = 0
    value = 0.0
    gradient[:] = 0.0
    fisher[:] = 0.0
    observed[:] = 0.0
    for r in range(len(f.rows)):
        n = f.rows[r]
        _record(r, f, x, own)
        value += n * _log_score(r, f, x, eta, p, w)
        _gradient(x, p, w, g)
        for a in range(size):
            gradient[a] += n * g[a]
        if wide:
            filled = _fill_spread(n, p, x, block, filled)
            if filled == block.shape[1]:
                fisher += np.dot(block, block.T)
                filled = 0
        else:
            _add_spread(n, p, x, away, fisher)
        if latent:
            _add_spread(-n, w, x, away, observed)
    if filled > 0:
        rest = np.ascontiguousarray(block[:, :filled])
        fisher += np.dot(rest, rest.T)
    for a in range(size):
        for b in range(a):
            fisher[b, a] = fisher[a, b]
            observed[b, a] = observed[a, b]
    observed += fisher
    return value


@njit(cache=True, nogil=True)
def _add_spread(n, p, x, away, out):  # type: ignore[no-untyped-def]
    """Add n times the covariance of the features under the belief p, below the diagonal."""
    for a in range(len(out)):
        mean = 0.0
        for s in range(len(p)):
            mean += p[s] * x[a + 1, s]
        for s in range(len(p)):
            away[s, a] = x[a + 1, s] - mean
    for s in range(len(p)):
        for a in range(len(out)):
            here = n * p[s] * away[s, a]
            for b in range(a + 1):
                out[a, b] += here * away[s, b]


@njit(cache=True, nogil=True)
def _fill_spread(n, p, x, block, filled):  # type: ignore[no-untyped-def]
    """Set columns of which products add up to what `_add_spread` adds; where the next begins."""
    root = np.sqrt(n * p)
    for a in range(len(block)):
        mean = 0.0
        for s in range(len(p)):
            mean += p[s] * x[a + 1, s]
        for s in range(len(p)):
            block[a, filled + s] = root[s] * (x[a + 1, s] - mean)
    return filled + len(p)


@njit(cache=True, nogil=True)
def total_scores(etas, f):  # type: ignore[no-untyped-def]
    """Log scores of all rows under each of several weights ``(weights, A)``, secrets known."""
    n_secrets, size = len(f.share), etas.shape[1]
    x, own = np.empty((size + 1, n_secrets)), np.empty(n_secrets)
    at_once = max(1, BLOCK // n_secrets)
    first, block = np.empty(at_once * n_secrets), np.empty((size, at_once * n_secrets))
    out = np.zeros(len(etas))
    for start in range(0, len(f.rows), at_once):
        stop = min(start + at_once, len(f.rows))
        for r in range(start, stop):
            _record(r, f, x, own)
            place = (r - start) * n_secrets
            first[place : place + n_secrets] = x[0]
            block[:, place : place + n_secrets] = x[1:]
        level = np.dot(etas, block)
        for e in range(len(etas)):
            for r in range(start, stop):
                place = (r - start) * n_secrets
                top, total = -np.inf, 0.0
                for s in range(place, place + n_secrets):
                    level[e, s] += first[s]
                    top = max(top, level[e, s])
                for s in range(place, place + n_secrets):
                    total += np.exp(level[e, s] - top)
                mine = level[e, place + f.secret[r]]
                out[e] += f.rows[r] * (mine - top - np.log(total))
    return out


@njit(cache=True, nogil=True)
def log_scores(eta, f):  # type: ignore[no-untyped-def]
    """Log score of every record under fixed weights."""
    n_secrets, size = len(f.share), len(eta)
    x, own = np.empty((size + 1, n_secrets)), np.empty(n_secrets)
    p, w = np.empty(n_secrets), np.empty(n_secrets)
    out = np.empty(len(f.rows))
    for r in range(len(f.rows)):
        _record(r, f, x, own)
        out[r] = _log_score(r, f, x, eta, p, w)
    return out


@njit(cache=True, nogil=True)
def left_out_scores(eta, covariance, f):  # type: ignore[no-untyped-def]
    """Log score of every record under the weights estimated from the other rows (one step)."""
    n_secrets, size = len(f.share), len(eta)
    x, own = np.empty((size + 1, n_secrets)), np.empty(n_secrets)
    p, w = np.empty(n_secrets), np.empty(n_secrets)
    g, other = np.empty(size), np.empty(size)
    out = np.empty(len(f.rows))
    for r in range(len(f.rows)):
        _record(r, f, x, own)
        _log_score(r, f, x, eta, p, w)
        _gradient(x, p, w, g)
        for a in range(size):
            other[a] = eta[a]
            for b in range(size):
                other[a] -= covariance[a, b] * g[b]
            other[a] = max(other[a], 0.0)
        out[r] = _log_score(r, f, x, other, p, w)
    return out


@njit(cache=True, nogil=True)
def dense_features(f, out):  # type: ignore[no-untyped-def]
    """Features of every record, share first, ``out[record, 1 + attribute, s]``."""
    own = np.empty(len(f.share))
    for r in range(len(f.rows)):
        _record(r, f, out[r], own)


def fold_spread(lifts: Floats) -> Floats:
    """Spread of log lifts over the folds, so that normal mixtures of it have their error.

    By the jackknife lifts learned from all rows have the covariance ``(F - 1) / F sum_f d_f d_f'``,
    with ``d_f`` the distance of those learned without fold f to the mean: that of ``sum_f z_f
    fold_spread(lifts)[f]`` with independent normal ``z``.
    """
    return np.asarray(np.sqrt((len(lifts) - 1) / len(lifts)) * (lifts - lifts.mean(axis=0)))


def fold_error(estimates: Floats) -> Floats:
    """Jackknife standard error of an estimate, from those without each fold (in rows)."""
    return np.sqrt((fold_spread(estimates) ** 2).sum(axis=0))


def lift_spread(lifts: Floats, pooling: float, rows: Floats) -> Floats:
    """Spread of log lifts for draws: `fold_spread`, and as last row the error due to pooling.

    The lift of ``c`` rows has the information ``kappa + c``, of which ``kappa``, the `pooling`,
    comes from its prior; this adds ``kappa / (kappa + c)^2``. `rows` are ``n_s m(k)``.
    """
    information = np.exp(lifts.mean(axis=0)) * (pooling + rows)
    doubt = np.sqrt(pooling) / np.maximum(information, pooling)
    return np.concatenate([fold_spread(lifts), doubt[None]])


def unsettled(precision: Floats, spread: float) -> Floats:
    """Error of weights that only their prior distinguishes, which leaving out folds does not show.

    If the prior's centre were also drawn, it would add ``H^-1 P H^-1`` to the covariance of the
    mode. What it would add if the other weights were known is subtracted, as far as the data
    determine it.
    """
    alone = np.diag(precision)
    known = 1.0 - np.minimum(spread**-2.0 / alone, 1.0) ** 2
    more = (np.linalg.inv(precision) ** 2).sum(axis=0) - known * alone**-2.0
    return np.sqrt(np.maximum(more, 0.0)) / spread


MOST_NATS = 60.0
"""Bound on log evidence of a cell, so that products of several remain finite."""


def tempered_fit(own: Floats, common: Floats, weight: float) -> Floats:
    """``P(knowledge | cell, s)`` with the weight of one attribute: ``own^eta common^(1 - eta)``.

    `own` is ``pi_a|s(known and y) / pi_a|s(y)``, secrets last; `common` is the same for the
    marginal.
    """
    seen = own > 0
    log_own = np.log(np.where(seen, own, 1.0))
    both = common[..., None]
    # The marginal may underflow if a secret that nobody has takes the value; then use the own.
    log_common = np.log(np.where(both > 0, both, np.where(seen, own, 1.0)))
    power = np.minimum(weight * log_own + (1.0 - weight) * log_common, MOST_NATS)
    return np.asarray(np.where(seen, np.exp(power), 0.0))


def weighted_joint(
    share: Floats, known: list[Floats], weights: Floats | None, tilt: Floats | None = None
) -> Scaled:
    """``p(s, r)`` with weighted evidence: the product model's ``p(r)`` times ``softmax(L)``.

    `known` are ``P(known | s)`` by attribute, ``(records, S)``, and so are `tilt`, the corrections.
    Weights of one give the product model itself; None leaves it exactly as it is.
    """
    product = Scaled.product(np.tile(share, (len(known[0]) if known else 1, 1)), known)
    if weights is None:
        return product
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.tile(np.log(share), (len(product.number), 1))
        for weight, part in zip(weights, known, strict=True):
            if weight > 0:
                score += weight * np.log(part)
        score += 0.0 if tilt is None else tilt
        top = score.max(axis=1, keepdims=True)
        belief = np.exp(score - np.where(np.isfinite(top), top, 0.0))
        belief /= belief.sum(axis=1, keepdims=True)
    possible = np.where(product.number > 0, product.power, np.iinfo(np.int64).min)
    largest = possible.argmax(axis=1)[:, None]
    power = np.take_along_axis(product.power, largest, axis=1)
    total = product.relative()[0].sum(axis=1, keepdims=True)
    return Scaled(np.nan_to_num(belief) * total, np.broadcast_to(power, belief.shape))


def record_tilts(
    corrections: Sequence[Floats] | None,
    share: Floats,
    means: Sequence[Floats],
    known: Sequence[sparse.csr_array],
    codes: Ints,
) -> Floats | None:
    """Sum the corrections ``c_a(k, s)`` of what is known about records, ``(records, S)``.

    `known` are distinct pieces of knowledge by attribute, ``(pieces, K_a)``, `codes` those of the
    records. Values that the knowledge does not distinguish are averaged by the marginals of ``pi``.
    """
    if corrections is None:
        return None
    out = np.zeros((len(codes), len(share)))
    for a, values in enumerate(corrections):
        marginal = share @ means[a]
        inside = np.maximum(known[a] @ marginal, np.finfo(float).tiny)
        out += (known[a] @ (marginal * values).T / inside[:, None])[codes[:, a]]
    return out


# -- modes ---------------------------------------------------------------------------------------


def maximise_alone(parts: list[Features], a: int) -> Floats:
    """`maximise` for a single attribute, for features that only differ by fold.

    Secrets are known. A row is scored with the sums over all other secrets, and its own without it.
    """
    one = parts[0]
    n_secrets = len(one.share)
    cells, code = np.unique(one.codes[:, a], return_inverse=True)
    place, shape = code * n_secrets + one.secret, (len(cells), n_secrets)
    rows = np.stack(
        [np.bincount(place, f.rows, minlength=shape[0] * n_secrets).reshape(shape) for f in parts]
    )
    x = np.stack([f.cell[cells] for f in parts])
    left = x + np.stack([f.step[cells] for f in parts])

    def look(eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return value, slope and curvature of each fold's score."""
        weight = eta[:, None, None]
        level, own = one.share + weight * x, one.share + one.share_step + weight * left
        top = level.max(axis=-1, keepdims=True)
        level, mine = np.exp(level - top), np.exp(own - top)
        sums = []
        for power in range(3):
            each = level * x**power
            sums.append(each.sum(axis=-1, keepdims=True) - each + mine * left**power)
        total = np.maximum(sums[0], np.finfo(float).tiny)
        mean, square = sums[1] / total, sums[2] / total
        away = (eta - CENTRE) / SPREAD**2
        value = (rows * (own - top - np.log(total))).sum(axis=(1, 2))
        return (
            value - 0.5 * away * (eta - CENTRE),
            (rows * (left - mean)).sum(axis=(1, 2)) - away,
            (rows * (square - mean**2)).sum(axis=(1, 2)) + SPREAD**-2,
        )

    eta = np.full(len(parts), CENTRE)
    value, slope, bend = look(eta)
    for _ in range(STEPS):
        pace = np.ones(len(parts))
        if np.abs(np.maximum(eta + slope / bend, 0.0) - eta).max() < 1e-8:
            break
        while True:
            new = np.maximum(eta + pace * slope / bend, 0.0)
            found = look(new)
            worse = found[0] < value - 1e-12 * np.abs(value)
            if not worse.any() or pace.min() < 1e-6:
                break
            pace = np.where(worse, pace / 2, pace)
        eta, (value, slope, bend) = new, found
    return eta


Sums = tuple[float, Floats, Floats, Floats]


def information(eta: Floats, features: Features) -> Sums:
    """Value, gradient, expected and observed information of the log scores, summed over rows."""
    size = len(eta)
    work = np.empty(size), np.empty((size, size)), np.empty((size, size))
    return (derivatives(eta, features, *work), *work)


def maximise(features: Features) -> tuple[Floats, Floats, Floats]:
    """`newton` of the rows' log scores."""
    return newton(features.codes.shape[1], lambda eta: information(eta, features))


def newton(size: int, sums: Callable[[Floats], Sums]) -> tuple[Floats, Floats, Floats]:
    """Find the mode of the non-negative weights by Newton's method, with precision and gradient.

    `sums` are those of `information`. A weight leaves zero only if the score increases. Steps that
    overshoot are halved. If secrets are latent and the observed information is not positive
    definite, the expected one is used.
    """
    eta = np.full(size, CENTRE)
    prior = np.eye(size) / SPREAD**2

    def look(eta: Floats) -> Sums:
        value, gradient, fisher, observed = sums(eta)
        away = (eta - CENTRE) / SPREAD**2
        return (
            value - 0.5 * float(away @ (eta - CENTRE)),
            gradient - away,
            fisher + prior,
            observed + prior,
        )

    value, gradient, fisher, observed = look(eta)
    for _ in range(STEPS):
        free = (eta > 0) | (gradient > 0)
        curve = observed if _is_hill(observed) else fisher
        step = np.zeros(size)
        step[free] = np.linalg.solve(curve[np.ix_(free, free)], gradient[free])
        if np.abs(np.maximum(eta + step, 0.0) - eta).max(initial=0.0) < 1e-8:
            break
        pace = 1.0
        while True:
            new = np.maximum(eta + pace * step, 0.0)
            found = look(new)
            if found[0] >= value - 1e-12 * abs(value) or pace < 1e-6:
                break
            pace /= 2
        eta, (value, gradient, fisher, observed) = new, found
    precision = observed if _is_hill(observed) else fisher
    return eta, precision, np.where(eta > 0, 0.0, np.minimum(gradient, 0.0))


def _is_hill(matrix: Floats) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
