"""Tables in files: single ones, folders, globs and Hive partitions of CSV, Parquet and Arrow IPC, a batch at a time."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from tacit.data.sources import tables
from tacit.data.store import CHUNK
from tacit.errors import DataError, FileError, TacitError
from tacit.plain_files import is_inside, is_plain_file

T = TypeVar("T")
SUFFIXES: Mapping[str, str] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.zip": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
Reader = Callable[[Path, Sequence[str]], Iterator[tuple[dict[str, Any], int]]]
"""(file, names of columns) -> their Arrow arrays by name, and how many rows these have, a batch at a time."""
NOBODY = "__HIVE_DEFAULT_PARTITION__"
"""Value of a Hive partition whose cells are missing."""


@dataclass(frozen=True)
class SourceTable:
    """A table that is read once, a batch at a time."""

    name: str  # for errors
    kinds: Mapping[str, Any]  # Arrow type of each column, by its name, in the order of the header
    # (names of columns) -> their batches, Arrow record batches of these types
    batches: Callable[..., Iterator[Any]]
    typed: bool = True  # whether the source has types; without, all cells are texts
    queried: bool = False  # whether a query made it, of which nobody checked that it mixes no units
    cell_types: bool = False  # whether each cell has a type of its own; then `batches` takes ids=, names of id columns
    decimal: str = "."  # what stands before the decimals of numbers that are texts, "." or ","
    # (name, batches) of its files, or of itself, where its rows have an order and can be read again
    parts: Sequence[tuple[str, Callable[[Sequence[str]], Iterator[Any]]]] = ()


def replace_errors(read: Callable[[], T], wrong: TacitError) -> T:
    """What `read` returns; any complaint of another library, which may quote a cell, becomes `wrong`, without it."""
    try:
        return read()
    except (TacitError, ModuleNotFoundError):
        raise
    except Exception:  # no list of what parsers and engines raise would be whole
        pass
    raise wrong


def list_files(sources: Sequence[str]) -> list[tuple[Path, dict[str, str]]]:
    """The files of some sources, sorted by name within each, and the Hive partition that each lies in."""
    found: list[tuple[Path, dict[str, str]]] = []
    for source in sources:
        exact = os.path.exists(source) or not glob.has_magic(source)
        matches = [source] if exact else sorted(glob.glob(source, recursive=True))
        files = [file for match in matches for file in _files_below(Path(match))]
        if not files:
            what, expected = "no file is there", f"files that are called {', '.join(SUFFIXES)}"
            raise FileError(what, where=source, expected=expected, remedy="check the folder, or the pattern")
        for file in files:
            pairs = (part.partition("=") for part in file.parts[:-1] if "=" in part)  # of folders KEY=VALUE
            found.append((file, {unquote(key): unquote(value) for key, _, value in pairs}))
    real = [os.path.realpath(file) for file, _ in found]
    if len(set(real)) != len(real):
        raise FileError("a file is there twice", where="sources", expected="each once", remedy="correct the list")
    return found


def _files_below(path: Path) -> list[Path]:
    """The files in a folder and below it, or the file itself."""
    if not path.is_dir():
        return [path]
    files = (file for file in sorted(path.rglob("*")) if not file.name.lower().endswith((".txt", ".txt.gz")))
    names = [file.relative_to(path) for file in files if file_kind(file) and not file.is_dir()]  # no README.txt
    visible = [name for name in names if not any(part.startswith((".", "_")) for part in name.parts)]
    if not all(is_inside(path, str(name)) for name in visible):
        remedy = "put the file itself there, or name it"
        raise FileError("a link leads out of the folder", where=str(path), expected="plain files", remedy=remedy)
    return [path / name for name in visible]


def file_kind(path: Path) -> str | None:
    """csv, parquet or arrow, by the name."""
    name = path.name.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


def kind_error(path: Path) -> FileError:
    """Of a file whose name says that it holds no records."""
    kind, tables = path.suffix or "without a suffix", ", ".join(SUFFIXES)
    if path.suffix.lower() in (".npz", ".hdf5", ".h5"):
        what, expected = f"files of the kind {kind} have no header", f"a table that is called {tables}"
        remedy = "read it with `tacit data import`, by bounds that Python writes: json.dumps(PublicSpec(...).to_json())"
        return FileError(what, where=path.name, expected=expected, remedy=remedy)
    expected = f"a file that is called {tables}, .npz or .hdf5, or the id of a Minari dataset"
    what = f"files of the kind {kind} are not read"
    return FileError(what, where=path.name, expected=expected, remedy="save a table as CSV or Parquet")


def open_table(sources: Sequence[str], style: tables.Style = tables.PLAIN) -> SourceTable:
    """The files of some sources (see `list_files`) as one table. Raises FileError where there is no such file, or it is
    damaged; DataError where they are of several kinds, have two columns of one name, or differ in a column's type."""
    files = list_files(sources)
    kinds = {file_kind(path) for path, _ in files}
    if len(kinds) != 1 or None in kinds:
        expected, remedy = f"files of one kind, called {', '.join(SUFFIXES)}", "import one kind at a time"
        raise FileError("the files are of several kinds, or of none", where="sources", expected=expected, remedy=remedy)
    kind = str(kinds.pop())
    if style != tables.PLAIN and kind != "csv":
        what = "there is no CSV file whose separator, decimal sign, encoding or missing cells could be named"
        expected, remedy = "CSV files", "leave --separator, --decimal, --encoding and --missing out"
        raise DataError(what, where="sources", expected=expected, remedy=remedy)
    reader = partial(_csv, style=style) if kind == "csv" else _READERS[kind]
    headers = [(path, read_header(path, style), partition) for path, partition in files]
    parts = [(path, {k: v for k, v in part.items() if k not in header}) for path, header, part in headers]
    first, *others = [
        (path, header | _texts(part)) for (path, part), (_, header, _) in zip(parts, headers, strict=True)
    ]
    agreed = common_types(first, others)

    each = [(part[0].name, partial(_batches, *part, reader, agreed)) for part in parts]
    return SourceTable(
        name=first[0].name if not others else f"{len(files)} files",
        kinds={name: naive_type(kind) for name, kind in agreed.items()},
        batches=lambda names: (batch for _, read in each for batch in read(names)),
        typed=kind != "csv",
        decimal=style.decimal,
        parts=each,
    )


def read_header(path: Path, style: tables.Style = tables.PLAIN) -> dict[str, Any]:
    """Names of a file's columns -> Arrow types; texts, where the format has none."""
    import pyarrow.parquet as pq

    kind = file_kind(path)
    if kind == "csv":
        return _texts(tables.csv_header(path, style))
    read = (lambda: pq.read_schema(path)) if kind == "parquet" else (lambda: _reader(path).schema)
    if kind is None and is_plain_file(path):
        raise kind_error(path)
    if kind is None or not is_plain_file(path):
        raise tables.unreadable_error(path, f"a file that is called {', '.join(SUFFIXES)}")
    schema = replace_errors(read, tables.unreadable_error(path, _IN_WORDS[kind]))
    tables.require_distinct_names(schema.names, path.name)
    return {field.name: plain_type(field.type) for field in schema}


_IN_WORDS = {"csv": tables.CSV, "parquet": "a Parquet file", "arrow": "an Arrow IPC file"}


def plain_type(kind: Any) -> Any:
    """The Arrow type as which a column is read: one width for whole numbers, for floats and for texts."""
    # Whole numbers of 64 bits without a sign are decimals. Times with a zone are read in UTC. Files may differ in
    # widths, and nowhere else.
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_integer(kind):
        return pa.decimal128(20, 0) if types.is_uint64(kind) else pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    return kind


def cast_cells(column: Any, kind: Any) -> Any:
    """An Arrow column as this type."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):  # Arrow casts no indices of views of texts, as Polars writes categories
        return column.dictionary.cast(kind).take(column.indices)
    return column.cast(kind)


def naive_type(kind: Any) -> Any:
    """The type of a column as the engine has it: without a time zone, which it would read by its own settings."""
    import pyarrow as pa

    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind


def common_types(first: tuple[Path, dict[str, Any]], others: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """The types that hold the cells of all files: of whole numbers and floats floats, of decimals wider ones. Raises
    DataError where they differ, or a column is missing."""
    import pyarrow as pa

    agreed, types = dict(first[1]), pa.types
    for path, kinds in others:
        for name, kind in kinds.items():
            differs = name in agreed and kind not in (agreed[name], pa.null())
            if differs and pa.types.is_null(agreed[name]):
                agreed[name] = kind
            elif differs and {agreed[name], kind} == {pa.int64(), pa.float64()}:
                agreed[name] = pa.float64()
            elif differs:
                both = [pa.decimal128(19) if types.is_int64(one) else one for one in (agreed[name], kind)]
                decimal = all(types.is_decimal128(one) for one in both)
                scale = max(one.scale for one in both) if decimal else 0
                digits = max(one.precision - one.scale for one in both) + scale if decimal else 39
                if digits <= 38:
                    agreed[name] = pa.decimal128(digits, scale)
                    continue
                raise _mismatch_error(path, f"the column {name!r} has another type than in the files before")
        if absent := [name for name in agreed if name not in kinds]:
            raise _mismatch_error(path, f"there is no column {absent[0]!r}, which the files before have")
    return agreed


def _mismatch_error(path: Path, what: str) -> DataError:
    remedy = "write the files alike, and times in one zone, or import them apart"
    return DataError(what, where=path.name, expected="files that agree on names and types", remedy=remedy)


def _batches(
    path: Path, partition: Mapping[str, str], reader: Reader, kinds: Mapping[str, Any], names: Sequence[str]
) -> Iterator[Any]:
    """Record batches of the columns of a file, of these types."""
    import pyarrow as pa

    file_types = {name: kinds[name] for name in names if name not in partition}
    wrong = tables.unreadable_error(path, _IN_WORDS[str(file_kind(path))])

    def build_batch(columns: Mapping[str, Any], rows: int) -> Any:
        known = {key: None if partition[key] == NOBODY else partition[key] for key in names if key not in file_types}
        texts = {key: pa.array([value] * rows, pa.string()) for key, value in known.items()}
        arrays = {name: cast_cells(columns[name], naive_type(kind)) for name, kind in file_types.items()} | texts
        return pa.record_batch([arrays[name] for name in names], names=list(names))

    batches = replace_errors(lambda: reader(path, list(file_types)), wrong)
    while (batch := replace_errors(lambda: next(batches, None), wrong)) is not None:
        yield replace_errors(partial(build_batch, *batch), wrong)


def _csv(path: Path, names: Sequence[str], style: tables.Style) -> Iterator[tuple[dict[str, Any], int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    unknown = pa.array(style.missing, pa.string())
    for batch in tables.csv_texts(path, names, style):
        cells = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, texts in cells.items() if style.missing else ():
            nothing = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=unknown)
            cells[name] = pc.if_else(nothing, pa.scalar(None, pa.string()), texts)
        yield cells, batch.num_rows


def _parquet(path: Path, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], int]]:
    with tables.open_parquet(path) as file:
        for batch in file.iter_batches(batch_size=CHUNK, columns=names):
            yield {name: batch.column(name) for name in names}, batch.num_rows


def _arrow(path: Path, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], int]]:
    reader = _reader(path)
    count = getattr(reader, "num_record_batches", None)
    for batch in reader if count is None else map(reader.get_batch, range(count)):
        batch.validate(full=True)
        for start in range(0, batch.num_rows, CHUNK):
            part = batch.slice(start, CHUNK)
            yield {name: part.column(name) for name in names}, part.num_rows


_READERS: Mapping[str, Reader] = {"parquet": _parquet, "arrow": _arrow}


def _reader(path: Path) -> Any:
    """Of an Arrow IPC file, or of a stream in a file."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(os.fspath(path)))
    except pa.ArrowInvalid:
        pass
    return pa.ipc.open_stream(pa.memory_map(os.fspath(path)))


def _texts(names: Sequence[str] | Mapping[str, str]) -> dict[str, Any]:
    import pyarrow as pa

    return dict.fromkeys(names, pa.string())
