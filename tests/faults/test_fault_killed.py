"""kill -9 at any moment: the run goes on as if nothing had happened."""

import os
import signal
import time

import fault_work
import numpy as np
import pytest

DRAWS = 400
# Calls of `os` after which the disk is in another state: the part is written but not on the disk,
# is on the disk under its other name, has its name, is counted or not by the state.
MOMENTS = [("fsync", 1), ("replace", 2), ("fsync", 6), ("replace", 5), ("fsync", 9), ("replace", 8)]


def kept(run):
    """Finished draws of each chain, read from its state."""
    states = [run / f"chain-{chain}" / "state.npz" for chain in (0, 1)]
    return [max(0, int(np.load(f)["done"]) - 40) if f.exists() else 0 for f in states]


@pytest.mark.parametrize("kind", fault_work.KINDS)
def test_nothing_is_lost_or_repeated(kind, start, tmp_path):
    run = tmp_path / "run"
    before = [0, 0]
    for function, nth in MOMENTS:
        process = start(fault_work.doomed_fit, kind, run, function, nth)
        process.join(150)
        assert process.exitcode == -signal.SIGKILL
        assert all(np.array(kept(run)) >= before), "finished draws are gone"
        before = kept(run)
    for delay in (0.05, 0.15, 0.3):
        process = start(fault_work.fit, kind, 10_000_000, run)
        time.sleep(delay)
        process.kill()
        process.join(150)
        assert process.exitcode == -signal.SIGKILL
    assert max(kept(run)) > 0
    draws = max(DRAWS, *kept(run))
    continued = fault_work.fit(kind, draws, run)
    whole = fault_work.fit(kind, draws)
    assert continued.draws.equals(whole.draws)
    assert continued.draws.sizes["draw"] == draws
    if kind != "horizontal":
        for one, other in zip(continued.ownership, whole.ownership, strict=True):
            np.testing.assert_array_equal(one.toarray(), other.toarray())
    left = [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".part")]
    assert left == [], "a continued run removes what killed ones have left"
    assert not list(tmp_path.glob(".*.lock"))


def test_the_very_first_file(start, tmp_path):
    """Killed before the run has said what it is: the directory holds an unfinished file only."""
    run = tmp_path / "run"
    process = start(fault_work.doomed_fit, "horizontal", run, "replace", 1)
    process.join(150)
    assert [file.suffix for file in run.iterdir()] == [".part"]
    again = fault_work.fit("horizontal", 20, run)
    assert again.draws.equals(fault_work.fit("horizontal", 20).draws)
