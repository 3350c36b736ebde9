"""The models of fragments and of first observations, and the losses with which they are trained behind the vault.

Fragments are denoised (EDM, Karras et al. 2022, arXiv:2206.00364), or drawn row by row by the baseline DP-Transformer.
That one is trained in the same way, on the same fragments, conditions and endings; only the law of the rows is another
one: that of a row, given the rows before it, is a mixture of products, in which each number is normal and each discrete
field categorical. (The paper's is a mean squared error around one prediction, which has no spread.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from tacit.methods.synthesis.diffusion import Denoiser, chains, draw, normals, preconditioning, row_losses
from tacit.methods.synthesis.encoding import Encoder, groups
from tacit.methods.synthesis.plan import Sampler
from tacit.methods.synthesis.trajectories.fragments import Condition, FragmentEncoder
from tacit.methods.synthesis.trajectories.networks import FragmentNetwork, StartNetwork
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan


class FragmentDenoiser(nn.Module):
    """D(x; sigma, condition) = c_skip x + c_out F(c_in x, c_noise, condition) (EDM equation 7) for fragments."""

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder) -> None:
        super().__init__()
        self.codec = codec
        self.network = FragmentNetwork(plan, codec, codec.step_size)

    def _raw(self, noisy: Tensor, sigma: Tensor, condition: Condition, flags: Tensor) -> Tensor:
        """F, for noisy steps [B, H, S] at the levels [B]; the rows' places are those of the rescaled noisy steps."""
        c_skip, _, c_in, c_noise = preconditioning(sigma)
        there = noisy * flags[..., :1]
        places = self.codec.places(condition.first, c_skip[:, None, None] * there)
        output: Tensor = self.network(condition, c_noise, c_in[:, None, None] * there, places, flags)
        return output

    def step_losses(self, condition: Condition, clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """The weighted denoising loss of each row, averaged over K noise draws and S columns."""
        # condition: of B fragments; clean: [B, H, S], sigma: [B, K], noise: [B, K, H, S]; returns: [B, H]; what stands
        # at rows that are not there is meaningless
        draws = sigma.shape[1]
        repeated = condition.transform(lambda tensor: tensor.repeat_interleave(draws, dim=0))
        clean = clean[:, None].expand_as(noise).flatten(0, 1)
        c_skip, c_out, _, _ = (c.flatten()[:, None, None] for c in preconditioning(sigma))
        noisy = clean + sigma.flatten()[:, None, None] * noise.flatten(0, 1)
        target = (clean - c_skip * noisy) / c_out
        error = self._raw(noisy, sigma.flatten(), repeated, self.codec.flags(repeated.ending)) - target
        return torch.unflatten(error.square().mean(-1), 0, (-1, draws)).mean(1)

    @torch.no_grad()
    def sample_steps(self, condition: Condition, sampler: Sampler, generator: torch.Generator) -> Tensor:
        """Encoded steps [B, H, S] of fragments under their conditions."""
        shape = (len(condition.first), self.codec.horizon, self.codec.step_size)
        flags = self.codec.flags(condition.ending)

        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            noisy = x.view(shape)
            c_skip, c_out, _, _ = (c[:, None, None] for c in preconditioning(sigma))
            return (c_skip * noisy + c_out * self._raw(noisy, sigma.expand(len(x)), condition, flags)).flatten(1)

        return chains(denoise, (shape[0], shape[1] * shape[2]), sampler, generator, condition.first.device).view(shape)


LEAST_SCALE, MOST_SCALE = 0.02, 5.0
"""Bounds of a normal's standard deviation, in standardised units."""


class AutoregressiveRows(nn.Module):
    """The law of each row of a fragment, given the rows before it."""

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder) -> None:
        super().__init__()
        self.codec, self.mixture = codec, plan.mixture
        spec = codec.encoder.spec
        spaces = (spec.action, spec.reward, spec.observation)
        self.fields = tuple(group for space in spaces for group in groups(space))
        each = 1 + sum(size if kind else 2 * size for size, kind in self.fields)
        self.network = FragmentNetwork(plan, codec, plan.mixture * each)

    def _law(self, condition: Condition, steps: Tensor) -> Tensor:
        """Parameters [B, H, mixture, ...] of the law of each row, from the rows before it in `steps` [B, H, S]."""
        places = self.codec.places(condition.first, steps)
        before = torch.cat([condition.previous[:, None], steps[:, :-1]], dim=1)
        flags = self.codec.flags(condition.ending)
        parameters = self.network(condition, torch.zeros_like(condition.time), before, places, flags)
        return torch.unflatten(parameters, -1, (self.mixture, -1))

    def step_losses(self, condition: Condition, clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """Minus the log-density of each row over the S columns, [B, H], for `clean` [B, H, S]; no noise has a part."""
        law = self._law(condition, clean)
        total, start = law[..., 0].log_softmax(-1), 1
        parts = torch.split(clean, [size for size, _ in self.fields], dim=-1)
        for (size, kind), part in zip(self.fields, parts, strict=True):
            part = part[..., None, :]
            if kind:
                scores = law[..., start : start + size].log_softmax(-1)
                total, start = total + (scores * (part > 0)).sum(-1), start + size
                continue
            mean, scale = _moments(law[..., start : start + 2 * size])
            density = ((part - mean) / scale).square() / 2 + scale.log() + math.log(2 * math.pi) / 2
            total, start = total - density.sum(-1), start + 2 * size
        return -total.logsumexp(-1) / self.codec.step_size

    @torch.no_grad()
    def sample_steps(self, condition: Condition, sampler: Sampler, generator: torch.Generator) -> Tensor:
        """Encoded steps [B, H, S] of fragments under their conditions; the sampler has no part."""
        count = len(condition.first)
        steps = condition.first.new_zeros(count, self.codec.horizon, self.codec.step_size)
        for row in range(self.codec.horizon):
            law = self._law(condition, steps)[:, row]
            chosen = draw_categories(law[..., 0], generator)
            steps[:, row] = self._row(law[torch.arange(count), chosen], generator)
        return steps

    def _row(self, law: Tensor, generator: torch.Generator) -> Tensor:
        """A draw [B, S] from one product of the mixture each, [B, ...]."""
        parts, start = [], 1
        for size, kind in self.fields:
            if kind:
                parts.append(2.0 * one_hot(draw_categories(law[:, start : start + size], generator), size) - 1)
                start += size
                continue
            mean, scale = _moments(law[:, start : start + 2 * size])
            fresh = torch.randn(mean.shape, generator=generator, device=generator.device).to(mean.device)
            parts.append(mean + scale * fresh)
            start += 2 * size
        return torch.cat(parts, dim=-1)


def draw_categories(scores: Tensor, generator: torch.Generator) -> Tensor:
    """[B] of the K categories with log-odds `scores` [B, K]."""
    uniform = torch.rand(scores.shape, generator=generator, device=generator.device).clamp_(min=1e-30).to(scores.device)
    return (scores - (-uniform.log()).log()).argmax(-1)


def _moments(law: Tensor) -> tuple[Tensor, Tensor]:
    mean, raw = law.chunk(2, dim=-1)
    return mean, raw.exp().clamp(LEAST_SCALE, MOST_SCALE)


FragmentModel = FragmentDenoiser | AutoregressiveRows


@dataclass(frozen=True)
class FragmentLoss:
    """Mean loss of a unit's rows, and of how its fragments end: a pure function of that unit's rows and draws."""

    codec: FragmentEncoder
    noise_multiplicity: int
    P_mean: float
    P_std: float
    ending_weight: float
    ending_noise: float

    @classmethod
    def of(cls, plan: TrajectoriesPlan, codec: FragmentEncoder) -> FragmentLoss:
        """The plan's; where rows are drawn one by one there is no noise."""
        draws = 0 if plan.network == "autoregressive" else plan.noise_multiplicity
        return cls(codec, draws, plan.P_mean, plan.P_std, plan.ending_weight, plan.ending_noise)

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Independent between units: `sigma` [U, L, K], `noise` [U, L, K, H, S], `spread` [U, L, H + 2, ...]."""
        # With `ending_noise` the size of an observation's is `moved` [U, L, d].
        horizon, size = self.codec.horizon, self.codec.step_size
        sigma = draw(
            generator,
            units,
            rows_per_unit,
            encoder=self.codec.encoder,
            noise_multiplicity=self.noise_multiplicity,
            P_mean=self.P_mean,
            P_std=self.P_std,
        )["sigma"]
        spread = (units, rows_per_unit, horizon + 2, self.codec.encoder.bounded_size)
        drawn = {
            "sigma": sigma,
            "noise": normals((*sigma.shape, horizon, size), generator),
            "spread": normals(spread, generator),
        }
        if self.ending_noise > 0:
            drawn["moved"] = self.ending_noise * normals((units, rows_per_unit, self.codec.state_size), generator)
        return drawn

    def shares(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of each row [U, L, H], and of each fragment [U, L], its share in the mean over those of a unit that count."""
        # With them a unit's loss is a sum over its fragments, which may be taken a few at a time.
        mask = self.codec.row_mask(rows)
        return {"row_share": _shares(mask), "fragment_share": _shares(mask.any(-1))}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U], of fragments [U, L, H + 2, ...]: 0 for a unit without a row that counts."""
        assert isinstance(model, FragmentDenoiser | AutoregressiveRows)
        condition, clean, _ = self.codec.cut(rows, rows["spread"])
        share = rows if "row_share" in rows else self.shares(rows)
        clean = rows.get("clean", clean)  # what curiosity put in the place of public rows
        units = len(clean)
        flat = condition.transform(lambda tensor: tensor.flatten(0, 1))
        sigma, noise = rows["sigma"].flatten(0, 1), rows["noise"].flatten(0, 1)
        steps = model.step_losses(flat, clean.flatten(0, 1), sigma, noise)
        if "moved" in rows:
            flat = dataclasses.replace(flat, first=flat.first + rows["moved"].flatten(0, 1))
        ends = cross_entropy(model.network.endings(flat), flat.ending, reduction="none")
        rows_loss = (steps.view_as(share["row_share"]) * share["row_share"]).sum((1, 2))
        return rows_loss + self.ending_weight * (ends.view(units, -1) * share["fragment_share"]).sum(1)


@dataclass(frozen=True)
class StartLoss:
    """EDM's denoising loss of the observations that a unit's episodes begin with."""

    encoder: Encoder
    P_mean: float
    P_std: float

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """As `diffusion.draw`, with noise for the observation alone."""
        return draw(
            generator,
            units,
            rows_per_unit,
            encoder=self.encoder,
            noise_multiplicity=1,
            P_mean=self.P_mean,
            P_std=self.P_std,
        )

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U], of its first rows [U, R, ...] where `starts` [U, R] is True."""
        assert isinstance(model, Denoiser)
        size = self.encoder.spec.observation.width
        clean = self.encoder.encode(rows, rows["spread"])[..., :size]
        losses = row_losses(model, clean, rows["sigma"], rows["noise"][..., :size])
        return (losses * _shares(rows["starts"] & rows["mask"])).sum(1)


def fragment_model(plan: TrajectoriesPlan, encoder: Encoder) -> FragmentModel:
    """The plan's model of fragments, with random weights."""
    codec = FragmentEncoder(encoder, plan.horizon, plan.longest)
    return AutoregressiveRows(plan, codec) if plan.network == "autoregressive" else FragmentDenoiser(plan, codec)


def start_model(plan: TrajectoriesPlan, encoder: Encoder) -> Denoiser:
    """The plan's model of first observations, with random weights."""
    return Denoiser(encoder, StartNetwork(plan, encoder))


def _shares(mask: Tensor) -> Tensor:
    """[U, ...] of what the mask counts, 1 over how much of a unit it counts; 0 elsewhere."""
    counted = mask.to(torch.float32)
    total = counted.flatten(1).sum(1).clamp(min=1)
    return counted / total.view(-1, *[1] * (mask.dim() - 1))
