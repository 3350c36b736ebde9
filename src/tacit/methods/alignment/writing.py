"""What people are served with: completions of their own prompts, and what is public of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.adapters import Steering
from tacit.agents.language.judges import Reward
from tacit.agents.language.sampling import Completions, alone
from tacit.agents.language.texts import Writer
from tacit.methods.alignment.plan import AlignmentPlan

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Writing:
    """The actor of a round: a row of the result depends on the rows of its own prompt alone, to the last bit."""

    plan: AlignmentPlan  # sizes
    writer: Writer  # the model
    reward: Reward | None  # the public reward, or None
    theta: Tensor  # released parameters [P]

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> Float32:
        """Rows [N, d] of prompts, K each in a row -> actions [N, a], laid out as `AlignmentPlan.spec` says."""
        prompts, draws = split_observations(self.plan, observations)
        steering = Steering(self.plan.adapter, self.theta[None])
        some = alone(self.writer.model, self.writer.before, prompts, draws, steering)
        return np.concatenate([self._laid_out(done) for done in some])

    def _laid_out(self, done: Completions) -> Float32:
        rows = done.written.shape[0] * done.written.shape[1]
        values = self._values(done)
        parts = (done.written.reshape(rows, -1).float(), values, done.residual.reshape(rows, -1))
        return torch.cat(parts, dim=1).numpy()

    def _values(self, done: Completions) -> Tensor:
        """The public reward [B K, looks] of every completion and of its beginnings, prompt by prompt."""
        looks = self.plan.looks
        if self.reward is None:
            return torch.zeros(done.written.shape[0] * done.written.shape[1], len(looks))
        values = []
        for prompt, written in zip(done.prompts, done.written, strict=True):
            alike = prompt.expand(len(written), -1)
            texts = [text for n in looks for text in self.writer.texts(alike, written[:, :n])]
            values.append(torch.from_numpy(self.reward(texts)).view(len(looks), -1).T)
        return torch.cat(values).float()


def split_observations(plan: AlignmentPlan, observations: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Prompts [B, n] int64 and draws [B, K, T] of rows [B K, d]; a prompt is that of its first row."""
    width = plan.prompt_tokens + plan.tokens
    rows = torch.from_numpy(np.ascontiguousarray(observations, np.float32)).view(-1, plan.completions, width)
    return rows[:, 0, : plan.prompt_tokens].long(), rows[:, :, plan.prompt_tokens :]


def split_actions(plan: AlignmentPlan, prompts: Tensor, actions: NDArray[Any]) -> tuple[Completions, Tensor]:
    """Completions of prompts [B, n], and their public values [B, K, looks], of rows [B K, a]."""
    rows = torch.from_numpy(np.ascontiguousarray(actions, np.float32)).view(len(prompts), plan.completions, -1)
    written, values, residual = torch.split(
        rows, [plan.tokens, len(plan.looks), rows.shape[2] - plan.tokens - len(plan.looks)], dim=2
    )
    return Completions(prompts, written.long(), residual.reshape(*written.shape, -1)), values
