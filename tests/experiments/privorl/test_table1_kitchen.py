"""The kitchen's table: what its rows see, its seeds and epsilons, and how its agent is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.store import Store
from experiments.privorl.envs import kitchen_controller
from experiments.privorl.parts.synthesis_agents import KITCHEN, Untaught
from experiments.privorl.parts.synthesis_domains import Kitchen
from experiments.privorl.parts.synthesis_pages import UNTAUGHT, WORDS
from experiments.privorl.table1_kitchen import MOVED, SEEN, Glance, Glancing, glanced
from experiments.privorl.tuning import tune_kitchen

from experiments.privorl import table1_kitchen
from tacit.data import Box


class Pointing:
    """Policies whose first joint speed is the first number that they see."""

    members = 2

    def act(self, observations: Any) -> Any:
        assert observations.shape[-1] == len(SEEN)
        return np.broadcast_to(observations[..., :1], (2, *observations.shape[1:-1], 7))


def test_a_glance_keeps_what_the_tasks_are_about() -> None:
    states = np.arange(2.0 * 59).reshape(2, 59)
    rows = {
        "observations": states,
        "next_observations": states + 1_000.0,
        "actions": np.arange(18.0).reshape(2, 9),
        "rewards": np.array([0.0, 1.0]),
        "terminations": np.array([False, True]),
    }
    seen = glanced(rows)
    assert seen["observations"][0].tolist() == [0, 1, 2, 3, 4, 5, 6, 20, 26, 28, 31, 32, 33]
    assert seen["next_observations"][1].tolist() == (states[1, list(SEEN)] + 1_000.0).tolist()
    assert seen["actions"].tolist() == [[0, 1, 2, 3, 4, 5, 6], [9, 10, 11, 12, 13, 14, 15]]
    assert seen["rewards"] is rows["rewards"]


def test_bounds_are_those_of_the_kitchen() -> None:
    own, whole = Glance().spec, Kitchen().spec
    assert isinstance(own.observation, Box)
    assert isinstance(whole.observation, Box)
    assert (own.observation.size, own.action.size) == (13, 7)
    assert own.observation.low[9] == whole.observation.low[28]
    assert own.difference is not None
    assert whole.difference is not None
    assert own.difference[12] == whole.difference[33]


def test_policies_that_glance_act_in_the_whole_kitchen_with_closed_fingers() -> None:
    seen = np.zeros((2, 3, 59))
    seen[1, :, 0] = 0.5
    speeds = Glancing(Pointing()).act(seen)
    assert speeds.shape == (2, 3, 9)
    assert speeds.dtype == np.float32
    assert speeds[0, 0].tolist() == [0.0] * 7 + [-1.0, -1.0]
    assert speeds[1, 2].tolist() == [0.5] * 7 + [-1.0, -1.0]


def test_still_and_random_speeds() -> None:
    assert not Untaught(MOVED, 0.0, np.random.default_rng(0)).act(np.zeros((1, 4, 13))).any()
    speeds = Untaught(MOVED, 1.0, np.random.default_rng(0)).act(np.zeros((1, 4_000, 13)))
    assert speeds.shape == (1, 4_000, 7)
    assert np.abs(speeds).max() <= 1.0
    assert speeds.std() == pytest.approx(3**-0.5, rel=0.01)


def test_all_rows_have_the_same_seeds_and_both_epsilons() -> None:
    keys = table1_kitchen.rows()
    seeds = {str(seed) for seed in table1_kitchen.SEEDS}
    assert len(keys) == len(set(keys)) == len(seeds) * (2 + 1 + 2 * 5 + 1)
    assert {key.rsplit("/", 1)[1] for key in keys} == seeds
    asked: Any = table1_kitchen.configuration(keys[-1])
    assert asked["domain"]["type"] == "Glance"
    assert asked["domain"]["own"]["order"] == ["microwave", "kettle", "light switch", "slide cabinet"]
    assert asked["guarantee"]["delta"] == 0.1 / Glance().population
    assert asked["agent"] == tune_kitchen.configuration(f"{table1_kitchen.AGENT}/0")["agent"]


def test_agents_of_a_seed_learn_in_one_stack() -> None:
    groups = table1_kitchen.together(table1_kitchen.rows())
    assert sorted(key for group in groups for key in group) == sorted(table1_kitchen.rows())
    assert sorted(len(group) for group in groups) == [1] * 6 + [12] * 3


def test_the_ceiling_is_a_promised_figure_and_the_table_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Store(tmp_path / "any.json", lambda key: {}, "none")
    for key in table1_kitchen.rows():
        value = {"real": 60.0, "still": 0.0, "random": 5.0}.get(key.split("/")[2 if key.count("/") > 1 else 0], 20.0)
        results.put(key, dataset="none", seed=0, values={"return": value})
    monkeypatch.setattr(table1_kitchen, "store", lambda: results)
    (figure,) = table1_kitchen.figures()
    assert (figure.value, figure.bound, figure.holds) == (60.0, table1_kitchen.WANTED, True)
    words = {**WORDS, **UNTAUGHT}
    lines = table1_kitchen.table(results, words).splitlines()
    assert lines[0] == "Seeds with every row: 3 of 3"
    assert len(lines) == 2 + 2 + 9
    assert lines[4].count("60.0 [60.0, 60.0]") == 2
    assert "| noise alone | – | 20.0 [20.0, 20.0] |" in lines
    for seed in (10, 12):
        results.rows[f"kitchen_glance/{table1_kitchen.AGENT}/mst/1/{seed}"]["values"]["return"] = 40.0
    del results.rows[f"kitchen_glance/{table1_kitchen.AGENT}/real/0/12"]
    found = table1_kitchen.table(results, words)
    assert found.startswith("Seeds with every row: 2 of 3")
    assert "| MST | 20.0 [20.0, 20.0] | 30.0 [20.0, 40.0] |" in found
    with pytest.raises(LookupError):
        list(table1_kitchen.figures())


def test_the_agent_is_chosen_by_public_tasks_on_public_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "any.json", lambda key: {}, "none")
    for k, agent in enumerate(KITCHEN):
        for seed in tune_kitchen.SEEDS:
            results.put(f"{agent}/{seed}", dataset="none", seed=seed, values={"return": 40.0 + k})
    monkeypatch.setattr(tune_kitchen, "store", lambda: results)
    assert tune_kitchen.chosen(results) == list(KITCHEN)[-1]
    (figure,) = tune_kitchen.figures()
    assert (figure.value, figure.holds) == (39.0 + len(KITCHEN), False)
    asked: Any = tune_kitchen.configuration(tune_kitchen.rows()[0])
    assert asked["judge"]["tasks"] == list(kitchen_controller.OTHER.order)
    assert not set(tune_kitchen.SEEDS) & set(table1_kitchen.SEEDS)
