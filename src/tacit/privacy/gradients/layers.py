"""Per-unit gradients of single layers, without building them where that can be avoided.

For a layer with input rows `a` and output gradients `g`, a unit's weight gradient is the sum over its R rows of
g_r a_r^T. Book-keeping (Bu et al., "Differentially private optimization on large model at small cost",
arXiv:2210.00038) keeps `a` and `g` of the one backward pass, reads the norm from them, and forms the clipped sum of all
units by one weighted matrix product. Per Linear layer:

- R = 1: |g a^T|^2 = |g|^2 |a|^2, exact and without a product;
- R^2 (d_in + d_out) < 8 d_in d_out: Gram matrices, sum_rs (a_r . a_s)(g_r . g_s) (Goodfellow, arXiv:1510.01799; Li et
  al., arXiv:2110.05679), on top of the weighted product;
- otherwise the per-unit gradients themselves, by one batched product that takes the weighted one's place; they are then
  also what is summed. Their norm and their sum read them twice, which takes as long as some 8 products an entry.

Guarantee: `squares` is an upper bound, up to float32 rounding covered by `clipping.SLACK`, of the squared norm of
exactly what `add` would add for that unit with coefficient 1. It is NaN or infinite if that holds a NaN or an infinity.
Two cares make this hold on hostile rows. Squares that underflow are counted as `TINY` each. And where a unit's rows
nearly cancel, so that |sum_r g_r a_r^T| is far below S = sum_r |g_r| |a_r|, the Gram form is redone in float64, and the
norm is taken as at least 1e-3 S, because the rounding of the weighted product scales with S.

| input                                         | contribution                                       |
|-----------------------------------------------|----------------------------------------------------|
| float16 or bfloat16 inputs and gradients      | norms and weighted product in float32              |
| rows with a norm above 1.8e19 (R = 1)         | squares infinite: the unit counts as zero          |
| Embedding rows at `padding_idx`               | none, as in PyTorch                                |
| a frozen weight or bias of a trainable layer  | left out of norm and sum                           |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from tacit.privacy.gradients.clipping import TINY

_CANCELLATION = 1e-3
_READING = 8
"""Products in the time that norm and sum take to read an entry of a per-unit gradient (measured on a CPU)."""


class LearnedTable(nn.Module):
    """Adds a learned table to its input, broadcast over the leading axes: `x [..., *shape] -> x + weight [*shape]`.

    Learned positions, per-head biases and the like, in a form whose per-unit gradient is known.

    Args:
        shape: the table's shape, equal to the input's trailing axes.
        std: standard deviation of the initial entries.
    """

    def __init__(self, *shape: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape) * std)

    def forward(self, x: Tensor) -> Tensor:
        """`x + weight`, same shape as `x`."""
        if x.shape[x.dim() - self.weight.dim() :] != self.weight.shape:
            raise ValueError(f"Table: input {tuple(x.shape)} does not end in {tuple(self.weight.shape)}")
        return x + self.weight


class LayerContribution(Protocol):
    """What one layer adds to each unit's gradient."""

    @property
    def squares(self) -> Tensor:
        """[U] float64, squared norm of each unit's contribution."""

    @property
    def bytes(self) -> int:
        """Memory held for all units."""

    def between(self, start: int, stop: int) -> LayerContribution:
        """The contribution to the gradients of these units alone."""

    def add(self, into: Mapping[str, Tensor], coefficients: Tensor, keep: Tensor | None, *, beta: float) -> None:
        """Add the units `keep` (None: all), weighted by `coefficients` [U or len(keep)] float32, to `into`."""
        # `into` maps "weight" and "bias" to float32 tensors of the parameter's shape; a name left out is skipped. They
        # are multiplied by `beta` first, which is 1, or 0 for tensors that hold nothing yet, not even a number.


@dataclass(frozen=True)
class OuterProduct:
    """A Linear layer's contribution in factors: `a` [U, R, d_in], `g` [U, R, d_out]."""

    squares: Tensor
    a: Tensor
    g: Tensor

    @property
    def bytes(self) -> int:
        return 4 * self.g.numel()

    def between(self, start: int, stop: int) -> OuterProduct:
        return OuterProduct(self.squares[start:stop], self.a[start:stop], self.g[start:stop])

    def add(self, into: Mapping[str, Tensor], coefficients: Tensor, keep: Tensor | None, *, beta: float) -> None:
        a, g = (self.a, self.g) if keep is None else (self.a[keep], self.g[keep])
        weighted = (g * coefficients[:, None, None]).flatten(0, 1)
        into["weight"].addmm_(weighted.T, a.flatten(0, 1), beta=beta)
        if "bias" in into:
            _zero_unless(into["bias"], beta).add_(weighted.sum(0))


@dataclass(frozen=True)
class DenseGradients:
    """Per-unit gradients themselves: name -> [U, *parameter shape], float32."""

    gradients: Mapping[str, Tensor]

    @property
    def squares(self) -> Tensor:
        blocks = (g.reshape(len(g), g.shape[1] if g.dim() > 2 else 1, -1) for g in self.gradients.values())
        return torch.stack([row_squares(block).sum(1) for block in blocks]).sum(0)

    @property
    def bytes(self) -> int:
        return sum(4 * g.numel() for g in self.gradients.values())

    def between(self, start: int, stop: int) -> DenseGradients:
        return DenseGradients({name: gradient[start:stop] for name, gradient in self.gradients.items()})

    def add(self, into: Mapping[str, Tensor], coefficients: Tensor, keep: Tensor | None, *, beta: float) -> None:
        for name, gradient in self.gradients.items():
            rows = gradient if keep is None else gradient[keep]
            into[name].view(-1).addmv_(rows.flatten(1).T, coefficients, beta=beta)


@dataclass(frozen=True)
class Segments:
    """An Embedding's contribution: `sums` [S, d], each the gradient of one table row `index` [S] by one `unit` [S]."""

    squares: Tensor
    unit: Tensor
    index: Tensor
    sums: Tensor

    @property
    def bytes(self) -> int:
        return 4 * self.sums.numel()

    def between(self, start: int, stop: int) -> Segments:
        own = (self.unit >= start) & (self.unit < stop)
        return Segments(self.squares[start:stop], self.unit[own] - start, self.index[own], self.sums[own])

    def add(self, into: Mapping[str, Tensor], coefficients: Tensor, keep: Tensor | None, *, beta: float) -> None:
        if keep is None:
            _zero_unless(into["weight"], beta).index_add_(0, self.index, self.sums * coefficients[self.unit, None])
            return
        every = coefficients.new_zeros(len(self.squares)).index_copy(0, keep, coefficients)
        chosen = every[self.unit] > 0
        weighted = self.sums[chosen] * every[self.unit[chosen], None]
        _zero_unless(into["weight"], beta).index_add_(0, self.index[chosen], weighted)


def _zero_unless(tensor: Tensor, beta: float) -> Tensor:
    return tensor if beta else tensor.zero_()


def is_supported(module: nn.Module) -> bool:
    """Whether `contribution` knows this layer: the exact class, with its own weight and bias and nothing else."""
    names = set(dict(module.named_parameters(recurse=False)))
    return type(module) in (nn.Linear, nn.LayerNorm, nn.Embedding, LearnedTable) and names <= {"weight", "bias"}


def contribution(module: nn.Module, a: Tensor, g: Tensor, units: int, trainable: frozenset[str]) -> LayerContribution:
    """One layer's contribution, from one forward and backward of `units` units."""
    # a: the layer's input, leading axis `units` * anything, unit-major; g: the gradient at its output, of the sum of
    # the units' losses; returns: float32 factors or per-unit gradients, with their squared norms
    g = g.float()
    if isinstance(module, nn.Linear):
        rows = a.float().reshape(units, -1, module.in_features)
        return _linear(rows, g.reshape(units, -1, module.out_features), trainable)
    if isinstance(module, nn.Embedding):
        return _embedding(module, a.reshape(units, -1), g.reshape(units, -1, module.embedding_dim))
    if isinstance(module, nn.LayerNorm):
        shape = module.normalized_shape
        terms = {"bias": g}
        if "weight" in trainable:
            terms["weight"] = _normalise(a.float().reshape(g.shape), len(shape), module.eps).mul_(g)
        sums = {name: _sum_per_unit(term, units, shape) for name, term in terms.items() if name in trainable}
        return DenseGradients(sums)
    assert isinstance(module, LearnedTable)
    return DenseGradients({"weight": _sum_per_unit(g, units, module.weight.shape)})


def row_squares(x: Tensor) -> Tensor:
    """Squared norms over the last axis, [..., d] float32 -> [...] float64, never below the true ones by underflow."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norms.double().square_().add_(x.shape[-1] * TINY)


def _normalise(x: Tensor, axes: int, eps: float) -> Tensor:
    """`layer_norm` of float32 over the last axes, without weight and bias; PyTorch's own takes twice as long."""
    last = tuple(range(-axes, 0))
    centred = x - x.mean(last, keepdim=True)
    return centred.mul_(centred.square().mean(last, keepdim=True).add_(eps).rsqrt_())


def _sum_per_unit(term: Tensor, units: int, shape: tuple[int, ...]) -> Tensor:
    grouped = term.reshape(units, -1, *shape)
    return grouped[:, 0] if grouped.shape[1] == 1 else grouped.sum(1)


def _linear(a: Tensor, g: Tensor, trainable: frozenset[str]) -> LayerContribution:
    """`a` [U, R, d_in], `g` [U, R, d_out]."""
    bias = float("bias" in trainable)
    if "weight" not in trainable:
        return DenseGradients({"bias": g.sum(1)})
    rows, d_in, d_out = a.shape[1], a.shape[2], g.shape[2]
    if rows == 1:
        squares = (row_squares(a) + bias) * row_squares(g)
        return OuterProduct(squares[:, 0], a, g)
    if rows**2 * (d_in + d_out) < _READING * d_in * d_out:
        return OuterProduct(_gram_squares(a, g, bias), a, g)
    gradients = {"weight": torch.bmm(g.transpose(1, 2), a)}
    return DenseGradients(gradients | {"bias": g.sum(1)} if bias else gradients)


def _gram_squares(a: Tensor, g: Tensor, bias: float) -> Tensor:
    """|sum_r g_r (a_r, bias)^T|^2 a unit, [U] float64; units whose rows nearly cancel are redone in float64."""
    rows = (row_squares(a) + bias).sqrt_() * row_squares(g).sqrt_()
    spread = rows.sum(1).square_()
    total = _gram(a, g, bias)
    doubtful = ~(total > 1e-2 * spread)
    if doubtful.any():
        total[doubtful] = _gram(a[doubtful].double(), g[doubtful].double(), bias)
    return torch.maximum(total, _CANCELLATION**2 * spread)


def _gram(a: Tensor, g: Tensor, bias: float) -> Tensor:
    products = torch.bmm(a, a.transpose(1, 2)).add_(bias).mul_(torch.bmm(g, g.transpose(1, 2)))
    return products.sum((1, 2), dtype=torch.float64)


def _embedding(module: nn.Embedding, a: Tensor, g: Tensor) -> Segments:
    """`a` [U, R] table rows, `g` [U, R, d]."""
    units = a.shape[0]
    unit = torch.arange(units, device=a.device)[:, None].expand_as(a)
    keys = (unit * module.num_embeddings + a).flatten()
    flat = g.flatten(0, 1)
    if module.padding_idx is not None:
        real = (a != module.padding_idx).flatten()
        keys, flat = keys[real], flat[real]
    segments, where = torch.unique(keys, return_inverse=True)
    sums = flat.new_zeros(len(segments), flat.shape[1]).index_add_(0, where, flat)
    owner = segments // module.num_embeddings
    squares = torch.zeros(units, dtype=torch.float64, device=a.device).index_add_(0, owner, row_squares(sums))
    return Segments(squares, owner, segments % module.num_embeddings, sums)
