"""Columns of a table of transitions as numbers, and their bins: by the public spec, or by public rows if there are any.

Order: observation, action, reward, termination, next observation. A number of the next observation is coded as what is
left of its change after a robust linear prediction from observation and action, fitted to public rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.synthesis.discretisation import Discretisation, clip_to_bounds
from tacit.privacy.mechanisms.marginals import DIFFERENCES

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rows = Mapping[str, NDArray[Any]]
Option = TypeVar("Option")
Role = Literal["observation", "action", "reward", "end", "next"]

ATOM = 0.02
"""Share of public rows from which a value has a bin of its own."""
STEPS = (4, 8, 16, 32)
"""Even bins of a parent, from coarse to fine, about."""
QUANTILES = (3, 6, 12)
"""Bins of a parent by public quantiles, from coarse to fine."""
OWN_EVEN, OWN_QUANTILES, TAIL = 100, 24, 20
"""Bins of a column that is drawn: about so many even ones, or so many quantiles; bins of either tail of an error."""
TRIM, ROUNDS = 0.9, 8
"""Of the robust regression: the share of rows that fit best, and how often they are chosen again."""
FLAT = 1e-12
"""Of the largest eigenvalue of the features' products; what is smaller has no weight."""
DIGITS = 6
FITTED = 100_000
"""Public rows from which bins and predictions are made, evenly spread over all."""
SCREENED, SCREENING_ROWS = 3, 60_000
"""Refinements that are tried under noise on all public rows, at most, by what so many rows without noise promise."""
EVERY = 4
"""One of so many public rows is held out."""


@dataclass(frozen=True)
class Bins:
    """Bins of a number; `atoms` are values with codes of their own, after the bins."""

    edges: tuple[float, ...]
    atoms: tuple[float, ...] = ()
    whole: bool = False

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.edges) - 1 + len(self.atoms)

    @property
    def widths(self) -> Floats:
        """Of each code [n]; 1 of what is exact."""
        return np.append(np.ones(len(self.edges) - 1) if self.whole else np.diff(self.edges), np.ones(len(self.atoms)))

    @property
    def middles(self) -> Floats:
        """Of each code [n]."""
        edges = np.asarray(self.edges)
        return np.append((edges[1:] + edges[:-1]) / 2, self.atoms)

    def encode(self, values: Floats) -> NDArray[np.int32]:
        """The code of each value [N]; what lies outside falls into the outer bins."""
        bins = len(self.edges) - 1
        step = (self.edges[-1] - self.edges[0]) / bins
        if np.allclose(np.diff(self.edges), step, rtol=1e-6):  # even: no search is needed
            codes = np.clip(np.floor((values - self.edges[0]) / step), 0, bins - 1).astype(np.int32)
        else:
            codes = (np.searchsorted(self.edges[1:-1], values, side="right")).astype(np.int32)
        if self.atoms:
            rounded = np.round(values, DIGITS)
            for i, atom in enumerate(self.atoms):
                codes[rounded == atom] = bins + i
        return codes

    def draw(self, codes: Integers, rng: np.random.Generator) -> Floats:
        """A value of each code [N]."""
        edges, bins = np.asarray(self.edges), len(self.edges) - 1
        place = np.minimum(codes, bins - 1)
        share = 0.5 if self.whole else rng.random(len(codes))
        values = edges[place] + share * (edges[place + 1] - edges[place])
        if self.atoms:
            values = np.where(codes >= bins, np.asarray(self.atoms)[np.maximum(codes - bins, 0)], values)
        return np.asarray(values)


@dataclass(frozen=True)
class DrawnColumn:
    """A column that is drawn: its bins, and the bins in which it can be a parent, ladder by ladder, coarse to fine."""

    role: Role
    index: int
    own: Bins
    ladders: tuple[tuple[Bins, ...], ...] = ()

    @property
    def is_category(self) -> bool:
        """Whether its values are labels or whole numbers, one a code."""
        return self.own.whole


@dataclass(frozen=True)
class Table:
    """How transitions are columns of numbers.

    Args:
        spec: the public bounds.
        columns: in the order in which they are drawn.
        prediction: weights of the change of each number of the observation, [features, numbers]; empty without public
            rows.
    """

    spec: PublicSpec
    columns: tuple[DrawnColumn, ...]
    prediction: tuple[tuple[float, ...], ...] = ()

    def values(self, rows: Rows) -> list[Floats]:
        """All columns of rows in raw units, each [N]."""
        seen, done = _numbers(rows["observations"]), _numbers(rows["actions"])
        reached = _numbers(rows["next_observations"])
        left = reached - seen - self._expected(seen, done) if isinstance(self.spec.observation, Box) else reached
        found: dict[Role, Floats] = {
            "observation": seen,
            "action": done,
            "reward": np.asarray(rows["rewards"], np.float64)[:, None],
            "end": np.asarray(rows["terminations"], np.float64)[:, None],
            "next": left,
        }
        return [
            (reached if one.role == "next" and one.is_category else found[one.role])[:, one.index]
            for one in self.columns
        ]

    def rows(self, values: Sequence[Floats]) -> dict[str, NDArray[Any]]:
        """Rows in raw units inside the public bounds, of columns as of `values`."""
        spec, count = self.spec, len(values[0])
        parts: dict[Role, dict[int, Floats]] = {}
        for one, column in zip(self.columns, values, strict=True):
            parts.setdefault(one.role, {})[one.index] = column
        seen = clip_to_bounds(np.stack(list(parts["observation"].values()), axis=1), spec.observation)
        done = clip_to_bounds(np.stack(list(parts["action"].values()), axis=1), spec.action)
        if isinstance(spec.observation, Box):
            reached = seen + self._expected(_numbers(seen), _numbers(done))
            for i in range(seen.shape[1]):
                drawn = parts.get("next", {}).get(i)
                if drawn is None:  # what never changes
                    reached[:, i] = seen[:, i]
                else:
                    reached[:, i] = drawn if spec.observation.categories[i] else reached[:, i] + drawn
        else:
            reached = parts["next"][0][:, None]
        ends = parts.get("end", {0: np.zeros(count)})[0] > 0.5
        return {
            "observations": seen,
            "actions": done,
            "rewards": clip_to_bounds(parts["reward"][0][:, None], spec.reward)[:, 0],
            "next_observations": clip_to_bounds(reached, spec.observation),
            "terminations": ends,
            "truncations": np.zeros(count, bool),
        }

    def _expected(self, seen: Floats, done: Floats) -> Floats:
        if not self.prediction:
            return np.zeros_like(seen, dtype=np.float64)
        return np.asarray(_features(self.spec, seen, done) @ np.asarray(self.prediction))


def _numbers(values: NDArray[Any]) -> Floats:
    return np.asarray(values if values.ndim == 2 else values[:, None], np.float64)


def _features(spec: PublicSpec, seen: Floats, done: Floats) -> Floats:
    parts = [np.ones((len(seen), 1)), seen]
    for i in range(done.shape[1]):
        labels = spec.action.n if isinstance(spec.action, Discrete) else spec.action.categories[i]
        parts.append((done[:, i, None] == np.arange(1, labels)) if labels else done[:, i, None])
    return np.concatenate(parts, axis=1)


def fit_prediction(spec: PublicSpec, rows: Rows) -> tuple[tuple[float, ...], ...]:
    """Least squares of every change on the rows that it fits best, chosen again a few times."""
    if not isinstance(spec.observation, Box):
        return ()
    on = ~np.asarray(rows["terminations"], bool)
    seen, done = _numbers(rows["observations"])[on], _numbers(rows["actions"])[on]
    change = _numbers(rows["next_observations"])[on] - seen
    x = _features(spec, seen, done)
    scale = np.maximum(np.sqrt(np.square(x).mean(axis=0)), 1e-12)
    x = x / scale  # the normal equations of few features of one size are quick and exact enough
    weights = np.linalg.lstsq(x.T @ x, x.T @ change, rcond=FLAT)[0]
    for _ in range(ROUNDS):
        errors = np.abs(change - x @ weights)
        for j in range(change.shape[1]):
            near = errors[:, j] <= np.quantile(errors[:, j], TRIM)
            part = x[near]
            weights[:, j] = np.linalg.lstsq(part.T @ part, part.T @ change[near, j], rcond=FLAT)[0]
    kept = [0.0 if labels else 1.0 for labels in spec.observation.categories]
    return tuple(map(tuple, (weights / scale[:, None] * kept).tolist()))


class PublicWorld:
    """Public rows of one world as numbers and codes; of every four rows, one is held out and stands at the end.

    Args:
        table: the columns.
        rows: of this world.
        private: how many private rows there are, as the public expects.
    """

    def __init__(self, table: Table, rows: Rows, private: int) -> None:
        held_out = np.arange(len(rows["rewards"])) % EVERY == EVERY - 1
        order = np.argsort(held_out, kind="stable")
        self.values = [column[order] for column in table.values(rows)]
        self.count, self.kept = len(order), len(order) - int(held_out.sum())
        self.scale = private / max(1, self.kept)
        self._codes: dict[tuple[int, Bins, int], NDArray[np.int32]] = {}
        self.shared: dict[tuple[tuple[tuple[int, Bins], ...], int], NDArray[np.int32]] = {}

    def codes(self, column: int, bins: Bins, count: int) -> NDArray[np.int32]:
        """Of a column in the first rows."""
        key = (column, bins, count)
        if key not in self._codes:
            self._codes[key] = bins.encode(self.values[column][:count])
        return self._codes[key]

    def cells(self, axes: tuple[tuple[int, Bins], ...], count: int) -> NDArray[np.int32]:
        """The joint code of columns in the first rows; what many have in common stays in `shared`."""
        if len(axes) < 2:
            return self.codes(*axes[0], count) if axes else np.zeros(count, np.int32)
        before = (axes[:-1], count)
        if before not in self.shared:
            self.shared[before] = self.cells(*before)
        column, bins = axes[-1]
        return np.asarray(self.shared[before] * np.int32(bins.size) + self.codes(column, bins, count))


def best_option(
    now: Option,
    options: Sequence[Option],
    best: Floats,
    screen: Callable[[Option], float],
    score: Callable[[Option], Floats],
) -> tuple[Floats, Option]:
    """The option with the largest mean score, and its scores in each world, or what they refine with its own, `best`.

    Few rows and no noise promise more than is gained in the end: an option that promises less than another one gains is
    not tried.
    """
    found, least = [(best, now)], screen(now) if options else 0.0
    promises = [(round(screen(one) - least, DIGITS), one) for one in options]  # rounded: no sum's order decides
    for promise, one in sorted(promises, key=lambda pair: -pair[0])[:SCREENED]:
        if len(found) == 1 or promise >= found[0][0].mean() - best.mean():
            found = sorted([*found, (score(one), one)], key=lambda pair: -pair[0].mean())
    return found[0]


# -- bins --------------------------------------------------------------------------------------------------------------


def nice_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """About so many even bins whose edges are round numbers (1, 2 or 5 times a power of ten apart)."""
    raw = (high - low) / bins
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((1.0, 2.0, 5.0, 10.0), key=lambda size: abs(np.log(size * power / raw))) * power
    inner = np.arange(np.floor(low / step) + 1, np.ceil(high / step)) * step
    inside = inner[(inner > low + step / 4) & (inner < high - step / 4)]
    return (low, *np.round(inside, 12).tolist(), high)


def default_columns(spec: PublicSpec) -> tuple[DrawnColumn, ...]:
    """Columns by the spec alone: even bins, values on the bounds by themselves, narrow bins around no change.

    Raises:
        DataError: the observation is a Box and `spec.difference` is not declared.
    """
    roles: dict[str, Role] = {
        "observations": "observation",
        "actions": "action",
        "rewards": "reward",
        "terminations": "end",
        "next_observations": "next",
        DIFFERENCES: "next",
    }
    found = []
    for axis in Discretisation(spec, OWN_QUANTILES + 8).axes:
        edges = tuple(float(edge) for edge in axis.edges)
        whole = edges[0] % 1 == 0.5 and all(b - a == 1 for a, b in itertools.pairwise(edges))
        role = roles[axis.column]
        ladders: tuple[tuple[Bins, ...], ...] = ()
        if whole:
            bins = Bins(edges, whole=True)
            ladders = ((bins,),)
        elif role == "next":
            bins = Bins(edges, (0.0,))
        else:  # an atom on either bound, in place of the axis's narrow outer bins
            bins = Bins((edges[0], *edges[2:-2], edges[-1]), (round(edges[0], DIGITS), round(edges[-1], DIGITS)))
            ladders = (tuple(Bins(nice_edges(edges[0], edges[-1], n)) for n in STEPS),)
        found.append(DrawnColumn(role, axis.index, bins, ladders))
    order: dict[Role, int] = {"observation": 0, "action": 1, "reward": 2, "end": 3, "next": 4}
    return tuple(sorted(found, key=lambda one: order[one.role]))


def public_columns(spec: PublicSpec, rows: Rows) -> Table:
    """Columns whose bins follow public rows, and the prediction of changes."""
    every = max(1, len(rows["rewards"]) // FITTED)
    rows = {name: np.asarray(column)[::every] for name, column in rows.items()}
    by_spec = default_columns(spec)
    table = Table(spec, by_spec, fit_prediction(spec, rows))
    columns = []
    for one, values in zip(by_spec, table.values(rows), strict=True):
        if one.is_category:
            columns.append(one)
            continue
        rounded = np.round(values, DIGITS)
        distinct, often = np.unique(rounded, return_counts=True)
        atoms = distinct[often >= ATOM * len(values)] if len(distinct) < len(values) else distinct[:0]
        atoms = atoms[:64]
        rest = values[~np.isin(rounded, atoms)]
        low, high = one.own.edges[0], one.own.edges[-1]
        if one.role == "next":
            columns.append(DrawnColumn("next", one.index, Bins(_error_edges(rest, low, high), tuple(atoms.tolist()))))
            continue
        quantiles = _mixed_edges(rest, low, high, OWN_QUANTILES)
        ladders = [tuple(dict.fromkeys(Bins(nice_edges(low, high, n)) for n in (*STEPS, 64)))]
        if len(rest) > OWN_QUANTILES:
            ladders.append(tuple(Bins(_mixed_edges(values, low, high, n)) for n in QUANTILES))
        columns.append(DrawnColumn(one.role, one.index, Bins(quantiles, tuple(atoms.tolist())), tuple(ladders)))
    return Table(spec, tuple(columns), table.prediction)


def _mixed_edges(values: Floats, low: float, high: float, bins: int) -> tuple[float, ...]:
    """Quantiles of public rows with even edges between, so that no part of the range is lost."""
    if len(values) == 0:
        return nice_edges(low, high, bins)
    inner = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1])
    even = np.linspace(low, high, max(2, bins // 3) + 1)[1:-1][: None if bins > QUANTILES[0] else 0]
    inner = np.unique(np.round(np.concatenate([inner, even]), 9))
    return (low, *inner[(inner > low) & (inner < high)].tolist(), high)


def _error_edges(values: Floats, low: float, high: float) -> tuple[float, ...]:
    """Quantiles of what a prediction leaves, with tails that widen geometrically."""
    if len(values) <= OWN_QUANTILES:
        return (low, *np.linspace(low, high, OWN_QUANTILES)[1:-1].tolist(), high)
    inner = np.quantile(values, np.linspace(0, 1, OWN_QUANTILES + 1)[1:-1])
    reach = min(max(np.abs(values).max() * 1.5, 1e-9), high)
    start = min(max(np.abs(inner).max() * 1.2, 1e-9), reach / 2)
    tail = np.geomspace(start, reach, TAIL)
    # what errs more falls into the outer bins: wider ones would make large errors of a little noise
    return tuple(np.unique(np.clip(np.concatenate([-tail, inner, tail]), low, high)).tolist())
