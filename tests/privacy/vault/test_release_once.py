"""The door `release_once`: noisy histograms against exact counts, their noise law, and refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from vault_cases import GivenParts, Silent, open_vault, priced, unit_of

from tacit.errors import MechanismError, PlanError, PlanExhausted
from tacit.privacy.accounting.events import GaussianEvent
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram, NoisyMaximum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label

REWARD = Axis("rewards", 0, (-10.0, 0.0, 5.0, 10.0))


def histogram(**fields: object) -> NoisyHistogram:
    return NoisyHistogram(**{"name": "bins", "axes": (REWARD,), "noise_multiplier": 1.0, **fields})  # type: ignore[arg-type]


def test_counts_are_exact_without_noise(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[-5.0, 7.0], [1.0], [1.0], [10.0]], noise=Silent(), unit=unit_of(10))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, once=(histogram(rows_per_unit=2),)))
    assert vault.release_once(run, "bins")[0] * 10 == pytest.approx([0.5, 2.0, 1.5], abs=1e-3)
    with pytest.raises(PlanExhausted):
        vault.release_once(run, "bins")


def test_noise_has_the_stated_law(tmp_path: Path) -> None:
    edges = tuple(np.linspace(-4, 4, 2001))
    axes = (Axis("observations", 0, edges), Axis("next_observations", 0, edges))
    vault = open_vault(tmp_path, [[0.0]], unit=unit_of(10))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, once=(histogram(axes=axes, noise_multiplier=3.0),)))
    values = vault.release_once(run, "bins")[0] * 10 / (3.0 * np.sqrt(2))
    assert stats.kstest(np.sort(values)[2:-2], "norm").pvalue > 1e-8


def test_one_unit_moves_it_by_at_most_its_clip(tmp_path: Path) -> None:
    axes = (REWARD, Axis("rewards", 0, (-10.0, 2.0, 10.0)))
    sums = []
    for name, units in (("all", [[1.0, 9.0, -3.0], [2.0]]), ("fewer", [[2.0]])):
        vault = open_vault(tmp_path, units, noise=Silent(), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, once=(histogram(axes=axes, rows_per_unit=3),)))
        sums.append(vault.release_once(run, "bins")[0] * vault.unit.size)
    assert np.linalg.norm(sums[0] - sums[1]) <= np.sqrt(2)
    assert histogram().event == GaussianEvent(1.0, math.sqrt(2))


def test_a_unit_in_the_place_of_another_moves_it_by_the_root_of_two_clips(tmp_path: Path) -> None:
    axes, sums = (REWARD, Axis("rewards", 0, (-10.0, 2.0, 10.0))), []
    for name, first in (("one", [9.0, 9.0]), ("other", [-9.0])):
        vault = open_vault(tmp_path, [first, [2.0]], noise=Silent(), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, once=(histogram(axes=axes, rows_per_unit=3),)))
        sums.append(vault.release_once(run, "bins")[0] * vault.unit.size)
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(math.sqrt(2) * math.sqrt(2), rel=1e-2)


def test_no_digits_of_the_sum_come_out_below_those_of_the_noise(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]] * 37, unit=unit_of(128))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, once=(histogram(noise_multiplier=3.0),)))
    grid = 2.0**-9
    cells = vault.release_once(run, "bins") * 128 / grid
    np.testing.assert_array_equal(cells, np.rint(cells))


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    for names in (("bins", "bins"), ("sum",)):
        once = tuple(histogram(name=name, noise_multiplier=5.0 + i) for i, name in enumerate(names))
        with pytest.raises(PlanError, match="share a name"):
            vault.reserve(priced(vault, noise_multiplier=1.0, once=once))
    assert vault.ledger.spent() == (0.0, 0.0)


@dataclass(frozen=True)
class Foreign(NoisyHistogram):
    """A mechanism from outside tacit."""


def test_a_mechanism_without_a_proof_page_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    foreign = Foreign(name="bins", axes=(REWARD,), noise_multiplier=1.0)
    with pytest.raises(PlanError, match="a kind of its own"):
        vault.reserve(priced(vault, noise_multiplier=1.0, once=(foreign,)))


def test_edges_must_increase() -> None:
    with pytest.raises(PlanError, match="do not increase"):
        Axis("rewards", 0, (0.0, 0.0))


@dataclass(frozen=True)
class Crowd:
    """Scores that depend on how many units there are."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        more = np.full(len(rows["mask"]), float(len(rows["mask"]) % 2))
        return {"scores": np.stack([more, 1 - more], axis=1)}


@dataclass(frozen=True)
class Signs:
    """Scores of a unit's own first reward."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        positive = (rows["rewards"][:, 0] > 0).astype(float)
        return {"scores": np.stack([positive, 1 - positive], axis=1)}


def test_what_a_mechanism_asks_of_a_callback_is_tried_and_named(tmp_path: Path) -> None:
    for number, scores in enumerate((Crowd(), Signs())):
        vault = open_vault(tmp_path, [[1.0], [2.0]], name=f"{number}")
        best = NoisyMaximum(name="best", scores=scores, candidates=2, epsilon=1.0, rows_per_unit=1)
        run = vault.reserve(plans.account(GivenParts((best,)), unit=vault.unit, delta=1e-4))
        if scores == Crowd():
            with pytest.raises(MechanismError, match="another unit's rows do"):
                vault.release_once(run, "best")
            assert not vault.has_started(run)
        else:
            assert vault.release_once(run, "best")[0, 0] in (0, 1)
            certificate = vault.release(run, 0, label=Label((), (), ())).certificate
            assert any("Signs" in assumption for assumption in certificate.lines("assumptions"))
