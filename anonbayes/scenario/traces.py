"""``kind = "traces"``: how many bits reported visits reveal about who sent them (PIE)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anonbayes.errors import AnonbayesError
from anonbayes.scenario.choices import SEPARATOR
from anonbayes.scenario.keys import File, Section, Several, key
from anonbayes.scenario.outputs import AnyScenario, Result, compare_limits

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from scipy import sparse

    from anonbayes.arrays import Ints
    from anonbayes.domains import Domain
    from anonbayes.reidentify import MarkovAttack


# -------------------------------------------------------------------------------------------------
# The keys.


class Movers(Section):
    """Users and the regions that each of them visits, in order."""

    users: int | None = key("Number of simulated users.", None, ge=2)
    regions: int | None = key("Number of regions.", None, ge=2)
    events: int = key("Visits of each simulated user.", 60, ge=4)
    file: File | None = key("Delimited UTF-8 file with one visit per line, in order of time.", None)
    user: str | None = key("Column with the users.", None)
    region: str | None = key("Column with the regions.", None)
    sep: str = key(SEPARATOR, "auto")

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        simulated = None not in (self.users, self.regions)
        read = None not in (self.file, self.user, self.region)
        if simulated == read:
            yield "give either @users and @regions, or @file, @user and @region."


class Noise(Section):
    """Randomized response on every visit."""

    epsilon: float = key("Privacy budget of each report.", ge=0)
    compare: Several[Annotated[float, Field(ge=0)]] = key("Further budgets for comparison.", ())


class TracesLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_bits: float | None = key(
        "Largest number of bits that a report may reveal about its sender.", None, ge=0
    )
    max_identified: float | None = key(
        "Largest share of traces whose sender is identified.", None, ge=0, le=1
    )


class TracesScenario(AnyScenario):
    """How much reports of visited regions reveal about who sent them, in bits (PIE)."""

    kind: Literal["traces"] = key("Kind of the scenario.")
    population: Movers = key("Users and their visits.")
    mechanism: Noise = key("What runs on their devices.")
    limits: TracesLimits = key("Limits on the results.", TracesLimits)

    def prepare(self) -> PreparedTraces:
        """Simulate or read the visits."""
        import numpy as np

        from anonbayes import reidentify
        from anonbayes.domains import Domain

        movers = self.population
        if movers.file is not None:
            return PreparedTraces(self, *_read(movers))
        assert movers.users is not None and movers.regions is not None
        child = np.random.SeedSequence(self.seed).spawn(3)[2]
        drawn = reidentify.synthetic_traces(
            movers.users, movers.events, movers.regions, seed=np.random.default_rng(child)
        )
        visits = [np.asarray(trace, dtype=np.int64) for trace in drawn]
        return PreparedTraces(self, Domain("region", range(movers.regions)), visits)


# -------------------------------------------------------------------------------------------------
# The run.


SHORTEST = 4


@dataclass(frozen=True)
class PreparedTraces:
    """Visits of every user, in order, as codes of the domain.

    The adversary knows the first half of each user's visits; the second half is reported.
    """

    settings: TracesScenario
    domain: Domain
    visits: list[Ints]

    def run(self) -> Result:
        """Measure and attack reports under every budget, and visits in clear."""
        import pandas as pd

        from anonbayes import reidentify

        known = [visits[: len(visits) // 2] for visits in self.visits]
        sent = [visits[len(visits) // 2 :] for visits in self.visits]
        joint = self._joint(sent)
        how = self.settings.mechanism
        budgets = sorted({how.epsilon, *how.compare})
        found = {epsilon: self._measure(epsilon, joint, sent, known) for epsilon in budgets}
        table = pd.DataFrame.from_dict(found, orient="index").rename_axis("epsilon")
        measures = dict(found[how.epsilon])
        clear = reidentify.markov_attack(sent, known, seed=self._seed(1)).top(1).share
        measures |= {"identified_in_clear": float(clear), "users": float(len(sent))}
        return Result(
            text=_words(measures, how.epsilon),
            measures=measures,
            tables={"budgets": table},
            limits=compare_limits(
                self.settings.limits, measures, {"max_bits": "bits", "max_identified": "identified"}
            ),
            plots={"budgets": lambda: _plot(table, float(clear))} if len(table) > 1 else {},
        )

    def _joint(self, sent: list[Ints]) -> sparse.csr_array:
        """Probability that a random report is that of a user and a region, ``p_UX``.

        Users are equally likely; each reports regions as often as she visits them.
        """
        import numpy as np
        from scipy import sparse

        owner = np.repeat(np.arange(len(sent)), [len(s) for s in sent])
        weight = np.concatenate([np.full(len(s), 1 / (len(s) * len(sent))) for s in sent])
        shape = (len(sent), len(self.domain))
        return sparse.csr_array((weight, (owner, np.concatenate(sent))), shape=shape)

    def _measure(
        self, epsilon: float, joint: sparse.csr_array, sent: list[Ints], known: list[Ints]
    ) -> dict[str, float]:
        import numpy as np

        from anonbayes import pie, reidentify
        from anonbayes.channels.pure import RandomizedResponse

        channel, n = RandomizedResponse(self.domain, epsilon), len(sent)
        bits = float(pie.information(joint, channel))
        ends = np.cumsum([len(s) for s in sent])[:-1]
        device = None if self.settings.seed is None else self._seed(0)
        reports = self.domain.encode(
            channel.release(self.domain.decode(np.concatenate(sent)), seed=device)
        )
        attack = reidentify.markov_attack(np.split(reports, ends), known, seed=self._seed(1))
        return {
            "bits": bits,
            "bound": pie.bound(channel, n, kind="theorem"),
            "bound_exact": pie.bound(channel, n, kind="exact"),
            "bayes_error": pie.bayes_error(bits, n),
            "system_entropy": _system_entropy(attack),
            "identified": float(attack.top(1).share),
        }

    def _seed(self, number: int) -> np.random.Generator:
        import numpy as np

        return np.random.default_rng(np.random.SeedSequence(self.settings.seed).spawn(3)[number])


def _system_entropy(attack: MarkovAttack) -> float:
    """PSE of the scores; NaN if genuine and impostor scores do not overlap."""
    try:
        return float(attack.system_entropy())
    except AnonbayesError:
        return float("nan")


def _read(movers: Movers) -> tuple[Domain, list[Ints]]:
    import numpy as np

    from anonbayes.domains import Domain
    from anonbayes.io.text import read_columns

    assert movers.file is not None and movers.user is not None and movers.region is not None
    names = {"population.user": movers.user, "population.region": movers.region}
    frame = read_columns(movers.file, names, sep=movers.sep)
    domain = Domain("region", sorted(frame[movers.region].unique()))
    codes = domain.encode(frame[movers.region].tolist()).astype(np.int64)
    visits = {user: codes[rows] for user, rows in frame.groupby(movers.user).indices.items()}
    for user, trace in visits.items():
        if len(trace) < SHORTEST:
            raise AnonbayesError(
                f"User {user!r} has {len(trace)} visits, but at least {SHORTEST} are needed to "
                "learn habits from one half and attack the other."
            )
    if len(visits) < 2:
        raise AnonbayesError("There is only one user; identification needs at least two.")
    return domain, list(visits.values())


def _words(m: Mapping[str, float], epsilon: float) -> str:
    return (
        f"With epsilon = {epsilon:g} a report reveals {m['bits']:.4g} bits about which of "
        f"{m['users']:,.0f} users sent it (at most {m['bound_exact']:.4g} whatever their habits, "
        f"{m['bound']:.4g} by the theorem); nobody can identify senders with an error below "
        f"{m['bayes_error']:.1%}.\nWhole traces reveal more: an adversary who knows everybody's "
        f"habits identifies the sender of {m['identified']:.1%} of them, and of "
        f"{m['identified_in_clear']:.1%} without noise."
    )


def _plot(table: pd.DataFrame, clear: float) -> Axes:
    from anonbayes.figures import SERIES, legend_below, make_panels, percent_axis

    above, below = make_panels(2, width=5.6, height=5.4, sharex=True)[:, 0]
    for ax in (above, below):
        ax.margins(y=0.1)
    above.plot(table.index, table["bits"], "o-", color=SERIES[0], label="bits of a report")
    above.plot(table.index, table["bound"], "--", color="0.4", label="at most, by the theorem")
    above.set_ylabel("Bits about the sender")
    above.legend(frameon=False, fontsize="small")
    below.plot(table.index, table["identified"], "s-", color=SERIES[1], label="with noise")
    below.axhline(clear, color="0.4", linestyle=":", label="in clear")
    below.set(
        xlabel="Privacy budget epsilon", ylabel="Traces whose sender is identified", ylim=(0, 1.03)
    )
    percent_axis(below.yaxis)
    legend_below(below)
    return above
