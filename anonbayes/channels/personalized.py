"""Personalized mechanisms: common channel, personal mapping, and the user's device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.channels.base import Channel, ReportEvidence
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Seed
from anonbayes.domains import Domain, list_of
from anonbayes.errors import ChannelError, DomainError
from anonbayes.estimation.closed_forms import Estimate, shares_of
from anonbayes.notions.ldp import LDP, Audit, Notion, Ratios, Witness

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import MixtureLikelihood


Replacements = Mapping[Any, object]
"""``{value: tag}`` of one user."""

Shares = Mapping[Any, npt.ArrayLike]
"""``{tag: distribution over the values}``."""

# -------------------------------------------------------------------------------------------------
# Personalized ULDP: what is sensitive differs from user to user, and stays secret.


class ErrorBound(NamedTuple):
    """The two terms that bound the l1 error of a personalized estimate (ULDP Thm. 1)."""

    intermediate: float
    knowledge: float

    @property
    def total(self) -> float:
        """Upper bound on ``sum |p_hat - p|``."""
        return self.intermediate + self.knowledge


class Personalized(Channel):
    """Personalized mechanism with semantic tags (PUM, ULDP Sec. 5).

    Each user's device first replaces the values that are sensitive to this user by a tag such
    as ``"home"``, then releases the result through a channel common to all users, in which the
    tags count as sensitive. The collector knows the common channel, but not who tags what.

    Parameters
    ----------
    common : UtilityOptimizedRR or UtilityOptimizedRAPPOR
        Channel over the values and the tags; its sensitive set contains the tags.
    tags : iterable
        The tags, values of the common channel's domain.

    Attributes
    ----------
    domain : Domain
        The values without the tags.

    Examples
    --------
    >>> import anonbayes as ab
    >>> places = ab.Domain("place", ["clinic", "park", "mall", "<home>"])
    >>> common = ab.UtilityOptimizedRR(places, epsilon=2.0, sensitive=["clinic", "<home>"])
    >>> channel = ab.Personalized(common, tags=["<home>"])
    >>> reports = channel.release(["park", "park"], personal=[{"park": "<home>"}, {}], seed=2)
    >>> channel.satisfies(ab.ULDP(["clinic", "park"], 2.0), personal={"park": "<home>"}).holds
    True
    """

    def __init__(self, common: PureChannel, tags: Iterable[object]) -> None:
        sensitive: Mask | None = getattr(common, "sensitive", None)
        if sensitive is None:
            raise ChannelError(
                "The common channel must be a UtilityOptimizedRR or UtilityOptimizedRAPPOR, got "
                f"{type(common).__name__}."
            )
        self.common = common
        self._sensitive = sensitive
        self.tags = tuple(list_of("tags", tags))
        self._tag_codes = np.array([common.domain.index(tag) for tag in self.tags], dtype=np.int64)
        for tag, code in zip(self.tags, self._tag_codes, strict=True):
            if not self._sensitive[code]:
                raise ChannelError(f"Tag {tag!r} must be sensitive in the common channel.")
        is_tag = np.zeros(len(common.domain), dtype=bool)
        is_tag[self._tag_codes] = True
        self._value_codes = np.flatnonzero(~is_tag)
        if len(self._value_codes) == 0:
            raise ChannelError(
                "Every value of the common channel is a tag, so no value is left to report."
            )
        self.domain = Domain(
            common.domain.name, [common.domain.values[i] for i in self._value_codes]
        )
        self.epsilon = common.epsilon
        self.methods = common.methods

    # -- the user's device -----------------------------------------------------------------------

    def pre_process(
        self,
        values: Iterable[object],
        personal: Replacements | Sequence[Replacements] | None = None,
    ) -> Ints:
        """Codes, in the common channel, of values and tags after each user's replacements.

        Parameters
        ----------
        values : iterable
            One true value per user.
        personal : mapping, or sequence of mappings
            ``{value: tag}`` of all devices, or one such mapping per user.
        """
        codes = self._value_codes[self._encode(values)]
        if personal is None:
            return codes
        if isinstance(personal, Mapping):
            return self._map(personal)[np.searchsorted(self._value_codes, codes)]
        if len(personal) != len(codes):
            raise ChannelError(
                f"There are {len(codes)} values but {len(personal)} personal mappings."
            )
        for i, mapping in enumerate(personal):
            if mapping:
                codes[i] = self._map(mapping)[np.searchsorted(self._value_codes, codes[i])]
        return codes

    def release(
        self,
        values: Iterable[object],
        *,
        personal: Replacements | Sequence[Replacements] | None = None,
        seed: Seed = None,
    ) -> Any:
        """Report each user's value after replacing sensitive ones by their tags (ULDP (19))."""
        codes = self.pre_process(values, personal)
        return self.common.release(self.common.domain.decode(codes), seed=seed)

    def _map(self, personal: Replacements) -> Ints:
        """Code in the common channel for each value of the domain."""
        codes = self._value_codes.copy()
        for value, tag in personal.items():
            if tag not in self.tags:
                raise ChannelError(f"{tag!r} is not a tag; the tags are {list(self.tags)}.")
            codes[self.domain.index(value)] = self.common.domain.index(tag)
        return codes

    def reporter(
        self, *, personal: Replacements | None = None, seed: Seed = None
    ) -> Callable[[object], Any]:
        """Return a function that reports one value of the user with this personal mapping.

        Parameters
        ----------
        personal : mapping
            ``{value: tag}`` of the device; empty for a user without personal secrets.
        seed : int, numpy.random.Generator or None
            As in `Channel.reporter`.
        """
        if personal is None:
            raise ChannelError(
                "A device of a personalized mechanism needs its user's mapping: call "
                "reporter(personal={value: tag, ...}), or personal={} for a user without personal "
                "secrets."
            )
        return self.device(personal).reporter(seed=seed)

    # -- guarantees ------------------------------------------------------------------------------

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Log ratios for a user without personal secrets."""
        return self.device({}).ratios(protected=protected)

    def device(self, personal: Replacements) -> PersonalChannel:
        """Channel of one user: replacement, then the common channel (``Q^(i)``)."""
        return PersonalChannel(self.common, self.domain, self._map(personal))

    def satisfies(self, notion: Notion, *, personal: Replacements | None = None) -> Audit:
        """Check a notion for the user with this personal mapping (ULDP Prop. 9)."""
        return self.device(personal or {}).satisfies(notion)

    def secrecy(self, personal: Replacements, other: Replacements) -> Audit:
        """Check that protected reports hide which of two mappings a user has (ULDP Prop. 10).

        The witness names a value; its report is `worst_ratio` times as likely under `personal`
        as under `other`, at most ``exp(epsilon)``.
        """
        own, down, _ = self.common.protected_log_ratios()
        first, second = self._map(personal), self._map(other)
        ratios = np.where(first == second, 0.0, own[first] + down[second])
        x = int(np.argmax(ratios))
        value = self.domain.values[x]
        report = self.common.describe_report(int(first[x]), int(second[x]))
        worst = float(np.exp(ratios[x]))
        limit = float(np.exp(self.epsilon))
        return Audit(
            LDP(self.epsilon),
            bool(ratios[x] <= self.epsilon + 1e-9),
            worst,
            limit,
            Witness(value, value, report),
        )

    # -- the collector ---------------------------------------------------------------------------

    def spell(self, reports: object) -> list[str]:
        """Write reports as the common channel does."""
        return self.common.spell(reports)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports as the common channel does."""
        return self.common.read_texts(texts, where=where)

    def estimate(
        self,
        reports: object,
        *,
        method: str = "mle",
        knowledge: Shares | None = None,
        **settings: Any,
    ) -> Estimate:
        """Estimate the distribution of the values (ULDP (21)).

        The common channel estimates the distribution ``r`` of values and tags; the share of each
        tag is then spread over the values, ``p(x) = r(x) + sum_k r(tag_k) pi_k(x)``.

        Parameters
        ----------
        reports, method, **settings
            As in `Channel.estimate`.
        knowledge : mapping, optional
            ``{tag: distribution over the values}``: what is known about ``pi_k``. A tag without an
            entry is spread over the non-sensitive values in proportion to ``r``.
        """
        r = self.common.estimate(reports, method=method, **settings)
        known = self._knowledge(knowledge)
        p = self._spread(r.p, known)
        estimate = replace(
            r, domain=self.domain, p=p, interval=None, intermediate=r, log_likelihood=None
        )
        if r.draws is None:
            return estimate
        return estimate.from_draws(self._spread(r.draws.to_numpy(), known))

    def _knowledge(self, knowledge: Shares | None) -> dict[int, Floats]:
        known = {}
        for tag, distribution in (knowledge or {}).items():
            if tag not in self.tags:
                raise ChannelError(f"{tag!r} is not a tag; the tags are {list(self.tags)}.")
            known[self.tags.index(tag)] = shares_of(
                distribution, self.domain, f"knowledge[{tag!r}]"
            )
        return known

    def _spread(self, r: Floats, known: Mapping[int, Floats]) -> Floats:
        """``p`` from ``r`` (or many draws of it, one per row)."""
        p = np.array(r[..., self._value_codes])
        for k, code in enumerate(self._tag_codes):
            p += r[..., code, None] * self._tag_distribution(r, k, known)
        return p

    def _tag_distribution(self, r: Floats, k: int, known: Mapping[int, Floats]) -> Floats:
        """Distribution of the values behind tag `k`: as known, or in proportion to ``r``."""
        if k in known:
            return known[k]
        plain = ~self._sensitive[self._value_codes]
        if not plain.any():
            raise DomainError(
                f"Tag {self.tags[k]!r} needs knowledge: there is no non-sensitive value to "
                "spread it over."
            )
        weight = np.where(plain, r[..., self._value_codes], 0.0)
        total = weight.sum(axis=-1, keepdims=True)
        positive = np.where(total > 0, total, 1.0)
        return np.where(total > 0, weight / positive, plain / plain.sum())

    def error_bound(
        self,
        estimate: Estimate,
        r: npt.ArrayLike,
        truth: Shares,
        *,
        knowledge: Shares | None = None,
    ) -> ErrorBound:
        """Bound on the l1 error of an estimate when the truth is known (ULDP Thm. 1).

        ``l1(p_hat, p) <= l1(r_hat, r) + sum_k |r_hat(tag_k)| l1(pi_hat_k, pi_k)``. The absolute
        value is missing in the paper; empirical estimates can be negative.

        Parameters
        ----------
        estimate : Estimate
            From `estimate`, with the same `knowledge`.
        r : array-like
            True distribution over values and tags, in the order of the common domain.
        truth : mapping
            True distribution ``pi_k`` over the values, for each tag.
        knowledge : mapping, optional
            As passed to `estimate`.
        """
        if estimate.intermediate is None:
            raise ChannelError("error_bound needs an estimate made by this channel.")
        r_hat = estimate.intermediate.p
        known = self._knowledge(knowledge)
        true_r = shares_of(r, self.common.domain, "r")
        first = float(np.abs(r_hat - true_r).sum())
        second = 0.0
        for k, tag in enumerate(self.tags):
            pi = shares_of(truth[tag], self.domain, f"truth[{tag!r}]")
            used = self._tag_distribution(r_hat, k, known)
            second += abs(float(r_hat[self._tag_codes[k]])) * float(np.abs(used - pi).sum())
        return ErrorBound(first, second)

    def worst_case_knowledge_error(self, estimate: Estimate) -> float:
        """Largest l1 error that wrong knowledge can cause, ``2 sum_k |r_hat(tag_k)|``."""
        if estimate.intermediate is None:
            raise ChannelError("The bound needs an estimate made by this channel.")
        return 2.0 * float(np.abs(estimate.intermediate.p[self._tag_codes]).sum())

    def likelihood(self, reports: object) -> NoReturn:
        """Raise an error: the collector does not know the users' mappings."""
        raise ChannelError(
            "The likelihood of a value depends on its user's secret mapping; use estimate, "
            "common.likelihood (over values and tags), or device(mapping) for one user."
        )

    evidence = likelihood


# -------------------------------------------------------------------------------------------------
# One user's side of a personalized mechanism.


class PersonalChannel(Channel):
    """One user's side of a personalized mechanism: replacement by tags, then the common channel."""

    def __init__(self, common: PureChannel, domain: Domain, codes: Ints) -> None:
        self.common, self.domain, self.codes = common, domain, codes
        self.epsilon = common.epsilon

    def release(self, values: Iterable[object], *, seed: Seed = None) -> Any:
        """Release one report per value."""
        codes = self.codes[self._encode(values)]
        return self.common.release(self.common.domain.decode(codes), seed=seed)

    def reporter(self, *, seed: Seed = None) -> Callable[[object], Any]:
        """Return a function that reports one value; see `Channel.reporter`."""
        report, index = self.common.reporter(seed=seed), self.domain.index
        seen = [self.common.domain.values[code] for code in self.codes]
        return lambda value: report(seen[index(value)])

    def matrix(self) -> Floats:
        """``Q^(i)``, rows of the common channel's matrix."""
        return self.common.matrix()[self.codes]

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of this user's own distribution, given many of the user's reports."""
        from scipy import sparse

        rows = self.common.likelihood(reports)
        size = len(self.domain)
        pattern = sparse.csr_array(
            (np.ones(len(rows.indices)), rows.indices.astype(np.int64), rows.indptr),
            shape=(len(rows.floor), rows.size),
        )
        members = sparse.csr_array(
            (np.ones(size), (self.codes, np.arange(size))), shape=(rows.size, size)
        )
        mapped = sparse.csr_array(pattern @ members)
        return estimation.likelihood.MixtureLikelihood(
            weights=rows.weights,
            floor=rows.floor,
            log_scale=rows.log_scale,
            tilt=rows.tilt[self.codes],
            gain=rows.gain[self.codes],
            indptr=mapped.indptr.astype(np.int64),
            indices=mapped.indices,
        )

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report."""
        codes, labels, matrix = self.common.evidence(reports)
        return ReportEvidence(codes, labels, matrix[:, self.codes])

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Log ratios; values to which this user gives the same tag are indistinguishable."""
        for some in self.common.ratios(protected=protected):
            yield Ratios(
                some.own[self.codes],
                some.other[self.codes],
                _report_of(some, self.codes),
                None if some.proof is None else some.proof[self.codes],
                self.codes,
            )

    def spell(self, reports: object) -> list[str]:
        """Write reports as the common channel does."""
        return self.common.spell(reports)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports as the common channel does."""
        return self.common.read_texts(texts, where=where)


def _report_of(ratios: Ratios, codes: Ints) -> Callable[[int, int], object]:
    """Return the report for a pair of values, after replacing each by its code in the channel."""
    return lambda x, other: ratios.report(int(codes[x]), int(codes[other]))
