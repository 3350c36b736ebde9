"""Minari in and out: exact, without reward statistics, one unit an episode."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from minari.data_collector import EpisodeBuffer
from records import LOGGED, SPEC, arrays, same, trajectories, with_propensities

from tacit.data import Discrete, PublicSpec, Trajectories
from tacit.data.sources import minari as minari_source
from tacit.errors import DataError, FileError

NAME = "clinic/icu-v0"


def chains(data: Trajectories) -> Trajectories:
    """Row by row: an episode begins where the observation is not the next one of the row before, which is truncated."""
    columns = {name: np.array(column) for name, column in data.columns.items()}
    starts, owner, ids = set(data.episodes.tolist()), {}, []
    order, offsets = data._unit_rows
    for unit in range(len(offsets) - 1):
        owner.update(dict.fromkeys(order[offsets[unit] : offsets[unit + 1]].tolist(), unit))
    for row in range(len(columns["rewards"])):
        linked = row > 0 and np.array_equal(columns["next_observations"][row - 1], columns["observations"][row])
        done = row > 0 and (columns["terminations"][row - 1] or columns["truncations"][row - 1])
        begins = row in starts or not linked or bool(done)
        ids.append(ids[-1] + begins if ids else 0)
        if begins and row > 0:
            columns["truncations"][row - 1] |= not columns["terminations"][row - 1]
    columns["truncations"][-1] |= not columns["terminations"][-1]
    units = [owner[row] for row in range(len(ids))]
    return Trajectories.from_arrays(**columns, unit_ids=units, episode_ids=ids, spec=data.spec, simulated=True)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=trajectories())
def test_round_trip(data: Trajectories, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("datasets")
    data.to_minari(NAME, root=root)
    same(chains(data), Trajectories.from_minari(NAME, unit="unit", root=root, simulated=True))
    assert sorted(os.listdir(root)) == ["clinic"]


def test_round_trip_in_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minari_source, "CHUNK", 2)
    for version, unit_ids in enumerate((arrays()["unit_ids"], ":transition")):
        data = Trajectories.from_arrays(**arrays(unit_ids=unit_ids), simulated=True)
        packed = isinstance(unit_ids, str)
        data.to_minari(f"icu-v{version}", packed=packed, root=tmp_path)
        back = Trajectories.from_minari(f"icu-v{version}", unit="unit", root=tmp_path, store=tmp_path / f"n{version}")
        same(data if packed else chains(data), back)


def test_what_a_reader_without_tacit_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    before = "jax" in sys.modules
    chained = arrays(next_observations=[[0.1, 0.6], [0.2, 0.7], [0.3, 0.8], [-0.4, 1.1], [0.4, 1.6]])
    certificate = {"epsilon": 1.0, "unit": "patient"}
    folder = Trajectories.from_arrays(**chained, simulated=True).to_minari(NAME, certificate=certificate)
    assert folder == tmp_path / "clinic" / "icu-v0"
    dataset = minari.load_dataset(NAME)
    assert dataset.observation_space.shape == (2,)
    assert dataset.action_space == gymnasium.spaces.Discrete(3)
    assert dataset.storage.metadata["certificate"] == certificate
    episode = dataset[0]
    np.testing.assert_allclose(episode.observations, [[0, 0.5], [0.1, 0.6], [0.2, 0.7], [0.3, 0.8]], rtol=1e-6)
    assert episode.actions.tolist() == [0, 1, 2]
    assert episode.infos == {} or episode.infos is None
    for metadata in dataset.storage.get_episode_metadata(range(3)):
        assert set(metadata) == {"id", "total_steps", "unit"}
    assert ("jax" in sys.modules) == before
    assert os.environ["MINARI_DATASETS_PATH"] == str(tmp_path)


def test_rows_that_nothing_follows_are_episodes_of_one_step(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(unit_ids=":transition"), simulated=True)
    dataset = minari.load_dataset(data.to_minari(NAME, root=tmp_path), download=False)
    assert [len(episode) for episode in dataset] == [1, 1, 1, 1, 1]
    assert all(episode.truncations[-1] or episode.terminations[-1] for episode in dataset)


def test_independent_rows_share_an_episode_where_that_was_asked_for(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(unit_ids=":transition"), simulated=True)
    folder = data.to_minari(NAME, packed=True, root=tmp_path)
    with h5py.File(folder / "data" / "main_data.hdf5") as file:
        assert list(file) == ["episode_0"]
        infos = file["episode_0/infos"]
        np.testing.assert_array_equal(infos["next_observation"][1:], data.columns["next_observations"])
        assert infos["unit"][1:].tolist() == [0, 1, 2, 3, 4]
        assert file["episode_0/observations"].shape == (6, 2)
    description = json.loads((folder / "data" / "metadata.json").read_text())["description"]
    assert "Rows without a common history share an episode" in description


def make(root: Path, monkeypatch: pytest.MonkeyPatch, episodes: list[dict[str, Any]], **spaces: Any) -> Any:
    """A dataset that tacit did not write; `metadata` of an episode becomes attributes of its group."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    buffers = []
    for fields in episodes:
        length = fields.get("length", 2)
        buffers.append(
            EpisodeBuffer(
                observations=fields.get("observations", np.full((length + 1, 2), 0.5, np.float32)),
                actions=np.zeros(length, np.int64),
                rewards=np.full(length, 0.5),
                terminations=np.zeros(length, np.bool_),
                truncations=np.zeros(length, np.bool_),
                infos=fields.get("infos"),
            )
        )
    box = gymnasium.spaces.Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32))
    spaces = {"observation_space": box, "action_space": gymnasium.spaces.Discrete(3), **spaces}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = minari.create_dataset_from_buffers("other/data-v0", buffers, **spaces)
    dataset.storage.update_episode_metadata([fields.get("metadata", {}) for fields in episodes])
    return dataset


def test_unit_from_metadata_infos_and_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infos = [{"who": {"id": np.array([b"ann"] * 3)}}, {"who": {"id": np.array([b"bo"] * 3)}}]
    marks = [{"patient": "p1", "rewards_sum": 3.0}, {"patient": "p1", "rewards_sum": 1.0}]
    dataset = make(tmp_path, monkeypatch, [{"infos": i, "metadata": m} for i, m in zip(infos, marks, strict=True)])
    by_patient = Trajectories.from_minari(dataset, unit="patient", reward=(0, 1))
    assert by_patient._unit_rows[1].tolist() == [0, 4]
    assert by_patient.spec == PublicSpec(SPEC.observation, Discrete(3), SPEC.reward, "environment")
    assert by_patient.episodes.tolist() == [0, 2, 4]
    by_info = Trajectories.from_minari("other/data-v0", unit="who/id", spec=SPEC, root=tmp_path)
    assert by_info._unit_rows[1].tolist() == [0, 2, 4]
    by_episode = Trajectories.from_minari(dataset, unit=":episode", spec=SPEC)
    assert by_episode._unit_rows[1].tolist() == [0, 2, 4]
    assert Trajectories.from_minari(dataset, unit=":transition", spec=SPEC)._unit_rows[1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("extra", [0, 1])
def test_propensities_from_infos(extra: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # T entries, or T + 1 of which the first belongs to the reset: it may be anything, here no probability at all
    given = ([0.5, 0.25], [0.125, 1.0])
    infos = [{"log": {"p": np.array([np.nan] * extra + p), "n": np.zeros(2)}} for p in given]
    dataset = make(tmp_path, monkeypatch, [{"infos": i} for i in infos])
    for bounds in ({"spec": LOGGED}, {"reward": (0, 1)}):
        data = Trajectories.from_minari(dataset, unit=":episode", propensity="log/p", **bounds)  # type: ignore[arg-type]
        assert data.spec.propensities
        assert data.columns["propensities"].tolist() == [0.5, 0.25, 0.125, 1.0]
    with pytest.raises(DataError, match="the propensities are missing"):
        Trajectories.from_minari(dataset, unit=":episode", spec=LOGGED)
    with pytest.raises(DataError, match="there are propensities but the spec declares none"):
        Trajectories.from_minari(dataset, unit=":episode", spec=SPEC, propensity="log/p")
    for key in ("log", "p", "log/q"):
        with pytest.raises(DataError, match=f"episode 1: infos..{key}.. is missing or has another length") as caught:
            Trajectories.from_minari(dataset, unit=":episode", spec=LOGGED, propensity=key)
        assert "propensity=" in caught.value.remedy


def test_own_propensities_return(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**with_propensities(), simulated=True)
    data.to_minari(NAME, root=tmp_path)
    back = Trajectories.from_minari(NAME, unit="unit", root=tmp_path)
    same(chains(data), back)
    without = Trajectories.from_minari(NAME, unit="unit", spec=SPEC, root=tmp_path)
    assert "propensities" not in without.columns


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infos = {"who": np.array(["zq-canary-81", "zq-canary-81", "b"], dtype=object)}
    dataset = make(tmp_path, monkeypatch, [{"metadata": {"patient": "a"}}, {"infos": infos}])
    with pytest.raises(DataError, match="episode 2: there is no unit id 'patient'"):
        Trajectories.from_minari(dataset, unit="patient", spec=SPEC)
    with pytest.raises(DataError, match="episode 1: there is no unit id 'who'"):
        Trajectories.from_minari(dataset, unit="who", spec=SPEC)
    dataset.episode_indices = np.array([1])
    with pytest.raises(DataError, match="episode 1: the unit id is not constant") as caught:
        Trajectories.from_minari(dataset, unit="who", spec=SPEC)
    assert "zq-canary-81" not in str(caught.value)
    with pytest.raises(DataError, match="bounds of the reward are missing"):
        Trajectories.from_minari(dataset, unit=":episode")
    with pytest.raises(DataError, match="there is no unit id"):
        Trajectories.from_minari(dataset, unit="", spec=SPEC)


def test_empty_ragged_and_unbounded_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make(tmp_path, monkeypatch, [{}, {"length": 1}])
    with h5py.File(dataset.storage.data_path / "main_data.hdf5", "a") as file:
        for name in ("actions", "rewards", "terminations", "truncations"):
            file["episode_1"][name].resize((0,))
        file["episode_1/observations"].resize((1, 2))
    with pytest.raises(DataError, match="episode 2: the episode is empty"):
        Trajectories.from_minari(dataset, unit=":episode", spec=SPEC)
    with h5py.File(dataset.storage.data_path / "main_data.hdf5", "a") as file:
        file["episode_0/actions"].resize((1,))
    with pytest.raises(DataError, match="episode 1: the episode is ragged"):
        Trajectories.from_minari(dataset, unit=":episode", spec=SPEC)
    unbounded = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    dataset = make(tmp_path / "2", monkeypatch, [{}], observation_space=unbounded)
    with pytest.raises(DataError, match="infinite bound"):
        Trajectories.from_minari(dataset, unit=":episode", reward=(0, 1))


def test_dictionary_observations_are_flattened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = gymnasium.spaces.Box(-1, 1, (1,))
    space = gymnasium.spaces.Dict({"goal": box, "place": box})
    values = {"goal": np.full((3, 1), 0.25, np.float32), "place": np.full((3, 1), 0.75, np.float32)}
    dataset = make(tmp_path, monkeypatch, [{"observations": values}], observation_space=space)
    data = Trajectories.from_minari(dataset, unit=":episode", reward=(0, 1))
    np.testing.assert_array_equal(data.columns["observations"], np.tile(np.float32([0.25, 0.75]), (2, 1)))


@pytest.mark.parametrize("name", ["../icu-v0", "/etc/icu-v0", "a/../../icu-v0", "icu", "icu-v", "", "a b-v0", "x/z-v0"])
def test_ids_stay_in_the_folder(name: str, tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(), simulated=True)
    with pytest.raises(FileError, match="leads out of the folder"):
        data.to_minari(name, root=tmp_path / "datasets")
    with pytest.raises(FileError, match="leads out of the folder"):
        Trajectories.from_minari(name, unit="unit", root=tmp_path / "datasets")
    assert list(tmp_path.iterdir()) == []


def test_missing_truncated_and_existing_datasets(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(), simulated=True)
    with pytest.raises(FileError, match="missing, truncated"):
        Trajectories.from_minari(NAME, unit="unit", root=tmp_path)
    folder = data.to_minari(NAME, root=tmp_path)
    with pytest.raises(FileError, match="exists already"):
        data.to_minari(NAME, root=tmp_path)
    content = (folder / "data" / "main_data.hdf5").read_bytes()
    for keep in (0, 100, len(content) // 2, len(content) - 1):
        (folder / "data" / "main_data.hdf5").write_bytes(content[:keep])
        with pytest.raises(FileError, match="missing, truncated"):
            Trajectories.from_minari(NAME, unit="unit", root=tmp_path)
    (folder / "data" / "metadata.json").write_text("{")
    with pytest.raises(FileError, match="missing, truncated"):
        Trajectories.from_minari(NAME, unit="unit", root=tmp_path)


def test_failed_writes_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Trajectories.from_arrays(**arrays(), simulated=True)
    with pytest.raises(DataError, match="not of JSON values"):
        data.to_minari(NAME, certificate={"epsilon": float("nan")}, root=tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(minari_source, "_move_namespaces", full)
    with pytest.raises(FileError, match="No space left on device"):
        data.to_minari(NAME, root=tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_one_entry_of_dictionary_observations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As PointMaze and FrankaKitchen write them: the goals are no part of the state."""
    box, far = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    space = gymnasium.spaces.Dict({"achieved_goal": far, "observation": box})
    rng = np.random.default_rng(0)
    seen = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
    values = {"achieved_goal": np.full((3, 1), 9.0, np.float32), "observation": seen}
    dataset = make(tmp_path, monkeypatch, [{"observations": values}], observation_space=space)
    data = Trajectories.from_minari(dataset, unit=":episode", reward=(0, 1), observation="observation")
    np.testing.assert_array_equal(data.columns["observations"], seen[:-1])
    np.testing.assert_array_equal(data.columns["next_observations"], seen[1:])
    for key, of in (("goal", dataset), ("observation", make(tmp_path / "2", monkeypatch, [{}]))):
        for bounds in ({"spec": SPEC}, {"reward": (0, 1)}):
            with pytest.raises(DataError, match=f"there is no observation '{key}'"):
                Trajectories.from_minari(of, unit=":episode", observation=key, **bounds)  # type: ignore[arg-type]


def test_a_robot_of_gymnasium_whose_spaces_have_no_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the datasets mujoco/*: float64 observations without bounds, so they need a declared spec."""
    space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    dataset = make(tmp_path, monkeypatch, [{}, {}], observation_space=space)
    data = Trajectories.from_minari(dataset, unit=":transition", spec=SPEC)
    assert data.columns["observations"].dtype == np.float32
    assert data._unit_rows[1].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="declare a PublicSpec"):
        Trajectories.from_minari(dataset, unit=":transition", reward=(0, 1))
