"""The command line: `tacit COMMAND --help` explains every command."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["main"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""

UNREAD = 1
"""Exit code of output that nobody reads, as Python's documentation recommends."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as `tacit.cli.app.main` says; nothing is loaded before.

    Args:
        words: the command line; None takes that of the process.
    """
    choose_kernels(Path("/proc/cpuinfo"))
    keep_freed_memory()
    try:
        from tacit.cli import app

        code = app.main(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("tacit: Interrupted.", file=sys.stderr, flush=True)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        if not _drop_unread():
            print("tacit: A process that worked for this command has ended; try again.", file=sys.stderr, flush=True)
        return UNREAD


def choose_kernels(processor: Path) -> None:
    """Let OpenBLAS use AVX-512 on AMD's processors, where it does not by itself and takes twice as long.

    Nothing is changed where somebody chose. `import tacit` never does this: a program's kernels are its own affair.

    Args:
        processor: Linux's page about it.
    """
    with suppress(OSError), processor.open(encoding="utf-8") as page:
        first = page.read(4096)  # the first core; a server's whole page takes long to make
        if "AuthenticAMD" in first and {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(first.split()):
            os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")


def keep_freed_memory() -> None:
    """Let glibc keep what large arrays leave: giving pages back and taking them again is a sixth of some commands."""
    with suppress(AttributeError, OSError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_MMAP_THRESHOLD, 2**25)


def _drop_unread() -> bool:
    """Whether there is output whose reader has gone; it goes to the null device, lest the last flush fail."""
    unread = [descriptor for descriptor in (1, 2) if _is_unread(descriptor)]
    for descriptor in unread:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    return bool(unread)


def _is_unread(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(state & select.POLLERR for _, state in poll.poll(0))
