"""How the vault reads: rows of units as padded arrays, summaries that are computed once, and the two fixed halves.

Only the vault's `records.py` and the devices use this module on private records, always after the step was claimed;
`measure.unit_attacks` on records of the attacker's own.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.privacy.mechanisms.base import RowsOf
from tacit.privacy.mechanisms.callbacks import Summary
from tacit.privacy.noise.sampling import rows_within_units
from tacit.privacy.noise.secret import SecretNoise

Columns = dict[str, np.ndarray]

KEPT_SUMMARIES = 4
"""How many summaries stay in memory; the one that was made first goes first."""

CHUNK = 200_000
"""Padded rows that are summarised at a time."""


class Reader:
    """The records as the doors see them.

    Args:
        data: the sealed records.
        noise: the vault's secret source, for the rows that are drawn inside a unit.
    """

    def __init__(self, data: Trajectories, noise: SecretNoise) -> None:
        self._data, self._noise = data, noise
        self._order, self._offsets = data._unit_rows
        self._summaries: dict[tuple[Summary, int], dict[str, np.ndarray]] = {}
        self._digests: list[bytes] = []
        self._starts: np.ndarray | None = None
        self._bounds: np.ndarray | None = None

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self._offsets) - 1

    @property
    def row_bytes(self) -> int:
        """Bytes of all columns of one row."""
        return sum(column.dtype.itemsize * int(np.prod(column.shape[1:])) for column in self._data._columns.values())

    def rows(self, units: np.ndarray, rows_per_unit: int, rows_of: RowsOf, horizon: int = 1) -> dict[str, np.ndarray]:
        """Rows of the units, each column [U, L, ...], with `mask` [U, L].

        `rows_of="first"` gives the first L rows of each unit in order of time, and the column "starts" [U, L], True
        where an episode begins; "drawn" gives L rows drawn without replacement. With a horizon H above 1 each of these
        rows begins a fragment, [U, L, H, ...]: itself and those that follow in its unit's episode, with the column
        "time" [U, L, H], steps since the episode (of what the unit owns of it) began.
        """
        if rows_of == "drawn":
            where, mask = rows_within_units(self._offsets, units, rows_per_unit, self._noise)
        else:
            first, count = self._offsets[units], self._offsets[units + 1] - self._offsets[units]
            mask = np.arange(rows_per_unit) < count[:, None]
            where = first[:, None] + np.where(mask, np.arange(rows_per_unit), 0)
        time = np.zeros(0)
        if horizon > 1:
            where, mask, time = self._fragments(where, mask, horizon)
        positions = self._order[where]
        rows = {**{name: column[positions] for name, column in self._data._columns.items()}, "mask": mask}
        if horizon > 1:
            rows["time"] = time
        if rows_of == "first":
            rows["starts"] = self._episode_starts()[positions] & mask
        return rows

    def _fragments(
        self, where: np.ndarray, mask: np.ndarray, horizon: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places [U, L, H] of the rows from `where` on, padded by the first one; the mask; steps since the start."""
        if self._bounds is None:
            self._bounds = np.union1d(np.flatnonzero(self._episode_starts()[self._order]), self._offsets)
        after = np.searchsorted(self._bounds, where, side="right")
        places = where[..., None] + np.arange(horizon)
        inside = places < self._bounds[after][..., None]
        time = places - self._bounds[after - 1][..., None]
        return np.where(inside, places, where[..., None]), inside & mask[..., None], time

    def summaries(self, summary: Summary, units: np.ndarray, rows_per_unit: int) -> dict[str, np.ndarray]:
        """What the summary makes of each unit's first rows, [U, ...] an array; read-only where it is the whole."""
        kept = self._summaries.get((summary, rows_per_unit))
        if kept is None:
            size = max(1, CHUNK // rows_per_unit)
            parts = [
                summary(self.rows(np.arange(start, min(start + size, self.units)), rows_per_unit, "first"))
                for start in range(0, self.units, size)
            ]
            kept = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            for array in kept.values():
                if len(array) != self.units:
                    raise ValueError("not one row a unit")
                array.flags.writeable = False
            while len(self._summaries) >= KEPT_SUMMARIES:
                del self._summaries[next(iter(self._summaries))]
            self._summaries[summary, rows_per_unit] = kept
        if len(units) == self.units and np.array_equal(units, np.arange(self.units)):
            return kept
        return {name: array[units] for name, array in kept.items()}

    def pool(self, reserve: int, key: str) -> Reader:
        """The same records without each unit's reserve (see `reserved`), and without the units that own no others."""
        _, ranks, of_rows = self._split(key)
        kept = ranks[of_rows] >= reserve
        rest = copy.copy(self)
        rest._order = self._order[kept]
        rest._offsets = np.unique(np.concatenate([[0], np.cumsum(kept)])[self._offsets])
        rest._summaries, rest._digests, rest._bounds = {}, [], None
        return rest

    def reserved(self, reserve: int, horizon: int, key: str, size: int) -> tuple[Columns, np.ndarray]:
        """A trajectory of each of `size` units, drawn uniformly with replacement; another one whenever a unit returns.

        The reserve of a unit are `reserve` of its episodes, in an order that depends on `key` and on how many episodes
        the unit has, and on nothing else; units with fewer are never drawn.

        Returns:
            Padded columns [n, T, ...] and `mask` [n, T] (all of it False where a unit was drawn more than `reserve`
            times: then nothing at all may be released), and which units can be drawn [units].
        """
        starts, ranks, _ = self._split(key)
        usable = self.episodes_per_unit() >= reserve
        units = np.flatnonzero(usable)[self._noise.integers(np.full(size, int(usable.sum())))]
        count = np.array([np.count_nonzero(units[:j] == unit) for j, unit in enumerate(units)])
        first = np.concatenate([[0], np.cumsum(self.episodes_per_unit())])
        mask = np.zeros((len(units), horizon), bool)
        where = np.zeros((len(units), horizon), np.int64)
        if (count < reserve).all():
            for j, unit in enumerate(units):
                own = slice(first[unit], first[unit + 1])
                episode = first[unit] + int(np.flatnonzero(ranks[own] == count[j])[0])
                rows = np.arange(starts[episode], starts[episode + 1])[:horizon]
                mask[j, : len(rows)], where[j, : len(rows)] = True, rows
        positions = self._order[where]
        return {**{name: column[positions] for name, column in self._data._columns.items()}, "mask": mask}, usable

    def episodes_per_unit(self) -> np.ndarray:
        """How many episodes each unit owns, [units]."""
        begins = self._episode_starts()[self._order]
        return np.add.reduceat(begins.astype(np.int64), self._offsets[:-1]) if self.units else np.zeros(0, np.int64)

    def _split(self, key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of all episodes, unit by unit: where in the ordered rows each starts [E + 1], its rank in its unit's order
        under the key [E], and the episode of each ordered row.

        The order of n episodes is one random permutation for all units that have n.
        """
        begins = self._episode_starts()[self._order]
        each = self.episodes_per_unit()
        ranks = np.zeros(int(each.sum()), np.int64)
        first = np.concatenate([[0], np.cumsum(each)])
        keyed = int.from_bytes(hashlib.blake2b(key.encode()).digest(), "little")
        for n in np.unique(each):
            order = np.random.default_rng([keyed, int(n)]).permutation(n)
            ranks[first[:-1][each == n][:, None] + np.arange(n)] = order
        return np.append(np.flatnonzero(begins), len(begins)), ranks, np.cumsum(begins) - 1

    def places(self, population: int, batch: int, replicates: int) -> np.ndarray:
        """[replicates, batch] of the places 0 .. population - 1, uniform without replacement in each row."""
        one = np.array([0, population], np.int64)
        return rows_within_units(one, np.zeros(replicates, np.int64), batch, self._noise)[0]

    def folds(self, key: str) -> np.ndarray:
        """Each unit's half, 0 or 1, [units]: a hash of its own rows under this key, whatever other units hold.

        Units with equal rows are told apart by a running number, so that they do not all share a half. One of them more
        or less changes one half by one such unit, as it would for any other.
        """
        if not self._digests:
            equals: Counter[bytes] = Counter()
            columns = [self._data._columns[name] for name in sorted(self._data._columns)]
            for start, stop in zip(self._offsets[:-1], self._offsets[1:], strict=True):
                own = self._order[start:stop]
                digest = hashlib.blake2b()
                for column in columns:
                    digest.update(np.ascontiguousarray(column[own]).tobytes())
                rows = digest.digest()
                self._digests.append(rows + equals[rows].to_bytes(8, "little"))
                equals[rows] += 1
        keyed = hashlib.blake2b(key.encode(), digest_size=32).digest()
        return np.array([hashlib.blake2b(d, key=keyed, digest_size=1).digest()[0] & 1 for d in self._digests])

    def _episode_starts(self) -> np.ndarray:
        if self._starts is None:
            self._starts = np.zeros(len(self._order), bool)
            self._starts[self._data._episodes[:-1]] = True
        return self._starts
