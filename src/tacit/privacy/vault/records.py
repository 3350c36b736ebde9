"""The records behind a vault's mechanisms: who takes part in a step, and what is read of them.

Only `vault.py` uses this module, always inside a mechanism and after the step was claimed.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tacit.data.trajectories import Trajectories, how_read
from tacit.errors import DataError
from tacit.privacy import deals
from tacit.privacy.gradients.clipping import BLOCK
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import Clone, Contribution, Experts, Rows, RowsOf, Sum, Summary
from tacit.privacy.mechanisms.marginals import Cells, Marginals
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.mechanisms.tallies import Tally, contribution_vectors
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.secret import SecretNoise, pad_rows, poisson_sample, rows_within_units
from tacit.privacy.sentences import Clause, clause
from tacit.units import Unit

# How the vault reads: rows of units as padded arrays, summaries that are computed once, and the two fixed halves.
#
# Only the vault's `records.py` and the devices use this module on private records, always after the step was claimed;
# `evaluation.canaries` on records of the attacker's own.


Columns = dict[str, np.ndarray]

KEPT_SUMMARIES = 4
"""How many summaries stay in memory; the one that was made first goes first."""

KEPT_BYTES = 1 << 30
"""Bytes of contributions to a single sum, above which nothing is kept for later ones."""

CHUNK = 200_000
"""Padded rows that are summarised at a time."""

TALLIED = 1 << 16
"""Rows that are counted in tables at a time."""


class Reader:
    """The records as the mechanisms see them.

    Args:
        data: the sealed records.
        noise: the vault's secret source, for the rows that are drawn inside a unit.
    """

    def __init__(self, data: Trajectories, noise: SecretNoise) -> None:
        self._data, self._noise = data, noise
        self._order, self._offsets = data._unit_rows
        self._summaries: dict[tuple[Summary, int], dict[str, np.ndarray]] = {}
        self._names: np.ndarray | None = data._records.names
        self._folds: dict[str, np.ndarray] = {}
        self._starts: np.ndarray | None = None
        self._bounds: np.ndarray | None = None

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self._offsets) - 1

    def assumptions(self) -> list[Clause]:
        """What the import of the records leaves to be assumed of their units."""
        records = self._data._records
        assumed = [clause("queried")] if records.queried else []
        return assumed + ([clause("exact_ids")] if records.unit_key == "exact" else [])

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
        where, mask = pad_rows(*self._choose_rows(units, rows_per_unit, rows_of), rows_per_unit)
        time = np.zeros(0)
        if horizon > 1:
            where, mask, time = self._fragments(where, mask, horizon)
        rows = {**self._columns_at(where, rows_of), "mask": mask}
        if horizon > 1:
            rows["time"] = time
        if rows_of == "first":
            rows["starts"] &= mask
        return rows

    def flat_rows(
        self, units: np.ndarray, rows_per_unit: int, rows_of: RowsOf
    ) -> Iterator[tuple[Columns, np.ndarray, slice]]:
        """The same rows without padding, in pieces of about `TALLIED` rows that cut no unit's.

        Yields:
            Each column [M, ...]; the unit of each row, rising from 0 in every piece [M]; and which units these are.
        """
        kept = np.minimum(self._offsets[units + 1] - self._offsets[units], rows_per_unit)
        starts = np.flatnonzero(np.diff((np.cumsum(kept) - 1) // TALLIED, prepend=-1))
        for start, stop in itertools.pairwise([*starts.tolist(), len(units)]):
            where, kept = self._choose_rows(units[start:stop], rows_per_unit, rows_of)
            yield self._columns_at(where, rows_of), np.repeat(np.arange(stop - start), kept), slice(start, stop)

    def _choose_rows(self, units: np.ndarray, rows_per_unit: int, rows_of: RowsOf) -> tuple[np.ndarray, np.ndarray]:
        """Places of the units' rows in order, and how many each unit has (see `rows_within_units`)."""
        return rows_within_units(self._offsets, units, rows_per_unit, self._noise if rows_of == "drawn" else None)

    def _columns_at(self, where: np.ndarray, rows_of: RowsOf) -> Columns:
        """All columns at places in the order of the units, with "starts" where rows are the first in order of time."""
        positions = self._order.take(where)
        columns = {name: column.take(positions, axis=0) for name, column in self._data._columns.items()}
        return columns | ({"starts": self._episode_starts().take(positions)} if rows_of == "first" else {})

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
        """What the summary makes of each unit's first rows, [U, ...] an array; a read-only view of units in a row."""
        columns = self._summaries.get((summary, rows_per_unit))
        if columns is None:
            size = max(1, CHUNK // rows_per_unit)
            columns = {}
            for start in range(0, self.units, size):
                stop = min(start + size, self.units)
                part = summary(self.rows(np.arange(start, stop), rows_per_unit, "first"))
                if start == 0:  # one array from the beginning: parts and their whole would be twice as many bytes
                    columns = {n: np.empty((self.units, *array.shape[1:]), array.dtype) for n, array in part.items()}
                kinds = {name: (stop - start, *array.shape[1:], array.dtype) for name, array in columns.items()}
                if {name: (*array.shape, array.dtype) for name, array in part.items()} != kinds:
                    raise ValueError("not one row a unit, or not the same columns for all")
                for name, array in part.items():
                    columns[name][start:stop] = array
            for array in columns.values():
                array.flags.writeable = False
            while len(self._summaries) >= KEPT_SUMMARIES:
                del self._summaries[next(iter(self._summaries))]
            self._summaries[summary, rows_per_unit] = columns
        first = int(units[0]) if len(units) else 0
        in_a_row = np.array_equal(units, np.arange(first, first + len(units)))
        if in_a_row:
            return {name: array[first : first + len(units)] for name, array in columns.items()}
        return {name: array.take(units, axis=0) for name, array in columns.items()}

    def without_holdout(self, held_out: int, key: str) -> Reader:
        """The same records without each unit's hold-out (see `held_out`), and without the units that own no others."""
        _, ranks, of_rows = self._rank_episodes(key)
        in_pool = ranks[of_rows] >= held_out
        rest = copy.copy(self)
        rest._order = self._order[in_pool]
        rest._offsets = np.unique(np.concatenate([[0], np.cumsum(in_pool)])[self._offsets])
        left = np.diff(np.concatenate([[0], np.cumsum(in_pool)])[self._offsets]) > 0
        rest._names = None if self._data._records.names is None else self._data._records.names[left]
        rest._summaries, rest._folds, rest._bounds = {}, {}, None
        return rest

    def draw_holdouts(self, episodes: int, horizon: int, key: str, size: int) -> tuple[Columns, np.ndarray]:
        """A trajectory of each of `size` units, drawn uniformly with replacement; another one whenever a unit returns.

        The hold-out of a unit are `episodes` of its own, in an order that depends on `key` and on how many episodes
        the unit has, and on nothing else; units with fewer are never drawn.

        Returns:
            Padded columns [n, T, ...] and `mask` [n, T] (all of it False where a unit was drawn more than `episodes`
            times: then nothing at all may be released), and which units can be drawn [units].
        """
        starts, ranks, _ = self._rank_episodes(key)
        usable = self.episodes_per_unit() >= episodes
        units = np.flatnonzero(usable)[self._noise.integers(np.full(size, int(usable.sum())))]
        count = np.array([np.count_nonzero(units[:j] == unit) for j, unit in enumerate(units)])
        first = np.concatenate([[0], np.cumsum(self.episodes_per_unit())])
        mask = np.zeros((len(units), horizon), bool)
        where = np.zeros((len(units), horizon), np.int64)
        if (count < episodes).all():
            for j, unit in enumerate(units):
                unit_episodes = slice(first[unit], first[unit + 1])
                episode = first[unit] + int(np.flatnonzero(ranks[unit_episodes] == count[j])[0])
                rows = np.arange(starts[episode], starts[episode + 1])[:horizon]
                mask[j, : len(rows)], where[j, : len(rows)] = True, rows
        positions = self._order[where]
        return {**{name: column[positions] for name, column in self._data._columns.items()}, "mask": mask}, usable

    def episodes_per_unit(self) -> np.ndarray:
        """How many episodes each unit owns, [units]."""
        begins = self._episode_starts()[self._order]
        return np.add.reduceat(begins.astype(np.int64), self._offsets[:-1]) if self.units else np.zeros(0, np.int64)

    def _rank_episodes(self, key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each episode starts in the ordered rows, its rank in its unit's order, and each row's episode."""
        # Episodes stand unit by unit: starts [E + 1], ranks under the key [E], one episode for each ordered row. The
        # order of n episodes is one random permutation for all units that have n.
        begins = self._episode_starts()[self._order]
        each = self.episodes_per_unit()
        ranks = np.zeros(int(each.sum()), np.int64)
        first = np.concatenate([[0], np.cumsum(each)])
        keyed = int.from_bytes(hashlib.blake2b(key.encode()).digest(), "little")
        for n in np.unique(each):
            order = np.random.default_rng([keyed, int(n)]).permutation(n)
            ranks[first[:-1][each == n][:, None] + np.arange(n)] = order
        return np.append(np.flatnonzero(begins), len(begins)), ranks, np.cumsum(begins) - 1

    def draw_places(self, population: int, batch: int, replicates: int) -> np.ndarray:
        """[replicates, batch] of the places 0 .. population - 1, uniform without replacement in each row."""
        offsets = np.array([0, population], np.int64)
        return rows_within_units(offsets, np.zeros(replicates, np.int64), batch, self._noise)[0].reshape(-1, batch)

    def folds(self, key: str) -> np.ndarray:
        """Each unit's half, 0 or 1, [units] (see `tacit.privacy.deals.fold`), whatever other units hold.

        A unit with an id is dealt by that alone: whoever changes its rows moves no half. One without, a transition or
        an episode, is dealt by its own rows and a running number among units of equal rows, so that these do not all
        share a half. One of them more or less changes one half by one such unit, as it would for any other.
        """
        if key not in self._folds:
            self._folds[key] = deals.fold(self.names, key)
        return self._folds[key]

    @property
    def names(self) -> np.ndarray:
        """What each unit is to a deal, [units, n] bytes: the name of its id; without one, of its own rows, numbered."""
        if self._names is None:
            self._names = _number_duplicates(self._digests())
        return self._names

    def _digests(self) -> np.ndarray:
        """A hash of each unit's own rows, column after column by their names, [units, 64] bytes."""
        columns = [self._data._columns[name] for name in sorted(self._data._columns)]
        counts, digests = np.diff(self._offsets), np.empty((self.units, 64), np.uint8)
        by_count = np.argsort(counts, kind="stable")
        for alike in np.split(by_count, np.flatnonzero(np.diff(counts[by_count])) + 1):
            count = int(counts[alike[0]]) if len(alike) else 1
            size = max(1, CHUNK // count)
            for units in (alike[start : start + size] for start in range(0, len(alike), size)):
                positions = self._order[self._offsets[units, None] + np.arange(count)]
                own = [column.take(positions, axis=0).reshape(len(units), -1).view(np.uint8) for column in columns]
                hashed = map(hashlib.blake2b, deals.pack_rows(np.concatenate(own, axis=1)).tolist())
                digests[units] = np.frombuffer(b"".join([one.digest() for one in hashed]), np.uint8).reshape(-1, 64)
        return digests

    def _episode_starts(self) -> np.ndarray:
        if self._starts is None:
            self._starts = np.zeros(len(self._order), bool)
            self._starts[self._data._episodes[:-1]] = True
        return self._starts


def _number_duplicates(digests: np.ndarray) -> np.ndarray:
    """Digests [U, 64], each with how many before it are equal to it, [U, 72] bytes."""
    numbers = np.zeros(len(digests), "<u8")
    beginnings = np.sort(digests[:, :8].copy().view(np.uint64), axis=None)
    if (beginnings[1:] == beginnings[:-1]).any():
        equals: Counter[bytes] = Counter()
        for unit, digest in enumerate(deals.pack_rows(digests).tolist()):
            numbers[unit] = equals[digest]
            equals[digest] += 1
    return np.concatenate([digests, numbers[:, None].view(np.uint8)], axis=1)


READ_BYTES = 1 << 26
"""Bytes of rows that a gradient's sample is read in at a time."""

SUMMED_BYTES = 1 << 22
"""Bytes of rows and contributions that a sum of vectors is made of at a time, where they are more than one block."""


class SealedRecords:
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
            what = f"the data hold more {unit.noun}s than the declared population"
            expected, remedy = f"at most {unit.size:,}", "declare a population that covers everybody, in a new ledger"
            raise DataError(what, where="Vault", expected=expected, remedy=remedy)
        if experts is not None and (experts.count, experts.actions) != (units, getattr(data.spec.action, "n", None)):
            what = f"there is not one policy for each {unit.noun} of the records, over the same actions"
            expected = "one policy a unit, in the order in which the units appear in the records"
            remedy = "leave out units without trajectories, or without a policy"
            raise DataError(what, where="Vault(experts=)", expected=expected, remedy=remedy)
        data._seal()
        self._data, self._keys, self._noise = data, tuple(keys), noise
        self.copied_ends = how_read(data)["copied_ends"]
        self.experts = experts
        self._readers = {0: Reader(data, noise)}
        self._cells: dict[Marginals, Cells] = {}

    @property
    def columns(self) -> Rows:
        """All columns, row-wise [T, ...]."""
        return self._data._columns

    @property
    def unit_kind(self) -> str:
        """Where the units came from when the records were imported."""
        return self._data.unit_kind

    def assumptions(self) -> list[Clause]:
        """See `Reader`."""
        return self._readers[0].assumptions()

    @property
    def simulated(self) -> bool:
        """Whether no person is behind the records."""
        return self._data.simulated

    @property
    def digests(self) -> np.ndarray | None:
        """Keyed digests of the units' ids, of a shard (see `store.Records`)."""
        return self._data._records.digests

    def sample_pieces(self, part: Sum, summary: Summary | None, width: int) -> Iterator[Columns]:
        """A fresh sample for every replicate, some units at a time: their rows, or what the summary made of them.

        What a summary makes of all units is kept for later sums. For a single sum of more than `KEPT_BYTES` of
        contributions it is made piece by piece instead, which gives the same sum.

        Args:
            part: of the plan.
            summary: of a unit's rows, if there is one.
            width: numbers of a unit's contribution.

        Guarantee: a piece has whole blocks of `clipping.BLOCK` units in order, and one of them at least; how many
        follows from the bytes of a unit's rows and contribution, which are public.
        """
        replicate, units = self._draw_units(part)
        reader, read = self.reader(part.held_out), part.rows_per_unit
        unit_bytes = reader.row_bytes * read * part.horizon
        single = part.steps * len(self._keys) == 1 and 8 * width * reader.units > KEPT_BYTES
        kept = summary is not None and not single
        if summary is not None and kept:
            whole = reader.summaries(summary, np.arange(reader.units), read)
            unit_bytes = sum(column.nbytes for column in whole.values()) // max(1, reader.units)
        size = BLOCK * max(1, SUMMED_BYTES // (unit_bytes + 8 * width) // BLOCK)
        for piece in (slice(start, start + size) for start in range(0, len(units), size)):
            if summary is not None and kept:
                rows = reader.summaries(summary, units[piece], read)
            else:
                rows = reader.rows(units[piece], read, part.rows, part.horizon)
                rows = rows if summary is None else summary(rows)
            yield {**rows, "replicate": replicate[piece]}

    def sample_flat_rows(self, part: Sum) -> Iterator[tuple[Columns, np.ndarray, np.ndarray]]:
        """A fresh sample for every replicate as rows without padding (see `Reader.flat_rows`).

        Yields:
            Each column [M, ...]; the unit of each row, rising from 0 in every piece [M]; the units' replicates [U].
        """
        replicate, units = self._draw_units(part)
        for rows, owner, piece in self.reader(part.held_out).flat_rows(units, part.rows_per_unit, part.rows):
            yield rows, owner, replicate[piece]

    def sample_chunks(
        self, part: Sum, chunks: int, *, block: int, together: int
    ) -> Iterator[tuple[Columns, list[tuple[int, int]]]]:
        """A fresh sample for every replicate, dealt to so many chunks, each read in pieces of at most `READ_BYTES`.

        Several chunks may come together, each with `block` places of its own. Units beyond these come after them.

        Yields:
            Columns [U, ...], zeros where nobody is; the first place of each chunk's units and the place after its last,
            none where a chunk comes alone.

        Guarantee: each unit's chunk is uniform, secret and independent of the other units and of how many there are.
        When a unit leaves, only units of its chunk change their places, and the others' U stays.
        """
        replicate, units = self._draw_units(part)
        reader = self.reader(part.held_out)
        size = max(1, READ_BYTES // (reader.row_bytes * part.rows_per_unit * part.horizon))
        together = max(1, min(together, chunks, size // block))
        dealt = self._noise.integers(np.full(len(units), chunks)) if chunks > 1 else np.zeros(len(units), np.int64)

        def read(members: np.ndarray) -> Columns:
            rows = reader.rows(units[members], part.rows_per_unit, part.rows, part.horizon)
            return {**rows, "replicate": replicate[members]}

        for first in range(0, chunks, together):
            alone = [np.flatnonzero(dealt == chunk) for chunk in range(first, min(first + together, chunks))]
            if together > 1:
                inside, alone = [members[:block] for members in alone], [members[block:] for members in alone]
                places = [(start, start + len(members)) for start, members in zip(itertools.count(0, block), inside)]
                taken = np.concatenate([np.arange(*place) for place in places])
                padded = {}
                for name, column in read(np.concatenate(inside)).items():
                    padded[name] = np.zeros((block * len(places), *column.shape[1:]), column.dtype)
                    padded[name][taken] = column
                yield padded, places
            for members in alone:
                for piece in (members[start : start + size] for start in range(0, len(members), size)):
                    yield read(piece), []

    def _draw_units(self, part: Sum) -> tuple[np.ndarray, np.ndarray]:
        """(replicate, unit) pairs, sorted: trial r * units + u decides about unit u in replicate r."""
        count, reader = len(self._keys), self.reader(part.held_out)
        if isinstance(part, FixedSizeSum):
            places = reader.draw_places(part.population, part.batch_size, count)
            replicate, units = np.repeat(np.arange(count), part.batch_size), places.ravel()
            held = units < reader.units
            return replicate[held], units[held]
        assert isinstance(part, PoissonSum)
        replicate, units = np.divmod(
            poisson_sample(reader.units * count, part.sampling_rate, self._noise), max(1, reader.units)
        )
        if part.fold is None:
            return replicate, units
        folds = np.stack([reader.folds(key) for key in self._keys])
        inside = folds[replicate, units] == part.fold
        return replicate[inside], units[inside]

    def all_rows(self, rows_per_unit: int, rows_of: RowsOf, *, units_at_once: int) -> Iterator[Columns]:
        """The rows of all units, so many units at a time."""
        reader = self.reader()
        for start in range(0, reader.units, units_at_once):
            yield reader.rows(np.arange(start, min(start + units_at_once, reader.units)), rows_per_unit, rows_of)

    def cells(self, part: Marginals) -> Cells:
        """The records cut into cells, once for each part."""
        if part not in self._cells:
            reader = self.reader()
            self._cells[part] = Cells(part, reader.rows(np.arange(reader.units), part.rows_per_unit, part.rows))
        return self._cells[part]

    def vectors(self, part: TeacherVotes, encode: Contribution | Tally, width: int) -> np.ndarray:
        """One row of every unit as a finite vector, [units, width] float32."""
        reader = self.reader()
        units = np.arange(reader.units)
        rows = {**reader.rows(units, part.rows_per_unit, part.rows), "replicate": np.zeros_like(units)}
        vectors = np.asarray(contribution_vectors(encode, rows, None), np.float32)
        if vectors.shape != (reader.units, width):
            raise ValueError("not one vector a unit")
        return np.nan_to_num(vectors)

    def clones(self, clone: Clone, rows_per_unit: int) -> Experts:
        """Every unit's clone."""
        reader = self.reader()
        return clone.experts(reader.summaries(clone, np.arange(reader.units), rows_per_unit)["parameters"])

    def draw_holdouts(self, part: AboveThreshold) -> tuple[Columns, np.ndarray]:
        """Trajectories of drawn units from their hold-outs, and which units can be drawn (`Reader.draw_holdouts`)."""
        return self.reader().draw_holdouts(part.held_out, part.horizon, self._keys[0], part.trajectories)

    def reader(self, held_out: int = 0) -> Reader:
        """The records without so many held-out episodes of each unit."""
        if held_out not in self._readers:
            self._readers[held_out] = self._readers[0].without_holdout(held_out, self._keys[0])
        return self._readers[held_out]
