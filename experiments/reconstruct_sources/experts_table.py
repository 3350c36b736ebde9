from __future__ import annotations
import functools
from pathlib import Path
def run_of(name: Name, kind: Kind, seed: int, logs: Path, small: bool) -> Run:
    """A field with its logs and recipes, at full size or small."""
    here = Field.of(name, kind, seed)
    return quick(Run(here.small(), logs, recipes(name))) if small else Run(here, logs, recipes(name))

def configuration(label: str, *, small: bool = False) -> Json:
    """Everything that decides a row, but its seed."""
    name, kind, method, _ = label.split("/")
    run = run_of(name, kind, SEEDS[0], Path(), small)  # type: ignore[arg-type]
    field = describe(run.here)
    del field["seed"]
    return {
        "field": field,
        "unit": describe(run.here.unit),
        "method": method,
        "ways": describe(run.ways),
        "epsilons": list(run.epsilons),
        "noises": NOISES if method == "noise" else None,
        "cloned": list(CLONED) if method == "clones_consensus" else None,
    }