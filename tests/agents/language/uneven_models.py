"""Models whose logits depend on the size of a batch, or on a text's place in it, as rounding does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tacit.agents.language.adapters import Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.models import Cache


@dataclass(frozen=True, eq=False)
class Uneven:
    """An honest model with a trace of what stands beside a text, large enough for tokens to change.

    Args:
        honest: the model.
        places: a trace of the place in the batch; or of the batch's size.
    """

    honest: Llama
    places: bool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    @property
    def digest(self) -> str:
        return f"{self.honest.digest}, uneven {self.places}"

    def run_upper_layers(self, residual: Tensor, cache: Cache, steering: Steering) -> Tensor:
        logits = self.honest.run_upper_layers(residual, cache, steering)
        beside = torch.arange(len(logits)) if self.places else torch.full((len(logits),), len(logits))
        turned = torch.sin(beside[:, None] * torch.arange(1.0, logits.shape[-1] + 1))
        return logits + 3 * turned[:, None]
