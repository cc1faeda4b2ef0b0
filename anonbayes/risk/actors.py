"""Named attackers: what each knows about the people in a table, and what each learns (MODEL 1.10).

An `Actor` describes what an attacker knows: which attributes, exactly, coarsely or noisily; the
group; a register of other people; other releases about the same people; their own prior.
`attackers` assesses one release against several of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Ints
from anonbayes.beliefs.editions import People
from anonbayes.channels.randomness import randomness
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.figures import COLOURS, in_lines, legend_below, make_axes, percent_axis
from anonbayes.formats import share
from anonbayes.inference.dirichlet import PriorLike
from anonbayes.inference.fit import fit
from anonbayes.risk.assess import assess
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anonbayes.channels.base import Channel
    from anonbayes.inference.posterior import Posterior


SHOWN = {
    "right": "secrets guessed right",
    "learner_right": "without the table",
    "cost": "due to the table",
    "stated": "certainty stated",
    "log_loss": "log loss",
    "doubled": "at least twice as certain",
    "sure": "sure beyond 90%",
}

WHOLE = "all attributes of a person"


@dataclass(frozen=True, eq=False)
class Actor:
    """An attacker, described by what the attacker knows.

    Parameters
    ----------
    name : str
        Name of the attacker.
    knows : sequence of str, optional
        Attributes of a victim that the attacker knows; by default all.
    coarse : mapping, optional
        Attributes of which only a coarser label is known: by attribute, a level of its hierarchy or
        a mapping from values to labels.
    noisy : mapping of str to Channel, optional
        Attributes known only through a channel, such as `RandomizedResponse`.
    group : str, optional
        Column of the cleartext with each person's group in a vertical table; the attacker knows it.
    register : pandas.DataFrame or ReleasedTable, optional
        Cleartext rows of other people; see `fit`.
    also : sequence of ReleasedTable
        Further releases about the same people; see `fit`.
    people : {"records"} or sequence of sequences
        How to match people across these releases; see `fit`.
    alpha, beta : optional
        The attacker's own prior; by default that of the other attackers.
    about : str
        The assumption, in a sentence; reports show it.

    Examples
    --------
    >>> Actor.neighbour("age", "sex").knows
    ('age', 'sex')
    """

    name: str
    knows: Sequence[str] | None = None
    coarse: Mapping[str, int | Mapping[object, object]] = field(default_factory=dict)
    noisy: Mapping[str, Channel] = field(default_factory=dict)
    group: str | None = None
    register: pd.DataFrame | ReleasedTable | None = None
    also: Sequence[ReleasedTable] = ()
    people: People = "records"
    alpha: PriorLike | None = None
    beta: PriorLike | None = None
    about: str = ""

    @classmethod
    def stranger(cls) -> Actor:
        """Attacker who has a person's whole record, and nothing else."""
        return cls("stranger", about=f"Knows {WHOLE}, and that they are in the table.")

    @classmethod
    def neighbour(cls, *attributes: str, name: str = "neighbour") -> Actor:
        """Attacker who knows some attributes of a person."""
        if not attributes or not all(isinstance(one, str) for one in attributes):
            raise AnonbayesError(
                "Name the attributes that the neighbour knows: neighbour('age', 'sex')."
            )
        known = f"Knows {', '.join(attributes)} of a person, and that they are in the table."
        return cls(name, attributes, about=known)

    @classmethod
    def insider(cls, group: str = "group") -> Actor:
        """Attacker who knows a person's group in an Anatomy (a column of the cleartext)."""
        about = f"Knows {WHOLE}, and the group of the Anatomy that they are in."
        return cls("insider", group=group, about=about)

    @classmethod
    def register_holder(cls, register: pd.DataFrame) -> Actor:
        """Attacker who has the cleartext of other people of the population."""
        about = f"Knows {WHOLE}, and {len(register):,} other people of the population in clear."
        return cls("register holder", register=register, about=about)

    @classmethod
    def collector(cls, *also: ReleasedTable, people: People = "records") -> Actor:
        """Attacker who has further releases about the same people."""
        about = f"Knows {WHOLE}, and has {len(also)} more of the releases about them."
        return cls("collector", also=also, people=people, about=about)

    @property
    def person(self) -> tuple[object, ...]:
        """Knowledge and prior without further releases, as a key to compare attackers."""
        knows = None if self.knows is None else frozenset(self.knows)
        held = (self.group, None if self.register is None else id(self.register))
        return (knows, dict(self.coarse), dict(self.noisy), *held, self.alpha, self.beta)

    def check(self, table: ReleasedTable) -> None:
        """Raise `AnonbayesError` if the attacker knows attributes that the table does not have."""
        for name in (*(self.knows or ()), *self.coarse, *self.noisy):
            if name not in table.columns:
                raise AnonbayesError(
                    f"Attacker {self.name!r} knows {name!r}, which is not an attribute of the "
                    f"release. {nearest(name, table.attributes)}"
                )
        for name, level in self.coarse.items():
            if isinstance(level, int):
                _labels(self, table.domains[name], level)

    def knowledge(self, domain: Domain, codes: Ints, seed: int) -> Known | None:
        """Knowledge about an attribute, given true codes; None if the value itself is known."""
        name = domain.name
        if name in self.noisy:
            channel = self.noisy[name]
            stream = randomness(seed, f"what {self.name} sees of {name}")
            reports = channel.release(
                list(domain.decode(codes)), seed=int(stream.integers(0, 2**62, 1)[0])
            )
            seen, _, matrix = channel.evidence(reports)
            return np.asarray(seen, dtype=np.int64), sparse.csr_array(matrix)
        if name in self.coarse:
            labels = _labels(self, domain, self.coarse[name])
            cell, distinct = pd.factorize(pd.Index(labels, tupleize_cols=False))
            members = (np.ones(len(cell)), (cell, np.arange(len(cell))))
            shape = (len(distinct), len(domain))
            return cell.astype(np.int64)[codes], sparse.csr_array(members, shape=shape)
        if self.knows is not None and name not in self.knows:
            unknown = sparse.csr_array(np.ones((1, len(domain))))
            return np.zeros(len(codes), dtype=np.int64), unknown
        return None


Known = tuple[Ints, sparse.csr_array]


def _labels(actor: Actor, domain: Domain, level: int | Mapping[object, object]) -> list[object]:
    if isinstance(level, Mapping):
        lacking = [value for value in domain.values if value not in level]
        if lacking:
            raise AnonbayesError(
                f"Attacker {actor.name!r}: coarse= has no label for {lacking[0]!r} of "
                f"{domain.name!r} ({len(lacking)} values without a label)."
            )
        return [level[value] for value in domain.values]
    tree = domain.hierarchy
    if tree is None or not 0 <= level <= tree.depth:
        known = "it has no hierarchy" if tree is None else f"it has levels 0 to {tree.depth}"
        raise AnonbayesError(
            f"Attacker {actor.name!r} knows level {level} of {domain.name!r}, but {known}; give a "
            "label for each value instead."
        )
    if level == 0:
        return list(domain.values)
    place = {str(leaf): i for i, leaf in enumerate(tree.leaves)}
    return [tree.label(place[label], level) for label in domain.labels]


@dataclass(frozen=True, eq=False, repr=False)
class Attackers:
    """One release assessed against several attackers. Made by `attackers`.

    Attributes
    ----------
    actors : tuple of Actor
        The attackers.
    risks : mapping of str to RiskAssessment
        The assessment for each attacker, by name.
    """

    actors: tuple[Actor, ...]
    risks: Mapping[str, RiskAssessment]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The attackers in a table, one row each, those who guess best first.

        ``right`` is the share of secrets guessed right; ``learner_right`` that of somebody who
        knows as much about a person but not that they are in the table; ``cost`` the difference (at
        least 0). ``stated`` is the mean belief in the best guess; ``log_loss`` and ``doubled`` are
        as in `RiskAssessment`; ``sure`` is the share of people whose true secret the attacker
        believes with more than 90%.
        """
        lines = {}
        for actor in self.actors:
            risk = self.risks[actor.name]
            score, people = risk.scores, risk.people.to_numpy()
            sure = risk.rows["p_A"].to_numpy() > 0.9
            lines[actor.name] = {
                "right": score.loc["attacker", "right"],
                "right_se": score.loc["attacker", "right_se"],
                "learner_right": score.loc["learner", "right"],
                "cost": risk.summary["RGT_A"],
                "stated": score.loc["attacker", "stated"],
                "log_loss": score.loc["attacker", "log_loss"],
                "ece": score.loc["attacker", "ece"],
                "max_Ti": risk.summary["max_Ti"],
                "doubled": risk.summary["doubled"],
                "sure": float(people[sure].sum() / people.sum()),
                "about": actor.about,
            }
        frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("attacker")
        return frame.sort_values("right", ascending=False, kind="stable")

    @property
    def text(self) -> str:
        """A sentence per attacker, and `further` if it is not empty."""
        lines = [
            f"{str(name).capitalize()}: {share(line['right'])} of the secrets guessed right, "
            f"{share(line['learner_right'])} without the table; more than 90% sure of "
            f"{share(line['sure'])}."
            for name, line in self.table.iterrows()
        ]
        return "\n".join([*lines, *([self.further] if self.further else [])])

    @property
    def further(self) -> str:
        """What further releases reveal; empty unless two attackers differ only in them."""
        for holder in self.actors:
            alike = [a for a in self.actors if not a.also and a.person == holder.person]
            if not holder.also or not alike:
                continue
            more, less = (self.table.loc[a.name].to_dict() for a in (holder, alike[0]))
            gain = more["right"] - less["right"]
            start = "Together the releases of the same people"
            if gain > 2 * more["right_se"]:
                start = (
                    "Warning: the releases of the same people undermine each other. Together they"
                )
            return (
                f"{start} reveal {share(gain) if gain > 0 else 'none'} of the secrets beyond "
                f"this release alone: {share(more['right'])} are guessed right instead of "
                f"{share(less['right'])}, and {share(more['sure'])} instead of "
                f"{share(less['sure'])} are believed with more than 90%."
            )
        return ""

    def to_dict(self) -> list[dict[str, object]]:
        """Return the results as plain types for JSON, one object per attacker."""
        return [
            {"attacker": str(name)}
            | {str(k): v if isinstance(v, str) or np.isfinite(v) else None for k, v in line.items()}
            | {"remarks": list(self.risks[str(name)].remarks)}
            for name, line in self.table.iterrows()
        ]

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the share of secrets that each attacker guesses right, with and without the table.

        Examples
        --------
        >>> import anonbayes as ab
        >>> table, people = ab.datasets.load("table1_recoded"), ab.datasets.load("table1")
        >>> found = ab.attackers(table, people, seed=1, draws=50, progressbar=False)
        >>> [label.get_text() for label in found.plot().get_yticklabels()]
        ['stranger']
        """
        frame = self.table.iloc[::-1]
        ax = make_axes(ax, 6.0, 1.2 + 0.5 * len(frame))
        places = np.arange(len(frame))
        ax.hlines(places, frame["learner_right"], frame["right"], color="0.8", linewidth=3)
        ax.plot(
            frame["learner_right"], places, "o", color=COLOURS["less"], label="Without the table"
        )
        ax.errorbar(
            frame["right"], places, xerr=2 * frame["right_se"], fmt="D", color=COLOURS["more"],
            label="With it (bar: two standard errors)",
        )  # fmt: skip
        ax.set_yticks(places, in_lines(frame.index))
        ax.set(xlabel="Secrets guessed right", ylim=(-0.5, len(frame) - 0.5))
        most = frame[["right", "learner_right"]].to_numpy().max()
        ax.set_xlim(0, min(1.02, max(most * 1.15, 0.1)))
        percent_axis(ax.xaxis)
        legend_below(ax)
        return ax

    def __repr__(self) -> str:
        return f"Attackers({', '.join(actor.name for actor in self.actors)})\n{self.text}"

    def _repr_html_(self) -> str:
        shown = self.table[list(SHOWN)].rename(columns=SHOWN)
        notes = "".join(
            f"<li><b>{escape(actor.name)}</b>: {escape(actor.about)}</li>" for actor in self.actors
        )
        return f"{shown.to_html(float_format='{:.3f}'.format)}<ul>{notes}</ul>"


def attackers(
    table: ReleasedTable,
    people: pd.DataFrame,
    actors: Iterable[Actor] | None = None,
    *,
    harm: Iterable[object] | None = None,
    weights: str | None = None,
    seed: int | None = 0,
    post: Posterior | None = None,
    **settings: Any,
) -> Attackers:
    """Assess a release against several attackers.

    Attackers who differ only in what they know about a person share one posterior.

    Parameters
    ----------
    table : ReleasedTable
        The release.
    people : pandas.DataFrame
        Its cleartext, as in `Posterior.assess`.
    actors : iterable of Actor, optional
        The attackers; by default a stranger.
    harm, weights : optional
        As in `Posterior.assess`.
    seed : int, optional
        Seed of the fits and of noisy knowledge.
    post : Posterior, optional
        The posterior of the release alone, if you have it, to save time.
    **settings
        Further arguments of `fit`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> table, people = ab.datasets.load("table1_recoded"), ab.datasets.load("table1")
    >>> who = [ab.Actor.stranger(), ab.Actor.neighbour("Nat")]
    >>> found = ab.attackers(table, people, who, seed=1, progressbar=False)
    >>> bool(found.table["right"]["stranger"] >= found.table["right"]["neighbour"])
    True
    """
    chosen = (Actor.stranger(),) if actors is None else tuple(actors)
    if not chosen:
        raise AnonbayesError("actors= is empty; name at least one attacker.")
    name, times = Counter(actor.name for actor in chosen).most_common(1)[0]
    if times > 1:
        raise AnonbayesError(f"Two attackers are called {name!r}; give each its own name.")
    for actor in chosen:
        actor.check(table)
    risks, shared = {}, post
    for actor in chosen:
        own = {"alpha": actor.alpha, "beta": actor.beta, "register": actor.register}
        more = {k: v for k, v in own.items() if v is not None}
        if actor.also:
            tables = [table, *actor.also]
            of_actor = fit(tables, people=actor.people, seed=seed, **(settings | more))
        elif more:
            of_actor = fit(table, seed=seed, **(settings | more))
        else:
            shared = fit(table, seed=seed, **settings) if shared is None else shared
            of_actor = shared
        risks[actor.name] = assess(
            of_actor, people, harm=harm, weights=weights, group=actor.group,
            knowledge=partial(actor.knowledge, seed=seed or 0),
        )  # fmt: skip
    return Attackers(chosen, risks)
