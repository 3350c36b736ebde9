"""The search for the agents' settings in public mazes, and the tables that use what it found."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.lib.queue import QUEUE
from experiments.lib.store import Store, experiment
from experiments.lib.tables import overview
from experiments.privorl.parts import (
    synthesis_returns,
    synthesis_ways,
    trajectory_ways,
)
from experiments.privorl.parts.synthesis_agents import LONG, MAZE
from experiments.privorl.parts.trajectory_domains import MazePeople
from experiments.privorl.tuning import tune_agents

from experiments.lib import check, table_cache, vaults
from experiments.privorl import (
    ablation_medium,
    table1_mazes,
    table1_transitions,
    table1_trivial,
    table2_trajectories,
)
from tacit.data.trajectories import Trajectories
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit_worlds.maze_layouts import LAYOUTS


def test_a_key_of_the_search_holds_what_is_changed() -> None:
    assert tune_agents.config("iql", "former") == MAZE["iql"]
    found = tune_agents.config("td3_bc", "discount=0.995 layer_norm=True features=None")
    assert found == replace(MAZE["td3_bc"], discount=0.995, layer_norm=True, features=None)
    asked = tune_agents.configuration("comb/td3_bc/steps=500/900")
    assert asked == tune_agents.configuration("comb/td3_bc/steps=500/901")
    assert (asked["agent"]["steps"], asked["layout"]["name"]) == (500, "comb")


def test_the_search_knows_public_mazes_alone_and_names_no_row_twice() -> None:
    evaluated = {LAYOUTS[name].cells for name in table1_mazes.DOMAINS}
    turned = {tuple("".join(row) for row in zip(*cells, strict=True)) for cells in evaluated}
    both = evaluated | turned
    mirrored = both | {cells[::-1] for cells in both} | {tuple(row[::-1] for row in cells) for cells in both}
    assert not mirrored & {layout.cells for layout in tune_agents.MAZES.values()}
    keys = tune_agents.rows()
    assert len(keys) == len(set(keys)) >= 6
    for key in keys:
        assert tune_agents.configuration(key)["episodes"] == 100


def test_a_row_of_the_search_holds_a_curve_and_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_agents, "POPULATION", 2_000)
    monkeypatch.setattr(tune_agents, "EPISODES", 2)
    tune_agents.real.cache_clear()
    results = tune_agents.store(tmp_path / "rows.json")
    keys = ["ring/trivial", "ring/iql/steps=8/3", "tee/iql/steps=8/3"]
    assert tune_agents.together(keys) == [keys[:1], keys[1:]]
    tune_agents.run_rows(keys[1:], results)
    tune_agents.run_rows(["ring/trivial"], results)
    tune_agents.real.cache_clear()
    values = results.values("ring/iql/steps=8/3")
    assert list(values["curve"]) == ["2", "4", "6", "8"]
    assert values["curve"]["8"] == values["all"]
    shown = overview(results).splitlines()
    assert shown[2].startswith(f"| ring/iql/steps=8/3 | all {values['all']:.4g}, ")
    assert f"straight all {results.values('ring/trivial')['straight']['all']:.4g}, " in shown[3]


def test_what_is_chosen_is_held_against_the_straight_run_in_every_public_maze(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Store(tmp_path / "rows.json", lambda key: None, "none")
    for key in tune_agents.rows():
        one = {"straight": {"all": 50.0}} if key.endswith("trivial") else {"all": 40.0 + 10.0 * int(key[-1])}
        results.rows[key] = {"values": one, "configuration": None}
    monkeypatch.setattr(tune_agents, "store", lambda: results)
    assert {figure.value for figure in tune_agents.figures()} == {5.0}
    assert len(list(tune_agents.figures())) == 18
    del results.rows["halls/edac/chosen/902"]
    with pytest.raises(LookupError, match="halls/edac/chosen/902 is missing"):
        list(tune_agents.figures())


def test_every_row_is_run_alike_on_data_that_no_former_row_used() -> None:
    keys = table1_mazes.rows()
    assert len(keys) == len(set(keys))
    parts = [key.split("/") for key in keys]
    assert {agent for _, agent, *_ in parts} == set(LONG)
    seeds = ["10", "11", "12"]
    assert Counter(seed for *_, seed in parts) == dict.fromkeys(seeds, len(keys) // 3)
    each = Counter((domain, agent, way, epsilon) for domain, agent, way, epsilon, _ in parts)
    assert set(each.values()) == {3}
    promised = {(way, epsilon) for _, _, way, epsilon, _ in parts if epsilon != "0"}
    assert {way for way, epsilon in promised if epsilon == "10"} == {way for way, epsilon in promised if epsilon == "1"}
    former = {*table1_transitions.SEEDS["own"], *table2_trajectories.SEEDS}
    assert not former & set(table1_mazes.SEEDS)
    assert set(table1_mazes.SEEDS) <= set(table1_trivial.AGAIN)


def test_the_ceiling_is_the_straight_run_or_the_public_figure_whichever_is_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Store(tmp_path / "trivial.json", lambda key: None, "none")
    for key in table1_trivial.rows():
        control.rows[key] = {"values": {"return": 50.0}, "configuration": None}
    monkeypatch.setattr(table1_trivial, "store", lambda: control)
    for values in (80.0, 40.0):
        results = Store(tmp_path / f"{values}.json", lambda key: None, "none")
        for key in table1_mazes.rows():
            results.rows[key] = {"values": {"return": values}, "configuration": None}
        monkeypatch.setattr(table1_mazes, "store", lambda kept=results: kept)
        figures = list(table1_mazes.figures())
        assert len(figures) == 3 + 2 + 2
        assert {figure.value for figure in figures} == {values}
        assert [figure.bound for figure in figures] == [42.11, 29.41, 50.0, 34.85, 50.0, 50.0, 50.0]
        assert [figure.holds for figure in figures].count(True) == {80.0: 7, 40.0: 2}[values]


def test_the_general_histograms_and_three_columns_at_once_are_rows_of_their_own() -> None:
    asked = {
        way: synthesis_returns.configuration(f"umaze/iql_long/{way}/10/10")["table"]
        for way in ("raked", "raked_of", "aim", "aim_3")
    }
    widest = {way: max(len(table) for table in asked[way]["matching"]["tables"]) for way in ("raked", "raked_of")}
    assert widest == {"raked": 4, "raked_of": 2}
    assert {way: asked[way]["plan"]["degree"] for way in ("aim", "aim_3")} == {"aim": 2, "aim_3": 3}
    other = {name: value for name, value in asked["aim"]["plan"].items() if name != "degree"}
    assert other == {name: value for name, value in asked["aim_3"]["plan"].items() if name != "degree"}


def test_an_ablation_in_medium_differs_from_tacit_in_one_thing() -> None:
    keys = ablation_medium.rows()
    assert [len(group) for group in ablation_medium.together(keys)] == [2 * 5 + 1] * 3
    asked = {way: ablation_medium.configuration(f"medium/iql_long/{way}/10/10") for way in ablation_medium.WAYS[:-1]}
    starts = {way: one["table"]["plan"]["pretraining"] for way, one in asked.items()}
    assert starts["non_pre"] is None
    assert starts["tacit"]["curiosity"] is None
    assert (starts["cur"]["curiosity"]["mode"], starts["cur_append"]["curiosity"]["mode"]) == ("replace", "append_pool")
    assert {way for way, one in asked.items() if one["table"]["ablation"] is not None} == {"fine_cur"}
    assert {one["agent"]["steps"] for one in asked.values()} == {24_000}


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize("way", ["noise_only", "raked_of"])
def test_a_vault_holds_whom_a_way_shows_it(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    monkeypatch.setattr(vaults, "Vault", functools.partial(Vault, noise=SecretNoise.for_tests(4)))
    here = replace(MazePeople("umaze"), population=100, mazes=4, public_episodes=8)
    shown: list[Trajectories] = []
    doors = trajectory_ways.vault
    monkeypatch.setattr(
        trajectory_ways, "vault", lambda *given: (shown.append(given[2]), doors(*given))[1], raising=True
    )
    found = trajectory_ways.table(here, way, 10.0, 10, synthesis_ways.QUICK)
    assert found.notes["epsilon"] == 10.0
    assert [len(people.episodes) - 1 for people in shown] == ([1] if way == "noise_only" else [100])[: len(shown)]
    assert {len(column) for column in found.columns.values()} == {2_000}
    low, high = (np.asarray(bound) for bound in here.spec.observation.float32_bounds())
    assert ((found.columns["observations"] >= low - 1e-5) & (found.columns["observations"] <= high + 1e-5)).all()
    promise = trajectory_ways.configuration(here, way, 10.0, synthesis_ways.QUICK)["guarantee"]
    assert promise["unit"]["name"] == "person"
    assert json.dumps(promise) != json.dumps(trajectory_ways.configuration(here, way, 1.0)["guarantee"])


def test_what_is_queued_is_checked_and_has_rows() -> None:
    assert {job.name for job in QUEUE} <= {*check.EXPERIMENTS}
    for job in QUEUE:
        module = experiment(job.name)
        assert set(job.missing()) <= set(module.rows())


def test_what_is_cut_first_comes_last() -> None:
    cut = [key.startswith("large/") and key.split("/")[3] == "10" for key in table1_mazes.rows()]
    assert cut == sorted(cut)
    assert 0 < sum(cut) < len(cut) / 4
