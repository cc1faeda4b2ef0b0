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
# # First steps: is this table fit to be published?
#
# A clinic wants to publish a table of its patients. Names are gone, ages and postcodes are coarsened, and every
# group of people who look alike has at least four members with at least three different diagnoses. Is that enough?
#
# Two people read the table. A **learner** wants to know about the population. An **attacker** has a neighbour who is
# in the table, knows the neighbour's age, sex and postcode, and wants the diagnosis. What the learner finds out is the
# purpose of publishing; what the attacker finds out *beyond that* is its cost.

# %% tags=["parameters"]
short = False  # True: fewer draws, for a quick look

# %%
import matplotlib.pyplot as plt

import anonbayes as ab

table = ab.datasets.load("clinic_local")
table

# %% [markdown]
# `describe` says how much each column hides: how many values a published cell still allows.

# %%
table.describe()

# %% [markdown]
# ## What can be learned
#
# The cells come from a hierarchy, so they are nested and the posterior has a closed form: no Markov chain is needed,
# and no burn-in. `fit` detects this and says so.

# %%
post = ab.fit(table, seed=1, progressbar=False)
post.method

# %% [markdown]
# ## One person
#
# We have the cleartext (the clinic is made up), so we can look at the first patient as a neighbour would, who knows
# everything except the diagnosis.

# %%
people = ab.datasets.load("clinic")
patient = people.iloc[0]
known = {name: patient[name] for name in table.attributes}

beliefs = {
    "learner": post.learner(known),
    "attacker": post.attacker(known),
    "random worlds": post.random_worlds(known),
}
fig, ax = plt.subplots(figsize=(8, 3.5))
for i, (name, belief) in enumerate(beliefs.items()):
    ax.bar([x + 0.27 * (i - 1) for x in range(len(belief))], belief, width=0.27, label=name)
ax.set_xticks(range(len(belief)), [str(v) for v in belief.index], rotation=40, ha="right")
ax.set_ylabel("probability")
ax.set_title(f"Diagnosis of one patient (in truth: {patient[table.sensitive]})")
ax.legend(frameon=False)
fig.tight_layout()

# %% [markdown]
# The attacker's belief differs from the learner's: knowing that the neighbour *is in the table* rules out what the
# neighbour's groups do not contain. The attacker may also know less: a set of values, a coarser label, weights, or
# nothing about an attribute.

# %%
post.attacker({"sex": known["sex"]}).round(3)

# %% [markdown]
# ## Everybody
#
# `assess` does this for all rows at once and compares the beliefs with the truth. The relative threat of a row is the
# attacker's belief in its true secret divided by the learner's.

# %%
risk = post.assess(people)
risk.summary.round(4)

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 4))
risk.plot_beliefs(ax=axes[0])
risk.plot_relative_threat(ax=axes[1])
fig.tight_layout()

# %% [markdown]
# ## Another release?
#
# The same people can be recoded globally, or published by Anatomy. Here are privacy and usefulness of all three.

# %%
others = {
    "local": risk,
    "global": ab.fit(ab.datasets.load("clinic_global"), seed=1, progressbar=False).assess(people),
    "Anatomy": ab.fit(
        ab.datasets.load("clinic_anatomy"),
        draws=100 if short else 500,
        tune=300 if short else 1000,
        seed=1,
        progressbar=False,
    ).assess(people),
}
for name, assessment in others.items():
    more, close = assessment.summary["RGT_A"], assessment.summary["RF"]
    print(f"{name:8s} threatened beyond the population: {more:6.3f}   faithfulness: {close:.3f}")

# %% [markdown]
# ## What to conclude
#
# - A table can satisfy its k and its l and still tell an attacker more about some people than about the population.
#   The rows with a relative threat far above one are the ones to look at before publishing.
# - The release that teaches most about the population is not always the one that reveals most about individuals, but
#   the two go together often enough that they should be looked at side by side.
# - Whether a relative threat of 2 or of 10 is acceptable is a decision, not a computation. `anonbayes assess`
#   writes the report that such a decision needs.
