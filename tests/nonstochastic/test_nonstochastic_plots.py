"""What the pictures show, read back from their artists."""

import math

import matplotlib
import numpy as np
import pytest

import anonbayes as ab
from anonbayes.errors import ChannelError

matplotlib.use("Agg")
ns = ab.nonstochastic
SQUARE = ns.Box.cube(-2, 2, 2)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_regions_are_drawn_with_their_answers():
    policy = ns.optimal_policy([0.5, 0.5], SQUARE, gamma=2)
    ax = policy.plot_regions()
    labels = [tick.get_text() for tick in ax.figure.axes[1].get_yticklabels()]
    assert labels == ["-1.5", "-0.5", "0.5", "1.5"]
    assert "4 answers" in ax.get_title() and "area 2" in ax.get_title()
    ax.figure.canvas.draw()


def test_one_region_can_be_drawn():
    ax = ns.plot_regions(ns.optimal_policy([0.5, 0.5], SQUARE, gamma=0.1))
    assert "1 answers" not in ax.get_title() and "1 answer;" in ax.get_title()


@pytest.mark.parametrize("query", [[0.0, 0.0], lambda x: np.where(x[..., 0] < 0, -5.0, x[..., 1])])
def test_constant_and_broken_queries_can_be_drawn(query):
    box = ns.Box([-1, 0], [1, 100])
    policy = ns.optimal_policy(query, box, gamma=0.1)
    ax = policy.plot_regions()
    ax.figure.canvas.draw()
    assert len(ax.figure.axes[1].get_yticklabels()) == len(policy.regions)


def test_only_planes_can_be_drawn():
    with pytest.raises(ChannelError, match="3 coordinates"):
        ns.plot_regions(ns.optimal_policy([1, 1, 1], ns.Box.cube(0, 1, 3), gamma=1))


def test_tradeoff_curves_show_the_table():
    gammas = np.linspace(0.25, 4, 16)
    frame = ns.tradeoff([0.5, 0.5], SQUARE, gammas)
    q = np.ceil(2 * gammas)
    np.testing.assert_allclose(frame["maximin_information"], np.log(q))
    np.testing.assert_allclose(frame["leakage"], np.where(q > 1, np.log(q**2 / 2), 0), atol=1e-9)
    np.testing.assert_allclose(frame["adversary_error"], 4 * math.sqrt(2) / np.maximum(q, 2))
    assert (frame["adversary_error_bound"] <= frame["adversary_error"]).all()
    above, below = ns.plot_tradeoff(frame)
    np.testing.assert_allclose(above.lines[0].get_ydata(), frame["leakage"])
    assert all(line.get_drawstyle() == "steps-pre" for line in [*above.lines, *below.lines])
    np.testing.assert_allclose(below.lines[0].get_ydata(), frame["adversary_error"])
