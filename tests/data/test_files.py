"""Tables and archives: read in chunks, exact, and refused without a word about their cells."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from records import LOGGED, SPEC, arrays, same, trajectories, with_propensities

from tacit.data import Box, Discrete, PublicSpec, Trajectories, inspect
from tacit.data.sources import files, tables
from tacit.errors import DataError, FileError, TacitError

READERS = {"csv": Trajectories.from_csv, "parquet": Trajectories.from_parquet}


def table(data: Trajectories, unit: str = "unit", episode: str = "episode") -> pd.DataFrame:
    """One row a transition, under the default names."""
    columns: dict[str, Any] = {}
    for field, names in files.Fields.of(data.spec).columns().items():
        if field not in data.columns:
            continue
        values = np.asarray(data.columns[field]).reshape(len(data.columns["rewards"]), -1)
        columns |= {name: values[:, i] for i, name in enumerate(names)}
    order, offsets = data._unit_rows
    codes = np.empty(len(order), np.int64)
    codes[order] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    lengths = np.diff(data.episodes)
    return pd.DataFrame({**columns, unit: codes, episode: np.repeat(np.arange(len(lengths)), lengths)})


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path


def small() -> pd.DataFrame:
    return table(Trajectories.from_arrays(**arrays()))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=trajectories())
def test_round_trips(data: Trajectories, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    frame = table(data)
    for kind, reader in READERS.items():
        path = write(frame, folder / f"set.{kind}")
        same(data, reader(path, unit="unit", episode="episode", spec=data.spec, simulated=True))
    np.savez(folder / "set.npz", **data.columns, unit=frame["unit"], episode=frame["episode"])
    same(
        data,
        Trajectories.from_npz(folder / "set.npz", unit="unit", episode="episode", spec=data.spec, simulated=True),
    )


@pytest.mark.parametrize("kind", READERS)
def test_many_chunks_to_disk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", 2)
    path = write(small(), tmp_path / f"a.{kind}")
    data = READERS[kind](path, unit="unit", episode="episode", spec=SPEC, store=tmp_path / "native")
    same(data, Trajectories.from_arrays(**arrays()))
    same(data, Trajectories.open(tmp_path / "native"))


@pytest.mark.parametrize("kind", READERS)
def test_two_files(kind: str, tmp_path: Path) -> None:
    first = small().assign(unit=["007", "007", "007", "b", "007"])
    second = first.assign(unit=["7", "7", "7", "c", "7"])
    paths = [write(first, tmp_path / f"a.{kind}"), write(second, tmp_path / f"b.{kind}")]
    data = READERS[kind](paths, unit="unit", episode="episode", spec=SPEC)
    assert data._unit_rows[1].tolist() == [0, 4, 5, 9, 10]
    assert data.episodes.tolist() == [0, 3, 4, 5, 8, 9, 10]
    write(second.assign(unit=["7", "7", "7", "b", "7"]), paths[1])
    with pytest.raises(DataError, match=rf"b\.{kind}.*row 4: a unit id also occurs in an earlier file") as caught:
        READERS[kind](paths, unit="unit", episode="episode", spec=SPEC)
    assert "concatenate the files first" in caught.value.remedy
    with pytest.raises(FileError, match="the same file twice"):
        READERS[kind]([paths[0], paths[0]], unit="unit", episode="episode", spec=SPEC)


def test_duplicate_unit_across_archives(tmp_path: Path) -> None:
    frame = small()
    fields = {name: value for name, value in arrays().items() if name not in ("spec", "unit_ids", "episode_ids")}
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **fields, unit=frame["unit"] + 5, episode=frame["episode"])
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    with pytest.raises(DataError, match="row 1: a unit id also occurs in an earlier file"):
        Trajectories.from_npz(paths, unit="unit", episode="episode", spec=SPEC)


@pytest.mark.parametrize("kind", READERS)
def test_names_and_optional_columns(kind: str, tmp_path: Path) -> None:
    frame = small().drop(columns=["truncation", "termination"]).rename(columns={"observation_0": "heart rate"})
    path = write(frame, tmp_path / f"a.{kind}")
    endless = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "declared", terminals=False)
    fields = files.Fields(("heart rate", "observation_1"), ("next_observation_0", "next_observation_1"), ("action",))
    data = READERS[kind](path, unit=":episode", episode="episode", spec=endless, fields=fields)
    assert not data.columns["terminations"].any()
    assert not data.columns["truncations"].any()
    assert data._unit_rows[1].tolist() == [0, 3, 4, 5]


def test_columns_are_named_by_words() -> None:
    words = ("observations=pulse, blood pressure", "rewards=effect", "actions=dose")
    fields = files.Fields.from_pairs(SPEC, words)
    assert fields == dataclasses.replace(
        files.Fields.of(SPEC), observations=("pulse", "blood pressure"), rewards="effect", actions=("dose",)
    )
    assert files.Fields.from_pairs(SPEC, ()) == files.Fields.of(SPEC)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("rewards",), "'rewards' does not name"),
        (("pulse=observation_0",), "'pulse=observation_0' does not name"),
        (("rewards=a", "rewards=b"), "'rewards=b' does not name"),
        (("observations=pulse",), r"observations takes 2 name\(s\), and there are 1"),
        (("actions=dose,mood",), r"actions takes 1 name\(s\), and there are 2"),
    ],
)
def test_words_that_name_no_columns_are_refused(words: tuple[str, ...], what: str) -> None:
    with pytest.raises(DataError, match=what):
        files.Fields.from_pairs(SPEC, words)


@pytest.mark.parametrize("kind", READERS)
def test_propensities_need_a_declaration_and_a_column(kind: str, tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**with_propensities())
    path = write(table(data).rename(columns={"propensity": "p"}), tmp_path / f"a.{kind}")
    names: dict[str, Any] = {"unit": "unit", "episode": "episode"}
    fields = dataclasses.replace(files.Fields.of(LOGGED), propensity="p")
    same(data, READERS[kind](path, **names, spec=LOGGED, fields=fields))
    with pytest.raises(DataError, match="no column 'propensity' for propensities"):
        READERS[kind](path, **names, spec=LOGGED)
    with pytest.raises(DataError, match=rf"a\.{kind}.*there are propensities but the spec declares none"):
        READERS[kind](path, **names, spec=SPEC, fields=fields)
    same(Trajectories.from_arrays(**arrays()), READERS[kind](path, **names, spec=SPEC))
    write(table(data).assign(propensity=[0.5, 0.5, None, 0.5, 0.5]), path)
    with pytest.raises(DataError, match="row 3"):
        READERS[kind](path, **names, spec=LOGGED)


def test_propensities_of_an_archive(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**with_propensities())
    np.savez(tmp_path / "a.npz", **data.columns)
    back = Trajectories.from_npz(tmp_path / "a.npz", unit=":transition", spec=LOGGED)
    np.testing.assert_array_equal(back.columns["propensities"], data.columns["propensities"])
    with pytest.raises(DataError, match="there are propensities but the spec declares none"):
        Trajectories.from_npz(tmp_path / "a.npz", unit=":transition", spec=SPEC)
    np.savez(tmp_path / "b.npz", **{name: column for name, column in data.columns.items() if name != "propensities"})
    with pytest.raises(DataError, match="the propensities are missing"):
        Trajectories.from_npz(tmp_path / "b.npz", unit=":transition", spec=LOGGED)


def test_arrays_of_other_names(tmp_path: Path) -> None:
    """D4RL's names for the ends of episodes: left out, the episodes of a file would be one."""
    columns = dict(Trajectories.from_arrays(**arrays()).columns)
    columns |= {"terminals": columns.pop("terminations"), "timeouts": columns.pop("truncations")}
    np.savez(tmp_path / "a.npz", **columns)
    read: dict[str, Any] = {"unit": ":episode", "spec": SPEC}
    with pytest.raises(DataError, match=r"a\.npz: the array 'terminals' is no known field") as caught:
        Trajectories.from_npz(tmp_path / "a.npz", **read)
    assert "truncations, propensities (the nearest is terminations)" in caught.value.expected
    assert "--fields terminations=terminals" in caught.value.remedy
    fields = {"terminations": "terminals"}
    with pytest.raises(DataError, match=r"'timeouts' is no known field.*nearest is truncations"):
        Trajectories.from_npz(tmp_path / "a.npz", **read, fields=fields)
    with pytest.raises(DataError, match="there is no field 'ends'; expected FIELD=NAME"):
        Trajectories.from_npz(tmp_path / "a.npz", **read, fields={"ends": "terminals"})
    with pytest.raises(DataError, match="two fields have one array"):
        Trajectories.from_npz(tmp_path / "a.npz", **read, fields={"terminations": "truncations"})
    whole = Trajectories.from_npz(tmp_path / "a.npz", **read, fields={**fields, "truncations": "timeouts"})
    alike = Trajectories.from_arrays(**{**arrays(), "unit_ids": ":episode", "episode_ids": None})
    same(whole, alike)
    episode = np.zeros(len(columns["rewards"]), np.int64)
    np.savez(tmp_path / "b.npz", **alike.columns, episode=episode)
    with pytest.raises(DataError, match=r"'episode' is no known field.*--episode episode"):
        Trajectories.from_npz(tmp_path / "b.npz", **read)
    np.savez(tmp_path / "c.npz", **{name: array for name, array in alike.columns.items() if name != "actions"})
    with pytest.raises(DataError, match=r"no column 'actions' for actions; expected .* the file has observations, rew"):
        Trajectories.from_npz(tmp_path / "c.npz", **read)


@pytest.mark.parametrize("kind", READERS)
def test_ends_of_other_names(kind: str, tmp_path: Path) -> None:
    path = write(small().rename(columns={"truncation": "timeouts"}), tmp_path / f"a.{kind}")
    with pytest.raises(DataError, match=r"the column 'timeouts' would be lost.*--fields truncations=timeouts"):
        READERS[kind](path, unit="unit", episode="episode", spec=SPEC)
    fields = dataclasses.replace(files.Fields.of(SPEC), truncations="timeouts")
    same(
        READERS[kind](path, unit="unit", episode="episode", spec=SPEC, fields=fields),
        Trajectories.from_arrays(**arrays()),
    )


def _edit(**changes: Any) -> pd.DataFrame:
    return small().astype(object).assign(**changes)


WRONG_CELLS = {
    "blank number": (_edit(reward=[0.5, None, 0.5, 0.5, 0.5]), "row 2"),
    "text": (_edit(reward=[0.5, 0.5, "zq-canary-81", 0.5, 0.5]).astype({"reward": str}), "cell that is not a number"),
    "nan": (_edit(observation_1=[0.5, 0.5, 0.5, float("nan"), 0.5]), "row 4"),
    "missing unit": (_edit(unit=["zq-canary-81", "zq-canary-81", "zq-canary-81", None, "d"]), "row 4: the unit id is"),
    "two units": (_edit(unit=["zq-canary-81", "b", "b", "c", "d"]), "row 2: the unit id is not constant"),
    "flag": (_edit(termination=[0, 0, 8151, 0, 1]), "row 3: terminations is not boolean"),
    "no unit column": (small().drop(columns="unit"), "there is no unit id: no column 'unit'"),
    "no episode column": (small().drop(columns="episode"), "no column 'episode' for episode"),
    "no reward column": (small().drop(columns="reward"), "no column 'reward' for rewards"),
    "no termination column": (small().drop(columns="termination"), "no column 'termination'"),
    "no rows": (small()[:0], "there are no records"),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", WRONG_CELLS)
def test_wrong_cells(kind: str, name: str, tmp_path: Path) -> None:
    frame, message = WRONG_CELLS[name]
    path = write(frame, tmp_path / f"a.{kind}")
    with pytest.raises(DataError, match=message) as caught:
        READERS[kind](path, unit="unit", episode="episode", spec=SPEC)
    assert "zq-canary-81" not in str(caught.value)
    assert "8151" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", READERS)
def test_a_column_without_bounds_is_refused_unless_the_names_were_chosen(kind: str, tmp_path: Path) -> None:
    path = write(small().assign(observation_2=0.5, weight_2=1.0), tmp_path / f"a.{kind}")
    names: dict[str, Any] = {"unit": "unit", "episode": "episode", "spec": SPEC}
    with pytest.raises(DataError, match=r"'observation_2' has no public bounds.*observation_0 to observation_1 alone"):
        READERS[kind](path, **names)
    chosen = files.Fields(("observation_1", "observation_0"), ("next_observation_1", "next_observation_0"), ("action",))
    wide = dataclasses.replace(SPEC, observation=Box((-1, -1), (2, 2)))
    READERS[kind](path, **{**names, "spec": wide}, fields=chosen)


def test_boolean_words_in_csv(tmp_path: Path) -> None:
    path = write(_edit(termination=["True", "False", "False", "True", "False"]), tmp_path / "a.csv")
    data = Trajectories.from_csv(path, unit=":transition", spec=SPEC)
    assert data.columns["terminations"].tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("line", ["1,2,3" * 9, '"unclosed'])
def test_ragged_csv(line: str, tmp_path: Path) -> None:
    path = write(small(), tmp_path / "a.csv")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=r"a\.csv"):
        Trajectories.from_csv(path, unit="unit", episode="episode", spec=SPEC)


def test_short_row_in_csv(tmp_path: Path) -> None:
    path = write(small(), tmp_path / "a.csv")
    path.write_text(path.read_text().rsplit(",", 4)[0] + "\n")
    with pytest.raises(DataError, match="row 5"):
        Trajectories.from_csv(path, unit="unit", episode="episode", spec=SPEC)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_missing_and_truncated_files(kind: str, tmp_path: Path) -> None:
    reader = getattr(Trajectories, f"from_{kind}")
    with pytest.raises(FileError, match=f"a.{kind}: there is no such file"):
        reader(tmp_path / f"a.{kind}", unit="unit", spec=SPEC)
    with pytest.raises(FileError, match="this is a folder"):
        reader(tmp_path, unit="unit", spec=SPEC)
    (tmp_path / f"a.{kind}").write_bytes(b"")
    with pytest.raises(FileError, match="damaged"):
        reader(tmp_path / f"a.{kind}", unit="unit", spec=SPEC)
    if kind == "csv":
        (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00,\x81\n" * 3)
    elif kind == "parquet":
        path = write(small(), tmp_path / "a.parquet")
        path.write_bytes(path.read_bytes()[:-200])
    else:
        np.savez(tmp_path / "a.npz", rewards=np.zeros(1000))
        (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-900])
    with pytest.raises(FileError, match="damaged"):
        reader(tmp_path / f"a.{kind}", unit="unit", spec=SPEC)


def test_archive_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", rewards=np.array([{}, {}], dtype=object))
    with pytest.raises(FileError, match="of another kind"):
        Trajectories.from_npz(tmp_path / "a.npz", unit="unit", spec=SPEC)
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(FileError, match="of another kind"):
        Trajectories.from_npz(tmp_path / "b.npy", unit="unit", spec=SPEC)


def test_no_unit_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no unit id"):
        Trajectories.from_csv(write(small(), tmp_path / "a.csv"), unit="", spec=SPEC)


def test_inspect(tmp_path: Path) -> None:
    data = Trajectories.from_arrays(**arrays())
    data.save(tmp_path / "private")
    for summary in (inspect(data), inspect(tmp_path / "private")):
        assert summary == {"simulated": False, "spec": SPEC.to_json(), "fields": summary["fields"]}
        assert summary["fields"]["observations"] == {"kind": "continuous", "dtype": "float32", "width": 2}
        assert summary["fields"]["actions"] == {"kind": "discrete", "dtype": "int64", "width": 1}
        assert summary["fields"]["terminations"] == {"kind": "flag", "dtype": "bool", "width": 1}
    Trajectories.from_arrays(**arrays(), simulated=True).save(tmp_path / "simulated")
    assert inspect(tmp_path / "simulated")["counts"] == {"transitions": 5, "episodes": 3, "units": 2}
    with pytest.raises(FileError):
        inspect(tmp_path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("who,observation_0,action,reward,who\n1,1,0,0,11\n2,1,0,0,12\n", "two columns have one name"),
        ("observation_0,action,reward,who\n1,0,0,7\n1,000,0,0,7\n", "row 2: a row has more cells than the header"),
        ("observation_0,action,reward,who\n1,0,0,7,\n", "row 1: a row has more cells than the header"),
        ('"observation_0",action,reward,who\r\n\r\n1,0,0,"a,b"\r\n1,0,0,a,b\r\n', "row 2: a row has more cells"),
        ("observation_0,action,reward,who\n1,0,0,7\n1,0,0", "row 2: a row has fewer cells than the header"),
        ("observation_0,action,reward, who,who\n1,0,0,8,7\n", "two columns have one name"),
        ('observation_0,action,reward,who\n1,0,0,"7\n1,0,0,8\n1,0,0,9"\n', "row 1: a quote is not closed in its line"),
        (
            'observation_0,action,reward,who\n1,0,0,7"\n1,0,0,8"\n',
            "row 1: a quote is not closed in its line, or stands",
        ),
        ('observation_0,action,reward,who\n1,0,0,"7\n', "row 1: a quote is not closed in its line"),
        ('observation_0,action,"reward,who\n1,0,0,7\n', "a.csv: a quote is not closed in its line"),
    ],
)
def test_rows_that_do_not_fit_their_header_are_refused(text: str, what: str, tmp_path: Path) -> None:
    """Of two columns with one name the first would be the id; of a row too long the id would be another cell."""
    (tmp_path / "a.csv").write_bytes(text.encode())
    spec = PublicSpec(Box((0.0,), (2.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=False)
    fields = files.Fields(("observation_0",), ("observation_0",), ("action",))
    with pytest.raises(DataError, match=what):
        Trajectories.from_csv(tmp_path / "a.csv", unit="who", spec=spec, fields=fields)
    (tmp_path / "a.csv").write_text("observation_0,action,reward,who\n1,0,0,7\n")
    Trajectories.from_csv(tmp_path / "a.csv", unit="who", spec=spec, fields=fields)


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 16])
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (b'a,b\r\n1,"x,""y"",z"\r\n\n2,\n3,4,5\n6\n', ("a row has more cells than the header", 3)),
        (b'\xef\xbb\xbf"a","b"\r1,""\r"""",2\r3', ("a row has fewer cells than the header", 3)),
        (b"a,b\n1,2\n\n3,", None),
        (b'a,b\n1,2\n"1,2\n3,"4\n', (tables._QUOTES, 2)),
        (b'a,b\n1, "2"\n', (tables._QUOTES, 1)),
        (b'a,b\n1,"2" \n', (tables._QUOTES, 1)),
        (b'a,b\n1,5" "6"\n', (tables._QUOTES, 1)),
        (b'a,b\n1,"5" 6"\n', (tables._QUOTES, 1)),
        (b'a",b\n1,2\n', (tables._QUOTES, 0)),
    ],
)
def test_cells_are_counted_in_pieces_of_any_size(
    text: bytes, wrong: tuple[str, int] | None, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    for block, piece in ((size, 5), (5, size)):
        monkeypatch.setattr(tables, "BLOCK", block)
        with tables.TextStream(tmp_path / "a.csv") as file:
            read = b""
            while count := file.readinto(buffer := bytearray(piece)):
                read += buffer[:count]
        assert (read, file.wrong) == (text, wrong)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252", "gb18030", "iso2022_jp"])
def test_cells_are_counted_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    style = tables.Style(encoding=encoding)
    (tmp_path / "a.csv").write_bytes("who,x\na,1\nb,2".encode(encoding))
    (chunk,) = tables.csv_chunks(tmp_path / "a.csv", ["x"], ["who"], style)
    assert (chunk["who"].tolist(), chunk["x"].tolist()) == (["a", "b"], [1, 2])
    for row in ("b,2,3", "b"):
        (tmp_path / "a.csv").write_bytes(f"who,x\na,1\n{row}\n".encode(encoding))
        with pytest.raises(DataError, match=r"row 2: a row has (more|fewer) cells than the header"):
            list(tables.csv_chunks(tmp_path / "a.csv", ["x"], ["who"], style))


@pytest.mark.parametrize("encoding", ["rot13", "zip", "nothing"])
def test_what_encodes_no_text_is_refused(encoding: str) -> None:
    with pytest.raises(DataError, match="no encoding that is known"):
        tables.Style(encoding=encoding)
    with pytest.raises(DataError, match="no sign that can stand between cells"):
        tables.Style(separator="\u00a7")


def test_a_file_of_another_separator_is_named_as_one_before_its_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"who";"x"\n"a";"2,5"\n"b";"3,5"\n')
    with pytest.raises(DataError, match='give --separator ";"'):
        list(tables.csv_chunks(tmp_path / "a.csv", ["x"], ["who"]))


def test_runs_of_white_space_part_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    style = tables.Style(separator="space")
    (tmp_path / "a.txt").write_text('  who   x \n"Ann  B" \t 1\n\nb  2.5  \n')
    for block in (1, 2, 3, tables.BLOCK):
        monkeypatch.setattr(tables, "BLOCK", block)
        (chunk,) = tables.csv_chunks(tmp_path / "a.txt", ["x"], ["who"], style)
        assert (chunk["who"].tolist(), chunk["x"].tolist()) == (["Ann  B", "b"], [1, 2.5])
    for row in ("b 2 3", "b", 'b "2', 'b 2"3"'):
        (tmp_path / "a.txt").write_text(f"who x\r\na 1\r\n{row}\r\n", newline="")
        with pytest.raises(DataError, match=r"a.txt, row 2: a (row has (more|fewer) cells than the header|quote)"):
            list(tables.csv_chunks(tmp_path / "a.txt", ["x"], ["who"], style))
    with pytest.raises(DataError, match='give --separator "space"'):
        tables.csv_header(tmp_path / "a.txt")


@pytest.mark.parametrize("line", [6, 7, 8, 9, 11, 2**22])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_texts_of_cells_are_as_they_stand_wherever_the_file_is_cut(
    line: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["\ufeffwho,x", "a,1", "", "\ufeffb,", '"c ""d""",NA', "e, 01"]
    (tmp_path / "a.csv").write_text(end.join(rows), encoding="utf-8", newline="")
    monkeypatch.setattr(tables, "LINE", line)
    monkeypatch.setattr(tables, "CHUNK", 3)
    monkeypatch.setattr(tables, "csv_header", lambda *_: ["who", "x"])  # whose parser wants longer lines
    monkeypatch.setattr(tables.TextStream, "readinto", uncounted)
    batches = list(tables.csv_texts(tmp_path / "a.csv", ["x", "who"]))
    assert [cell for batch in batches for cell in batch.column("who").to_pylist()] == ["a", "\ufeffb", 'c "d"', "e"]
    assert [cell for batch in batches for cell in batch.column("x").to_pylist()] == ["1", "", "NA", " 01"]
    assert max(batch.num_rows for batch in batches) <= 3
    assert next(tables.csv_texts(tmp_path / "a.csv", [])).schema.names == ["who"]


def uncounted(text: tables.TextStream, buffer: bytearray) -> int:
    """The bytes of the file alone: the limits of a line are another test's."""
    return int(text._file.readinto(buffer))


def test_bytes_that_are_no_text_and_rows_that_are_none_are_refused_where_texts_are_read(tmp_path: Path) -> None:
    for row, said in (
        (b"b,\xff", "damaged or of another kind"),
        (b"b", "row 2: a row has fewer"),
        (b'b,"c', "row 2: a quote"),
    ):
        (tmp_path / "a.csv").write_bytes(b"who,x\na,1\n" + row + b"\n")
        with pytest.raises(TacitError, match=said):
            list(tables.csv_texts(tmp_path / "a.csv", ["who", "x"]))
