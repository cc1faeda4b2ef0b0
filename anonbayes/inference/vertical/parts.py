"""Anatomies in parts that no single machine can hold: weighted evidence on a cluster.

Every part is a pair of files with whole groups. Workers of a Dask cluster read the parts and keep
them in memory; the client receives the values of each column with their counts and then, round by
round, sums over groups (`left_out`). Workers write the probabilities of ownership, part by part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.beliefs.register import RecordBelief, Register, read_register
from anonbayes.cluster import Tasks, check_client
from anonbayes.domains import Domain
from anonbayes.errors import ModelError, TableError
from anonbayes.inference.vertical.block import MAX_BLOCK, owned_counts
from anonbayes.inference.vertical.crossfit import (
    CANDIDATES,
    ROUNDS,
    Folds,
    check_folds,
    fit_folds,
    sample_step,
)
from anonbayes.inference.vertical.group_layout import (
    CellShape,
    VerticalLayout,
    layout_of,
    shard_cuts,
)
from anonbayes.inference.vertical.left_out import Stretch, Workers, rows_by_fold
from anonbayes.io.files import make_folder, new_file
from anonbayes.tables.build import count_records
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.readers import read_anatomy
from anonbayes.tables.table import ReleasedTable, only_domains

if TYPE_CHECKING:
    from anonbayes.risk.summed import PartsAssessment


@dataclass(frozen=True, eq=False)
class PartsFit:
    """Result of `fit_parts`; its size does not depend on the number of rows.

    Attributes
    ----------
    weights : pandas.DataFrame
        One line per attribute: weight with standard error, exponent, pooling ``kappa``, and the
        held-out log score per row that it gains on its own and when added to the others.
    secret_shares : pandas.Series
        Shares of the sensitive values.
    population : dict of pandas.DataFrame
        Distribution of each attribute given the sensitive value, one line per value.
    scores : pandas.Series
        Held-out log score per row of each kind of evidence.
    n_rows, n_groups : int
        Size of the table.
    rounds, sent, received : int
        Rounds of tasks, bytes of scores sent, and bytes of sums received.
    parts : PartsSource or None
        Where the parts are, and what was learned for each fold; needed by `assess`.
    register : Register or None
        Other people in clear, counted; who owns what and `assess` take them into account, while
        weights, population and scores are those of the release.
    """

    weights: pd.DataFrame
    secret_shares: pd.Series
    population: dict[str, pd.DataFrame]
    scores: pd.Series
    n_rows: int
    n_groups: int
    rounds: int
    sent: int
    received: int
    parts: PartsSource | None = field(default=None, repr=False)
    register: Register | None = field(default=None, repr=False)

    def assess(
        self,
        people: Any,
        *,
        client: Any,
        harm: Iterable[Any] | None = None,
        gain: Any = None,
        samples: int = 20_000,
        seed: int | np.random.Generator | None = 0,
        sep: str = ";",
    ) -> PartsAssessment:
        """Measure threats and utility on the workers; the people may be in parts, too.

        Measures are those of `Posterior.assess`, computed from sums over people, so that neither
        the client nor a worker holds all people.

        Parameters
        ----------
        people : path, pattern, several of them, dask.dataframe.DataFrame or pandas.DataFrame
            The cleartext: parquet or delimited text with paths as seen by the workers. People need
            not be in the same parts as their rows of the release.
        client : distributed.Client
            The cluster, which reads the parts again and need not be that of the fit.
        harm, gain, samples, seed
            As in `Posterior.assess`.
        sep : str
            Separator, if people are delimited text.
        """
        from anonbayes.risk.summed import assess_parts

        return assess_parts(
            self, people, client=client, harm=harm, gain=gain, samples=samples, seed=seed, sep=sep
        )

    def items_of_part(self, number: int, told: RecordBelief | None = None) -> Items:
        """Compute an attacker's beliefs about the rows of a part, on the worker that reads it."""
        parts = self.parts
        if parts is None:
            raise ModelError("This fit does not know where its parts are; make it with fit_parts.")
        table = _read(parts.how, parts.paths[number])
        layout, plan = _layout(table, parts.plan.domains), parts.plan
        stretch = _stretch(None, table, plan, number, parts.first[number])
        owned = _ownership(layout, stretch, parts.score, told)
        inverse, first, _ = distinct_rows(list(layout.items.T))
        rows, n = np.arange(layout.n_rows), len(first)
        same = csr_array((np.ones(len(rows)), (inverse, rows)), shape=(n, len(rows)))
        shape = layout.n_groups, layout.n_secrets
        share = csr_array(
            (1.0 / layout.group_sizes[layout.groups], (layout.groups, layout.secrets)), shape=shape
        )
        groups = csr_array((np.ones(len(rows)), (inverse, layout.groups)), shape=(n, shape[0]))
        return Items(
            layout.items[first].astype(np.int64),
            (same @ owned).toarray(),
            (groups @ share).toarray(),
        )


class PartsSource(NamedTuple):
    """Parts of an Anatomy, and what other folds reveal about the groups of each fold."""

    paths: list[tuple[str, str]]
    how: dict[str, Any]
    first: list[int]  # number of groups before each part
    plan: _Plan
    score: Floats
    counts: dict[str, Ints]  # rows by value of each column


class _Summary(NamedTuple):
    """What the client learns about a part: rows by value of each column (secret last), groups."""

    counts: dict[str, dict[Any, int]]
    groups: int
    widest: int
    orders: float


def _read(how: dict[str, Any], paths: tuple[str, str]) -> ReleasedTable:
    """Read a part, on the worker that keeps it."""
    return read_anatomy(*paths, progressbar=False, **how)


def _summary(_: Any, table: ReleasedTable) -> _Summary:
    columns = {**table.columns, table.sensitive: table.secret}
    counts = {}
    for name, column in columns.items():
        rows = np.bincount(column.codes, minlength=len(column.domain)).tolist()
        counts[name] = dict(zip(column.domain.values, rows, strict=True))
    sizes = table.group_sizes.to_numpy()
    return _Summary(counts, len(sizes), int(sizes.max()), float(gammaln(sizes + 1.0).sum()))


class _Plan(NamedTuple):
    """What every worker needs to know about the whole table besides its groups."""

    domains: dict[str, tuple[Any, ...]]
    base: Floats
    block: int
    folds: int
    seed: int


def _layout(table: ReleasedTable, domains: Mapping[str, tuple[Any, ...]]) -> VerticalLayout:
    """Encode a part with the codes of the whole table."""
    own, place = layout_of(table), {}
    for name, column in {**table.columns, table.sensitive: table.secret}.items():
        code = {value: i for i, value in enumerate(domains[name])}
        place[name] = np.array([code[value] for value in column.domain.values], dtype=np.int64)
    items = [place[name][own.items[:, a]] for a, name in enumerate(table.columns)]
    sizes = [len(domains[name]) for name in table.columns]
    return VerticalLayout(
        np.stack(items, axis=1), place[table.sensitive][own.secrets], own.offsets, sizes,
        len(domains[table.sensitive]),
    )  # fmt: skip


def _stretch(
    _: Any, table: ReleasedTable, plan: _Plan, number: int, shift: int, step: int = 1
) -> Stretch:
    """Assign the groups of a part to folds by its number; keep one in `step` of all groups."""
    layout = _layout(table, plan.domains)
    deal = np.random.default_rng((plan.seed, number)).permutation
    fold = deal(np.arange(layout.n_groups) % plan.folds)
    if step > 1:
        first = -shift % step
        layout, fold, shift = layout.every(step, first), fold[first::step], -(-shift // step)
    return Stretch(
        layout.arrays, fold, shard_cuts(layout.offsets), shift, plan.block, plan.base,
        layout.n_cells,
    )  # fmt: skip


def _own_rows(_: Any, stretch: Stretch, plan: _Plan) -> Floats:
    arrays, shape = stretch.arrays, (plan.folds, len(plan.base))
    return rows_by_fold(arrays.secrets, arrays.offsets, stretch.fold, shape)


def _owners(stretch: Stretch, score: Floats) -> Floats:
    """Ownership probabilities in a part from the scores of the folds."""
    owner, scores = np.zeros(int(stretch.arrays.links[-1])), np.empty(len(stretch.fold))
    for job in stretch.jobs:
        stretch.judge(job, score, scores, owner)
    return owner


def _ownership(
    layout: VerticalLayout, stretch: Stretch, score: Floats, told: RecordBelief | None
) -> csr_array:
    """Who owns what in a part, row by row, for somebody who is told more of whole records."""
    if told is None:
        return layout.ownership(_owners(stretch, score))
    present = int(stretch.fold.max()) + 1  # a small part has the first folds only
    return told.ownership(layout, stretch.fold, 1)(score[:present])


def _owned(
    _: Any, stretch: Stretch, score: Floats, table: ReleasedTable, plan: _Plan, path: str | None
) -> Floats:
    """Expected counts of a part; ownership probabilities are written to a separate file."""
    owner = _owners(stretch, score)
    if path is not None:
        _write(table, plan, _layout(table, plan.domains).ownership(owner), path)
    return owned_counts(stretch.arrays, owner, stretch.n_cells)


def _owned_by(
    _: Any, table: ReleasedTable, plan: _Plan, number: int, first: int, score: Floats,
    told: RecordBelief, path: str,
) -> None:  # fmt: skip
    """Write who owns what in a part, for somebody who has a register."""
    stretch = _stretch(None, table, plan, number, first)
    _write(table, plan, _ownership(_layout(table, plan.domains), stretch, score, told), path)


def _write(table: ReleasedTable, plan: _Plan, ownership: csr_array, path: str) -> None:
    owned = ownership.tocoo()
    groups = np.repeat(table.group_sizes.index.to_numpy(), table.group_sizes.to_numpy())
    frame = pd.DataFrame({"group": groups[owned.row]})
    for name, column in table.columns.items():
        frame[name] = column.domain.decode(column.codes[owned.row])
    frame[table.sensitive] = np.array(plan.domains[table.sensitive], dtype=object)[owned.col]
    with new_file(Path(path)) as file:
        frame.assign(probability=owned.data).to_parquet(file)


class Items(NamedTuple):
    """Distinct items of a part, with the expected secrets of their rows."""

    codes: Ints  # (items, A)
    owned: Floats  # expected rows by secret, (items, S)
    worlds: Floats  # the same if all orders are equally likely


class _PartFolds(Folds):
    """Folds of a table whose groups are on workers; scores are those of parts, not of groups.

    With a `step`, only every `step`-th group is used.
    """

    def __init__(
        self, tasks: Tasks, plan: _Plan, cells: CellShape, counts: Sequence[Ints],
        summaries: Sequence[_Summary], tables: Sequence[Any], paths: Sequence[str | None],
        step: int = 1, before: Workers | None = None,
    ) -> None:  # fmt: skip
        groups = np.array([s.groups for s in summaries])
        shift = starts_of(groups).tolist()
        held = [
            tasks.hold(f"groups {i}, one in {step}", _stretch, table, plan, i, shift[i], step)
            for i, table in enumerate(tables)
            if -shift[i] % step < groups[i]
        ]
        own = tasks.ask(f"folds, one in {step}", _own_rows, [(part, plan) for part in held])
        self.workers, self.cells, self.n = Workers(tasks, held, before), cells, plan.folds
        self.fold = np.zeros(0, dtype=np.int64)
        self.margins = [count / count.sum() for count in counts[:-1]]
        rows = np.sum(own, axis=0)
        self._know(rows.sum(axis=0).astype(np.int64), rows, plan.base)
        orders = np.array([s.orders for s in summaries])
        if step == 1:
            self._worlds = orders + np.array([part.sum(axis=0) @ self.base for part in own])
        self._whole = tasks, plan, cells, counts, summaries, tables, paths

    def sample(self) -> Folds | None:
        step = sample_step(sum(s.groups for s in self._whole[4]))
        if step == 1:
            return None
        return _PartFolds(*self._whole, step, self.workers)

    @property
    def random_worlds(self) -> Floats:
        return self._worlds

    def judge(
        self, score: Floats, owner: Floats | None = None, *, each: bool = True,
        only: int | None = None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        return super().judge(score, owner, each=False, only=only)

    def owned(self, score: Floats) -> tuple[Floats, Floats]:
        assert self.workers is not None
        _, plan, *_, tables, paths = self._whole
        given = [(table, plan, path) for table, path in zip(tables, paths, strict=True)]
        return np.zeros(0), self.workers.add(_owned, score, given)


def _joint_domains(
    summaries: Sequence[_Summary], paths: Sequence[tuple[str, str]]
) -> dict[str, tuple[Any, ...]]:
    """Sorted values of each column over all parts."""
    names = list(summaries[0].counts)
    for summary, path in zip(summaries, paths, strict=True):
        if list(summary.counts) != names:
            raise TableError(
                f"{path[0]!r} has the columns {list(summary.counts)}; those of {paths[0][0]!r} are "
                f"{names}. All parts of a table must have the same columns."
            )
    domains = {}
    for name in names:
        values = {value: None for summary in summaries for value in summary.counts[name]}
        try:
            domains[name] = tuple(sorted(values))
        except TypeError:
            raise TableError(
                f"{name!r} has numbers in some parts and texts in others; give domains= with its "
                "values."
            ) from None
    return domains


def _read_register(
    counts: Mapping[str, Ints], domains: Mapping[str, tuple[Any, ...]], register: Any, client: Any,
    sep: str,
) -> tuple[ReleasedTable, ReleasedTable]:  # fmt: skip
    """Domains of the release, and the people of a register, counted where they are."""
    *attributes, secret = (Domain(name, values) for name, values in domains.items())
    skeleton, weight = only_domains(attributes, secret), "people of the register"
    frame = count_records(register, weights=weight, sep=sep, client=client, progressbar=False)
    return skeleton, read_register(skeleton, frame, weights=weight, counts=counts)


def fit_parts(
    parts: Sequence[tuple[str | os.PathLike[str], str | os.PathLike[str]]],
    *,
    sensitive: str,
    group: str,
    client: Any,
    domains: Mapping[str, Any] | None = None,
    beliefs: str | os.PathLike[str] | None = None,
    register: Any = None,
    folds: int | None = None,
    rounds: int = ROUNDS,
    seed: int = 0,
    **reading: Any,
) -> PartsFit:
    """Learn weighted evidence from an Anatomy in parts, held by the workers of a cluster.

    The calling machine holds only domains, counts and weights. `fit` does the same for a table in
    memory; the model is that of `cross_fit`, as are the numbers if the folds are the same.

    Parameters
    ----------
    parts : sequence of (path, path)
        Quasi-identifier table and sensitive table of each part, with whole groups; paths are as
        seen by the workers. Equal names of groups in different parts are different groups.
    sensitive, group : str
        Names of the columns.
    client : distributed.Client
        The cluster.
    domains : mapping, optional
        Values by column; by default, those that occur in the parts.
    beliefs : path, optional
        Directory (as seen by the workers) for ownership probabilities: one parquet file per part
        with group, attributes, sensitive value and probability, one line per item and value.
    register : path, pattern, several of them, Dask or pandas dataframe, optional
        Other people of the population in clear, as in `fit`: parquet, or text with the separator of
        the parts. Workers count them; their distinct records come to the client.
    folds, rounds, seed : optional
        As in cross-fitting; groups are assigned to folds part by part.
    **reading
        Further arguments of `read_anatomy`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from anonbayes.cluster import local_client
    >>> folder, rng = pathlib.Path(tempfile.mkdtemp()), np.random.default_rng(1)
    >>> for part in "ab":
    ...     job = np.tile([0, 1, 1, 2, 2, 0], 50)
    ...     age = np.where(rng.random(300) < 0.9, job, (job + 1) % 3)
    ...     g = np.arange(300) // 2
    ...     pd.DataFrame({"g": g, "age": age}).to_csv(folder / f"q{part}.csv", sep=";", index=False)
    ...     pd.DataFrame({"g": g, "job": job}).to_csv(folder / f"s{part}.csv", sep=";", index=False)
    ...     people = pd.DataFrame({"age": age, "job": job})
    ...     people.to_csv(folder / f"p{part}.csv", sep=";", index=False)
    >>> pairs = [(folder / f"q{part}.csv", folder / f"s{part}.csv") for part in "ab"]
    >>> with local_client(1) as client:
    ...     fit = fit_parts(pairs, sensitive="job", group="g", client=client, rounds=3)
    ...     risk = fit.assess(folder / "p*.csv", client=client)
    >>> fit.n_groups, bool(fit.scores["weighted"] > fit.scores["random_worlds"])
    (300, True)
    >>> risk.summary["rows"], bool(risk.summary["GT_A"] > 0.8)
    (np.float64(600.0), True)
    """
    check_client(client)
    if not parts:
        raise ModelError("fit_parts needs at least one part: a pair of paths.")
    paths = [(os.fspath(qit), os.fspath(st)) for qit, st in parts]
    how = {"sensitive": sensitive, "group": group, "domains": domains, **reading}
    if beliefs is not None:
        make_folder(Path(beliefs), private=True)
    files = [None if beliefs is None else str(Path(beliefs, f"part-{i:05d}.parquet"))
             for i in range(len(paths))]  # fmt: skip
    with Tasks(client, how, label="parts") as tasks:
        tables = [tasks.hold(f"part {i}", _read, pair) for i, pair in enumerate(paths)]
        summaries: list[_Summary] = tasks.ask("summary", _summary, [(t,) for t in tables])
        known = _joint_domains(summaries, paths)
        counts = [
            np.array([sum(s.counts[name].get(v, 0) for s in summaries) for v in values])
            for name, values in known.items()
        ]
        groups = np.array([s.groups for s in summaries])
        by_name = dict(zip(known, counts, strict=True))
        others = None
        if register is not None:
            others = _read_register(by_name, known, register, client, reading.get("sep", ";"))
        cells = CellShape()
        cells.sizes, cells.n_secrets = np.array([*map(len, counts[:-1])]), len(counts[-1])
        n_folds = check_folds(int(groups.sum()), cells, folds, rounds)
        base = np.log((counts[-1] + 1.0) / (counts[-1].sum() + len(counts[-1])))
        block = min(MAX_BLOCK, max(s.widest for s in summaries))
        plan = _Plan(known, base, block, n_folds, seed)
        dealt = _PartFolds(tasks, plan, cells, counts, summaries, tables,
                           files if others is None else [None] * len(files))  # fmt: skip
        found = fit_folds(dealt, np.ones(cells.n_cells), rounds)
        score, first = found.left_out_lifts * found.weights[dealt.attribute], starts_of(groups)
        held = None
        if others is not None:
            skeleton, people = others
            means = tuple(cells.split(found.population))
            held = Register(skeleton, people, found.secret_shares, means, found.weights)
            if beliefs is not None:
                shift = first.tolist()
                jobs = [(table, plan, i, shift[i], score, held.told, files[i])
                        for i, table in enumerate(tables)]  # fmt: skip
                tasks.ask("beliefs", _owned_by, jobs)
    workers = dealt.workers
    assert workers is not None
    names, secrets, n = [*known][:-1], pd.Index(known[sensitive], name=sensitive), counts[-1].sum()
    columns = {
        "weight": found.weights / found.unit, "se": found.error, "exponent": found.weights,
        "kappa": found.pooling, "alone": found.alone / n, "added": found.added / n,
    }  # fmt: skip
    return PartsFit(
        weights=pd.DataFrame(columns, index=pd.Index(names, name="attribute")),
        secret_shares=pd.Series(found.secret_shares, secrets),
        population={
            name: pd.DataFrame(part, index=secrets, columns=pd.Index(known[name], name=name))
            for name, part in zip(names, cells.split(found.population), strict=True)
        },
        scores=pd.Series(found.group_scores.sum(axis=0) / n, [*CANDIDATES]),
        n_rows=int(n),
        n_groups=int(groups.sum()),
        rounds=workers.rounds,
        sent=workers.sent,
        received=workers.received,
        parts=PartsSource(paths, how, first[:-1].tolist(), plan, score, by_name),
        register=held,
    )
