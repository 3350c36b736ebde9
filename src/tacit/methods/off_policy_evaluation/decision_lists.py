"""Rules in words: decision lists over named columns, which are policies to evaluate."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.columns import Column
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import PlanError

Float64 = NDArray[np.float64]

_SIGNS: dict[str, Callable[..., Any]] = {
    **{"<=": operator.le, ">=": operator.ge, "!=": operator.ne},
    **{"=": operator.eq, "<": operator.lt, ">": operator.gt},
}
_CONDITION = re.compile(rf"(.+?)\s*({'|'.join(_SIGNS)})\s*(.+)")
_EXAMPLE = "device = ios and age < 30 -> discount; else none"


@dataclass(frozen=True)
class DecisionList:
    """A rule: the first line whose conditions all hold says the action (Rivest, Learning decision lists, 1987).

    Args:
        actions: how many there are.
        lines: of each line its conditions and its action. A condition is a place in the observation, a sign, a number,
            and whether the next place says that the cell is missing; a missing cell meets no condition.
        otherwise: the action where no line holds.
    """

    actions: int
    lines: tuple[tuple[tuple[tuple[int, str, float, bool], ...], int], ...]
    otherwise: int

    @classmethod
    def parse(cls, text: str, spec: PublicSpec, where: str = "DecisionList") -> DecisionList:
        """The list in words such as "device = ios and age < 30 -> discount; device = web -> none; else mail".

        Args:
            text: in the names and labels of the spec; signs are = != < <= > >=, and the last line is the else.
            spec: the public bounds, of named observations and discrete actions.
            where: it was given, for errors.

        Raises:
            PlanError: a line has another form, or the spec has no such column, label or action.
        """
        action, places, place = spec.action, dict[str, tuple[int, Column]](), 0
        for column in spec.observation.columns or ():
            places[column.name] = place, column
            place += 1 + (column.flag is not None)
        start, count = (action.start or 0, action.n) if isinstance(action, Discrete) else (0, 0)
        names = action.columns[0].labels if action.columns else ()
        names = names or tuple(str(start + code) for code in range(count))

        def refuse(what: str, expected: str) -> PlanError:
            return PlanError(what, where=where, expected=expected, remedy=f"write it as {_EXAMPLE!r}")

        def code(said: str) -> int:
            if said.strip() not in names[:count]:
                raise refuse(f"{said.strip()[:40]!r} is no action", f"one of {', '.join(names[:12])}")
            return names.index(said.strip())

        def condition(said: str) -> tuple[int, str, float, bool]:
            found = _CONDITION.fullmatch(said.strip())
            if found is None or found[1] not in places:
                raise refuse(f"{said.strip()[:40]!r} is no condition", f"{', '.join(places)}: one, a sign and a cell")
            (place, column), cell, number = places[found[1]], found[3], math.nan
            labelled = column.kind == "category"
            with contextlib.suppress(ValueError):
                number = float(column.labels.index(cell) if labelled else cell)
            if not math.isfinite(number) or (labelled and found[2] not in ("=", "!=")):
                expected = f"= or != and one of {', '.join(column.labels[:12])}" if labelled else "a finite number"
                raise refuse(f"{said.strip()[:40]!r} is no condition on {column.name!r}", expected)
            return place, found[2], number, column.flag is not None

        *lines, last = text.strip().removesuffix(";").split(";")
        word, _, otherwise = last.strip().partition(" ")
        if word != "else":
            raise refuse("the last line says no action for all others", "else ACTION at the end")
        listed = []
        for line in lines:
            said, arrow, then = line.rpartition("->")
            if not arrow:
                raise refuse(f"{line.strip()[:40]!r} says no action", "CONDITION -> ACTION")
            listed.append((tuple(map(condition, re.split(r"\sand\s", said))), code(then)))
        return cls(count, tuple(listed), code(otherwise))

    def probabilities(self, observations: np.ndarray) -> Float64:
        """1 for the action that the list says, else 0."""
        rows = np.asarray(observations, np.float32).reshape(len(observations), -1)
        taken = np.full(len(rows), self.otherwise)
        for conditions, action in reversed(self.lines):
            holds = np.ones(len(rows), np.bool_)
            for place, sign, number, flagged in conditions:
                holds &= _SIGNS[sign](rows[:, place], np.float32(number))
                holds &= rows[:, place + 1] == 0 if flagged else True
            taken[holds] = action
        return np.asarray(np.eye(self.actions)[taken])
