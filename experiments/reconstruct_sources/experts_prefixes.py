from __future__ import annotations
import functools
from pathlib import Path
def grid() -> list[tuple[int, int, float]]:
    """All settings."""
    return [(m, n, epsilon) for m in EXPERTS for n in TRAJECTORIES for epsilon in EPSILONS]

def configuration(name: str) -> Json:
    """Everything that decides a row."""
    experts, trajectories, epsilon = next(setting for setting in grid() if key(*setting) == name)
    return {
        "experts": experts,
        "trajectories": trajectories,
        "epsilon": epsilon,
        "floors": describe(floors()),
        "actions": list(ACTIONS),
        "horizon": HORIZON,
        "agreements": list(AGREEMENTS),
    }