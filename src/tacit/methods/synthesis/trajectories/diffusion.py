"""EDM of fragments (Karras et al. 2022, arXiv:2206.00364): a denoiser under a condition, and its samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.methods.synthesis.diffusion import chains, preconditioning
from tacit.methods.synthesis.settings import Sampler
from tacit.methods.synthesis.trajectories.fragments import Condition, FragmentEncoder
from tacit.methods.synthesis.trajectories.networks import FragmentNetwork
from tacit.methods.synthesis.trajectories.plan import Plan


class FragmentDenoiser(nn.Module):
    """D(x; sigma, condition) = c_skip x + c_out F(c_in x, c_noise, condition) (EDM equation 7) for fragments."""

    def __init__(self, plan: Plan, codec: FragmentEncoder) -> None:
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
        """The weighted denoising loss of each row, averaged over K noise draws and S columns.

        Args:
            condition: of B fragments.
            clean: [B, H, S]; sigma: [B, K]; noise: [B, K, H, S].

        Returns:
            [B, H]; what stands at rows that are not there is meaningless.
        """
        draws = sigma.shape[1]
        repeated = condition.map(lambda tensor: tensor.repeat_interleave(draws, dim=0))
        clean = clean[:, None].expand_as(noise).flatten(0, 1)
        c_skip, c_out, _, _ = (c.flatten()[:, None, None] for c in preconditioning(sigma))
        noisy = clean + sigma.flatten()[:, None, None] * noise.flatten(0, 1)
        target = (clean - c_skip * noisy) / c_out
        error = self._raw(noisy, sigma.flatten(), repeated, self.codec.flags(repeated.ending)) - target
        return torch.unflatten(error.square().mean(-1), 0, (-1, draws)).mean(1)

    @torch.no_grad()
    def sample_steps(self, condition: Condition, sampler: Sampler, generator: torch.Generator) -> Tensor:
        """Encoded steps [B, H, S] of fragments under their conditions.

        Raises:
            PlanError: the model gives values that are not finite.
        """
        shape = (len(condition.first), self.codec.horizon, self.codec.step_size)
        flags = self.codec.flags(condition.ending)

        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            noisy = x.view(shape)
            c_skip, c_out, _, _ = (c[:, None, None] for c in preconditioning(sigma))
            return (c_skip * noisy + c_out * self._raw(noisy, sigma, condition, flags)).flatten(1)

        return chains(denoise, (shape[0], shape[1] * shape[2]), sampler, generator, condition.first.device).view(shape)
