"""Cells of the tables that `synthesis_pages` prints."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib.experiment import BLANK, NONE, grid
from experiments.lib.statistics import bootstrap

SHORT = {"iql": "IQL", "td3_bc": "TD3+BC", "edac": "EDAC", "cql": "discrete CQL"}
NAMES = {"told_apart": "distinguishability", "at_seams": "at stitch points", "f1": "F1"}
"""Measures that tables call otherwise than rows do."""
Values = Callable[..., np.ndarray]


def shown(values: Values, *arguments: Any, digits: int = 1, interval: bool = True) -> str:
    """A cell of a table: blank where something is missing or has another configuration, a dash where nothing is run."""
    try:
        found = values(*arguments)
    except LookupError:
        return BLANK
    if not len(found):
        return NONE
    one = bootstrap(found)
    return f"{one.value:.{digits}f}" + (f" [{one.low:.{digits}f}, {one.high:.{digits}f}]" if interval else "")


def by_measure(measures: Sequence[str], rows: Mapping[str, Sequence[Any]], values: Values) -> str:
    """A table of values by rows, which are their arguments, and measures; only returns have intervals."""

    def cell(row: Sequence[Any], measure: str) -> str:
        whole = measure.startswith("return")
        return shown(values, *row, measure, digits=1 if whole else 3, interval=whole)

    return grid({named(one): one for one in measures}, rows, cell)


def title(domain: str, between: str = "-") -> str:
    return domain.replace("_", between)


def named(measure: str) -> str:
    return NAMES.get(measure, measure.replace("_", " ").replace("f1", "F1"))
