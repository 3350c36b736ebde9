"""Hostile files by the rules of their own formats: one file in, one changed file out.

Each mutation keeps what a parser looks at first (containers, checksums, chains of hashes), so that the change reaches
the code behind it. A file that is no longer of its format comes back as it is; plain changes of bytes are libFuzzer's.
`OUTSIDE` is a file that no reader has any business with: paths to it are planted wherever a format can hold one.
"""

from __future__ import annotations

import hmac
import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np
import onnx
import pyarrow as pa
from onnx import TensorProto
from pyarrow import parquet

from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.ledger.state import GENESIS, canonical_json, link

Mutation = Callable[[bytes, random.Random], bytes]

OUTSIDE = "../outside/secret"
NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    255,
    2**31 - 1,
    2**31,
    2**40,
    2**63 - 1,
    2**63,
    10**30,
    10**400,
    -(10**18),
    1e-320,
    1e308,
    0.5,
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "inf", "-inf", "nan", "x" * 5_000, "\ud800", "\0", OUTSIDE, "/etc/passwd", "kind"),
    *([], {}, [[]], [None], {"": None}, [0] * 300, ["a", 1], {"kind": "box"}, [[1, 2], [3]]),
    *NUMBERS,
)
CELLS = (
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "0x10",
        "1_000",
        "True",
        "None",
        '"',
        '"a',
        "a,b",
        "a\nb",
        "\0",
        "é",
        "\ud7ff",
    ),
    *(
        "9" * 400,
        "-0",
        "1e-400",
        "2020-13-45",
        "2020-01-01T00:00:00+99:99",
        "9999-12-31 23:59:59",
        "1/2",
        "NA",
        OUTSIDE,
    ),
)


def one_of(*mutations: Mutation) -> Mutation:
    """A random one of several, up to three times in a row."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        for _ in range(rng.randint(1, 3)):
            data = rng.choice(mutations)(data, rng)
        return data

    return mutate


def spans(data: bytes, rng: random.Random) -> bytes:
    """Bytes overwritten, cut, repeated or put elsewhere."""
    if not data:
        return data
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    b = min(b, a + 2 ** rng.randint(0, 12))
    few = bytes(rng.choice((0, 255, 127, 128, rng.randrange(256))) for _ in range(min(b - a, 16)))
    return rng.choice((data[:a] + few + data[a + len(few) :], data[:a] + data[b:], data[:b] + data[a:], data[:a]))


def tree(value: Any, rng: random.Random) -> Any:
    """A JSON value with one node exchanged, removed, renamed, doubled or wrapped."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.75:
            return {**value, name: tree(value[name], rng)}
        rest = {key: item for key, item in value.items() if key != name}
        return rest if kind < 0.9 else {**rest, rng.choice(("kind", "", *value)): value[name]}
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = rng.randrange(len(value))
        change = rng.choice(([tree(value[i], rng)], [tree(value[i], rng)], [], [value[i]] * 2))
        return [*value[:i], *change, *value[i + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.6:
        return rng.choice((*NUMBERS, -value, value + 1, float(value) if abs(value) < 2**1000 else 0.0))
    return rng.choice((*VALUES, [value], {"a": value}))


def json_text(data: bytes, rng: random.Random) -> bytes:
    """A JSON file with a changed tree, or with what only its text can hold."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if rng.random() < 0.9:
        return _dump(tree(value, rng))
    text = json.dumps(value)
    hostile = ("NaN", "Infinity", "1e999", "[" * 100_000, '{"a":' * 5_000, "9" * 5_000, '{"a":1,"a":2}', '"\\ud800"')
    at = rng.randrange(len(text))
    return (
        (text[:at] + rng.choice(hostile) + text[at:]).encode() if rng.random() < 0.3 else rng.choice(hostile).encode()
    )


def certificate(data: bytes, rng: random.Random) -> bytes:
    """A certificate with a changed tree, whose identifier of the plan and digest fit it again, mostly."""
    try:
        value = tree(json.loads(data), rng)
        if rng.random() < 0.5:
            value = tree(value, rng)
        if rng.random() < 0.8:
            own = certificate_json.plan_id(value["method"], value["plan"], value["parts"])
            for row in value["releases"]:
                row["plan_id"] = own if row["plan_id"] == value["plan_id"] else row["plan_id"]
            value["plan_id"] = own
        value["digest"] = certificate_json.digest(value)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError, OverflowError):
        return json_text(data, rng)
    return _dump(value)


def table(data: bytes, rng: random.Random) -> bytes:
    """A text table with a changed cell, row, column or separator."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    i = rng.randrange(len(lines))
    cells = lines[i].split(",")
    j = rng.randrange(len(cells))
    kind = rng.randrange(6)
    if kind < 3:
        cells[j] = rng.choice((*CELLS, str(rng.choice(NUMBERS)) if rng.random() < 0.9 else "x" * 70_000))
        lines[i] = ",".join(cells)
    elif kind == 3:
        lines[i] = ",".join(rng.choice((cells[:j], [*cells, cells[j]], cells[::-1], [])))
    elif kind == 4:
        lines = rng.choice((lines[:i], lines + lines[i:], lines[:i] + lines[i + 1 :], [lines[0], *lines]))
    else:
        return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\n", b"\0")), rng.randint(1, 5))
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def npy(data: bytes, rng: random.Random) -> bytes:
    """An .npy file with another header: shape, dtype, order, or what a header must not hold."""
    if data[:6] != b"\x93NUMPY" or len(data) < 10:
        return data
    end = 10 + int.from_bytes(data[8:10], "little")
    descr = rng.choice(
        ("'<f4'", "'<i8'", "'|O'", "'<U9'", "'|b1'", "'<c16'", "'<M8[s]'", "[('a', '<f4'), ('b', '|O')]")
    )
    shape = rng.choice(
        ("()", "(2,)", "(5, 2)", f"({2**40},)", f"({2**62}, 8)", "(-1,)", "(0,)", "(5, 0)", "(1e9,)", "{}")
    )
    header = f"{{'descr': {descr}, 'fortran_order': {rng.choice(('True', 'False', '0'))}, 'shape': {shape}, }}"
    if rng.random() < 0.2:
        header = rng.choice(
            ("__import__('os').getcwd()", "(" * 5_000, "{'descr': '<f4'}", "[]", "{" + "1:1," * 2_000 + "}")
        )
    padded = header.encode().ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    return data[:8] + struct.pack("<H", len(padded)) + padded + data[end:]


def members_of(data: bytes) -> list[tuple[str, bytes]]:
    """Names and contents of an archive's members; none where it is damaged already."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return [(info.filename, file.read(info)) for info in file.infolist()]
    except Exception:  # whatever a decompressor says of it
        return []


def archive(data: bytes, rng: random.Random) -> bytes:
    """An .npz file with a changed, renamed, doubled, missing or bursting member."""
    members = members_of(data)
    if not members:
        return data
    i = rng.randrange(len(members))
    name, content = members[i]
    kind = rng.randrange(7)
    if kind < 4:
        members[i] = (name, npy(content, rng))
    elif kind == 4:
        members[i] = (rng.choice((f"../{name}", OUTSIDE, "", name.upper(), "a" * 300)), content)
    elif kind == 5:
        members = rng.choice(([*members, members[i]], members[:i] + members[i + 1 :], []))
    else:
        members[i] = (name, content[:128] + b"\0" * 2 ** rng.randint(10, 23))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))) as file:
        for member, found in members:
            file.writestr(zipfile.ZipInfo(member), found, file.compression)
    return out.getvalue()


def hdf5(data: bytes, rng: random.Random) -> bytes:
    """An HDF5 file with changed datasets, attributes and links."""
    image = io.BytesIO(data)
    try:
        with h5py.File(image, "r+") as file:
            names: list[str] = []
            file.visit(names.append)
            name = rng.choice(names or ["rewards"])
            group, leaf = file[name].parent, name.rpartition("/")[2]
            if rng.random() < 0.25:
                _attribute(file[name], rng)
            else:
                del group[leaf]
                _node(group, leaf, rng)
    except Exception:  # whatever the library says of a file that is damaged already
        return data
    return image.getvalue()


def _attribute(node: Any, rng: random.Random) -> None:
    name = rng.choice([*node.attrs, "id", "total_steps", "seed", "user"])
    value = rng.choice((*(v for v in VALUES if isinstance(v, str | int) and abs(hash(v)) < 2**62), np.zeros((3, 3))))
    node.attrs[name] = value.replace("\0", "").replace("\ud800", "") if isinstance(value, str) else value


def _node(group: Any, leaf: str, rng: random.Random) -> None:
    """One hostile thing in the place of a dataset or a group."""
    kind = rng.randrange(14)
    if kind == 0:
        group[leaf] = h5py.ExternalLink(f"{OUTSIDE}.h5", f"/{rng.choice((leaf, 'rewards', '/'))}")
    elif kind == 1:
        group[leaf] = h5py.SoftLink(rng.choice((group.name, f"{group.name}/{leaf}", "/nowhere")))
    elif kind == 2:
        group.create_dataset(leaf, (2 ** rng.randint(20, 50),), rng.choice(("f4", "i1", "f8")), chunks=(4_096,))
    elif kind == 3:
        group.create_dataset(leaf, (2 ** rng.randint(20, 34),), "f4")  # never written: declared, and takes no space
    elif kind == 4:
        layout = h5py.VirtualLayout((12,), "f4")
        layout[:] = h5py.VirtualSource(f"{OUTSIDE}.h5", "rewards", (12,))
        group.create_virtual_dataset(leaf, layout)
    elif kind == 5:
        group.create_dataset(leaf, (12,), "f4", external=[(f"{OUTSIDE}.raw", 0, 48)])
    elif kind == 6:
        group.create_dataset(leaf, data=rng.choice((["a", "b"], "text", b"x" * 100)))
    elif kind == 7:
        group.create_dataset(leaf, data=np.zeros(12, dtype=[("a", "f4"), ("b", "i2")]))
    elif kind == 8:
        group.create_dataset(
            leaf, data=np.zeros(2 ** rng.randint(10, 23), "f4"), compression="gzip", compression_opts=1
        )
    elif kind == 9:
        group.create_dataset(leaf, (12,), h5py.vlen_dtype(np.float32))
    elif kind == 10:
        group.create_group(leaf)
    elif kind == 11:
        group.create_dataset(leaf, data=h5py.Empty("f4"))
    elif kind == 12:
        shape = rng.choice(((), (0,), (1,), (11,), (12, 3), (13, 2), (12, 1, 2)))
        group.create_dataset(leaf, data=np.full(shape, rng.choice((np.nan, np.inf, -1e300, 2.5, 0.0))))
    # kind 13: nothing is left there


def table_of(data: bytes) -> pa.Table:
    """The table in a Parquet file, read without threads, which a process that ends would wait for."""
    with parquet.ParquetFile(io.BytesIO(data)) as file:
        return file.read(use_threads=False)


def parquet_file(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file with a column of another kind, name, nesting or length, or with rows that take no space."""
    try:
        found = table_of(data)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        return data
    if not found.num_columns or found.num_rows > 1_000:
        return data
    i, rows = rng.randrange(found.num_columns), found.num_rows
    name, column = found.column_names[i], found.column(i)
    fillers: tuple[Callable[[], Any], ...] = (
        lambda: pa.nulls(rows),
        lambda: pa.array(["a"] * rows),
        lambda: pa.array([b"\xff"] * rows),
        lambda: pa.array([[1.0, 2.0]] * rows),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([2**63] * rows, pa.uint64()),
        lambda: pa.array([None, *[1] * rows][:rows], pa.int64()),
        lambda: pa.array(np.full(rows, np.nan)),
        lambda: pa.array([0] * rows, pa.timestamp("ns", "UTC")),
        lambda: pa.array([1.0] * rows, pa.float16()) if rows == 0 else pa.array(np.ones(rows, np.float16)),
        lambda: pa.array(["a"] * rows).dictionary_encode(),
        lambda: pa.array([1] * rows, pa.decimal128(30, 2)),
        lambda: column,
    )
    try:
        changed = found.set_column(i, rng.choice((name, name, name, "unit", "", OUTSIDE)), rng.choice(fillers)())
        kind = rng.randrange(6)
        if kind == 0:
            changed = changed.drop_columns(name) if name in changed.column_names else changed
        elif kind == 1:
            changed = pa.concat_tables([changed.slice(0, 1)] * 2 ** rng.randint(10, 17)).combine_chunks()
        elif kind == 2:
            changed = changed.slice(0, rng.choice((0, 1)))
        out = io.BytesIO()
        parquet.write_table(changed, out, compression=rng.choice(("none", "zstd", "gzip", "snappy")))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError):
        return data
    return out.getvalue()


def safetensors(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file with a changed header."""
    if len(data) < 8:
        return data
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
        if isinstance(header, dict) and rng.random() < 0.3 and (kept := [n for n in header if n != "__metadata__"]):
            rest = {key: item for key, item in header.items() if key != (name := rng.choice(kept))}
            header = {**rest, rng.choice(("", "theta", f"{name}.weight", OUTSIDE, *kept)): header[name]}
        else:
            header = tree(header, rng)
        for entry in header.values() if rng.random() < 0.3 else ():
            entry["dtype"] = rng.choice(("F64", "F16", "BF16", "I64", "BOOL", "U8", "F8_E4M3"))
    except (ValueError, RecursionError, AttributeError, TypeError):
        return data
    text = _dump(header)
    return struct.pack("<Q", rng.choice((len(text),) * 9 + (2**63,))) + text + data[8 + size :]


def onnx_graph(data: bytes, rng: random.Random) -> bytes:
    """An ONNX graph with a changed node, constant or input."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        graph = model.graph
        node, tensor = rng.choice(graph.node), rng.choice(graph.initializer)
    except Exception:  # protobuf's own error has no public name, and a graph may be empty
        return data
    kind = rng.randrange(9)
    if kind == 0:
        node.op_type = rng.choice(("Relu", "Gemm", "MatMul", "Add", "Loop", "Constant", "Identity", "Clip", "Sub", ""))
    elif kind == 1:
        node.input[:] = rng.choice(([], [tensor.name], [*node.input, tensor.name], list(node.input)[::-1], ["", ""]))
    elif kind == 2:
        node.output[:] = rng.choice(([], list(rng.choice(graph.node).output), ["a", "b"]))
    elif kind == 3:
        tensor.dims[:] = rng.choice(([], [0], [2**31, 2**31], [-1], [2**40], [1], [4, 2]))
    elif kind == 4:
        tensor.data_type = rng.choice((TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT16, 99, 0))
    elif kind == 5:
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", f"{OUTSIDE}.raw"
        tensor.ClearField("raw_data")
    elif kind == 6:
        graph.node.append(node)
    elif kind == 7:
        del graph.node[:]
    else:
        graph.input.append(graph.input[0]) if graph.input else graph.initializer.append(tensor)
    return bytes(model.SerializeToString())


def ledger(data: bytes, rng: random.Random) -> bytes:
    """A ledger's SQLite file with changed entries, chained again, or with other tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(data)
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY rowid").fetchall()
        for kind, name, _ in schema:
            if kind == "trigger":
                connection.execute(f'DROP TRIGGER "{name}"')
        if rng.random() < 0.85:
            _entries(connection, rng)
        else:
            connection.execute(
                rng.choice(
                    (
                        "DROP TABLE entries",
                        "DELETE FROM entries",
                        "ALTER TABLE entries ADD COLUMN more",
                        "CREATE VIEW other AS SELECT 1",
                        "UPDATE entries SET payload = zeroblob(9)",
                        "UPDATE entries SET seq = seq + 5000000000",
                        "UPDATE entries SET time = NULL",
                    )
                )
            )
        for kind, _, sql in schema if rng.random() < 0.95 else ():
            if kind == "trigger":
                connection.execute(sql)
        return bytes(connection.serialize())
    except (sqlite3.Error, ValueError, TypeError, UnicodeError, OverflowError, MemoryError):  # of an empty file
        return data
    finally:
        connection.close()


def _entries(connection: sqlite3.Connection, rng: random.Random) -> None:
    rows = connection.execute("SELECT seq, time, kind, payload FROM entries ORDER BY seq").fetchall()
    i, kinds = rng.randrange(len(rows)), ("create", "reserve", "claim", "cancel", "void", "note", "gift", "")
    kind = rng.randrange(8)
    if kind == 0:
        rows = rng.choice((rows[:i] + rows[i + 1 :], [*rows, rows[i]], rows[::-1]))
    elif kind == 1:
        rows[i] = (rows[i][0], rng.choice(("", "yesterday", rows[i][1])), rng.choice(kinds), rows[i][3])
    else:
        rows[i] = (*rows[i][:3], canonical_json(tree(json.loads(rows[i][3]), rng)))
    connection.execute("DELETE FROM entries")
    head = GENESIS
    for seq, (_, time, what, payload) in enumerate(rows, start=1):
        head = link(head, seq, time, what, payload if isinstance(json.loads(payload), dict) else "{}")
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (seq, time, what, payload, head))


def register(secret: bytes) -> Mutation:
    """Lines of a register changed by somebody who has its key, with the codes that belong to them."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            values = [json.loads(line.rpartition(" ")[0]) for line in data.decode("ascii").splitlines()]
            i = rng.randrange(len(values))
            values[i] = tree(values[i], rng)
            return lines(values, secret)
        except (ValueError, TypeError, RecursionError):
            return data

    return mutate


def lines(values: Sequence[Any], secret: bytes) -> bytes:
    """The file of a register of these entries."""
    key, head, out = hmac.digest(secret, b"lines", "sha256"), GENESIS, ""
    for value in values:
        text = canonical_json(value)
        head = hmac.digest(key, f"{head}\n{text}".encode(), "sha256").hex()
        out += f"{text} {head}\n"
    return out.encode("ascii")


def _dump(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError, UnicodeError):
        return b"null"
