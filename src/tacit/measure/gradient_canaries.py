"""White-box scores of canaries from the noisy gradients of a run, which are public as soon as they leave the door.

A canary that is in adds its clipped gradient to the steps that draw it. The auditor knows the weights of every step, so
it computes each canary's gradient there and asks how much of it the noisy gradient holds: the least-squares coefficient
of its direction next to those of all other canaries and of public rows, which stand for what everybody else adds.
Nothing that is formed has a parameter's size but the gradient itself: for layers that are linear, all inner products
of per-row gradients come from activations and output gradients (arXiv:2210.00038). For `measure.one_run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import Box, PublicSpec
from tacit.errors import DataError
from tacit.measure.controls import uniform_table
from tacit.methods.synthesis.diffusion import Denoiser, draw, row_losses
from tacit.methods.synthesis.plan import Plan

Columns = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
RIDGE = 0.03
"""Share of a direction's own length that is added to keep the least squares of nearly equal directions tame."""


def leaps(spec: PublicSpec, count: int, *, seed: int, size: float = 30.0) -> dict[str, NDArray[np.generic]]:
    """Canaries inside the public bounds that no world produces: single steps as long as many.

    Their gradients are far above any sensible clip, depend little on the noise draw, and nobody else's look alike.

    Args:
        spec: public bounds, and typical differences of a step.
        count: how many rows, uniform but for the next observation.
        seed: of the rows.
        size: standard deviation of a leap in typical differences; ends are clipped to the bounds.

    Raises:
        DataError: the spec declares no typical difference.
    """
    if not isinstance(spec.observation, Box) or spec.difference is None:
        raise DataError(
            "the typical size of a step is not declared",
            where="gradient_canaries.leaps",
            expected="observations in a Box, and spec.difference",
            remedy="declare PublicSpec(difference=...), or pass canaries of your own",
        )
    rows = uniform_table(spec, rows=count, seed=seed)
    steps = np.random.default_rng([seed, 1]).standard_normal((count, spec.observation.size))
    low, high = spec.observation.single()
    following = rows["observations"] + (size * np.array(spec.difference) * steps).astype(np.float32)
    return {**rows, "next_observations": np.clip(following, low, high)}


class GradientScores:
    """Sees every noisy gradient of `synthesis.fit(observe=...)` and scores canaries by it.

    Args:
        plan: whose noise law the auditor draws from; it does not know the draws of the run.
        canaries: the m rows in question, in or out.
        public: rows that owe nothing to private ones and look like most of them; a few hundred.
        seed: of the auditor's own draws.
    """

    def __init__(self, plan: Plan, canaries: Columns, public: Columns, *, seed: int) -> None:
        self._plan, self.canaries = plan, len(canaries["rewards"])
        names = ("observations", "actions", "rewards", "next_observations", "terminations")
        self._rows = {
            name: torch.from_numpy(
                np.concatenate([canaries[name], np.asarray(public[name]).astype(canaries[name].dtype)])
            )
            for name in names
        }
        self._generator = torch.Generator().manual_seed(seed)
        self._found: list[NDArray[np.float32]] = []

    def __call__(self, step: int, model: nn.Module, gradient: Tensor) -> None:
        """One step: the noisy gradient [P] that was taken at the weights of `model`."""
        assert isinstance(model, Denoiser)
        count, encoder = len(self._rows["rewards"]), model.encoder
        draws = draw(self._generator, count, 1, encoder=encoder, P_mean=self._plan.P_mean, P_std=self._plan.P_std)
        rows = {name: tensor.to(gradient.device) for name, tensor in {**self._rows, **draws}.items()}
        clean = encoder.encode(rows, rows["spread"][:, 0])
        products, kernel = inner_products(model, clean, rows["sigma"][:, 0], rows["noise"][:, 0], gradient)
        lengths = kernel.diagonal().sqrt().clamp(min=torch.finfo(kernel.dtype).tiny)
        kernel = kernel / lengths / lengths[:, None] + RIDGE * torch.eye(count, device=kernel.device)
        share = torch.linalg.solve(kernel, products / lengths)[: self.canaries]
        self._found.append(share.cpu().numpy())

    def sums(self) -> Floats:
        """[m], each canary's coefficient summed over the steps: the best for many small traces."""
        total: Floats = np.array(self._found, np.float64).sum(axis=0)
        return total

    def peaks(self) -> Floats:
        """[m], the sum of each canary's three largest coefficients, of either sign, over the step's typical one.

        The best for few large traces, as where nothing clips them: what a canary pulls at depends on the noise level
        that was drawn, so that its sign says little.
        """
        seen = np.array(self._found, np.float64)
        seen = np.abs(seen - np.median(seen, axis=0))
        seen /= np.maximum(np.median(seen, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        largest: Floats = np.sort(seen, axis=0)[-3:].sum(axis=0)
        return largest


def inner_products(
    model: Denoiser, clean: Tensor, sigma: Tensor, noise: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Inner products of per-row gradients of the denoising loss with a vector of parameters, and with one another.

    Args:
        model: whose parameters all belong to `nn.Linear` layers, each called once.
        clean, sigma, noise: N rows as of `row_losses`: [N, D], [N, K], [N, K, D] with K = 1.
        gradient: [P], in the order of `model.parameters()`.

    Returns:
        [N] and [N, N].
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        inputs[module], outputs[module] = arguments[0].detach(), output

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            losses = row_losses(model, clean, sigma, noise)
            slopes = torch.autograd.grad(losses.sum(), [outputs[layer] for layer in layers])
    finally:
        for hook in hooks:
            hook.remove()
    pieces = torch.split(gradient, [p.numel() for p in model.parameters()])
    own = {id(p): piece.view(p.shape) for p, piece in zip(model.parameters(), pieces, strict=True)}
    products, kernel = torch.zeros_like(losses), losses.new_zeros(len(losses), len(losses))
    for layer, slope in zip(layers, slopes, strict=True):
        given = inputs[layer]
        products = products + ((given @ own[id(layer.weight)].T + own[id(layer.bias)]) * slope).sum(1)
        kernel = kernel + (given @ given.T + 1) * (slope @ slope.T)
    return products.detach(), kernel.detach()
