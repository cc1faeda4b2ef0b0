"""`run`: from a scenario to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from anonbayes.scenario.load import Scenario
    from anonbayes.scenario.result import Result

__all__ = ["prepare", "run"]


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


def run(scenario: Scenario) -> Result:
    """Answer a scenario's question.

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
    return prepare(scenario).run()
