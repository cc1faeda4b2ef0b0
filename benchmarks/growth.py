"""Growth: horizontal tables of ten thousand to a hundred million rows, made up on the fly.

Time and peak memory of reading a release (pandas, DuckDB, Dask), of fitting it, and of assessing it
against the cleartext. Every measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

SIZES = tuple(10**k for k in range(4, 9))
SHORT = {10**4: ("pandas", "duckdb"), 10**5: ("duckdb", "dask", "text, duckdb")}
LARGEST = {"pandas": 10**7, "text, pandas": 10**6, "text, duckdb": 10**7}
"""Where rows in memory, or text, are not worth waiting for."""
FILE_ROWS = 10**7
BYTES_PER_ROW = {"parquet": 8, "text": 45}
OUT = Path(__file__).parent / "out"

# A row is a pure function of its number, so parts can be made in any order. Squares of uniform
# numbers make some values common and others rare, as in a population.
PEOPLE = """
    SELECT (20 + floor(50 * u1 * u1))::INTEGER AS age,
           CASE WHEN u2 < 0.52 THEN 'f' ELSE 'm' END AS sex,
           (10000 + 10 * floor(100 * u3 * u3))::INTEGER AS region,
           'education ' || floor(8 * u4)::INTEGER AS education,
           'illness ' || floor(10 * u5 * (0.3 + 0.7 * u1))::INTEGER AS illness,
           u6 AS level
    FROM (SELECT {uniforms} FROM range({start}, {stop}) t(i))
"""
RELEASED = """
    SELECT CASE WHEN level > 0.99 THEN '*'
                WHEN level < 0.8 THEN (age // 10 * 10) || '-' || (age // 10 * 10 + 9)
                ELSE (age // 50 * 50) || '-' || (age // 50 * 50 + 49) END AS age,
           CASE WHEN level < 0.5 THEN sex ELSE '*' END AS sex,
           CASE WHEN level > 0.99 THEN '*'
                WHEN level < 0.9 THEN region // 100 || '**' ELSE region // 1000 || '***' END
                AS region,
           CASE WHEN level > 0.99 THEN '*' ELSE education END AS education,
           illness
    FROM ({people})
"""
DOMAINS: dict[str, Any] = {
    "age": range(0, 100),
    "sex": ["f", "m"],
    "region": [str(r) for r in range(10000, 11000, 10)],
    "education": [f"education {i}" for i in range(8)],
    "illness": [f"illness {i}" for i in range(10)],
}


def people(start: int, stop: int) -> str:
    """Query for the rows of the cleartext from `start` to `stop`."""
    uniforms = ", ".join(
        f"(hash(i * 6 + {k}) % 1000003)::DOUBLE / 1000003 AS u{k}" for k in range(1, 7)
    )
    return PEOPLE.format(uniforms=uniforms, start=start, stop=stop)


def make(folder: Path, n: int, text: bool) -> None:
    """Write cleartext and release, as parquet in files of ten million rows and as text."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for start in range(0, n, FILE_ROWS):
        clear = people(start, min(start + FILE_ROWS, n))
        released = RELEASED.format(people=clear)
        number = start // FILE_ROWS
        for name, query in (
            ("released", released),
            ("people", f"SELECT * EXCLUDE level FROM ({clear})"),
        ):
            target = folder / name / f"{number:03d}.parquet"
            target.parent.mkdir(exist_ok=True)
            con.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet)")
        if text:
            target = folder / f"{number:03d}.csv"
            con.execute(f"COPY ({released}) TO '{target}' (FORMAT csv, DELIMITER ';', HEADER)")


def read(folder: Path, engine: str) -> Any:
    import anonbayes as ab

    how = {"domains": DOMAINS, "progressbar": False}
    if engine.startswith("text, "):
        return ab.read_arx(
            sorted(folder.glob("*.csv")), sensitive="illness", engine=engine[6:], **how
        )
    return ab.ReleasedTable.from_parquet(folder / "released", "illness", engine=engine, **how)


def reading(folder: Path, engine: str) -> dict[str, Any]:
    start, busy = time.perf_counter(), time.process_time()
    table = read(folder, engine)
    counts = sum(int(c.sum()) for c in table.counts.values())
    assert counts == 4 * table.n_rows
    return {
        "seconds": time.perf_counter() - start,
        "CPU seconds": time.process_time() - busy,
        "distinct": table.reduced().n_lines,
        "says": table.fingerprint,
    }


def using(folder: Path) -> dict[str, float]:
    """Processor seconds to read, fit and assess, all through DuckDB."""
    import anonbayes as ab

    clock = [time.process_time()]
    table = read(folder, "duckdb")
    clock.append(time.process_time())
    post = ab.fit(table, seed=1, chains=2, cores=1, progressbar=False)
    clock.append(time.process_time())
    records = ab.count_records(folder / "people", engine="duckdb", progressbar=False)
    clock.append(time.process_time())
    risk = post.assess(records, weights="rows")
    clock.append(time.process_time())
    assert int(risk.summary["rows"]) == table.n_rows
    names = ("read release", "fit", "read people", "assess")
    spent = {n: b - a for n, a, b in zip(names, clock, clock[1:], strict=False)}
    return {**spent, "distinct people": len(records), "GT_A": risk.summary["GT_A"]}


def _child(job: Callable[..., Any], arguments: tuple[Any, ...], end: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = job(*arguments) or {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    end.send({**found, "MB": peak - before})


def measured(job: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Run a job in a process of its own; ``MB`` is its peak memory beyond the imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["anonbayes.inference.fit", "anonbayes.risk.assess", "duckdb"])
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(job, arguments, send))
    process.start()
    send.close()
    try:
        found: dict[str, Any] = receive.recv()
    except EOFError:
        raise RuntimeError(f"{job.__name__}{arguments} died, out of memory?") from None
    finally:
        process.join()
    return found


def plot(read_times: pd.DataFrame, whole: pd.DataFrame) -> Path:
    """Time and memory against the number of rows, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for engine, part in read_times.groupby("engine", sort=False):
        left.loglog(part["rows"], part["CPU seconds"], "o-", label=f"read, {engine}")
        right.loglog(part["rows"], part["MB"].clip(lower=1), "o-", label=f"read, {engine}")
    for name, marker in (("fit", "s--"), ("assess", "^--")):
        left.loglog(whole.index, whole[name], marker, color="0.4", label=name)
    right.loglog(whole.index, whole["MB"].clip(lower=1), "k^--", label="read, fit and assess")
    left.set(xlabel="rows", ylabel="CPU seconds", title="Time")
    right.set(xlabel="rows", ylabel="MB beyond imports", title="Peak memory")
    for ax in (left, right):
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "growth.png", dpi=120)
    plt.close(figure)
    return OUT / "growth.png"


def main(*, short: bool = False, sizes: tuple[int, ...] | None = None) -> None:
    """Print one line per size and engine, and save a plot."""
    engines = ("pandas", "duckdb", "dask", "text, pandas", "text, duckdb")
    reads, whole = [], {}
    for n in sizes or (tuple(SHORT) if short else SIZES):
        text = n <= LARGEST["text, duckdb"]
        needed = n * (2 * BYTES_PER_ROW["parquet"] + text * 2 * BYTES_PER_ROW["text"])
        with tempfile.TemporaryDirectory(prefix="anonbayes-growth-") as name:
            if shutil.disk_usage(name).free < 2 * needed:
                print(f"{n:,} rows left out: they need {needed / 1e9:.1f} GB of disk")
                continue
            folder = Path(name)
            measured(make, folder, n, text)
            used = sum(f.stat().st_size for f in (folder / "released").iterdir())
            for engine in engines:
                if n <= LARGEST.get(engine, n) and (engine in SHORT.get(n, ()) or not short):
                    found = measured(reading, folder, engine)
                    reads.append({"rows": n, "engine": engine, "file MB": used / 1e6, **found})
                    print(f"{n:,} rows, {engine}: {found['seconds']:.1f} s", flush=True)
            assert len({line["says"] for line in reads if line["rows"] == n}) == 1
            if not short or n == max(SHORT):
                whole[n] = measured(using, folder)
    table = pd.DataFrame(reads).drop(columns="says")
    table["rows per CPU second"] = (table["rows"] / table["CPU seconds"]).round(-3)
    print(table.to_string(index=False, float_format="{:,.2f}".format))
    frame = pd.DataFrame(whole).T.rename_axis("rows")
    print("\nthe whole way, read by DuckDB (CPU seconds; MB beyond imports)")
    print(frame.round(3).to_string())
    print(f"plot: {plot(table, frame)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=float, default=SIZES[-1])
    chosen = parser.parse_args().largest
    main(sizes=tuple(n for n in SIZES if n <= chosen))
