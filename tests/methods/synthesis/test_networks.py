"""The denoiser's network and the moving average of its weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tacit.methods.synthesis.diffusion import ResidualMLP, build_network
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.training import MovingAverage, load_parameters


def parameters_of(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


def test_sizes_are_those_of_the_paper() -> None:
    """Width 1024 and depth 6 on 12 columns: about 6.5 million parameters; the default has 93 thousand."""
    assert parameters_of(ResidualMLP(12, width=1_024, depth=6, harmonics=0)) == 6_462_476
    assert parameters_of(build_network(TransitionsPlan(), 11)) == 93_451


def test_every_parameter_belongs_to_a_linear() -> None:
    network = ResidualMLP(5, width=16, depth=2, harmonics=1)
    owned = [value for layer in network.modules() if isinstance(layer, nn.Linear) for value in layer.parameters()]
    assert {id(value) for value in owned} == {id(value) for value in network.parameters()}
    assert [name for name, _ in network.named_buffers()] == ["frequencies", "octaves"]


def test_frequencies_are_public_constants() -> None:
    one = ResidualMLP(3, width=16, depth=1, harmonics=2)
    two = ResidualMLP(4, width=8, depth=2, harmonics=0)
    assert torch.equal(one.frequencies, two.frequencies)


def test_forward_is_the_paper_formula() -> None:
    """An independent evaluation with plain matrix products."""
    network = ResidualMLP(3, width=6, depth=2, harmonics=2, embedding=4).double()
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = torch.linspace(-1, 1, 5, dtype=torch.float64)
    p = {name: value.detach() for name, value in network.named_parameters()}

    def linear(name: str, value: torch.Tensor) -> torch.Tensor:
        return value @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    phase = torch.outer(c, network.frequencies)
    t = linear("noise_in", torch.hstack([c[:, None], torch.sin(phase), torch.cos(phase)]))
    waves = [
        x,
        *(wave(math.pi * h * x[:, i : i + 1]) for wave in (torch.sin, torch.cos) for i in range(3) for h in (1, 2)),
    ]
    h = linear("widen", linear("row_in", torch.hstack(waves)) + linear("noise_out", t / (1 + torch.exp(-t))))
    for i in range(2):
        h = h + linear(f"blocks.{i}", h.clamp(min=0))
    assert torch.allclose(network(x, c), linear("row_out", h.clamp(min=0)), atol=1e-12)


def test_rows_do_not_meet() -> None:
    network = ResidualMLP(4, width=128, depth=4, harmonics=2)
    rows, noise = torch.randn(8, 4), torch.randn(8)
    changed = rows.clone()
    changed[3] = 1e6
    one, two = network(rows, noise), network(changed, noise)
    keep = torch.arange(8) != 3
    assert torch.equal(one[keep], two[keep])


def constant(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


def test_average_literals() -> None:
    """Decay min(0.5, t/(t+10)): 1/11 of the start is left after the first update, then 2/12 and 3/13 of the last."""
    average = MovingAverage(constant(11.0), decay=0.5)
    expected = 11.0
    for t, value in ((1, 0.0), (2, 6.0), (3, 1.0)):
        average.update(constant(value))
        decay = t / (t + 10)
        expected = decay * expected + (1 - decay) * value
        assert average.state()["weight"].item() == pytest.approx(expected)
    assert expected == pytest.approx(((11 / 11) * 2 / 12 + 6 * 10 / 12) * 3 / 13 + 10 / 13)


def test_average_decay_is_reached_and_tracks() -> None:
    average = MovingAverage(constant(0.0), decay=0.9)
    distances = []
    for _ in range(300):
        average.update(constant(1.0))
        distances.append(1 - average.state()["weight"].item())
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-6
    average.update(constant(2.0))
    assert average.state()["weight"].item() == pytest.approx(1.1, abs=1e-5)


def test_average_every_tenth_call() -> None:
    average = MovingAverage(constant(0.0), decay=0.0, every=10)
    for call in range(1, 26):
        average.update(constant(float(call)))
    assert average.state()["weight"].item() == 20.0


def test_average_is_a_copy() -> None:
    layer = constant(1.0)
    average = MovingAverage(layer, decay=0.5)
    nn.init.constant_(layer.weight, 9.0)
    average.state()["weight"].fill_(5.0)
    assert average.state()["weight"].item() == 1.0


def test_parameters_are_loaded_by_name_or_refused() -> None:
    layer = constant(0.0)
    load_parameters(layer, {"weight": torch.tensor([[3.0]])})
    assert layer.weight.item() == 3.0
    with pytest.raises(KeyError, match="_module"):
        load_parameters(layer, {"_module.weight": torch.tensor([[4.0]])})
