"""Simulated sets as files and tables: names, labels and nulls as declared, and every format reads back exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyarrow import parquet
from records import SPEC, arrays, same, trajectories, with_propensities

from tacit.data import Box, Column, PublicSpec, Trajectories, outputs
from tacit.data.spec import space_of
from tacit.data.store import chain_ends
from tacit.errors import DataError, FileError

PULSE = Column("pulse", "number", 30, 220, missing="flag")
WARDS = Column("wards", "integer", 0, 12)
STATE = Column("state", "category", labels=("NA", "ill", "well"), missing="flag")
DRUG = Column("drug", "category", labels=("none", "heparin"))
NAMED = PublicSpec(space_of(PULSE, WARDS, STATE), space_of(DRUG), Box((-1,), (0,)), "declared")


def named() -> Trajectories:
    """Three transitions; in the first the pulse is missing, and in the second the next state."""
    return Trajectories.from_arrays(
        observations=[[30, 1, 3, 2, 0], [80.5, 0, 12, 1, 0], [90, 0, 0, 0, 0]],
        actions=[1, 0, 1],
        rewards=[-0.5, 0.0, -1.0],
        next_observations=[[60, 0, 3, 1, 0], [90, 0, 12, 0, 1], [99, 0, 1, 0, 0]],
        terminations=[False, False, True],
        unit_ids=":transition",
        spec=NAMED,
        simulated=True,
    )


def test_a_table_has_the_declared_names_labels_and_nulls() -> None:
    table = named().to_arrow(certificate={"epsilon": 1.0})
    assert table.to_pydict() == {
        "pulse": [None, 80.5, 90.0],
        "wards": [3, 12, 0],
        "state": ["well", "ill", "NA"],
        "drug": ["heparin", "none", "heparin"],
        "reward": [-0.5, 0.0, -1.0],
        "next_pulse": [60.0, 90.0, 99.0],
        "next_wards": [3, 12, 1],
        "next_state": ["ill", None, "NA"],
        "termination": [False, False, True],
        "truncation": [False, False, False],
    }
    assert table.schema.field("state").type == pa.dictionary(pa.int32(), pa.string())
    assert table.column("state").chunk(0).dictionary.to_pylist() == ["NA", "ill", "well"]
    assert table.schema.field("wards").type == pa.int64()
    assert json.loads(table.schema.metadata[b"tacit"]) == {
        "format": "tacit.rows",
        "version": 1,
        "simulated": True,
        "owner": "transition",
        "unit": None,
        "spec": NAMED.to_json(),
        "certificate": {"epsilon": 1.0},
    }


def test_a_frame_has_categories() -> None:
    frame = named().to_pandas()
    assert list(frame["state"].cat.categories) == ["NA", "ill", "well"]
    assert frame["pulse"].isna().tolist() == [True, False, False]
    assert frame["next_state"].isna().tolist() == [False, True, False]


def test_rows_that_follow_one_another_are_counted() -> None:
    table = Trajectories.from_arrays(**arrays(), simulated=True).to_arrow()
    first = {name: table.column(name).to_pylist() for name in table.column_names[:3]}
    assert first == {"episode": [0, 0, 0, 1, 2], "step": [0, 1, 2, 0, 0], "unit": [0, 0, 0, 1, 0]}
    one = Trajectories.from_arrays(**arrays(unit_ids=":episode"), simulated=True).to_arrow()
    assert one.column_names[:3] == ["episode", "step", "observation_0"]
    rows = Trajectories.from_arrays(**arrays(unit_ids=":transition"), simulated=True).to_arrow()
    assert rows.column_names[0] == "observation_0"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=trajectories())
def test_every_file_reads_back(data: Trajectories, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rows")
    data.to_parquet(folder / "rows.parquet"), data.to_csv(folder / "rows.csv"), data.to_npz(folder / "rows.npz")
    assert sorted(os.listdir(folder)) == ["rows.csv", "rows.csv.json", "rows.npz", "rows.parquet"]
    names = parquet.read_schema(folder / "rows.parquet").names
    ids = {"unit": ":transition"} if "episode" not in names else {"unit": ":episode", "episode": "episode"}
    ids |= {"unit": "unit"} if "unit" in names else {}
    same(data, Trajectories.from_parquet(folder / "rows.parquet", simulated=True, **ids))
    same(data, Trajectories.from_csv(folder / "rows.csv", spec=data.spec, simulated=True, **ids))
    whole = {"unit": "unit", "episode": "episode"}
    same(data, Trajectories.from_npz(folder / "rows.npz", spec=data.spec, simulated=True, **whole))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_named_columns_read_back(form: str, tmp_path: Path) -> None:
    getattr(named(), f"to_{form}")(tmp_path / "rows")
    read = getattr(Trajectories, f"from_{form}")
    same(named(), read(tmp_path / "rows", unit=":transition", spec=NAMED, simulated=True))


def test_a_file_is_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "GROUP", 2)
    data = Trajectories.from_arrays(**with_propensities(), simulated=True)
    data.to_parquet(tmp_path / "rows.parquet"), data.to_csv(tmp_path / "rows.csv")
    assert parquet.ParquetFile(tmp_path / "rows.parquet").num_row_groups == 3
    for frame in (pd.read_parquet(tmp_path / "rows.parquet"), pd.read_csv(tmp_path / "rows.csv")):
        assert frame["step"].tolist() == [0, 1, 2, 0, 0]
        assert frame["unit"].tolist() == [0, 0, 0, 1, 0]
        np.testing.assert_allclose(frame["propensity"], [0.5, 1.0, 0.25, 0.1, 1e-9], rtol=1e-6)


def test_a_csv_file_has_its_description_beside_it(tmp_path: Path) -> None:
    named().to_csv(tmp_path / "rows.csv", certificate={"epsilon": 1.0})
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[1] == ',3,"well","heparin",-0.5,60,3,"ill",false,false'
    note = json.loads((tmp_path / "rows.csv.json").read_text())
    assert note["certificate"] == {"epsilon": 1.0}
    assert PublicSpec.from_json(note["spec"]) == NAMED
    with np.load(_npz(tmp_path), allow_pickle=False) as archive:
        assert json.loads(str(archive["tacit"])) == {key: value for key, value in note.items() if key != "certificate"}


def _npz(folder: Path) -> Path:
    named().to_npz(folder / "rows.npz")
    return folder / "rows.npz"


def test_ends_are_where_no_row_follows() -> None:
    data = Trajectories.from_arrays(**arrays(episode_ids=None, unit_ids=["ann"] * 5), simulated=True)
    assert chain_ends(data._records).tolist() == [False, False, True, True, True]
    apart = arrays(terminations=[False] * 5, truncations=None, episode_ids=[1, 1, 1, 2, 2], unit_ids=["ann"] * 5)
    apart["next_observations"][0] = [0.9, 0.9]
    data = Trajectories.from_arrays(**apart, simulated=True)
    assert chain_ends(data._records).tolist() == [True, False, True, True, True]


def many(rows: int, unit_ids: Any = ":transition") -> Trajectories:
    """Rows that nothing follows, or, with ids, episodes of two."""
    states = np.linspace(0.01, 0.99, 2 * rows).reshape(rows, 2)
    following = np.append(states[1:], [[0.5, 0.5]], axis=0)
    fields = {"observations": states, "next_observations": following, "actions": np.zeros(rows, int)}
    flags = {"terminations": np.zeros(rows, bool), "rewards": np.zeros(rows)}
    return Trajectories.from_arrays(**fields, **flags, unit_ids=unit_ids, spec=SPEC, simulated=True)


def test_minari_takes_no_more_single_steps_than_it_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outputs.SINGLE == 10_000
    with pytest.raises(DataError, match=r"Minari would need 10,001 episodes for them; .*write a Parquet file"):
        many(10_001).to_minari("rows-v0", root=tmp_path)
    monkeypatch.setattr(outputs, "SINGLE", 3)
    many(3).to_minari("rows-v0", root=tmp_path)
    many(4).to_minari("packed-v0", packed=True, root=tmp_path)
    many(8, unit_ids=np.repeat(np.arange(4), 2)).to_minari("chains-v0", root=tmp_path)
    with pytest.raises(DataError, match="the rows do not follow one another"):
        many(4).to_minari("more-v0", root=tmp_path)


WRITERS: dict[str, Callable[[Trajectories, Path], object]] = {
    "to_arrow": lambda data, path: data.to_arrow(),
    "to_pandas": lambda data, path: data.to_pandas(),
    "to_parquet": lambda data, path: data.to_parquet(path),
    "to_csv": lambda data, path: data.to_csv(path),
    "to_npz": lambda data, path: data.to_npz(path),
    "to_d3rlpy": lambda data, path: data.to_d3rlpy(),
    "to_torchrl": lambda data, path: data.to_torchrl(),
    "to_minari": lambda data, path: data.to_minari("rows-v0", root=path),
}


@pytest.mark.parametrize("method", WRITERS)
def test_private_records_are_not_written(method: str, tmp_path: Path) -> None:
    private = Trajectories.from_arrays(**arrays())
    with pytest.raises(DataError, match="real records cannot be written"):
        WRITERS[method](private, tmp_path / "rows")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("method", ["to_parquet", "to_csv", "to_npz"])
def test_a_taken_place_is_left_alone(method: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        WRITERS[method](named(), tmp_path / "rows")
    with pytest.raises(FileError, match="could not be written"):
        WRITERS[method](named(), tmp_path / "none" / "rows")
    assert (tmp_path / "rows").read_text() == "mine"
    assert os.listdir(tmp_path) == ["rows"]


def test_a_certificate_of_other_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the certificate is not of JSON values"):
        named().to_parquet(tmp_path / "rows.parquet", certificate={"epsilon": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_foreign_file_needs_a_spec(tmp_path: Path) -> None:
    pd.DataFrame({"observation_0": [0.0]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="the public bounds are missing; expected spec= a PublicSpec, or a file"):
        Trajectories.from_parquet(tmp_path / "rows.parquet", unit=":transition")
    table = named().to_arrow().replace_schema_metadata({"tacit": '{"spec": {"observation": 3}}'})
    parquet.write_table(table, tmp_path / "edited.parquet")
    with pytest.raises(DataError, match=r"edited.parquet: the field 'action' is missing"):
        Trajectories.from_parquet(tmp_path / "edited.parquet", unit=":transition")
