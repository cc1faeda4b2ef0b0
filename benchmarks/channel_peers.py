r"""Channels beside multi-freq-ldpy and pure-ldp: client time, server time, accuracy.

The mechanisms that all three share: randomized response, optimized unary encoding, basic RAPPOR
(symmetric unary encoding), optimized local hashing (``g = 4`` at epsilon = 1). Of multi-freq-ldpy
also subset selection, longitudinal reports (L-SUE and L-OSUE, twice the budget for all reports; a
first report, whose permanent bits are drawn too) and three attributes, one sampled or the budget
split; of pure-ldp Hadamard response. What only a peer has (histogram encoding, sketches, Bloom
filters, fake data, heavy hitters) has no row. The same users in each run. Ours draws from the
secure source of the operating system, theirs do not.

Like for like: every side calls a function once per user, and its server gets the list of what the
calls returned. There is a row for every estimator that a peer offers for a mechanism. It compares

* *client*: the calls of all users, `Channel.reporter` of ours;
* *same*: the same estimator on both sides. ``raw`` is our ``"empirical"``, ``projected`` our
  ``"norm_sub"``; ``clipped`` sets negative entries of the first to zero, by a line of NumPy here;
  ``IBU`` of randomized response climbs to the maximum
  likelihood, our ``"mle"``. Total variation must be equal within its error. (``IBU`` of bits treats
  each raised bit as a report of its own; we have no such estimator.)
* *shrink*: ``"shrinkage"``, what our documentation tells to use with noise like this. It is judged
  by time and accuracy at once. Among a dozen variants its settings were chosen for their squared
  error over eight shapes of populations, with other seeds. The population here is one of the eight,
  in these sizes, so its accuracy is not that of a fresh population: on a flatter one (weights
  ``1 / (5 + i)^1.2``, 15,000 users, 150 values, 12 runs) ``IBU`` of OUE was as accurate.

Times are of the processor, since other programs may run beside; *behind in* names what a row is not
ahead in. In one full run 42 of 48 rows were ahead. With 400 values, calls for one user that send
bits (OUE, RAPPOR) took 1.2 times as long as those of multi-freq-ldpy, and ``"shrinkage"`` of
Hadamard response 1.02 times as long as the raw estimate of pure-ldp.

*bulk* is our `Channel.release`, all users in one call, which the peers do not offer.

Because the peers need old versions of common packages, they live in an environment of their own,
which this benchmark makes when ``PEERS_PYTHON`` does not name one (not in the short run):

    python3.11 -m venv build/peers
    build/peers/bin/pip install "numpy<2" "xxhash<3" numba scipy pandas scikit-learn setuptools \
        bitarray statsmodels
    build/peers/bin/pip install --no-deps multi-freq-ldpy pure-ldp
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.channels.pure import PureChannel

PEERS = ("multi-freq-ldpy", "pure-ldp")
EPSILON = 1.0
ATTRIBUTES = 3
CLIENTS = ("client", "bulk")
HOME = Path("build/peers")
NEEDED = "numpy<2 xxhash<3 numba scipy pandas scikit-learn setuptools bitarray statsmodels".split()


def distribution(k: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, k + 1)
    return weights / weights.sum()


def clipped(p: np.ndarray) -> np.ndarray:
    """Negative entries to zero, and a sum of one."""
    positive = np.maximum(p, 0.0)
    return positive / positive.sum(axis=-1, keepdims=True)


SERVERS: dict[str, Callable[[PureChannel, list], np.ndarray]] = {
    "raw": lambda channel, reports: channel.estimate(reports, method="empirical").p,
    "clipped": lambda channel, reports: clipped(channel.estimate(reports, method="empirical").p),
    "projected": lambda channel, reports: channel.estimate(reports, method="norm_sub").p,
    "IBU": lambda channel, reports: channel.estimate(reports, method="mle").p,
    "shrink": lambda channel, reports: channel.estimate(reports, method="shrinkage").p,
}


def ours(n: int, k: int, seed: int) -> dict[str, dict]:
    """Seconds of the client, seconds and total variation of each estimator, for one run."""
    domain, p = ab.Domain("x", range(k)), distribution(k)
    values = np.random.default_rng(seed).choice(k, n, p=p)
    one_by_one: list = values.tolist()
    out = {}
    for name, channel in {
        "RR": ab.RandomizedResponse(domain, EPSILON),
        "OUE": ab.UnaryEncoding.optimal(domain, EPSILON),
        "RAPPOR": ab.RAPPOR(domain, EPSILON),
        "OLH": ab.LocalHashing(domain, EPSILON, g=4),
        "SS": ab.SubsetSelection(domain, EPSILON),
        "HR": ab.HadamardResponse(domain, EPSILON),
        "L-SUE": ab.LongitudinalUE.rappor(domain, EPSILON),
        "L-OSUE": ab.LongitudinalUE(domain, EPSILON),
        "sample": Several(domain, "sample"),
        "split": Several(domain, "split"),
    }.items():
        # The device of one person remembers; a first report is one of the whole channel.
        long = isinstance(channel, ab.LongitudinalUE)
        report = ab.BitChannel.reporter(channel) if long else channel.reporter()
        few = [report(value) for value in one_by_one[:50]]
        servers = {
            label: server for label, server in SERVERS.items() if label != "IBU" or name == "RR"
        }
        for server in servers.values():
            server(channel, few)  # compiles
        channel.release(values[:50])
        start = time.process_time()
        reports = [report(value) for value in one_by_one]
        client = time.process_time() - start
        found = {}
        for label, server in servers.items():
            start = time.process_time()
            p_hat = server(channel, reports)
            found[label] = (time.process_time() - start, total_variation(p_hat, p))
        start = time.process_time()
        channel.release(values)
        out[name] = {"client": client, "server": found, "bulk": time.process_time() - start}
    return out


class Several:
    """Three attributes with the same values, as a channel of all their shares."""

    def __init__(self, domain: ab.Domain, how: str) -> None:
        self.names = [f"x{i}" for i in range(ATTRIBUTES)]
        self.of = ab.Attributes([domain.renamed(name) for name in self.names], EPSILON, how=how)

    def reporter(self) -> Callable[[int], dict]:
        """One person's call."""
        report = self.of.reporter()
        return lambda value: report(dict.fromkeys(self.names, value))

    def release(self, values: np.ndarray) -> object:
        """All people's reports."""
        return self.of.release(dict.fromkeys(self.names, values))

    def estimate(self, reports: list, *, method: str) -> SimpleNamespace:
        """Shares of all attributes, a row for each."""
        found = self.of.estimate(self.of.collect(reports), method=method)
        return SimpleNamespace(p=np.stack([each.p for each in found.values()]))


def total_variation(p_hat: np.ndarray, p: np.ndarray) -> float:
    """Distance of shares; of several attributes the mean."""
    return float(np.abs(np.reshape(p_hat, (-1, len(p))) - p).sum(axis=1).mean() / 2)


def theirs(peer: str, n: int, k: int, runs: int, python: str) -> list[dict]:
    script = Path(__file__).with_name("_channel_peer.py")
    arguments = [python, str(script), peer, str(n), str(k), str(EPSILON), str(runs)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(n: int, k: int, runs: int, python: str) -> list[dict]:
    """One row per peer, mechanism and estimator of the peer; ratios above 1 are in our favour."""
    p, us = distribution(k), [ours(n, k, seed) for seed in range(runs)]
    out = []
    for peer in PEERS:
        them = theirs(peer, n, k, runs, python)
        for name in them[0]:
            for label in them[0][name]["server"]:
                row = {"users": n, "values": k, "mechanism": name, "peer": peer, "rule": label}
                client, bulk = (np.median([run[name][kind] for run in us]) for kind in CLIENTS)
                peer_client = np.median([run[name]["client"] for run in them])
                row["us per user"] = 1e6 * client / n
                row["client x"], row["bulk x"] = peer_client / client, peer_client / bulk
                peer_server = np.median([run[name]["server"][label][0] for run in them])
                row["peer ms"] = 1e3 * peer_server
                row["TV peer"], row["se peer"] = mean_error(
                    [total_variation(np.array(run[name]["server"][label][1]), p) for run in them]
                )
                for kind, ruled in (("same", label), ("shrink", "shrink")):
                    found = [
                        run[name]["server"][ruled] for run in us if ruled in run[name]["server"]
                    ]
                    if found:
                        row[f"server x {kind}"] = peer_server / np.median([s for s, _ in found])
                        row[f"TV {kind}"], row[f"se {kind}"] = mean_error([tv for _, tv in found])
                row["behind in"] = ", ".join(
                    what
                    for what, is_behind in {
                        "client": row["client x"] <= 1,
                        "server, same": row.get("server x same", 2.0) <= 1,
                        "server, shrink": row["server x shrink"] <= 1,
                        "accuracy": row["TV shrink"] >= row["TV peer"],
                    }.items()
                    if is_behind
                )
                out.append(row)
    return out


def mean_error(losses: list[float]) -> tuple[float, float]:
    """Mean, and its standard error over the runs."""
    return float(np.mean(losses)), float(np.std(losses, ddof=1) / np.sqrt(len(losses)))


def verdicts(table: pd.DataFrame) -> None:
    """Print in how many rows ours is ahead, by each of the measures."""
    many, paired = len(table), table[table["TV same"].notna()]
    error = np.hypot(paired["se same"], paired["se peer"])
    equal = (paired["TV same"] - paired["TV peer"]).abs() <= 4 * error + 1e-3
    gain = table["TV peer"] - table["TV shrink"]
    clear = gain > 2 * np.hypot(table["se shrink"], table["se peer"])
    ahead = table["behind in"] == ""
    print(
        f"client faster in {(table['client x'] > 1).sum()} of {many} rows, by a factor of "
        f"{table['client x'].min():.3g} at least; in bulk {table['bulk x'].min():.3g}"
    )
    print(
        f"server faster with the same estimator in {(paired['server x same'] > 1).sum()} of "
        f"{len(paired)}, by a factor of {paired['server x same'].min():.3g} at least; same total "
        f"variation within 4 standard errors in {equal.sum()}"
    )
    print(
        f"shrinkage: server faster in {(table['server x shrink'] > 1).sum()} of {many}, by a "
        f"factor of {table['server x shrink'].min():.3g} at least; more accurate in "
        f"{(gain > 0).sum()}, beyond two standard errors in {clear.sum()}"
    )
    print(f"ahead in client, server and accuracy at once: {ahead.sum()} of {many}")


def secure_speed(n: int) -> None:
    """Time `n` reports from the secure source, the sparse ones of 1,000 bits included."""
    domain = ab.Domain("x", range(1000))
    values = np.random.default_rng(2).integers(0, 1000, n)
    for name, channel in {
        "RR, epsilon = 1": ab.RandomizedResponse(domain, 1.0),
        "uRAP, 100 sensitive, epsilon = 4": ab.UtilityOptimizedRAPPOR(
            domain, 4.0, sensitive=range(100)
        ),
        "OUE, epsilon = 4": ab.UnaryEncoding.optimal(domain, 4.0),
    }.items():
        channel.release(values[:10])
        start = time.process_time()
        channel.release(values)
        print(f"{n:,} secure reports, {name}: {time.process_time() - start:.3f} s")


def peers_python(*, install: bool) -> str | None:
    """Interpreter with the peers: the one named, or one that is made now (needs the network)."""
    if named := os.environ.get("PEERS_PYTHON"):
        return named
    python = HOME / "bin" / "python"
    if python.exists():
        return str(python)
    if not install:
        print("No peers without PEERS_PYTHON in the short run; see benchmarks/channel_peers.py.")
        return None
    base = next((found for v in ("3.11", "3.10") if (found := shutil.which(f"python{v}"))), None)
    if base is None:
        print("The peers need Python 3.10 or 3.11; set PEERS_PYTHON.")
        return None
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    for command in (
        [base, "-m", "venv", str(HOME)],
        [*pip, *NEEDED],
        [*pip, "--no-deps", "multi-freq-ldpy", "pure-ldp"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(HOME, ignore_errors=True)
            print(f"The peers cannot be installed here; set PEERS_PYTHON.\n{done.stderr[-500:]}")
            return None
    return str(python)


def main(*, short: bool = False) -> None:
    """Print one line per mechanism, peer and estimator of the peer."""
    secure_speed(100_000 if short else 1_000_000)
    python = peers_python(install=not short)
    if python is None:
        return
    sizes = [(3_000, 50, 3)] if short else [(20_000, 100, 12), (50_000, 400, 4)]
    tables = []
    for n, k, runs in sizes:
        tables.append(pd.DataFrame(rows(n, k, runs, python)))
        with pd.option_context("display.width", 300, "display.max_columns", 40):
            print(
                tables[-1].to_string(index=False, float_format=lambda x: f"{x:.3g}", na_rep=""),
                flush=True,
            )
    verdicts(pd.concat(tables))


if __name__ == "__main__":
    main()
