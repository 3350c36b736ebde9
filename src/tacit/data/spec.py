"""What is known about the data without looking at it: public bounds of observations, actions and rewards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.columns import Column, dimensions
from tacit.errors import DataError
from tacit.serialization import OPTIONAL

if TYPE_CHECKING:
    import gymnasium

Source = Literal["environment", "physics", "declared", "public_data"]

_LARGEST = 3.0e38  # float32 holds it
MOST_LABELS = 10_000
"""Of an entry of a `MultiDiscrete`, and of joint actions."""


@dataclass(frozen=True)
class Box:
    """A continuous space with public bounds `low` and `high`, shape `(d,)`, and the columns of its dimensions, if they
    are declared (`space_of`). Raises DataError where bounds are missing, infinite, of unequal length or inverted (`low
    >= high`), or the columns have others."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    columns: tuple[Column, ...] | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        low, high = _floats(self.low, "Box.low"), _floats(self.high, "Box.high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not low or len(low) != len(high):
            what = f"low has {len(low)} dimensions and high has {len(high)}"
            expected = "one low and one high bound for each dimension, at least one"
            raise DataError(what, where="Box", expected=expected, remedy="declare both bounds of every dimension")
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if not (math.isfinite(a) and math.isfinite(b)) or max(abs(a), abs(b)) > _LARGEST:
                what, expected = f"a bound of dimension {i} is missing or infinite", "finite bounds (float32 range)"
                remedy = "declare a bound that is known without the data, such as a physical limit"
                raise DataError(what, where="Box", expected=expected, remedy=remedy)
            if a >= b:
                what, expected = f"the bounds of dimension {i} are inverted or equal", "low < high"
                raise DataError(what, where="Box", expected=expected, remedy="exchange or widen them")

        inner_low, inner_high = self.float32_bounds()
        if not np.all(inner_low < inner_high):
            what = f"the bounds of dimension {int(np.argmin(inner_low < inner_high))} are closer than float32 can tell"
            expected, remedy = "bounds that differ as float32", "shift the origin of that dimension or widen the bounds"
            raise DataError(what, where="Box", expected=expected, remedy=remedy)
        if self.columns is not None and (self.low, self.high) != _column_bounds(self.columns):
            raise _columns_error("Box")

    def float32_bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both bounds as float32, shapes `(d,)`, rounded inwards: what is clipped to them obeys the exact ones."""
        exact_low, exact_high = np.asarray(self.low), np.asarray(self.high)
        low, high = exact_low.astype(np.float32), exact_high.astype(np.float32)
        low = np.where(low < exact_low, np.nextafter(low, np.float32(np.inf)), low)
        return low, np.where(high > exact_high, np.nextafter(high, np.float32(-np.inf)), high)

    @property
    def size(self) -> int:
        """Number of dimensions."""
        return len(self.low)

    @property
    def categories(self) -> tuple[int, ...]:
        """For each dimension the number of its labels, 0 where it is a number."""
        if self.columns is None:
            return (0,) * self.size
        return tuple(len(part.labels) for part in dimensions(self.columns))

    @property
    def whole(self) -> tuple[bool, ...]:
        """For each dimension whether its values are whole numbers, as those of categories are."""
        if self.columns is None:
            return (False,) * self.size
        return tuple(part.kind in ("integer", "category") for part in dimensions(self.columns))

    @property
    def static(self) -> tuple[bool, ...]:
        """For each dimension whether it never changes in a unit."""
        return (False,) * self.size if self.columns is None else tuple(part.static for part in dimensions(self.columns))

    @property
    def width(self) -> int:
        """Number of dimensions with each category as one of 0 and 1 for each label."""
        return sum(count or 1 for count in self.categories)


@dataclass(frozen=True)
class Discrete:
    """A finite space with the values `0 .. n - 1`."""

    n: int  # how many values there are, at least 2
    # the one category whose labels the values stand for, if it is declared (`space_of`)
    columns: tuple[Column, ...] | None = field(default=None, metadata=OPTIONAL)
    # the number that records and environments have in place of 0, if it is another one: it is taken away on the way
    # in, and added on the way out. A category has none.
    start: int | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 2:
            what = "the number of values is not a whole number of at least 2"
            expected, remedy = "n >= 2", "declare how many values there can be, or use a Box"
            raise DataError(what, where="Discrete", expected=expected, remedy=remedy)
        if self.columns is not None and [len(part.labels) for part in dimensions(self.columns)] != [self.n]:
            raise _columns_error("Discrete")
        object.__setattr__(self, "start", self.start or None)
        if self.start is not None and (type(self.start) is not int or abs(self.start) > 2**53 or self.columns):
            what, expected = "start is no whole number, or stands beside labels", "the first value, such as 1"
            raise DataError(what, where="Discrete", expected=expected, remedy="correct it, or leave it out")

    @property
    def size(self) -> int:
        """Width of the one-hot encoding."""
        return self.n

    @property
    def width(self) -> int:
        """Width of the one-hot encoding."""
        return self.n


Space = Box | Discrete


def space_of(*columns: Column) -> Space:
    """The space of these columns (at least one): a `Discrete` of one category that never misses, else a `Box`."""
    parts = dimensions(columns)
    if len(parts) == 1 and parts[0].kind == "category":
        return Discrete(len(parts[0].labels), columns)
    return Box(*_column_bounds(columns), columns)


def _column_bounds(columns: Sequence[Column]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    bounds = [part.bounds for part in dimensions(columns)]
    return tuple(low for low, _ in bounds), tuple(high for _, high in bounds)


def _columns_error(where: str) -> DataError:
    what, expected = "the columns have other bounds or labels than the space", "the bounds of the columns"
    return DataError(what, where=where, expected=expected, remedy="build the space with space_of(*columns)")


@dataclass(frozen=True)
class PublicSpec:
    """Bounds known without the data. Records are clipped to them once, on entry. Raises DataError where a bound is
    missing, the source is not one of the four, or there are propensities of continuous actions."""

    observation: Space  # space of observations and next observations
    action: Space  # space of actions
    reward: Box  # bounds of the reward, a `Box` of size 1
    # where the bounds come from: `environment` (its spaces), `physics` (limits of the device or the body), `declared`
    # (a rule or a form that fixes them) or `public_data` (other people's published data). Bounds fitted to the
    # private records would leak them and are refused.
    source: Source
    terminals: bool = True  # whether the data has terminations at all; when False, the field is False everywhere
    # public typical size (standard deviation) of `next_observation - observation` per dimension, shape `(d,)`, if one
    # is known. None takes the steps of declared columns, where each number has one.
    difference: tuple[float, ...] | None = None
    # whether the records say, for every row, the probability that the behaviour policy gave to the logged action (a
    # discrete one), as off-policy evaluation needs
    propensities: bool = False
    # SQL expression of a row's declared observations and actions by which the import computed its reward, if it kept
    # one (`tacit.data.sources.expressions`). Specs that differ in it alone are equal.
    reward_expression: str | None = field(default=None, metadata=OPTIONAL, compare=False)

    def __post_init__(self) -> None:
        for name in ("observation", "action"):
            if not isinstance(getattr(self, name), (Box, Discrete)):
                raise _missing_error(name, "a Box or a Discrete")
        if not isinstance(self.reward, Box) or self.reward.size != 1:
            raise _missing_error("reward", "a Box of size 1, such as Box((0.0,), (1.0,))")
        if self.source not in get_args(Source):
            what = "the source of the bounds is missing or is not public"
            expected = f"source= one of {', '.join(get_args(Source))}"
            remedy = "take the bounds from something known without the private records, and say what"
            raise DataError(what, where="PublicSpec", expected=expected, remedy=remedy)
        for name, question in (("terminals", "episodes can terminate"), ("propensities", "there are propensities")):
            if not isinstance(getattr(self, name), bool):
                what, expected = f"{name} is neither true nor false", "true or false (in Python True or False)"
                raise DataError(what, where="PublicSpec", expected=expected, remedy=f"say whether {question}")
        if self.propensities and not isinstance(self.action, Discrete):
            what = "propensities belong to discrete actions, and the action is continuous"
            expected = "a Discrete action, or propensities=False"
            remedy = "leave the propensities out, or cut the action into public bins"
            if self.action.categories[1:] == (2,) and self.action.categories[0]:
                what = "propensities belong to discrete actions, and the action is a category beside a flag"
                remedy = "a missing action is an action of its own: give it a label, and no missing = 'flag'"
            raise DataError(what, where="PublicSpec", expected=expected, remedy=remedy)
        if self.reward_expression is not None and not (
            isinstance(self.reward_expression, str) and self.reward_expression.strip()
        ):
            what, expected = "the expression of the reward is no text, or empty", "an SQL expression, or none"
            raise DataError(what, where="PublicSpec", expected=expected, remedy="leave it out: the import writes it")
        self._require_names()
        self._require_changes()
        if self.difference is None and isinstance(self.observation, Box) and self.observation.columns is not None:
            parts = dimensions(self.observation.columns)  # 1 of those that do not use it
            steps = [1.0 if part.kind == "category" or part.static else part.step for part in parts]
            if None not in steps:
                object.__setattr__(self, "difference", tuple(steps))
        if self.difference is not None:
            difference = _floats(self.difference, "PublicSpec.difference")
            object.__setattr__(self, "difference", difference)
            wrong = not isinstance(self.observation, Box) or len(difference) != self.observation.size
            if wrong or not all(math.isfinite(v) and v > 0 for v in difference):
                what = "difference does not fit the observation"
                expected = "one positive number for each dimension of a continuous observation, or None"
                remedy = "give the public typical size of a step in every dimension, or leave it out"
                raise DataError(what, where="PublicSpec", expected=expected, remedy=remedy)

    def _require_names(self) -> None:
        names = [
            prefix + column.name
            for prefix, space in (
                ("", self.observation),
                ("next_", self.observation),
                ("", self.action),
                ("", self.reward),
            )
            for column in space.columns or ()
            for column in dimensions((column,))
        ]
        twice = next((name for name in names if names.count(name) > 1 or name in _RESERVED), None)
        if twice is not None:
            what = f"the column name {twice!r} stands twice, or is taken"
            expected = f"different names, also after next_, and none of {', '.join(sorted(_RESERVED))}"
            remedy = "rename the column in the spec, and name the file's own with fields="
            raise DataError(what, where="PublicSpec", expected=expected, remedy=remedy)

    def _require_changes(self) -> None:
        for name in ("action", "reward"):
            wrong = [column.name for column in getattr(self, name).columns or () if column.static or column.time_unit]
            if wrong:
                what, expected = f"the column {wrong[0]!r} of the {name} is static or a duration", "an observation's"
                raise DataError(what, where="PublicSpec", expected=expected, remedy="move it, or declare it otherwise")
        if self.observation.columns and all(column.static for column in self.observation.columns):
            what, expected = "every column of the observation is static", "one that can change in a unit"
            raise DataError(what, where="PublicSpec", expected=expected, remedy="declare it, such as a duration")

    @property
    def spaces(self) -> dict[str, Space]:
        """Field of `Trajectories` -> its space, for the fields that have one."""
        return {
            "observations": self.observation,
            "actions": self.action,
            "rewards": self.reward,
            "next_observations": self.observation,
        }

    def raw(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The columns of these fields as records and environments have them: discrete values from their `start` on."""
        starts = {name: getattr(space, "start", None) or 0 for name, space in self.spaces.items()}
        return {name: column + starts[name] if starts.get(name) else column for name, column in columns.items()}

    def names(self, field: str) -> tuple[str, ...]:
        """Names of the numbers of a field of `spaces`, such as `observation_0` where no columns are declared."""
        space, prefix = self.spaces[field], "next_" if field == "next_observations" else ""
        if space.columns is not None:
            return tuple(prefix + part.name for part in dimensions(space.columns))
        stem = field.removesuffix("s")
        single = isinstance(space, Discrete) or field == "rewards"
        return (stem,) if single else tuple(f"{stem}_{i}" for i in range(space.size))

    @classmethod
    def from_spaces(
        cls,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        reward: tuple[float, float] | None = None,
        source: Source = "environment",
        terminals: bool = True,
        difference: tuple[float, ...] | None = None,
        propensities: bool = False,
    ) -> PublicSpec:
        """Bounds from Gymnasium spaces; a space of several axes or a `Dict` of boxes is flattened, in its own order.

        Args:
            observation_space: a `Box`, a `Discrete`, a `MultiDiscrete` (a category an entry) or a `Dict` of boxes.
            action_space: likewise.
            reward: public bounds `(low, high)` of the reward, which environments do not declare; needed.
            source, terminals, difference, propensities: as in `PublicSpec`.

        Raises:
            DataError: a bound is infinite, a space is of another kind, or the reward has no bounds.
        """
        if reward is None:
            raise _missing_error("reward", "reward=(low, high)")
        return cls(
            observation=space_of_environment(observation_space, "observation"),
            action=space_of_environment(action_space, "action"),
            reward=Box((reward[0],), (reward[1],)),
            source=source,
            terminals=terminals,
            difference=difference,
            propensities=propensities,
        )

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values; `from_json` gives back an equal spec."""
        return {
            "observation": _space_to_json(self.observation),
            "action": _space_to_json(self.action),
            "reward": _space_to_json(self.reward),
            "source": self.source,
            "terminals": self.terminals,
            "difference": None if self.difference is None else list(self.difference),
            "propensities": self.propensities,
        } | ({} if self.reward_expression is None else {"reward_expression": self.reward_expression})

    @classmethod
    def from_json(cls, values: Any, *, where: str = "PublicSpec.from_json") -> PublicSpec:
        """The spec that `to_json` wrote; JSON from before there were propensities has none. An error names `where`,
        such as the file. Raises DataError of a missing, unknown or invalid field."""
        if not isinstance(values, Mapping):
            raise _json_error(where, "there is no JSON object")
        read: dict[str, Any] = {"propensities": False, "difference": None, **values}
        for name in _FIELDS:
            if name not in read:
                raise _json_error(where, f"the field {name!r} is missing")
        if unknown := [name for name in read if name not in (*_FIELDS, "reward_expression")]:
            raise _json_error(where, f"the field {str(unknown[0])[:40]!r} is unknown")
        name = "observation"
        try:
            for name in ("observation", "action", "reward"):
                read[name] = _space_from_json(read[name])
            name = "difference"
            if read[name] is not None:
                read[name] = _floats(read[name], "PublicSpec.difference")
        except DataError as error:
            what, expected = f"{name}: {error.what}", error.expected
            raise DataError(what, where=where, expected=expected, remedy=error.remedy) from None
        try:
            return cls(**read)
        except DataError as error:
            raise DataError(error.what, where=where, expected=error.expected, remedy=error.remedy) from None


_RESERVED = frozenset({"termination", "truncation", "propensity", "unit", "episode", "step"})
_FIELDS = ("observation", "action", "reward", "source", "terminals", "difference", "propensities")


def _json_error(where: str, what: str) -> DataError:
    expected, remedy = f"exactly the fields {', '.join(_FIELDS)}", "correct it, or write it with PublicSpec.to_json"
    return DataError(what, where=where, expected=expected, remedy=remedy)


def _missing_error(name: str, expected: str) -> DataError:
    what, remedy = f"the public bounds of the {name} are missing", "declare bounds that are known without the data"
    return DataError(what, where="PublicSpec", expected=expected, remedy=remedy)


def _floats(values: Sequence[float], where: str) -> tuple[float, ...]:
    try:
        return tuple(float(v) for v in values)
    except (TypeError, ValueError, OverflowError):
        pass
    what, expected = "the bounds are not a sequence of numbers", "one number for each dimension"
    raise DataError(what, where=where, expected=expected, remedy="write them as a tuple, such as (0.0, 1.0)")


def space_of_environment(space: gymnasium.Space[Any], field: str) -> Space:
    """The space of an environment's observations or actions (`field`). Raises DataError where a bound is infinite, or
    the space is of another kind."""
    from gymnasium import spaces

    where = f"{field}_space"
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), start=int(space.start))
    if not isinstance(space, spaces.MultiDiscrete):
        return Box(*_bounds(space, where, spaces))
    sizes = space.nvec.ravel().tolist()
    if min(sizes) < 2 or max(sizes) > MOST_LABELS or len(sizes) < 2 or np.any(space.start):
        what = "the MultiDiscrete has an entry of one value or of too many, one entry alone, or does not start at 0"
        expected, remedy = f"entries of 2 to {MOST_LABELS:,} values from 0 on", "declare a PublicSpec of columns"
        raise DataError(what, where=f"PublicSpec.from_spaces({where})", expected=expected, remedy=remedy)
    labels = [tuple(map(str, range(size))) for size in sizes]
    return space_of(*(Column(f"{field}_{i}", "category", labels=each) for i, each in enumerate(labels)))


def _bounds(space: gymnasium.Space[Any], where: str, spaces: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if isinstance(space, spaces.Dict):
        parts = [_bounds(part, f"{where}[{key!r}]", spaces) for key, part in space.spaces.items()]
        return tuple(v for low, _ in parts for v in low), tuple(v for _, high in parts for v in high)
    if not isinstance(space, spaces.Box):
        what = "the space is of a kind that is not supported"
        expected = "a Box, a Discrete, a MultiDiscrete, or a Dict of boxes"
        remedy = "flatten it first (gymnasium.wrappers), or declare a PublicSpec"
        raise DataError(what, where=f"PublicSpec.from_spaces({where})", expected=expected, remedy=remedy)
    low, high = space.low.ravel().tolist(), space.high.ravel().tolist()
    if not all(math.isfinite(v) for v in (*low, *high)):
        what, expected = "the space has an infinite bound", "finite bounds in every dimension"
        remedy = "declare a PublicSpec with bounds that are known without the data"
        raise DataError(what, where=f"PublicSpec.from_spaces({where})", expected=expected, remedy=remedy)
    return tuple(low), tuple(high)


def _space_to_json(space: Space) -> dict[str, Any]:
    if space.columns is not None:
        listed = []
        for column in space.columns:  # fields but those that are the default
            values = {part.name: getattr(column, part.name) for part in fields(column)}
            said = {part.name: values[part.name] for part in fields(column) if values[part.name] != part.default}
            listed.append({name: list(value) if isinstance(value, tuple) else value for name, value in said.items()})
        return {"kind": "columns", "columns": listed}
    if isinstance(space, Box):
        return {"kind": "box", "low": list(space.low), "high": list(space.high)}
    return {"kind": "discrete", "n": space.n} | ({} if space.start is None else {"start": space.start})


def faults(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with single columns of public bounds, all of them, where `PublicSpec.from_json` says the first."""
    for space in ("observation", "action", "reward"):
        listed = values[space].get("columns") if isinstance(values.get(space), Mapping) else None
        for number, column in enumerate(listed if isinstance(listed, list) else (), 1):
            name = column.get("name") if isinstance(column, Mapping) else None
            try:
                _column_from_json(column)
            except DataError as error:
                yield f"{space} {name if isinstance(name, str) else number}: {error.what}"


def _column_from_json(values: Any) -> Column:
    known = [part.name for part in fields(Column)]
    if not isinstance(values, Mapping) or not {"name"} <= set(values) <= set(known):
        what = "a column has no name or an unknown field"
        expected = f"name, and of {', '.join(known[1:])} those that its kind has"
        remedy = "correct it; `tacit new` writes a template"
        raise DataError(what, where="PublicSpec.from_json", expected=expected, remedy=remedy)
    labels = values.get("labels", ())
    return Column(**{**values, "labels": tuple(labels) if isinstance(labels, list) else labels})


def _space_from_json(values: Any) -> Space:
    if isinstance(values, Mapping) and values.get("kind") == "columns" and set(values) <= {"kind", "columns"}:
        listed = values.get("columns")
        if not isinstance(listed, Sequence) or not listed:
            expected = "in TOML a block [[SPACE.columns]] for each, with its name, and low and high or labels"
            remedy = "write it; an action or a reward that no table has is computed: tacit data import --reward 0"
            raise DataError("no column is declared", where="PublicSpec.from_json", expected=expected, remedy=remedy)
        return space_of(*map(_column_from_json, listed))
    if isinstance(values, Mapping) and set(values) == {"kind", "low", "high"} and values["kind"] == "box":
        return Box(_floats(values["low"], "Box.low"), _floats(values["high"], "Box.high"))
    known = isinstance(values, Mapping) and {"kind", "n"} <= set(values) <= {"kind", "n", "start"}
    if known and values["kind"] == "discrete":
        return Discrete(values["n"], start=values.get("start"))
    raise DataError(
        "a space is neither a box nor discrete",
        where="PublicSpec.from_json",
        expected='{"kind": "columns", "columns": [...]}, {"kind": "box", "low": [...], "high": [...]} or '
        '{"kind": "discrete", "n": 3}',
        remedy="correct it; `tacit new` writes a template",
    )
