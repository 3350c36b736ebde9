"""Random network distillation: which generated rows are novel (PrivORL sections V-A, V-B; Burda et al. 2018).

Used in public pre-training only, so it costs no privacy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tacit.methods.synthesis.plan import Curiosity

FEATURES = 32
"""Output width of both networks (the paper's appendix F-B)."""


class NoveltyScore:
    """How badly a trained predictor imitates a fixed random target on a row: high where few rows have been seen.

    Target: D -> 128 -> 64 -> 32 with weights N(0, 0.1^2) and zero biases; predictor: D -> 64 -> 32; ReLU.

    Args:
        size: width D of an encoded row.
        learning_rate: of the predictor (Adam).
        generator: for the initial weights.
    """

    def __init__(self, size: int, *, learning_rate: float, generator: torch.Generator) -> None:
        self.target = nn.Sequential(
            nn.Linear(size, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, FEATURES)
        ).requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, FEATURES))
        for name, value in self.target.named_parameters():
            value.normal_(0, 0.1, generator=generator) if name.endswith("weight") else value.zero_()
        with torch.no_grad():
            for layer in (self.predictor[0], self.predictor[2]):
                assert isinstance(layer, nn.Linear)
                bound = layer.in_features**-0.5
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.uniform_(-bound, bound, generator=generator)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=learning_rate, fused=True)

    def _errors(self, rows: Tensor) -> Tensor:
        errors: Tensor = (self.predictor(rows) - self.target(rows)).square().mean(dim=-1)
        return errors

    @torch.no_grad()
    def score(self, rows: Tensor) -> Tensor:
        """Equation 4 for each of the rows [B, D] -> [B]. Changes nothing, so the order of rows does not matter."""
        return self._errors(rows)

    def update(self, rows: Tensor) -> None:
        """One optimiser step of the predictor on the rows."""
        self.optimizer.zero_grad(set_to_none=True)
        self._errors(rows).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def most_novel(novelty: NoveltyScore, generated: Tensor, count: int) -> Tensor:
    """The `count` rows of `generated` with the highest scores; the predictor learns from all of them afterwards."""
    chosen = generated[novelty.score(generated).topk(count).indices]
    novelty.update(generated)
    return chosen


def replace(batch: Tensor, generated: Tensor, novelty: NoveltyScore, curiosity: Curiosity) -> Tensor:
    """The paper's update of a batch [B, D]: the floor(rate B) most novel of B generated rows take others' places."""
    count = int(curiosity.rate * len(batch))
    return torch.cat([batch[: len(batch) - count], most_novel(novelty, generated, count)])


def append(batch: Tensor, pool: Tensor, curiosity: Curiosity, generator: torch.Generator) -> Tensor:
    """The authors' code: `appended` distinct random rows of a pool of novel ones join the batch."""
    chosen = torch.randperm(len(pool), generator=generator)[: curiosity.appended]
    return torch.cat([batch, pool[chosen]])
