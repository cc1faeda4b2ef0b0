"""Making releases: Mondrian, recoding over hierarchies, Anatomy.

Every function takes a cleartext frame and returns a `ReleasedTable`.
"""

from anonbayes.release.schemes.anatomy import anatomy
from anonbayes.release.schemes.mondrian import mondrian
from anonbayes.release.schemes.passes import Pass, Recoding
from anonbayes.release.schemes.recode import recode

__all__ = ["Pass", "Recoding", "anatomy", "mondrian", "recode"]
