"""What is counted together: the parents of every column and how finely they are cut, chosen on public rows alone.

Every column is drawn given its parents: coarser bins of columns before it, or a *guide*, the expected value of an
action in fine cells of the observation (`guides.py`). Parents are added, or cut more finely, as long as public rows
that were held out become more likely under noise of the size that private tables will have.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories, owners_of
from tacit.methods.synthesis.laws import estimate_laws
from tacit.methods.synthesis.structured.columns import (
    FITTED,
    OWN_EVEN,
    SCREENING_ROWS,
    Bins,
    DrawnColumn,
    Floats,
    PublicWorld,
    Rows,
    Table,
    best_option,
    default_columns,
    nice_edges,
    public_columns,
)
from tacit.methods.synthesis.structured.guides import (
    GUIDE_BINS,
    MOST_GUIDE_CELLS,
    PARTS,
    Guide,
    GuideMeans,
    count_parts,
    fit_guide,
    guide_public_rows,
)
from tacit.validation import require_valid

MOST_PARENTS = 4
MOST_CELLS = 600_000
"""Of one table."""
LEAST_GAIN = 0.003
"""Nats a row for which a table is made finer."""
HOPELESS = 0.02
"""Nats a row by which a table is worse in the first world, so that others are not asked."""
MIXED = 0.02
"""Share of even odds in a law that is tried on held-out rows: no row is impossible."""
WORLDS = 2
"""Public worlds on which parents are chosen, the largest ones."""
FEWEST_ROWS = 1_000
"""Of a public world, on average; units with fewer are people or episodes of one world."""


@dataclass(frozen=True)
class TableParent:
    """A column before, at a level of one of its ladders; or, with `guide`, the guide of this number."""

    column: int
    ladder: int = 0
    level: int = 0
    guide: bool = False


@dataclass(frozen=True)
class Structure:
    """Of each column its parents, and the guides.

    Args:
        table: the columns.
        parents: of each column.
        guides: what is expected of actions, given fine cells of the observation.
    """

    table: Table
    parents: tuple[tuple[TableParent, ...], ...]
    guides: tuple[Guide, ...] = ()

    def __post_init__(self) -> None:
        columns = self.table.columns
        fits = len(self.parents) == len(columns) and all(
            0 <= parent.column < (len(self.guides) if parent.guide else i)
            for i, parents in enumerate(self.parents)
            for parent in parents
        )
        require_valid("structure", len(self.parents), fits, "of each column, parents that come before it")

    def bins(self, parent: TableParent) -> Bins:
        """Of a parent."""
        if parent.guide:
            own = self.table.columns[self.guides[parent.column].column].own
            return Bins(tuple(np.linspace(own.edges[0], own.edges[-1], GUIDE_BINS[parent.level] + 1).tolist()))
        return self.table.columns[parent.column].ladders[parent.ladder][parent.level]

    def shape(self, column: int) -> list[int]:
        """Bins of each parent of a column."""
        return [self.bins(parent).size for parent in self.parents[column]]

    def ordinal(self, column: int) -> list[bool]:
        """Of each parent of a column, whether neighbouring bins are alike."""
        columns = self.table.columns
        return [parent.guide or not _labels(self.table.spec, columns[parent.column]) for parent in self.parents[column]]

    def size(self, column: int) -> int:
        """Cells of a column's table."""
        return self.table.columns[column].own.size * math.prod(self.shape(column))

    def is_small(self, column: int) -> bool:
        """Whether the table has many rows a cell: of what comes first, follows from a guide, or is an error left."""
        guided = any(parent.guide for parent in self.parents[column])
        left = self.table.columns[column].role == "next" and bool(self.table.prediction)
        return not self.parents[column] or guided or left

    @property
    def counts(self) -> tuple[int, int, int]:
        """Guides, tables, and small tables."""
        small = sum(self.is_small(i) for i in range(len(self.parents)))
        return len(self.guides), len(self.parents) - small, small

    def cells(self, column: int, values: Sequence[Floats], means: Sequence[Floats]) -> NDArray[np.int64]:
        """The cell [N] of the parents of a column, where columns before it and expected values of guides are known."""
        cell = np.zeros(len(values[0]), np.int64)
        for parent in self.parents[column]:
            bins = self.bins(parent)
            cell = cell * bins.size + bins.encode(means[parent.column] if parent.guide else values[parent.column])
        return cell


def _labels(spec: PublicSpec, column: DrawnColumn) -> bool:
    if not column.is_category:
        return False
    space = {"observation": spec.observation, "next": spec.observation, "action": spec.action}.get(column.role)
    if space is None:
        return column.role == "end"
    categories = getattr(space, "categories", None)
    return categories is None or bool(categories[column.index])


def default_structure(spec: PublicSpec, rows: int, deviation: float) -> Structure:
    """Parents by the spec alone: neighbours in its order, coarse enough that a mean cell holds two deviations of noise.

    Raises:
        DataError: the observation is a Box and `spec.difference` is not declared.
    """
    columns = default_columns(spec)
    table, most = Table(spec, columns), min(max(1.0, rows / (2 * deviation)), MOST_CELLS)

    def cells(before: Sequence[tuple[TableParent, ...]], parents: Sequence[TableParent]) -> int:
        place = len(before)
        return Structure(table, (*before, tuple(parents), *((),) * (len(columns) - place - 1))).size(place)

    places = {role: [i for i, one in enumerate(columns) if one.role == role] for role in ("observation", "action")}
    seen, done = places["observation"], places["action"]
    found: list[tuple[TableParent, ...]] = []
    for i, one in enumerate(columns):
        if one.role == "observation":
            wanted = [j for j in seen if j < i][-2:]
        elif one.role == "action":
            wanted = [*[j for j in done if j < i][-1:], *seen[:3]]
        elif one.role == "next":
            own = [j for j in seen if columns[j].index == one.index]
            wanted = [*own, *done[:2], *[j for j in range(i) if columns[j].role == "next"][-1:]]
        else:
            wanted = [*seen[:2], *done[:1]]
        wanted = [j for j in wanted if columns[j].ladders]
        parents = [TableParent(j, 0, 0) for j in wanted]
        while parents and cells(found, parents) > most:
            parents.pop()
        for place, parent in enumerate(parents):  # finer, the first parents first
            for level in range(1, len(columns[parent.column].ladders[0])):
                finer = [*parents[:place], dataclasses.replace(parent, level=level), *parents[place + 1 :]]
                if cells(found, finer) <= most:
                    parents = finer
        found.append(tuple(parents))
    return _keep_used(Structure(table, tuple(found)))


def choose_structure(
    spec: PublicSpec, worlds: Sequence[Rows], *, rows: int, multiplier: float, seed: int = 0
) -> Structure:
    """Parents and guides by public rows.

    Args:
        spec: the public bounds of the private data.
        worlds: public rows, a mapping of columns each, of worlds (cities, mazes, hospitals) that differ in their laws.
        rows: how many private rows there are, as the public expects.
        multiplier: of the whole release, its sigma.
        seed: of the simulated noise; public.
    """
    noise = np.random.default_rng(seed).standard_normal(max(MOST_CELLS, MOST_GUIDE_CELLS * PARTS))  # the same for all
    every = max(1, sum(len(world["rewards"]) for world in worlds) // FITTED)
    pooled = {name: np.concatenate([np.asarray(world[name])[::every] for world in worlds]) for name in worlds[0]}
    table = public_columns(spec, pooled)
    sized = sorted(worlds, key=lambda world: -len(world["rewards"]))[:WORLDS]
    actions = [i for i, one in enumerate(table.columns) if one.role == "action" and not one.is_category]
    # the number of tables decides the noise before they are chosen; half of them will be small ones
    errors = sum(one.role == "next" for one in table.columns)
    weight = 2 * len(actions) + len(table.columns) - errors + 0.1 * errors
    plain = multiplier * math.sqrt(weight)
    seen = [i for i, one in enumerate(table.columns) if one.role == "observation"]
    training = [PublicWorld(table, world, rows) for world in sized]
    guides, guided = [], []
    for action in actions:
        guide = fit_guide(table, action, seen, training, rows, plain, noise)
        guides.append(guide)
        guided.append(guide_public_rows(guide, table, training, rows, plain, noise))
    for place, world in enumerate(training):
        world.values += [values[place] for values in guided]
    structure = Structure(table, ((),) * len(table.columns), tuple(guides))
    for column in range(len(table.columns)):
        structure = _choose_parents(structure, column, training, plain, noise)
    return _keep_used(structure)


def split_worlds(records: Trajectories) -> list[Rows]:
    """Public rows by their worlds: units with ids that have many rows each, or all rows as one world."""
    rows = records.columns
    units = int(owners_of(records).max()) + 1 if records.unit_kind == "id" else 1
    if len(rows["rewards"]) < FEWEST_ROWS * units:
        return [rows]
    return [rows] if units == 1 else [world.columns for world in records.split_by_unit()]


def public_means(structure: Structure, worlds: Sequence[Rows]) -> tuple[GuideMeans, ...]:
    """What public rows say of the guides' cells, from which private means begin."""
    values = [structure.table.values(world) for world in worlds]
    table = structure.table
    return tuple(
        GuideMeans.of(guide, table, [count_parts(guide, table, one) for one in values]) for guide in structure.guides
    )


def _keep_used(structure: Structure) -> Structure:
    """The structure without guides and bins that no table needs: it stands in certificates."""
    guides = sorted({parent.column for parents in structure.parents for parent in parents if parent.guide})
    used: dict[int, list[Bins]] = {i: [] for i in range(len(structure.table.columns))}

    def keep(column: int, bins: Bins) -> int:
        if bins not in used[column]:
            used[column].append(bins)
        return used[column].index(bins)

    columns, parents = structure.table.columns, []
    for several in structure.parents:
        kept = []
        for parent in several:
            if parent.guide:
                kept.append(dataclasses.replace(parent, column=guides.index(parent.column)))
            else:
                kept.append(TableParent(parent.column, keep(parent.column, structure.bins(parent)), 0))
        parents.append(tuple(kept))
    found = []
    for guide in (structure.guides[i] for i in guides):
        axes = tuple((i, keep(i, columns[i].ladders[ladder][level]), 0) for i, ladder, level in guide.axes)
        found.append(dataclasses.replace(guide, axes=axes))
    slim = tuple(dataclasses.replace(one, ladders=tuple((bins,) for bins in used[i])) for i, one in enumerate(columns))
    return Structure(dataclasses.replace(structure.table, columns=slim), tuple(parents), tuple(found))


def _choose_parents(
    structure: Structure, place: int, worlds: Sequence[PublicWorld], deviation: float, noise: Floats
) -> Structure:
    column = structure.table.columns[place]
    small = column.role == "next" or place == 0
    deviation *= math.sqrt(10.0) if small else 1.0
    best = _score(structure, place, worlds, deviation, noise)
    best, structure = _grow(structure, place, worlds, deviation, noise, best)
    if column.is_category or column.role not in ("observation", "reward"):
        return structure
    own = column.own
    fine = dataclasses.replace(column, own=Bins(nice_edges(own.edges[0], own.edges[-1], OWN_EVEN), own.atoms))
    columns = (*structure.table.columns[:place], fine, *structure.table.columns[place + 1 :])
    finer = dataclasses.replace(structure, table=dataclasses.replace(structure.table, columns=columns))
    if finer.size(place) > MOST_CELLS:
        return structure
    scores = _score(finer, place, worlds, deviation, noise)
    return _grow(finer, place, worlds, deviation, noise, scores)[1] if scores.mean() >= best.mean() else structure


def _grow(
    structure: Structure, place: int, worlds: Sequence[PublicWorld], deviation: float, noise: Floats, best: Floats
) -> tuple[Floats, Structure]:
    """More parents of one column, greedily, and their score in each world; `best` is that of the parents now."""
    screen = partial(_screen, place=place, world=worlds[0], deviation=deviation)
    score = partial(_score, place=place, worlds=worlds, deviation=deviation, noise=noise)
    while True:
        every = structure.parents
        options = [
            dataclasses.replace(structure, parents=(*every[:place], one, *every[place + 1 :]))
            for one in _refinements(structure, place, every[place])
        ]
        options = [one for one in options if one.size(place) <= MOST_CELLS]
        reached, finer = best_option(structure, options, best, screen, partial(score, now=best))
        for world in worlds:
            world.shared.clear()
        if reached.mean() < best.mean() + LEAST_GAIN:
            return best, structure
        best, structure = reached, finer


def _refinements(
    structure: Structure, place: int, parents: tuple[TableParent, ...]
) -> Iterator[tuple[TableParent, ...]]:
    columns = structure.table.columns
    held = {(parent.column, parent.guide) for parent in parents}
    if len(parents) < MOST_PARENTS:
        for j in range(place):
            if (j, False) not in held:
                for ladder, levels in enumerate(columns[j].ladders):
                    yield from ((*parents, TableParent(j, ladder, level)) for level in range(len(levels)))
        if columns[place].role == "action":
            for g in range(len(structure.guides)):
                if (g, True) not in held:
                    yield from ((*parents, TableParent(g, 0, level, True)) for level in range(len(GUIDE_BINS)))
    for i, parent in enumerate(parents):
        finer: list[TableParent] = []
        if parent.guide and parent.level + 1 < len(GUIDE_BINS):
            finer = [dataclasses.replace(parent, level=parent.level + 1)]
        elif not parent.guide:  # of each ladder, the first bins that are more than now
            size = structure.bins(parent).size
            for ladder, levels in enumerate(columns[parent.column].ladders):
                more = [level for level, bins in enumerate(levels) if bins.size > size]
                finer += [TableParent(parent.column, ladder, level) for level in more[:1]]
        yield from ((*parents[:i], one, *parents[i + 1 :]) for one in finer)


def _joint_codes(structure: Structure, place: int, world: PublicWorld, count: int) -> NDArray[np.int32]:
    columns, axes = structure.table.columns, []
    for parent in structure.parents[place]:
        axes.append((parent.column + len(columns) * parent.guide, structure.bins(parent)))
    own = columns[place].own
    return np.asarray(world.cells(tuple(axes), count) * np.int32(own.size) + world.codes(place, own, count))


def _screen(structure: Structure, place: int, world: PublicWorld, deviation: float) -> float:
    """Mean log-likelihood of few rows, less what their number and the noise of so many cells take away."""
    size, count = structure.table.columns[place].own.size, min(SCREENING_ROWS, world.count)
    joint = np.bincount(_joint_codes(structure, place, world, count), minlength=structure.size(place))
    rows = joint.reshape(-1, size).sum(axis=1)
    joint, rows = joint[joint > 0], rows[rows > 0]
    total = (joint @ np.log(joint) - rows @ np.log(rows)) / count
    spurious = (len(joint) - len(rows)) / (2 * count)
    private = world.scale * world.kept
    return float(total - spurious - min(1.0, deviation * math.sqrt(structure.size(place)) / private) * 2)


def _score(
    structure: Structure,
    place: int,
    worlds: Sequence[PublicWorld],
    deviation: float,
    noise: Floats,
    now: Floats | None = None,
) -> Floats:
    """In each world, mean log-density of held-out rows under tables with the noise to come, scaled to the private rows.

    With fewer rows than these, it is carried on along 1 / rows from all and half of them. Where the first world's is
    much worse than `now`, no other is asked.
    """
    column = structure.table.columns[place]
    size, shape, ordinal = column.own.size, structure.shape(place), structure.ordinal(place)
    widths, scores = np.log(column.own.widths), list[float]()
    for world in worlds:
        joint = _joint_codes(structure, place, world, world.count)
        held_out, found = joint[world.kept :], []
        for part in (1, 2) if world.scale > 1.5 else (1,):
            counts = np.bincount(joint[: world.kept : part], minlength=structure.size(place)) * (world.scale * part)
            law = estimate_laws(counts + deviation * noise[: len(counts)], shape, deviation, ordinal).ravel()[held_out]
            found.append(float(np.log((1 - MIXED) * law + MIXED / size).mean()))
        score = found[0]
        if len(found) == 2:
            score += max(0.0, found[0] - found[1]) * (1 - 1 / world.scale)
        scores.append(score - float(widths[held_out % size].mean()))
        if now is not None and scores[0] < now[0] - HOPELESS:
            return np.asarray(now + (scores[0] - now[0]))
    return np.asarray(scores)
