"""HDF5 files of other people's: opened where all that they hold lies in them, and is no more than they can hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import h5py

from tacit.data.tables import disproportionate
from tacit.errors import FileError


@contextlib.contextmanager
def opened(path: Path, damaged: FileError) -> Iterator[h5py.File]:
    """The file, for reading.

    Args:
        path: the file.
        damaged: what to raise if it is missing or damaged.

    Raises:
        FileError: `damaged`, or the file leads to another one or declares far more than it holds.
    """
    file = None
    with contextlib.suppress(Exception):  # whatever the library says of a file that is none
        file = h5py.File(path, "r")
    if file is None:
        raise damaged
    with file:
        _require_own(file, path, damaged)
        yield file


def _require_own(file: h5py.File, path: Path, damaged: FileError) -> None:
    """Look at every link and every declaration; nothing is followed or read before."""
    problem = None
    try:
        for name, what in _problems(file):
            problem = name, what
            break
    except Exception:
        raise damaged from None
    if problem is not None:
        raise FileError(
            f"{problem[0]!r} {problem[1]}",
            where=path.name,
            expected="a file that holds all of its records",
            remedy="copy the records into one file, and write it again",
        )


def _problems(file: h5py.File) -> Iterator[tuple[str, str]]:
    seen, waiting = set(), [file["/"]]
    while waiting:
        group = waiting.pop()
        if (place := h5py.h5o.get_info(group.id).addr) in seen:
            continue
        seen.add(place)
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                yield name, "lies in another file"
            elif isinstance(link, h5py.HardLink):
                node = group[name]
                if isinstance(node, h5py.Group):
                    waiting.append(node)
                elif isinstance(node, h5py.Dataset):
                    if node.is_virtual or node.external:
                        yield name, "lies in another file"
                    if disproportionate(node.nbytes, node.id.get_storage_size()):
                        yield name, "declares far more than the file holds"
