"""The scheme of a person's visits: what is drawn in which order, given what, and how it is coded. All of it is public.

    statics  ->  number of visits  ->  visit by visit:
        durations | what was last seen, last action        missing flags | whether it missed before
        first values | statics, other first values         changes | last action, flag, own last value (`ChangeModel`)
        actions | what is most likely by all that is seen (`Scheme.leanings`), what is seen now, last action
        end by a cut | visits of the episode so far, what is seen now; where the last row of an episode has an action,
                       what is seen now, action            end by termination | what is seen now, action
        reward | whether it terminated, what is expected by all that is seen and done (`RewardModel`), action;
                       or computed by the spec's expression

A node is one of these with its parents; its law is a noisy table. The parents follow from the spec alone
(`default_nodes`), and are made coarser or fewer until a mean cell holds `TOLD` standard deviations of noise.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.people.densities import Cut, Density, Normal, quantile_cut
from tacit.methods.synthesis.people.visits import CutVisits, Variable, cut_visits
from tacit.serialization import OPTIONAL

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Role = Literal["static", "visits", "first", "duration", "missing", "change", "action", "reward", "end", "terminal"]
ParentKind = Literal[
    "static", "before", "earlier", "now", "missed", "missing", "last", "action", "age", "over", "lean", "worth"
]
_SEEN: tuple[ParentKind, ...] = ("static", "before", "earlier", "now")
_DONE: tuple[ParentKind, ...] = ("last", "action")
OWN_COUNTS: Mapping[ParentKind, int] = {"missing": 2, "missed": 3, "over": 2}
"""Of parents that are no variables, how many values they have; an age has one for each visit."""
ONCE: frozenset[Role] = frozenset({"static", "visits", "first"})
"""What a unit has once; all else every visit has."""
LEVELS = (4, 8, 16)
"""Parts that a number as a parent is cut into, from coarse to fine."""
TOLD = 2.0
FEW = 16
"""Labels up to which a category has a say in the expected change of a number."""
CROSSED = 36
"""Products of what is done and what is seen that an expected reward has at most."""
TABLED = 2
"""Numbers that the table of an action holds at most."""
LARGEST_CHANGE = 3.0
"""Typical steps that a change is clipped to where its expectation is learned."""
HALVED: frozenset[Role] = frozenset({"first", "duration", "reward"})
"""Numbers whose own bins are halved before a parent goes."""
OWN, OWN_REWARD, OWN_DURATION, EVEN = 12, 12, 10, 8
"""Bins of a first or static value, a reward and a duration; even parts of a reward's range, of which few decide."""


NODE_WORDS: Mapping[Role, str] = {
    "visits": "number of visits",
    "first": "first {}",
    "missing": "whether {} is missing",
    "reward": "reward",
    "end": "cut of an episode",
    "terminal": "end of an episode",
}
PARENT_WORDS: Mapping[ParentKind, str] = {
    "before": "{} before",
    "earlier": "{} before that",
    "last": "the last {}",
    "missing": "whether {} is missing",
    "missed": "whether {} was missing",
    "age": "visits so far",
    "over": "whether it ends",
    "worth": "what all columns and the action let expect",
    "lean": "the likeliest {} by all columns",
}
"""How a report names what is drawn, and what it is drawn given; else by the name alone."""


@dataclass(frozen=True)
class Parent:
    """What a law is given: `kind` of variable number `index`, at one of `LEVELS` if it is a number."""

    kind: ParentKind
    index: int
    level: int = 0


@dataclass(frozen=True)
class Node:
    """What is drawn: the variable number `index` in this role, given its parents; if `coarse`, in half as many bins."""

    role: Role
    index: int = 0
    parents: tuple[Parent, ...] = ()
    coarse: bool | None = dataclasses.field(default=None, metadata=OPTIONAL)  # True or None


@dataclass(frozen=True)
class ChangeModel:
    """The expected change of a number: `weights` of `features`, in units of `scale`; what is left has this spread."""

    weights: tuple[float, ...]
    scale: float
    spread: float

    @property
    def cut(self) -> Cut:
        """Bins of the residual."""
        halves = np.array([0.15, 0.45, 0.8, 1.2, 1.7, 2.3, 3.2, 8.0]) * self.spread
        return Cut((*(-halves[::-1]).tolist(), *halves.tolist()), Normal(1.1 * self.spread))


@dataclass(frozen=True)
class RewardModel:
    """The expected reward: `weights` of `reward_features`, in halves of its range; it has this mean and spread."""

    weights: tuple[float, ...]
    mean: float
    spread: float

    def quantiles(self, parts: int) -> Floats:
        """The inner cuts of expected rewards into about equally likely parts, as if they were normal."""
        from scipy.special import ndtri

        return np.asarray(self.mean + self.spread * ndtri(np.arange(1, parts) / parts))


State = Mapping[Parent, Floats]
"""Of each parent at level 0, its values [V]; NaN where there are none."""


@dataclass(frozen=True)
class Scheme:
    """How visits are coded, as far as it is known: after the histograms `densities`, then `regressions`, then `nodes`.

    Args:
        seen, done: the observed variables and the actions.
        reward: bounds of the reward.
        whole_reward: whether it is a whole number.
        most: L, visits of a unit at most.
        terminals: whether episodes can terminate.
        copied_ends: whether a row that cuts an episode is its last visit, and its next observation its own.
        densities: of each observed variable, each action and the reward; None of categories.
        regressions: of the change of each observed variable and of each action; None of those that have none.
        nodes: what is drawn, in order.
        computes_reward: True where the reward is computed from what is drawn, else None.
        leanings: of each action the weights of a linear score of each label, of which the highest is most likely.
        worth: of the expected reward; None until it is known, and where the reward is computed.
    """

    seen: tuple[Variable, ...]
    done: tuple[Variable, ...]
    reward: tuple[float, float]
    whole_reward: bool
    most: int
    terminals: bool
    copied_ends: bool = False
    densities: tuple[Density | None, ...] = ()
    regressions: tuple[ChangeModel | None, ...] = ()
    nodes: tuple[Node, ...] = ()
    computes_reward: bool | None = dataclasses.field(default=None, metadata=OPTIONAL)
    leanings: tuple[tuple[tuple[float, ...], ...], ...] = dataclasses.field(default=(), metadata=OPTIONAL)
    worth: RewardModel | None = dataclasses.field(default=None, metadata=OPTIONAL)

    @property
    def numbers(self) -> tuple[tuple[int, float, float, bool], ...]:
        """(place, low, high, whole) of each variable that has a histogram."""
        variables = (*self.seen, *self.done)
        found = [(i, one.low, one.high, one.whole) for i, one in enumerate(variables) if not one.labels]
        if self.computes_reward and found:
            return tuple(found)
        return (*found, (len(variables), *self.reward, self.whole_reward))  # which everybody has: it counts units

    def visits_of(self, rows: Mapping[str, NDArray[Any]]) -> CutVisits:
        """The first visits of padded rows, each column [U, L, ...] with `mask` and `starts` [U, L]."""
        return cut_visits(rows, self.seen, self.done, self.most, copied_ends=self.copied_ends)

    @property
    def changing(self) -> tuple[int, ...]:
        """The observed variables whose changes are modelled by a regression."""
        return tuple(i for i, one in enumerate(self.seen) if not (one.labels or one.static or one.duration))

    @property
    def habits(self) -> tuple[int, ...]:
        """The actions that can follow more numbers than a table holds: what is done usually is regressed first."""
        return tuple(i for i, one in enumerate(self.done) if len(self.changing) > TABLED and one.labels <= FEW)

    @cached_property
    def scales(self) -> dict[int, tuple[float, float]]:
        """Of each observed number, the middle and half the range of what is usual, straightened."""
        found = {}
        for i, one in enumerate(self.seen):
            if (density := self.densities[i]) is not None:
                tenths = one.straighten(density.quantiles(10))
                found[i] = float(tenths[4]), max(float(tenths[8] - tenths[0]) / 2, 1e-6)
        return found

    def change_scale(self, target: int) -> float:
        """The largest change that a regression sees, of a straightened number."""
        one, density = self.seen[target], self.densities[target]
        assert density is not None
        return LARGEST_CHANGE * one.step / (density.quantiles(10)[4] if one.is_logarithmic else 1.0)

    def is_ordinal(self, parent: Parent) -> bool:
        """Whether the values of a parent have an order."""
        if parent.kind in ("age", "worth"):
            return True
        return parent.kind not in OWN_COUNTS and not self.variable(parent).labels

    def variable(self, parent: Parent) -> Variable:
        """The variable that a parent is of."""
        return self.done[parent.index] if parent.kind in ("last", "action", "lean") else self.seen[parent.index]

    def parent_size(self, parent: Parent) -> int:
        """How many values a parent has."""
        if (size := {**OWN_COUNTS, "age": self.most}.get(parent.kind)) is not None:
            return size
        if parent.kind == "worth":
            return LEVELS[parent.level]
        one = self.variable(parent)
        if parent.kind == "lean":
            return one.labels
        return (one.labels or len(self._levels[parent]) + 1) + 1  # and that it is not known

    @cached_property
    def _levels(self) -> dict[Parent, Floats]:
        """Of each number as a parent, where it is cut."""
        found: dict[Parent, Floats] = {}
        if self.worth is not None:
            found |= {Parent("worth", 0, level): self.worth.quantiles(parts) for level, parts in enumerate(LEVELS)}
        for place, density in enumerate(self.densities[:-1]):
            if density is None:
                continue
            kinds, index = (_SEEN, place) if place < len(self.seen) else (_DONE, place - len(self.seen))
            for level, parts in enumerate(LEVELS):
                found |= dict.fromkeys(
                    (Parent(one, index, level) for one in kinds), np.unique(density.quantiles(parts))
                )
        return found

    def parent_codes(self, parent: Parent, state: State) -> Integers:
        """Codes [V] of a parent."""
        values = state[dataclasses.replace(parent, level=0)]
        if parent.kind in ("age", "lean") or parent.kind in OWN_COUNTS:
            return values.astype(np.int64)
        if parent.kind == "worth":
            return np.searchsorted(self._levels[parent], values, side="right")
        unknown, last = np.isnan(values), self.parent_size(parent) - 1
        if self.variable(parent).labels:
            return np.where(unknown, last, np.nan_to_num(values)).astype(np.int64)
        return np.where(unknown, last, np.searchsorted(self._levels[parent], np.nan_to_num(values), side="right"))

    def cells(self, node: Node, state: State, count: int) -> Integers:
        """The cell [V] of a node's parents."""
        cell = np.zeros(count, np.int64)
        for parent in node.parents:
            cell = cell * self.parent_size(parent) + self.parent_codes(parent, state)
        return cell

    def shape(self, node: Node) -> list[int]:
        """Values of each parent of a node."""
        return [self.parent_size(parent) for parent in node.parents]

    def cut(self, node: Node) -> Cut | None:
        """The bins of a node's number; None of a category and of what is counted."""
        place = {"action": len(self.seen) + node.index, "reward": len(self.seen) + len(self.done)}
        density = self.densities[place.get(node.role, node.index)] if node.role not in ("visits", "end") else None
        if (regression := self.regression(node)) is not None:
            return regression.cut
        if density is None or node.role in ("missing", "terminal", "visits", "end"):
            return None
        own, even = {"reward": (OWN_REWARD, EVEN), "duration": (OWN_DURATION, 1)}.get(node.role, (OWN, 1))
        atom = 0.0 if node.role == "reward" and self.reward[0] <= 0 <= self.reward[1] else None
        if node.coarse:
            own, even = own // 2, max(1, even // 2)
        return quantile_cut(density, own, even=even, atom=atom)

    def regression(self, node: Node) -> ChangeModel | None:
        """What a node is expected to be, if its bins are those of what is left."""
        place = {"change": node.index, "action": len(self.seen) + node.index}.get(node.role)
        return None if place is None else self.regressions[place]

    def size(self, node: Node) -> int:
        """How many values a node has."""
        if (size := {"missing": 2, "visits": self.most, "end": 3, "terminal": 3}.get(node.role)) is not None:
            return size
        one = self.done[node.index] if node.role == "action" else self.seen[node.index]
        cut = self.cut(node)
        missing = node.role in ("static", "action") and one.flag  # of all others the flag is a node of its own
        return (one.labels if cut is None else cut.size) + missing

    def dependence(self) -> tuple[tuple[str, str], ...]:
        """What is drawn, in order, and what it is drawn given, in words."""
        found = []
        for node in self.nodes:
            one = self.done[node.index] if node.role == "action" else self.seen[node.index]
            given = [PARENT_WORDS.get(parent.kind, "{}").format(self.variable(parent).name) for parent in node.parents]
            if self.regression(node) is not None:
                given.append("all numbers known by then" if node.role == "change" else "all that is seen")
            found.append((NODE_WORDS.get(node.role, "{}").format(one.name), ", ".join(given) or "nothing"))
        return tuple(found)

    # -- what the scheme is given --------------------------------------------------------------------------------------

    def with_nodes(self, units: float, visits: float, deviation: float) -> Scheme:
        """The default nodes, coarse enough for tables with noise of this deviation, of so many units and visits."""
        nodes = []
        for node in default_nodes(self):
            counts = units if node.role in ONCE else units * np.sqrt(visits)  # a unit's visits weigh sqrt(n) together
            nodes.append(self._trim(node, counts / (TOLD * deviation) if deviation else np.inf))
        return dataclasses.replace(self, nodes=tuple(nodes))

    def _trim(self, node: Node, most_cells: float) -> Node:
        """The node with coarser levels, then fewer parents, until its table has at most so many cells."""
        least = 2 + (Parent("over", 0) in node.parents)
        while node.parents and self.size(node) * np.prod(self.shape(node)) > most_cells:
            parents = list(node.parents)
            finest = max(range(len(parents)), key=lambda i: (parents[i].level, i))
            spare = {"action": 2, "reward": least}.get(node.role, len(parents))  # of these, the last parent goes first
            if len(parents) > spare:
                parents.pop()
            elif parents[finest].level > 0:
                parents[finest] = dataclasses.replace(parents[finest], level=parents[finest].level - 1)
            elif node.role in HALVED and not node.coarse:  # what a number depends on says more than its finest bins
                node = dataclasses.replace(node, coarse=True)
            else:
                parents.pop()
            node = dataclasses.replace(node, parents=tuple(parents))
        return node if node.parents else dataclasses.replace(node, coarse=None)


def default_nodes(scheme: Scheme) -> Iterator[Node]:
    """What is drawn and given what, by the spec alone."""
    seen, done = scheme.seen, scheme.done
    static = [i for i, one in enumerate(seen) if one.static]
    moving = [i for i, one in enumerate(seen) if not (one.static or one.duration)]
    main = [*scheme.changing, *(i for i in moving if seen[i].labels)][:2]  # the first numbers tell most
    whole = 2 if main and not seen[main[0]].labels else 0
    last = (Parent("last", 0),)
    for j, i in enumerate(static):
        yield Node("static", i, (Parent("static", static[j - 1]),) if j else ())
    yield Node("visits")
    about = [Parent("static", i) for i in static if not seen[i].labels][:1]
    about_labels = [Parent("static", i) for i in static if seen[i].labels]
    for j, i in enumerate(moving):
        others = [Parent("now", moving[j - 1])] if j else []
        yield Node("first", i, (*others, *about, *about_labels))
    for i in (i for i, one in enumerate(seen) if one.duration):
        if seen[i].flag:
            yield Node("missing", i, (Parent("missed", i),))
        yield Node("duration", i, (*(Parent("before", i, whole) for i in main[:1]), *last))
    for i in moving:
        missed = (Parent("missed", i),) if seen[i].flag else ()
        if missed:
            yield Node("missing", i, missed)
        own = Parent("before", i, 0 if seen[i].labels else 1)
        yield Node("change", i, (*last, *missed, own) if not seen[i].labels else (own, *last, *missed))
    now = [Parent("now", i, whole if j == 0 else 0) for j, i in enumerate(main)]
    for i in range(len(done)):
        lean = [Parent("lean", i)] if i in scheme.habits and done[i].labels else []
        yield Node("action", i, (*lean, *now[:1], Parent("action", i - 1) if i else Parent("last", 0), *now[1:]))
    coarse = [Parent("now", i) for i in main[:1]]
    if not scheme.computes_reward:
        over = [Parent("over", 0)] * scheme.terminals
        yield Node("reward", 0, (*over, Parent("worth", 0, 2), *coarse, Parent("action", 0)))
    acted = (*now[:1], Parent("action", 0))
    yield Node("end", 0, acted if scheme.copied_ends else (Parent("age", 0), *coarse))
    if scheme.terminals:
        yield Node("terminal", 0, acted)


def habit_features(scheme: Scheme, target: int, state: State) -> list[Floats]:
    """What an action is expected from, each [V] within +-1: all that is seen now, and the last actions."""
    columns = [np.ones(len(state[Parent("last", target)]))]
    for i, one in enumerate(scheme.seen):
        values = state[Parent("static" if one.static else "now", i)]
        if not one.labels:
            columns.append(_usual(scheme, i, values))
        elif one.labels <= FEW:
            columns += [(values == label) * 0.5 for label in range(one.labels)]
        if one.flag and not one.static:
            columns.append(state[Parent("missing", i)])
    for i, one in enumerate(scheme.done):
        if one.labels <= FEW:
            columns += [(state[Parent("last", i)] == label) * 0.5 for label in range(one.labels)]
    return columns


def reward_features(scheme: Scheme, state: State) -> list[Floats]:
    """What a reward is expected from, each [V] within +-1: whether it is the last, all that is seen and done now."""
    numbers, squares, flags = [], [], [state[Parent("over", 0)]] * scheme.terminals
    for i, one in enumerate(scheme.seen):
        values = state[Parent("static" if one.static else "now", i)]
        if not one.labels:
            numbers.append(_usual(scheme, i, values))
            squares.append(numbers[-1] ** 2)
        elif one.labels <= FEW:
            numbers += [(values == label) * 0.5 for label in range(one.labels - 1)]
        if one.flag and not one.static:
            flags.append(state[Parent("missing", i)])
    acts = []
    for i, one in enumerate(scheme.done):
        values = state[Parent("action", i)]
        if one.labels and one.labels <= FEW:
            acts += [(values == label).astype(np.float64) for label in range(one.labels)]
        elif not one.labels:
            acts.append(np.nan_to_num((values - one.low) / (one.high - one.low) * 2 - 1))
    columns = [np.ones(len(state[Parent("action", 0)])), *flags, *numbers, *squares, *acts]
    if len(acts) * len(numbers) <= CROSSED:  # more would cost more noise than they explain
        columns += [act * number for act in acts for number in numbers]
    return columns


def _usual(scheme: Scheme, i: int, values: Floats) -> Floats:
    middle, half = scheme.scales[i]  # what misses is in the middle
    values = (scheme.seen[i].straighten(values) - middle) / half
    return np.clip(np.where(np.isnan(values), 0.0, values), -2, 2) / 2


def features(scheme: Scheme, target: int, state: State) -> list[Floats]:
    """What a change is expected from, each [V] within +-1: own value and trend, last action, others, statics."""
    usual = functools.partial(_usual, scheme)
    own = usual(target, state[Parent("before", target)])
    trend = own - usual(target, state[Parent("earlier", target)])
    columns = [np.ones(len(own)), own, trend]
    one = scheme.done[0]
    last = state[Parent("last", 0)]
    acts = [(last == label).astype(np.float64) for label in range(one.labels)] if one.labels <= FEW else []
    columns += [*acts, *(act * own for act in acts)]
    if not one.labels:
        span = one.high - one.low
        columns += [np.nan_to_num((np.clip(last, one.low, one.high) - one.low) / span * 2 - 1)]
    others = [i for i in scheme.changing if i != target]
    if len(others) <= 3:  # more would cost more noise than they explain
        # numbers are drawn one after another: those before this one have changed already
        known = [usual(i, state[Parent("now" if i < target else "before", i)]) for i in others]
        columns += known
        columns += [act * value for act in acts[:-1] for value in known]
    for i, variable in enumerate(scheme.seen):
        if variable.duration:
            columns.append(np.clip(np.nan_to_num(usual(i, state[Parent("now", i)])), -1, 1))
        if variable.static and variable.labels <= FEW:
            values = state[Parent("static", i)]
            columns += [(values == label) * 0.5 for label in range(variable.labels)] or [
                np.nan_to_num(usual(i, values))
            ]
    return columns
