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
# # Calibrated attackers: can a stated belief be believed?
#
# An attacker says: "I am 90% sure that your neighbour has diabetes." If such sentences come true nine times in ten,
# the attacker is *calibrated*, and the number can be put in a report. If they come true seven times in ten, the number
# says more about the attacker's model than about the neighbour.
#
# The clinic has published its patients by Anatomy: everything except the diagnosis is in clear, and the diagnoses of each
# group are listed separately. The clinic is made up, so we can compare every belief with the truth.

# %% tags=["parameters"]
short = False  # True: fewer draws, for a quick look

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anonbayes as ab

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})

table = ab.datasets.load("clinic_anatomy")
people = ab.datasets.load("clinic")
effort = {"draws": 100, "tune": 300} if short else {"draws": 500, "tune": 1000}
table

# %% [markdown]
# ## What the independent attacker believed
#
# The model of Groups assumes that attributes are independent given the diagnosis, and multiplies their evidence.
# `evidence="independent"` asks for this model.

# %%
independent = ab.fit(table, evidence="independent", seed=1, progressbar=False, **effort)
before = independent.assess(people)
print(ab.diagnose(independent).text.splitlines()[0])
stated, right = before.scores.loc["attacker", ["stated", "right"]]
print(
    f"The attacker is {stated:.0%} sure of the best guess on average, and right about {right:.0%} of all people."
)
assert stated > right + 0.1

# %% [markdown]
# ## What was true
#
# Sort people by how sure the attacker is of the best guess, and count how often that guess is right. On the diagonal,
# beliefs mean what they say; below it, they exaggerate.

# %%
_ = before.plot_reliability()

# %% [markdown]
# The attacker exaggerates, a little when unsure and a lot when sure. The chains agree, so they are not the reason. The
# model may be: age, marital status and profession depend on each other, and multiplying their evidence counts the same
# hint more than once. This can be tested. If each attribute is shuffled among the people with the same diagnosis, the
# attributes *are* independent given the diagnosis, and everything else stays the same.

# %%
rng = np.random.default_rng(1)
shuffled = people.copy()
for name in table.attributes:
    shuffled[name] = people.groupby("diagnosis")[name].transform(
        lambda c: rng.permutation(c.to_numpy())
    )
excess = {}
for name, frame in {"as they are": people, "shuffled": shuffled}.items():
    release = ab.anonymize.anatomy(frame, "diagnosis", l=3, seed=1)
    post = ab.fit(release, evidence="independent", seed=1, progressbar=False, **effort)
    line = post.assess(frame).scores.loc["attacker"]
    excess[name] = line["stated"] - line["right"]
    print(
        f"{name:11s} stated {line['stated']:.3f}, right {line['right']:.3f}: too sure by {excess[name]:.3f} (s.e. of right {line['right_se']:.3f})"
    )
assert 0 < excess["shuffled"] < 0.6 * excess["as they are"]

# %% [markdown]
# Without the dependence, most of the exaggeration disappears. Some remains, so dependence is not the whole explanation;
# a single shuffle does not show what the rest is.
#
# ## Weighted evidence
#
# By default, `fit` gives each attribute a weight, learned from the release alone: groups are left out in turn, and
# the weights are those that predict the left-out groups best. It keeps them only if they predict better than full
# weights do, by more than the standard error, and says why.

# %%
weighted = ab.fit(table, seed=1, progressbar=False, **effort)
assert weighted.evidence == "weighted"
print(weighted.evidence_reason)
weighted.weights[["weight", "se", "meaning"]].style.format(precision=2)

# %% [markdown]
# The grey bar is what an attribute tells by itself, the blue one what it adds to the others. Where the blue bar is much
# shorter, the others tell most of it as well.

# %%
ax = weighted.plot_weights()
ax.locator_params(axis="x", nbins=4)
_ = ax.legend(frameon=False, loc="center right")

# %% [markdown]
# ## What changes
#
# The same people, the same release, the other attacker:

# %%
after = weighted.assess(people)
fig, axes = plt.subplots(1, 2, figsize=(9.5, 5.4), layout="constrained")
for ax, (name, risk) in zip(axes, {"independent": before, "weighted": after}.items(), strict=True):
    risk.plot_reliability(ax=ax)
    ax.set_title(name)

# %% [markdown]
# Log loss penalises beliefs that are sure and wrong; less is better. The yardstick is *random worlds*, an attacker who
# only counts the diagnoses of a group. An attacker who does worse than that should have stopped at counting.

# %%
columns = ["right", "stated", "log_loss", "brier", "ece"]
scores = pd.DataFrame(
    {
        "random worlds": before.scores.loc["random_worlds", columns],
        "independent": before.scores.loc["attacker", columns],
        "weighted": after.scores.loc["attacker", columns],
    }
).T
loss = scores["log_loss"]
assert loss["weighted"] < loss["random worlds"] < loss["independent"]
for name, risk in {"independent": before, "weighted": after}.items():
    gap = risk.score_differences.loc["attacker - random_worlds"]
    print(
        f"{name:11s} log loss beyond random worlds: {gap['log_loss']:+.3f} (s.e. {gap['log_loss_se']:.3f})"
    )
scores.round(3)

# %% [markdown]
# Both attackers guess far better than counting does, but only the weighted one also knows how good the guesses are.
# That matters for every measure computed from beliefs, above all the relative threat: a ratio of two exaggerated
# beliefs has no clear meaning.

# %%
measures = pd.DataFrame({"independent": before.summary, "weighted": after.summary})
assert measures.loc["max_Ti", "weighted"] < measures.loc["max_Ti", "independent"]
print(before.cautions.get("max_Ti", ""))
measures.loc[["GT_A", "RGT_A", "Ti_q95", "max_Ti"]].round(2)

# %% [markdown]
# ## An attacker who knows the group
#
# Somebody may know little about a victim except the number of the group, for instance from a leaked index. `group=` adds
# that knowledge. Here the attacker knows only age and sex. The victims are patients whose record occurs once, so that
# we can find their groups.

# %%
known = list(table.attributes)
who, _ = table.to_frames()
once = who.drop_duplicates(known, keep=False)
victims = people.merge(once, on=known)
if short:
    victims = victims.head(200)
guesses = {
    "age and sex": weighted.attacker(victims[["age", "sex"]]),
    "age, sex and group": weighted.attacker(victims[["age", "sex", "group"]], group="group"),
}
share = {
    name: (g.idxmax(axis=1).to_numpy() == victims["diagnosis"]).mean()
    for name, g in guesses.items()
}
for name, value in share.items():
    print(f"knows {name:19s} right about {value:.0%} of {len(victims):,} people")
assert share["age, sex and group"] > share["age and sex"]

# %% [markdown]
# `assess(people, group="group")` asks the same about everybody, if a column of the cleartext names the groups.
#
# ## Real people
#
# The census table Adult is not part of the package; `anonbayes datasets download adult` downloads it once. Its attributes
# depend on each other, as those of real people do. The secret is the occupation; the release is an Anatomy with l = 4.

# %%
try:
    adult = ab.datasets.load("adult", download=False)
except ab.AnonbayesError:
    adult = None
    print("Adult is not in the cache, so this cell has nothing to show.")
if adult is not None:
    some = adult.sample(1500 if short else 6000, random_state=1).reset_index(drop=True)
    release, truth = ab.anonymize.anatomy(some, "occupation", l=4, seed=1, return_truth=True)
    lines = {}
    for evidence in ("independent", "auto"):
        post = ab.fit(release, evidence=evidence, seed=1, progressbar=False, **effort)
        found = post.assess(some.assign(group=truth["group"]), group="group").scores[columns]
        lines[post.evidence] = found.loc["attacker"]
    lines["random worlds"] = found.loc["random_worlds"]
    print(pd.DataFrame(lines).T.round(3))

# %% [markdown]
# ## What to conclude
#
# - If chains agree, the computation is probably right. Whether the *model* is right, only outcomes can tell: look at
#   `risk.scores` and `risk.plot_reliability()` before you quote a belief.
# - Counting dependent attributes in full is a large part of the problem here. Weighted evidence learns from the release
#   alone how much each attribute should count, so an attacker can do the same.
# - A belief that is too sure is not a cautious estimate of the danger. Among the people about whom the attacker claims to
#   be almost certain, many are guessed wrong, and relative threats inherit the exaggeration.
# - Compare with random worlds. Do not report an attacker who scores worse than counting.
