"""The native format: one folder with a flat .npy file for each column, memory-mapped when opened.

    spec.json                  public: format, spec, whether the records are simulated, how units were made
    observations.npy ...       the columns
    order.npy, offsets.npy     rows of unit u are order[offsets[u]:offsets[u + 1]]
    episodes.npy               rows of episode e are episodes[e]:episodes[e + 1]
    names.npy                  digests of the units' ids, where they have some
    private/receipt.json       what the import clipped, filled and left out, for the curator alone; of no simulated set

A folder appears under its name only when it is complete: everything is written beside it, synced and renamed.
A process that is killed meanwhile leaves a hidden `.NAME.partial-*` folder, which nothing reads; it can be removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedRandom
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tacit import plain_files
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.unit_keys import NAME_BYTES
from tacit.errors import DataError, FileError
from tacit.units import UnitKey

Array = NDArray[Any]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
CHUNK = 65_536  # rows that are validated, converted or copied at a time
FORMAT = {"format": "tacit.trajectories", "version": 2}
INDEX = ("order", "offsets", "episodes")
NAMES = "names"
UnitKind = Literal["id", "episode", "transition"]


@dataclass(frozen=True)
class StoredRecords:
    """Validated columns with their units and episodes."""

    columns: Mapping[str, Array]  # name -> array of length T, as in `layout`
    # order, offsets: rows of unit u are `order[offsets[u]:offsets[u + 1]]`, shapes `(T,)` and `(U + 1,)`, int64
    order: Array
    offsets: Array
    episodes: Array  # rows of episode e are `episodes[e]:episodes[e + 1]`, shape `(E + 1,)`, int64
    owner: UnitKind = "id"  # how units were made: from ids, or every episode or transition a unit of its own; public
    unit: str | None = None  # what the ids were called (the name of their column), where it was said; public
    queried: bool = False  # whether a query made the records, of which nobody checked that it mixes no units; public
    # what ids are that differ by case or form alone, if anybody said it (`tacit.data.unit_keys`); public
    unit_key: UnitKey | None = None
    # whether the row that cuts an episode has its own observation as the next one (`next="keep"`); public. False also
    # where nobody said how they were read
    copied_ends: bool = False
    # the digest of each unit's id, by which it is dealt (`tacit.privacy.deals`), shape `(U, 16)` uint8; None where
    # units have none. As private as the ids.
    names: Array | None = None
    # keyed digests of the units' ids, two words each, after that of no id, shape `(1 + U, 2)` int64; None but for
    # shards, whose units are compared by them
    digests: Array | None = None
    # what was clipped, filled or left out when these were read, in counts for the curator alone; None where they were
    # not read now, or nobody is behind them
    receipt: dict[str, Any] | None = None

    @property
    def unit_metadata(self) -> dict[str, Any]:
        """What is public about the units and rows: everything but the columns and whose each row is."""
        return {name: getattr(self, name) for name in ("owner", "unit", "queried", "unit_key", "copied_ends")}

    @property
    def owners(self) -> Array:
        """The unit of each row, shape `(T,)` int64."""
        owners = np.empty(len(self.order), np.int64)
        owners[self.order] = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return owners

    def episodes_of(self, rows: slice) -> Array:
        """The episodes that consecutive rows belong to, one int64 for each."""
        episodes: Array = np.searchsorted(self.episodes, np.arange(rows.start, rows.stop), side="right") - 1
        return episodes


def chain_ends(records: StoredRecords) -> Array:
    """Which rows the next one does not follow, shape `(T,)` bool."""
    # These are the last of an episode, those that terminate or truncate it, and any whose next observation is not the
    # observation of the row after it.
    columns = records.columns
    ends: Array = np.asarray(columns["terminations"]) | np.asarray(columns["truncations"])
    ends[np.asarray(records.episodes[1:]) - 1] = True
    for start in range(0, len(ends) - 1, CHUNK):
        stop = min(start + CHUNK, len(ends) - 1)
        apart = columns["next_observations"][start:stop] != columns["observations"][start + 1 : stop + 1]
        ends[start:stop] |= apart.reshape(stop - start, -1).any(axis=1)
    return ends


def layout(spec: PublicSpec) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Name of every column -> its dtype and the shape of one row."""

    def field(space: Space) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return (np.dtype(np.int64), ()) if isinstance(space, Discrete) else (np.dtype(np.float32), (space.size,))

    flag = (np.dtype(np.bool_), ())
    columns = {
        "observations": field(spec.observation),
        "actions": field(spec.action),
        "rewards": (np.dtype(np.float32), ()),
        "next_observations": field(spec.observation),
        "terminations": flag,
        "truncations": flag,
    }
    if spec.propensities:
        columns["propensities"] = (np.dtype(np.float32), ())
    return columns


class MemoryColumns:
    """Columns that grow in memory, in place: a block that has to move is mapped elsewhere, not copied."""

    def __init__(self) -> None:
        self._columns: dict[str, Array] = {}
        self._rows: dict[str, int] = {}

    def append(self, name: str, values: Array) -> None:
        start = self._rows.get(name, 0)
        end = start + len(values)
        column = self._columns.setdefault(name, np.empty((0, *values.shape[1:]), values.dtype))
        if end > len(column):
            column.resize((max(end, len(column) * 9 // 8), *column.shape[1:]), refcheck=False)
        column[start:end] = values
        self._rows[name] = end

    def take(self, name: str) -> Array:
        """The whole column; it can be taken once."""
        column = self._columns.pop(name)
        column.resize((self._rows.pop(name), *column.shape[1:]), refcheck=False)
        return column

    def finish(self, index: Mapping[str, Array], spec: PublicSpec, *, simulated: bool, **notes: Any) -> StoredRecords:
        """The whole; see `Records.unit_metadata`."""
        names = self.take(NAMES) if NAMES in self._columns else None
        columns = {name: self.take(name) for name in layout(spec)}
        order, offsets, episodes = (index[name] for name in INDEX)
        return StoredRecords(columns, order, offsets, episodes, names=names, **notes)

    def abort(self) -> None:
        self._columns.clear()
        self._rows.clear()


class FolderColumns:
    """Columns that grow on disk, in a hidden folder beside the final one."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() or self.folder.is_symlink():
            expected, remedy = "a name that is still free", "choose another folder or remove this one"
            raise FileError("the folder exists already", where=str(self.folder), expected=expected, remedy=remedy)
        self._partial = self.folder.with_name(f".{self.folder.name}.partial-{secrets.token_hex(4)}")
        self._files: dict[str, BufferedRandom] = {}
        self._headers: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]] = {}
        with replace_write_errors(self.folder):
            self._partial.mkdir(mode=0o700, parents=True)

    def append(self, name: str, values: Array) -> None:
        with replace_write_errors(self.folder):
            if name not in self._files:
                self._files[name] = open(self._partial / f"{name}.npy", "w+b")  # noqa: SIM115
                self._headers[name] = (values.dtype, values.shape[1:], 0)
                _header(self._files[name], *self._headers[name])
            dtype, shape, rows = self._headers[name]
            assert values.dtype == dtype
            assert values.shape[1:] == shape
            self._files[name].write(values.tobytes())
            self._headers[name] = (dtype, shape, rows + len(values))

    def take(self, name: str) -> Array:
        """A temporary column, mapped read-only; its file disappears from the folder."""
        path = self._partial / f"{name}.npy"
        self._close(name)
        column: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        path.unlink()
        return column

    def finish(
        self,
        index: Mapping[str, Array],
        spec: PublicSpec,
        *,
        simulated: bool,
        receipt: dict[str, Any] | None = None,
        **notes: Any,
    ) -> StoredRecords:
        """The whole; see `Records.unit_metadata`."""
        for name in INDEX:
            for chunk in chunks(index[name]):
                self.append(name, chunk)
        with replace_write_errors(self.folder):
            for name in tuple(self._files):
                self._close(name)
            with open(self._partial / "spec.json", "x", encoding="utf-8") as file:
                public = {name: value for name, value in notes.items() if value not in (None, False)}
                json.dump({**FORMAT, "simulated": simulated, **public, "spec": spec.to_json()}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            if receipt is not None:
                write_receipt(receipt, self._partial)
            os.rename(self._partial, self.folder)
            plain_files.sync_folder(self.folder.parent)
        return replace(read(self.folder)[2], receipt=receipt)

    def abort(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # what is still in its buffer may not fit on the disk
                file.close()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _close(self, name: str) -> None:
        with self._files.pop(name) as file:
            _header(file, *self._headers.pop(name))
            file.flush()
            os.fsync(file.fileno())


RECEIPT = Path("private", "receipt.json")
"""In a folder of records, or of a run that read its records itself."""


def write_receipt(receipt: Mapping[str, Any], folder: Path) -> None:
    """Write what an import clipped, filled and left out under `folder/private/`; the curator alone may read it."""
    banner = (
        "PRIVATE: counted in the records without noise, for the curator alone; do not publish. Bounds, grid and labels "
        "that are changed because of this page are no longer public. What is changed is imported again under the same "
        "ledger."
    )
    plain_files.make_private_folder(folder / RECEIPT.parent)
    content = json.dumps({"banner": banner, "result": receipt}, indent=1, allow_nan=False)
    plain_files.write(folder / RECEIPT, content, mode=0o600)


def write(records: StoredRecords, spec: PublicSpec, folder: str | os.PathLike[str], *, simulated: bool) -> None:
    """Writes the native format."""
    sink = FolderColumns(folder)
    try:
        for name, column in records.columns.items():
            for chunk in chunks(column):
                sink.append(name, chunk)
        for chunk in () if records.names is None else chunks(records.names):
            sink.append(NAMES, chunk)
        index = {name: getattr(records, name) for name in INDEX}
        sink.finish(index, spec, simulated=simulated, receipt=records.receipt, **records.unit_metadata)
    except BaseException:
        sink.abort()
        raise


def read(folder: str | os.PathLike[str]) -> tuple[PublicSpec, bool, StoredRecords]:
    """The spec, whether the records are simulated, and the columns, memory-mapped read-only. Raises FileError where a
    file is missing, truncated, of another kind or a link to outside the folder."""
    folder = Path(folder)
    public = read_public(folder)
    spec, simulated = public.spec, public.simulated
    expected = {**layout(spec), **{name: (np.dtype(np.int64), ()) for name in INDEX}}
    arrays = {name: _map(folder / f"{name}.npy", *kind) for name, kind in expected.items()}
    rows = len(arrays["rewards"])
    columns = {name: arrays[name] for name in layout(spec)}
    if rows == 0 or any(len(column) != rows for column in (*columns.values(), arrays["order"])):
        raise _damaged_error(folder, "the columns have different lengths or are empty")
    covered = np.zeros(rows, dtype=np.bool_)
    for part in _stream(folder / "order.npy"):
        if part.min() < 0 or part.max() >= rows:
            raise _damaged_error(folder / "order.npy", "a row number is out of range")
        covered[part] = True
    if not covered.all():
        raise _damaged_error(folder / "order.npy", "a row belongs to no unit")
    for name in ("offsets", "episodes"):
        last = 0
        for i, part in enumerate(_stream(folder / f"{name}.npy")):
            if (i == 0 and part[0] != 0) or (i > 0 and part[0] <= last) or not np.all(np.diff(part) > 0):
                raise _damaged_error(folder / f"{name}.npy", "the boundaries do not rise from 0")
            last = int(part[-1])
        if last != rows:
            raise _damaged_error(folder / f"{name}.npy", "the boundaries do not end at the last row")
    names = _map(folder / f"{NAMES}.npy", np.dtype(np.uint8), (NAME_BYTES,)) if public.owner == "id" else None
    if names is not None and len(names) != len(arrays["offsets"]) - 1:
        raise _damaged_error(folder / f"{NAMES}.npy", "there is not one name for each unit")
    order, offsets, episodes = (arrays[name] for name in INDEX)
    return spec, simulated, StoredRecords(columns, order, offsets, episodes, *public[2:], names=names)


def read_spec(folder: Path) -> tuple[PublicSpec, bool, UnitKind]:
    """The public part of a native folder: its spec, whether the records are simulated, and how units were made."""
    return read_public(folder)[:3]


def name_units(folder: Path, name: str) -> None:
    """Call the units of a native folder so, in place of the name of the column of their ids."""
    with replace_write_errors(folder):
        metadata = json.loads(plain_files.read_text(folder / "spec.json"))
        plain_files.write(folder / "spec.json", json.dumps({**metadata, "unit": name}, indent=1))


class PublicPart(NamedTuple):
    """What `spec.json` says."""

    spec: PublicSpec
    simulated: bool
    owner: UnitKind
    unit: str | None
    queried: bool
    unit_key: UnitKey | None
    copied_ends: bool


def read_public(folder: Path) -> PublicPart:
    """What `spec.json` of a native folder says. Raises FileError where it is missing or damaged."""
    public: PublicPart | None = None
    path = folder / "spec.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, DataError):
        if not path.is_symlink():
            public = _public(json.loads(plain_files.read_text(path)))
    if public is None:
        what, remedy = "spec.json is missing or damaged", "import or save the data again"
        if not folder.exists():
            what, remedy = "there is no such folder", "check the path, or run `tacit data import` first"
        elif not folder.is_dir():
            what, remedy = "this is a file and no folder of records", "run `tacit data import` on it first"
        expected = "a folder that `tacit data` or Trajectories.save wrote"
        raise FileError(what, where=str(folder), expected=expected, remedy=remedy)
    return public


def _public(metadata: Any) -> PublicPart | None:
    if not isinstance(metadata, dict) or {**metadata, **FORMAT} != metadata:
        return None
    simulated, owner, unit = metadata["simulated"], metadata["owner"], metadata.get("unit")
    queried, copied = metadata.get("queried", False), metadata.get("copied_ends", False)
    unit_key = metadata.get("unit_key")
    if not isinstance(simulated, bool) or owner not in get_args(UnitKind) or not isinstance(unit, str | None):
        return None
    if not (isinstance(queried, bool) and isinstance(copied, bool)) or unit_key not in (None, *get_args(UnitKey)):
        return None
    return PublicPart(PublicSpec.from_json(metadata["spec"]), simulated, owner, unit, queried, unit_key, copied)


def chunks(column: Array) -> Iterator[Array]:
    """Consecutive slices of at most `CHUNK` rows; an empty column gives one empty slice."""
    for start in range(0, max(len(column), 1), CHUNK):
        yield column[start : start + CHUNK]


@contextlib.contextmanager
def replace_write_errors(folder: Path) -> Iterator[None]:
    """Turns an OSError (disk full, no permission) into a FileError that names the folder only."""
    try:
        yield
    except OSError as error:
        what = f"the folder cannot be written ({error.strerror or 'unknown reason'})"
        remedy, expected = (
            "free some space or choose another folder; nothing was left behind",
            "enough free space there",
        )
        raise FileError(what, where=str(folder), expected=expected, remedy=remedy) from None


def _header(file: BufferedRandom, dtype: np.dtype[Any], shape: tuple[int, ...], rows: int) -> None:
    # NumPy pads the header for a growing first axis, so the final row count fits where the first header was.
    before = file.tell()
    file.seek(0)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, *shape)}
    np.lib.format.write_array_header_1_0(file, header)
    assert before in (0, file.tell() + rows * dtype.itemsize * int(np.prod(shape)))
    file.seek(0, os.SEEK_END)


def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    column: Array | None = None
    try:
        if plain_files.is_plain_file(path) and not path.is_symlink():
            column = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # of a header that no parser takes
        column = None
    if not isinstance(column, np.ndarray) or column.dtype != dtype or column.shape[1:] != shape or column.ndim == 0:
        raise _damaged_error(path, "the file is missing, truncated or of another kind")
    return np.asarray(column)


def _stream(path: Path) -> Iterator[Array]:
    # Read, not mapped: pages of a check would otherwise stay counted as this process's memory.
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        (rows,), _, dtype = np.lib.format.read_array_header_1_0(file)
        for start in range(0, rows, CHUNK):
            yield np.fromfile(file, dtype=dtype, count=min(CHUNK, rows - start))


def _damaged_error(path: Path, what: str) -> FileError:
    expected, remedy = "a folder that Trajectories.save wrote", "import or save the data again"
    return FileError(what, where=str(path), expected=expected, remedy=remedy)
