"""One user's side of a personalized mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.channels.base import Channel, ReportEvidence
from anonbayes.channels.pure import PureChannel
from anonbayes.domains import Domain, by_value
from anonbayes.estimation.likelihood import MixtureLikelihood
from anonbayes.guarantees.ldp import Audit, Bound, Notion, audit_ratios
from anonbayes.guarantees.uldp import ULDP, audit_types

__all__ = ["PersonalChannel"]


class PersonalChannel(Channel):
    """One user's side of a personalized mechanism: replacement, then the common channel."""

    def __init__(self, common: PureChannel, domain: Domain, codes: npt.NDArray[np.int64]) -> None:
        self.common, self.domain, self.codes = common, domain, codes
        self.epsilon = common.epsilon

    def release(self, values: Iterable[object], *, seed: Any = None) -> Any:
        """Report of each value."""
        codes = self.codes[self._encode(values)]
        return self.common.release(self.common.domain.decode(codes), seed=seed)

    def reporter(self, *, seed: Any = None) -> Callable[[object], Any]:
        """Return a function that reports one value; see `Channel.reporter`."""
        report, index = self.common.reporter(seed=seed), self.domain.index
        seen = [self.common.domain.values[code] for code in self.codes]
        return lambda value: report(seen[index(value)])

    def matrix(self) -> Floats:
        """``Q^(i)``, rows of the common channel's matrix."""
        return self.common.matrix()[self.codes]

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Support probabilities of the common channel under this user's replacement."""
        weights = np.asarray(by_value(p, self.domain, what="p"), dtype=float)
        return self.common.apply(
            np.bincount(self.codes, weights=weights, minlength=len(self.common.domain))
        )

    def adjoint(self, weights: npt.ArrayLike) -> Floats:
        """Mean of the supported values' weights given each true value."""
        return self.common.adjoint(weights)[self.codes]

    def likelihood(self, reports: Any) -> MixtureLikelihood:
        """Likelihood of this user's own distribution, given many reports of hers."""
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
        return MixtureLikelihood(
            weights=rows.weights,
            floor=rows.floor,
            log_scale=rows.log_scale,
            tilt=rows.tilt[self.codes],
            gain=rows.gain[self.codes],
            indptr=mapped.indptr.astype(np.int64),
            indices=mapped.indices,
        )

    def evidence(self, reports: Any) -> ReportEvidence:
        """Likelihood vector of the true value behind each report."""
        codes, labels, matrix = self.common.evidence(reports)
        return ReportEvidence(codes, labels, sparse.csr_array(matrix[:, self.codes]))

    def satisfies(self, notion: Notion) -> Audit:
        """Check a notion; values that this user tags alike cannot be told apart at all."""
        image = np.unique(self.codes)
        seen = Domain(self.domain.name, [self.common.domain.values[i] for i in image])
        back = {
            self.common.domain.values[c]: v for v, c in zip(self.domain, self.codes, strict=True)
        }

        def report(x: int, other: int) -> Any:
            return self.common.describe_report(int(image[x]), int(image[other]))

        if isinstance(notion, ULDP):
            own, other, proof = self.common.protected_log_ratios()
            mapped = {
                self.common.domain.values[self.codes[x]]
                for x in np.flatnonzero(notion.mask(self.domain))
            }
            audit = audit_types(
                ULDP(mapped, notion.epsilon), seen, own[image], other[image], proof[image], report
            )
        else:
            own, other = self.common.log_ratios()
            inner = _Mapped(notion, self.domain, np.searchsorted(image, self.codes))
            audit = audit_ratios(inner, seen, own[image], other[image], report)
        if audit.witness is None:
            return replace(audit, notion=notion)
        witness = audit.witness._replace(
            value=back[audit.witness.value], other=back[audit.witness.other]
        )
        return replace(audit, notion=notion, witness=witness)


class _Mapped(Notion):
    """Notion on the values that a map produces: the tightest bound among their origins."""

    def __init__(self, notion: Notion, domain: Domain, place: npt.NDArray[np.int64]) -> None:
        self.notion, self.domain, self.place = notion, domain, place

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        out = []
        for bound in self.notion.bounds(self.domain):
            row, column = np.full(len(domain), np.inf), np.full(len(domain), np.inf)
            np.minimum.at(row, self.place, bound.row)
            np.minimum.at(column, self.place, bound.column)
            out.append(Bound(row, column))
        return out
