"""What others than its owner may read of a folder."""

from __future__ import annotations

from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """Names of the folder itself and of all in it whose mode lets a group or the world in."""
    return sorted(str(path) for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077)
