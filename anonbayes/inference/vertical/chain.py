"""One Markov chain over the cleartext tables behind a vertical release, without PyMC around it.

`VerticalChain` moves in sweeps and can be stopped, stored and continued at any sweep; the draws are
those of an uninterrupted run. The PyMC steps of `steps` call the same kernels.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ModelError, one_of
from anonbayes.inference.dirichlet import draw_log_simplexes, draw_simplexes, simplex_bounds
from anonbayes.inference.vertical.block import MAX_BLOCK, SUB_BLOCK, block_sweep, lattice
from anonbayes.inference.vertical.collapsed import collapsed_energy, collapsed_sweep, powers
from anonbayes.inference.vertical.group_layout import Arrays, Shards, VerticalLayout
from anonbayes.inference.vertical.metropolis import permute_sweep, sequential_sweep, swap_sweep
from anonbayes.inference.vertical.tempering import NO_OWNER, Exchanges, Ladder, LadderState

STEPS = ("block", "collapsed", "tempered", "swap", "permute", "sequential", "subblock")
"""Names of the samplers of vertical tables."""

TINY = float(np.finfo(float).tiny)


def choose_step(group_sizes: ArrayLike, *, repeats: ArrayLike = False) -> str:
    """Choose a sampler by what most rows need.

    * Groups of at most `MAX_BLOCK` rows with pairwise different values, as Anatomy makes them:
      ``"collapsed"``, exact with the parameters integrated out. On Adult with l = 4 it gives about
      1.5 times the effective draws per second of ``"block"``, twice for the worst parameter.
    * The same with repeated values: ``"block"``; the collapsed draw would need a correction whose
      cost outweighs its gain.
    * Larger groups: ``"subblock"``, pieces redrawn exactly, linear in the rows.

    Parameters
    ----------
    group_sizes
        Rows of each group.
    repeats
        Whether each group has a sensitive value more than once.

    Examples
    --------
    >>> choose_step([4, 4, 5]), choose_step([4, 6], repeats=[True, True]), choose_step([200, 350])
    ('collapsed', 'block', 'subblock')
    """
    sizes = np.asarray(group_sizes)
    half = sizes.sum() / 2
    if sizes[sizes > MAX_BLOCK].sum() > half:
        return "subblock"
    return "block" if (sizes * np.asarray(repeats)).sum() > half else "collapsed"


def layout_step(layout: VerticalLayout) -> str:
    """Return what ``step="auto"`` means for a table (see `choose_step`)."""
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
    """Move an assignment once, in place, given the logs of the parameters.

    Parameters
    ----------
    step
        ``"block"``, ``"subblock"``, ``"swap"``, ``"permute"`` or ``"sequential"``.
    block, sub_block
        Largest group drawn in one piece; rows per piece of larger groups. ``"subblock"`` cuts every
        group above `sub_block` rows.
    swaps
        Swaps proposed per row and sweep (at least one per group).
    owner
        Adds the ownership probabilities given the parameters, whatever the step.
    shards
        Of the layout; made when not given.

    Returns
    -------
    dict
        ``acceptance`` of proposals and ``moved``, the share of slots whose item changed.
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
        if step == "permute":
            return permute_sweep(arrays, log_pi, assignment, generator)
        return sequential_sweep(arrays, log_pi, assignment, generator)

    if step in ("block", "subblock"):
        moved = sum(shards.sweep(redraw, rng))
        return {"acceptance": 1.0, "moved": moved / layout.n_rows}
    if len(owner):
        shards.sweep(redraw, rng)
    before = assignment.copy()
    tried, accepted = map(sum, zip(*shards.sweep(propose, rng), strict=True))
    return {
        "acceptance": accepted / max(tried, 1),
        "moved": float(np.mean(before != assignment)),
    }


@dataclass
class VerticalState:
    """Where a chain stands: enough to continue it exactly, in arrays and plain numbers."""

    step: str
    assignment: Ints
    log_pi: Floats
    generator: dict[str, Any]
    sweeps: int
    owner: Floats
    owner_draws: int
    ladder: LadderState | None = None

    def pack(self) -> dict[str, NDArray]:
        """Return the state as named arrays, ready for ``numpy.savez`` or a netCDF group."""
        plain = asdict(self)
        ladder = plain.pop("ladder")
        packed = {k: plain.pop(k) for k in ("assignment", "log_pi", "owner")}
        if ladder is not None:
            exchanges = ladder.pop("exchanges")
            for k in ("power", "assignments", "replica_at"):
                packed[f"ladder_{k}"] = ladder.pop(k)
            for k in ("rejected", "tried", "heading"):
                packed[f"ladder_{k}"] = exchanges.pop(k)
            plain["ladder"] = ladder | exchanges
        return packed | {"plain": np.array(json.dumps(plain))}

    @classmethod
    def unpack(cls, packed: Any) -> VerticalState:
        """Rebuild a state from its arrays."""
        plain = json.loads(str(packed["plain"]))
        ladder = None
        if "ladder" in plain:
            rest: dict[str, Any] = plain.pop("ladder")
            exchanges = Exchanges(
                rejected=np.array(packed["ladder_rejected"]),
                tried=np.array(packed["ladder_tried"]),
                heading=np.array(packed["ladder_heading"]),
                round_trips=rest.pop("round_trips"),
            )
            for k in ("power", "assignments", "replica_at"):
                rest[k] = np.array(packed[f"ladder_{k}"])
            ladder = LadderState(exchanges=exchanges, **rest)
        for k in ("assignment", "log_pi", "owner"):
            plain[k] = np.array(packed[k])
        return cls(**plain, ladder=ladder)


class VerticalChain:
    """A Markov chain on the cleartext tables (and parameters) of one vertical release.

    Parameters
    ----------
    layout
        The released table.
    alpha, beta
        Dirichlet priors: scalars, or ``(S,)`` and the flat layout of the parameters.
    step
        One of `STEPS`, or ``"auto"`` (see `choose_step`).
    rng
        The chain's generator; the start is a random order of every group drawn from it.
    block, sub_block, swaps
        See `sweep_given_parameters`.
    ladder
        Settings of `Ladder` for ``step="tempered"``: hottest, temperatures, most.
    threads
        Threads of one chain, which change no draw: they share out the temperatures, or the groups
        of a large table given the parameters (see `shards`). ``"collapsed"`` has no use for them,
        since there every group depends on all others.

    Examples
    --------
    >>> layout = VerticalLayout([[0], [1], [1], [0]], [0, 1, 0, 1], [0, 2, 4], [2], 2)
    >>> chain = VerticalChain(layout, step="block", rng=np.random.default_rng(1))
    >>> sorted(chain.sweep())
    ['acceptance', 'moved']
    >>> chain.draw_pi().shape
    (4,)
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
                "block and sub_block count rows: 2 to 20, since 2**rows sums are kept."
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
        """Start from this assignment instead of a random one."""
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
        """Move once; with `keep_owner`, add this sweep's ownership probabilities."""
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
        """Parameters ``pi_a|s`` of the current state, flat (drawn now where they were not)."""
        if self.step in ("collapsed", "tempered"):
            self._draw_log_pi()
        return np.maximum(np.exp(self.log_pi), TINY)

    def draw_pi_secret(self) -> Floats:
        """Draw ``pi_S``, whose posterior is ``Dir(alpha + gamma)`` whatever the assignment."""
        shape = self.alpha + self.layout.secret_counts
        return draw_simplexes(shape, np.array([0, len(shape)]), self.rng)

    def _draw_log_pi(self) -> None:
        draw_log_simplexes(self.beta + self.counts, self._bounds, self.log_pi, self.rng)

    # ------------------------------------------------------------------ state
    def state(self) -> VerticalState:
        """Copy what is needed to continue the chain exactly."""
        return VerticalState(
            step=self.step,
            assignment=self.assignment.copy(),
            log_pi=self.log_pi.copy(),
            generator=dict(self.rng.bit_generator.state),
            sweeps=self.sweeps,
            owner=self.owner.copy(),
            owner_draws=self.owner_draws,
            ladder=self.ladder.state() if self.ladder is not None else None,
        )

    def restore(self, state: VerticalState) -> None:
        """Continue from a copied state."""
        if state.step != self.step:
            raise ModelError(f"The state is of a {state.step!r} chain, this is {self.step!r}.")
        self.assignment = self.layout.check_assignment(state.assignment).copy()
        if self.ladder is not None and state.ladder is not None:
            self.ladder.restore(state.ladder)
            self.assignment = self.ladder.assignment
        self.counts = self.layout.counts(self.assignment)
        self.log_pi = state.log_pi.copy()
        self.rng.bit_generator.state = state.generator
        self.sweeps = state.sweeps
        self.owner, self.owner_draws = state.owner.copy(), state.owner_draws
