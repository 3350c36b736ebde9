"""EDAC's gradients, cosines and densities against automatic differentiation, all pairs and torch's distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.worlds.agents import losses
from tests.worlds.agents.losses import random_layers
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tacit_worlds.agents import edac


@pytest.mark.parametrize("hidden", [(7,), (7, 6), (7, 6, 5)])
@pytest.mark.parametrize("diversity", [0.0, 0.7])
def test_the_critics_gradient_needs_no_second_differentiation(hidden: tuple[int, ...], diversity: float) -> None:
    config = edac.EdacConfig(critics=3, diversity=diversity, discount=0.8)
    q, target = random_layers(6, 5, *hidden, 1), random_layers(6, 5, *hidden, 1, seed=1)
    policy, batch = random_layers(2, 3, 8, 4), losses.random_batch(2, 10, 3, 2)
    noise, temperature = torch.ones(2, 10, 2, dtype=torch.float64), torch.tensor([[0.1], [0.3]], dtype=torch.float64)
    found = edac.critic_gradient(q, target, policy, temperature, batch, noise, config)
    losses.check(found, lambda q: losses.edac_critic(q, target, policy, temperature, batch, noise, config), q)


def test_cosines_are_those_of_all_pairs() -> None:
    slope = torch.randn(2, 4, 6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    (expected,) = torch.autograd.grad(losses.cosines(slope), slope)
    torch.testing.assert_close(edac.cosine_gradient(slope.detach()), expected, rtol=1e-6, atol=1e-9)
    assert float(losses.cosines(slope[:1, :1].detach().expand(1, 5, 6, 3))) == pytest.approx(5.0)


def test_densities_are_those_of_a_squashed_normal() -> None:
    policy = random_layers(2, 3, 8, 4)
    generator = torch.Generator().manual_seed(3)
    s = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, 5, 2, generator=generator, dtype=torch.float64)
    chosen, log_density = edac.act(losses.network(policy, s), noise)
    mean, log_std = losses.network(policy, s).chunk(2, -1)
    law = TransformedDistribution(Normal(mean, log_std.clamp(-5.0, 2.0).exp()), TanhTransform())
    inside = chosen.abs().amax(-1) < 0.999
    assert inside.any()
    torch.testing.assert_close(log_density[inside], law.log_prob(chosen).sum(-1)[inside], rtol=1e-6, atol=1e-6)


def test_the_policy_climbs_the_smallest_critic_and_keeps_its_entropy() -> None:
    policy, q = random_layers(2, 3, 8, 4), random_layers(6, 5, 8, 1)
    s = torch.ones(2, 5, 3, dtype=torch.float64)
    rows = (s, *(torch.zeros(1, dtype=torch.float64) for _ in range(4)))
    noise, temperature = torch.zeros(2, 5, 2, dtype=torch.float64), torch.tensor([[0.1], [0.3]], dtype=torch.float64)
    found, log_density = edac.policy_gradient(policy, q, temperature, rows, noise)
    chosen, own = edac.act(losses.network(policy, s), noise)
    expected = torch.zeros((), dtype=torch.float64)
    for k in range(2):
        x = torch.cat([s[k], chosen[k]], -1)
        values = [torch.relu(x @ q[0][j] + q[1][j]) @ q[2][j] + q[3][j] for j in range(3 * k, 3 * k + 3)]
        expected += (temperature[k] * own[k] - torch.cat(values, -1).amin(-1)).mean()
    torch.testing.assert_close(losses.edac_policy(policy, q, temperature, rows, noise), expected)
    losses.check(found, lambda policy: losses.edac_policy(policy, q, temperature, rows, noise), policy)
    torch.testing.assert_close(log_density[:, 0], own.mean(-1))


def test_the_temperature_falls_where_there_is_more_entropy_than_asked_for() -> None:
    """Rewards that ask for nothing leave the policy free: an entropy above -d_a takes the temperature down."""
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.normal(size=(256, 2)),
        "actions": rng.uniform(-1, 1, (256, 1)),
        "rewards": np.zeros(256),
        "next_observations": rng.normal(size=(256, 2)),
        "terminations": np.ones(256, bool),
    }
    levels: list[float] = []
    original = edac.policy_gradient

    def spy(policy, q, temperature, batch, noise):  # type: ignore[no-untyped-def]
        levels.append(float(temperature[0, 0]))
        return original(policy, q, temperature, batch, noise)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edac, "policy_gradient", spy)
        edac.train(columns, edac.EdacConfig(steps=30, batch=32, width=8, learning_rate=1e-2), seeds=[0])
    assert levels[0] == pytest.approx(0.1)
    assert levels[-1] < 0.09
