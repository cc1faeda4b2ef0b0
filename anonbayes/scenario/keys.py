"""How a section of a scenario file declares its keys.

A section is a frozen dataclass whose fields are made by `key`: type, default, limits and one
sentence on what it means. Everything else (checks, JSON schema, documentation) is derived.
"""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

__all__ = ["Key", "key", "keys_of"]

NEEDED: Any = MISSING


def key(
    about: str,
    default: Any = NEEDED,
    *,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    there: str | None = None,
) -> Any:
    """Declare a key of a section.

    Parameters
    ----------
    about : str
        One sentence: what it means.
    default : optional
        Value when the file does not have the key; without one the file must have it. A class is
        called for the default.
    choices : tuple of str
        The only texts allowed.
    least, most, above : float, optional
        Limits of a number, or of each number of a list; `above` itself is excluded.
    there : {"file", "directory"}, optional
        A path that must exist.
    """
    notes = {
        "about": about,
        "choices": choices,
        "least": least,
        "most": most,
        "above": above,
        "there": there,
    }
    if isinstance(default, type):
        return field(default_factory=default, metadata=notes)
    return field(default=default, metadata=notes)


@dataclass(frozen=True)
class Key:
    """A declared key.

    Attributes
    ----------
    name, about : str
        Its name and meaning.
    type : Any
        ``str``, ``int``, ``float``, ``bool``, ``Path``, ``Any``, ``tuple``, ``dict``, or a section.
    item : Any
        Type of the items of a tuple or of the values of a dict.
    required : bool
        Whether the file must have it.
    default : Any
        Otherwise.
    """

    name: str
    about: str
    type: Any
    item: Any
    required: bool
    default: Any
    choices: tuple[str, ...]
    least: float | None
    most: float | None
    above: float | None
    there: str | None

    @property
    def is_section(self) -> bool:
        """Whether the value is a table with keys of its own."""
        return is_dataclass(self.type)

    @property
    def holds_sections(self) -> bool:
        """Whether the value is a list, or a table, of such tables."""
        return is_dataclass(self.item)


@cache
def keys_of(section: type) -> dict[str, Key]:
    """Keys of a section by name.

    Examples
    --------
    >>> from anonbayes.scenario.kinds import Model
    >>> keys_of(Model)["draws"].default
    1000
    """
    hints = typing.get_type_hints(section)
    return {f.name: _key(f, hints[f.name]) for f in fields(section)}


def _key(declared: Field[Any], hint: Any) -> Key:
    if isinstance(hint, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    kind, item = typing.get_origin(hint) or hint, None
    if kind is tuple:
        item = typing.get_args(hint)[0]
    elif kind is dict:
        item = typing.get_args(hint)[1]
    required = declared.default is MISSING and declared.default_factory is MISSING
    default = None
    if not required:
        makes = declared.default_factory
        default = declared.default if makes is MISSING else makes()
    return Key(declared.name, type=kind, item=item, required=required, default=default,
               **declared.metadata)  # fmt: skip
