"""One peer's clients and servers, timed in the peer's own environment.

Run by `benchmarks.channel_peers`: ``python _channel_peer.py <peer> <n> <k> <epsilon> <runs>``
prints one JSON line per run, ``{mechanism: {"client": seconds, "server": {estimator: [seconds,
estimate]}}}``. It imports the peer and NumPy only, because the peers need older versions of common
packages than ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

Server = Callable[[list], Sequence[float]]


ATTRIBUTES = 3  # each person holds the same value of all of them


def timed(client: Callable[[int], object], servers: dict[str, Server], values: list) -> dict:
    for value in values[:5]:  # compiles what is compiled when first called
        client(value)
    for server in servers.values():
        server([client(value) for value in values[:50]])
    start = time.process_time()
    reports = [client(value) for value in values]
    seconds = time.process_time() - start
    found = {}
    for name, server in servers.items():
        start = time.process_time()
        estimate = server(reports)
        found[name] = [time.process_time() - start, [float(p) for p in estimate]]
    return {"client": seconds, "server": found}


def multi_freq(values: list, k: int, epsilon: float) -> dict:
    from multi_freq_ldpy.long_freq_est import L_OSUE, L_SUE
    from multi_freq_ldpy.mdim_freq_est import SMP_solution, SPL_solution
    from multi_freq_ldpy.pure_frequency_oracles import SS
    from multi_freq_ldpy.pure_frequency_oracles.GRR import (
        GRR_Aggregator_IBU,
        GRR_Aggregator_MI,
        GRR_Client,
    )
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import (
        UE_Aggregator_IBU,
        UE_Aggregator_MI,
        UE_Client,
    )

    def unary(optimal: bool) -> dict:
        return timed(
            lambda v: UE_Client(v, k, epsilon, optimal),
            {
                "clipped": lambda reports: UE_Aggregator_MI(reports, epsilon, optimal),
                "IBU": lambda reports: UE_Aggregator_IBU(reports, k, epsilon, optimal),
            },
            values,
        )

    response = timed(
        lambda v: GRR_Client(v, k, epsilon),
        {
            "clipped": lambda reports: GRR_Aggregator_MI(reports, k, epsilon),
            "IBU": lambda reports: GRR_Aggregator_IBU(reports, k, epsilon),
        },
        values,
    )
    hashing = timed(
        lambda v: LH_Client(v, k, epsilon, True),
        {"clipped": lambda reports: LH_Aggregator_MI(reports, k, epsilon, True)},
        values,
    )
    subset = timed(
        lambda v: SS.SS_Client(v, k, epsilon),
        {
            "clipped": lambda reports: SS.SS_Aggregator_MI(reports, k, epsilon),
            "IBU": lambda reports: SS.SS_Aggregator_IBU(reports, k, epsilon),
        },
        values,
    )

    def twice(module, name: str) -> dict:
        client, direct, iterated = (
            getattr(module, f"{name}_{part}")
            for part in ("Client", "Aggregator_MI", "Aggregator_IBU")
        )
        return timed(
            lambda v: client(v, k, 2 * epsilon, epsilon),
            {
                "clipped": lambda reports: direct(reports, 2 * epsilon, epsilon),
                "IBU": lambda reports: iterated(reports, k, 2 * epsilon, epsilon),
            },
            values,
        )

    def several(module, name: str) -> dict:
        sizes, many = [k] * ATTRIBUTES, ATTRIBUTES
        client = getattr(module, f"{name}_ADP_Client")
        direct = getattr(module, f"{name}_ADP_Aggregator_MI")
        return timed(
            lambda v: client([v] * many, sizes, many, epsilon),
            {
                "clipped": lambda reports: np.concatenate(
                    [np.asarray(p, dtype=float) for p in direct(reports, sizes, many, epsilon)]
                )
            },
            values,
        )

    return {
        "RR": response, "OUE": unary(True), "RAPPOR": unary(False), "OLH": hashing, "SS": subset,
        "L-SUE": twice(L_SUE, "L_SUE"), "L-OSUE": twice(L_OSUE, "L_OSUE"),
        "sample": several(SMP_solution, "SMP"), "split": several(SPL_solution, "SPL"),
    }  # fmt: skip


def pure(values: list, k: int, epsilon: float) -> dict:
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    def run(client, server, names: tuple = ("raw", "projected")) -> dict:
        def serve(reports: list, normalization: int) -> np.ndarray:
            server.reset()
            server.aggregate_all(reports)
            counts = server.estimate_all(
                range(1, k + 1), suppress_warnings=True, normalization=normalization
            )
            return np.asarray(counts) / len(reports)

        servers = {
            "raw": lambda reports: serve(reports, 0),
            "projected": lambda reports: serve(reports, 2),
        }
        # Its values run from one.
        chosen = {name: servers[name] for name in names}
        return timed(lambda v: client.privatise(v + 1), chosen, values)

    return {
        "RR": run(DEClient(epsilon, k), DEServer(epsilon, k)),
        "OUE": run(UEClient(epsilon, k, use_oue=True), UEServer(epsilon, k, use_oue=True)),
        "RAPPOR": run(UEClient(epsilon, k), UEServer(epsilon, k)),
        "OLH": run(
            LHClient(epsilon, k, use_olh=True), LHServer(epsilon, k, use_olh=True), ("raw",)
        ),
        "HR": run(HadamardResponseClient(epsilon, k, None), HadamardResponseServer(epsilon, k)),
    }


if __name__ == "__main__":
    peer, n, k, epsilon, runs = sys.argv[1:]
    weights = 1.0 / np.arange(1, int(k) + 1)
    for seed in range(int(runs)):
        rng = np.random.default_rng(seed)
        held = rng.choice(int(k), int(n), p=weights / weights.sum()).tolist()
        made = {"multi-freq-ldpy": multi_freq, "pure-ldp": pure}[peer]
        print(json.dumps(made(held, int(k), float(epsilon))), flush=True)
