"""Global and local recoding: every attribute is shown on a level of its hierarchy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain
from anonbayes.errors import AnonymizationError, DomainError, one_of
from anonbayes.release.columns import Column
from anonbayes.release.readers import set_apart
from anonbayes.release.schemes.assemble import cell_column, horizontal_table
from anonbayes.release.schemes.cleartext import Cleartext, Trees, check_privacy
from anonbayes.release.schemes.levels import Levels
from anonbayes.release.schemes.losses import LOSSES
from anonbayes.release.schemes.passes import Recoder, Recoding
from anonbayes.release.schemes.records import RecordSet
from anonbayes.release.table import ReleasedTable

__all__ = ["recode"]

LARGEST_LATTICE = 5_000_000


@overload
def recode(
    df: pd.DataFrame,
    sensitive: str,
    hierarchies: Trees,
    k: int,
    l: int = ...,  # noqa: E741
    *,
    suppression: float = ...,
    local: bool = ...,
    loss: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: Mapping[str, Domain | Iterable[Any]] | None = ...,
    return_recoding: Literal[False] = ...,
) -> ReleasedTable: ...
@overload
def recode(
    df: pd.DataFrame,
    sensitive: str,
    hierarchies: Trees,
    k: int,
    l: int = ...,  # noqa: E741
    *,
    suppression: float = ...,
    local: bool = ...,
    loss: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: Mapping[str, Domain | Iterable[Any]] | None = ...,
    return_recoding: Literal[True],
) -> tuple[ReleasedTable, Recoding]: ...
def recode(
    df: pd.DataFrame,
    sensitive: str,
    hierarchies: Trees,
    k: int,
    l: int = 1,  # noqa: E741
    *,
    suppression: float = 0.0,
    local: bool = False,
    loss: str = "loss",
    quasi_identifiers: Iterable[str] | None = None,
    domains: Mapping[str, Domain | Iterable[Any]] | None = None,
    return_recoding: bool = False,
) -> ReleasedTable | tuple[ReleasedTable, Recoding]:
    """Generalize each attribute to a level of its hierarchy, with the least loss possible.

    Groups smaller than `k` or with fewer than `l` distinct sensitive values are suppressed: their
    rows show ``*`` everywhere and keep their sensitive value. Global recoding uses one level per
    attribute for all rows and is optimal: no other levels have a smaller loss. Local recoding
    then takes the rows that would be suppressed and recodes them again at other levels, until
    nothing is gained; each pass is optimal for its rows, the sequence is greedy, and the release
    never loses more than by global recoding.

    Parameters
    ----------
    df : pandas.DataFrame
        Cleartext, one row per person.
    sensitive : str
        Sensitive column, released unchanged.
    hierarchies : mapping or path
        Hierarchy (or its ARX file) of each quasi-identifier, or a directory of such files.
    k : int
        Least size of a group.
    l : int
        Least number of distinct sensitive values of a group (distinct l-diversity).
    suppression : float
        Largest share of rows that the release may suppress.
    local : bool
        Recode suppressed rows again.
    loss : {"loss", "mean_loss", "entropy", "precision", "discernibility"}
        What to minimise. ``"loss"`` is ARX's *Loss* at its defaults: the share of an attribute's
        domain that a cell covers, scaled so that values in clear lose 0 and ``*`` loses 1,
        averaged over rows, and over attributes by ``prod(1 + loss_a)^(1/A) - 1``.
        ``"mean_loss"`` takes the arithmetic mean over attributes. ``"entropy"`` counts the bits
        that cells hide, relative to hiding everything; ``"precision"`` the height in the
        hierarchy. ``"discernibility"`` is ARX's *Discernability*: for each row the number of rows
        in its group, or of all rows if it is suppressed.
    quasi_identifiers : iterable of str, optional
        Columns to recode; all but `sensitive` by default. Other columns are not released.
    domains : mapping, optional
        Domain, or list of values, by column; a hierarchy's leaves by default.
    return_recoding : bool
        Return the levels, the loss and the search as well.

    Returns
    -------
    ReleasedTable
        Rows in the order of `df`; suppressed rows belong to no group.
    Recoding
        Only with ``return_recoding=True``.

    Raises
    ------
    AnonymizationError
        When no levels satisfy k, l and the limit; the message says what is possible. A release
        that shows nothing at all does not count.

    Notes
    -----
    The search is exact because violations of k and of distinct l are monotone: see `lattice`.
    Ties go to fewer suppressed rows, then to lower levels, then to the order of columns, so the
    result depends on nothing but the arguments.

    Examples
    --------
    >>> import pandas as pd
    >>> import anonbayes as ab
    >>> df = pd.DataFrame({"zip": ["11", "12", "21", "22"], "ill": ["flu", "cold", "flu", "cold"]})
    >>> tree = {"zip": ab.Hierarchy.from_prefix(["11", "12", "21", "22"])}
    >>> ab.anonymize.recode(df, "ill", tree, k=2, l=2).to_frame()["zip"].tolist()
    ['1*', '1*', '2*', '2*']
    """
    one_of("loss", loss, LOSSES)
    share = _share(suppression)
    cleartext = Cleartext.of(
        df,
        sensitive,
        quasi_identifiers=quasi_identifiers,
        domains=domains,
        hierarchies=hierarchies,
    )
    k, l = check_privacy(cleartext, k, l)  # noqa: E741
    for domain in cleartext.domains.values():
        if "*" in domain.by_label:
            raise DomainError(
                f"Column {domain.name!r} has the value '*', by which suppressed rows are marked; "
                "rename it."
            )
    levels = [Levels.of(domain) for domain in cleartext.domains.values()]
    _check_size(cleartext, levels)
    records, record_of = RecordSet.of(cleartext, levels)
    recoder = Recoder(records, k, l, loss, math.floor(share * cleartext.n_rows + 1e-9))
    plan = recoder.local_plan() if local else recoder.global_plan()
    table = set_apart(_release(cleartext, levels, recoder.heights(plan), record_of))
    if not return_recoding:
        return table
    names = list(cleartext.domains)
    passes = tuple(recoder.describe(found, rows, names) for found, rows in plan)
    total = recoder.loss_of(plan, table.group_sizes.to_numpy(dtype=float))
    return table, Recoding(passes, total, loss, table.n_suppressed)


def _release(
    cleartext: Cleartext,
    levels: Sequence[Levels],
    heights: Sequence[npt.NDArray[np.int64]],
    record_of: npt.NDArray[np.int64],
) -> ReleasedTable:
    """Table whose rows show the cells on their record's levels."""
    columns = [
        _column(level, height[record_of], codes)
        for level, height, codes in zip(levels, heights, cleartext.codes, strict=True)
    ]
    return horizontal_table(cleartext, dict(zip(cleartext.domains, columns, strict=True)))


def _column(level: Levels, height: npt.NDArray[np.int64], codes: npt.NDArray[Any]) -> Column:
    width = len(level.domain)
    return cell_column(
        level.domain,
        height * width + level.cells[height, codes],
        lambda cell: level.members(*divmod(cell, width)),
        lambda cell, members: level.label(cell // width, members),
    )


def _share(suppression: float) -> float:
    try:
        share = float(suppression)
    except (TypeError, ValueError):
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise AnonymizationError(
            f"suppression={suppression!r} must be a share of rows between 0 and 1."
        )
    return share


def _check_size(cleartext: Cleartext, levels: Sequence[Levels]) -> None:
    nodes = math.prod(len(level) for level in levels)
    if nodes > LARGEST_LATTICE:
        shape = ", ".join(f"{n}: {len(v)}" for n, v in zip(cleartext.domains, levels, strict=True))
        raise AnonymizationError(
            f"The lattice has {nodes:,} nodes (levels of {shape}); at most {LARGEST_LATTICE:,} are "
            "searched. Give hierarchies with fewer levels or leave columns out."
        )
