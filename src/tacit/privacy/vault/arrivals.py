"""Who comes to be met, and what they did: ids as texts and keys, the law of who is one person, which a ledger
remembers, and the rows of a round, made safe for contributions: columns of one shape, within the public bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data import unit_keys
from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.errors import LedgerError, MechanismError
from tacit.privacy.ledger.ledger import Ledger

LAW = "unit_key"
"""Under which kind of note a ledger holds that twins are different people."""


def person_text(person: Any) -> str:
    """An id as the users spell it; of one that is no text its key, since 1 and 1.0 are one person."""
    return person if isinstance(person, str) else unit_keys.key_or_none(person) or ""


def person_key(person: str) -> str:
    """By which somebody is known, however the id is spelled; "" for nobody."""
    return unit_keys.key_or_none(person) or ""


def read_notes(ledger: Ledger, kind: str) -> list[str]:
    """A ledger's notes of a kind, in order."""
    payloads = [entry.payload for entry in ledger.entries() if entry.kind == "note"]
    return [payload["text"] for payload in payloads if payload["kind"] == kind]


def require_law(ledger: Ledger, *, exact: bool) -> None:
    """Refuse to meet people of a ledger under another law than before: who contributed would be let in again."""
    if bool(read_notes(ledger, LAW)) != exact:
        what = "people were met before under another law of who is one person"
        expected = "the unit_key with which they were first met: who contributed would be let in again"
        raise LedgerError(what, where=str(ledger.path), expected=expected, remedy="give the users that unit_key")


COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "mask")


def enrolled_rows(
    served: Mapping[str, npt.NDArray[Any]],
    spec: PublicSpec,
    rows_per_unit: int,
    replicate: npt.NDArray[np.int64],
    admitted: npt.NDArray[np.bool_],
    place: npt.NDArray[np.int64] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """The rows of those who contribute, within the public bounds.

    Args:
        served: columns [U, L', ...] of U people in order of time: observations, actions, rewards, next_observations,
            terminations, truncations, and `mask` [U, L'], True where there is a row; a person who did not answer has
            none. A slot may hold several episodes, one after another.
        spec: the public bounds.
        rows_per_unit: L, how many rows are read; later ones are cut off, fewer are filled up with empty ones.
        replicate: [U], whose population each person belongs to.
        admitted: [U], who may contribute.
        place: [U], which of the meeting's places each person has: public, whatever others contribute. None for a
            sample, where a place would tell who else was drawn.

    Returns:
        Columns [V, L, ...] of the V people who are admitted, answered, and whose rows are all finite and inside the
        discrete spaces; `mask` is True on a prefix; "starts" [V, L] tells where an episode begins; "replicate" [V], and
        "place" [V] where it is given.
        Numbers are float32 and clipped to the bounds, each person's from their own rows alone.

    Raises:
        MechanismError: a column is missing or has another shape than the spec's.
    """
    shapes = {
        "observations": _shape(spec.observation),
        "next_observations": _shape(spec.observation),
        "actions": _shape(spec.action),
    }
    people = len(replicate)
    missing = [name for name in COLUMNS if name not in served]
    columns = {name: np.asarray(served[name]) for name in COLUMNS if name in served}
    lengths = {column.shape[1] if column.ndim > 1 else -1 for column in columns.values()}
    wrong = [n for n, c in columns.items() if c.shape[:1] != (people,) or c.shape[2:] != shapes.get(n, ())]
    if missing or wrong or len(lengths) != 1:
        raise MechanismError(
            f"columns are missing or of another shape: {', '.join(missing or wrong) or 'their numbers of rows differ'}",
            where="Users.serve",
            expected="[people, rows, ...] of the public spec: " + ", ".join(COLUMNS),
            remedy="return one array a column, with the people in the order in which they were asked for",
        )
    columns = {name: _to_length(column, rows_per_unit) for name, column in columns.items()}
    mask = np.logical_and.accumulate(columns["mask"].astype(bool), axis=1)
    valid = admitted & mask[:, 0]
    spaces: dict[str, Space] = {
        "observations": spec.observation,
        "next_observations": spec.observation,
        "actions": spec.action,
        "rewards": spec.reward,
    }
    for name, space in spaces.items():
        column = columns[name]
        if isinstance(space, Discrete):
            inside = (column >= 0) & (column < space.n) & (column == np.floor(column))
        else:
            inside = np.isfinite(column)
        valid &= (inside.reshape(*mask.shape, math.prod(inside.shape[2:])).all(axis=2) | ~mask).all(axis=1)
    enrolled = np.flatnonzero(valid)
    mask = mask[enrolled]
    rows = {name: _clip_to_space(columns[name][enrolled], space, mask) for name, space in spaces.items()}
    for name in ("terminations", "truncations"):
        rows[name] = columns[name][enrolled].astype(bool) & mask
    ends = rows["terminations"] | rows["truncations"]
    starts = np.concatenate([np.ones((len(enrolled), 1), bool), ends[:, :-1]], axis=1) & mask
    public = {"replicate": replicate[enrolled]} | ({} if place is None else {"place": place[enrolled]})
    return {**rows, "mask": mask, "starts": starts, **public}


def _shape(space: Space) -> tuple[int, ...]:
    return () if isinstance(space, Discrete) else (space.size,)


def _to_length(column: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    if column.shape[1] >= length:
        return column[:, :length]
    empty = np.zeros((len(column), length - column.shape[1], *column.shape[2:]), column.dtype)
    return np.concatenate([column, empty], axis=1)


def _clip_to_space(column: npt.NDArray[Any], space: Space, mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    shown = mask.reshape(*mask.shape, *(1,) * (column.ndim - 2))
    if isinstance(space, Discrete):
        return np.where(shown, column, 0).astype(np.int64)
    assert isinstance(space, Box)
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    if column.ndim == 2:
        low, high = low[0], high[0]
    return np.where(shown, np.clip(column, low, high), 0).astype(np.float32)
