"""Algorithm 3 for many people at once, against one person after the other on torch's own Adam and autograd."""

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from tacit.agents.networks import Mlp
from tacit.agents.torch_network import TorchNetwork
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient.features import Scaled
from tacit.methods.policy_gradient.heads import Categorical, Gaussian
from tacit.methods.policy_gradient.local_updates import LocalUpdates
from tacit.methods.policy_gradient.policies import Policy
from tacit.privacy.decoys import decoy_rows, require_pure_form, try_on_decoys, try_on_fewer

LOW, HIGH = (-1.0, -2.0, 0.0), (1.0, 2.0, 4.0)
DISCRETE = PublicSpec(observation=Box(LOW, HIGH), action=Discrete(3), reward=Box((-1.0,), (1.0,)), source="physics")
CONTINUOUS = PublicSpec(
    observation=Box(LOW, HIGH), action=Box((-1.0,) * 2, (2.0,) * 2), reward=Box((-1.0,), (1.0,)), source="physics"
)
SCALED = Scaled(LOW, HIGH)
SOFTMAX = Policy(SCALED, Mlp((3, 8, 8, 3), gain=1.0), Categorical(3))
NORMAL = Policy(SCALED, Mlp((3, 8, 2), gain=1.0), Gaussian((-1.0,) * 2, (2.0,) * 2, (0.5, 0.0), 0.7, learned_std=True))


@dataclass(frozen=True)
class Rewards:
    """The rewards themselves as advantages."""

    def __call__(self, rows):
        return np.where(rows["mask"], rows["rewards"], 0.0)


@dataclass(frozen=True)
class State:
    theta: np.ndarray
    round: int = 0
    previous: np.ndarray | None = None


def _rows(spec, people, length, seed=0):
    rows = decoy_rows(spec, people, length, seed=seed, rows_of="first")
    return rows | {"replicate": np.arange(people) % 2}


def _state(policy, seed=0, **others):
    return State(policy.initial(np.random.default_rng(seed), 2), **others)


class _Peer(nn.Module):
    """A policy of one person in torch, in float64."""

    def __init__(self, policy, theta):
        super().__init__()
        net = policy.network
        self.head = policy.head
        views = net.layers(theta[: net.parameters].astype(np.float64))
        self.parts = nn.ParameterList(torch.tensor(part) for part in [*views, theta[net.parameters :].astype(float)])

    def forward(self, x, actions):
        for i, layer in enumerate(self.parts[:-1]):
            x = (torch.tanh(x) if i else x) @ layer[:-1] + layer[-1]
        if isinstance(self.head, Categorical):
            law = torch.distributions.Categorical(logits=x)
            return law.log_prob(actions), law.entropy()
        law = torch.distributions.Normal(torch.tensor(self.head.mean) + x, self.head.std * self.parts[-1].exp())
        return law.log_prob(actions).sum(-1), law.entropy().sum(-1)

    def flat(self):
        return np.concatenate([p.detach().numpy().reshape(-1) for p in self.parameters()])


def _loop(update, rows, state):
    """phi - theta of each person in turn."""
    result, (people, length) = [], rows["mask"].shape
    keys = np.random.default_rng(state.round).random((update.epochs, length))
    for u in range(people):
        theta = state.theta[rows["replicate"][u]]
        peer, n = _Peer(update.policy, theta), int(rows["mask"][u].sum())
        adam = torch.optim.Adam(
            peer.parameters(), lr=update.learning_rate, betas=(update.beta1, update.beta2), eps=update.epsilon
        )
        if update.moments == "released" and state.previous is not None:
            # Adam descends: its gradient is minus the ascent, and after 1e9 steps nothing is corrected for the start.
            moment = -torch.tensor(state.previous[rows["replicate"][u]], dtype=torch.float64)
            moment /= update.learning_rate * update.epochs * update.minibatches
            sizes = [p.numel() for p in peer.parameters()]
            for parameter, part in zip(peer.parameters(), moment.split(sizes), strict=True):
                part = part.reshape(parameter.shape)
                adam.state[parameter] = {"step": torch.tensor(1e9), "exp_avg": part.clone(), "exp_avg_sq": part**2}
        x = torch.tensor(update.policy.features(rows["observations"][u, :n]), dtype=torch.float64)
        actions = torch.tensor(rows["actions"][u, :n])
        advantages = torch.tensor(rows["rewards"][u, :n], dtype=torch.float64)
        with torch.no_grad():
            old, _ = peer(x, actions)
        minibatches = min(update.minibatches, n)
        for key in keys:
            order = np.argsort(key[:n])
            edges = [j * n // minibatches for j in range(minibatches + 1)]
            for first, last in itertools.pairwise(edges):
                batch = order[first:last]
                logs, entropy = peer(x[batch], actions[batch])
                gain = advantages[batch] * ((logs - old[batch]).exp() if update.objective == "ratio" else logs)
                loss = -gain.mean() - update.entropy * entropy.mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
        result.append(peer.flat() - theta)
    return np.array(result)


@pytest.mark.parametrize("objective", ["ratio", "gradient"])
@pytest.mark.parametrize("moments", ["fresh", "released"])
@pytest.mark.parametrize(("policy", "spec"), [(SOFTMAX, DISCRETE), (NORMAL, CONTINUOUS)])
def test_it_is_a_loop_over_people_in_torch(policy, spec, objective, moments):
    rows = _rows(spec, 7, 10)
    if spec is CONTINUOUS:  # inside the bounds, where the score is the normal law's
        rows["actions"] = np.clip(rows["actions"], -0.9, 1.9)
    rows["mask"][0], rows["mask"][1, 1:] = True, False  # ten rows, one row
    update = LocalUpdates(
        policy, Rewards(), 3e-3, epochs=3, minibatches=4, entropy=0.02, objective=objective, moments=moments
    )
    state = _state(policy, round=5)
    if moments == "released":
        previous = np.random.default_rng(1).normal(scale=0.01, size=state.theta.shape)
        state = dataclasses.replace(state, previous=previous)
    expected = _loop(update, rows, state)
    assert np.abs(expected).max() > 3e-3
    np.testing.assert_allclose(update(rows, state), expected, rtol=0, atol=1e-6)


def test_a_module_is_trained_as_the_hand_written_network_is():
    layers = nn.Linear(3, 4), nn.Linear(4, 3)
    net = TorchNetwork(nn.Sequential(layers[0], nn.Tanh(), layers[1]), inputs=3)
    weights = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()[None]) for layer in layers]
    flat = np.concatenate([part.reshape(-1) for pair in weights for part in pair])
    places = np.concatenate([np.arange(12).reshape(4, 3).T.reshape(-1), 12 + np.arange(4)])
    places = np.concatenate([places, 16 + np.arange(12).reshape(3, 4).T.reshape(-1), 28 + np.arange(3)])
    rows = _rows(DISCRETE, 5, 9)
    by_hand = LocalUpdates(Policy(SCALED, Mlp((3, 4, 3)), Categorical(3)), Rewards(), 1e-3, epochs=2, entropy=0.1)
    module = dataclasses.replace(by_hand, policy=Policy(SCALED, net, Categorical(3)))
    theta = net.initial(np.random.default_rng(0), 2)
    np.testing.assert_array_equal(theta[0, places], flat)
    expected = by_hand(rows, State(np.tile(flat, (2, 1))))
    np.testing.assert_allclose(module(rows, State(theta))[:, places], expected, rtol=0, atol=1e-6)


def test_one_step_on_a_fresh_start_has_the_length_of_the_learning_rate():
    update = LocalUpdates(SOFTMAX, Rewards(), 0.01, epochs=1, minibatches=1, epsilon=1e-12)
    sent = update(_rows(DISCRETE, 3, 6), _state(SOFTMAX))
    np.testing.assert_allclose(np.abs(sent), 0.01, rtol=1e-3)


def test_moments_from_a_release_go_on_in_its_direction():
    """The released update moved every parameter by the learning rate in each step; with own rewards 0 so does this."""
    update = LocalUpdates(
        SOFTMAX, Rewards(), 0.01, epochs=1, minibatches=1, moments="released", beta1=0.9, beta2=0.9, epsilon=1e-12
    )
    rows = _rows(DISCRETE, 2, 6)
    rows["rewards"] = np.zeros_like(rows["rewards"])
    signs = np.where(np.arange(2 * SOFTMAX.parameters).reshape(2, -1) % 3 == 0, -1.0, 1.0)
    sent = update(rows, _state(SOFTMAX, previous=0.01 * signs))
    np.testing.assert_allclose(sent, 0.01 * 0.9 / np.sqrt(0.9) * signs, rtol=1e-3)


def test_the_first_round_of_released_moments_is_a_fresh_one():
    rows, state = _rows(DISCRETE, 3, 6), _state(SOFTMAX)
    fresh = LocalUpdates(SOFTMAX, Rewards())
    np.testing.assert_array_equal(dataclasses.replace(fresh, moments="released")(rows, state), fresh(rows, state))


def test_the_round_decides_on_the_minibatches():
    rows, update = _rows(DISCRETE, 3, 40), LocalUpdates(SOFTMAX, Rewards(), 0.01, epochs=2, minibatches=3)
    state = _state(SOFTMAX)
    first, again = update(rows, state), update(rows, state)
    other = update(rows, dataclasses.replace(state, round=1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4


def test_a_person_sends_the_same_bits_whoever_else_is_there():
    """Also when the others have more or fewer rows, or are more people than are trained side by side."""
    update = LocalUpdates(SOFTMAX, Rewards(), 0.01, epochs=2, minibatches=2, entropy=0.01)
    state, rows = _state(SOFTMAX, round=3), _rows(DISCRETE, 30, 64)
    sent = update(rows, state)
    for people in ([3], [7, 3, 11], list(range(29, -1, -1))):
        own = update({name: column[people] for name, column in rows.items()}, state)
        np.testing.assert_array_equal(own, sent[people])
    changed = _rows(DISCRETE, 30, 64, seed=1)
    for column, new in ((rows[name], changed[name]) for name in rows):
        new[3] = column[3]
    np.testing.assert_array_equal(update(changed, state)[3], sent[3])


@pytest.mark.parametrize(("policy", "spec"), [(SOFTMAX, DISCRETE), (NORMAL, CONTINUOUS)])
def test_it_passes_the_vaults_trials(policy, spec):
    update, state = LocalUpdates(policy, Rewards(), moments="released"), _state(policy)
    require_pure_form(update, where="test")

    def vectors(rows, kept=None):
        return update({**rows, "replicate": np.zeros(len(rows["mask"]), np.int64)}, state)

    try_on_decoys(vectors, spec, 20, where="test", rows_of="first")
    try_on_fewer(vectors, spec, 20, where="test", rows_of="first")


@pytest.mark.parametrize(
    "field",
    [
        {"learning_rate": 0.0},
        {"epochs": 0},
        {"minibatches": 1.5},
        {"entropy": -0.1},
        {"objective": "clipped"},
        {"moments": "shared"},
        {"beta1": 1.0},
        {"beta2": -0.1},
        {"epsilon": 0.0},
    ],
)
def test_a_parameter_out_of_range_is_refused(field):
    with pytest.raises(PlanError, match=next(iter(field))):
        LocalUpdates(SOFTMAX, Rewards(), **field)
