"""Statistics of many quantities at once are those that ArviZ computes one by one."""

import numpy as np
import pytest
from scipy.signal import lfilter

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import _convergence_core as core

SHAPES = [(4, 1000), (2, 101), (1, 250), (8, 64), (3, 4), (4, 5), (2, 7), (1, 9)]


@pytest.fixture(autouse=True)
def stable_variances():
    """ArviZ 0.x with Numba takes variances as differences of squares, and loses digits by it."""
    if not compat.has_inference_data():
        yield
        return
    from arviz.utils import Numba

    before = Numba.numba_flag
    Numba.disable_numba()
    yield
    Numba.numba_flag = before


def made_up(n_chains, n_draws, seed=0):
    """Quantities of every temper, as (chain, draw, quantity); all vary within chains."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n_chains, n_draws))
    shift = np.arange(n_chains)[:, None]
    found = {
        "independent": noise,
        "slow": lfilter([1], [1, -0.97], noise, axis=1),
        "alternating": lfilter([1], [1, 0.9], noise, axis=1),
        "wandering": noise.cumsum(axis=1),
        "chains apart": noise + 3.0 * shift,
        "chains of other width": noise * (1.0 + shift),
        "heavy tails": rng.standard_cauchy(noise.shape),
        "ties": np.round(noise, 1),
        "thirds": rng.integers(0, 3, noise.shape) / 3.0,
        "yes or no": (noise > 0.3).astype(float),
        "mostly no": (rng.random(noise.shape) < 0.1).astype(float),
        "either side of zero": np.where(noise > 0, 0.1, -0.1),
        "far from zero": noise + 1e6,
        "small": noise * 1e-9,
        "too small to see": noise * 1e-17,
        "up and down": np.where(np.arange(n_draws) % 2, 1.0, -1.0) + 0.1 * noise,
        "shares": 1.0 / (1.0 + np.exp(-5.0 * noise)),
    }
    found["one chain stands still"] = noise.copy()
    found["one chain stands still"][-1] = 0.5 if n_chains > 1 else noise[-1]
    draws = np.stack(list(found.values()), axis=-1)
    moves = (np.ptp(draws, axis=1) > 0).any(axis=0)  # `diagnose` asks for no others
    return [name for name, kept in zip(found, moves, strict=True) if kept], draws[..., moves]


def one_by_one(draws):
    """What ArviZ says."""
    columns = {
        "mcse": compat.mcse,
        "ess_bulk": compat.ess,
        "ess_tail": lambda x: compat.ess(x, method="tail"),
    }
    if draws.shape[0] > 1:
        columns["r_hat"] = compat.rhat
    with np.errstate(all="ignore"):
        return {
            name: np.array([float(ask(draws[..., q])["x"]) for q in range(draws.shape[-1])])
            for name, ask in columns.items()
        }


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_are_those_of_arviz(shape):
    names, draws = made_up(*shape)
    found, wanted = core.convergence_statistics(draws), one_by_one(draws)
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        for quantity, ours, theirs in zip(names, found[name], values, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-12, nan_ok=True), (name, quantity)


@pytest.mark.parametrize("seed", range(20))
def test_ties_are_those_of_arviz(seed):
    """Quantiles that fall between equal draws, where the generations of ArviZ round differently."""
    rng = np.random.default_rng(seed)
    draws = rng.choice([0.1, 0.3, 0.7, 1.1], size=(2, 40 + seed, 5), p=[0.1, 0.4, 0.4, 0.1])
    found, wanted = core.convergence_statistics(draws), one_by_one(draws)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


def test_blocks_change_nothing(monkeypatch):
    _, draws = made_up(4, 50)
    whole = core.convergence_statistics(draws)
    monkeypatch.setattr(core, "BLOCK", 600)  # three quantities
    for name, values in core.convergence_statistics(draws).items():
        np.testing.assert_array_equal(values, whole[name])


def test_diagnose_reports_them():
    names, draws = made_up(4, 100)
    constant = np.full((4, 100, 1), 2.0)
    table = ab.diagnose(np.concatenate([constant, draws], axis=-1)).table
    assert table.iloc[0][["mcse", "ess_bulk", "ess_tail", "r_hat"]].isna().all()
    for name, values in one_by_one(draws).items():
        np.testing.assert_allclose(table[name].iloc[1:], values, rtol=1e-12, err_msg=name)
    assert len(table) == len(names) + 1
