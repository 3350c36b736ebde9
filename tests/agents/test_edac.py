"""EDAC's slopes, cosines and densities against automatic differentiation, all pairs and torch's distributions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tacit.agents import edac


def networks(count: int, *sizes: int) -> list[torch.Tensor]:
    """Random layers in float64."""
    generator = torch.Generator().manual_seed(0)
    shapes = [shape for n, m in itertools.pairwise(sizes) for shape in ((count, n, m), (count, 1, m))]
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("hidden", [(7,), (7, 6), (7, 6, 5)])
def test_slopes_are_derivatives_and_can_be_differentiated(hidden: tuple[int, ...]) -> None:
    q = networks(3, 5, *hidden, 1)
    x = torch.randn(3, 10, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    value, slope = edac.values_and_slopes(q, x, 2)
    (expected,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    torch.testing.assert_close(slope, expected[..., -2:])
    for own, other in zip(
        torch.autograd.grad(slope.square().sum(), q[::2], retain_graph=True),
        torch.autograd.grad(expected[..., -2:].square().sum(), q[::2]),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


def test_values_are_the_networks() -> None:
    q = networks(2, 4, 6, 6, 1)
    x = torch.ones(2, 3, 4, dtype=torch.float64)
    value, _ = edac.values_and_slopes(q, x, 1)
    for k in range(2):
        w0, b0, w1, b1, w2, b2 = (tensor[k] for tensor in q)
        expected = torch.relu(torch.relu(x[k] @ w0 + b0) @ w1 + b1) @ w2 + b2
        torch.testing.assert_close(value[k], expected[:, 0])


def test_cosines_are_those_of_all_pairs() -> None:
    slope = torch.randn(2, 4, 6, 3, generator=torch.Generator().manual_seed(2))
    expected = 0.0
    for k in range(2):
        for i in range(4):
            for j in range(4):
                if i != j:
                    expected += float(torch.cosine_similarity(slope[k, i], slope[k, j], dim=-1).mean()) / 3
    assert float(edac.cosines(slope)) == pytest.approx(expected, abs=1e-5)
    assert float(edac.cosines(slope[:1, :1].expand(1, 5, 6, 3))) == pytest.approx(5.0, abs=1e-4)


def test_densities_are_those_of_a_squashed_normal() -> None:
    policy = networks(2, 3, 8, 4)
    generator = torch.Generator().manual_seed(3)
    s = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, 5, 2, generator=generator, dtype=torch.float64)
    chosen, log_density = edac.act(policy, s, noise)
    mean, log_std = edac.network(policy, s, norm=False).chunk(2, -1)
    law = TransformedDistribution(Normal(mean, log_std.clamp(-5.0, 2.0).exp()), TanhTransform())
    inside = chosen.detach().abs().amax(-1) < 0.999
    assert inside.any()
    torch.testing.assert_close(log_density[inside], law.log_prob(chosen).sum(-1)[inside], rtol=1e-6, atol=1e-6)


def test_the_policy_climbs_the_smallest_critic_and_keeps_its_entropy() -> None:
    policy, q = networks(2, 3, 8, 4), networks(6, 5, 8, 1)
    s = torch.ones(2, 5, 3, dtype=torch.float64)
    rows = (s, *(torch.zeros(1, dtype=torch.float64) for _ in range(4)))
    noise, temperature = torch.zeros(2, 5, 2, dtype=torch.float64), torch.tensor([[0.1], [0.3]], dtype=torch.float64)
    loss, log_density = edac.policy_loss(policy, q, temperature, rows, noise)
    chosen, own = edac.act(policy, s, noise)
    expected = torch.zeros((), dtype=torch.float64)
    for k in range(2):
        x = torch.cat([s[k], chosen[k]], -1)
        values = [torch.relu(x @ q[0][j] + q[1][j]) @ q[2][j] + q[3][j] for j in range(3 * k, 3 * k + 3)]
        expected += (temperature[k] * own[k] - torch.cat(values, -1).amin(-1)).mean().detach()
    torch.testing.assert_close(loss.detach(), expected)
    torch.testing.assert_close(log_density[:, 0], own.mean(-1).detach())


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
    original = edac.policy_loss

    def spy(policy, q, temperature, batch, noise):  # type: ignore[no-untyped-def]
        levels.append(float(temperature[0, 0]))
        return original(policy, q, temperature, batch, noise)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edac, "policy_loss", spy)
        edac.train(columns, edac.EdacConfig(steps=30, batch=32, width=8, learning_rate=1e-2), seeds=[0])
    assert levels[0] == pytest.approx(0.1)
    assert levels[-1] < 0.09
