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
# "Is the table anonymous?" cannot be answered without saying who is reading it. A stranger who has found a whole record, a
# neighbour who knows three things, an insurer with a register of other patients, a journalist who has kept last year's
# edition: each reads the same release and finds out something different. Regulators ask for the risk from each kind of
# attacker, and this notebook computes it.
#
# The clinic's patients are made up, so every belief can be compared with the truth.

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
# Each attacker is compared with somebody who knows the same about a patient, except that the patient is in the table. The
# difference between the two is the cost of being in the table.

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
# The stranger, who has the whole record, finds out most; the neighbour finds out hardly more than the population gives away.
# So a limit on the stranger is the safe choice, and a limit on the neighbour describes the threat that most patients face.

# %%
right = found.table["right"]
assert right.idxmax() == "stranger" and right["neighbour"] == right.min()

# %% [markdown]
# ## Last year's edition
#
# Anatomy publishes everybody's attributes and hides, within groups of three, whose diagnosis is whose. Here are two editions
# of the same patients, grouped at random each time. With either of them alone, fewer than half of the guesses are right.

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
# Together, two harmless tables give away almost everybody. This is not due to the intersection of a patient's two groups, which
# leaves a single diagnosis for only a few:

# %%
both = ab.fit([first, second], seed=1, progressbar=False)
worlds = both.editions.joint.worlds
alone = (worlds.max(axis=1).toarray().ravel() > 0.999).mean()
told = (both.editions.joint.owned.max(axis=1).toarray().ravel() > 0.999).mean()
print(f"certain by intersection: {alone:.0%}; certain by reading all groups together: {told:.0%}")
assert told > 2 * alone

# %% [markdown]
# If a patient's diagnosis is certain, it can be crossed off the lists of both groups. That makes other diagnoses certain, which
# shortens the lists of further groups, and so on; error-correcting codes are decoded in the same way. And the attacker's beliefs
# are calibrated:

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
