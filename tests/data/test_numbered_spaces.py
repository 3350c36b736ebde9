"""Discrete spaces that do not start at 0, and several at once: codes within, the environment's own numbers outside."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pandas as pd
import pytest
from minari.data_collector import EpisodeBuffer

from tacit.cli.generate import join_parts
from tacit.data import Box, Column, Discrete, PublicSpec, Trajectories
from tacit.data.spec import MOST_LABELS, space_of
from tacit.envs.gym_domain import GymDomain
from tacit.errors import DataError
from tacit.methods.synthesis.discretisation import to_trajectories
from tacit.study.policies import resolve_policy

spaces = gymnasium.spaces
SPEC = PublicSpec.from_spaces(spaces.Discrete(4, start=-1), spaces.Discrete(3, start=1), reward=(0.0, 1.0))
OWN = {"observations": [-1, 0, 2], "actions": [1, 3, 2], "next_observations": [0, 2, 2]}
CODES = {"observations": [0, 1, 3], "actions": [0, 2, 1], "next_observations": [1, 3, 3]}
REST: dict[str, Any] = {"rewards": [0.0, 0.5, 1.0], "terminations": [False, False, True]}


def arrays(**changes: Any) -> Trajectories:
    return Trajectories.from_arrays(
        **{**OWN, **REST, "unit_ids": ["a"] * 3, "spec": SPEC, "simulated": True, **changes}
    )


def codes(data: Trajectories) -> dict[str, list[int]]:
    return {name: np.asarray(data.columns[name]).tolist() for name in CODES}


def test_the_spec_keeps_where_the_values_start() -> None:
    assert (SPEC.observation, SPEC.action) == (Discrete(4, start=-1), Discrete(3, start=1))
    assert PublicSpec.from_json(json.loads(json.dumps(SPEC.to_json()))) == SPEC
    assert SPEC.to_json()["action"] == {"kind": "discrete", "n": 3, "start": 1}
    zero = PublicSpec.from_spaces(spaces.Discrete(2), spaces.Discrete(2), reward=(0.0, 1.0))
    assert zero.action == Discrete(2) == Discrete(2, start=0)
    assert zero.to_json()["action"] == {"kind": "discrete", "n": 2}
    for start, columns in (
        (1.5, None),
        (True, None),
        (2**54, None),
        (1, (Column("a", "category", labels=("x", "y")),)),
    ):
        with pytest.raises(DataError, match="start is no whole number, or stands beside labels"):
            Discrete(2, columns, start=start)  # type: ignore[arg-type]


def test_values_are_shifted_on_the_way_in_and_refused_outside() -> None:
    assert codes(arrays()) == CODES
    for name, wrong, said in (("actions", 0, "from 1 to 3"), ("actions", 4, "from 1 to 3"), ("observations", 3, "2")):
        with pytest.raises(DataError, match=f"row 1: {name} has a value out of range.*whole numbers.* {said}"):
            arrays(**{name: [wrong, 1, 1]})


@pytest.mark.parametrize("form", ["csv", "parquet", "npz", "minari", "minari packed", "frame", "save"])
def test_every_way_out_has_the_own_numbers_and_every_way_in_takes_them(form: str, tmp_path: Path) -> None:
    data, path = arrays(), tmp_path / f"a.{form}"
    if form in ("csv", "parquet"):
        getattr(data, f"to_{form}")(path)
        table = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
        assert table[["observation", "action", "next_observation"]].to_numpy().T.tolist() == list(OWN.values())
        again = getattr(Trajectories, f"from_{form}")(path, unit="episode", spec=SPEC, simulated=True)
    elif form == "npz":
        data.to_npz(path)
        assert np.load(path)["actions"].tolist() == OWN["actions"]
        again = Trajectories.from_npz(path, unit="unit", episode="episode", spec=SPEC, simulated=True)
    elif form == "frame":
        again = Trajectories.from_frame(data.to_pandas(), unit="episode", time="step", spec=SPEC, simulated=True)
    elif form == "save":
        data.save(path)
        again = Trajectories.open(path)
    else:
        data.to_minari("own/numbers-v0", root=tmp_path, packed="packed" in form)
        again = Trajectories.from_minari("own/numbers-v0", unit="unit", root=tmp_path, simulated=True)
        assert again.spec == SPEC
    assert codes(again) == CODES


def test_torchrl_gets_the_own_numbers() -> None:
    pytest.importorskip("tensordict")
    assert arrays().to_torchrl()["action"].tolist() == OWN["actions"]
    assert arrays().to_torchrl()["next", "observation"].tolist() == OWN["next_observations"]


def test_rows_that_are_made_of_codes_are_not_shifted_twice() -> None:
    made: dict[str, Any] = {name: np.array(column) for name, column in {**CODES, **REST}.items()}
    assert codes(to_trajectories(made, SPEC)) == CODES
    assert codes(arrays().split_by_unit()[0]) == CODES
    assert codes(join_parts([to_trajectories(made, SPEC)])) == CODES


def minari_set(folder: Path, observation: Any, action: Any, observations: Any, actions: Any) -> str:
    rows = len(actions)
    buffer = EpisodeBuffer(
        observations=np.array(observations),
        actions=np.array(actions),
        rewards=[0.5] * rows,
        terminations=[False] * rows,
        truncations=[False] * (rows - 1) + [True],
        infos={"who": np.full(rows + 1, 7)},
    )
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari asks for an environment
        patch.setenv("MINARI_DATASETS_PATH", str(folder))
        minari.create_dataset_from_buffers(
            "own/set-v0", buffer=[buffer], observation_space=observation, action_space=action
        )
    return "own/set-v0"


def test_a_minari_set_that_starts_elsewhere_and_one_of_several_entries(tmp_path: Path) -> None:
    first = minari_set(tmp_path / "a", spaces.Discrete(4, start=-1), spaces.Discrete(3, start=1), [-1, 0, 2], [1, 3])
    data = Trajectories.from_minari(first, unit="who", reward=(0.0, 1.0), root=tmp_path / "a")
    assert codes(data) == {"observations": [0, 1], "actions": [0, 2], "next_observations": [1, 3]}
    several = spaces.MultiDiscrete([3, 2])
    entries = [[0, 1], [2, 0], [1, 1]]
    second = minari_set(tmp_path / "b", several, several, entries, entries[:2])
    data = Trajectories.from_minari(second, unit="who", reward=(0.0, 1.0), root=tmp_path / "b")
    assert codes(data)["next_observations"] == [[2, 0], [1, 1]]
    assert data.spec.names("actions") == ("action_0", "action_1")


def test_several_entries_are_a_category_each() -> None:
    spec = PublicSpec.from_spaces(spaces.MultiDiscrete([3, 2]), spaces.Discrete(2), reward=(0.0, 1.0))
    labels = ("0", "1", "2"), ("0", "1")
    columns = [Column(f"observation_{i}", "category", labels=each) for i, each in enumerate(labels)]
    assert spec.observation == space_of(*columns)
    assert isinstance(spec.observation, Box)
    assert spec.observation.categories == (3, 2)
    for wrong in (
        spaces.MultiDiscrete([3, 1]),
        spaces.MultiDiscrete([3]),
        spaces.MultiDiscrete([3, MOST_LABELS + 1]),
        spaces.MultiDiscrete([3, 2], start=[1, 0]),
    ):
        with pytest.raises(DataError, match="the MultiDiscrete has an entry of one value or of too many"):
            PublicSpec.from_spaces(wrong, spaces.Discrete(2), reward=(0.0, 1.0))


class Numbered(gymnasium.Env[Any, Any]):
    """Shows what it was given last."""

    def __init__(self, action: gymnasium.Space[Any], observation: gymnasium.Space[Any], first: Any) -> None:
        self.action_space, self.observation_space, self.first = action, observation, first

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.first, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return np.asarray(action), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "first", "start", "actions", "shown"),
    [
        (spaces.Discrete(3, start=5), 5, 0, [0, 2, 1], [0, 2, 1]),
        (spaces.MultiDiscrete([3, 2]), np.array([2, 1]), [2, 1], [0, 5, 3], [[0, 0], [2, 1], [1, 1]]),
    ],
)
def test_environments_get_their_own_numbers(space: Any, first: Any, start: Any, actions: Any, shown: Any) -> None:
    gymnasium.register("Numbered-v0", lambda: Numbered(space, space, first))
    try:
        domain, generator = GymDomain("Numbered-v0"), np.random.default_rng(0)
        spec = domain.public_spec(reward=(0.0, 1.0))
        assert spec.action == Discrete(6 if isinstance(space, spaces.MultiDiscrete) else 3)
        state = domain.starts(3, generator)
        assert domain.observe(state).tolist() == [start] * 3
        state, *_ = domain.step(state, np.array(actions), generator)
        assert domain.observe(state).tolist() == shown
    finally:
        gymnasium.registry.pop("Numbered-v0")


def test_too_many_joint_actions_are_refused() -> None:
    action = spaces.MultiDiscrete([200, 51])
    gymnasium.register("Numbered-v0", lambda: Numbered(action, spaces.Discrete(2), 0))
    try:
        with pytest.raises(DataError, match=r"the action space is of a kind.*at most 10,000 joint actions"):
            GymDomain("Numbered-v0")
    finally:
        gymnasium.registry.pop("Numbered-v0")


def test_a_table_of_a_policy_is_written_in_the_own_numbers(tmp_path: Path) -> None:
    rows = ["-1,1,0,0", "0,0,1,0", "1,0.5,0.5,0", "2,0,0,1"]
    (tmp_path / "a.csv").write_text("\n".join(["observation,1,2,3", *rows]))
    policy = resolve_policy(tmp_path / "a.csv", SPEC, "--policy", None)
    assert policy.probabilities(np.arange(4)).tolist() == [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1]]
    (tmp_path / "b.csv").write_text("\n".join(["observation,1,2,3", *rows[1:]]))
    with pytest.raises(DataError, match="1 of 4 states have no row, the first of them observation=-1"):
        resolve_policy(tmp_path / "b.csv", SPEC, "--policy", None)
