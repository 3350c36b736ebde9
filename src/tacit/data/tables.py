"""Tables on the disk in chunks: CSV, Parquet and .npz, and what is said of one that cannot be read."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.store import CHUNK, Array
from tacit.errors import DataError, FileError


def csv_header(path: Path) -> list[str]:
    import pandas as pd

    return [str(name) for name in _opened(path, lambda: pd.read_csv(path, nrows=0, index_col=False, encoding="utf-8"))]


def parquet_header(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(_opened(path, lambda: pq.read_schema(path)).names)


def csv_chunks(path: Path, names: Sequence[str], ids: Sequence[str]) -> Iterator[dict[str, Array]]:
    import pandas as pd

    wanted = {*names, *ids}
    row = 0
    reader = _opened(
        path,
        lambda: pd.read_csv(
            path,
            usecols=lambda name: name in wanted,
            dtype=dict.fromkeys(ids, "str"),
            index_col=False,
            chunksize=CHUNK,
            low_memory=False,
            encoding="utf-8",
        ),
    )
    with reader:
        while (table := _next_csv(path, reader)) is not None:
            out: dict[str, Array] = {}
            for name in table.columns:
                column = table[name]
                if name in ids:
                    out[name] = column.astype(object).where(column.notna(), None).to_numpy(dtype=object)
                    continue
                if column.dtype.kind not in "biuf":
                    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=float)
                    if column.notna().all() and set(column.unique()) <= {True, False, "True", "False"}:
                        numbers = (column.astype(str) == "True").to_numpy(dtype=float)
                    bad = np.isnan(numbers)
                    if bad.any():
                        raise _not_a_number(path, name, row + int(np.argmax(bad)) + 1)
                    out[name] = numbers
                else:
                    out[name] = column.to_numpy()
            row += len(table)
            yield out


def _next_csv(path: Path, reader: Any) -> Any:
    import pandas as pd

    failed: str | None = None
    table = None
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = next(reader, None)
        except (pd.errors.ParserError, pd.errors.ParserWarning):
            failed = "ragged"
        except (OSError, ValueError, EOFError):
            failed = "unreadable"
    if failed == "ragged":
        raise DataError(
            "a row has more cells than the header, or a quote is not closed",
            where=str(path.name),
            expected="rows of equal length",
            remedy="correct the file",
        )
    if failed:
        raise unreadable(path, _kind(path))
    return table


def parquet_chunks(path: Path, names: Sequence[str], ids: Sequence[str]) -> Iterator[dict[str, Array]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _opened(path, lambda: pq.ParquetFile(path)) as file:
        present = [name for name in dict.fromkeys((*names, *ids)) if name in file.schema_arrow.names]
        batches = file.iter_batches(batch_size=CHUNK, columns=present)
        row = 0
        while True:
            batch, failed = None, False
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException):
                failed = True
            if failed:
                raise unreadable(path, _kind(path))
            if batch is None:
                return
            out: dict[str, Array] = {}
            for name in present:
                column = batch.column(name)
                if name not in ids:
                    kind = column.type
                    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                        raise _not_a_number(path, name, row + 1)
                    if column.null_count:
                        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise _not_a_number(path, name, row + first + 1)
                    out[name] = column.to_numpy(zero_copy_only=False)
                elif column.null_count or not pa.types.is_integer(column.type):
                    out[name] = np.array(column.to_pylist(), dtype=object)
                else:
                    out[name] = column.to_numpy(zero_copy_only=False)
            row += batch.num_rows
            yield out


def npz_arrays(path: Path, names: Sequence[str]) -> dict[str, Array]:
    def load() -> dict[str, Array]:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: archive[name] for name in names if name in archive.files}

    arrays: dict[str, Array] = _opened(path, load)
    return arrays


def _opened(path: Path, read: Any) -> Any:
    """What `read` returns; any complaint of a parser (which may quote a cell) becomes a `FileError` without it."""
    try:
        return read()
    except (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile):
        pass
    raise unreadable(path, _kind(path))


def _kind(path: Path) -> str:
    return {".csv": "a CSV file in UTF-8", ".parquet": "a Parquet file", ".npz": "an .npz file of arrays"}.get(
        path.suffix.lower(), "a readable file"
    )


def _not_a_number(path: Path, name: str, row: int) -> DataError:
    return DataError(
        f"the column {name!r} has a cell that is not a number",
        where=f"{path.name}, row {row}",
        expected="a finite number in every row",
        remedy="correct the data or leave the row out",
    )


def unreadable(path: Path, kind: str) -> FileError:
    """Of a file that is missing, or is none of its kind ("a Parquet file")."""
    what = "the file is damaged or of another kind"
    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "there is no such file"
    return FileError(
        what,
        where=str(path),
        expected=kind,
        remedy="write the file again" if path.is_file() else "check the path",
    )
