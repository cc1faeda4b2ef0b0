"""What the processes do that the tests kill, starve and interrupt.

Imported by a server process, once; the processes are its forks, so that each is there at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import anonbayes as ab
import anonbayes.cli.app
from anonbayes import compat
from anonbayes.errors import FileError
from anonbayes.inference import run as running
from anonbayes.io.files import locked, mend, write_text, write_together

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
SETTINGS = {"tune": 40, "chains": 2, "cores": 2, "seed": 8, "progressbar": False}
KINDS = {
    "horizontal": {},
    "vertical": {"step": "collapsed", "keep_cleartext": [1, 4]},
    "tempered": {"step": "tempered", "temperatures": 3},
}


def table(kind: str) -> ab.ReleasedTable:
    """Small tables whose chains never end early."""
    if kind == "horizontal":
        frame = pd.DataFrame(
            {
                "nat": ["{M, J}", "{J, C}", "M", "{C, M}", "*", "{M, J}"],
                "sex": ["f", "*", "m", "f", "m", "f"],
                "ill": ["flu", "flu", "hiv", "flu", "hiv", "hiv"],
            }
        )
        return ab.ReleasedTable.horizontal(frame, "ill")
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(30), 3)
    qit = pd.DataFrame({"age": rng.integers(20, 26, 90), "sex": rng.choice(["f", "m"], 90)})
    ill = rng.choice(["flu", "hiv", "cold", "none"], 90)
    return ab.ReleasedTable.vertical(
        qit.assign(g=group), pd.DataFrame({"g": group, "ill": ill}), group="g", sensitive="ill"
    )


def fit(kind: str, draws: int, run: Path | None = None, **more: object) -> ab.Posterior:
    """Fit a kind of table, saving as often as can be."""
    running.SAVE_SECONDS = running.CHUNK_SECONDS = 0.003
    return ab.fit(table(kind), draws=draws, resume=run, **SETTINGS, **KINDS[kind], **more)


def die_when(function: str, nth: int, number: int = signal.SIGKILL) -> None:
    """Kill this process, as `kill -9` does, at the nth call of a function of `os`."""
    real, count = getattr(os, function), iter(range(1, 1_000_000))

    def counting(*arguments: object, **more: object) -> object:
        if next(count) == nth:
            os.kill(os.getpid(), number)
            time.sleep(60)
        return real(*arguments, **more)

    setattr(os, function, counting)


def doomed_fit(kind: str, run: Path, function: str, nth: int) -> None:
    """Fit until the process dies."""
    die_when(function, nth)
    fit(kind, 10_000_000, run)


def command(arguments: list[str], said: Path, limit: int | None = None) -> None:
    """Run the command line; what it says on either stream goes to a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.argv = ["anonbayes", *arguments]
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            anonbayes.cli.app.main()
    finally:
        os.write(os.open(said, os.O_CREAT | os.O_WRONLY), text.getvalue().encode()[:4000])


def stopped_command(
    arguments: list[str], said: Path, function: str, nth: int, number: int = signal.SIGTERM
) -> None:
    """Run the command line and get a signal at the nth call of a function of `os`."""
    die_when(function, nth, number)
    command(arguments, said)


SET = ("page", "draws", "seal")


def write_set(folder: Path, text: str, function: str = "", nth: int = 0) -> None:
    """Write three files that belong together, and die meanwhile."""
    if function:
        die_when(function, nth)
    mend(folder)
    write_together(folder, {name: partial(write_text, text=text) for name in SET})


def mend_set(folder: Path, function: str, nth: int) -> None:
    """Clear up after a killed run, and die meanwhile."""
    die_when(function, nth)
    mend(folder)


def add_up(place: Path, number: Path, times: int) -> None:
    """Add 1 to the number in a file so many times, each time with the lock of a place."""
    done = 0
    while done < times:
        with contextlib.suppress(FileError), locked(place):
            before = int(number.read_text())
            time.sleep(0.001)
            number.write_text(str(before + 1))
            done += 1


def fill_up(file: Path, said: Path) -> None:
    """Write draws that do not fit, three times, and end as a process ends."""
    draws = np.random.default_rng(1).normal(size=(4, 5000, 3))
    for _ in range(3):
        try:
            compat.write_groups(compat.make_groups({"posterior": {"x": draws}}), file, attrs={})
        except OSError as error:
            said.write_text(type(error).__name__)


def assess(out: Path, *more: object) -> list[str]:
    """Arguments of an assessment that takes a moment."""
    return [
        "assess", str(DATA / "table1_qit.csv"), "--anatomy", str(DATA / "table1_st.csv"),
        "--group", "GID", "--cleartext", str(DATA / "table1.csv"), "--sensitive", "Dis",
        "--draws", "50", "--tune", "20", "--seed", "3", "--out", str(out), *map(str, more),
    ]  # fmt: skip


def scenario(folder: Path, draws: int = 50) -> Path:
    """Write a scenario with every kind of output, and return its file."""
    file = folder / "mine.toml"
    file.write_text(
        f'kind = "assessment"\nquestion = "Who is threatened?"\nseed = 1\n'
        f'release.dataset = "table1_recoded"\ncleartext.dataset = "table1"\n'
        f'model = {{method = "gibbs", draws = {draws}, tune = 20}}\n'
    )
    return file


def warm_up() -> None:
    """Compile and load everything once, before the processes are forked."""
    for kind in KINDS:
        fit(kind, 5)
    risk = ab.fit(ab.datasets.load("table1_recoded"), draws=50, seed=1, progressbar=False)
    ab.report(risk, risk.assess(ab.datasets.load("table1")), "/dev/null")


if os.environ.pop("FAULT_SERVER", None):
    warm_up()
