"""The sum of clipped gradients: float32 inside a chunk, float64 across, without padding in what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.privacy.gradients.accumulator import GradientSum
from tacit.privacy.noise.secret import SecretNoise

SHAPES = {"odd": (3, 5), "one": (1,), "even": (4, 16), "last": (7,)}
PARAMETERS = {name: nn.Parameter(torch.zeros(shape)) for name, shape in SHAPES.items()}


@dataclass(frozen=True)
class Constant:
    """Adds the same number to every coordinate."""

    value: float
    bytes: int = 0

    @property
    def squares(self) -> Tensor:
        return torch.ones(1)

    def add(self, into: Mapping[str, Tensor], coefficients: Tensor, keep: Tensor | None, *, beta: float) -> None:
        for tensor in into.values():
            start = tensor * beta if beta else torch.zeros_like(tensor)
            tensor.copy_(start + self.value * coefficients.sum())


def added(*values: float, apart: bool = False) -> GradientSum:
    total = GradientSum(PARAMETERS)
    for value in values:
        if apart:
            total.start_chunk()
        total.add([({name: name}, Constant(value)) for name in SHAPES], torch.ones(1), None)
    return total


def test_the_sum_comes_out_by_parameter_and_without_padding() -> None:
    total = added(1.0, 2.0)
    assert {name: tuple(view.shape) for name, view in total.views().items()} == SHAPES
    assert total.to_vector().tolist() == [3.0] * (15 + 1 + 64 + 7)


def test_every_parameter_begins_at_a_cache_line() -> None:
    starts = [view.storage_offset() for view in added(1.0).views().values()]
    assert starts == [0, 16, 32, 96]


def test_nothing_added_is_zero_and_what_memory_held_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", lambda *size, **options: torch.full(size, torch.nan, **options))
    assert not GradientSum(PARAMETERS).to_vector().any()
    assert added(1.0).to_vector().tolist() == [1.0] * 87
    assert added(1.0, 2.0, apart=True)._sums().sum() == 3 * 87  # padding is zero
    assert added(1.0, 2.0, apart=True).to_vector().tolist() == [3.0] * 87


def test_chunks_are_added_in_float64() -> None:
    small = 2.0**-26
    assert added(1.0, *[small] * 8).to_vector()[0] == 1.0
    assert added(1.0, *[small] * 8, apart=True).to_vector()[0] == 1.0 + 2.0**-23
    far = added(2.0**30, 1.0, -(2.0**30), apart=True)
    assert far.to_vector()[0] == 1.0
    assert added(2.0**30, 1.0, -(2.0**30)).to_vector()[0] == 0.0


@pytest.mark.parametrize("apart", [False, True])
def test_the_noisy_mean_is_that_of_the_sum(apart: bool) -> None:
    mean = added(3.0, 4.0, apart=apart).noisy_mean(0.0, 2.0, SecretNoise())
    assert mean.tolist() == [3.5] * 87
    noisy = added(3.0, 4.0, apart=apart).noisy_mean(1.0, 2.0, SecretNoise()).double().numpy()
    assert np.unique(noisy).size > 60
    np.testing.assert_array_equal(np.rint(noisy * 256), noisy * 256)  # multiples of 2^-7 / 2


def test_parameters_without_padding_are_overwritten_in_place() -> None:
    parameters = {"weight": nn.Parameter(torch.zeros(4, 16)), "bias": nn.Parameter(torch.zeros(5))}
    total = GradientSum(parameters)
    total.add([({name: name}, Constant(1.0)) for name in parameters], torch.ones(1), None)
    assert total.noisy_mean(0.0, 4.0, SecretNoise()).tolist() == [0.25] * 69


def test_a_parameter_without_a_contribution_is_refused() -> None:
    total = GradientSum(PARAMETERS)
    with pytest.raises(ValueError, match="no contribution"):
        total.add([({"odd": "odd"}, Constant(1.0))], torch.ones(1), None)
