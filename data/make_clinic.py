"""Make the clinic: patients who never existed, their hierarchies, and three releases of them.

``python data/make_clinic.py [folder]`` writes the files (here by default); the same seed gives the
same bytes, and a test compares them. Each column is drawn given the columns before it, from
weights written down here, so the dependences are known:

* ``zip`` first: four districts of six codes; Harbour is poorer, Campus young, Hillside wealthy,
  Valley rural;
* ``age`` given the district, ``sex`` given age, ``marital_status`` given age, ``profession`` given
  age, sex and district;
* ``diagnosis`` given everything: hypertension and diabetes rise with age, lung disease with hard
  work, depression with unemployment and divorce; hepatitis, HIV and epilepsy are rare.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import anonbayes as ab

SEED = 20261
ROWS = 3000

DISTRICTS = ("Harbour", "Campus", "Hillside", "Valley")
ZIPS = tuple(f"{area}{digit}" for area in ("0410", "0412", "0451", "0619") for digit in "012468")
AGES = tuple(range(18, 91))
SEXES = ("female", "male")
MARITAL = {
    "single": "without partner",
    "divorced": "without partner",
    "widowed": "without partner",
    "married": "with partner",
    "partnership": "with partner",
}
PROFESSIONS = {
    "student": "not working",
    "unemployed": "not working",
    "homemaker": "not working",
    "retired": "not working",
    "teacher": "office and education",
    "clerk": "office and education",
    "engineer": "office and education",
    "lawyer": "office and education",
    "nurse": "service",
    "cook": "service",
    "salesperson": "service",
    "driver": "manual",
    "builder": "manual",
    "farmer": "manual",
    "factory worker": "manual",
}
WORK = {"not working": "not working", "office and education": "white collar"}
DIAGNOSES = (
    "hypertension",
    "back pain",
    "influenza",
    "diabetes",
    "depression",
    "heart disease",
    "lung disease",
    "migraine",
    "cancer",
    "addiction",
    "hepatitis",
    "epilepsy",
    "HIV",
)


def draw(rng: np.random.Generator, log_weights: np.ndarray) -> np.ndarray:
    """One category per row, with probability proportional to exp(log weight)."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    edges = np.cumsum(weights, axis=1)
    # The inverse of the distribution function, rather than Generator.choice, whose stream of
    # random numbers NumPy may change.
    return (edges < rng.random(len(edges))[:, None] * edges[:, -1:]).sum(axis=1)


def bump(x: np.ndarray, centre: float, width: float) -> np.ndarray:
    """Bell-shaped log weight: 0 at the centre."""
    return -0.5 * ((x - centre) / width) ** 2


def draw_ages(rng: np.random.Generator, district: np.ndarray) -> np.ndarray:
    """Ages: most patients are around 60, Campus has many young ones."""
    ages = np.asarray(AGES, dtype=float)
    old = np.exp(bump(ages, 61, 16))
    young = np.exp(bump(ages, 24, 6))
    adult = np.exp(bump(ages, 40, 12))
    mixed = {"Harbour": (0.6, 0.2, 0.8), "Campus": (0.3, 1.6, 0.5),
             "Hillside": (0.9, 0.1, 0.6), "Valley": (0.9, 0.1, 0.5)}  # fmt: skip
    tables = np.log([np.dot(mixed[d], [old, young, adult]) for d in DISTRICTS])
    return np.asarray(AGES)[draw(rng, tables[district])]


def marital_weights(age: np.ndarray) -> np.ndarray:
    """Log weights of marital status given age."""
    return np.column_stack(
        [
            0.2 - 0.075 * (age - 28),
            -1.6 + bump(age, 52, 14),
            -5.2 + 0.075 * (age - 18),
            0.9 + bump(age, 55, 20),
            0.1 + bump(age, 30, 9),
        ]
    )


def profession_weights(age: np.ndarray, female: np.ndarray, district: np.ndarray) -> np.ndarray:
    """Log weights of the profession given age, sex and district."""
    working = np.where(age < 62, 0.0, -0.9 * (age - 62))
    harbour, campus, hillside, valley = (district == d for d in range(4))
    male = ~female
    columns = {
        "student": 2.2 - 0.45 * np.maximum(age - 22, 0) + 1.2 * campus,
        "unemployed": 0.0 + working + 0.9 * harbour - 0.6 * hillside,
        "homemaker": -1.2 + 1.6 * female + 0.4 * valley + 0.3 * working,
        "retired": 2.5 + 0.9 * np.minimum(age - 64, 4) - 4.0 * (age < 56),
        "teacher": 0.2 + 0.5 * female + 0.5 * campus + working - 3.0 * (age < 23),
        "clerk": 0.9 + 0.3 * female + working,
        "engineer": 0.3 + 0.9 * male + 0.4 * hillside + working - 3.0 * (age < 23),
        "lawyer": -0.9 + 1.1 * hillside + working - 3.0 * (age < 26),
        "nurse": 0.2 + 1.3 * female + working,
        "cook": -0.1 + 0.5 * harbour + working,
        "salesperson": 0.6 + 0.2 * female + working,
        "driver": -0.3 + 1.2 * male + 0.5 * harbour + working,
        "builder": -0.4 + 1.8 * male + 0.4 * harbour + working,
        "farmer": -2.5 + 2.6 * valley + 0.6 * male + 0.6 * working,
        "factory worker": 0.0 + 0.7 * male + 0.8 * harbour - 0.8 * hillside + working,
    }
    return np.column_stack([columns[p] for p in PROFESSIONS])


def diagnosis_weights(
    age: np.ndarray, female: np.ndarray, district: np.ndarray, marital: np.ndarray, work: np.ndarray
) -> np.ndarray:
    """Log weights of the diagnosis given everything else."""
    decades = (age - 50) / 10
    kind = np.asarray(list(PROFESSIONS.values()))[work]
    job = np.asarray(list(PROFESSIONS))[work]
    status = np.asarray(list(MARITAL))[marital]
    male, manual = ~female, kind == "manual"
    harbour, campus = district == 0, district == 1
    alone = np.isin(status, ["divorced", "widowed"])
    columns = {
        "hypertension": 1.2 + 0.45 * decades + 0.2 * male,
        "back pain": 0.9 + 0.9 * manual + 0.4 * (job == "nurse") - 0.1 * decades,
        "influenza": 1.0 - 0.25 * decades + 0.7 * np.isin(job, ["teacher", "student", "nurse"]),
        "diabetes": 0.3 + 0.35 * decades + 0.3 * harbour,
        "depression": 0.3 + 1.0 * (job == "unemployed") + 0.8 * alone + 0.4 * female,
        "heart disease": -0.3 + 0.75 * decades + 0.5 * male,
        "lung disease": -0.6 + 0.3 * decades + 1.0 * manual + 0.4 * harbour,
        "migraine": 0.1 - 0.35 * decades + 1.0 * female,
        "cancer": -0.7 + 0.55 * decades,
        "addiction": -1.3 - 0.2 * decades + 0.7 * male + 1.0 * (job == "unemployed"),
        "hepatitis": -2.6 - 0.1 * decades + 1.2 * (job == "nurse") + 0.8 * harbour,
        "epilepsy": -2.4 - 0.2 * decades,
        "HIV": -3.3 - 0.2 * decades + 0.8 * male + 0.7 * harbour + 0.7 * campus,
    }
    return np.column_stack([columns[d] for d in DIAGNOSES])


def make_clinic(rows: int = ROWS, seed: int = SEED) -> pd.DataFrame:
    """Draw the cleartext table."""
    rng = np.random.default_rng(seed)
    popular = np.log(np.tile([5.0, 4.0, 3.0, 3.0, 2.0, 1.0], 4) * np.repeat([3, 3, 2, 1.5], 6))
    zips = draw(rng, np.broadcast_to(popular, (rows, len(ZIPS))))
    district = zips // 6
    age = draw_ages(rng, district)
    female = draw(rng, np.column_stack([0.15 + 0.01 * (age - 50), np.zeros(rows)])) == 0
    marital = draw(rng, marital_weights(age))
    work = draw(rng, profession_weights(age, female, district))
    ill = draw(rng, diagnosis_weights(age, female, district, marital, work))
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where(female, *SEXES),
            "zip": np.asarray(ZIPS)[zips],
            "marital_status": np.asarray(list(MARITAL))[marital],
            "profession": np.asarray(list(PROFESSIONS))[work],
            "diagnosis": np.asarray(DIAGNOSES)[ill],
        }
    )


def make_hierarchies() -> dict[str, ab.Hierarchy]:
    """Build the hierarchies of the quasi-identifiers."""
    bands = [[_band(age, width) for age in AGES] for width in (5, 10, 20)]
    return {
        "age": ab.Hierarchy(AGES, bands),
        "sex": ab.Hierarchy(SEXES, []),
        "zip": ab.Hierarchy.from_prefix(ZIPS, width=[1, 2, 2]),
        "marital_status": ab.Hierarchy.from_levels({v: [g, "*"] for v, g in MARITAL.items()}),
        "profession": ab.Hierarchy.from_levels(
            {v: [g, WORK.get(g, "blue collar"), "*"] for v, g in PROFESSIONS.items()}
        ),
    }


def _band(age: int, width: int) -> str:
    low = max(age // width * width, AGES[0])
    return f"{low}-{min(age // width * width + width - 1, AGES[-1])}"


def write(folder: Path) -> None:
    """Write every file of the clinic."""
    clinic, trees = make_clinic(), make_hierarchies()
    _table(clinic, folder / "clinic.csv")
    (folder / "clinic_hierarchies").mkdir(exist_ok=True)
    for name, tree in trees.items():
        lines = pd.DataFrame([tree.leaves, *tree.levels]).T
        _table(lines, folder / "clinic_hierarchies" / f"{name}.csv", header=False)
    common = {"hierarchies": trees, "k": 4, "l": 3}
    recoded = ab.anonymize.recode(clinic, "diagnosis", suppression=0.05, **common)
    _table(recoded.to_frame(), folder / "clinic_k4_l3_global.csv")
    recoded = ab.anonymize.recode(clinic, "diagnosis", local=True, **common)
    _table(recoded.to_frame(), folder / "clinic_k4_l3_local.csv")
    parts = ab.anonymize.anatomy(clinic, "diagnosis", l=3, seed=SEED).to_frames()
    for part, frame in zip(("qit", "st"), parts, strict=True):
        _table(frame, folder / f"clinic_l3_{part}.csv")


def _table(frame: pd.DataFrame, file: Path, header: bool = True) -> None:
    frame.to_csv(file, sep=";", index=False, header=header, lineterminator="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
