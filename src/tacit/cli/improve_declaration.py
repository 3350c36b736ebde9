"""`tacit improve` as a frozen dataclass: its fields are the options, its docstring is the help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from tacit.cli.options import IMPROVEMENT_OPTIONS, of_plans
from tacit.cli.plan_declarations import Spending
from tacit.units import Relation


@dataclass(frozen=True, kw_only=True)
@of_plans(IMPROVEMENT_OPTIONS)
class Improve(Spending):
    """Learn a better policy than the one that made the records, and prove what following it a little gains.

    One budget pays for the policy and for the statement. Actions are discrete, and the records have propensities.

    Args:
        data: folder of the private records (`tacit data import` writes one).
        out: folder of the run; it will hold nothing private.
        unit: what one protected unit is, in the singular ("patient").
        relation: what neighbouring data sets differ in: a unit is present or absent, or exchanged for another.
        population: how many units there could be, as the public knows; never counted from the data.
        gamma: discount, from 0 to 1.
        horizon: steps of an episode that count.
        range: public LOW HIGH of an episode's return; returns outside count as its ends. A narrow one proves more.
        episodes_per_unit: episodes of one unit that count.
        memory: what of a column's course is kept, COLUMN:mean, COLUMN:RATE of an exponential mean, or COLUMN:now,
            the newest value, which is what other columns keep. A column is a name, or a number from 0.
        columns: columns that the policy looks at; by default all of them. Fewer mean less noise.
        value_columns: those of them that the value depends on; by default all of them.
        environment: name of the environment that `tacit play` shows the policy in, if there is one.
    """

    data: Positional[Path]
    out: Path
    unit: str
    relation: Relation
    population: int
    gamma: float
    horizon: int
    range: tuple[float, float]
    episodes_per_unit: int = 1
    memory: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    value_columns: tuple[str, ...] = ()
    environment: str | None = None
