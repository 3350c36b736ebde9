"""By how much a float sum moves when one of many units leaves, in clips: `proofs/floating_point.md`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tacit.privacy.gradients import clipping, layers
from tacit.privacy.gradients.accumulator import UNITS_PER_CHUNK, GradientSum
from tacit.privacy.gradients.layers import LearnedTable

CLIP = 1.0
MOST = 1 + 1e-6
"""The bar: a clip, after the slack in it, and a millionth."""

Rows = tuple[Tensor, Tensor]


def linear(rows: int) -> Callable[[Tensor], Rows]:
    def inputs(size: Tensor) -> Rows:
        a = torch.linspace(0.3, 1.1, 6).expand(len(size), rows, 6) * torch.linspace(0.7, 1.3, rows)[:, None]
        return a.flatten(0, 1), (size[:, None, None] * torch.linspace(-1.0, 0.9, 5)).expand(-1, rows, -1).flatten(0, 1)

    return inputs


def wide(size: Tensor) -> Rows:
    x = torch.linspace(-1.0, 2.0, 8).expand(len(size), 8)
    return x, size[:, None] * torch.linspace(-0.4, 1.0, 8)


def table_rows(size: Tensor) -> Rows:
    return torch.zeros(len(size), 1, dtype=torch.long) + 1, size[:, None, None] * torch.linspace(0.2, 1.0, 4)


KINDS: dict[str, tuple[nn.Module, Callable[[Tensor], Rows]]] = {
    "linear, one row": (nn.Linear(6, 5), linear(1)),
    "linear, Gram": (nn.Linear(6, 5), linear(2)),
    "linear, dense": (nn.Linear(6, 5), linear(16)),
    "bias alone": (nn.Linear(6, 5).requires_grad_(False), linear(1)),
    "layer norm": (nn.LayerNorm(8), wide),
    "embedding": (nn.Embedding(3, 4), table_rows),
    "table": (LearnedTable(8), wide),
}
KINDS["bias alone"][0].bias.requires_grad_(True)


def total(kind: str, sizes: list[np.ndarray]) -> np.ndarray:
    """The sum of units with contributions of these sizes, clipped as the engine clips, chunk by chunk."""
    module, rows = KINDS[kind]
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    sums = GradientSum(parameters)
    with torch.no_grad():
        for chunk in sizes:
            a, g = rows(torch.from_numpy(chunk).float())
            part = layers.contribution(module, a, g, len(chunk), frozenset(parameters))
            weights = clipping.coefficients(part.squares.sqrt(), CLIP).float()
            sums.start_chunk()
            sums.add([({name: name for name in parameters}, part)], weights, None)
    return np.asarray(sums._sums(), np.float64).copy()


def chunks(sizes: np.ndarray) -> list[np.ndarray]:
    return np.split(sizes, range(UNITS_PER_CHUNK, len(sizes), UNITS_PER_CHUNK))


def crowd(units: int, equal: bool, seed: int) -> np.ndarray:
    """Contributions that are all clipped to the same vector, or of random sizes from far below the clip to above."""
    rng = np.random.default_rng(seed)
    return np.full(units, rng.uniform(1, 3)) if equal else 2.0 ** rng.uniform(-6, 2, units)


def movement(kind: str, units: int, equal: bool, shift: str, seed: int) -> float:
    """Norm of the difference that a unit makes, in clips.

    Args:
        shift: which of the others move up when the unit leaves: "none" (its row is zero), those of its "chunk" (as in
            the vault), or "all", each chunk's first unit into the chunk before.
    """
    sizes = crowd(units, equal, seed)
    leaver = int(np.random.default_rng(seed).integers(units // 2))
    sizes[leaver] = 4.0
    with_unit = chunks(sizes)
    if shift == "all":
        without = chunks(np.delete(sizes, leaver))
    else:
        where, place = divmod(leaver, UNITS_PER_CHUNK)
        left = np.delete(with_unit[where], place)
        if shift == "none":
            left = np.insert(left, place, 0.0)
        without = [*with_unit[:where], left, *with_unit[where + 1 :]]
    return float(np.linalg.norm(total(kind, with_unit) - total(kind, without)) / CLIP)


@pytest.mark.parametrize("shift", ["none", "chunk"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_many_units_moves_the_sum_by_a_clip(kind: str, shift: str) -> None:
    moved = [movement(kind, 8 * UNITS_PER_CHUNK, equal, shift, seed) for equal in (False, True) for seed in range(4)]
    assert 0.999 < max(moved) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_a_million_units_moves_the_sum_by_a_clip(kind: str) -> None:
    """Units that all moved up, from chunk to chunk, would be another matter: the vault deals them by secret draws."""
    moved = {
        shift: max(movement(kind, 1_000_000, equal, shift, seed=5) for equal in (False, True))
        for shift in ("none", "chunk", "all")
    }
    print(kind, ", ".join(f"{shift}: {clips:.7f}" for shift, clips in moved.items()))
    assert 0.999 < moved["none"] <= MOST
    assert 0.999 < moved["chunk"] <= MOST
    assert moved["all"] <= 1.01


@pytest.mark.parametrize("shift", [False, True])
def test_one_of_a_million_vectors_moves_their_sum_by_a_clip(shift: bool) -> None:
    sizes = crowd(1_000_000, equal=True, seed=3)
    vectors = sizes[:, None] * np.array([1.0, -0.3])
    everybody = np.zeros(len(sizes), np.int64)
    whole = clipping.clipped_sums(vectors, CLIP, everybody, 1)
    vectors[99] = 0.0
    rest = clipping.clipped_sums(np.delete(vectors, 99, 0) if shift else vectors, CLIP, everybody[shift:], 1)
    assert np.linalg.norm(whole - rest) <= (1 - clipping.SLACK) * (1 + 5e-7)


def test_float32_alone_would_move_by_more() -> None:
    """What the float64 sum of chunks is for: in one chunk of 65,536, the slack is used up."""
    moved = []
    for seed in range(12):
        sizes = crowd(65_536, equal=True, seed=seed)
        sizes[7] = 4.0
        moved.append(np.linalg.norm(total("layer norm", [sizes]) - total("layer norm", [np.delete(sizes, 7)])))
    assert max(moved) > 1.0002
