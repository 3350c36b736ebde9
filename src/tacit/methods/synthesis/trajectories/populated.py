"""Where people are, as the released histograms tell it: what is drawn elsewhere is drawn again.

A denoiser that learned from many worlds goes by the histograms of this one, but not always: in narrow mazes some of its
fragments pass through walls. The histograms of observations show where nobody is, so that such fragments are known, and
others can be drawn in their place: post-processing, at no cost in privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from tacit.methods.synthesis.histograms import Floats, Table, codes_of
from tacit.methods.synthesis.raking import Raking

DEVIATIONS = 1.0
"""Of a share's noise: a bin with less may be one where nobody is."""
LOST = 0.01
"""Share of a table's rows that may lie in bins called empty, as far as the noise lets it be known."""
TRIES = 3
"""How often at most something is drawn again."""


@dataclass(frozen=True, eq=False)
class Populated:
    """Bins of observations with somebody in them.

    Args:
        tables: those of `Raking.tables` that are of observations alone.
        somebody: for each of them, [bins] whether anybody is there.
    """

    tables: tuple[Table, ...]
    somebody: tuple[NDArray[np.bool_], ...]

    @classmethod
    def of(cls, raking: Raking, shares: Sequence[Floats], deviation: float) -> Populated:
        """From the noisy shares of the rows in all tables, and their noise (`Raking.shares`)."""
        told = [
            (table, ~empty(share, deviation))
            for table, share in zip(raking.tables, shares, strict=True)
            if all(axis.column == "observations" for axis in table)
        ]
        return cls(tuple(table for table, _ in told), tuple(share for _, share in told))

    def elsewhere(self, observations: Tensor) -> Tensor:
        """[...] whether raw observations [..., d] or [...] are where nobody is."""
        seen = observations.cpu().numpy()
        shape = observations.shape[:-1] if observations.is_floating_point() else observations.shape
        rows = {"observations": seen, "rewards": np.zeros(shape)}
        found = np.zeros(shape, np.bool_)
        for code, somebody in zip(codes_of(self.tables, rows), self.somebody, strict=True):
            found |= ~somebody[code]
        return torch.from_numpy(found).to(observations.device)


def empty(share: Floats, deviation: float) -> NDArray[np.bool_]:
    """[bins] the bins of a table in which nobody is: those with least, as many as hold no more than `LOST` of the rows.

    What they hold is what their noisy shares add up to, less what they would add up to if nobody were there (normals
    that are below the largest of them), and two standard deviations more.
    """
    order = np.argsort(share)
    least, count = share[order], np.arange(1, len(share) + 1)
    nobody = -deviation * np.exp(norm.logpdf(least / deviation) - norm.logcdf(least / deviation))
    held = np.cumsum(least) - count * nobody + 2 * deviation * np.sqrt(count)
    fit = np.flatnonzero((held <= LOST) & (least <= DEVIATIONS * deviation))
    found = np.zeros(len(share), np.bool_)
    found[order[: fit[-1] + 1 if len(fit) else 0]] = True
    return found


def drawn_again(
    draw: Callable[[Tensor], tuple[Tensor, ...]],
    missed: Callable[[Tensor, tuple[Tensor, ...]], Tensor],
    everyone: Tensor,
) -> tuple[Tensor, ...]:
    """What is drawn for everyone, again for whom something is missed, up to `TRIES` times; the best is kept.

    Args:
        draw: [n] whose -> tensors [n, ...].
        missed: (whose [n], what was drawn for them) -> [n] how much of it is where nobody is.
        everyone: [B] 0, ..., B - 1.
    """
    found = draw(everyone)
    worst = missed(everyone, found)
    for _ in range(TRIES):
        again = everyone[worst > 0]
        if not len(again):
            break
        others = draw(again)
        count = missed(again, others)
        better = count < worst[again]
        worst[again[better]] = count[better]
        for one, other in zip(found, others, strict=True):
            one[again[better]] = other[better]
    return found
