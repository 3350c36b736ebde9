"""Whole folders as inputs: every reader meets links, pipes, devices and loops where it expects a file.

An input is a JSON object, name -> what lies there, so that one row of bytes describes what no single file can: links,
several names, named pipes, devices, sockets, permissions, files without a body, names that lead out, journals and
locks beside a ledger, and files that are exchanged or removed while they are read (`later`: at the n-th file that
Python opens). `unpack` makes the folder; it writes nothing outside it, whatever an input says.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
import sqlite3
import stat
import struct
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz import fuzz_records, fuzz_releases
from tests.fuzz.fuzz_cases import EXCHANGED, Reader
from tests.fuzz.fuzz_mutations import OUTSIDE, Mutation

from tacit import Ledger, hub
from tacit.errors import TacitError
from tacit.evaluation import audits
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM
from tacit.study.folder import RunFolder

INPUT = ".input"
"""The file that holds an input until it is unpacked."""
Node = dict[str, Any]
"""What lies under a name: a kind, and what that kind needs."""

BESIDE = ("-journal", "-wal", "-shm", ".lock", ".new", ".new-journal", ".partial", ".json", "~")
OUT = (OUTSIDE, f"@{OUTSIDE}", "../outside", "..", "/")
LINKS = (*OUT, ".", "/dev/zero", "/dev/full", "/proc/self/mem", "nowhere")
"""Where links lead; `@` stands for the absolute path."""
NAMES = ("...", "-rf", "a\nb", "\x1b[2J", "x" * 250, "\udcff", "9" * 30 + ".safetensors", "x.pkl", "con", " ")
SUPER = bytes.fromhex("d9d505f920a163d7")
"""With which a journal ends that names a super-journal."""


def pack(folder: Path, left_out: tuple[str, ...] = ("made", INPUT)) -> bytes:
    """The input that describes a folder of plain files and folders."""
    tree: dict[str, Node] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] not in left_out:
            body = {"kind": "folder"} if path.is_dir() else _file(path.read_bytes())
            tree[str(name)] = body | {"mode": stat.S_IMODE(path.stat().st_mode)}
    return json.dumps(tree).encode()


def _file(content: bytes) -> Node:
    return {"kind": "file", "data": base64.b64encode(content).decode()}


def _content(node: Node) -> bytes:
    return base64.b64decode(node.get("data", ""))


def unpack(folder: Path) -> None:
    """Make the folder that its `INPUT` describes; what cannot be made is left out."""
    _LATER.clear()
    EXCHANGED.clear()
    tree: Any = {}
    with suppress(ValueError, RecursionError):
        tree = json.loads((folder / INPUT).read_bytes())
    for path in folder.iterdir():
        shutil.rmtree(path) if not path.is_symlink() and path.is_dir() else path.unlink()
    root = os.path.realpath(folder)
    for name, node in tree.items() if isinstance(tree, dict) else ():
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
            path = Path(f"{root}{os.sep}{name}")
            parent = os.path.realpath(path.parent)
            if path.name in ("", ".", "..") or f"{parent}{os.sep}".startswith(f"{root}{os.sep}"):
                _make(path, node)
                if isinstance(node.get("later"), dict):
                    _LATER.append([int(node.get("after", 1)), path, node["later"]])


def _make(path: Path, node: Node) -> None:
    kind, to = node["kind"], node.get("to", "")
    there = os.path.abspath(path.parent / to[1:]) if to.startswith("@") else to
    if kind == "file":
        path.write_bytes(_content(node))
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(there)
    elif kind == "name":
        os.link(path.parent / there, path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    elif kind == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as end:
            end.bind(str(path))
    elif kind == "hollow":
        with path.open("xb") as file:
            file.truncate(node["size"])
    if "mode" in node and kind in ("file", "folder", "hollow"):
        path.chmod(node["mode"])


_LATER: list[list[Any]] = []
"""What is exchanged while it is read: [after so many opened files, path, what then lies there or None]."""


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _LATER or event not in ("open", "sqlite3.connect"):
        return
    due, _LATER[:] = [one for one in _LATER if one[0] <= 1], [[n - 1, *rest] for n, *rest in _LATER if n > 1]
    waiting = _LATER[:]
    _LATER.clear()  # what follows opens files itself
    for _, path, node in due:
        EXCHANGED.add(os.path.join(os.path.realpath(path.parent), path.name))
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            if node.get("kind") == "file":
                other = path.with_name(f".{path.name}.other")
                other.write_bytes(_content(node))
                if not path.is_dir():
                    os.replace(other, path)
                other.unlink(missing_ok=True)
            elif node.get("kind") == "gone":
                path.unlink()
    _LATER[:] = waiting


def tricks(content: Mutation, main: str, named: tuple[str, ...] = ()) -> Mutation:
    """A mutation of folders: one to three names get another node.

    Args:
        content: how the content of a file changes.
        main: the file that is hit most often.
        named: the files that people name themselves. These, and the folder of `main`, may be links, which are followed
            as by any program; here they lead nowhere, in a circle or to a device.
    """

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            tree = json.loads(data)
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                _trick(tree, content, main, rng)
            for name in {*named, main.partition("/")[0]} & tree.keys():
                leads = tree[name].get("to", "")
                if not (leads.startswith(("/dev/", "/proc/")) or leads == Path(name).name):
                    tree[name] |= {"to": "nowhere"}
            return json.dumps(tree).encode()
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError, IndexError):
            return data

    return mutate


def _trick(tree: dict[str, Node], content: Mutation, main: str, rng: random.Random) -> None:
    names = [name for name, node in tree.items() if node["kind"] != "folder"] or [main]
    name = rng.choice((main, rng.choice(names), rng.choice(list(tree) or [main])))
    folder, _, leaf = name.rpartition("/")
    above = f"{folder}/" if folder else ""
    if rng.random() < 0.3:
        name = above + rng.choice((*(leaf + more for more in BESIDE), f".{leaf}.partial", *NAMES))
    node = tree.get(name, _file(rng.randbytes(rng.choice((0, 1, 82, 600)))))
    kind = rng.randrange(13)
    if kind < 3:
        to = rng.choice((*LINKS, leaf, rng.choice(names)))
        tree[name] = {"kind": "link", "to": "../" * above.count("/") + to if to.startswith("..") else to}
    elif kind == 3:
        tree[name] = {"kind": "name", "to": rng.choice(("../" * above.count("/") + OUTSIDE, rng.choice(names)))}
    elif kind == 4:
        tree[name] = {"kind": rng.choice(("pipe", "device", "socket", "folder"))}
    elif kind == 5:
        tree[name] = {"kind": "hollow", "size": 2 ** rng.randint(0, 45)}
    elif kind == 6:
        tree[name] = node | {"mode": rng.choice((0, 0o444, 0o600, 0o644, 0o666, 0o777, 0o4777, 0o1000))}
    elif kind == 7:
        tree.pop(name, None)
    elif kind == 8:
        tree[name] = _file(_content(tree.get(rng.choice(names), node)))
    elif kind == 9:
        tree[name] = node | {"later": rng.choice((_file(content(_content(node), rng)), {"kind": "gone"}))}
        tree[name]["after"] = rng.randint(1, 6)
    elif kind == 10:
        tree[name] = _file(_journal(_content(node), rng))
    else:
        tree[name] = node | _file(content(_content(node), rng))


def _journal(data: bytes, rng: random.Random) -> bytes:
    """A roll-back journal with a record of a super-journal, with false counts, or cut."""
    victim = rng.choice((OUTSIDE, os.path.abspath(OUTSIDE), "ledger", "/dev/zero", "")).encode()
    record = struct.pack(">I", 2**30 // 4096 + 1) + victim + struct.pack(">II", len(victim), sum(victim)) + SUPER
    numbers = [rng.choice((0, 1, 2**16, 2**31, 2**32 - 1)) for _ in range(5)]
    head = SUPER + struct.pack(">5I", *numbers)
    spoiled = data[:8] + struct.pack(">5I", *numbers) + data[28:]
    return rng.choice(
        (data + record, record, head + data[28:], spoiled, data[: rng.randrange(len(data) + 1)], data + SUPER)
    )


# -- readers -----------------------------------------------------------------------------------------------------------


def folder_of(reader: Reader, *named: str) -> Reader:
    """The reader whose input is its whole folder; `named` as in `tricks`."""

    def seeds(folder: Path) -> list[bytes]:
        content = reader.seeds(folder)[0]
        reader.prepare(folder, content)
        return [pack(folder)]

    changed = replace(reader, name=f"{reader.name}: folder", file=INPUT, seeds=seeds, mend=unpack)
    return replace(changed, mutate=tricks(reader.mutate, reader.file, named))


def _ledgers(folder: Path) -> list[bytes]:
    """A ledger alone, and one beside the journal of a transaction that a crash left half-done."""
    path = folder / "ledger"
    path.write_bytes(fuzz_releases.ledgers(folder)[0])
    out = [pack(folder)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = TRUNCATE", "PRAGMA cache_size = 1", "BEGIN IMMEDIATE"):
            connection.execute(statement)  # so small that pages reach the file before the commit
        (last,) = connection.execute("SELECT max(seq) FROM entries").fetchone()
        for seq in range(last + 1, last + 20):
            connection.execute("INSERT INTO entries VALUES (?, 't', 'note', ?, 'h')", (seq, "x" * 3_000))
        out.append(pack(folder))
        connection.execute("ROLLBACK")
    return out


def _read_checkpoint(folder: Path) -> object:
    """Load it, and go on: the next one is written over it."""
    with Ledger(folder / "ledger", fuzz_releases.UNIT, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        found = checkpoint.load(folder / "state", plan_id=fuzz_releases.PLAN_ID, ledger=ledger)
        checkpoint.save(folder / "state", found, plan_id=fuzz_releases.PLAN_ID, ledger=ledger)
    return found


def _runs(folder: Path) -> list[bytes]:
    """The folder of a finished run, with a release and its papers."""
    (folder / "made").mkdir()
    release = fuzz_releases.markov(folder / "made")
    run = RunFolder.begin(folder / "run", "imitate", {"epsilon": 4.0}, resume=None)
    hub.save(release, run.resolve("simulator"))
    release.certificate.save(run.resolve("certificate.json"))
    audits.save(run.resolve(audits.FILE), ())
    return [pack(folder)]


def _read_run(folder: Path) -> object:
    """Everything that a report or an audit of a run reads, and what they write."""
    run = RunFolder(folder / "run")
    found = run.read()
    run.require_same_settings("imitate", {"epsilon": 4.0})
    for part in (_papers, lambda run: hub.load(run.resolve("simulator")).value):
        with suppress(TacitError):  # each of them refuses for itself
            part(run)
    with suppress(OSError):  # a folder in the place of a file
        for name in ("certificate.md", "report.html"):
            run.write(name, "text")
        audits.save(run.resolve(audits.FILE), ())
    return found


def _papers(run: RunFolder) -> object:
    certificate = Certificate.load(run.resolve("certificate.json"))
    return audits.load_for_certificate(run.resolve("certificate.json"), certificate.digest)


_OWN_LEDGER = ("ledger", "ledger.lock", "ledger-journal", "ledger.new", "ledger.new-journal")
_OWN_REGISTER = ("register", "register.lock", "register.new", "key", "key.new")
_ALONE = {reader.name: reader for reader in (*fuzz_records.READERS, *fuzz_releases.READERS)}
_LEDGER, _CHECKPOINT, _RUN = (_ALONE[name] for name in ("ledger", "checkpoint", "run"))
_FOLDERS = (
    *("minari", "open bandit", "native column", "plt"),
    *("release with certificate", "experts in safetensors", "experts in onnx"),
)
_NAMED = (
    *("csv", "parquet", "npz", "d4rl", "points", "cells", "certificate", "generated days", "public bounds", "grid"),
)

READERS = (
    *(folder_of(_ALONE[name]) for name in _FOLDERS),
    *(folder_of(_ALONE[name], _ALONE[name].file) for name in _NAMED),
    replace(folder_of(replace(_LEDGER, own=_OWN_LEDGER), "ledger"), seeds=_ledgers),
    folder_of(replace(_ALONE["register"], own=_OWN_REGISTER), "own/register", "keys/key", "keys"),
    folder_of(replace(_CHECKPOINT, read=_read_checkpoint, own=(*_OWN_LEDGER, "state", "state.partial")), "ledger"),
    Reader(
        *("run: folder", INPUT, _runs, _read_run, tricks(_RUN.mutate, "run/run.json"), unpack),
        own=("certificate.md", "report.html", audits.FILE),
    ),
)
sys.addaudithook(_on_event)
