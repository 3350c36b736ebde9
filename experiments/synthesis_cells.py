"""Cells of the tables that `experiments.synthesis_pages` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.dppg_tables import BLANK, NONE
from tacit.evaluation.statistics import bootstrap

SHORT = {"iql": "IQL", "td3_bc": "TD3+BC", "edac": "EDAC", "cql": "discrete CQL"}
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
