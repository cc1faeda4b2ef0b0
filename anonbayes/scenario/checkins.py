"""``kind = "checkins"``: counting places so that no report identifies its sender (OneID)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.scenario.choices import COVERAGES, SEPARATOR
from anonbayes.scenario.keys import File, Section, Several, key, word_of
from anonbayes.scenario.outputs import AnyScenario, Result, compare_limits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes

    from anonbayes.budgets import Collection
    from anonbayes.domains import Domain


# -------------------------------------------------------------------------------------------------
# The keys.


Coverage: Any = word_of(COVERAGES)


class Users(Section):
    """Users and the place where each of them is."""

    users: int | None = key("Number of simulated users.", None, ge=2)
    places: int | None = key("Number of places; popularity falls as 1 / rank^exponent.", None, ge=2)
    exponent: float = key("Exponent of the popularity.", 1.0, ge=0)
    file: File | None = key("Delimited UTF-8 file with one user per line.", None)
    column: str | None = key("Column with the places.", None)
    sep: str = key(SEPARATOR, "auto")
    sensitive: Several[str] = key("Values that are sensitive in themselves.", ())

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        simulated = self.users is not None and self.places is not None
        read = self.file is not None and self.column is not None
        if simulated == read:
            yield "give either @users and @places, or @file and @column."


class CheckinsProtocol(Section):
    """How budgets are tuned (OneID)."""

    gamma: float = key("No report may identify its sender with more than gamma / users.", ge=1)
    first: float = key("Share of the users who report first.", 0.1, gt=0, le=0.9)
    rule: Literal["confidence", "posterior"] = key(
        "Rule by which budgets follow from the first reports.", "confidence"
    )
    alpha: float = key(
        "Probability that limits from reports, or from a posterior, are wrong.", 0.05, gt=0, le=1
    )
    coverage: Coverage = key(
        "Whether alpha applies to all values together (simultaneous, which keeps gamma / users) or "
        "to each value (pointwise, as published).",
        "simultaneous",
    )
    cap: float = key("Largest budget of a value that is sensitive in itself.", 1.0, gt=0)


class CheckinsLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_reidentified: float | None = key(
        "Largest share of reports whose sender is identified.", None, ge=0, le=1
    )
    max_error: float | None = key("Largest l1 distance of the shares from the truth.", None, gt=0)


class Checkins(AnyScenario):
    """How well places can be counted if no report may identify its sender."""

    kind: Literal["checkins"] = key("Kind of the scenario.")
    population: Users = key("Users and their places.")
    protocol: CheckinsProtocol = key("How budgets are tuned.")
    limits: CheckinsLimits = key("Limits on the results.", CheckinsLimits)

    def prepare(self) -> PreparedCheckins:
        """Simulate or read the users and their places."""
        import numpy as np

        from anonbayes.budgets import worst_case

        children = np.random.SeedSequence(self.seed).spawn(5)
        # Without a seed the devices use the secure random source.
        seeds = tuple(None if self.seed is None else np.random.default_rng(c) for c in children[1:])
        domain, values = _places(self.population, np.random.default_rng(children[0]))
        for place in self.population.sensitive:
            domain.index(place)
        worst_case(domain, len(values), self.protocol.gamma)  # refuses an impossible gamma
        return PreparedCheckins(self, domain, values, seeds)


# -------------------------------------------------------------------------------------------------
# The run.


PLACE = "place"


@dataclass(frozen=True)
class PreparedCheckins:
    """Users, their places, and the seeds for the run."""

    settings: Checkins
    domain: Domain
    values: npt.NDArray[Any]
    seeds: tuple[Any, ...]

    def run(self) -> Result:
        """Collect reports in two phases, attack them, and compare with equal budgets."""
        import numpy as np
        import pandas as pd

        from anonbayes.budgets import collect

        how, n = self.settings.protocol, len(self.values)
        sensitive = self.settings.population.sensitive
        found = collect(
            self.domain, self.values, how.gamma, first=how.first, rule=how.rule, alpha=how.alpha,
            coverage=how.coverage, sensitive=sensitive, cap=how.cap, seed=self.seeds[0],
        )  # fmt: skip
        counts = np.bincount(self.domain.encode(self.values), minlength=len(self.domain))
        truth = counts / n
        attacked = self._attack(found)
        measures = {
            "users": float(n),
            "places": float(len(self.domain)),
            "bound": how.gamma / n,
            "reidentified": attacked,
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
            details={"within_bound": attacked <= found.budgets[0].bound},
            plots={"places": lambda: _plot(table)},
        )

    def _attack(self, found: Collection) -> float:
        """Expected share of all reports, of both groups, whose sender is identified."""
        import numpy as np

        from anonbayes.reidentify.budget import expected_budget_attack

        codes = self.domain.encode(self.values)
        counts = np.bincount(codes, minlength=len(self.domain))
        named = 0.0
        for channel, budgets, mine in zip(
            found.channels, found.budgets, (found.first, ~found.first), strict=True
        ):
            attack = expected_budget_attack(channel, counts, budgets)
            named += float(attack.success[codes[mine]].sum())
        return named / len(codes)

    def _equal_budgets(self, truth: npt.NDArray[np.float64]) -> float:
        """Error if nothing is known about popularity and all users report with the same budget."""
        import numpy as np

        from anonbayes.budgets import worst_case
        from anonbayes.channels.discriminative import InputDiscriminativeUE

        how = self.settings.protocol
        budgets = worst_case(
            self.domain, len(self.values), how.gamma,
            sensitive=self.settings.population.sensitive, cap=how.cap,
        )  # fmt: skip
        channel = InputDiscriminativeUE.optimal(self.domain, budgets)
        reports = channel.release(self.values, seed=self.seeds[3])
        return float(np.abs(channel.estimate(reports, method="empirical").p - truth).sum())


def _places(users: Users, rng: np.random.Generator) -> tuple[Domain, npt.NDArray[Any]]:
    import numpy as np

    from anonbayes.domains import Domain
    from anonbayes.io.text import read_columns

    if users.file is not None:
        assert users.column is not None
        frame = read_columns(users.file, {"population.column": users.column}, sep=users.sep)
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
            "An attacker who knows where everybody is identifies the sender of "
            f"{m['reidentified']:.4%} of the reports, {kept} the bound of {m['bound']:.4%}.",
            f"The estimated shares have a total error of {m['error_l1']:.3f}; with the "
            f"same budget for every place, {m['error_l1_worst_case']:.3f}.",
        ]
    )


def _plot(table: pd.DataFrame) -> Axes:
    from anonbayes.figures import SERIES, make_axes, plain_log_axis

    ax = make_axes(None, 4.8, 4.4)
    shown = table[(table["truth"] > 0) & (table["users"] > 0)]
    ends = [shown["truth"].min(), shown["truth"].max()]
    ax.plot(ends, ends, color="0.6", linewidth=1)
    ax.plot(shown["truth"], shown["users"], ".", color=SERIES[0], alpha=0.5)
    ax.set(xlabel="Users at the place", ylabel="Estimated number of users")
    ax.set_title("Estimated and true numbers")
    plain_log_axis(ax, "xy")
    return ax
