"""The native format: exact, atomic, mapped, and refused when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from records import SPEC, arrays, same, trajectories, with_propensities

from tacit.data import Box, Discrete, PublicSpec, Trajectories, store
from tacit.data.unit_keys import names
from tacit.errors import DataError, FileError


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=trajectories())
def test_round_trip(data: Trajectories, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("native") / "set"
    data.save(folder)
    back = Trajectories.open(folder)
    same(data, back)
    assert back.simulated
    assert back.unit_kind == "id"
    assert os.listdir(folder.parent) == ["set"]


def test_ingest_straight_to_disk(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(), store=tmp_path / "set")
    same(data, Trajectories.from_arrays(**arrays()))
    same(data, Trajectories.open(tmp_path / "set"))
    assert not Trajectories.open(tmp_path / "set").simulated
    assert not data.columns["rewards"].flags.writeable
    written = {path.stem for path in (tmp_path / "set").iterdir()}
    assert written == {"spec", *data.columns, "order", "offsets", "episodes", "names", "private"}
    assert (tmp_path / "set").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("ids", "kind"), [(":episode", "episode"), (":transition", "transition"), ([1] * 5, "id")])
def test_how_units_were_made_is_kept(ids: Any, kind: str, tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(unit_ids=ids, episode_ids=None), store=tmp_path / "set")
    data.save(tmp_path / "copy")
    assert data.unit_kind == Trajectories.open(tmp_path / "set").unit_kind == kind
    assert Trajectories.open(tmp_path / "copy").unit_kind == kind


def test_the_name_of_the_column_of_the_units_is_kept(tmp_path: Path) -> None:
    names = {name: np.asarray(values) for name, values in arrays().items() if name != "spec"}
    ids = {"doctor": names.pop("unit_ids"), "stay": names.pop("episode_ids")}
    for unit, kept in (("doctor", "doctor"), (":episode", None)):
        np.savez(tmp_path / "a.npz", **{name: ids[name] for name in ids if name in (unit, "stay")}, **names)
        folder = tmp_path / unit.strip(":")
        Trajectories.from_npz(tmp_path / "a.npz", unit=unit, episode="stay", spec=SPEC, store=folder)
        assert store.read_public(folder).unit == kept
        Trajectories.open(folder).save(tmp_path / f"copy of {folder.name}")
        assert store.read_public(tmp_path / f"copy of {folder.name}").unit == kept


def test_an_unknown_kind_of_unit_or_law_is_damage(tmp_path: Path) -> None:
    Trajectories.from_arrays(**arrays()).save(tmp_path / "set")
    said = json.loads((tmp_path / "set" / "spec.json").read_text())
    for wrong in ({"owner": "household"}, {"unit_key": "merge"}, {"queried": 1}, {"copied_ends": 1}, {"version": 1}):
        (tmp_path / "set" / "spec.json").write_text(json.dumps({**said, **wrong}))
        with pytest.raises(FileError, match=r"spec\.json is missing or damaged"):
            Trajectories.open(tmp_path / "set")


def test_names_are_kept_and_needed(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays(), unit_key="exact", store=tmp_path / "set")
    data.save(tmp_path / "copy")
    for folder in ("set", "copy"):
        records = Trajectories.open(tmp_path / folder)._records
        np.testing.assert_array_equal(records.names, names(["ann", "bob"]))
        assert records.unit_key == "exact"
    np.save(tmp_path / "copy" / "names.npy", names(["ann", "bob", "eve"]))
    with pytest.raises(FileError, match="not one name for each unit"):
        Trajectories.open(tmp_path / "copy")
    (tmp_path / "set" / "names.npy").unlink()
    with pytest.raises(FileError, match=r"names\.npy"):
        Trajectories.open(tmp_path / "set")


def test_missing_propensities_are_damage(tmp_path: Path) -> None:
    Trajectories.from_arrays(**with_propensities()).save(tmp_path / "set")
    assert Trajectories.open(tmp_path / "set").columns["propensities"][2] == 0.25
    (tmp_path / "set" / "propensities.npy").unlink()
    with pytest.raises(FileError, match=r"propensities\.npy"):
        Trajectories.open(tmp_path / "set")


def test_refused_records_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        Trajectories.from_arrays(**arrays(unit_ids=["a", "b", "b", "b", "b"]), store=tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def test_never_overwrites(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays())
    data.save(tmp_path / "set")
    with pytest.raises(FileError, match="exists already"):
        data.save(tmp_path / "set")
    with pytest.raises(FileError, match="exists already"):
        Trajectories.from_arrays(**arrays(), store=tmp_path / "set")


def test_a_disk_that_is_full_when_files_are_closed_leaves_nothing_behind(tmp_path: Path) -> None:
    class Full:
        def close(self) -> None:
            raise OSError(28, "No space left on device")

    sink = store.FolderColumns(tmp_path / "set")
    sink._files["rewards"] = Full()  # type: ignore[assignment]
    sink.abort()
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device"):
        Trajectories.from_arrays(**arrays()).save(tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def _truncate(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def _overwrite(path: Path, values: list[int]) -> None:
    np.save(path, np.array(values, dtype=np.int64))


DAMAGE = {
    "truncated column": lambda f: _truncate(f / "observations.npy", 0.9),
    "truncated header": lambda f: _truncate(f / "rewards.npy", 0.1),
    "empty file": lambda f: (f / "actions.npy").write_bytes(b""),
    "missing column": lambda f: (f / "truncations.npy").unlink(),
    "pickled column": lambda f: np.save(f / "rewards.npy", np.array([{}] * 5), allow_pickle=True),
    "another type": lambda f: np.save(f / "rewards.npy", np.zeros(5)),
    "another length": lambda f: np.save(f / "rewards.npy", np.zeros(4, np.float32)),
    "another width": lambda f: np.save(f / "observations.npy", np.zeros((5, 3), np.float32)),
    "row twice": lambda f: _overwrite(f / "order.npy", [0, 1, 2, 2, 3]),
    "row out of range": lambda f: _overwrite(f / "order.npy", [0, 1, 2, 5, 3]),
    "falling boundaries": lambda f: _overwrite(f / "offsets.npy", [0, 4, 3, 5]),
    "first boundary": lambda f: _overwrite(f / "offsets.npy", [1, 5]),
    "last boundary": lambda f: _overwrite(f / "episodes.npy", [0, 3]),
    "no spec": lambda f: (f / "spec.json").unlink(),
    "truncated spec": lambda f: _truncate(f / "spec.json", 0.5),
    "spec of a list": lambda f: (f / "spec.json").write_text("[]"),
    "another version": lambda f: (f / "spec.json").write_text(
        json.dumps({"format": "tacit.trajectories", "version": 2, "simulated": True, "spec": SPEC.to_json()})
    ),
    "link outside": lambda f: (
        (f / "rewards.npy").rename(f.parent / "elsewhere.npy"),
        (f / "rewards.npy").symlink_to(f.parent / "elsewhere.npy"),
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_a_file_error(name: str, tmp_path: Path) -> None:
    Trajectories.from_arrays(**arrays()).save(tmp_path / "set")
    DAMAGE[name](tmp_path / "set")
    with pytest.raises(FileError, match="import or save the data again"):
        Trajectories.open(tmp_path / "set")


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such folder"):
        Trajectories.open(tmp_path / "nothing")


RESIDENT = """
import sys
import numpy as np
from tacit.data import Trajectories

def resident():
    with open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
    return np.array([pages[1], pages[1] - pages[2]]) * 4096 / 2**20  # all, and without mapped files

before = resident()
data = Trajectories.open(sys.argv[1])
opened = resident() - before
order, offsets = data._unit_rows
rng = np.random.default_rng(0)
total = 0.0
for step in range(20):
    units = rng.integers(0, len(offsets) - 1, 100)
    rows = np.concatenate([order[offsets[u]:offsets[u + 1]] for u in units])
    total += sum(float(column[rows].sum()) for column in data._columns.values())
assert np.isfinite(total)
print(opened[0], (resident() - before)[1])
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_mapped_rows_stay_on_disk(tmp_path: Path) -> None:
    rows, folder = 1_200_000, tmp_path / "large"
    spec = PublicSpec(Box((-1,) * 8, (1,) * 8), Box((-1,) * 4, (1,) * 4), Box((0,), (1,)), "declared")
    block = np.zeros((rows, 8), np.float32)
    records = store.StoredRecords(
        {
            "observations": block,
            "actions": block[:, :4],
            "rewards": block[:, 0],
            "next_observations": block,
            "terminations": np.zeros(rows, np.bool_),
            "truncations": np.zeros(rows, np.bool_),
        },
        order=np.arange(rows),
        offsets=np.arange(0, rows + 1, 100),
        episodes=np.arange(0, rows + 1, 100),
        names=names(map(str, range(rows // 100))),
    )
    store.write(records, spec, folder, simulated=True)
    assert sum(path.stat().st_size for path in folder.iterdir()) > 100e6
    # a fresh process: this one has held the arrays already
    out = subprocess.run([sys.executable, "-c", RESIDENT, str(folder)], check=True, capture_output=True, text=True)
    # Pages of the file cache that a gather maps count as resident too, but the system takes them back at need, so
    # after the gathers only what the process itself holds is compared (MB).
    opening, own = map(float, out.stdout.split())
    assert opening < 20.0
    assert own < 20.0


def test_ingest_to_disk_holds_no_copy(tmp_path: Path) -> None:
    rows = 400_000
    source = {"observations": (rows, 8), "next_observations": (rows, 8), "actions": (rows, 4), "rewards": (rows,)}
    fields = {
        name: np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", np.float32, shape)
        for name, shape in source.items()
    }
    spec = PublicSpec(Box((-1,) * 8, (1,) * 8), Box((-1,) * 4, (1,) * 4), Box((0,), (1,)), "declared")
    ends = np.arange(rows) % 100 == 99
    units = np.arange(rows) // 100
    tracemalloc.start()
    data = Trajectories.from_arrays(
        **fields, terminations=ends, unit_ids=units, spec=spec, simulated=True, store=tmp_path / "set"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.counts() == {"transitions": rows, "episodes": rows // 100, "units": rows // 100}
    assert sum(column.nbytes for column in data.columns.values()) > 33e6
    assert peak < 20e6


def test_ingest_to_memory_holds_little_more_than_the_records() -> None:
    rows = 400_000
    spec = PublicSpec(Box((-1,), (1,)), Discrete(2), Box((0,), (1,)), "declared")
    column, flags = np.zeros(rows, np.float32), np.zeros(rows, np.bool_)
    fields = {"observations": column, "next_observations": column, "actions": flags, "rewards": column}
    tracemalloc.start()
    data = Trajectories.from_arrays(**fields, terminations=flags, unit_ids=np.arange(rows), spec=spec, simulated=True)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.counts() == {"transitions": rows, "episodes": rows, "units": rows}
    assert held == pytest.approx(rows * (4 + 4 + 8 + 4 + 1 + 1 + 3 * 8 + 16), rel=0.01)
    assert peak < 1.6 * held
