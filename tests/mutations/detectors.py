"""Detectors of privacy mistakes: each passes on the real code and raises an AssertionError where it sees a mistake.

Every detector works from outside, through the doors of a fresh vault in a folder of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bit_detectors import BIT_DETECTORS
from consensus_detectors import CONSENSUS_DETECTORS
from federated_detectors import FEDERATED_DETECTORS
from figure_detectors import FIGURE_DETECTORS
from fold_detectors import FOLD_DETECTORS
from gaussian_detectors import GAUSSIAN_DETECTORS
from identity_detectors import IDENTITY_DETECTORS
from improvement_detectors import IMPROVEMENT_DETECTORS
from learning_detectors import LEARNING_DETECTORS
from ledger_detectors import LEDGER_DETECTORS
from level_detectors import LEVEL_DETECTORS
from online_detectors import correlated_noise_law, neighbours_of_meetings
from paper_detectors import PAPER_DETECTORS
from people_detectors import PEOPLE_DETECTORS
from price_detectors import PRICE_DETECTORS
from removal_detectors import REMOVAL_DETECTORS
from round_detectors import ROUND_DETECTORS
from scipy import stats
from selection_detectors import SELECTION_DETECTORS
from shard_detectors import SHARD_DETECTORS
from structured_detectors import STRUCTURED_DETECTORS
from table_detectors import TABLE_DETECTORS
from tie_detectors import TIE_DETECTORS
from torch import Tensor, nn
from vault_cases import (
    GivenParts,
    Named,
    Rewards,
    Silent,
    open_vault,
    own_callbacks,
    priced,
    records,
    told_apart_by_rewards,
    unit_of,
)
from vote_detectors import VOTE_DETECTORS

from tacit.errors import BudgetExceeded, MechanismError, PlanError, PlanExhausted
from tacit.evaluation.lower_bounds import audit
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault

RARE = 1e-7  # p-values below this are no accident
OTHERS, CANARY = [[-0.5], [-0.5, -0.5]], [10.0, 10.0, 10.0]
POPULATION = 10


@dataclass(frozen=True)
class Zeros:
    """Contributions of zero: what the door releases is its noise."""

    size: int

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.zeros((len(rows["mask"]), self.size))


@dataclass(frozen=True)
class Linear:
    """A loss whose gradient is (scale * the unit's mean reward, 0, ..., 0): `nn.Linear(size, 1)` without a bias."""

    scale: float
    size: int

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        reward = self.scale * (rows["rewards"] * rows["mask"]).sum(1) / rows["mask"].sum(1).clamp(min=1)
        out: Tensor = model(torch.nn.functional.pad(reward[:, None], (0, self.size - 1)))[:, 0]
        return out


@dataclass(frozen=True)
class Wild:
    """The unit's reward, but NaN, inf and overflowing vectors for rewards of 1, 2 and 3."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].astype(np.float64)
        return np.select([reward == 1, reward == 2, reward == 3], [np.nan, np.inf, 1.7e308], reward)


@dataclass(frozen=True)
class WildLoss:
    """As `Wild`, for gradients: the inputs of three units are NaN, inf and overflowing."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        x = rows["rewards"][:, :1]
        for reward, value in ((1.0, math.nan), (2.0, math.inf), (3.0, 3e38)):
            x = torch.where(x == reward, torch.full_like(x, value), x)
        out: Tensor = model(x)[:, 0]
        return out


@dataclass(frozen=True)
class Centred:
    """Contributions centred over the batch: every unit moves all others."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["rewards"][:, :1] - rows["rewards"].mean()


@dataclass(frozen=True)
class Breaking:
    """Has no memory for the private rows (whose first reward is 7.25), and always for decoys."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if (rows["rewards"] == 7.25).any():
            raise MemoryError
        return rows["rewards"][:, :1]


Release = Callable[[Vault, Run, float], np.ndarray]


def by_sum(vault: Vault, run: Run, scale: float) -> np.ndarray:
    return vault.noisy_sum(run, "sum", Rewards(scale))[0]


def by_gradient(vault: Vault, run: Run, scale: float) -> np.ndarray:
    return vault.noisy_gradient(run, "sum", [nn.Linear(4, 1, bias=False)], Linear(scale, 4))[0].numpy()


def _neighbours(folder: Path, release: Release) -> None:
    """Full participation, no noise: with and without the canary, sums differ by at most the clip, step by step."""
    sums = []
    for name, units in (("all", [*OTHERS, CANARY]), ("fewer", OTHERS)):
        vault = open_vault(folder, units, noise=Silent(), unit=unit_of(POPULATION), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, rows_per_unit=2))
        sums.append([release(vault, run, scale).astype(np.float64) * POPULATION for scale in (1e-3, 1.0, 1e3)])
        vault.ledger.close()
    for step, (with_canary, without) in enumerate(zip(*sums, strict=True)):
        moved = np.linalg.norm(with_canary - without)
        assert moved <= 1.0 + 2**-9, f"one unit moved step {step} by {moved:.3g} clips"


def neighbours_of_a_sum(folder: Path) -> None:
    _neighbours(folder, by_sum)


def neighbours_of_a_gradient(folder: Path) -> None:
    _neighbours(folder, by_gradient)


def _standard_normal(draws: np.ndarray) -> None:
    """Steps x coordinates of independent N(0, 1): the law, no step twice, no correlation of steps or coordinates."""
    assert np.isfinite(draws).all(), "the noise is not finite"
    flat = draws.ravel()
    assert len(np.unique(draws, axis=0)) > 0.99 * len(draws), "noise is drawn twice"
    assert stats.kstest(flat, "norm", method="asymp").pvalue > RARE, (
        f"the noise has standard deviation {flat.std():.3f}"
    )
    for axis, shifted in (("steps", draws[1:] * draws[:-1]), ("coordinates", draws[:, 1:] * draws[:, :-1])):
        z = abs(shifted.sum()) / math.sqrt(shifted.size)
        assert z < stats.norm.isf(RARE), f"the noise is correlated between {axis}"


@own_callbacks()
def noise_law(folder: Path) -> None:
    """What both doors release when contributions are zero, and when the sample is empty, is N(0, (sigma C)^2)."""
    sigma, clip, rate, steps = 1.5, 0.5, 1.0, 60
    vault = open_vault(folder, [*OTHERS, CANARY], unit=unit_of(POPULATION))
    unit = POPULATION / (sigma * clip)
    run = vault.reserve(priced(vault, noise_multiplier=sigma, clip_norm=clip, sampling_rate=rate, steps=2 * steps))
    _standard_normal(np.array([vault.noisy_sum(run, "sum", Zeros(32))[0] for _ in range(steps)]) * rate * unit)
    model = nn.Linear(64, 1, bias=False)
    draws = [vault.noisy_gradient(run, "sum", [model], Linear(0.0, 64))[0].numpy() for _ in range(steps // 2)]
    _standard_normal(np.array(draws) * rate * unit)
    run = vault.reserve(priced(vault, noise_multiplier=sigma, clip_norm=clip, sampling_rate=1e-6, steps=20))
    draws = [vault.noisy_sum(run, "sum", Zeros(32))[0] for _ in range(10)]
    draws += [vault.noisy_gradient(run, "sum", [nn.Linear(32, 1, bias=False)], Linear(1.0, 32))[0].numpy()]
    _standard_normal(np.array(draws) * 1e-6 * unit)


@own_callbacks()
def sampler_law(folder: Path) -> None:
    """Every subset of four units is a step's sample with its Poisson probability, independently from step to step."""
    rate, steps = 0.4, 600
    vault = open_vault(folder, [[float(i)] for i in range(4)], noise=Silent(), unit=unit_of(4))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, sampling_rate=rate, steps=steps, clip_norm=1.0))
    counts = np.array([vault.noisy_sum(run, "sum", Named(4))[0] for _ in range(steps)]) * rate * 4
    joined = np.rint(counts)
    assert np.isin(joined, (0, 1)).all(), "a unit joined twice, or counts otherwise than once"
    codes = (joined @ [1, 2, 4, 8]).astype(int)
    expected = np.array([rate ** sum(s) * (1 - rate) ** (4 - sum(s)) for s in itertools.product((0, 1), repeat=4)])
    seen = np.bincount(codes, minlength=16)  # codes read the subsets from the other end: the probabilities agree
    assert stats.chisquare(seen, steps * expected).pvalue > RARE, "the subsets do not have their Poisson probability"
    together = (joined[1:] == joined[:-1]).mean()
    chance = rate**2 + (1 - rate) ** 2
    error = math.sqrt(chance * (1 - chance) / (4 * (steps - 1)))
    assert abs(together - chance) < stats.norm.isf(RARE) * error, "successive samples depend on each other"


def neighbours_of_halves(folder: Path) -> None:
    """The first one leaves, with an id or without: all others stay in their half, and one half's sum does not move."""
    part = PoissonSum(name="half", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0)
    halves = tuple(dataclasses.replace(part, name=f"half {fold}", fold=fold) for fold in (0, 1))
    for named in (True, False):
        sums = []
        with Ledger(folder / f"{named}.ledger", unit_of(100), epsilon=1e6, delta=1e-3, composition=SUM) as ledger:
            for clip, present in ((1.0, range(40)), (1.5, range(1, 40))):  # two plans under one ledger
                own = tuple(dataclasses.replace(half, clip_norm=clip) for half in halves)
                data = told_apart_by_rewards([[i / 10] for i in present], present if named else None)
                vault = Vault(data, ledger, noise=Silent())
                run = vault.reserve(plans.account(GivenParts(own), unit=vault.unit, delta=1e-4))
                sums.append([vault.noisy_sum(run, half.name, Named(10))[0] * 100 for half in own])
        moved = sorted(float(np.linalg.norm(a - b)) for a, b in zip(*sums, strict=True))
        assert moved[0] < 0.01, "both halves change when one unit leaves"
        assert moved[1] <= 1.0 + 2**-7, f"one unit moved its half by {moved[1]:.3g} clips"


@own_callbacks()
def fixed_size_law(folder: Path) -> None:
    """Every pair of four places is a step's sample equally often, and no place twice."""
    steps = 600
    unit = unit_of(4, "replace_one")
    part = FixedSizeSum(name="sum", steps=steps, batch_size=2, population=4, clip_norm=1.0, noise_multiplier=10.0)
    with Ledger(folder / "a.ledger", unit, epsilon=1e6, delta=0.1, composition=SUM) as ledger:
        vault = Vault(records([[float(i)] for i in range(4)]), ledger, noise=Silent())
        run = vault.reserve(plans.account(GivenParts((part,)), unit=unit, delta=0.05))
        joined = np.rint(np.array([vault.noisy_sum(run, "sum", Named(4))[0] for _ in range(steps)]) * 2)
    assert (joined.sum(1) == 2).all(), "the sample has another size"
    assert joined.max() == 1, "a place was drawn twice"
    seen = np.bincount((joined @ [1, 2, 4, 8]).astype(int), minlength=16)[[3, 5, 6, 9, 10, 12]]
    assert stats.chisquare(seen).pvalue > RARE, "the pairs are not equally likely"


def replaced_record(folder: Path) -> None:
    """What is certified for one of 1,000 places drawn 1,000 times is above what a replaced record reaches (3.2)."""
    part = FixedSizeSum(name="sum", steps=1_000, batch_size=1, population=1_000, clip_norm=1.0, noise_multiplier=1.0)
    plan = plans.account(GivenParts((part,)), unit=unit_of(1_000, "replace_one"), delta=1e-5)
    assert plan.epsilon > 3.2, f"certified {plan.epsilon:.3g}, which a replaced record exceeds"


def hostile_rows(folder: Path) -> None:
    """Units whose contribution is NaN, inf or overflows count as zero, and change nobody else's by a bit."""
    sums = []
    for name, units in (("hostile", [[0.5], [1.0], [2.0], [3.0]]), ("tame", [[0.5]])):
        vault = open_vault(folder, units, noise=Silent(), unit=unit_of(POPULATION), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        gradient = vault.noisy_gradient(run, "sum", [nn.Linear(1, 1, bias=False)], WildLoss())[0].numpy()
        with np.errstate(all="ignore"):
            sums.append((vault.noisy_sum(run, "sum", Wild())[0], gradient))
    for hostile, tame in zip(*sums, strict=True):
        assert np.array_equal(hostile, tame), "a hostile unit changes what is released"


def step_counter(folder: Path) -> None:
    """A plan of three steps releases three, in one life or several; an interrupted one is claimed and lost."""
    units = [[7.25]]
    vault = open_vault(folder, units, unit=unit_of(POPULATION))
    plan = priced(vault, noise_multiplier=1.0, steps=3)
    run = vault.reserve(plan)
    released = []

    def again() -> None:
        nonlocal vault, run
        vault.ledger.close()
        vault = Vault(records(units), Ledger(folder / "a.ledger"))
        run = vault.reserve(plan)

    try:
        vault.noisy_sum(run, "sum", Breaking())
    except MechanismError:
        assert vault.ledger.claimed(run.plan_id, "sum") == 1, "a step that began is not claimed"
    again()
    for _ in range(5):
        try:
            step = vault.next_step(run, "sum")
            vault.noisy_sum(run, "sum", Rewards())
        except PlanExhausted:
            break
        released.append(step)
        again()
    assert len(set(released)) == len(released), "a step was released twice"
    assert len(released) <= 2, "more steps ran than the plan has"


def resumed_twice(folder: Path) -> None:
    """Two processes that go on from the same place draw different noise and other samples."""
    lives = []
    for name in ("one", "two"):
        vault = open_vault(folder, [[1.0]] * 8, unit=unit_of(POPULATION), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=8, sampling_rate=0.5))
        sums = [vault.noisy_sum(run, "sum", Zeros(4))[0] for _ in range(4)]
        gradients = [by_gradient(vault, run, 0.0) for _ in range(4)]
        lives.append({tuple(vector) for vector in (*sums, *gradients)})  # single numbers lie on a grid and may agree
    assert not lives[0] & lives[1], "two lives of a run drew the same noise"


@own_callbacks()
def worst_case_canary(folder: Path) -> None:
    """An audit of single steps with a canary of full norm stays below the certified epsilon."""
    delta, steps, worlds = 1e-3, 450, []
    for name, units in (("without", OTHERS), ("with", [*OTHERS, CANARY])):
        vault, scores = open_vault(folder, units, unit=unit_of(POPULATION), name=name), []
        for clip in (1.0, 2.0):
            run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=steps, rows_per_unit=2, clip_norm=clip))
            scores += [by_sum(vault, run, 1e3)[0] / clip for _ in range(steps)]
        worlds.append(scores)
    event = priced(vault, noise_multiplier=1.0, steps=1).parts()[0].event
    promised = accounting.epsilon(event, delta=delta, relation="add_or_remove").epsilon
    found = audit(*worlds, delta=delta, confidence=1 - 1e-4)
    assert found.gaussian_epsilon <= promised, f"epsilon is at least {found.gaussian_epsilon:.2f}, not {promised:.2f}"
    assert found.epsilon <= promised


def coupling_is_refused(folder: Path) -> None:
    """A callback in which units meet is refused before a step is claimed."""
    vault = open_vault(folder, [[1.0]] * 7, unit=unit_of(POPULATION))
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    try:
        vault.noisy_sum(run, "sum", Centred())
    except MechanismError:
        assert not vault.has_started(run)
        return
    raise AssertionError("Centred was let in")


def budget(folder: Path) -> None:
    """Plans that cost more than they say, or more than is left, are refused and cost nothing."""
    vault = open_vault(folder, [[1.0]], unit=unit_of(POPULATION), epsilon=20.0)
    plan = priced(vault, noise_multiplier=1.0, steps=1)
    try:
        vault.reserve(dataclasses.replace(plan, noise_multiplier=0.5))
    except PlanError:
        pass
    else:
        raise AssertionError("a plan was admitted that promises more than it keeps")
    refused = 0
    for number in range(8):
        try:
            vault.reserve(dataclasses.replace(plan, clip_norm=1.0 + number))
        except BudgetExceeded:
            refused += 1
    assert refused, "the ledger admits more than its budget"
    assert vault.ledger.spent()[0] <= 20.0


DETECTORS: Sequence[Callable[[Path], None]] = (
    neighbours_of_a_sum,
    neighbours_of_a_gradient,
    noise_law,
    sampler_law,
    neighbours_of_halves,
    *IDENTITY_DETECTORS,
    fixed_size_law,
    replaced_record,
    hostile_rows,
    step_counter,
    resumed_twice,
    worst_case_canary,
    coupling_is_refused,
    budget,
    neighbours_of_meetings,
    correlated_noise_law,
    *BIT_DETECTORS,
    *CONSENSUS_DETECTORS,
    *FEDERATED_DETECTORS,
    *FOLD_DETECTORS,
    *GAUSSIAN_DETECTORS,
    *TABLE_DETECTORS,
    *LEARNING_DETECTORS,
    *TIE_DETECTORS,
    *FIGURE_DETECTORS,
    *PEOPLE_DETECTORS,
    *STRUCTURED_DETECTORS,
    *LEDGER_DETECTORS,
    *REMOVAL_DETECTORS,
    *PAPER_DETECTORS,
    *ROUND_DETECTORS,
    *SELECTION_DETECTORS,
    *SHARD_DETECTORS,
    *VOTE_DETECTORS,
    *PRICE_DETECTORS,
    *IMPROVEMENT_DETECTORS,
    *LEVEL_DETECTORS,
)
