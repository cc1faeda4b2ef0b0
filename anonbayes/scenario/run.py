"""`run`: from a scenario to its result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from anonbayes.cluster import check_client
from anonbayes.scenario.schema import ScenarioError

if TYPE_CHECKING:
    from anonbayes.scenario.load import Scenario
    from anonbayes.scenario.outputs import Result

__all__ = ["check_parallel", "on_cluster", "prepare", "run"]


class Prepared(Protocol):
    """A scenario whose inputs have been read and checked."""

    def run(self) -> Result:
        """Do the expensive part."""
        ...


def prepare(scenario: Scenario) -> Prepared:
    """Read all inputs of a scenario and check them; nothing expensive happens here."""
    settings = scenario.settings
    # Each kind brings its own part of the package along; the others stay unloaded.
    if settings.kind == "assessment":
        from anonbayes.scenario import assessment

        if scenario.variants:
            return assessment.prepare_sweep(scenario)
        return assessment.prepare(settings)
    if settings.kind == "survey":
        from anonbayes.scenario import survey

        return survey.prepare(settings)
    if settings.kind == "checkins":
        from anonbayes.scenario import checkins

        return checkins.prepare(settings)
    if settings.kind == "traces":
        from anonbayes.scenario import traces

        return traces.prepare(settings)
    from anonbayes.scenario import query

    return query.prepare(settings)


def on_cluster(scenario: Scenario, prepared: Prepared, client: Any) -> Prepared:
    """Return the prepared scenario as one that a Dask cluster runs; the results are the same.

    The releases of a sweep are assessed side by side; a single release has its chains and the
    beliefs about its people side by side.
    """
    check_parallel(scenario)
    check_client(client)
    return replace(prepared, client=client)  # type: ignore[type-var]


def check_parallel(scenario: Scenario) -> None:
    """Raise `ScenarioError` if a scenario has nothing that can run side by side."""
    if scenario.settings.kind != "assessment":
        raise ScenarioError(
            f"{scenario.path.name}: a scenario of kind {scenario.settings.kind!r} runs in one "
            "piece; several workers are of no use to it."
        )


def run(scenario: Scenario, *, client: Any = None) -> Result:
    """Answer a scenario's question.

    Parameters
    ----------
    scenario : Scenario
        The question.
    client : distributed.Client, optional
        Runs it on a Dask cluster (see `on_cluster`).

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
