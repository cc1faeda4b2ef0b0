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
# # Who is the attacker?
#
# "Is the table anonymous?" has no answer before somebody says for whom. A stranger who has found a whole record, a
# neighbour who knows three things, an insurer with a register of other patients, a journalist who has kept last year's
# edition: each reads the same release and finds out something else. Regulators ask for risk by actor; so does this notebook.
#
# The clinic's patients are made up, so every belief can be held against the truth.

# %% tags=["parameters"]
short = False  # True: fewer people, for a quick look

# %%
import matplotlib.pyplot as plt

import anonbayes as ab

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})

table = ab.datasets.load("clinic_local")  # 4-anonymous, 3-diverse
people = ab.datasets.load("clinic")
table

# %% [markdown]
# ## Four people look at one table
#
# Each attacker is compared with somebody who knows the same of a patient, but not that the patient is in the table. What the
# two differ by is what being in the table costs.

# %%
actors = [
    ab.Actor.stranger(),
    ab.Actor.neighbour("age", "sex", "profession"),
    ab.Actor("colleague", coarse={"age": 2}, about="Knows the age group, and the rest exactly."),
    ab.Actor(
        "gossip",
        noisy={"marital_status": ab.RandomizedResponse(table.domains["marital_status"], 1.0)},
        about="Has heard of the marital status, not always rightly; knows the rest.",
    ),
]
found = ab.attackers(table, people, actors, seed=1, draws=100, progressbar=False)
found

# %%
found.plot()
plt.show()

# %% [markdown]
# The stranger, who has the whole record, finds out most; the neighbour hardly more than the population gives away. A limit
# on the stranger is therefore the safe one, and a limit on the neighbour says what most patients have to fear.

# %%
right = found.table["right"]
assert right.idxmax() == "stranger" and right["neighbour"] == right.min()

# %% [markdown]
# ## Last year's edition
#
# Anatomy publishes everybody's attributes and hides whose diagnosis is whose inside groups of three. Here are two editions
# of the same patients, grouped at random each time. Each by itself leaves the attacker with less than one right guess in two.

# %%
some = people.iloc[: 300 if short else 1200].reset_index(drop=True)
first, second = (ab.anonymize.anatomy(some, "diagnosis", l=3, seed=seed) for seed in (1, 2))
editions = ab.attackers(
    first,
    some,
    [
        ab.Actor("this year's reader", about="Holds one edition."),
        ab.Actor("collector", also=[second], about="Holds both, and matches equal records."),
    ],
    seed=1,
    progressbar=False,
)
editions.plot()
plt.show()
print(editions.text)

# %% [markdown]
# Two harmless tables give away almost everybody. It is not the intersection of a patient's two groups that does it, which
# leaves one diagnosis for few:

# %%
both = ab.fit([first, second], seed=1, progressbar=False)
worlds = both.editions.joint.worlds
alone = (worlds.max(axis=1).toarray().ravel() > 0.999).mean()
told = (both.editions.joint.owned.max(axis=1).toarray().ravel() > 0.999).mean()
print(f"certain by intersection: {alone:.0%}; certain by reading all groups together: {told:.0%}")
assert told > 2 * alone

# %% [markdown]
# A patient whose diagnosis is certain takes it off the list of both groups; that makes others certain, whose second groups
# are shortened in turn. It is the way error-correcting codes are decoded. And the attacker means what the numbers say:

# %%
risk = editions.risks["collector"]
risk.plot_reliability()
plt.show()
assert risk.scores.loc["attacker", "ece"] < 0.05

# %% [markdown]
# ## What to conclude
#
# Name the attackers whom you must expect, and set limits for each. Publish an Anatomy once, or keep the groups from one
# edition to the next. Before publishing, ask:
#
# ```sh
# anonbayes anonymize people.csv --sensitive diagnosis --scheme anatomy --l 3 --out qit.csv --anatomy st.csv \
#     --also last_year_qit.csv+last_year_st.csv
# ```
