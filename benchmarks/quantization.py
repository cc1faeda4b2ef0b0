"""Quantized queries: Figures 1 to 3 of Quantize, and the speed of exact areas.

The pictures go to ``build/figures``. Peers for the area of the smallest of the twelve regions of
``x1^2 + 2 x2^2``, which serve any query: polygons of contourpy on a fine grid, and Monte Carlo with
NumPy. As a floor, SciPy's ``quad`` on this one region with brackets and break points found by hand.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from contourpy import contour_generator
from scipy import integrate, optimize

import anonbayes as ab

ns = ab.nonstochastic
SQUARE = ns.Box.cube(-2, 2, 2)
SMALLEST = 0.06679720334698  # the four corners beyond 11, by one-dimensional calculus


def ellipse(x: np.ndarray) -> np.ndarray:
    return x[..., 0] ** 2 + 2 * x[..., 1] ** 2


def by_policy() -> float:
    return ns.optimal_policy(ellipse, SQUARE, gamma=2).smallest_region.measure


def by_quad() -> float:
    """One region, with everything known about it put in by hand."""

    def chord(x1: float) -> float:
        def excess(x2: float) -> float:
            return x1**2 + 2 * x2**2 - 11

        if excess(2.0) <= 0:
            return 0.0
        return 2 * (2 - optimize.brentq(excess, 0, 2))

    return integrate.quad(chord, -2, 2, points=[-math.sqrt(3), math.sqrt(3)], epsabs=1e-12)[0]


def by_monte_carlo(n: int = 1_000_000) -> float:
    points = SQUARE.at(np.random.default_rng(0).random((n, 2)))
    return float(np.mean(ellipse(points) >= 11)) * SQUARE.volume


def by_contours(n: int = 2001) -> float:
    axis = np.linspace(-2, 2, n)
    values = ellipse(np.stack(np.meshgrid(axis, axis), axis=-1))
    polygons, offsets = contour_generator(axis, axis, values, fill_type="OuterOffset").filled(
        11, 12.001
    )
    area = 0.0
    for points, starts in zip(polygons, offsets, strict=True):
        for a, b in itertools.pairwise(starts):
            x, y = points[a:b].T
            area += 0.5 * float(x[:-1] @ y[1:] - x[1:] @ y[:-1])
    return area


def best_of(function: Callable[[], float], repeats: int) -> tuple[float, float]:
    """Return the result and the shortest time in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def figures(folder: Path, *, short: bool) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for number, query in ((1, [0.5, 0.5]), (2, ellipse)):
        policy = ns.optimal_policy(query, SQUARE, gamma=2)
        policy.plot_regions().figure.savefig(
            folder / f"quantize_figure{number}.png", dpi=120, bbox_inches="tight"
        )
        print(f"Figure {number}: {policy}")
    gammas = np.linspace(0.25, 10, 40 if short else 400)
    above, _ = ns.plot_tradeoff(ns.tradeoff([0.5, 0.5], SQUARE, gammas))
    above.figure.savefig(folder / "quantize_figure3.png", dpi=120, bbox_inches="tight")
    plt.close("all")
    print(f"Figures 1 to 3 are in {folder}.")


def main(*, short: bool = False, folder: Path = Path("build/figures")) -> None:
    figures(folder, short=short)
    print(f"\n{'area of the smallest region':38}{'seconds':>10}{'error':>10}{'time ratio':>12}")
    reference = None
    for name, function in (
        ("anonbayes, all twelve regions", by_policy),
        ("contourpy, 2001 x 2001 grid, one", by_contours),
        ("NumPy Monte Carlo, 10^6 points, one", by_monte_carlo),
        ("SciPy quad, solved by hand, one", by_quad),
    ):
        value, seconds = best_of(function, 1 if short else 5)
        reference = reference or seconds
        ratio = seconds / reference
        print(f"{name:38}{seconds:10.4f}{abs(value - SMALLEST):10.0e}{ratio:12.3g}")


if __name__ == "__main__":
    main()
