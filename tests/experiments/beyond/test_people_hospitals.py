"""Hospitals whose truth is known, the judge of tables of their visits, and the experiment that asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.beyond.hospitals import HOSPITALS, Hidden, Linear, encode, to_records
from experiments.beyond.people_hospitals import Table
from experiments.lib.store import Store
from experiments.lib.tables import costs
from scipy import special

from experiments.beyond import people_hospitals
from tacit.evaluation.sequences import Sequences

NAN = float("nan")


def drawn(hospital: Linear, patients: int, seed: int) -> Table:
    visits = hospital.draw(patients, seed)
    return Table.of(visits, visits["unit_ids"])


def written(owners: list[int], pressures: list[float], drugs: list[int], **others: list[float]) -> Table:
    """Visits as they are written here."""
    count = len(owners)
    seen = {
        name: np.array(others.get(name, [40.0 if name == "age" else 1.0] * count)) for name in people_hospitals.PLACES
    }
    numbers = encode({**seen, "pressure": np.array(pressures)})
    following = np.roll(numbers, -1, axis=0)
    columns = {"observations": numbers, "next_observations": following, "actions": np.array(drugs)}
    return Table.of({**columns, "rewards": np.zeros(count)}, np.array(owners))


def test_the_linear_hospital_moves_by_its_coefficients() -> None:
    state = {"pressure": np.full(5, 150.0), "creatinine": np.array([1, 1, 1, 1, 2.0])}
    assert Linear().expect(state, np.array([0, 1, 2, 3, 3])) == pytest.approx([149.5, 141.5, 143.5, 135.5, 142.5])
    spreads = [225.0]  # of the pressure without any drug, visit by visit
    for _ in range(10):
        spreads.append(0.81 * spreads[-1] + 36)
    far = 15 + 5 * 0.9 ** np.arange(11)
    scaled = far / np.sqrt(spreads)
    folded = np.sqrt(spreads) * (np.sqrt(2 / np.pi) * np.exp(-(scaled**2) / 2) + scaled * special.erf(scaled / 2**0.5))
    worth = Linear().value(lambda x, c: np.zeros(len(x), int), patients=20_000, seed=0)
    assert worth == pytest.approx(-folded.mean() / 130, abs=0.0005)


def test_the_other_hospital_is_neither_linear_nor_markov() -> None:
    def moved(drug: int, **changed: float) -> float:
        usual = {"pressure": 138.0, "creatinine": 1.4, "last": -1, "same": 0, "severity": 0, "visit": 0, "worse": 3}
        state = {name: np.array([value]) for name, value in (usual | changed).items()}
        return float(Hidden().expect(state, np.array([drug]))[0] - state["pressure"][0])

    assert moved(3) == pytest.approx(0.18 * 9 - 17 * 0.5 * 0.85)
    none, both = [[moved(drug, pressure=x) - moved(0, pressure=x) for x in (110, 138, 180)] for drug in (0, 3)]
    assert none == [0, 0, 0]
    assert both == pytest.approx([-17 * 0.85 / (1 + np.exp(-(x - 138) / 9)) - 2 for x in (110, 138, 180)])
    worn, built = [[moved(drug, last=drug, same=n) for n in (0, 1, 2)] for drug in (1, 2)]
    assert worn == pytest.approx([1.62 - 11 * 0.425 * share for share in (1, 0.75, 0.5625)])
    assert built == pytest.approx([1.62 - 9 * 0.425 * share for share in (0.4, 0.7, 1.0)])
    assert moved(3, creatinine=3.0) - moved(3, creatinine=0.5) == pytest.approx(17 * 0.5 * 0.7, abs=0.05)
    assert moved(0, visit=3) - moved(0, visit=2) == pytest.approx(0.18 * 14)
    assert moved(0, severity=1) - moved(0) == pytest.approx(0.18 * 9)


@pytest.mark.parametrize("hospital", HOSPITALS.values())
def test_visits_are_records_whole_or_as_steps(hospital: Linear) -> None:
    visits = hospital.draw(200, 1)
    whole, steps = (to_records(visits, whole=one) for one in (True, False))
    assert whole.counts()["units"] == 200
    assert len(whole.columns["rewards"]) - len(steps.columns["rewards"]) == 200
    table, again = Table.of(whole.columns, Sequences.of(whole).owners), drawn(hospital, 200, 1)
    for name, column in again.now.items():
        np.testing.assert_array_equal(table.now[name], column)
    np.testing.assert_array_equal(Table.of(steps.columns).following["pressure"], table.following["pressure"])


def test_measures_of_tables_that_are_written_down() -> None:
    table = written([0, 0, 0, 1, 1], [150, 140, NAN, 120, 130], [3, 0, 4, 3, 3], age=[40, 40, 41, 50, 50])
    assert people_hospitals.effects(table).tolist() == [0, 0, 0, 0]  # -10 and +10 under both; one next pressure misses
    assert people_hospitals.static_changes(table) == pytest.approx(1 / 3)
    line = written([0, 0, 0, 0, 1, 1, 1, 1], [100, 110, 120, 190, 130, 120, 110, 160], [0] * 8)
    assert people_hospitals.lag(line, 3) == pytest.approx(-1.0)
    assert people_hospitals.lag(line, 1) == pytest.approx(
        np.corrcoef([100, 110, 120, 130, 120, 110], [110, 120, 190, 120, 110, 160])[0, 1]
    )
    other = written([0, 0, 0, 0], [105, 135, 135, 195], [1, 0, 3, 0])
    levels = [1.0, 0.5, 1.0]  # below 110 another drug; of two at 135 one; nobody above 175
    wrong = written([0, 0, 0, 0], [105, 135, 135, 145], [0, 0, 0, 0])
    assert people_hospitals.drug_given_pressure(wrong, other) == pytest.approx(np.mean(levels))


def test_in_weighed_steps_every_patient_weighs_alike() -> None:
    table = written([0] * 2 + [1] * 10, [100] * 2 + [150] * 10, [0] * 12)
    many = Table.of({name: np.repeat(column, 100, axis=0) for name, column in table.columns.items()})
    assert table.owners is not None
    owners = np.repeat(table.owners[table.pairs], 100)
    steps = Table(many.now, many.following, many.pairs, many.columns, owners).weighed(0)
    assert len(steps.pairs) == 1_000
    assert (steps.now["pressure"] == 100).mean() == pytest.approx(0.5, abs=0.05)
    assert steps.owners is None


def test_a_table_whose_next_pressures_are_moved_is_off_by_as_much() -> None:
    true, moved = drawn(Linear(), 2_000, 1), drawn(Linear(), 2_000, 1)
    moved.following["pressure"] += 3
    assert people_hospitals.regression_error(true, true) == 0
    assert people_hospitals.regression_error(moved, true) == pytest.approx(3, abs=1e-3)
    assert people_hospitals.effects(moved) - people_hospitals.effects(true) == pytest.approx([3] * 4)


@pytest.mark.parametrize("name", HOSPITALS)
def test_real_patients_pass_and_shuffled_ones_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_hospitals, "PLAYED", (1_000, 99))
    monkeypatch.setattr(people_hospitals, "LEARNED", 4_000)
    hospital, true = HOSPITALS[name], drawn(HOSPITALS[name], 6_000, 3)
    real = people_hospitals.judge(drawn(hospital, 2_000, 2), hospital, true=true)
    visits = people_hospitals.permuted(hospital.draw(2_000, 2), seed=0)
    shuffled = people_hospitals.judge(Table.of(visits, visits["unit_ids"]), hospital, true=true)
    assert set(real) == {*people_hospitals.MEASURES, "gain", "drugs", "r_1", "r_3"}
    others = [one for one in people_hospitals.MEASURES if one not in ("effects", "regression")]
    assert max(real[one] for one in others) < 0.1
    assert max(real["effects"], real["regression"]) < 0.6
    assert min(shuffled["effects"], shuffled["regression"]) > 4
    assert min(shuffled["lag_1"], shuffled["lag_3"], shuffled["drug_given_pressure"], shuffled["action_follows"]) > 0.15
    assert shuffled["static_changes"] == 0
    assert shuffled["visits"] == real["visits"]
    assert shuffled["gain"] < 0 < real["gain"]
    steps = people_hospitals.judge(drawn(hospital, 2_000, 2).weighed(0), hospital, true=true.weighed(0))
    assert set(real) - set(steps) == {"visits", "lag_3", "r_3"}


def test_people_keep_sign_and_order_of_the_effects() -> None:
    found = people_hospitals.table(Linear(), 4_000, "people", 8.0, 1)
    none, ace, beta, both = people_hospitals.effects(found)
    assert both < ace < beta < 0 < none
    assert people_hospitals.static_changes(found) == 0


def test_cells_have_fresh_seeds_and_configurations_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = people_hospitals.rows()
    assert len(keys) == len(set(keys)) == 5 * (6 * 6 + 4 * 2) + 2 * 2  # real and shuffled rows have no epsilon
    assert keys[-4:] == [f"{one}/20000/people/inf/{seed}" for one in ("linear", "nonlinear") for seed in (411, 412)]
    assert {key.split("/")[-1] for key in keys} == {"411", "412", "413", "414", "415"}
    assert keys[:2] == ["linear/20000/real/0/411", "linear/20000/people/2/411"]
    asked = [people_hospitals.configuration(key) for key in people_hospitals.rows([1])]
    assert len({str(one) for one in asked}) == 46
    monkeypatch.setattr(people_hospitals, "TRUTH", (1_000, 999))
    monkeypatch.setattr(people_hospitals, "PLAYED", (200, 99))
    people_hospitals.truth.cache_clear()
    results = people_hospitals.store(tmp_path / "rows.json")
    for way, epsilon in (("privsyn_public", 2), ("noise", 2), ("trivial", 0), ("people", "inf")):
        people_hospitals.run_row(f"linear/300/{way}/{epsilon}/1", results)
    people_hospitals.truth.cache_clear()
    assert results.has("linear/300/privsyn_public/2/1")
    assert set(results.values("linear/300/noise/2/1")["cpu_s"]) == {"table", "judge"}
    assert results.values("linear/300/people/inf/1")["effects"] < results.values("linear/300/noise/2/1")["effects"]
    assert "visits" not in results.values("linear/300/privsyn_public/2/1")


def test_the_table_says_on_how_many_measures_people_are_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "rows.json", lambda key: None, "none")

    def values(**given: Any) -> dict[str, Any]:
        return {"values": {**given, "cpu_s": {"table": 30.0, "judge": 6.0}}, "configuration": None}

    for seed in people_hospitals.SEEDS:
        for way, effects, lag, gain in (("real", 0.0, 0.0, 2.0), ("people", 0.1, 0.4, 1.5), ("aim", 0.2, 0.3, 1.0)):
            key = people_hospitals.key("linear", 20_000, way, 2.0, seed)
            results.rows[key] = values(effects=effects + seed / 1e3, lag_1=lag, gain=gain)
    results.rows[people_hospitals.key("linear", 20_000, "people", 2.0, 411)]["values"]["lag_3"] = (
        0.1  # which no table of steps has
    )
    found = people_hospitals.columns(results, ("linear", 20_000, 2.0))
    assert found["people", "share"] == [0.75] * 5
    assert people_hospitals.ahead(found, "aim") == (2, 3)
    text = people_hospitals.words_of(results)
    assert "people is ahead of aim on 2 of 3, privsyn on 0 of 0, " in text
    assert "| effects | 0.413 ± 0.002 | 0.513 ± 0.002 | 0.613 ± 0.002 |  |  |  |  |  |" in text
    assert costs(results, people_hospitals.rows()) == "209 rows are missing; CPU hours: 2.1"
    monkeypatch.setattr(people_hospitals, "store", lambda: results)
    with pytest.raises(LookupError, match="privsyn"):
        list(people_hospitals.figures())
    for key in people_hospitals.rows():
        good = key.split("/")[2] in ("real", "people")
        error = 0.1 if good else 0.2
        results.rows[key] = values(effects=error, regression=error, impossible=error, gain=1.0)
    assert [(one.value, one.holds) for one in people_hospitals.figures()] == 2 * [
        *((0.1, True), (1.0, True)),
        *[(0.5, True)] * 8,
    ]
