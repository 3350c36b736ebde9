"""Tables that experiments share: made once, kept under runs/synthesis/ by the configuration that they were made with.

A changed configuration makes them again; changed code does not: `replay` begins with an empty folder.
"""

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from experiments.lib.configuration import Json, describe, digest
from experiments.lib.store import ROOT

Columns = dict[str, np.ndarray]
Notes = dict[str, Any]
Made = TypeVar("Made")

KEPT = ROOT / "runs" / "synthesis"
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations")
_NOTES = "__notes__"


def rows_of(columns: Mapping[str, Any]) -> Columns:
    """The columns of a table of transitions, without whatever else there is."""
    return {name: np.asarray(columns[name]) for name in FIELDS}


def defaults(function: Callable[..., Any]) -> dict[str, Json]:
    """What a function's settings are where they are not given; its seed and its progress are no settings."""
    parameters = inspect.signature(function).parameters.items()
    given = {name: one.default for name, one in parameters if one.default is not inspect.Parameter.empty}
    return {name: describe(value) for name, value in given.items() if name not in ("seed", "progress")}


def kept(name: str, configuration: Json, make: Callable[[], tuple[Columns, Notes]]) -> tuple[Columns, Notes]:
    """Arrays by name and what is noted about them, from the file of this name and configuration, or made and written.

    Args:
        name: of the table; a path in which slashes become dashes.
        configuration: everything that decides what is in it, but its seed, which is part of the name.
        make: what to do where there is no such file.
    """
    path = KEPT / f"{name.replace('/', '-')}-{digest(configuration)}.npz"
    if not path.exists():
        columns, notes = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, **columns, **{_NOTES: np.array(json.dumps(notes))})  # type: ignore[arg-type]
        os.replace(partial, path)
        return columns, notes
    with np.load(path, allow_pickle=False) as file:
        columns = {key: file[key] for key in file.files if key != _NOTES}
        return columns, json.loads(str(file[_NOTES]))


def metered(make: Callable[[], Made]) -> tuple[Made, dict[str, float]]:
    """What a function returns, and its cost: CPU seconds, and the MiB that memory rose by at most (Linux, else nan)."""
    before, began = _resident(reset=True), time.process_time()
    made = make()
    spent = time.process_time() - began
    return made, {"cpu_s": round(spent, 2), "peak_mib": round(_resident(peak=True) - before, 1)}


def _resident(*, reset: bool = False, peak: bool = False) -> float:
    """MiB of this process in memory, now or at most since the last reset."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines: Mapping[str, str] = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(lines["VmHWM" if peak else "VmRSS"].split()[0]) / 1024
