"""`Posterior`: draws, closed forms, and the questions that can be asked of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from anonbayes import compat
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
    DrawnLater,
    KeptDraws,
    known_groups,
    labelled_draws,
    own_draws,
    plot_weights,
    published_posterior,
    read_stored,
    shown,
    version_of,
    write_stored,
)
from anonbayes.inference.vertical.tempering import tempering_costs
from anonbayes.inference.weights import Evidenced, EvidenceWeights
from anonbayes.inference.workflow import observed_data, with_log_likelihood, with_predictive
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.diagnostics.predictive import PredictiveCheck
    from anonbayes.risk.assessment import RiskAssessment


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(KeptDraws):
    """What a released table says about the population. Made by `fit`.

    Attributes
    ----------
    table : ReleasedTable
        What was released.
    prior : Prior
        The weights before it was seen.
    groups : mapping of str to Dataset
        Draws of ``pi_<sensitive>`` and ``pi_<attribute>`` (``posterior``), statistics of the
        sampler (``sample_stats``), the prior's weights (``constant_data``).
    attrs : mapping
        Versions, seed and settings of the run.
    method, step : str
        Engine, and kind of Gibbs step (None where it has no meaning).
    evidence : {"independent", "weighted"}
        How attributes add up: in full as in Groups, or with the `weights` (MODEL 1.9).
    evidence_weights : EvidenceWeights or None
        What the release says about weights; None where it was not asked.
    register, editions : Register or None, Editions or None
        What a register of other people adds, and further releases about the same people.
    """

    table: ReleasedTable
    prior: Prior
    groups: Mapping[str, xr.Dataset]
    attrs: Mapping[str, Any]
    method: str
    step: str | None
    evidence: str = "independent"
    evidence_weights: EvidenceWeights | None = None
    register: Register | None = None
    editions: Editions | None = None

    @property
    def pooled(self) -> bool:
        """Whether the prior lets rare secrets borrow from the population (``beta="pooled"``)."""
        return bool(self.attrs.get("pooled", 0))

    @property
    def eta(self) -> npt.NDArray[np.float64] | None:
        """Weight of each attribute in beliefs; None where every one counts in full."""
        if self.evidence != "weighted" or self.evidence_weights is None:
            return None
        return self.evidence_weights.eta

    @property
    def corrections(self) -> tuple[npt.NDArray[np.float64], ...] | None:
        """Corrections of single values beside the weights, ``(S, K_a)`` each; None without any."""
        if self.eta is None or self.evidence_weights is None:
            return None
        known = self.evidence_weights.corrections
        return None if known is None else known.values

    @property
    def weights(self) -> pd.DataFrame:
        """How much each attribute counts: weight, standard error, and what that means.

        A weight of one repeats nothing that others tell. Beliefs raise lifts to ``exponent``, of
        which ``weight_<attribute>`` has draws, and add `corrections` of single values
        (``correction_<attribute>``), given which weights say less than they do here. Columns
        ``alone`` and ``added`` are what it tells by itself, and beside the others, in nats per row
        of held-out log score.

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
        """Held-out log score per row of each kind of evidence, from the release alone.

        The best comes first; ``difference`` is how far the others are from it, with the standard
        error ``se``. ``margin`` is the share of the secrets, without any attribute. Empty where
        independent evidence was asked for.
        """
        if self.evidence_weights is None:
            columns = ["log_score", "difference", "se"]
            return pd.DataFrame(columns=columns, dtype=float, index=pd.Index([], name="evidence"))
        return self.evidence_weights.scores

    @property
    def evidence_reason(self) -> str:
        """Why the evidence was taken, in a sentence."""
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
        """Groups and attributes as ArviZ takes them: an InferenceData, or a DataTree (1.x).

        Beside the `groups` it has ``observed_data``; see `with_log_likelihood`, `with_predictive`.
        """
        content = {**self.groups, "observed_data": observed_data(self.table)}
        return compat.make_idata(content, attrs=self.attrs)

    # -- what is believed --------------------------------------------------------------------

    learner = learner_belief
    attacker = attacker_belief
    random_worlds = random_worlds_belief
    intervals = belief_intervals

    # -- what it means -----------------------------------------------------------------------

    def assess(
        self,
        cleartext: pd.DataFrame,
        *,
        harm: Iterable[Any] | None = None,
        gain: pd.DataFrame | npt.ArrayLike | None = None,
        kind: str = "predictive",
        samples: int = 20_000,
        seed: int | np.random.Generator | None = 0,
        weights: str | None = None,
        group: str | None = None,
        client: Any = None,
    ) -> RiskAssessment:
        """Measure threats and utility of the release, as its evaluator who holds the cleartext.

        Parameters
        ----------
        cleartext : pandas.DataFrame or dask.dataframe.DataFrame
            The people of the table: its attributes and its sensitive column, in clear. The order of
            the rows does not matter, their labels are kept; reports show numbers instead, unless
            the index is called ``row`` and numbers them itself. A Dask dataframe, which may be
            larger than memory, is counted where it is; the assessment then has one row per
            distinct record, with its ``weight``.
        harm : iterable, optional
            Sensitive values of which any must not be inferred (``{"HIV", "Cancer"}``); by default
            a threat is the right guess of the exact value.
        gain : pandas.DataFrame or array, optional
            Instead of `harm`, the attacker's gain by act (rows) and sensitive value (columns).
        kind : {"predictive", "conditional"}
            The learner's belief, as in `learner`.
        samples : int
            Draws by which faithfulness is estimated where records are too many to be listed.
        seed : int, Generator or None
            Of these draws.
        weights : str, optional
            Column of the cleartext that says how many people a row stands for; a large cleartext
            is best given as its distinct records (`count_records`).
        group : str, optional
            Column of the cleartext that names each person's group in a vertical release: the
            attacker then knows it, as in `attacker`.
        client : distributed.Client, optional
            Computes beliefs on a Dask cluster, a part of the distinct records per task; every
            number is the same as without.

        Returns
        -------
        RiskAssessment
            Groups Definitions 1 and 2, per row and for the table, with Monte-Carlo errors.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> risk = post.assess(ab.datasets.load("table1"))
        >>> risk.rows.loc[0, ["p_A", "p_L"]].astype(float).round(1).tolist()
        [0.6, 0.3]
        """
        # The one import against the order of the layers: what people look for is on the posterior.
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

    # -- is it any good ----------------------------------------------------------------------

    with_log_likelihood = with_log_likelihood
    with_predictive = with_predictive

    def check(
        self, *, draws: int = 200, seed: int | np.random.Generator | None = 0
    ) -> PredictiveCheck:
        """Compare pairs of attributes with what the posterior predicts: see `predictive_check`.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> post.check().table.index.tolist()
        [('Nat', 'ZIP')]
        """
        from anonbayes.diagnostics.predictive import predictive_check

        return predictive_check(self, draws=draws, seed=seed)

    # -- keeping it --------------------------------------------------------------------------

    def to_netcdf(self, path: str | os.PathLike[str], *, draws: bool = True) -> str:
        """Write everything to one netCDF file, the table included.

        ArviZ opens it, `from_netcdf` reads it back, and a digest at its end tells of damage.

        Parameters
        ----------
        path : path
            The file.
        draws : bool
            Without them, draws from a closed form are left out: `from_netcdf` makes the same ones
            again, to the last bit, in a moment. Draws of chains are always written.
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
        """Take draws of a model of your own, so that beliefs and `assess` work with them.

        Parameters
        ----------
        table : ReleasedTable
            The table that the model is about.
        idata : InferenceData, DataTree or Dataset
            Draws. The variables ``pi_<sensitive>`` with shape (chain, draw, S) and, for each
            attribute, ``pi_<attribute>`` with shape (chain, draw, S, K) are read, in the order of
            the table's domains, as `build_model` names them.
        alpha, beta
            Prior weights, which the ideal learner uses (see `fit`).
        seed : int or Generator, optional
            Vertical tables: for the draws of who owns which values given each ``pi``.

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
        """Read what `to_netcdf` wrote.

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


def make_posterior(
    table: ReleasedTable,
    prior: Prior,
    draws: Mapping[str, npt.NDArray[Any]],
    stats: Mapping[str, npt.NDArray[Any]],
    *,
    size: tuple[int, int] | None = None,
    method: str,
    step: str | None,
    rows: npt.NDArray[np.int64] | None,
    attrs: Mapping[str, Any],
    averages: Mapping[str, npt.NDArray[Any]] | None = None,
    taken: Evidenced | None = None,
    versions: bool = True,
) -> Posterior:
    """Label draws with the table's names and values; `attrs` of a stored run have versions.

    With a `size`, chains and draws of each, these are made when somebody asks for them.
    """
    coords: dict[str, Any] = {name: list(labels) for name, labels in coords_of(table).items()}
    if rows is not None:
        coords["row"] = rows
    evidence = "independent" if taken is None else taken.evidence
    named: dict[str, Any] = {"method": method, "step": step or "", "evidence": evidence}
    named |= {
        "pooled": int(taken is not None and taken.pooled),
        "fingerprint": table.fingerprint,
        **attrs,
    }
    for package in ("anonbayes", "pymc", "arviz", "numpy", "numba") if versions else ():
        named[f"{package}_version"] = version_of(package)
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
