"""HDF5 files of other people's: opened where all that they hold lies in them, and is no more than they can hold."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from h5py._hl.base import phil

from tacit.data.sources.tables import is_disproportionate
from tacit.data.store import Array
from tacit.errors import FileError
from tacit.plain_files import is_plain_file

if sys.platform != "win32":
    import resource

_SECONDS, _BYTES_A_SECOND = 1.0, 1e6
"""Of processor time for a look at a file: a file of the smallest groups takes a quarter of it."""


@contextlib.contextmanager
def open_hdf5(path: Path, damaged: FileError) -> Iterator[h5py.File]:
    """The file, for reading."""
    if not is_plain_file(path) or (sys.platform != "win32" and not _is_readable(path)):
        raise damaged
    file = None
    with contextlib.suppress(Exception):  # whatever the library says of a file that is none
        file = h5py.File(path, "r")
    if file is None:
        raise damaged
    with file:
        _require_self_contained(file, path, damaged)
        yield file


def _is_readable(path: Path) -> bool:
    """Whether the library comes to an end with the file: on some damaged ones it never does, and cannot be stopped."""
    # So a forked child looks through it first, with processor time for so many bytes, and no more.
    with phil, warnings.catch_warnings():  # h5py's lock, so that no other thread holds it in the child
        warnings.simplefilter("ignore")  # of threads that the child does not have, and does not need
        pid = os.fork()
        if pid == 0:
            try:
                _scan(path)
            finally:
                os._exit(0)  # what is wrong with it the parent finds, and says
    return not os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def _scan(path: Path) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + _SECONDS + path.stat().st_size / _BYTES_A_SECOND)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    with contextlib.suppress(Exception), h5py.File(path, "r") as file:
        deque(_problems(file), maxlen=0)


def _require_self_contained(file: h5py.File, path: Path, damaged: FileError) -> None:
    """Look at every link and every declaration; nothing is followed or read before."""
    problem = None
    try:
        problem = next(_problems(file), None)
    except Exception:
        raise damaged from None
    if problem is not None:
        expected, remedy = "a file that holds all of its records", "copy the records into one file, and write it again"
        raise FileError(f"{problem[0]!r} {problem[1]}", where=path.name, expected=expected, remedy=remedy)


def _problems(file: h5py.File) -> Iterator[tuple[str, str]]:
    visited, pending = set(), [file["/"]]
    while pending:
        group = pending.pop()
        if (place := h5py.h5o.get_info(group.id).addr) in visited:
            continue
        visited.add(place)
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                yield name, "lies in another file"
            elif isinstance(link, h5py.HardLink):
                node = group[name]
                if isinstance(node, h5py.Group):
                    pending.append(node)
                elif isinstance(node, h5py.Dataset):
                    if node.is_virtual or node.external:
                        yield name, "lies in another file"
                    if is_disproportionate(node.nbytes, node.id.get_storage_size()):
                        yield name, "declares far more than the file holds"


def decode_texts(values: Array) -> Array:
    """Ids [n] as they were meant: HDF5 has its texts as bytes. What is no UTF-8 stays bytes."""
    if values.dtype.kind not in "SO":
        return values
    made = np.empty(len(values), dtype=object)
    for row, cell in enumerate(values.tolist()):
        made[row] = cell
        if isinstance(cell, bytes):
            with contextlib.suppress(UnicodeDecodeError):
                made[row] = cell.decode("utf-8")
    return made
