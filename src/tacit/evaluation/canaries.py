"""Attacks on people rather than rows: what a model, or a run's noisy gradients, tell of a unit's whole history.

For any method that is trained by `vault.noisy_gradient` over a `PoissonSum` of any unit: the attacker draws a unit's
rows or fragments as the mechanism does, with random numbers of its own, and uses the method's own objective. Looks at
whole histories and is not differentially private: outside `vault.nonprivate` only for simulated data. What an attack
finds bounds privacy from below and proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.evaluation.fidelity import uniform_table
from tacit.methods.synthesis.diffusion import Denoiser, draw, row_losses
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.gradients.clipped_sums import clipped_sum
from tacit.privacy.mechanisms.base import Objective
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader

# White-box scores of canaries from the noisy gradients of a run, which are public as soon as they leave the vault.


Columns = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
RIDGE = 0.03
"""Share of a direction's own length that is added to keep the least squares of nearly equal directions tame."""
PICKS = 3
"""How many canaries are picked a step: of a hundred, hardly ever more are drawn at once."""


def leap_canaries(spec: PublicSpec, count: int, *, seed: int, size: float = 30.0) -> dict[str, NDArray[np.generic]]:
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
        what, expected = "the typical size of a step is not declared", "observations in a Box, and spec.difference"
        remedy = "declare PublicSpec(difference=...), or pass canaries of your own"
        raise DataError(what, where="gradient_canaries.leaps", expected=expected, remedy=remedy)
    rows = uniform_table(spec, rows=count, seed=seed)
    steps = np.random.default_rng([seed, 1]).standard_normal((count, spec.observation.size))
    low, high = spec.observation.float32_bounds()
    next_observations = rows["observations"] + (size * np.array(spec.difference) * steps).astype(np.float32)
    return {**rows, "next_observations": np.clip(next_observations, low, high)}


class GradientScores:
    """Sees every noisy gradient of `synthesis.fit(observe=...)` and scores canaries by it.

    Args:
        plan: whose noise law the auditor draws from; it does not know the draws of the run.
        canaries: the m rows in question, in or out.
        public: rows that owe nothing to private ones and look like most of them; a few hundred.
        seed: of the auditor's own draws.
        draws: gradients a canary and step: 4 span most of what the run's own noise can have made of it, at 16 times the
            time.
    """

    def __init__(self, plan: TransitionsPlan, canaries: Columns, public: Columns, *, seed: int, draws: int = 1) -> None:
        self._plan, self.canaries, self.draws = plan, len(canaries["rewards"]), draws
        names = ("observations", "actions", "rewards", "next_observations", "terminations")
        self._rows = {
            name: torch.from_numpy(
                np.concatenate([canaries[name].repeat(draws, 0), np.asarray(public[name]).astype(canaries[name].dtype)])
            )
            for name in names
        }
        self._generator = torch.Generator().manual_seed(seed)
        self._shares: list[NDArray[np.float32]] = []
        self._pursuit_shares: list[NDArray[np.float32]] = []

    def __call__(self, step: int, model: nn.Module, gradient: Tensor) -> None:
        """One step: the noisy gradient [P] that was taken at the weights of `model`."""
        assert isinstance(model, Denoiser)
        encoder, count = model.encoder, self.canaries * self.draws
        draws = [
            self._draw(encoder, self.canaries, self.draws),
            self._draw(encoder, len(self._rows["rewards"]) - count, 1),
        ]
        sigma, noise, spread = (torch.cat(pair).to(gradient.device) for pair in zip(*draws, strict=True))
        clean = encoder.encode({name: tensor.to(gradient.device) for name, tensor in self._rows.items()}, spread)
        products, kernel = inner_products(model, clean, sigma, noise, gradient)
        lengths = kernel.diagonal().sqrt().clamp(min=torch.finfo(kernel.dtype).tiny)
        products, kernel = products / lengths, kernel / lengths / lengths[:, None]
        shares = _solve(kernel, products[:, None])[:count, 0].view(-1, self.draws).sum(1)
        self._shares.append(shares.cpu().numpy())
        rest = _project_out(slice(count, None), products, kernel)
        picked = matching_pursuit(rest[0][:count], rest[1][:count, :count], self.draws)
        self._pursuit_shares.append((picked / gradient.square().sum()).cpu().numpy())

    def _draw(self, encoder: Encoder, rows: int, draws: int) -> tuple[Tensor, Tensor, Tensor]:
        """Noise levels [rows draws, 1], noises and spreads, spread evenly over the levels within a row."""
        law = {"P_mean": self._plan.P_mean, "P_std": self._plan.P_std}
        drawn = draw(self._generator, rows, 1, encoder=encoder, noise_multiplicity=draws, **law)
        sigma, noise = drawn["sigma"].view(-1, 1), drawn["noise"].view(-1, 1, encoder.size)
        return sigma, noise, drawn["spread"][:, 0].repeat_interleave(draws, 0)

    def summed_scores(self) -> Floats:
        """[m], each canary's least-squares coefficients summed over draws and steps: the best for many small traces."""
        total: Floats = np.array(self._shares, np.float64).sum(axis=0)
        return total

    def pursuit_scores(self) -> Floats:
        """[m], the share of the squared gradient for which a canary was picked (`matching_pursuit`), over all steps.
        The best for few large traces, as where nothing clips them: each is put down to one canary alone, of whatever
        sign it is, and however much the gradients of others resemble it."""
        total: Floats = np.array(self._pursuit_shares, np.float64).sum(axis=0)
        return total


def matching_pursuit(products: Tensor, kernel: Tensor, draws: int) -> Tensor:
    """Which canaries a vector is made of, one after the other: matching pursuit in blocks."""
    # Source: S. Mallat & Z. Zhang, IEEE Transactions on Signal Processing 41 (1993) 3397, with the orthogonal steps of
    # Y. Pati et al. (1993) and a block of directions for each canary.
    # products: [m draws], inner products of the vector with every direction; kernel: [m draws, m draws], of the
    # directions with one another, each about as long as 1; returns: [m], the squared length of what a canary's
    # directions explained when it was picked; 0 for those that never were
    lengths = products.new_zeros(len(products) // draws)
    for _ in range(PICKS):
        blocks = kernel.view(len(lengths), draws, len(lengths), draws).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        block_products = products.view(-1, draws, 1)
        explained = (block_products * _solve(blocks, block_products)).sum((1, 2))
        best = int(explained.argmax())
        lengths[best] = torch.maximum(lengths[best], explained[best])
        products, kernel = _project_out(slice(best * draws, (best + 1) * draws), products, kernel)
    return lengths


def _project_out(directions: slice, products: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products of what is left when the span of some directions is taken out of the vector and of all others."""
    weights = _solve(kernel[directions, directions], kernel[directions])
    return products - products[directions] @ weights, kernel - kernel[:, directions] @ weights


def _solve(kernel: Tensor, right: Tensor) -> Tensor:
    """Least squares of directions with these inner products, held tame by `RIDGE`."""
    solution: Tensor = torch.linalg.solve(kernel + RIDGE * torch.eye(kernel.shape[-1], device=kernel.device), right)
    return solution


def inner_products(
    model: Denoiser, clean: Tensor, sigma: Tensor, noise: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Inner products of per-row gradients of the denoising loss with a vector of parameters, and with one another."""
    # clean, sigma, noise: N rows as of `row_losses`: [N, D], [N, K], [N, K, D] with K = 1; gradient: [P], in the order
    # of `model.parameters()`; returns: [N] and [N, N]
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
    vectors = {id(p): piece.view(p.shape) for p, piece in zip(model.parameters(), pieces, strict=True)}
    products, kernel = torch.zeros_like(losses), losses.new_zeros(len(losses), len(losses))
    for layer, slope in zip(layers, slopes, strict=True):
        entering = inputs[layer]
        products = products + ((entering @ vectors[id(layer.weight)].T + vectors[id(layer.bias)]) * slope).sum(1)
        kernel = kernel + (entering @ entering.T + 1) * (slope @ slope.T)
    return products.detach(), kernel.detach()


COIN_VARIANCE = 0.25
"""Variance of whether a canary is in."""
MIN_VARIANCE = 0.01
"""Squared noise, in clips, that is reckoned with where there is less."""


class UnitSampler:
    """Units of `known` (simulated or public) records, whose rows are drawn as a part says, for the method's
    objective."""

    def __init__(self, part: PoissonSum, objective: Objective, known: Trajectories, *, seed: int) -> None:
        noise = SecretNoise.for_tests(seed)
        self._part, self._objective, self._reader = part, objective, Reader(known, noise)
        self._generator = torch.Generator().manual_seed(noise.seed64() >> 1)
        self.shares = getattr(objective, "shares", None)

    @property
    def units(self) -> int:
        """How many there are."""
        return self._reader.units

    def draw_rows(self, units: NDArray[np.int64]) -> dict[str, Tensor]:
        """One draw of what the objective's loss gets, [U, L, ...] by name, its own draws and shares among it."""
        part = self._part
        columns = self._reader.rows(units, part.rows_per_unit, part.rows, part.horizon)
        rows = {name: torch.from_numpy(column) for name, column in columns.items()}
        rows |= self._objective.draw(self._generator, len(units), part.rows_per_unit)
        return rows if self.shares is None else {**rows, **self.shares(rows)}

    def clipped_gradients(self, model: nn.Module) -> Iterator[Tensor]:
        """Of each unit the clipped gradient [P] that it would add to a step, with rows and draws of the attacker's."""
        for unit in range(self.units):
            rows = self.draw_rows(np.array([unit]))
            yield clipped_sum(model, self._objective.loss, rows, self._part.clip_norm, shares=self.shares)


def leap_histories(spec: PublicSpec, count: int, *, rows: int, seed: int) -> Columns:
    """Canary people: each repeats one leap of its own (`leap_canaries`) for a whole history, then is cut off."""
    # Whatever fragments and draws are taken, the gradient of such a history points nearly the same way.
    # returns: Columns [count rows, ...] with `truncations`, and `unit_ids` [count rows] from 0
    single = leap_canaries(spec, count, seed=seed)
    single["terminations"] = np.zeros(count, np.bool_)
    columns: dict[str, NDArray[Any]] = {
        name: np.repeat(np.asarray(column), rows, axis=0) for name, column in single.items()
    }
    columns["truncations"] = np.tile(np.arange(rows) == rows - 1, count)
    columns["unit_ids"] = np.repeat(np.arange(count), rows)
    return columns
