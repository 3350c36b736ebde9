"""The set in which the vault keeps what a unit adds to a sum, and how far apart two of its points are.

A clip keeps every contribution in a ball, in which two of them may be two clips apart. Where more is known of what a
unit adds, and the vault enforces it, they are closer: the *diameter* of the set is what one unit costs that replaces
another (`proofs/noisy_sum.md`). A contribution is cut into blocks of consecutive numbers; each has a share of the
squared clip, and a diameter of its own. Squares of diameters add up as the shares do.

| kind | what the vault makes of a block with the share w, of a clip of 1 | squared diameter |
|---|---|---|
| `signed` | norm at most sqrt(w) | 4 w |
| `positive` | numbers below 0 become 0; norm at most sqrt(w) | 2 w, w if it is one number |
| `constant` | one number: sqrt(w) | 0 |
| `squares` | sqrt(w) x^2 of each number sqrt(v) x of the block `of` | as `positive`; 0 of one signed number, w <= v |
| `gram` | 0 unless each triangle's matrix has no eigenvalue below 0; norm at most sqrt(w) | 2 w |
| `votes` | see below | 2 w A / (A - 1) |

Votes are vectors of A numbers of the sum 0, x = y - mean(y) with y >= 0: the vault takes y = x - min(x), cuts the norm
of all y of the block to sqrt(w A / (A - 1)), and centres again.

| edge case | result |
|---|---|
| a number of a unit that is not finite | the unit adds zero, constants included |
| a block, or all of them, cannot be as wide as the contribution | `MechanismError`, when it is tried and in the step |
| one block with all of the clip | its numbers are moved into the set, and its norm is left to the clip |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.errors import MechanismError
from tacit.privacy.accounting.events import BALL
from tacit.privacy.gradients.clipping import SLACK
from tacit.serialization import OPTIONAL
from tacit.validation import require_valid

Float64 = npt.NDArray[np.float64]
BlockKind = Literal["signed", "positive", "constant", "squares", "gram", "votes"]
WITHIN = 1 - 2 * SLACK
"""Where a constant is, of its share of the clip; other blocks may be as long as the clip leaves vectors."""
TOLERANCE = SLACK / 2
"""How far an eigenvalue of a Gram matrix of n rows may be below 0, in n-ths of its trace: what float32 leaves."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive numbers of a contribution.

    Args:
        kind: what the vault makes of them (the module's table).
        share: w, of the squared clip.
        size: how many numbers; None are those that the other blocks leave, of one block at most.
        of: of "squares", the number of the block that they are of.
        width: of "votes", A, the numbers of one vote; of "gram", those of one triangle, n (n + 1) / 2 in rows, whose
            numbers off the diagonal are times sqrt 2.
    """

    kind: BlockKind
    share: float = 1.0
    size: int | None = field(default=None, metadata=OPTIONAL)
    of: int | None = field(default=None, metadata=OPTIONAL)
    width: int | None = field(default=None, metadata=OPTIONAL)


Blocks = tuple[Block, ...]
POSITIVE: Blocks = (Block(kind="positive"),)
"""Numbers that are not negative: counts, shares, tallies. Two of them are sqrt 2 clips apart at most."""


def grams(order: int) -> Blocks:
    """Upper triangles of matrices of so many rows, all of one unit's under one clip."""
    return (Block(kind="gram", width=order * (order + 1) // 2),)


def with_length(share: float) -> Blocks:
    """Any vector, and behind it a number of this share that is not negative, such as its length."""
    return Block(kind="signed", share=1 - share), Block(kind="positive", share=share, size=1)


def require_blocks(blocks: Blocks, name: str) -> None:
    """Raise a PlanError unless the blocks are ones that the vault can keep, and the table has their diameter."""
    where, shares = f"{name}.blocks", math.fsum(block.share for block in blocks)
    valid = all(block.kind in get_args(BlockKind) and 0 < block.share <= 1 for block in blocks)
    require_valid(where, blocks, bool(blocks) and valid and shares <= 1 + 1e-12, "known kinds, shares of 1 in all")
    valid = sum(block.size is None for block in blocks) <= 1
    valid = valid and all(block.size is None or (type(block.size) is int and block.size >= 1) for block in blocks)
    require_valid(where, blocks, valid, "sizes that are whole numbers >= 1, of all blocks but one at most")
    for i, block in enumerate(blocks):
        width = block.width if type(block.width) is int else 0
        valid = (block.of is not None) == (block.kind == "squares")
        valid = valid and (block.width is not None) == (block.kind in ("gram", "votes"))
        valid = valid and (block.kind != "constant" or block.size == 1)
        valid = valid and (block.kind != "votes" or (width >= 2 and (block.size or width) % width == 0))
        valid = valid and (block.kind != "gram" or (_order(width) > 0 and (block.size or width) % width == 0))
        if valid and block.kind == "squares":
            valid = type(block.of) is int and 0 <= block.of < i and block.size is not None
            base = blocks[block.of or 0]
            small = base.kind == "signed" and base.size == 1 and block.share <= base.share
            valid = valid and block.size == base.size and (small or base.kind == "positive")
        require_valid(where, block, valid, "a block as the table of kinds has it")


def diameter(blocks: Blocks | None) -> float:
    """The largest distance of two contributions, in clips; None are vectors of which the clip alone is known.

    At least 1: a unit that is not finite adds zero, and another one its whole clip.
    """
    if blocks is None:
        return BALL
    square = 0.0
    for block in blocks:
        own = blocks[block.of].kind if block.of is not None else block.kind
        if own == "signed":
            square += 0.0 if block.kind == "squares" else 4 * block.share
        elif own == "votes":
            square += 2 * block.share * (block.width or 2) / ((block.width or 2) - 1)
        elif own != "constant":
            square += block.share * (1 if own == "positive" and block.size == 1 else 2)
    return min(BALL, max(1.0, math.sqrt(square)))


def least_width(blocks: Blocks | None, least: int) -> int:
    """The fewest numbers that a contribution in these blocks can have, of so many or more where that is open."""
    if blocks is None:
        return least
    known = sum(block.size or 0 for block in blocks)
    free = next((block.width or 1 for block in blocks if block.size is None), 0)
    return known + free * max(1, -(-(least - known) // free)) if free else known


def move_inside(blocks: Blocks | None, vectors: npt.ArrayLike, clip: float, where: str) -> Float64:
    """Each unit's vector [U, d] moved into the set, but for the norm of a single block, which the clip cuts.

    Guarantee: a row depends on its own unit's row alone. Clipped to norm `clip`, it lies in the blocks' set.

    Raises:
        MechanismError: the blocks are not as wide as the vectors.
    """
    given = np.asarray(vectors, np.float64)
    if blocks is None or given.ndim != 2:
        return given
    finite = np.asarray(np.isfinite(given).all(axis=1))
    moved = np.where(finite[:, None], given, 0.0)
    places, fill = _places(blocks, moved.shape[1], where), WITHIN * clip
    for block, place in zip(blocks, places, strict=True):
        part, longest = moved[:, place], (1 - SLACK) * clip * math.sqrt(block.share)
        if block.kind == "constant":
            part[:] = fill * math.sqrt(block.share)
        elif block.kind == "squares":
            base = blocks[block.of or 0]
            root = moved[:, places[block.of or 0]] / (fill * math.sqrt(base.share))
            part[:] = fill * math.sqrt(block.share) * root**2
            _shorten(part, longest)
        elif block.kind == "votes":
            votes = part.reshape(len(part), -1, block.width or 1)
            votes -= votes.min(axis=2, keepdims=True)
            _shorten(part, longest / math.sqrt(1 - 1 / (block.width or 1)))
            votes -= votes.mean(axis=2, keepdims=True)
        else:
            if block.kind == "positive":
                np.maximum(part, 0.0, out=part)
            if block.kind == "gram":
                part[:] = np.where(_are_grams(part, block.width or 1)[:, None], part, 0.0)
            if len(blocks) > 1:
                _shorten(part, longest)
    moved[~finite] = 0.0
    return moved


def _places(blocks: Blocks, width: int, where: str) -> list[slice]:
    free = width - sum(block.size or 0 for block in blocks)
    sizes = [free if block.size is None else block.size for block in blocks]
    whole = all(n >= 1 and n % (block.width or 1) == 0 for n, block in zip(sizes, blocks, strict=True))
    if sum(sizes) != width or not whole:
        what, expected = f"contributions of {width} numbers", "as many as the blocks of the part have"
        raise MechanismError(what, where=where, expected=expected, remedy="declare the blocks of what units add")
    return [slice(a, b) for a, b in itertools.pairwise(itertools.accumulate(sizes, initial=0))]


def _shorten(part: Float64, longest: float) -> None:
    norms = np.sqrt(np.einsum("ud,ud->u", part, part))
    part *= np.where(norms > longest, longest / np.maximum(norms, 1e-300), 1.0)[:, None]


def _order(width: int) -> int:
    n = (math.isqrt(8 * width + 1) - 1) // 2
    return n if n * (n + 1) // 2 == width else 0  # rows of a triangle of so many numbers; of none 0


def _are_grams(triangles: Float64, width: int) -> npt.NDArray[np.bool_]:
    n = _order(width)
    i, j = np.triu_indices(n)
    matrices = np.zeros((len(triangles) * (triangles.shape[1] // width), n, n))
    matrices[:, i, j] = matrices[:, j, i] = triangles.reshape(-1, width) / np.where(i == j, 1.0, math.sqrt(2))
    matrices += (TOLERANCE / n * np.abs(np.trace(matrices, axis1=1, axis2=2)))[:, None, None] * np.eye(n)
    return np.asarray(_have_roots(matrices).reshape(len(triangles), -1).all(axis=1))


def _have_roots(matrices: Float64) -> npt.NDArray[np.bool_]:
    good = np.asarray(~matrices.any(axis=(1, 2)))
    left: Sequence[npt.NDArray[np.int64]] = [np.flatnonzero(~good)]
    while left:
        halves = []
        for those in left:
            try:
                np.linalg.cholesky(matrices[those])
                good[those] = True
            except np.linalg.LinAlgError:
                halves += np.array_split(those, 2) if len(those) > 1 else []
        left = halves
    return good
