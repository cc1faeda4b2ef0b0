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
# # Your own PyMC model, with our components
#
# `ab.fit` answers one question: what does this table say? Real studies ask more. There may be a regression to estimate,
# a second source of data, or knowledge that belongs in a prior. PyMC is made for that, and anonbayes has components for
# PyMC: the model of a table, step methods that sample its hidden part, and the likelihood of whatever was published.
#
# The study here asks: **how much does the risk of heart disease grow with age?** No table in clear is available, only
#
# - a released table that shows sex, a rough marital status and a range of twenty years of age beside the answer,
# - a phone survey in which every phone sometimes lied (randomized response),
# - the age pyramid of people without heart disease, from public statistics.

# %% tags=["parameters"]
short = False  # True: fewer draws, for a quick look

# %%
import logging

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy import optimize, stats

import anonbayes as ab

logging.getLogger("pymc").setLevel(logging.ERROR)  # no notes on every run
compiling = {"compile_kwargs": {"mode": "FAST_COMPILE"}} if short else {}
plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"

clinic = ab.datasets.load("clinic")
clinic["heart"] = np.where(clinic["diagnosis"] == "heart disease", "yes", "no")
ages = ab.Domain("age", range(18, 91))
lowest = [20 * ((age - 15) // 20) + 15 for age in ages.values]
ranges = ab.Generalization(ages, [f"{low}-{low + 19}" for low in lowest])
married = {"married": "{married, partnership}", "partnership": "{married, partnership}"}
released = clinic[["sex", "heart"]].assign(
    marital_status=clinic["marital_status"].replace(married),
    age=ranges.release(clinic["age"]),
)
released.head()

# %% [markdown]
# ## The model of a table
#
# `ab.build_model` turns a released table into a PyMC model: a distribution of the answer, and one of each attribute
# given the answer, named after the columns. Age is left out here; it will get a model of its own.

# %%
table = ab.ReleasedTable.horizontal(
    released.drop(columns="age"),
    "heart",
    domains={"marital_status": sorted(clinic["marital_status"].unique())},
)
model = ab.build_model(table)
{rv.name: model.named_vars_to_dims[rv.name] for rv in model.free_RVs}

# %% [markdown]
# ## What we add
#
# **A regressor.** If the log odds of heart disease grow by `slope` per ten years, then the ages of patients are the ages
# of the others, weighted by `exp(slope * age / 10)`. So the ages of patients are a distribution with one unknown.
#
# **A channel as likelihood.** `ab.Released` is the likelihood of the *published* ranges, given that distribution. It works
# with every channel, so the noisy phone survey enters in the same way, through the share of heart disease, which the
# table is about as well.

# %%
pyramid = (
    clinic.loc[clinic["heart"] == "no", "age"].value_counts().reindex(ages.values, fill_value=0)
)
pyramid = (pyramid + 0.5).to_numpy() / (pyramid + 0.5).sum()
decades = (np.array(ages.values) - 50) / 10

phones = ab.RandomizedResponse(table.domains["heart"], epsilon=1.0)
rng = np.random.default_rng(10)
survey = phones.release(rng.choice(clinic["heart"], size=30_000), seed=20)

with model:
    slope = pm.Normal("slope", 0.0, 1.0)
    ages_of_patients = pm.math.softmax(np.log(pyramid) + slope * decades)
    ab.Released(
        "age_ranges", ranges, ages_of_patients, observed=released.query("heart == 'yes'")["age"]
    )
    ab.Released("survey", phones, model["pi_heart"], observed=survey)
    pm.Deterministic("odds_ratio", pm.math.exp(slope))
[rv.name for rv in model.free_RVs]

# %% [markdown]
# ## Each variable its own sampler
#
# The distributions about which only the table has information are drawn by `HorizontalStep`, a Gibbs step that knows how to
# distribute hidden values. Everything else is left to PyMC, which picks NUTS. The step must not touch `pi_heart`, because
# the survey has information about it as well.

# %%
with model:
    step = ab.steps.HorizontalStep([model["pi_sex"], model["pi_marital_status"]], table=table)
    idata = pm.sample(
        draws=60 if short else 800,
        tune=80 if short else 500,
        chains=2 if short else 4,
        cores=1,
        step=step,
        random_seed=1,
        progressbar=False,
        compute_convergence_checks=False,  # `ab.diagnose` does it
        **compiling,
    )
report = ab.diagnose(idata)
print(report.text.split("\n\n")[0])
assert short or report.passed

# %% [markdown]
# `ab.diagnose` takes any ArviZ object, and ArviZ's own plots work as usual. Here are the ranks of the draws, chain by chain,
# which should be distributed evenly.

# %%
_ = az.plot_rank(idata, var_names=["odds_ratio"])

# %% [markdown]
# ## Is it right?
#
# Three answers are known by other means, and each checks a different part.
#
# 1. **Marital status given the answer**: the cells of the table are nested, so `ab.fit` has its posterior in closed form.
# 2. **The share of heart disease**: one unknown, so the posterior can be computed on a grid: counts of the table times
#    the survey's likelihood.
# 3. **The odds ratio**: a logistic regression on the cleartext, which only we have.

# %%
draws = idata.posterior
exact = ab.fit(table, seed=1, progressbar=False)
closed = exact.trees["marital_status"].mean
found = draws["pi_marital_status"].mean(("chain", "draw")).transpose("heart", "marital_status")
spread = draws["pi_marital_status"].std(("chain", "draw")).transpose("heart", "marital_status")
size = draws.sizes["chain"] * draws.sizes["draw"]
z_scores = ((found - closed) / (spread / np.sqrt(size))).to_numpy()

grid = np.linspace(0.045, 0.09, 400)
yes = table.domains["heart"].index("yes")
n_yes = int(table.secret_counts[yes])
by_table = stats.beta.logpdf(grid, 1 + n_yes, 1 + table.n_rows - n_yes)
by_survey = np.array([phones.log_likelihood(np.eye(2)[yes] * p + np.eye(2)[1 - yes] * (1 - p), survey)
                      for p in grid])  # fmt: skip


def density(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / (weights.sum() * (grid[1] - grid[0]))


both = density(by_table + by_survey)
grid_mean = (grid * both).sum() / both.sum()
share = draws["pi_heart"].sel(heart="yes")

x, y = (clinic["age"] - 50) / 10, clinic["heart"] == "yes"
logit = optimize.minimize(
    lambda b: (np.logaddexp(0, b[0] + b[1] * x) - y * (b[0] + b[1] * x)).sum(), [0.0, 0.0]
).x[1]
ratio = draws["odds_ratio"]
low, high = (float(ratio.quantile(q)) for q in (0.025, 0.975))

print(f"marital status: largest |z| of {z_scores.size} means: {np.abs(z_scores).max():.1f}")
print(f"share: {float(share.mean()):.4f} sampled, {grid_mean:.4f} on the grid")
print(f"odds ratio per decade: {float(ratio.mean()):.2f}, 95 % from {low:.2f} to {high:.2f}; "
      f"cleartext: {np.exp(logit):.2f}")  # fmt: skip

# %%
assert np.abs(z_scores).max() < 4.5
assert abs(float(share.mean()) - grid_mean) < 0.0015
assert low < np.exp(logit) < high

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
axes[0].hist(share.values.ravel(), 40, density=True, color="0.85", label="sampled")
for curve, label, colour in (
    (density(by_table), "table alone", ORANGE),
    (density(by_survey), "survey alone", GREEN),
    (both, "both, on a grid", BLUE),
):
    axes[0].plot(grid, curve, color=colour, label=label)
axes[0].set(xlabel="share with heart disease", ylabel="density", title="Two sources, one share")
axes[0].legend(frameon=False)

axes[1].hist(ratio.values.ravel(), 40, density=True, color="0.85", label="from the released data")
axes[1].axvline(np.exp(logit), color=BLUE, label="regression on the cleartext")
axes[1].set_ylim(0, 1.35 * axes[1].get_ylim()[1])
axes[1].set(xlabel="odds ratio per ten years of age", title="The answer to the study's question")
_ = axes[1].legend(frameon=False, loc="upper left")

# %% [markdown]
# In spite of ranges of twenty years and lying phones, the odds ratio is found, with an honest interval.

# %% [markdown]
# ## From this model to a risk
#
# Whoever releases the table wants to know what a reader with this model can say about a person. `Posterior.from_draws` takes
# the draws of any model that has the table's distributions; beliefs, `assess` and the report then work as usual.

# %%
own = ab.Posterior.from_draws(table, idata)
people = clinic[["sex", "marital_status", "heart"]]
risk = own.assess(people)
risk.scores[["right", "log_loss", "ece"]].round(3)

# %% [markdown]
# ## Criticise it
#
# Does the model fit? It assumes that sex and marital status are independent given the answer. `check` compares their mutual
# information with that in tables drawn from the posterior; the p-value is the share of tables in which it is at least as large.

# %%
check = own.check(draws=100, seed=1)
print(check.text)
check.table.round(4)

# %% [markdown]
# ## Compare it
#
# Does the survey help to predict the rows of the table? `with_log_likelihood` adds the likelihood row by row, and ArviZ does
# leave-one-out cross-validation. The two models differ only in what they know about the share of heart disease, about which
# 3,000 rows say almost as much: the difference is smaller than its error.

# %%
fewer = 40 if short else 250
compared = az.compare(
    {
        "table and survey": own.with_log_likelihood(draws=fewer).idata,
        "table alone": exact.with_log_likelihood(draws=fewer).idata,
    }
)
compared.iloc[:, :5].round(2)

# %%
difference, error = (float(compared[name].iloc[1]) for name in ("elpd_diff", "dse"))
assert abs(difference) < 4 * error + 1

# %% [markdown]
# And what would another prior change? For the table alone, closed forms answer that.

# %%
ab.sensitivity(table, people, evidence="independent")

# %% [markdown]
# ## Vertical tables
#
# For Anatomy, the model has one more variable, `assignment`: which person owns which secret. Gradients cannot sample it, but
# the steps of `ab.steps.vertical_steps` can. Here are the eight patients of the paper's Table I(c):

# %%
small = ab.datasets.load("table1_anatomy")
with ab.build_model(small) as hidden:
    steps = ab.steps.vertical_steps(ab.steps.layout_of(small), step="block")
    linked = pm.sample(draws=400 if short else 2000, tune=100, chains=2, cores=1, step=steps,
                       random_seed=2, progressbar=False, compute_convergence_checks=False,
                       **compiling)  # fmt: skip
reference = ab.fit(small, draws=4000, chains=2, seed=1, progressbar=False)
mine = linked.posterior["pi_Nat"].mean(("chain", "draw"))
theirs = reference.draws["pi_Nat"].mean(("chain", "draw"))
gap = float(abs(mine - theirs).max())
print([s.name for s in steps], f"largest difference from ab.fit: {gap:.3f}")
assert gap < (0.05 if short else 0.02)

# %% [markdown]
# ## What to conclude
#
# - A released table is a likelihood like any other. Whatever PyMC can express can be combined with it: regressions, other
#   surveys, knowledge from the literature.
# - Use `ab.build_model` for the table, `ab.Released` for whatever came through a channel, and give `ab.steps` only those
#   variables that enter nothing but the table's likelihood. NUTS samples the rest.
# - Check against something that is not your sampler as often as you can: a closed form, a grid, a smaller problem.
# - Draws of your own model are a posterior like any other: assess it, criticise it, compare it.
