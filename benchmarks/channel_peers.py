r"""Channels beside multi-freq-ldpy and pure-ldp: client time, server time, accuracy.

Like for like: one report per user, a server that estimates the whole distribution, the mechanisms
that all three share. Ours draws from the secure source of the operating system, theirs do not.
Because the peers need old versions of common packages, they live in an environment of their own:

    python3.11 -m venv peers
    peers/bin/pip install "numpy<2" "xxhash<3" numba scipy pandas scikit-learn setuptools bitarray \
        statsmodels
    peers/bin/pip install --no-deps multi-freq-ldpy pure-ldp
    PEERS_PYTHON=peers/bin/python python -m benchmarks channel_peers
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd

import anonbayes as ab

PEERS = ("multi-freq-ldpy", "pure-ldp")
EPSILON = 1.0


def distribution(k: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, k + 1)
    return weights / weights.sum()


def ours(n: int, k: int, seed: int) -> dict[str, tuple[float, float, np.ndarray, np.ndarray]]:
    """Seconds of client and server (raw estimate), the raw and the threshold estimate."""
    domain = ab.Domain("x", range(k))
    values = np.random.default_rng(seed).choice(k, n, p=distribution(k))
    out = {}
    for name, channel in {
        "RR": ab.RandomizedResponse(domain, EPSILON),
        "OUE": ab.UnaryEncoding.optimal(domain, EPSILON),
        "RAPPOR": ab.RAPPOR(domain, EPSILON),
    }.items():
        channel.release(values[:5])
        start = time.perf_counter()
        reports = channel.release(values)
        middle = time.perf_counter()
        raw = channel.estimate(reports, method="empirical").p
        end = time.perf_counter()
        kept = channel.estimate(reports, method="threshold").p
        out[name] = (middle - start, end - middle, raw, kept)
    return out


def theirs(peer: str, n: int, k: int, seed: int, python: str) -> dict:
    script = Path(__file__).with_name("_channel_peer.py")
    arguments = [python, str(script), peer, str(n), str(k), str(EPSILON), str(seed)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def rows(n: int, k: int, seed: int, python: str) -> list[dict]:
    p = distribution(k)
    us = ours(n, k, seed)
    out = []
    for peer in PEERS:
        for name, (client, server, estimate) in theirs(peer, n, k, seed, python).items():
            our_client, our_server, raw, kept = us[name]
            out.append(
                {
                    "users": n,
                    "values": k,
                    "mechanism": name,
                    "peer": peer,
                    "client s": our_client,
                    "peer client s": client,
                    "client x": client / our_client,
                    "server s": our_server,
                    "peer server s": server,
                    "server x": server / our_server,
                    "TV raw": np.abs(raw - p).sum() / 2,
                    "TV threshold": np.abs(kept - p).sum() / 2,
                    "TV peer": np.abs(np.array(estimate) - p).sum() / 2,
                }
            )
    return out


def secure_speed(n: int) -> None:
    """Time `n` reports from the secure source, the sparse ones of 1,000 bits included."""
    domain = ab.Domain("x", range(1000))
    values = np.random.default_rng(2).integers(0, 1000, n)
    for name, channel in {
        "RR, epsilon = 1": ab.RandomizedResponse(domain, 1.0),
        "uRAP, 100 sensitive, epsilon = 4": ab.UtilityOptimizedRAPPOR(domain, range(100), 4.0),
        "OUE, epsilon = 4": ab.UnaryEncoding.optimal(domain, 4.0),
    }.items():
        channel.release(values[:10])
        start = time.perf_counter()
        channel.release(values)
        print(f"{n:,} secure reports, {name}: {time.perf_counter() - start:.3f} s")


def main(*, short: bool = False) -> None:
    """Print one line per mechanism and peer, the median of a few runs."""
    secure_speed(100_000 if short else 1_000_000)
    python = os.environ.get("PEERS_PYTHON")
    if python is None:
        print("PEERS_PYTHON is not set: see the head of benchmarks/channel_peers.py.")
        return
    sizes = [(5_000, 50)] if short else [(20_000, 100), (50_000, 400)]
    seeds = range(1 if short else 3)
    runs = pd.DataFrame([r for n, k in sizes for seed in seeds for r in rows(n, k, seed, python)])
    table = runs.groupby(["users", "values", "mechanism", "peer"], as_index=False).median()
    with pd.option_context("display.width", 200):
        print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    behind = table[
        (table["client x"] < 1)
        | (table["server x"] < 1)
        | (table["TV threshold"] > table["TV peer"])
    ]
    print("ahead in every row" if behind.empty else f"behind in {len(behind)} rows")


if __name__ == "__main__":
    main()
