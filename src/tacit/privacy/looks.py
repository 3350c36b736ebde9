"""What the curator saw without noise, as a file that says so."""

from __future__ import annotations

import hashlib
import json
import re
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
    path.write_text(json.dumps({"banner": banner, "reason": reason, "result": result}, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
