"""SQL of one column: as the source has it, as a number, and as what orders rows."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from tacit.data import unit_keys
from tacit.data.columns import MISSING
from tacit.data.sources.lake import SourceTable
from tacit.data.sources.steps import MOMENT, TICKS, TIME, ZONE
from tacit.data.unit_keys import WHITE
from tacit.errors import DataError
from tacit.units import UnitKey

HIDDEN = secrets.token_hex(8)
"""In the names of columns that are not the table's own, so that no table has one of that name."""
Keyed = Literal["unit", "episode"]
"""What ids are ids of."""
NUMBER = f"{HIDDEN}number"
"""The column of the numbers of rows (`engine.number_rows`)."""
PLACE = "tacit column "
"""What the engine's error of a cell that is no number says before the place of the column."""
NAN = "CAST('NaN' AS DOUBLE)"
"""The largest number of all in SQL, equal to itself; what is read as a number is missing instead."""


def expression_column(table: SourceTable, name: str, number: bool, lenient: bool) -> str:
    """A column as expressions see it: as numbers, where it is texts that ought to be some."""
    if not number:
        return quote(name)
    missing, made = number_parts(table, name)
    if not lenient:
        made = f"coalesce({made}, error('{PLACE}{list(table.kinds).index(name)}'))"
    return f"CASE WHEN {missing} THEN NULL ELSE nullif({made}, {NAN}) END"


def number_parts(table: SourceTable, name: str) -> tuple[str, str]:
    """Where a column of texts that ought to be numbers misses, and its numbers, NULL of what is none."""
    text, words = f"trim({quote(name)})", ", ".join(f"'{word}'" for word in sorted(MISSING))
    number = f"TRY_CAST(translate({with_decimal_point(table, text)}, '_', ',') AS DOUBLE)"  # 1_0 would be 10
    return f"{text} IS NULL OR {text} IN ({words})", number


def with_decimal_point(table: SourceTable, text: str) -> str:
    """A text whose decimal comma is a point; its points become commas, which no number has."""
    return f"translate({text}, ',.', '.,')" if table.decimal == "," else text


def quote(name: str) -> str:
    """A name of a column or table, for SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def raw_column(name: str) -> str:
    """A column as the source has it; under its own name, a number of a source without types is one."""
    return quote(f"{HIDDEN} {name}")


def key(kind: Keyed) -> str:
    """The column of the keys (see `tacit.data.unit_keys`) by which rows are grouped, sorted and seen by windows."""
    return f"{HIDDEN}{kind}"


def key_expression(name: str, kind: Any) -> str:
    """A text that two ids of a column share if and only if their keys are equal (`tacit.data.unit_keys`), in SQL."""
    # For tables that the engine reads by itself. Cells that are no id get some text, or NULL where they are; whoever
    # reads the rows refuses them. Nothing here may give NULL for a cell: of a column that a file declares to be without
    # NULL, the engine would lose the row.
    import pyarrow as pa

    column, types = quote(name), pa.types
    if types.is_binary(kind):
        return f"lower(hex({column}))"
    if types.is_floating(kind):
        return f"CAST({column} + 0 AS VARCHAR)"  # of two zeros, one
    return f"trim(CAST({column} AS VARCHAR), {_WHITE})"


_WHITE = "concat(" + ", ".join(f"chr({ord(sign)})" for sign in WHITE) + ")"


def column_order(table: SourceTable, name: str) -> dict[str, str]:
    """What orders the rows by a column; of texts, numbers, moments, and the zone of these."""
    import pyarrow as pa

    kind, column = table.kinds[name], raw_column(name)
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return {TIME: column}
    if types.is_timestamp(kind) or types.is_date(kind):
        return {TIME: f"epoch_{'us' if ticks(table, name) == TICKS else 'ns'}({column})"}
    if not types.is_string(kind):
        what, expected = f"the time column {name!r} is no number and no time", "numbers, dates, or dates with times"
        remedy = "choose another column, or compute a number or a time from it in --time"
        raise DataError(what, where=table.name, expected=expected, remedy=remedy)
    number = f"trim({column})"
    return {
        **expression_order(column),
        TIME: f"TRY_CAST(translate({with_decimal_point(table, number)}, '_', ',') AS DECIMAL(38, 9))",
    }


def ticks(table: SourceTable, name: str) -> int | None:
    """How many a second a column of dates has where it orders rows; None of numbers and texts."""
    import pyarrow as pa

    kind = table.kinds.get(name, pa.string())
    if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
        return None
    return 10**9 if getattr(kind, "unit", "") == "ns" else TICKS


_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T]+\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?"
"""Dates that everybody reads alike; of others, the engine would drop words such as PM, and take days for years."""


def expression_order(value: str) -> dict[str, str]:
    """What orders the rows by an expression or a text: numbers, moments, and the zone of these."""
    text = f"trim(CAST({value} AS VARCHAR))"
    zone = r"\d:\d\d(?::\d\d(?:\.\d+)?)?\s*([Zz]|UTC|[+-]\d\d(?::?\d\d)?)$"
    found = f"regexp_extract({text}, '{zone}', 1)"
    bare = f"trim(left({text}, strlen({text}) - strlen({found})))"
    return {
        TIME: f"TRY_CAST(translate({text}, '_', ',') AS DECIMAL(38, 9))",
        MOMENT: f"CASE WHEN regexp_full_match({bare}, '{_DATE}') THEN epoch_us(TRY_CAST({bare} AS TIMESTAMP)) END",
        ZONE: found,
    }


# -- the keys of units and episodes, by which rows are sorted, grouped and seen by windows -------------------------


def add_keys(table: SourceTable, ids: Mapping[Keyed, str], unit_key: UnitKey | None) -> SourceTable:
    """The table with the keys of its units and episodes as further columns, made before the engine sees a row."""
    # So what sorts, groups and windows go by is what becomes the unit, whatever the engine makes of a text.
    import pyarrow as pa

    kinds = dict(table.kinds)
    sources = {key(of): (name, unit_key if of == "unit" else None) for of, name in ids.items()}
    for of, name in ids.items():
        kind, types = table.kinds[name], pa.types
        known = (types.is_string, types.is_binary, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not any(check(kind) for check in known):
            what = f"the {of} id is neither text, bytes nor a whole number"
            expected = f"a column of ids: {name!r} has another type"
            remedy = f"name another column with {of}=, or write the ids as text"
            raise DataError(what, where=table.name, expected=expected, remedy=remedy)
        kinds[key(of)] = kind if are_keys(kind) else pa.string()

    read = partial(table.batches, ids=set(ids.values())) if table.cell_types else table.batches

    def batches(names: Sequence[str]) -> Iterator[Any]:
        own = [name for name in names if name not in sources]
        for batch in read(own):
            arrays = {name: batch.column(name) for name in own}
            arrays |= {made: column_keys(arrays[name], law) for made, (name, law) in sources.items() if made in names}
            yield pa.record_batch([arrays[name] for name in names], names=list(names))

    return dataclasses.replace(table, kinds=kinds, batches=batches)


def column_keys(column: Any, unit_key: UnitKey | None) -> Any:
    """The keys of an Arrow column of ids; null where there is none, which is refused once rows are chosen."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if are_keys(column.type):
        return column
    if unit_key != "folded" and pa.types.is_string(column.type):
        plain = pc.match_substring_regex(column, "^[!-~]+$")  # which nothing is cut from
        if pc.all(plain, skip_nulls=False).as_py() and not pc.any(pc.is_in(column, pa.array(sorted(MISSING)))).as_py():
            return column
    column = column.dictionary_encode()
    keys = pa.array([unit_keys.key_or_none(cell, unit_key) for cell in column.dictionary.to_pylist()], pa.string())
    return keys.take(column.indices)


def are_keys(kind: Any) -> bool:
    """Whether ids of this type are their own keys."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind))
