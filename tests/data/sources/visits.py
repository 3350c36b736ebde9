"""A small event log: what an analyst exports, with words, times and missing cells, in no order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tacit.data import Column, PublicSpec
from tacit.data.spec import space_of

CANARY = "Ursula-4711"
"""A cell that nobody may ever quote."""
SPEC = PublicSpec(
    observation=space_of(Column("pulse", low=30, high=220), Column("ward", "category", labels=("A", "B"))),
    action=space_of(Column("drug", "category", labels=("none", "low", "high"))),
    reward=space_of(Column("comfort", low=-1, high=0)),
    source="declared",
    terminals=False,
)
ROWS = (
    # patient, visit, minute, pulse, ward, drug
    ("ann", 1, 0, 60.0, "A", "none"),
    ("ann", 1, 5, 75.0, "A", "low"),
    ("ann", 1, 9, 90.0, "B", "high"),
    ("ann", 2, 20, 100.0, "B", "none"),
    ("bob", 1, 3, 80.0, "A", "low"),
    ("bob", 1, 4, 82.0, "B", "none"),
)
ORDER = (4, 2, 0, 5, 3, 1)
"""In which the rows lie in the files."""
REWARD = "-abs(pulse - 75) / 145"


def table(**changes: Any) -> pd.DataFrame:
    """The rows out of order, with the time as a number and as a moment; a change is a column by name."""
    frame = pd.DataFrame(ROWS, columns=["patient", "visit", "minute", "pulse", "ward", "drug"])
    frame["moment"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(frame["minute"], unit="min")
    return frame.assign(**changes).iloc[list(ORDER)].reset_index(drop=True)


def assert_quiet(error: BaseException | None) -> None:
    """Neither an error nor any that it came from quotes the canary."""
    while error is not None:
        assert CANARY not in f"{error} {error!r}"
        assert not type(error).__module__.startswith(("duckdb", "_duckdb", "psycopg", "sqlite3", "pyarrow"))
        error = error.__cause__ or error.__context__


def rows(data: Any) -> list[tuple[Any, ...]]:
    """(pulse, next pulse, ward, drug, truncation) of each row, in the order of the set."""
    columns = {name: np.asarray(column) for name, column in data.columns.items()}
    parts = (columns["observations"][:, 0], columns["next_observations"][:, 0], columns["observations"][:, 1])
    return list(zip(*(part.tolist() for part in (*parts, columns["actions"], columns["truncations"])), strict=True))


SORTED = [
    (60.0, 75.0, 0.0, 0, False),
    (75.0, 90.0, 0.0, 1, False),
    (90.0, 90.0, 1.0, 2, True),
    (100.0, 100.0, 1.0, 0, True),
    (80.0, 82.0, 0.0, 1, False),
    (82.0, 82.0, 1.0, 0, True),
]
"""The same with --time, --next and --episode: by patient, visit and minute."""
