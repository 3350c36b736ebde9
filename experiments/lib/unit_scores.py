"""An auditor who sees the noisy gradients of a run, and scores people who may be in it by whole histories."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import COIN_VARIANCE, MIN_VARIANCE, Floats, UnitSampler
from tacit.privacy.mechanisms.base import Objective, require_calibrated
from tacit.privacy.mechanisms.sums import PoissonSum


class UnitScores:
    """Sees every noisy gradient of `fit(observe=...)` and scores canary units by it.

    Each canary's direction is the mean of the clipped gradients that it would have added with draws of the auditor's.
    Its score is how much of that direction a step's gradient seems to hold, given the noise, that each canary is in
    with probability 1/2, and that everybody else adds something along the directions of public units: the posterior
    mean of a linear Gaussian model, summed over the steps.

    Args:
        part: whose noisy gradients are seen, with its clip and noise.
        objective: the method's.
        canaries: simulated units, in or out by coins of their own.
        public: a few units that owe nothing to private ones and look like most of them; None if there are no others.
        expected: what the mechanism divides its sums by (`PoissonSum.expected`).
        seed: of the auditor's own draws.
        draws: gradients a canary and step; their mean is nearer to what the run's own draw gave.
    """

    def __init__(
        self,
        part: PoissonSum,
        objective: Objective,
        canaries: Trajectories,
        public: Trajectories | None,
        *,
        expected: float,
        seed: int,
        draws: int = 4,
    ) -> None:
        self._canaries = UnitSampler(part, objective, canaries, seed=seed)
        self._public = None if public is None else UnitSampler(part, objective, public, seed=seed + 1)
        self._expected, self._draws, self._total = expected, draws, np.zeros(self._canaries.units)
        self._clip = part.clip_norm
        self._variance = max(MIN_VARIANCE, require_calibrated(part.noise_multiplier, part.name) ** 2)

    def __call__(self, step: int, model: nn.Module, gradient: Tensor) -> None:
        """One step: the noisy mean gradient [P] that was taken at the weights of `model`."""
        draws = [torch.stack(list(self._canaries.clipped_gradients(model))) for _ in range(self._draws)]
        canaries = torch.stack(draws).mean(0)
        public = [] if self._public is None else list(self._public.clipped_gradients(model))
        directions = torch.stack([*canaries, *public]) / self._clip
        residual = gradient * (self._expected / self._clip) - directions[: len(canaries)].sum(0) / 2
        variance = torch.full((len(directions),), self._variance)
        variance[: len(canaries)] *= 1 / COIN_VARIANCE
        posterior = torch.linalg.solve(directions @ directions.T + variance.diag(), directions @ residual)
        self._total += posterior[: len(canaries)].double().numpy()

    def summed_scores(self) -> Floats:
        """[m], each canary's score, higher where it seems to be in: about 0 in the middle between the two."""
        return self._total.copy()
