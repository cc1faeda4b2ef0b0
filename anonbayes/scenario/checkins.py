"""``kind = "checkins"``: counting places when no report may give its sender away (OneID)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.budgets import Collection, collect, worst_case
from anonbayes.channels.discriminative import InputDiscriminativeUE
from anonbayes.domains import Domain
from anonbayes.figures import make_axes
from anonbayes.reidentify.budget import simulate_budget_attack
from anonbayes.reidentify.result import Rate
from anonbayes.scenario.file_columns import read_named
from anonbayes.scenario.outputs import Result, compare_limits

if TYPE_CHECKING:
    from anonbayes.scenario.kinds import Checkins, Users

__all__ = ["PreparedCheckins", "prepare"]

PLACE = "place"


@dataclass(frozen=True)
class PreparedCheckins:
    """Users, their places, and the seeds of what follows."""

    settings: Checkins
    domain: Domain
    values: npt.NDArray[Any]
    seeds: tuple[Any, ...]

    def run(self) -> Result:
        """Collect in two phases, attack the reports, and compare with equal budgets."""
        how, n = self.settings.protocol, len(self.values)
        sensitive = self.settings.population.sensitive
        found = collect(
            self.domain, self.values, how.gamma, first=how.first, rule=how.rule, alpha=how.alpha,
            sensitive=sensitive, cap=how.cap, seed=self.seeds[0],
        )  # fmt: skip
        counts = np.bincount(self.domain.encode(self.values), minlength=len(self.domain))
        truth = counts / n
        attacked = self._attack(found)
        measures = {
            "users": float(n),
            "places": float(len(self.domain)),
            "bound": how.gamma / n,
            "reidentified": attacked.share,
            "reidentified_standard_error": attacked.standard_error,
            "unprotected_places": float(np.isinf(found.budgets[1].epsilon).sum()),
            "error_l1": float(np.abs(found.estimate.p - truth).sum()),
            "error_l1_worst_case": self._equal_budgets(truth),
        }
        table = found.summary().assign(truth=counts)
        table.index = pd.Index(self.domain.labels, name=PLACE)
        return Result(
            text=_words(measures),
            measures=measures,
            tables={"places": table},
            limits=compare_limits(
                self.settings.limits,
                measures,
                {"max_reidentified": "reidentified", "max_error": "error_l1"},
            ),
            details={"within_bound": attacked.within_bound},
            plots={"places": lambda: _plot(table)},
        )

    def _attack(self, found: Collection) -> Rate:
        """Share of all reports, of both groups, whose sender is named."""
        parts = []
        for channel, budgets, mine, seed in zip(
            found.channels, found.budgets, (found.first, ~found.first), self.seeds[1:3], strict=True
        ):
            parts.append(
                simulate_budget_attack(
                    channel, self.values, budgets, senders=np.flatnonzero(mine),
                    sensitive=self.settings.population.sensitive, seed=seed,
                ).success
            )  # fmt: skip
        success = np.concatenate(parts)
        # Successes are probabilities; averaging them is what `rate` does with an attack's own.
        share, error = float(success.mean()), float(success.std() / np.sqrt(len(success)))
        return Rate(share, len(success), error, found.budgets[0].bound)

    def _equal_budgets(self, truth: npt.NDArray[np.float64]) -> float:
        """Error when nothing is known about popularity and all users report under that."""
        how = self.settings.protocol
        budgets = worst_case(
            self.domain, len(self.values), how.gamma,
            sensitive=self.settings.population.sensitive, cap=how.cap,
        )  # fmt: skip
        channel = InputDiscriminativeUE.optimal(self.domain, budgets)
        reports = channel.release(self.values, seed=self.seeds[3])
        return float(np.abs(channel.estimate(reports, method="empirical").p - truth).sum())


def prepare(settings: Checkins) -> PreparedCheckins:
    """Draw or read where users are."""
    children = np.random.SeedSequence(settings.seed).spawn(5)
    # Without a seed the devices draw from the secure source.
    seeds = tuple(None if settings.seed is None else np.random.default_rng(c) for c in children[1:])
    domain, values = _places(settings.population, np.random.default_rng(children[0]))
    for place in settings.population.sensitive:
        domain.index(place)
    worst_case(domain, len(values), settings.protocol.gamma)  # refuses an impossible gamma
    return PreparedCheckins(settings, domain, values, seeds)


def _places(users: Users, rng: np.random.Generator) -> tuple[Domain, npt.NDArray[Any]]:
    if users.file is not None:
        assert users.column is not None
        frame = read_named(users.file, {"population.column": users.column}, sep=users.sep)
        values = frame[users.column].to_numpy(dtype=object)
        return Domain(PLACE, sorted(set(values))), values
    assert users.places is not None and users.users is not None
    width = len(str(users.places))
    domain = Domain(PLACE, [f"p{i:0{width}d}" for i in range(1, users.places + 1)])
    weights = np.arange(1, users.places + 1, dtype=float) ** -users.exponent
    codes = rng.choice(users.places, users.users, p=weights / weights.sum())
    return domain, domain.decode(codes)


def _words(m: Mapping[str, float]) -> str:
    kept = "within" if m["reidentified"] <= m["bound"] else "ABOVE"
    return "\n".join(
        [
            f"{m['users']:,.0f} users at {m['places']:,.0f} places, of which "
            f"{m['unprotected_places']:,.0f} turned out popular enough to need no noise.",
            f"An attacker who knows where everybody is names the sender of "
            f"{m['reidentified']:.4%} of the reports, {kept} the bound of {m['bound']:.4%}.",
            f"The counts are {m['error_l1']:.3f} away from the truth (l1 of the shares); with the "
            f"same budget for every place: {m['error_l1_worst_case']:.3f}.",
        ]
    )


def _plot(table: pd.DataFrame) -> Any:
    ax = make_axes(None, 4.6, 4.2)
    shown = table[(table["truth"] > 0) & (table["users"] > 0)]
    ax.loglog(shown["truth"], shown["users"], ".", color="C0")
    ends = [shown["truth"].min(), shown["truth"].max()]
    ax.loglog(ends, ends, color="0.6", linewidth=1)
    ax.set_xlabel("users at the place")
    ax.set_ylabel("estimated")
    return ax
