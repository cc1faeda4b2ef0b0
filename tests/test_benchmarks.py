"""The benchmark command finds its areas, and the goals hold at a small scale."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_command_lists_areas_and_refuses_others():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 2 and "tables" in done.stderr


def test_the_page_of_speed_says_what_was_measured():
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks import speed
    finally:
        sys.path.remove(str(ROOT))
    kept = json.loads(speed.KEPT.read_text())
    assert speed.PAGE.read_text() == speed.page(kept)
    assert speed.exponent([10, 100, 1000], [9.0, 2.0, 20.0]) == pytest.approx(1.0)
    # Time in rows grows no faster than the goal, or the page names the cause.
    for scheme, axis, _, part in speed.lines(kept["found"]):
        at = [one["at"] for one in part]
        for stage in speed.STAGES if axis == "rows" else ():
            grown = speed.exponent(at, [one["stages"][stage]["seconds"] for one in part])
            assert grown <= speed.GOAL or f"{scheme} {axis}" in kept["causes"]


def test_memory_is_linear_with_small_codes():
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.tables import HIERARCHIES, kept_bytes, made_up
    finally:
        sys.path.remove(str(ROOT))
    from anonbayes import ReleasedTable

    sizes = {
        n: kept_bytes(ReleasedTable.horizontal(made_up(n), "diagnosis", hierarchies=HIERARCHIES))
        for n in (2_000, 20_000)
    }
    per_row = (sizes[20_000] - sizes[2_000]) / 18_000
    assert per_row < 200  # bytes: 200 MB for a million rows
    assert per_row < 30  # nine columns of one or two bytes, a group, and a share of the counts
