"""How the doors read: first rows in order of time, summaries computed once, fixed halves, samples of fixed size."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vault_cases import SPEC, GivenParts, Named, Silent, open_vault, priced, records, told_apart_by_rewards, unit_of

from tacit.data import unit_keys
from tacit.data.trajectories import Trajectories
from tacit.errors import AccountingError, MechanismError, PlanError
from tacit.privacy import deals
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records as vault_records
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation


def summed(**fields: Any) -> PoissonSum:
    return PoissonSum(
        **{"name": "sum", "steps": 10, "sampling_rate": 1.0, "clip_norm": 1.0, "noise_multiplier": 1.0} | fields
    )


def fixed(**fields: Any) -> FixedSizeSum:
    given = {"name": "sum", "steps": 10, "batch_size": 3, "population": 100, "clip_norm": 1.0, "noise_multiplier": 1.0}
    return FixedSizeSum(**given | fields)


def episodes() -> Trajectories:
    """Person 1 has episodes of 2 and 3 rows, with a row of person 2 in between; rewards count the rows."""
    return Trajectories.from_arrays(
        observations=np.zeros((6, 1)),
        actions=np.zeros(6, int),
        rewards=np.arange(6.0),
        next_observations=np.zeros((6, 1)),
        terminations=[False, False, True, False, False, False],
        unit_ids=["one", "one", "two", "one", "one", "one"],
        episode_ids=[0, 0, 1, 2, 2, 2],
        spec=SPEC,
        simulated=True,
    )


def test_the_first_rows_come_in_order_of_time_with_the_starts_of_episodes() -> None:
    rows = Reader(episodes(), SecretNoise()).rows(np.array([1, 0]), 4, "first")
    np.testing.assert_array_equal(rows["mask"], [[True, False, False, False], [True] * 4])
    np.testing.assert_array_equal(rows["rewards"][1], [0, 1, 3, 4])
    np.testing.assert_array_equal(rows["starts"], [[True, False, False, False], [True, False, True, False]])


calls: list[int] = []


@dataclass(frozen=True)
class Total:
    """The sum of each unit's rewards, counted as it is called."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        calls.append(len(rows["mask"]))
        return {"total": (rows["rewards"] * rows["mask"]).sum(1)}


@dataclass(frozen=True)
class Scaled:
    """The summary's total over a public scale."""

    summary: Total = field(default_factory=Total)

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        assert "rewards" not in rows
        return rows["total"][:, None] / state


@pytest.mark.usefixtures("no_lattice", "own_callbacks")
def test_a_summary_is_made_once_and_serves_every_step_and_sample(tmp_path: Path) -> None:
    for rate in (1.0, 0.5):
        vault = open_vault(tmp_path, [[1.0, 2.0], [3.0], [0.5]], noise=Silent(), name=f"{rate}")
        plan = plans.account(
            GivenParts((summed(sampling_rate=rate, clip_norm=100.0, rows_per_unit=2, rows="first"),)),
            unit=vault.unit,
            delta=1e-4,
        )
        run = vault.reserve(plan)
        vault._checks.try_contribution(plan.parts()[0], Scaled(), 10.0)
        calls.clear()
        sums = [vault.noisy_sum(run, "sum", Scaled(), 10.0)[0, 0] * vault.unit.size * rate for _ in range(10)]
        assert calls == [3]
        possible = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]) @ [0.3, 0.3, 0.05]
        expected = [0.65] if rate == 1 else possible
        assert all(np.abs(np.array(expected) - value).min() < 1e-2 for value in sums)


@pytest.mark.usefixtures("no_lattice", "own_callbacks")
def test_a_single_large_sum_is_made_piece_by_piece_and_keeps_no_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("BLOCK", 2), ("SUMMED_BYTES", 1)):
        monkeypatch.setattr(vault_records, name, value)
    part = summed(steps=1, clip_norm=100.0, rows_per_unit=2, rows="first")
    for name, most, made in (("kept", 1 << 30, [3]), ("pieces", 0, [2, 1])):
        monkeypatch.setattr(vault_records, "KEPT_BYTES", most)
        vault = open_vault(tmp_path, [[1.0, 2.0], [3.0], [0.5]], noise=Silent(), name=name)
        run = vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-4))
        vault._checks.try_contribution(part, Scaled(), 10.0)
        calls.clear()
        assert vault.noisy_sum(run, "sum", Scaled(), 10.0)[0, 0] * vault.unit.size == pytest.approx(0.65, abs=1e-2)
        assert calls == made


def test_what_a_summary_keeps_cannot_be_written_to() -> None:
    reader = Reader(episodes(), SecretNoise())
    whole = reader.summaries(Total(), np.arange(2), 5)["total"]
    np.testing.assert_array_equal(whole, [13, 2])
    with pytest.raises(ValueError, match="read-only"):
        whole[0] = 7
    np.testing.assert_array_equal(reader.summaries(Total(), np.array([1, 1]), 5)["total"], [2, 2])


@dataclass(frozen=True)
class Uneven:
    """A summary whose columns hang on who comes first in a piece."""

    kind: str

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        total = rows["rewards"].sum(1)
        if total[0] < 12:  # of the second unit, whose only row stands five times
            return {"names": {"other": total}, "types": {"total": total.astype(int)}, "rows": {"total": total[:0]}}[
                self.kind
            ]
        return {"total": total}


@pytest.mark.parametrize("kind", ["names", "types", "rows"])
def test_pieces_of_a_summary_have_the_same_columns(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one unit's piece holds would else decide about another's numbers, or leave what memory held."""
    monkeypatch.setattr(vault_records, "CHUNK", 1)
    with pytest.raises(ValueError, match="not the same columns"):
        Reader(episodes(), SecretNoise()).summaries(Uneven(kind), np.arange(2), 5)


def test_a_summary_needs_rows_that_stay_the_same(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="drawn again"):
        vault.noisy_sum(run, "sum", Scaled(), 1.0)


@dataclass(frozen=True)
class Crowd:
    """A summary that divides by how many units there are."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"total": rows["rewards"].sum(1) / len(rows["mask"])}


@dataclass(frozen=True)
class Crowded:
    summary: Crowd = field(default_factory=Crowd)

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["total"][:, None]


def test_a_summary_that_couples_units_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(plans.account(GivenParts((summed(rows="first"),)), unit=vault.unit, delta=1e-4))
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Crowded())


# -- a few units at a time ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Few:
    """As `Named`, and fails where it gets more units than one block has."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if len(rows["rewards"]) > 1_024:
            raise ValueError("more units than a block has")
        return Named(10)(rows, state)


@dataclass(frozen=True)
class Counted:
    """The cell of a reward among ten; fails where it gets more rows than a test allows."""

    sizes: tuple[int, ...] = (10,)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        if len(rows["rewards"]) > 2_000:
            raise ValueError("more rows than at a time")
        return [np.clip(np.rint(rows["rewards"]), 0, 9).astype(int)]


@pytest.mark.usefixtures("own_callbacks")
def test_a_sum_of_vectors_is_made_of_some_units_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [[float(i % 10)] for i in range(3_000)]
    vault = open_vault(tmp_path, units, unit=unit_of(4_000), noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=2))
    with pytest.raises(MechanismError, match=r"inside the vault \(ValueError\)"):
        vault.noisy_sum(run, "sum", Few())
    monkeypatch.setattr(vault_records, "SUMMED_BYTES", 1)
    np.testing.assert_allclose(vault.noisy_sum(run, "sum", Few())[0] * 4_000, np.full(10, 300), rtol=2e-4)


@pytest.mark.usefixtures("own_callbacks")
def test_rows_are_counted_some_at_a_time_and_no_unit_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [[float(i % 10)] * (1 + i % 3) for i in range(3_000)]
    vault = open_vault(tmp_path, units, unit=unit_of(4_000), noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=2, rows_per_unit=2))
    with pytest.raises(MechanismError, match=r"inside the vault \(ValueError\)"):
        vault.noisy_sum(run, "sum", Counted())
    monkeypatch.setattr(vault_records, "TALLIED", 1_500)
    np.testing.assert_allclose(vault.noisy_sum(run, "sum", Counted())[0] * 4_000, np.full(10, 300), rtol=2e-4)


def test_rows_without_padding_are_those_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_records, "TALLIED", 3)
    reader, units = Reader(episodes(), SecretNoise()), np.array([1, 0, 1, 1])
    pieces = list(reader.flat_rows(units, 4, "first"))
    assert [(piece.start, piece.stop) for *_, piece in pieces] == [(0, 1), (1, 3), (3, 4)]
    assert [rows["rewards"].tolist() for rows, *_ in pieces] == [[2], [0, 1, 3, 4, 2], [2]]
    assert [owner.tolist() for _, owner, _ in pieces] == [[0], [0, 0, 0, 0, 1], [0]]
    assert pieces[1][0]["starts"].tolist() == [True, False, True, False, True]
    assert list(reader.flat_rows(np.zeros(0, np.int64), 4, "drawn")) == []


@dataclass(frozen=True)
class Meeting:
    """Counts a row by how many rows there are."""

    sizes: tuple[int, ...] = (2,)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        return [np.full(len(rows["rewards"]), len(rows["rewards"]) % 2)]


def test_a_tally_in_which_units_meet_is_refused_and_so_are_fragments(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="when another"):
        vault.noisy_sum(run, "sum", Meeting())
    fragments = summed(name="fragments", horizon=2)
    with pytest.raises(MechanismError, match="fragments would be counted"):
        vault._checks.try_contribution(fragments, Counted(), None)
    assert not vault.has_started(run)


# -- halves -------------------------------------------------------------------------------------------------------


def people(count: int) -> list[list[float]]:
    """Units that differ from one another, within the bounds."""
    return [[float(i % 100) / 10, float(i // 100) / 10] for i in range(count)]


def test_the_halves_are_disjoint_even_and_fixed_for_the_life_of_the_ledger(tmp_path: Path) -> None:
    reader = Reader(records(people(2_000)), SecretNoise())
    first, again, other = reader.folds("a"), Reader(records(people(2_000)), SecretNoise()).folds("a"), reader.folds("b")
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) == {0, 1}
    assert 900 < first.sum() < 1_100
    assert 900 < (first == other).sum() < 1_100


@pytest.mark.parametrize("named", [True, False])
def test_a_units_half_does_not_depend_on_who_else_is_there(named: bool) -> None:
    present = np.arange(200) % 7 > 0
    fewer = [unit for unit, here in zip(people(200), present, strict=True) if here]
    everyone = told_apart_by_rewards(people(200), range(200) if named else None)
    others = told_apart_by_rewards(fewer, np.flatnonzero(present).tolist() if named else None)
    halves = Reader(everyone, SecretNoise()).folds("a")
    np.testing.assert_array_equal(Reader(others, SecretNoise()).folds("a"), halves[present])


def test_with_ids_a_half_is_a_function_of_the_id_alone() -> None:
    """Rows that change, come or go move nobody, nor does another order or kind of the ids; rows without ids do."""
    ids = [f"p{i}" for i in range(100)]
    kept = Reader(told_apart_by_rewards(people(100), ids), SecretNoise()).folds("a")
    changed = [[9.0], *people(100)[1:-1], [1.0, 2.0, 3.0]]
    np.testing.assert_array_equal(Reader(told_apart_by_rewards(changed, ids), SecretNoise()).folds("a"), kept)
    around = told_apart_by_rewards(people(100)[::-1], [f" {name}\t" for name in ids[::-1]])
    np.testing.assert_array_equal(Reader(around, SecretNoise()).folds("a")[::-1], kept)
    np.testing.assert_array_equal(kept, deals.fold(unit_keys.names(ids), "a"))
    moved = [Reader(told_apart_by_rewards([[i / 10]]), SecretNoise()).folds("a")[0] for i in range(40)]
    assert set(moved) == {0, 1}


def test_folds_of_a_pool_are_those_of_its_own_units() -> None:
    reader = Reader(episodes(), SecretNoise())
    pool = reader.without_holdout(1, "key")
    owners = np.flatnonzero(reader.episodes_per_unit() > 1)
    assert 0 < len(owners) < reader.units
    np.testing.assert_array_equal(pool.folds("a"), reader.folds("a")[owners])


def test_the_two_halves_add_up_and_cost_no_more_than_one(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[float(i % 10)] for i in range(40)], noise=Silent())
    halves = tuple(summed(name=f"half {fold}", clip_norm=20.0, fold=fold) for fold in (0, 1))
    plan = plans.account(GivenParts(halves), unit=vault.unit, delta=1e-4)
    alone = plans.account(GivenParts((summed(clip_norm=20.0),)), unit=vault.unit, delta=1e-4)
    assert plan.epsilon == pytest.approx(alone.epsilon, rel=1e-6)
    run = vault.reserve(plan)
    sums = [vault.noisy_sum(run, f"half {fold}", Named(10))[0] * 100 for fold in (0, 1)]
    np.testing.assert_allclose(sums[0] + sums[1], np.full(10, 4.0), atol=0.1)
    assert min(one.sum() for one in sums) > 5


def test_halves_are_for_whole_sums_only() -> None:
    with pytest.raises(PlanError, match="fold"):
        summed(sampling_rate=0.5, fold=0)


# -- samples of fixed size ------------------------------------------------------------------------------------------


def fixed_vault(folder: Path, units: int, relation: Relation = "replace_one") -> Vault:
    unit = unit_of(100, relation)
    ledger = Ledger(folder / f"{relation}.ledger", unit, epsilon=1e6, delta=0.005, composition=SUM)
    return Vault(records([[float(i % 10)] for i in range(units)]), ledger, noise=Silent())


@pytest.mark.usefixtures("own_callbacks")
def test_a_sample_of_fixed_size_holds_so_many_places_and_is_uniform(tmp_path: Path) -> None:
    vault = fixed_vault(tmp_path, units=100)
    plan = plans.account(GivenParts((fixed(steps=2_000, clip_norm=5.0),)), unit=vault.unit, delta=1e-4)
    run = vault.reserve(plan)
    counts = np.stack([vault.noisy_sum(run, "sum", Named(10))[0] * 3 for _ in range(2_000)])
    np.testing.assert_allclose(counts.sum(1), 3, atol=0.03)
    np.testing.assert_allclose(counts.mean(0), 0.3, atol=0.06)  # four standard errors


@pytest.mark.usefixtures("own_callbacks")
def test_places_that_hold_nobody_add_nothing(tmp_path: Path) -> None:
    vault = fixed_vault(tmp_path, units=50)
    run = vault.reserve(plans.account(GivenParts((fixed(steps=2_000, clip_norm=5.0),)), unit=vault.unit, delta=1e-4))
    counts = np.stack([vault.noisy_sum(run, "sum", Named(10))[0] * 3 for _ in range(2_000)]).sum(1)
    assert np.rint(counts).min() == 0
    assert counts.mean() == pytest.approx(1.5, abs=0.1)


def test_a_fixed_size_belongs_to_replacement_and_to_the_units_own_population(tmp_path: Path) -> None:
    with pytest.raises(AccountingError, match="add_or_remove"):
        plans.account(GivenParts((fixed(),)), unit=unit_of(100, "add_or_remove"), delta=1e-4)
    vault = fixed_vault(tmp_path, units=100)
    priced_plan = plans.account(GivenParts((fixed(population=200),)), unit=vault.unit, delta=1e-4)
    with pytest.raises(PlanError, match="population"):
        vault.reserve(priced_plan)
    with pytest.raises(PlanError, match="batch_size"):
        fixed(batch_size=101)


def test_the_promise_tells_the_sampler() -> None:
    unit = unit_of(100, "replace_one")
    for part, words in (
        (fixed(), "3 of 100 places, drawn without replacement"),
        (summed(fold=1), "every person of half 1 of two"),
        (summed(rows="first", rows_per_unit=5), "its first 5 rows in order of time"),
        (summed(sampling_rate=0.5), "a Poisson sample of persons at rate 0.5"),
    ):
        assert words in plans.guarantee(plans.account(GivenParts((part,)), unit=unit, delta=1e-4))


def test_units_with_equal_rows_are_told_apart_and_one_of_them_less_changes_one_half() -> None:
    many, one_less = (Reader(told_apart_by_rewards([[1.0]] * k), SecretNoise()).folds("a") for k in (1_000, 999))
    assert 420 < many.sum() < 580
    np.testing.assert_array_equal(many[:999], one_less)


def test_without_ids_halves_follow_from_a_hash_of_a_units_own_rows_and_number() -> None:
    reader = Reader(told_apart_by_rewards([[1.0, 2.0], [3.0], [-1.0, 0.5], [7.0], [3.0], [0.0]]), SecretNoise())
    columns, names = reader._data._columns, b""
    for rows, number in (([0, 1], 0), ([2], 0), ([3, 4], 0), ([5], 0), ([6], 1), ([7], 0)):
        own = hashlib.blake2b(b"".join(columns[name][rows].tobytes() for name in sorted(columns))).digest()
        names += own + number.to_bytes(8, "little")
    expected = deals.fold(np.frombuffer(names, np.uint8).reshape(6, 72), "key")
    assert reader.folds("key").tolist() == expected.tolist()
    assert set(expected.tolist()) == {0, 1}


def test_a_fragment_is_what_follows_a_drawn_row_in_its_units_episode() -> None:
    reader = Reader(episodes(), SecretNoise())
    rows = reader.rows(np.array([0, 1]), 5, "drawn", horizon=3)
    assert rows["rewards"].shape == rows["mask"].shape == rows["time"].shape == (2, 5, 3)
    assert rows["observations"].shape == (2, 5, 3, 1)
    padded = [[[0, 1, 0], [1, 1, 1], [3, 4, 5], [4, 5, 4], [5, 5, 5]], [[2, 2, 2]] * 5]
    np.testing.assert_array_equal(rows["rewards"], padded)
    first = [[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0]]
    np.testing.assert_array_equal(rows["mask"], [first, [[1, 0, 0], *[[0, 0, 0]] * 4]])
    np.testing.assert_array_equal(rows["time"][0, :, 0], [0, 1, 0, 1, 2])


def in_a_row(rows: int, **ids: Any) -> Trajectories:
    """Rows without an end, whose rewards count them."""
    return Trajectories.from_arrays(
        observations=np.zeros((rows, 1)),
        actions=np.zeros(rows, int),
        rewards=np.arange(float(rows)),
        next_observations=np.zeros((rows, 1)),
        terminations=np.zeros(rows, bool),
        spec=SPEC,
        simulated=True,
        **ids,
    )


def test_where_every_row_is_a_unit_a_fragment_is_that_row() -> None:
    alone = in_a_row(6, unit_ids=":transition")
    rows = Reader(alone, SecretNoise()).rows(np.arange(6), 1, "drawn", horizon=4)
    assert rows["mask"].sum() == 6
    assert not rows["time"][..., 0].any()


def test_fragments_of_a_long_unit_are_drawn_uniformly() -> None:
    long = in_a_row(40, unit_ids=["one"] * 40, episode_ids=np.zeros(40, int))
    reader = Reader(long, SecretNoise.for_tests(0))
    firsts = np.concatenate([reader.rows(np.array([0]), 2, "drawn", horizon=8)["time"][0, :, 0] for _ in range(2_000)])
    counts = np.bincount(firsts.astype(int), minlength=40)
    assert abs(counts - 100).max() < 60  # six standard deviations


@pytest.mark.parametrize("fields", [{"horizon": 0}, {"horizon": 2.0}, {"horizon": 2, "rows": "first"}])
def test_a_horizon_is_a_whole_number_and_of_drawn_rows(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="horizon"):
        summed(**fields)
