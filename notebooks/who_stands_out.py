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
# # Who stands out?
#
# A record that nobody else in a table has looks dangerous. But it is dangerous only if nobody else in the *population* has
# it, and the population is not in the table. `ab.identity` estimates the population from the table.
#
# The town in this notebook is made up, so that every answer can be compared with the truth.

# %% tags=["parameters"]
short = False  # True: fewer draws, for a quick look

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anonbayes as ab

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
draws = 40 if short else 300

rng = np.random.default_rng(1)
size = 20_000
kind = rng.choice(3, size, p=[0.5, 0.3, 0.2])  # families, students, pensioners
town = pd.DataFrame(
    {
        "age": rng.normal(np.array([40, 24, 72])[kind], np.array([10, 3, 7])[kind])
        .round()
        .clip(18, 95)
        .astype(int),
        "sex": rng.choice(["f", "m"], size),
        "district": [f"D{d}" for d in np.minimum(rng.geometric(0.25 + 0.1 * kind), 12)],
        "job": [f"J{j}" for j in np.minimum(rng.geometric(0.15 + 0.3 * (kind == 2)), 20)],
    }
)
in_sample = rng.choice(size, 1_500, replace=False)
sample = town.iloc[in_sample]
sample.head(3)

# %% [markdown]
# ## What the table alone says, and what is true

# %%
shared = town.groupby(list(town))["age"].transform("size").to_numpy()
alone = shared[in_sample] == 1
who = ab.identity(sample, population=size, draws=draws, seed=1, progressbar=False)
who

# %%
found = 1 / shared[in_sample]
once = who.rows["sample_frequency"].to_numpy() == 1
truth = pd.Series(
    {
        "unique_in_population": alone.sum(),
        "population_uniques": (shared == 1).sum(),
        "matches_of_uniques": found[once].sum(),
        "matches": found.sum(),
    },
    name="truth",
)
lines = who.summary.loc[truth.index, ["estimate", "low", "high"]]
lines.join(truth).round(0)

# %% [markdown]
# The number of sample uniques that are unique in the town is called tau 1 elsewhere, that of correct matches of sample
# uniques tau 2. Taking every sample unique for a unique person would be far off:

# %%
print(f"{int(once.sum())} rows are unique in the table, {alone.sum()} of them in the town.")
assert who.summary.loc["unique_in_population", "high"] < once.sum()

# %% [markdown]
# ## Person by person
#
# Bars contain nine of ten rows. Of the people to whom the model gives a probability of, say, 30%, about 30% should be unique.

# %%
who.plot()
plt.show()

# %%
chance = who.rows["unique"].to_numpy()[once]
bins = pd.cut(chance, [0, 0.1, 0.3, 0.5, 0.7, 1.0], include_lowest=True)
pd.DataFrame({"said": chance, "true": alone[once]}).groupby(bins, observed=True).agg(
    people=("said", "size"), said=("said", "mean"), true=("true", "mean")
).round(2)

# %% [markdown]
# ## What makes somebody stand out
#
# `contributions` says by how much each attribute raises the probability that a row is unique. `minimal_uniques` finds, as SUDA
# does, the smallest sets of attributes in which a row is unique in the table.

# %%
riskiest = np.argsort(who.rows["unique"].to_numpy())[::-1][:5]
who.contributions(riskiest).round(2)

# %%
who.minimal_uniques(riskiest)

# %% [markdown]
# ## After the release
#
# In the release, ages are in bands of ten years and districts are hidden. The same question can be asked of the released cells:

# %%
coarse = sample.drop(columns="district").assign(age=(sample["age"] // 10 * 10).astype(str) + "s")
after = ab.identity(coarse, population=size, draws=draws, seed=1, progressbar=False)
names = ["unique_in_population", "matches", "marketer", "k_map", "bits"]
before_after = pd.concat(
    {"before": who.summary["estimate"], "after": after.summary["estimate"]}, axis=1
)
before_after.loc[names].round(2)

# %% [markdown]
# ## A survey that asked some districts more often
#
# Half of the people in this table come from two small districts. Strata or weights correct for that; without them, the model
# takes the small districts for large ones.

# %%
small = town["district"].isin(["D5", "D6"]).to_numpy()
dense = np.concatenate(
    [
        rng.choice(np.flatnonzero(small), 700, replace=False),
        rng.choice(np.flatnonzero(~small), 700, replace=False),
    ]
)
survey = town.iloc[dense].assign(area=np.where(small[dense], "small", "large"))
people = {"small": int(small.sum()), "large": int((~small).sum())}
survey["weight"] = survey["area"].map(people) / 700
columns = list(town)
settings = {"draws": draws, "seed": 1, "progressbar": False}
answers = {
    "neither": ab.identity(survey[columns], population=size, **settings),
    "weights": ab.identity(survey[[*columns, "weight"]], weights="weight", **settings),
    "strata": ab.identity(survey[[*columns, "area"]], strata="area", population=people, **settings),
}
table = pd.DataFrame(
    {
        name: a.summary.loc[["unique_in_population", "matches"], "estimate"]
        for name, a in answers.items()
    }
)
table["truth"] = [(shared[dense] == 1).sum(), (1 / shared[dense]).sum()]
table.round(0)

# %% [markdown]
# ## What to conclude
#
# - Being unique in a table says little; being unique in the population can be estimated from the table, with an interval.
# - The probabilities are right person by person, so you can find those who need protection, and the attributes that expose them.
# - Say how the sample was drawn: use strata or weights if some people were more likely to be asked.
# - `anonbayes identity` and `anonbayes assess --population` do the same in a pipeline, with limits.
