"""Files that declare more than they hold, hold more than they show, or nest deeper than a parser can go.

As in `fuzz_mutations`, a mutation takes a file and gives a changed one: Parquet with false counts, deep
types, dictionaries of long words and pages that burst; safetensors with false lengths, offsets, types and names; gzip
and zip archives that burst. What is made takes at most some megabytes here; only a reader that believes it takes more.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tests.fuzz.fuzz_mutations import OUTSIDE, members_of, table_of

# -- Parquet -----------------------------------------------------------------------------------------------------------

COUNTS = (0, 1, 11, 13, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**31), -(2**62))
"""Numbers of rows, values and bytes that a footer is made to declare."""
_WHOLE = 0x16
"""A field of 64 bits whose number is one above that of the field before it (Thrift's compact protocol)."""


def parquet_bomb(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file with false counts in its footer, or with columns that burst or nest."""
    try:
        found = table_of(data)
        if not found.num_columns or found.num_rows > 1_000 or rng.random() < 0.4:
            return _footer(data, rng)
        out = io.BytesIO()
        table, options = _grown(found, rng)
        parquet.write_table(table, out, compression=rng.choice(("none", "zstd", "gzip", "snappy")), **options)
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, KeyError, MemoryError):
        return data
    return out.getvalue()


def _footer(data: bytes, rng: random.Random) -> bytes:
    """The file with another count, length or mark in its footer."""
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8]
    places = [i for i in range(len(footer) - 1) if footer[i] == _WHOLE]
    if rng.random() < 0.2 or not places:
        wrong = struct.pack("<I", rng.choice((0, size - 1, size + 1, 2**31 - 1, 2**32 - 1)))
        return data[:-8] + rng.choice((wrong + b"PAR1", data[-8:-4] + b"PARE", wrong + b"PARE"))
    start = rng.choice(places) + 1
    end = start
    while end < len(footer) - 1 and footer[end] & 0x80:
        end += 1
    footer = footer[:start] + _varint(rng.choice(COUNTS)) + footer[end + 1 :]
    return data[: -8 - size] + footer + struct.pack("<I", len(footer)) + data[-4:]


def _varint(value: int) -> bytes:
    """A whole number as Thrift writes it: zigzag, seven bits a byte."""
    left, out = ((value << 1) ^ (value >> 63)) & (2**64 - 1), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _grown(found: pa.Table, rng: random.Random) -> tuple[pa.Table, dict[str, Any]]:
    """A table with a column that bursts or nests, and how it is written."""
    i, rows = rng.randrange(found.num_columns), found.num_rows
    name = found.column_names[i]
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: _nested(rows, rng.choice((1, 3, 60, 400)), rng),
        lambda: _word(rows, 2 ** rng.randint(10, 22)),
        lambda: pa.array([{"key": 1}] * rows, pa.map_(pa.string(), pa.int64())) if rows == 0 else _nested(rows, 2, rng),
        lambda: pa.array([[0] * 2 ** rng.randint(6, 14)] * rows, pa.list_(pa.int8())),
        lambda: pa.array(["x" * 2 ** rng.randint(10, 18)] * rows),
    )
    kind = rng.randrange(7)
    if kind < 3:
        return found.set_column(i, name, rng.choice(kinds)()), {}
    if kind == 3:  # every row again and again: a few bytes each
        many = found.take(pa.array(np.zeros(2 ** rng.randint(8, 16), np.int32)))
        return many.set_column(i, name, _word(len(many), 2 ** rng.randint(4, 17))), {}
    if kind == 4:
        return found, {"row_group_size": 1, "data_page_size": 1}
    if kind == 5:
        wide = {f"{name}{j}": found.column(i) for j in range(rng.choice((100, 1_000)))}
        return pa.table({**dict(zip(found.column_names, found.columns, strict=True)), **wide}), {}
    hostile = rng.choice((b"{", b"[" * 50_000, b'{"index_columns": ["' + OUTSIDE.encode() + b'"]}', b"\xff" * 9))
    return found.replace_schema_metadata({rng.choice((b"pandas", b"ARROW:schema", b"geo")): hostile}), {}


def _word(rows: int, length: int) -> pa.Array:
    """One long word, in every row: a dictionary of one entry."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))


def _nested(rows: int, depth: int, rng: random.Random) -> pa.Array:
    """Lists or structures in one another."""
    column = pa.array(np.zeros(rows))
    for _ in range(depth):
        if rng.random() < 0.5:
            column = pa.StructArray.from_arrays([column], names=["a"])
        else:
            column = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), column)
    return column


# -- safetensors -------------------------------------------------------------------------------------------------------


def tensor_bomb(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header lies about lengths, places, types or names."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
        names = [name for name in header if name != "__metadata__"]
        entries = [header[name] for name in names]
        entry, other = rng.choice(entries), rng.choice(entries)
        begin, end = entry["data_offsets"]
        places = ([0, 0], [-1, end], [begin, 2**63], [end, begin], other["data_offsets"], [begin, end - 1], [begin, -1])
        shapes = ([0, 2**60], [2**32, 2**32], [2**63], [-1], [], entry["shape"][::-1], [1] * 300, [0], ["1"])
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError):
        return data
    kind, lie = rng.randrange(8), b""
    if kind == 0:
        entry["data_offsets"] = rng.choice(places)
    elif kind == 1:
        entry["shape"] = rng.choice(shapes)
    elif kind == 2:
        entry["dtype"] = rng.choice(("F64", "F16", "BF16", "I8", "U64", "BOOL", "F8_E5M2", "C64", "F4", "", "f32"))
    elif kind == 3:
        header |= {f"{names[0]}.{i}": entry for i in range(rng.choice((10, 2_000)))}
    elif kind == 4:
        header["__metadata__"] = rng.choice(({"a": 1}, [], {"format": "x" * 100_000}, {"a": {"b": "c"}}, {"": OUTSIDE}))
    text = json.dumps(header).encode()
    if kind == 5:  # a name twice, at one place or at two
        text = text[:-1] + b", " + json.dumps({names[0]: other}).encode()[1:]
    elif kind == 6:
        text = rng.choice(
            (b"[" * 100_000, b'{"a":' * 50_000, b" " * 200_000, text + b" " * 100_000, b"\xef\xbb\xbf" + text)
        )
    elif kind == 7:
        lie = struct.pack(
            "<Q", rng.choice((0, len(text) - 1, len(text) + 1, 10**8, 10**8 + 1, 2**31, 2**63, 2**64 - 1))
        )
    return (lie or struct.pack("<Q", len(text))) + text + data[8 + size :]


# -- archives ----------------------------------------------------------------------------------------------------------


@functools.cache
def _squeezed(byte: bytes) -> bytes:
    return gzip.compress(byte * 2**24, mtime=0)


def gzip_bomb(data: bytes, rng: random.Random) -> bytes:
    """The file with up to 32 MiB of one character behind it, or in its place."""
    burst = _squeezed(rng.choice((b"\n", b"0", b",", b'"', b"\0"))) * rng.choice((1, 1, 2))
    return rng.choice((data + burst, burst, burst + data))


def zip_bomb(data: bytes, rng: random.Random) -> bytes:
    """An archive with very many members, with members under one name, or with one that is an archive itself."""
    members = members_of(data)
    if not members or sum(len(content) for _, content in members) > 2**20:
        return data
    name, content = rng.choice(members)
    more: list[tuple[str, bytes]] = rng.choice(
        (
            [(f"{i}.npy", content[:128]) for i in range(200)],
            [(name, data)],
            [(name, content[:128] + bytes(2**22))] * 3,
        )
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for member, found in rng.choice((members + more, more + members)):
            file.writestr(zipfile.ZipInfo(member), found, zipfile.ZIP_DEFLATED)
    return out.getvalue()
