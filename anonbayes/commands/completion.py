"""Values that a shell completes; nothing large is imported for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = [
    "BOUNDS",
    "DATASETS",
    "MECHANISMS",
    "METHODS",
    "RULES",
    "SCHEMES",
    "complete_bound",
    "complete_coverage",
    "complete_dataset",
    "complete_engine",
    "complete_mechanism",
    "complete_method",
    "complete_missing",
    "complete_rule",
    "complete_scheme",
    "complete_threat",
]

MECHANISMS = {
    "randomized_response": "a value, true or any other",
    "utility_optimized_rr": "the same, protecting --sensitive values only",
    "rappor": "bits, each flipped with the same probability",
    "unary_encoding": "bits, the optimal ones",
    "utility_optimized_rappor": "bits, protecting --sensitive values only",
    "local_hashing": "a symbol of a random hash function; for large domains",
    "input_discriminative_ue": "bits, with a budget per value: --budgets",
}
METHODS = {
    "empirical": "unbiased; shares may be negative",
    "threshold": "significant shares only",
    "shrinkage": "posterior means under a prior learnt from all counts",
    "mle": "maximum likelihood",
    "em": "plain expectation maximization",
    "bayes": "posterior mean and credible limits",
}
RULES = {
    "worst_case": "nothing is known (W)",
    "prior": "known lower bounds (P)",
    "confidence": "lower limits from reports (C)",
    "posterior": "a posterior quantile (ours)",
    "counts": "the counts themselves: the most that is allowed",
}
SCHEMES = {
    "mondrian": "boxes of k rows",
    "recode": "levels of hierarchies, global or --local",
    "anatomy": "two tables, linked by groups",
}
BOUNDS = {
    "theorem": "from the channel's contraction",
    "exact": "the supremum itself",
    "general": "from the budget alone",
}

# Not read from `anonbayes.datasets`, which would load pandas at every keystroke.
DATASETS = {
    "table1": "cleartext",
    "table1_recoded": "horizontal",
    "table1_anatomy": "vertical",
    "island": "horizontal",
    "clinic": "cleartext",
    "clinic_global": "horizontal",
    "clinic_local": "horizontal",
    "clinic_anatomy": "vertical",
    "adult": "cleartext",
}

Pairs = list[tuple[str, str]]


def _of(known: dict[str, str]) -> Callable[[str], Pairs]:
    def complete(incomplete: str) -> Pairs:
        return [pair for pair in known.items() if pair[0].startswith(incomplete)]

    return complete


def _plain(known: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


complete_mechanism = _of(MECHANISMS)
complete_method = _of(METHODS)
complete_rule = _of(RULES)
complete_scheme = _of(SCHEMES)
complete_bound = _of(BOUNDS)
complete_dataset = _of(DATASETS)
complete_coverage = _plain(("simultaneous", "pointwise"))
complete_engine = _plain(("auto", "exact", "gibbs", "nuts"))
complete_missing = _plain(("error", "unknown", "category"))
complete_threat = _plain(("RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A"))
