"""What people did in a deployment, one visit each, as the rows that a vault of users takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.errors import DataError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Visit:
    """One person's episode of n decisions. Printing it shows nothing of it. Raises DataError where something is not
    numbers, or the lengths do not fit each other."""

    observations: Array  # [n + 1, d], or [n + 1] where they are discrete: before every decision and after the last
    actions: Array  # [n] whole numbers, or [n, a] where they are continuous: what was done
    rewards: Array  # [n]
    terminated: bool = False  # whether the task ended with the last decision; otherwise the person left, or was cut off

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "rewards"):
            object.__setattr__(self, name, _numbers(getattr(self, name), name))
        n = len(self.rewards)
        if self.rewards.ndim != 1 or len(self.actions) != n or len(self.observations) != n + 1:
            what = "the arrays of a visit do not fit each other"
            remedy = "give the observation after the last decision too"
            raise DataError(what, where="Visit", expected="n + 1 observations, n actions and n rewards", remedy=remedy)

    def fits(self, spec: PublicSpec) -> bool:
        """Whether observations and actions have the widths of the spec: to be asked where visits come in."""
        return _width(self.observations) == _size(spec.observation) and _width(self.actions) == _size(spec.action)

    def __repr__(self) -> str:
        return "Visit(...)"


def visit_rows(
    visits: Mapping[str, Visit], people: Sequence[Sequence[str]], spec: PublicSpec, horizon: int
) -> dict[str, Array]:
    """The rows of those who were asked for, as `Users.serve` returns them.

    A person without a visit that fits the spec, or without an id (""), has no rows, and a visit of somebody who was not
    asked for (one that comes late, say) is ignored. A visit is cut off, as truncated, after `horizon` rows; one that
    ends before and did not terminate is truncated at its last row. Numbers that are not finite stay as they are, and a
    discrete value outside its space becomes -1: a vault counts such people as zero.

    Args:
        visits: person to visit.
        people: for each replicate the ids of those who were asked for; a deployment has one replicate.
        spec: public bounds, from which the shapes are known.
        horizon: L, most rows of a person.

    Returns:
        Columns [U, L] or [U, L, ...] of U people in order: observations, next_observations, actions, rewards,
        terminations, truncations, mask.

    Raises:
        DataError: a key of the visits is not text, and would never be found.
    """
    if not all(isinstance(person, str) for person in visits):
        what, expected = "a key of the visits is not text", "the ids as a vault passes them to serve: text"
        raise DataError(what, where="visit_rows", expected=expected, remedy="write str(id) wherever a visit is filed")
    ids = [person for replicate in people for person in replicate]
    rows = empty_rows(spec, len(ids), horizon)
    for i, person in enumerate(ids):
        visit = visits.get(person) if person else None
        n = 0 if visit is None else min(len(visit.rewards), horizon)
        if visit is None or n == 0 or not visit.fits(spec):
            continue
        observations = _encode_values(visit.observations[: n + 1], spec.observation)
        rows["observations"][i, :n], rows["next_observations"][i, :n] = observations[:-1], observations[1:]
        rows["actions"][i, :n] = _encode_values(visit.actions[:n], spec.action)
        rows["rewards"][i, :n] = _as_float32(visit.rewards[:n])
        terminated = visit.terminated and n == len(visit.rewards)
        rows["terminations"][i, n - 1], rows["truncations"][i, n - 1] = terminated, not terminated
        rows["mask"][i, :n] = True
    return rows


def empty_rows(spec: PublicSpec, people: int, horizon: int) -> dict[str, Array]:
    """The columns [U, L, ...] of people who have no rows."""

    def column(space: Space) -> Array:
        if isinstance(space, Discrete):
            return np.zeros((people, horizon), dtype=np.int64)
        return np.zeros((people, horizon, space.size), dtype=np.float32)

    return {
        "observations": column(spec.observation),
        "actions": column(spec.action),
        "rewards": np.zeros((people, horizon), dtype=np.float32),
        "next_observations": column(spec.observation),
        **{name: np.zeros((people, horizon), dtype=np.bool_) for name in ("terminations", "truncations", "mask")},
    }


def _numbers(values: Any, name: str) -> Array:
    try:
        return np.array(values, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError, OverflowError):
        pass
    what, expected = f"the {name} are not numbers, or not as many in every row", "arrays of numbers"
    raise DataError(what, where="Visit", expected=expected, remedy="encode text and missing values as numbers first")


def _width(values: Array) -> int:
    return math.prod(values.shape[1:])


def _size(space: Space) -> int:
    return 1 if isinstance(space, Discrete) else space.size


def _encode_values(values: Array, space: Space) -> Array:
    flat = values.reshape(len(values), -1)
    if not isinstance(space, Discrete):
        return _as_float32(flat)
    codes = flat[:, 0]
    return np.where((codes >= 0) & (codes < space.n) & (codes == np.floor(codes)), codes, -1.0).astype(np.int64)


def _as_float32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
