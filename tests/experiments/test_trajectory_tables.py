"""Figures and pages of whole trajectories from stores of invented rows, and one small table of each kind."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.store import Store
from experiments.trajectory_domains import DOMAINS, MazePeople, Patients

from experiments import (
    check,
    dppg_tables,
    figure8_horizon,
    synthesis_cache,
    synthesis_fits,
    synthesis_pages,
    table2_trajectories,
    table13_trajscore,
    trajectory_transitions,
    trajectory_ways,
)
from tacit.methods.synthesis.trajectories import populated
from tacit.privacy.noise import SecretNoise
from tacit.privacy.vault import Vault

LEVELS = {
    "real": 80.0,
    "raked": 60.0,
    "tacit_j": 60.0,
    "by_gradients": 55.0,
    "raked_by_gradients": 70.0,
    "unet": 50.0,
    "dp_transformer": 20.0,
    "raking_alone": 10.0,
}


def _keep(store: Store, key: str, values: dict[str, float]) -> None:
    store.cells[key] = {"values": values, "fingerprint": store.code_of(key)}


@pytest.fixture
def table2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Returns: a level of the way, a little for the seed, less at epsilon 1."""
    store = Store(tmp_path / "table2.json", table2_trajectories.sources, "none")
    for cell in table2_trajectories.cells():
        _keep(store, cell.key, {"return": LEVELS[cell.way] + cell.seed - (5.0 if cell.epsilon == 1.0 else 0.0)})
    monkeypatch.setattr(table2_trajectories, "store", lambda: store)
    return store


@pytest.fixture
def table13(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Measures: trajectories have TrajScore, transitions and the real rows have none."""
    store = Store(tmp_path / "table13.json", table13_trajscore.sources, "none")
    for domain, way, epsilon, seed in table13_trajscore.wanted():
        values = {"marginal": 0.98, "correlation": 0.99, "told_apart": 0.7}
        if isinstance(found := trajectory_ways.WAYS[way], trajectory_ways.Fragments) and not found.rows:
            values |= {"f1": 0.85, "f1_ceiling": 0.9, "f1_floor": 0.1}
        _keep(store, trajectory_ways.key(domain, way, epsilon, seed), values)
    monkeypatch.setattr(table13_trajscore, "store", lambda: store)
    return store


def test_promises_of_table_2_are_recomputed_from_all_seeds(table2: Store) -> None:
    found = {figure.name: figure for figure in table2_trajectories.figures()}
    assert all(figure.holds for figure in found.values())
    share = next(figure for name, figure in found.items() if name.startswith("umaze, epsilon 1:"))
    assert share.value == pytest.approx((65.0 + 1.0) / (80.0 + 1.0))
    lead = next(figure for name, figure in found.items() if "least lead" in name)
    assert "in the 10 cells" in lead.name
    assert lead.value == pytest.approx(10.0)
    for seed in table2_trajectories.SEEDS:
        table2.cells[f"medium/iql/unet/10/{seed}"]["values"]["return"] = 99.0
        table2.cells[f"clinic/cql/raked_by_gradients/10/{seed}"]["values"]["return"] = 10.0
    lost = [figure for figure in table2_trajectories.figures() if not figure.holds]
    assert [figure.value for figure in lost] == [pytest.approx(61.0 - 99.0), pytest.approx(61.0 / 81.0)]
    del table2.cells["umaze/iql/raked_by_gradients/10/2"]
    with pytest.raises(LookupError, match="missing"):
        table2_trajectories.figures()


def test_promises_of_table_13_and_figure_8(
    table2: Store, table13: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(figure.holds for figure in table13_trajscore.figures())
    for seed in table2_trajectories.SEEDS:
        table13.cells[f"clinic/tacit_j/10/{seed}"]["values"]["f1"] = 0.5
    assert [figure.name for figure in table13_trajscore.figures() if not figure.holds] == [
        "clinic, epsilon 10: TrajScore F1 of tacit-j over its ceiling"
    ]
    store = Store(tmp_path / "figure8.json", figure8_horizon.sources, "none")
    for way in ("tacit_j_16", "tacit_j_32", "tacit_j_64"):
        for seed in table2_trajectories.SEEDS:
            _keep(store, trajectory_ways.key("umaze", way, 10.0, seed), {"f1": 0.6, "return": 40.0})
    monkeypatch.setattr(figure8_horizon, "store", lambda: store)
    assert [figure.value for figure in figure8_horizon.figures()] == [pytest.approx(0.25)]
    page = synthesis_pages.page("figure8_horizon").splitlines()
    own = next(line for line in page if line.startswith("| 8 rows | 0.850 |"))
    assert own.endswith("| 61.0 [60.0, 62.0] |")


def test_pages_tell_what_is_missing_and_what_is_no_part(table2: Store, table13: Store) -> None:
    del table2.cells["umaze/iql/tacit_j/10/1"]
    first = synthesis_pages.page("table2_trajectories").split("\n\n")[1].splitlines()
    own = next(line for line in first if line.startswith("| **tacit-j**")).split(" | ")
    assert own[1] == dppg_tables.BLANK
    assert own[2] == "61.0 [60.0, 62.0]"
    assert next(line for line in first if "U-Net" in line).count(dppg_tables.NONE) == 2
    page = synthesis_pages.page("table13_trajscore")
    assert f"| **transitions with raking** | {dppg_tables.NONE} |" in page
    assert "| **tacit-j**: whole trajectories, told by histograms | 0.850 | 0.900 | 0.100 |" in page


def test_all_of_them_are_checked_and_an_edit_of_trajectories_leaves_transitions_alone() -> None:
    assert {table2_trajectories.NAME, table13_trajscore.NAME, figure8_horizon.NAME, "trajectory_audit"} <= {
        *check.EXPERIMENTS
    }
    whole, rows = (
        set(table2_trajectories.sources(f"clinic/cql/{way}/10/0")) for way in ("tacit_j", "raked_by_gradients")
    )
    assert any("trajectories/*" in source for source in whole)
    assert not any("synthesis/trajectories" in source for source in rows)
    keys = [cell.key for cell in table2_trajectories.cells()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    "way", ["real", "tacit_j", "by_gradients", "dp_transformer", "raked", "raked_by_gradients", "raking_alone"]
)
def test_a_small_table_of_patients_is_made_judged_and_measured_once(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis_cache, "KEPT", tmp_path)
    seeded = functools.partial(Vault, noise=SecretNoise.for_tests(4))
    monkeypatch.setattr(trajectory_transitions, "Vault", seeded)
    monkeypatch.setattr(populated, "TRIES", 1)  # a network that hardly learned misses each time
    here = Patients(population=150, staffs=4, public_patients=10)
    scale = synthesis_fits.QUICK
    made = trajectory_ways.table(here, way, 10.0, 0, scale)
    again = trajectory_ways.table(here, way, 10.0, 0, scale)
    assert all(np.array_equal(made.columns[name], again.columns[name]) for name in made.columns)
    (value,) = here.judged("cql", [made.columns], 0, scale)
    assert -300 < value < 100
    found = table13_trajscore.measured(here, way, 10.0, 0, scale)
    assert {"marginal", "correlation", "told_apart"} <= found.keys()
    assert ("f1" in found) == (made.sequences is not None and way != "real")
    assert (made.sequences is None) == way.startswith("rak")


def test_people_of_the_mazes_are_whole_episodes_and_others_walk_in_other_mazes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis_cache, "KEPT", tmp_path)
    here = replace(MazePeople("umaze"), population=20, mazes=4, public_episodes=8)
    assert here.name == "umaze_20"
    assert list(DOMAINS) == ["umaze", "medium", "clinic", "umaze_2000"]
    people, public = here.people(0), here.public(0)
    assert (len(people.episodes), len(public.episodes)) == (21, 33)
    assert people.spec == public.spec == here.spec
    walls = here.errors({name: np.asarray(column) for name, column in public.columns.items()})["in_wall"]
    assert walls > 0.1 > here.errors({name: np.asarray(column) for name, column in people.columns.items()})["in_wall"]
