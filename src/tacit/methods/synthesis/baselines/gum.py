"""Records that have given marginals: the gradual update of PrivSyn (arXiv:2012.15128, section 5.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.baselines.tree import Array, Clique
from tacit.methods.synthesis.cut import Codes

_DECAY, _EVERY = 0.84, 20
"""The size of an update shrinks by this factor, once in so many rounds (the authors' code)."""


def gradual_update(
    singles: list[Array], marginals: Mapping[Clique, Array], *, count: int, rounds: int, rng: np.random.Generator
) -> Codes:
    """Records [count, A] whose marginals come near the wanted ones, starting from independent columns.

    Args:
        singles: wanted counts of each column, of any total > 0.
        marginals: wanted counts of groups of columns.
        count, rounds: how many records, and turns over all marginals.
        rng: public randomness: this is post-processing.
    """
    columns = [rng.choice(len(wanted), count, p=wanted / wanted.sum()) for wanted in singles]
    codes: Codes = np.stack(columns, axis=1).astype(np.int32)
    goals = {axes: wanted * (count / wanted.sum()) for axes, wanted in marginals.items()}
    for turn in range(rounds):
        for axes, goal in goals.items():
            _update(codes, axes, goal, _DECAY ** (turn // _EVERY), rng)
    return codes


def _update(codes: Codes, axes: Clique, goal: Array, step: float, rng: np.random.Generator) -> None:
    """Move records from cells with too many to cells with too few.

    A cell grows by at most `step` of its own size (an empty one by `step` of its goal), so that later marginals can
    still be met. Half of the moved records become copies of one that lies in the cell they move to; the others keep
    their other columns.
    """
    cells = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), goal.shape).astype(_smallest(goal.size))
    present, wanted = np.bincount(cells, minlength=goal.size), goal.ravel()
    missing = np.maximum(wanted - present, 0.0)
    added = np.where(present > 0, np.minimum(missing, step * present), step * missing)
    if added.sum() < 1:
        return
    moved = np.flatnonzero(rng.random(len(codes)) < _leaving(present, wanted, float(added.sum()))[cells])
    ends = np.cumsum(added / added.sum())
    to = np.minimum(np.searchsorted(ends, rng.random(len(moved)), "right"), goal.size - 1)
    copied = (rng.random(len(moved)) < 0.5) & (present[to] > 0)
    order = np.argsort(cells, kind="stable")
    places = np.cumsum(present)[to] - present[to] + (rng.random(len(moved)) * present[to]).astype(np.int64)
    codes[moved[copied]] = codes[order[places[copied]]]
    for axis, values in zip(axes, np.unravel_index(to[~copied], goal.shape), strict=True):
        codes[moved[~copied], axis] = values


def _leaving(present: NDArray[np.int64], wanted: Array, total: float) -> Array:
    """The share of each cell's records that leave: up to its excess, evenly limited so that `total` leave in all."""
    share = np.maximum(present - wanted, 0.0) / np.maximum(present, 1)
    low, high = 0.0, 1.0
    for _ in range(30):
        limit = (low + high) / 2
        low, high = (limit, high) if present @ np.minimum(share, limit) < total else (low, limit)
    return np.minimum(share, high)


def _smallest(values: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type of whole numbers below `values`: short ones sort faster."""
    return np.min_scalar_type(values - 1)
