"""Half-cheetah's rows are chosen on other robots and frozen by a hash, without which no agent learns from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.store import Store
from experiments.privorl.envs import half_cheetah
from experiments.privorl.parts.synthesis_agents import Untaught
from experiments.privorl.table1_half_cheetah import TASK, Replay, digest
from experiments.privorl.tuning import tune_half_cheetah
from experiments.privorl.tuning.tune_half_cheetah import COLLECTORS, Collector

from experiments.lib import table_cache
from experiments.privorl import table1_half_cheetah

TINY = Replay(population=300, collector=Collector(16, since=0.5))


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of 250 steps, and a folder of its own."""
    pytest.importorskip("mujoco")
    monkeypatch.setattr(half_cheetah, "HORIZON", 250)
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)


@pytest.mark.usefixtures("short")
def test_rows_that_are_not_frozen_or_others_are_refused() -> None:
    with pytest.raises(SystemExit, match="not those that were frozen"):
        TINY.private(0)
    found = digest(TINY.collected())
    frozen = replace(TINY, frozen=found)
    assert len(frozen.private(0)["rewards"]) == 300
    other = {**TINY.collected()}
    other["rewards"] = other["rewards"].copy()
    other["rewards"][0] += 1.0
    assert digest(other) != found
    with pytest.raises(SystemExit, match="--freeze"):
        replace(frozen, frozen="0" * 64).private(0)


@pytest.mark.usefixtures("short")
def test_the_beginning_of_a_life_may_be_left_out() -> None:
    robot = half_cheetah.Robot()
    whole = half_cheetah.lived(robot, 4_000, episodes=16, seed=900)
    late = half_cheetah.lived(robot, 2_000, episodes=16, seed=900, since=0.5)
    np.testing.assert_array_equal(late["rewards"], whole["rewards"][2_000:])
    with pytest.raises(AssertionError, match="plays fewer rows"):
        half_cheetah.lived(robot, 2_001, episodes=16, seed=900, since=0.5)


def test_still_and_random_torques() -> None:
    seen = np.zeros((1, 4, 17))
    assert not Untaught(TASK.actions, 0.0, np.random.default_rng(0)).act(seen).any()
    torques = Untaught(TASK.actions, 1.0, np.random.default_rng(0)).act(np.zeros((1, 4_000, 17)))
    assert torques.shape == (1, 4_000, 6)
    assert np.abs(torques).max() <= 1.0
    assert torques.std() == pytest.approx(3**-0.5, rel=0.01)


def test_no_robot_of_the_search_is_the_real_one_or_a_public_one() -> None:
    searched = tune_half_cheetah.robots().values()
    public = half_cheetah.other_robots(half_cheetah.OTHERS, seed=1_000)
    assert not {half_cheetah.Robot(), *public} & set(searched)
    asked = {key: tune_half_cheetah.configuration(key) for key in tune_half_cheetah.rows()}
    assert len(asked) == len({str(one) for one in asked.values()}) == 12


def test_the_best_collector_is_chosen_by_both_robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "any.json", lambda key: {}, "none")
    returns = {"former": 20.0, "long": 45.0, "late": 30.0}
    for key in tune_half_cheetah.rows():
        _, name, agent = key.split("/")
        value = (
            returns[name] + (5.0 if agent == "td3_bc_long" else 0.0) - (90.0 if key == "second/long/td3_bc" else 0.0)
        )
        results.put(key, dataset="none", seed=0, values={"return": value, "rows_mean": 1.0, "rows_last": 2.0})
    monkeypatch.setattr(tune_half_cheetah, "store", lambda: results)
    (figure,) = tune_half_cheetah.figures()
    assert tune_half_cheetah.chosen(results) == ("long", "td3_bc_long")
    assert (figure.value, figure.bound, figure.holds) == (50.0, 40.0, True)


def test_all_rows_have_the_same_seeds_and_both_epsilons() -> None:
    keys = table1_half_cheetah.rows()
    assert len(keys) == 6 + 3 * (1 + 2 * 7)
    assert {key.rsplit("/", 1)[1] for key in keys} == {str(seed) for seed in table1_half_cheetah.SEEDS}
    asked: Any = table1_half_cheetah.configuration(keys[-1])
    assert asked["domain"]["collector"] == {"type": "Collector", "episodes": 1_920, "since": 0.0}
    assert "collect" not in asked["domain"]
    assert Replay().collector is COLLECTORS["long"]


def test_agents_of_one_seed_learn_together() -> None:
    groups = table1_half_cheetah.together(table1_half_cheetah.rows())
    assert sorted(map(len, groups)) == [1] * 6 + [15] * 3
    assert all(len({key.rsplit("/", 1)[1] for key in group}) == 1 for group in groups)
