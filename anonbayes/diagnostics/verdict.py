"""`diagnose`: rules that turn measurements into findings in plain words, and a verdict.

To add a rule, write a function that yields its findings and list it in `DIAGNOSTICS`; see "A
diagnostic" in the recipes.
"""

from __future__ import annotations

import itertools
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from anonbayes import compat
from anonbayes.diagnostics.measure import Measurements, measure, measure_independent
from anonbayes.diagnostics.quantities import (
    TestSummary,
    adjust_p_values,
    idata_of,
    rank_quantities,
    summarize_tests,
)
from anonbayes.errors import AnonbayesError
from anonbayes.formats import Table
from anonbayes.inference.posterior import Posterior
from anonbayes.io.files import write_text

ESS = "effective sample size"
WITHIN = {
    "real": ("geweke", "Geweke, within chains"),
    "categorical": ("weiss_within", "Weiß, within chains"),
}
"""Tests within chains for each kind of quantity, and the name of the check."""
STATUSES = ("failed", "caution", "not assessed", "ok", "note")


@dataclass(frozen=True)
class Limits:
    """Limits at which a check changes from ok to caution, and from caution to failed.

    The failing limits for R-hat and effective sample size are those of Gelman et al. (Bayesian Data
    Analysis, 3rd edition, Section 11.5), the cautious ones those of Vehtari et al. (2021). Among
    thousands of quantities the worst exceeds the cautious limit even in good runs; beyond it,
    chains fail only if chance does not explain it, by tests that allow for the number of quantities
    (`disagreement`). "The mathematics" gives the resulting rates of false alarms and the power.

    Attributes
    ----------
    r_hat_caution, r_hat_failed : float
        Limits for the largest R-hat; for categorical quantities, for the equivalent share of
        variation between chains.
    disagreement : float
        Probability, over all quantities, that good chains fail by an R-hat between the two limits;
        and, over all chains, that they fail by a family of tests.
    ess_caution, ess_failed : float
        Limits for the smallest effective sample size per chain.
    share_settled : float
        Largest share of a chain's p-values below `level` if it is to look stationary by itself.
    share_failed : float
        Share of a chain's tests of a family that must be small for it to fail. The p-value of that
        rank, divided by the share, is a p-value under any dependence (Rüschendorf 1982).
    rejected_caution : float
        Share of tests within chains that Benjamini-Hochberg may reject without caution, because
        means of skewed quantities over short windows are not quite normal.
    level : float
        Level of a single test and of the false discovery rate.
    """

    r_hat_caution: float = 1.01
    r_hat_failed: float = 1.1
    ess_caution: float = 100.0
    ess_failed: float = 10.0
    share_settled: float = 0.20
    share_failed: float = 0.25
    rejected_caution: float = 0.01
    level: float = 0.05
    disagreement: float = 0.01


@dataclass(frozen=True)
class Check:
    """One line of a diagnostic report.

    `status` is ok, caution, failed, not assessed or note; `finding` gives numbers and names;
    `between` says whether chains are compared with each other; `advice` says what to do.
    """

    name: str
    status: str
    finding: str
    between: bool = False
    advice: str = ""


def _rows(measured: Measurements, kind: str) -> pd.DataFrame:
    return measured.table[measured.table["kind"] == kind]


def _graded(value: float, caution: float, failed: float) -> str:
    return "failed" if value > failed else "caution" if value > caution else "ok"


def _agreement(measured: Measurements, limits: Limits) -> Iterator[Check]:
    for kind, name in (("real", "R-hat"), ("log density", "log density")):
        if len(rows := _rows(measured, kind)):
            yield _r_hat(measured, rows, name, limits)


def _r_hat(measured: Measurements, rows: pd.DataFrame, name: str, limits: Limits) -> Check:
    if measured.n_chains < 2:
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
        finding += f"; means by chain: {chain_camps(measured, worst)}"
    return Check(name, status, finding, between=True)


def _differ(rows: pd.DataFrame, limits: Limits) -> pd.Series:
    """Return p-values of quantities whose R-hat is neither small nor explained by chance."""
    if "agreement_p" not in rows:
        return pd.Series(dtype=float)
    p = rows.loc[rows["r_hat"] > limits.r_hat_caution, "agreement_p"]
    return p[p * rows["r_hat"].notna().sum() < limits.disagreement]


def _camps(measured: Measurements, quantity: str) -> tuple[np.ndarray, float, list[list[int]]]:
    """Return the chain means, the s.d. within chains, and groups of chains with similar means.

    Neighbouring means more than one such s.d. apart belong to different groups.
    """
    means = measured.chain_means.loc[quantity].to_numpy(dtype=float)
    total = measured.table["sd"].to_dict()[quantity]
    # Variance within chains: the variance of all draws minus that of the means.
    inside = np.sqrt(max(total**2 - means.var(), 0.0))
    order = np.argsort(means)
    camps: list[list[int]] = [[int(order[0])]]
    for previous, chain in itertools.pairwise(order):
        if means[chain] - means[previous] > inside:
            camps.append([])
        camps[-1].append(int(chain))
    return means, inside, camps


def chain_camps(measured: Measurements, quantity: str) -> str:
    """Describe the chain means of a quantity, naming chains with similar means together."""
    means, inside, camps = _camps(measured, quantity)
    # Enough decimals to show a tenth of the spread, or of the s.d. within chains.
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


def _family(p_values: np.ndarray, summary: TestSummary, limits: Limits, tolerated: float) -> str:
    """Status of a family of tests, (chain, test) or between chains."""
    if summary.n_tests == 0:
        return "not assessed"
    tested = [p[~np.isnan(p)] for p in np.atleast_2d(p_values)]
    for p in filter(len, tested):  # a good chain does not compensate for a bad one
        place = math.ceil(limits.share_failed * len(p))
        together = np.sort(p)[place - 1] * len(p) / place
        if together * len(tested) < limits.disagreement:
            return "failed"
    return "caution" if summary.n_rejected / summary.n_tests > tolerated else "ok"


def _rows_differ(measured: Measurements, limits: Limits, *, much: bool = False) -> pd.Series:
    """Return `chain_share` of rows that differ significantly, and if `much` strongly.

    In long chains even tiny differences are significant, so failing also needs a strong effect, on
    the scale of R-hat.
    """
    p = measured.families["weiss_between"].p_values
    share = measured.table.loc[measured.table["kind"] == "categorical", "chain_share"]
    size = share.to_numpy()
    far = (adjust_p_values(p) <= limits.level) & (size > 1 - limits.r_hat_failed**-2)
    if not much:
        sure = p * np.isfinite(p).sum() < limits.disagreement
        far |= sure & (size > 1 - limits.r_hat_caution**-2)
    return share[far]


def differ_by_more_than_chance(measured: Measurements, limits: Limits) -> bool:
    """Return whether stationary chains differ in a way that longer ones would not correct."""
    rows = "weiss_between" in measured.families and len(_rows_differ(measured, limits)) > 0
    return (rows or len(_differ(measured.table, limits)) > 0) and (
        len(settled_chains(measured, limits)) == measured.n_chains
    )


def in_different_places(measured: Measurements, limits: Limits) -> bool:
    """Return whether chains are in different regions rather than moving slowly in the same one."""
    if "weiss_between" in measured.families and len(_rows_differ(measured, limits, much=True)):
        return True
    if (measured.table["status"] == "stuck").any():
        return True
    if "r_hat" not in measured.table:
        return False
    worst = measured.table["r_hat"].dropna().nlargest(5).index
    return any(len(_camps(measured, str(quantity))[2]) > 1 for quantity in worst)


def _weiss_between(measured: Measurements, limits: Limits) -> Iterator[Check]:
    name = "Weiß, between chains"
    if not len(_rows(measured, "categorical")):
        return
    if "weiss_between" not in measured.families:
        yield Check(name, "not assessed", "needs at least two chains", between=True)
        return
    family = measured.families["weiss_between"]
    summary = summarize_tests(family.p_values, family.names, level=limits.level)
    status = _family(family.p_values, summary, limits, 0.0)
    finding = f"{summary}"
    share = _rows_differ(measured, limits)
    if len(share):
        status = "failed"
        finding += (
            f"; in {len(share):,} rows {share.min():.0%} or more of the variation lies between "
            f"chains, most in {share.idxmax()} ({share.max():.0%})"
        )
    yield Check(name, status, f"{finding}{_worst(summary)}", between=True)


def _stuck(measured: Measurements, limits: Limits) -> Iterator[Check]:
    stuck = measured.table.index[measured.table["status"] == "stuck"]
    if len(stuck) and measured.n_chains > 1:
        yield Check(
            "moves",
            "failed",
            f"{len(stuck):,} of {len(measured.table):,} quantities never change in any chain, but "
            f"have different values in different chains: {_first(stuck)}",
            between=True,
            advice="Use another step for what never changes (block or tempered rather than swap).",
        )


def effective_sizes(measured: Measurements) -> pd.Series:
    """Return the smaller of bulk and tail ESS of every quantity that has one."""
    rows = measured.table[measured.table["kind"] != "log density"]
    return rows.reindex(columns=["ess_bulk", "ess_tail"]).min(axis=1).dropna()


def _effective_size(measured: Measurements, limits: Limits) -> Iterator[Check]:
    sizes = effective_sizes(measured) / measured.n_chains
    if sizes.empty:
        yield Check(ESS, "not assessed", "no quantity varies, or too few draws")
        return
    status = _graded(-sizes.min(), -limits.ess_caution, -limits.ess_failed)
    finding = (
        f"smallest {sizes.min():.0f} per chain ({sizes.idxmin()}), median {sizes.median():.0f}, "
        f"{(sizes < limits.ess_caution).mean():.0%} below {limits.ess_caution:.0f}"
    )
    if "mcse" in measured.table:
        relative = (measured.table["mcse"] / measured.table["sd"]).max()
        finding += f"; largest Monte Carlo error {relative:.2g} posterior s.d."
    yield Check(ESS, status, finding)


def _drift(measured: Measurements, limits: Limits) -> Iterator[Check]:
    for kind, (family, name) in WITHIN.items():
        if len(_rows(measured, kind)):
            yield _within(measured, family, name, limits)


def _within(measured: Measurements, family: str, name: str, limits: Limits) -> Check:
    tests = measured.families.get(family)
    if tests is None or np.isnan(tests.p_values).all():
        return Check(name, "not assessed", "nothing varies, or too few draws")
    labels = [f"{k} in chain {c}" for c in range(measured.n_chains) for k in tests.names]
    summary = summarize_tests(tests.p_values, labels, level=limits.level)
    by_chain = [summarize_tests(p, level=limits.level).share_below for p in tests.p_values]
    finding = f"{summary}"
    if len(by_chain) > 1:
        finding += f"; by chain {', '.join(f'{share:.0%}' for share in by_chain)}"
    status = _family(tests.p_values, summary, limits, limits.rejected_caution)
    return Check(name, status, f"{finding}{_worst(summary)}")


def settled_chains(measured: Measurements, limits: Limits) -> list[int]:
    """Return the chains that would raise no alarm if each were the only one."""
    within = [family for name, family in measured.families.items() if name != "weiss_between"]
    shares = [
        [summarize_tests(p, level=limits.level).share_below for p in family.p_values]
        for family in within
    ]
    settled = np.array(shares) <= limits.share_settled
    return [int(chain) for chain in np.flatnonzero(settled.all(axis=0))] if within else []


def _soundness(measured: Measurements, limits: Limits) -> Iterator[Check]:
    table = measured.table
    broken = table.index[table["status"] == "not finite"]
    if len(broken):
        yield Check(
            "finite draws",
            "failed",
            f"{len(broken):,} quantities have NaN or infinite draws: {_first(broken)}",
            advice="First find out where the NaN or infinite draws come from.",
        )
    constant = table.index[table["status"] == "constant"]
    if len(constant):
        yield Check(
            "constant",
            "note",
            f"{len(constant):,} of {len(table):,} quantities are constant in all chains and cannot "
            f"be tested: {_first(constant)}",
        )


def _sampler(measured: Measurements, limits: Limits) -> Iterator[Check]:
    for name, row in measured.rates.iterrows():
        rates = row.to_numpy(dtype=float)
        yield Check(
            f"rate: {name}",
            "caution" if rates.min() < 0.01 else "ok",
            f"mean {rates.mean():.3g}, by chain {', '.join(f'{r:.3g}' for r in rates)}",
            advice="A rate below 1% means that this move hardly ever happens; use another step.",
        )
    if measured.round_trips is not None:
        yield Check(
            "round trips",
            "caution" if measured.round_trips.min() < 1 else "ok",
            "of replicas through the ladder, by chain "
            f"{', '.join(f'{trips:,}' for trips in measured.round_trips)}",
        )
    if measured.n_divergences is not None:
        yield Check(
            "divergences",
            "failed" if measured.n_divergences else "ok",
            f"{measured.n_divergences:,} divergent transitions",
            advice="Increase target_accept, or use an engine that does not use gradients.",
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
"""All checks; each yields nothing if the measurements do not concern it."""


# -------------------------------------------------------------------------------------------------
# The verdict: a summary of the findings in words.

#: Steps for Anatomy tables that stay in the mode in which they start, unlike "tempered".
UNTEMPERED = ("auto", "block", "collapsed", "swap", "permute", "sequential", "subblock")

PASSED, FAILED, NOT_ASSESSED = "passed", "failed", "not assessed"


@dataclass(frozen=True, eq=False)
class DiagnosticReport:
    """Whether draws can be trusted, why or why not, and what to do. Returned by `diagnose`.

    Attributes
    ----------
    verdict : {"passed", "failed", "not assessed"}
        The verdict; for a single chain always ``"not assessed"``.
    reason : str
        The reason for the verdict in a sentence.
    checks : tuple of Check
        The findings, failed ones first.
    advice : tuple of str
        What to do, most useful first; empty if nothing is needed.
    table : pandas.DataFrame
        One row per scalar quantity. ``kind`` is real, categorical or log density; ``status`` is
        empty, constant, stuck (chains never move but differ) or not finite. Real quantities have
        ``mean``, ``sd``, ``mcse``, ``ess_bulk``, ``ess_tail``, ``r_hat``, ``agreement_p`` (if R-hat
        is not small: whether chance explains it) and ``geweke_z`` (the largest over chains), as far
        as the chains and draws suffice. Categorical ones have ``weiss_between_p``,
        ``weiss_within_p`` (the smallest over chains), ``chain_share`` (share of the variation that
        lies between chains), ``phi``, ``n_categories``, ``n_moves`` and ``ess_bulk`` (that of a
        DAR(1) chain). A closed form whose draws have not been made is described by a hundred.
    source : str
        Description of chains, draws, method and step.
    """

    verdict: str
    reason: str
    checks: tuple[Check, ...]
    advice: tuple[str, ...]
    table: pd.DataFrame = field(repr=False)
    source: str

    @property
    def passed(self) -> bool:
        """Whether the draws may be used. A single chain never passes."""
        return self.verdict == PASSED

    @cached_property
    def text(self) -> str:
        """The report as plain text."""
        width = max((len(check.name) for check in self.checks), default=0)
        lines = [*_wrap(f"{self.verdict.upper()}: {self.reason}"), f"({self.source})", ""]
        for check in self.checks:
            head = f"  {check.status:<12}  {check.name:<{width}}  "
            lines += _wrap(check.finding, initial_indent=head, subsequent_indent=" " * len(head))
        if self.advice:
            lines += ["", "What to do:"]
            for advice in self.advice:
                lines += _wrap(advice, initial_indent="  - ", subsequent_indent="    ")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def worst(self, n: int = 5) -> pd.DataFrame:
        """Return the `n` quantities that give most cause for concern.

        Real quantities are ranked by R-hat (for one chain by Geweke's z), categorical ones by the
        p-value of the Weiß test between chains (for one chain within it). Those that are not finite
        or stuck come first, then real and categorical ones alternate.
        """
        return self.table.loc[rank_quantities(self.table)[:n]]

    def to_dict(self) -> dict[str, object]:
        """Return the report without its table, as plain types."""
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "reason": self.reason,
            "source": self.source,
            "checks": [
                {"name": c.name, "status": c.status, "finding": c.finding, "between": c.between}
                for c in self.checks
            ],
            "advice": list(self.advice),
            "worst": list(map(str, self.worst(10).index)),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the report as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def _repr_html_(self) -> str:
        rows = [[check.status, check.name, check.finding] for check in self.checks]
        table = Table(["status", "check", "finding"], rows, "", frozenset({1, 2}))
        advice = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.advice)
        return (
            f"<div><p><b>{escape(self.verdict.upper())}</b>: {escape(self.reason)}<br>"
            f"<small>{escape(self.source)}</small></p>{table.to_html()}"
            + (f"<p>What to do:</p><ul>{advice}</ul>" if advice else "")
            + "</div>"
        )


_wrap = partial(textwrap.wrap, width=110, break_long_words=False, break_on_hyphens=False)


def diagnose(
    post: object,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, object] | None = None,
    segments: int = 5,
    limits: Limits | None = None,
) -> DiagnosticReport:
    """Say whether draws can be trusted, by tests within and between chains.

    Real quantities are assessed by ArviZ's R-hat, effective sample size and Monte Carlo error and
    by Geweke's z; categorical ones (integer, bool or text, such as the cleartext draws of a table)
    by the Weiß test between chains and within each. Log densities in the sampler's statistics are
    compared between chains; acceptance and exchange rates are reported.

    Parameters
    ----------
    post : Posterior, Estimate, InferenceData, DataTree, Dataset, DataArray, mapping or array
        Draws, including those of an `Estimate` with ``method="bayes"``. For a `Posterior` the
        engine is taken into account: draws of the exact engine are independent and pass.
    var_names, coords
        Part of the posterior to test, as in ArviZ.
    segments : int, default 5
        Number of pieces of each chain that the Weiß test within chains compares.
    limits : Limits, optional
        Limits at which a check changes to caution and to failed.

    Returns
    -------
    DiagnosticReport
        With ``.passed``, ``.verdict``, ``.text``, ``.table``, ``.checks`` and ``.advice``.

    See Also
    --------
    geweke, weiss : the tests by themselves.

    Notes
    -----
    No test can prove that chains have converged. The strongest evidence is that chains from
    dispersed starts agree, so a single chain is "not assessed" even if it looks stationary: if a
    posterior has several modes, each chain can be a perfect sample from its own mode.

    References
    ----------
    .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P. Bürkner (2021). Rank-normalization,
       folding, and localization: an improved R-hat. Bayesian Analysis 16, 667-718.
    .. [2] A. Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, Section 11.5.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(size=(4, 1000, 3))
    >>> diagnose(draws).passed
    True
    >>> draws[2:] += 5.0  # two chains in another mode
    >>> report = diagnose(draws)
    >>> report.passed
    False
    >>> print(report.text.splitlines()[0])  # doctest: +ELLIPSIS
    FAILED: the chains do not agree with each other, ...
    >>> diagnose(draws[:1]).verdict  # which a single chain cannot show
    'not assessed'
    """
    data = idata_of(post)
    if data is None:
        raise AnonbayesError("The posterior contains no draws to diagnose; fit it with draws > 0.")
    method, step = _engine(post, data)
    if method in ("exact", "crossfit"):
        independent = measure_independent(data, var_names=var_names, coords=coords)
        return _without_chains(independent, _source(independent, method, step), method)
    measured = measure(data, var_names=var_names, coords=coords, segments=segments)
    limits = limits or Limits()
    run = [*(check for judge in DIAGNOSTICS for check in judge(measured, limits)), *_latent(post)]
    checks = sorted(run, key=lambda check: STATUSES.index(check.status))
    verdict, reason = _verdict(measured, checks, limits)
    return DiagnosticReport(
        verdict=verdict,
        reason=reason,
        checks=tuple(checks),
        advice=tuple(_advice(measured, checks, step, limits)),
        table=measured.table,
        source=_source(measured, method, step),
    )


def _latent(post: object) -> Iterator[Check]:
    """Check whether latent secrets are few enough (a dozen) for chains to visit all modes."""
    if not isinstance(post, Posterior) or post.table.secrets_known:
        return
    if post.table.scheme != "horizontal":
        return
    least = min((float(beta.min()) for beta in post.prior.beta.values()), default=1.0)
    if least < 0.05 and post.table.n_rows > 12:
        yield Check(
            "latent secrets",
            "failed" if least <= 1e-3 else "caution",
            f"with prior weights of {least:.2g}, secrets behind a channel can only move in groups, "
            "so the chains may agree in one of several modes",
            advice="Use prior weights (beta=) of at least 0.05, or compare several seeds.",
        )


def _engine(post: object, data: object) -> tuple[str | None, str | None]:
    """Return method and step of a Posterior, or those noted in an ArviZ object."""
    if data is not post:
        return getattr(post, "method", None), getattr(post, "step", None)
    attrs = getattr(data, "attrs", {}) if compat.is_arviz_object(data) else {}
    return attrs.get("method"), attrs.get("step") or None


def _source(measured: Measurements, method: str | None, step: str | None) -> str:
    kinds = measured.table["kind"].value_counts()
    counted = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
    engine = f"; method {method}" if method else ""
    engine += f", step {step}" if step else ""
    chains = f"{measured.n_chains} chain{'s' if measured.n_chains > 1 else ''}"
    return f"{chains} x {measured.n_draws:,} draws of {counted} quantities{engine}"


def _without_chains(measured: Measurements, source: str, method: str) -> DiagnosticReport:
    of = "a posterior in closed form" if method == "exact" else "cross-fitting over folds"
    reason = f"the draws are independent, from {of}; there are no chains to compare"
    check = Check("chain", "ok", reason)
    return DiagnosticReport(PASSED, f"{reason}.", (check,), (), measured.table, source)


def _verdict(measured: Measurements, checks: list[Check], limits: Limits) -> tuple[str, str]:
    failed = [check for check in checks if check.status == "failed"]
    if measured.n_chains < 2:
        seen = f" By itself it fails: {', '.join(c.name for c in failed)}." if failed else ""
        return NOT_ASSESSED, (
            "a single chain cannot show whether other starts lead elsewhere, however good it "
            f"looks by itself.{seen}"
        )
    if any(check.between for check in failed):
        if not in_different_places(measured, limits):
            if differ_by_more_than_chance(measured, limits):
                return FAILED, (
                    "the chains do not agree with each other: each looks stationary, but place or "
                    "spread of its draws differs by more than chance explains."
                )
            return FAILED, (
                "the chains do not agree with each other yet: they move in the same region, but "
                "too slowly for this number of draws."
            )
        settled = settled_chains(measured, limits)
        modes = ""
        if settled:
            one = len(settled) == 1
            named = f"chain{'' if one else 's'} {', '.join(map(str, settled))}"
            modes = (
                f" Taken alone, {named} look{'s' if one else ''} stationary, but in a different "
                "place than others, which indicates a posterior with several modes."
            )
        return FAILED, (
            "the chains do not agree with each other, so none of them represents the "
            f"posterior.{modes}"
        )
    if failed:
        return FAILED, f"the chains are not stationary: {', '.join(c.name for c in failed)}."
    if not any(check.between and check.status in ("ok", "caution") for check in checks):
        return NOT_ASSESSED, "nothing could be compared between the chains."
    cautious = [check.name for check in checks if check.status == "caution"]
    note = f" Interpret with caution: {', '.join(cautious)}." if cautious else ""
    return PASSED, f"the chains agree with each other.{note}"


def _advice(
    measured: Measurements, checks: list[Check], step: str | None, limits: Limits
) -> Iterable[str]:
    failed = [check for check in checks if check.status == "failed"]
    between = any(check.between for check in failed)
    apart = between and in_different_places(measured, limits)
    limited = [check for check in checks if check.status in ("failed", "caution")]
    if measured.n_chains < 2:
        yield "Sample at least four chains from dispersed starts (chains=4)."
    if apart:
        yield (
            "Do not average these chains, and do not choose one of them. Look at the quantities "
            "named above, for instance with plot_worst(post)."
        )
        if step == "tempered":
            yield "Run the ladder longer, or with more temperatures if exchanges are rare."
        elif step in UNTEMPERED:
            yield (
                f"More draws with step={step!r} will not connect the modes; use step='tempered' "
                "(on the command line: --step tempered)."
            )
        else:
            yield (
                "If more draws do not bring the chains together, use a sampler that moves "
                "between modes (for Anatomy tables: step='tempered', or --step tempered)."
            )
    elif any(check.name == ESS for check in limited):
        factor = 100.0 * measured.n_chains / max(effective_sizes(measured).min(), 1.0)
        yield f"For 100 effective draws per chain, make about {factor:.1f} times as many draws."
        if step in ("swap", "permute", "sequential"):
            yield "step='block' (--step block) moves faster if groups are small enough."
    if not between and {check.name for check in failed} & {name for _, name in WITHIN.values()}:
        yield "The chains still drift: discard a longer beginning (tune=), then make more draws."
    yield from dict.fromkeys(check.advice for check in limited if check.advice)
