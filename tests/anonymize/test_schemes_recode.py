"""Recoding over hierarchies."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemes_support import (
    TREES,
    assert_covers,
    assert_private,
    frames,
    random_frame,
    read_back,
)

import anonbayes as ab
from anonbayes.anonymize import recode
from anonbayes.anonymize.lattice import LOSSES
from anonbayes.errors import AnonbayesError, AnonymizationError, DomainError, TableError

# -- an exhaustive search that shares nothing with the package ----------------------------------


def _labels(df, node):
    """Text of every row on given levels, column by column."""
    shown = {}
    for name, level in node.items():
        tree = TREES[name]
        text = {leaf: tree.label(i, level) for i, leaf in enumerate(tree.leaves)}
        shown[name] = [text[v] for v in df[name]]
    return shown


def _column_loss(name, level, values, shown, kept, loss):
    """Loss of one column from the definitions, row by row."""
    tree, n = TREES[name], len(values)
    in_clear, in_cell = Counter(values), Counter(shown)
    total, least, most = 0.0, 0.0, 0.0
    for value, cell, keep in zip(values, shown, kept, strict=True):
        if loss in ("loss", "mean_loss"):
            size = 1 if level == 0 else len(tree.members(cell))
            now, low, high = size / len(tree.leaves), 1 / len(tree.leaves), 1.0
        elif loss == "precision":
            now, low, high = level / (tree.depth - 1), 0.0, 1.0
        else:
            now, low = math.log2(in_cell[cell] / in_clear[value]), 0.0
            high = math.log2(n / in_clear[value])
        total, least, most = total + (now if keep else high), least + low, most + high
    return (total - least) / (most - least) if most > least else 0.0


def _all_nodes(df, k, l, limit, loss):  # noqa: E741
    """Loss and suppressed rows of every feasible node but the top."""
    found = {}
    for levels in itertools.product(*(range(tree.depth) for tree in TREES.values())):
        node = dict(zip(TREES, levels, strict=True))
        if all(level == TREES[name].depth - 1 for name, level in node.items()):
            continue
        shown = _labels(df, node)
        rows = list(zip(*shown.values(), strict=True))
        size = Counter(rows)
        secrets = {row: set() for row in size}
        for row, secret in zip(rows, df["ill"], strict=True):
            secrets[row].add(secret)
        kept = [size[row] >= k and len(secrets[row]) >= l for row in rows]
        suppressed = len(df) - sum(kept)
        if suppressed > limit:
            continue
        if loss == "discernibility":
            value = sum(size[r] for r, keep in zip(rows, kept, strict=True) if keep)
            value += suppressed * len(df)
        else:
            parts = [
                _column_loss(name, level, df[name].tolist(), shown[name], kept, loss)
                for name, level in node.items()
            ]
            mean = sum(parts) / len(parts)
            geometric = math.prod(1 + p for p in parts) ** (1 / len(parts)) - 1
            value = geometric if loss == "loss" else mean
        found[levels] = (value, suppressed)
    return found


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=40)
@given(
    df=frames(max_rows=25),
    k=st.integers(1, 5),
    l=st.integers(1, 2),
    share=st.sampled_from([0, 0.2, 0.6]),
)
def test_search_finds_what_exhaustive_search_finds(loss, df, k, l, share):  # noqa: E741
    feasible = _all_nodes(df, k, l, int(share * len(df) + 1e-9), loss)
    if k > len(df) or not feasible:
        with pytest.raises(AnonymizationError):
            recode(df, "ill", TREES, k, l, suppression=share, loss=loss)
        return
    table, how = recode(df, "ill", TREES, k, l, suppression=share, loss=loss, return_recoding=True)
    best = min(value for value, _ in feasible.values())
    chosen = feasible[tuple(how.levels.values())]
    assert chosen[0] == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert how.loss == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert how.suppressed == table.n_suppressed == chosen[1]
    # ties: fewest suppressed rows, then the lowest levels, then the order of columns
    tied = [
        (suppressed, sum(levels), levels)
        for levels, (value, suppressed) in feasible.items()
        if value == pytest.approx(best, rel=1e-10, abs=1e-13)
    ]
    assert tuple(how.levels.values()) == min(tied)[2]


# -- what every release promises ----------------------------------------------------------------


@pytest.mark.parametrize("local", [False, True])
@settings(max_examples=30)
@given(
    df=frames(),
    k=st.integers(1, 6),
    l=st.integers(1, 3),
    share=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_release_is_private_covers_and_reads_back(local, df, k, l, share):  # noqa: E741
    try:
        table = recode(df, "ill", TREES, k, l, suppression=share, local=local)
    except AnonymizationError as error:
        assert "possible" in str(error) or "at most" in str(error)
        return
    assert_private(table, k, l)
    assert_covers(table, df)
    assert table.n_suppressed <= share * len(df)
    assert table.is_nested
    assert read_back(table) == table


@pytest.mark.parametrize(("k", "l", "share"), [(2, 1, 0.0), (4, 3, 0.05), (9, 4, 0.2)])
@pytest.mark.parametrize("local", [False, True])
def test_larger_release_is_private_and_covers(local, k, l, share):  # noqa: E741
    df = random_frame(400, seed=k)
    table = recode(df, "ill", TREES, k, l, suppression=share, local=local)
    assert_private(table, k, l)
    assert_covers(table, df)


def test_local_recoding_loses_less_and_suppresses_within_the_limit():
    df = random_frame(600, seed=3)
    _, wide = recode(df, "ill", TREES, 5, 3, return_recoding=True)
    table, local = recode(df, "ill", TREES, 5, 3, local=True, return_recoding=True)
    assert table.n_suppressed == 0
    assert len(local.passes) > 1
    assert local.loss < wide.loss
    assert sum(p.rows for p in local.passes) == len(df)
    assert local.to_frame().shape == (len(local.passes), 7)


@settings(max_examples=20)
@given(
    df=frames(),
    k=st.integers(2, 6),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    loss=st.sampled_from([name for name in LOSSES if name != "discernibility"]),
)
def test_local_recoding_never_loses_more_than_global(df, k, share, loss):
    demands = {"k": k, "l": 2, "suppression": share, "loss": loss, "return_recoding": True}
    try:
        _, wide = recode(df, "ill", TREES, **demands)
    except AnonymizationError:
        with pytest.raises(AnonymizationError):
            recode(df, "ill", TREES, local=True, **demands)
        return
    _, local = recode(df, "ill", TREES, local=True, **demands)
    assert local.loss <= wide.loss + 1e-12


def test_local_recoding_undoes_passes_that_leave_too_much():
    # Nine rows alike and one that fits nowhere: the first pass sets it aside, no later pass can
    # place a single row, so the pass has to be undone.
    df = pd.DataFrame(
        {"zip": ["11"] * 9 + ["31"], "age": [20] * 10, "ill": list("abababababa")[:10]}
    )
    trees = {"zip": TREES["zip"], "age": TREES["age"]}
    table = recode(df, "ill", trees, 2, 2, local=True)
    assert table.n_suppressed == 0
    assert table.to_frame()["zip"].unique().tolist() == ["*"]
    assert recode(df, "ill", trees, 2, 2, local=True, suppression=0.1).n_suppressed == 1


def test_levels_are_those_of_the_hierarchy():
    # The second level of this tree splits nothing that the first does not; it is passed over.
    tree = ab.Hierarchy(["a", "b", "c"], [["ab", "ab", "c"], ["AB", "AB", "C"], ["*", "*", "*"]])
    df = pd.DataFrame({"x": list("aabbcc"), "ill": list("ststst")})
    _, how = recode(df, "ill", {"x": tree}, 3, suppression=0.4, return_recoding=True)
    assert how.levels == {"x": 1}
    assert how.passes[0].nodes == 3


def test_a_domain_smaller_than_the_hierarchy():
    df = pd.DataFrame({"zip": ["11", "12", "21", "21"], "ill": list("abab")})
    trees = {"zip": TREES["zip"]}
    table = recode(df, "ill", trees, 2, domains={"zip": ["11", "12", "21"]})
    assert table.to_frame()["zip"].tolist() == ["1*", "1*", "21", "21"]
    assert len(table.domains["zip"]) == 3


def test_numbers_given_as_text_and_hierarchies_given_as_files(tmp_path):
    lines = "".join(f"{age};{age // 10 * 10}s;*\n" for age in range(20, 40))
    (tmp_path / "age.csv").write_text(lines)
    df = pd.DataFrame({"age": ["20", "25", "31", "33"], "ill": list("abab")})
    expected = ["20s", "20s", "30s", "30s"]
    for source in (tmp_path, {"age": tmp_path / "age.csv"}):
        assert recode(df, "ill", source, 2).to_frame()["age"].tolist() == expected


def test_result_does_not_depend_on_the_order_of_rows():
    df = random_frame(300, seed=8)
    shuffled = df.sample(frac=1, random_state=1)
    first = recode(df, "ill", TREES, 4, 2, suppression=0.1).to_frame()
    second = recode(shuffled, "ill", TREES, 4, 2, suppression=0.1).to_frame()
    second.index = shuffled.index
    pd.testing.assert_frame_equal(first, second.sort_index())


# -- what is not possible -----------------------------------------------------------------------


def test_infeasible_requests_say_what_is_possible():
    df = pd.DataFrame({"zip": ["11", "12", "21", "22", "31"], "ill": list("ababa")})
    trees = {"zip": TREES["zip"]}
    with pytest.raises(AnonymizationError) as caught:
        recode(df, "ill", trees, 3, 2)
    message = str(caught.value)
    assert "k=3 and l=2" in message
    assert "l=2 is out of reach for any k" in message  # the row with 31 is alone
    with pytest.raises(AnonymizationError, match="with l=2, k can be at most 2") as caught:
        recode(df, "ill", trees, 3, 2, suppression=0.2)
    # what the message offers works, and one more does not
    assert recode(df, "ill", trees, 2, 2, suppression=0.2).k == 2
    with pytest.raises(AnonymizationError, match=r"suppression must be at least 1/5 = 0\.2"):
        recode(df, "ill", trees, 2, 2)


@settings(max_examples=25)
@given(df=frames(max_rows=12), k=st.integers(2, 9), l=st.integers(1, 3))
def test_the_offered_k_and_l_are_the_largest(df, k, l):  # noqa: E741
    try:
        recode(df, "ill", TREES, k, l)
    except AnonymizationError as error:
        if found := re.search(r"with l=\d+, k can be at most (\d+)", str(error)):
            best = int(found.group(1))
            assert recode(df, "ill", TREES, best, l).k >= best
            with pytest.raises(AnonymizationError):
                recode(df, "ill", TREES, best + 1, l)
        if found := re.search(r"with k=\d+, l can be at most (\d+)", str(error)):
            best = int(found.group(1))
            assert recode(df, "ill", TREES, k, best).l >= best
            with pytest.raises(AnonymizationError):
                recode(df, "ill", TREES, k, best + 1)


def test_bad_arguments():
    df = random_frame(20, seed=1)
    with pytest.raises(AnonymizationError, match=r"suppression=1\.5"):
        recode(df, "ill", TREES, 2, suppression=1.5)
    with pytest.raises(AnonymizationError, match="suppression='some'"):
        recode(df, "ill", TREES, 2, suppression="some")
    with pytest.raises(AnonbayesError, match=r"loss='beauty'.*'loss'"):
        recode(df, "ill", TREES, 2, loss="beauty")
    with pytest.raises(TableError, match=r"Column 'job' has no hierarchy.*quasi_identifiers"):
        recode(df, "ill", {"age": TREES["age"], "zip": TREES["zip"]}, 2)
    with pytest.raises(DomainError, match=r"'zip' contains the value '\*'.*rename it"):
        trees = {"zip": ab.Hierarchy(["1", "*"], [["any", "any"]])}
        recode(pd.DataFrame({"zip": ["1", "*"], "ill": ["a", "b"]}), "ill", trees, 1)
    with pytest.raises(AnonymizationError, match=r"The lattice has .* nodes"):
        deep = ab.Hierarchy(
            list(range(9)), [[str(min(v, h)) + "x" * h for v in range(9)] for h in range(8, 0, -1)]
        )
        wide = pd.DataFrame({f"c{i}": [0, 8] * 5 for i in range(9)}).assign(ill=list("ab") * 5)
        recode(wide, "ill", {f"c{i}": deep for i in range(9)}, 2)


# -- against ARX --------------------------------------------------------------------------------

ARX = [
    ("adult_5692", 4, 0.05, "loss", "global", (0, 4, 0, 1, 2, 1, 1, 0)),
    ("adult_5692", 6, 0.05, "loss", "global", (0, 4, 0, 1, 3, 1, 1, 0)),
    ("adult_5692", 6, 0.0, "discernibility", "global_s0", (1, 4, 1, 1, 1, 2, 2, 0)),
    ("adult_30162", 4, 0.05, "loss", "global", (0, 3, 0, 1, 2, 1, 1, 0)),
]


@pytest.mark.parametrize(("name", "k", "share", "loss", "variant", "levels"), ARX)
def test_arx_found_the_same_levels(name, k, share, loss, variant, levels, shared_data):
    """ARX 3.9.2 (shared/data/README.md): same k = l, limit and quality model, same table."""
    df = pd.read_csv(shared_data / f"{name}.csv", sep=";")
    table, how = recode(
        df,
        "occupation",
        shared_data / "hierarchies",
        k,
        k,
        suppression=share,
        loss=loss,
        return_recoding=True,
    )
    assert tuple(how.levels.values()) == levels
    assert how.passes[0].nodes == 4320
    assert how.passes[0].checked < 300  # tags and bounds settle the rest
    published = ab.read_arx(
        shared_data / "arx" / f"{name}_k{k}_l{k}_{variant}.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    assert table == published


def test_local_recoding_is_as_good_as_arx_local(shared_data):
    """Both are greedy, so neither has to win; the losses must be within one per cent."""
    df = pd.read_csv(shared_data / "adult_5692.csv", sep=";")
    table, how = recode(
        df, "occupation", shared_data / "hierarchies", 4, 4, local=True, return_recoding=True
    )
    published = ab.read_arx(
        shared_data / "arx" / "adult_5692_k4_l4_local.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    assert table.n_suppressed == 0
    assert how.loss == pytest.approx(_loss_of_cells(table), rel=1e-9)
    assert how.loss <= 1.01 * _loss_of_cells(published)


def _loss_of_cells(table):
    """ARX's Loss of a published table."""
    parts = []
    for column in table.columns.values():
        size = len(column.domain)
        share = (column.evidence.sizes[column.codes] / size).mean()
        parts.append((share - 1 / size) / (1 - 1 / size))
    return np.prod(1 + np.array(parts)) ** (1 / len(parts)) - 1
