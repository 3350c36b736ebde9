"""What is trained behind the doors: the loss of a unit's fragments, and that of its episodes' first observations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tacit.methods.synthesis.diffusion import Denoiser, draw, row_losses
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.trajectories.autoregressive import RowByRow
from tacit.methods.synthesis.trajectories.diffusion import FragmentDenoiser
from tacit.methods.synthesis.trajectories.fragments import FragmentEncoder
from tacit.methods.synthesis.trajectories.networks import StartNetwork
from tacit.methods.synthesis.trajectories.plan import Plan

FragmentModel = FragmentDenoiser | RowByRow


@dataclass(frozen=True)
class FragmentLoss:
    """Mean loss of a unit's rows, and of how its fragments end: a pure function of that unit's rows and draws."""

    codec: FragmentEncoder
    noise_draws: int
    P_mean: float
    P_std: float
    ending_weight: float
    ending_noise: float

    @classmethod
    def of(cls, plan: Plan, codec: FragmentEncoder) -> FragmentLoss:
        """The plan's; where rows are drawn one by one there is no noise."""
        draws = 0 if plan.network == "autoregressive" else plan.noise_draws
        return cls(codec, draws, plan.P_mean, plan.P_std, plan.ending_weight, plan.ending_noise)

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Independent between units: `sigma` [U, L, K], `noise` [U, L, K, H, S], `spread` [U, L, H + 2, ...].

        With `ending_noise` the size of an observation's is `moved` [U, L, d].
        """
        horizon, size = self.codec.horizon, self.codec.step_size
        sigma = draw(
            generator,
            units,
            rows_per_unit,
            encoder=self.codec.encoder,
            noise_draws=self.noise_draws,
            P_mean=self.P_mean,
            P_std=self.P_std,
        )["sigma"]
        spread = (units, rows_per_unit, horizon + 2, self.codec.encoder.bounded_size)
        drawn = {
            "sigma": sigma,
            "noise": _normal((*sigma.shape, horizon, size), generator),
            "spread": _normal(spread, generator),
        }
        if self.ending_noise > 0:
            drawn["moved"] = self.ending_noise * _normal((units, rows_per_unit, self.codec.state_size), generator)
        return drawn

    def shares(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of each row [U, L, H], and of each fragment [U, L], its share in the mean over those of a unit that count.

        With them a unit's loss is a sum over its fragments, which may be taken a few at a time.
        """
        mask = self.codec.counted(rows)
        return {"row_share": _shares(mask), "fragment_share": _shares(mask.any(-1))}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U], of fragments [U, L, H + 2, ...]: 0 for a unit without a row that counts."""
        assert isinstance(model, FragmentDenoiser | RowByRow)
        condition, clean, _ = self.codec.cut(rows, rows["spread"])
        share = rows if "row_share" in rows else self.shares(rows)
        clean = rows.get("clean", clean)  # what curiosity put in the place of public rows
        units = len(clean)
        flat = condition.map(lambda tensor: tensor.flatten(0, 1))
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
            generator, units, rows_per_unit, encoder=self.encoder, noise_draws=1, P_mean=self.P_mean, P_std=self.P_std
        )

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U], of its first rows [U, R, ...] where `starts` [U, R] is True."""
        assert isinstance(model, Denoiser)
        size = self.encoder.spec.observation.size
        clean = self.encoder.encode(rows, rows["spread"])[..., :size]
        losses = row_losses(model, clean, rows["sigma"], rows["noise"][..., :size])
        return (losses * _shares(rows["starts"] & rows["mask"])).sum(1)


def fragment_model(plan: Plan, encoder: Encoder) -> FragmentModel:
    """The plan's model of fragments, with random weights."""
    codec = FragmentEncoder(encoder, plan.horizon, plan.longest)
    return RowByRow(plan, codec) if plan.network == "autoregressive" else FragmentDenoiser(plan, codec)


def start_model(plan: Plan, encoder: Encoder) -> Denoiser:
    """The plan's model of first observations, with random weights."""
    return Denoiser(encoder, StartNetwork(plan, encoder))


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _shares(mask: Tensor) -> Tensor:
    """[U, ...] of what the mask counts, 1 over how much of a unit it counts; 0 elsewhere."""
    counted = mask.to(torch.float32)
    total = counted.flatten(1).sum(1).clamp(min=1)
    return counted / total.view(-1, *[1] * (mask.dim() - 1))
