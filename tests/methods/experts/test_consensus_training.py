"""Training on consensus prefixes and with DP-SGD: the objective by hand, the schedule through a vault, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pole_experts import DELTA, FEATURES, HIGH, POLICY, UNIT, balanced, columns, gains
from torch import Tensor

from tacit.agents.discrete_offline import Agent
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC, CQL, DQN, Learner
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import StackedPolicies
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.experts import training
from tacit.methods.experts.clones import LinearClone
from tacit.methods.experts.consensus import TRAINING, Consensus
from tacit.methods.experts.training import ExpertLoss
from tacit.privacy.gradients.clipped_sums import clipped_sum
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit_worlds.cart_pole import CartPole, spec

FLOOR = 0.05
"""What the logs of `pole_experts.columns` give the other action."""

UNTAUGHT = 30
"""Many more steps than a constant push holds the pole up (about 10)."""


def rows(units: int, k: int, seed: int = 0) -> dict[str, Tensor]:
    """Rows of experts in one dimension with three actions; the last expert has none."""
    rng = np.random.default_rng(seed)
    mask = rng.random((units, k)) < 0.7
    mask[:, 0] = True
    mask[-1] = False
    made: Mapping[str, Any] = {
        "observations": rng.uniform(-1, 1, (units, k, 1)).astype(np.float32),
        "next_observations": rng.uniform(-1, 1, (units, k, 1)).astype(np.float32),
        "actions": rng.integers(3, size=(units, k)),
        "rewards": rng.normal(size=(units, k)).astype(np.float32),
        "terminations": rng.random((units, k)) < 0.3,
        "mask": mask,
    }
    return {name: torch.from_numpy(column) for name, column in made.items()}


@pytest.mark.parametrize("learner", [CQL(), DQN(), BC()])
@pytest.mark.parametrize("k", [1, 5])
def test_the_clipped_sum_is_that_of_gradients_taken_one_expert_at_a_time(learner: Learner, k: int) -> None:
    """Double DQN's look at the next observations passes through the same layers, and the book-keeping bears it."""
    mlp = Mlp((1, 8, 6, 3), gain=1.0)
    agent = Agent(mlp, mlp.initial_parameters(np.random.default_rng(1), 1)[0])
    agent.vector.add_(0.1)  # the target is another network now
    objective, some, clip = ExpertLoss(learner, Scaled((-1.0,), (1.0,))), rows(7, k), 0.3
    found = clipped_sum(agent, objective.loss, some, clip)
    expected = torch.zeros_like(found)
    for unit in range(6):
        own = {name: tensor[unit : unit + 1, some["mask"][unit]] for name, tensor in some.items()}
        inputs = {"inputs": own["observations"], "next_inputs": own["next_observations"]}
        mean = learner.losses(agent, own | inputs).mean()
        slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(mean, list(agent.parameters()))])
        expected += slope * min(1.0, clip * (1 - SLACK) / float(slope.norm()))
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


def test_an_expert_without_rows_has_no_loss() -> None:
    mlp = Mlp((1, 3))
    agent = Agent(mlp, np.zeros(mlp.parameters, np.float32))
    losses = ExpertLoss(BC(), Scaled((-1.0,), (1.0,))).loss(agent, rows(4, 3))
    np.testing.assert_allclose(losses.detach(), [np.log(3.0)] * 3 + [0.0], rtol=1e-6)


def stacked(controllers: np.ndarray) -> StackedPolicies:
    """The policies that logged `pole_experts.columns`."""
    theta = np.zeros((len(controllers), 5, 2), np.float32)
    theta[:, :4, 1] = controllers * HIGH
    return StackedPolicies.from_mlp(FEATURES, Mlp((4, 2)), theta.reshape(len(theta), -1), FLOOR)


def vault(folder: Path, *, episodes: int = 6, replicates: int = 1, seed: int = 0, asked: bool = True) -> Vault:
    controllers = gains(200, spread=0.1)
    data = Trajectories.from_arrays(**columns(controllers, episodes), spec=spec(), simulated=True)
    ledgers = [
        Ledger(folder / f"{r}.ledger", UNIT, epsilon=1_000.0, delta=DELTA, composition=SUM) for r in range(replicates)
    ]
    experts = stacked(controllers) if asked else None
    return Vault(data, ledgers, experts=experts, noise=SecretNoise.for_tests(seed))


def plan(**fields: Any) -> Consensus:
    plain: dict[str, Any] = {"policy": POLICY, "learner": BC(), "experts": 200, "trajectories": 6, "horizon": 40}
    plain |= {
        "floor": PMin(FLOOR),
        "steps": 120,
        "expected_batch_size": 60,
        "rate": 0.02,
        "stable_rate": 0.02,
        "clip_norm": 0.3,
    }
    return Consensus(**plain | fields)


def test_consensus_and_noisy_steps_learn_together(tmp_path: Path) -> None:
    ready = plan(stable_fraction=0.4).calibrate(unit=UNIT, epsilon=10.0, delta=DELTA)
    place = vault(tmp_path, replicates=2)
    release = training.fit(ready, place)
    learned = release.value
    assert learned.theta.shape == (2, POLICY.parameters)
    assert learned.prefixes is not None
    assert [len(one.lengths) for one in learned.prefixes] == [6, 6]
    assert min(int(one.lengths.sum()) for one in learned.prefixes) > 0
    assert min(balanced(learned.actor(), 2)) > UNTAUGHT
    assert not np.array_equal(*learned.theta)
    release.certificate.verify()
    assert release.certificate.epsilon <= 10.0
    assert place.steps_left(place.reserve(ready), TRAINING) == 0
    copied, noisy, of_one = release.certificate.lines("covered")
    assert "each copied from the log of one expert drawn by chance" in copied
    assert noisy == "the noisy mean gradients of all 72 noisy steps, and everything computed from them"
    assert of_one == "which policy each expert follows, and whether it is one of them"
    assert any("published as they were recorded" in line for line in release.certificate.lines("not_protected"))
    with pytest.raises(PlanExhausted):
        training.fit(ready, place)


def test_dp_sgd_alone(tmp_path: Path) -> None:
    wide = Policy(FEATURES, Mlp((4, 16, 2)), Categorical(2))
    fields = {"policy": wide, "learner": CQL(reward_scale=0.01), "stable_fraction": 0.0, "rate": 0.01}
    ready = plan(**fields).calibrate(unit=UNIT, epsilon=20.0, delta=DELTA)
    release = training.fit(ready, vault(tmp_path, asked=False))
    assert release.value.prefixes is None
    assert balanced(release.value.actor())[0] > UNTAUGHT
    assert not any("published as they were recorded" in line for line in release.certificate.lines("not_protected"))
    of_one = release.certificate.lines("covered")[1]
    assert of_one.startswith("everything of one expert: what is read of its rows enters each noisy sum as one bounded ")


def test_clones_in_a_public_world_alone(tmp_path: Path) -> None:
    clone = LinearClone(features=FEATURES, actions=2, floor=FLOOR)
    ready = plan(clone=clone, rows=200, stable_fraction=1.0).calibrate(unit=UNIT, epsilon=10.0, delta=DELTA)
    place = vault(tmp_path, asked=False)
    release = training.fit(ready, place, CartPole())
    assert release.value.prefixes is not None
    assert int(release.value.prefixes[0].lengths.sum()) > 0
    assert balanced(release.value.actor())[0] > UNTAUGHT
    assert not any("published as they were recorded" in line for line in release.certificate.lines("not_protected"))
    released, of_one = release.certificate.lines("covered")
    assert "played in a public simulator by the clone of one expert drawn by chance, and everything" in released
    assert of_one.startswith(
        "everything of one expert: its rows make one clone, which may be drawn, and counts for at "
    )
    assert "contribution" not in of_one


def test_without_a_released_step_the_noisy_ones_are_taken(tmp_path: Path) -> None:
    """Nearly every prefix stops at once (and with this seed every one does)."""
    ready = plan(floor=KappaStop(0.999), trajectories=2).calibrate(unit=UNIT, epsilon=10.0, delta=DELTA)
    release = training.fit(ready, vault(tmp_path))
    assert release.value.prefixes is not None
    assert release.value.prefixes[0].lengths.tolist() == [0, 0]
    assert balanced(release.value.actor())[0] > 20  # few noisy steps, on a pool that is drawn again: 40 to 500


def test_a_world_goes_with_clones_only(tmp_path: Path) -> None:
    ready = plan().calibrate(unit=UNIT, epsilon=10.0, delta=DELTA)
    place = vault(tmp_path)
    with pytest.raises(PlanError, match="plays no clones"):
        training.fit(ready, place, CartPole())
    clone = LinearClone(features=FEATURES, actions=2, floor=FLOOR)
    with pytest.raises(PlanError, match="in no world"):
        training.fit(plan(clone=clone, rows=200).calibrate(unit=UNIT, epsilon=10.0, delta=DELTA), place)
    assert place.ledger.plans() == []
