"""How sections of a request declare their keys, and what is derived from that.

A section is a pydantic model whose fields are made by `key`: type, default, limits, and a sentence
that describes the key. `build` makes sections from the content of a file or from a command's
options, and reports all problems at once; the JSON schema for editors and the tables in the
documentation are derived from the same declarations.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import PydanticCustomError

from anonbayes.errors import AnonbayesError, nearest

Item = TypeVar("Item")
S = TypeVar("S", bound="Section")


class ScenarioError(AnonbayesError):
    """A scenario is invalid; the message lists every problem."""


# -------------------------------------------------------------------------------------------------
# Declaring keys.


def key(about: str, default: Any = ..., **limits: Any) -> Any:
    """Declare a key of a section: its description, its default, and limits of numbers.

    A key without a default is required; a class as default is called. Limits are pydantic's, such
    as ``ge``.
    """
    if isinstance(default, type):
        return Field(default_factory=default, description=about, **limits)
    return Field(default, description=about, **limits)


class Section(BaseModel):
    """A table of a scenario file: its keys are its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys whose values are valid by themselves."""
        yield from ()

    @model_validator(mode="after")
    def _together(self) -> Section:
        if problems := list(self.check()):
            raise PydanticCustomError("together", "{text}", {"text": "\n".join(problems)})
        return self


def _located(value: Any, info: ValidationInfo) -> Any:
    """Resolve a path relative to the file that contains it."""
    base = (info.context or {}).get("base", Path())
    return base / Path(value).expanduser() if isinstance(value, str | Path) else value


def _there(what: str) -> AfterValidator:
    def check(path: Path, info: ValidationInfo) -> Path:
        # Commands report missing files when they read them; a folder of parts may be meant.
        in_file = bool(info.context)
        if in_file and not (path.is_file() if what == "file" else path.is_dir()):
            text = f"there is no {what} {str(path)!r} (paths are relative to the scenario file)."
            raise PydanticCustomError("there", "{text}", {"text": text})
        return path

    return AfterValidator(check)


AnyPath = Annotated[Path, BeforeValidator(_located)]
File = Annotated[AnyPath, _there("file")]
Directory = Annotated[AnyPath, _there("directory")]
Several = Annotated[
    tuple[Item, ...], BeforeValidator(lambda value: tuple(value) if type(value) is list else value)
]
"""A list whose items are validated."""
OneOrMore = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    BeforeValidator(lambda value: tuple(value) if type(value) is list else value),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]
"""A text, or a list of texts."""


def word_of(words: Iterable[str]) -> Any:
    """Return the type of a key that must be one of several words."""
    return typing.Literal[tuple(words)]


# -------------------------------------------------------------------------------------------------
# From content to sections.

WHOLE, LIST, TABLE = "a whole number", "a list", "a table"
WORDS = {"string": "text", "int": WHOLE, "float": "a number", "bool": "true or false",
         "path": "a path", "tuple": LIST, "list": LIST, "dict": TABLE, "model": TABLE,
         "mapping": TABLE}  # fmt: skip
BOUNDS = {"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "larger than"),
          "less_than_equal": ("le", "at most")}  # fmt: skip


def build(
    section: type[S],
    content: Mapping[str, Any],
    *,
    base: Path | None = None,
    source: str = "",
    options: Mapping[str, str] | None = None,
) -> S:
    """Make a section from the content of a file, or raise an error with all problems.

    Paths are relative to `base`, and files must exist there; without `base`, the content does not
    come from a file. Messages begin with `source`; `options` replace keys in messages of commands.
    """
    try:
        return section.model_validate(content, context=None if base is None else {"base": base})
    except ValidationError as error:
        words = _Words(options)
        found = [line for one in error.errors() for line in _problems(section, one, words)]
    before = f"{source}: " if source else ""
    raise ScenarioError("\n".join(f"{before}{problem}" for problem in found)) from None


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Replace keys in a message by a command's options."""
    words = _Words(options)
    text = re.sub(r"\[{1,2}(\w+)\]{1,2}", lambda found: words.name(found[1]), text)

    def called(found: re.Match[str]) -> str:
        known = found[1] in _section_names(Section)
        return words.name(found[0].removesuffix(" =")) if known else found[0]

    return re.sub(r"\b(\w+)(?:\.\w+)+(?: =)?", called, text)


def _section_names(parent: type[Section]) -> set[str]:
    """Names of the sections of requests."""
    own = {name for name, field in parent.model_fields.items() if _sections(field)}
    return own.union(*(_section_names(child) for child in parent.__subclasses__()))


@dataclass(frozen=True)
class _Words:
    """Names of keys in messages: as in a file, or as options of a command."""

    options: Mapping[str, str] | None

    def name(self, where: str) -> str:
        if self.options is None:
            return where
        above, _, last = where.rpartition(".")
        if "." in above and above in self.options:  # a named entry, such as a column's domain
            return f"{self.options[above]} {last}"
        return self.options.get(where) or "--" + re.split(r"[.\[]", where)[-1].replace("_", "-")

    def value(self, where: str, value: Any) -> str:
        return f"{self.name(where)}{' = ' if self.options is None else ' '}{value!r}"

    def sentence(self, where: str, text: str, known: Iterable[str]) -> str:
        """Replace ``@key`` in a sentence by a key of the section at `where`."""
        before = f"{where}." if where else ""
        for name in known:
            called = name if self.options is None else self.name(before + name)
            text = re.sub(rf"(?<!\w)@{name}\b", called, text)
        if self.options is None:
            return f"{where}: {text}" if where else text
        text = in_options(text, self.options)
        return text[0].upper() + text[1:]


def _problems(section: type[Section], error: Any, words: _Words) -> Iterator[str]:
    """Describe a pydantic error in our words."""
    place, kind, value, more = error["loc"], error["type"], error["input"], error.get("ctx", {})
    where = _dotted(place)
    if kind == "together":
        known = _section_at(section, place).model_fields
        yield from (words.sentence(where, text, known) for text in more["text"].splitlines())
    elif kind == "there":
        yield f"{words.name(where)}: {more['text']}"
    elif kind == "extra_forbidden":
        known = _section_at(section, place[:-1]).model_fields
        yield f"unknown key {where!r}. {nearest(str(place[-1]), known)}"
    elif kind == "missing":
        field = _section_at(section, place[:-1]).model_fields[str(place[-1])]
        yield f"{words.name(where)} is missing: {field.description}"
    elif kind == "literal_error":
        choices = re.findall(r"'([^']*)'", more["expected"])
        hint = nearest(str(value), choices, n=1)
        yield f"{words.value(where, value)} is not valid. {hint}"
    elif kind in BOUNDS:
        name, bound = BOUNDS[kind]
        yield f"{words.value(where, value)} must be {bound} {more[name]:g}."
    else:
        what = WORDS.get(kind.split("_")[0], "something else")
        yield f"{words.name(where)} must be {what}, got {value!r}."


def _dotted(place: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _section_at(section: type[Section], place: tuple[int | str, ...]) -> type[Section]:
    for part in place:
        field = section.model_fields.get(str(part))  # or a number, or a name of the user's
        section = section if field is None else _sections(field)[0]
    return section


def _sections(field: FieldInfo) -> list[type[Section]]:
    """Sections that a key can contain: directly, in a list, or by name."""
    return [part for part in _parts(field.annotation) if _is_section(part)]


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Section)


# -- for options of commands ----------------------------------------------------------------------


@dataclass(frozen=True)
class Declared:
    """A declared key."""

    hint: Any
    default: Any
    about: str

    @property
    def outer(self) -> Any:
        """Type of the value, without the types of its items."""
        return _outer(self.hint)

    @property
    def option_type(self) -> Any:
        """Type of the corresponding option; tables and weights are given as text."""
        if self.outer in (str, int, float, bool, Path):
            return self.outer
        if self.outer is typing.Literal:
            return str
        inner = typing.get_args(self.hint)
        return list[float] if self.outer is tuple and float in _parts(inner[0]) else list[str]

    def about_in(self, options: Mapping[str, str]) -> str:
        """Description, with options of a command in place of keys."""
        return in_options(self.about, options)


def find_key(section: type[Section], dotted: str) -> Declared:
    """Find a key below a section by its dotted name."""
    *parents, last = dotted.split(".")
    field = _section_at(section, tuple(parents)).model_fields[last]
    default = ... if field.is_required() else field.get_default(call_default_factory=True)
    return Declared(field.annotation, default, field.description or "")


# -- for editors ----------------------------------------------------------------------------------


class _Schema(GenerateJsonSchema):
    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])  # TOML has no null

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        return {k: v for k, v in found.items() if k != "default" or v not in (None, [], {})}


def json_schema(kinds: Mapping[str, type[Section]]) -> dict[str, Any]:
    """JSON schema of scenario files, with a branch for each kind."""
    named, more = models_json_schema(
        [(section, "validation") for section in kinds.values()], schema_generator=_Schema
    )
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "anonbayes scenario",
        "description": "A question about a release, answered by `anonbayes run`.",
        "type": "object",
        "properties": {"kind": {"enum": list(kinds)}},
        "required": ["kind"],
        "oneOf": [named[section, "validation"] for section in kinds.values()],
        "$defs": more["$defs"],
    }


# -- for people -----------------------------------------------------------------------------------

TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path",
         tuple: "list", list: "list", dict: "table"}  # fmt: skip


def describe_keys(kinds: Mapping[str, type[Section]]) -> str:
    """Return all keys of all kinds as Markdown tables."""
    parts = []
    for kind, section in kinds.items():
        lines = [f"### `kind = \"{kind}\"`", "", (section.__doc__ or "").splitlines()[0], "",
                 "| key | value | default | meaning |", "|---|---|---|---|"]  # fmt: skip
        # The kind comes first, keys that all kinds share come last.
        found = sorted(
            _walk(section, ""), key=lambda one: (one[0] != "kind", one[0].startswith("outputs"))
        )
        lines += [_line(path, field) for path, field in found]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _walk(section: type[Section], where: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        path = f"{where}.{name}" if where else name
        if inner := _sections(field):
            many = {tuple: f"{path}[]", dict: f"{path}.NAME"}
            yield from _walk(inner[0], many.get(_outer(field.annotation), path))
        else:
            yield path, field


def _outer(hint: Any) -> Any:
    """Type without Optional and Annotated, and without the types of its items."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_origin(hint) or hint


def _line(path: str, field: FieldInfo) -> str:
    outer = _outer(field.annotation)
    words = TYPES.get(outer, "anything")
    choices = [
        part for part in _parts(field.annotation) if typing.get_origin(part) is typing.Literal
    ]
    if choices:
        words = ", ".join(f"`{choice}`" for choice in typing.get_args(choices[0]))
    value = None if field.is_required() else field.get_default(call_default_factory=True)
    default = "needed" if field.is_required() else "" if value in (None, (), {}) else _toml(value)
    return f"| `{path}` | {words} | {default} | {field.description} |"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`".replace("'", '"')
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
