"""Algorithm 3 for many people at once, against one person after the other on torch's own Adam and autograd."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.agents.torch_network import TorchNetwork
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient.contributions import Advantages, RoundInputs
from tacit.methods.policy_gradient.local_updates import CriticUpdates, LocalTraining, LocalUpdates
from tacit.privacy.vault.invented import invented_rows
from tacit.privacy.vault.isolation import require_pure_form
from tacit.privacy.vault.removal import Harness, VectorViews

LOW, HIGH = (-1.0, -2.0, 0.0), (1.0, 2.0, 4.0)
DISCRETE = PublicSpec(observation=Box(LOW, HIGH), action=Discrete(3), reward=Box((-1.0,), (1.0,)), source="physics")
CONTINUOUS = PublicSpec(
    observation=Box(LOW, HIGH), action=Box((-1.0,) * 2, (2.0,) * 2), reward=Box((-1.0,), (1.0,)), source="physics"
)
SCALED = Scaled(LOW, HIGH)
SOFTMAX = Policy(SCALED, Mlp((3, 8, 8, 3), gain=1.0), Categorical(3))
NORMAL = Policy(SCALED, Mlp((3, 8, 2), gain=1.0), Gaussian((-1.0,) * 2, (2.0,) * 2, (0.5, 0.0), 0.7, learned_std=True))
CRITIC = ValueFunction(SCALED, Mlp((3, 6, 1), gain=1.0))
REWARDS = Advantages(gamma=0.0, standardised=False)  # with gamma 0 the returns are the rewards
TRAINING = LocalTraining(learning_rate=3e-3, epochs=3, minibatches=4)


def _rows(spec, people, length, seed=0):
    rows = invented_rows(spec, people, length, seed=seed, rows_of="first")
    return rows | {"replicate": np.arange(people) % 2}


def _state(policy, round_=0, previous=None, stretch=(1.0, 1.0)):
    generator = np.random.default_rng(0)
    theta, phi = policy.initial_parameters(generator, 2), CRITIC.network.initial_parameters(generator, 2)
    return RoundInputs(theta, phi, np.array(stretch), round_, previous)


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


def _trained(peer, training, n, keys, loss, moment=None):
    """What a person's peer has learned, in torch; `loss` is that of a batch of row numbers."""
    before = peer.flat()
    adam = torch.optim.Adam(
        peer.parameters(),
        lr=training.learning_rate,
        betas=(training.beta1, training.beta2),
        eps=training.epsilon,
    )
    if moment is not None:
        sizes = [p.numel() for p in peer.parameters()]
        for parameter, part in zip(peer.parameters(), moment.split(sizes), strict=True):
            part = part.reshape(parameter.shape)
            adam.state[parameter] = {"step": torch.tensor(1e9), "exp_avg": part.clone(), "exp_avg_sq": part**2}
    cut = min(training.minibatches, n)
    edges = [j * n // cut for j in range(cut + 1)]
    for key in keys:
        order = np.argsort(key[:n])
        for first, last in itertools.pairwise(edges):
            adam.zero_grad()
            loss(order[first:last]).backward()
            adam.step()
    return peer.flat() - before


def _loop(update, rows, state):
    """phi - theta of each person in turn."""
    result, training = [], update.training
    keys = np.random.default_rng(state.round).random((training.epochs, rows["mask"].shape[1]))
    for u, replicate in enumerate(rows["replicate"]):
        peer, n = _Peer(update.policy, state.theta[replicate]), int(rows["mask"][u].sum())
        moment = None
        if update.seeded and state.previous is not None:
            # Adam descends: its gradient is minus the ascent, and after 1e9 steps nothing is corrected for the start.
            moment = -torch.tensor(state.previous[replicate], dtype=torch.float64)
            if update.seeded != "raw":
                moment /= training.learning_rate * training.epochs * training.minibatches
        x = torch.tensor(update.policy.features(rows["observations"][u, :n]), dtype=torch.float64)
        actions = torch.tensor(rows["actions"][u, :n])
        advantages = torch.tensor(rows["rewards"][u, :n], dtype=torch.float64)
        with torch.no_grad():
            old, _ = peer(x, actions)

        def loss(batch, peer=peer, x=x, actions=actions, advantages=advantages, old=old):
            logs, entropy = peer(x[batch], actions[batch])
            gain = advantages[batch] * ((logs - old[batch]).exp() if update.objective == "ratio" else logs)
            return -gain.mean() - update.entropy * entropy.mean()

        result.append(_trained(peer, training, n, keys, loss, moment))
    return np.array(result)


@pytest.mark.parametrize("objective", ["ratio", "gradient"])
@pytest.mark.parametrize("seeded", [False, True, "raw"])
@pytest.mark.parametrize(("policy", "spec"), [(SOFTMAX, DISCRETE), (NORMAL, CONTINUOUS)])
def test_it_is_a_loop_over_people_in_torch(policy, spec, objective, seeded):
    rows = _rows(spec, 7, 10)
    if spec is CONTINUOUS:  # inside the bounds, where the score is the normal law's
        rows["actions"] = np.clip(rows["actions"], -0.9, 1.9)
    rows["mask"][0], rows["mask"][1, 1:] = True, False  # ten rows, one row
    update = LocalUpdates(policy, REWARDS, TRAINING, entropy=0.02, objective=objective, seeded=seeded)
    previous = np.random.default_rng(1).normal(scale=0.01, size=(2, policy.parameters)).astype(np.float32)
    state = _state(policy, 5, previous)
    expected = _loop(update, rows, state)
    assert np.abs(expected).max() > 3e-3
    np.testing.assert_allclose(update(rows, state), expected, rtol=0, atol=1e-6)


def test_a_critic_is_trained_on_the_persons_own_returns():
    rows, state = _rows(DISCRETE, 5, 10), _state(SOFTMAX, 2)
    keys = np.random.default_rng(2).random((TRAINING.epochs, 10))
    expected = []
    for u, replicate in enumerate(rows["replicate"]):
        n, layers = int(rows["mask"][u].sum()), CRITIC.network.layers(state.phi[replicate].astype(np.float64))
        peer = _Values(layers)
        x = torch.tensor(SCALED(rows["observations"][u, :n]), dtype=torch.float64)
        returns = torch.tensor(rows["rewards"][u, :n], dtype=torch.float64)

        def loss(batch, peer=peer, x=x, returns=returns):
            return 0.5 * (returns[batch] - peer(x[batch])).square().mean()

        expected.append(_trained(peer, TRAINING, n, keys, loss))
    sent = CriticUpdates(CRITIC, REWARDS, TRAINING)(rows, state)
    assert np.abs(expected).max() > 3e-3
    np.testing.assert_allclose(sent, expected, rtol=0, atol=1e-6)


class _Values(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.parts = nn.ParameterList(torch.tensor(part) for part in layers)

    def forward(self, x):
        for i, layer in enumerate(self.parts):
            x = (torch.tanh(x) if i else x) @ layer[:-1] + layer[-1]
        return x[:, 0]

    def flat(self):
        return np.concatenate([p.detach().numpy().reshape(-1) for p in self.parts])


def test_the_advantages_are_errors_of_the_critic():
    rows, state = _rows(DISCRETE, 4, 10), _state(SOFTMAX)
    values = CRITIC(state.phi[rows["replicate"]], rows["observations"])
    shifted = rows | {"rewards": rows["rewards"] - values}
    sent = LocalUpdates(SOFTMAX, REWARDS, TRAINING, critic=CRITIC)(rows, state)
    np.testing.assert_allclose(sent, LocalUpdates(SOFTMAX, REWARDS, TRAINING)(shifted, state), rtol=0, atol=1e-6)


def test_a_private_critic_is_appended_and_everything_stretched():
    rows, state = _rows(DISCRETE, 4, 10), _state(SOFTMAX, stretch=(1.0, 3.0))
    sent = LocalUpdates(SOFTMAX, REWARDS, TRAINING, critic=CRITIC, kappa=0.5)(rows, state)
    plain = dataclasses.replace(state, stretch=np.ones(2))
    policy = LocalUpdates(SOFTMAX, REWARDS, TRAINING, critic=CRITIC)(rows, plain)
    critic = CriticUpdates(CRITIC, REWARDS, TRAINING)(rows, plain)
    expected = np.concatenate([policy, 0.5 * critic], axis=1) * [[1], [3], [1], [3]]
    np.testing.assert_allclose(sent, expected, rtol=1e-6)


def test_a_module_is_trained_as_the_hand_written_network_is():
    layers = nn.Linear(3, 4), nn.Linear(4, 3)
    net = TorchNetwork(nn.Sequential(layers[0], nn.Tanh(), layers[1]), inputs=3)
    weights = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()[None]) for layer in layers]
    flat = np.concatenate([part.reshape(-1) for pair in weights for part in pair])
    places = np.concatenate([np.arange(12).reshape(4, 3).T.reshape(-1), 12 + np.arange(4)])
    places = np.concatenate([places, 16 + np.arange(12).reshape(3, 4).T.reshape(-1), 28 + np.arange(3)])
    rows = _rows(DISCRETE, 5, 9)
    by_hand = LocalUpdates(Policy(SCALED, Mlp((3, 4, 3)), Categorical(3)), REWARDS, TRAINING, entropy=0.1)
    module = dataclasses.replace(by_hand, policy=Policy(SCALED, net, Categorical(3)))
    theta = net.initial_parameters(np.random.default_rng(0), 2)
    np.testing.assert_array_equal(theta[0, places], flat)
    expected = by_hand(rows, RoundInputs(np.tile(flat, (2, 1)), None, np.ones(2)))
    sent = module(rows, RoundInputs(theta, None, np.ones(2)))
    np.testing.assert_allclose(sent[:, places], expected, rtol=0, atol=1e-6)


def test_moments_from_a_release_go_on_in_its_direction():
    """The released update moved every parameter by the learning rate in each step; with rewards of 0 so does this."""
    training = LocalTraining(learning_rate=0.01, epochs=1, minibatches=1, beta1=0.9, beta2=0.9, epsilon=1e-12)
    rows = _rows(DISCRETE, 2, 6)
    rows["rewards"] = np.zeros_like(rows["rewards"])
    signs = np.where(np.arange(2 * SOFTMAX.parameters).reshape(2, -1) % 3 == 0, -1.0, 1.0)
    sent = LocalUpdates(SOFTMAX, REWARDS, training, seeded=True)(rows, _state(SOFTMAX, previous=0.01 * signs))
    np.testing.assert_allclose(sent, 0.01 * 0.9 / np.sqrt(0.9) * signs, rtol=1e-3)


def test_before_anything_was_released_moments_start_from_zero():
    rows, state = _rows(DISCRETE, 3, 6), _state(SOFTMAX)
    fresh = LocalUpdates(SOFTMAX, REWARDS, TRAINING)
    np.testing.assert_array_equal(dataclasses.replace(fresh, seeded=True)(rows, state), fresh(rows, state))


@pytest.mark.parametrize(("policy", "spec"), [(SOFTMAX, DISCRETE), (NORMAL, CONTINUOUS)])
def test_they_pass_the_vaults_isolation_checks(policy, spec):
    state = _state(policy, previous=np.full((2, policy.parameters), 1e-3, np.float32))
    for update in (
        LocalUpdates(policy, REWARDS, TRAINING, critic=CRITIC, kappa=1.0, seeded=True),
        CriticUpdates(CRITIC, REWARDS, TRAINING),
    ):
        require_pure_form(update, where="test")

        def vectors(rows, units, update=update):
            return VectorViews.clipped(update({**rows, "replicate": np.zeros(len(units), np.int64)}, state), 1.0)

        Harness(vectors, spec, 20, "first", 1, where="test").try_at_length()


def test_a_person_sends_the_same_bits_whoever_else_is_there():
    update = LocalUpdates(SOFTMAX, REWARDS, TRAINING, entropy=0.01, critic=CRITIC, kappa=1.0)
    state, rows, changed = _state(SOFTMAX, 3), _rows(DISCRETE, 30, 64), _rows(DISCRETE, 30, 64, seed=1)
    sent = update(rows, state)
    for people in ([3], [7, 3, 11], list(range(29, -1, -1))):
        own = update({name: column[people] for name, column in rows.items()}, state)
        np.testing.assert_array_equal(own, sent[people])
    for name, column in changed.items():
        column[3] = rows[name][3]
    np.testing.assert_array_equal(update(changed, state)[3], sent[3])


@pytest.mark.parametrize("field", [{"entropy": -0.1}, {"objective": "clipped"}])
def test_a_parameter_out_of_range_is_refused(field):
    with pytest.raises(PlanError, match=next(iter(field))):
        LocalUpdates(SOFTMAX, REWARDS, TRAINING, **field)
