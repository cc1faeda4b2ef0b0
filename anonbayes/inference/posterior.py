"""`Posterior`: draws and closed forms of a fit, with beliefs and risks derived from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from anonbayes import compat
from anonbayes.arrays import Draws, Ints
from anonbayes.beliefs.belief import (
    attacker_belief,
    belief_intervals,
    learner_belief,
    random_worlds_belief,
)
from anonbayes.beliefs.editions import Editions
from anonbayes.beliefs.register import Register
from anonbayes.inference.dirichlet import Prior, PriorLike, coords_of, resolve_prior
from anonbayes.inference.stored import (
    AVERAGES_GROUP,
    Attrs,
    DrawnLater,
    KeptDraws,
    known_groups,
    labelled_draws,
    own_draws,
    plot_weights,
    published_posterior,
    read_stored,
    shown,
    write_stored,
)
from anonbayes.inference.vertical.tempering import tempering_costs
from anonbayes.inference.weights import Evidenced, EvidenceWeights
from anonbayes.inference.workflow import observed_data, with_log_likelihood, with_predictive
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from distributed import Client

    from anonbayes.diagnostics.predictive import PredictiveCheck
    from anonbayes.risk.assessment import RiskAssessment


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(KeptDraws):
    """Posterior of the population behind a released table. Returned by `fit`.

    Use `learner`, `attacker` and `random_worlds` for beliefs about a person, `assess` for the risks
    of everybody in the table, and `idata` for ArviZ.

    Attributes
    ----------
    table : ReleasedTable
        What was released; with several releases, the first.
    prior : Prior
        Dirichlet weights of the prior.
    groups : mapping of str to Dataset
        Datasets ``posterior`` (draws of ``pi_<sensitive>`` and ``pi_<attribute>``),
        ``sample_stats`` (statistics of the sampler) and ``constant_data`` (prior weights).
    attrs : mapping
        Software versions, seed and settings of the run.
    method, step : str
        Engine, and kind of Gibbs step (None if there is none).
    evidence : {"independent", "weighted"}
        Whether attributes count in full as in Groups, or with the `weights` (MODEL 1.9).
    evidence_weights : EvidenceWeights or None
        Estimated weights with errors and scores; None if they were not computed.
    register, editions : Register or None, Editions or None
        The register of other people, and the further releases, if any.
    """

    table: ReleasedTable
    prior: Prior
    groups: Mapping[str, xr.Dataset]
    attrs: Attrs
    method: str
    step: str | None
    evidence: str = "independent"
    evidence_weights: EvidenceWeights | None = None
    register: Register | None = None
    editions: Editions | None = None

    @property
    def pooled(self) -> bool:
        """Whether the prior shrinks rare secrets to the population (``beta="pooled"``)."""
        return bool(self.attrs.get("pooled", 0))

    @property
    def eta(self) -> npt.NDArray[np.float64] | None:
        """Exponent of each attribute's lifts in beliefs; None if every attribute counts in full."""
        if self.evidence != "weighted" or self.evidence_weights is None:
            return None
        return self.evidence_weights.eta

    @property
    def corrections(self) -> tuple[npt.NDArray[np.float64], ...] | None:
        """Corrections of single values by attribute, ``(S, K_a)`` each; None if there are none."""
        if self.eta is None or self.evidence_weights is None:
            return None
        known = self.evidence_weights.corrections
        return None if known is None else known.values

    @property
    def weights(self) -> pd.DataFrame:
        """How much each attribute counts: one row per attribute, with standard errors.

        A weight of one means that the attribute repeats nothing that others say. Beliefs raise its
        lifts to ``exponent``, of which ``weight_<attribute>`` holds draws, and add `corrections` of
        single values (draws in ``correction_<attribute>``, given the weights). ``alone`` and
        ``added`` are the gains in held-out log score, in nats per row, by the attribute on its own
        and in addition to the others. ``meaning`` puts the weight into words.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> post.evidence, post.weights["weight"].tolist()
        ('independent', [1.0, 1.0])
        """
        if self.evidence_weights is None:
            index = pd.Index(self.table.attributes, name="attribute")
            columns = ["weight", "se", "exponent", "alone", "added", "kappa"]
            frame = pd.DataFrame(np.nan, index=index, columns=columns).assign(meaning="")
        else:
            frame = self.evidence_weights.weights
        if self.evidence == "weighted":
            return frame
        return frame.assign(weight=1.0, se=0.0, exponent=1.0, meaning="counts in full")

    plot_weights = plot_weights

    @property
    def scores(self) -> pd.DataFrame:
        """Held-out log score per row of each kind of evidence, computed from the release alone.

        The best comes first; ``difference`` is the distance of the others from it, with standard
        error ``se``. ``margin`` is the score without attributes, from the shares of the sensitive
        values. The table is empty if independent evidence was asked for.
        """
        if self.evidence_weights is None:
            columns = ["log_score", "difference", "se"]
            return pd.DataFrame(columns=columns, dtype=float, index=pd.Index([], name="evidence"))
        return self.evidence_weights.scores

    @property
    def evidence_reason(self) -> str:
        """The reason for this kind of evidence, in a sentence."""
        if self.evidence_weights is None:
            return "independent evidence was asked for"
        reason = self.evidence_weights.reason
        if self.table.scheme == "horizontal":
            return reason
        gain, _ = self.evidence_weights.difference("weighted", "independent")
        costs = tempering_costs(self.table.n_rows)
        lower = f"score about {gain:.4f} nats per row lower" if gain > 0 else "score no lower"
        return f"{reason}; to be sure of independent evidence, {costs} and {lower}"

    @cached_property
    def idata(self) -> Any:
        """Everything in ArviZ's format: an InferenceData, or a DataTree with ArviZ 1.x.

        In addition to the `groups` it has ``observed_data``; see `with_log_likelihood` and
        `with_predictive` for more.
        """
        content = {**self.groups, "observed_data": observed_data(self.table)}
        return compat.make_idata(content, attrs=self.attrs)

    # -- beliefs -----------------------------------------------------------------------------

    learner = learner_belief
    attacker = attacker_belief
    random_worlds = random_worlds_belief
    intervals = belief_intervals

    # -- risks -------------------------------------------------------------------------------

    def assess(
        self,
        cleartext: pd.DataFrame,
        *,
        harm: Iterable[object] | None = None,
        gain: pd.DataFrame | npt.ArrayLike | None = None,
        kind: str = "predictive",
        samples: int = 20_000,
        seed: int | np.random.Generator | None = 0,
        weights: str | None = None,
        group: str | None = None,
        client: Client | None = None,
    ) -> RiskAssessment:
        """Measure threats and utility of the release, given the cleartext.

        Parameters
        ----------
        cleartext : pandas.DataFrame or dask.dataframe.DataFrame
            The people in the table: its attributes and its sensitive column, in clear, in any
            order. The row labels are kept in the results; reports show row numbers instead, unless
            the index is a numbering called ``row``. A Dask dataframe, which may be larger than
            memory, is counted on its cluster; the assessment then has one row per distinct record,
            with its ``weight``.
        harm : iterable, optional
            Sensitive values none of which may be inferred, such as ``{"HIV", "Cancer"}``; by
            default a threat is a correct guess of the exact value.
        gain : pandas.DataFrame or array, optional
            Instead of `harm`: the attacker's gain by action (rows) and sensitive value (columns).
        kind : {"predictive", "conditional"}
            Kind of the learner's belief, as in `learner`.
        samples : int
            Number of draws that estimate faithfulness if the records are too many to enumerate.
        seed : int, Generator or None
            Seed of these draws.
        weights : str, optional
            Column of the cleartext with the number of people that a row stands for; use it with
            `count_records` for a large cleartext.
        group : str, optional
            Column of the cleartext that names each person's group in a vertical release; the
            attacker then knows the group, as in `attacker`.
        client : distributed.Client, optional
            Dask cluster that computes the beliefs, a part of the distinct records per task; the
            results do not change.

        Returns
        -------
        RiskAssessment
            The measures of Groups Definitions 1 and 2, per row and for the table, with Monte-Carlo
            errors.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> risk = post.assess(ab.datasets.load("table1"))
        >>> risk.rows.loc[0, ["p_A", "p_L"]].astype(float).round(1).tolist()
        [0.6, 0.3]
        """
        # The only import against the order of the layers, because users look for it here.
        from anonbayes.risk.assess import assess

        return assess(
            self,
            cleartext,
            harm=harm,
            gain=gain,
            kind=kind,
            samples=samples,
            seed=seed,
            weights=weights,
            group=group,
            client=client,
        )

    # -- fit of the model --------------------------------------------------------------------

    with_log_likelihood = with_log_likelihood
    with_predictive = with_predictive

    def check(
        self, *, draws: int = 200, seed: int | np.random.Generator | None = 0
    ) -> PredictiveCheck:
        """Compare pairs of attributes with what the posterior predicts; see `predictive_check`.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> post.check().table.index.tolist()
        [('Nat', 'ZIP')]
        """
        from anonbayes.diagnostics.predictive import predictive_check

        return predictive_check(self, draws=draws, seed=seed)

    # -- files -------------------------------------------------------------------------------

    def to_netcdf(self, path: str | os.PathLike[str], *, draws: bool = True) -> str:
        """Write everything, including the table, to one netCDF file.

        ArviZ can open it, `from_netcdf` restores the posterior, and a digest detects damage.

        Parameters
        ----------
        path : path
            The file.
        draws : bool
            If False, draws from a closed form are left out: `from_netcdf` quickly makes exactly the
            same ones again. Draws of chains are always written.
        """
        return write_stored(self, path, draws=draws)

    published = published_posterior

    @classmethod
    def from_draws(
        cls,
        table: ReleasedTable,
        idata: Any,
        *,
        alpha: PriorLike = 1.0,
        beta: PriorLike = 1.0,
        seed: int | np.random.Generator | None = None,
    ) -> Posterior:
        """Build a posterior from draws of your own model, for use with beliefs and `assess`.

        Parameters
        ----------
        table : ReleasedTable
            The table that the model describes.
        idata : InferenceData, DataTree or Dataset
            Draws. For each attribute, the variable ``pi_<attribute>`` must have the shape (chain,
            draw, S, K), and ``pi_<sensitive>`` the shape (chain, draw, S), with values in the order
            of the table's domains; `build_model` uses the same names.
        alpha, beta
            Prior weights, used by the ideal learner (see `fit`).
        seed : int or Generator, optional
            For vertical tables: seed of the draws of the assignment given each ``pi``.

        Examples
        --------
        >>> import anonbayes as ab
        >>> table = ab.datasets.load("table1_recoded")
        >>> post = ab.fit(table, evidence="independent", method="gibbs", seed=1, progressbar=False)
        >>> again = ab.Posterior.from_draws(table, post.idata)
        >>> victim = {"Nat": "M", "ZIP": "45501"}
        >>> bool(abs(again.attacker(victim) - post.attacker(victim)).max() < 0.02)
        True
        """
        prior = resolve_prior(table, alpha=alpha, beta=beta)
        draws, averages = own_draws(table, idata, prior, seed)
        return make_posterior(
            table,
            prior,
            draws,
            {},
            method="draws",
            step=None,
            rows=None,
            attrs={},
            averages=averages,
        )

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str]) -> Posterior:
        """Read a posterior written by `to_netcdf`.

        Raises
        ------
        FileError
            If the file is damaged, incomplete, or holds draws of another table.
        """
        stored = read_stored(path)
        if stored.redrawn is None:
            return cls(
                stored.table, stored.taken.prior, stored.content, stored.attrs, stored.method,
                stored.step, stored.taken.evidence, stored.taken.weights,
            )  # fmt: skip
        drawn, stats, averages = stored.redrawn
        return make_posterior(
            stored.table, stored.taken.prior, drawn, stats, method=stored.method, step=None,
            rows=None, attrs=stored.attrs, averages=averages, taken=stored.taken, versions=False,
        )  # fmt: skip

    def __repr__(self) -> str:
        step = f", step={self.step!r}" if self.step else ""
        if self.evidence != "independent":
            step += f", evidence={self.evidence!r}"
        return (
            f"Posterior(method={self.method!r}{step}, {self.n_chains} chains x {self.n_draws} "
            f"draws, {self.table!r})"
        )

    def _repr_html_(self) -> str:
        return shown(self)


@cache
def _version_of(package: str) -> str:
    """Version that is noted in a file."""
    if package == "anonbayes":
        from anonbayes import __version__

        return __version__
    return metadata.version(package)


def make_posterior(
    table: ReleasedTable,
    prior: Prior,
    draws: Draws,
    stats: Draws,
    *,
    size: tuple[int, int] | None = None,
    method: str,
    step: str | None,
    rows: npt.NDArray[np.int64] | None,
    attrs: Attrs,
    averages: Draws | None = None,
    taken: Evidenced | None = None,
    versions: bool = True,
) -> Posterior:
    """Label draws with the table's names and values; `attrs` of a stored run include versions.

    With a `size` (chains, draws per chain), draws are made only when needed.
    """
    coords: dict[str, Sequence[object] | Ints] = {
        name: list(labels) for name, labels in coords_of(table).items()
    }
    if rows is not None:
        coords["row"] = rows
    evidence = "independent" if taken is None else taken.evidence
    named: dict[str, str | int] = {"method": method, "step": step or "", "evidence": evidence}
    named |= {
        "pooled": int(taken is not None and taken.pooled),
        "fingerprint": table.fingerprint,
        **attrs,
    }
    for package in ("anonbayes", "pymc", "arviz", "numpy", "numba") if versions else ():
        named[f"{package}_version"] = _version_of(package)
    known = None if taken is None else taken.weights
    groups: Mapping[str, xr.Dataset]
    if size is not None:
        assert taken is not None
        groups = DrawnLater(table, taken, attrs, size, coords)
    else:
        groups = labelled_draws(table, draws, stats, coords)
        groups |= known_groups(table, prior, known, coords)
        if averages:
            groups[AVERAGES_GROUP] = xr.Dataset(
                {k: (("chain", "block", f"{k}_link"), v) for k, v in averages.items()}
            )
    return Posterior(table, prior, groups, named, method, step, evidence, known)
