"""Fragments: H rows of an episode, one after another, and what is known before they are drawn.

A fragment is written as

- its `Condition`: the observation it begins with, the row before it (none where the episode begins), the step, and how
  it ends: it goes on, or the episode is truncated or terminates after so many rows;
- its steps: action, reward and what leads to the next observation (`Encoder`: a difference where observations are
  numbers), but no observation. Each row begins where the one before it ended, and a fragment where the one before
  *it* ended: there is no stitch point at which states could jump.

Whether and how an episode ends is drawn before the rows are (`networks.EndingScores`), so that the rows behind an end
are masked out of the network in the same way when it is trained and when it is sampled from.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.data.spec import Box
from tacit.methods.synthesis.encoding import Encoder, groups

CLOCK = 3
"""Octaves of the step number's sines and cosines."""


@dataclass(frozen=True)
class Condition:
    """What B fragments are drawn from."""

    first: Tensor  # [B, d] the encoded observation that the fragment begins with
    previous: Tensor  # [B, S] the encoded step before it, zeros where there is none
    begins: Tensor  # [B] float, 1 where the episode begins
    time: Tensor  # [B] steps before the fragment, over the longest trajectory
    ending: Tensor  # [B] int64: 0 goes on, h = 1 .. H truncated after h rows, H + h terminated after h rows.

    def transform(self, change: Any) -> Condition:
        """The condition with every tensor changed alike."""
        return Condition(**{f.name: change(getattr(self, f.name)) for f in dataclasses.fields(self)})

    def vector(self) -> Tensor:
        """All but the ending, [B, 2 + 2 CLOCK + d + S]."""
        angles = self.time[..., None] * (math.pi * 2.0 ** torch.arange(CLOCK, device=self.time.device))
        clock = [self.time[..., None], angles.sin(), angles.cos()]
        return torch.cat([self.first, self.previous, self.begins[..., None], *clock], dim=-1)


@dataclass(frozen=True)
class FragmentEncoder:
    """Fragments of raw rows to conditions and steps, and back."""

    encoder: Encoder  # of single rows; public constants
    horizon: int  # H
    longest: int  # public number of steps of the longest trajectory

    @property
    def state_size(self) -> int:
        """d, the width of an encoded observation."""
        return self.encoder.spec.observation.width

    @property
    def step_size(self) -> int:
        """S, the width of an encoded step: action, reward, what leads to the next observation."""
        spec = self.encoder.spec
        return spec.action.width + 1 + spec.observation.width

    @property
    def step_sizes(self) -> tuple[int, int, int]:
        """Widths of action, reward and what leads to the next observation."""
        return self.encoder.spec.action.width, 1, self.state_size

    @property
    def condition_size(self) -> int:
        """Width of `Condition.vector`."""
        return self.state_size + self.step_size + 2 + 2 * CLOCK

    @property
    def endings(self) -> int:
        """How many endings there are, going on among them."""
        return 1 + self.horizon * (2 if self.encoder.spec.terminals else 1)

    def cut(self, rows: Mapping[str, Tensor], spread: Tensor) -> tuple[Condition, Tensor, Tensor]:
        """Fragments with the row before and the row behind them to conditions and steps."""
        # Where an episode begins with the first row, that row belongs to the fragment and the last two are not looked
        # at.
        # rows: raw columns [..., H + 2, ...], `mask` and `time` [..., H + 2] (see `PoissonSum.horizon`); spread:
        # standard normals [..., H + 2, encoder.bounded_size]; returns: The condition, the clean steps [..., H, S], and
        # which of these count, [..., H]
        size, horizon = self.state_size, self.horizon
        encoded = self.encoder.encode(rows, spread)
        begins = rows["time"][..., 0] == 0
        fragment = torch.where(begins[..., None, None], encoded[..., :horizon, :], encoded[..., 1:-1, :])
        mask = self.row_mask(rows)
        behind = torch.where(begins, rows["mask"][..., horizon], rows["mask"][..., horizon + 1])
        ends = torch.where(begins[..., None], rows["terminations"][..., :horizon], rows["terminations"][..., 1:-1])
        count = mask.sum(-1)
        terminated = (ends & mask).any(-1) & self.encoder.spec.terminals
        goes_on = (count == horizon) & behind
        previous = encoded[..., 0, size : size + self.step_size] * ~begins[..., None]
        condition = Condition(
            first=fragment[..., 0, :size],
            previous=previous,
            begins=begins.to(encoded.dtype),
            time=(rows["time"][..., 0] + ~begins).to(encoded.dtype) / self.longest,
            ending=torch.where(goes_on, 0, count + horizon * terminated),
        )
        return condition, fragment[..., size : size + self.step_size], mask

    def row_mask(self, rows: Mapping[str, Tensor]) -> Tensor:
        """Which rows of the fragments are there, [..., H]: those from the first on where an episode begins with it."""
        begins = rows["time"][..., 0] == 0
        return torch.where(begins[..., None], rows["mask"][..., : self.horizon], rows["mask"][..., 1:-1])

    def flags(self, ending: Tensor) -> Tensor:
        """Of each row whether it is there, whether it is truncated and whether it is terminated, [..., H, 3]."""
        row = torch.arange(1, self.horizon + 1, device=ending.device)
        count = torch.where(ending == 0, self.horizon, (ending - 1) % self.horizon + 1)[..., None]
        last = (row == count) & (ending > 0)[..., None]
        terminated = (ending > self.horizon)[..., None]
        return torch.stack([row <= count, last & ~terminated, last & terminated], dim=-1).to(torch.float32)

    def places(self, first: Tensor, steps: Tensor) -> Tensor:
        """The encoded observations [B, H, d] that rows begin with, if they go from `first` [B, d] by `steps` [B, H,
        S]."""
        # Of noisy steps these are estimates.
        moves = steps[:, :-1, -self.state_size :]
        if isinstance(self.encoder.spec.observation, Box):
            scale, size = moves.new_tensor(self.encoder.scale), self.state_size
            ratio = scale[self.step_size : self.step_size + size] / scale[:size]
            reached = first[:, None] + (moves * ratio).cumsum(dim=1)
            # A step adds to a number; a category is set instead.
            numeric = [not labels for width, labels in groups(self.encoder.spec.observation) for _ in range(width)]
            adds = torch.tensor(numeric, device=moves.device)
            return torch.cat([first[:, None], torch.where(adds, reached, moves)], dim=1)
        return torch.cat([first[:, None], moves], dim=1)

    def decode(self, first: Tensor, steps: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Raw rows that begin at raw observations and follow each other exactly."""
        # first: raw observations [B, d] or [B] (Discrete); steps: encoded, [B, H, S]; returns: `observations`,
        # `actions`, `rewards`, `next_observations`, each [B, H, ...], and the raw observations that the rows behind
        # them begin with
        rows = []
        for step in steps.unbind(1):
            ahead = self.encoder.decode(self._encoded_rows(first, step))
            following = ahead["next_observations"]
            if isinstance(space := self.encoder.spec.observation, Box) and any(space.static):  # exactly as it begins
                following = torch.where(torch.tensor(space.static, device=first.device), first, following)
            rows.append({**ahead, "observations": first, "next_observations": following})
            first = following
        names = ("observations", "actions", "rewards", "next_observations")
        return {name: torch.stack([row[name] for row in rows], dim=1) for name in names}, first

    def _encoded_rows(self, observation: Tensor, step: Tensor) -> Tensor:
        """Encoded rows [B, D] of raw observations and encoded steps [B, S]."""
        parts = [self.encode_observation(observation), step]
        if self.encoder.spec.terminals:
            parts.append(step.new_zeros(len(step), 1))
        return torch.cat(parts, dim=-1)

    def encode_observation(self, observation: Tensor) -> Tensor:
        """Raw observations [B, d] or [B] as encoded ones [B, d], on their bounds where they are there."""
        spec, count = self.encoder.spec, len(observation)
        action = spec.action
        none = observation.new_zeros(count, action.size) if isinstance(action, Box) else torch.zeros(count).long()
        rows = {
            "observations": observation,
            "actions": none.to(observation.device),
            "rewards": torch.zeros(count, device=observation.device),
            "next_observations": observation,
            "terminations": torch.zeros(count, dtype=torch.bool, device=observation.device),
        }
        spread = torch.zeros(count, self.encoder.bounded_size, device=observation.device)
        return self.encoder.encode(rows, spread)[:, : self.state_size]

    def decode_observation(self, encoded: Tensor) -> Tensor:
        """Encoded observations [B, d] as raw ones inside the public bounds."""
        zeros = encoded.new_zeros(len(encoded), self.encoder.size - self.state_size)
        return self.encoder.decode(torch.cat([encoded, zeros], dim=-1))["observations"]


def windows(
    columns: Mapping[str, NDArray[Any]], episodes: NDArray[np.int64], rows: NDArray[np.int64], length: int
) -> dict[str, Tensor]:
    """Public rows from `rows` [B] on, each with those that follow in its episode: as the mechanisms give private
    ones."""
    # columns: whole trajectories, [T, ...] each; episodes: [E + 1], where they begin; rows: [B] numbers of rows;
    # returns: The columns [B, length, ...], `mask` and `time` [B, length]
    after = np.searchsorted(episodes, rows, side="right")
    places = rows[:, None] + np.arange(length)
    mask = places < episodes[after][:, None]
    where = np.where(mask, places, rows[:, None])
    windowed = {name: torch.from_numpy(np.asarray(column)[where]) for name, column in columns.items()}
    time = torch.from_numpy(places - episodes[after - 1][:, None])
    return {**windowed, "mask": torch.from_numpy(mask), "time": time}
