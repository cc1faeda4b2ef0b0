"""From a TOML file, or a command's options, to a checked scenario and its result."""

from __future__ import annotations

import copy
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anonbayes.errors import nearest
from anonbayes.scenario.keys import ScenarioError, Section, build

if TYPE_CHECKING:
    from anonbayes.scenario.outputs import Result


class _Kinds(Mapping[str, type[Section]]):
    """Kinds of scenarios by name; each is imported when needed."""

    places = MappingProxyType(
        {
            "assessment": "release_assessment.Assessment",
            "survey": "survey.Survey",
            "checkins": "checkins.Checkins",
            "traces": "traces.TracesScenario",
            "query": "query.Query",
            "identity": "unique_people.IdentityQuestion",
        }
    )

    def __getitem__(self, kind: str) -> type[Section]:
        module, name = self.places[kind].split(".")
        found: type[Section] = getattr(import_module(f"anonbayes.scenario.{module}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


KINDS: Mapping[str, type[Section]] = _Kinds()
"""The kinds of scenarios; their classes declare the keys and answer the question."""
MOST_VARIANTS = 200


@dataclass(frozen=True)
class Scenario:
    """A checked scenario; if made from options, a name takes the place of the path.

    `content` is the input including overrides; `settings` the same, validated and with defaults;
    `variants` are the settings of each member of a sweep, by name.
    """

    path: Path
    content: Mapping[str, object]
    settings: Any
    variants: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the file without its extension."""
        return self.path.stem

    @property
    def directory(self) -> Path:
        """Directory of the results, unless overridden."""
        return self.settings.outputs.directory or self.path.parent / "out" / self.name


def load(path: str | Path, *, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario from a TOML file and check it completely; all problems are listed.

    Paths in it are relative to the file. Overrides have the form ``key=value`` with a dotted key
    and a TOML value (bare words are texts), such as ``"model.draws=200"``.
    """
    file = Path(path)
    content = _read(file)
    for text in overrides:
        _override(content, text)
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        said = "has no kind" if kind is None else f"has kind = {kind!r}"
        hint = f"Kinds: {', '.join(KINDS)}." if kind is None else nearest(kind, KINDS)
        raise ScenarioError(f"{file.name} {said}. {hint}")
    settings = build(KINDS[kind], _completed(content), base=file.parent, source=file.name)
    return Scenario(file, content, settings, _variants(file, content, KINDS[kind]))


def request(
    kind: str, keys: Mapping[str, Any], *, name: str, options: Mapping[str, str] | None = None
) -> Scenario:
    """Make the scenario that options, or a program, describe.

    Keys are dotted, as in ``"model.draws"``; None, an empty list or an empty table leaves a key at
    its default, and paths are relative to the working directory. Messages name keys as in
    `options`, or by their last word.
    """
    content: dict[str, Any] = {"kind": kind}
    for dotted, value in keys.items():
        if value is None or (isinstance(value, list | tuple | dict) and not value):
            continue
        *parents, last = dotted.split(".")
        place = content
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    settings = build(KINDS[kind], content, options={} if options is None else options)
    return Scenario(Path(name), content, settings, {})


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"There is no file {str(file)!r}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{str(file)!r} cannot be read: {error}.") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file.name} is not valid TOML: {error}.") from None


def _override(content: dict[str, Any], text: str) -> None:
    name, equals, value = text.partition("=")
    if not equals:
        raise ScenarioError(f"--set {text!r} must be key=value, such as model.draws=200.")
    try:
        meant = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        meant = value.strip()
    _assign(content, name.strip(), meant)


def _assign(content: dict[str, Any], name: str, value: Any) -> None:
    """Set a dotted key; its parts may be quoted as in TOML."""
    try:
        nested = tomllib.loads(f"{name} = 0")
    except tomllib.TOMLDecodeError:
        raise ScenarioError(f"{name!r} is not a key; an example is model.draws.") from None
    place = content
    while True:
        ((part, nested),) = nested.items()
        if not isinstance(nested, dict):
            break
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise ScenarioError(f"{name!r} cannot be set: {part!r} is not a table.")
    place[part] = value


def _completed(content: Mapping[str, object]) -> Mapping[str, Any]:
    """Give keys that only a sweep sets the first value of the sweep."""
    sweep = content.get("sweep")
    completed = copy.deepcopy(dict(content))
    for name, values in sweep.items() if isinstance(sweep, dict) else ():
        if isinstance(values, list) and values and not _has(content, name):
            _assign(completed, name, values[0])
    return completed


def _has(content: Mapping[str, object], name: str) -> bool:
    place: object = content
    for part in name.split("."):
        if not isinstance(place, Mapping) or part not in place:
            return False
        place = place[part]
    return True


def _variants(file: Path, content: Mapping[str, object], section: type) -> dict[str, Any]:
    """Return the settings of each member of a sweep: every combination of its values."""
    sweep = content.get("sweep")
    if not isinstance(sweep, Mapping) or not sweep:
        return {}
    axes = {name: list(values) for name, values in sweep.items()}
    if empty := [name for name, values in axes.items() if not values]:
        raise ScenarioError(f"{file.name}: sweep.{empty[0]!r} has no values.")
    combinations = list(itertools.product(*axes.values()))
    if len(combinations) > MOST_VARIANTS:
        raise ScenarioError(
            f"{file.name}: the sweep has {len(combinations)} members, more than {MOST_VARIANTS}; "
            "split it."
        )
    out: dict[str, Any] = {}
    for values in combinations:
        changed = copy.deepcopy({k: v for k, v in content.items() if k != "sweep"})
        for name, value in zip(axes, values, strict=True):
            _assign(changed, name, value)
        label = " ".join(
            f"{name.rsplit('.', 1)[-1]}={value}" for name, value in zip(axes, values, strict=True)
        )
        out[label] = build(section, changed, base=file.parent, source=f"{file.name} ({label})")
    return out


# -------------------------------------------------------------------------------------------------
# From a scenario to its result.


def prepare(scenario: Scenario) -> Any:
    """Read and check all inputs of a scenario, before anything expensive."""
    from anonbayes.scenario.outputs import announce

    announce("Reading the files ...")
    settings: Any = scenario.settings
    return settings.prepare(scenario.variants) if scenario.variants else settings.prepare()


def on_cluster(scenario: Scenario, prepared: Any, client: Any) -> Any:
    """Return the prepared scenario in a form that runs on a Dask cluster, with the same results.

    It runs the releases of a sweep, or the chains and beliefs of a single release, in parallel.
    """
    from anonbayes.cluster import check_client

    check_parallel(scenario)
    check_client(client)
    return replace(prepared, client=client)


def check_parallel(scenario: Scenario) -> None:
    """Raise `ScenarioError` if nothing in the scenario can run in parallel."""
    if scenario.settings.kind != "assessment":
        raise ScenarioError(
            f"{scenario.path.name}: a scenario of kind {scenario.settings.kind!r} cannot use "
            "several workers; leave out --workers."
        )


def run(scenario: Scenario, *, client: Any = None) -> Result:
    """Answer a scenario's question, with `client` on a Dask cluster (see `on_cluster`).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from anonbayes.scenario.load import load
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.toml"
    >>> _ = file.write_text('''
    ... kind = "assessment"
    ... question = "What does the table tell about a Malaysian?"
    ... seed = 1
    ... release.dataset = "table1_recoded"
    ... cleartext.dataset = "table1"
    ... ''')
    >>> round(run(load(file)).measures["GT_A"], 3)
    0.75
    """
    if client is not None:
        check_parallel(scenario)
    prepared = prepare(scenario)
    return (prepared if client is None else on_cluster(scenario, prepared, client)).run()
