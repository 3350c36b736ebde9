"""What other libraries load of a synthetic set: each of its rows, with its own next observation, and no other row.

d3rlpy and TorchRL are tried where they are installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.synthesis.trajectories.trajectory_cases import small

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods import synthesis
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.plan import Sampler

ROWS, EPISODES = 10_000, 200
Columns = Mapping[str, np.ndarray]


def spec(action: Box | Discrete) -> PublicSpec:
    return PublicSpec(Box((0.0, 0.0), (1.0, 1.0)), action, Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.1))


@pytest.fixture(scope="module")
def rows() -> tuple[Columns, Trajectories]:
    """Synthetic transitions of an untrained model, as columns and as a set."""
    plan = synthesis.TransitionsPlan(width=8, depth=1, sampler=Sampler(steps=2))
    start = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(spec(Discrete(2))), None, seed=0)
    value = synthesis.Synthesizer(plan, start.encoder, start.average)
    return value.sample_columns(ROWS, seed=1), value.sample(ROWS, seed=1)


@pytest.fixture(scope="module")
def chains() -> tuple[Columns, Trajectories]:
    """Synthetic trajectories of an untrained model, as columns and as a set."""
    plan = small(longest=25)
    bounds = synthesis.Encoder.from_bounds(spec(Box((-1.0,), (1.0,))))
    start = trajectories.pretrain(plan, bounds, None, seed=0)
    value = trajectories.TrajectorySynthesizer(plan, start.encoder, start.starts, start.fragments)
    return value.sample_trajectories(EPISODES, seed=1).columns, value.sample(EPISODES, seed=1)


def test_the_sets_are_what_they_are_said_to_be(
    rows: tuple[Columns, Trajectories], chains: tuple[Columns, Trajectories]
) -> None:
    assert rows[1].counts() == {"transitions": ROWS, "episodes": ROWS, "units": ROWS}
    assert 0 < rows[0]["terminations"].sum() < ROWS
    assert chains[1].counts()["episodes"] == EPISODES
    assert chains[1].counts()["transitions"] > 5 * EPISODES
    assert 0 < chains[0]["terminations"].sum() < EPISODES


def agree(expected: Columns, loaded: Columns, *, terminal_next: bool = True) -> None:
    """Every row, in order; without `terminal_next` the next observations of rows that terminate are all zero."""
    done = np.asarray(expected["terminations"])
    assert len(loaded["rewards"]) == len(done)
    np.testing.assert_array_equal(np.asarray(loaded["terminations"], bool), done)
    for name in ("observations", "actions", "rewards", "next_observations"):
        column = np.asarray(expected[name], np.float32)
        if name == "next_observations" and not terminal_next:
            column = np.where(done[:, None], np.float32(0), column)
        np.testing.assert_array_equal(np.asarray(loaded[name], np.float32).reshape(column.shape), column, err_msg=name)


@pytest.fixture(params=["rows", "chains"])
def drawn(request: pytest.FixtureRequest) -> tuple[Columns, Trajectories]:
    pair: tuple[Columns, Trajectories] = request.getfixturevalue(request.param)
    return pair


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_pandas_reads_every_row(form: str, drawn: tuple[Columns, Trajectories], tmp_path: Path) -> None:
    import pandas as pd

    columns, data = drawn
    getattr(data, f"to_{form}")(tmp_path / "rows")
    frame = getattr(pd, f"read_{form}")(tmp_path / "rows")
    wide = {"observations": "observation_", "next_observations": "next_observation_"}
    loaded = {field: frame[[f"{stem}0", f"{stem}1"]] for field, stem in wide.items()}
    loaded |= {"actions": frame.filter(regex="^action"), "rewards": frame["reward"]}
    agree(columns, {**loaded, "terminations": frame["termination"]})
    assert ("episode" in frame) == (len(data.episodes) <= len(frame))


@pytest.mark.parametrize("size", [200, pytest.param(ROWS, marks=pytest.mark.slow)])
def test_a_plain_reader_of_minari_reads_every_row(
    size: int, rows: tuple[Columns, Trajectories], tmp_path: Path
) -> None:
    columns = {name: column[:size] for name, column in rows[0].items()}
    data = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=rows[1].spec, simulated=True)
    agree(columns, plainly(data, tmp_path))


def test_a_plain_reader_of_minari_reads_every_row_of_trajectories(
    chains: tuple[Columns, Trajectories], tmp_path: Path
) -> None:
    agree(chains[0], plainly(chains[1], tmp_path))


def plainly(data: Trajectories, root: Path) -> dict[str, Any]:
    """Columns as scripts read a Minari dataset: `observations[1:]` are the next observations."""
    import minari

    parts: list[dict[str, Any]] = []
    for episode in minari.load_dataset(data.to_minari("rows-v0", root=root)):
        assert episode.terminations[-1] or episode.truncations[-1]
        parts.append(
            {
                "observations": episode.observations[:-1],
                "next_observations": episode.observations[1:],
                "actions": episode.actions,
                "rewards": episode.rewards,
                "terminations": episode.terminations,
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.filterwarnings("ignore")
def test_d3rlpy_reads_every_row(drawn: tuple[Columns, Trajectories]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("d3rlpy")
        columns, data = drawn
        dataset = data.to_d3rlpy()
    picked = [
        dataset.transition_picker(episode, row)
        for episode in dataset.episodes
        for row in range(episode.transition_count)
    ]
    names = {"observations": "observation", "next_observations": "next_observation", "actions": "action"}
    names |= {"rewards": "reward", "terminations": "terminal"}
    loaded = {field: np.array([getattr(row, name) for row in picked]) for field, name in names.items()}
    agree(columns, loaded, terminal_next=False)
    action = data.spec.action
    assert dataset.dataset_info.action_size == (action.n if isinstance(action, Discrete) else action.size)


@pytest.mark.filterwarnings("ignore")
def test_torchrl_reads_every_row(drawn: tuple[Columns, Trajectories]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchrl = pytest.importorskip("torchrl.data")
    columns, data = drawn
    given = data.to_torchrl()
    size = given.batch_size[0]
    buffer = torchrl.ReplayBuffer(
        storage=torchrl.LazyTensorStorage(size),
        sampler=torchrl.SamplerWithoutReplacement(shuffle=False),
        batch_size=size,
    )
    buffer.extend(given)
    loaded = buffer.sample()
    following = loaded["next"]
    agree(
        columns,
        {
            "observations": loaded["observation"],
            "actions": loaded["action"],
            "rewards": following["reward"],
            "next_observations": following["observation"],
            "terminations": following["terminated"][:, 0],
        },
    )
    ends = np.append(np.diff(loaded["episode"].numpy()) > 0, True)
    np.testing.assert_array_equal(following["done"][:, 0].numpy(), ends)
    np.testing.assert_array_equal((following["terminated"] | following["truncated"])[:, 0].numpy(), ends)
