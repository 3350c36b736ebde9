"""What a study is made of: private records in a folder, a file, a table of another library, or `Trajectories`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import DataError
from tacit.study.narration import Narrator

if TYPE_CHECKING:
    from tacit.data.spec import PublicSpec
    from tacit.data.trajectories import Trajectories


@dataclass(frozen=True)
class Source:
    """Private records of which only the public parts are known so far.

    Args:
        name: what they are called where something is refused.
        spec: their public bounds.
        unit: what one protected unit is, in the singular.
        simulated: whether nobody is behind them.
        place: the folder or file that their ledger lies beside; None for records in memory.
        open: reads them.
    """

    name: str
    spec: PublicSpec
    unit: str
    simulated: bool
    place: Path | None
    open: Callable[[], Trajectories]


def source_of(
    records: Any, unit: str, spec: PublicSpec | str | os.PathLike[str] | None, narrator: Narrator, **reading: Any
) -> Source:
    """The source that somebody named.

    Args:
        records: a folder that `tacit data import` wrote, `Trajectories`, a file of a table (.csv, .parquet ...), or a
            table of pandas, Polars, Arrow or DuckDB.
        unit: of a folder or of `Trajectories`, what one unit is; of a table, the column of its ids.
        spec: public bounds, or their file; needed for a table, and nothing else has them to be said.
        narrator: is told where the units' name cannot be checked.
        reading: how a table is read (see `Trajectories.from_frame`; of a CSV file also separator, decimal, encoding
            and missing).

    Raises:
        DataError: the units have another name, or the bounds are missing, or something was said that has no meaning.
        FileError: there are no such records.
    """
    from tacit.data.trajectories import Trajectories, held_by_one

    path = Path(records) if isinstance(records, str | os.PathLike) else None
    # A path without an ending and without bounds beside it is meant for a folder that was imported.
    folder = path is not None and ((path / "spec.json").is_file() or (path.suffix == "" and spec is None))
    table = not isinstance(records, Trajectories) and not folder
    if not table and (spec is not None or reading):
        name = "spec" if spec is not None else next(iter(reading))
        raise DataError(
            f"{name}= has no meaning for records that were imported before",
            where="Study",
            expected="it for a table",
            remedy=f"leave {name}= out",
        )
    if isinstance(records, Trajectories):
        return Source("Study", records.spec, unit, records.simulated, None, held_by_one(records))
    if not table:
        from tacit.data.store import read_spec
        from tacit.study.account import require_unit

        assert path is not None
        known, simulated, _ = read_spec(path)
        require_unit(path, unit, narrator)
        return Source(str(path), known, unit, simulated, path, lambda: Trajectories.open(path))
    return _table(records, path, unit, spec, **reading)


def _table(
    records: Any, path: Path | None, unit: str, spec: PublicSpec | str | os.PathLike[str] | None, **reading: Any
) -> Source:
    from tacit.data import spec_files
    from tacit.data.sources import frames, lake, sorting, tables
    from tacit.data.trajectories import Trajectories

    if spec is None:
        raise DataError(
            "the public bounds of this table are missing",
            where="Study" if path is None else str(path),
            expected="a folder that `tacit data import` wrote, or in Python a table with spec=",
            remedy="declare bounds that are known without the data (`tacit spec init` writes a template)",
        )
    bounds = spec_files.read(Path(spec)) if isinstance(spec, str | os.PathLike) else spec
    simulated = bool(reading.pop("simulated", False))
    style = {name: reading.pop(name) for name in ("separator", "decimal", "encoding", "missing") if name in reading}
    wanted = sorting.Wanted(unit, **reading)

    def open() -> Trajectories:
        table = frames.table_of(records) if path is None else lake.table_of([str(path)], tables.Style(**style))
        return Trajectories(sorting.read(table, wanted, bounds, simulated=simulated), bounds, simulated=simulated)

    return Source("Study" if path is None else str(path), bounds, _noun(unit), simulated, path, open)


def _noun(column: str) -> str:
    """What one unit is by the name of its column: "patient" of patient_id."""
    return re.sub(r"(?<=.)[ _-]?id$", "", column.removeprefix(":"), flags=re.IGNORECASE)
