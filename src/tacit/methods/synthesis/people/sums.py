"""What one unit adds to the three noisy sums, and what is made of them.

| sum        | a unit's vector                                                                     | its norm        |
|------------|-------------------------------------------------------------------------------------|-----------------|
| histograms | of each number, the shares of its own values in the cells of a public grid          | sqrt(numbers)   |
| regression | of each changing number, each action of many numbers and the reward, the sum of z z' | sqrt(targets,   |
|            | over its visits over that sum's own norm; of the reward times `REWARD_WEIGHT`       | squared weights)|
| tables     | statics, number of visits and first values once; all else counts / sqrt(visits),    | sqrt(once + 3   |
|            | together scaled to at most sqrt(3 x their tables)                                   | x others)       |

The vault clips every vector to these norms whatever is written here: what follows is about accuracy alone.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.people.densities import Density, fine_grid
from tacit.methods.synthesis.people.scheme import (
    ONCE,
    ChangeModel,
    Node,
    Parent,
    ParentKind,
    RewardModel,
    Scheme,
    State,
    features,
    habit_features,
    reward_features,
)
from tacit.methods.synthesis.people.visits import GOES_ON, CutVisits

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rows = Mapping[str, NDArray[Any]]
Scores = tuple[tuple[float, ...], ...]

LOOSE = 3.0
"""Squared norm that the tables of visits may have each, on average: a unit's visits lie in many cells."""
AT_ONCE = 2**20
"""Products that are held at a time, at most."""
MOVES: tuple[ParentKind, ParentKind] = ("now", "before")
RIDGE = 0.6
REWARD_WEIGHT = 0.7
"""Norm of a unit's moments of the reward, where that of a change's is 1."""
LEAST_SPREAD = 0.003
"""Of a residual's variance, as a share of the largest change's square."""


@dataclass(frozen=True)
class NumberShares:
    """The shares of a unit's values in the cells of each number's grid."""

    scheme: Scheme

    def __call__(self, rows: Rows, state: None) -> Floats:
        """[U, cells of all grids]."""
        visits, scheme = self.scheme.visits_of(rows), self.scheme
        values = (*visits.seen, *visits.done, visits.reward)
        owners, places, weights, begin = [], [], [], 0
        for place, low, high, whole in scheme.numbers:
            edges, here = fine_grid(low, high, whole=whole), values[place]
            counts = ~np.isnan(here)
            if place >= len(scheme.seen):
                counts &= visits.acted
            elif scheme.seen[place].duration:
                counts &= ~visits.begins
            cell = np.clip(np.searchsorted(edges, here[counts], side="right") - 1, 0, len(edges) - 2)
            owner = visits.owner[counts]
            owners.append(owner)
            places.append(begin + cell)
            weights.append(1 / np.bincount(owner, minlength=visits.units)[owner])
            begin += len(edges) - 1
        return _count(owners, places, weights, visits.units, begin)


def read_densities(scheme: Scheme, sums: Floats, deviation: float) -> tuple[Scheme, float]:
    """The scheme with the densities of its numbers, and how many units there are as far as the noise tells."""
    found: list[Density | None] = [None] * (len(scheme.seen) + len(scheme.done) + 1)
    begin, units = 0, 1.0
    for place, low, high, whole in scheme.numbers:
        edges = fine_grid(low, high, whole=whole)
        part = sums[begin : begin + len(edges) - 1]
        found[place], begin = Density.within_reach(edges, part, deviation), begin + len(part)
        if scheme.computes_reward or place == len(found) - 1:  # everybody has a reward, and few miss every number
            units = max(units, float(part.sum()))
    return dataclasses.replace(scheme, densities=tuple(found)), units


@dataclass(frozen=True)
class VisitMoments:
    """Of each changing number what its expected change is regressed from, of actions what leads to them.

    A unit's z z', of norm 1 each.
    """

    scheme: Scheme

    def __call__(self, rows: Rows, state: None) -> Floats:
        """[U, upper triangles of all targets]; what lies off the diagonal is times sqrt(2)."""
        visits = self.scheme.visits_of(rows)
        vectors = np.zeros((visits.units, sum(count_moments(self.scheme))))
        begin, regressed = 0, self._regressed(visits, state_of(self.scheme, visits))
        for weight, (here, columns) in zip(moment_weights(self.scheme), regressed, strict=True):
            z = np.stack(columns)
            i, j = np.triu_indices(len(z))
            rows_of = np.searchsorted(i, np.arange(len(z) + 1))
            total, owner = vectors[:, begin : begin + len(i)], visits.owner[here]
            begin += len(i)
            several = max(1, AT_ONCE // (len(i) * self.scheme.most))  # units, whatever they have
            for unit in range(0, visits.units, several):
                first, end = np.searchsorted(owner, (unit, unit + several))
                owners, starts = np.unique(owner[first:end], return_index=True)
                if len(owners):
                    block, products = z[:, first:end], np.empty((len(i), end - first))
                    for k, (a, b) in enumerate(pairwise(rows_of)):
                        np.multiply(block[k], block[k:], out=products[a:b])
                    total[owners] = np.add.reduceat(products, starts, axis=1).T
            total *= np.where(i == j, 1.0, np.sqrt(2.0))
            norms = np.linalg.norm(total, axis=1, keepdims=True)
            total *= weight / np.where(norms > 0, norms, 1.0)
        return vectors

    def _regressed(self, visits: CutVisits, known: State) -> Iterator[tuple[Integers, list[Floats]]]:
        scheme = self.scheme
        for target in scheme.changing:
            here = changes_of(scheme, visits, known, target)
            part = {parent: values[here] for parent, values in known.items()}
            now, before = (scheme.seen[target].straighten(part[Parent(kind, target)]) for kind in MOVES)
            yield here, [*features(scheme, target, part), np.clip((now - before) / scheme.change_scale(target), -1, 1)]
        for target in scheme.habits:
            here, one = np.flatnonzero(visits.acted & ~np.isnan(visits.done[target])), scheme.done[target]
            part = {parent: values[here] for parent, values in known.items()}
            acts = part[Parent("action", target)]
            labels = [(acts == label).astype(np.float64) for label in range(one.labels)]
            answers = labels or [np.clip((acts - one.low) / (one.high - one.low) * 2 - 1, -1, 1)]
            yield here, [*habit_features(scheme, target, part), *answers]
        if not scheme.computes_reward:
            here, (low, high) = np.flatnonzero(visits.acted), scheme.reward
            part = {parent: values[here] for parent, values in known.items()}
            answer = np.clip((visits.reward[here] - low) / (high - low) * 2 - 1, -1, 1)
            yield here, [*reward_features(scheme, part), answer]


def count_moments(scheme: Scheme) -> list[int]:
    """How many moments each regression has, of any densities."""
    flat = (None if one.labels else Density((one.low, one.high), (0.0, 1.0)) for one in scheme.seen)
    scheme = dataclasses.replace(scheme, densities=tuple(flat))
    nothing = collections.defaultdict[Parent, Floats](lambda: np.zeros(1))
    widths = [len(features(scheme, target, nothing)) + 1 for target in scheme.changing]
    habits = [(habit_features(scheme, target, nothing), scheme.done[target].labels) for target in scheme.habits]
    widths += [len(columns) + max(1, labels) for columns, labels in habits]
    if not scheme.computes_reward:
        widths.append(len(reward_features(scheme, nothing)) + 1)
    return [width * (width + 1) // 2 for width in widths]


def moment_weights(scheme: Scheme) -> list[float]:
    """The norm of a unit's moments of each regression: what is expected of a reward only sorts its table's cells."""
    own = len(scheme.changing) + len(scheme.habits)
    return [1.0] * own + [REWARD_WEIGHT] * (not scheme.computes_reward)


def solve_regressions(scheme: Scheme, sums: Floats, deviation: float) -> Scheme:
    """The scheme with the regressions of its changing numbers and actions, by ridge from noisy moments."""
    own = len(scheme.seen)
    regressions: list[ChangeModel | None] = [None] * (own + len(scheme.done))
    leanings: list[Scores] = [()] * len(scheme.done)
    done, worth = len(scheme.done), None
    places, begin = [*scheme.changing, *(own + i for i in scheme.habits)], 0
    places += [own + done] * (not scheme.computes_reward)
    for place, size, weight in zip(places, count_moments(scheme), moment_weights(scheme), strict=True):
        part, begin = sums[begin : begin + size] / weight, begin + size
        width = int(np.sqrt(2 * size))
        i, j = np.triu_indices(width)
        moments = np.zeros((width, width))
        moments[i, j] = moments[j, i] = part / np.where(i == j, 1.0, np.sqrt(2.0))
        ridge = RIDGE * deviation / weight * np.sqrt(width)
        labels = scheme.done[place - own].labels if own <= place < own + done else 0
        answers = labels or 1
        inner, cross = moments[:-answers, :-answers], moments[:-answers, -answers:]
        if labels:
            leanings[place - own] = _discriminate(inner, cross, np.diag(moments)[-labels:], ridge)
            continue
        weights, visits = _solve(inner, cross, ridge)[:, 0], max(moments[0, 0], 1.0)
        if place == own + done:
            mean = float(weights @ inner[0] / visits)
            spread = np.sqrt(np.clip(weights @ inner @ weights / visits - mean**2, LEAST_SPREAD, 1.0))
            worth = RewardModel(tuple(weights.tolist()), mean, float(spread))
            continue
        rest = moments[-1, -1] - 2 * weights @ cross[:, 0] + weights @ inner @ weights
        spread = np.sqrt(np.clip(rest / visits, LEAST_SPREAD, 1.0))
        if place < own:
            scale = scheme.change_scale(place)
        else:  # an action lies about the middle of its range, and the first feature is 1
            low, high = scheme.done[place - own].low, scheme.done[place - own].high
            scale = (high - low) / 2
            weights[0] += (low + high) / 2 / scale
        regressions[place] = ChangeModel(tuple(weights.tolist()), scale, float(spread * scale))
    return dataclasses.replace(scheme, regressions=tuple(regressions), leanings=tuple(leanings), worth=worth)


def _solve(inner: Floats, cross: Floats, ridge: float) -> Floats:
    values, vectors = np.linalg.eigh(inner)  # of which noise makes some negative
    return np.asarray(vectors @ ((vectors.T @ cross) / np.maximum(np.maximum(values, 0) + ridge, 1e-9)[:, None]))


def _discriminate(inner: Floats, cross: Floats, counts: Floats, ridge: float) -> Scores:
    # linear discriminants: labels are normal with one covariance; the first feature is 1
    counts = np.maximum(counts, ridge + 1e-9)
    means = cross[1:] / counts  # [features, labels]
    within = inner[1:, 1:] - (means * counts) @ means.T
    directions = _solve(within, means, ridge) * counts.sum()
    offsets = np.log(counts / counts.sum()) - (directions * means).sum(axis=0) / 2
    return tuple(map(tuple, np.vstack([offsets, directions]).T.tolist()))


@dataclass(frozen=True)
class VisitTables:
    """The tables of all nodes: what is drawn, by what it is drawn given."""

    scheme: Scheme

    def __call__(self, rows: Rows, state: None) -> Floats:
        """[U, cells of all tables]."""
        visits = self.scheme.visits_of(rows)
        known, weight = state_of(self.scheme, visits), 1 / np.sqrt(np.maximum(visits.count, 1))
        owners, places, weights, begin, room, several = [], [], [], 0, 0, 0
        for node in sorted(self.scheme.nodes, key=lambda node: node.role not in ONCE):  # as they are in the scheme
            here, codes = codes_of(self.scheme, visits, known, node)
            part = {
                parent: known[parent][here] for parent in {dataclasses.replace(one, level=0) for one in node.parents}
            }
            owner, once, size = visits.owner[here], node.role in ONCE, self.scheme.size(node)
            owners.append(owner)
            places.append(begin + self.scheme.cells(node, part, len(here)) * size + codes)
            weights.append(np.ones(len(owner)) if once else weight[owner])
            begin, several = begin + size * int(np.prod(self.scheme.shape(node))), several + (not once)
            room = begin if once else room
        vectors = _count(owners, places, weights, visits.units, begin)
        squares = np.einsum("uc,uc->u", vectors[:, room:], vectors[:, room:])
        long = np.flatnonzero(squares > LOOSE * several)
        vectors[long, room:] *= np.sqrt(LOOSE * several / squares[long])[:, None]
        return vectors


def split_tables(scheme: Scheme, sums: Floats) -> Iterator[tuple[Node, Floats]]:
    """The noisy table of each node, [cells of its parents x its values]."""
    begin = 0
    for node in scheme.nodes:
        size = scheme.size(node) * int(np.prod(scheme.shape(node)))
        yield node, sums[begin : begin + size]
        begin += size


def _count(
    owners: Sequence[Integers], cells: Sequence[Integers], weights: Sequence[Floats], units: int, size: int
) -> Floats:
    everywhere = np.concatenate(owners) * size + np.concatenate(cells)
    counts = np.bincount(everywhere, np.concatenate(weights), units * size)
    return np.asarray(counts.reshape(units, size), np.float64)


# -- what is known with each visit -----------------------------------------------------------------------------------


def state_of(scheme: Scheme, visits: CutVisits) -> State:
    """Of each parent at level 0, its values [V]."""
    known: dict[Parent, Floats] = {}
    for i, variable in enumerate(scheme.seen):
        values = visits.seen[i]
        if variable.static:
            known[Parent("static", i)] = values
            continue
        now, missing = visits.known(values), np.isnan(values).astype(np.float64)
        before = visits.previous(now)
        earlier = visits.previous(before)
        known |= {
            Parent("now", i): values if variable.duration else now,
            Parent("before", i): before,
            Parent("earlier", i): np.where(np.isnan(earlier), before, earlier),
            Parent("missing", i): missing,
            Parent("missed", i): visits.previous(missing, 2.0),
        }
    for i, values in enumerate(visits.done):
        known |= {Parent("action", i): values, Parent("last", i): visits.previous(values)}
    known |= leaning_of(scheme, known)
    known[Parent("over", 0)] = visits.terminated.astype(np.float64)
    known |= worth_of(scheme, known)
    start = np.maximum.accumulate(np.where(visits.begins, np.arange(len(visits.owner)), 0))
    return {
        **known,
        Parent("age", 0): np.arange(len(visits.owner), dtype=np.float64) - start,
    }


def changes_of(scheme: Scheme, visits: CutVisits, known: State, i: int) -> Integers:
    """The visits in which a variable is seen again in its episode."""
    return np.flatnonzero(~np.isnan(visits.seen[i]) & ~np.isnan(known[Parent("before", i)]))


def expected(scheme: Scheme, node: Node, known: State) -> Floats:
    """The expected change of a straightened number, or the expected action."""
    regression = scheme.regression(node)
    assert regression is not None
    told = features if node.role == "change" else habit_features
    # row by row, so that nobody's residual depends on who else is there, not even in its last bit
    columns = np.stack(told(scheme, node.index, known), axis=1)
    return np.asarray((columns * np.asarray(regression.weights)).sum(axis=1) * regression.scale)


def leaning_of(scheme: Scheme, known: State) -> State:
    """Of each action that has scores, the label [V] that is most likely by what is known."""
    found = {}
    for i, labels in enumerate(scheme.leanings):
        if labels:
            columns = np.stack(habit_features(scheme, i, known), axis=1)  # row by row, as of changes
            scores = [(columns * np.asarray(weights)).sum(axis=1) for weights in labels]
            found[Parent("lean", i)] = np.argmax(scores, axis=0).astype(np.float64)
    return found


def worth_of(scheme: Scheme, known: State) -> State:
    """The expected reward [V], in halves of its range from the middle, where it is modelled."""
    if scheme.worth is None:
        return {}
    columns = np.stack(reward_features(scheme, known), axis=1)  # row by row, as of changes
    return {Parent("worth", 0): (columns * np.asarray(scheme.worth.weights)).sum(axis=1)}


def codes_of(scheme: Scheme, visits: CutVisits, known: State, node: Node) -> tuple[Integers, Integers]:
    """The visits that a node's table counts, and the code of each."""
    role, i, every = node.role, node.index, np.arange(len(visits.owner))
    if role == "visits":
        return visits.first, np.minimum(visits.count[visits.owner[visits.first]], scheme.most) - 1
    if role in ("end", "terminal"):  # by a cut, or by what was done; who has more visits than count is not at an end
        is_cut = ~visits.terminated & (scheme.copied_ends | ~visits.acted)
        here = every if role == "end" else np.flatnonzero(~(is_cut & (visits.ending != GOES_ON)))
        return here, np.where(is_cut if role == "end" else visits.terminated, visits.ending, GOES_ON)[here]
    if role == "missing":
        return every, np.isnan(visits.seen[i]).astype(np.int64)
    if role == "static":
        here, values = visits.first, visits.seen[i]
    elif role == "first":
        there = np.flatnonzero(~np.isnan(visits.seen[i]) & np.isnan(known[Parent("before", i)]))
        here, values = there[np.unique(visits.owner[there], return_index=True)[1]], visits.seen[i]
    elif role == "duration":
        here, values = np.flatnonzero(~visits.begins & ~np.isnan(visits.seen[i])), visits.seen[i]
    elif role == "change":
        here, values = changes_of(scheme, visits, known, i), visits.seen[i]
    else:
        here = np.flatnonzero(visits.acted)
        values = visits.reward if role == "reward" else visits.done[i]
    if scheme.regression(node) is not None:
        part, values = {parent: value[here] for parent, value in known.items()}, values.copy()
        if role == "change":
            now, before = (scheme.seen[i].straighten(part[Parent(kind, i)]) for kind in MOVES)
            values[here] = now - before
        values[here] -= expected(scheme, node, part)
    cut, chosen = scheme.cut(node), values[here]
    missing = scheme.size(node) - 1  # the last code, of statics and actions that may miss
    codes = np.nan_to_num(chosen).astype(np.int64) if cut is None else cut.encode(chosen)
    return here, np.where(np.isnan(chosen), missing, codes)
