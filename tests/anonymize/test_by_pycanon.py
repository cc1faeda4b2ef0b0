"""k, l and t of releases as pycanon reads them off their text.

`golden/pycanon.json` was written by ``python tests/anonymize/test_by_pycanon.py`` with pycanon
1.3.6, which holds NumPy and pandas back and so lives in an environment of its own (the extra
`peers`). The digest is of the release that pycanon saw.
"""

import hashlib
import json
from pathlib import Path

import pytest
from schemes_support import TREES, random_frame

import anonbayes as ab
from anonbayes.risk.syntactic import privacy_models

FILE = Path(__file__).parents[1] / "golden" / "pycanon.json"


def cut(k, l, strict):  # noqa: E741
    return ab.anonymize.mondrian(random_frame(500, seed=k), "ill", k, l, strict=strict)


def recoded(k, l, share, local):  # noqa: E741
    df = random_frame(400, seed=k)
    return ab.anonymize.recode(df, "ill", TREES, k, l, suppression=share, local=local)


RELEASES = {
    **{
        f"mondrian k={k} l={l} strict={strict}": (cut, k, l, strict)
        for k, l in ((2, 1), (5, 3), (20, 5))  # noqa: E741
        for strict in (True, False)
    },
    **{
        f"recoding k={k} l={l} suppression={share} local={local}": (recoded, k, l, share, local)
        for k, l, share in ((2, 1, 0.0), (4, 3, 0.05), (9, 4, 0.2))  # noqa: E741
        for local in (True, False)
    },
    "clinic_global": (ab.datasets.load, "clinic_global"),
    "clinic_local": (ab.datasets.load, "clinic_local"),
}


def made(name):
    """The release, its text without suppressed rows, and a digest of that text."""
    make, *settings = RELEASES[name]
    table = make(*settings)
    frame = table.to_frame().astype(str)[table.group_codes >= 0].reset_index(drop=True)
    return table, frame, hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()


@pytest.mark.parametrize("name", RELEASES)
def test_k_l_and_t_are_those_of_pycanon(name):
    table, _, digest = made(name)
    reference = json.loads(FILE.read_text())[name]
    assert digest == reference["digest"], "another release than the one that pycanon saw"
    assert (table.k, table.l) == (reference["k"], reference["l"])
    if not table.n_suppressed:  # else the shares of the table are not those of its groups
        assert privacy_models(table)["t"] == pytest.approx(reference["t"], abs=1e-6)


if __name__ == "__main__":
    from pycanon import anonymity

    references = {}
    for name in RELEASES:
        table, frame, digest = made(name)
        cells, secret = list(table.attributes), [table.sensitive]
        references[name] = {
            "digest": digest,
            "k": anonymity.k_anonymity(frame, cells),
            "l": anonymity.l_diversity(frame, cells, secret),
            "t": anonymity.t_closeness(frame, cells, secret),
        }
    FILE.write_text(json.dumps(references, indent=0) + "\n")
