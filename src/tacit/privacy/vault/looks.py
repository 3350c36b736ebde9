"""What the curator saw without noise, as a file that says so."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

LONGEST_NAME = 60


def keep(result: Any, reason: str, folder: Path) -> None:
    """Write what a look gave as JSON under `folder/private/`, with a banner."""
    name = re.sub(r"[^a-z0-9]+", "-", reason.lower()).strip("-") or "look"
    if len(name) > LONGEST_NAME:  # another long reason may begin alike
        name = f"{name[:LONGEST_NAME]}-{hashlib.sha256(reason.encode()).hexdigest()[:8]}"
    path = folder / "private" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    banner = "PRIVATE: computed from the records without noise; do not publish"
    missing: list[str] = []
    told = {"banner": banner, "reason": reason, "result": _finite(result, "result", missing)}
    if missing:
        told["null"] = f"no finite number: {', '.join(missing)}"
    path.write_text(json.dumps(told, indent=1, allow_nan=False))


def _finite(value: Any, name: str, missing: list[str]) -> Any:
    """JSON values with null for numbers that are not finite, whose places are added to `missing`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _finite(one, f"{name}.{key}", missing) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one, f"{name}.{i}", missing) for i, one in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        missing.append(f"{name} is {value}")
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
