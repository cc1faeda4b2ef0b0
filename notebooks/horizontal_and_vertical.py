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
# # Horizontal and vertical: one table, published in two ways
#
# There are two ways to hide who has which secret.
#
# - **Horizontal** schemes blur what is known about people. A row shows an age range, the first digits of a postcode,
#   a kind of profession, so that several people look alike.
# - **Vertical** schemes, such as Anatomy, cut the table in two. Age, postcode and profession are published exactly, the
#   secrets are published exactly, and only the link between them is withheld within small groups.
#
# Both can make the same promise on paper. Here the same 3,000 patients of a made-up clinic are published both ways, in
# groups of at least three people with at least three different diagnoses. What do two readers learn from each: a
# *learner*, who wants to know about the population, and an *attacker*, who knows somebody in the table?

# %% tags=["parameters"]
short = False  # True: fewer draws, for a quick look

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anonbayes as ab

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "0.45"

people = ab.datasets.load("clinic")
tables = {
    "horizontal": ab.anonymize.recode(
        people, "diagnosis", ab.datasets.hierarchies("clinic"), k=3, l=3, local=True
    ),
    "vertical": ab.anonymize.anatomy(people, "diagnosis", l=3, seed=1),
}
for table in tables.values():
    assert table.k == table.l == 3
    print(table)

# %% [markdown]
# ## What is published
#
# One group of each. The horizontal rows are blurred, but each keeps its diagnosis.

# %%
blurred = tables["horizontal"]
smallest = blurred.group_sizes.to_numpy().argmin()
blurred.to_frame()[blurred.group_codes == smallest]

# %% [markdown]
# The vertical group shows every person exactly. Its diagnoses are a second table, linked to the first by nothing but
# the group.

# %%
who, what = tables["vertical"].to_frames()
who[who["group"] == 0]

# %%
what[what["group"] == 0]

# %% [markdown]
# ## Learning from it
#
# The horizontal posterior has a closed form, the vertical one has none. There, the diagnoses of each group are
# assigned to its people by what the *other* groups teach about the population, so that nobody's own data count as
# evidence about them (cross-fitting). `fit` also learns from each release how much an attribute should count, because
# attributes overlap; see *Calibrated attackers*.

# %%
posts = {
    "horizontal": ab.fit(tables["horizontal"], seed=1, progressbar=False),
    "vertical": ab.fit(
        tables["vertical"],
        draws=200 if short else 500,
        seed=1,
        progressbar=False,
    ),
}
assert posts["horizontal"].method == "exact" and posts["vertical"].method == "crossfit"
for scheme, post in posts.items():
    print(f"{scheme}: {post.evidence} evidence; {post.evidence_reason}")

# %% [markdown]
# Beliefs are worth reporting if they mean what they say and score better than counting does (log loss; less is better).

# %%
risks = {scheme: post.assess(people) for scheme, post in posts.items()}
for scheme, risk in risks.items():
    gap = risk.score_differences.loc["attacker - random_worlds"]
    print(
        f"{scheme:10s} attacker against random worlds: log loss {gap['log_loss']:+.3f} "
        f"(s.e. {gap['log_loss_se']:.3f}), calibration error {risk.scores.loc['attacker', 'ece']:.3f}"
    )
assert risks["vertical"].score_differences.loc["attacker - random_worlds", "log_loss"] < 0

# %% [markdown]
# ## One person
#
# Take the patient with the largest relative threat among those whom the vertical table exposes almost certainly, and
# compare the beliefs of three readers. *Random worlds* is an attacker who only counts: every cleartext table that fits
# the release is equally likely. The *attacker* also learns from the table what is usual in the population, as everybody
# can.

# %%
sure = risks["vertical"].threatened.query("p_A > 0.9")
victim = sure.index[0]  # the largest relative threat comes first
known = people.loc[victim, list(tables["vertical"].attributes)].to_dict()
secret = people.loc[victim, "diagnosis"]
readers = {"learner": GREEN, "random worlds": GREY, "attacker": ORANGE}
values = sorted(people["diagnosis"].unique())

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
believed = {}
for ax, (scheme, post) in zip(axes, posts.items(), strict=True):
    beliefs = (post.learner(known), post.random_worlds(known), post.attacker(known))
    for i, belief in enumerate(beliefs):
        believed[scheme, belief.name] = belief[secret]
        place = np.arange(len(values)) + 0.27 * (1 - i)
        ax.barh(place, belief[values], 0.27, color=readers[belief.name], label=belief.name)
    ax.set(xlim=(0, 1), xlabel="probability", title=scheme)
axes[0].set_yticks(range(len(values)), [f"{v} (true)" if v == secret else v for v in values])
axes[1].legend(frameon=False, loc="upper right")
_ = fig.suptitle(f"Diagnosis of patient {victim}")

# %%
known | {"diagnosis": secret}

# %%
for scheme in posts:
    line = ", ".join(f"{reader} {believed[scheme, reader]:.3f}" for reader in readers)
    print(f"{scheme:10s} belief in the truth: {line}")
assert believed["vertical", "attacker"] > 2 * believed["vertical", "random worlds"]
assert believed["vertical", "attacker"] > 2 * believed["horizontal", "attacker"]

# %% [markdown]
# By counting, each of the three diagnoses of the group in the vertical table has a probability of a third, which is
# what its l = 3 promises. The attacker does much better: what the other groups teach about age and profession reveals
# which of the three diagnoses is this person's. The promise was only about counting, and a reader need not stop there.
#
# ## Everybody
#
# Each dot stands for people whose diagnosis the attacker guesses right. On the diagonal, being in the table costs
# nothing; above it, the attacker is surer than the learner.

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.5, 4.3), layout="constrained")
for ax, (scheme, risk) in zip(axes, risks.items(), strict=True):
    risk.plot_beliefs(ax=ax)
    ax.set_title(f"{scheme}: {risk.summary['threatened']:,.0f} of 3,000 threatened")

# %%
comparison = ab.compare(risks)
comparison.table[
    ["GT_L", "GT_RW", "GT_A", "RGT_A", "Ti_q95", "max_Ti", "baseline", "ideal", "RF"]
].T.round(3)

# %%
found = comparison.table
assert found.loc["vertical", "GT_A"] > found.loc["horizontal", "GT_A"] + 0.1
assert abs(found.loc["vertical", "GT_RW"] - found.loc["horizontal", "GT_RW"]) < 0.03
assert abs(found.loc["horizontal", "GT_A"] - found.loc["horizontal", "GT_RW"]) < 0.03
assert found.loc["vertical", "GT_A"] > found.loc["vertical", "ideal"] + 0.1
risks["vertical"].measures.loc[
    ["GT_A", "GT_L", "GT_RW", "RGT_A", "RF"], ["meaning"]
].style.set_properties(**{"text-align": "left"})

# %% [markdown]
# To an attacker who only counts (`GT_RW`) the two tables are about equally dangerous. To one who learns (`GT_A`) they
# are not: from the vertical table, about half of the diagnoses can be guessed, even more than with a perfect model of
# the population (`ideal`). In the horizontal table, learning adds almost nothing to counting.
#
# ## Finding the row is another matter
#
# Guessing a secret is one harm. Being found in the table is another, and here the schemes differ in kind.

# %%
found_rows = pd.DataFrame(
    {scheme: risk.syntactic()["average"] for scheme, risk in risks.items()}
).loc[["marketer", "attacker"]]
found_rows.index = ["whose row is found", "whose diagnosis is guessed"]
assert found_rows.loc["whose row is found", "vertical"] > 0.9
assert found_rows.loc["whose row is found", "horizontal"] < 0.1
found_rows.style.format("{:.1%}").set_caption("Expected share of people")

# %% [markdown]
# A vertical table shows openly who is in it. If it is a secret that somebody was at *this* clinic at all, Anatomy is
# not an option, whatever its l.
#
# ## What the data are good for
#
# Publishing has a purpose. How well can one learn the age of people with heart disease, and how well their profession?

# %%
illness = "heart disease"
mine = people[people["diagnosis"] == illness]
edges = np.arange(15, 95, 5)
decades = pd.cut(people["age"], edges, right=False)
truth_age = mine.groupby(decades.loc[mine.index], observed=False).size() / len(mine)

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
colours = {"horizontal": BLUE, "vertical": ORANGE}
axes[0].stairs(truth_age, edges, color="black", label="cleartext", linewidth=1.5)
for scheme, post in posts.items():
    draws = post.draws["pi_age"].sel(diagnosis=illness)
    labels = [str(label) for label in truth_age.index]
    ages = draws["age"].astype(int).to_series()
    bins = pd.cut(ages, edges, right=False, labels=labels).astype(str)
    draws = draws.groupby(bins.to_xarray().rename("bin")).sum("age")
    draws = draws.sel(bin=labels)
    low, high = (draws.quantile(q, ("chain", "draw")) for q in (0.05, 0.95))
    centre = draws.mean(("chain", "draw"))
    shift = 0.6 if scheme == "vertical" else -0.6
    axes[0].errorbar(edges[:-1] + 2.5 + shift, centre, yerr=[centre - low, high - centre], fmt="o",
                     markersize=4, color=colours[scheme], label=f"{scheme}, 90 %")  # fmt: skip
axes[0].set(xlabel="age", ylabel="probability", title=f"Age, given {illness}")
axes[0].legend(frameon=False, loc="upper left")

share = mine["profession"].value_counts(normalize=True)
place = np.arange(len(share))
axes[1].barh(place, share, color="0.8", label="cleartext")
for scheme, post in posts.items():
    mean = post.draws["pi_profession"].sel(diagnosis=illness).mean(("chain", "draw"))
    axes[1].plot(mean.sel(profession=list(share.index)), place, "o" if scheme == "vertical" else "s",
                 color=colours[scheme], label=scheme)  # fmt: skip
axes[1].set_yticks(place, share.index)
axes[1].set(xlabel="probability", title=f"Profession, given {illness}")
_ = axes[1].legend(frameon=False)

# %% [markdown]
# Inside an age range or a kind of profession the horizontal table knows nothing, and the model spreads its belief
# evenly; the vertical table keeps single values apart, but pays with uncertainty about whom they belong to. Put in
# numbers, attribute by attribute: the distance (total variation, averaged over diagnoses by frequency) between what
# cleartext and release teach.

# %%
weights = people["diagnosis"].value_counts(normalize=True)
distance = {}
for name in tables["vertical"].attributes:
    counts = pd.crosstab(people["diagnosis"], people[name].astype(str))
    truth = counts.div(counts.sum(axis=1), axis=0)
    for scheme, post in posts.items():
        mean = post.draws[f"pi_{name}"].mean(("chain", "draw")).to_pandas()
        mean.columns = mean.columns.astype(str)
        gap = mean.sub(truth, fill_value=0.0).abs().sum(axis=1) / 2
        distance.setdefault(scheme, {})[name] = gap @ weights.reindex(gap.index)
distance = pd.DataFrame(distance)
distance.round(3)

# %%
assert distance.loc["zip", "vertical"] < distance.loc["zip", "horizontal"]
assert distance.loc["sex", "horizontal"] < distance.loc["sex", "vertical"]
assert found.loc["vertical", "RF"] > found.loc["horizontal", "RF"] + 0.1

# %% [markdown]
# ## What to conclude
#
# - The same k and the same l do not mean the same protection. They limit what counting finds out; the vertical table
#   here gives a learning attacker far more than its l suggests, because everything but the link is published exactly.
# - Horizontal schemes hide who is in the table and the exact values of their attributes. Vertical schemes hide neither.
#   Ask first what must be kept secret: the diagnosis, or having been a patient at all.
# - In return, more can be learned from the vertical table overall (`RF`), mostly about attributes with many values, such
#   as postcodes. Attributes that recoding left alone, such as sex, are learned better from the horizontal one.
# - Before you quote an attacker's belief, look at its scores: `risk.scores` and `risk.plot_reliability()` compare it
#   with the truth. With `evidence="independent"`, a vertical posterior is sampled by Markov chains, which have to be
#   checked as well; see *Convergence in practice*.
