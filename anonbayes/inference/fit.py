"""`fit`: compute the posterior of a released table with the engine that suits it."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes import compat
from anonbayes.arrays import Draws, one_thread, read_chains, read_whole
from anonbayes.beliefs.editions import People, join_editions, merge_by_key, padded, person_codes
from anonbayes.beliefs.register import Register, join_register, prior_with, read_register
from anonbayes.cluster import check_client
from anonbayes.errors import ConvergenceWarning, ModelError, one_of
from anonbayes.figures import can_show_bars
from anonbayes.inference.cell_lifts import has_crossing_sets
from anonbayes.inference.dirichlet import Prior, PriorLike, coords_of
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.horizontal.tree import not_nested_message
from anonbayes.inference.posterior import Posterior, make_posterior
from anonbayes.inference.run import Engine, RunStore, rows_to_keep, run_chains
from anonbayes.inference.stored import crossfit_draws, stack_chains, weight_draws
from anonbayes.inference.vertical.chain import STEPS, VerticalEngine, layout_step
from anonbayes.inference.vertical.crossfit import vertical_spread
from anonbayes.inference.vertical.group_layout import SHARD_ROWS, layout_of
from anonbayes.inference.vertical.tempering import tempering_costs
from anonbayes.inference.weights import EVIDENCE, Evidenced, choose_evidence
from anonbayes.io.files import locked
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger("anonbayes")

DISAGREE = 1.1
LEAST_DRAWS = 100
MOST_DRAWS = 10**9
"""Larger numbers of draws, sweeps or chains are taken for mistakes."""

METHODS = ("auto", "exact", "gibbs", "nuts", "crossfit")
HORIZONTAL_STEPS = ("tree", "counts")


@one_thread
def fit(
    table: ReleasedTable | Sequence[ReleasedTable],
    *,
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    evidence: str = "auto",
    register: pd.DataFrame | ReleasedTable | None = None,
    people: People = "records",
    method: str = "auto",
    step: str | None = None,
    draws: int = 1000,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    client: Client | None = None,
    seed: int | np.random.Generator | None = None,
    thin: int = 1,
    keep_cleartext: bool | npt.ArrayLike = False,
    resume: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> Posterior:
    """Compute the posterior of the population behind a released table.

    Parameters
    ----------
    table : ReleasedTable, or several
        What was released. Several releases must be about the same people; the result is then the
        posterior of the first one, whose attacker also has the others (MODEL 1.10, `Editions`).
    alpha, beta : float, array, mapping or callable
        Dirichlet weights of the prior; see `resolve_prior`. With ``beta="pooled"``, the
        distributions of rare secrets are shrunk to the population's. The default of `beta` is 1
        for independent evidence and ``"pooled"`` for weighted evidence.
    evidence : {"auto", "independent", "weighted"}
        How the evidence of several attributes is combined. ``"independent"``: each counts in full,
        as in Groups, so information shared by dependent attributes counts more than once.
        ``"weighted"``: each has a weight learned from the release. ``"auto"``: weighted if that
        predicts held-out rows better by more than the standard error. Tables too small to tell
        stay independent; an Anatomy release of 100,000 rows or more is weighted even in a near
        tie, because that needs no chains. See ``post.evidence``, ``post.weights`` and
        ``post.scores``.
    register : pandas.DataFrame or ReleasedTable, optional
        Cleartext rows of *other* people of the same population that an attacker knows. They inform
        the population, not the groups (MODEL 1.10). See `Register`.
    people : {"records", "rows"} or sequence of sequences
        How to match people across several releases. ``"records"``: in vertical tables, rows with
        equal records may be the same person. ``"rows"``: in horizontal tables, the same row is the
        same person. Otherwise the key of each row, one sequence per table, in the order of
        ``table.to_frame()``.
    method : {"auto", "exact", "gibbs", "nuts", "crossfit"}
        ``"exact"``: closed form and independent draws, for nested cells. ``"gibbs"``: for every
        table. ``"nuts"``: PyMC's NUTS on the marginal likelihood of a horizontal table.
        ``"crossfit"``: for weighted evidence in vertical tables, and in horizontal tables whose
        cells cross; beliefs about a row then use only evidence from other groups, and draws of
        weights and population are independent. ``"auto"``: cross-fitting for weighted evidence,
        unless a setting of the chain or a prior is given; otherwise exact if possible, else Gibbs.
    step : str, optional
        Kind of Gibbs step. Horizontal: ``"tree"`` (default; draws only cells that cross the tree
        of the others) or ``"counts"`` (draws all cells). Vertical: ``"auto"`` (default; by group
        size), ``"block"``, ``"collapsed"``, ``"tempered"``, ``"swap"``, ``"permute"``,
        ``"sequential"``, ``"subblock"``.
    draws, tune, chains, thin : int
        Recorded draws per chain, tuning sweeps before them, number of chains, and sweeps per
        recorded draw. Exact draws need no tuning; otherwise `tune` defaults to 1000 (horizontal
        tables: 500).
    cores : int, optional
        Number of chains that run at the same time.
    client : distributed.Client, optional
        Dask cluster that runs the chains, or holds the groups of a vertical table that is
        cross-fitted. The numbers depend neither on the number of workers nor on whether some die.
        `cores` then limits the number of chains in progress, and `resume` is a directory on this
        machine.
    seed : int or Generator, optional
        Makes the draws reproducible, whatever the number of cores. If it is not an integer, the
        seed that was used is recorded in ``post.idata``.
    keep_cleartext : bool or array of int
        Whether to keep draws of the hidden values: of all rows, or of those with these numbers.
    resume : path, optional
        Directory for finished draws. If it holds an unfinished run with the same settings, that
        run is continued. Only one process may use it at a time.
    progressbar : bool
        Whether to show a progress bar.
    **kwargs
        Further settings of the engine: of vertical steps (``threads=`` of one chain, by default
        the cores that no chain uses; ``temperatures=`` of the tempered step; ...), or of
        `pymc.sample` with NUTS.

    Returns
    -------
    Posterior
        Draws, closed forms and beliefs. If interrupted with Ctrl-C, `fit` keeps the draws that all
        chains have finished.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "{M, J}", "J", "C"],
    ...                       "Dis": ["Heart", "Flu", "Flu", "Flu"]})
    >>> post = ab.fit(ab.ReleasedTable.horizontal(frame, "Dis"), seed=1, progressbar=False)
    >>> post.method
    'exact'
    >>> post.attacker({"Nat": "M"}).round(3).to_dict()
    {'Flu': 0.4, 'Heart': 0.6}
    """
    draws, tune, chains, cores, thin = _counts(
        draws=draws, tune=tune, chains=chains, cores=cores, thin=thin
    )
    settings: dict[str, Any] = {
        "method": method, "step": step, "draws": draws, "tune": tune, "chains": chains,
        "cores": cores, "client": client, "seed": seed, "thin": thin, "progressbar": progressbar,
    } | kwargs  # fmt: skip
    if isinstance(table, Sequence):
        if register is not None or resume is not None or keep_cleartext is not False:
            raise ModelError(
                "register=, resume= and keep_cleartext= are not available with several releases."
            )
        settings |= {"alpha": alpha, "beta": beta, "evidence": evidence}
        return _fit_several(table, people, settings)
    if not isinstance(table, ReleasedTable):
        raise ModelError(f"fit needs a ReleasedTable, not {type(table).__name__}.")
    if people != "records":
        raise ModelError("people= matches people across several releases, but only one was given.")
    one_of("method", method, METHODS)
    if client is not None:
        check_client(client)
    coords_of(table)  # refuses reserved names before anything runs
    if register is not None:
        if keep_cleartext is not False:
            raise ModelError("keep_cleartext= is not available with register=.")
        settings |= {"alpha": alpha, "beta": beta, "evidence": evidence, "resume": resume}
        return _fit_with_register(table, read_register(table, register), settings)
    rows = rows_to_keep(table, keep_cleartext)
    if table.scheme == "vertical":
        chain = [("step", step), ("resume", resume), ("keep_cleartext", rows)]
        evidence = _vertical_evidence(evidence, method, [k for k, v in chain if v is not None])
    elif method == "crossfit":
        evidence = _weighted_by(method, evidence)
        if not has_crossing_sets(table):
            raise ModelError(
                "method='crossfit' is only available for vertical tables and for cells that cross; "
                "use method='auto'."
            )
        if beta is not None and not isinstance(beta, str):
            raise ModelError("method='crossfit' chooses its own pooling; leave out beta=.")
    quick = method in ("auto", "crossfit") and all(x is None for x in (step, resume, rows, client))
    method, step = _choose(table, method, step)
    taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta, client=client)
    if taken.crossfit is not None or (taken.lifts is not None and quick):
        method, step = "crossfit", None
    prior = taken.prior
    log.info("fit: method=%s%s", method, f", step={step}" if step else "")
    _say_evidence(taken)
    if table.scheme == "vertical" and step not in (None, "tempered"):
        log.info("fit: if the chains disagree, %s", tempering_costs(table.n_rows))
    entropy = _entropy(seed, resume)
    if method == "crossfit":
        return crossfit_posterior(table, taken, (chains, draws), entropy)
    if method == "nuts":
        if resume is not None or rows is not None or client is not None:
            raise ModelError(
                "resume=, keep_cleartext= and client= are not available with method='nuts'."
            )
        return _nuts(table, taken, draws, tune, chains, cores, entropy, progressbar, kwargs)
    if tune is None:
        tune = 0 if method == "exact" else (500 if table.scheme == "horizontal" else 1000)
    spare = 1 if client is not None else max(1, (cores or os.cpu_count() or 1) // chains)
    engine = _engine(table, prior, step, rows, kwargs, spare)
    if method == "exact" and resume is None and rows is None and client is None:
        return make_posterior(
            table, prior, {}, {}, size=(chains, draws), method=method, step=None, rows=None,
            taken=taken,
            attrs={"entropy": str(entropy), "tune": tune, "thin": thin, "interrupted": 0},
        )  # fmt: skip
    with contextlib.nullcontext() if resume is None else locked(resume):
        store = None
        if resume is not None:
            store = RunStore(
                resume,
                {
                    "fingerprint": table.fingerprint,
                    "order": _order(table),
                    "prior": prior.fingerprint,
                    "method": method,
                    "step": step,
                    "chains": chains,
                    "tune": tune,
                    "thin": thin,
                    "entropy": str(entropy),
                    "rows": None if rows is None else zlib.crc32(rows.tobytes()),
                    "settings": {k: repr(v) for k, v in sorted(kwargs.items()) if k != "threads"},
                },
            )
        recorded, interrupted = run_chains(
            engine,
            draws=draws,
            tune=tune,
            thin=thin,
            seeds=np.random.SeedSequence(entropy).spawn(chains),
            cores=cores,
            progressbar=progressbar,
            label=f"{method}{f' ({step})' if step else ''}",
            store=store,
            client=client,
        )
    posterior, stats, averages = stack_chains(recorded, draws, interrupted)
    posterior |= weight_draws(table, taken, posterior, entropy)
    if method != "exact":  # independent draws cannot disagree
        _warn_if_chains_disagree(stats, step)
    return make_posterior(
        table,
        prior,
        posterior,
        stats,
        method=method,
        step=step,
        rows=rows,
        averages=averages,
        taken=taken,
        attrs={
            "entropy": str(entropy),
            "tune": tune,
            "thin": thin,
            "interrupted": int(interrupted),
        },
    )


def _order(table: ReleasedTable) -> int:
    """Digest of the order of rows and cells, by which a saved chain counts.

    Equal tables may differ in it, as when one was made and the other is read from its file.
    """
    digest = 0
    for column in (*table.columns.values(), table.secret):
        matrix = column.evidence.matrix
        for array in (column.codes, matrix.indptr, matrix.indices):
            digest = zlib.crc32(array.astype("<i8").tobytes(), digest)
    return digest


def _fit_with_register(
    table: ReleasedTable, others: ReleasedTable, settings: dict[str, Any]
) -> Posterior:
    """Compute the posterior for someone who also has other people in clear."""
    evidence, alpha, beta = (settings[name] for name in ("evidence", "alpha", "beta"))
    before, whole = None, table
    if table.scheme == "vertical":
        client = settings["client"]
        taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta, client=client)
        if (evidence := taken.evidence) == "independent":
            before = taken.prior
            more = prior_with(before, others)
            settings |= {"alpha": more.alpha, "beta": dict(more.beta)}
    else:
        whole = join_register(table, others)
        if evidence == "auto":
            taken = choose_evidence(whole, alpha=alpha, beta=beta, errors=False, variance=0.0)
            evidence = taken.evidence
    of = table if evidence == "weighted" else whole
    post = fit(of, **(settings | {"evidence": evidence}))
    return replace(post, table=table, register=replace(Register.of(post, others), before=before))


def _fit_several(
    tables: Sequence[ReleasedTable], people: People, settings: dict[str, Any]
) -> Posterior:
    """Compute the posterior of the first of several releases about the same people."""
    for table in tables:
        if not isinstance(table, ReleasedTable):
            raise ModelError(f"fit needs released tables, not {type(table).__name__}.")
    if len(tables) < 2:
        raise ModelError(
            f"fit got a list of {len(tables)} releases; pass a single table or at least two."
        )
    if people != "records" and tables[0].scheme == "horizontal":
        return fit(merge_by_key(tables, people), **settings)
    vertical = [table for table in tables if table.scheme == "vertical"]
    person_codes(vertical if people == "records" else tables, people)  # checks the input
    posts = [fit(table, **settings) for table in (padded(tables), *tables[1:])]
    return join_editions(posts, people)


def _counts(**given: int | None) -> Iterator[Any]:
    """Check numbers of draws and the like; `tune` and `cores` may be None."""
    read_chains(given["chains"], error=ModelError)
    for name, value in given.items():
        least = 0 if name == "tune" else 1
        if value is not None or name not in ("tune", "cores"):
            value = read_whole(name, value, least=least, most=MOST_DRAWS, error=ModelError)
        yield value


def _vertical_evidence(evidence: str, method: str, chain: list[str]) -> str:
    """Evidence of a vertical table; settings of a chain decide, since weights need none.

    `chain` lists the settings given that only a chain has.
    """
    one_of("evidence", evidence, EVIDENCE)
    if method == "gibbs":
        chain = ["method='gibbs'", *chain]
    if method == "crossfit":
        evidence = _weighted_by(method, evidence)
    if chain and evidence == "weighted":
        raise ModelError(
            f"{chain[0]} is a setting of the chains of evidence='independent', but weighted "
            "evidence of a vertical table is cross-fitted. To run chains with weights, sample "
            "build_model(table, evidence='weighted') with ab.steps.vertical_steps(table)."
        )
    return "independent" if chain else evidence


def _weighted_by(method: str, evidence: str) -> str:
    if evidence == "independent":
        raise ModelError(f"method={method!r} is only available with evidence='weighted'.")
    return "weighted"


def _choose(table: ReleasedTable, method: str, step: str | None) -> tuple[str, str | None]:
    one_of("method", method, METHODS)
    if method == "crossfit" and table.scheme == "horizontal":
        if step is not None:
            raise ModelError(f"step={step!r} does not apply to method={method!r}; leave it out.")
        return method, None
    if table.scheme == "vertical":
        if method == "exact":
            raise ModelError(
                "The posterior of a vertical table has no closed form; use method='gibbs'."
            )
        if method == "nuts":
            raise ModelError(
                "NUTS cannot draw the hidden links of a vertical table; use method='gibbs'."
            )
        one_of("step", "auto" if step is None else step, ("auto", *STEPS))
        return "gibbs", layout_step(layout_of(table)) if step in (None, "auto") else step
    if method == "exact" and not table.is_nested:
        if not table.secrets_known:
            raise ModelError(
                f"The sensitive values in {table.sensitive!r} were released through a channel, so "
                "the posterior has no closed form; use method='gibbs'."
            )
        crossing = next(c for c in table.columns.values() if not c.evidence.is_nested)
        raise ModelError(not_nested_message(crossing.evidence))
    if method == "auto":
        method = "exact" if table.is_nested and step is None else "gibbs"
    if method != "gibbs":
        if step is not None:
            raise ModelError(f"step={step!r} does not apply to method={method!r}; leave it out.")
        return method, None
    chosen = "tree" if step is None else step
    one_of("step", chosen, HORIZONTAL_STEPS)
    return "gibbs", chosen


def _entropy(seed: int | np.random.Generator | None, resume: str | os.PathLike[str] | None) -> int:
    """Return the seed of the run: as given, that of the run to continue, or a new one."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if seed is not None:
        return read_whole("seed", seed, error=ModelError)
    existing = None if resume is None else RunStore.read_settings(resume)
    if existing is not None:
        return int(str(existing["entropy"]))
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


def _engine(
    table: ReleasedTable,
    prior: Prior,
    step: str | None,
    rows: npt.NDArray[np.int64] | None,
    settings: dict[str, Any],
    spare: int,
) -> Engine:
    """Create the engine of a table; each chain of a large table may use `spare` more cores."""
    if table.scheme == "vertical":
        large = table.n_rows >= 2 * SHARD_ROWS and step != "collapsed"
        known = {"threads": spare if large else 1} | settings
        return VerticalEngine(table, prior, step=step or "auto", rows=rows, **known)
    if settings:
        raise ModelError(
            f"Unknown settings: {', '.join(sorted(settings))}; see the docstring of fit."
        )
    return HorizontalEngine(table, prior, collapse=step != "counts", rows=rows)


def _warn_if_chains_disagree(stats: Draws, step: str | None) -> None:
    """Compare the log density of the chains, which detects modes that differ by relabelling.

    A first check that costs nothing; `diagnose` examines everything.
    """
    level = next((stats[k] for k in ("energy", "log_likelihood") if k in stats), None)
    if level is None or len(level) < 2 or level.shape[1] < LEAST_DRAWS:
        return
    rhat = float(compat.rhat({"level": level})["level"])
    if not rhat > DISAGREE:
        return
    advice = (
        "use step='tempered' (--step tempered), which lets chains leave their mode"
        if step not in (None, "tree", "counts", "tempered")
        else "run longer chains (tune=, draws=)"
    )
    warnings.warn(
        f"The chains disagree (R-hat of their log density is {rhat:.2f}): each stays in its own "
        f"region, so the results depend on where it started. Do not rely on them; {advice}, and "
        "see anonbayes.diagnose(post).",
        ConvergenceWarning,
        stacklevel=3,
    )


def _say_evidence(taken: Evidenced) -> None:
    if taken.weights is None:
        log.info("fit: evidence=%s", taken.evidence)
    else:
        log.info("fit: evidence=%s; %s", taken.evidence, taken.weights.reason)


def crossfit_posterior(
    table: ReleasedTable, taken: Evidenced, size: tuple[int, int], entropy: int
) -> Posterior:
    """Build the posterior of a cross-fitted table from its beliefs and independent draws."""
    averages: Draws
    if taken.crossfit is not None:
        found, layout = taken.crossfit, layout_of(table)
        spread = vertical_spread(layout, found.left_out_lifts, found.pooling)
        pairs = [*zip(layout.split(found.population), spread, strict=True)]
        averages = {
            "ownership": found.ownership[None, None].astype(np.float32),
            "population": found.population[None, None],
            "left_out_lifts": found.left_out_lifts.reshape(1, 1, -1),
            "fold": found.fold[None, None],
        }
    else:
        assert taken.lifts is not None
        pairs = [*zip(taken.lifts.mean, taken.lifts.spread, strict=True)]
        averages = {}
        for name, (mean, part) in zip(table.attributes, pairs, strict=True):
            averages |= {f"mean_{name}": mean.reshape(1, 1, -1)}
            averages |= {f"spread_{name}": part.reshape(1, 1, -1)}
    return make_posterior(
        table,
        taken.prior,
        crossfit_draws(table, taken, pairs, size, entropy),
        {},
        method="crossfit",
        step=None,
        rows=None,
        averages=averages,
        taken=taken,
        attrs={"entropy": str(entropy), "tune": 0, "thin": 1, "interrupted": 0},
    )


def _nuts(
    table: ReleasedTable,
    taken: Evidenced,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    entropy: int,
    progressbar: bool,
    settings: dict[str, Any],
) -> Posterior:
    import pymc as pm

    from anonbayes.inference.model import model_of

    with model_of(table, taken):
        idata = pm.sample(
            draws=draws,
            tune=1000 if tune is None else tune,
            chains=chains,
            cores=cores,
            random_seed=np.random.SeedSequence(entropy).generate_state(1)[0],
            progressbar=progressbar and can_show_bars(),
            **settings,
        )
    found = compat.groups(idata)
    return make_posterior(
        table,
        taken.prior,
        {str(k): v.to_numpy() for k, v in found["posterior"].data_vars.items()},
        {str(k): v.to_numpy() for k, v in found["sample_stats"].data_vars.items() if v.ndim == 2},
        method="nuts",
        step=settings.get("nuts_sampler", "pymc"),
        rows=None,
        taken=taken,
        attrs={"entropy": str(entropy), "tune": 1000 if tune is None else tune, "thin": 1},
    )
