"""Engines of horizontal tables: effective draws per second, and growth with the rows.

Peers, on the same table and in the same run: PyMC's NUTS and nutpie (when it is installed) on the
marginal likelihood, the strongest general samplers for this model. The figure is the bulk effective
size of ``pi``, worst and median entry, per second of processor time after compilation and tuning
(with tuning in brackets). Goals: exact at least 100 x nutpie and 1000 x PyMC's NUTS; a sweep for a
thousand times the rows at most 1.3 x the time.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.run import ChainState
from anonbayes.tables.evidence import Column
from anonbayes.tables.table import ReleasedTable

SHARED = Path(__file__).parents[2] / "shared" / "data"


def load(short: bool) -> tuple[str, ReleasedTable]:
    """Adult as ARX recoded it locally; the project's own clinic where it is not at hand."""
    name = "adult_5692_k4_l4_local"
    file = SHARED / "arx" / f"{name}.csv"
    if short or not file.is_file():
        return "clinic_local", ab.datasets.load("clinic_local")
    table = ab.read_arx(file, sensitive="occupation", hierarchies=SHARED / "hierarchies")
    return name, table


def effective(draws: dict[str, np.ndarray]) -> tuple[float, float]:
    """Worst and median bulk effective size of all entries of ``pi``."""
    sizes = np.concatenate(
        [compat.ess({k: v})[k].to_numpy().ravel() for k, v in draws.items() if k.startswith("pi_")]
    )
    return float(np.nanmin(sizes)), float(np.nanmedian(sizes))


def engine_row(table: ReleasedTable, step: str | None, draws: int, tune: int) -> dict[str, float]:
    """Our engines, four chains one after the other on one core."""
    settings = {"step": step, "method": "gibbs"} if step else {"method": "exact"}
    ab.fit(
        table,
        evidence="independent",
        draws=2,
        tune=0,
        chains=1,
        seed=0,
        progressbar=False,
        **settings,
    )  # compile
    began = time.process_time()
    post = ab.fit(
        table,
        evidence="independent",
        draws=draws,
        tune=tune,
        cores=1,
        seed=1,
        progressbar=False,
        **settings,
    )
    seconds = time.process_time() - began
    worst, median = effective({str(k): v.to_numpy() for k, v in post.draws.items()})
    share = draws / (draws + tune)
    return {"worst": worst / (seconds * share), "median": median / (seconds * share),
            "with tuning": worst / seconds}  # fmt: skip


def nuts_row(table: ReleasedTable, sampler: str, draws: int, tune: int) -> dict[str, float]:
    """A general sampler on the same model, compiled beforehand."""
    import pymc as pm

    model = ab.build_model(table)
    if sampler == "nutpie":
        import nutpie

        compiled = nutpie.compile_pymc_model(model)
        began = time.process_time()
        idata = nutpie.sample(
            compiled, draws=draws, tune=tune, chains=2, cores=1, seed=1, progress_bar=False
        )
        seconds = time.process_time() - began
        share = draws / (draws + tune)
    else:
        began = time.process_time()
        with model:
            idata = pm.sample(
                draws, tune=tune, chains=2, cores=1, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
        seconds = time.process_time() - began
        share = draws / (draws + tune)
    found = compat.groups(idata)["posterior"]
    agreement(table, found, sampler)
    worst, median = effective({str(k): v.to_numpy() for k, v in found.items() if "_" in str(k)})
    return {"worst": worst / (seconds * share), "median": median / (seconds * share),
            "with tuning": worst / seconds}  # fmt: skip


def agreement(table: ReleasedTable, draws: xr.Dataset, sampler: str) -> None:
    """Print how far a sampler's means lie from the closed form, in its own standard errors."""
    trees = ab.fit(
        table, evidence="independent", draws=1, chains=1, seed=0, progressbar=False
    ).trees
    off = []
    for name, tree in trees.items():
        chain = draws[f"pi_{name}"]
        error = compat.mcse({"x": chain})["x"].to_numpy()
        enough = compat.ess({"x": chain})["x"].to_numpy() > 100
        mean = chain.mean(("chain", "draw")).to_numpy()
        off.append(((mean - tree.mean) / error)[enough])
    z = np.concatenate(off)
    print(
        f"{sampler} - exact: {len(z)} means, z has s.d. {z.std():.2f}, largest {abs(z).max():.1f}"
    )


def repeated(table: ReleasedTable, times: int) -> ReleasedTable:
    """The table written down several times over."""

    def again(column: Column) -> Column:
        return Column(column.evidence, np.tile(column.codes, times))

    return replace(
        table,
        columns={name: again(c) for name, c in table.columns.items()},
        secret=again(table.secret),
        group_codes=np.tile(table.group_codes, times),
    )


def sweep_seconds(table: ReleasedTable, step: str, sweeps: int) -> float:
    """Processor time of one sweep, the best of five stretches."""
    engine = HorizontalEngine(table, resolve_prior(table), collapse=step != "counts")
    generators = [np.random.default_rng(i) for i in range(2)]
    state = ChainState(engine.start(generators), generators)
    engine.advance(state, 5, tuning=True)
    times = []
    for _ in range(5):
        began = time.process_time()
        engine.advance(state, sweeps, tuning=True)
        times.append((time.process_time() - began) / sweeps)
    return min(times)


def main(*, short: bool = False) -> None:
    """Print effective draws per second, and the time of a sweep against the number of rows."""
    name, table = load(short)
    print(f"{name}: {table.n_rows:,} rows, {sum(len(d) for d in table.domains.values())} values")
    scale = 1 if short else 4
    rows = {
        "exact": engine_row(table, None, 250 * scale, 0),
        "gibbs (tree)": engine_row(table, "tree", 250 * scale, 0),
        "gibbs (counts)": engine_row(table, "counts", 500 * scale, 100 * scale),
    }
    if not short:
        if importlib.util.find_spec("nutpie"):
            rows["nutpie"] = nuts_row(table, "nutpie", 300, 300)
        rows["PyMC NUTS"] = nuts_row(table, "pymc", 200, 200)
    frame = pd.DataFrame(rows).T
    print("\nEffective draws of pi per second of processor time")
    print(frame.round(2).to_string())
    for peer in ("nutpie", "PyMC NUTS"):
        if peer in rows:
            ratio = rows["exact"]["worst"] / rows[peer]["worst"]
            print(f"exact / {peer}: {ratio:,.0f} x (worst entry)")
    times = 100 if short else 1000
    large = repeated(table, times)
    print(f"\nSeconds of a sweep, {table.n_rows:,} rows and {large.n_rows:,} rows")
    for step in ("tree", "counts"):
        small_time = sweep_seconds(table, step, 200)
        large_time = sweep_seconds(large, step, 200)
        print(f"{step:7s} {small_time:.2e} {large_time:.2e}  ratio {large_time / small_time:.2f}")


if __name__ == "__main__":
    main()
