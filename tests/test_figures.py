"""Pictures appear where people who know matplotlib look for them; files leave pyplot alone."""

from __future__ import annotations

import base64
import importlib.util
import io

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest

import anonbayes as ab
from anonbayes.diagnostics import plot_worst
from anonbayes.figures import apart, in_lines, make_axes, name_points, plain_log_axis, times_axis
from anonbayes.reporting.page import render

SETUP = """
import io
import matplotlib.pyplot as plt
import anonbayes as ab
post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
risk = post.assess(ab.datasets.load("table1"))
"""
CELLS = {
    "one picture": "risk.plot_beliefs()",
    "two pictures": "risk.plot_relative_threat();\nrisk.plot_reliability()",
    "side by side": "fig, axes = plt.subplots(1, 2)\nrisk.plot_beliefs(ax=axes[0])\n"
    "risk.plot_reliability(ax=axes[1])",
    "in the room made for it": "plt.figure(figsize=(2, 2))\nrisk.plot_beliefs()",
    "several axes": "from anonbayes.diagnostics import plot_worst\nimport numpy as np\n"
    "plot_worst(np.random.default_rng(0).normal(size=(2, 200)))",
    "a fit with its bar": "ab.fit(ab.datasets.load('table1_anatomy'), draws=20, tune=5, seed=1)",
    "a report": "import tempfile\nab.report(post, risk, tempfile.mkdtemp() + '/report.html')",
    "saved": "import base64\nrisk.plot_beliefs()\ncontent = io.BytesIO()\nplt.savefig(content)\n"
    "print(base64.b64encode(content.getvalue()).decode())",
}
EXPECTED = {
    "one picture": 1,
    "two pictures": 2,
    "side by side": 1,
    "in the room made for it": 1,
    "several axes": 1,
    "a fit with its bar": 0,
    "a report": 0,
    "saved": 1,
}


def ink(png: bytes) -> float:
    """Share of pixels that are not white."""
    pixels = matplotlib.image.imread(io.BytesIO(png))[..., :3]
    return float((pixels < 0.99).any(axis=-1).mean())


@pytest.fixture(scope="module")
def cells():
    """What a real kernel shows for each cell."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *CELLS.values())]
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells[1:], strict=True)}


def images(outputs) -> list[bytes]:
    found = [o.data["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    return [base64.b64decode(png) for png in found]


@pytest.mark.parametrize("name", CELLS)
def test_a_kernel_shows_the_pictures(cells, name):
    shown = images(cells[name])
    assert len(shown) == EXPECTED[name]
    assert all(ink(png) > 0.01 for png in shown)


def test_savefig_writes_what_was_drawn(cells):
    text = "".join(o.text for o in cells["saved"] if o.output_type == "stream")
    assert ink(base64.b64decode(text)) > 0.01


def test_a_fit_shows_nothing_but_its_answer_without_ipywidgets(cells):
    pytest.importorskip("nbclient")
    if importlib.util.find_spec("ipywidgets") is None:
        assert [o.output_type for o in cells["a fit with its bar"]] == ["execute_result"]


def test_ticks_are_written_as_people_write_them():
    """Factors as doublings, decades in full or as powers, and none on top of another."""
    ax = make_axes(None)
    ax.plot([0.3, 9.0], [2e-6, 3e4])
    times_axis(ax)
    plain_log_axis(ax, "y")
    ax.figure.canvas.draw()
    across = [t.get_text() for t in ax.get_xticklabels() if 0.3 <= t.get_position()[0] <= 9]
    up = [t.get_text() for t in ax.get_yticklabels() if 2e-6 <= t.get_position()[1] <= 3e4]
    assert across == ["×0.5", "×1", "×2", "×4", "×8"]
    assert set(up) <= {"10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000"}
    assert len(up) >= 4
    plt.close("all")


@pytest.mark.parametrize(("axis", "ends"), [(times_axis, [1.001, 1.02]), (plain_log_axis, [6, 9])])
def test_logarithmic_axes_of_a_short_range_have_ticks(axis, ends):
    ax = make_axes(None)
    ax.plot(ends, [0, 1])
    axis(ax)
    low, high = ax.get_xlim()
    assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 2
    plt.close("all")


def test_long_labels_are_broken_and_cut():
    assert in_lines(["age", "Hauptdiagnose nach ICD-10 im Entlassbrief der Klinik"]) == [
        "age",
        "Hauptdiagnose nach\nICD-10 im Entlassbrief …",
    ]
    assert in_lines(["Staatsangehörigkeit der Person"], 22, 1) == ["Staatsangehörigkeit …"]
    assert in_lines([""]) == [""]


def outside(figure) -> list[str]:
    """Texts that leave a figure by more than two pixels."""
    figure.canvas.draw()
    ax, page = figure.axes[0], figure.bbox
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label]
    for i, axis in enumerate((ax.xaxis, ax.yaxis)):
        low, high = axis.get_view_interval()
        texts += [t for t in axis.get_ticklabels() if low <= t.get_position()[i] <= high]
    texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    return [
        text
        for text, box in boxes
        if box.x0 < -2 or box.y0 < -2 or box.x1 > page.width + 2 or box.y1 > page.height + 2
    ]


def test_plots_fit_a_column_of_a_journal(risk):
    """German labels, 3.5 inches: all that is written stays in the figure and off other texts."""
    names = {"ZIP": "Postleitzahl des Hauptwohnsitzes", "Nat": "Staatsangehörigkeit der Person"}
    table = ab.datasets.load("table1_recoded")
    domains = {names.get(name, name): domain.values for name, domain in table.domains.items()}
    released = table.to_frame().rename(columns=names)
    table = ab.ReleasedTable.horizontal(released, sensitive="Dis", domains=domains)
    long = ab.fit(table, seed=1, progressbar=False)
    compared = ab.compare({f"Mondrian mit Mindestgruppengröße {k}": risk for k in (2, 5)})
    for plot in (
        risk.plot_relative_threat, risk.plot_beliefs, risk.plot_thresholds, risk.plot_top_rows,
        risk.plot_group_sizes, risk.plot_reliability, long.plot_weights, compared.plot,
    ):  # fmt: skip
        plt.figure(figsize=(3.5, 2.6))
        ax = plot()
        assert not outside(ax.figure), plot
        title, label = ax.title.get_window_extent(), ax.yaxis.label.get_window_extent()
        assert not title.overlaps(label), plot
        plt.close("all")
    shown = [text.get_text() for text in compared.plot().texts]
    assert shown == ["1", "2"]  # names too long to stand beside points are in the legend
    plt.close("all")


def test_names_of_points_hide_neither_each_other_nor_the_frame():
    ax = make_axes(None)
    x, y = np.array([0.0, 0.01, 0.02, 1.0]), np.array([0.0, 0.01, 0.0, 1.0])
    ax.plot(x, y, "o")
    ax.margins(0.2)
    name_points(ax, x, y, ["first release", "second release", "third release", "last release"])
    drawn = ax.figure.canvas.get_renderer()
    boxes = [text.get_window_extent(drawn) for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    frame = ax.get_window_extent(drawn)
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
    plt.close("all")


def test_names_of_points_are_placed_without_a_screen():
    """A figure of a report has no renderer until it is saved."""
    with apart():
        ax = make_axes(None, 5.6, 4.4)
        x, y = np.array([78.2, 75.25, 74.98, 71.99]), np.array([1.5, 3.0, 3.17, 12.2])
        ax.plot(x, y, "x")
        ax.margins(0.2)
        name_points(ax, x, y, ["k=40 l=3", "k=10 l=3", "k=10 l=1", "k=3 l=1"])
        ax.figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


@pytest.fixture(scope="module")
def risk():
    post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    return post.assess(ab.datasets.load("table1"))


def test_current_axes_are_used_while_they_are_empty(risk):
    plt.subplots(1, 2)
    left, right = plt.gcf().axes
    plt.sca(right)
    assert risk.plot_beliefs() is right and plt.gca() is right
    assert not left.has_data()
    again = risk.plot_relative_threat()
    assert again.figure is not right.figure and plt.gcf() is again.figure


def test_panels_fill_an_empty_figure_of_the_user():
    frame = ab.nonstochastic.tradeoff([0.5, 0.5], ab.nonstochastic.Box.cube(-2, 2, 2), [1.0, 2.0])
    draws = np.random.default_rng(0).normal(size=(2, 100, 2))
    for plot in (lambda: plot_worst(draws), lambda: ab.nonstochastic.plot_tradeoff(frame)):
        mine = plt.figure(figsize=(4.5, 3.5))
        panels = plot()
        assert all(ax.figure is mine for ax in np.ravel(panels)) and not outside(mine)
        assert np.ravel(plot())[0].figure is not mine  # now there is something in it
        plt.close("all")


def test_reports_and_files_leave_pyplot_alone(risk):
    mine = plt.figure()
    render(risk.post, risk)
    with apart():
        ax = risk.plot_reliability()
        panels = plot_worst(np.random.default_rng(0).normal(size=(2, 100)))
    assert plt.get_fignums() == [mine.number] and plt.gcf() is mine and not mine.axes
    assert ax.figure is not mine and panels.shape == (1, 2)
    assert make_axes(None).figure is mine  # and afterwards all is as it was
