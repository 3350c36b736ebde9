"""The experts of the paper, tiny: grids, agents without their normalisation, which agents become experts, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.experts.paper_experts import Trained, Training, _absorbed, _features, choose, train

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.stacked import StackedPolicies
from tacit.errors import DataError, PlanError
from tacit_worlds import cart_pole, hiv, populations
from tacit_worlds.acrobot import Acrobot
from tacit_worlds.agents import ppo
from tacit_worlds.populations import ExpertActor, returns, variation, world

SIZES = (4, 3, 2)
PARAMETERS = Mlp(SIZES).parameters


def test_the_grids_are_the_papers() -> None:
    assert [populations.variation_count(name) for name in ("cart_pole", "acrobot", "lunar_lander", "hiv")] == [
        1000
    ] * 3 + [2000]
    assert variation("cart_pole", 0) == cart_pole.CartPole(gravity=8.75, force=9.0, cart_mass=0.8)
    assert variation("cart_pole", 999) == cart_pole.CartPole(gravity=11.0, force=11.25, cart_mass=1.25)
    assert variation("cart_pole", 120) == cart_pole.CartPole(gravity=9.0, force=9.5, cart_mass=0.8)
    assert variation("acrobot", 9) == Acrobot((0.8, 0.8), (0.9, 1.1))
    assert variation("hiv", 1) == hiv.Hiv((18_750.0, 1_850.0), 0.01, 20.0)
    assert variation("hiv", 1998) == hiv.Hiv((21_250.0, 2_150.0), 0.0, 20.0)
    for index in (-1, 1000):
        with pytest.raises(IndexError, match="1000 variations"):
            variation("cart_pole", index)


def test_agents_lose_their_normalisation_and_nothing_else() -> None:
    box = cart_pole.spec().observation
    agent = ppo.learn(
        cart_pole.CartPole(), Categorical(2), ppo.PpoConfig(512, rollout=64, hidden=(3,)), observation=4, horizon=50
    )
    experts = StackedPolicies.from_mlp(_features(box), agent.network, _absorbed(agent, box))  # type: ignore[arg-type]
    generator = np.random.default_rng(0)
    seen = agent.mean + agent.deviation * generator.uniform(-9.0, 9.0, (2_000, 4))  # both cut further out
    seen = np.clip(seen, cart_pole.LOW, cart_pole.HIGH).astype(np.float32)
    theirs = replace(agent, greedy=True)(seen, np.zeros(2_000, np.int64), generator)
    ours = experts.greedy(seen)[0]
    assert 0.01 < ours.mean() < 0.99
    assert (ours == theirs).mean() > 0.999


def test_training_a_variation(tmp_path: Path) -> None:
    """Six tiny agents; the three best are kept, the best first, and a file holds them."""
    training = Training(steps=2_048, rates=(1e-3, 3e-3, 1e-2), minibatches=(4, 16), hidden=(8,), episodes=2)
    trained = train("cart_pole", 7, training)
    assert trained.sizes == (4, 8, 2)
    assert trained.theta.shape == (3, Mlp((4, 8, 2)).parameters)
    assert trained.worth.tolist() == sorted(trained.worth.tolist(), reverse=True)
    assert trained.worth[-1] >= 8.0
    assert trained.worth[0] <= 1_000.0
    trained.save(tmp_path / "7.npz")
    again = Trained.load(tmp_path / "7.npz")
    assert np.array_equal(again.theta, trained.theta)
    assert np.array_equal(again.worth, trained.worth)
    experts = choose("cart_pole", [again], experts=3)
    assert experts.floor == 0.02
    assert returns(world("cart_pole"), ExpertActor(experts), 2, seed=0, replicates=3).shape == (3, 2)


def test_the_paper_has_larger_networks() -> None:
    assert Training().layers("cart_pole") == (512, 256, 64)
    assert Training().layers("hiv") == (512,)
    with pytest.raises(PlanError, match="nothing to train"):
        Training(rates=())


def test_the_best_of_every_variation_come_first() -> None:
    """Three of each of two variations; of five experts the third best of the worse variation is missing."""
    worth = (np.array([9.0, 5.0, 1.0]), np.array([8.0, 7.0, 2.0]))
    trained = [
        Trained(np.full((3, PARAMETERS), each[:, None], np.float32), each, SIZES)  # parameters that show the worth
        for each in worth
    ]
    for count, expected in ((2, [9.0, 8.0]), (3, [9.0, 8.0, 7.0]), (5, [9.0, 8.0, 7.0, 5.0, 2.0])):
        experts = choose("cart_pole", trained, experts=count)
        assert experts.weights[0][0][:, 0, 0].tolist() == expected
    with pytest.raises(DataError, match="not 7 agents"):
        choose("cart_pole", trained, experts=7)
    with pytest.raises(DataError, match="differ"):
        choose("cart_pole", [trained[0], replace(trained[1], sizes=(4, 2))], experts=2)
