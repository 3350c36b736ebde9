"""Whole trajectories from fragments: each begins with the state in which the one before it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.methods.synthesis.settings import Sampler
from tacit.methods.synthesis.trajectories.autoregressive import drawn
from tacit.methods.synthesis.trajectories.fragments import Condition
from tacit.methods.synthesis.trajectories.objective import FragmentModel
from tacit.methods.synthesis.trajectories.populated import Populated, drawn_again

Columns = dict[str, NDArray[Any]]

ROWS = ("observations", "actions", "rewards", "next_observations")
"""What a fragment is decoded to."""


@dataclass(frozen=True, eq=False)
class Stitched:
    """E trajectories as columns of T rows.

    Args:
        columns: `observations`, `actions`, `rewards`, `next_observations`, `terminations`, `truncations`, [T, ...].
        episodes: [E + 1], where each begins.
        seams: [S] rows at which a stitched fragment begins; the first row of a trajectory is none.
    """

    columns: Columns
    episodes: NDArray[np.int64]
    seams: NDArray[np.int64]


@torch.no_grad()
def stitch(
    model: FragmentModel,
    first: Tensor,
    sampler: Sampler,
    generator: torch.Generator,
    progress: Callable[[int], None] | None = None,
    populated: Populated | None = None,
) -> Stitched:
    """Trajectories from raw first observations on, until they end or are as long as the longest.

    Args:
        model: of fragments.
        first: [E, d] or [E], raw, on the model's device.
        sampler: of the steps.
        generator: of all random numbers.
        progress: called with the number of trajectories that go on, after each round of fragments.
        populated: where people are; fragments that pass elsewhere are drawn again. None does not look.
    """
    codec, count = model.codec, len(first)
    owners = torch.arange(count, device=first.device)
    previous = torch.zeros(count, codec.step_size, device=first.device)
    time = torch.zeros(count, dtype=torch.int64, device=first.device)
    pieces: list[Columns] = []
    while len(owners):
        condition = Condition(
            first=codec.observed(first),
            previous=previous,
            begins=(time == 0).to(previous.dtype),
            time=time.to(previous.dtype) / codec.longest,
            ending=torch.zeros_like(time),
        )
        condition = _ended(model, condition, codec.longest - time, generator)
        steps, rows, first = _fragments(model, first, condition, sampler, generator, populated)
        pieces.append(_piece(rows, codec.flags(condition.ending), owners, time))
        going = condition.ending == 0
        owners, first, previous = owners[going], first[going], steps[going, -1]
        time = time[going] + codec.horizon
        if progress is not None:
            progress(len(owners))
    return _joined(pieces, count)


def _fragments(
    model: FragmentModel,
    first: Tensor,
    condition: Condition,
    sampler: Sampler,
    generator: torch.Generator,
    populated: Populated | None,
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Fragments that begin at raw observations, where people are as far as can be drawn.

    Returns:
        Encoded steps [B, H, S], and the raw rows and what follows them, as of `FragmentEncoder.decode`.
    """

    def draw(whose: Tensor) -> tuple[Tensor, ...]:
        steps = model.sample_steps(condition.map(lambda tensor: tensor[whose]), sampler, generator)
        rows, after = model.codec.decode(first[whose], steps)
        return steps, after, *(rows[name] for name in ROWS)

    def missed(whose: Tensor, found: tuple[Tensor, ...]) -> Tensor:
        if populated is None:
            return torch.zeros_like(whose)
        there = model.codec.flags(condition.ending[whose])[..., 0].bool()
        return (populated.elsewhere(found[-1]) & there).sum(1)

    steps, after, *rows = drawn_again(draw, missed, torch.arange(len(first), device=first.device))
    return steps, dict(zip(ROWS, rows, strict=True)), after


def _ended(model: FragmentModel, condition: Condition, left: Tensor, generator: torch.Generator) -> Condition:
    """The condition with a drawn ending; trajectories with fewer rows `left` [B] than they would take are truncated."""
    ending, horizon = drawn(model.network.endings(condition), generator), model.codec.horizon
    rows = torch.where(ending == 0, horizon + 1, (ending - 1) % horizon + 1)
    return Condition(**{**vars(condition), "ending": torch.where(rows > left, left.clamp(max=horizon), ending)})


def _piece(rows: dict[str, Tensor], flags: Tensor, owners: Tensor, time: Tensor) -> Columns:
    """The rows that are there, flat, with `owner` and `seam`."""
    there, truncated, terminated = flags.bool().unbind(-1)
    seam = torch.zeros_like(there)
    seam[:, 0] = time > 0
    whole = {**rows, "terminations": terminated, "truncations": truncated, "seam": seam}
    whole["owner"] = owners[:, None].expand_as(there)
    return {name: column[there].cpu().numpy() for name, column in whole.items()}


def _joined(pieces: list[Columns], count: int) -> Stitched:
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(columns["owner"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    episodes = np.append(0, np.cumsum(np.bincount(columns.pop("owner"), minlength=count)))
    return Stitched(columns=columns, episodes=episodes, seams=np.flatnonzero(columns.pop("seam")))
