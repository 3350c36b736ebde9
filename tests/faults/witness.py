"""The file to which a child that will be killed writes what left the vault.

A kill can tear even a small write, where it crosses a page of the file: the name or step was not told in full.
"""

from __future__ import annotations

import os
from pathlib import Path


def whole_lines(path: Path) -> list[str]:
    """The lines of the file without a torn last one; none of a file that is not there."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def open_witness(path: Path) -> int:
    """The file, made if it is not there, opened for appending behind its last whole line."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.truncate(handle, sum(len(line) + 1 for line in whole_lines(path)))
    return handle
