"""Schemes that make releases: Mondrian, recoding with hierarchies, Anatomy.

Every scheme takes a cleartext frame and returns a `ReleasedTable`.
"""

from __future__ import annotations

from anonbayes.anonymize.anatomy import anatomy
from anonbayes.anonymize.mondrian import mondrian
from anonbayes.anonymize.recode import Pass, Recoding, recode

__all__ = ["Pass", "Recoding", "anatomy", "mondrian", "recode"]
