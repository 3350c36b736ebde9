"""Records of people as trajectories, and what is publicly known about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.columns import Column
from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION
from tacit.data.sources.files import Fields
from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.data.store import layout, read_spec
from tacit.data.trajectories import Trajectories

__all__ = ["EACH_EPISODE", "EACH_TRANSITION", "Box", "Column", "Discrete", "Fields", "PublicSpec", "Space"]
__all__ += ["Trajectories", "inspect"]


def inspect(data: Trajectories | str | os.PathLike[str]) -> dict[str, Any]:
    """Public summary of a set, or of a folder that `Trajectories.save` wrote, as JSON values: `simulated`, `spec`,
    `fields` (name -> kind, dtype, width) and, for a simulated set, `counts` (transitions, episodes, units). Raises
    FileError where the folder holds no trajectories, or they are damaged."""
    counted: Trajectories | None = None
    if isinstance(data, Trajectories):
        spec, simulated = data.spec, data.simulated
        counted = data
    else:
        spec, simulated, _ = read_spec(Path(data))
        if simulated:
            counted = Trajectories.open(data)
    summary: dict[str, Any] = {"simulated": simulated, "spec": spec.to_json(), "fields": fields_of(spec)}
    if simulated and counted is not None:
        summary["counts"] = counted.counts()
    return summary


def fields_of(spec: PublicSpec) -> dict[str, dict[str, Any]]:
    """Field of a set with these bounds -> kind, dtype and width of its column."""
    fields: dict[str, dict[str, Any]] = {}
    for name, (dtype, shape) in layout(spec).items():
        space = spec.spaces.get(name)
        kind = "discrete" if isinstance(space, Discrete) else "flag" if dtype == np.bool_ else "continuous"
        fields[name] = {"kind": kind, "dtype": dtype.name, "width": shape[0] if shape else 1}
    return fields
