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
# # Surveys under local privacy, the Bayesian way
#
# In the other notebooks, somebody has the table and publishes a blurred copy. Here nobody ever has it: every person's
# phone adds noise to the answer *before* it leaves the phone. This is local differential privacy. A single report proves
# little about its sender, but many reports together say a lot about the population, if they are read properly.
#
# The survey asks: which of 13 diagnoses do you have?

# %% tags=["parameters"]
short = False  # True: fewer repetitions, for a quick look

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anonbayes as ab

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "0.45"

shares = ab.datasets.load("clinic")["diagnosis"].value_counts(normalize=True)
answers = ab.Domain("diagnosis", list(shares.index))
n, epsilon = 10_000, 1.0
rng = np.random.default_rng(1)
truth = rng.choice(shares.index, size=n, p=shares)

response = ab.RandomizedResponse(answers, epsilon)
print("a phone whose owner has HIV sends:", list(response.release(["HIV"] * 5, seed=3)))

# %% [markdown]
# ## What is guaranteed
#
# *Randomized response* sends the true answer a little more often than each other one. How much more is limited by
# exp(epsilon), and that can be audited on the exact probabilities. The audit returns a *witness*: the pair of answers,
# and the report, that comes closest to the limit.

# %%
audit = response.satisfies(ab.LDP(epsilon))
print(audit)
assert audit.holds and math.isclose(audit.worst_ratio, math.e)
print(response.satisfies(ab.LDP(0.9)))

# %% [markdown]
# ## Reading the reports
#
# There are ten thousand reports and four estimators. The **empirical** one inverts the noise; it is right on average, but
# may say that a negative number of people is ill. The **threshold** rule keeps significant shares and distributes the
# rest evenly. **Maximum likelihood** returns a proper distribution. So does **Bayes**, with a posterior.

# %%
reports = response.release(truth, seed=3)
methods = {"empirical": ORANGE, "threshold": GREY, "mle": GREEN, "bayes": BLUE}
estimates = {method: response.estimate(reports, method=method) for method in list(methods)[:3]}
estimates["bayes"] = response.estimate(reports, method="bayes", seed=1)

place = np.arange(len(shares))
fig, ax = plt.subplots(figsize=(9, 4), layout="constrained")
ax.bar(place, shares, color="0.88", label="truth")
for i, (method, estimate) in enumerate(estimates.items()):
    where = place + 0.18 * (i - 1.5)
    ax.plot(where, estimate.p, "o", markersize=4, color=methods[method], label=method)
    if method == "bayes":
        ax.vlines(where, *estimate.interval.T, color=methods[method], linewidth=1.5)
ax.axhline(0, color="black", linewidth=0.8)
ax.set_xticks(place, shares.index, rotation=35, ha="right")
ax.set(ylabel="share of people", title=f"Randomized response, epsilon = {epsilon:g}, {n:,} reports")
_ = ax.legend(frameon=False, ncols=5, loc="upper right")

# %%
error = {method: float(np.abs(e.p - shares).sum()) for method, e in estimates.items()}
print("distance from the truth (l1):", {k: round(v, 3) for k, v in error.items()})
assert estimates["empirical"].p.min() < 0 <= estimates["mle"].p.min()
assert error["bayes"] < error["empirical"]

# %% [markdown]
# The lines are 95% intervals, and they are wide: with this much noise, the rare diagnoses cannot be distinguished from
# zero. A picture without intervals would have hidden that.
#
# ## Protect what needs protection
#
# Not every answer is sensitive. If only four of them are, the *utility-optimized* mechanisms (ULDP) protect those
# as before and send the others with hardly any noise.

# %%
sensitive = ["addiction", "hepatitis", "epilepsy", "HIV"]
channels = {
    "randomized response": response,
    "RAPPOR": ab.RAPPOR(answers, epsilon),
    "utility-optimized RR": ab.UtilityOptimizedRR(answers, epsilon, sensitive=sensitive),
    "utility-optimized RAPPOR": ab.UtilityOptimizedRAPPOR(answers, epsilon, sensitive=sensitive),
}
uldp = ab.ULDP(sensitive, epsilon)
for name, channel in channels.items():
    print(
        f"{name:25s} LDP: {channel.satisfies(ab.LDP(epsilon)).holds!s:6} ULDP: {channel.satisfies(uldp).holds}"
    )
broken = channels["utility-optimized RR"].satisfies(ab.LDP(epsilon))
print("\nwhy not LDP:", broken)
assert not broken.holds and broken.witness.value not in sensitive

# %% [markdown]
# The witness says what was given up: a report of an answer that is not sensitive is always true. That is the price, and the
# survey must tell its participants. This is what it buys:

# %%
fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
width = {}
for j, (name, channel) in enumerate(channels.items()):
    found = channel.estimate(
        channel.release(truth, seed=2), method="bayes", draws=300, chains=2, seed=1
    )
    width[name] = np.diff(found.interval, axis=1).mean()
    ax = axes[0 if "utility" not in name else 1]
    colour, shift = ((BLUE, -0.16), (ORANGE, 0.16))[j % 2]
    ax.errorbar(found.p, place + shift, xerr=np.abs(found.interval.T - found.p), fmt="o",
                markersize=4, color=colour, label=name)  # fmt: skip
for ax in axes:
    ax.plot(shares, place, "|", color="black", markersize=12, label="truth")
    ax.set(xlabel="share of people, with 95 % intervals", xlim=(-0.01, 0.3))
    ax.legend(frameon=False, loc="lower right")
axes[0].set_yticks(place, [f"{a} *" if a in sensitive else a for a in shares.index])
axes[0].invert_yaxis()
axes[0].set_title("all answers protected")
_ = axes[1].set_title("only sensitive answers (*) protected")

# %%
print("mean width of the intervals:", {k: round(float(v), 3) for k, v in width.items()})
assert width["utility-optimized RR"] < 0.5 * width["randomized response"]

# %% [markdown]
# ## Do the intervals keep their promise?
#
# 95% should mean that the truth lies inside the interval in 95 of 100 surveys. A simulation can count. Next to the
# intervals of Bayes, it shows Wilson's confidence intervals, which the other estimators have.

# %%
surveys = 20 if short else 150
channel = channels["utility-optimized RR"]
inside = {"Wilson": np.zeros(len(shares)), "Bayes": np.zeros(len(shares))}
for survey in range(surveys):
    people = rng.choice(shares.index, size=n, p=shares)
    sent = channel.release(people, seed=1000 + survey)
    for name, settings in {
        "Wilson": {"method": "empirical"},
        "Bayes": {"method": "bayes", "draws": 1000, "chains": 1, "seed": survey},
    }.items():
        low, high = channel.estimate(sent, **settings).interval.T
        inside[name] += (low <= shares) & (shares <= high)

error = 2 * math.sqrt(0.95 * 0.05 / surveys)
fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.axhspan(0.95 - error, min(0.95 + error, 1.0), color="0.92")
ax.axhline(0.95, color="0.5", linewidth=1)
for i, (name, colour) in enumerate({"Wilson": ORANGE, "Bayes": BLUE}.items()):
    ax.plot(place + 0.2 * (i - 0.5), inside[name] / surveys, "so"[i], color=colour, label=name)
ax.set_xticks(
    place, [f"{a} *" if a in sensitive else a for a in shares.index], rotation=35, ha="right"
)
ax.set(ylabel="truth inside", ylim=(0.78, 1.01), title=f"Coverage in {surveys} surveys")
_ = ax.legend(frameon=False, loc="lower left", ncols=2)

# %%
cover = {name: counts.sum() / surveys / len(shares) for name, counts in inside.items()}
print({name: f"{share:.1%}" for name, share in cover.items()})
assert all(abs(share - 0.95) < (0.06 if short else 0.03) for share in cover.values())

# %% [markdown]
# On average, both do. The grey band is what chance allows for a single answer with this number of surveys; among so many
# answers, a point or two outside are to be expected. Credible intervals promise their coverage on average over the prior,
# not for every single truth, so small departures in either direction are no error.
#
# ## Everybody has other secrets
#
# The clinic on the corner is sensitive for all, but *home* is a secret that differs from person to person. A personalized
# mechanism lets each phone replace its owner's own places by a tag, such as `<home>`, before the noise is added. The
# collector never learns whose home is where, only how many people report from home, and spreads them by what it knows
# of where people live.

# %%
names = ["clinic", "station", "mall", "park", "school", "suburb A", "suburb B"]
popularity = np.array([0.04, 0.22, 0.16, 0.08, 0.10, 0.25, 0.15])
with_tag = ab.Domain("place", [*names, "<home>"])
personal = ab.Personalized(
    ab.UtilityOptimizedRR(with_tag, epsilon, sensitive=["clinic", "<home>"]), ["<home>"]
)
town = np.random.default_rng(11)
where = town.choice(names, size=n, p=popularity)
lives = town.choice(["suburb A", "suburb B"], size=n, p=[0.6, 0.4])
sent = personal.release(where, personal=[{home: "<home>"} for home in lives], seed=4)

at_home = pd.Series(where[where == lives]).value_counts(normalize=True).reindex(names, fill_value=0)
guesses = {
    "homes known in total": {"<home>": at_home},
    "nothing known": None,
}
fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.bar(np.arange(len(names)), popularity, color="0.88", label="truth")
distance = {}
for i, (label, knowledge) in enumerate(guesses.items()):
    found = personal.estimate(sent, method="bayes", knowledge=knowledge, seed=1)
    distance[label] = float(np.abs(found.p - popularity).sum())
    ax.errorbar(np.arange(len(names)) + 0.24 * (i - 0.5), found.p, yerr=np.abs(found.interval.T - found.p),
                fmt="o", color=(BLUE, ORANGE)[i], label=label)  # fmt: skip
ax.set_xticks(np.arange(len(names)), names)
ax.set(ylabel="share of people", title="Where people are, when each may hide home")
_ = ax.legend(frameon=False, loc="upper center")

# %%
mine = personal.satisfies(ab.ULDP(["clinic", "suburb A"], epsilon), personal={"suburb A": "<home>"})
print("for somebody who lives in suburb A:", mine)
print("distance from the truth (l1):", {k: round(v, 3) for k, v in distance.items()})
assert mine.holds and distance["homes known in total"] < 0.3 * distance["nothing known"]

# %% [markdown]
# The intervals of the orange points are narrow and wrong. They account for the noise, but not for missing knowledge: if
# the model is wrong, so are its intervals.
#
# ## Choosing budgets against re-identification
#
# How large may epsilon be? One answer (OneID) is: as large as possible, as long as nobody who sees a report, *knowing
# where everybody is*, can name its sender with a probability above gamma/n. Then popular places need no noise at all,
# because too many people could have sent the report, and unpopular places need a lot.

# %%
users, gamma, n_places = 100_000, 20, 200
places = ab.Domain("place", [f"p{i:03d}" for i in range(1, n_places + 1)])
weights = 1 / np.arange(1, n_places + 1)
visits = np.random.default_rng(12).choice(places.values, size=users, p=weights / weights.sum())
counts = pd.Series(visits).value_counts().reindex(places.values, fill_value=0).to_numpy()

found = ab.budgets.collect(places, visits, gamma, rule="posterior", seed=5)
allowed = ab.budgets.from_counts(places, gamma, counts)
finite = np.nan_to_num(np.stack([found.budgets[1].epsilon, allowed.epsilon]), posinf=12)
fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
ax.plot(counts, finite[1], ".", color="0.7", label="allowed, if the counts were known")
ax.plot(counts, finite[0], ".", color=BLUE, label="granted after a first tenth reported")
ax.axhline(math.log(gamma), color=ORANGE, linewidth=1, label="worst case: log gamma")
ax.set(xscale="log", xlabel="people at the place", ylabel="budget epsilon", ylim=(2.5, 12.6))
ax.set_yticks([3, 4, 6, 8, 10, 12], ["3", "4", "6", "8", "10", "no noise"])
ax.set_title("Popular places need no protection from being re-identified")
_ = ax.legend(frameon=False, loc="center left")

# %%
plans = {
    "epsilon = 8 for all": (ab.RAPPOR(places, 8.0), np.full(n_places, 8.0)),
    "worst case": (found.channels[0], found.budgets[0]),
    "tuned": (found.channels[1], found.budgets[1]),
}
busiest = np.argsort(-counts)[:5]
lonely = np.argsort(counts)[: n_places // 2]
lines = {}
for name, (channel, budget) in plans.items():
    attack = ab.reidentify.expected_budget_attack(channel, counts, budget)
    off = np.stack([
        users * channel.estimate(channel.simulate(counts, seed=seed), method="empirical").p - counts
        for seed in range(100, 140)
    ])  # fmt: skip
    lines[name] = {
        "senders named": attack.rate,
        "accepted": gamma / users,
        "error, 5 busiest places": np.sqrt((off[:, busiest] ** 2).mean()),
        "error, lonelier half": np.sqrt((off[:, lonely] ** 2).mean()),
    }
table = pd.DataFrame(lines).T
table.style.format("{:.1f}").format("{:.2%}", subset=["senders named", "accepted"])

# %%
assert table.loc["epsilon = 8 for all", "senders named"] > 2 * gamma / users
assert (table["senders named"].drop("epsilon = 8 for all") < gamma / users).all()
worst, tuned = table.loc["worst case"], table.loc["tuned"]
assert tuned["error, 5 busiest places"] < 0.8 * worst["error, 5 busiest places"]
assert abs(tuned["error, lonelier half"] / worst["error, lonelier half"] - 1) < 0.1
assert found.budgets[1].exceeded(counts).sum() <= 2

# %% [markdown]
# (Errors are in people, root mean square.) The same generous epsilon for everybody names more than twice as many senders
# as accepted. The worst case is safe and noisy everywhere. The tuned budgets are safe, too, and count the busiest places
# clearly better; for unpopular places, they stay as noisy as they must be.
#
# ## What to conclude
#
# - Audit the mechanism and read the witness: it says in plain words which pair of answers is easiest to tell apart.
# - Show intervals. Under local privacy most of the error is noise of known size, and the posterior states it honestly;
#   the coverage was counted, not assumed.
# - Protect the answers that need it, not all of them: at the same epsilon the intervals shrink to less than half.
# - Intervals cover the noise of the mechanism, not wrong knowledge. With tags, better knowledge is worth more than a
#   larger budget.
# - Epsilon can follow from a question that people understand: with which probability may a report name its sender?
