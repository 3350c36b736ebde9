"""Stacked perceptrons: outputs as a textbook has them, gradients as automatic differentiation finds them."""

from __future__ import annotations

import pytest
import torch
from tests.worlds.agents import losses

from tacit_worlds.agents import perceptrons
from tacit_worlds.agents.perceptrons import NetworkStack


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("outputs", [1, 2, 9])
def test_networks_are_the_textbook_s(outputs: int, norm: bool) -> None:
    layers = losses.random_layers(2, 3, 8, 8, outputs)
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    stacked = perceptrons.network_outputs(layers, x, norm=norm)
    for k in range(2):
        h = x[k]
        for i, (weight, bias) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
            h = h @ weight[k] + bias[k]
            if i < 2:
                if norm:
                    h = (h - h.mean(-1, keepdim=True)) / (h.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
                h = h.clamp(min=0)
        torch.testing.assert_close(stacked[k], h)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("sizes", [(3, 7, 7, 1), (3, 7, 2), (3, 16, 12, 9, 9), (1, 1)])
def test_backward_is_automatic_differentiation(sizes: tuple[int, ...], norm: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    layers = losses.random_layers(2, *sizes)
    x, weight = (torch.randn(2, 6, width, generator=generator, dtype=torch.float64) for width in (sizes[0], sizes[-1]))
    found = perceptrons.backward(layers, perceptrons.forward(layers, x, norm=norm), weight)
    losses.check(found, lambda layers: (weight * losses.network(layers, x, norm)).sum(), layers)


@pytest.mark.parametrize("norm", [False, True])
def test_slopes_of_inputs_are_automatic_differentiation(norm: bool) -> None:
    layers = losses.random_layers(2, 4, 6, 6, 1)
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    (expected,) = torch.autograd.grad(losses.network(layers, x, norm).sum(), x)
    trace = perceptrons.forward(layers, x.detach(), norm=norm)
    slopes = perceptrons.layer_slopes(layers, trace, torch.ones_like(trace.outputs))
    for count in (1, 3):
        found = perceptrons.input_slopes(layers, slopes, count)
        torch.testing.assert_close(found, expected[..., -count:], rtol=1e-6, atol=1e-6)


def test_biases_that_are_multiplied_with_a_column_of_their_own() -> None:
    """Where `constant` is what enters beside x, the gradient is that of a layer with one more input."""
    x, constant, slope = (
        torch.ones(1, 3, 2),
        torch.tensor([[[1.0], [2.0], [4.0]]]),
        torch.tensor([[[1.0], [0.0], [3.0]]]),
    )
    assert perceptrons.parameter_slopes([x], [slope], constant).tolist() == [[4.0, 4.0, 13.0]]
    assert perceptrons.parameter_slopes([x], [slope]).tolist() == [[4.0, 4.0, 4.0]]


def test_layers_are_views_of_the_parameters_and_follow_them() -> None:
    stack = NetworkStack(torch.arange(22.0).view(2, 11), (2, 2, 1, 1))
    assert [list(layer.shape) for layer in stack.layers] == [
        [2, 2, 2],
        [2, 1, 2],
        [2, 2, 1],
        [2, 1, 1],
        [2, 1, 1],
        [2, 1, 1],
    ]
    assert stack.layers[0][1].tolist() == [[11.0, 12.0], [13.0, 14.0]]
    follower = stack.copy()
    stack.theta.add_(1.0)
    assert stack.layers[1][0].tolist() == [[5.0, 6.0]]
    follower.soft_update(stack, 0.25)
    assert follower.layers[1][0].tolist() == [[4.25, 5.25]]
