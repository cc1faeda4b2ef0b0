"""The kinds of scenarios and every key that their files may have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from anonbayes.scenario.kinds.assessment import Assessment
from anonbayes.scenario.kinds.checkins import Checkins
from anonbayes.scenario.kinds.query import Query
from anonbayes.scenario.kinds.survey import Survey
from anonbayes.scenario.kinds.traces import Traces

__all__ = ["KINDS", "Assessment", "Checkins", "Query", "Survey", "Traces"]

KINDS: Mapping[str, type] = MappingProxyType(
    {
        "assessment": Assessment,
        "survey": Survey,
        "checkins": Checkins,
        "traces": Traces,
        "query": Query,
    }
)
