"""Stacked critics: their slopes against double differentiation, a person against a crowd, spectral norms, Adam."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.mobility.pategail.critics import Critic, CriticArrays, adam

torch = pytest.importorskip("torch")

INPUTS, PEOPLE, BATCH = 9, 4, 16
Array = np.ndarray


def parameters(critic: Critic, seed: int = 0) -> Array:
    theta = critic.initial(INPUTS, PEOPLE)
    return theta + np.random.default_rng(seed).normal(scale=0.2, size=theta.shape).astype(np.float32)


def rows(seed: int = 1) -> Array:
    found = np.ones((PEOPLE, 3 * BATCH, INPUTS + 1), np.float32)
    found[..., :-1] = np.random.default_rng(seed).normal(size=(PEOPLE, 3 * BATCH, INPUTS))
    return found


def network(critic: Critic, theta: Any, x: Any) -> Any:
    """One person's critic in torch, of a flat vector."""
    start = 0
    for i, (n, m) in enumerate(itertools.pairwise((INPUTS, *critic.hidden, 1))):
        layer = theta[start : start + (n + 1) * m].view(n + 1, m)
        start += (n + 1) * m
        x = torch.nn.functional.leaky_relu(x, 0.2) if i else x
        matrix = layer[:-1]
        if critic.spectral:
            matrix = matrix / torch.linalg.matrix_norm(matrix, 2)
        x = x @ matrix + layer[-1]
    return x[:, 0]


def loss(critic: Critic, theta: Any, own: Any, made: Any, mixed: Any) -> Any:
    """The paper's objective with autograd's own gradient penalty."""
    mixed = mixed.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(network(critic, theta, mixed).sum(), mixed, create_graph=True)
    excess = gradient.norm(dim=1) - 1
    excess = excess.clamp(min=0) if critic.one_sided else excess
    real, fake = network(critic, theta, own), network(critic, theta, made)
    if critic.loss == "wasserstein":
        value = fake.mean() - real.mean()
    else:
        value = torch.nn.functional.softplus(-real).mean() + torch.nn.functional.softplus(fake).mean()
    return value + critic.penalty * (excess**2).mean()


@pytest.mark.parametrize(
    "critic",
    [
        Critic(),
        Critic(one_sided=True),
        Critic(hidden=(8,)),
        Critic(hidden=(8, 16, 4), penalty=1.0),
        Critic(loss="cross_entropy"),
        Critic(loss="cross_entropy", penalty=0.0),
    ],
    ids=["paper", "one-sided", "shallow", "deep", "gail", "gail-bare"],
)
def test_slopes_are_those_of_double_differentiation(critic: Critic) -> None:
    theta, x = parameters(critic), rows()
    found = critic.slopes(theta, x.copy())
    for u in range(PEOPLE):
        flat = torch.tensor(theta[u], dtype=torch.float64, requires_grad=True)
        loss(critic, flat, *torch.tensor(x[u, :, :-1], dtype=torch.float64).split(BATCH)).backward()
        np.testing.assert_allclose(found[u], flat.grad.numpy(), atol=2e-6 * float(flat.grad.abs().max()) + 1e-7)


def test_a_penalty_by_hand() -> None:
    """One layer without a hidden kink in the way: D(x) = 3 x_1 + 4 x_2 has gradient norm 5, penalty 10 (5 - 1)^2."""
    critic = Critic(hidden=(2,), penalty=10.0)
    theta = np.zeros_like(critic.initial(2, 1))
    first, last = critic.layers(theta)
    first[0, :2], first[0, 2] = np.eye(2), 100.0  # both hidden units far on the linear side
    last[0, :2, 0] = 3.0, 4.0
    x = np.zeros((1, 3, 3), np.float32)
    x[..., -1] = 1.0
    _, by_last = critic.layers(critic.slopes(theta, x))
    # d/dw of 10 (|w| - 1)^2 is 20 (5 - 1) w / 5
    np.testing.assert_allclose(by_last[0, :2, 0], 16.0 * np.array([3.0, 4.0]), rtol=1e-5)


def test_spectral_slopes_pass_through_the_norms() -> None:
    critic = Critic(spectral=True)
    theta, x = parameters(critic), rows()
    vectors = np.ones((PEOPLE, sum(critic.hidden) + 1), np.float32)
    for _ in range(200):  # the power iteration has converged
        met = critic.normalise(theta, vectors)
    for layer in critic.layers(met):
        np.testing.assert_allclose(np.linalg.norm(layer[:, :-1], 2, axis=(1, 2)), 1.0, atol=1e-3)
    found = critic.backprop_norms(theta, met, vectors, critic.slopes(met, x.copy()))
    for u in range(PEOPLE):
        flat = torch.tensor(theta[u], dtype=torch.float64, requires_grad=True)
        loss(critic, flat, *torch.tensor(x[u, :, :-1], dtype=torch.float64).split(BATCH)).backward()
        np.testing.assert_allclose(found[u], flat.grad.numpy(), atol=5e-3 * float(flat.grad.abs().max()))


def trained(critic: Critic, people: slice, steps: int = 5) -> Array:
    theta = parameters(critic)[people].copy()
    first, second, work = np.zeros_like(theta), np.zeros_like(theta), CriticArrays.of(critic, rows()[people])
    for step in range(steps):
        slope = critic.slopes(theta, rows(step)[people].copy(), work)
        taken = np.full(len(theta), step + 1)
        adam(theta, first, second, slope, taken, critic.rate, critic.decays)
    return theta


@pytest.mark.parametrize("critic", [Critic(), Critic(loss="cross_entropy")], ids=["wasserstein", "gail"])
def test_stacked_is_looped_bit_for_bit(critic: Critic) -> None:
    together = trained(critic, slice(None))
    alone = np.concatenate([trained(critic, slice(u, u + 1)) for u in range(PEOPLE)])
    assert np.array_equal(together, alone)


def test_adam_is_torch_s() -> None:
    critic = Critic(rate=0.01)
    theta = parameters(critic)
    flat = torch.tensor(theta, requires_grad=True)
    optimizer = torch.optim.Adam([flat], lr=critic.rate, betas=critic.decays)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(4):
        slope = np.random.default_rng(step).normal(size=theta.shape).astype(np.float32)
        flat.grad = torch.tensor(slope)
        optimizer.step()
        adam(theta, first, second, slope.copy(), np.full(PEOPLE, step + 1), critic.rate, critic.decays)
    np.testing.assert_allclose(theta, flat.detach().numpy(), atol=1e-5)


def test_values_are_the_network_s() -> None:
    critic = Critic()
    theta, x = parameters(critic), rows()[0, :, :-1]
    said = critic.values(theta, x)
    for u in range(PEOPLE):
        expected = network(critic, torch.tensor(theta[u]), torch.tensor(x)).numpy()
        np.testing.assert_allclose(said[u], expected, atol=1e-5)


def test_a_critic_learns_to_tell_real_from_made() -> None:
    critic, rng = Critic(rate=0.01, batch=BATCH), np.random.default_rng(0)
    theta = critic.initial(INPUTS, 1)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(100):
        x = np.ones((1, 3 * BATCH, INPUTS + 1), np.float32)
        x[0, :, :-1] = rng.normal(size=(3 * BATCH, INPUTS))
        x[0, :BATCH, 0] += 1.0
        x[0, 2 * BATCH :, :-1] = (x[0, :BATCH, :-1] + x[0, BATCH : 2 * BATCH, :-1]) / 2
        adam(theta, first, second, critic.slopes(theta, x), np.full(1, step + 1), critic.rate, critic.decays)
    real = rng.normal(size=(500, INPUTS)).astype(np.float32)
    made = real.copy()
    real[:, 0] += 1.0
    gap = float(critic.values(theta, real).mean() - critic.values(theta, made).mean())
    assert 0.7 < gap < 1.3  # Wasserstein distance 1, up to what the penalty lets through


@pytest.mark.parametrize(
    "fields",
    [{"hidden": ()}, {"loss": "hinge"}, {"penalty": -1.0}, {"rate": 0.0}, {"decays": (0.9, 1.0)}, {"steps": 0}],
)
def test_a_critic_refuses_what_is_out_of_range(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        Critic(**fields)
