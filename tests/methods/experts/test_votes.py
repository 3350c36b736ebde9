"""Clone votes through a vault: what an expert adds, what is released, refused and certified."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pole_experts import (
    DELTA,
    FEATURES,
    HIGH,
    LOW,
    UNIT,
    Silent,
    balanced,
    columns,
    gains,
    open_vault,
    votes,
)

import tacit
from tacit.agents.features import Quadratic, Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.experts.algorithm import fit
from tacit.methods.experts.anchors import GivenAnchors, UniformAnchors
from tacit.methods.experts.clones import Fit, LinearClone, MlpClone
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import ReturnWeight
from tacit.methods.experts.votes import AnchorVotes, CloneBallot, Votes
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit_worlds.cart_pole import CartPole

WEIGHT = ReturnWeight(low=0.0, high=40.0)
CLONE = LinearClone(features=FEATURES, actions=2)
ANCHORS = UniformAnchors(low=LOW, high=HIGH, count=50).points()
LINE = PublicSpec(Box((-1.0,), (1.0,)), Discrete(3), Box((0.0,), (10.0,)), source="declared")


def ballots(experts: int, clone: Any = CLONE, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "parameters": rng.normal(size=(experts, clone.network.parameters)).astype(np.float32),
        "weight": rng.uniform(0.1, 1.0, experts),
        "replicate": np.sort(rng.integers(2, size=experts)),
    }


def on_a_line(folder: Path, choices: list[list[int]], **fields: Any) -> Vault:
    """Experts on a line: expert i takes choices[i][k] in state k / 10, over and over; one reward of 1 a step."""
    rows: dict[str, list[Any]] = {"states": [], "actions": [], "owners": []}
    for owner, own in enumerate(choices):
        for k, action in enumerate(own * 20):
            rows["states"].append([(k % len(own)) / 10])
            rows["actions"].append(action)
            rows["owners"].append(owner)
    steps = len(rows["actions"])
    data = Trajectories.from_arrays(
        observations=np.array(rows["states"]),
        next_observations=np.array(rows["states"]),
        actions=np.array(rows["actions"]),
        rewards=np.ones(steps),
        terminations=np.zeros(steps, bool),
        unit_ids=np.array(rows["owners"]),
        spec=fields.pop("spec", LINE),
        simulated=True,
    )
    return Vault(data, Ledger(folder / "line.ledger", UNIT, epsilon=1_000.0, delta=DELTA, composition=SUM), **fields)


def line_plan(**fields: Any) -> Votes:
    """Votes in the two states 0 and 0.1."""
    features = tacit.policy_gradient.Scaled((-1.0,), (1.0,))
    plain: dict[str, Any] = {
        "anchors": GivenAnchors.of(np.array([[0.0], [0.1]])),
        "clone": LinearClone(features=features, actions=3),
        "policy": Policy(features, Mlp((1, 3), gain=0.0), Categorical(3)),
        "rows": 40,
    }
    return Votes(**plain | fields).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize("actions", [2, 3, 7])
def test_everybody_adds_a_vector_of_the_norm_that_the_plan_declares(actions: int) -> None:
    clone = LinearClone(features=FEATURES, actions=actions)
    rows = ballots(20, clone) | {"weight": np.ones(20)}
    plan = votes(
        anchors=UniformAnchors(low=LOW, high=HIGH, count=50),
        clone=clone,
        policy=Policy(FEATURES, Mlp((4, actions)), Categorical(actions)),
    )
    found = AnchorVotes(CloneBallot(clone, None))(rows, np.stack([ANCHORS, ANCHORS]))
    (part,) = plan.parts()
    assert part.clip_norm == pytest.approx(math.sqrt(50 * (1 - 1 / actions)))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), part.clip_norm, rtol=1e-6)
    np.testing.assert_allclose(found.reshape(20, 50, actions).sum(axis=2), 0.0, atol=1e-6)
    weighted = AnchorVotes(CloneBallot(clone, None))(ballots(20, clone), np.stack([ANCHORS, ANCHORS]))
    np.testing.assert_allclose(
        np.linalg.norm(weighted, axis=1), part.clip_norm * ballots(20, clone)["weight"], rtol=1e-6
    )


@pytest.mark.parametrize("clone", [CLONE, MlpClone(features=FEATURES, actions=2, hidden=(7,))])
def test_a_vote_is_the_same_bits_whoever_the_others_are_and_at_own_anchors(clone: Any) -> None:
    rows, state = ballots(9, clone), np.stack([ANCHORS, -ANCHORS])
    whole = AnchorVotes(CloneBallot(clone, WEIGHT))(rows, state)
    for some in ([3], [0, 4, 8]):
        few = AnchorVotes(CloneBallot(clone, WEIGHT))({name: column[some] for name, column in rows.items()}, state)
        np.testing.assert_array_equal(few, whole[some])
    for r in range(2):
        own = AnchorVotes(CloneBallot(clone, WEIGHT))(rows, np.stack([state[r]] * 2))[rows["replicate"] == r]
        np.testing.assert_array_equal(own, whole[rows["replicate"] == r])


def test_votes_are_counted_over_the_public_population(tmp_path: Path) -> None:
    vault = on_a_line(tmp_path, [[0, 1], [0, 2], [0, 1], [2, 2]], noise=Silent())
    anchors = np.array([[0.0], [0.1]])
    agreement = fit(line_plan(), vault, anchors=anchors).value.agreement
    assert agreement is not None
    np.testing.assert_array_equal(agreement.states[0], anchors.astype(np.float32))
    counts = np.array([[3, 0, 1], [0, 2, 2]])  # of 200 experts that there could be, whose votes are spread evenly
    np.testing.assert_allclose(agreement.shares[0], (counts + 196 / 3) / 200, atol=1e-4)


def test_duplicated_experts_are_as_many_votes_and_one_with_all_rows_is_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for folder, choices, expected in ((tmp_path, [[0, 0]] * 3, 3), (tmp_path / "one", [[0, 0] * 50], 1)):
        vault = on_a_line(folder, choices, noise=Silent())
        agreement = fit(line_plan(), vault, anchors=np.array([[0.0], [0.1]])).value.agreement
        assert agreement is not None
        np.testing.assert_allclose(agreement.shares[0, :, 0], (expected + (200 - expected) / 3) / 200, atol=1e-4)


def test_a_weight_spreads_the_rest_of_a_vote_evenly(tmp_path: Path) -> None:
    vault = on_a_line(tmp_path, [[1, 1]], noise=Silent())  # one episode of 40 rewards of 1
    weight = ReturnWeight(low=0.0, high=80.0, sharpness=2.0)
    agreement = fit(line_plan(weight=weight), vault, anchors=np.array([[0.0], [0.1]])).value.agreement
    assert agreement is not None
    w = math.exp(-1.0)
    np.testing.assert_allclose(agreement.shares[0, :, 1], (w + (200 - w) / 3) / 200, atol=1e-4)


def test_private_votes_of_perturbed_controllers_hold_the_pole_up(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, columns(gains(200)), replicates=2)
    release = fit(votes().calibrate(unit=UNIT, epsilon=2.0, delta=DELTA), vault)
    assert min(balanced(release.value.actor(), 2)) > 480
    release.certificate.verify()
    assert release.certificate.epsilon <= 2.0
    assert tacit.experts.fit is fit
    second = release.value.replicate(-1)
    assert second.replicates == 1
    np.testing.assert_array_equal(second.theta, release.value.theta[1:])
    with pytest.raises(PlanExhausted):
        fit(votes().calibrate(unit=UNIT, epsilon=2.0, delta=DELTA), vault)


def test_the_noise_is_that_of_the_plan(tmp_path: Path) -> None:
    plan = votes().calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    release = fit(plan, open_vault(tmp_path, columns(gains(3)), replicates=12))
    assert release.value.agreement is not None
    shares = release.value.agreement.shares[..., 0]
    assert plan.noise_multiplier is not None
    # the difference of two independent noises halved by centring: sigma / sqrt(2)
    sigma = plan.noise_multiplier * math.sqrt(200 / 2) / UNIT.size / math.sqrt(2)
    assert np.sqrt(shares.var(axis=0, ddof=1).mean()) == pytest.approx(sigma, rel=0.1)


def test_further_rounds_ask_where_the_policy_comes(tmp_path: Path) -> None:
    plan = votes(rounds=2, horizon=40, anchors=UniformAnchors(low=LOW, high=HIGH, count=60))
    calibrated = plan.calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)
    vault = open_vault(tmp_path, columns(gains(50)), replicates=2)
    with pytest.raises(PlanError, match="no world"):
        fit(calibrated, vault)
    release = fit(calibrated, vault, CartPole())
    assert release.value.agreement is not None
    states = release.value.agreement.states
    assert states.shape == (2, 120, 4)
    np.testing.assert_array_equal(states[0, :60], states[1, :60])
    assert np.abs(states[:, 60:]).mean() < 0.5 * np.abs(states[:, :60]).mean()  # about the upright pole
    assert (states[0, 60:] != states[1, 60:]).any()
    assert calibrated.parts()[0].steps == 2
    assert any("the world" in what for what in release.certificate.lines("not_covered"))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"weight": WEIGHT, "rounds": 3, "fit": Fit(loss="softmax")},
        {"anchors": GivenAnchors.of(ANCHORS), "clone": MlpClone(features=Quadratic(LOW, HIGH), actions=2)},
    ],
)
def test_plans_come_back_from_json(fields: dict[str, Any]) -> None:
    plan = votes(**fields).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    assert Votes.from_json(plans.public_fields(plan)) == plan
    assert Votes.from_json(plans.public_fields(votes(**fields))) == votes(**fields)
    for broken in ({"kind": 1}, {"clone": {"kind": "oracle"}}, {"anchors": {}}):
        with pytest.raises(PlanError):
            Votes.from_json(plans.public_fields(plan) | broken)


def test_continuous_actions_are_refused(tmp_path: Path) -> None:
    spec = PublicSpec(Box((-1.0,), (1.0,)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), source="declared")
    zeros = np.zeros((4, 1))
    data = Trajectories.from_arrays(
        observations=zeros, next_observations=zeros, actions=zeros, rewards=zeros[:, 0], terminations=zeros[:, 0] > 0,
        unit_ids=np.arange(4), spec=spec, simulated=True,
    )  # fmt: skip
    with pytest.raises(PlanError, match="continuous actions"):
        fit(
            line_plan(),
            Vault(data, Ledger(tmp_path / "a.ledger", UNIT, epsilon=2.0, delta=DELTA, composition=SUM)),
        )


def test_a_policy_for_other_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not for these"):
        fit(votes().calibrate(unit=UNIT, epsilon=1.0, delta=DELTA), on_a_line(tmp_path, [[0, 1]]))


@pytest.mark.parametrize(
    "fields",
    [
        {"rows": 0},
        {"rounds": 0},
        {"horizon": 0},
        {"explore": 1.5},
        {"clone": LinearClone(features=FEATURES, actions=3)},
    ],
)
def test_plans_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        votes(**fields)


class Broken(CartPole):
    """A world in which no step can be made."""

    def step(self, *_: Any) -> Any:
        raise KeyError("a state")


class Narrow(CartPole):
    """A world of other observations."""

    def observe(self, state: Any) -> Any:
        return np.asarray(state)[:, :3]


def test_clones_of_other_records_and_worlds_that_are_none_are_refused_before_the_charge(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, columns(gains(6)))
    narrow = LinearClone(features=Scaled((0.0,), (1.0,)), actions=2)
    many = LinearClone(features=FEATURES, actions=3)
    for clone in (narrow, many):
        heads = Policy(FEATURES, Mlp((4, clone.actions), gain=0.0), Categorical(clone.actions))
        plan = votes(clone=clone, policy=heads).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
        with pytest.raises(PlanError, match="not for these experts"):
            fit(plan, vault)
    plan = votes(rounds=2).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with pytest.raises(PlanError, match="no simulator"):
        fit(plan, vault, world="cart_pole")  # type: ignore[arg-type]
    for world, found in ((Broken(), "KeyError"), (Narrow(), "ValueError")):
        with pytest.raises(PlanError, match=rf"random actions in {type(world).__name__} give no states .*\({found}\)"):
            fit(plan, vault, world)
    alike = ReturnWeighted(policy=heads).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with pytest.raises(PlanError, match="imitation, which needs none"):
        fit(alike, vault, CartPole())
    assert vault.ledger.plans() == []
