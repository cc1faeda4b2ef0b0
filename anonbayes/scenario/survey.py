"""``kind = "survey"``: what reports under local privacy tell, and what they guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes import compat
from anonbayes.arrays import Floats
from anonbayes.channels.personalized import Personalized
from anonbayes.channels.registry import make_channel
from anonbayes.channels.response import RandomizedResponse
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.figures import make_axes
from anonbayes.notions.ldp import LDP, Audit
from anonbayes.notions.uldp import ULDP
from anonbayes.scenario.file_columns import read_named
from anonbayes.scenario.outputs import Result, compare_limits

if TYPE_CHECKING:
    from pathlib import Path

    from anonbayes.estimation.closed_forms import Estimate
    from anonbayes.scenario.kinds import Mechanism, Population, Survey

__all__ = ["PreparedSurvey", "plot_shares", "prepare"]

ANSWER = "answer"


@dataclass(frozen=True)
class PreparedSurvey:
    """A survey whose channel and reports are ready.

    Attributes
    ----------
    settings : Survey
        The scenario.
    channel : Channel
        What the devices ran.
    reports : Any
        What they sent.
    truth : ndarray or None
        Shares of the true answers, of simulated people.
    knowledge : mapping
        What the collector knows about tagged places.
    """

    settings: Survey
    channel: Any
    reports: Any
    truth: Floats | None
    knowledge: Mapping[str, Floats]

    def run(self) -> Result:
        """Estimate the shares by every method, and audit the channel."""
        estimates = {m: self._estimate(m) for m in self.settings.estimation.methods}
        chosen = list(estimates.values())[-1]
        measures = {"epsilon": float(self.channel.epsilon), "reports": float(chosen.n)}
        table = pd.DataFrame(index=pd.Index(self.channel.domain.labels, name=ANSWER))
        if self.truth is not None:
            table["truth"] = self.truth
        for method, estimate in estimates.items():
            for column, values in estimate.summary().items():
                table[method if column == "p" else f"{method}_{column}"] = values.to_numpy()
            if self.truth is not None:
                measures[f"error_{method}"] = float(np.abs(estimate.p - self.truth).sum())
        if chosen.interval is not None:
            measures["widest_interval"] = float(np.ptp(chosen.interval, axis=1).max())
        measures |= self._expected_errors(chosen.n)
        audits = list(self._audits())
        return Result(
            text=self._words(chosen, measures, audits),
            measures=measures,
            tables={"shares": table},
            limits=compare_limits(
                self.settings.limits,
                measures,
                {
                    "max_epsilon": "epsilon",
                    "max_error": f"error_{chosen.method}",
                    "max_interval": "widest_interval",
                },
            ),
            details={"audits": [_audit(a) for a in audits], "method": chosen.method},
            netcdf=None if chosen.draws is None else lambda path: _write_draws(chosen, path),
            plots={"shares": lambda: plot_shares(chosen, self.truth)},
        )

    def _estimate(self, method: str) -> Estimate:
        how = self.settings.estimation
        more: dict[str, Any] = {"level": how.level}
        if method == "bayes":
            more |= {"draws": how.draws, "chains": how.chains, "seed": self.settings.seed}
        if self.knowledge:
            more["knowledge"] = self.knowledge
        found: Estimate = self.channel.estimate(self.reports, method=method, **more)
        return found

    def _expected_errors(self, n: int) -> dict[str, float]:
        """Return the expected l1 loss, here and if every answer were protected alike."""
        truth = self.truth
        if truth is None or self.settings.mechanism.tags:
            return {}
        plain = RandomizedResponse(self.channel.domain, self.channel.epsilon)
        return {
            "expected_error": self.channel.expected_loss(truth, n, norm="l1", sampled=False),
            "expected_error_randomized_response": plain.expected_loss(
                truth, n, norm="l1", sampled=False
            ),
        }

    def _audits(self) -> Iterator[Audit]:
        how = self.settings.mechanism
        if not how.sensitive and not how.tags:
            yield self.channel.satisfies(LDP(how.epsilon))
            return
        if how.sensitive:
            yield self.channel.satisfies(ULDP(how.sensitive, how.epsilon))
        # A user with a secret place of her own: it is as protected as the sensitive ones.
        ordinary = [value for value in self.channel.domain if value not in how.sensitive]
        for tag in how.tags if ordinary else ():
            notion = ULDP([*how.sensitive, ordinary[0]], how.epsilon)
            yield self.channel.satisfies(notion, personal={ordinary[0]: tag})

    def _words(self, chosen: Estimate, measures: Mapping[str, float], audits: list[Audit]) -> str:
        top = chosen.to_series().sort_values(ascending=False).head(3)
        shown = ", ".join(f"{name} {share:.1%}" for name, share in top.items())
        lines = [f"{chosen.n:,} reports, method {chosen.method}; most frequent: {shown}."]
        if self.truth is not None:
            error = measures[f"error_{chosen.method}"]
            lines.append(f"The estimate is {error:.3f} away from the truth (l1).")
        if "expected_error" in measures:
            lines.append(
                f"Expected for the unbiased estimate: {measures['expected_error']:.3f}; with plain "
                "randomized response of the same budget: "
                f"{measures['expected_error_randomized_response']:.3f}."
            )
        for audit in audits:
            word = "holds" if audit.holds else "DOES NOT HOLD"
            lines.append(
                f"{type(audit.notion).__name__} with epsilon {measures['epsilon']:g} {word}: "
                f"worst ratio {audit.worst_ratio:.4g}, allowed {audit.limit:.4g}."
            )
        return "\n".join(lines)


def prepare(settings: Survey) -> PreparedSurvey:
    """Make the channel, and draw or read the reports."""
    how = settings.mechanism
    if settings.reports is not None:
        channel = _channel(how, how.values)
        source, column = settings.reports, settings.reports.column
        frame = read_named(source.file, {"reports.column": column}, sep=source.sep)
        reports = channel.read_texts(frame[column].tolist(), where=f"Column {column!r}")
        channel.likelihood(reports)  # refuses reports that the channel cannot send
        return PreparedSurvey(settings, channel, reports, None, {})
    assert settings.population is not None
    return _simulate(settings, settings.population)


def _channel(how: Mechanism, values: tuple[str, ...]) -> Any:
    domain = Domain(ANSWER, [*values, *how.tags])
    common = make_channel(how.channel, domain, how.epsilon, sensitive=[*how.sensitive, *how.tags])
    return Personalized(common, how.tags) if how.tags else common


def _simulate(settings: Survey, population: Population) -> PreparedSurvey:
    how = settings.mechanism
    channel = _channel(how, how.values or tuple(population.shares))
    size, seeds = len(channel.domain), np.random.SeedSequence(settings.seed).spawn(2)
    rng = np.random.default_rng(seeds[0])
    everyone = _distribution("population.shares", population.shares, channel.domain)
    weights = [tag.share for tag in how.tags.values()]
    kind = rng.choice(len(weights) + 1, population.people, p=[*weights, max(0, 1 - sum(weights))])
    codes = rng.choice(size, population.people, p=everyone)
    held: Any = channel.domain.decode(codes)
    knowledge = {}
    for i, (name, tag) in enumerate(how.tags.items()):
        where = f"mechanism.tags.{name}.places"
        places = _distribution(where, tag.places, channel.domain) if tag.places else everyone
        mine = kind == i
        codes[mine] = rng.choice(size, int(mine.sum()), p=places)
        held[mine] = name
        if tag.known:
            knowledge[name] = places
    truth = np.bincount(codes, minlength=size) / population.people
    device: Any = None if settings.seed is None else np.random.default_rng(seeds[1])
    sender = channel.common if how.tags else channel
    return PreparedSurvey(settings, channel, sender.release(held, seed=device), truth, knowledge)


def _distribution(where: str, weights: Mapping[str, float], domain: Domain) -> Floats:
    out = np.zeros(len(domain))
    for value, weight in weights.items():
        if not weight >= 0:
            raise AnonbayesError(f"{where}.{value} = {weight!r} must not be negative.")
        out[domain.index(value)] = weight
    if not 0 < out.sum() < np.inf:
        raise AnonbayesError(f"{where} must have a positive, finite sum.")
    return out / out.sum()


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "notion": type(audit.notion).__name__,
        "holds": audit.holds,
        "worst_ratio": audit.worst_ratio,
        "limit": audit.limit,
        "witness": None if audit.witness is None else str(audit.witness),
    }


def _write_draws(estimate: Estimate, path: Path) -> None:
    assert estimate.draws is not None
    content = {"posterior": estimate.draws.rename("p").to_dataset()}
    compat.write_netcdf(compat.make_idata(content), path)


def plot_shares(estimate: Estimate, truth: Floats | None) -> Any:
    """Shares with their intervals, and the truth where it is known."""
    place = np.arange(len(estimate.p))
    ax = make_axes(None, 6.0, 1.2 + 0.28 * len(place))
    errors = None
    if estimate.interval is not None:
        errors = np.abs(estimate.interval.T - estimate.p)
    ax.errorbar(estimate.p, place, xerr=errors, fmt="o", color="C0", label=estimate.method)
    if truth is not None:
        ax.plot(truth, place, "|", color="black", markersize=14, label="truth")
    ax.set_yticks(place, estimate.domain.labels)
    ax.invert_yaxis()
    ax.set_xlabel("share")
    ax.legend(frameon=False)
    return ax
