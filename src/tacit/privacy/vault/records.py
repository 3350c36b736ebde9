"""The records behind a vault's doors: who takes part in a step, and what is read of whoever does.

Only `vault.py` uses this module, always inside a door and after the step was claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import RowsOf, Sum
from tacit.privacy.mechanisms.callbacks import Clone, Contribution, Experts, Rows, Summary
from tacit.privacy.mechanisms.marginals import Cut, Marginals
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.sampling import poisson_sample
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.reader import Columns, Reader
from tacit.units import Unit

READ_BYTES = 1 << 26
"""Bytes of rows that a gradient's sample is read in at a time."""


class Records:
    """Sealed records, and the policies of their units if these can be asked.

    Args:
        data: the records; sealed on entry.
        experts: the policies, one a unit in the order of the records.
        unit: whom the ledgers protect; its population is public.
        keys: the dataset ids of the replicates' ledgers: a replicate's own decides about its halves, the first one
            about reserves.
        noise: the vault's secret source.

    Raises:
        DataError: the records are in another vault, hold more units than the population, or other ones than policies.
    """

    def __init__(
        self, data: Trajectories, experts: Experts | None, *, unit: Unit, keys: Sequence[str], noise: SecretNoise
    ) -> None:
        units = len(data._unit_rows[1]) - 1
        if units > unit.size:
            raise DataError(
                f"the data hold more {unit.name}s than the declared population",
                where="Vault",
                expected=f"at most {unit.size:,}",
                remedy="declare a population that covers everybody, in a new ledger",
            )
        if experts is not None and (experts.count, experts.actions) != (units, getattr(data.spec.action, "n", None)):
            raise DataError(
                f"there is not one policy for each {unit.name} of the records, over the same actions",
                where="Vault(experts=)",
                expected="one policy a unit, in the order in which the units appear in the records",
                remedy="leave out whoever has no trajectories, or no policy",
            )
        data._seal()
        self._data, self._keys, self._noise = data, tuple(keys), noise
        self.experts = experts
        self._readers = {0: Reader(data, noise)}
        self._cuts: dict[Marginals, Cut] = {}

    @property
    def columns(self) -> Rows:
        """All columns, row-wise [T, ...]."""
        return self._data._columns

    @property
    def unit_kind(self) -> str:
        """Where the units came from when the records were imported."""
        return self._data.unit_kind

    def sample(self, part: Sum, summary: Summary | None = None) -> Columns:
        """A fresh sample for every replicate: its units' rows, or what the summary made of them."""
        replicate, units = self._drawn(part)
        reader = self.reader(part.reserve)
        if summary is None:
            return {**reader.rows(units, part.rows_per_unit, part.rows, part.horizon), "replicate": replicate}
        return {**reader.summaries(summary, units, part.rows_per_unit), "replicate": replicate}

    def samples(self, part: Sum) -> Iterator[Columns]:
        """A fresh sample for every replicate, read so many units at a time that their rows stay below `READ_BYTES`."""
        replicate, units = self._drawn(part)
        reader = self.reader(part.reserve)
        size = max(1, READ_BYTES // (reader.row_bytes * part.rows_per_unit * part.horizon))
        for start in range(0, max(1, len(units)), size):
            some = slice(start, start + size)
            rows = reader.rows(units[some], part.rows_per_unit, part.rows, part.horizon)
            yield {**rows, "replicate": replicate[some]}

    def _drawn(self, part: Sum) -> tuple[np.ndarray, np.ndarray]:
        """(replicate, unit) pairs, sorted: trial r * units + u decides about unit u in replicate r."""
        count, reader = len(self._keys), self.reader(part.reserve)
        if isinstance(part, FixedSizeSum):
            places = reader.places(part.population, part.batch, count)
            replicate, units = np.repeat(np.arange(count), part.batch), places.ravel()
            held = units < reader.units
            return replicate[held], units[held]
        assert isinstance(part, PoissonSum)
        replicate, units = np.divmod(poisson_sample(reader.units * count, part.rate, self._noise), max(1, reader.units))
        if part.fold is None:
            return replicate, units
        folds = np.stack([reader.folds(key) for key in self._keys])
        inside = folds[replicate, units] == part.fold
        return replicate[inside], units[inside]

    def everybody(self, rows_per_unit: int, rows_of: RowsOf, *, units_at_once: int) -> Iterator[Columns]:
        """The rows of all units, so many units at a time."""
        reader = self.reader()
        for start in range(0, reader.units, units_at_once):
            yield reader.rows(np.arange(start, min(start + units_at_once, reader.units)), rows_per_unit, rows_of)

    def cut(self, part: Marginals) -> Cut:
        """The records cut into cells, once for each part."""
        if part not in self._cuts:
            reader = self.reader()
            self._cuts[part] = Cut(part, reader.rows(np.arange(reader.units), part.rows_per_unit, part.rows))
        return self._cuts[part]

    def vectors(self, part: TeacherVotes, encode: Contribution, width: int) -> np.ndarray:
        """One row of every unit as a finite vector, [units, width] float32."""
        reader = self.reader()
        units = np.arange(reader.units)
        rows = {**reader.rows(units, part.rows_per_unit, part.rows), "replicate": np.zeros_like(units)}
        vectors = np.asarray(encode(rows, None), np.float32)
        if vectors.shape != (reader.units, width):
            raise ValueError("not one vector a unit")
        return np.nan_to_num(vectors)

    def owners(self, episodes: int) -> int:
        """How many units own so many episodes."""
        return int(np.count_nonzero(self.reader().episodes_per_unit() >= episodes))

    def clones(self, clone: Clone, rows_per_unit: int) -> Experts:
        """Every unit's clone."""
        reader = self.reader()
        return clone.experts(reader.summaries(clone, np.arange(reader.units), rows_per_unit)["parameters"])

    def reserved(self, part: AboveThreshold) -> tuple[Columns, np.ndarray]:
        """Trajectories of drawn units from their reserves, and which units can be drawn (see `Reader.reserved`)."""
        return self.reader().reserved(part.reserve, part.horizon, self._keys[0], part.trajectories)

    def reader(self, reserve: int = 0) -> Reader:
        """The records without the reserve of so many episodes of each unit."""
        if reserve not in self._readers:
            self._readers[reserve] = self._readers[0].pool(reserve, self._keys[0])
        return self._readers[reserve]
