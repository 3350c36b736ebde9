"""From a table in any order to records: DuckDB sorts and computes, and next observations are built as rows pass by.

DuckDB holds no file and no network: it gets batches, spills to a private folder that is deleted, and what it says of an
error never reaches anybody, since it quotes cells. One thread keeps its results the same from run to run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from tacit.data.columns import TimeUnit, encode_flags
from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Faults, Ingest
from tacit.data.sources import column_sql, steps
from tacit.data.sources.column_sql import Keyed, add_keys, are_keys
from tacit.data.sources.engine import PART, find_row, number_rows, open_engine, query_batches
from tacit.data.sources.expressions import Expression, keep_expression, parse_expression
from tacit.data.sources.files import Fields, declared_columns, refuse_unread_columns, shown_names
from tacit.data.sources.lake import SourceTable
from tacit.data.sources.steps import Block, Refuse
from tacit.data.sources.tables import Misfits, row_error, to_numbers
from tacit.data.spec import PublicSpec
from tacit.data.store import Array, StoredRecords
from tacit.errors import DataError, TacitError
from tacit.units import UnitKey

Next = Literal["keep", "drop"]


@dataclass(frozen=True)
class TableOptions:
    """What is made of a table."""

    unit: str  # column of the unit's id, or `EACH_TRANSITION` or `EACH_EPISODE`
    # column of the episode's id, which may begin again for each unit where rows are ordered by time; None takes all
    # rows of a unit between terminations and truncations
    episode: str | None = None
    # what orders the rows of an episode, a column or an expression: numbers, or dates and times; of several, each
    # orders the rows that those before it leave equal. None keeps the table's order.
    time: str | Sequence[str] | None = None
    # build the next observation from the next row of the episode; its last row is truncated ("keep", where the next
    # observation is its own) or left out ("drop"). None reads the columns of next observations.
    next: Next | None = None
    where: str | None = None  # expression that says which rows are read; windows see these alone
    qualify: str | None = None  # expression that says which of these rows are kept once windows have seen them
    reward: str | None = None  # expression of the reward
    # name of an action's column in the spec -> its expression; "" names the only one
    actions: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)  # likewise of the observation's columns
    fields: Fields | None = None  # names of the columns; None takes `Fields.of`
    # what ids of units are that differ by case or form alone (see `tacit.data.unit_keys`)
    unit_key: UnitKey | None = None

    @property
    def owner(self) -> str | None:
        """The column that says whose a row is, if there is one."""
        if self.unit == EACH_TRANSITION:
            return None
        return self.episode if self.unit == EACH_EPISODE else self.unit

    @property
    def key_columns(self) -> dict[Keyed, str]:
        """The columns of ids, by what they are ids of."""
        whose = None if self.unit in (EACH_TRANSITION, EACH_EPISODE) else self.unit
        named: dict[Keyed, str | None] = {"unit": whose, "episode": self.episode}
        return {of: name for of, name in named.items() if name is not None}

    @property
    def partition(self) -> tuple[str, str] | None:
        """The column that says whose a row is, and that of its keys."""
        if self.owner is None:
            return None
        return self.owner, column_sql.key("episode" if self.unit == EACH_EPISODE else "unit")

    @property
    def times(self) -> tuple[str, ...]:
        """The columns and expressions of `time`, if there are any."""
        return (self.time,) if isinstance(self.time, str) else tuple(self.time or ())


def read(
    table: SourceTable,
    options: TableOptions,
    spec: PublicSpec,
    *,
    simulated: bool = False,
    store: str | os.PathLike[str] | None = None,
) -> StoredRecords:
    """The records in a table, checked and clipped like those of any other source. Raises DataError where a column is
    missing, an expression is refused, times are missing or equal, or the records break a rule of `Trajectories`;
    FileError where the source cannot be read to its end, or the folder exists or cannot be written."""
    _require_readable(table, options)
    refuse_unread_columns(table.name, tuple(table.kinds), options.fields or Fields.of(spec), spec)
    said: dict[str, Any] = {"unit": options.key_columns.get("unit"), "unit_key": options.unit_key}
    said |= {"queried": table.queried, "copied_ends": options.next == "keep"}
    with Ingest(spec, simulated=simulated, store=store, **said) as ingest:
        first, block = 0, Block()

        def place(row: int) -> str:
            if not table.parts:
                return table.name
            with open_engine(None) as other:
                numbered = number_rows(table)
                (text, used), _ = _query(numbered, options, spec, other)
            return find_row(add_keys(numbered, options.key_columns, options.unit_key), used, text, row)

        def refuse(what: str, expected: str, remedy: str, rows: Array) -> None:
            raise DataError(what, where=place(int(rows[0])), expected=expected, remedy=remedy)

        # the end of an episode that goes on may lie one row before the block
        ingest.start(table.name, lambda row: place(int(block["row"][max(row - first, 0)]) - (row < first)))
        with open_engine(store) as engine, contextlib.ExitStack() as stack:
            query, names = _query(table, options, spec, engine)
            keyed, counts = add_keys(table, options.key_columns, options.unit_key), {"all": 0, "chosen": 0, "kept": 0}
            reader = _blocks(keyed, query, names, spec, engine, refuse, counts)
            blocks: Iterator[Block] = stack.enter_context(
                contextlib.closing(reader)
            )  # else Python closes it when it likes
            if options.times:
                blocks = steps.number_episodes(blocks, refuse)
            if durations := _durations(table, options, spec):
                blocks = steps.add_durations(blocks, durations, column_sql.ticks(table, options.times[0]), table.name)
            if options.next is not None:
                blocks = steps.with_next(blocks, drop=options.next == "drop")
            for block in blocks:
                columns = {name: block[name] for name in _FIELDS if name in block}
                units = block.get("unit", options.unit)
                counts["kept"] += len(block["row"])
                ingest.add(columns, units, block.get("number", block["episode"]) if options.episode else None)
                first += len(block["row"])
        if options.next == "drop" and counts["chosen"] and not counts["kept"]:
            what = "every row is the last of an episode that is cut, and what follows such a row is not known"
            expected = "longer episodes, or a column that says where they terminate"
            remedy = "where a decision ends its episode, add a column `termination` of 1, and declare terminals"
            raise DataError(what, where=table.name, expected=expected, remedy=remedy)
        ingest.receipt["rows of the table"] = {
            "all": counts["all"],
            "left out by --where and --qualify": counts["all"] - counts["chosen"],
            "left out by --next drop": counts["chosen"] - counts["kept"],
        }
        return ingest.finish()


def with_reward(table: SourceTable, options: TableOptions, spec: PublicSpec) -> PublicSpec:
    """The spec with the expression of the reward, where records of this table keep all that it reads, else without."""
    import pyarrow as pa

    spec = replace(spec, reward_expression=None)
    if options.reward is None:
        return spec
    fields = options.fields or Fields.of(spec)
    with contextlib.suppress(TacitError), open_engine(None) as engine:  # what is refused is refused by `read`
        parse = partial(parse_expression, header=tuple(table.kinds), unit=options.owner, engine=engine)
        expressions, _, _ = _expressions(parse, options, spec, fields)
        columns = _columns(table, options, spec, fields, expressions)
        numbers = set() if table.typed else _numbers(spec, fields)
        pairs = [pair for target in ("observations", "actions") for pair in columns.get(target, ())]
        sources = {
            source: (known, pa.float64() if source in numbers else table.kinds[source])
            for known, source in pairs
            if known and isinstance(source, str)
        }
        return keep_expression(spec, expressions["rewards", ""], sources, engine)
    return spec


def find_faults(
    table: SourceTable, options: TableOptions, spec: PublicSpec, misfits: Misfits, *, simulated: bool = False
) -> list[TacitError]:
    """Everything for which `read` would refuse a table of files, each kind once with its first rows; no row is kept."""

    # misfits: those of the style of its CSV files, which are read as its rows are
    _require_readable(table, options)
    refuse_unread_columns(table.name, tuple(table.kinds), options.fields or Fields.of(spec), spec)
    parts = [name for name, _ in table.parts]
    faults = Faults(
        lambda row: f"{parts[row // PART]}, row {row % PART + 1}",
        follows=options.next is not None,
        computes=options.reward is not None,
    )
    numbered, broken = number_rows(table, misfits), list[TacitError]()
    with Ingest(spec, simulated=simulated, unit_key=options.unit_key, faults=faults) as ingest:
        ingest.start(table.name)
        try:
            with open_engine(None) as engine, contextlib.ExitStack() as stack:
                query, names = _query(numbered, options, spec, engine, lenient=True)
                keyed = add_keys(numbered, options.key_columns, options.unit_key)
                reader = _blocks(keyed, query, names, spec, engine, faults.add, {"all": 0})
                blocks: Iterator[Block] = stack.enter_context(contextlib.closing(reader))
                durations = _durations(table, options, spec)
                blocks = _set_aside(blocks, ingest, faults, durations)
                if options.times:
                    blocks = steps.number_episodes(blocks, faults.add)
                if durations:
                    blocks = steps.add_durations(
                        blocks, durations, column_sql.ticks(table, options.times[0]), table.name
                    )
                if options.next is not None:
                    blocks = steps.with_own(blocks, drop=options.next == "drop")
                for block in blocks:
                    columns = {name: block[name] for name in _FIELDS if name in block}
                    faults.begin(block["row"], block.get("observed"))
                    episodes = block.get("number", block["episode"]) if options.episode else None
                    ingest.add(columns, block.get("unit", options.unit), episodes)
            ingest.require_whole()
        except TacitError as error:
            broken.append(error)
    for part, kinds in enumerate(misfits.values()):
        for what, lines in kinds.items():
            shape = row_error(table.name, (what, 0))
            faults.add(what, shape.expected, shape.remedy, part * PART + np.array(lines) - 1)
    return [*faults.errors(), *broken]


def _set_aside(
    blocks: Iterator[Block], ingest: Ingest, faults: Faults, durations: Mapping[str, TimeUnit | None]
) -> Iterator[Block]:
    """The rows with ids and times that can be read; of others, these are refused and the cells checked."""
    first: dict[str, tuple[bool, str]] = {}
    for block in blocks:
        bad = steps.refuse_times(block, first, faults.add)
        for of in {"unit", "episode"} & block.keys():
            missing = steps.is_missing(block[of])
            bad |= missing
            if missing.any():
                remedy = "write all ids as text, correct them, or leave such rows out"
                expected = "an id in every row, text, bytes or whole numbers, and all of one kind"
                faults.add(f"the {of} id is missing", expected, remedy, block["row"][missing])
        if bad.any():
            rows = steps.take_rows(block, bad)
            columns = {name: rows[name] for name in _FIELDS if name in rows}
            if durations:  # which nobody knows here
                columns["observations"] = columns.get("observations", {}) | dict.fromkeys(
                    durations, np.zeros(bad.sum())
                )
            if faults.follows:
                columns["next_observations"] = columns["observations"]
            before = faults.rows
            faults.begin(rows["row"])
            ingest.add(columns, EACH_TRANSITION, cells_alone=True)
            faults.rows = before
        if not bad.all():
            yield steps.take_rows(block, ~bad)


_FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "propensities")


def _require_readable(table: SourceTable, options: TableOptions) -> None:
    words = [(name, "time") for name in options.times if name.isidentifier()]  # all others are expressions
    for name, meaning in ((options.unit, "unit"), (options.episode, "episode"), *words):
        if name is not None and name not in (EACH_TRANSITION, EACH_EPISODE) and name not in table.kinds:
            raise _missing_column_error(table, name, meaning)
    apart = options.owner is None  # then no other row is of the same unit
    if (options.next is not None and not options.times) or (options.times and apart):
        what = "the order of an episode's rows is not defined"
        expected = "the column of the time, and that of the unit, or of episodes that are units"
        remedy = "name them with time= and unit= or episode= (in a command --time, --unit and --episode)"
        raise DataError(what, where=table.name, expected=expected, remedy=remedy)
    if len({name.lower() for name in table.kinds}) < len(table.kinds):
        what, expected = "two columns have names that differ in their case alone", "names that SQL tells apart"
        raise DataError(what, where=table.name, expected=expected, remedy="rename one of them")


def _missing_column_error(table: SourceTable, name: str, meaning: str) -> DataError:
    what = f"there is no unit id: no column {name!r}" if meaning == "unit" else f"no column {name!r} for {meaning}"
    remedies = {
        "next_observations": "let time= and next= build it (in a command --time and --next)",
        "terminations": "declare terminals=False",
        "rewards": REWARD,
        "observations": "name it with --fields, or compute it: --column NAME=EXPRESSION",
        "actions": "name it with --fields, or compute it: --action NAME=EXPRESSION",
    }
    other = "name the one that is there with unit=, episode=, time= or fields= (in a command --unit, --fields, ...)"
    remedy = f"rename the column, or {remedies.get(meaning, other)}"
    return DataError(
        what,
        where=table.name,
        expected=f"a column of that name; the table has {shown_names(list(table.kinds))}",
        remedy=remedy,
    )


REWARD = (
    'name it with --fields rewards=COLUMN, or compute it, as in --reward "-abs(pulse - 75) / 145"; where nothing is '
    "valued, --reward 0 serves tacit synthesize and tacit learn"
)
"""What to do where no column is the reward."""


# -- the query ---------------------------------------------------------------------------------------------------------

_KEPT = column_sql.quote(f"{column_sql.HIDDEN}kept")
Names = dict[str, list[tuple[str, str]]]
"""Field -> (name in the spec or "", name in the query's result) of each of its columns."""
Expressions = Mapping[tuple[str, str], Expression]


def _query(
    table: SourceTable, options: TableOptions, spec: PublicSpec, engine: Any, *, lenient: bool = False
) -> tuple[tuple[str, tuple[str, ...]], Names]:
    """The query, the columns that it reads, and where its results go."""
    # lenient: in expressions, a cell that is read itself is missing where it is no number, and refused later
    fields = options.fields or Fields.of(spec)
    parse = partial(parse_expression, header=tuple(table.kinds), unit=options.owner, engine=engine)
    expressions, where, qualify = _expressions(parse, options, spec, fields)
    columns = _columns(table, options, spec, fields, expressions)
    moments = {text: parse(text, "--time") for text in options.times if text not in table.kinds}
    by = (options.owner, options.episode, *options.times)
    direct = [source for pairs in columns.values() for _, source in pairs if isinstance(source, str)]
    read = {name for made in (*expressions.values(), *moments.values(), *where, *qualify) for name in made.columns}
    used = tuple(name for name in table.kinds if name in {*by, *direct, *read, column_sql.NUMBER})
    hidden = {of: column_sql.quote(column_sql.key(of)) for of in options.key_columns}
    numbers = set() if table.typed else _numbers(spec, fields)
    selected: list[str] = []
    names: Names = {}
    for target, pairs in columns.items():
        for known, source in pairs:
            if isinstance(source, str):
                text = column_sql.raw_column(source)
                text = column_sql.with_decimal_point(table, text) if source in numbers else text
            else:
                text = source.sql(used, engine, options.partition)
            names.setdefault(target, []).append((known, f"c{len(selected)}"))
            selected.append(f"{text} AS c{len(selected)}")
    keys: dict[str, list[str]] = {}
    for of, column in hidden.items():
        texts = not are_keys(table.kinds[options.key_columns[of]])
        selected.append(f"{column} AS {of}")
        keys[of] = [f"strlen({of})", of] if texts else [of]
    times: dict[str, str] = {}
    for i, name in enumerate(options.times):
        if name in moments:
            made_of = column_sql.expression_order(moments[name].sql(used, engine, options.partition))
        else:
            made_of = column_sql.column_order(table, name)
        times |= {f"{part}_{i}": text for part, text in made_of.items()}
    selected += [f"{text} AS {name}" for name, text in times.items()]
    selected += [column_sql.quote(name) for name in used if name == column_sql.NUMBER]
    raw = [f"{column_sql.quote(name)} AS {column_sql.raw_column(name)}" for name in used]
    strict = {name for made in (*where, *qualify) for name in made.columns}
    soft = set(direct) - strict if lenient else set()
    typed = [
        f"{column_sql.expression_column(table, of, of in numbers, of in soft)} AS {column_sql.quote(of)}" for of in used
    ]
    inner = f"SELECT {', '.join([*raw, *typed, *hidden.values()])} FROM source"
    for condition in where:
        test = condition.sql(used, engine, options.partition)
        inner = f"SELECT * EXCLUDE ({_KEPT}) FROM (SELECT *, {test} AS {_KEPT} FROM ({inner})) WHERE {_KEPT}"
    chosen = f"SELECT {', '.join(selected)} FROM ({inner})"
    for condition in qualify:
        test = condition.sql(used, engine, options.partition)
        kept = f"SELECT {', '.join(selected)}, {test} AS {_KEPT} FROM ({inner})"
        chosen = f"SELECT * EXCLUDE ({_KEPT}) FROM ({kept}) WHERE {_KEPT}"
    query = _order_query(chosen, keys, [name for name in times if not name.startswith(steps.ZONE)])
    return (query, (*used, *map(column_sql.key, options.key_columns))), names


def _order_query(query: str, keys: Mapping[str, Sequence[str]], times: Sequence[str]) -> str:
    """The rows by unit, then by episode in the order in which these begin, then by time; as they come without times."""
    if not times:
        return query
    unit, episode = keys.get("unit", []), keys.get("episode", [])
    if episode:
        began = f"min(row({', '.join(times)})) OVER (PARTITION BY {', '.join(keys)}) AS began"
        query = f"SELECT *, {began} FROM ({query})"
        episode = ["began", *episode]
    return f"SELECT * FROM ({query}) ORDER BY {', '.join([*unit, *episode, *times])}"


def _expressions(
    parse: Callable[[str, str], Expression], options: TableOptions, spec: PublicSpec, fields: Fields
) -> tuple[dict[tuple[str, str], Expression], list[Expression], list[Expression]]:
    """Checked expressions by field and name in the spec, and those of the rows that are read and kept."""

    expressions: dict[tuple[str, str], Expression] = {}
    for target, option, given in (
        ("actions", "--action", options.actions),
        ("observations", "--column", options.columns),
    ):
        names = [column.name for column in declared_columns(spec, target)] or list(fields.columns()[target])
        for name, text in given.items():
            if (name or names[0]) not in names or (not name and len(names) > 1):
                what = target.removesuffix("s")
                raise DataError(
                    f"there is no {what} {name!r}" if name else f"the {what} has several columns",
                    where=option,
                    expected=f"NAME=EXPRESSION with a name of {', '.join(names)}",
                    remedy=f"name the column of the {what} as the spec does",
                )
            expressions[target, name or names[0]] = parse(text, f"{option} {name}".strip())
    if options.reward is not None:
        expressions["rewards", ""] = parse(options.reward, "--reward")
    rows = ((options.where, "--where"), (options.qualify, "--qualify"))
    where, qualify = ([] if text is None else [parse(text, option)] for text, option in rows)
    return expressions, where, qualify


def _columns(
    table: SourceTable, options: TableOptions, spec: PublicSpec, fields: Fields, expressions: Expressions
) -> dict[str, list[tuple[str, str | Expression]]]:
    """Field -> (name in the spec or "", the table's column or an expression) of each of its columns."""
    optional = {"truncations", *(() if spec.terminals else ("terminations",))}
    skipped = {"next_observations"} if options.next is not None else set()
    skipped |= set() if spec.propensities else {"propensities"}
    durations = _durations(table, options, spec)
    columns: dict[str, list[tuple[str, str | Expression]]] = {}
    for target, named in fields.columns().items():
        if target in skipped:
            continue
        known = [column.name for column in declared_columns(spec, target)]
        for i, name in enumerate(named):
            key = known[i] if known else name if target in ("actions", "observations") else ""
            expression = expressions.get((target, "" if target == "rewards" else key))
            if expression is None and name not in table.kinds:
                if target in optional or key in durations:
                    continue
                raise _missing_column_error(table, name, target)
            columns.setdefault(target, []).append((known[i] if known else "", expression or name))
    return columns


def _durations(table: SourceTable, options: TableOptions, spec: PublicSpec) -> dict[str, TimeUnit | None]:
    """The durations that are computed, by what they count: those of which the table has no column."""
    if options.next is None:
        return {}
    named = zip(declared_columns(spec, "observations"), (options.fields or Fields.of(spec)).observations, strict=False)
    read = {*table.kinds, *options.columns}
    return {
        column.name: column.time_unit
        for column, name in named
        if column.kind == "duration" and not {name, column.name} & read
    }


def _numbers(spec: PublicSpec, fields: Fields) -> set[str]:
    """Columns of a table without types that are numbers in expressions, as the spec has them."""
    names: set[str] = set()
    for target, named in fields.columns().items():
        columns = declared_columns(spec, target)
        names |= {name for i, name in enumerate(named) if not columns or columns[i].kind != "category"}
    return names - {fields.terminations, fields.truncations}


# -- what comes out ----------------------------------------------------------------------------------------------------


def _blocks(
    table: SourceTable,
    query: tuple[str, tuple[str, ...]],
    names: Names,
    spec: PublicSpec,
    engine: Any,
    refuse: Refuse,
    counts: dict[str, int],
) -> Generator[Block]:
    """Fields of the rows, with "unit", "episode" and what orders them."""
    # counts: how many rows of the table were read, and how many of them come out
    text, used = query
    row = 0
    with contextlib.closing(query_batches(table, used, text, engine, counts)) as batches:
        for batch in batches:
            block: Block = {"row": np.arange(row, row + batch.num_rows)}
            if column_sql.NUMBER in batch.schema.names:
                block["row"] = _numpy(batch.column(column_sql.NUMBER))
            row = counts["chosen"] = row + batch.num_rows
            for name in {"unit", "episode"} & set(batch.schema.names):
                block[name] = _numpy(batch.column(name))
            for name in (steps.TIME, steps.MOMENT, steps.ZONE):
                parts = [part for part in batch.schema.names if part.startswith(f"{name}_")]
                block[name] = {part.removeprefix(f"{name}_"): _numpy(batch.column(part)) for part in parts}
            for target, pairs in names.items():
                words = {column.name for column in declared_columns(spec, target) if column.kind == "category"}
                cells = {name: _cells(batch.column(name), target, table, known not in words) for known, name in pairs}
                if declared_columns(spec, target):
                    block[target] = {known: cells[name] for known, name in pairs}
                elif target in ("terminations", "truncations"):
                    flags = encode_flags(cells[pairs[0][1]])
                    wrong = (flags != 0) & (flags != 1)
                    if wrong.any():
                        remedy = "correct the data or leave the row out"
                        refuse(f"{target} is not boolean", "True, False, 0 or 1", remedy, block["row"][wrong])
                    block[target] = np.where(wrong, 0, flags)
                else:
                    plain = [cells[name] for _, name in pairs]  # NaN, which is refused, of what is no number
                    numbers = [part if part.dtype != object else to_numbers(part) for part in plain]
                    block[target] = np.stack(numbers, axis=1)
            if "terminations" not in block:
                block["terminations"] = np.zeros(batch.num_rows, np.bool_)
            yield block


def _cells(column: Any, target: str, table: SourceTable, numbers: bool) -> Array:
    """An Arrow column of a field; decimals are floats, and so are texts that ought to be numbers and all are."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    simple = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_string, types.is_null)
    if not any(check(kind) for check in simple):
        raise DataError(
            f"{target} has a column or an expression that gives neither numbers nor texts",
            where=table.name,
            expected="numbers, texts or truth values",
            remedy="compute numbers from it, as with epoch(TIME) or date_diff('day', TIME, OTHER), or take a part of "
            "it, COLUMN.PART",
        )
    if types.is_decimal(kind) or (numbers and types.is_string(kind)):
        with contextlib.suppress(pa.ArrowInvalid):  # a text that is no number is refused later, by its column
            column = column.cast(pa.float64())
    return _numpy(column)


def _numpy(column: Any) -> Array:
    """An Arrow column as numbers, or as objects where its cells are none or some are missing."""
    import pyarrow as pa

    if pa.types.is_decimal(column.type) and not column.null_count:
        with contextlib.suppress(pa.ArrowInvalid):  # of fractions
            column = column.cast(pa.int64())
    types, kind = pa.types, column.type
    if types.is_floating(kind) or (not column.null_count and (types.is_integer(kind) or types.is_boolean(kind))):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_string(kind):  # one object for each different text
        column = column.dictionary_encode()
        each = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        return np.asarray(each[column.indices.fill_null(len(each) - 1).to_numpy(zero_copy_only=False)])
    if column.null_count == len(column):
        return np.full(len(column), None, dtype=object)
    return np.array([*column.to_pylist(), None], dtype=object)[:-1]
