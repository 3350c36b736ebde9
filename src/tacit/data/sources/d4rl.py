"""Reads D4RL's HDF5 files, which the user has; what counts as a transition is what D4RL's `qlearning_dataset` says.

D4RL (Fu et al. 2020, arXiv:2004.07219) stores one long recording: observations, actions, rewards, terminals and
timeouts, all [N, ...], newer files next_observations too. Row t becomes a transition to next_observations[t], or to
observations[t + 1] where the file has none, except

- rows with a timeout: what is behind them is another episode;
- terminal rows of a file without next_observations, for the same reason;
- the last row.

Nobody's id is in these files. So the unit is named: a column of ids that the user added, every transition, every
episode, or pieces of the recording of a fixed number of rows. A piece is no trajectory and nobody's, and its name says
so ("chunk of 500 rows"). The last row of a piece is left out: what it leads to belongs to the next piece.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Ingest
from tacit.data.sources.hdf5 import decode_texts, open_hdf5
from tacit.data.sources.tables import unreadable_error
from tacit.data.spec import PublicSpec
from tacit.data.store import CHUNK, Array, StoredRecords
from tacit.errors import DataError
from tacit.units import UnitKey

EACH_CHUNK = ":chunk"
"""In place of a unit id: pieces of the recording of a fixed number of rows are the units."""

KIND = "an HDF5 file of D4RL's"
_NEXT = "next_observations"
Flags = npt.NDArray[np.bool_]


def read(
    path: str | os.PathLike[str],
    *,
    unit: str,
    spec: PublicSpec,
    chunk: int | None,
    horizon: int | None,
    unit_key: UnitKey | None,
    simulated: bool,
    store: str | os.PathLike[str] | None,
) -> StoredRecords:
    """See `Trajectories.from_d4rl`."""
    if not isinstance(unit, str) or not unit or (unit == EACH_CHUNK) != (chunk is not None) or (chunk or 2) < 2:
        what = "the unit is missing, or it and chunk= do not fit"
        expected = f"a column of ids, {EACH_TRANSITION!r}, {EACH_EPISODE!r}, or {EACH_CHUNK!r} with chunk= 2 or more"
        remedy = "name what is protected; there is no default"
        raise DataError(what, where="Trajectories.from_d4rl", expected=expected, remedy=remedy)
    name = unit if chunk is None else f"chunk of {chunk} rows"
    with Ingest(spec, simulated=simulated, store=store, unit=name, unit_key=unit_key) as ingest:
        ingest.start(f"Trajectories.from_d4rl({Path(path).name!r})")
        ids = None if unit in (EACH_TRANSITION, EACH_EPISODE, EACH_CHUNK) else unit
        for columns, at in _rows(Path(path), ids, horizon, chunk, terminals=spec.terminals):
            episodes = columns.pop("episode_ids")
            owner = unit if ids is None else columns.pop("ids")
            ingest.add(columns, owner if chunk is None else at // chunk, episodes)
        return ingest.finish()


def read_columns(path: str | os.PathLike[str], *, horizon: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """The transitions of a file of *public* records as plain columns, without units or bounds: observations, actions,
    rewards, next_observations as they are stored, terminations and truncations [T] bool, episode_ids [T] int64. Raises
    as `Trajectories.from_d4rl`, of which `horizon` is."""
    parts = [columns for columns, _ in _rows(Path(path), None, horizon, None)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _divide(
    terminal: Flags, timeout: Flags, *, has_next: bool, chunk: int | None
) -> tuple[Flags, Flags, npt.NDArray[np.int64]]:
    """Which rows [N] become transitions, which truncate their episode, and the episode of each."""
    at, truncated = np.arange(len(terminal)), timeout.copy()
    if chunk is not None:
        truncated |= at % chunk == chunk - 1
    kept = ~truncated & (has_next | ~terminal) & (at < len(at) - 1)
    episode = np.append(0, np.cumsum((terminal | truncated)[:-1]))
    rows = np.flatnonzero(kept)
    last = rows[np.diff(episode[rows], append=-1) != 0]  # of every episode
    cut = np.zeros(len(at), np.bool_)
    cut[last] = ~terminal[last]
    return kept, cut, episode


def _rows(
    path: Path, ids: str | None, horizon: int | None, chunk: int | None, *, terminals: bool = True
) -> Iterator[tuple[dict[str, Array], Array]]:
    """Transitions with their places [n] in the recording, a piece of the file at a time."""
    with open_hdf5(path, unreadable_error(path, KIND)) as file:
        names = ["observations", "actions", "rewards", *([] if ids is None else [ids])]
        fields = {name: _field(file, name, path) for name in (*names, "terminals")}
        fields |= {name: _field(file, name, path) for name in ("timeouts", _NEXT) if name in file}
        rows = len(fields["rewards"])
        if rows < 2 or any(len(field) != rows for field in fields.values()):
            what = "the columns are ragged or hold no transition"
            expected, remedy = "two rows at least, and one entry of every field for each", "correct the file"
            raise DataError(what, where=path.name, expected=expected, remedy=remedy)
        terminal = _flags(fields["terminals"], path, "terminals")
        if not terminals and terminal.any():
            raise DataError(
                "an episode terminates, but the spec declares terminals=False",
                where=f"{path.name}, row {int(np.argmax(terminal)) + 1}",
                expected="no terminal in the file",
                remedy="declare terminals=True, or correct the data",
            )
        timeout = _timeouts(fields, terminal, horizon, path)
        has_next = _NEXT in fields
        kept, truncated, episode = _divide(terminal, timeout, has_next=has_next, chunk=chunk)
        if not kept.any():
            expected, remedy = "episodes of two rows at least", "check the terminals and timeouts of the file"
            raise DataError("no row is a transition", where=path.name, expected=expected, remedy=remedy)
        for start in range(0, rows, CHUNK):
            inside = np.flatnonzero(kept[start : start + CHUNK])
            if not len(inside):
                continue
            at = start + inside
            columns = {name: _piece(fields[name], start, CHUNK, path)[inside] for name in names}
            source, first = (_NEXT, start) if has_next else ("observations", start + 1)
            following = _piece(fields[source], first, CHUNK, path)
            columns |= {_NEXT: following[inside], "terminations": terminal[at], "truncations": truncated[at]}
            if ids is not None:
                columns["ids"] = decode_texts(columns.pop(ids))
            yield columns | {"episode_ids": episode[at]}, at


def _timeouts(fields: dict[str, Any], terminal: Flags, horizon: int | None, path: Path) -> Flags:
    if "timeouts" in fields:
        return _flags(fields["timeouts"], path, "timeouts")
    if horizon is None or horizon < 2:
        what, expected = "the file does not say where episodes time out", "a field timeouts, or horizon= 2 or more"
        remedy = "say with horizon= after how many steps the task cuts an episode"
        raise DataError(what, where=path.name, expected=expected, remedy=remedy)
    at = np.arange(len(terminal))
    first = np.concatenate([[0], np.where(terminal[:-1], at[1:], 0)])
    return np.asarray((at - np.maximum.accumulate(first)) % horizon == horizon - 1)


def _flags(field: Any, path: Path, name: str) -> Flags:
    values = _piece(field, 0, len(field), path)
    numbers = values.reshape(len(values), -1) if values.dtype.kind in "biuf" else np.full((len(values), 1), 2)
    wrong = (numbers != 0) & (numbers != 1)
    if numbers.shape[1] != 1 or wrong.any():
        raise DataError(
            f"{name} is not boolean",
            where=f"{path.name}, row {int(np.argmax(wrong.any(axis=1))) + 1}",
            expected="one of True, False, 0 and 1 for each row",
            remedy="correct the file",
        )
    return np.asarray(numbers[:, 0] == 1)


def _field(file: Any, name: str, path: Path) -> Any:
    field = None
    with contextlib.suppress(KeyError, OSError, RuntimeError, ValueError):
        field = file[name]
    if not isinstance(field, h5py.Dataset) or not field.shape:
        expected = "observations, actions, rewards, terminals, and the ids if unit= names some"
        remedy = "name a column of the file, or take a file of D4RL's"
        raise DataError(f"there is no column {name!r}", where=path.name, expected=expected, remedy=remedy)
    return field


def _piece(field: Any, start: int, length: int, path: Path) -> Array:
    values = None
    with contextlib.suppress(Exception):  # whatever the library says of damaged records
        values = np.asarray(field[start : start + length])
    if values is None:
        raise unreadable_error(path, KIND)
    return values
