"""Markov chains over the cleartext tables behind a vertical release, independent of PyMC.

`VerticalChain` moves in sweeps. It can be stopped, stored and continued after any sweep, and the
draws are those of an uninterrupted run. `fit` runs `VerticalEngine`; the PyMC steps of
`group_steps` call the same kernels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anonbayes.arrays import Draws, Floats, Ints
from anonbayes.errors import ModelError, nearest, one_of
from anonbayes.inference.dirichlet import Prior, draw_log_simplexes, draw_simplexes, simplex_bounds
from anonbayes.inference.run import ChainState
from anonbayes.inference.vertical.block import MAX_BLOCK, SUB_BLOCK, lattice
from anonbayes.inference.vertical.group_layout import Arrays, Shards, VerticalLayout, layout_of
from anonbayes.inference.vertical.sweeps import (
    block_sweep,
    collapsed_energy,
    collapsed_sweep,
    order_sweep,
    powers,
    swap_sweep,
)
from anonbayes.inference.vertical.tempering import NO_OWNER, Ladder
from anonbayes.tables.table import ReleasedTable

STEPS = ("block", "collapsed", "tempered", "swap", "permute", "sequential", "subblock")
"""Names of the samplers of vertical tables."""

TINY = float(np.finfo(float).tiny)


def choose_step(group_sizes: ArrayLike, *, repeats: ArrayLike = False) -> str:
    """Choose the sampler that suits most rows.

    Small groups of distinct values, as Anatomy makes them, use ``"collapsed"``, which is exact with
    the parameters integrated out (on Adult with l = 4, about 1.5 times as many effective draws per
    second as ``"block"``). Small groups with repeated values (`repeats`) use ``"block"``, because
    the correction of ``"collapsed"`` would cost more than it gains. Groups of more than `MAX_BLOCK`
    rows use ``"subblock"``, which redraws pieces exactly in time linear in the rows.
    """
    sizes = np.asarray(group_sizes)
    half = sizes.sum() / 2
    if sizes[sizes > MAX_BLOCK].sum() > half:
        return "subblock"
    return "block" if (sizes * np.asarray(repeats)).sum() > half else "collapsed"


def layout_step(layout: VerticalLayout) -> str:
    """Return the step that ``step="auto"`` stands for (see `choose_step`)."""
    return choose_step(layout.group_sizes, repeats=layout.arrays.repeats)


def sweep_given_parameters(
    layout: VerticalLayout,
    step: str,
    log_pi: Floats,
    assignment: Ints,
    rng: np.random.Generator,
    *,
    block: int = MAX_BLOCK,
    sub_block: int = SUB_BLOCK,
    swaps: float = 0.5,
    owner: Floats = NO_OWNER,
    shards: Shards | None = None,
) -> dict[str, float]:
    """Update an assignment once, in place, given the logs of the parameters.

    Groups of up to `block` rows are drawn as a whole, larger ones in pieces of `sub_block` rows
    (``"subblock"`` also cuts all other groups of more than `sub_block` rows). `swaps` is the number
    of swaps proposed per row. Ownership probabilities given the parameters are added to `owner`.
    Returns the ``acceptance`` rate and ``moved``, the share of slots whose item changed.
    """
    shards = Shards(layout) if shards is None else shards
    steps = lattice(max(block, sub_block))
    value = np.maximum(np.exp(log_pi), TINY)
    cut, draw = sub_block if step == "subblock" else block, step in ("block", "subblock")

    def redraw(arrays: Arrays, generator: np.random.Generator) -> int:
        return block_sweep(arrays, steps, value, assignment, cut, sub_block, draw, owner, generator)

    def propose(arrays: Arrays, generator: np.random.Generator) -> tuple[int, int]:
        if step == "swap":
            return swap_sweep(arrays, log_pi, assignment, swaps, generator)
        return order_sweep(arrays, log_pi, assignment, step == "sequential", generator)

    if step in ("block", "subblock"):
        moved = sum(shards.sweep(redraw, rng))
        return {"acceptance": 1.0, "moved": moved / layout.n_rows}
    if len(owner):
        shards.sweep(redraw, rng)
    before = assignment.copy()
    tried, accepted = map(sum, zip(*shards.sweep(propose, rng), strict=True))
    return {"acceptance": accepted / max(tried, 1), "moved": float(np.mean(before != assignment))}


class VerticalChain:
    """A Markov chain on the cleartext tables (and parameters) of one vertical release.

    It starts from a random order of every group. `threads` work on different temperatures, or on
    different groups of a large table given the parameters, without changing any draw; they do not
    apply to ``"collapsed"``, in which every group depends on all others. `ladder` has settings of
    `Ladder`.
    """

    def __init__(
        self,
        layout: VerticalLayout,
        *,
        alpha: ArrayLike = 1.0,
        beta: ArrayLike = 1.0,
        step: str = "auto",
        rng: np.random.Generator,
        block: int = MAX_BLOCK,
        sub_block: int = SUB_BLOCK,
        swaps: float = 0.5,
        ladder: dict[str, Any] | None = None,
        threads: int = 1,
    ) -> None:
        one_of("step", step, ("auto", *STEPS))
        if not (2 <= sub_block <= 20 and 1 <= block <= 20):
            raise ModelError(
                "block and sub_block must be 2 to 20 rows, because 2**rows sums are stored."
            )
        if threads < 1:
            raise ModelError(f"threads={threads} must be at least 1.")
        self.layout, self.rng = layout, rng
        self.step = layout_step(layout) if step == "auto" else step
        self._shards = Shards(layout, threads)
        self.alpha, self.beta = layout.check_prior(alpha, beta)
        self.block, self.sub_block, self.swaps = block, sub_block, swaps
        self.owner, self.owner_draws = np.zeros(layout.n_links), 0
        self.sweeps = 0
        self._bounds = simplex_bounds(layout)
        self._tables = powers(layout, self.beta)
        self.ladder: Ladder | None = None
        if self.step == "tempered":
            self.ladder = Ladder(
                layout, self.beta, rng, block=block, sub_block=sub_block,
                **({"threads": threads} | (ladder or {})),
            )  # fmt: skip
            self.assignment = self.ladder.assignment
        else:
            self.assignment = layout.random_assignment(rng)
        self.counts = layout.counts(self.assignment)
        self.log_pi = np.empty(layout.n_cells)
        self._draw_log_pi()

    def start_from(self, assignment: ArrayLike) -> None:
        """Start from a given assignment instead of a random one."""
        found = self.layout.check_assignment(assignment)
        if self.ladder is not None:
            self.ladder.start_from(found)
            self.assignment = self.ladder.assignment
        else:
            self.assignment = found.copy()
        self.counts = self.layout.counts(self.assignment)
        self._draw_log_pi()

    # ------------------------------------------------------------------ moving
    def sweep(self, *, tune: bool = False, keep_owner: bool = False) -> dict[str, float]:
        """Make one sweep; with `keep_owner`, add its ownership probabilities."""
        owner = self.owner if keep_owner else NO_OWNER
        self.owner_draws += keep_owner
        self.sweeps += 1
        if self.ladder is not None:
            stats = self.ladder.sweep(tune=tune, owner=owner)
            self.assignment, self.counts = self.ladder.assignment, self.ladder.counts
        elif self.step == "collapsed":
            moved, corrected, accepted = collapsed_sweep(
                self.layout.arrays, lattice(max(self.block, self.sub_block)), self._tables,
                self.counts, self.assignment, self.block, self.sub_block, owner, self.rng,
            )  # fmt: skip
            stats = {
                "acceptance": accepted / corrected if corrected else 1.0,
                "moved": moved / self.layout.n_rows,
            }
        else:
            stats = sweep_given_parameters(
                self.layout, self.step, self.log_pi, self.assignment, self.rng, block=self.block,
                sub_block=self.sub_block, swaps=self.swaps, owner=owner, shards=self._shards,
            )  # fmt: skip
            self.counts = self._shards.counts(self.assignment)
            self._draw_log_pi()
        return stats

    @property
    def energy(self) -> float:
        """``E``, the log of the collapsed posterior up to a constant."""
        return collapsed_energy(self._tables, self.counts)

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the nonsensitive part of the cleartext table given ``pi``."""
        return float(self.counts @ self.log_pi)

    def draw_pi(self) -> Floats:
        """Flat parameters ``pi_a|s`` of the current state; drawn now if integrated out."""
        if self.step in ("collapsed", "tempered"):
            self._draw_log_pi()
        return np.maximum(np.exp(self.log_pi), TINY)

    def draw_pi_secret(self) -> Floats:
        """Draw ``pi_S`` from its posterior ``Dir(alpha + gamma)``, for any assignment."""
        shape = self.alpha + self.layout.secret_counts
        return draw_simplexes(shape, np.array([0, len(shape)]), self.rng)

    def _draw_log_pi(self) -> None:
        draw_log_simplexes(self.beta + self.counts, self._bounds, self.log_pi, self.rng)

    # ------------------------------------------------------------------ state
    def pack(self) -> Draws:
        """Return everything needed to continue the chain exactly, as named arrays."""
        arrays = {"assignment": self.assignment, "log_pi": self.log_pi, "owner": self.owner}
        plain: dict[str, Any] = {
            "step": self.step,
            "generator": self.rng.bit_generator.state,
            "sweeps": self.sweeps,
            "owner_draws": self.owner_draws,
        }
        if self.ladder is not None:
            of_ladder, plain["ladder"] = self.ladder.pack()
            arrays |= {f"ladder_{name}": array for name, array in of_ladder.items()}
        copies = {name: array.copy() for name, array in arrays.items()}
        return copies | {"plain": np.array(json.dumps(plain))}

    def unpack(self, packed: Mapping[str, NDArray]) -> None:
        """Restore the state that `pack` returned."""
        plain = json.loads(str(packed["plain"]))
        if plain["step"] != self.step:
            raise ModelError(
                f"The state belongs to step={plain['step']!r}, not to step={self.step!r}."
            )
        self.assignment = self.layout.check_assignment(packed["assignment"]).copy()
        if self.ladder is not None:
            named = {k.removeprefix("ladder_"): np.array(packed[k]) for k in packed}
            self.ladder.unpack(named, plain["ladder"])
            self.assignment = self.ladder.assignment
        self.counts = self.layout.counts(self.assignment)
        self.log_pi, self.owner = np.array(packed["log_pi"]), np.array(packed["owner"])
        self.rng.bit_generator.state = plain["generator"]
        self.sweeps, self.owner_draws = plain["sweeps"], plain["owner_draws"]


# -------------------------------------------------------------------------------------------------
# The engine that `fit` advances, stores and continues.

OWNERSHIP_SWEEPS = 25
"""Number of sweeps over which ownership probabilities are averaged in a batch."""

MANY_LINKS = 4_000_000
"""With this many pairs of item and value, batches are four times as long; each takes 16 MB."""

CHAIN_SETTINGS = ("block", "sub_block", "swaps", "threads")
LADDER_SETTINGS = ("hottest", "temperatures", "most")


@dataclass
class _Live:
    """A running chain and the ownership averages that it has stored so far."""

    chain: VerticalChain
    kept: list[NDArray[np.float32]] = field(default_factory=list)

    def average(self) -> NDArray[np.float32]:
        """Ownership probabilities since the last batch."""
        return (self.chain.owner / self.chain.owner_draws).astype(np.float32)


class VerticalEngine:
    """Draws ``pi`` of a vertical table, and averages the probabilities of ownership.

    For the slots in `rows`, the position of the item in its group is recorded as ``assignment``.
    """

    n_generators = 1
    grows: tuple[str, ...] = ("kept",)

    def __init__(
        self,
        table: ReleasedTable,
        prior: Prior,
        *,
        step: str,
        rows: NDArray[np.int64] | None = None,
        **settings: Any,
    ) -> None:
        for name in settings:
            known = (*CHAIN_SETTINGS, *LADDER_SETTINGS)
            if name not in known:
                raise ModelError(f"Unknown setting {name!r}. {nearest(name, known)}")
        self.table = table
        self.layout = layout_of(table)
        self.alpha = np.array(prior.alpha)
        self.beta = self.layout.flatten([prior.beta[name] for name in table.attributes])
        self.step = step
        self.rows = rows
        self._batch = OWNERSHIP_SWEEPS * (1 if self.layout.n_links < MANY_LINKS else 4)
        self.settings = {k: v for k, v in settings.items() if k in CHAIN_SETTINGS}
        self.ladder = {k: v for k, v in settings.items() if k in LADDER_SETTINGS}
        if self.ladder and step != "tempered":
            raise ModelError(
                f"{next(iter(self.ladder))!r} is a setting of step='tempered', not of {step!r}."
            )
        if step == "collapsed" and self.settings.get("threads", 1) > 1:
            raise ModelError(
                "threads= does not apply to step='collapsed', in which every group depends on all "
                "others; step='block' distributes groups over threads."
            )

    def start(self, generators: list[np.random.Generator]) -> _Live:
        """Start from a random order of every group, so that chains are dispersed."""
        return _Live(self._chain(generators[0]))

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps."""
        live: _Live = state.live
        chain, layout = live.chain, self.layout
        flat = np.empty((n, layout.n_cells))
        secret = np.empty((n, layout.n_secrets))
        energy = np.empty(n)
        stats: list[dict[str, float]] = []
        owned = None if self.rows is None else np.empty((n, len(self.rows)), self._position_dtype)
        for i in range(n):
            stats.append(chain.sweep(tune=tuning, keep_owner=not tuning))
            energy[i] = chain.energy
            flat[i] = chain.draw_pi()
            secret[i] = chain.draw_pi_secret()
            if owned is not None:
                owned[i] = self._positions(chain.assignment)
            if chain.owner_draws == self._batch:
                live.kept.append(live.average())
                chain.owner[:] = 0.0
                chain.owner_draws = 0
        draws = {f"pi_{self.table.sensitive}": secret}
        blocks = layout.split(flat)
        draws |= {f"pi_{a}": b for a, b in zip(self.table.attributes, blocks, strict=True)}
        if owned is not None and not tuning:
            draws["assignment"] = owned
        numbers = {k: np.array([s[k] for s in stats]) for k in stats[0]}
        return draws, numbers | {"energy": energy}

    def pack(self, live: _Live) -> Draws:
        """Return the chain's state and the averages as arrays."""
        kept = np.array(live.kept, dtype=np.float32).reshape(-1, self.layout.n_links)
        return live.chain.pack() | {"kept": kept}

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> _Live:
        """Return the chain that `pack` stored, with its own generator."""
        chain = self._chain(np.random.default_rng(0))
        kept = list(arrays.pop("kept"))
        chain.rng = generators[0]
        chain.unpack(arrays)
        return _Live(chain, kept)

    def averages(self, live: _Live) -> Draws:
        """Ownership probabilities, one row per batch of sweeps."""
        kept = list(live.kept)
        if live.chain.owner_draws and not kept:
            kept.append(live.average())
        return {"ownership": np.array(kept, dtype=np.float32).reshape(-1, self.layout.n_links)}

    def _chain(self, rng: np.random.Generator) -> VerticalChain:
        return VerticalChain(
            self.layout,
            alpha=self.alpha,
            beta=self.beta,
            step=self.step,
            rng=rng,
            ladder=self.ladder or None,
            **self.settings,
        )

    @property
    def _position_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.min_scalar_type(int(self.layout.group_sizes.max()) - 1))

    def _positions(self, assignment: NDArray[np.int64]) -> NDArray[Any]:
        first = self.layout.offsets[self.layout.groups[self.rows]]
        return (assignment[self.rows] - first).astype(self._position_dtype)
