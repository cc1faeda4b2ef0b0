"""Every release that we write is read back from its file alone, without options."""

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.anonymize.cleartext import set_labels

N = 240


def people():
    """Decimals, numbers with gaps, numbers beside a word, dates in three spellings."""
    rng = np.random.default_rng(5)
    day = pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 4000, N), "D")
    stay = rng.integers(0, 40, N)
    return pd.DataFrame(
        {
            "bmi": rng.normal(25, 4, N).round(1),
            "cost": rng.choice([-10, 0, 5, 250, 1000], N),
            "stay": np.where(stay < 3, "unknown", stay.astype(str)),
            "born": pd.Series(day).dt.strftime("%Y-%m-%d"),
            "seen": pd.Series(day[::-1]).dt.strftime("%d.%m.%Y"),
            "left": day,
            "sex": rng.choice(["f", "m"], N),
            "ill": rng.choice(["flu", "cold", "gout"], N),
        }
    )


def mondrian(frame, **how):
    return ab.anonymize.mondrian(frame, "ill", k=5, l=2, **how)


def recode(frame):
    trees = {
        "bmi": ab.Hierarchy.from_intervals(sorted(set(frame["bmi"])), 2.5, 10),
        "cost": ab.Hierarchy.from_intervals(sorted(set(frame["cost"])), 500),
    }
    return ab.anonymize.recode(frame[["bmi", "cost", "ill"]], "ill", trees, k=5, suppression=0.2)


HORIZONTAL = {
    "tight": mondrian,
    "region": lambda frame: mondrian(frame[["bmi", "stay", "born", "ill"]], cells="region"),
    "relaxed": lambda frame: mondrian(frame, strict=False),
    "recode": recode,
}


@pytest.mark.parametrize("scheme", HORIZONTAL)
def test_horizontal_releases(scheme, tmp_path, caplog):
    frame = people()
    table = HORIZONTAL[scheme](frame)
    written = table.to_frame()
    written.to_csv(tmp_path / "released.csv", sep=";", index=False)
    again = ab.read_arx(tmp_path / "released.csv", sensitive="ill")
    assert again.attributes == table.attributes
    assert (again.n_rows, again.n_groups, again.k, again.l) == (
        table.n_rows,
        table.n_groups,
        table.k,
        table.l,
    )
    for name in table.attributes:
        one, two = table.columns[name], again.columns[name]
        of_text = {two.domain.find(str(v)): code for code, v in enumerate(one.domain.values)}
        for row in range(0, N, 7):
            if one.evidence.sizes[one.codes[row]] == len(one.domain):  # a star hides them all
                assert two.evidence.sizes[two.codes[row]] == len(two.domain)
                continue
            members = two.evidence.members(two.codes[row])
            known = sorted(of_text[m] for m in members.tolist() if m in of_text)
            assert known == one.evidence.members(one.codes[row]).tolist(), (name, row)
    if scheme != "recode":
        assert "its ranges are read as" in caplog.text  # nothing is assumed in silence


def test_cells_of_ordered_types_are_ranges():
    cells = mondrian(people()).to_frame()
    patterns = {
        "bmi": r"\d+-\d+|\[[\d.]+, [\d.]+\]",
        "stay": r"\d+(-\d+)?|\{\d+(-\d+)?, unknown\}|unknown",
        "born": r"\[\d{4}-\d\d-\d\d, \d{4}-\d\d-\d\d\]",
        "seen": r"\[\d\d\.\d\d\.\d{4}, \d\d\.\d\d\.\d{4}\]",
        "left": r"\[\d{4}-\d\d-\d\d 00:00:00, \d{4}-\d\d-\d\d 00:00:00\]",
    }
    for name, pattern in patterns.items():
        column = cells[name].astype(str)
        assert column.str.fullmatch(rf"{pattern}|\*").all(), column.tolist()[:5]


def test_the_domain_given_as_text_or_as_numbers():
    """`--domain` and files of values give texts; ranges apply to them all the same."""
    frame = pd.DataFrame({"bmi": ["[24.4, 25.6]", "31.5", "*"], "ill": ["a", "b", "a"]})
    numbers = [24.4, 25, 25.6, 31.5]
    one = ab.ReleasedTable.horizontal(frame, "ill", domains={"bmi": numbers})
    two = ab.ReleasedTable.horizontal(frame, "ill", domains={"bmi": list(map(str, numbers))})
    for table in (one, two):
        cells = table.columns["bmi"]
        assert [cells.evidence.members(c).tolist() for c in cells.codes] == [
            [0, 1, 2],
            [3],
            [0, 1, 2, 3],
        ]


def test_anatomy(tmp_path):
    frame = people()
    table = ab.anonymize.anatomy(frame, "ill", l=2, seed=1)
    for part, name in zip(table.to_frames(), ("qit", "st"), strict=True):
        part.to_csv(tmp_path / f"{name}.csv", sep=";", index=False)
    again = ab.read_anatomy(
        tmp_path / "qit.csv", tmp_path / "st.csv", sensitive="ill", group="group"
    )
    for name in table.attributes:
        assert len(again.domains[name]) == len(table.domains[name])
    assert (again.n_groups, again.l) == (table.n_groups, table.l)


def test_sets_are_spelled_as_they_are_read():
    assert set_labels(ab.Domain("x", ["a", "b", "c"]))(np.array([0, 2])) == "{a, c}"
    assert set_labels(ab.Domain("x", ["a", "b, c", "d"]))(np.array([0, 1])) == ("a", "b, c")
    bmi = ab.Domain("bmi", [24.4, 25, 25.6, 31, "unknown"])
    assert set_labels(bmi)(np.array([0, 1, 2, 4])) == "{[24.4, 25.6], unknown}"
