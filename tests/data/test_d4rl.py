"""D4RL's files: which rows become transitions, whose they are, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tacit.data import Box, PublicSpec, Trajectories
from tacit.data.sources import d4rl
from tacit.errors import DataError, FileError

SPEC = PublicSpec(Box((-100.0, -1.0), (100.0, 1.0)), Box((-1.0,), (1.0,)), Box((0.0,), (20.0,)), "declared")
ROWS = 12
TERMINALS, TIMEOUTS = {3, 9}, {6}


def flags(at: set[int]) -> Any:
    return np.isin(np.arange(ROWS), list(at))


def write(path: Path, **changes: Any) -> Path:
    """A recording of 12 rows: three episodes end (3: terminal, 6: timeout, 9: terminal), the last one does not."""
    at = np.arange(ROWS, dtype=np.float32)
    fields: dict[str, Any] = {
        "observations": np.stack([at, at / 100], axis=1),
        "actions": -at[:, None] / ROWS,
        "rewards": at,
        "terminals": flags(TERMINALS),
        "timeouts": flags(TIMEOUTS),
        **changes,
    }
    with h5py.File(path, "w") as file:
        for name, values in fields.items():
            if values is not None:
                file[name] = values
    return path


def qlearning(path: Path, horizon: int | None = None) -> dict[str, list[Any]]:
    """D4RL's definition, row by row."""
    out: dict[str, list[Any]] = {"observations": [], "next_observations": [], "terminations": [], "episode": []}
    with h5py.File(path) as file:
        given, n = "next_observations" in file, len(file["rewards"])
        age = episode = 0
        for i in range(n - 1):
            end = bool(file["terminals"][i])
            final = bool(file["timeouts"][i]) if "timeouts" in file else horizon is not None and age == horizon - 1
            if not final and (given or not end):
                out["observations"].append(file["observations"][i])
                out["next_observations"].append(file["next_observations"][i] if given else file["observations"][i + 1])
                out["terminations"].append(end)
                out["episode"].append(episode)
            age = 0 if end or final else age + 1
            episode += end or final
    return out


@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize("timeouts", [False, True])
def test_rows_are_those_of_qlearning_dataset(
    following: bool, timeouts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    changes: dict[str, Any] = {"next_observations": rng.uniform(-0.9, 0.9, (ROWS, 2)) if following else None}
    if not timeouts:
        changes["timeouts"] = None
    path, horizon = write(tmp_path / "maze.hdf5", **changes), None if timeouts else 2
    expected = qlearning(path, horizon)
    for size in (4, 65_536):  # in pieces, and at once
        monkeypatch.setattr(d4rl, "CHUNK", size)
        found = d4rl.read_columns(path, horizon=horizon)
        for name in ("observations", "next_observations", "terminations"):
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
        assert found["episode_ids"].tolist() == expected["episode"]
        last = np.append(np.diff(expected["episode"]) > 0, True)
        np.testing.assert_array_equal(found["truncations"], last & ~np.array(expected["terminations"]))
        np.testing.assert_array_equal(found["rewards"], found["observations"][:, 0])
    data = Trajectories.from_d4rl(path, unit=":transition", spec=SPEC, horizon=horizon, simulated=True)
    np.testing.assert_allclose(data.columns["next_observations"][:, 1], np.array(expected["next_observations"])[:, 1])


def test_units(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file["infos/patient"] = np.array([b"ann"] * 7 + [b"bo"] * 5)
    kept = [0, 1, 2, 4, 5, 7, 8, 10]

    def sizes(**options: Any) -> list[int]:
        data = Trajectories.from_d4rl(path, spec=SPEC, simulated=True, **options)
        if options["unit"] != ":chunk":
            assert data.columns["rewards"].tolist() == kept
        return np.diff(data._unit_rows[1]).tolist()

    assert sizes(unit=":transition") == [1] * 8
    assert sizes(unit=":episode") == [3, 2, 2, 1]
    assert sizes(unit="infos/patient") == [5, 3]
    assert sizes(unit=":chunk", chunk=6) == [4, 3]  # rows 0 1 2 4 and 7 8 10: row 5 leads to another piece


def test_a_chunk_says_that_it_is_one_and_keeps_to_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", terminals=flags(set()), timeouts=flags(set()))
    data = Trajectories.from_d4rl(path, unit=":chunk", chunk=4, spec=SPEC, simulated=True, store=tmp_path / "a")
    assert data._records.unit == "chunk of 4 rows"
    owner = np.repeat(np.arange(3), np.diff(data._unit_rows[1]))
    for name in ("observations", "next_observations"):
        np.testing.assert_array_equal(data.columns[name][:, 0] // 4, owner)
    assert data.columns["truncations"].tolist() == [False, False, True] * 3


def test_an_id_that_changes_within_an_episode_is_refused_without_being_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", who=np.array([b"zq-canary-81"] + [b"bo"] * (ROWS - 1)))
    with pytest.raises(DataError, match="not constant within an episode") as caught:
        Trajectories.from_d4rl(path, unit="who", spec=SPEC)
    assert "zq-canary-81" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"unit": ""}, "the unit is missing"),
        ({}, {"unit": ":chunk"}, "the unit is missing"),
        ({}, {"unit": ":chunk", "chunk": 1}, "the unit is missing"),
        ({}, {"unit": ":episode", "chunk": 5}, "the unit is missing"),
        ({}, {"unit": "who"}, "there is no column 'who'"),
        ({"actions": None}, {}, "there is no column 'actions'"),
        ({"rewards": np.float32(1.0)}, {}, "there is no column 'rewards'"),
        ({"actions": np.zeros((ROWS - 1, 1))}, {}, "ragged"),
        ({"terminals": np.linspace(0, 1, ROWS)}, {}, "a.hdf5, row 2: terminals is not boolean"),
        ({"terminals": np.array([b"x"] * ROWS)}, {}, "terminals is not boolean"),
        ({"timeouts": None}, {}, "does not say where episodes time out"),
        ({"timeouts": np.ones(ROWS)}, {}, "no row is a transition"),
        ({"actions": np.zeros((ROWS, 2))}, {}, "actions has 2 dimensions"),
        ({"rewards": np.full(ROWS, np.nan)}, {}, "rewards has a value that is NaN"),
    ],
)
def test_refusals(changes: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", **changes)
    with pytest.raises(DataError, match=message):
        Trajectories.from_d4rl(path, **{"unit": ":transition", "spec": SPEC, **options})


def test_terminals_that_the_bounds_do_not_declare_are_refused(tmp_path: Path) -> None:
    endless = dataclasses.replace(SPEC, terminals=False)
    with pytest.raises(DataError, match=r"a\.hdf5, row 4: an episode terminates"):
        Trajectories.from_d4rl(write(tmp_path / "a.hdf5"), unit=":transition", spec=endless)
    path = write(tmp_path / "b.hdf5", terminals=flags(set()))
    assert not Trajectories.from_d4rl(path, unit=":transition", spec=endless).columns["terminations"].any()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.hdf5").read_bytes()
    broken = tmp_path / "b.hdf5"
    for content in (b"", b"no HDF5", whole[:100], whole[: len(whole) // 2]):
        broken.write_bytes(content)
        with pytest.raises(FileError, match=r"b\.hdf5: the file is damaged"):
            d4rl.read_columns(broken)
    with pytest.raises(FileError, match="there is no such file"):
        d4rl.read_columns(tmp_path / "none.hdf5")


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    """A file that a stranger made must not read another one of its user's."""
    write(tmp_path / "other.hdf5")
    for kind in ("link", "virtual", "external"):
        path = write(tmp_path / f"{kind}.hdf5", rewards=None)
        with h5py.File(path, "a") as file:
            if kind == "link":
                file["rewards"] = h5py.ExternalLink("other.hdf5", "rewards")
            elif kind == "virtual":
                place = h5py.VirtualLayout((ROWS,), np.float32)
                place[:] = h5py.VirtualSource(tmp_path / "other.hdf5", "rewards", (ROWS,))
                file.create_virtual_dataset("rewards", place)
            else:
                (tmp_path / "raw").write_bytes(bytes(4 * ROWS))
                raw = [(str(tmp_path / "raw"), 0, 4 * ROWS)]
                file.create_dataset("rewards", (ROWS,), np.float32, external=raw)
        with pytest.raises(FileError, match="'rewards' lies in another file"):
            d4rl.read_columns(path)
