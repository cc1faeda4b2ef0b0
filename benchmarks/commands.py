"""The first minute: what commands cost that a user types, each in a process of its own.

CPU seconds (user and system) and the largest resident size; the median of five runs. "Again" means
that an earlier run has compiled the kernels; the first run finds none. The full form keeps the
figures in `speed.json`, from which ``docs/speed.md`` is written.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.speed import keep

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
RUNS = 5
CLINIC = (
    "assess data/clinic_k4_l3_local.csv --cleartext data/clinic.csv --sensitive diagnosis "
    "--hierarchies data/clinic_hierarchies --seed 1 --force --out"
)
ADULT = (
    f"assess {SHARED}/arx/adult_5692_k4_l4_local.csv --cleartext {SHARED}/adult_5692.csv "
    f"--sensitive occupation --hierarchies {SHARED}/hierarchies --seed 1 --force --out"
)
ASKED = {
    "_ANONBAYES_COMPLETE": "complete_bash",
    "COMP_WORDS": "anonbayes assess --",
    "COMP_CWORD": "2",
}
COMPLETION = "from anonbayes.cli.app import main; import sys; sys.argv = ['anonbayes']; main()"


class Cost(NamedTuple):
    """What a process and those that it waited for have taken."""

    seconds: float
    megabytes: float


def cost(*command: str, **environment: str) -> Cost:
    """Run a command and say what it took."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | environment
    silent = [(os.POSIX_SPAWN_OPEN, to, os.devnull, os.O_WRONLY, 0) for to in (1, 2)]
    child = os.posix_spawnp(command[0], command, own, file_actions=silent)
    _, status, used = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def median(*command: str, **environment: str) -> Cost:
    """Cost of a command that has run before."""
    cost(*command, **environment)
    found = [cost(*command, **environment) for _ in range(RUNS)]
    return Cost(*(statistics.median(part) for part in zip(*found, strict=True)))


def from_nothing(folder: str) -> tuple[Cost, Cost]:
    """Cost of what `make report` does first, and of the report then; sizes on disk for memory."""
    venv, out = f"{folder}/venv", f"{folder}/first"
    made = cost("make", f"VENV={venv}", f"PYTHON={sys.executable}", f"{venv}/.installed")
    size = sum(p.lstat().st_blocks * 512 for p in Path(venv).rglob("*"))
    command = (f"{venv}/bin/anonbayes", *CLINIC.split(), out)
    return Cost(made.seconds, size / 2**20), cost(*command, NUMBA_CACHE_DIR=f"{folder}/kernels")


def main(*, short: bool = False) -> None:
    """Print a table."""
    os.chdir(ROOT)
    module = (sys.executable, "-m", "anonbayes")
    found: dict[str, Cost] = {
        "`anonbayes --help`": median(*module, "--help"),
        "completion of `anonbayes assess --`": median(sys.executable, "-c", COMPLETION, **ASKED),
    }
    with tempfile.TemporaryDirectory(prefix="anonbayes-commands-") as folder:
        if not short:
            clinic = (*module, *CLINIC.split(), f"{folder}/clinic")
            found["`make report`: the clinic, 3,000 people, with a page"] = median(*clinic)
            if SHARED.exists():
                adult = (*module, *ADULT.split(), f"{folder}/adult")
                found["the same for Adult, 5,692 people, ARX's k = l = 4, local"] = median(*adult)
            set_up, first = from_nothing(folder)
            found["setting up for `make report` (MB on disk)"] = set_up
            found["`make report` for the first time, after that"] = first
    # The system counts this process as a child's before that starts.
    least = 1.1 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = [
        [what, f"{one.seconds:.2f}", f"{one.megabytes:.0f}" if one.megabytes > least else ""]
        for what, one in found.items()
    ]
    for what, seconds, megabytes in rows:
        print(f"{what:60}{seconds:>8} s{megabytes:>8} MB")
    if not short:
        keep("commands", rows)
