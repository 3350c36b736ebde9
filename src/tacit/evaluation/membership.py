"""Membership inference on a released denoiser by its loss: does it denoise training rows better than fresh ones?

White-box, after T. Matsumoto, T. Miura & N. Yanai, "Membership Inference Attacks against Diffusion Models"
(arXiv:2302.03262), which PrivORL's table VI uses: a row's weighted denoising loss at a fixed noise level, averaged over
draws, is low where the row was trained on. Noise level and thresholds are chosen on one half of the rows and counted on
the other, so that rates and intervals are those of a test that was fixed beforehand. They hold for independent rows:
where rows come from few trajectories, members and others differ without any model, and intervals are too short.

Looks at real rows and is not differentially private: outside `vault.nonprivate` only for simulated data. What an attack
finds bounds privacy from below and proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from tacit.errors import DataError
from tacit.evaluation.lower_bounds import Rate, rate
from tacit.methods.synthesis.algorithm import Synthesizer
from tacit.methods.synthesis.diffusion import row_losses

Floats = NDArray[np.float64]
LEVELS = (0.05, 0.1, 0.13, 0.2, 0.5, 1.0)
"""Noise levels in standard deviations of a column; the paper's are from 0.10 to 0.13."""
MIN_ROWS = 20
"""Rows of either side: half of them choose, the others count."""


@dataclass(frozen=True)
class Hits:
    """A test at one nominal rate of false alarms."""

    fpr: float  # the rate for which the threshold was chosen
    tpr: Rate  # share of members that were found, on the rows that did not choose it
    false_alarms: Rate  # share of others that were taken for members, on such rows


@dataclass(frozen=True)
class LossAttack:
    """How well members are found."""

    score_index: int  # which of the scores was best on the rows that chose
    hits: tuple[Hits, ...]  # one a nominal rate of false alarms
    auc: float  # area under the curve of the chosen score on the other rows; 1/2 is chance


@torch.no_grad()
def losses(
    synthesizer: Synthesizer,
    columns: Mapping[str, NDArray[Any]],
    *,
    levels: tuple[float, ...] = LEVELS,
    draws: int = 64,
    seed: int = 0,
    batch: int = 256,
) -> Floats:
    """Denoising losses of rows at fixed noise levels, the same `draws` noises for every row.

    Args:
        synthesizer: released, or the public starting point.
        columns: rows as of `Encoder.encode`, [T, ...] by name.
        levels: S noise levels, in encoded units (standard deviations of a column).
        draws: how many noises a row and level are averaged over.
        seed: of the noises.
        batch: rows at a time.

    Returns:
        [S, T].
    """
    model = synthesizer.model()
    encoder = model.encoder
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, encoder.size, generator=generator)
    rows = {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in columns.items()}
    count = len(columns["rewards"])
    clean = encoder.encode(rows, torch.zeros(count, encoder.bounded_size))
    by_level = np.empty((len(levels), count))
    for number, level in enumerate(levels):
        for first in range(0, count, batch):
            chunk = clean[first : first + batch]
            sigma = torch.full((len(chunk), draws), level)
            by_level[number, first : first + batch] = row_losses(model, chunk, sigma, noise.expand(len(chunk), -1, -1))
    return by_level


def attack(
    members: Floats, others: Floats, *, fprs: tuple[float, ...] = (0.1, 0.01), confidence: float = 0.95, seed: int = 0
) -> LossAttack:
    """Tell members by the best of several scores.

    Args:
        members: [S, M] scores of rows that were trained on, higher where a row seems to be one (minus its loss, say).
        others: [S, N] scores of rows of the same distribution that were not.
        fprs: nominal rates of false alarms.
        confidence: of the intervals.
        seed: of the halves.

    Raises:
        DataError: the scores do not fit, are not finite, or come from fewer than 20 rows of either side.
    """
    member_scores, other_scores = np.asarray(members, np.float64), np.asarray(others, np.float64)
    fits = member_scores.ndim == other_scores.ndim == 2 and len(member_scores) == len(other_scores) > 0
    if (
        not fits
        or min(member_scores.shape[1], other_scores.shape[1]) < MIN_ROWS
        or not np.isfinite([member_scores.sum(), other_scores.sum()]).all()
    ):
        what = "the scores of members and others do not fit"
        expected = f"finite scores [S, M] and [S, N] with M and N of at least {MIN_ROWS}"
        remedy = "pass the same scores of both, a row each"
        raise DataError(what, where="membership.attack", expected=expected, remedy=remedy)
    generator = np.random.default_rng(seed)
    (member_train, member_test), (other_train, other_test) = (
        np.split(generator.permutation(scores, axis=1), [scores.shape[1] // 2], axis=1)
        for scores in (member_scores, other_scores)
    )
    areas = [_area(inside, outside) for inside, outside in zip(member_train, other_train, strict=True)]
    best = int(np.argmax(areas))
    hits = []
    for fpr in fprs:
        threshold = np.quantile(other_train[best], 1 - fpr, method="higher")
        tpr, false_alarms = (
            rate(int((left[best] > threshold).sum()), left.shape[1], confidence=confidence)
            for left in (member_test, other_test)
        )
        hits.append(Hits(fpr, tpr, false_alarms))
    return LossAttack(best, tuple(hits), _area(member_test[best], other_test[best]))


def roc_area(scores: Floats, present: NDArray[np.bool_]) -> float:
    """Area under the curve: how often a present score is above an absent one, ties counting half.

    Raises:
        DataError: nobody is present, or nobody absent.
    """
    having, without = int(present.sum()), int((~present).sum())
    if not having or not without:
        what, expected = "there is only one side to tell", "at least one present and one absent score"
        raise DataError(what, where="attacks", expected=expected, remedy="correct the arguments of the attack")
    above = stats.rankdata(scores.ravel())[present.ravel()].sum() - having * (having + 1) / 2
    return float(above / (having * without))


def _area(members: Floats, others: Floats) -> float:
    present = np.arange(len(members) + len(others)) < len(members)
    return roc_area(np.concatenate([members, others]), present)
