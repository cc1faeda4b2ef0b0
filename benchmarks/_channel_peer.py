"""One peer's clients and servers, timed in the peer's own environment.

Run by `benchmarks.channel_peers`: ``python _channel_peer.py <peer> <n> <k> <epsilon> <seed>``
prints one JSON object, ``{mechanism: [client seconds, server seconds, estimate]}``. It imports the
peer and NumPy only, because the peers need older versions of common packages than ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np


def timed(
    client: Callable[[int], object], server: Callable[[list[object]], Sequence[float]], values: list
) -> tuple[float, float, list[float]]:
    for value in values[:5]:  # compiles what is compiled when first called
        client(value)
    start = time.perf_counter()
    reports = [client(value) for value in values]
    middle = time.perf_counter()
    estimate = server(reports)
    return middle - start, time.perf_counter() - middle, [float(p) for p in estimate]


def multi_freq(values: list, k: int, epsilon: float) -> dict:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    def unary(optimal: bool) -> tuple:
        return timed(
            lambda v: UE_Client(v, k, epsilon, optimal),
            lambda reports: UE_Aggregator_MI(reports, epsilon, optimal),
            values,
        )

    response = timed(
        lambda v: GRR_Client(v, k, epsilon),
        lambda reports: GRR_Aggregator_MI(reports, k, epsilon),
        values,
    )
    return {"RR": response, "OUE": unary(True), "RAPPOR": unary(False)}


def pure(values: list, k: int, epsilon: float) -> dict:
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    def run(client, server) -> tuple:
        def serve(reports: list) -> np.ndarray:
            server.aggregate_all(reports)
            return np.asarray(server.estimate_all(range(1, k + 1), suppress_warnings=True)) / len(
                reports
            )

        # Its values run from one.
        return timed(lambda v: client.privatise(v + 1), serve, values)

    return {
        "RR": run(DEClient(epsilon, k), DEServer(epsilon, k)),
        "OUE": run(UEClient(epsilon, k, use_oue=True), UEServer(epsilon, k, use_oue=True)),
        "RAPPOR": run(UEClient(epsilon, k), UEServer(epsilon, k)),
    }


if __name__ == "__main__":
    peer, n, k, epsilon, seed = sys.argv[1:]
    rng = np.random.default_rng(int(seed))
    weights = 1.0 / np.arange(1, int(k) + 1)
    held = rng.choice(int(k), int(n), p=weights / weights.sum()).tolist()
    print(
        json.dumps(
            {"multi-freq-ldpy": multi_freq, "pure-ldp": pure}[peer](held, int(k), float(epsilon))
        )
    )
