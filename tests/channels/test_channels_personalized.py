"""Personalized mechanism: privacy on the exact probabilities, estimation, and its bound."""

import numpy as np
import pytest

import anonbayes as ab

PLACES = ab.Domain("place", ["clinic", "park", "mall", "school", "<home>", "<work>"])
TAGS = ["<home>", "<work>"]
SENSITIVE = ["clinic", *TAGS]
COMMON = {
    "uRR": ab.UtilityOptimizedRR(PLACES, 1.0, sensitive=SENSITIVE),
    "uRAP": ab.UtilityOptimizedRAPPOR(PLACES, 1.0, sensitive=SENSITIVE),
}
USERS = [{}, {"park": "<home>"}, {"mall": "<home>", "school": "<work>"}, {"park": "<work>"}]


def audit_matrix(notion, domain, q, reports):
    return ab.MatrixChannel(domain, q, list(reports)).satisfies(notion)


@pytest.fixture(params=COMMON)
def channel(request):
    return ab.Personalized(COMMON[request.param], TAGS)


@pytest.mark.parametrize("personal", USERS)
def test_each_user_gets_uldp_for_the_own_sensitive_set(channel, personal):
    """ULDP Prop. 9, by structure and on the matrix of the user's device."""
    notion = ab.ULDP(["clinic", *personal], 1.0)
    q = channel.device(personal).matrix()
    labels = [str(i) for i in range(q.shape[1])]
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert audit_matrix(notion, channel.domain, q, labels).holds
    audit = channel.satisfies(notion, personal=personal)
    assert audit.holds and audit.witness.value in channel.domain
    exposed = [v for v in ("park", "mall", "school") if v not in personal]
    assert not channel.satisfies(ab.ULDP(["clinic", *exposed], 1.0), personal=personal).holds
    one_sided = ab.OSLDP(["clinic", *personal], 1.0)
    assert channel.satisfies(one_sided, personal=personal).holds
    assert audit_matrix(one_sided, channel.domain, q, labels).holds


def test_values_with_one_tag_cannot_be_told_apart():
    channel = ab.Personalized(COMMON["uRR"], TAGS)
    everywhere = dict.fromkeys(channel.domain, "<home>")
    audit = channel.satisfies(ab.LDP(0.0), personal=everywhere)
    assert audit.holds


@pytest.mark.parametrize("one", USERS)
@pytest.mark.parametrize("two", USERS)
def test_protected_reports_hide_the_mapping(channel, one, two):
    """ULDP Prop. 10 on the matrices."""
    first, second = channel.device(one).matrix(), channel.device(two).matrix()
    if first.shape[1] == 6:
        protected = np.array([0, 4, 5])
    else:
        bits = channel.common.all_reports().to_dense()
        protected = np.flatnonzero(bits[:, 1:4].sum(axis=1) == 0)
    ratio = (first[:, protected] / second[:, protected]).max()
    audit = channel.secrecy(one, two)
    assert audit.holds and ratio <= np.e * (1 + 1e-9)
    assert audit.worst_ratio == pytest.approx(max(ratio, 1.0))


def population(rng, n):
    """Users, a third of whom tag the park as home and a fifth the mall as work."""
    p = np.array([0.1, 0.4, 0.3, 0.2])
    values = rng.choice(4, n, p=p)
    personal = [
        {"park": "<home>"} if u < 1 / 3 else ({"mall": "<work>"} if u < 8 / 15 else {})
        for u in rng.random(n)
    ]
    return p, np.array(["clinic", "park", "mall", "school"], dtype=object)[values], personal


def test_estimation_with_and_without_knowledge(channel):
    rng = np.random.default_rng(1)
    p, values, personal = population(rng, 30_000)
    reports = channel.release(values, personal=personal, seed=2)
    # True r and pi of this population (ULDP (20)).
    home, work = p[1] / 3, p[2] / 5
    r = np.array([p[0], p[1] - home, p[2] - work, p[3], home, work])
    truth = {"<home>": [0, 1, 0, 0], "<work>": [0, 0, 1, 0]}
    for method in ("empirical", "threshold", "mle", "em"):
        informed = channel.estimate(reports, method=method, knowledge=truth)
        blind = channel.estimate(reports, method=method)
        assert np.abs(informed.p - p).sum() < np.abs(blind.p - p).sum()
        for estimate in (informed, blind):
            assert estimate.p.sum() == pytest.approx(estimate.intermediate.p.sum())
        for estimate, knowledge in ((informed, truth), (blind, None)):
            bound = channel.error_bound(estimate, r, truth, knowledge=knowledge)
            assert np.abs(estimate.p - p).sum() <= bound.total + 1e-12
        assert channel.error_bound(informed, r, truth, knowledge=truth).knowledge == 0
        worst = channel.worst_case_knowledge_error(blind)
        assert channel.error_bound(blind, r, truth).knowledge <= worst + 1e-12
    # Without knowledge the non-sensitive values are scaled to what the common ones leave.
    rhat = blind.intermediate.p
    assert method == "em"
    scale = (1 - rhat[0]) / rhat[1:4].sum()
    np.testing.assert_allclose(blind.p, np.r_[rhat[0], rhat[1:4] * scale])


def test_the_bound_needs_the_absolute_value():
    """The counterexample to the printed Theorem 1, through the channel's own formulas."""
    domain = ab.Domain("x", ["a", "b", "<t>"])
    channel = ab.Personalized(ab.UtilityOptimizedRR(domain, 1.0, sensitive=["<t>"]), ["<t>"])
    rhat, r = np.array([0.9, 0.3, -0.2]), np.array([0.5, 0.4, 0.1])
    intermediate = ab.RandomizedResponse(domain, 1.0).estimate(["a"], method="empirical")
    from dataclasses import replace

    knowledge, truth = {"<t>": [0.0, 1.0]}, {"<t>": [1.0, 0.0]}
    p_hat = np.array([0.9, 0.3 - 0.2])  # the tag's share goes where the knowledge says
    estimate = replace(intermediate, p=p_hat, intermediate=replace(intermediate, p=rhat))
    bound = channel.error_bound(estimate, r, truth, knowledge=knowledge)
    error = np.abs(p_hat - np.array([0.6, 0.4])).sum()
    assert error == pytest.approx(0.6)
    assert bound.intermediate - bound.knowledge < error <= bound.total


def test_bayes_carries_the_uncertainty_of_the_tags():
    channel = ab.Personalized(COMMON["uRR"], TAGS)
    rng = np.random.default_rng(3)
    p, values, personal = population(rng, 4000)
    reports = channel.release(values, personal=personal, seed=4)
    truth = {"<home>": [0, 1, 0, 0], "<work>": [0, 0, 1, 0]}
    estimate = channel.estimate(
        reports, method="bayes", knowledge=truth, draws=300, tune=50, chains=2, seed=5, level=0.99
    )
    assert estimate.draws.shape == (2, 300, 4)
    np.testing.assert_allclose(estimate.draws.sum("place"), 1.0)
    assert ((estimate.interval[:, 0] <= p) & (p <= estimate.interval[:, 1])).all()


def test_one_mapping_serves_a_device(channel):
    personal = {"park": "<home>"}
    together = channel.release(["park", "mall"] * 20, personal=personal, seed=6)
    one_by_one = channel.release(["park", "mall"] * 20, personal=[personal] * 40, seed=6)
    device = channel.device(personal).release(["park", "mall"] * 20, seed=6)
    for other in (one_by_one, device):
        assert (
            np.array_equal(together, other) if isinstance(other, np.ndarray) else together == other
        )


@pytest.mark.parametrize("name", COMMON)
def test_a_device_is_a_channel(name):
    device = ab.Personalized(COMMON[name], TAGS).device({"mall": "<home>", "school": "<home>"})
    reports = device.release(["clinic", "park", "mall", "school"] * 30, seed=7)
    q, p = device.matrix(), np.array([0.1, 0.2, 0.3, 0.4])
    codes, _, matrix = device.evidence(reports)
    expected = np.log(matrix.toarray()[codes] @ p).sum()
    assert device.log_likelihood(p, reports) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(device.apply(p), p @ q)


def test_a_reporter_needs_the_mapping_of_its_user():
    """Without it, a value that its user holds secret would leave the device in clear."""
    channel = ab.Personalized(COMMON["uRR"], TAGS)
    with pytest.raises(ab.AnonbayesError, match=r"needs its user's mapping.*personal=\{\}"):
        channel.reporter()
    report = channel.reporter(personal={"park": "<home>"}, seed=1)
    sent = {report("park") for _ in range(300)}
    hidden = {"clinic", "<home>", "<work>"}
    assert sent <= hidden and "park" not in sent
    assert "park" in {channel.reporter(personal={}, seed=i)("park") for i in range(40)}


def test_bad_input_is_named(channel):
    with pytest.raises(ab.AnonbayesError, match="'<gym>' is not a tag"):
        channel.release(["park"], personal={"park": "<gym>"})
    with pytest.raises(ab.AnonbayesError, match="'zoo' is not a value"):
        channel.release(["park"], personal={"zoo": "<home>"})
    with pytest.raises(ab.AnonbayesError, match="1 values but 2 personal mappings"):
        channel.release(["park"], personal=[{}, {}])
    with pytest.raises(ab.AnonbayesError, match="row 0: '<home>' is not in the domain"):
        channel.release(["<home>"])
    with pytest.raises(ab.AnonbayesError, match=r"knowledge\['<home>'\] sums to 4"):
        channel.estimate(channel.release(["park"], seed=1), knowledge={"<home>": [1, 1, 1, 1]})
    with pytest.raises(ab.AnonbayesError, match="secret mapping"):
        channel.evidence([])
    with pytest.raises(ab.AnonbayesError, match="must be sensitive"):
        ab.Personalized(channel.common, ["park"])
    with pytest.raises(ab.AnonbayesError, match="must be a UtilityOptimizedRR"):
        ab.Personalized(ab.RAPPOR(PLACES, 1.0), TAGS)
    with pytest.raises(ab.AnonbayesError, match="no value is left"):
        ab.Personalized(ab.UtilityOptimizedRR(PLACES, 1.0, sensitive=PLACES.values), PLACES.values)
