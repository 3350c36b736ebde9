"""Cells and tables of the pages of results, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from experiments.lib.store import Store
from tacit.evaluation.statistics import t_interval

INFINITE, BLANK, NONE = float("inf"), "", "–"
"""The epsilon of no privacy; the cell of a row that is missing; the cell of a row that no experiment has."""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column has no heading of its own."""
    lines = ["| | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean over replicates and half of its interval."""
    mean, low, _ = t_interval(values)
    return f"{mean:.{digits}f} ± {mean - low:.{digits}f}"


def kept(results: Store, key: str) -> dict[str, Any] | None:
    """The values of a row; None where it is missing or has another configuration."""
    return results.values(key) if results.has(key) else None


def column(results: Store, key: str, name: str, digits: int = 1) -> str:
    """Mean and interval of a column of a cell."""
    values = kept(results, key)
    return spread(values[name], digits) if values else BLANK


def level(epsilon: float) -> str:
    """Of a heading."""
    return "no noise, not private" if epsilon == INFINITE else f"epsilon {epsilon:g}"
