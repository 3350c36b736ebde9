"""Detectors for noisy marginals, the choice among them, and votes of teachers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from vault_cases import GivenParts, Silent, open_vault, own_callbacks, records, unit_of

from tacit.errors import PlanExhausted
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.marginals import Dependence, Marginal, MarginalChoice, Marginals
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram, NoisyMaximum
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault

RARE = 1e-7
REWARD = Axis("rewards", 0, (-10.0, 0.0, 5.0, 10.0))
FINE = Axis("observations", 0, tuple(np.linspace(-4, 4, 3001)))
OTHERS, HEAVY = [[1.0], [-5.0, 7.0]], [7.0, 7.0, 7.0]


@dataclass(frozen=True)
class Reward:
    """A unit's reward."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.asarray(rows["rewards"][:, :1])


@dataclass(frozen=True)
class Counted:
    """Rows counted by reward, in a small table and in a large one."""

    sizes: tuple[int, ...] = (21, 20_001)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        return [np.rint((rows["rewards"] + 10) * scale).astype(int) for scale in (1, 1_000)]


def _admitted(vault: Vault, part: Part) -> Run:
    return vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-5))


def neighbours_of_a_table(folder: Path) -> None:
    """One unit more moves all counts of a marginal by at most 1 together, and the distances by at most 4."""
    part = Marginals(name="cells", steps=2, axes=(REWARD, FINE), noise_multiplier=1.0, rows_per_unit=3)
    answers = []
    for name, units in (("with", [*OTHERS, HEAVY]), ("without", OTHERS)):
        vault = open_vault(folder, units, unit=unit_of(1_000), noise=Silent(), name=name, epsilon=1e9)
        run = _admitted(vault, part)
        counts = vault.noisy_marginals(run, "cells", Marginal((0,), 1))
        answers.append((counts, vault.noisy_marginals(run, "cells", Dependence(((0, 1),), 1))))
    moved = [float(np.abs(one - other).sum()) for one, other in zip(*answers, strict=True)]
    assert moved[0] <= 1.001, f"one unit moves the counts by {moved[0]:.2f}"
    assert moved[1] <= 4.01, f"one unit moves a distance by {moved[1]:.2f}"


def neighbours_of_a_tally(folder: Path) -> None:
    """One unit more moves a sum of counted rows by at most the clip, also where its rows are all alike."""
    part = PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0, rows_per_unit=3)
    sums = []
    for name, units in (("with", [*OTHERS, HEAVY]), ("without", OTHERS)):
        vault = open_vault(folder, units, unit=unit_of(1_000), noise=Silent(), name=f"tally {name}", epsilon=1e9)
        sums.append(vault.noisy_sum(_admitted(vault, part), "sum", Counted())[0] * 1_000)
    moved = float(np.linalg.norm(sums[0] - sums[1]))
    assert moved <= 1.01, f"one unit moves the counts by {moved:.2f} clips"


def noise_of_a_table(folder: Path) -> None:
    """Counts have the noise of the quanta they took, whatever they took, and the quanta end."""
    part = Marginals(name="cells", steps=27, axes=(FINE, REWARD), noise_multiplier=20.0)
    vault = open_vault(folder, [[1.0]], unit=unit_of(1_000))
    run = _admitted(vault, part)
    for quanta in (1, 25):
        noise = vault.noisy_marginals(run, "cells", Marginal((0,), quanta)) * math.sqrt(quanta) / 20.0
        assert stats.kstest(noise, "norm").pvalue > RARE, f"{quanta} quanta: standard deviation {noise.std():.2f}"
    noise = vault.noisy_marginals(run, "cells", Dependence(((0, 1),) * 400, 1)) / (20.0 * 4 * 20)
    assert stats.kstest(noise, "norm").pvalue > RARE, f"distances: standard deviation {noise.std():.2f}"
    try:
        vault.noisy_marginals(run, "cells", Marginal((0,), 1))
    except PlanExhausted:
        return
    raise AssertionError("a budget of quanta has no end")


def law_of_choices(folder: Path) -> None:
    """A marginal is chosen with the probabilities of the exponential mechanism."""
    draws, sigma = 2_000, 6.0
    part = Marginals(name="cells", steps=draws, axes=(REWARD, FINE), noise_multiplier=sigma)
    vault = open_vault(folder, [[1.0]] * 6, unit=unit_of(1_000))
    run = _admitted(vault, part)
    query = MarginalChoice(((0,), (1,)), (np.array([0.0, 6.0, 0.0]), np.zeros(3_000)), (1.0, 1.0), (0.0, 0.0), 1)
    chosen = sum(int(vault.noisy_marginals(run, "cells", query)[0]) for _ in range(draws))
    expected = 1 / (1 + math.exp(-6.0 / sigma))
    assert stats.binomtest(chosen, draws, expected).pvalue > RARE, f"{chosen / draws:.3f}, not {expected:.3f}"


@own_callbacks()
def one_unit_one_teacher(folder: Path) -> None:
    """Another unit in one place moves each count by at most one vote, in every batch; a stopped run does not go on."""
    part = TeacherVotes(
        name="votes", steps=25, queries=64, teachers=12, noise_multiplier=1.0, batch_size=2, learning_rate=0.05
    )
    public, rest = torch.linspace(-10, 10, 64)[:, None], [[float(i % 7 - 3)] for i in range(30)]
    shares = []
    for name, reward in (("low", -10.0), ("high", 10.0)):
        vault = open_vault(
            folder, [*rest, [reward]], unit=unit_of(1_000), noise=SecretNoise.for_tests(4), name=name, epsilon=1e9
        )
        run = _admitted(vault, part)
        shares.append(torch.stack([vault.teacher_votes(run, "votes", Reward(), public) for _ in range(part.steps)]))
    moved = (shares[0] - shares[1]).abs() * part.teachers
    assert float(moved.max()) <= 1.01, f"one unit moves a count by {float(moved.max()):.1f} votes"
    assert float(moved.max()) > 0.5, "no unit teaches anybody"
    _resumed(folder, part, public)


def _resumed(folder: Path, part: TeacherVotes, public: torch.Tensor) -> None:
    vault = open_vault(folder, OTHERS, unit=unit_of(1_000), name="resumed")
    run = _admitted(vault, part)
    vault.teacher_votes(run, "votes", Reward(), public)
    vault.ledger.close()
    with Ledger(folder / "resumed.ledger", vault.unit, epsilon=1e6, delta=0.5 / 1_000, composition=SUM) as ledger:
        again = Vault(records(OTHERS), ledger)
        try:
            again.teacher_votes(again.reserve(run.plan), "votes", Reward(), public)
        except PlanExhausted:
            return
    raise AssertionError("units were dealt to teachers a second time")


def noise_of_a_histogram(folder: Path) -> None:
    """The counts of two columns have noise of the clip's scale, which is the root of two."""
    axes = (FINE, dataclasses.replace(FINE, column="next_observations"))
    part = NoisyHistogram(name="bins", axes=axes, noise_multiplier=3.0)
    vault = open_vault(folder, [[0.0]], unit=unit_of(1_000))
    noise = vault.release_once(_admitted(vault, part), "bins")[0] * 1_000 / (3.0 * math.sqrt(2))
    assert stats.kstest(np.sort(noise)[2:-2], "norm").pvalue > RARE, f"standard deviation {noise.std():.2f}"


@dataclass(frozen=True)
class Loud:
    """A score of thousands for the first of two candidates."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        loud = 1_000.0 * np.abs(rows["rewards"][:, :1])
        return {"scores": np.concatenate([loud, np.zeros_like(loud)], axis=1)}


@own_callbacks()
def scores_of_one_unit(folder: Path) -> None:
    """One unit's scores, whatever they are, make one candidate e^epsilon times as probable as another one."""
    names = [f"best {number}" for number in range(100)]
    field: dict[str, Any] = {"scores": Loud(), "candidates": 2, "epsilon": 0.5, "rows_per_unit": 1}
    parts = tuple(NoisyMaximum(name=name, **field) for name in names)
    vault = open_vault(folder, [[7.0]], unit=unit_of(1_000), epsilon=1e9)
    run = vault.reserve(plans.account(GivenParts(parts), unit=vault.unit, delta=1e-5))
    first = sum(int(vault.release_once(run, name)[0][0]) == 0 for name in names)
    share = math.exp(0.5) / (1 + math.exp(0.5))
    p = stats.binomtest(first, len(names), share).pvalue
    assert p > RARE, f"one unit decides {first} of {len(names)} choices"


TABLE_DETECTORS = (
    neighbours_of_a_table,
    neighbours_of_a_tally,
    noise_of_a_table,
    law_of_choices,
    one_unit_one_teacher,
    noise_of_a_histogram,
    scores_of_one_unit,
)
