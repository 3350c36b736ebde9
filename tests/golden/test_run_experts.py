"""Golden runs of learning from experts: votes of clones, return-weighted imitation, consensus, and anchors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run

from tacit import Trajectories, Unit, experts
from tacit.agents.features import Quadratic, Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL, DQN
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import StackedPolicies
from tacit.methods.experts.published import MixedTraining
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit_worlds import cart_pole

AREA = "experts"
COUNT, FLOOR = 100, 0.1
UNIT = Unit("expert", "add_or_remove", COUNT)
PROMISE: dict[str, Any] = {"unit": UNIT, "epsilon": 8.0, "delta": 1 / 200}
LOW, HIGH = (-2.4, -2.0, -0.21, -2.0), (2.4, 2.0, 0.21, 2.0)
FEATURES = Scaled(LOW, HIGH)
LINEAR = Policy(FEATURES, Mlp((4, 2), gain=0.0), Categorical(2))
NETWORK = Policy(FEATURES, Mlp((4, 8, 2)), Categorical(2))
ANCHORS = experts.UniformAnchors(low=LOW, high=HIGH, count=60)
CLONE = experts.LinearClone(features=FEATURES, actions=2)
PLAYED = experts.LinearClone(features=FEATURES, actions=2, floor=FLOOR)
MLP = experts.MlpClone(features=FEATURES, actions=2, rows=60, steps=10)
WEIGHT = experts.ReturnWeight(low=0.0, high=40.0)
CONTROLLERS = np.array([0.3, 0.6, 8.0, 1.5]) * (1 + 0.2 * np.random.default_rng(0).normal(size=(COUNT, 4)))


def logs(episodes: int = 2, horizon: int = 30) -> Trajectories:
    """Logs of linear controllers of a pole, with a random push in ten."""
    rng, world = np.random.default_rng(1), cart_pole.CartPole()
    owner = np.repeat(np.arange(COUNT), episodes)
    state, alive, blocks = world.starts(len(owner), rng), np.arange(len(owner)), []
    for time in range(horizon):
        action = ((state * CONTROLLERS[owner[alive]]).sum(axis=1) > 0).astype(np.int64)
        action = np.where(rng.random(len(action)) < 0.1, rng.integers(2, size=len(action)), action)
        seen = world.observe(state)
        state, paid, ended = world.step(state, action, rng)
        block = {"observations": seen, "actions": action, "rewards": paid, "next_observations": world.observe(state)}
        block |= {"terminations": ended, "truncations": ~ended & (time == horizon - 1)}
        blocks.append(block | {"unit_ids": owner[alive], "episode_ids": alive})
        alive, state = alive[~ended], state[~ended]
    joined: dict[str, Any] = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(joined["episode_ids"], kind="stable")
    columns = {name: column[order] for name, column in joined.items()}
    return Trajectories.from_arrays(**columns, spec=cart_pole.spec(), simulated=True)


def asked() -> StackedPolicies:
    """The controllers as policies that can be asked."""
    theta = np.zeros((COUNT, 5, 2), np.float32)
    theta[:, :4, 1] = CONTROLLERS * np.asarray(HIGH)
    return StackedPolicies.from_mlp(FEATURES, Mlp((4, 2)), theta.reshape(COUNT, -1), FLOOR)


def numbers(value: experts.LearnedPolicies) -> Numbers:
    found: dict[str, Any] = {"theta": runs.summary(value.theta)}
    if value.agreement is not None:
        found |= {"anchors": runs.summary(value.agreement.states), "shares": runs.summary(value.agreement.shares)}
    if value.prefixes is not None:
        found["lengths"] = [one.lengths.tolist() for one in value.prefixes]
    return found


def learned(plan: Any, *, world: Any = None, anchors: Any = None, policies: bool = False, **data: Any) -> Run:
    """A run of one plan; defaults are stored of plans that have all of them."""

    def make(folder: Path) -> Numbers:
        calibrated = plan.calibrate(**PROMISE)
        vault = runs.vault(logs(**data), folder, UNIT, experts=asked() if policies else None)
        found = numbers(experts.fit(calibrated, vault, world, anchors=anchors).value)
        own = getattr(calibrated, "trajectory_epsilon", None)
        return {"noise_multiplier": calibrated.noise_multiplier, "epsilon of a trajectory": own} | dict(found)

    return Run(make, lambda: (), TRAINED)


def votes(**changes: Any) -> experts.Votes:
    few: dict[str, Any] = {"anchors": ANCHORS, "clone": CLONE, "policy": LINEAR, "rows": 60}
    return experts.Votes(**few | changes)


def imitation(**changes: Any) -> experts.ReturnWeighted:
    few: dict[str, Any] = {"policy": LINEAR, "kept": 16, "rows": 60, "steps": 6}
    return experts.ReturnWeighted(**few | changes)


def consensus(**changes: Any) -> experts.Consensus:
    few: dict[str, Any] = {"policy": LINEAR, "experts": COUNT, "trajectories": 3, "horizon": 30, "steps": 12}
    few |= {"expected_batch_size": 30, "stable_batch": 32, "floor": PMin(FLOOR), "rate": 0.02, "stable_rate": 0.02}
    return experts.Consensus(**few | {"stable_fraction": 0.4, "learner": BC()} | changes)


def of_the_paper(folder: Path) -> Numbers:
    """The paper's settings: what its accounting claims, and what holds."""
    found: dict[str, Any] = {}
    for task, epsilon, actions in (("acrobot", 5.0, 3), ("cart_pole", 10.0, 2)):
        setting = experts.published_setting(task, epsilon)
        policy = Policy(FEATURES, Mlp((4, *setting.hidden, actions)), Categorical(actions))
        unit = Unit("expert", "add_or_remove", 3_000)
        plan = experts.published_plan(
            setting, policy=policy, unit=unit, experts=3_000, horizon=200, delta=0.999 / 3_000, steps=500
        )
        claim = experts.compare_claims(plan)
        found[task] = [plan.steps, plan.private_steps, claim.published, claim.honest]
    mixed = MixedTraining(experts=3_000, batch=256, noisy_share=0.2, noise_multiplier=60.0)
    return found | {"published epsilon of mixed training": mixed.published_epsilon(10_000, 1e-4)}


def paper_settings() -> tuple[Any, ...]:
    return (experts.published_setting("acrobot", 5.0), experts.published_setting("lunar_lander", 10.0))


def defaults() -> tuple[Any, ...]:
    """Every plan with all of its own defaults."""
    return (
        experts.Votes(anchors=experts.UniformAnchors(low=LOW, high=HIGH), clone=CLONE, policy=LINEAR),
        MLP,
        WEIGHT,
    )


GIVEN = experts.UniformAnchors(low=LOW, high=HIGH, count=20, seed=3).points()
RUNS = {
    "defaults of votes": Run(lambda folder: {}, defaults),
    "defaults of imitation": Run(lambda folder: {}, lambda: (experts.ReturnWeighted(policy=LINEAR),)),
    "defaults of consensus": Run(lambda folder: {}, lambda: (experts.Consensus(policy=LINEAR, experts=COUNT),)),
    "defaults of a network clone": Run(lambda folder: {}, lambda: (experts.MlpClone(features=FEATURES, actions=2),)),
    "votes of linear clones": learned(votes()),
    "votes of network clones": learned(votes(clone=MLP)),
    "votes, weighted by returns": learned(votes(weight=WEIGHT)),
    "votes, two rounds in a world": learned(votes(rounds=2, horizon=20, anchors=ANCHORS), world=cart_pole.CartPole()),
    "votes at given anchors": learned(votes(anchors=experts.GivenAnchors.of(GIVEN)), anchors=GIVEN),
    "votes, a network by softmax": learned(votes(policy=NETWORK, fit=experts.Fit(loss="softmax", steps=20))),
    "votes, quadratic clones": learned(
        votes(clone=experts.LinearClone(features=Quadratic(LOW, HIGH), actions=2, ridge=0.1))
    ),
    "imitation": learned(imitation()),
    "imitation, weighted by returns": learned(imitation(weight=WEIGHT)),
    "imitation, a network": learned(imitation(policy=NETWORK)),
    "consensus of policies and DP-SGD": learned(consensus(), policies=True, episodes=4),
    "consensus by chance stops": learned(consensus(floor=KappaStop(0.02)), policies=True, episodes=4),
    "consensus of clones in a world": learned(
        consensus(clone=PLAYED, rows=60, stable_fraction=1.0), world=cart_pole.CartPole()
    ),
    "DP-SGD alone, CQL": learned(
        consensus(policy=NETWORK, learner=CQL(reward_scale=0.01), stable_fraction=0.0), episodes=4
    ),
    "DP-SGD alone, double DQN": learned(
        consensus(policy=NETWORK, learner=DQN(reward_scale=0.01), stable_fraction=0.0), episodes=4
    ),
    "the paper's settings": Run(of_the_paper, paper_settings),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
