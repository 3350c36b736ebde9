"""Plain files, read whole and written whole: what may lie in a folder that somebody else made is not trusted.

A reader that opens whatever has the right name waits for ever at a named pipe, never ends at a device, and fills the
memory from a sparse file. A writer that opens a known name follows the link that somebody left there. Parsers in other
libraries open paths themselves, so that their callers ask `plain` first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tacit.errors import FileError

MAX_BYTES = 64 * 2**20
"""Bytes that a file of settings, grids or findings may have."""
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def is_plain_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is a plain file, be it behind a link; also False where nobody may look."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # a name with a zero byte
        return False


def is_sparse_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file takes hardly any space for its length, as a text or a model does on no file system."""
    return _is_sparse(os.stat(path))


def _is_sparse(status: os.stat_result) -> bool:
    return status.st_size > 2**16 + 1_100 * 512 * getattr(status, "st_blocks", status.st_size)


def has_single_link(status: os.stat_result) -> bool:
    """Whether this status, by `os.lstat` or `os.fstat`, is of a plain file with one name, no link to another one."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def is_inside(folder: Path, name: str) -> bool:
    """Whether a name leads to something below the folder, not through a link to elsewhere or `..`."""
    return Path(os.path.realpath(folder / name)).is_relative_to(os.path.realpath(folder))


def read(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a plain file.

    Raises:
        OSError: it is missing, no plain file, hollow, growing, or has more than `most` bytes.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "It is no plain file", str(path))
        content = b"" if _is_sparse(status) else file.read(min(status.st_size, max_bytes) + 1)
        if _is_sparse(status) or len(content) > min(status.st_size, max_bytes):
            raise OSError(errno.EFBIG, f"It is hollow, grows, or has more than {max_bytes:,} bytes", str(path))
    return content


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The same of a text in UTF-8.

    Raises:
        OSError: as for `read`.  UnicodeDecodeError: it is no such text.
    """
    return read(path, max_bytes).decode("utf-8")


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where a system can.

    Raises:
        OSError: the disk fails.
    """
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_private_folder(path: Path) -> Path:
    """A folder that its owner alone may enter: made with mode 0700, or given it.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    if stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)
    return path


def write(path: Path, content: str, *, mode: int = 0o644) -> None:
    """Write a text, all or nothing: to a new file in the same folder, synced, then renamed.

    Args:
        path: the file; a link there is replaced, not followed.
        content: UTF-8 is written.
        mode: the file's permissions.

    Raises:
        OSError: the folder cannot be written to.
    """
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def require_free(path: Path, what: str = "file") -> None:
    """Refuse to write over something, be it a link to nowhere.

    Args:
        path: where a file is to be written, or a folder.
        what: "file" or "folder".

    Raises:
        FileError: there is something of this name.
    """
    if os.path.lexists(path):
        expected = "a name that is still free"
        remedy = f"choose another {'name' if what == 'file' else what} or remove this one"
        raise FileError(f"the {what} exists already", where=str(path), expected=expected, remedy=remedy)


@contextlib.contextmanager
def create_file(path: Path) -> Iterator[Path]:
    """The name to write a new file under: it appears under its own when it is whole, or not at all.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    require_free(path)
    try:
        partial.unlink(missing_ok=True)
        yield partial
        os.link(partial, path)
    except OSError as error:
        expected, remedy = "a writable folder with free space", "free some space or choose another folder"
        raise FileError("the file could not be written", where=str(path), expected=expected, remedy=remedy) from error
    finally:
        partial.unlink(missing_ok=True)
