"""Models, losses and a float64 reference that the tests of the gradients share."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from tacit.privacy.gradients.layers import LearnedTable

Loss = Callable[[nn.Module, Mapping[str, Tensor]], Tensor]


class Mlp(nn.Module):
    """Linear, LayerNorm, ReLU in place, Linear, residual: rows [..., d] -> [..., 3]."""

    def __init__(self, d: int = 16, width: int = 48) -> None:
        super().__init__()
        self.input, self.norm = nn.Linear(d, width), nn.LayerNorm(width)
        self.hidden, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.input(x)
        return self.output(h + self.hidden(self.relu(self.norm(h))))


class Tokens(nn.Module):
    """Embedding with padding, positions, attention over the fragment: tokens [N, T] -> logits [N, T, vocabulary]."""

    def __init__(self, vocabulary: int = 11, width: int = 12, tokens: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = LearnedTable(tokens, width, std=1.0)
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.positions(self.embedding(tokens))
        q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
        return self.head(h + nn.functional.scaled_dot_product_attention(q, k, v))


class Convolution(nn.Module):
    """Layers that book-keeping does not know: rows [U, 4, 10] -> [U, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(4, 6, 3), nn.GroupNorm(2, 6)
        self.output = nn.Linear(48, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(torch.tanh(self.norm(self.convolution(x))).flatten(1))


def squared_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """x [U, ...], y [U, ...] -> mean squared error a unit."""
    return (model(rows["x"]) - rows["y"]).square().flatten(1).mean(1)


def masked_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Mean over the rows of `mask` [U, R]; zero without any."""
    each = (model(rows["x"]) - rows["y"]).square().mean(-1)
    mask = rows["mask"].to(each.dtype)
    return (each * mask).sum(1) / mask.sum(1).clamp(min=1.0)


def mask_shares(rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each row's share of the rows of its unit's `mask` [U, L, H]."""
    counted = rows["mask"].float()
    return {"share": counted / counted.sum((1, 2), keepdim=True).clamp(min=1.0)}


def shared_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Mean over the rows of `mask` [U, L, H], as a sum over their shares."""
    return ((model(rows["x"]) - rows["y"]).square().mean(-1) * rows["share"]).sum((1, 2))


def token_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """tokens [U, K, T] -> mean cross entropy of each token given its fragment, the model seeing [U * K, T]."""
    tokens = rows["tokens"].flatten(0, 1)
    losses = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten(), reduction="none")
    return losses.view(len(rows["tokens"]), -1).mean(1)


def vectors(units: int, *shape: int, seed: int = 0) -> dict[str, Tensor]:
    """Rows for `Mlp`: x [U, *shape, 16], y [U, *shape, 3]; every second unit's gradient is large."""
    draw = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(units, *shape, d, generator=draw) for d in (16, 3))
    y[::2] *= 20.0
    return {"x": x, "y": y}


def unit_gradients(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> Tensor:
    """[U, P] float64: one backward a unit."""
    model = copy.deepcopy(model).double()
    rows = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in rows.items()}
    trainable = [p for p in model.parameters() if p.requires_grad]
    gradients = []
    for unit in range(len(next(iter(rows.values())))):
        value = loss(model, {name: tensor[unit : unit + 1] for name, tensor in rows.items()})[0]
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(value, trainable)]))
    return torch.stack(gradients)


def reference(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor], clip: float) -> Tensor:
    """The clipped sum [P] in float64, unit by unit, straight from the definition."""
    bound = clip * (1 - 1e-4)
    gradients = unit_gradients(model, loss, rows)
    return sum((g * min(1.0, bound / norm) if (norm := float(g.norm())) else g for g in gradients), torch.zeros(1))


def relative(result: Tensor, expected: Tensor) -> float:
    return float((result.double() - expected).norm() / expected.norm())


def middle_clip(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> float:
    """A clip that about half of the units exceed."""
    return math.sqrt(float(unit_gradients(model, loss, rows).square().sum(1).median()))
