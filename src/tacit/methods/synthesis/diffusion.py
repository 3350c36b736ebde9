"""EDM (Karras et al. 2022, arXiv:2206.00364): the network of one row, preconditioning, losses and samplers.

All in encoded units, where data have standard deviation 1 (`SIGMA_DATA`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from tacit.errors import PlanError
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import EMBEDDING, FREQUENCIES, Sampler, TransitionsPlan


class ResidualMLP(nn.Module):
    """Residual MLP made of nn.Linear only (PrivORL appendix F-A; SynthER, arXiv:2303.06614).

        t = Linear(SiLU(Linear([c, sin 2 pi f c, cos 2 pi f c])))
        h = Linear([x, sin pi x, cos pi x, sin 2 pi x, ...]) + t
        h <- h + Linear(relu(h)), `depth` times;  out = Linear(relu(h))

    The harmonics of x are tacit's addition: in a few hundred noisy steps a plain MLP learns smooth functions only, and
    a density with sharp edges (walls) is not one (Fourier features, arXiv:2006.10739).

    No layer mixes rows and every parameter belongs to a Linear, so per-row gradient norms come from activations and
    output gradients alone. The Fourier frequencies are fixed public constants, held in a buffer.

    Args:
        size: width D of an encoded row.
        width, depth: of the residual stack. 128 and 4: 93 thousand parameters; the paper's 1024 and 6: 6.5 million.
        harmonics: octaves of Fourier features of each input column; 0 feeds the row alone (the paper).
        embedding: width of the noise embedding; where it differs from `width` one more Linear joins them (the paper).
    """

    frequencies: Tensor
    octaves: Tensor

    def __init__(self, size: int, *, width: int, depth: int, harmonics: int, embedding: int = EMBEDDING) -> None:
        super().__init__()
        draws = torch.randn(FREQUENCIES, generator=torch.Generator().manual_seed(0))
        self.register_buffer("frequencies", 2 * math.pi * draws)
        self.noise_in = nn.Linear(1 + 2 * FREQUENCIES, embedding)
        self.noise_out = nn.Linear(embedding, embedding)
        self.register_buffer("octaves", math.pi * 2.0 ** torch.arange(harmonics))
        self.row_in = nn.Linear(size * (1 + 2 * harmonics), embedding)
        self.widen = nn.Identity() if embedding == width else nn.Linear(embedding, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.row_out = nn.Linear(width, size)

    def forward(self, rows: Tensor, noise: Tensor) -> Tensor:
        """rows [B, D] and their noise condition c_noise, [B] or [1], to [B, D]."""
        angles = noise[:, None] * self.frequencies
        features = torch.cat([noise[:, None], angles.sin(), angles.cos()], dim=-1)
        phases = (rows[:, :, None] * self.octaves).flatten(1)
        waves = torch.cat([rows, phases.sin(), phases.cos()], dim=-1)
        hidden = self.row_in(waves) + self.noise_out(torch.nn.functional.silu(self.noise_in(features)))
        hidden = self.widen(hidden)
        for block in self.blocks:
            change = block(torch.relu(hidden))
            hidden = hidden + change if torch.is_grad_enabled() else hidden.add_(change)
        output: Tensor = self.row_out(torch.relu(hidden))
        return output


def build_network(plan: TransitionsPlan, size: int) -> ResidualMLP:
    """The plan's network for rows of `size` columns, with random weights."""
    return ResidualMLP(size, width=plan.width, depth=plan.depth, harmonics=plan.harmonics)


SIGMA_DATA = 1.0

Denoise = Callable[[Tensor, Tensor], Tensor]
"""(x [B, D], sigma [1], the same for all) -> the expected clean row [B, D]."""
PIECE = 2_048
"""Rows that are sampled together on a CPU: their layers stay in its cache."""


def preconditioning(sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """c_skip, c_out, c_in and c_noise of EDM's table 1, elementwise in sigma > 0."""
    total = sigma.square() + SIGMA_DATA**2
    return SIGMA_DATA**2 / total, sigma * SIGMA_DATA * total.rsqrt(), total.rsqrt(), sigma.log() / 4


class Denoiser(nn.Module):
    """D(x; sigma) = c_skip x + c_out F(c_in x, c_noise) (EDM equation 7), and the encoder its rows come from."""

    def __init__(self, encoder: Encoder, network: ResidualMLP) -> None:
        super().__init__()
        self.encoder = encoder
        self.network = network

    def forward(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """noisy [B, D], sigma [B], or [1] where all rows have the same -> [B, D]."""
        c_skip, c_out, c_in, c_noise = preconditioning(sigma)
        prediction: Tensor = self.network(c_in[:, None] * noisy, c_noise)
        return c_skip[:, None] * noisy + c_out[:, None] * prediction


def draw(
    generator: torch.Generator,
    units: int,
    rows_per_unit: int,
    *,
    encoder: Encoder,
    noise_multiplicity: int = 1,
    P_mean: float = -1.2,
    P_std: float = 1.2,
) -> dict[str, Tensor]:
    """All random numbers that `denoising_loss` needs for a batch; none of them depends on a record.

    Draws of different units are independent. (Spreading the noise levels evenly over a *batch* would tie each unit's
    draw to the number of units present, and void the bound on one unit's contribution; over the K draws of one row
    it is free, and done.)

    Returns:
        On the generator's device: `sigma` [U, L, K], ln sigma ~ N(P_mean, P_std^2); `noise` [U, L, K, D] and `spread`
        [U, L, encoder.bounded_size] standard normal.
    """
    shape = (units, rows_per_unit, noise_multiplicity)
    strata = torch.arange(noise_multiplicity, dtype=torch.float64, device=generator.device)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    quantile = (strata + uniform) / noise_multiplicity
    normal = torch.special.ndtri(quantile.clamp(2.0**-54, 1 - 2.0**-53)).to(torch.float32)
    return {
        "sigma": (P_mean + P_std * normal).exp(),
        "noise": normals((*shape, encoder.size), generator),
        "spread": normals((units, rows_per_unit, encoder.bounded_size), generator),
    }


def normals(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard normals on the generator's own device, so that a seed means the same wherever the model is."""
    return torch.randn(shape, generator=generator, device=generator.device)


def row_losses(model: Denoiser, clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """The weighted denoising loss of encoded rows, averaged over their K noise draws and D columns.

    EDM's weight lambda(sigma) = 1 / c_out^2 makes it the squared error of the raw network:
    (F(c_in x, c_noise) - (y - c_skip x) / c_out)^2 with x = y + sigma eps.

    Args:
        model: of which only `network` has parameters.
        clean: [..., D]; sigma: [..., K]; noise: [..., K, D].

    Returns:
        [...].
    """
    clean = clean[..., None, :]
    c_skip, c_out, c_in, c_noise = (c[..., None] for c in preconditioning(sigma))
    noisy = clean + sigma[..., None] * noise
    target = (clean - c_skip * noisy) / c_out
    prediction = model.network((c_in * noisy).flatten(0, -2), c_noise.flatten()).view_as(target)
    losses: Tensor = (prediction - target).square().mean(dim=(-2, -1))
    return losses


def generated_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """`row_losses` of encoded rows, one a "unit": `clean` [U, D], `sigma` [U, K], `noise` [U, K, D] -> [U]."""
    assert isinstance(model, Denoiser)
    return row_losses(model, rows["clean"], rows["sigma"], rows["noise"])


def denoising_loss(model: Denoiser, rows: Mapping[str, Tensor]) -> Tensor:
    """The denoising loss of each unit: a pure function of the model, that unit's rows and that unit's noise."""
    # rows: the raw columns [U, L, ...] (see `Encoder.encode`), `mask` [U, L] (False: padding), and the tensors of
    # `draw`; returns: [U]: mean over the unmasked rows of a unit (0 for a unit without any)
    losses = row_losses(model, model.encoder.encode(rows, rows["spread"]), rows["sigma"], rows["noise"])
    mask = rows["mask"].to(losses.dtype)
    return (losses * mask).sum(1) / mask.sum(1).clamp(min=1)


@dataclass(frozen=True)
class Denoising:
    """The objective inside the vault: EDM's denoising loss of each unit's own rows and its own noise draws."""

    encoder: Encoder
    noise_multiplicity: int
    P_mean: float
    P_std: float

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """The step's random numbers, independent between units (see `draw`)."""
        return draw(
            generator,
            units,
            rows_per_unit,
            encoder=self.encoder,
            noise_multiplicity=self.noise_multiplicity,
            P_mean=self.P_mean,
            P_std=self.P_std,
        )

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U] (see `denoising_loss`)."""
        assert isinstance(model, Denoiser)
        return denoising_loss(model, rows)


def noise_levels(sampler: Sampler) -> Tensor:
    """sigma_0 > ... > sigma_{N-1} and sigma_N = 0 (EDM equation 5), float32 [steps + 1]."""
    first, last = sampler.sigma_max ** (1 / sampler.rho), sampler.sigma_min ** (1 / sampler.rho)
    ramp = torch.linspace(0, 1, sampler.steps, dtype=torch.float64)
    levels = (first + ramp * (last - first)) ** sampler.rho
    return torch.cat([levels, torch.zeros(1, dtype=torch.float64)]).to(torch.float32)


def heun(denoise: Denoise, x: Tensor, sampler: Sampler, generator: torch.Generator) -> Tensor:
    """EDM's algorithm 2: second-order steps from x ~ p(sigma_0); stochastic when `sampler.churn` > 0."""
    levels = noise_levels(sampler).tolist()
    most = min(sampler.churn / sampler.steps, math.sqrt(2) - 1)
    for level, following in pairwise(levels):
        gamma = most if sampler.churn_min <= level <= sampler.churn_max else 0.0
        raised = level * (1 + gamma)
        if gamma > 0:
            fresh = normals(x.shape, generator).to(x.device)
            x = x + math.sqrt(raised**2 - level**2) * sampler.churn_noise * fresh
        slope = (x - denoise(x, x.new_full((1,), raised))) / raised
        ahead = x + (following - raised) * slope
        if following > 0:
            slope_ahead = (ahead - denoise(ahead, x.new_full((1,), following))) / following
            ahead = x + (following - raised) * (slope + slope_ahead) / 2
        x = ahead
    return x


def dpm_solver(denoise: Denoise, x: Tensor, sampler: Sampler, generator: torch.Generator) -> Tensor:
    """DPM-Solver++(2M) (arXiv:2211.01095, algorithm 2 and its stochastic form) in EDM's variables."""
    # One call of the network per step; `sampler.eta` = 0 follows the probability flow, 1 the reverse diffusion.
    levels = noise_levels(sampler).tolist()
    previous: Tensor | None = None
    width_before = 0.0
    for level, following in pairwise(levels):
        clean = denoise(x, x.new_full((1,), level))
        if following == 0:
            return clean
        width = math.log(level / following)
        estimate = clean
        if previous is not None:
            half_ratio = width / (2 * width_before)
            estimate = (1 + half_ratio) * clean - half_ratio * previous
        decay = math.exp(-sampler.eta * width)
        x = (following / level) * decay * x - math.expm1(-(1 + sampler.eta) * width) * estimate
        if sampler.eta > 0:
            fresh = normals(x.shape, generator).to(x.device)
            x = x + following * math.sqrt(1 - decay**2) * fresh
        previous, width_before = clean, width
    raise AssertionError("the last noise level is zero")


@torch.no_grad()
def chains(
    denoise: Denoise, shape: tuple[int, int], sampler: Sampler, generator: torch.Generator, device: torch.device
) -> Tensor:
    """Samples [B, D] of a denoiser, on the device; the random numbers come from the generator's own."""
    # Chains start from N(0, sigma_max^2 + 1), the law of standardised data at the highest noise level (EDM:
    # sigma_max^2, which is the same at 80 but too narrow at 5).
    first = torch.randn(shape, generator=generator, device=generator.device).to(device)
    solver = heun if sampler.method == "heun" else dpm_solver
    drawn = solver(denoise, math.hypot(sampler.sigma_max, SIGMA_DATA) * first, sampler, generator)
    if not bool(drawn.isfinite().all()):
        what, expected = "the model's samples are not finite", "a model whose training has not diverged"
        raise PlanError(what, where="synthesis.sample", expected=expected, remedy="lower the learning rate of the plan")
    return drawn


def sample_encoded(
    model: Denoiser, count: int, sampler: Sampler, generator: torch.Generator, *, batch: int = 8_192
) -> Tensor:
    """Draw `count` encoded rows [count, D], `batch` at a time."""
    # The random numbers come from the generator's device and go to the model's; so do the results.
    device = next(model.parameters()).device
    sizes = [min(batch, count - first) for first in range(0, count, batch)] or [0]

    def denoise(noisy: Tensor, sigma: Tensor) -> Tensor:
        pieces = torch.split(noisy, PIECE) if device.type == "cpu" else (noisy,)
        return torch.cat([model(piece, sigma) for piece in pieces])

    return torch.cat([chains(denoise, (size, model.encoder.size), sampler, generator, device) for size in sizes])


def sample(
    model: Denoiser, count: int, sampler: Sampler, generator: torch.Generator, *, batch: int = 8_192
) -> dict[str, Tensor]:
    """Draw `count` transitions in raw units, inside the public bounds (columns as in `Encoder.decode`)."""
    return model.encoder.decode(sample_encoded(model, count, sampler, generator, batch=batch))
