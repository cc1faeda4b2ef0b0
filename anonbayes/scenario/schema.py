"""Checking a scenario's content, and describing what is allowed to editors and people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.scenario.keys import Key, keys_of

__all__ = ["ScenarioError", "build", "describe_keys", "json_schema"]

WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
         Path: "a path", tuple: "a list", list: "a list", dict: "a table"}  # fmt: skip
JSON_TYPES = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean",
              tuple: "array", list: "array", dict: "object"}  # fmt: skip


class ScenarioError(AnonbayesError):
    """A scenario file says something that cannot be meant; the message lists every problem."""


def build(section: type, content: Mapping[str, Any], *, base: Path, source: str) -> Any:
    """Make a section from the content of a file, or say everything that is wrong with it.

    Parameters
    ----------
    section : type
        The section's class.
    content : mapping
        What the file says.
    base : path
        Directory to which paths are relative.
    source : str
        Name of the file, for messages.

    Examples
    --------
    >>> from anonbayes.scenario.kinds import Model
    >>> build(Model, {"draws": 50, "method": "gibbs"}, base=Path(), source="x.toml").draws
    50
    >>> build(Model, {"drawz": 50}, base=Path(), source="x.toml")
    Traceback (most recent call last):
    anonbayes.scenario.schema.ScenarioError: x.toml: unknown key 'drawz'. Nearest known: 'draws'.
    """
    builder = _Builder(base)
    made = builder.section(section, content, "")
    if builder.problems:
        lines = [f"{source}: {problem}" for problem in builder.problems]
        raise ScenarioError("\n".join(lines))
    return made


class _Builder:
    """Builds sections and collects problems instead of stopping at the first."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.problems: list[str] = []

    def section(self, section: type, content: Any, where: str) -> Any:
        if not isinstance(content, Mapping):
            self.problems.append(f"{where} must be a table, got {content!r}.")
            return None
        known, before = keys_of(section), len(self.problems)
        for name in content:
            if name not in known:
                self.problems.append(f"unknown key {_join(where, name)!r}. {nearest(name, known)}")
        values = {}
        for name, key in known.items():
            path = _join(where, name)
            if name in content:
                values[name] = self.value(key, key.type, content[name], path)
            elif key.required:
                self.problems.append(f"{path} is missing: {key.about}")
        if len(self.problems) > before:
            return None
        made = section(**values)
        # What several keys say together.
        found = made.check() if hasattr(made, "check") else ()
        self.problems.extend(f"{where}: {text}" if where else text for text in found)
        return made

    def value(self, key: Key, kind: Any, value: Any, where: str) -> Any:
        if is_dataclass(kind):
            return self.section(kind, value, where)  # type: ignore[arg-type]
        if kind is Any:
            return value
        if not _fits(kind, value):
            self.problems.append(f"{where} must be {WORDS[kind]}, got {value!r}.")
            return None
        if kind is tuple:
            return tuple(self.value(key, key.item, v, f"{where}[{i}]") for i, v in enumerate(value))
        if kind is dict:
            return {k: self.value(key, key.item, v, _join(where, k)) for k, v in value.items()}
        if kind is Path:
            return self.path(key, value, where)
        if problem := _outside(key, value):
            self.problems.append(f"{where} = {value!r} {problem}")
        return float(value) if kind is float else value

    def path(self, key: Key, value: str, where: str) -> Path:
        path = self.base / Path(value).expanduser()
        there = {"file": path.is_file, "directory": path.is_dir}.get(key.there or "")
        if there is not None and not there():
            self.problems.append(
                f"{where}: there is no {key.there} {str(path)!r} (paths are relative to the "
                "scenario file)."
            )
        return path


def _fits(kind: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    allowed: dict[Any, Any] = {
        float: (int, float),
        tuple: (list, tuple),
        dict: Mapping,
        Path: str,
    }
    return isinstance(value, allowed.get(kind, kind))


def _outside(key: Key, value: Any) -> str | None:
    if key.choices and value not in key.choices:
        return f"is not known. {nearest(value, key.choices, n=1)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key.least is not None and not value >= key.least:
            return f"must be at least {key.least:g}."
        if key.above is not None and not value > key.above:
            return f"must be larger than {key.above:g}."
        if key.most is not None and not value <= key.most:
            return f"must be at most {key.most:g}."
    return None


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


# -- for editors --------------------------------------------------------------------------------


def json_schema(kinds: Mapping[str, type]) -> dict[str, Any]:
    """JSON schema of scenario files: one branch per kind.

    Examples
    --------
    >>> from anonbayes.scenario.kinds import KINDS
    >>> sorted(json_schema(KINDS))
    ['$schema', 'description', 'oneOf', 'properties', 'required', 'title', 'type']
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "anonbayes scenario",
        "description": "A question about a release, answered by `anonbayes run`.",
        "type": "object",
        "properties": {"kind": {"enum": list(kinds)}},
        "required": ["kind"],
        "oneOf": [
            _object(section) | {"title": kind, "description": _first_line(section)}
            for kind, section in kinds.items()
        ],
    }


def _object(section: type) -> dict[str, Any]:
    keys = keys_of(section)
    out: dict[str, Any] = {
        "type": "object",
        "properties": {name: _property(key) for name, key in keys.items()},
        "additionalProperties": False,
    }
    if required := [name for name, key in keys.items() if key.required]:
        out["required"] = required
    return out


def _property(key: Key) -> dict[str, Any]:
    out = {"description": key.about} | _typed(key, key.type)
    if key.default not in (None, (), {}) and not key.is_section:
        out["default"] = str(key.default) if isinstance(key.default, Path) else key.default
    return out


def _typed(key: Key, kind: Any) -> dict[str, Any]:
    if is_dataclass(kind):
        return _object(kind)  # type: ignore[arg-type]
    if kind is Any:
        return {}
    out: dict[str, Any] = {"type": JSON_TYPES[kind]}
    if kind is tuple:
        return out | {"items": _typed(key, key.item)}
    if kind is dict:
        return out | {"additionalProperties": _typed(key, key.item)}
    if key.choices:
        out["enum"] = list(key.choices)
    if kind in (int, float):
        limits = {"minimum": key.least, "maximum": key.most, "exclusiveMinimum": key.above}
        out |= {name: limit for name, limit in limits.items() if limit is not None}
    return out


# -- for people ---------------------------------------------------------------------------------


def describe_keys(kinds: Mapping[str, type]) -> str:
    """Every key of every kind as Markdown tables."""
    parts = []
    for kind, section in kinds.items():
        lines = [f"### `kind = \"{kind}\"`", "", _first_line(section), "",
                 "| key | value | default | meaning |", "|---|---|---|---|"]  # fmt: skip
        lines += [_line(path, key) for path, key in _walk(section, "")]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _walk(section: type, where: str) -> Iterator[tuple[str, Key]]:
    for name, key in keys_of(section).items():
        path = _join(where, name)
        if key.is_section:
            yield from _walk(key.type, path)
        elif key.holds_sections:
            yield from _walk(key.item, f"{path}[]" if key.type is tuple else f"{path}.NAME")
        else:
            yield path, key


def _line(path: str, key: Key) -> str:
    words = WORDS.get(key.type, "anything").removeprefix("a ")
    if key.choices:
        words = ", ".join(f"`{choice}`" for choice in key.choices)
    default = "needed" if key.required else "" if key.default in (None, (), {}) else _toml(key)
    return f"| `{path}` | {words} | {default} | {key.about} |"


def _toml(key: Key) -> str:
    value = key.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`".replace("'", '"')
    return f'`"{value}"`' if isinstance(value, str | Path) else f"`{value}`"


def _first_line(section: type) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]
