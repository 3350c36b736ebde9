"""From rows and sampled trajectories to what a report says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tacit.data.columns import dimensions
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import PlaneWorld, Policies
from tacit.evaluation.dynamics import dynamics
from tacit.evaluation.fidelity import (
    FIELDS,
    ceiling,
    correlations,
    fidelity,
    flatten,
    halves,
    independent_columns,
    uniform_table,
)
from tacit.evaluation.neighbours import nearest_records
from tacit.evaluation.report.charts import ChartAxis, Kind
from tacit.evaluation.report.evidence import Histogram, Points, Score, histogram, whole_bins
from tacit.evaluation.report.synthesis import Correlation, Curve, PlaneMap, Return
from tacit.evaluation.report.whole_trajectories import (
    Drawing,
    WholeTrajectories,
    make_plane,
    trajectory_histograms,
    trajectory_scores,
)
from tacit.evaluation.sequences import SequenceDynamics, Sequences, sequence_dynamics
from tacit.evaluation.structure import lag_closeness, structure
from tacit.evaluation.trajscore import TrajScore, train_encoder, traj_score

Table = Mapping[str, NDArray[Any]]
Named = Sequence[tuple[str, Table]]

_POINTS = 2_500
_BINS = 40
_MIN_ROWS = 16
_PATHS, _LINES = 6, 5
"""Trajectories in a picture of paths, and of time lines."""
SYNTHETIC, PROTECTED = "Synthetic trajectories", "Protected trajectories"
TRAJSCORE_STEPS = 64
"""Steps of a trajectory that TrajScore sees, evenly spread over the longest."""
MIN_TRAJECTORIES = 8
"""Trajectories of which a set for TrajScore has more than neighbours."""


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
        names: (name, unit) of each scalar column; None takes those of the spec.
    """
    parts: dict[str, Any] = {
        "marginals": marginals(spec, synthetic, reference, names=names),
        "correlation": correlation(spec, synthetic, reference, names=names),
    }
    if reference is not None:
        controls = control_tables(spec, reference, len(synthetic["rewards"]), seed)
        scores = closeness_scores(synthetic, reference, controls, rivals, seed=seed, spec=spec)
        parts |= {"reference": "simulated", "scores": scores}
    return parts


def control_tables(spec: PublicSpec, reference: Table, rows: int, seed: int) -> Named:
    """Tables that know less than the synthetic one: the reference's columns on their own, and the bounds alone."""
    chosen = np.random.default_rng(seed).integers(len(reference["rewards"]), size=rows)
    sample = {name: np.asarray(reference[name])[chosen] for name in reference}
    return (
        ("Independent columns", independent_columns(sample, seed=seed)),
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
        names: (name, unit) of each column; None takes those of the spec.
    """
    columns = flatten(synthetic, spec)
    real = None if reference is None else flatten(reference, spec)
    declared = [column for space in spec.spaces.values() for column in space.columns or ()]
    flags = {column.name: column.flag.name for column in declared if column.flag is not None}
    # what is declared of a column holds a visit later, too, and its flag is told beside it
    untold = {*flags.values(), *(spec.names("next_observations") if spec.observation.columns else ())}

    def present(table: Table, field: str) -> NDArray[np.float64]:
        values = np.asarray(table[field], np.float64)
        return values[np.asarray(table[flags[field]]) == 0] if field in flags else values

    histograms = []
    for field, (name, unit), (bounds, bins), labels in zip(
        columns, names or _names(spec), _bins(spec), _labels(spec), strict=True
    ):
        if field not in untold:
            own, other = present(columns, field), None if real is None else present(real, field)
            missing = 1.0 - len(own) / len(columns[field])
            note = f"{100 * missing:.1f} % of the cells are missing" if field in flags else ""
            histograms.append(histogram(name, unit, bounds, own, other, bins=bins, labels=labels, note=note))
    return tuple(histograms)


def correlation(
    spec: PublicSpec, synthetic: Table, reference: Table | None, *, names: Sequence[tuple[str, str]] | None = None
) -> Correlation | None:
    """Correlations of the continuous columns, or None where there are fewer than two."""
    columns = flatten(synthetic, spec)
    labels = [name for name, _ in names] if names else list(columns)
    continuous = [i for i, values in enumerate(columns.values()) if values.dtype == np.float32]
    if len(continuous) < 2:
        return None

    def matrix(table: Table) -> NDArray[np.float64]:
        values = list(flatten(table, spec).values())
        return correlations([values[i] for i in continuous])

    real = None if reference is None else matrix(reference)
    return Correlation(tuple(labels[i] for i in continuous), matrix(synthetic), real)


def closeness_scores(
    synthetic: Table, reference: Table, controls: Named, rivals: Named = (), *, seed: int, spec: PublicSpec
) -> tuple[Score, ...]:
    """Marginal, Correlation and structure of the synthetic table and of others, with the real-vs-real ceiling.

    Args:
        synthetic, reference: the tables; the reference must be simulated or public.
        controls, rivals: (label, table) each.
        seed: of the split for the ceiling.
        spec: the public bounds.
    """
    words = {
        "marginal": ("Marginal", "each column on its own: mean of 1 - KS distance; 1 is equal"),
        "correlation": ("Correlation", "pairs of columns: mean of 1 - |difference of correlations| / 2; 1 is equal"),
    }
    kept = {
        "action_follows": ("Action given the state", "correlation with the mean real action there; 1 is a rule"),
        "action_explained": ("Action explained", "share of its variance that the state explains; best as in real rows"),
        "next_explained": ("Change explained", "share of its variance that state and action explain; as in real rows"),
        "rare_reward_error": ("Rare rewards", "error where real ones are highest, over their deviation; 0 is exact"),
        "impossible": ("Impossible states", "share of rows where no real one lies, two columns at once; 0 is best"),
    }
    tables = synthetic, controls, rivals
    near = _scores(words, partial(fidelity, reference, spec=spec), *tables, ceiling(reference, seed=seed, spec=spec))
    best = structure(*halves(reference, seed=seed), spec=spec)
    kept = {key: one for key, one in kept.items() if np.isfinite(getattr(best, key))}
    return near + _scores(kept, partial(structure, reference, spec=spec), *tables, best)


def physics_scores(world: PlaneWorld, synthetic: Table, controls: Named, rivals: Named = ()) -> tuple[Score, ...]:
    """Errors against the world's own simulator, and the share of rows inside walls.

    Args:
        world: that the rows are of.
        synthetic: the released rows.
        controls, rivals: (label, table) each.
    """
    words = {
        "next_position": ("Next position", "error in steps of the true displacement; 0 is exact, 1 is no movement"),
        "next_velocity": ("Next velocity", "error in mean true changes of velocity; 0 is exact"),
        "reward": ("Reward", "mean error; 0 is exact"),
        "in_wall": ("Inside walls", "share of rows; 0 is best"),
    }
    measure = partial(dynamics, step=world.step, reward=lambda state, *_: world.reward(state), in_wall=world.in_wall)
    return _scores(words, measure, synthetic, controls, rivals)


def _scores(
    words: Mapping[str, tuple[str, str]],
    measure: Callable[[Table], Any],
    synthetic: Table,
    controls: Named,
    rivals: Named,
    best: Any = None,
) -> tuple[Score, ...]:
    """A score for each measure that has a name and a meaning; with a ceiling they need reference rows."""
    measured = measure(synthetic)
    control_measures, rival_measures = ([(label, measure(table)) for label, table in own] for own in (controls, rivals))
    return tuple(
        Score(
            name,
            meaning,
            getattr(measured, key),
            public=best is None,
            ceiling=None if best is None else getattr(best, key),
            controls=tuple((label, getattr(measures, key)) for label, measures in control_measures),
            rivals=tuple((label, getattr(measures, key)) for label, measures in rival_measures),
        )
        for key, (name, meaning) in words.items()
    )


def returns(
    world: PlaneWorld, agents: Sequence[tuple[str, Kind, Policies]], *, seed: int, episodes: int
) -> tuple[Return, ...]:
    """What (label, kind, policies) trained on each table are worth from each of the world's starts, over their seeds.

    Args:
        world: where they act.
        agents: the policies of each table, one per training seed (at least two, for an interval).
        seed: of the starts, which are the same for all.
        episodes: starts of each evaluation.
    """
    rows = []
    for label, kind, policies in agents:
        for starts in world.starts:
            worth = t_interval(world.evaluate(policies, starts=starts, seed=seed, episodes=episodes))
            mean, low, high = (round(value, 1) for value in worth)
            rows.append(Return(label, kind, f"{starts} starts", mean, low, high, policies.members))
    return tuple(rows)


def untaught_returns(world: PlaneWorld, *, seed: int, episodes: int) -> tuple[Return, ...]:
    """What the world's policy that learns nothing is worth, from the starts of `returns`.

    Args:
        world: where it acts.
        seed: of the starts.
        episodes: starts of each evaluation.
    """
    label, policy = world.baseline
    rows = []
    for starts in world.starts:
        (worth,) = world.evaluate(policy, starts=starts, seed=seed, episodes=episodes).round(1).tolist()
        rows.append(Return(label, "control", f"{starts} starts", worth, worth, worth, seeds=0))
    return tuple(rows)


def curves(
    world: PlaneWorld, stages: Mapping[int, Sequence[tuple[str, Kind, Policies]]], *, seed: int, episodes: int
) -> tuple[Curve, ...]:
    """Return from all starts against the length of training: whole runs of each length, never checkpoints of one.

    Args:
        world: where they act.
        stages: the agents, as for `returns`, by the training steps of their runs; the same labels at every length.
        seed: of the starts, which are the same for all.
        episodes: starts of each evaluation.
    """
    everywhere = world.starts[0]
    worth: dict[tuple[str, Kind], list[tuple[float, float, float]]] = {}
    for _, agents in sorted(stages.items()):
        for label, kind, policies in agents:
            estimate = t_interval(world.evaluate(policies, starts=everywhere, seed=seed, episodes=episodes))
            worth.setdefault((label, kind), []).append(estimate)
    steps = np.array(sorted(stages), np.float64)
    return tuple(
        Curve(label, kind, steps, *np.array(estimates).round(1).T) for (label, kind), estimates in worth.items()
    )


def plane_map(world: PlaneWorld, panels: Sequence[tuple[str, Kind, Table]], *, seed: int) -> PlaneMap:
    """Positions of some rows of each (label, kind, table) over the world's plane."""
    generator = np.random.default_rng(seed)
    points = []
    for label, kind, table in panels:
        positions = np.asarray(table["observations"])
        chosen = generator.choice(len(positions), size=min(_POINTS, len(positions)), replace=False)
        points.append(Points(label, kind, positions[np.sort(chosen), :2].astype(np.float64).round(3)))
    return PlaneMap(make_plane(world.cells, world.origin, world.goal), points)


def _names(spec: PublicSpec) -> list[tuple[str, str]]:
    return [(name, "") for field in FIELDS for name in spec.names(field)]


def _labels(spec: PublicSpec) -> list[tuple[str, ...]]:
    spaces = [spec.spaces[field] for field in FIELDS]
    widths = [1 if isinstance(space, Discrete) else space.size for space in spaces]
    declared = [dimensions(space.columns) if space.columns else () for space in spaces]
    return [
        label
        for parts, width in zip(declared, widths, strict=True)
        for label in ([part.labels for part in parts] or [()] * width)
    ]


def _bins(spec: PublicSpec) -> list[tuple[tuple[float, float], int]]:
    bins: list[tuple[tuple[float, float], int]] = []
    for field in FIELDS:
        space = spec.spaces[field]
        if isinstance(space, Discrete):
            bins.append(whole_bins(0.0, space.n - 1.0, _BINS))
            continue
        for low, high, whole in zip(space.low, space.high, space.whole, strict=True):
            bins.append(whole_bins(low, high, _BINS) if whole else ((low, high), _BINS))
    return bins


def picture(reference: Table, synthetic: Table, *, seed: int, rows: int = 500) -> tuple[Points, ...]:
    """Some rows of both tables in one t-SNE picture; none of a handful, or without scikit-learn (the extra "tsne").

    Args:
        reference: simulated or public rows.
        synthetic: released rows.
        seed: of the choice and of the picture.
        rows: how many of each.
    """
    if find_spec("sklearn") is None:
        return ()
    from tacit.evaluation.neighbours import tsne

    tables = {"Protected rows": reference, "Synthetic rows": synthetic}
    count = min(rows, *(len(table["rewards"]) for table in tables.values()))
    if count < _MIN_ROWS:
        return ()
    (real, drawn) = tsne(tables, rows=count, seed=seed).values()
    return (Points("Protected rows", "reference", real.round(2)), Points("Synthetic rows", "synthetic", drawn.round(2)))


def curator_figures(
    spec: PublicSpec, synthetic: Table, real: Table, holdout: Table | None, *, seed: int
) -> dict[str, float]:
    """Figures for the curator: likeness of the columns, and the share of rows nearer to a record than to another.

    Args:
        spec: the public bounds.
        synthetic: released rows.
        real: the records, as they are behind `vault.nonprivate`.
        holdout: records that nothing was learned from.
        seed: of the choice of rows.
    """
    close = fidelity(real, synthetic, spec=spec)
    figures = {"marginal": close.marginal, "correlation": close.correlation}
    kept = asdict(structure(real, synthetic, spec=spec))
    figures |= {name.replace("_", " "): value for name, value in kept.items() if np.isfinite(value)}
    if holdout is not None:
        nearer = nearest_records(synthetic, real, holdout, seed=seed).nearer_share
        figures |= {"nearer to a record that was learned from, from": nearer.low, "to": nearer.high}
    return figures


def whole_trajectories(
    spec: PublicSpec,
    synthetic: Sequences,
    reference: Sequences | None,
    public: Sequences | None = None,
    *,
    longest: int,
    seed: int,
    world: PlaneWorld | None = None,
    state: tuple[int, str] | None = None,
) -> dict[str, Any]:
    """A report's fields on trajectories as wholes: `whole_trajectories` and `scores`.

    Args:
        spec: the public bounds.
        synthetic: released trajectories, with their stitches.
        reference: simulated ones to compare with, or None (private ones are never compared with).
        public: of nobody who is among the reference, from which TrajScore learns what trajectories are like.
        longest: public number of steps of the longest trajectory.
        seed: of what is chosen to be drawn, and of TrajScore.
        world: whose plane they are paths through; without one, trajectories with discrete actions are time lines.
        state: column of the observation in time lines, and its name; by default the first number that changes.
    """
    errors = None if world is None else simulator_errors(world, synthetic)
    close = None
    if reference is not None and public is not None:
        close = _trajectory_score(synthetic, reference, public, longest, seed)
    total = synthetic.returns
    room = 0.05 * float(np.ptp(total)) or 1.0
    returns = float(total.min()) - room, float(total.max()) + room  # of released trajectories, and so public
    box = spec.observation
    parts = list(enumerate(dimensions(box.columns))) if box.columns else []
    moving = [(i, part.name) for i, part in parts if part.kind in ("number", "integer") and not part.static]
    state = state or next(iter(moving), (0, spec.names("observations")[0]))
    column = state[0]
    lines = world is None and isinstance(spec.action, Discrete) and isinstance(box, Box)
    sources: list[tuple[str, Kind, Sequences]] = [(SYNTHETIC, "synthetic", synthetic)]
    if reference is not None:
        sources.insert(0, (PROTECTED, "reference", reference))
    drawings: list[Drawing] = []
    for label, kind, table in sources:
        if world is not None:
            drawings.append(Drawing(label, kind, table.sample(_PATHS, seed)))
        elif lines:
            drawings.append(Drawing(label, kind, table.sample(_LINES, seed), column, label.split()[0]))
    pictures = WholeTrajectories(
        drawings=tuple(drawings),
        plane=None if world is None else make_plane(world.cells, world.origin, world.goal),
        state=ChartAxis(state[1], box.low[column], box.high[column]) if lines and isinstance(box, Box) else None,
        figures=trajectory_histograms(synthetic, reference, longest=longest, returns=returns),
        errors=() if errors is None else ((SYNTHETIC, "synthetic", errors.step_errors),),
    )
    scores = trajectory_scores(errors, close)
    if reference is not None and np.isfinite(close_in_time := lag_closeness(reference, synthetic)):
        best = lag_closeness(*reference.split_halves(seed)) if len(reference) > 1 else None
        floor = (("Rows in any order", lag_closeness(reference, synthetic.shuffle_rows(seed))),)
        meaning = "a number and itself one row later: mean of 1 - |difference of correlations| / 2; 1 is equal"
        scores += (Score("Correlation in time", meaning, close_in_time, False, best, floor),)
    return {"whole_trajectories": pictures, "scores": scores}


def simulator_errors(world: PlaneWorld, sequences: Sequences) -> SequenceDynamics | None:
    """Errors against the world's own simulator; None where every row starts inside a wall."""
    if world.in_wall(np.asarray(sequences.columns["observations"])[:, :2]).all():
        return None
    return sequence_dynamics(sequences, world.step, known=lambda state: ~world.in_wall(state[:, :2]))


def _trajectory_score(
    synthetic: Sequences, reference: Sequences, public: Sequences, longest: int, seed: int
) -> TrajScore | None:
    """TrajScore; None of a handful."""
    if min(len(synthetic), len(reference) // 2, len(public)) < MIN_TRAJECTORIES:
        return None
    encoder = train_encoder(public, horizon=longest, stride=-(-longest // TRAJSCORE_STEPS), seed=seed)
    return traj_score(encoder, reference, synthetic, seed=seed)


def t_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Mean of independent runs and its two-sided 95 % t-interval: (mean, low, high); infinite for a single run."""
    numbers = np.asarray(values, np.float64)
    mean = float(numbers.mean())
    if numbers.size < 2:
        return mean, -math.inf, math.inf
    quantile = float(stats.t.ppf(0.975, numbers.size - 1))
    half = quantile * float(numbers.std(ddof=1)) / math.sqrt(numbers.size)
    return mean, mean - half, mean + half
