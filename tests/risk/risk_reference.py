"""Beliefs and measures by brute force, in plain Python: what the package is compared with."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict


def rising(counts) -> float:
    """Dirichlet-multinomial weight of counts under a uniform prior, up to a constant."""
    return math.prod(math.factorial(c) for c in counts)


def horizontal(rows, domains, secrets):
    """Exact ``p_A`` weights and ``p_L`` of a generalized table, uniform prior.

    `rows` are pairs (cells, secret), a cell being a set of values. Given the secrets the model
    factorises over secrets and attributes, so each factor is enumerated by itself.

    Returns two functions of a record: ``{secret: weight}`` of attacker and of learner.
    """
    n_s = Counter(s for _, s in rows)
    own, mean = {}, {}
    for s, a in itertools.product(secrets, range(len(domains))):
        members = [j for j, (_, secret) in enumerate(rows) if secret == s]
        total, prob, expected = 0.0, defaultdict(float), defaultdict(float)
        for values in itertools.product(*(sorted(rows[j][0][a]) for j in members)):
            count = Counter(values)
            weight = rising(count.values())
            total += weight
            for j, value in zip(members, values, strict=True):
                prob[j, value] += weight
            for value in domains[a]:
                expected[value] += weight * (1 + count[value]) / (len(domains[a]) + len(members))
        own |= {(j, a, value): p / total for (j, value), p in prob.items()}
        mean |= {(s, a, value): e / total for value, e in expected.items()}

    def attacker(record):
        out = dict.fromkeys(secrets, 0.0)
        for j, (_, s) in enumerate(rows):
            out[s] += math.prod(own.get((j, a, value), 0.0) for a, value in enumerate(record))
        return out

    def learner(record):
        size = len(secrets) + len(rows)
        return {
            s: (1 + n_s[s]) / size * math.prod(mean[s, a, v] for a, v in enumerate(record))
            for s in secrets
        }

    return attacker, learner


def vertical(groups, domains, secrets):
    """Exact beliefs from an anatomized table, by listing all ways to link its two parts.

    `groups` are pairs (list of records, list of secrets).
    """
    worlds = []
    for choice in itertools.product(*(itertools.permutations(records) for records, _ in groups)):
        linked = [
            (record, s)
            for records, (_, owned) in zip(choice, groups, strict=True)
            for record, s in zip(records, owned, strict=True)
        ]
        count = Counter((s, a, value) for record, s in linked for a, value in enumerate(record))
        worlds.append((rising(count.values()), linked, count))
    total = sum(weight for weight, _, _ in worlds)
    n_s = Counter(s for _, s in worlds[0][1])
    n = sum(n_s.values())

    def attacker(record):
        out = dict.fromkeys(secrets, 0.0)
        for weight, linked, _ in worlds:
            for found, s in linked:
                out[s] += weight / total * (found == record)
        return out

    def learner(record):
        out = dict.fromkeys(secrets, 0.0)
        for weight, _, count in worlds:
            for s in secrets:
                p = (1 + n_s[s]) / (len(secrets) + n)
                for a, value in enumerate(record):
                    p *= (1 + count[s, a, value]) / (len(domains[a]) + n_s[s])
                out[s] += weight / total * p
        return out

    return attacker, learner


def ideal(people, domains, secrets):
    """``p_I(s, r)``: the learner of a table in clear."""
    rows = [([{value} for value in record], s) for record, s in people]
    return horizontal(rows, domains, secrets)[1]


def normalised(weights):
    total = sum(weights.values())
    return {s: w / total for s, w in weights.items()}


def share_right(belief, people):
    """Share of the people guessed right, ties broken at random."""
    score = 0.0
    for record, s in people:
        q = normalised(belief(record))
        best = max(q.values())
        winners = [v for v, p in q.items() if p > best * (1 - 1e-9)]
        score += (s in winners) / len(winners)
    return score / len(people)


def total_variation(one, two, domains):
    return 0.5 * sum(
        abs(p - two(record)[s])
        for record in itertools.product(*domains)
        for s, p in one(record).items()
    )
