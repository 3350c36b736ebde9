"""A plan's own mechanisms with a crowd of canaries that share nothing: one run is as many runs as there are canaries.

The plan is a method's, with its default options; its parts go through the real vault. Every canary adds as much as the
part allows, to a coordinate of its own, and nobody else is there: samples and noise of different canaries are then
independent, and each coordinate is a run of the mechanism by itself. Half of the canaries are in, by coins. What a
method makes of the sums is left out: `audits.library` audits whole methods.

There are two statistics of each canary: the log-likelihood ratio of its coordinate, and what the last digits of small
released numbers tell (I. Mironov, "On significance of the least significant bits", CCS 2012): where noise happens to be
close to minus the canary, their sum ends in zeros if floating point numbers were added, unless a lattice hides them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.audits.cases import Asked, Floats, Present, Seen, ledgers
from tacit.evaluation.audits.mechanisms import Mechanisms
from tacit.evaluation.audits.scoring import ratios
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.base import calibrated
from tacit.privacy.mechanisms.marginals import Marginal, Marginals
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

DIGITS = 24
"""Of a float32: what is a power of two apart from the canary by more than so many is no digit of it."""
CROWD = 2_048
"""Canaries of one run."""
LOUD = 1e3
"""How much louder than its bound a canary is before it is clipped."""


@dataclass(frozen=True)
class Own:
    """What a canary adds to a sum: more than the clip, at the coordinate of its name."""

    size: int
    clip_norm: float

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> Floats:
        """[U, size]."""
        own = rows["observations"][:, :1] == np.arange(self.size)
        return np.where(own, LOUD * self.clip_norm, 0.0)


@dataclass(frozen=True)
class OwnGradient:
    """The same as the gradient of an embedding with one number for each canary."""

    clip_norm: float

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Nothing is random."""
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """[U]."""
        own: Tensor = model(rows["observations"].flatten(1)[:, :1])[:, 0, 0]
        return LOUD * self.clip_norm * own


def run(unit: Unit, gradients: frozenset[str], plan: Mechanisms, asked: Asked) -> Seen:
    """One run with a crowd."""
    data, canaries = crowd(asked.present, plan.queries), len(asked.present)
    everybody = Reader(crowd(np.ones(canaries, np.bool_), plan.queries), SecretNoise.for_tests(asked.seed))
    loud, digits = np.zeros(canaries), np.zeros(canaries)
    with ledgers(unit, 1) as ((ledger,), _):
        vault = Vault(data, ledger, noise=asked.noise)
        reserved = vault.reserve(plan)
        for part in plan.queries:
            inside = np.ones(canaries, np.bool_)
            if part.fold is not None:  # known to anybody who knows the canary: a hash of its id
                inside = everybody.folds(ledger.dataset_id) == part.fold
            adds, scale, rate = heard(part)
            for total in _answers(vault, reserved, part, canaries, part.name in gradients):
                loud += inside * ratios(total[:, None], np.full((canaries, 1), adds), rate, scale)
                digits += inside * trailing(total, adds, rate)
    return Seen(loud[None], np.zeros((1, 0)), digits[None])


def heard(part: Any) -> tuple[float, float, float]:
    """What a canary adds to one answer, the scale of the noise there, and how probable it is that it takes part."""
    if isinstance(part, Marginals):
        return 1.0, calibrated(part.noise_multiplier, part.name) / math.sqrt(part.steps), 1.0
    return part.clip_norm * (1 - SLACK), part.spread, part.sampling_rate


def trailing(total: Floats, adds: float, rate: float) -> Floats:
    """[M], log-likelihood ratios of the last digits of released sums [M], for canaries that add `adds` at this rate."""
    # A sum that is 2^k times smaller than the canary is a multiple of the canary's last digit if it holds it, and with
    # probability 2^-k if not.
    top = math.frexp(adds)[1]
    zeros = top - np.frexp(total)[1]
    small = (zeros >= 1) & (total != 0)
    whole = np.mod(total, 2.0 ** (top - DIGITS - 1)) == 0
    chance = 2.0 ** -np.clip(zeros, 0, DIGITS).astype(np.float64)
    seen = np.log((rate + (1 - rate) * chance) / chance)
    return np.where(small, np.where(whole, seen, math.log(max(1 - rate, 1e-9))), 0.0)


def crowd(present: Present, parts: Sequence[Any]) -> Trajectories:
    """The canaries that are in; a row says who somebody is."""
    # Each has as many episodes of one row as the parts leave out, and one more.
    episodes = 1 + max(part.held_out for part in parts)
    names = np.repeat(np.flatnonzero(present), episodes)
    who = Discrete(len(present))
    return Trajectories.from_arrays(
        observations=names,
        actions=np.zeros(len(names), np.int64),
        rewards=np.zeros(len(names), np.float32),
        next_observations=names,
        terminations=np.ones(len(names), np.bool_),
        unit_ids=names,
        episode_ids=np.arange(len(names)),
        spec=PublicSpec(observation=who, action=Discrete(2), reward=Box((-1.0,), (1.0,)), source="declared"),
        simulated=True,
    )


def _answers(vault: Vault, run: Run, part: Any, canaries: int, gradient: bool) -> Iterator[Floats]:
    """All sums [M] that the part ever releases."""
    if isinstance(part, Marginals):
        yield vault.noisy_marginals(run, part.name, Marginal((0,), part.steps))
        return
    assert isinstance(part, PoissonSum)
    expected, model = part.expected(vault.unit), nn.Embedding(canaries, 1)
    for _ in range(part.steps):
        if gradient:
            mean = vault.noisy_gradient(run, part.name, [model], OwnGradient(part.clip_norm))[0]
            yield mean.double().numpy() * expected
        else:
            yield vault.noisy_sum(run, part.name, Own(canaries, part.clip_norm))[0] * expected
