"""Attackers of an assessment: what the keys say each of them knows and holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.formats import count
from anonbayes.scenario.assessment_keys import Attacker
from anonbayes.scenario.release import Release, make_release

if TYPE_CHECKING:
    from anonbayes.beliefs.editions import People as WhoIsWho
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.actors import Actor, Attackers
    from anonbayes.risk.measures import Limit
    from anonbayes.scenario.people_in_clear import People
    from anonbayes.scenario.release_assessment import Assessment
    from anonbayes.tables.evidence import KnownValues
    from anonbayes.tables.table import ReleasedTable


ALONE, TOGETHER = "this release alone", "all releases together"


@dataclass(frozen=True, eq=False)
class Further:
    """Further releases about the same people, and who is who in all of them."""

    tables: tuple[ReleasedTable, ...] = ()
    people: WhoIsWho = "records"


def check_attackers(asked: Assessment) -> Iterator[str]:
    """Yield what keys about attackers and further releases contradict each other in."""
    if any(one.file is None for one in asked.also):
        yield "also: a further release is one in a file; give also.file."
    if asked.also and asked.others is not None and not asked.attackers:
        yield "[others] has no meaning with [[also]]; name attackers who hold one or the other."
    if (asked.also or asked.attackers) and (asked.cleartext is None or asked.sweep):
        yield "[[also]] and [[attackers]] need [cleartext], and have no meaning in a sweep."
    names = [one.name for one in asked.attackers]
    if len(set(names)) < len(names):
        yield "two attackers have the same name."
    for one in asked.attackers:
        if one.others and asked.others is None:
            yield f"attacker {one.name!r} holds a register: [others] is missing."
        if one.also and not asked.also:
            yield f"attacker {one.name!r} holds further releases: [[also]] is missing."
        if one.group and (asked.cleartext is None or asked.cleartext.group is None):
            yield f"attacker {one.name!r} knows the group: cleartext.group is missing."


def read_further(
    release: Release,
    table: ReleasedTable,
    also: Sequence[Release],
    known: Mapping[str, KnownValues] | None,
) -> Further:
    """Read further releases, and the keys of their people if every release has one."""
    from anonbayes.risk.people import check_all_known

    if known is not None:
        for one in also:
            check_all_known(one.column_names, known)
    tables = tuple(make_release(one, known=known).table for one in also)
    every = (release, *also)
    named = [one.person is not None for one in every]
    if not also or not any(named):
        return Further(tables)
    if not all(named):
        where = "also" if named[0] else "release"
        raise AnonbayesError(
            f"{where}.person is missing: either every release names the column of its keys, or "
            "none does."
        )
    pairs = zip(every, (table, *tables), strict=True)
    return Further(tables, [_keys(one, read) for one, read in pairs])


def _keys(release: Release, table: ReleasedTable) -> list[str]:
    """Keys of a release in the order of the table's rows, which are sorted by group if vertical."""
    from anonbayes.io.text import read_columns

    assert release.file is not None and release.person is not None
    columns = {"release.person": release.person}
    columns |= {} if release.group is None else {"release.group": release.group}
    frame = read_columns(release.file, columns, **release.text)
    if table.scheme == "vertical":
        place = {str(label): code for code, label in enumerate(table.group_labels)}
        frame = frame.iloc[frame[release.group].map(place).argsort(kind="stable")]
    return frame[release.person].tolist()


def attackers_of(
    asked: Sequence[Attacker],
    people: People,
    post: Posterior,
    table: ReleasedTable,
    *,
    further: Further,
    register: ReleasedTable | None,
    **settings: Any,
) -> Attackers | None:
    """Assess the attackers that are asked for; with further releases, with and without them."""
    from anonbayes.risk.actors import Actor, Attackers, attackers

    if not asked and not further.tables:
        return None
    if not asked:
        # The assessment itself is that of somebody who holds all of them.
        together = Actor(TOGETHER, also=further.tables, about="Holds all releases.")
        found = attackers(
            table, people.frame, [Actor(ALONE, about="Holds this release only.")],
            weights=people.weights, **settings,
        )  # fmt: skip
        risk = people.assess(post, harm=settings.get("harm"))
        return Attackers((*found.actors, together), {**found.risks, TOGETHER: risk})
    actors = actors_of(asked, people, table, further, register)
    single = post if post.editions is None and post.register is None else None
    single = single if single is not None and single.table is table else None
    return attackers(table, people.frame, actors, weights=people.weights, post=single, **settings)


def actors_of(
    asked: Sequence[Attacker],
    people: People,
    table: ReleasedTable,
    further: Further,
    register: ReleasedTable | None,
) -> list[Actor]:
    """Attackers as `attackers` takes them; what does not fit the release is refused."""
    from anonbayes.risk.actors import Actor

    for one in asked:
        Actor(one.name, knows=(*one.knows, *one.noisy), coarse=one.coarse).check(table)
    return [_actor(one, people, table, further, register) for one in asked]


def _actor(
    asked: Attacker,
    people: People,
    table: ReleasedTable,
    further: Further,
    register: ReleasedTable | None,
) -> Actor:
    from anonbayes.channels.pure import RandomizedResponse
    from anonbayes.risk.actors import Actor

    how = [f"{name} coarsely" for name in asked.coarse]
    how += [f"{name} by hearsay" for name in asked.noisy]
    held = ["the group of the Anatomy that they are in"] if asked.group else []
    if asked.others and register is not None:
        held.append(f"{register.n_rows:,} other people in clear")
    if asked.also:
        held.append(count(len(further.tables), "more release") + " about the same people")
    known = ", ".join([*(asked.knows or ["all attributes"]), *how])
    return Actor(
        asked.name,
        knows=asked.knows or None,
        coarse=dict(asked.coarse),
        noisy={n: RandomizedResponse(table.domains[n], e) for n, e in asked.noisy.items()},
        group=people.group if asked.group else None,
        register=register if asked.others else None,
        also=further.tables if asked.also else (),
        people=further.people if asked.also else "records",
        alpha=asked.alpha,
        beta=asked.beta,
        about=f"Knows {known} of a person{''.join(f', and {one}' for one in held)}.",
    )


def limits_of(asked: Sequence[Attacker], found: Attackers | None) -> Iterator[Limit]:
    """Yield the limits of each attacker."""
    from anonbayes.risk.measures import Limit

    for one in asked:
        for measure, limit in one.at_most.items():
            assert found is not None
            known = found.table.drop(columns="about")
            if measure not in known:
                raise AnonbayesError(
                    f"attackers.{one.name}.at_most: {measure!r} is no measure of attackers. "
                    f"{nearest(measure, known.columns)}"
                )
            name = f"{one.name}: {measure}"
            yield Limit(name, name, limit, float(known[measure].to_dict()[one.name]))
