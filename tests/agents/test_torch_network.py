"""Modules through torch.func: the numbers of the hand-written network, and what is refused."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from tacit.agents.networks import Mlp
from tacit.agents.torch_network import TorchNetwork
from tacit.errors import PlanError
from tacit.privacy.vault.isolation import require_pure_form


def _pair(sizes):
    """An `Mlp`, the same as a module, and where in the module's parameters those of the Mlp are."""
    net = Mlp(sizes)
    layers, places, start = [], [], 0
    for n, m in itertools.pairwise(sizes):
        layers += [nn.Linear(n, m), nn.Tanh()]
        places += [start + np.arange(n * m).reshape(m, n).T.reshape(-1), start + n * m + np.arange(m)]
        start += (n + 1) * m
    return net, TorchNetwork(nn.Sequential(*layers[:-1]), inputs=sizes[0]), np.concatenate(places)


@pytest.mark.parametrize("sizes", [(4, 64, 64, 2), (3, 5, 1), (4, 2)])
def test_it_gives_the_numbers_of_the_hand_written_network(sizes):
    net, module, places = _pair(sizes)
    assert (module.inputs, module.outputs, module.parameters) == (net.inputs, net.outputs, net.parameters)
    generator = np.random.default_rng(0)
    theta = net.initial_parameters(generator, 3)
    turned = np.empty_like(theta)
    turned[:, places] = theta
    x = generator.normal(size=(3, 6, net.inputs)).astype(np.float32)
    gradient = generator.normal(size=(3, 6, net.outputs)).astype(np.float32) / 6
    out, cache = net.forward(theta, x)
    other, kept = module.forward(turned, x)
    assert other.dtype == np.float32
    np.testing.assert_allclose(other, out, rtol=0, atol=1e-6)
    for pieces in (1, 2):
        got = module.backward(turned, kept, gradient, pieces)
        assert got.shape == (3, pieces, net.parameters)
        np.testing.assert_allclose(got[..., places], net.backward(theta, cache, gradient, pieces), rtol=0, atol=1e-6)


class _Odd(nn.Module):
    """A module with a parameter outside any layer, and one that is not learned."""

    def __init__(self):
        super().__init__()
        self.scale, self.linear = nn.Parameter(torch.tensor([2.0, 3.0])), nn.Linear(2, 2)
        nn.init.eye_(self.linear.weight).requires_grad_(False)

    def forward(self, rows):
        return self.linear(rows) * self.scale


def test_parameters_that_are_not_learned_stay():
    module = _Odd()
    nn.init.zeros_(module.linear.bias)
    net = TorchNetwork(module, inputs=2)
    assert net.parameters == 4
    theta = net.initial_parameters(np.random.default_rng(0), 2)
    np.testing.assert_array_equal(theta, [[2, 3, 0, 0]] * 2)
    out, cache = net.forward(theta, np.ones((2, 1, 2)))
    np.testing.assert_array_equal(out, [[[2, 3]]] * 2)
    np.testing.assert_array_equal(net.backward(theta, cache, np.ones((2, 1, 2), np.float32)), [[[1, 1, 2, 3]]] * 2)


def test_the_module_is_copied_and_never_changed():
    module = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    net = TorchNetwork(module, inputs=2)
    kept = copy.deepcopy(net.module.state_dict())
    theta = net.initial_parameters(np.random.default_rng(0), 2)
    nn.init.zeros_(module[0].weight)
    _, cache = net.forward(theta + 1, np.ones((2, 5, 2)))
    net.backward(theta + 1, cache, np.ones((2, 5, 1), np.float32))
    for name, value in net.module.state_dict().items():
        assert torch.equal(value, kept[name])
    assert all(parameter.grad is None for parameter in net.module.parameters())
    require_pure_form(net, where="test")
    assert net == net
    assert hash(net) == hash(net)


def test_the_callers_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        TorchNetwork(nn.Linear(2, 1), inputs=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class _Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = self.second = nn.Linear(2, 2)

    def forward(self, rows):
        return self.second(self.first(rows))


class _Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, rows):
        return self.linear(rows - rows.mean(0))


class _Drawing(_Centred):
    def forward(self, rows):
        return self.linear(rows) + torch.rand(1)


class _Branching(_Centred):
    def forward(self, rows):
        return self.linear(rows) if rows.sum().item() > 0 else rows


class _Counting(_Centred):
    calls = 0

    def forward(self, rows):
        self.calls += 1
        return self.linear(rows) * self.calls


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), "1 is a BatchNorm1d"),
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False)), "1 is a BatchNorm1d"),
        (nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)), "1 is a Dropout"),
        (nn.TransformerEncoderLayer(2, 1, dropout=0.1), "is a MultiheadAttention"),
        (_Twice(), "uses a parameter in two places"),
        (_Centred(), "mixes rows"),
        (_Drawing(), "does not run under torch.func"),
        (_Branching(), "does not run under torch.func"),
        (_Counting(), "gives other numbers when it is called again"),
        (nn.Linear(3, 1), "does not run under torch.func"),
        (nn.Flatten(0), "no parameters to learn"),
        (nn.Sequential(nn.Linear(2, 4), nn.Unflatten(1, (2, 2))), "does not map rows"),
        (nn.Linear(2, 1).double(), "not all float32"),
        ("network", r"no torch\.nn\.Module"),
    ],
)
def test_what_is_refused(module, what):
    with pytest.raises(PlanError, match=what):
        TorchNetwork(module, inputs=2)


def test_a_module_with_a_buffer_is_refused():
    module = nn.Linear(2, 1)
    module.register_buffer("seen", torch.zeros(1))
    with pytest.raises(PlanError, match="has buffers"):
        TorchNetwork(module, inputs=2)
