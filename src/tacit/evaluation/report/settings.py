"""A plan's public fields as words for people."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from tacit.evaluation.report.svg import number

STATED = frozenset({"unit", "epsilon", "delta"})
"""Fields of every plan that stand elsewhere on the page, as the promise."""


def pairs(plan: Mapping[str, Any], names: Mapping[str, str], unused: Collection[str] = STATED) -> list[tuple[str, str]]:
    """(setting, value) for every field of a plan, one level deep.

    Args:
        plan: the fields.
        names: words for those whose own name does not explain them.
        unused: fields to leave out.
    """
    rows = []
    for name, value in plan.items():
        inner = (
            {f"{name}: {key}": entry for key, entry in value.items()} if isinstance(value, Mapping) else {name: value}
        )
        if name not in unused:
            rows += [(named(key, names), _shown(entry)) for key, entry in inner.items() if key not in unused]
    return rows


def named(name: str, names: Mapping[str, str]) -> str:
    """A setting's name for people."""
    return names.get(name, name.replace("_", " "))


def _shown(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list) and all(isinstance(v, int | float) for v in value):
        return ", ".join(number(v) for v in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
