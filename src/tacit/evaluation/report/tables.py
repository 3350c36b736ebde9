"""From tables of transitions to a report's sections on columns, closeness and mazes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Policies
from tacit.evaluation.dynamics import Dynamics, dynamics
from tacit.evaluation.fidelity import ceiling, correlations, fidelity, flatten, independent_columns, uniform_table
from tacit.evaluation.report.content import Correlation, Curve, Kind, Map, Points, Return, Score
from tacit.evaluation.report.histograms import Histogram, histogram
from tacit.evaluation.statistics import Starts, evaluate, interval

if TYPE_CHECKING:
    from tacit.envs.maze import Layout

Table = Mapping[str, NDArray[np.generic]]
Named = Sequence[tuple[str, Table]]

MAZE_COLUMNS = (
    ("x", "cells"),
    ("y", "cells"),
    ("x velocity", "cells/s"),
    ("y velocity", "cells/s"),
    ("x force", ""),
    ("y force", ""),
    ("reward", ""),
    ("next x", "cells"),
    ("next y", "cells"),
    ("next x vel.", "cells/s"),
    ("next y vel.", "cells/s"),
)
"""Name and unit of each scalar column of a maze table, in the order of `fidelity.flatten`."""

_POINTS = 2_500


def sections(
    spec: PublicSpec,
    synthetic: Table,
    reference: Table | None,
    *,
    seed: int,
    rivals: Named = (),
    names: Sequence[tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """A report's fields on columns and closeness.

    Args:
        spec: the public bounds.
        synthetic: the released rows.
        reference: simulated rows to compare with, or None (private records are never compared with).
        seed: of the controls and of the split for the ceiling.
        rivals: (label, table) of other synthesizers.
        names: (name, unit) of each scalar column; None makes them from the fields' names.
    """
    found: dict[str, Any] = {
        "marginals": marginals(spec, synthetic, reference, names=names),
        "correlation": correlation(synthetic, reference, names=names),
    }
    if reference is not None:
        controls = ignorant(spec, reference, len(synthetic["rewards"]), seed)
        found |= {"reference": "simulated", "scores": closeness(synthetic, reference, controls, rivals, seed=seed)}
    return found


def ignorant(spec: PublicSpec, reference: Table, rows: int, seed: int) -> Named:
    """Tables that know less than the synthetic one: the reference's columns on their own, and the bounds alone."""
    chosen = np.random.default_rng(seed).integers(len(reference["rewards"]), size=rows)
    some = {name: np.asarray(reference[name])[chosen] for name in reference}
    return (
        ("Independent columns", independent_columns(some, seed=seed)),
        ("Noise only", uniform_table(spec, rows=rows, seed=seed)),
    )


def marginals(
    spec: PublicSpec, synthetic: Table, reference: Table | None, *, names: Sequence[tuple[str, str]] | None = None
) -> tuple[Histogram, ...]:
    """One histogram for each scalar column, over its public bounds; a discrete column has a bin for each value.

    Args:
        spec: the public bounds.
        synthetic: released rows.
        reference: simulated or public rows to compare with, or None.
        names: (name, unit) of each column; None makes them from the fields' names.
    """
    columns = flatten(synthetic)
    real = None if reference is None else flatten(reference)
    found = []
    for (field, values), (name, unit), (bounds, bins) in zip(
        columns.items(), names or [(_words(field), "") for field in columns], _bins(spec), strict=True
    ):
        other = None if real is None else np.asarray(real[field], np.float64)
        found.append(histogram(name, unit, bounds, np.asarray(values, np.float64), other, bins=bins))
    return tuple(found)


def correlation(
    synthetic: Table, reference: Table | None, *, names: Sequence[tuple[str, str]] | None = None
) -> Correlation | None:
    """Correlations of the continuous columns, or None where there are fewer than two."""
    columns = flatten(synthetic)
    labels = [name for name, _ in names] if names else [_words(field) for field in columns]
    kept = [i for i, values in enumerate(columns.values()) if values.dtype == np.float32]
    if len(kept) < 2:
        return None

    def matrix(table: Table) -> NDArray[np.float64]:
        values = list(flatten(table).values())
        return correlations([values[i] for i in kept])

    real = None if reference is None else matrix(reference)
    return Correlation(tuple(labels[i] for i in kept), matrix(synthetic), real)


def closeness(
    synthetic: Table, reference: Table, controls: Named, rivals: Named = (), *, seed: int
) -> tuple[Score, ...]:
    """Marginal and Correlation of the synthetic table and of others, with the real-vs-real ceiling.

    Args:
        synthetic, reference: the tables; the reference must be simulated or public.
        controls, rivals: (label, table) each.
        seed: of the split for the ceiling.
    """
    own, best = fidelity(reference, synthetic), ceiling(reference, seed=seed)
    worse, others = ([(name, fidelity(reference, table)) for name, table in some] for some in (controls, rivals))
    words = {
        "marginal": "each column on its own: mean of 1 - KS distance; 1 is equal",
        "correlation": "pairs of columns: mean of 1 - |difference of correlations| / 2; 1 is equal",
    }
    return tuple(
        Score(
            measure.capitalize(),
            meaning,
            getattr(own, measure),
            public=False,
            ceiling=getattr(best, measure),
            controls=tuple((label, getattr(other, measure)) for label, other in worse),
            rivals=tuple((label, getattr(other, measure)) for label, other in others),
        )
        for measure, meaning in words.items()
    )


def physics(layout: Layout, synthetic: Table, controls: Named, rivals: Named = ()) -> tuple[Score, ...]:
    """Errors against the maze's own simulator, and the share of rows inside walls.

    Args:
        layout: the maze.
        synthetic: the released rows.
        controls, rivals: (label, table) each.
    """
    own = maze_dynamics(layout, synthetic)
    worse, others = ([(name, maze_dynamics(layout, table)) for name, table in some] for some in (controls, rivals))
    words = {
        "next_position": ("Next position", "error in steps of the true displacement; 0 is exact, 1 is no movement"),
        "next_velocity": ("Next velocity", "error in mean true changes of velocity; 0 is exact"),
        "reward": ("Reward", "mean error; 0 is exact"),
        "in_wall": ("Inside walls", "share of rows; 0 is best"),
    }
    return tuple(
        Score(
            measure,
            meaning,
            getattr(own, name),
            public=True,
            controls=tuple((label, getattr(other, name)) for label, other in worse),
            rivals=tuple((label, getattr(other, name)) for label, other in others),
        )
        for name, (measure, meaning) in words.items()
    )


def maze_dynamics(layout: Layout, table: Table) -> Dynamics:
    """`dynamics` against the maze's own simulator; rewards are those of a row's own observation, as in its data."""
    from tacit.envs import maze

    return dynamics(
        table,
        step=lambda state, action: maze.step(state, action, layout),
        reward=lambda state, action, following: maze.reward(layout, state[:, :2]),
        in_wall=lambda position: maze.in_wall(layout, position),
    )


def returns(
    layout: Layout, agents: Sequence[tuple[str, Kind, Policies]], *, seed: int, episodes: int
) -> tuple[Return, ...]:
    """What (label, kind, policies) trained on each table are worth from all and from far starts, over their seeds.

    Args:
        layout: the maze.
        agents: the policies of each table, one per training seed (at least two, for an interval).
        seed: of the starts, which are the same for all.
        episodes: starts of each evaluation.
    """
    rows = []
    for label, kind, policies in agents:
        for starts in get_args(Starts):
            worth = interval(evaluate(layout, policies, starts=starts, seed=seed, episodes=episodes))
            mean, low, high = (round(value, 1) for value in worth)
            rows.append(Return(label, kind, f"{starts} starts", mean, low, high, policies.members))
    return tuple(rows)


def curves(
    layout: Layout,
    stages: Mapping[int, Sequence[tuple[str, Kind, Policies]]],
    *,
    seed: int,
    episodes: int,
) -> tuple[Curve, ...]:
    """Return from all starts against the length of training: whole runs of each length, never checkpoints of one.

    Args:
        layout: the maze.
        stages: the agents, as for `returns`, by the training steps of their runs; the same labels at every length.
        seed: of the starts, which are the same for all.
        episodes: starts of each evaluation.
    """
    worth: dict[tuple[str, Kind], list[tuple[float, float, float]]] = {}
    for _, agents in sorted(stages.items()):
        for label, kind, policies in agents:
            found = interval(evaluate(layout, policies, starts="all", seed=seed, episodes=episodes))
            worth.setdefault((label, kind), []).append(found)
    steps = np.array(sorted(stages), np.float64)
    return tuple(Curve(label, kind, steps, *np.array(found).round(1).T) for (label, kind), found in worth.items())


def maze_map(layout: Layout, panels: Sequence[tuple[str, Kind, Table]], *, seed: int) -> Map:
    """Positions of some rows of each (label, kind, table) over the maze."""
    from tacit.envs.maze_layouts import CELL_ORIGIN

    generator = np.random.default_rng(seed)
    points = []
    for label, kind, table in panels:
        positions = np.asarray(table["observations"])
        chosen = generator.choice(len(positions), size=min(_POINTS, len(positions)), replace=False)
        points.append(Points(label, kind, positions[np.sort(chosen), :2].astype(np.float64).round(3)))
    goal = (float(layout.goal_position[0]), float(layout.goal_position[1]))
    return Map(layout.cells, CELL_ORIGIN, goal, tuple(points))


def _words(field: str) -> str:
    """A column as files call it (`tacit.data.sources.files.Fields`): observation_0, action, reward."""
    name, _, index = field.partition("[")
    stem = name.removesuffix("s")
    return f"{stem}_{index[:-1]}" if index else stem


def _bins(spec: PublicSpec) -> list[tuple[tuple[float, float], int]]:
    found: list[tuple[tuple[float, float], int]] = []
    for space in (spec.observation, spec.action, spec.reward, spec.observation):
        if isinstance(space, Box):
            found += [(bounds, 40) for bounds in zip(space.low, space.high, strict=True)]
        else:
            found.append(((-0.5, space.n - 0.5), min(space.n, 40)))
    return found
