"""The hand-written networks against torch's automatic differentiation and closed forms."""

import numpy as np
import pytest
import torch

from tacit.agents.networks import Mlp
from tacit.errors import PlanError

SIZES = [(4, 64, 64, 2), (3, 5, 2), (4, 2), (2, 7, 7, 7, 1), (1, 1)]


def _draws(net, groups, rows, seed=0):
    generator = np.random.default_rng(seed)
    theta = generator.normal(scale=0.3, size=(groups, net.parameters)).astype(np.float32)
    x = generator.normal(size=(groups, rows, net.inputs)).astype(np.float32)
    gradient = generator.normal(size=(groups, rows, net.outputs)).astype(np.float32)
    return theta, x, gradient


def _torch_of(net, theta, x):
    """The same network of one group in float64, on automatic differentiation."""
    theta = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    out, start = torch.tensor(x, dtype=torch.float64), 0
    for i, (n, m) in enumerate(zip(net.sizes, net.sizes[1:], strict=False)):
        weight, bias = theta[start : start + n * m].reshape(n, m), theta[start + n * m : start + (n + 1) * m]
        out = (torch.tanh(out) if i else out) @ weight + bias
        start += (n + 1) * m
    assert start == net.parameters
    return theta, out


@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_gradients_are_those_of_torch(sizes):
    net = Mlp(sizes)
    theta, x, gradient = _draws(net, groups=3, rows=6)
    out, cache = net.forward(theta, x)
    whole, halves = net.backward(theta, cache, gradient), net.backward(theta, cache, gradient, pieces=2)
    assert whole.shape == (3, 1, net.parameters)
    assert halves.shape == (3, 2, net.parameters)
    assert out.dtype == whole.dtype == np.float32
    for g in range(3):
        leaf, expected = _torch_of(net, theta[g], x[g])
        np.testing.assert_allclose(out[g], expected.detach(), rtol=1e-5, atol=1e-6)
        for rows, got in ((slice(0, 6), whole[g, 0]), (slice(0, 3), halves[g, 0]), (slice(3, 6), halves[g, 1])):
            weight = torch.tensor(gradient[g, rows], dtype=torch.float64)
            (own,) = torch.autograd.grad((expected[rows] * weight).sum(), leaf, retain_graph=True)
            np.testing.assert_allclose(got, own, rtol=1e-5, atol=1e-6 * max(1.0, float(own.abs().max())))


@pytest.mark.parametrize("rows", [1, 8, 32, 64])
def test_a_group_has_the_same_bits_alone_and_among_others(rows):
    net = Mlp((4, 64, 64, 2))
    theta, x, gradient = _draws(net, groups=16, rows=rows)
    out, cache = net.forward(theta, x)
    sums = net.backward(theta, cache, gradient)
    for groups in (slice(0, 1), slice(5, 6), slice(3, 14)):
        own, kept = net.forward(theta[groups], x[groups])
        np.testing.assert_array_equal(own, out[groups])
        np.testing.assert_array_equal(net.backward(theta[groups], kept, gradient[groups]), sums[groups])


def test_a_broadcast_vector_is_a_vector_a_group():
    net = Mlp((4, 8, 3))
    theta, x, gradient = _draws(net, groups=5, rows=7)
    shared = np.broadcast_to(theta[0], theta.shape)
    out, cache = net.forward(shared, x)
    copies = np.repeat(theta[:1], 5, axis=0)
    expected, kept = net.forward(copies, x)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(net.backward(shared, cache, gradient), net.backward(copies, kept, gradient))


def test_a_linear_network_is_its_matrix():
    net = Mlp((2, 2))
    theta = np.array([[1, 2, 3, 4, 10, 20]], np.float32)
    out, cache = net.forward(theta, np.array([[[1.0, 1.0], [0.0, 2.0]]]))
    np.testing.assert_array_equal(out, [[[14, 26], [16, 28]]])
    ones = np.ones((1, 2, 2), np.float32)
    np.testing.assert_array_equal(net.backward(theta, cache, ones), [[[1, 1, 3, 3, 2, 2]]])


def test_the_first_weights_are_orthogonal_and_the_biases_zero():
    net = Mlp((4, 64, 64, 2))
    theta = net.initial_parameters(np.random.default_rng(1), 3)
    assert theta.shape == (3, 4610)
    assert theta.dtype == np.float32
    first, second, last = net.layers(theta)
    for layer in (first, second, last):
        np.testing.assert_array_equal(layer[:, -1], 0)
    np.testing.assert_allclose(first[0, :-1] @ first[0, :-1].T, 2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(second[2, :-1] @ second[2, :-1].T, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(last[1, :-1].T @ last[1, :-1], 1e-4 * np.eye(2), atol=1e-9)
    assert np.abs(theta[0] - theta[1]).max() > 0.1
    np.testing.assert_array_equal(net.initial_parameters(np.random.default_rng(1), 1), theta[:1])


def test_a_gain_of_zero_starts_from_outputs_of_zero():
    assert not Mlp((4, 2), gain=0.0).initial_parameters(np.random.default_rng(0), 2).any()


@pytest.mark.parametrize(
    ("sizes", "gain"), [((4,), 1.0), ((4, 0, 2), 1.0), ((4, 2.5), 1.0), ((4, 2), -1.0), ((4, 2), float("nan"))]
)
def test_what_is_no_network_is_refused(sizes, gain):
    with pytest.raises(PlanError, match="is no network"):
        Mlp(sizes, gain)
