"""Cells and tables of the pages of results, as Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib.store import Store
from tacit.evaluation.report.tables import t_interval

INFINITE, BLANK, NONE = float("inf"), "", "–"
"""The epsilon of no privacy; the cell of a row that is missing; the cell of a row that no experiment has."""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], first: str = "") -> str:
    """A table; the first column has no heading of its own, or `first`."""
    lines = [(f"| {first} | " if first else "| | ") + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def grid(columns: Mapping[str, Any], rows: Mapping[str, Any], cell: Callable[[Any, Any], str]) -> str:
    """A table of what stands in the cell of every row and column, by their headings."""
    return markdown(
        list(columns), [[words, *(cell(row, one) for one in columns.values())] for words, row in rows.items()]
    )


def stacked(tables: Mapping[str, str]) -> str:
    """Tables below each other, each under its title."""
    return "\n\n".join(f"{title}\n\n{table}" for title, table in tables.items())


def by_level(epsilons: Iterable[float]) -> dict[str, float]:
    """Every epsilon under its heading."""
    return {f"epsilon {epsilon:g}": epsilon for epsilon in epsilons}


def at_each(epsilons: Iterable[float], table: Callable[[float], str]) -> str:
    """The table of every epsilon, below each other."""
    return stacked({words: table(epsilon) for words, epsilon in by_level(epsilons).items()})


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
    return "no noise, not private" if epsilon == INFINITE else f"epsilon {epsilon:g}"


SECONDS = ("seconds", "cpu_s", "agent_cpu_s", "pretrain_cpu_s", "train_cpu_s", "sample_cpu_s")
"""Names of values that are seconds of work."""


def seconds_of(values: Mapping[str, Any]) -> float:
    """Seconds in the values of a row, those of its stages included."""
    own = sum(float(values[name]) for name in SECONDS if isinstance(values.get(name), int | float))
    return own + sum(seconds_of(below) for below in values.values() if isinstance(below, Mapping))


def shown(values: Any, most: int = 300) -> str:
    """Values of a row in one line: its numbers, and the means of its lists of numbers."""
    if isinstance(values, Mapping):
        text = ", ".join(f"{name} {shown(one)}" for name, one in values.items())
        return text if len(text) <= most else f"{text[:most]} ..."
    numbers = [one for one in values if one is not None] if isinstance(values, list) else [values]
    return (
        f"{np.mean(numbers):.4g}"
        if numbers and all(isinstance(x, int | float) for x in numbers)
        else str(values)[:most]
    )


def overview(results: Store) -> str:
    """What every row found, of experiments without a table."""
    return markdown(("values",), [[key, shown(row["values"])] for key, row in sorted(results.rows.items())])


def costs(results: Store, wanted: Sequence[str]) -> str:
    """How many rows are missing, and the CPU hours that these take if each costs what those that there are did."""
    missing = sum(not results.has(key) for key in wanted)
    rows = [row["values"] for row in results.rows.values()]
    stages = [row["cpu_s"] for row in rows if isinstance(row.get("cpu_s"), Mapping)]
    spent = [sum(stage.values()) for stage in stages] or [found for row in rows if (found := seconds_of(row))]
    hours = f"{missing * np.mean(spent) / 3_600:.1f}" if spent else "unknown"
    return f"{missing} rows are missing; CPU hours: {hours}"
