"""Whole trajectories from fragments: each begins with the state in which the one before it ended.

Released histograms help twice, at no cost in privacy. They show where nobody is: fragments that pass there are drawn
again (`PopulatedBins`), since a denoiser that learned from many worlds goes by the histograms of this one, but not
always.

And of many candidate trajectories those are taken whose rows agree with the histograms (`trajectory_weights`). A
trajectory lies in many cells at once, so that proportional fitting of rows does not apply. Each candidate is taken with
a probability of its own, and none twice: copies would be no new people. The probabilities are those of the
maximum-entropy design with the right means (Chen, Dempster and Liu 1994, doi:10.1093/biomet/81.3.457): logistic in a
trajectory's own mean histograms, with a penalty that leaves the means as far from the noisy ones as the noise is. The
noisy histograms are means over people of the means of their rows: who owns several trajectories shows the mean of all
their rows, in which one of them counts as much as its share of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import norm
from torch import Tensor

from tacit.methods.synthesis.plan import Sampler
from tacit.methods.synthesis.table_matching import (
    Floats,
    NoisyHistograms,
    Table,
    TableMatching,
    cell_codes,
    project_to_simplex,
    shrink_table,
)
from tacit.methods.synthesis.trajectories.fragments import Condition
from tacit.methods.synthesis.trajectories.models import FragmentModel, draw_categories
from tacit.roots import find_root

DEVIATIONS = 1.0
"""Of a share's noise: a bin with less may be one where nobody is."""
LOST = 0.01
"""Share of a table's rows that may lie in bins called empty, as far as the noise lets it be known."""
TRIES = 3
"""How often at most something is drawn again."""


@dataclass(frozen=True, eq=False)
class PopulatedBins:
    """Bins of observations with somebody in them."""

    tables: tuple[Table, ...]  # those of `TableMatching.tables` that are of observations alone
    populated: tuple[NDArray[np.bool_], ...]  # for each of them, [bins] whether anybody is there

    @classmethod
    def of(cls, matching: TableMatching, shares: Sequence[Floats], deviation: float) -> PopulatedBins:
        """From the noisy shares of the rows in all tables, and their noise (`NoisyHistograms.shares`)."""
        tables = [
            (table, ~empty_bins(share, deviation))
            for table, share in zip(matching.tables, shares, strict=True)
            if all(axis.column == "observations" for axis in table)
        ]
        return cls(tuple(table for table, _ in tables), tuple(share for _, share in tables))

    def is_empty(self, observations: Tensor) -> Tensor:
        """[...] whether raw observations [..., d] or [...] are where nobody is."""
        seen = observations.cpu().numpy()
        shape = observations.shape[:-1] if observations.is_floating_point() else observations.shape
        rows = {"observations": seen, "rewards": np.zeros(shape)}
        nobody = np.zeros(shape, np.bool_)
        for code, somebody in zip(cell_codes(self.tables, rows), self.populated, strict=True):
            nobody |= ~somebody[code]
        return torch.from_numpy(nobody).to(observations.device)


def empty_bins(share: Floats, deviation: float) -> NDArray[np.bool_]:
    """[bins] the bins of a table in which nobody is: those with least, as many as hold no more than `LOST` of the
    rows."""
    # What they hold is what their noisy shares add up to, less what they would add up to if nobody were there (normals
    # that are below the largest of them), and two standard deviations more.
    order = np.argsort(share)
    least, count = share[order], np.arange(1, len(share) + 1)
    nobody = -deviation * np.exp(norm.logpdf(least / deviation) - norm.logcdf(least / deviation))
    held = np.cumsum(least) - count * nobody + 2 * deviation * np.sqrt(count)
    fit = np.flatnonzero((held <= LOST) & (least <= DEVIATIONS * deviation))
    mask = np.zeros(len(share), np.bool_)
    mask[order[: fit[-1] + 1 if len(fit) else 0]] = True
    return mask


def redraw_missed(
    draw: Callable[[Tensor], tuple[Tensor, ...]],
    count_missed: Callable[[Tensor, tuple[Tensor, ...]], Tensor],
    everyone: Tensor,
) -> tuple[Tensor, ...]:
    """What is drawn for everyone, again for whom something is missed, up to `TRIES` times; the best is kept."""
    # draw: [n] whose -> tensors [n, ...]; missed: (whose [n], what was drawn for them) -> [n] how much of it is where
    # nobody is; everyone: [B] 0, ..., B - 1
    best = draw(everyone)
    worst = count_missed(everyone, best)
    for _ in range(TRIES):
        again = everyone[worst > 0]
        if not len(again):
            break
        draws = draw(again)
        count = count_missed(again, draws)
        better = count < worst[again]
        worst[again[better]] = count[better]
        for tensor, replacement in zip(best, draws, strict=True):
            tensor[again[better]] = replacement[better]
    return best


Columns = dict[str, NDArray[Any]]

ROWS = ("observations", "actions", "rewards", "next_observations")
"""What a fragment is decoded to."""


@dataclass(frozen=True, eq=False)
class Stitched:
    """E trajectories as columns of T rows."""

    # `observations`, `actions`, `rewards`, `next_observations`, `terminations`, `truncations`, [T, ...]
    columns: Columns
    episodes: NDArray[np.int64]  # [E + 1], where each begins
    stitches: NDArray[np.int64]  # [S] rows at which a stitched fragment begins; the first row of a trajectory is none


@torch.no_grad()
def stitch(
    model: FragmentModel,
    first: Tensor,
    sampler: Sampler,
    generator: torch.Generator,
    progress: Callable[[int], None] | None = None,
    populated: PopulatedBins | None = None,
) -> Stitched:
    """Trajectories from raw first observations on, until they end or are as long as the longest."""
    # first: [E, d] or [E], raw, on the model's device; populated: where people are, fragments that pass elsewhere are
    # drawn again. None does not look
    codec, count = model.codec, len(first)
    owners = torch.arange(count, device=first.device)
    previous = torch.zeros(count, codec.step_size, device=first.device)
    time = torch.zeros(count, dtype=torch.int64, device=first.device)
    pieces: list[Columns] = []
    while len(owners):
        condition = Condition(
            first=codec.encode_observation(first),
            previous=previous,
            begins=(time == 0).to(previous.dtype),
            time=time.to(previous.dtype) / codec.longest,
            ending=torch.zeros_like(time),
        )
        ending, left = draw_categories(model.network.endings(condition), generator), codec.longest - time
        taken = torch.where(ending == 0, codec.horizon + 1, (ending - 1) % codec.horizon + 1)
        ending = torch.where(taken > left, left.clamp(max=codec.horizon), ending)  # truncated where fewer rows are left
        condition = dataclasses.replace(condition, ending=ending)
        steps, rows, first = _fragments(model, first, condition, sampler, generator, populated)
        pieces.append(_piece(rows, codec.flags(condition.ending), owners, time))
        going = condition.ending == 0
        owners, first, previous = owners[going], first[going], steps[going, -1]
        time = time[going] + codec.horizon
        if progress is not None:
            progress(len(owners))
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(columns["owner"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    episodes = np.append(0, np.cumsum(np.bincount(columns.pop("owner"), minlength=count)))
    return Stitched(columns=columns, episodes=episodes, stitches=np.flatnonzero(columns.pop("stitch")))


def _fragments(
    model: FragmentModel,
    first: Tensor,
    condition: Condition,
    sampler: Sampler,
    generator: torch.Generator,
    populated: PopulatedBins | None,
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Fragments that begin at raw observations, where people are as far as can be drawn."""
    # returns: Encoded steps [B, H, S], and the raw rows and what follows them, as of `FragmentEncoder.decode`

    def draw(indices: Tensor) -> tuple[Tensor, ...]:
        steps = model.sample_steps(condition.transform(lambda tensor: tensor[indices]), sampler, generator)
        rows, next_observations = model.codec.decode(first[indices], steps)
        return steps, next_observations, *(rows[name] for name in ROWS)

    def count_missed(indices: Tensor, fragments: tuple[Tensor, ...]) -> Tensor:
        if populated is None:
            return torch.zeros_like(indices)
        there = model.codec.flags(condition.ending[indices])[..., 0].bool()
        return (populated.is_empty(fragments[-1]) & there).sum(1)

    steps, next_observations, *rows = redraw_missed(draw, count_missed, torch.arange(len(first), device=first.device))
    return steps, dict(zip(ROWS, rows, strict=True)), next_observations


def _piece(rows: dict[str, Tensor], flags: Tensor, owners: Tensor, time: Tensor) -> Columns:
    """The rows that are there, flat, with `owner` and `stitch`."""
    there, truncated, terminated = flags.bool().unbind(-1)
    stitch = torch.zeros_like(there)
    stitch[:, 0] = time > 0
    whole = {**rows, "terminations": terminated, "truncations": truncated, "stitch": stitch}
    whole["owner"] = owners[:, None].expand_as(there)
    return {name: column[there].cpu().numpy() for name, column in whole.items()}


STEPS = 300
"""Of L-BFGS at most."""
LEAST_DEVIATION = 1e-4
"""Histograms need not agree better than this."""


def trajectory_weights(released: NoisyHistograms, stitched: Stitched, *, count: int, episodes: int) -> Floats:
    """Probabilities [E], adding up to `count`, with which each trajectory is one of so many that are taken."""
    # stitched: E candidate trajectories, more than `count`
    lengths = np.diff(stitched.episodes)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    matching, (tables, deviation) = released.matching, released.shares()
    shares, goals, sizes = [], [], trajectory_shares(lengths, episodes)
    for code, size, table in zip(cell_codes(matching.tables, stitched.columns), matching.sizes, tables, strict=True):
        flat = np.bincount(owners * size + code, 1 / lengths[owners], len(lengths) * size)
        shares.append(flat.reshape(len(lengths), size).astype(np.float32))
        shrunk = shrink_table(table, np.average(shares[-1], axis=0, weights=sizes), deviation)
        goals.append(project_to_simplex(shrunk, 1.0))
    deviation = max(deviation, LEAST_DEVIATION)
    return inclusion_probabilities(np.concatenate(shares, axis=1), np.concatenate(goals), deviation, sizes, count)


def trajectory_shares(lengths: NDArray[np.int64], episodes: int) -> Floats:
    """[E] how much each trajectory counts in its owner's mean: its share of the rows, beside others of mean length."""
    # lengths: [E] its rows
    return np.asarray(lengths / (lengths + (episodes - 1) * lengths.mean()), np.float64)


def inclusion_probabilities(
    histograms: NDArray[np.float32], goal: Floats, deviation: float, sizes: Floats, count: int
) -> Floats:
    """Probabilities [E], adding up to `count`, under which the mean of `own` [E, B] over those taken is `goal`
    nearly."""
    # The logit of each is linear in how far its own histograms are from the goal.
    # goal: [B] what their mean is to be; sizes: [E] of each trajectory, by which it counts in the mean; count: how many
    # are taken, fewer than E
    sizes = sizes / sizes.mean()

    def scores(slopes: Floats) -> Floats:
        along = (histograms @ slopes.astype(np.float32)).astype(np.float64)
        return np.asarray(sizes * (along - goal @ slopes))

    def dual(point: Floats) -> tuple[float, Floats]:
        slopes, level = point[:-1], point[-1]
        logits = scores(slopes) + level
        taken = expit(logits)
        counted = taken * sizes
        value = np.logaddexp(0.0, logits).sum() / count - level + (deviation * slopes) @ (deviation * slopes) / 2
        gap = (counted.astype(np.float32) @ histograms - counted.sum() * goal) / count
        return float(value), np.append(gap + deviation**2 * slopes, taken.sum() / count - 1)

    begin = np.append(np.zeros(histograms.shape[1]), logit(count / len(histograms)))
    solution = minimize(dual, begin, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    final = scores(solution.x[:-1])
    most = float(np.abs(final).max()) + 50.0
    level = find_root(lambda shift: float(expit(final + shift).sum()) - count, -most, most, tolerance=1e-12)
    return np.asarray(expit(final + level))


def pick_trajectories(stitched: Stitched, chosen: NDArray[np.int64]) -> Stitched:
    """The trajectories with these numbers, in this order; a number may come again."""
    lengths = np.diff(stitched.episodes)[chosen]
    episodes = np.append(0, np.cumsum(lengths))
    rows = np.arange(episodes[-1]) + np.repeat(stitched.episodes[chosen] - episodes[:-1], lengths)
    columns = {name: column[rows] for name, column in stitched.columns.items()}
    return Stitched(columns, episodes, np.flatnonzero(np.isin(rows, stitched.stitches)))
