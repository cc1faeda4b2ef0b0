"""Tables and channels that a scenario names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes import anonymize, datasets
from anonbayes.channels.coarsening import Generalization, UniformQuantizer
from anonbayes.channels.registry import make_channel
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.scenario.file_columns import read_people
from anonbayes.tables.readers import read_anatomy, read_arx, read_hierarchies
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from pathlib import Path

    from anonbayes.hierarchies import Hierarchy
    from anonbayes.scenario.kinds import Cleartext, ColumnRelease, Release

__all__ = ["make_release", "read_cleartext"]


# -------------------------------------------------------------------------------------------------
# From the sections of an assessment to its tables.


def read_cleartext(source: Cleartext) -> pd.DataFrame:
    """Read the people in clear; columns that spell numbers become numbers."""
    if source.dataset is None:
        assert source.file is not None
        return read_people(
            source.file, sep=source.sep, missing=source.missing, option="cleartext.missing"
        )
    # Nothing is downloaded behind the user's back: the error says how to do it.
    settings = {"download": False} if source.dataset == "adult" else {}
    found = datasets.load(source.dataset, **settings)
    if not isinstance(found, pd.DataFrame):
        raise AnonbayesError(
            f"cleartext.dataset = {source.dataset!r} is a released table, not one in clear."
        )
    return found


def make_release(
    release: Release, people: pd.DataFrame | None, *, dataset: str | None, seed: int | None
) -> ReleasedTable:
    """Read the released table, or make it from the people in clear.

    Parameters
    ----------
    release : Release
        The section.
    people : pandas.DataFrame, optional
        The cleartext.
    dataset : str, optional
        Name of the cleartext, whose own hierarchies are used unless others are given.
    seed : int, optional
        Of random schemes.
    """
    if release.dataset is not None:
        table = datasets.load(release.dataset, **release.parameters)
        if not isinstance(table, ReleasedTable):
            raise AnonbayesError(
                f"release.dataset = {release.dataset!r} is in clear; use it as cleartext.dataset "
                "and give release.scheme."
            )
        return table
    assert release.sensitive is not None
    if release.file is not None:
        return _read(release, release.file, release.sensitive)
    assert people is not None
    if release.sensitive not in people.columns:
        raise AnonbayesError(
            f"release.sensitive = {release.sensitive!r} is no column of the cleartext. "
            f"{nearest(release.sensitive, people.columns)}"
        )
    if release.scheme == "columns":
        return _mixed(release, people, _trees(release, people, dataset) or {}, seed)
    chosen: dict[str, Any] = {}
    if release.quasi_identifiers:
        chosen["quasi_identifiers"] = release.quasi_identifiers
    if release.scheme == "anatomy":
        assert release.l is not None
        return anonymize.anatomy(people, release.sensitive, release.l, seed=seed, **chosen)
    assert release.k is not None
    trees, least = _trees(release, people, dataset), release.l or 1
    if release.scheme == "mondrian":
        return anonymize.mondrian(
            people, release.sensitive, release.k, least, hierarchies=trees, **chosen
        )
    if trees is None:
        raise AnonbayesError("release.scheme = 'recode' needs release.hierarchies.")
    return anonymize.recode(
        people, release.sensitive, trees, release.k, least,
        suppression=release.suppression, local=release.local, **chosen,
    )  # fmt: skip


def _read(release: Release, file: Path, sensitive: str) -> ReleasedTable:
    if release.sensitive_file is None:
        return read_arx(
            file, sensitive=sensitive, hierarchies=release.hierarchies, sep=release.sep,
            drop=release.drop, missing=release.missing,
        )  # fmt: skip
    assert release.group is not None
    return read_anatomy(
        file, release.sensitive_file, sensitive=sensitive, group=release.group,
        sep=release.sep, missing=release.missing,
    )  # fmt: skip


def _trees(
    release: Release, people: pd.DataFrame, dataset: str | None
) -> dict[str, Hierarchy] | None:
    if release.hierarchies is not None:
        return read_hierarchies(release.hierarchies, people.columns, sep=release.sep)
    return datasets.hierarchies(dataset) if dataset == "clinic" else None


# -- a table of which each column is released in its own way ---------------------------------------


def _mixed(
    release: Release, people: pd.DataFrame, trees: dict[str, Hierarchy], seed: int | None
) -> ReleasedTable:
    sensitive = release.sensitive
    assert sensitive is not None
    for name in release.columns:
        if name not in people.columns:
            raise AnonbayesError(
                f"release.columns.{name}: no such column. {nearest(name, people.columns)}"
            )
    secret = release.columns.get(sensitive)
    shown = [name for name in release.columns if name != sensitive]
    if not shown:
        raise AnonbayesError("release.columns names no column but the sensitive one.")
    frame: dict[str, Any] = {}
    channels, domains = {}, {}
    seeds = np.random.SeedSequence(seed).spawn(len(people.columns))
    for child, name in zip(seeds, people.columns, strict=True):
        how = secret if name == sensitive else release.columns.get(name)
        if name != sensitive and how is None:
            continue
        domain = _domain(name, people[name], trees.get(name))
        if how is None or how.method == "clear":
            domains[name], frame[name] = domain, people[name].to_numpy()
            continue
        channels[name] = _channel(domain, how)
        # Without a seed the mechanisms draw from the secure source.
        own = None if seed is None else np.random.default_rng(child)
        frame[name] = list(channels[name].release(people[name].tolist(), seed=own))
    reports = pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, values in frame.items()}
    )
    return ReleasedTable.horizontal(reports, sensitive, domains=domains, channels=channels)


def _domain(name: str, column: pd.Series, tree: Hierarchy | None) -> Domain:
    if tree is not None:
        return Domain(name, tree.leaves, tree)
    return Domain(name, sorted(column.unique().tolist()))


def _channel(domain: Domain, how: ColumnRelease) -> Any:
    if how.method == "level":
        assert how.level is not None
        return Generalization.at_level(domain, how.level)
    if how.method == "bins":
        assert how.lower is not None and how.upper is not None and how.bins is not None
        return UniformQuantizer(how.lower, how.upper, how.bins, domain=domain)
    assert how.epsilon is not None
    return make_channel(how.method, domain, how.epsilon, sensitive=how.sensitive)
