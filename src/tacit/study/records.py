"""What a study is made of: private records in a folder, a file, a table of another library, or `Trajectories`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tacit.errors import DataError, FileError, MechanismError, PlanError, TacitError
from tacit.study.words import Narrator
from tacit.units import UnitKey, is_noun

if TYPE_CHECKING:
    from tacit.data.sources import sorting, tables
    from tacit.data.spec import PublicSpec
    from tacit.data.store import UnitKind
    from tacit.data.texts import Texts
    from tacit.data.trajectories import Trajectories
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.privacy.vault.sharded_vault import Ranks
    from tacit.privacy.vault.vault import Vault
    from tacit.study.movement import Movement, Whereabouts
    from tacit.tracking import Tracker

_EACH_ROW = ("transition", "episode")
"""What units are called that have no ids; a column of this name would be another unit by the same name."""


@dataclass(frozen=True)
class Source:
    """Private records of which only the public parts are known so far.

    Args:
        name: what they are called where something is refused.
        bounds: their public ones; None of texts, of policies of experts, which `learn` plays, and where it simulates
            experts.
        unit: what one protected unit is, in the singular.
        simulated: whether nobody is behind them.
        place: the folder or file that their ledger lies beside; None for records in memory.
        open: reads them, for a vault alone.
        more: further files, which share the ledger.
        said: how they were named, as options of a run; by default `data` is the name.
        movement: what is known of them where they are days of people.
        texts: the file, where they are texts of people.
        kind: how units were made: from ids, or every episode or every row a unit of its own.
        copied_ends: see `StoredRecords.copied_ends`.
        open_steps: reads them without the rows whose next observation is a copy, where they are a table.
        column: of the units' ids, where they are a table or texts.
    """

    name: str
    bounds: PublicSpec | None
    unit: str
    simulated: bool
    path: Path | None
    open: Callable[[], Trajectories]
    other_files: tuple[Path, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    movement: Movement | None = None
    texts: Texts | None = None
    kind: UnitKind = "id"
    copied_ends: bool = False
    open_steps: Callable[[], Trajectories] | None = None
    column: str | None = None

    def named(self, name: str) -> Source:
        """The same records, whose units are called so and not like the column of their ids.

        Raises:
            DataError: there is no such column.
            PlanError: the name is no noun of letters.
        """
        if self.column is None:
            what, expected = "unit_name= has no meaning here", "it for a table or texts with a column of ids"
            remedy = "leave it out: unit= says the name (`tacit data import` has --unit-name for its column)"
            raise DataError(what, where=self.name, expected=expected, remedy=remedy)
        if not is_noun(name):
            what, expected = f"unit_name is {name[:40]!r}", 'a noun of letters in the singular, such as "patient"'
            raise PlanError(what, where="Study", expected=expected, remedy="say what one unit is")
        return replace(self, unit=name)

    @property
    def spec(self) -> PublicSpec:
        """Their public bounds.

        Raises:
            DataError: there are no records.
        """
        if self.bounds is None:
            raise _absent_error(self.name)
        return self.bounds


def resolve_source(
    records: Any,
    unit: str,
    population: int | None,
    spec: PublicSpec | str | os.PathLike[str] | None,
    ledger: Path | None,
    narrator: Narrator,
    lead: Lead,
    **reading: Any,
) -> Source:
    """The source that somebody named.

    Args:
        records: a folder that `tacit data import` wrote, `Trajectories`, a file of a table (.csv, .parquet ...), or a
            table of pandas, Polars, Arrow or DuckDB; `Days`, or files of where people were; for `learn` also a folder
            of policies, or None.
        unit: of a folder, of `Trajectories` or of `Days`, what one unit is; of a table or of points, the column of the
            ids, or ":transition" or ":episode".
        population: how many units there could be, where it was declared.
        spec: public bounds, or their file; needed for a table, and nothing else has them to be said.
        ledger: file of the budget, which records in memory cannot do without.
        narrator: is told where the units' name cannot be checked.
        lead: opens a folder.
        reading: how a table is read (see `Trajectories.from_frame`; of a CSV file also separator, decimal, encoding
            and missing), or how records of where people were become days (see `Whereabouts`); of a CSV file of texts
            `text`, their column, with `unit_key`, `simulated`, `separator` and `encoding`.

    Raises:
        DataError: the units have another name, or the bounds are missing, or something was said that has no meaning.
        FileError: there are no such records.
        PlanError: records in memory have no ledger.
    """
    from tacit.data.mobility.days import Days
    from tacit.data.trajectories import Trajectories, bind_to_ledger, how_read, source_folder
    from tacit.study.account import require_name
    from tacit.study.movement import MOVEMENT_WORDS, Movement, Whereabouts

    allowed = {"simulated"} if isinstance(records, Days) else set[str]()
    if "text" in reading:
        allowed = {"text", "unit_key", "simulated", "separator", "encoding"}
    elif MOVEMENT_WORDS & reading.keys():
        allowed = {word.name for word in fields(Whereabouts)} - {"source"}
    given = {*reading, *(() if spec is None else ("spec",))}
    if allowed and (unknown := sorted(given - allowed)):
        what, expected = f"{unknown[0]}= has no meaning for such records", f"words of {', '.join(sorted(allowed))}"
        raise DataError(what, where="Study", expected=expected, remedy=f"leave {unknown[0]}= out")
    if isinstance(records, Days):
        data = records.trajectories(**reading)
        movement = Movement(records.grid, (lambda: records) if data.simulated else None)
        opened = bind_to_ledger(data, _require_ledger(ledger))
        return Source("Study", data.spec, unit, data.simulated, None, opened, movement=movement)
    if "text" in reading:
        return _texts_source(Path(records), unit, **reading)
    if MOVEMENT_WORDS & reading.keys():
        files = [records] if isinstance(records, str | os.PathLike) else records or ()
        people = Whereabouts(source=tuple(map(Path, files)), **reading)
        return _movement_source(people, people.movement(unit, population, ledger), unit, population, ledger)
    path = Path(records) if isinstance(records, str | os.PathLike) else None
    if isinstance(records, Trajectories):
        path = source_folder(records)  # whose ledger lies beside the folder
    table = not isinstance(records, Trajectories) and (path is None or not (path / "spec.json").is_file())
    if records is None or (table and path is not None and path.is_dir() and spec is None and not reading):
        name = "Study" if path is None else str(path)
        return Source(name, None, unit, records is None, path, partial(_refuse_records, name))
    if table and (path is None or path.exists()):
        return _table(records, path, unit, spec, ledger, **reading)
    if table and spec is not None:
        what, expected = "there is no such file", "one file, or one folder, of a table"
        raise FileError(what, where=str(path), expected=expected, remedy="check the path")
    if spec is not None or reading:
        name = "spec" if spec is not None else next(iter(reading))
        what, expected = f"{name}= has no meaning for records that were imported before", "it for a table"
        raise DataError(what, where="Study", expected=expected, remedy=f"leave {name}= out")
    if isinstance(records, Trajectories) and path is None:
        read, kind = how_read(records), records.unit_kind
        require_name(read["unit"], unit, "Study", narrator, ids=kind == "id")
        told: dict[str, Any] = {"kind": kind, "copied_ends": read["copied_ends"]}
        opened = bind_to_ledger(records, _require_ledger(ledger))
        return Source("Study", records.spec, unit, records.simulated, None, opened, **told)
    from tacit.data.store import read_public

    assert path is not None
    public = read_public(path)
    require_name(public.unit, unit, str(path), narrator, ids=public.owner == "id")
    told = {"kind": public.owner, "copied_ends": public.copied_ends}
    return Source(str(path), public.spec, unit, public.simulated, path, lambda: lead.open(path), **told)


def _refuse_records(where: str) -> Trajectories:
    raise _absent_error(where)


def _absent_error(where: str) -> DataError:
    what, expected = "there are no records", "a folder that `tacit data import` wrote, or in Python a table with spec="
    remedy = "import them first; policies of experts, and simulated ones, are for `learn` alone"
    return DataError(what, where=where, expected=expected, remedy=remedy)


def _require_ledger(ledger: Path | None) -> Path:
    if ledger is None:
        what = "records in memory have no place that their ledger could lie beside"
        expected = "--ledger with the file that says what was spent on these people, also tomorrow"
        remedy = "name it, and name the same one whenever these people's records are used"
        raise PlanError(what, where="Study", expected=expected, remedy=remedy)
    return ledger


def table_reading(
    unit: str, bounds: PublicSpec, reading: Mapping[str, Any]
) -> tuple[sorting.TableOptions, tables.Style, bool]:
    """What is made of a table, how its files are written, and whether nobody is in it, by the words of [reading].

    Raises:
        PlanError: a word is unknown.
        DataError: one has no meaning.
    """
    from tacit.data.sources import sorting, tables
    from tacit.data.sources.files import Fields

    words = dict(reading)
    simulated = bool(words.pop("simulated", False))
    style = {name: words.pop(name) for name in ("separator", "decimal", "encoding", "missing") if name in words}
    fields, propensity = words.pop("fields", None), words.pop("propensity", None)
    if isinstance(fields, Mapping) or propensity is not None:
        pairs = [f"{field}={','.join(names)}" for field, names in dict(fields or {}).items()]
        fields = Fields.from_pairs(bounds, pairs)
        fields = fields if propensity is None else replace(fields, propensity=propensity)
    try:
        return sorting.TableOptions(unit, fields=fields, **words), tables.Style(**style), simulated
    except TypeError:
        what, expected = "the table is to be read in an unknown way", "what Trajectories.from_frame takes"
        raise PlanError(what, where="Study", expected=expected, remedy="check the words under [reading]") from None


def _table(
    records: Any,
    path: Path | None,
    unit: str,
    spec: PublicSpec | str | os.PathLike[str] | None,
    ledger: Path | None,
    **reading: Any,
) -> Source:
    from tacit.data import spec_files
    from tacit.data.sources import frames, lake, sorting
    from tacit.data.trajectories import Trajectories
    from tacit.study.account import ledger_beside

    if spec is None:
        what = "the public bounds of this table are missing"
        expected = "a folder that `tacit data import` wrote, or in Python a table with spec="
        remedy = "declare bounds that are known without the data (`tacit new` writes a template)"
        raise DataError(what, where="Study" if path is None else str(path), expected=expected, remedy=remedy)
    if unit in _EACH_ROW:
        what, expected = f"a column of ids is called {unit!r}", f'":{unit}" where each is a unit of its own'
        raise DataError(what, where="Study", expected=expected, remedy="rename the column, or write the colon")
    bounds = spec_files.read(Path(spec)) if isinstance(spec, str | os.PathLike) else spec
    options, styled, simulated = table_reading(unit, bounds, reading)
    place = _require_ledger(ledger) if path is None else ledger or ledger_beside(path)

    table = partial(frames.open_table, records) if path is None else partial(lake.open_table, [str(path)], styled)
    stream = path is None and not hasattr(records, "__len__")  # which is read once
    if options.reward is not None and not stream:
        with suppress(TacitError, ImportError):  # which whoever reads it meets again
            bounds = sorting.with_reward(table(), options, bounds)

    def read(wanted: sorting.TableOptions = options) -> Trajectories:
        return Trajectories(sorting.read(table(), wanted, bounds, simulated=simulated), bounds, simulated=simulated)

    # The unit is called like its column, so that a ledger refuses another column of the same table.
    kinds: dict[str, UnitKind] = {":transition": "transition", ":episode": "episode"}
    kind = kinds.get(unit, "id")
    name, unit = "Study" if path is None else str(path), unit.removeprefix(":")
    more: dict[str, Any] = {"copied_ends": options.next == "keep"}
    if options.next == "keep":
        more["open_steps"] = _open_once(lambda: read(replace(options, next="drop")), place)
    more |= {"kind": kind, "column": unit if kind == "id" else None}
    return Source(name, bounds, unit, simulated, path, _open_once(read, place), **more)


def _movement_source(
    whereabouts: Whereabouts, movement: Movement, unit: str, population: int | None, ledger: Path | None
) -> Source:
    from tacit.data.mobility.days import spec_of
    from tacit.study.account import ledger_beside
    from tacit.study.movement import readable_side

    name = ", ".join(map(str, whereabouts.source))
    if movement.grid is None:
        box = whereabouts.box
        assert box is not None

        movement = replace(
            movement,
            choose=lambda readable: _movement_source(
                placed := replace(whereabouts, cell=readable_side(box, readable)),
                placed.movement(unit, population, ledger),
                unit,
                population,
                ledger,
            ),
        )
        known: dict[str, Any] = {"settings": asdict(whereabouts), "movement": movement}
        (place, *more), closed = whereabouts.source, partial(_refuse_records, name)
        return Source(name, None, unit, whereabouts.simulated, place, closed, tuple(more), **known)
    simulated, spec, days = whereabouts.city is not None or whereabouts.simulated, spec_of(movement.grid), movement.days
    assert days is not None
    days = cache(days) if simulated else days
    movement = replace(movement, days=days if simulated else None)

    def read() -> Trajectories:
        return days().trajectories(simulated=simulated)

    if whereabouts.city is not None:
        name = f"a city of {whereabouts.city:,} people"
        return Source(name, spec, unit, simulated, None, read, settings=asdict(whereabouts), movement=movement)
    place, *more = whereabouts.source
    opened = _open_once(read, ledger or ledger_beside(place))
    return Source(name, spec, unit, simulated, place, opened, tuple(more), asdict(whereabouts), movement)


def _texts_source(
    path: Path, unit: str, *, text: str, unit_key: UnitKey | None = None, simulated: bool = False, **style: str | None
) -> Source:
    from tacit.data.sources.tables import Style
    from tacit.data.texts import Texts

    given: Any = {name: value for name, value in style.items() if value is not None}
    name, texts = str(path), Texts(path, unit, text, unit_key, Style(**given))
    settings = {"data": path, "text": text, "unit_key": unit_key, "simulated": simulated, **style}
    return Source(
        name, None, unit, simulated, path, partial(_refuse_records, name), settings=settings, texts=texts, column=unit
    )


def _open_once(read: Callable[[], Trajectories], ledger: Path) -> Callable[[], Trajectories]:
    """What opens records that are read when they are first needed, for the vaults of one study and one ledger."""
    from tacit.data.trajectories import bind_to_ledger

    # Once a study: a file that changes between two verbs would deal other people to the folds.
    once = cache(lambda: bind_to_ledger(read(), ledger))
    return lambda: once()()


# Records in shards: one process reads them all, or the processes of a `torchrun` one each, and rank 0 leads.


@dataclass
class Lead:
    """How the process that leads a study opens its records; as a context, the others are sent home at its end.

    Args:
        ranks: all processes of a `torchrun`, of which this one is rank 0; None without one.
    """

    ranks: Ranks | None = None
    _served: bool = False

    def open(self, folder: Path) -> Trajectories:
        """The records of a folder, or this process's shards of them.

        Raises:
            FileError: there are several processes and no shards, or a file is missing or damaged.
            DataError, PlanError: as for `shards.Shards.read`.
        """
        from tacit.data.trajectories import Trajectories

        if self.ranks is None and next(folder.glob("shard-*.parquet"), None) is None:
            return Trajectories.open(folder)
        return _read_shards(folder, self.ranks)

    def vault(self, data: Trajectories, ledger: Ledger, tracker: Tracker | None) -> AbstractContextManager[Vault]:
        """A vault over what `open` gave, and the shards of the other processes."""
        from tacit.privacy.vault.vault import Vault

        if self.ranks is None:
            return nullcontext(Vault(data, ledger, tracker=tracker))
        from tacit.privacy.vault.sharded_vault import ShardedVault

        self._served = True
        return ShardedVault(data, ledger, ranks=self.ranks, tracker=tracker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.ranks is not None:
            with suppress(RuntimeError):  # of ranks that are gone
                if not self._served:
                    self.ranks.tell(None)
            self.ranks.close()


def serve(folder: Path, ranks: Ranks) -> None:
    """What every process but the first does: read its shards, and serve the vault of rank 0.

    Raises:
        MechanismError: rank 0 or another process is gone.
        DataError, PlanError, FileError: as for `Lead.open`.
    """
    from tacit.privacy.vault.sharded_vault import serve as answer

    gone = False
    try:
        key = ranks.tell()
        if key is not None:
            answer(_read_shards(folder, ranks, key), ranks)
    except RuntimeError:
        gone = True  # its text names addresses
    finally:
        ranks.close()
    if gone:
        expected, remedy = "all processes of the run", "see what the others wrote, and start all again with --resume"
        raise MechanismError("another process is gone", where=f"rank {ranks.rank}", expected=expected, remedy=remedy)


def find_ranks() -> Ranks | None:
    """The processes of the `torchrun` that started this one, if one did."""
    if "WORLD_SIZE" not in os.environ:
        return None
    from tacit.privacy.vault.sharded_vault import Ranks

    started = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()
    return Ranks() if started else None


def _read_shards(folder: Path, ranks: Ranks | None, key: bytes | None = None) -> Trajectories:
    """The shards of this process; rank 0 draws the key that the others are given."""
    from tacit.data.sources import shards

    described = shards.read_shards(folder)
    if described is None:
        remedy = "write one with `tacit data shard`, or start the command without torchrun"
        what = "the records are in one piece, and there are several processes"
        raise FileError(what, where=str(folder), expected="a folder of shards", remedy=remedy)
    if ranks is not None and key is None:
        key = ranks.share_key()
    rank, count = (0, 1) if ranks is None else (ranks.rank, ranks.count)
    with tempfile.TemporaryDirectory(prefix="tacit-shard-") as temporary:  # columns stay mapped when it is gone
        return described.read(rank, count, digest_key=key, store=Path(temporary, "records"))
