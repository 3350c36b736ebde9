"""Tables with the keys of their units, by which rows are sorted, grouped and seen by windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tacit.data import unit_keys
from tacit.data.columns import MISSING
from tacit.data.sources import column_sql
from tacit.data.sources.column_sql import Keyed
from tacit.data.sources.lake import SourceTable
from tacit.errors import DataError
from tacit.units import UnitKey


def add_keys(table: SourceTable, ids: Mapping[Keyed, str], unit_key: UnitKey | None) -> SourceTable:
    """The table with the keys of its units and episodes as further columns, made before the engine sees a row."""
    # So what sorts, groups and windows go by is what becomes the unit, whatever the engine makes of a text.
    import pyarrow as pa

    kinds = dict(table.kinds)
    sources = {column_sql.key(of): (name, unit_key if of == "unit" else None) for of, name in ids.items()}
    for of, name in ids.items():
        kind, types = table.kinds[name], pa.types
        known = (types.is_string, types.is_binary, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not any(check(kind) for check in known):
            what = f"the {of} id is neither text, bytes nor a whole number"
            expected = f"a column of ids: {name!r} has another type"
            remedy = f"name another column with {of}=, or write the ids as text"
            raise DataError(what, where=table.name, expected=expected, remedy=remedy)
        kinds[column_sql.key(of)] = kind if are_keys(kind) else pa.string()

    read = partial(table.batches, ids=set(ids.values())) if table.cell_types else table.batches

    def batches(names: Sequence[str]) -> Iterator[Any]:
        own = [name for name in names if name not in sources]
        for batch in read(own):
            arrays = {name: batch.column(name) for name in own}
            arrays |= {key: column_keys(arrays[name], law) for key, (name, law) in sources.items() if key in names}
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
