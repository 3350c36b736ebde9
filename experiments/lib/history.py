"""Which methods were changed after somebody had seen their evaluation rows (`history.toml`)."""

import tomllib
from collections.abc import Mapping
from pathlib import Path


def _changes() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for change in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["changes"]:
        for name in change["experiments"]:
            found[name] = (*found.get(name, ()), change["said"])
    return found


CHANGED_AFTER_EVALUATION: Mapping[str, tuple[str, ...]] = _changes()
"""What was changed, how often, and what was seen, by experiment."""
