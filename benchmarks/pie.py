"""Who sent it? PIE at the size of the paper: bounds, losses, entropy of scores, attacks.

The pictures go to ``benchmarks/out``. Peers: SciPy's k-d tree for the nearest neighbours, a plain
NumPy loop for the aggregation of hash reports, dense NumPy arithmetic for the Markov matcher.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

import anonbayes as ab
from anonbayes.estimation.closed_forms import variances

OUT = Path(__file__).parent / "out"
# Users and places of the check-ins in PIE Sec. 5.
N, K = 1_370_637, 10_500_393


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def bounds() -> None:
    print(f"Figure 4: alpha in bits, n = {N:,}, |X| = {K:,}")
    channel, making = timed(lambda: ab.RandomizedResponse(ab.IntegerDomain(K), 1.0))
    print(f"channel made in {making:.2f} s")
    ab.pie.bound(channel, N)  # load what it needs
    frame, seconds = timed(lambda: ab.pie.bounds_by_budget(channel, N, np.geomspace(0.05, 20, 100)))
    shown = ab.pie.bounds_by_budget(channel, N, [0.1, 1, 10, 16])
    print(shown[["general", "theorem", "exact"]].to_string(float_format="{:.3g}".format))
    print(f"100 budgets, three bounds each: {seconds:.4f} s")
    ab.pie.plot_bounds(frame).figure.savefig(OUT / "pie_figure4.png", dpi=120)
    for error in (0.5, 0.92):
        exact, seconds = timed(lambda error=error: ab.pie.choose(channel, N, error))
        theorem = ab.pie.choose(channel, N, error, kind="theorem")
        print(
            f"error > {error}: epsilon = {theorem.epsilon:.3f} by Theorem 11, {exact.epsilon:.3f} "
            f"by the supremum ({seconds:.2f} s)"
        )
    exact_bits()


def exact_bits() -> None:
    """I(U;Y) when every user holds one place, some popular and many not."""
    places = ab.reidentify.synthetic_traces(N, 1, K, seed=1)[:, 0]
    joint = sparse.csr_array((np.full(N, 1 / N), (np.arange(N), places)), shape=(N, K))
    channel = ab.RandomizedResponse(ab.IntegerDomain(K), 12.0)
    bits, seconds = timed(lambda: ab.pie.information(joint, channel))
    print(
        f"epsilon = 12, one place each: I(U;Y) = {float(bits):.4f}, I(U;X) = "
        f"{bits.user_value:.3f}, bound {ab.pie.bound(channel, N):.4f} bits ({seconds:.2f} s)"
    )


def epsilon_of_theta(theta: float, size: int) -> float:
    """Budget at which a report on so many symbols is true with probability `theta`."""
    return float(np.log1p(theta * size / (1 - theta)))


def loss_of(channel: ab.LocalHashing | ab.RandomizedResponse, p: np.ndarray, n: int) -> float:
    """Expected squared error of values with these shares among the users (PIE Props. 15, 16)."""
    return float(
        variances(p, n, channel.hit[: len(p)], channel.miss[: len(p)], sampled=False).sum()
    )


def losses(*, short: bool) -> None:
    """PIE Figure 12: the loss of hashing falls with g at fixed theta, to that of response."""
    rng = np.random.default_rng(0)
    size = K // 100 if short else K
    users = N // 100 if short else N
    p = 1.0 / np.arange(1, size + 1)
    held = rng.choice(size, users, p=p / p.sum())
    share = np.bincount(held, minlength=size) / users
    top = np.argsort(-share)[:100]
    theta = 0.5
    print(f"\nSum of l2 losses of the top 100 of {size:,} values, {users:,} users, theta = {theta}")
    print(f"{'g':>14}{'expected':>12}{'simulated':>12}{'all values':>12}{'seconds':>10}")
    for g in (10**3, 10**5, 10**7, 2_000_000_000):
        epsilon = epsilon_of_theta(theta, g)
        channel = ab.LocalHashing(size, epsilon, g=g)
        reports = channel.release_codes(held, seed=rng)
        found, seconds = timed(
            lambda c=channel, r=reports: c.estimate(r, method="empirical", values=top)
        )
        simulated = float(((found.p - share[top]) ** 2).sum())
        expected = loss_of(channel, share[top], users)
        every = loss_of(channel, share, users)
        print(f"{g:14,}{expected:12.3e}{simulated:12.3e}{every:12.3e}{seconds:10.2f}")
    invertible = ab.LocalHashing.invertible(size, epsilon_of_theta(theta, size))
    reports, sending = timed(lambda: invertible.release_codes(held, seed=rng))
    counts, seconds = timed(lambda: invertible.counts(reports))
    estimate = (counts / users - invertible.miss) / (invertible.hit - invertible.miss)
    simulated = float(((estimate[top] - share[top]) ** 2).sum())
    print(
        f"{invertible.g:14,}{loss_of(invertible, share[top], users):12.3e}"
        f"{simulated:12.3e}{loss_of(invertible, share, users):12.3e}{seconds:10.2f}"
        "   invertible, all values counted"
    )
    limit = float(share[top].sum()) * (1 - theta) / (users * theta)
    response = ab.RandomizedResponse(ab.IntegerDomain(size), epsilon_of_theta(theta, size))
    plain = loss_of(response, share[top], users)
    print(f"limit (Theorem 17) {limit:.3e}, randomized response {plain:.3e}")
    some = slice(0, 100)
    few = reports[: len(reports) // 100]
    _, loop = timed(lambda: [_numpy_count(few, x, invertible.g) for x in top[some]])
    ratio = loop * 100 * size / 100 / seconds
    print(
        f"released in {sending:.2f} s; NumPy, value by value, would take {ratio:,.0f} times longer"
    )


def _numpy_count(reports: ab.HashReports, x: int, g: int) -> int:
    return int(((reports.a * x + reports.b) % g == reports.y).sum())


def entropy(*, short: bool) -> None:
    rng = np.random.default_rng(1)
    n, m = (50_000, 500_000) if short else (1_000_000, 10_000_000)
    genuine, impostor = rng.normal(2, 1, n), rng.normal(0, 1, m)
    ab.pie.system_entropy(genuine[:100], impostor[:100])
    found, seconds = timed(lambda: ab.pie.system_entropy(genuine, impostor))
    print(f"\nPSE of {n:,} genuine and {m:,} impostor scores: {found} in {seconds:.2f} s")
    print(f"truth {2 * np.log2(np.e):.4f} bits")
    peer, slow = timed(lambda: _kd_tree(genuine, impostor))
    print(f"k-d trees (fixed k = 1): {peer:.4f} bits in {slow:.2f} s, {slow / seconds:.1f} times")
    curve, seconds = timed(lambda: ab.pie.det_curve(genuine, impostor))
    print(f"DET curve: equal error rate {curve.equal_error_rate:.4f} in {seconds:.2f} s")
    curve.plot(label="normal scores, d' = 2").figure.savefig(OUT / "pie_det_normal.png", dpi=120)


def _kd_tree(genuine: np.ndarray, impostor: np.ndarray) -> float:
    own = cKDTree(genuine[:, None]).query(genuine[:, None], k=2)[0][:, 1]
    other = cKDTree(impostor[:, None]).query(genuine[:, None], k=1)[0]
    nats = np.mean(np.log(other) - np.log(own)) + np.log(len(impostor) / (len(genuine) - 1))
    return float(nats / np.log(2))


def attacks(*, short: bool) -> None:
    users = 300 if short else 10_000
    places, length = 10_000, 100
    habits = ab.reidentify.synthetic_traces(users, 2 * length, places, seed=1)
    ab.reidentify.markov_attack(habits[:10, :5], habits[:10, 5:10])
    known, sent = habits[:, :length], habits[:, length:]
    print(f"\nMarkov matcher, {users:,} users, {length} training events (partial knowledge)")
    print(f"{'events':>8}{'rate':>8}{'top 10':>8}{'PSE':>8}{'EER':>8}{'seconds':>9}")
    axes = None
    for events in (1, 2, 5, 20, length):
        attack, seconds = timed(
            lambda events=events: ab.reidentify.markov_attack(sent[:, :events], known)
        )
        curve = attack.det_curve()
        axes = curve.plot(ax=axes, label=f"{events} events")
        print(
            f"{events:8}{attack.top(1).share:8.3f}{attack.top(10).share:8.3f}"
            f"{float(attack.system_entropy()):8.2f}"
            f"{curve.equal_error_rate:8.3f}{seconds:9.2f}"
        )
    if axes is not None:
        axes.figure.savefig(OUT / "pie_det_traces.png", dpi=120)
    convergence = ab.pie.convergence(attack.genuine, attack.impostor)
    ab.pie.plot_convergence(convergence).figure.savefig(OUT / "pie_convergence.png", dpi=120)
    print(convergence.to_string(float_format="{:.3f}".format))
    _, slow = timed(lambda: _dense_scores(sent[:20], known[:200], places))
    scale = users * users / (20 * 200)
    print(f"dense transition matrices: {slow * scale / seconds:,.0f} times longer (from 20 x 200)")
    _noisy(habits, places)


def _dense_scores(sent: np.ndarray, known: np.ndarray, places: int) -> np.ndarray:
    """As one would write it first: a matrix of transitions per user."""
    scores = np.empty((len(sent), len(known)))
    for u, trace in enumerate(known):
        seen, codes = np.unique(trace, return_inverse=True)
        table = np.zeros((len(seen) + 1,) * 2)
        np.add.at(table, (codes[:-1], codes[1:]), 1)
        with np.errstate(invalid="ignore"):
            table = np.log(
                np.maximum(np.nan_to_num(table / table.sum(axis=1, keepdims=True)), 1e-8)
            )
        place = np.full(places, len(seen))
        place[seen] = np.arange(len(seen))
        visit = np.log(np.maximum(np.append(np.bincount(codes) / len(trace), 0.0), 1e-8))
        for i, other in enumerate(sent):
            step = place[other]
            scores[i, u] = visit[step[0]] + table[step[:-1], step[1:]].sum()
    return scores


def _noisy(habits: np.ndarray, places: int) -> None:
    """PIE Figures 8 and 9: bounds and PSE, error rate and guarantees, of one noisy event."""
    users = len(habits)
    print("\nOne event through randomized response, maximum knowledge (PIE Figures 8 and 9)")
    names = ("eps", "Prop. 10", "Thm 11", "PSE", "error", "Fano", "one guess")
    print("".join(f"{name:>10}" for name in names))
    for epsilon in (6.0, 8.0, 10.0, 12.0, 14.0):
        channel = ab.RandomizedResponse(ab.IntegerDomain(places), epsilon)
        noisy = channel.release_codes(habits[:, 0], seed=2)
        attack = ab.reidentify.markov_attack(noisy[:, None], habits[:, :1])
        bits = ab.pie.bound(channel, users, kind="theorem")
        print(
            f"{epsilon:10.1f}{ab.pie.bound(channel, users, kind='general'):10.3f}{bits:10.3f}"
            f"{float(attack.system_entropy()):10.3f}{1 - attack.top(1).share:10.4f}"
            f"{ab.pie.bayes_error(bits, users):10.4f}"
            f"{ab.pie.worst_case(channel, users).error:10.4f}"
        )


def releases(*, short: bool) -> None:
    """One number for releases of different kinds."""
    print("\nPIE of releases of the clinic table")
    clear = ab.datasets.load("clinic")
    if short:
        clear = clear.iloc[:400]
    sensitive = clear.columns[-1]
    attributes = ["age", "sex", "zip"]
    frame = clear[[*attributes, sensitive]]
    domain = ab.Domain.infer("zip", frame["zip"])
    channel = ab.RandomizedResponse(domain, 3.0)
    reports = frame.assign(zip=channel.release(frame["zip"], seed=1))
    tables = {
        "in clear": ab.ReleasedTable.horizontal(frame, sensitive),
        "zip by RR, eps = 3": ab.ReleasedTable.horizontal(
            reports, sensitive, channels={"zip": channel}
        ),
        "Mondrian, k = 5": ab.anonymize.mondrian(frame, sensitive, k=5),
        "Mondrian, k = 20": ab.anonymize.mondrian(frame, sensitive, k=20),
        "Anatomy, l = 2": ab.anonymize.anatomy(frame, sensitive, l=2, seed=1),
    }
    axes = None
    for name, table in tables.items():
        post = ab.fit(table, draws=200, chains=2, seed=1, progressbar=False)
        said, seconds = timed(lambda post=post: ab.pie.release_information(post))
        axes = said.plot(ax=axes, label=name)
        print(f"{name:22}{said} ({seconds:.1f} s)")
    if axes is not None:
        axes.figure.savefig(OUT / "pie_releases.png", dpi=120)


def main(*, short: bool = False) -> None:
    OUT.mkdir(exist_ok=True)
    bounds()
    losses(short=short)
    entropy(short=short)
    attacks(short=short)
    releases(short=short)
    print(f"\nThe pictures are in {OUT}.")


if __name__ == "__main__":
    main()
