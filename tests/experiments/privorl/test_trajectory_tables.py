"""Figures and pages of whole trajectories from stores of invented rows, and one small table of each kind."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.configuration import digest
from experiments.lib.store import Store
from experiments.lib.tables import BLANK, NONE
from experiments.privorl.parts import (
    synthesis_pages,
    synthesis_ways,
    trajectory_domains,
    trajectory_ways,
)
from experiments.privorl.parts.trajectory_domains import DOMAINS, MazePeople, Patients

from experiments.lib import check, table_cache, vaults
from experiments.privorl import figure8_horizon, table2_trajectories, table13_trajscore, trajectory_audit
from tacit.agents.networks import Mlp
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.trajectories import stitching
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault

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
    name = digest(store.asked(key))
    store.configurations[name] = store.asked(key)
    store.rows[key] = {"values": values, "configuration": name}


@pytest.fixture
def table2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Returns: a level of the way, a little for the seed, less at epsilon 1."""
    store = Store(tmp_path / "table2.json", table2_trajectories.configuration, "none")
    for cell in table2_trajectories.cells():
        _keep(store, cell.key, {"return": LEVELS[cell.way] + cell.seed - (5.0 if cell.epsilon == 1.0 else 0.0)})
    monkeypatch.setattr(table2_trajectories, "store", lambda: store)
    return store


@pytest.fixture
def table13(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Measures: trajectories have TrajScore, transitions and the real rows have none."""
    store = Store(tmp_path / "table13.json", table13_trajscore.configuration, "none")
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
        table2.rows[f"medium/iql/unet/10/{seed}"]["values"]["return"] = 99.0
        table2.rows[f"clinic/cql/raked_by_gradients/10/{seed}"]["values"]["return"] = 10.0
    lost = [figure for figure in table2_trajectories.figures() if not figure.holds]
    assert [figure.value for figure in lost] == [pytest.approx(61.0 - 99.0), pytest.approx(61.0 / 81.0)]
    del table2.rows["umaze/iql/raked_by_gradients/10/2"]
    with pytest.raises(LookupError, match="missing"):
        list(table2_trajectories.figures())


def test_promises_of_table_13_and_figure_8(
    table2: Store, table13: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(figure.holds for figure in table13_trajscore.figures())
    for seed in table2_trajectories.SEEDS:
        table13.rows[f"clinic/tacit_j/10/{seed}"]["values"]["f1"] = 0.5
    assert [figure.name for figure in table13_trajscore.figures() if not figure.holds] == [
        "clinic, epsilon 10: TrajScore F1 of tacit-j over its ceiling"
    ]
    store = Store(tmp_path / "figure8.json", figure8_horizon.configuration, "none")
    for way in ("tacit_j_16", "tacit_j_32", "tacit_j_64"):
        for seed in table2_trajectories.SEEDS:
            _keep(store, trajectory_ways.key("umaze", way, 10.0, seed), {"f1": 0.6, "return": 40.0})
    monkeypatch.setattr(figure8_horizon, "store", lambda: store)
    assert [figure.value for figure in figure8_horizon.figures()] == [pytest.approx(0.25)]
    page = synthesis_pages.PAGES["figure8_horizon"]().splitlines()
    own = next(line for line in page if line.startswith("| 8 rows | 0.850 |"))
    assert own.endswith("| 61.0 [60.0, 62.0] |")


def test_pages_tell_what_is_missing_and_what_is_no_part(table2: Store, table13: Store) -> None:
    del table2.rows["umaze/iql/tacit_j/10/1"]
    first = synthesis_pages.PAGES["table2_trajectories"]().split("\n\n")[1].splitlines()
    own = next(line for line in first if line.startswith("| **tacit-j**")).split(" | ")
    assert own[1] == BLANK
    assert own[2] == "61.0 [60.0, 62.0]"
    assert next(line for line in first if "U-Net" in line).count(NONE) == 2
    page = synthesis_pages.PAGES["table13_trajscore"]()
    assert f"| **transitions with matching** | {NONE} |" in page
    assert "| **tacit-j**: whole trajectories, conditioned on noisy histograms | 0.850 | 0.900 | 0.100 |" in page


def test_all_of_them_are_checked_and_every_row_has_a_key_of_its_own() -> None:
    modules = (table2_trajectories, table13_trajscore, figure8_horizon, trajectory_audit)
    assert {module.__name__.rsplit(".", 1)[1] for module in modules} <= {*check.EXPERIMENTS}
    for module in modules:
        keys = module.rows()
        assert len(keys) == len(set(keys)) > 0


def test_rows_that_differ_in_their_seed_have_one_configuration_and_quick_ones_another() -> None:
    for module in (table2_trajectories, table13_trajscore, figure8_horizon):
        quick = functools.partial(module.configuration, scale=synthesis_ways.QUICK)
        for key in module.rows():
            first = f"{key.rsplit('/', 1)[0]}/0"
            assert module.configuration(key) == module.configuration(first) != quick(key)
    own, twin = trajectory_audit.configuration("tacit/3"), trajectory_audit.configuration("no clipping/3")
    assert own == trajectory_audit.configuration("tacit/299") != twin


@pytest.mark.parametrize("changed", ["steps", "clip_norm", "width"])
def test_a_row_of_another_plan_is_none(changed: str, table2: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = "umaze/iql/by_gradients/10/1", "umaze/iql/raked_by_gradients/10/1"
    assert table2.has(key)
    plan = trajectory_ways.Fragments.plan

    def edited(self: trajectory_ways.Fragments, *given: Any, **settings: Any) -> trajectories.TrajectoriesPlan:
        made = plan(self, *given, **settings)
        return replace(made, **{changed: 2 * getattr(made, changed)})

    monkeypatch.setattr(trajectory_ways.Fragments, "plan", edited)
    trajectory_ways.configuration.cache_clear()
    again = Store(table2.path, table2_trajectories.configuration, "none", table2.rows, table2.configurations)
    try:
        assert not again.has(key)
        with pytest.raises(LookupError, match=rf"another configuration: table\.plan\.{changed}"):
            again.values(key)
        assert again.has(other)
    finally:
        trajectory_ways.configuration.cache_clear()


def test_rows_of_another_agent_or_another_audit_are_none(
    table2: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "clinic/cql/tacit_j/10/0"
    monkeypatch.setattr(trajectory_domains, "_NETWORK", Mlp((6, 32, 32, 6)))
    again = Store(table2.path, table2_trajectories.configuration, "none", table2.rows, table2.configurations)
    with pytest.raises(LookupError, match=r"another configuration: agent\.network\.sizes"):
        again.values(key)
    audit = Store(tmp_path / "audit.json", trajectory_audit.configuration, "none")
    _keep(audit, "tacit/0", {})
    assert audit.has("tacit/0")
    small = trajectory_audit.plan()
    monkeypatch.setattr(trajectory_audit, "plan", lambda: replace(small, clip_norm=2 * small.clip_norm))
    again = Store(audit.path, trajectory_audit.configuration, "none", audit.rows, audit.configurations)
    assert not again.has("tacit/0")


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize(
    "way",
    [
        "real",
        pytest.param("tacit_j", marks=pytest.mark.slow),  # 9 s: `by_gradients` without its rows' weights
        "by_gradients",
        "dp_transformer",
        "raked",
        pytest.param("raked_by_gradients", marks=pytest.mark.slow),  # 13 s, and each half is tested beside it
        "raking_alone",
    ],
)
def test_a_small_table_of_patients_is_made_judged_and_measured_once(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    seeded = functools.partial(Vault, noise=SecretNoise.for_tests(4))
    monkeypatch.setattr(vaults, "Vault", seeded)
    monkeypatch.setattr(stitching, "TRIES", 1)  # a network that hardly learned misses each time
    here = Patients(population=150, staffs=4, public_patients=10)
    scale = synthesis_ways.QUICK
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
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    here = replace(MazePeople("umaze"), population=20, mazes=4, public_episodes=8)
    assert here.name == "umaze_20"
    assert list(DOMAINS) == ["umaze", "medium", "clinic", "umaze_2000"]
    people, public = here.people(0), here.public(0)
    assert (len(people.episodes), len(public.episodes)) == (21, 33)
    assert people.spec == public.spec == here.spec
    walls = here.errors({name: np.asarray(column) for name, column in public.columns.items()})["in_wall"]
    assert walls > 0.1 > here.errors({name: np.asarray(column) for name, column in people.columns.items()})["in_wall"]
