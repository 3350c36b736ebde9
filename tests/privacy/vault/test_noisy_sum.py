"""The door `noisy_sum`: sensitivity, noise law, sampler law, steps, replicates and refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from vault_cases import Named, Rewards, Silent, SumPlan, open_vault, priced, records, unit_of

from tacit.errors import BudgetExceeded, DataError, LedgerError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Label, Run
from tacit.privacy.vault.plan import plan_id
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Unit

ragged = st.lists(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=4), min_size=2, max_size=6)
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Hostile:
    """Contributions that are what the reward says: -10 NaN, -9 inf, -8 1e308, -7 a denormal, else the reward."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].astype(np.float64)
        if state is None:  # decoys: ordinary values
            return reward
        wild = np.select(
            [reward == -10, reward == -9, reward == -8, reward == -7], [np.nan, np.inf, 1e308, 5e-324], reward
        )
        return np.concatenate([wild, reward], axis=1)


@given(
    units=ragged, left_out=st.integers(0, 5), rows_per_unit=st.integers(1, 4), clip=st.sampled_from([0.01, 1.0, 50.0])
)
@quick
def test_one_unit_moves_the_sum_by_at_most_the_clip(
    tmp_path_factory: pytest.TempPathFactory, units: list[list[float]], left_out: int, rows_per_unit: int, clip: float
) -> None:
    folder = tmp_path_factory.mktemp("ledgers")
    fewer = [unit for i, unit in enumerate(units) if i != left_out % len(units)]
    sums = []
    for name, present in (("all", units), ("fewer", fewer)):
        vault = open_vault(folder, present, noise=Silent(), name=name)
        plan = priced(vault, noise_multiplier=1.0, clip_norm=clip, rows_per_unit=4 if rows_per_unit > 1 else 1)
        run = vault.reserve(plan)
        present_rows = max(len(unit) for unit in units)
        if rows_per_unit == 1 and present_rows > 1:
            return  # which row is drawn is random: compared in law elsewhere
        sums.append(vault.noisy_sum(run, "sum", Rewards(7.0))[0] * vault.unit.size)
        vault.ledger.close()
    assert np.linalg.norm(sums[0] - sums[1]) <= clip * (1 + 2**-9)  # the sum is rounded to a grid of 2^-10 of the noise


def test_hostile_contributions_count_as_zero_and_touch_nobody_else(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[-10.0], [-9.0], [-8.0], [0.5]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    total = vault.noisy_sum(run, "sum", HostileRewards(), np.ones(1))[0] * vault.unit.size
    assert total == pytest.approx([0.5])


@dataclass(frozen=True)
class HostileRewards:
    """NaN, inf and an overflowing value for rewards of -10, -9 and -8; the reward itself otherwise."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].astype(np.float64)
        return np.select([reward == -10, reward == -9, reward == -8], [np.nan, np.inf, 1.7e308], reward)


@pytest.mark.usefixtures("own_callbacks")
def test_noise_has_the_stated_law_and_the_divisor_is_public(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[0.0]] * 3, unit=unit_of(1000))
    run = vault.reserve(priced(vault, noise_multiplier=2.0, clip_norm=0.5, sampling_rate=0.25, steps=4000))
    draws = np.concatenate([vault.noisy_sum(run, "sum", Rewards())[0] for _ in range(4000)])
    standard = draws * (0.25 * 1000) / (2.0 * 0.5)
    assert stats.kstest(standard, "norm").pvalue > 1e-8
    assert abs(np.corrcoef(standard[:-1], standard[1:])[0, 1]) < 5 / math.sqrt(4000)


@pytest.mark.usefixtures("own_callbacks")
def test_every_unit_joins_with_the_stated_rate_independently(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[float(i)] for i in range(8)], noise=Silent(), unit=unit_of(8))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, sampling_rate=0.3, steps=3000))
    joined = np.array([vault.noisy_sum(run, "sum", Named(8))[0] for _ in range(3000)]) * 0.3 * 8 > 0.5
    assert np.abs(joined.mean(0) - 0.3).max() < 5 * math.sqrt(0.3 * 0.7 / 3000)
    assert np.abs(np.corrcoef(joined.T) - np.eye(8)).max() < 5 / math.sqrt(3000)


def test_an_empty_sample_releases_pure_noise(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[5.0]], unit=unit_of(10))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, sampling_rate=1e-9, steps=50))
    draws = np.array([vault.noisy_sum(run, "sum", Rewards())[0, 0] for _ in range(50)])
    assert (draws != 0).mean() > 0.9  # rounded noise is 0 once in a thousand draws
    assert stats.kstest(draws * 1e-9 * 10, "norm").pvalue > 1e-8


def test_steps_run_out_and_a_second_vault_finds_them_gone(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    plan = priced(vault, noise_multiplier=1.0, steps=3)
    run = vault.reserve(plan)
    for left in (3, 2, 1):
        assert vault.steps_left(run, "sum") == left
        vault.noisy_sum(run, "sum", Rewards())
    with pytest.raises(PlanExhausted):
        vault.noisy_sum(run, "sum", Rewards())
    vault.ledger.close()
    again = Vault(records([[1.0]]), Ledger(tmp_path / "a.ledger"))
    with pytest.raises(PlanExhausted):
        again.noisy_sum(again.reserve(plan), "sum", Rewards())


@pytest.mark.usefixtures("own_callbacks")
def test_replicates_are_independent_and_each_is_paid(tmp_path: Path) -> None:
    unit = unit_of(4)
    ledgers = [Ledger(tmp_path / f"{r}.ledger", unit, epsilon=1e6, delta=0.1, composition=SUM) for r in range(3)]
    vault = Vault(records([[1.0], [1.0], [1.0], [1.0]]), ledgers)
    run = vault.reserve(priced(vault, noise_multiplier=1.0, sampling_rate=0.5, steps=400))
    out = np.array([vault.noisy_sum(run, "sum", Rewards()) for _ in range(400)])
    assert out.shape == (400, 3, 1)
    assert np.abs(out.mean(0) - 1.0).max() < 0.25
    assert np.abs(np.corrcoef(out[:, :, 0].T) - np.eye(3)).max() < 0.25
    assert [ledger.claimed(run.plan_id, "sum") for ledger in ledgers] == [400, 400, 400]


def test_several_ledgers_for_private_records_are_refused(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / f"{r}.ledger", unit_of(), epsilon=1.0, delta=1e-3, composition=SUM) for r in range(2)]
    with pytest.raises(LedgerError, match="each would spend the budget again"):
        Vault(records([[1.0], [2.0]], simulated=False), ledgers)


def test_seeded_noise_voids_the_ledger(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]], noise=SecretNoise.for_tests(1))
    assert vault.ledger.void_reason is not None
    assert "seed" in vault.ledger.void_reason


def test_more_units_than_the_population_are_refused_without_their_number(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        open_vault(tmp_path, [[1.0]] * 7, unit=unit_of(3))
    assert "7" not in str(caught.value)


def test_another_unit_or_an_edited_plan_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    plan = priced(vault, noise_multiplier=1.0)
    with pytest.raises(PlanError, match="the ledger"):
        vault.reserve(priced_for(plan, unit_of(50)))
    with pytest.raises(PlanError, match="edited after calibration"):
        vault.reserve(replaced(plan, noise_multiplier=0.5))
    with pytest.raises(PlanError, match="not calibrated"):
        vault.reserve(SumPlan(noise_multiplier=1.0))


def test_a_plan_over_budget_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]], epsilon=0.5)
    with pytest.raises(BudgetExceeded):
        vault.reserve(priced(vault, noise_multiplier=1.0))
    assert vault.ledger.spent() == (0.0, 0.0)


@dataclass(frozen=True)
class Whitened:
    """Contributions centred over the batch: one unit changes all others."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1]
        return reward - reward.mean()


@dataclass(frozen=True)
class Averaged:
    """Contributions divided by when others leave or come: taking one out changes all others."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["rewards"][:, :1] / len(rows["rewards"])


@dataclass
class Remembering:
    """A mutable callback."""

    seen: int = 0

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["rewards"][:, :1]


@dataclass(frozen=True)
class Counting:
    """A callback that keeps state in a list behind its frozen front."""

    log: tuple[list[int], ...]

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        self.log[0].append(1)
        return rows["rewards"][:, :1] + len(self.log[0])


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Whitened(), "another unit's rows"),
        (Averaged(), "when others leave or come"),
        (Remembering(), "can carry state"),
        (lambda rows, state: rows["rewards"], "can carry state"),
    ],
)
def test_callbacks_that_couple_units_are_refused_before_a_step_is_claimed(
    tmp_path: Path, callback: Any, message: str
) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=message):
        vault.noisy_sum(run, "sum", callback)
    assert not vault.has_started(run)


def test_a_certificate_needs_an_admitted_run(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    label = Label((), (), ())
    with pytest.raises(LedgerError, match="no step of the run was claimed"):
        vault.release(run, np.array([[1.0], [2.0]]), label=label)
    vault.noisy_sum(run, "sum", Rewards())
    assert vault.release(run, 0, label=label).certificate.verify().private
    other = priced(vault, noise_multiplier=50.0)
    for forged in (Run(other, plan_id(other), run.bound), replace(run, plan=other)):
        with pytest.raises(LedgerError, match="not one that the ledger admitted"):
            vault.release(forged, 0, label=label)


def test_a_callback_that_changes_between_calls_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises((MechanismError, TypeError)):
        vault.noisy_sum(run, "sum", Counting(([],)))
    assert not vault.has_started(run)


@dataclass(frozen=True)
class Failing:
    """Fails on the private rows with their value in the message, after it has written into everybody's."""

    error: type[BaseException] = ValueError

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if (rows["rewards"] == 7.25).any():
            rows["rewards"] *= 2
            raise self.error(f"the secret is {rows['rewards']}")
        return rows["rewards"][:, :1]


def test_a_failure_behind_the_door_shows_nothing_and_keeps_the_step_claimed(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[7.25]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError) as caught:
        vault.noisy_sum(run, "sum", Failing(MemoryError))
    chain, seen = caught.value, ""
    while chain is not None:
        seen += str(chain)
        chain = chain.__cause__ or chain.__context__  # type: ignore[assignment]
    assert "7.25" not in seen
    assert "MemoryError" in seen
    assert vault.has_started(run)


@pytest.mark.parametrize("others", [[[0.25]], [[0.25]] * 3, [[0.125]] * 700])
def test_whoever_a_callback_fails_on_adds_nothing_and_nobody_hears_of_it(
    tmp_path: Path, others: list[list[float]]
) -> None:
    for name, error in (("there", ValueError), ("deep", RecursionError), ("gone", None)):
        units = [*others, *([[7.25]] if error else [])]
        vault = open_vault(tmp_path, units, noise=Silent(), unit=unit_of(1_000), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        total = vault.noisy_sum(run, "sum", Failing(error or ValueError))[0, 0] * 1_000
        assert total == pytest.approx(sum(reward for (reward,) in others), abs=2**-9, rel=2e-4)
        assert vault.steps_left(run, "sum") == 9


def test_missing_relation_or_population_is_refused() -> None:
    with pytest.raises(PlanError, match="relation"):
        Unit("patient", None, 10)
    with pytest.raises(PlanError, match="population"):
        Unit("patient", "add_or_remove", None)


def priced_for(plan: SumPlan, unit: Unit) -> SumPlan:
    return replaced(plan, promise=Promise(unit, 1.0, 1e-5))


def replaced(plan: SumPlan, **changes: Any) -> SumPlan:
    import dataclasses

    return dataclasses.replace(plan, **changes)


@dataclass(frozen=True)
class Leaking:
    """Leaves what it saw in the public state."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        state["kept"][0] = rows["rewards"].max()
        return rows["rewards"][:, :1].astype(np.float64)


def test_a_contribution_cannot_leave_anything_in_public_arrays(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, steps=1, noise_multiplier=1.0))
    public = {"kept": np.zeros(1)}
    with pytest.raises(ValueError, match="read-only"):
        vault.noisy_sum(run, "sum", Leaking(), public)
    assert public["kept"] == [0.0]
