"""Odd records, and all readers through which they come in; `test_matrix_of_ways.py` says what each makes of them.

A reader writes the records and gives what reads them. What it cannot write, its way in cannot have.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import gymnasium
import h5py
import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from minari.data_collector import EpisodeBuffer

from tacit.data import Box, Column, Discrete, PublicSpec, Trajectories
from tacit.data.mobility import Rules, from_cells, from_points
from tacit.data.mobility.grids import RegularGrid
from tacit.data.sources import databases, frames, lake, shards, sorting
from tacit.data.sources.dictionaries import from_obp, from_scope_rl
from tacit.data.sources.files import Fields
from tacit.data.spec import space_of
from tacit.data.texts import Texts
from tacit.errors import DataError, TacitError

NUMBERS = PublicSpec(Box((0.0,), (9.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=True)
FIELDS = Fields(("value",), ("next_value",), ("label",))
GRID = RegularGrid(0.0, 0.0, 1.0, 10.0, 1.0)
"""Whose places are told by their longitudes, 0 to 9."""
Cells = Any
"""A list, or a column of pandas, NumPy or Arrow."""
CANNOT = (pa.ArrowException, duckdb.Error, TypeError, ValueError, OverflowError, sqlite3.Error, KeyError)


VALUE = Column("value", low=0, high=9)


class NoWay(Exception):
    """A way in that cannot have such an input."""


@dataclass(frozen=True)
class Odd:
    """Records of which the columns `given` are odd, and all others plain."""

    given: Mapping[str, Cells] = field(default_factory=dict)  # columns of the table by name
    more: Mapping[str, Cells] = field(default_factory=dict)  # further columns, whose names may be there already
    raw: Callable[[bytes], bytes] | None = None  # what becomes of a CSV file
    column: Column = VALUE  # what the spec says of the values
    sorted: bool = True  # whether the times order the rows
    next: sorting.Next | None = None
    typed: bool = False  # whether the oddity is the type of the cells, which texts have not

    @property
    def rows(self) -> int:
        return max(map(len, (*self.given.values(), *self.more.values())), default=2)

    @property
    def shown(self) -> str:
        """The column that says how the records were read."""
        return next(iter(self.given), "who")

    @property
    def spec(self) -> PublicSpec:
        """With declared columns."""
        label = Column("label", "category", labels=("none", "half"))
        moving = [Column("lat", low=0, high=9)] if self.column.static else []
        spaces = space_of(self.column, *moving), space_of(label), space_of(Column("reward", low=0, high=1))
        return PublicSpec(*spaces, "declared", terminals=True, propensities="propensity" in self.given)

    @property
    def numbers(self) -> PublicSpec:
        """Without; ids do not depend on it."""
        if self.column != VALUE or "label" in self.given:
            raise NoWay
        return dataclasses.replace(NUMBERS, propensities="propensity" in self.given)

    def columns(self, *, codes: bool = False) -> dict[str, Cells]:
        """The whole table, without `more`."""
        count = self.rows
        times = [f"2020-03-{i + 2:02}T00:00:00+00:00" for i in range(count)]
        plain: dict[str, Cells] = {"who": [f"p{i}" for i in range(count)], "time": times, "value": [1.0] * count}
        plain |= {"label": ["none"] * count, "reward": [0.5] * count, "termination": [True] * count}
        plain |= {"truncation": [False] * count, "text": ["words"] * count, "lat": [0.5] * count}
        made = plain | dict(self.given)
        made |= {"next_value": made["value"], "next_lat": made["lat"]}
        return made | {"label": [0] * count} if codes else made

    def without_raw(self) -> Odd:
        if self.raw is not None:
            raise NoWay
        return self

    def with_types(self) -> Odd:
        """Where neither types nor names are odd, other readers of the way do, which takes half of the time."""
        if not (self.typed or self.more or any(not isinstance(cells, list) for cells in self.given.values())):
            raise NoWay
        return self

    def untyped(self) -> Odd:
        if self.typed:
            raise NoWay
        return self


Read = Callable[[], list[Any]]
Reader = Callable[[Odd, Path], Read]


def shown(odd: Odd, data: Trajectories) -> list[Any]:
    """What was read: of ids how many units there are, of which each has a name of its own."""
    columns, name = data.columns, odd.shown
    if name == "who":
        names = data._records.names
        assert names is not None
        assert len(np.unique(names, axis=0)) == len(names) == data.counts()["units"]
        return [f"{len(names)} units"]
    if name == "termination":
        both = zip(columns["terminations"].tolist(), columns["truncations"].tolist(), strict=True)
        return ["TR"[cut] * (end or cut) + "R" * (end and cut) or "." for end, cut in both]
    known = {"label": "actions", "reward": "rewards", "propensity": "propensities"}
    values = columns[known.get(name, "observations")]
    return ["/".join(f"{part:g}" for part in np.atleast_1d(row)) for row in values.tolist()]


def listed(cells: Cells) -> list[Any]:
    """Cells as plain objects."""
    if isinstance(cells, pa.Array):
        return list(cells.to_pylist())
    if isinstance(cells, (pd.Series, pd.api.extensions.ExtensionArray)):
        return [None if cell is pd.NA else cell for cell in cells]
    return cells.tolist() if isinstance(cells, np.ndarray) else list(cells)


# -- tables ------------------------------------------------------------------------------------------------------------


def written(odd: Odd, path: Path) -> Path:
    """A CSV file of all columns."""
    columns = [*odd.untyped().columns().items(), *odd.more.items()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([name for name, _ in columns])
        writer.writerows(zip(*(listed(cells) for _, cells in columns), strict=True))
    if odd.raw is not None:
        path.write_bytes(odd.raw(path.read_bytes()))
    return path


def arrow(odd: Odd) -> pa.Table:
    """A table with typed columns."""
    columns = [*odd.without_raw().columns().items(), *odd.more.items()]
    if any({str, bytes} <= set(map(type, listed(cells))) for _, cells in columns):
        raise NoWay  # Arrow would make bytes of all
    arrays = [cells if isinstance(cells, pa.Array) else pa.array(cells, from_pandas=False) for _, cells in columns]
    return pa.table(arrays, names=[name for name, _ in columns])


def pandas(odd: Odd) -> pd.DataFrame:
    columns = [*odd.without_raw().columns().items(), *odd.more.items()]
    series = [pd.Series(listed(c) if isinstance(c, pa.Array) else c, name=name) for name, c in columns]
    return pd.concat(series, axis=1)


def sort(odd: Odd, table: Callable[[], lake.SourceTable]) -> Read:
    """What reads a table as `tacit data import` does; windows see the ids too."""
    options: dict[str, Any] = {"time": "time", "next": odd.next} if odd.sorted else {}
    options |= {"episode": "stay"} if "stay" in odd.given else {}
    if odd.shown == "who":
        options["reward"] = "reward + 0 * count(*) OVER (PARTITION BY who)"
    wanted = sorting.TableOptions("who", **options)

    def read() -> list[Any]:
        once = dataclasses.replace(
            table(), parts=()
        )  # rows are not looked for again, which `test_places_of_rows` is about
        records = sorting.read(once, wanted, odd.spec, simulated=True)
        return shown(odd, Trajectories(records, odd.spec, simulated=True))

    return read


def as_it_lies(odd: Odd) -> dict[str, Any]:
    if odd.shown == "time" or odd.next:
        raise NoWay  # nothing is sorted
    return {"unit": "who", "episode": "stay" if "stay" in odd.given else None, "spec": odd.spec, "simulated": True}


def of_csv(odd: Odd, folder: Path) -> Read:
    path, how = written(odd, folder / "a.csv"), as_it_lies(odd)
    return lambda: shown(odd, Trajectories.from_csv(path, **how))


def of_csv_of_numbers(odd: Odd, folder: Path) -> Read:
    with_codes = dataclasses.replace(odd, given={**odd.given, "label": [0] * odd.rows})
    path, how = written(with_codes, folder / "a.csv"), {**as_it_lies(odd), "spec": odd.numbers, "fields": FIELDS}
    return lambda: shown(odd, Trajectories.from_csv(path, **how))


def of_sorted_csv(odd: Odd, folder: Path) -> Read:
    path = written(odd, folder / "a.csv")
    return sort(odd, lambda: lake.open_table([str(path)]))


def of_parquet(odd: Odd, folder: Path) -> Read:
    pq.write_table(arrow(odd), folder / "a.parquet")
    how = as_it_lies(odd)
    return lambda: shown(odd, Trajectories.from_parquet(folder / "a.parquet", **how))


def of_parquet_of_numbers(odd: Odd, folder: Path) -> Read:
    with_codes = dataclasses.replace(odd, given={**odd.given, "label": [0] * odd.rows})
    pq.write_table(arrow(with_codes), folder / "a.parquet")
    how = {**as_it_lies(odd), "spec": odd.numbers, "fields": FIELDS}
    return lambda: shown(odd, Trajectories.from_parquet(folder / "a.parquet", **how))


def of_sorted_parquet(odd: Odd, folder: Path) -> Read:
    pq.write_table(arrow(odd), folder / "a.parquet")
    return sort(odd, lambda: lake.open_table([str(folder / "a.parquet")]))


def of_shards(odd: Odd, folder: Path) -> Read:
    if odd.shown != "who":
        raise NoWay
    pq.write_table(arrow(odd.with_types()), folder / "a.parquet")

    def read() -> list[Any]:
        shards.write([str(folder / "a.parquet")], folder / "s", unit="who", shards=2, spec=odd.spec, simulated=True)
        digests = []
        for number in range(2):
            path = folder / "s" / f"shard-{number:05}.parquet"
            if pq.read_metadata(path).num_rows:
                one = Trajectories.from_parquet(path, unit="who", spec=odd.spec, simulated=True, digest_key=b"k" * 16)
                digests.append(one._records.digests[1:])
        found = np.concatenate(digests)
        if len(np.unique(found, axis=0)) < len(found):
            raise DataError("differ by case, width, form", where="two shards", expected="", remedy="")
        return [f"{len(found)} units"]

    return read


def of_arrow(odd: Odd, folder: Path) -> Read:
    made = arrow(odd.with_types())
    return sort(odd, lambda: frames.open_table(made))


def of_pandas(odd: Odd, folder: Path) -> Read:
    made = pandas(odd)
    return sort(odd, lambda: frames.open_table(made))


def of_sqlite(odd: Odd, folder: Path) -> Read:
    columns = [*odd.without_raw().columns().items(), *odd.more.items()]
    names = ", ".join(f'"c{i}"' for i in range(len(columns)))
    with sqlite3.connect(folder / "a.sqlite") as base:
        base.execute(f"CREATE TABLE rows ({names})")
        marks = ", ".join("?" * len(columns))
        cells = [[_sqlite(cell) for cell in listed(cells)] for _, cells in columns]
        base.executemany(f"INSERT INTO rows VALUES ({marks})", zip(*cells, strict=True))
    base.close()
    query = ", ".join(f'c{i} AS "{name}"' for i, (name, _) in enumerate(columns))
    return sort(odd, lambda: databases.open_table(f"SELECT {query} FROM rows", f"sqlite:{folder / 'a.sqlite'}"))


def _sqlite(cell: Any) -> Any:
    if isinstance(cell, datetime.date):
        raise NoWay  # SQLite has no dates
    return cell.item() if isinstance(cell, np.generic) else cell


def of_duckdb(odd: Odd, folder: Path) -> Read:
    columns = [*odd.with_types().without_raw().columns().items(), *odd.more.items()]
    made = arrow(odd).rename_columns([f"c{i}" for i in range(len(columns))])
    with duckdb.connect(str(folder / "a.duckdb")) as base:
        base.register("given", made)
        base.execute("CREATE TABLE rows AS SELECT * FROM given")
    query = ", ".join(f'c{i} AS "{name}"' for i, (name, _) in enumerate(columns))
    return sort(odd, lambda: databases.open_table(f"SELECT {query} FROM rows", f"duckdb:{folder / 'a.duckdb'}"))


# -- arrays and data sets ----------------------------------------------------------------------------------------------


def arguments(odd: Odd, cells: Callable[[Cells], Any]) -> dict[str, Any]:
    """Of `from_arrays`, but for the spec."""
    if odd.more or odd.shown == "time" or odd.next:
        raise NoWay  # arrays have one name each, and lie as they do
    made = odd.without_raw().columns()
    seen = {"value": cells(made["value"]), "lat": made["lat"]}
    fields: dict[str, Any] = {"observations": seen, "next_observations": seen}
    fields |= {"actions": {"label": cells(made["label"])}, "rewards": {"reward": cells(made["reward"])}}
    fields |= {"terminations": cells(made["termination"]), "truncations": cells(made["truncation"])}
    fields |= {"propensities": cells(made["propensity"])} if "propensity" in made else {}
    fields |= {"episode_ids": cells(made["stay"])} if "stay" in made else {}
    return {**fields, "unit_ids": cells(made["who"])}


def plain_arguments(odd: Odd, cells: Callable[[Cells], Any]) -> dict[str, Any]:
    """The same of numbers alone."""
    given, spec = arguments(odd, cells), odd.numbers
    given |= {name: given[name]["value"] for name in ("observations", "next_observations")}
    return {**given, "actions": np.zeros(odd.rows, int), "rewards": given["rewards"]["reward"], "spec": spec}


def as_array(cells: Cells) -> Any:
    """As NumPy would have it; of two kinds of cells it makes texts."""
    if isinstance(cells, np.ndarray):
        return cells
    if len(set(map(type, listed(cells))) - {type(None)}) > 1:
        raise NoWay
    return np.array(listed(cells))


def of_lists(odd: Odd, folder: Path) -> Read:
    given = arguments(odd, lambda cells: cells if isinstance(cells, np.ndarray) else listed(cells))
    return lambda: shown(odd, Trajectories.from_arrays(**given, spec=odd.spec, simulated=True))


def of_objects(odd: Odd, folder: Path) -> Read:
    given = arguments(odd, lambda cells: np.array([*listed(cells), None], dtype=object)[:-1])
    if "propensities" in given:
        raise NoWay  # these are numbers, as are arrays without declared columns
    return lambda: shown(odd, Trajectories.from_arrays(**given, spec=odd.spec, simulated=True))


def of_numbers(odd: Odd, folder: Path) -> Read:
    given = plain_arguments(odd, as_array)
    given["unit_ids"] = listed(odd.columns()["who"])
    return lambda: shown(odd, Trajectories.from_arrays(**given, simulated=True))


def of_blocks(odd: Odd, folder: Path) -> Read:
    """A row at a time: twins and units that come again are seen across chunks."""
    given = arguments(odd, listed)

    def part(cells: Any, i: int) -> Any:
        return {name: part(one, i) for name, one in cells.items()} if isinstance(cells, dict) else cells[i : i + 1]

    blocks = [{name: part(cells, i) for name, cells in given.items()} for i in range(odd.rows)]
    return lambda: shown(odd, Trajectories.from_blocks(blocks, spec=odd.spec, simulated=True))


def of_npz(odd: Odd, folder: Path) -> Read:
    given = plain_arguments(odd, as_array)
    spec, who = given.pop("spec"), given.pop("unit_ids")
    if any(np.asarray(a).dtype.kind in "OS" or np.ma.isMaskedArray(a) for a in (*given.values(), who)):
        raise NoWay  # an archive has no objects and no masks, and texts of bytes lose their last zeros
    np.savez(folder / "a.npz", **given, who=who)
    how = {"unit": "who", "episode": "episode_ids" if "stay" in odd.given else None, "spec": spec, "simulated": True}
    return lambda: shown(odd, Trajectories.from_npz(folder / "a.npz", **how))


def of_obp(odd: Odd, folder: Path) -> Read:
    given = plain_arguments(odd, listed)
    if odd.shown == "termination":
        raise NoWay  # every round is one
    feedback = {"context": np.array(given["observations"])[:, None], "action": given["actions"]}
    feedback |= {"reward": np.array(given["rewards"]), "pscore": given.get("propensities")}
    return lambda: shown(odd, from_obp(feedback, unit_ids=given["unit_ids"], spec=odd.numbers, simulated=True))


def of_scope_rl(odd: Odd, folder: Path) -> Read:
    given = plain_arguments(odd, listed)
    if odd.shown == "termination":
        raise NoWay  # it has other flags
    logged = {"state": np.array(given["observations"])[:, None], "action": given["actions"]}
    logged |= {"reward": np.array(given["rewards"]), "done": np.array(given["terminations"])}
    logged |= {"terminal": np.zeros(odd.rows), "pscore": given.get("propensities")}
    return lambda: shown(odd, from_scope_rl(logged, unit_ids=given["unit_ids"], spec=odd.numbers, simulated=True))


def of_minari(odd: Odd, folder: Path) -> Read:
    """Rows of one unit that follow each other are an episode where ends are odd."""
    given = plain_arguments(odd, listed)
    if any(isinstance(one, bytes) for one in given["unit_ids"]):
        raise NoWay  # HDF5 has no bytes in its metadata
    who, long = given["unit_ids"], odd.shown == "termination"
    firsts = [i for i in range(odd.rows) if not (long and i and who[i] == who[i - 1])]
    buffers = []
    for start, end in zip(firsts, [*firsts[1:], odd.rows], strict=True):
        values = np.array([given["observations"][i] for i in (*range(start, end), end - 1)])
        flags = {name: list(given[name][start:end]) for name in ("terminations", "truncations")}
        more = {"infos": {"p": np.array([1.0, *given["propensities"][start:end]])}} if "propensities" in given else {}
        actions, rewards = np.zeros(end - start, int), list(given["rewards"][start:end])
        buffers.append(EpisodeBuffer(observations=values[:, None], actions=actions, rewards=rewards, **flags, **more))
    spaces = {"observation_space": gymnasium.spaces.Box(0, 9, (1,), np.float64)}
    made = minari.create_dataset_from_buffers(
        "odd/ids-v0", buffers, action_space=gymnasium.spaces.Discrete(2), **spaces
    )
    made.storage.update_episode_metadata([{"who": who[i]} for i in firsts])
    how = {"unit": "who", "spec": given["spec"], "propensity": "p" if "propensities" in given else None}
    return lambda: shown(odd, Trajectories.from_minari(made, **how, simulated=True))


def of_d4rl(odd: Odd, folder: Path) -> Read:
    given = plain_arguments(odd, listed)
    if odd.shown in ("termination", "propensity"):
        raise NoWay  # it has other flags and no propensities
    with h5py.File(folder / "a.hdf5", "w") as file:
        for name in ("observations", "next_observations", "actions", "rewards"):
            file[name] = np.append(given[name], given[name][-1])
        file["terminals"], file["timeouts"] = np.ones(odd.rows + 1, bool), np.zeros(odd.rows + 1, bool)
        file["who"] = [*given["unit_ids"], given["unit_ids"][-1]]
    how = {"unit": "who", "spec": given["spec"], "simulated": True}
    return lambda: shown(odd, Trajectories.from_d4rl(folder / "a.hdf5", **how))


# -- positions and texts -----------------------------------------------------------------------------------------------


def days(odd: Odd, source: Any) -> Read:
    """What reads positions, one a day; the values are longitudes."""
    if odd.shown not in ("who", "value", "time") or odd.column != VALUE:
        raise NoWay  # there is nothing else, and no spec of columns
    named, rules = {"user": "who", "lon": "value"}, Rules("Europe/Berlin", carry=48, observed=1)

    def read() -> list[Any]:
        found = from_points(source, GRID, rules, **named)
        if odd.shown == "who":
            return shown(odd, found.trajectories(simulated=True))
        where = GRID.centres(found.cells.ravel())[:, 1].reshape(found.cells.shape).round()
        return [f"{place:g}" for day in where.tolist() for place in dict.fromkeys(day)]

    return read


def of_position_file(odd: Odd, folder: Path) -> Read:
    return days(odd, written(odd, folder / "a.csv"))


def of_position_parquet(odd: Odd, folder: Path) -> Read:
    pq.write_table(arrow(odd), folder / "a.parquet")
    return days(odd, folder / "a.parquet")


def of_position_frame(odd: Odd, folder: Path) -> Read:
    return days(odd, pandas(odd))


def of_days(odd: Odd, folder: Path) -> Read:
    if odd.shown != "who" or odd.more:
        raise NoWay
    cut = {"days": np.zeros((odd.rows, 48), int), "user": listed(odd.without_raw().columns()["who"])}
    return lambda: shown(odd, from_cells(cut, GRID, places=None).trajectories(simulated=True))


def of_texts(odd: Odd, folder: Path) -> Read:
    if odd.shown not in ("who", "value", "reward", "text") or odd.column != VALUE:
        raise NoWay
    path, rating = written(odd, folder / "a.csv"), "reward" if odd.shown == "reward" else "value"

    def read() -> list[Any]:
        rated = Texts(path, "who", "text").ratings("label", rating)
        if odd.shown == "text":
            return [len(said[0]) for _, said in rated]
        units = {who for who, _ in rated}
        return [f"{len(units)} units"] if odd.shown == "who" else [f"{said[2]:g}" for _, said in rated]

    return read


WAYS: dict[str, tuple[Reader, ...]] = {
    "csv": (of_csv, of_csv_of_numbers, of_sorted_csv),
    "parquet": (of_parquet, of_parquet_of_numbers, of_sorted_parquet, of_shards),
    "frame": (of_pandas, of_arrow),
    "arrays": (of_lists, of_objects, of_numbers, of_blocks, of_npz),
    "database": (of_sqlite, of_duckdb),
    "dataset": (of_minari, of_d4rl, of_obp, of_scope_rl),
    "positions": (of_position_file, of_position_parquet, of_position_frame, of_days),
    "texts": (of_texts,),
}


def verdicts(odd: Odd, way: str, folder: Path) -> dict[str, str]:
    """What each reader of a way in makes of the records: what it reads, or "! " and the refusal."""
    found = {}
    for reader in WAYS[way]:
        (folder / reader.__name__).mkdir()
        try:
            read = reader(odd, folder / reader.__name__)
        except (NoWay, *CANNOT):
            continue
        try:
            found[reader.__name__] = " ".join(str(one) for one in read())
        except TacitError as error:
            found[reader.__name__] = f"! {error}"
    return found
