"""A register: cleartext rows of other people from the same population, known to the attacker.

Its rows inform the population, not the groups of the release (MODEL 1.10). With independent
evidence they are added to the counts behind every distribution, and the attack is that of Groups
(8).

With weighted evidence, whole records say more than margins do. The belief from the release is the
starting point, and the people of the register correct it by value and by pair of values,

    p(s | r)  ~  p_release(s | r)  prod_v (kappa_v + observed_v(s)) / (kappa_v + expected_v(s)),

where *observed* are the register's people with the value or pair v and secret s, and *expected* are
those predicted by the belief so far. ``kappa_v`` maximises the score of the register's people, each
excluded from the counts used for it. A correction is made only if it is clearly better, so a small
register changes nothing.

A row of a released group with cells y and secret s is the victim's with odds
``p(s | r) / m(y, s)``, where ``m(y, s)`` is the sum of ``p(s | r')`` over the people of the
register in the cells, so no product over attributes is needed. In the groups of a vertical table,
the corrections of ``p(s | r)`` are combined with the evidence of the other folds when the group's
secrets are assigned.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.index import IndexedRecords
from anonbayes.beliefs.learner import mean_shares
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import CellError, PopulationWarning, TableError, nearest
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.vertical.crossfit import folds_apart, left_out_ownership, scores_apart
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.weight_kernels import weighted_joint
from anonbayes.io.text import pandas_frame
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior


PRIOR_ROWS = 100.0
"""Number of people that the product model counts for; scores hardly depend on it."""
KAPPA_RANGE = (0.1, 1e5)
MOST_PASSES = 5
CLEARLY = 3.0
"""Standard errors by which a correction must be better; the best of many looks good by chance."""
SEARCH = {"xatol": 0.2}
LEAST_TV = 0.05
"""Total variation distance of margins up to which there is no warning."""
LEAST_P = 1e-3


# -- reading ----------------------------------------------------------------------------------


def read_register(
    table: ReleasedTable,
    register: pd.DataFrame | ReleasedTable,
    *,
    weights: str | None = None,
    counts: Mapping[str, Ints] | None = None,
) -> ReleasedTable:
    """Read the cleartext rows of a register in the domains of the release, and count them.

    Warns if secrets, or values that the release shows in disjoint cells, are distributed
    differently than in the release. `weights` names the column with the number of people of a row.
    For `counts` see `different_margins`.
    """
    if not table.secrets_known:
        raise TableError("register= needs a release that shows sensitive values in clear.")
    domains, register = dict(table.domains), pandas_frame(register)
    if isinstance(register, ReleasedTable):
        other = register
        for name in (*table.attributes, table.sensitive):
            if other.domains.get(name) != domains[name]:
                raise TableError(
                    f"Register: column {name!r} has a different domain than in the release; read "
                    "the register with domains=table.domains."
                )
    elif isinstance(register, pd.DataFrame):
        wanted = [*table.attributes, table.sensitive]
        for name in wanted:
            if name not in register.columns:
                raise TableError(
                    f"Register: column {name!r} is missing. {nearest(name, register.columns)}"
                )
        wanted += [] if weights is None else [weights]
        if extra := [c for c in register.columns if c not in wanted]:
            raise TableError(
                f"Register: column {extra[0]!r} is not an attribute of the release; leave it out."
            )
        if not len(register):
            raise TableError("The register has no rows.")
        try:
            other = ReleasedTable.horizontal(
                register, table.sensitive, domains=domains, weights=weights
            )
        except CellError as error:
            raise CellError(
                f"Register: {error} Leave out such people, or list all possible values of the "
                "column when reading the release (domains=; on the command line --domain)."
            ) from None
    else:
        raise TableError(
            f"register= must be a DataFrame or a ReleasedTable, not {type(register).__name__}."
        )
    for column in (*other.columns.values(), other.secret):
        coarse = np.flatnonzero(column.evidence.sizes != 1)
        if len(coarse):
            row = int(np.flatnonzero(column.codes == coarse[0])[0])
            raise TableError(
                f"Register: column {column.domain.name!r}, row {row}: "
                f"{column.evidence.labels[coarse[0]]!r} is not a single value, but a register must "
                "be in clear. Pass a second release as fit([first, second])."
            )
    other = other.reduced()
    for words in different_margins(table, other, counts):
        warnings.warn(words, PopulationWarning, stacklevel=3)
    return other


def different_margins(
    table: ReleasedTable, register: ReleasedTable, counts: Mapping[str, Ints] | None = None
) -> Iterator[str]:
    """Describe where release and register cannot be samples from the same population.

    `counts` has the rows of the release by cell of each column, if `table` only has the domains.
    """
    from scipy.stats import chi2_contingency  # slow to import

    columns = [(table.sensitive, table.secret, register.secret)]
    columns += [(n, c, register.columns[n]) for n, c in table.columns.items()]
    for name, shown, clear in columns:
        if np.bincount(shown.evidence.matrix.indices, minlength=1).max(initial=0) > 1:
            continue  # which of several cells shows a value depends on the rest of its row
        tally = table.tally(shown.codes, len(shown.evidence)) if counts is None else counts[name]
        ours = tally.astype(float)
        values = register.tally(clear.codes, len(clear.evidence)) @ clear.evidence.matrix
        theirs = np.asarray(shown.evidence.matrix @ values, dtype=float)
        kept = ours + theirs > 0
        pair = np.stack([ours[kept], theirs[kept]])
        if pair.shape[1] < 2 or not pair.sum(axis=1).all():
            continue
        shares = pair / pair.sum(axis=1, keepdims=True)
        distance = 0.5 * float(np.abs(shares[0] - shares[1]).sum())
        chance = chi2_contingency(pair, correction=False).pvalue
        if distance > LEAST_TV and chance < LEAST_P:
            worst = int(np.argmax(np.abs(shares[0] - shares[1])))
            label = shown.evidence.labels[np.flatnonzero(kept)[worst]]
            yield (
                f"The register and the release are not from the same population: {name!r} differs "
                f"by {distance:.0%} (total variation). {label!r} has a share of "
                f"{shares[0, worst]:.1%} in the release and {shares[1, worst]:.1%} in the "
                "register. What holds for the register may not hold for the people in the release."
            )


def join_register(table: ReleasedTable, register: ReleasedTable) -> ReleasedTable:
    """Append the lines of a register, which belong to no group, to those of a release.

    The cells of the release keep their numbers.
    """

    def joined(one: Column, two: Column) -> Column:
        single = np.flatnonzero(one.evidence.sizes == 1)
        place = np.full(len(one.domain), -1)
        place[one.evidence.matrix.indices[one.evidence.matrix.indptr[single]]] = single
        values = two.evidence.matrix.indices
        new = np.flatnonzero(place[values] < 0)
        place[values[new]] = len(one.evidence) + np.arange(len(new))
        cells = sparse.vstack([one.evidence.matrix, two.evidence.matrix[new]], format="csr")
        labels = (*one.evidence.labels, *(two.evidence.labels[i] for i in new))
        codes = np.concatenate([one.codes.astype(np.int64), place[values][two.codes]])
        return Column(Evidence(one.domain, labels, sparse.csr_array(cells)), codes)

    outside = np.full(register.n_lines, -1, dtype=np.int32)
    return ReleasedTable(
        scheme="horizontal",
        sensitive=table.sensitive,
        columns={n: joined(c, register.columns[n]) for n, c in table.columns.items()},
        secret=joined(table.secret, register.secret),
        group_codes=np.concatenate([table.group_codes, outside]),
        group_labels=table.group_labels,
        group_name=table.group_name,
        weights=np.concatenate(
            [
                np.ones(t.n_lines, dtype=np.int64) if t.weights is None else t.weights
                for t in (table, register)
            ]
        ),
    )


def prior_with(prior: Prior, register: ReleasedTable) -> Prior:
    """Add the people of a register to a prior, whose Dirichlet weights are counts."""
    beta = {}
    for name, column in register.columns.items():
        counts = register.counts[name].T @ column.evidence.matrix
        beta[name] = prior.beta[name] + counts.toarray()
    return Prior(prior.alpha + register.secret_counts, beta)


# -- belief about whole records -----------------------------------------------------------------


class RecordLift(NamedTuple):
    """What the people of a register show about values, beyond the belief so far.

    `gain` and `error` are the held-out log score that it adds, in nats per person, and its standard
    error.
    """

    attributes: tuple[int, ...]  # none, one or two, whose values are combined
    keys: Ints  # combinations of values in the register, ascending
    ratio: Floats  # (kappa + observed) / (kappa + expected), shape (keys, S)
    kappa: float  # number of people at which counts and prior belief have equal weight
    gain: float
    error: float

    def factor(self, codes: Ints, sizes: Ints) -> Floats:
        """Factors of records; 1 for combinations that are not in the register."""
        key = combined(codes, self.attributes, sizes)
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where((self.keys[place] == key)[:, None], self.ratio[place], 1.0)


def combined(codes: Ints, attributes: tuple[int, ...], sizes: Ints) -> Ints:
    """Return a single number for the combination of values of some attributes."""
    key = np.zeros(len(codes), dtype=np.int64)
    for a in attributes:
        key = key * sizes[a] + codes[:, a]
    return key


class RecordBelief(NamedTuple):
    """Belief about whole records: that of the release, corrected by `lifts`. It holds no people."""

    share: Floats
    means: tuple[Floats, ...]
    eta: Floats | None
    lifts: tuple[RecordLift, ...] = ()

    @property
    def sizes(self) -> Ints:
        """Size of each attribute's domain."""
        return np.array([mean.shape[1] for mean in self.means])

    def belief(self, codes: Ints) -> Floats:
        """``p(s | r)`` of records, given by the codes of their values; ``softmax(L)`` unlifted."""
        known = [mean.T[codes[:, a]] for a, mean in enumerate(self.means)]
        out = np.maximum(weighted_joint(self.share, known, self.eta).relative()[0], 1e-300)
        for lift in self.lifts:
            out *= lift.factor(codes, self.sizes)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def ownership(
        self, layout: VerticalLayout, fold: Ints, threads: int | None = None
    ) -> Callable[[Floats], sparse.csr_array]:
        """Probabilities of who owns what in a vertical table, as a function of the folds' scores.

        The score of the whole record is added to the score of each value, ``(folds, n_cells)``.
        """
        records, place = np.unique(layout.items, axis=0, return_inverse=True)
        told = np.zeros((len(records), layout.n_secrets))
        for lift in self.lifts:
            told += np.log(lift.factor(records, self.sizes))
        apart = folds_apart(layout, fold)
        wider = VerticalLayout(
            np.column_stack([apart.items, place.ravel()]), layout.secrets, layout.offsets,
            np.append(apart.sizes, len(records)), layout.n_secrets,
        )  # fmt: skip
        one = np.zeros(layout.n_groups, dtype=np.int64)

        def given(score: Floats) -> sparse.csr_array:
            whole = wider.flatten([*scores_apart(layout, score), told.T])
            return layout.ownership(left_out_ownership(wider, one, whole[None], threads))

        return given


@dataclass(frozen=True, eq=False)
class Register:
    """What a register adds to a release. Made by ``fit(table, register=...)``.

    `share` is ``pi_S``; `means` are the mean distributions of the attributes, ``(S, K_a)`` each.
    """

    population: ReleasedTable  # release and register, from which the population was learned
    people: ReleasedTable  # the register
    share: Floats
    means: tuple[Floats, ...]
    eta: Floats | None  # weights; None with independent evidence
    before: Prior | None = None  # prior without the register (vertical, independent evidence)

    @classmethod
    def of(cls, post: Posterior, people: ReleasedTable) -> Register:
        """Register of a posterior, which is fitted with the register or to the release alone."""
        means = tuple(mean_shares(post))
        return cls(post.table, people, post.secret_mean, means, post.eta)

    @cached_property
    def records(self) -> IndexedRecords:
        """Distinct records of the register."""
        return IndexedRecords.of(self.people)

    @cached_property
    def codes(self) -> Ints:
        """Values of the distinct records, shape ``(records, A)``."""
        cells = self.records.index.codes
        values = [m.indices[cells[:, a]] for a, m in enumerate(self.records.evidence)]
        return np.stack(values, axis=1).astype(np.int64)

    @property
    def sizes(self) -> Ints:
        """Size of each attribute's domain."""
        return self._alone.sizes

    @property
    def _alone(self) -> RecordBelief:
        """Belief from the release alone."""
        return RecordBelief(self.share, self.means, self.eta)

    @property
    def told(self) -> RecordBelief:
        """Belief with the corrections, which is all that groups in other places need to know."""
        return self._alone._replace(lifts=self.lifts)

    @cached_property
    def lifts(self) -> tuple[RecordLift, ...]:
        """Corrections by the register's people, in the order in which they were learned."""
        counts, codes = self.records.secrets, self.codes
        record, secret = np.nonzero(counts)
        entry = _Entries(record, secret, counts[record, secret])
        belief = self._alone.belief(codes)
        n = range(codes.shape[1])
        candidates = [(), *((a,) for a in n), *itertools.combinations(n, 2)]
        first = [self._lift(which, belief, entry) for which in candidates]
        order = [lift.attributes for lift in sorted(first, key=lambda lift: -lift.gain)]
        taken: list[RecordLift] = []
        for _ in range(MOST_PASSES):
            before = len(taken)
            for which in order:
                lift = self._lift(which, belief, entry)
                if lift.gain > CLEARLY * lift.error:
                    taken.append(lift)
                    belief = belief * lift.factor(codes, self.sizes)
                    belief /= belief.sum(axis=1, keepdims=True)
            if len(taken) == before:
                break
        return tuple(taken)

    @property
    def corrects(self) -> bool:
        """Whether the register changes any belief."""
        return self.eta is not None and bool(self.lifts)

    def _lift(self, which: tuple[int, ...], belief: Floats, entry: _Entries) -> RecordLift:
        """Find the best correction of a belief by the counts of some attributes' values."""
        counts = self.records.secrets
        rows = counts.sum(axis=1)
        keys, cell = np.unique(combined(self.codes, which, self.sizes), return_inverse=True)
        gather = sparse.csr_array(
            (np.ones(len(cell)), (cell, np.arange(len(cell)))), shape=(len(keys), len(cell))
        )
        observed, expected = gather @ counts, gather @ (belief * rows[:, None])
        before = np.log(belief[entry.record, entry.secret])
        score = np.empty(len(before))

        def gained(log_kappa: float) -> float:
            kappa = float(np.exp(log_kappa))
            _score_left_out(kappa, belief, cell, observed, expected, entry, score)
            return float((score - before) @ entry.people)

        from scipy.optimize import minimize_scalar  # which takes long to load

        best = minimize_scalar(
            lambda k: -gained(k), bounds=np.log(KAPPA_RANGE), method="bounded", options=SEARCH
        )
        gain, kappa, n = gained(best.x), float(np.exp(best.x)), float(rows.sum())
        spread = float((score - before) ** 2 @ entry.people) - gain**2 / n
        ratio = (kappa + observed) / (kappa + expected)
        return RecordLift(which, keys, ratio, kappa, gain / n, float(np.sqrt(max(spread, 0.0))) / n)

    def belief(self, codes: Ints) -> Floats:
        """``p(s | r)`` of records, given by the codes of their values."""
        return self.told.belief(codes)

    @cached_property
    def expected(self) -> Floats:
        """Expected people of the register by record and secret, ``n_r p(s | r)``."""
        return self.records.counts[:, None] * self.belief(self.codes)

    def joint(self, victims: Victims) -> Floats:
        """The product model's ``p(known, s)``, which counts for `PRIOR_ROWS` people."""
        return weighted_joint(self.share, victims.shares(self.means), self.eta).plain

    def mass(self, victims: Victims, per_record: Floats | None = None) -> Floats:
        """Sum ``n_r p(s | r)``, or `per_record`, over the records that fit the victims."""
        of_record = self.expected if per_record is None else per_record
        return self.records.add_up(victims, of_record)[0].plain

    def learner(self, victims: Victims) -> Floats:
        """Unnormalised belief of a learner who has the register."""
        out = np.empty((len(victims), len(self.share)))
        whole, values = victims.whole_records()
        out[whole] = self.belief(values[whole])
        if not whole.all():
            rest = victims.some(~whole)
            out[~whole] = self.mass(rest) + PRIOR_ROWS * self.joint(rest)
        return out

    @property
    def words(self) -> str:
        """Describe in a sentence what the register adds."""
        told = ""
        if self.eta is not None:
            told = " It adds nothing significant to what the release says about a record."
            if self.lifts:
                times = "once" if len(self.lifts) == 1 else f"{len(self.lifts)} times"
                told = (
                    f" It corrects what the release says about a record {times}, for "
                    f"{sum(lift.gain for lift in self.lifts):.3f} nats per person."
                )
        return (
            f"The learner and the attacker also have a register of {self.people.n_rows:,} other "
            "people." + told
        )

    def remark(self, victims: Victims, record: Ints, secret: Ints, people: Ints) -> str | None:
        """Warn if the people in the cleartext are also in the register, which would be linkage.

        Some are by chance, as often as the register's own people share record and secret.
        """
        whole, values = victims.whole_records()
        known = whole[record]
        if not known.any():
            return None
        _, place = np.unique(np.concatenate([self.codes, values]), axis=0, return_inverse=True)
        counts = np.zeros((int(place.max()) + 1, len(self.share)))
        counts[place[: len(self.codes)]] = self.records.secrets
        inside = counts[place[len(self.codes) :][record], secret] > 0
        return self.linkage(float(people[known].sum()), float((people * inside)[known].sum()))

    def linkage(self, n: float, inside: float) -> str | None:
        """Warn if too many of `n` people are in the register for it to be by chance."""
        counts, share = self.records.secrets, inside / n
        chance = float(counts[counts > 1].sum() / counts.sum())
        error = np.sqrt(max(chance * (1 - chance), 0.25 / n) / n)
        if share - chance < max(0.1, 5 * error):
            return None
        return (
            f"{share:.0%} of the people in the cleartext are in the register with the same values "
            f"and secret ({chance:.0%} would be expected by chance). This is linkage: whoever has "
            "such a register can simply look people up. It should contain other people only."
        )


class _Entries(NamedTuple):
    """Distinct pairs of record and secret, with the number of people of each."""

    record: Ints
    secret: Ints
    people: Floats


@njit(cache=True, nogil=True)
def _score_left_out(
    kappa: float,
    belief: Floats,
    cell: Ints,
    observed: Floats,
    expected: Floats,
    entry: _Entries,
    score: Floats,
) -> None:
    """Log score of each entry's secret, with one of its people excluded from the cell's counts."""
    for i in range(len(entry.record)):
        r, own = entry.record[i], entry.secret[i]
        c = cell[r]
        total, of_own = 0.0, 0.0
        for s in range(belief.shape[1]):
            seen = observed[c, s] - (1.0 if s == own else 0.0)
            foreseen = max(expected[c, s] - belief[r, s], 0.0)
            part = belief[r, s] * (kappa + seen) / (kappa + foreseen)
            total += part
            if s == own:
                of_own = part
        score[i] = np.log(of_own / total)
