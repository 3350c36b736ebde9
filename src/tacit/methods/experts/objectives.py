"""What one expert adds to a noisy gradient: the mean loss of the rows that were drawn of that expert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tacit.agents.discrete_offline import Agent, encoded
from tacit.agents.features import Features
from tacit.agents.learners import Learner

__all__ = ["ExpertLoss"]


@dataclass(frozen=True)
class ExpertLoss:
    """An `Objective`: the learner's loss, averaged over the k rows of each expert before the clip.

    The mean of k rows costs nothing: the clip bounds the expert, whatever k is, and the mean varies less than one row.

    Args:
        learner: a loss for each row.
        features: public map of observations to the network's inputs.
    """

    learner: Learner
    features: Features

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Nothing is random here."""
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Rows [U, k, ...] with `mask` [U, k] -> one loss an expert, [U]; 0 for an expert without rows."""
        assert isinstance(model, Agent)
        mask = rows["mask"]
        losses = self.learner.losses(model, encoded(self.features, rows))
        return torch.where(mask, losses, 0.0).sum(1) / mask.sum(1).clamp(min=1)
