from collections.abc import Mapping

import pytest
import torch
from gradient_cases import Convolution, Mlp, reference, relative, squared_loss, unit_gradients, vectors
from torch import Tensor, nn

from tacit.errors import MechanismError
from tacit.privacy.gradients import bookkeeping
from tacit.privacy.gradients.clipped_sums import clipped_sum


def test_unit_gradients_equal_one_backward_each() -> None:
    model, rows = Mlp(), vectors(5, 3)
    dense = bookkeeping.dense_contribution(model, squared_loss, rows)
    stacked = torch.cat([g.flatten(1) for g in dense.gradients.values()], 1)
    expected = unit_gradients(model, squared_loss, rows)
    assert relative(stacked, expected) <= 5e-6
    torch.testing.assert_close(dense.squares, expected.square().sum(1), rtol=1e-5, atol=0)


def test_weights_used_twice_are_exact_here() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 16) / 4)
            self.output = nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.output(torch.tanh(x @ self.weight) @ self.weight)

    torch.manual_seed(0)
    model, rows = Twice(), vectors(5)
    assert relative(clipped_sum(model, squared_loss, rows, 3.0), reference(model, squared_loss, rows, 3.0)) <= 5e-6


def test_batch_norm_in_eval_mode_passes() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    rows = vectors(5)
    assert relative(clipped_sum(model, squared_loss, rows, 3.0), reference(model, squared_loss, rows, 3.0)) <= 5e-6


def test_what_vmap_cannot_run_is_refused_in_one_sentence() -> None:
    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        value = squared_loss(model, rows)
        return value if float(value.detach().sum()) > 0 else 2 * value

    rows = {"x": torch.randn(3, 4, 10), "y": torch.randn(3, 3)}
    with pytest.raises(MechanismError, match=r"Conv1d, GroupNorm, Linear .* torch\.func\.vmap"):
        clipped_sum(Convolution(), loss, rows, 1.0)


def test_one_unit_needs_at_least_its_gradient_twice() -> None:
    model = Convolution()
    size = bookkeeping.functional_unit_bytes(model, squared_loss, {"x": torch.randn(1, 4, 10), "y": torch.randn(1, 3)})
    parameters = sum(p.numel() for p in model.parameters())
    assert 8 * parameters < size < 8 * parameters + 10_000
