"""One verdict on a set of chains, with its reasons and what to do next."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes import compat
from anonbayes.diagnostics.checks import (
    ESS,
    STATUSES,
    WITHIN,
    Check,
    Limits,
    differ_by_more_than_chance,
    effective_sizes,
    in_different_places,
    run_checks,
    settled_chains,
)
from anonbayes.diagnostics.measure import Measurements, measure, measure_independent
from anonbayes.diagnostics.quantities import idata_of, rank_quantities
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import write_text

#: Steps for Anatomy tables that stay in the mode they start in; "tempered" crosses between modes.
UNTEMPERED = ("auto", "block", "collapsed", "swap", "permute", "sequential", "subblock")

PASSED, FAILED, NOT_ASSESSED = "passed", "failed", "not assessed"


@dataclass(frozen=True, eq=False)
class DiagnosticReport:
    """Whether draws can be trusted, why, and what to do.

    Attributes
    ----------
    verdict : {"passed", "failed", "not assessed"}
        ``"not assessed"`` is the verdict on a single chain, whatever it looks like.
    reason : str
        The verdict in a sentence.
    checks : tuple of Check
        Findings, the failed ones first.
    advice : tuple of str
        What to do, most useful first; empty when nothing is needed.
    table : pandas.DataFrame
        One row per scalar quantity. ``kind`` is real, categorical or log density; ``status`` is
        empty, or constant, stuck (chains never move but differ) or not finite. Real quantities have
        ``mean``, ``sd``, ``mcse``, ``ess_bulk``, ``ess_tail``, ``r_hat``, ``agreement_p`` (where
        R-hat is not small: whether chance explains it) and ``geweke_z`` (the
        largest over chains), as far as there are chains and draws enough to tell; categorical ones
        ``weiss_between_p``, ``weiss_within_p`` (the smallest over chains), ``chain_share`` (share
        of the variation that lies between chains), ``phi``, ``n_categories``, ``n_moves`` and
        ``ess_bulk`` (that of a DAR(1) chain).
    source : str
        Chains, draws, method and step.
    """

    verdict: str
    reason: str
    checks: tuple[Check, ...]
    advice: tuple[str, ...]
    table: pd.DataFrame = field(repr=False)
    source: str

    @property
    def passed(self) -> bool:
        """Whether the draws may be used. One chain alone never passes."""
        return self.verdict == PASSED

    @cached_property
    def text(self) -> str:
        """The report as plain text."""
        width = max((len(check.name) for check in self.checks), default=0)
        lines = [*_wrap(f"{self.verdict.upper()}: {self.reason}"), f"({self.source})", ""]
        for check in self.checks:
            head = f"  {check.status:<12}  {check.name:<{width}}  "
            lines += _wrap(check.finding, head, " " * len(head))
        if self.advice:
            lines += ["", "What to do:"]
            lines += [line for advice in self.advice for line in _wrap(advice, "  - ", "    ")]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def worst(self, n: int = 5) -> pd.DataFrame:
        """Return the `n` quantities that give most reason to worry.

        Real quantities are ranked by R-hat (one chain: by Geweke's z), categorical ones by the
        p-value of the Weiß test between chains (one chain: within). Those that are not finite or
        stuck come first, then real and categorical take turns.
        """
        return self.table.loc[rank_quantities(self.table)[:n]]

    def to_dict(self) -> dict[str, Any]:
        """Return the report without its table, in plain types."""
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
        """Return the report as JSON, and write it where `path` says."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><b>{escape(c.status)}</b></td><td>{escape(c.name)}</td>"
            f"<td style='text-align:left'>{escape(c.finding)}</td></tr>"
            for c in self.checks
        )
        advice = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.advice)
        return (
            "<div class='anonbayes-diagnostics'>"
            f"<p><b>{escape(self.verdict.upper())}</b>: {escape(self.reason)}<br>"
            f"<small>{escape(self.source)}</small></p>"
            f"<table><thead><tr><th>status</th><th>check</th><th>finding</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
            + (f"<p>What to do:</p><ul>{advice}</ul>" if advice else "")
            + "</div>"
        )


def _wrap(text: str, first: str = "", other: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width=110,
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )


def diagnose(
    post: Any,
    *,
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    segments: int = 5,
    limits: Limits | None = None,
) -> DiagnosticReport:
    """Judge whether draws can be trusted, by tests within and between chains.

    Real quantities are judged by ArviZ's R-hat, effective sample size and Monte Carlo error and by
    Geweke's z; categorical ones (integer, bool or text, such as the cleartext draws of a table) by
    the Weiß test between chains and within each. Log densities among the sampler's statistics are
    compared between chains, acceptance and exchange rates are reported.

    Parameters
    ----------
    post : Posterior, Estimate, InferenceData, DataTree, Dataset, DataArray, mapping or array
        Draws, of an `Estimate` by ``method="bayes"`` too. A `Posterior` adds what is known about
        the engine: draws of the exact engine are independent and pass by construction.
    var_names, coords
        Part of the posterior to look at, as in ArviZ.
    segments : int, default 5
        Pieces of each chain that the Weiß test within chains compares.
    limits : Limits, optional
        Where a check turns to caution and to failed.

    Returns
    -------
    DiagnosticReport
        ``.passed``, ``.verdict``, ``.text``, ``.table``, ``.checks``, ``.advice``.

    See Also
    --------
    geweke, weiss : the tests by themselves.

    Notes
    -----
    No test can prove that chains have converged. What tells most is whether chains from dispersed
    starts agree, so a single chain is "not assessed", even where it looks fine by itself: on
    posteriors with several modes each chain can be a perfect sample of its own mode.

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
        raise AnonbayesError("The posterior holds no draws to diagnose; fit it with draws > 0.")
    method, step = _engine(post, data)
    if method in ("exact", "crossfit"):
        independent = measure_independent(data, var_names=var_names, coords=coords)
        return _exact(independent, _source(independent, method, step))
    found = measure(data, var_names=var_names, coords=coords, segments=segments)
    limits = limits or Limits()
    run = [*run_checks(found, limits), *_latent(post)]
    checks = sorted(run, key=lambda check: STATUSES.index(check.status))
    verdict, reason = _verdict(found, checks, limits)
    return DiagnosticReport(
        verdict=verdict,
        reason=reason,
        checks=tuple(checks),
        advice=tuple(_advice(found, checks, step, limits)),
        table=found.table,
        source=_source(found, method, step),
    )


def _latent(post: Any) -> Iterator[Check]:
    """Whether secrets behind a channel can move at all: chains may agree in the wrong mode.

    With six people and randomized response, tests of four chains passed 1 of 8 fits at a prior
    weight of 0.01, and 3 of 8 at 0.001, while beliefs ranged from 0.51 to 1.00.
    """
    table = getattr(post, "table", None)
    if table is None or table.scheme != "horizontal" or table.secrets_known:
        return
    least = min((float(beta.min()) for beta in post.prior.beta.values()), default=1.0)
    if least < 0.05:
        yield Check(
            "latent secrets",
            "failed" if least <= 1e-3 else "caution",
            f"prior weights of {least:.2g} let secrets behind a channel move together or not at "
            "all, so that chains can agree in one of several modes",
            advice="Use prior weights (beta=) of at least 0.05.",
        )


def _engine(post: Any, data: Any) -> tuple[str | None, str | None]:
    """Return method and step of a Posterior, or of the ArviZ object that one was stored in."""
    if data is not post:
        return getattr(post, "method", None), getattr(post, "step", None)
    attrs = getattr(data, "attrs", {}) if compat.is_arviz_object(data) else {}
    return attrs.get("method"), attrs.get("step") or None


def _source(found: Measurements, method: str | None, step: str | None) -> str:
    kinds = found.table["kind"].value_counts()
    counted = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
    engine = f"; method {method}" if method else ""
    engine += f", step {step}" if step else ""
    chains = f"{found.n_chains} chain{'s' if found.n_chains > 1 else ''}"
    return f"{chains} x {found.n_draws:,} draws of {counted} quantities{engine}"


def _exact(found: Measurements, source: str) -> DiagnosticReport:
    check = Check(
        "chain",
        "ok",
        "no chains: the draws are independent, from a posterior in closed form",
    )
    return DiagnosticReport(
        verdict=PASSED,
        reason="there are no chains: the draws are independent, from a posterior in closed form.",
        checks=(check,),
        advice=(),
        table=found.table,
        source=source,
    )


def _verdict(found: Measurements, checks: list[Check], limits: Limits) -> tuple[str, str]:
    failed = [check for check in checks if check.status == "failed"]
    if found.n_chains < 2:
        seen = f" By itself it fails: {', '.join(c.name for c in failed)}." if failed else ""
        return NOT_ASSESSED, (
            "one chain alone cannot show whether other starts lead elsewhere, however well it "
            f"looks by itself.{seen}"
        )
    if any(check.between for check in failed):
        if not in_different_places(found, limits):
            if differ_by_more_than_chance(found, limits):
                return FAILED, (
                    "the chains do not agree with each other: each looks settled, but place or "
                    "spread of what they draw differs by more than chance explains."
                )
            return FAILED, (
                "the chains do not agree with each other yet: they move in the same region, but "
                "too slowly for this number of draws."
            )
        settled = settled_chains(found, limits)
        modes = ""
        if settled:
            modes = (
                f" Taken alone, {_chains(settled)} look{'s' if len(settled) == 1 else ''} settled, "
                "but in a different place than others: the mark of a posterior with several modes."
            )
        return FAILED, (
            "the chains do not agree with each other, so none of them can stand for the "
            f"posterior.{modes}"
        )
    if failed:
        return FAILED, f"the chains have not settled: {', '.join(c.name for c in failed)}."
    if not any(check.between and check.status in ("ok", "caution") for check in checks):
        return NOT_ASSESSED, "nothing could be compared between the chains."
    cautious = [check.name for check in checks if check.status == "caution"]
    note = f" Read with caution: {', '.join(cautious)}." if cautious else ""
    return PASSED, f"the chains agree with each other.{note}"


def _chains(numbers: list[int]) -> str:
    return f"chain{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _advice(
    found: Measurements, checks: list[Check], step: str | None, limits: Limits
) -> Iterable[str]:
    failed = [check for check in checks if check.status == "failed"]
    between = any(check.between for check in failed)
    apart = between and in_different_places(found, limits)
    limited = [check for check in checks if check.status in ("failed", "caution")]
    if found.n_chains < 2:
        yield "Sample at least four chains from dispersed starts (chains=4)."
    if apart:
        yield (
            "Do not average these chains, and do not pick one of them. Look at the quantities "
            "named above, for instance with plot_worst(post)."
        )
        if step == "tempered":
            yield "Run the ladder longer, or with more temperatures where exchanges are rare."
        elif step in UNTEMPERED:
            yield (
                f"More draws of step={step!r} will not bridge modes; sample with step='tempered' "
                "(on the command line: --step tempered)."
            )
        else:
            yield (
                "If more draws do not bring the chains together, use a sampler that crosses "
                "between modes (for Anatomy tables: step='tempered', or --step tempered)."
            )
    elif any(check.name == ESS for check in limited):
        factor = 100.0 * found.n_chains / max(effective_sizes(found).min(), 1.0)
        yield f"For 100 effective draws per chain take about {factor:.1f} times as many draws."
        if step in ("swap", "permute", "sequential"):
            yield "step='block' (--step block) moves faster where groups are small enough."
    if not between and {check.name for check in failed} & {name for _, name in WITHIN.values()}:
        yield "The chains still drift: discard a longer beginning (tune), then take more draws."
    yield from dict.fromkeys(check.advice for check in limited if check.advice)
