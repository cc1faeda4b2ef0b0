"""What is released: an existing table, or one made from the cleartext."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.channels.registry import MECHANISMS, OPTIONS, make_channel
from anonbayes.errors import AnonbayesError, TableError, at_once, nearest
from anonbayes.scenario import choices
from anonbayes.scenario.choices import DECIMAL, ENCODING, GROUP, MISSING, NAMES, SEPARATOR
from anonbayes.scenario.keys import Directory, File, OneOrMore, Section, Several, key, word_of

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.anonymize.recode import Recoding
    from anonbayes.domains import Domain
    from anonbayes.hierarchies import Hierarchy
    from anonbayes.risk.minimality import Downcoding
    from anonbayes.tables.evidence import KnownValues
    from anonbayes.tables.sources import TextFormat
    from anonbayes.tables.table import ReleasedTable


CHANNELS = tuple(name for name, kind in MECHANISMS.items() if not kind.sets)
NUMERIC = tuple(name for name in CHANNELS if MECHANISMS[name].numeric)
Shown: Any = word_of(("clear", "level", "bins", *CHANNELS))
Missing: Any = word_of(MISSING)
Scheme: Any = word_of((*choices.SCHEMES, "columns"))


# -------------------------------------------------------------------------------------------------
# The keys.


class MechanismOptions(Section):
    """Options of a mechanism besides values and budget."""

    sensitive: Several[str] = key("Values to protect (utility-optimized mechanisms).", ())
    g: int | None = key("Number of symbols (local_hashing); by default the best.", None, ge=2)
    d: int | None = key("Values in a report (subset_selection); by default the best.", None, ge=1)
    infinite: float | None = key(
        "Budget of all reports of a person together (longitudinal); by default twice the budget of "
        "one.", None, ge=0,
    )  # fmt: skip
    budgets: dict[str, float] = key("Budget of each value (input_discriminative_ue).", dict)
    matrix: dict[str, dict[str, float]] = key(
        "Probabilities of the reports of each value (matrix).", dict
    )
    shares: dict[str, float] = key(
        "Weights of values that reports preserve (invariant_pram).", dict
    )

    def options(self) -> dict[str, Any]:
        """Return the options that are given, as `make_channel` takes them."""
        given = {name: getattr(self, name, None) for name in OPTIONS}
        return {name: value for name, value in given.items() if value not in (None, (), {})}

    def contradictions(self, mechanism: str) -> Iterator[str]:
        """Yield contradictions between the options and a mechanism."""
        kind, given = MECHANISMS[mechanism], self.options()
        try:
            kind.check({**dict.fromkeys(kind.needs), **given}, prefix="@")
        except AnonbayesError as reason:
            yield str(reason)

    def channel_on(self, mechanism: str, domain: Domain, epsilon: float | None) -> Any:
        """Make the mechanism for a domain."""
        given = self.options()
        for name in ("budgets", "shares"):
            if name in given:
                missing = [value for value in domain.labels if value not in given[name]]
                if missing:
                    raise AnonbayesError(f"{name} has no entry for {missing[0]!r}.")
                numbers = [given[name][value] for value in domain.labels]
                total = (sum(numbers) or 1.0) if name == "shares" else 1.0
                given[name] = [number / total for number in numbers]
        return make_channel(mechanism, domain, epsilon, **given)


class ColumnRelease(MechanismOptions):
    """How one column of a mixed table is released."""

    method: Shown = key("How the values of the column are released.")
    level: int | None = key("Level of the hierarchy (level).", None, ge=0)
    lower: float | None = key("Lower end of the first bin (bins, numbers).", None)
    upper: float | None = key("Upper end of the last bin (bins, numbers).", None)
    bins: int | None = key("Number of bins of equal width (bins, numbers).", None, ge=1)
    epsilon: float | None = key("Privacy budget (randomized mechanisms).", None, ge=0)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        needs = {"level": ("level",), "bins": ("lower", "upper", "bins")}
        wanted = needs.get(self.method, ())
        if self.method in CHANNELS:
            yield from self.contradictions(self.method)
            wanted = ("epsilon",) if MECHANISMS[self.method].takes_epsilon else ()
            wanted += ("lower", "upper", "bins") if self.method in NUMERIC else ()
        elif self.options():
            yield f"@{next(iter(self.options()))} does not apply to method {self.method!r}."
        for name in ("level", "lower", "upper", "bins", "epsilon"):
            given = getattr(self, name) is not None
            if name in wanted and not given:
                yield f"method {self.method!r} needs @{name}."
            if given and name not in wanted:
                yield f"@{name} does not apply to method {self.method!r}."


class Release(Section):
    """What is released: an existing table, or one made from the cleartext."""

    dataset: str | None = key(NAMES, None)
    parameters: dict[str, int] = key("Parameters of the dataset.", dict)
    file: File | None = key("Released table; for Anatomy, the quasi-identifier table.", None)
    sensitive_file: File | None = key("Sensitive table of an Anatomy release.", None)
    group: str | None = key("Group column of an Anatomy release.", None)
    sep: str = key(SEPARATOR, "auto")
    encoding: str = key(ENCODING, "utf-8")
    decimal: Literal[".", ","] = key(DECIMAL, ".")
    person: str | None = key(
        "Column with a key of each person, in all releases; by default, equal records match.", None
    )
    drop: Several[str] = key("Columns to leave out.", ())
    domains: dict[str, Any] = key(
        "Possible values of columns, such as age=18-99, sex=f,m or place=@file; by default those "
        "in the files.",
        dict,
    )
    missing: Missing = key(
        "How to treat empty cells: error (refuse them), unknown (any value), category (a value of "
        "its own) or drop (leave out the row).",
        "error",
    )
    scheme: Scheme | None = key(
        "How the cleartext is anonymized: mondrian, recode or anatomy; in a scenario file also "
        "columns, each in its own way.",
        None,
    )
    sensitive: OneOrMore = key("Sensitive column; several are joined into one.", ())
    hierarchies: Directory | None = key("Directory of ARX hierarchy files.", None)
    quasi_identifiers: Several[str] = key("Columns to anonymize; by default all others.", ())
    k: int | None = key("Least size of a group (recode, mondrian).", None, ge=1)
    l: int | None = key(  # noqa: E741
        "Least number of different sensitive values in a group.", None, ge=1
    )
    suppression: float = key(
        "Largest share of rows that may be suppressed (recode).", 0.0, ge=0, le=1
    )
    local: bool = key(
        "Local recoding: recode suppressed rows again at other levels (recode).", False
    )
    columns: dict[str, ColumnRelease] = key("Release of each column (columns).", dict)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        ways = [name for name in ("dataset", "file", "scheme") if getattr(self, name) is not None]
        if len(ways) != 1:
            yield "give exactly one of @dataset, @file and @scheme."
            return
        if ways[0] != "dataset" and not self.sensitive:
            yield "@sensitive is missing: name the sensitive column."
        if (self.sensitive_file is None) != (self.group is None):
            yield "an Anatomy release needs both @sensitive_file and @group."
        vertical = self.scheme == "anatomy" or self.sensitive_file is not None
        if self.sensitive[1:] and (vertical or self.scheme == "columns"):
            yield "an Anatomy release, or a release by columns, has a single @sensitive column."
        if self.scheme in ("recode", "mondrian") and self.k is None:
            yield f"@scheme {self.scheme!r} needs @k, the smallest size of a group."
        if self.scheme == "anatomy" and self.l is None:
            yield "@scheme 'anatomy' needs @l."
        if self.scheme == "columns" and not self.columns:
            yield "@scheme 'columns' needs a table [release.columns.NAME] for each column."
        meaning = {
            "parameters": self.dataset, "sensitive_file": self.file, "domains": self.file,
            "person": self.file,
            "drop": self.file and not vertical, "hierarchies": not (self.dataset or vertical),
            "k": self.scheme in ("recode", "mondrian"),
            "l": self.scheme in ("recode", "mondrian", "anatomy"),
            "suppression": self.scheme == "recode", "local": self.scheme == "recode",
            "quasi_identifiers": self.scheme in ("recode", "mondrian", "anatomy"),
            "columns": self.scheme == "columns",
        }  # fmt: skip
        for name, has_meaning in meaning.items():
            if getattr(self, name) and not has_meaning:
                where = "an Anatomy" if vertical else f"@{ways[0]} {str(getattr(self, ways[0]))!r}"
                yield f"@{name} does not apply to {where}."

    @property
    def text(self) -> TextFormat:
        """Format of delimited text in the files."""
        return {"sep": self.sep, "encoding": self.encoding, "decimal": self.decimal}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of the file that are not attributes."""
        return (*self.drop, *(() if self.person is None else (self.person,)))

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Attributes and sensitive columns of a released file, from its header."""
        from anonbayes.tables.build import open_source

        drop = (*self.left_out, *(() if self.group is None else (self.group,)))
        names = open_source(self.file, drop=drop, **self.text).names
        file, known = self.file, (*names, *drop)
        if self.sensitive_file is not None:
            file = self.sensitive_file
            known = tuple(open_source(file, **self.text).names)
        at_once(self.sensitive, partial(_check_sensitive, known, file))
        return (*(name for name in names if name not in self.sensitive), *self.sensitive)


def _check_sensitive(known: Iterable[str], file: Path | None, name: str) -> None:
    if name not in known:
        raise TableError(
            f"The sensitive column {name!r} is not in {str(file)!r}. {nearest(name, known)}"
        )


# -------------------------------------------------------------------------------------------------
# From the keys to the table.


@dataclass(frozen=True)
class Made:
    """A release, with levels and loss if its scheme is ``recode``."""

    table: ReleasedTable
    recoding: Recoding | None = None


def make_release(
    release: Release,
    people: pd.DataFrame | None = None,
    *,
    dataset: str | None = None,
    seed: int | None = None,
    known: Mapping[str, KnownValues] | None = None,
) -> Made:
    """Read the released table, or make it from the cleartext.

    A named `dataset` as cleartext has its own hierarchies; `known` are values of file columns that
    have neither a domain nor a hierarchy.
    """
    if release.dataset is not None:
        return Made(_named(release))
    if release.file is not None:
        return Made(_read(release, release.file, known or {}))
    assert people is not None and release.scheme is not None
    for name in release.sensitive:
        if name not in people.columns:
            raise AnonbayesError(
                f"release.sensitive = {name!r} is not a column of the cleartext. "
                f"{nearest(name, people.columns)}"
            )
    trees = None
    if release.hierarchies is not None:
        from anonbayes.tables.readers import read_hierarchies

        trees = read_hierarchies(
            release.hierarchies, people.columns, sep=release.sep, encoding=release.encoding
        )
    elif dataset == "clinic":
        from anonbayes import datasets

        trees = datasets.hierarchies(dataset)
    several = len(release.sensitive) > 1
    secret: Any = list(release.sensitive) if several else release.sensitive[0]
    make = _columns if release.scheme == "columns" else _anonymized
    return make(release, people, secret, trees, seed)


def what_choice_tells(
    release: Release, table: ReleasedTable, people: pd.DataFrame, *, dataset: str | None, seed: int
) -> Downcoding | str:
    """Compute what the anonymizer's choice reveals, or say why that is not possible."""
    from anonbayes.risk.minimality import downcoding

    def again(frame: pd.DataFrame) -> ReleasedTable:
        return make_release(release, frame, dataset=dataset).table

    try:
        return downcoding(table, again, cleartext=people, seed=seed)
    except AnonbayesError as error:  # also a result: the rest of the report is written
        return str(error)


def _named(release: Release) -> ReleasedTable:
    from anonbayes import datasets
    from anonbayes.tables.table import ReleasedTable

    assert release.dataset is not None
    table = datasets.load(release.dataset, **release.parameters)
    if not isinstance(table, ReleasedTable):
        raise AnonbayesError(
            f"release.dataset = {release.dataset!r} is a cleartext; use it as cleartext.dataset "
            "and give release.scheme."
        )
    return table


def _read(release: Release, file: Path, known: Mapping[str, KnownValues]) -> ReleasedTable:
    from anonbayes.io.text import parse_values
    from anonbayes.tables.readers import read_anatomy, read_arx, read_hierarchies

    folder, names = release.hierarchies if known else None, release.column_names if known else ()
    trees = read_hierarchies(folder, names, sep=release.sep, encoding=release.encoding) or {}
    domains: dict[str, Any] = {name: known[name] for name in names if name not in trees}
    domains |= {
        name: parse_values(
            values,
            option=f"release.domains.{name}",
            encoding=release.encoding,
            decimal=release.decimal,
        )
        if isinstance(values, str)
        else values
        for name, values in release.domains.items()
    }
    how: dict[str, Any] = {"domains": domains or None, "missing": release.missing, **release.text}
    if release.sensitive_file is not None:
        assert release.group is not None
        if release.missing == "drop":  # leave out whole rows before groups are made
            how["missing"] = "error"
        return read_anatomy(
            file, release.sensitive_file, sensitive=release.sensitive[0], group=release.group,
            drop=release.left_out, **how,
        )  # fmt: skip
    how |= {"hierarchies": trees or release.hierarchies, "drop": release.left_out}
    return read_arx(file, sensitive=release.sensitive, **how)


# -- made from the cleartext -----------------------------------------------------------------------

Trees = Mapping[str, "Hierarchy"] | None


def _anonymized(
    release: Release, people: pd.DataFrame, secret: Any, trees: Trees, seed: int | None
) -> Made:
    from anonbayes import anonymize

    how: dict[str, Any] = {"quasi_identifiers": release.quasi_identifiers or None}
    k, l = release.k or 1, release.l or 1  # noqa: E741
    if release.scheme == "anatomy":
        return Made(anonymize.anatomy(people, secret, l, seed=seed, group=GROUP, **how))
    if release.scheme == "mondrian":
        return Made(anonymize.mondrian(people, secret, k, l, hierarchies=trees, **how))
    if trees is None:
        raise AnonbayesError("release.scheme = 'recode' needs release.hierarchies.")
    how |= {"suppression": release.suppression, "local": release.local}
    return Made(*anonymize.recode(people, secret, trees, k, l, return_recoding=True, **how))


def _columns(
    release: Release, people: pd.DataFrame, sensitive: str, trees: Trees, seed: int | None
) -> Made:
    """Release each column in its own way."""
    import numpy as np
    import pandas as pd

    from anonbayes.tables.table import ReleasedTable

    for name in release.columns:
        if name not in people.columns:
            raise AnonbayesError(
                f"release.columns.{name}: there is no such column. {nearest(name, people.columns)}"
            )
    if set(release.columns) <= {sensitive}:
        raise AnonbayesError("release.columns lists only the sensitive column; add others.")
    frame: dict[str, Any] = {}
    channels, domains = {}, {}
    seeds = np.random.SeedSequence(seed).spawn(len(people.columns))
    for child, name in zip(seeds, people.columns, strict=True):
        how = release.columns.get(name)
        if name != sensitive and how is None:
            continue
        domain = _domain(name, people[name], (trees or {}).get(name))
        if how is None or how.method == "clear":
            domains[name], frame[name] = domain, people[name].to_numpy()
            continue
        channels[name] = _channel(domain, how)
        # Without a seed the mechanisms use the secure random source.
        own = None if seed is None else np.random.default_rng(child)
        frame[name] = list(channels[name].release(people[name].tolist(), seed=own))
    reports = pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, values in frame.items()}
    )
    return Made(ReleasedTable.horizontal(reports, sensitive, domains=domains, channels=channels))


def _domain(name: str, column: pd.Series, tree: Hierarchy | None) -> Domain:
    from anonbayes.domains import Domain

    if tree is not None:
        return Domain(name, tree.leaves, tree)
    return Domain(name, sorted(column.unique().tolist()))


def _channel(domain: Domain, how: ColumnRelease) -> Any:
    from anonbayes.channels.coarsening import Generalization, UniformQuantizer

    if how.method == "level":
        assert how.level is not None
        return Generalization.at_level(domain, how.level)
    if how.method == "bins":
        assert how.lower is not None and how.upper is not None and how.bins is not None
        return UniformQuantizer(how.lower, how.upper, how.bins, domain=domain)
    if how.method in NUMERIC:
        from anonbayes.channels.coarsening import BinnedDomain

        assert how.lower is not None and how.upper is not None and how.bins is not None
        binned = BinnedDomain(domain.name, how.lower, how.upper, how.bins)
        return how.channel_on(how.method, binned, how.epsilon)
    return how.channel_on(how.method, domain, how.epsilon)
