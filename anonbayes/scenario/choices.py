"""Allowed words of keys, with descriptions, for checks, schema, help and completion.

Nothing large is imported here, because shells ask for these words while the user types.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _words(*plain: str, **explained: str) -> Mapping[str, str]:
    return MappingProxyType(dict.fromkeys(plain, "") | explained)


NAMES = "Name of a table that comes with the package; see anonbayes.datasets."
SEPARATOR = "Separator: a character, tab, or auto to detect it from the header line."
ENCODING = "Encoding of delimited text, such as cp1252 for files from Windows programs."
DECIMAL = "Decimal mark of numbers in delimited text: a point or a comma."
SEPARATORS = _words("auto", "tab", ";", ",", "|")
ENCODINGS = _words("utf-8", "cp1252", "latin-1", "utf-16")
ENGINES = _words("auto", "exact", "gibbs", "nuts")
COVERAGES = _words("simultaneous", "pointwise")
THREATS = _words("RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A", "log_loss_gain")
USEFULNESS = _words(
    two_way_error="what is kept of tables of each attribute by the sensitive one",
    margin_error="what is kept of tables of single attributes",
    loss="values that cells rule out",
    accuracy="secrets that a classifier names right",
)
EVIDENCE = _words(
    auto="whichever predicts held-out rows better",
    independent="each column in full",
    weighted="weights learned from the release",
)
MISSING = _words(
    error="refuse the file",
    unknown="any value; these people are not assessed",
    category="a value of its own",
    drop="leave out the row",
)
SCHEMES = _words(
    mondrian="boxes of at least k rows",
    recode="levels of hierarchies, global or --local",
    anatomy="two tables, linked by groups",
)
PRESETS = _words(
    ema_0070="0.09, EMA policy 0070",
    health_canada="0.09, public release of clinical information",
    cell_size_11="1/11, CMS cell size suppression policy",
    group_of_5="0.2, the customary rule of five",
    group_of_20="0.05, public files of patients",
)
STEPS = _words(
    collapsed="groups drawn with the parameters integrated out (default)",
    block="each group drawn exactly",
    tempered="parallel tempering, if chains disagree",
    swap="pairs of rows swapped, for large groups",
    permute="random permutations within groups",
    sequential="one row after another",
)
ESTIMATORS = _words(
    empirical="unbiased; shares may be negative",
    norm_sub="the distribution nearest to the unbiased shares",
    threshold="significant shares only",
    shrinkage="posterior means under a prior learned from all counts",
    ems="expectation maximization with smoothing (square_wave)",
    mle="maximum likelihood",
    em="plain expectation maximization",
    bayes="posterior mean and credible limits",
)
RULES = _words(
    worst_case="nothing is known (W)",
    prior="known lower bounds (P)",
    confidence="lower confidence limits from reports (C)",
    posterior="a posterior quantile (ours)",
    counts="the counts themselves: the largest budgets allowed",
)
GROUP = "group"
"""Group column of Anatomy releases made here."""
ACTORS: Mapping[str, dict[str, bool]] = {
    "stranger": {},
    "insider": {"group": True},
    "register holder": {"others": True},
    "collector": {"also": True},
}
"""Attackers whose name says what they have."""
DATASETS = _words(
    table1="cleartext",
    table1_recoded="horizontal",
    table1_anatomy="vertical",
    island="horizontal",
    clinic="cleartext",
    clinic_global="horizontal",
    clinic_local="horizontal",
    clinic_anatomy="vertical",
    adult="cleartext",
)
