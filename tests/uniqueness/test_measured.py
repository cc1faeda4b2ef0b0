"""The page on who stands out shows what the benchmark has measured, and what it says is so."""

import json

import numpy as np

from benchmarks.identity import KEPT, MARKS, PAGE, QUANTITIES, table

MEASURED = json.loads(KEPT.read_text(encoding="utf-8"))


def test_the_table_is_written_from_what_is_kept():
    shown = PAGE.read_text(encoding="utf-8").split(MARKS[0])[1].split(MARKS[1])[0]
    assert shown.strip() == "\n".join(table(MEASURED))


def test_no_other_estimator_is_closer():
    for name, samples in MEASURED.items():
        for quantity in QUANTITIES:
            true = np.array([s["truth"][quantity] for s in samples])
            ours = np.abs([s["ours"][quantity][0] for s in samples] - true).mean()
            for peer in samples[0]["peers"]:
                said = [s["peers"][peer].get(quantity) for s in samples]
                if None not in said:
                    assert ours < np.abs(said - true).mean(), (name, quantity, peer)
