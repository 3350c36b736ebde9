"""Imitation as a verb of a study: of days in memory, of files, and of an invented city; with a folder and without."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import hub
from tacit.data.mobility.days import Days
from tacit.errors import DataError, PlanError
from tacit.methods.mobility import OneShotPlan, Simulator, pategail
from tacit.methods.mobility.baselines import BaselinePlan, BlockChain
from tacit.methods.mobility.simulator import StateLayout
from tacit.study import imitate
from tacit_worlds.city import city

PEOPLE = 60
WORDS: dict[str, Any] = {"unit": "rider", "population": PEOPLE, "budget_epsilon": 4.0, "budget_sampled": 1}
BOX = (39.76, 116.22, 40.04, 116.58)


@pytest.fixture(autouse=True)
def _few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imitate, "DAYS", 100)


@pytest.fixture(scope="module")
def days() -> Days:
    found: Days = city(PEOPLE, 3, seed=0).days
    return found


def test_days_in_memory_make_a_simulator_without_a_folder(days: Days, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"expected ledger= with the file"):
        tacit.Study(days, **WORDS)
    study = tacit.Study(days, ledger=tmp_path / "ledger", **WORDS)
    release = study.imitate(epsilon=4.0, method="markov", yes=True)
    assert isinstance(release.value, BlockChain)
    assert release.certificate.unit["name"] == "rider"
    assert not release.certificate.simulated
    assert study.ledger is not None
    assert study.ledger.spent()[0] == pytest.approx(4.0, rel=1e-3)
    assert [path.name for path in tmp_path.iterdir() if "ledger" not in path.name] == []


def test_files_become_days_by_public_words_and_their_ledger_lies_beside_them(days: Days, tmp_path: Path) -> None:
    seen, index = np.unique(days.cells, return_inverse=True)
    path, centres = tmp_path / "cells.npz", days.grid.centres(seen).round(2)
    np.savez(path, days=index.reshape(days.cells.shape), rider=days.person, cell_latlon=centres)
    study = tacit.Study(path, box=BOX, degrees=0.01, **WORDS)
    assert study.curator.source.movement is not None
    assert study.curator.source.movement.days is None, "a vault alone reads real people's days"
    with pytest.raises(DataError, match="spec= has no meaning for such records"):
        tacit.Study(path, box=BOX, degrees=0.01, spec=tmp_path / "spec.toml", **WORDS)
    plan = study.plan("imitate", epsilon=2.0, days=3)
    assert (plan.unit.name, plan.days, plan.epsilon) == ("rider", 3, pytest.approx(2.0, rel=1e-3))
    assert list(tmp_path.iterdir()) == [path]
    study.imitate(epsilon=2.0, method="epr", out=tmp_path / "run", yes=True)
    assert isinstance(hub.load(tmp_path / "run" / "simulator").value, Simulator)
    assert (tmp_path / "cells.npz.ledger").exists()
    with pytest.raises(PlanError, match=r"the public grid is missing; expected box= SOUTH"):
        tacit.Study(path, grid=None, **WORDS)
    with pytest.raises(DataError, match=r"zones= has no meaning for such records; expected words of box, carry"):
        tacit.Study(path, box=BOX, degrees=0.01, zones="UTC", **WORDS)
    with pytest.raises(PlanError, match=r"zone= has no meaning here"):
        tacit.Study(path, box=BOX, degrees=0.01, zone="UTC", **WORDS)


def test_the_cells_of_a_readable_map_follow_from_public_figures_alone(days: Days, tmp_path: Path) -> None:
    path = tmp_path / "cells.npz"
    words: dict[str, Any] = {**WORDS, "population": 10_000, "box": BOX, "cell": "auto"}
    sizes = []
    for epsilon in (0.5, 1.0, 2.0):  # there is no such file yet
        request = imitate.imitate(tacit.Study(path, **words).curator, epsilon=epsilon)
        _, maps, pairs, by_day, *_ = request.advice.lines()
        sizes.append(int(request.more[0].split()[2].replace(",", "")))
        assert maps.startswith(f"  visits by half-hour ({sizes[-1]:,} cells)")
        assert maps.endswith("it can be read by night.")
        assert "A map of at most" in pairs
        assert "where people go by day is not learned" in by_day
        most = 0.5 / request.plan.noise_std("starts")  # the noise is half of what a mean cell holds
        assert sizes[-1] <= most < {0.5: 21 * 21, 1.0: 31 * 32, 2.0: 45 * 44}[epsilon], "cells of the next smaller side"
    assert sizes == [16 * 16, 21 * 21, 31 * 32]  # 31 x 31 km in cells of 2, 1.5 and 1 km
    seen, index = np.unique(days.cells, return_inverse=True)
    np.savez(path, days=index.reshape(days.cells.shape), rider=days.person, cell_latlon=days.grid.centres(seen))
    chosen = tacit.Study(path, **words).imitate(epsilon=2.0, method="epr")
    assert chosen.value.grid.size == 31 * 32
    with pytest.raises(DataError, match=r"cell= auto: no map can be read, not one of two cells"):
        tacit.Study(path, **{**words, "population": 60}).plan("imitate", epsilon=0.01)
    with pytest.raises(DataError, match="there are no records"):
        tacit.Study(path, **words).curator.source.open()


def test_a_city_has_no_budget_that_outlives_it(tmp_path: Path) -> None:
    study = tacit.Study(None, city=PEOPLE, days=2, **WORDS)
    for _ in range(2):
        assert study.imitate(epsilon=2.0, method="markov").certificate.simulated
    assert study.ledger is None
    assert str(study).startswith("Study of a city of 60 people: every rider of 60")
    with pytest.raises(PlanError, match=r"nonprivate_diagnostics= has no meaning here"):
        study.imitate(epsilon=2.0, nonprivate_diagnostics=True)


def test_the_noise_of_the_busiest_half_hour_is_known_where_the_time_of_day_is_released() -> None:
    promise: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "unit": tacit.Unit("p", "add_or_remove", population=2_000),
    }
    one_shot = OneShotPlan().calibrate(**promise)
    assert (one_shot.layout.times, one_shot.layout.size) == (8, 48)
    assert imitate.rhythm_noise(one_shot) == pytest.approx(0.0589, abs=1e-4)
    assert one_shot.noise_std("moves") == pytest.approx(0.00150, abs=1e-5)  # times the root of 4 * 48 * 8
    table = BaselinePlan(model="table", layout=one_shot.layout).calibrate(**promise)
    assert 0.03 < imitate.rhythm_noise(table) < 0.12
    for plan in (BaselinePlan(model="epr"), BaselinePlan(model="markov"), pategail.recipe("linear", 2_000, 2.0)):
        assert imitate.rhythm_noise(plan.calibrate(**promise)) == math.inf
    assert imitate.rhythm_noise(dataclasses.replace(one_shot, layout=StateLayout(times=1))) == math.inf


def test_other_records_are_not_imitated(days: Days, tmp_path: Path) -> None:
    days.trajectories(simulated=True).save(tmp_path / "rows")
    with pytest.raises(PlanError, match="these records do not say where people were"):
        tacit.Study(tmp_path / "rows", **WORDS).plan("imitate", epsilon=1.0)


def test_files_of_points_are_read_as_they_are_written(tmp_path: Path) -> None:
    clock = [f"2024-01-0{day + 1}T{slot // 2:02}:{slot % 2 * 30:02}:00Z" for day in range(3) for slot in range(48)]
    table = pd.DataFrame({"rider": "r1", "time": clock, "lat": 39.9, "lon": [116.3, 116.4] * 72})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    words: dict[str, Any] = {**WORDS, "box": BOX, "degrees": 0.01, "zone": "UTC", "simulated": True}
    style = {"separator": ";", "decimal": ",", "encoding": "utf-16"}
    found = []
    for name, more in (("a.csv", {}), ("b.csv", style)):
        movement = tacit.Study(tmp_path / name, **words, **more).curator.source.movement
        assert movement is not None
        assert movement.days is not None
        found.append(movement.days().cells.tolist())
    assert found[0] == found[1]
    with pytest.raises(PlanError, match=r"decimal= has no meaning here; expected CSV files"):
        tacit.Study(tmp_path / "a.parquet", **words, decimal=",")
    (tmp_path / "study.toml").write_text(
        'records = "b.csv"\nunit = "rider"\npopulation = 60\nbudget_epsilon = 4.0\nbudget_sampled = 1\n[reading]\n'
        'box = [39.76, 116.22, 40.04, 116.58]\ndegrees = 0.01\nzone = "UTC"\nsimulated = true\n'
        'separator = ";"\ndecimal = ","\nencoding = "utf-16"\n'
    )
    movement = tacit.Study.open(tmp_path / "study.toml").curator.source.movement
    assert movement is not None
    assert movement.days is not None
    assert movement.days().cells.tolist() == found[0]
