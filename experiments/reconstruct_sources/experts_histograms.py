from __future__ import annotations
import functools
from pathlib import Path
def size(name: Name, quick: bool) -> tuple[int, int]:
    """Experts, and episodes of each."""
    return (60, 1) if quick else (EXPERTS, PLAYED[name])

def configuration(label: str, *, quick: bool = False) -> Json:
    """Everything that decides a row, but its seed."""
    name, kind = next(cell for cell in grid() if key(*cell) == label)
    experts, episodes = size(name, quick)
    return {"world": name, "kind": kind, "experts": experts, "episodes": episodes, "horizon": world(name).horizon}