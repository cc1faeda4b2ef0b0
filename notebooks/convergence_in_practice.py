# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Convergence in practice: when chains disagree
#
# A posterior without a closed form is explored by Markov chains, and a chain can be wrong without looking wrong. This
# notebook shows a published table for which that happens, what the diagnostics say, what helps, and how to continue a
# run. The table is chosen so that the right answer is known for certain.
#
# ## A case-control study
#
# A study compares patients with heart disease (*cases*) with as many others (*controls*). It publishes them in pairs,
# one case and one control each, with age group, sex and marital status of both, but not who of the two is the case.
# That is Anatomy with l = 2.

# %% tags=["parameters"]
short = False  # True: shorter chains, for a quick look

# %%
import tempfile

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.diagnostics import plot_geweke, plot_weiss, plot_worst

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})

clinic = ab.datasets.load("clinic")
clinic["age"] = (
    pd.cut(clinic["age"], [17, 29, 39, 49, 59, 69, 79, 90])
    .map(lambda i: f"{i.left + 1}-{i.right}")
    .astype(str)
)
cases = clinic[clinic["diagnosis"] == "heart disease"].sample(60, random_state=1)
controls = clinic[clinic["diagnosis"] != "heart disease"].sample(60, random_state=1)
study = pd.concat(
    [cases.assign(group="case"), controls.assign(group="control")], ignore_index=True
)[["age", "sex", "marital_status", "group"]]
table = ab.anonymize.anatomy(study, "group", l=2, group="pair", seed=3)
who, what = table.to_frames()
who.head(4)

# %% [markdown]
# **The right answer is known.** Exchange the words *case* and *control* everywhere: the published table stays exactly
# the same, since every pair has one of each. So whatever can be said about cases can be said about controls, and an
# attacker without other knowledge must believe 1/2 of everybody. Every other answer is an error of the computation.
#
# ## Four chains
#
# With `evidence="independent"` the table is sampled. `fit` starts four chains from different random pairings;
# `keep_cleartext` keeps who was dealt what, for the tests.

# %%
post = ab.fit(
    table,
    evidence="independent",
    step="collapsed",
    draws=500,
    tune=500,
    seed=1,
    keep_cleartext=True,
    progressbar=False,
)
victim = {"age": "70-79", "marital_status": "widowed"}
print(post.attacker(victim).round(3).to_dict())

# %% [markdown]
# No warning, and an answer close to 1/2: is all well? `fit` takes a first look at the log density of the chains and warns
# if they differ, but the log density is the same for states that mirror each other. `diagnose` looks at everything.

# %%
report = ab.diagnose(post)
print(report)
assert not report.passed
assert report.table["r_hat"].max() > 1.5

# %% [markdown]
# This is what a failing report looks like. It starts with the verdict and its reason, lists the checks with the failed
# ones first, names the worst quantities, and ends with what to do. Each kind of check has its role here:
#
# - **R-hat** compares the chains with each other; it should be below 1.01.
# - **Effective sample size** says how many independent draws the chains are worth. Two thousand draws are worth a
#   handful here.
# - **Geweke** compares the beginning with the end of *each* chain, **Weiß (within)** does so for the hidden rows, which
#   are categories and have no mean. A chain that never leaves its mode can pass both.
# - **Weiß (between)** compares the chains row by row.
#
# The traces of the worst quantities show what is going on.

# %%
_ = plot_worst(post, report=report, n=3)

# %% [markdown]
# Each chain has settled, some in a world in which old people are the cases, some in the mirror image. ArviZ shows the same
# in its own plots, for which `post.idata` is ready. Its rank plot compares the ranks of each chain's draws with a uniform
# distribution: a healthy run has lines along the middle in ArviZ 1.x, and bars of equal height in ArviZ 0.x.

# %%
old = {"group": ["case"], "age": ["70-79"]}
_ = az.plot_rank(post.idata, var_names=["pi_age"], coords=old)

# %%
by_chain = post.draws["pi_age"].sel(group="case", age="70-79").mean("draw")
print("share of 70-79 among cases, chain by chain:", by_chain.values.round(2))
assert by_chain.max() - by_chain.min() > 0.1

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_geweke(post, var_names=["pi_age", "pi_sex"], ax=axes[0])
axes[0].set_ylim(-6, 7)
_ = plot_weiss(post, ax=axes[1])

# %% [markdown]
# Look at the two pictures as somebody with a single chain would. For most chains, Geweke's dots stay between the lines,
# and within chains the Weiß curves follow the diagonal: each chain by itself looks like a decent sample. Only the
# comparison *between* chains (blue) fails, for most rows. This is what a single chain would have told the attacker:

# %%
single = []
for seed in range(3 if short else 6):
    alone = ab.fit(
        table,
        evidence="independent",
        step="collapsed",
        draws=200,
        tune=500,
        chains=1,
        seed=seed,
        progressbar=False,
    )
    single.append(alone.attacker(victim)["case"])
print("P(case), one chain each:", np.round(single, 2))
assert min(abs(p - 0.5) for p in single) > 0.3

# %% [markdown]
# Almost certainty, in one direction or the other, although the truth is 1/2. The average of the four chains was close to
# 1/2 by luck: two of them happened to end up on each side.
#
# Four chains can be unlucky, too: with probability 1/8, all end up on the same side, and then *every* test passes. No
# diagnostic can see a region where no chain has been. With more chains, this is less likely; understanding the problem, as
# with the mirror image here, is better still.
#
# ## The remedy: tempering
#
# `step="tempered"` runs each chain at several temperatures. Hot copies of the chain wander freely between the modes,
# and neighbours exchange places, so that the cold one, which counts, visits all modes. A directory given as `resume=`
# keeps the draws while the run goes on.

# %%
folder = tempfile.TemporaryDirectory()
settings = {
    "evidence": "independent",
    "step": "tempered",
    "thin": 10 if short else 20,
    "tune": 500,
    "seed": 1,
    "keep_cleartext": True,
    "progressbar": False,
    "resume": folder.name,
}
first = ab.fit(table, draws=40, **settings)
found = ab.diagnose(first).table
print("largest R-hat:", found["r_hat"].max().round(2))
print("smallest effective sample size:", found["ess_bulk"].min().round())
assert found["r_hat"].max() < 1.5 and found["ess_bulk"].min() < 150

# %% [markdown]
# Forty draws are too few to report anything, but the picture has changed: the chains move in the same region. So more
# draws will help, and nothing has to be thrown away. To **continue**, ask for more draws with the same settings and
# directory; the chains go on from where they stopped, as if they had never been interrupted. The same call continues a
# run that was killed.

# %%
cured = ab.fit(table, draws=150 if short else 400, **settings)
folder.cleanup()
same = (cured.draws["pi_age"][:, :40] == first.draws["pi_age"]).all()
assert same, "the first draws are still there"
report = ab.diagnose(cured)
print(report)
assert report.table["r_hat"].max() < 1.05
assert short or report.passed

# %%
_ = az.plot_rank(cured.idata, var_names=["pi_age"], coords=old)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
runs = {"collapsed: each chain in its own world": post, "tempered: all chains in both": cured}
for ax, (title, run) in zip(axes, runs.items(), strict=True):
    chains = run.draws["pi_age"].sel(group="case", age="70-79")
    for c, colour in zip(chains, ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=True):
        ax.hist(c, np.linspace(0, 0.45, 31), histtype="step", density=True, color=colour,
                linewidth=1.5, label=f"chain {int(c['chain'])}")  # fmt: skip
    ax.set(title=title, xlabel="share of 70-79 among cases")
axes[0].set_ylabel("density")
_ = axes[0].legend(frameon=False)

# %%
belief = cured.attacker(victim)
print(f"P(case) = {belief['case']:.3f} +- {belief.attrs['mcse'].frame['case']:.3f}")
assert abs(belief["case"] - 0.5) < (0.15 if short else 0.1)

# %% [markdown]
# The posterior really has two modes, and all chains now visit both. The attacker's belief is about 1/2, as it must be.
#
# ## Knowledge breaks the symmetry
#
# Two modes are not a defect of the sampler. They are what the table says: *either old people are the cases, or young
# ones*. A reader who knows a little about heart disease knows which, and can say so in the prior: weights `beta` of
# two for older cases and younger controls, instead of one.

# %%
ages = table.domains["age"].values
older = np.array([int(label[:2]) >= 50 for label in ages])
weights = np.where(np.stack([older, ~older]), 2.0, 1.0)  # rows: case, control
assert table.domains["group"].values == ("case", "control")
informed = ab.fit(table, beta={"age": weights}, **{**settings, "resume": None},
                  draws=100 if short else 200)  # fmt: skip
knows = informed.attacker(victim)["case"]
print(f"P(case) of an attacker who knows that the old are at risk: {knows:.2f}")
right = {
    "without knowledge": cured.assess(study).rows["p_A"].mean(),
    "with it": informed.assess(study).rows["p_A"].mean(),
}
print(
    "belief in the truth, averaged over all people:",
    {k: round(float(v), 2) for k, v in right.items()},
)
assert knows > 0.8 and right["with it"] > 0.57 > 0.53 > right["without knowledge"]

# %% [markdown]
# A single sentence from a textbook, worth one extra count per age group, turns a harmless table into a dangerous one. The
# prior is part of the threat: assess a release with what an attacker may know, not only with the default.
#
# ## What to conclude
#
# - Always run several chains from different starts, and ask `ab.diagnose` before you read any result. A single chain is
#   "not assessed", however good it looks.
# - Tests within a chain cannot see another mode. Tests between chains can, unless all chains went the same way.
# - "Do not agree yet, too slowly" asks for more draws: continue the run with `resume=`. "None of them can stand for the
#   posterior" asks for another sampler: `step="tempered"`.
# - Modes have a meaning. If you can name what distinguishes them, you also know which knowledge would decide between
#   them, and an attacker may have it.
