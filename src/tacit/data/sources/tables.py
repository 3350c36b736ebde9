"""Tables on the disk in chunks: CSV, Parquet and .npz, and what is said of one that cannot be read."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import json
import os
import re
import warnings
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.columns import MISSING
from tacit.data.store import CHUNK, Array
from tacit.errors import DataError, FileError, TacitError
from tacit.plain_files import is_plain_file

KEY = "tacit"
"""Of what tacit says of its rows, in the metadata of a Parquet file or an Arrow table, and in an .npz file."""
MOST, SPARE = 1_100, 2**16
BLOCK, LINE, TEXT, CELLS = 2**16, 2**22, 2**30, 2**27
"""Bytes that are read at once, bytes of a line, and bytes and separators of `CHUNK` rows of a text, at most: without an
end of line, a parser would take a file that unpacks to terabytes for one row, and keep it."""


Misfits = dict[Path, "dict[str, array[int]]"]
"""File -> what is wrong with rows that are none -> their numbers from 1, in the order in which files are read."""


@dataclass(frozen=True)
class Style:
    """How CSV files are written. Raises DataError where one is none of these, or the separator is the decimal sign."""

    # what stands between two cells, one character, "tab" or "space", runs of white space; None takes tabs in files
    # called .tsv or .txt, and commas in others
    separator: str | None = None
    decimal: str = "."  # what stands before the decimals of a number, "." or ","
    encoding: str = "utf-8"  # of the text
    missing: tuple[str, ...] = ()  # cells that say that nothing is known, beside those of `columns.MISSING`
    # takes the rows that are none, which are left out in place of the refusal of the first
    misfits: Misfits | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.missing, str):  # one text, and never its letters
            object.__setattr__(self, "missing", (self.missing,))
        sign = ";" if self.separator is None else {"tab": "\t", "space": " "}.get(self.separator, self.separator)
        object.__setattr__(self, "separator", None if self.separator is None else sign)
        if len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in ".\"'\r\n":
            self._refuse("--separator", "no sign that can stand between cells", 'one sign, as ";", or "tab" or "space"')
        if self.decimal not in (".", ","):
            self._refuse("--decimal", "no decimal sign", '"." or ","')
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError):
            self._refuse("--encoding", "no encoding that is known", "a name such as utf-8, cp1252 or utf-16")

    def open(self, path: Path, misfits: dict[str, array[int]] | None = None) -> TextStream:
        """The bytes of a file that is written so."""
        usual = "\t" if path.name.lower().endswith(TABBED) else ","
        return TextStream(path, self.separator or usual, self.encoding, misfits=misfits)

    def _refuse(self, option: str, what: str, expected: str) -> None:
        value = getattr(self, option.removeprefix("--"))
        raise DataError(f"{value[:20]!r} is {what}", where=option, expected=expected, remedy="write it so")


TABBED = (".tsv", ".tsv.gz", ".txt", ".txt.gz")
"""Ends of the names of files whose cells tabs part."""
PLAIN = Style()
CSV = "a CSV file in UTF-8, or in what --encoding names (such as cp1252)"
"""In words."""
_SEPARATORS = {",": ",", ";": ";", "\t": "tab", "|": "|", " ": "space"}
_RUNS = re.compile(rb'("[^"\r\n]*")|(?:^|(?<=\r))[ \t]+|[ \t]+(?=[\r\n]|\Z)|([ \t]+)', re.MULTILINE)
"""A quoted cell, white space at the ends of a line, and between cells."""


class TextStream(io.RawIOBase):
    """The bytes of a text table in UTF-8, unpacked where it is .gz or .zip (others make a thousand times more).

    Args:
        path: a plain file.
        separator: of its cells; a space stands for runs of white space, of which tabs are made.
        encoding: of the file.
        skipped: lines before the first row.
        cells: of a row; 0 takes those of the first one, which is the header.
        misfits: takes what is wrong with rows below the header that are none, and their numbers; they are left out.

    Raises:
        ValueError: when a line, or what was read since `reset_counts`, is longer than a table has it.

    Attributes:
        separator: of the cells that are read from here.
        wrong: what is wrong with the first row that is none, and its number, 0 for the header; None where all that was
            read is right. Parsers cut such rows silently, or read one person's rows as a cell of another's.
    """

    wrong: tuple[str, int] | None = None

    def __init__(
        self,
        path: Path,
        separator: str = ",",
        encoding: str = "utf-8",
        *,
        skipped: int = 0,
        cells: int = 0,
        misfits: dict[str, array[int]] | None = None,
    ) -> None:
        self._misfits = misfits
        self._runs, self._tail = separator == " ", b""
        self.separator = "\t" if self._runs else separator
        self._separator, self._width = self.separator.encode(), cells - 1
        plain = codecs.lookup(encoding).name == "utf-8"
        self._decoder = None if plain else codecs.getincrementaldecoder(encoding)()
        self._file: Any = gzip.open(path) if path.suffix.lower() == ".gz" else None  # noqa: SIM115
        if path.suffix.lower() == ".zip":  # beside the file, other programs write a folder of theirs
            with zipfile.ZipFile(path) as archive:
                files = [
                    one for one in archive.infolist() if not (one.is_dir() or one.filename.startswith("__MACOSX/"))
                ]
                if len(files) != 1 or files[0].flag_bits & 1 or files[0].compress_type not in (0, zipfile.ZIP_DEFLATED):
                    what = "the archive is not of one file, or is encrypted"
                    expected = "one CSV file, stored or deflated"
                    raise FileError(what, where=str(path), expected=expected, remedy="unpack it, and name the files")
                self._file = archive.open(files[0])
        self._file = self._file or open(path, "rb")  # noqa: SIM115
        for _ in range(skipped):
            self._file.readline(LINE)
        self._ready, self._ended = memoryview(b""), False
        self._begun, self._rows = b"", -bool(not cells)  # the line so far, and the rows before it
        self._line = 0
        self.reset_counts()

    def reset_counts(self) -> None:
        """A chunk of rows is complete."""
        self._bytes = self._cells = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        while not self._ready and not self._ended:
            read: bytes = self._file.read(BLOCK)
            self._ended = not read
            text = read if self._decoder is None else self._decoder.decode(read, self._ended).encode()
            last = text.rfind(b"\n")
            self._line = len(text) - last - 1 if last >= 0 else self._line + len(text)
            self._bytes += len(text)
            if self._runs:
                text, self._tail = self._tail + text, b""
                if not self._ended:
                    text, self._tail = text[: text.rfind(b"\n") + 1], text[text.rfind(b"\n") + 1 :]
                text = _RUNS.sub(lambda found: found[1] or (b"\t" if found[2] else b""), text)
            self._cells += text.count(self._separator)
            if self._line > LINE or self._bytes > TEXT or self._cells > CELLS:
                raise ValueError("a row without an end")
            if self.wrong is None:
                text = self._measure(text)
            self._ready = memoryview(text)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _measure(self, text: bytes) -> bytes:
        """Count the cells of each line that ends in these bytes, and see where its quotes stand; what is read of it."""
        read, text = text, self._begun + text + (b"\n" if self._ended else b"")
        last = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._begun, signs = text[last:], np.frombuffer(text[:last], np.uint8)
        ends = np.flatnonzero((signs == ord("\n")) | (signs == ord("\r")))
        ends = ends[np.diff(ends, prepend=-1) > 1]  # no empty line, nor what lies between the two signs of an end
        if not len(ends):
            return read if self._misfits is None else text[:last]
        between, quotes = np.flatnonzero(signs == self._separator[0]), np.flatnonzero(signs == ord('"'))
        misquoted = np.zeros(len(ends), np.bool_)
        if len(quotes):
            before = np.append(0, np.searchsorted(quotes, ends[:-1]))  # quotes in the lines before each line
            inside = np.searchsorted(quotes, between) - before[np.searchsorted(ends, between)]
            between = between[inside % 2 == 0]
            misquoted = np.diff(np.searchsorted(quotes, ends), prepend=0) % 2 == 1
            start = 3 if self._width < 0 and text.startswith(codecs.BOM_UTF8) else 0
            place = np.arange(len(quotes)) - before[np.searchsorted(ends, quotes)]  # in its line
            opening, closing = quotes[place % 2 == 0], quotes[place % 2 == 1]
            opening = opening[opening > start]
            edges = np.isin(np.arange(256), [*b'"\r\n', self._separator[0]])
            stray = np.append(opening[~edges[signs[opening - 1]]], closing[~edges[signs[closing + 1]]])
            misquoted[np.searchsorted(ends, stray)] = True
        counts = np.diff(np.searchsorted(between, ends), prepend=0)
        self._width = int(counts[0]) if self._width < 0 else self._width
        misfits = np.flatnonzero(misquoted | (counts != self._width))
        for row in misfits.tolist():
            what = f"a row has {'more' if counts[row] > self._width else 'fewer'} cells than the header"
            what, number = (_QUOTES if misquoted[row] else what), self._rows + row + 1
            if self._misfits is None or number == 0:
                self.wrong, misfits = (what, number), misfits[:0]
                break
            self._misfits.setdefault(what, array("q")).append(number)
        self._rows += len(ends)
        if self._misfits is None:
            return read
        lines = np.searchsorted(ends, np.arange(last))  # of each sign; blank lines at the end are of none
        return signs[~np.isin(lines, misfits)].tobytes()

    def close(self) -> None:
        """See `io.RawIOBase`."""
        self._file.close()
        super().close()


_QUOTES = "a quote is not closed in its line, or stands within a cell"


def csv_header(path: Path, style: Style = PLAIN) -> list[str]:
    """Names of a CSV file's columns."""
    import pandas as pd

    def read() -> Any:
        with style.open(path, {}) as text:
            options: dict[str, Any] = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
            try:
                return pd.read_csv(text, sep=text.separator, index_col=False, **options), text.wrong, text.separator
            except UnicodeError:
                raise
            except ValueError:
                if not text.wrong:
                    raise
            return None, text.wrong, text.separator

    first, wrong, separator = _replace_errors(path, read)
    names = [] if first is None else [name or f"Unnamed: {i}" for i, name in enumerate(first.iloc[0])]
    require_distinct_names(names, path.name)
    other = next((word for sign, word in _SEPARATORS.items() if sign != separator and names and sign in names[0]), None)
    if len(names) == 1 and other is not None:
        what = f"the first line is one column, with the separator {other!r} in it"
        expected = f"columns between which {separator!r} stands"
        remedy = f'give --separator "{other}" (in Python separator=, or read it with pandas)'
        raise DataError(what, where=path.name, expected=expected, remedy=remedy)
    if wrong and (first is None or wrong[1] == 0):  # the header alone is read, and nothing said of its rows
        raise row_error(path.name, wrong)
    return names


def require_distinct_names(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name; white space at its ends makes none of its own."""
    if len({name.strip() for name in names}) < len(names):
        expected, remedy = "different names", "rename one (in a query with AS)"
        raise DataError("two columns have one name", where=where, expected=expected, remedy=remedy)


def parquet_header(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(_replace_errors(path, lambda: pq.read_schema(path)).names)


def parquet_description(path: Path) -> dict[str, Any]:
    """What `to_parquet` said of the rows of a file (spec, units, certificate), and how many `rows` there are; of any
    other file nothing. Raises FileError where it is missing or damaged."""
    import pyarrow.parquet as pq

    footer = _replace_errors(path, lambda: pq.read_metadata(path))
    value = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads((footer.metadata or {}).get(KEY.encode(), b"null"))
    return {**value, "rows": footer.num_rows} if isinstance(value, dict) else {}


def csv_texts(path: Path, names: Sequence[str], style: Style = PLAIN) -> Iterator[Any]:
    """Arrow batches of these columns, or of the first one, of a CSV file: texts, as they stand there."""
    import pyarrow as pa
    from pyarrow import csv

    header, rest, first, ended = csv_header(path, style), b"", True, False
    misfits = None if style.misfits is None else style.misfits.setdefault(path, {})
    if misfits is not None:
        misfits.clear()
    chosen = list(names) or header[:1]
    cells = csv.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()))
    with _replace_errors(path, lambda: style.open(path, misfits)) as text, io.BufferedReader(text, BLOCK) as lines:
        while not ended:
            part = _replace_errors(path, lambda: lines.read(LINE))
            if text.wrong:
                raise row_error(path.name, text.wrong)
            text.reset_counts()
            ended = len(part) < LINE
            whole = (b"" if first else b"\n") + rest + part  # only at its start does a file have a mark of its order
            end = len(whole) if ended else max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
            whole, rest = whole[:end], whole[end:]
            if whole.strip(b"\r\n"):
                how = csv.ReadOptions(use_threads=False, block_size=len(whole) + 1, column_names=header)
                split = csv.ParseOptions(delimiter=text.separator)
                read = partial(csv.read_csv, pa.BufferReader(whole), how, split, cells)
                yield from _replace_errors(path, read).slice(int(first)).to_batches(CHUNK)
                first = False


def csv_chunks(
    path: Path, names: Sequence[str], ids: Sequence[str], style: Style = PLAIN
) -> Iterator[dict[str, Array]]:
    import pandas as pd

    csv_header(path, style)  # no two columns of one name
    wanted = {*names, *ids}
    row = 0
    misfits = None if style.misfits is None else style.misfits.setdefault(path, {})
    if misfits is not None:
        misfits.clear()
    text = _replace_errors(path, lambda: style.open(path, misfits))
    reader = None
    with contextlib.suppress(FileError):
        reader = _replace_errors(
            path,
            lambda: pd.read_csv(
                text,
                sep=text.separator,
                usecols=lambda name: name in wanted,
                dtype=dict.fromkeys(ids if style.decimal == "." else wanted, "str"),
                keep_default_na=False,
                na_values={name: sorted(MISSING) for name in wanted.difference(ids)},  # a label may say NA
                index_col=False,
                chunksize=CHUNK,
                low_memory=False,
            ),
        )
    if reader is None:
        text.close()
        raise row_error(path.name, text.wrong) if text.wrong else unreadable_error(path, _kind(path))
    with text, reader:
        while (table := _next_csv(path, reader, text)) is not None:
            text.reset_counts()
            out: dict[str, Array] = {}
            for name in table.columns:
                column = table[name]
                if name in ids:
                    out[name] = column.astype(object).where(column.notna(), None).to_numpy(dtype=object)
                    continue
                if style.decimal == ",":
                    column = column.str.translate({ord(","): ".", ord("."): ","})  # no number has both
                if column.dtype.kind not in "iuf":  # True and False are words here
                    numbers = to_numbers(column.astype(str))
                    bad = np.isnan(numbers)
                    if bad.any():
                        raise _number_error(path, name, row + int(np.argmax(bad)) + 1)
                    out[name] = numbers
                else:
                    out[name] = column.to_numpy()
            row += len(table)
            yield out


def _next_csv(path: Path, reader: Any, text: TextStream) -> Any:
    import pandas as pd

    failed: str | None = None
    table = None
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = next(reader, None)
        except (pd.errors.ParserError, pd.errors.ParserWarning):
            failed = "ragged"
        except Exception:
            failed = "unreadable"
    if failed == "unreadable":
        raise unreadable_error(path, _kind(path))
    if text.wrong or failed:
        raise row_error(path.name, text.wrong or (_QUOTES, 0))
    return table


def row_error(name: str, wrong: tuple[str, int]) -> DataError:
    """Of what is `TextStream.wrong` in a file of this name."""
    what, row = wrong
    expected = "rows of one line, each with as many cells as the header"
    remedy = "put cells with a separator or a quote in quotes, double quotes in them, or leave the row out"
    return DataError(what, where=f"{name}, row {row}" if row else name, expected=expected, remedy=remedy)


def parquet_chunks(path: Path, names: Sequence[str], ids: Sequence[str]) -> Iterator[dict[str, Array]]:
    import pyarrow as pa

    types = pa.types
    with open_parquet(path, ids) as file:
        present = [name for name in dict.fromkeys((*names, *ids)) if name in file.schema_arrow.names]
        for name in present:  # before a page is unpacked: a short dictionary may hold long words
            kind = file.schema_arrow.field(name).type
            plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            if name not in ids and not plain and not types.is_decimal(kind):
                raise _number_error(path, name, 1)
        batches = file.iter_batches(batch_size=CHUNK, columns=present)
        row = 0
        while True:
            batch, failed = None, False
            try:
                batch = next(batches, None)
            except Exception:
                failed = True
            if failed:
                raise unreadable_error(path, _kind(path))
            if batch is None:
                return
            out: dict[str, Array] = {}
            for name in present:
                column = batch.column(name)
                if name not in ids:
                    if column.null_count:
                        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise _number_error(path, name, row + first + 1)
                    decimal = types.is_decimal(column.type)
                    out[name] = (column.cast(pa.float64()) if decimal else column).to_numpy(zero_copy_only=False)
                elif types.is_dictionary(column.type):  # one object for each different id, however long
                    each = np.array([*column.dictionary.to_pylist(), None], dtype=object)
                    out[name] = each[column.indices.fill_null(len(each) - 1).to_numpy(zero_copy_only=False)]
                elif types.is_floating(column.type):
                    out[name] = column.to_numpy(zero_copy_only=False)
                elif column.null_count or not (types.is_integer(column.type) or types.is_boolean(column.type)):
                    out[name] = np.array(column.to_pylist(), dtype=object)
                else:
                    out[name] = column.to_numpy(zero_copy_only=False)
            row += batch.num_rows
            yield out


def open_parquet(path: Path, ids: Sequence[str] = ()) -> Any:
    """The open file, of which texts of ids stay a dictionary."""
    return _replace_errors(path, lambda: _parquet(path, ids))


def _parquet(path: Path, ids: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    require_distinct_names(schema.names, path.name)
    texts = [name for name in ids if name in schema.names and pa.types.is_string(schema.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=texts)
    if is_disproportionate(8 * file.metadata.num_rows * file.metadata.num_columns, path.stat().st_size):
        file.close()
        raise _size_error(path)
    return file


def npz_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """Name -> array of an .npz file."""
    # names: which, of those that are there, None takes all

    def load() -> dict[str, Array]:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
                raise ValueError
            if any(is_disproportionate(part.file_size, part.compress_size) for part in archive.zip.infolist()):
                raise _size_error(path)
            found = {name: archive[name] for name in (archive.files if names is None else names) if name in archive}
            if not all(isinstance(array, np.ndarray) for array in found.values()):
                raise ValueError("a member that is no array comes as its bytes")
            return found

    arrays: dict[str, Array] = _replace_errors(path, load)
    return arrays


def npz_header(path: Path) -> list[str]:
    """Names of the arrays of an .npz file."""

    def read() -> list[str]:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]

    names: list[str] = _replace_errors(path, read)
    return names


def _replace_errors(path: Path, read: Any) -> Any:
    """What `read` returns; any complaint of a parser (which may quote a cell) becomes a `FileError` without it."""
    try:
        if is_plain_file(path):
            return read()
    except TacitError:
        raise
    except Exception:  # no list of what parsers and decompressors raise would be whole
        pass
    raise unreadable_error(path, _kind(path))


def to_numbers(values: Any) -> Array:
    """The numbers [n] of a column of anything, float64; NaN for what is none, or too large for one."""
    import pandas as pd

    column = pd.Series(values)
    try:
        numbers = pd.to_numeric(column, errors="coerce")
    except OverflowError:  # whole numbers of hundreds of digits
        numbers = pd.to_numeric(column.astype(str), errors="coerce")
    return np.asarray(numbers, dtype=np.float64)


def is_disproportionate(declared: int, stored: int) -> bool:
    """Whether this many bytes cannot come out of so few: deflate, the densest coding in use, makes 1,032 of one."""
    return declared > MOST * stored + SPARE


def _kind(path: Path) -> str:
    if path.name.lower().endswith((".csv", ".csv.gz", ".csv.zip", *TABBED)):
        return CSV
    return {".parquet": "a Parquet file", ".npz": "an .npz file of arrays"}.get(path.suffix.lower(), "a readable file")


def _number_error(path: Path, name: str, row: int) -> DataError:
    what, expected = f"the column {name!r} has a cell that is not a number", "a finite number in every row"
    remedy = 'correct the data, leave the row out, or name the decimal sign of 1,5: --decimal "," (in Python decimal=)'
    return DataError(what, where=f"{path.name}, row {row}", expected=expected, remedy=remedy)


def _size_error(path: Path) -> FileError:
    what, expected = "the file declares far more than it holds", _kind(path)
    return FileError(what, where=str(path), expected=expected, remedy="write the file again")


def unreadable_error(path: Path, kind: str) -> FileError:
    """Of a file that is missing, or is none of its kind ("a Parquet file")."""
    what = "the file is damaged or of another kind"
    if not is_plain_file(path):
        what = "this is no plain file" if os.path.exists(path) else "there is no such file"
        what = "this is a folder" if os.path.isdir(path) else what
    remedy = "write the file again" if is_plain_file(path) else "check the path"
    return FileError(what, where=str(path), expected=kind, remedy=remedy)
