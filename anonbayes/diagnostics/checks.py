"""Rules that turn measurements into findings, in plain words: the checks of `diagnose`.

To add one, write a function that yields what it finds and list it in `DIAGNOSTICS`; see "A
diagnostic" in the recipes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anonbayes.diagnostics.measure import Measurements
from anonbayes.diagnostics.quantities import TestSummary, adjust_p_values, summarize_tests

__all__ = ["DIAGNOSTICS", "Check", "Limits", "run_checks"]

ESS = "effective sample size"
WITHIN = {
    "real": ("geweke", "Geweke, within chains"),
    "categorical": ("weiss_within", "Weiß, within chains"),
}
"""Family of tests within chains of each kind of quantity, and what the check is called."""
STATUSES = ("failed", "caution", "not assessed", "ok", "note")


@dataclass(frozen=True)
class Limits:
    """Where a check turns from ok to caution, and from caution to failed.

    The failing limits for R-hat and effective sample size are those of Gelman et al. (Bayesian Data
    Analysis, 3rd edition, Section 11.5), the cautious ones those of Vehtari et al. (2021). With
    thousands of quantities the worst of them exceeds the cautious limit in good runs too: beyond it
    chains fail when chance does not explain it either, by tests that know how many quantities were
    looked at (`disagreement`). "The mathematics" has the false alarms and the power that result.

    Attributes
    ----------
    r_hat_caution, r_hat_failed : float
        Largest R-hat; for categorical quantities the same share of variation between chains.
    disagreement : float
        Probability, over all quantities, that good chains fail by an R-hat between the two.
    ess_caution, ess_failed : float
        Smallest effective sample size per chain.
    share_caution, share_failed : float
        Share of p-values below `level`, for each family of tests.
    rejected_caution : float
        Share of tests within chains that Benjamini-Hochberg may reject before caution is due:
        means of skewed quantities over short windows are not quite normal.
    level : float
        Level of a single test and of the false discovery rate.
    """

    r_hat_caution: float = 1.01
    r_hat_failed: float = 1.1
    ess_caution: float = 100.0
    ess_failed: float = 10.0
    share_caution: float = 0.10
    share_failed: float = 0.50
    rejected_caution: float = 0.01
    level: float = 0.05
    disagreement: float = 0.01


@dataclass(frozen=True)
class Check:
    """One line of a diagnostic report.

    Attributes
    ----------
    name : str
        What was checked.
    status : {"ok", "caution", "failed", "not assessed", "note"}
        How it went.
    finding : str
        What was found, with numbers and names.
    between : bool
        Whether the check compares chains with each other.
    advice : str
        What to do where it failed or calls for caution.
    """

    name: str
    status: str
    finding: str
    between: bool = False
    advice: str = ""


def run_checks(found: Measurements, limits: Limits) -> Iterator[Check]:
    """Yield the checks that the measurements allow, in the order of `DIAGNOSTICS`."""
    for judge in DIAGNOSTICS:
        yield from judge(found, limits)


def _rows(found: Measurements, kind: str) -> pd.DataFrame:
    return found.table[found.table["kind"] == kind]


def _graded(value: float, caution: float, failed: float) -> str:
    return "failed" if value > failed else "caution" if value > caution else "ok"


def _agreement(found: Measurements, limits: Limits) -> Iterator[Check]:
    for kind, name in (("real", "R-hat"), ("log density", "log density")):
        if len(rows := _rows(found, kind)):
            yield _r_hat(found, rows, name, limits)


def _r_hat(found: Measurements, rows: pd.DataFrame, name: str, limits: Limits) -> Check:
    if found.n_chains < 2:
        return Check(name, "not assessed", "needs at least two chains", between=True)
    known = rows["r_hat"].dropna() if "r_hat" in rows else rows["mean"].iloc[:0]
    if known.empty:
        return Check(name, "not assessed", "no quantity varies, or too few draws", between=True)
    worst = str(known.idxmax())
    status = _graded(known.max(), limits.r_hat_caution, limits.r_hat_failed)
    above = (known > limits.r_hat_caution).mean()
    finding = f"largest R-hat {known.max():.3f} ({worst})"
    apart = _differ(rows, limits)
    if len(apart):
        status = "failed"
    if len(known) > 1:
        finding += f", {above:.0%} of {len(known):,} above {limits.r_hat_caution}"
    if len(apart):
        finding += (
            f"; place or spread of {len(apart):,} differ{'s' if len(apart) == 1 else ''} between "
            f"chains by more than chance, most clearly of {apart.idxmin()} (p = {apart.min():.1g})"
        )
    if status == "failed" or name == "log density":
        finding += f"; means by chain: {chain_camps(found, worst)}"
    return Check(name, status, finding, between=True)


def _differ(rows: pd.DataFrame, limits: Limits) -> pd.Series:
    """Return p-values of quantities whose R-hat is neither small nor explained by chance."""
    if "agreement_p" not in rows:
        return pd.Series(dtype=float)
    p = rows.loc[rows["r_hat"] > limits.r_hat_caution, "agreement_p"]
    return p[p * rows["r_hat"].notna().sum() < limits.disagreement]


def _camps(found: Measurements, quantity: str) -> tuple[np.ndarray, float, list[list[int]]]:
    """Return the chain means, the s.d. within chains, and the chains that lie together.

    Neighbouring means that are more than one such s.d. apart belong to different camps.
    """
    means = found.chain_means.loc[quantity].to_numpy(dtype=float)
    total = found.table["sd"].to_dict()[quantity]
    # Variance within chains: what is left of the variance of all draws without that of the means.
    inside = np.sqrt(max(total**2 - means.var(), 0.0))
    order = np.argsort(means)
    camps: list[list[int]] = [[int(order[0])]]
    for previous, chain in itertools.pairwise(order):
        if means[chain] - means[previous] > inside:
            camps.append([])
        camps[-1].append(int(chain))
    return means, inside, camps


def chain_camps(found: Measurements, quantity: str) -> str:
    """Return the chain means of a quantity in words, chains that lie together named together."""
    means, inside, camps = _camps(found, quantity)
    # As many decimals as it takes to see a tenth of the spread, or of the s.d. within chains.
    fine = max(np.ptp(means), inside, 1e-11) / 10
    decimals = max(int(np.ceil(-np.log10(fine))), 0)
    if len(camps) == 1:
        places = ", ".join(f"{mean:,.{decimals}f}" for mean in means)
    else:
        places = ", ".join(
            f"{'chains' if len(camp) > 1 else 'chain'} {', '.join(map(str, sorted(camp)))} near "
            f"{means[camp].mean():,.{decimals}f}"
            for camp in camps
        )
    return f"{places} (s.d. within chains {inside:.2g})"


def _family(summary: TestSummary, limits: Limits, tolerated: float) -> str:
    if summary.n_tests == 0:
        return "not assessed"
    status = _graded(summary.share_below, limits.share_caution, limits.share_failed)
    rejected = summary.n_rejected / summary.n_tests
    return "caution" if status == "ok" and rejected > tolerated else status


def _rows_apart(found: Measurements, limits: Limits) -> pd.Series:
    """Return `chain_share` of the categorical quantities that differ much between chains."""
    p = found.families["weiss_between"].p_values
    share = found.table.loc[found.table["kind"] == "categorical", "chain_share"]
    rejected = adjust_p_values(p) <= limits.level
    return share[rejected & (share.to_numpy() > 1 - limits.r_hat_failed**-2)]


def _rows_differ(found: Measurements, limits: Limits) -> pd.Series:
    """Return `chain_share` of those that differ much, or less but by more than chance.

    Long chains reject trifles, so a row fails by its effect too, on the scale of R-hat.
    """
    p = found.families["weiss_between"].p_values
    share = found.table.loc[found.table["kind"] == "categorical", "chain_share"]
    sure = p * np.isfinite(p).sum() < limits.disagreement
    less = share.index[sure & (share.to_numpy() > 1 - limits.r_hat_caution**-2)]
    return share.loc[less.union(_rows_apart(found, limits).index, sort=False)]


def differ_by_more_than_chance(found: Measurements, limits: Limits) -> bool:
    """Return whether settled chains differ in a way that longer ones would not mend."""
    rows = "weiss_between" in found.families and len(_rows_differ(found, limits)) > 0
    return (rows or len(_differ(found.table, limits)) > 0) and (
        len(settled_chains(found, limits)) == found.n_chains
    )


def in_different_places(found: Measurements, limits: Limits) -> bool:
    """Return whether chains lie in different regions, rather than move slowly in the same one."""
    if "weiss_between" in found.families and len(_rows_apart(found, limits)):
        return True
    if (found.table["status"] == "stuck").any():
        return True
    if "r_hat" not in found.table:
        return False
    worst = found.table["r_hat"].dropna().nlargest(5).index
    return any(len(_camps(found, str(quantity))[2]) > 1 for quantity in worst)


def _weiss_between(found: Measurements, limits: Limits) -> Iterator[Check]:
    name = "Weiß, between chains"
    if not len(_rows(found, "categorical")):
        return
    if "weiss_between" not in found.families:
        yield Check(name, "not assessed", "needs at least two chains", between=True)
        return
    family = found.families["weiss_between"]
    summary = summarize_tests(family.p_values, family.names, level=limits.level)
    status = _family(summary, limits, 0.0)
    finding = f"{summary}"
    share = _rows_differ(found, limits)
    if len(share):
        status = "failed"
        finding += (
            f"; in {len(share):,} rows {share.min():.0%} or more of the variation lies between "
            f"chains, most in {share.idxmax()} ({share.max():.0%})"
        )
    yield Check(name, status, f"{finding}{_worst(summary)}", between=True)


def _stuck(found: Measurements, limits: Limits) -> Iterator[Check]:
    stuck = found.table.index[found.table["status"] == "stuck"]
    if len(stuck) and found.n_chains > 1:
        yield Check(
            "moves",
            "failed",
            f"{len(stuck):,} of {len(found.table):,} quantities never move in any chain, and the "
            f"chains hold different values: {_first(stuck)}",
            between=True,
            advice="What never moves needs another step (block or tempered rather than swap).",
        )


def effective_sizes(found: Measurements) -> pd.Series:
    """Return the smaller of bulk and tail ESS of every quantity that has one."""
    rows = found.table[found.table["kind"] != "log density"]
    return rows.reindex(columns=["ess_bulk", "ess_tail"]).min(axis=1).dropna()


def _effective_size(found: Measurements, limits: Limits) -> Iterator[Check]:
    sizes = effective_sizes(found) / found.n_chains
    if sizes.empty:
        yield Check(ESS, "not assessed", "no quantity varies, or too few draws")
        return
    status = _graded(-sizes.min(), -limits.ess_caution, -limits.ess_failed)
    finding = (
        f"smallest {sizes.min():.0f} per chain ({sizes.idxmin()}), median {sizes.median():.0f}, "
        f"{(sizes < limits.ess_caution).mean():.0%} below {limits.ess_caution:.0f}"
    )
    if "mcse" in found.table:
        relative = (found.table["mcse"] / found.table["sd"]).max()
        finding += f"; largest Monte Carlo error {relative:.2g} posterior s.d."
    yield Check(ESS, status, finding)


def _drift(found: Measurements, limits: Limits) -> Iterator[Check]:
    for kind, (family, name) in WITHIN.items():
        if len(_rows(found, kind)):
            yield _within(found, family, name, limits)


def _within(found: Measurements, family: str, name: str, limits: Limits) -> Check:
    tests = found.families.get(family)
    if tests is None or np.isnan(tests.p_values).all():
        return Check(name, "not assessed", "nothing varies, or too few draws")
    labels = [f"{k} in chain {c}" for c in range(found.n_chains) for k in tests.names]
    summary = summarize_tests(tests.p_values, labels, level=limits.level)
    by_chain = [summarize_tests(p, level=limits.level).share_below for p in tests.p_values]
    finding = f"{summary}"
    if len(by_chain) > 1:
        finding += f"; by chain {', '.join(f'{share:.0%}' for share in by_chain)}"
    status = _family(summary, limits, limits.rejected_caution)
    if np.nanmax(by_chain) > limits.share_failed:  # a good chain does not make up for a bad one
        status = "failed"
    return Check(name, status, f"{finding}{_worst(summary)}")


def settled_chains(found: Measurements, limits: Limits) -> list[int]:
    """Return the chains that would raise no alarm if each were the only one."""
    within = [found.families[k].p_values for k in ("geweke", "weiss_within") if k in found.families]
    shares = [[summarize_tests(p, level=limits.level).share_below for p in f] for f in within]
    return [
        chain
        for chain in range(found.n_chains)
        if shares and all(share[chain] <= 2 * limits.share_caution for share in shares)
    ]


def _soundness(found: Measurements, limits: Limits) -> Iterator[Check]:
    table = found.table
    broken = table.index[table["status"] == "not finite"]
    if len(broken):
        yield Check(
            "finite draws",
            "failed",
            f"{len(broken):,} quantities have NaN or infinite draws: {_first(broken)}",
            advice="Find out where NaN or infinite draws come from before anything else.",
        )
    constant = table.index[table["status"] == "constant"]
    if len(constant):
        yield Check(
            "constant",
            "note",
            f"{len(constant):,} of {len(table):,} quantities never vary in any chain and cannot "
            f"be tested: {_first(constant)}",
        )


def _sampler(found: Measurements, limits: Limits) -> Iterator[Check]:
    for name, row in found.rates.iterrows():
        rates = row.to_numpy(dtype=float)
        yield Check(
            f"rate: {name}",
            "caution" if rates.min() < 0.01 else "ok",
            f"mean {rates.mean():.3g}, by chain {', '.join(f'{r:.3g}' for r in rates)}",
            advice="A rate below 1 % means that this move hardly ever happens; choose another "
            "step.",
        )
    if found.round_trips is not None:
        yield Check(
            "round trips",
            "caution" if found.round_trips.min() < 1 else "ok",
            "of replicas through the ladder, by chain "
            f"{', '.join(f'{trips:,}' for trips in found.round_trips)}",
        )
    if found.n_divergences is not None:
        yield Check(
            "divergences",
            "failed" if found.n_divergences else "ok",
            f"{found.n_divergences:,} divergent transitions",
            advice="Raise target_accept, or use an engine that does not follow gradients.",
        )


def _first(names: pd.Index, n: int = 3) -> str:
    more = f" and {len(names) - n:,} more" if len(names) > n else ""
    return ", ".join(map(str, names[:n])) + more


def _worst(summary: TestSummary, n: int = 3) -> str:
    named = [f"{name} (p = {p:.2g})" for name, p in summary.worst[:n] if p < summary.level]
    return f"; smallest: {', '.join(named)}" if summary.n_rejected and named else ""


DIAGNOSTICS: tuple[Callable[[Measurements, Limits], Iterable[Check]], ...] = (
    _agreement,
    _weiss_between,
    _stuck,
    _effective_size,
    _drift,
    _soundness,
    _sampler,
)
"""All checks; each yields none where the measurements have nothing for it to judge."""
