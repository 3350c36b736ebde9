"""Figures and tables of movement, from a store of invented rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from experiments.lib.store import Store
from experiments.pategail.mobility_runs import GRID, World

from experiments.pategail import (
    mobility_ablation,
    mobility_allocation,
    mobility_frontier,
    mobility_neural,
    mobility_noise,
    mobility_places,
    mobility_tables,
)
from tacit.data.mobility.days import Days

SEQUENCE = ("SEQ", "DailyLoc", "StayLen", "HomeArr", "ActSlot", "NMove", "Bigram", "Motif")
REFERENCE = ("Radius", "DailyLoc", "Distance", "G-rank", "I-rank")
ROBUST = ("Distance km", "Radius km", "Visits", "OD")
SETS = (("sequence", SEQUENCE), ("reference", REFERENCE), ("robust", ROBUST))


@pytest.fixture
def invented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Every measure of a row is its rank in the list of rows plus a thousandth of the seed's last two digits."""
    store = Store(tmp_path / "a.json", lambda key: {"key": key}, hyperparameters="none")
    monkeypatch.setattr(mobility_frontier, "store", lambda: store)
    monkeypatch.setattr(store, "_changing", _nothing)
    for job in mobility_frontier.jobs():
        base = 0.001 * (1 + list(mobility_tables.WORDS).index(job.row))
        for seed, name in zip(job.seeds, job.keys, strict=True):
            values = {metrics: dict.fromkeys(names, base + 0.0001 * (seed % 100)) for metrics, names in SETS}
            store.rows[name] = {"values": values, "configuration": None}
    for people in mobility_frontier.PEOPLE:
        halves = {metrics: dict.fromkeys(names, 0.5) for metrics, names in SETS}
        store.rows[f"{people}/floor"] = {"values": {"halves": halves}, "configuration": None}
        perfect = {metrics: dict.fromkeys(names, 0.25) for metrics, names in SETS}
        store.rows[f"{people}/perfect"] = {"values": perfect, "configuration": None}
    neural = Store(tmp_path / "b.json", lambda key: {"key": key}, hyperparameters="none")
    for key in mobility_neural.rows():
        made = {metrics: dict.fromkeys(names, 0.125) for metrics, names in SETS}
        neural.rows[key] = {"values": made, "configuration": None}
    monkeypatch.setattr(mobility_neural, "store", lambda: neural)
    return store


def _nothing() -> None:
    raise AssertionError("tables write nothing")


def test_every_promise_is_recomputed_from_all_seeds(invented: Store) -> None:
    found = {figure.name: figure for figure in mobility_frontier.figures()}
    one_shot = next(figure for name, figure in found.items() if "one-shot: SEQ" in name)
    assert one_shot.value == pytest.approx(0.001 + 0.0001 * 4.5)
    ratio = next(figure for name, figure in found.items() if "over that of the table" in name)
    assert ratio.value == pytest.approx(0.00145 / 0.00245)
    assert all(figure.holds for figure in found.values())
    del invented.rows["83/one_shot/2/9"]
    with pytest.raises(LookupError, match="missing"):
        list(mobility_frontier.figures())


def test_a_missed_promise_is_seen(invented: Store) -> None:
    for seed in range(10):
        invented.rows[f"83/one_shot/2/{seed}"]["values"]["sequence"]["SEQ"] = 0.03
    missed = [figure.name for figure in mobility_frontier.figures() if not figure.holds]
    assert len(missed) == 2
    assert all("SEQ" in name for name in missed)


def test_tables_say_what_is_missing_and_what_was_never_run(invented: Store) -> None:
    text = mobility_tables.by_epsilon(invented, 83)
    assert "| one-shot imitation | 0.0015 ± 0.0002 (worst 0.002) |" in text
    assert len(text.splitlines()) == 2 + len(mobility_tables.WORDS)
    large = mobility_tables.by_epsilon(invented, 9_481).splitlines()
    assert large[-2].count(mobility_tables.NONE) == 5  # local noise is not run there
    del invented.rows["83/epr/2/3"]
    row = next(line for line in mobility_tables.by_epsilon(invented, 83).splitlines() if "EPR" in line)
    assert row.split(" | ")[2] == mobility_tables.BLANK
    measures = mobility_tables.by_measure(invented, 83, 2.0, "robust").splitlines()
    assert measures[2] == "| a perfect simulator (the floor) | 0.2500 | 0.2500 | 0.2500 | 0.2500 |"
    assert measures[3] == "| halves of the people (no floor) | 0.5000 | 0.5000 | 0.5000 | 0.5000 |"
    assert measures[4:6] == [
        f"| one-shot imitation{words} |{4 * f' {x} |'}" for words, x in (("", "0.0015"), (", no noise", "0.0011"))
    ]
    order = mobility_tables.by_measure(invented, 83, 2.0, "sequence").splitlines()
    assert order[0].endswith("| Motif | not released |")
    assert order[4].endswith("| 0.0015 |")


def test_jobs_are_each_cell_once_and_the_promised_epsilon_first() -> None:
    names = [name for job in mobility_frontier.jobs() for name in job.keys]
    assert len(names) == len(set(names))
    assert mobility_frontier.jobs()[0].epsilon == 2.0
    assert mobility_frontier.seeds_of(9_481, "local", 2.0) == ()
    assert len(mobility_frontier.seeds_of(83, "one_shot", 1.0)) == 10
    assert len(mobility_frontier.seeds_of(83, "one_shot", math.inf)) == 3


def test_the_honest_epsilons_of_the_published_noise() -> None:
    row = mobility_noise.honest(83, 1.0)
    assert 4.2 <= row["check"] <= row["certified"] <= 4.6 < row["renyi"] < row["pure"]
    assert row["certified"] < row["with_variance"] < 2 * row["certified"]
    assert mobility_noise.apart(row) < 0.5


def test_the_five_measures_have_every_row_at_every_epsilon_and_the_published_figures_where_the_data_are_those(
    invented: Store,
) -> None:
    geolife, city = (mobility_tables.reference(invented, people).splitlines() for people in (83, 9_481))
    assert geolife[2] == "| PateGAIL++ without noise, quoted | 0.0699 | 0.1046 | 0.0130 | 0.0256 | 0.0176 | – | – | – |"
    assert "| MoveSim, quoted | 0.0311 | 0.0293 | 0.0058 | 0.0387 | 0.0173 | – | – | – |" in geolife
    assert f"| one-shot imitation, epsilon 2 {'| 0.0015 ' * 8}|" in geolife
    others = len(mobility_tables.QUOTED) + len(mobility_tables.NEURAL) + len(mobility_tables.REAL)
    assert len(geolife) == 2 + others + 5 * len(mobility_tables.WORDS)
    assert f"| MoveSim, small, epsilon infinite {'| 0.1250 ' * 8}|" in geolife
    assert city[2] == "| a perfect simulator (the floor) | 0.2500 | 0.2500 | 0.2500 | 0.2500 | 0.2500 |"
    assert not [line for line in city if "gradients" in line or "MoveSim" in line]
    assert "| one-shot imitation, epsilon infinite | 0.0011 | 0.0011 | 0.0011 | 0.0011 | 0.0011 |" in city


def test_the_city_s_five_measures_are_those_with_public_bins(invented: Store) -> None:
    for key, row in invented.rows.items():
        if key.startswith("9481/one_shot/2/"):
            row["values"] = {"robust": dict.fromkeys(ROBUST, 0.3), "reference": dict.fromkeys(REFERENCE, 0.2)}
    line = next(one for one in mobility_tables.reference(invented, 9_481).splitlines() if "imitation, epsilon 2" in one)
    assert line == "| one-shot imitation, epsilon 2 | 0.3000 | 0.2000 | 0.3000 | 0.3000 | 0.2000 |"


def test_the_published_modes_stand_beside_the_epsilon_of_their_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "a.json", lambda key: {"key": key}, hyperparameters="none")
    for key in mobility_noise.rows():
        made: dict[str, object] = {metrics: dict.fromkeys(names, 0.125) for metrics, names in SETS}
        spent = "inf" if "local, sensitive" in key else 270.75
        store.rows[key] = {"values": made | {"rewards": spent}, "configuration": None}
    monkeypatch.setattr(mobility_noise, "store", lambda: store)
    lines = mobility_tables.published().splitlines()
    assert f"| PateGAIL++, noise 0.1 | 271 {'| 0.1250 ' * 6}|" in lines
    assert f"| local, sensitive, noise 1 | infinite {'| 0.1250 ' * 6}|" in lines
    ways = sum(len(scales) for ways in mobility_noise.RUNS.values() for scales in ways.values())
    assert len([line for line in lines if "noise" in line and "|" in line]) == ways


def test_recipes_are_all_groups_of_rows_of_their_experiments() -> None:
    experiments = {
        mobility_noise: mobility_tables.NOISE,
        mobility_allocation: mobility_tables.ALLOCATIONS,
        mobility_ablation: mobility_tables.CRITICS,
    }
    for module, said in experiments.items():
        measured = {key.rpartition("/")[0] for key in module.rows()}
        assert {group for group in measured if not group.startswith(("epsilon", "naive", "run/"))} == set(said)


def test_people_weigh_alike_beside_days_and_rows_stand_beside_their_noise_free_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "c.json", lambda key: {"key": key}, hyperparameters="none")
    monkeypatch.setattr(mobility_places, "store", lambda: store)
    for rank, key in enumerate(mobility_places.rows()):
        weighed = {"people": 0.25, "days": 0.5 + 0.001 * (rank % 2)}
        values = {
            weigh: {metrics: dict.fromkeys((*names, "Slot visits"), x) for metrics, names in SETS}
            for weigh, x in weighed.items()
        }
        store.rows[key] = {"values": values, "configuration": None}
    lines = mobility_places.table(mobility_places.store()).splitlines()
    assert lines[0].startswith("| | SEQ, each person once | Distance km, each person once")
    assert lines[3] == f"| one-shot imitation, epsilon 2 |{' 0.2500 ± 0.0000 |' * 6}{' 0.5005 ± 0.0002 |' * 4}"
    assert lines[4].startswith("| one-shot imitation, no noise | 0.2500")
    assert [figure.holds for figure in mobility_places.figures()] == [False, False]
    del store.rows["markov/inf/7202"]
    assert mobility_tables.BLANK in mobility_places.table(mobility_places.store()).splitlines()[-1]


def test_a_person_counts_once_however_many_days_she_has() -> None:
    quiet = np.zeros((10, 48), np.int64)
    quiet[9, 20:30] = 1
    days = Days(quiet, np.array([0] * 9 + [1]), GRID)
    here = World(2, days, days, days, "two people")
    made = Days(quiet[[0, 9]], np.arange(2), days.grid)
    found = mobility_places.measured(here, made)
    assert found["people"]["sequence"]["DailyLoc"] == 0  # half of the people leave, and half of the days drawn
    assert found["days"]["sequence"]["DailyLoc"] == pytest.approx(0.10175, abs=1e-5)
