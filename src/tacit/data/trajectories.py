"""Trajectories: flat columns, who they belong to, and what is publicly known about them."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.data import outputs
from tacit.data.ingest import Ingest
from tacit.data.memory import Memory, memory_columns
from tacit.data.sources import files, frames
from tacit.data.spec import PublicSpec
from tacit.data.store import StoredRecords, UnitKind, read, write
from tacit.errors import DataError, SealedError
from tacit.units import UnitKey

if TYPE_CHECKING:
    from minari import MinariDataset


class Trajectories:
    """Ragged episodes as flat columns with one protected unit a row; immutable, clipped to public bounds on entry.

    Build one with `from_arrays`, `from_frame`, `from_minari`, `from_csv`, `from_parquet`, `from_npz`, `from_d4rl` or
    `open`. All of them check the records and raise a `DataError` (never with a cell or an id in it) when

    - a unit id is missing, or is not constant within an episode, or occurs in two files;
    - a value is NaN or infinite, a column is ragged or has other dimensions than the spec, a discrete value is out of
      range, a termination or truncation is not boolean;
    - a propensity is missing, NaN, zero, negative or above 1, or the spec declares none and some are given;
    - there are no records, an episode is empty, or its rows are not one after another in order of time;
    - the bounds are missing or are those of the private records themselves (every observation bound equals the
      smallest or largest value: widen them to round public numbers if that is a coincidence).

    A unit may own many episodes. Unit ids become codes `0 .. U - 1` in order of appearance; the ids are dropped.

    Attributes:
        spec: the public bounds.
        simulated: True when no record is a real person's: it came from a simulator, or out of a mechanism of a vault.
            Such a set shows its columns at any time and can be written for others (`tacit.data.outputs`). Of any other
            set nothing is shown once it is sealed in a vault, there is no length, and it cannot be pickled or copied.
    """

    spec: PublicSpec
    simulated: bool
    _records: StoredRecords
    _sealed: bool
    _shown: bool  # whether anybody but a vault may look, before a vault has them

    def __init__(self, records: StoredRecords, spec: PublicSpec, *, simulated: bool) -> None:
        self.__dict__.update(spec=spec, simulated=simulated, _records=records, _sealed=False, _shown=True)

    @classmethod
    def from_arrays(
        cls,
        *,
        observations: Any,
        actions: Any,
        rewards: Any,
        next_observations: Any,
        terminations: Any,
        truncations: Any = None,
        propensities: Any = None,
        unit_ids: Any,
        episode_ids: Any = None,
        spec: PublicSpec,
        unit_name: str | None = None,
        unit_key: UnitKey | None = None,
        simulated: bool = False,
        copied_ends: bool = False,
        store: str | os.PathLike[str] | None = None,
    ) -> Trajectories:
        """From one array for each field, all of length T; they are copied in chunks, so memory-mapped arrays work.

        Args:
            observations, next_observations, actions: `(T, d)` numbers, or `(T,)` whole numbers of a discrete space.
            rewards: `(T,)` numbers.
            terminations, truncations: `(T,)` booleans (0 and 1 too); no truncations means none.
            propensities: `(T,)` probabilities in (0, 1] that the behaviour policy gave to the logged actions, if the
                spec declares them.
            unit_ids: `(T,)` texts or whole numbers, or `":transition"` or `":episode"` when each is its own unit.
            episode_ids: `(T,)` texts or whole numbers, the rows of an episode together and in order of time. None
                starts a new episode after every termination and truncation and at every change of unit.
            spec: public bounds.
            unit_name: whose ids these are ("patient"), as readers of files take it from the column's name; it is kept
                with the records, and the command line refuses a promise to units of another name.
            unit_key: what ids are that differ by case, width, Unicode form, runs of white space or invisible characters
                alone: different units ("exact", which certificates say) or one ("folded"). None refuses them.
            simulated: see the class.
            copied_ends: whether the row that cuts an episode has its own observation as the next one, since nothing was
                seen after it; synthesis of single steps then refuses these records.
            store: a folder; the columns are written there in the native format and mapped, not held in memory.

        Raises:
            DataError: the records break a rule of the class.
            FileError: the folder exists already or cannot be written.
        """
        columns = {"observations": observations, "actions": actions, "rewards": rewards}
        columns |= {"next_observations": next_observations, "terminations": terminations, "truncations": truncations}
        columns |= {"propensities": propensities}
        block = {**columns, "unit_ids": unit_ids, "episode_ids": episode_ids}
        options: dict[str, Any] = {"unit_name": unit_name, "unit_key": unit_key, "simulated": simulated}
        return cls.from_blocks([block], spec=spec, store=store, copied_ends=copied_ends, **options)

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Mapping[str, Any]],
        *,
        spec: PublicSpec,
        unit_name: str | None = None,
        unit_key: UnitKey | None = None,
        simulated: bool = False,
        copied_ends: bool = False,
        store: str | os.PathLike[str] | None = None,
    ) -> Trajectories:
        """From rows that come a block at a time, each with the arrays of `from_arrays` by name, "unit_ids" and perhaps
        "episode_ids" among them, which go on between blocks; a block may be dropped once the next is asked for."""
        said: dict[str, Any] = {"unit": unit_name, "unit_key": unit_key, "copied_ends": copied_ends}
        with Ingest(spec, simulated=simulated, store=store, **said) as ingest:
            for block in blocks:
                columns = dict(block)
                units, episodes = columns.pop("unit_ids", None), columns.pop("episode_ids", None)
                ingest.add(columns, units, episodes)
            return cls(ingest.finish(), spec, simulated=simulated)

    @classmethod
    def from_minari(
        cls,
        dataset: str | MinariDataset,
        *,
        unit: str,
        spec: PublicSpec | None = None,
        reward: tuple[float, float] | None = None,
        propensity: str | None = None,
        observation: str | None = None,
        unit_key: UnitKey | None = None,
        simulated: bool = False,
        root: str | os.PathLike[str] | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> Trajectories:
        """From a local Minari dataset; its environment is not needed.

        Args:
            dataset: a dataset, or the id of one.
            unit: key of the unit id in the episode metadata or else in the infos (nested keys joined by `/`; there it
                must be constant in the episode), or `":transition"` or `":episode"`.
            spec: public bounds; None takes them from the spaces of the dataset, and then `reward` is needed.
            reward: public bounds `(low, high)` of the reward, when `spec` is None.
            propensity: key of the propensities in the infos (nested keys joined by `/`), T entries, or T + 1 of which
                the first belongs to the reset; None reads none, except those that `to_minari` wrote.
            observation: key of the entry that is read of a dictionary of observations (`observation` in those of goal
                environments, such as PointMaze and FrankaKitchen); None reads all of them, in their own order.
            simulated: see the class.
            unit_key: see `from_arrays`.
            root: folder of the datasets; None follows `MINARI_DATASETS_PATH`, as Minari does.
            store: see `from_arrays`.

        Raises:
            DataError: the records break a rule of the class.
            FileError: there is no such dataset, it is truncated, or its id leads out of the folder.
        """
        from tacit.data.sources import minari

        named: dict[str, Any] = {"reward": reward, "propensity": propensity, "observation": observation, "root": root}
        said: dict[str, Any] = {"unit_key": unit_key, "simulated": simulated, "store": store}
        public, records = minari.read(dataset, unit=unit, spec=spec, **named, **said)
        return cls(records, public, simulated=simulated)

    @classmethod
    def from_d4rl(
        cls,
        path: str | os.PathLike[str],
        *,
        unit: str,
        spec: PublicSpec,
        chunk: int | None = None,
        horizon: int | None = None,
        unit_key: UnitKey | None = None,
        simulated: bool = False,
        store: str | os.PathLike[str] | None = None,
    ) -> Trajectories:
        """From an HDF5 file of D4RL's, read in chunks; `tacit.data.sources.d4rl` says which rows become transitions.

        Args:
            path: the file.
            unit: name of a column of the file with one id a row (nested names joined by `/`), or `":transition"`, or
                `":episode"` (what lies between terminals and timeouts), or `":chunk"`: pieces of the recording of
                `chunk` rows, which are nobody's and are recorded under that name.
            spec: public bounds.
            chunk: rows of a piece, with `":chunk"` alone.
            horizon: after how many steps the task cuts an episode, for a file that has no timeouts.
            simulated: see the class.
            unit_key, store: see `from_arrays`.

        Raises:
            DataError: the records break a rule of the class, or a column is missing.
            FileError: the file is missing, truncated or of another kind, or holds links to other files.
        """
        from tacit.data.sources import d4rl

        options: dict[str, Any] = {"unit_key": unit_key, "simulated": simulated, "store": store}
        records = d4rl.read(path, unit=unit, spec=spec, chunk=chunk, horizon=horizon, **options)
        return cls(records, spec, simulated=simulated)

    from_csv = classmethod(files.from_csv)
    from_parquet = classmethod(files.from_parquet)
    from_npz = classmethod(files.from_npz)
    from_frame = classmethod(frames.from_frame)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Trajectories:
        """Maps the columns of a folder that `save` wrote; rows are read from disk when they are used. Raises FileError
        where a file is missing, truncated, of another kind, or a link to outside the folder."""
        spec, simulated, records = read(folder)
        opened = cls(records, spec, simulated=simulated)
        opened.__dict__["_folder"] = Path(folder)
        return opened

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the native format; the folder, a new one, appears when it is complete. Raises SealedError where the
        records are sealed in a vault."""
        self._refuse_if_sealed("save")
        write(self._records, self.spec, folder, simulated=self.simulated)

    def remember(self, memory: Memory) -> Trajectories:
        """The same records with a memory in place of each observation; public bounds stay as they are. A policy that
        was learned from the result acts on memories: play it in `tacit.envs.rollouts.MemoryDomain`. Raises SealedError
        where the records are sealed in a vault; DataError where the memory does not fit them."""
        memory.require_fit(self.spec.observation, where="Trajectories.remember")
        if self._sealed:
            self._refuse_if_sealed("remember")
        columns = {**self._columns, **memory_columns(self._columns, self._episodes, memory)}
        made = Trajectories(dataclasses.replace(self._records, columns=columns), self.spec, simulated=self.simulated)
        made.__dict__["_shown"] = self._shown
        return made

    def with_names(self, names: NDArray[np.uint8], unit_key: UnitKey | None = None) -> Trajectories:
        """The same records under the names [U, 16] of their units' ids (`tacit.data.unit_keys.names`), for readers that
        number people first and keep no id. `unit_key` is what twins among them are. Raises SealedError where the
        records are sealed."""
        self._refuse_if_sealed("named")
        records = dataclasses.replace(self._records, names=names, unit_key=unit_key)
        return Trajectories(records, self.spec, simulated=self.simulated)

    to_arrow = outputs.to_arrow
    to_pandas = outputs.to_pandas
    to_parquet = outputs.to_parquet
    to_csv = outputs.to_csv
    to_npz = outputs.to_npz
    to_d3rlpy = outputs.to_d3rlpy
    to_torchrl = outputs.to_torchrl
    to_minari = outputs.to_minari

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Name -> array of length T: `observations`, `next_observations` and `actions` are `(T, d)` float32 or `(T,)`
        int64, `rewards` `(T,)` float32, `terminations` and `truncations` `(T,)` bool, and, where the spec declares
        them, `propensities` `(T,)` float32 in (0, 1]. Raises SealedError where the records are sealed in a vault."""
        self._refuse_if_sealed("columns")
        return MappingProxyType(dict(self._records.columns))

    @property
    def episodes(self) -> NDArray[np.int64]:
        """Shape `(E + 1,)`: rows of episode e are `episodes[e]:episodes[e + 1]`. Raises SealedError where they are
        sealed."""
        self._refuse_if_sealed("episodes")
        return self._records.episodes

    @property
    def unit_kind(self) -> UnitKind:
        """How the units were declared: from ids (`id`), or every `episode` or `transition` a unit of its own. A
        declaration, so public; `:transition` records under a ledger of patients promise less than it says."""
        return self._records.owner

    def split_by_unit(self) -> list[Trajectories]:
        """The records of each unit as a set of their own, in which every episode is a unit: worlds, where units are."""
        columns, records = self.spec.raw(self.columns), self._records
        units = []
        for begin, end in itertools.pairwise(records.offsets.tolist()):
            rows = np.sort(records.order[begin:end])
            part: dict[str, Any] = {name: np.asarray(column)[rows] for name, column in columns.items()}
            part["episode_ids"] = np.searchsorted(records.episodes, rows, side="right")
            said: dict[str, Any] = {"simulated": self.simulated, "copied_ends": records.copied_ends}
            units.append(self.from_arrays(**part, unit_ids=":episode", spec=self.spec, **said))
        return units

    def require_several_units(self) -> None:
        """Refuse (DataError) records that all belong to one unit, before a vault exists: nobody could hide among
        others."""
        if len(self._records.offsets) < 3:
            what, expected = "all records belong to one unit", "records of many units, which nobody can tell one by one"
            remedy = "check the column of the unit's id, or gather the records of more units"
            raise DataError(what, where="Trajectories", expected=expected, remedy=remedy)

    def require_ends(self) -> None:
        """Refuse (DataError) records that do not tell where episodes end, before a vault exists: fragments would run
        across them. No row terminates or truncates an episode there, and nobody has several."""
        columns, kind = self._records.columns, self._records.owner
        flagged = columns["terminations"].any() or columns["truncations"].any()
        if not flagged and kind == "id" and len(self._records.episodes) == len(self._records.offsets):
            what = "no record says where an episode ends"
            expected = "a termination or a truncation in the last row of each episode, or episode ids"
            remedy = "pass truncations= that are True where an episode was cut off or its recording ends"
            raise DataError(what, where="Trajectories", expected=expected, remedy=remedy)

    def counts(self) -> dict[str, int]:
        """Numbers of transitions, episodes and units of a simulated set. Raises DataError of real ones, whose are
        private."""
        if not self.simulated:
            what, remedy = "the number of records is private", "declare the public population in Unit(population=...)"
            raise DataError(what, where="Trajectories.counts", expected="a simulated set", remedy=remedy)
        records = self._records
        sizes = {"transitions": records.order, "episodes": records.episodes[1:], "units": records.offsets[1:]}
        return {name: len(rows) for name, rows in sizes.items()}

    @property
    def _columns(self) -> Mapping[str, NDArray[Any]]:
        return self._records.columns

    @property
    def _unit_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(order, offsets): rows of unit u are `order[offsets[u]:offsets[u + 1]]`."""
        return self._records.order, self._records.offsets

    @property
    def _episodes(self) -> NDArray[np.int64]:
        return self._records.episodes

    def _seal(self) -> None:
        if self._sealed:
            what, expected = "the records are in a vault already", "records that no other vault holds"
            remedy = "use the vault that holds them; a second ledger for the same records would double the budget"
            raise DataError(what, where="Vault", expected=expected, remedy=remedy)
        self.__dict__["_sealed"] = True

    def _refuse_if_sealed(self, what: str) -> None:
        if (self._sealed or not self._shown) and not self.simulated:
            raise SealedError(
                "the records are sealed in a vault",
                where=f"Trajectories.{what}",
                expected="records that no vault holds, or simulated ones",
                remedy="use the mechanisms of the vault, or its nonprivate(fn, reason=...), which the ledger notes",
            )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("Trajectories are immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("Trajectories are immutable")

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        if not self.simulated:
            what = "private records cannot be pickled or copied"
            expected, remedy = "a simulated set", "use save(folder) and Trajectories.open(folder)"
            raise DataError(what, where="Trajectories", expected=expected, remedy=remedy)
        return (type(self)._restore, (self._records, self.spec))

    @classmethod
    def _restore(cls, records: StoredRecords, spec: PublicSpec) -> Trajectories:
        return cls(records, spec, simulated=True)

    def __repr__(self) -> str:
        return f"Trajectories(spec={self.spec!r}, simulated={self.simulated})"


def bind_to_ledger(data: Trajectories, ledger: Path) -> Callable[[], Trajectories]:
    """What opens records in memory for the vaults of one study, which follow one another under one ledger, the file.

    From its first call on the records are sealed: no vault of another ledger gets them, and what is opened shows them
    to a vault alone. A call raises DataError where another ledger's study or vault holds them.
    """
    place = os.path.realpath(ledger)

    def open() -> Trajectories:
        if vars(data).get("_ledger") != place:
            data._seal()
            data.__dict__["_ledger"] = place
        opened = Trajectories(data._records, data.spec, simulated=data.simulated)
        opened.__dict__["_shown"] = False
        return opened

    return open


def copied_ends_error(where: str) -> DataError:
    """Of records in which the row that cuts an episode has a copy as its next observation, for who learns from it."""
    what = "the next observation of each episode's last row is its own copy, as if no action had an effect"
    expected = "records without such rows where single steps are learned"
    remedy = 'import them again with --next drop (in Python next="drop"), and name the same ledger'
    return DataError(what, where=where, expected=expected, remedy=remedy)


def how_read(data: Trajectories) -> dict[str, Any]:
    """What is public of how the records were read (`StoredRecords.unit_metadata`)."""
    return data._records.unit_metadata


def owners_of(data: Trajectories) -> NDArray[np.int64]:
    """The unit of each row [T] of records that may be seen, from 0. Raises SealedError where they are sealed in a
    vault."""
    return data._records.owners if data.columns else np.zeros(0, np.int64)


def receipt_of(data: Trajectories) -> dict[str, Any] | None:
    """The curator's receipt of records that were read now (`StoredRecords.receipt`), to which a reader may add."""
    return data._records.receipt


def source_folder(data: Trajectories) -> Path | None:
    """The folder that the records were opened from, if they lie in one."""
    folder: Path | None = vars(data).get("_folder")
    return folder
