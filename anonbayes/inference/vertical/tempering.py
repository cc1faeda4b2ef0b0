"""Parallel tempering of the collapsed draw, for posteriors with several modes (MODEL 1.4).

Replicas of the table are swept at inverse temperatures ``1 = lambda_0 > ... > lambda_n``. After
each sweep, neighbours exchange temperatures with probability
``min(1, exp((lambda' - lambda)(E - E')))``. Even and odd pairs alternate (the non-reversible
scheme), so that replicas move steadily through the ladder instead of diffusing. During the warm-up,
temperatures are adjusted until all pairs reject equally often, and their number is set to about
twice the sum of the rejection rates (the communication barrier), which gives the most round trips
per unit of work.

References
----------
Syed, Bouchard-Côté, Deligiannidis, Doucet: Non-reversible parallel tempering: a scalable highly
parallel MCMC scheme. Journal of the Royal Statistical Society B 84 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.errors import ModelError
from anonbayes.inference.vertical.block import MAX_BLOCK, SUB_BLOCK, lattice
from anonbayes.inference.vertical.group_layout import Threads, VerticalLayout
from anonbayes.inference.vertical.sweeps import (
    Powers,
    collapsed_energy,
    collapsed_sweep,
    powers,
    retempered,
)

FIRST_ROUND = 32
"""Sweeps before the ladder is first tuned; each later round is twice as long."""

HOTTEST = (0.5, 0.25, 0.1, 0.0)
"""Inverse temperatures tried for the hottest chain; at 0, all tables are equally likely."""

PROBES, FORGETS = 6, 0.5
"""Chains that try a temperature, and the share of variance between them that is too large."""

NO_OWNER = np.empty(0)

SWEEP_SECONDS, SWEEPS = 2e-6, 8_000
"""Measured CPU time of a sweep per row, groups of four; sweeps of four chains by default."""


def tempering_costs(n_rows: int) -> str:
    """Describe the time that tempered chains would take; groups of more than four take longer."""
    minutes = n_rows * SWEEP_SECONDS * SWEEPS / 60
    long = f"{minutes:.0f} CPU minutes" if minutes < 120 else f"{minutes / 60:.0f} CPU hours"
    words = "less than a CPU minute" if minutes < 1 else f"about {long}"
    return f"four chains with step='tempered' would take {words}"


def exchange_probability(power: Floats, energy: Floats, pair: Ints) -> Floats:
    """Probability that levels ``pair`` and ``pair + 1`` exchange states."""
    gain = (power[pair + 1] - power[pair]) * (energy[pair] - energy[pair + 1])
    return np.exp(np.minimum(gain, 0.0))


def equalised_ladder(power: Floats, rejection: Floats, n: int) -> Floats:
    """Choose `n` inverse temperatures so that all neighbours reject equally often."""
    from scipy.interpolate import PchipInterpolator  # which takes long to load

    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejection, 1e-3))])
    inverse = PchipInterpolator(barrier, power)
    placed = inverse(np.linspace(0.0, barrier[-1], n))
    placed[0], placed[-1] = power[0], power[-1]
    return placed


@dataclass
class Exchanges:
    """Record of exchanges: rejection rates of pairs, and round trips of replicas."""

    rejected: Floats
    tried: Ints
    heading: Ints  # per replica: extreme visited last (1 hottest, -1 coldest, 0 neither yet)
    round_trips: int = 0

    @classmethod
    def fresh(cls, n: int) -> Exchanges:
        """Start counting for a ladder of `n` temperatures."""
        return cls(np.zeros(n - 1), np.zeros(n - 1, dtype=np.int64), np.zeros(n, dtype=np.int64))

    @property
    def rejection(self) -> Floats:
        """Mean rejection probability of each pair of neighbours."""
        return self.rejected / np.maximum(self.tried, 1)

    @property
    def barrier(self) -> float:
        """Communication barrier: the sum of the rejection rates."""
        return float(self.rejection.sum())


class Ladder:
    """Replicas of one vertical table on a ladder of temperatures.

    At the `hottest` inverse temperature, a chain must forget its start; the default is the first
    of `HOTTEST` at which short chains from random starts agree. Unless `temperatures` is given, the
    warm-up chooses their number, up to `most`. Results do not depend on `threads`.
    """

    COUNTED = ("sweeps", "round_length", "round_start")

    def __init__(
        self,
        layout: VerticalLayout,
        beta: Floats,
        rng: np.random.Generator,
        *,
        hottest: float | None = None,
        temperatures: int | None = None,
        most: int = 64,
        threads: int = 1,
        block: int = MAX_BLOCK,
        sub_block: int = SUB_BLOCK,
    ) -> None:
        if hottest is not None and not 0.0 <= hottest < 1.0:
            raise ModelError(f"hottest={hottest} must lie in [0, 1).")
        counts = {"temperatures": temperatures, "most": most, "threads": threads}
        for name, value in counts.items():
            if value is not None:
                read_whole(name, value, least=1 if name == "threads" else 2, error=ModelError)
        self.layout, self.block, self.sub_block = layout, block, sub_block
        self.threads = threads
        self.fixed_size = temperatures is not None
        self.most = temperatures or most
        self._tables = powers(layout, beta)
        self._lattice = lattice(max(block, sub_block))
        self._workers = Threads(threads)
        self._spawned = rng.spawn(self.most + 1)
        if hottest is None:
            hottest = self._find_hottest()
        self._set_ladder(np.linspace(1.0, hottest, temperatures or min(most, 24)))
        n = len(self.power)
        self.assignments = np.stack([layout.random_assignment(g) for g in self._spawned[:n]])
        self._recount()
        self.replica_at = np.arange(n)
        self.exchanges = Exchanges.fresh(n)
        self.sweeps = 0
        self.round_length, self.round_start = FIRST_ROUND, 0

    def _find_hottest(self) -> float:
        """Return the first of `HOTTEST` at which chains forget where they started.

        Short chains are compared by the counts of their tables. The variance of the chains' means
        divided by that within chains, summed over all cells, is about the autocorrelation time
        divided by the length if chains agree, and large if each stays in a separate mode.
        """
        generators = self._spawned[: min(PROBES, self.most)]
        for power in HOTTEST[:-1]:
            tables = retempered(self._tables, power)
            means, inside = [], 0.0
            for rng in generators:
                assignment = self.layout.random_assignment(rng)
                counts = self.layout.counts(assignment)
                seen = np.empty((FIRST_ROUND, len(counts)))
                for sweep in range(FIRST_ROUND):
                    collapsed_sweep(
                        self.layout.arrays, self._lattice, tables, counts, assignment,
                        self.block, self.sub_block, NO_OWNER, rng,
                    )  # fmt: skip
                    seen[sweep] = counts
                later = seen[FIRST_ROUND // 4 :]
                means.append(later.mean(axis=0))
                inside += float(later.var(axis=0, ddof=1).sum()) / len(generators)
            between = float(np.var(means, axis=0, ddof=1).sum()) if len(means) > 1 else 0.0
            if between <= FORGETS * inside:
                return power
        return HOTTEST[-1]

    def start_from(self, assignment: Ints) -> None:
        """Start every replica from `assignment`."""
        self.assignments[:] = assignment
        self._recount()

    # ------------------------------------------------------------------ the cold chain
    @property
    def cold(self) -> int:
        """Index of the replica at ``lambda = 1``."""
        return int(self.replica_at[0])

    @property
    def assignment(self) -> Ints:
        """State of the chain at ``lambda = 1``."""
        return self.assignments[self.cold]

    @property
    def counts(self) -> Ints:
        """Counts of the chain at ``lambda = 1``."""
        return self._counts[self.cold]

    @property
    def energy(self) -> float:
        """``E`` of the chain at ``lambda = 1``."""
        return float(self.energies[self.cold])

    # ------------------------------------------------------------------ moving
    def sweep(self, *, tune: bool = False, owner: Floats = NO_OWNER) -> dict[str, float]:
        """Sweep every replica once, exchange neighbours, and return statistics of the step."""
        n = len(self.power)
        level_of = np.empty(n, dtype=np.int64)
        level_of[self.replica_at] = np.arange(n)
        found: list[tuple[int, int, int]] = [(0, 0, 0)] * n

        def advance(replica: int) -> None:
            level = level_of[replica]
            tables = self._at_level[level]
            found[replica] = collapsed_sweep(
                self.layout.arrays, self._lattice, tables, self._counts[replica],
                self.assignments[replica], self.block, self.sub_block,
                owner if level == 0 else NO_OWNER, self._spawned[replica],
            )  # fmt: skip
            self.energies[replica] = collapsed_energy(tables, self._counts[replica])

        self._workers.run(advance, range(n))
        moved, corrected, accepted = found[self.cold]
        rate = self._exchange()
        self.sweeps += 1
        if tune and self.sweeps - self.round_start >= self.round_length:
            self._retune()
        return {
            "moved": moved / self.layout.n_rows,
            "acceptance": accepted / corrected if corrected else 1.0,
            "exchange_rate": rate,
            "round_trips": self.exchanges.round_trips,
        }

    def _exchange(self) -> float:
        """Exchange the even or the odd pairs; return their mean acceptance probability."""
        pair = np.arange(self.sweeps % 2, len(self.power) - 1, 2)
        if not len(pair):
            return 1.0
        chance = exchange_probability(self.power, self.energies[self.replica_at], pair)
        self.exchanges.rejected[pair] += 1.0 - chance
        self.exchanges.tried[pair] += 1
        chosen = pair[self._spawned[-1].random(len(pair)) < chance]
        at = self.replica_at
        at[chosen], at[chosen + 1] = at[chosen + 1].copy(), at[chosen].copy()
        heading = self.exchanges.heading
        if heading[at[0]] == 1:
            self.exchanges.round_trips += 1
        heading[at[0]] = -1
        heading[at[-1]] = 1
        return float(chance.mean())

    def _retune(self) -> None:
        """Set the temperatures and their number from the exchanges of the last round."""
        n = len(self.power)
        if not self.fixed_size:
            n = int(np.clip(np.ceil(2.0 * self.exchanges.barrier) + 1, 2, self.most))
        old = self.power
        self._set_ladder(equalised_ladder(old, self.exchanges.rejection, n))
        # Each new temperature continues from the nearest old one.
        nearest = self.replica_at[np.abs(old[None, :] - self.power[:, None]).argmin(axis=1)]
        self.assignments = self.assignments[nearest]
        self._recount()
        self.replica_at = np.arange(n)
        self.exchanges = Exchanges.fresh(n)
        self.round_start, self.round_length = self.sweeps, 2 * self.round_length

    # ------------------------------------------------------------------ state
    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return what is needed to continue exactly where the ladder stopped: arrays, numbers."""
        kept = self.exchanges
        arrays = {
            "power": self.power,
            "assignments": self.assignments,
            "replica_at": self.replica_at,
            "rejected": kept.rejected,
            "tried": kept.tried,
            "heading": kept.heading,
        }
        numbers = {name: getattr(self, name) for name in self.COUNTED}
        generators = [g.bit_generator.state for g in self._spawned]
        return arrays, numbers | {"round_trips": kept.round_trips, "generators": generators}

    def unpack(self, arrays: dict[str, NDArray], numbers: dict[str, Any]) -> None:
        """Restore the state that `pack` returned; the arrays are not copied."""
        self._set_ladder(arrays["power"])
        self.assignments, self.replica_at = arrays["assignments"], arrays["replica_at"]
        self._recount()
        self.exchanges = Exchanges(
            arrays["rejected"], arrays["tried"], arrays["heading"], numbers["round_trips"]
        )
        for name in self.COUNTED:
            setattr(self, name, numbers[name])
        for generator, saved in zip(self._spawned, numbers["generators"], strict=True):
            generator.bit_generator.state = saved

    def _set_ladder(self, power: Floats) -> None:
        self.power = power
        self._at_level: list[Powers] = [retempered(self._tables, p) for p in power]

    def _recount(self) -> None:
        self._counts = np.stack([self.layout.counts(a) for a in self.assignments])
        self.energies = np.array([collapsed_energy(self._tables, c) for c in self._counts])
