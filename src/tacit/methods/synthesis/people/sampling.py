"""People drawn from released laws, visit by visit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.sources.expressions import compute_rewards
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.methods.synthesis.laws import draw
from tacit.methods.synthesis.people.scheme import Node, Parent, ParentKind, Role, Scheme
from tacit.methods.synthesis.people.sums import expected, leaning_of, worth_of
from tacit.methods.synthesis.people.visits import BEGINS_AGAIN, GOES_ON, STOPS, Variable

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


_UNKNOWN: tuple[ParentKind, ...] = ("static", "now", "before", "earlier")
LEAST = 1e-4
"""Chance that a unit stops at a visit at which its laws say that it does not."""


class PeopleDrawing:
    """Everybody's visits so far: a column of each variable, a visit at a time."""

    def __init__(self, scheme: Scheme, laws: Sequence[Floats], count: int, seed: int) -> None:
        self._scheme, self._laws, self._rng = (
            scheme,
            dict(zip(scheme.nodes, laws, strict=True)),
            np.random.default_rng(seed),
        )
        self._nodes = {(node.role, node.index): node for node in scheme.nodes}
        self.people, self._begins = np.arange(count), np.ones(count, np.bool_)
        self._known = self._nothing(count)
        for node in scheme.nodes:
            if node.role == "static":
                self._known[Parent("static", node.index)] = self._value(node)
        law = self._laws[self._nodes["visits", 0]].mean(axis=0)
        self._hazard = np.asarray(law / np.maximum(np.cumsum(law[::-1])[::-1], 1e-12))  # of who has so many visits

    def _nothing(self, count: int) -> dict[Parent, Floats]:
        known, kinds = dict[Parent, Floats](), _UNKNOWN
        for i in range(len(self._scheme.seen)):
            known |= {Parent(kind, i): np.full(count, np.nan) for kind in kinds}
            known |= {Parent("missing", i): np.zeros(count), Parent("missed", i): np.full(count, 2.0)}
        for i in range(len(self._scheme.done)):
            known |= {Parent("action", i): np.full(count, np.nan), Parent("last", i): np.full(count, np.nan)}
        counts = [
            Parent("age", 0),
            Parent("over", 0),
            Parent("worth", 0),
            *(Parent("lean", i) for i in self._scheme.habits),
        ]
        return known | {parent: np.zeros(count) for parent in counts}

    def _codes(self, node: Node) -> Integers:
        return draw(self._laws[node], self._scheme.cells(node, self._known, len(self.people)), self._rng)

    def _value(self, node: Node) -> Floats:
        """Values of a node, NaN where its code says that it misses."""
        codes, cut = self._codes(node), self._scheme.cut(node)
        own = self._scheme.size(node)
        one = self._scheme.done[node.index] if node.role == "action" else self._scheme.seen[node.index]
        missing = (codes == own - 1) & (node.role in ("static", "action")) & one.flag
        if cut is None:
            return np.where(missing, np.nan, codes.astype(np.float64))
        values = cut.draw(codes, self._rng)
        if self._scheme.regression(node) is not None:
            values += expected(self._scheme, node, self._known)
        values = np.clip(values, one.low, one.high)
        return np.where(missing, np.nan, np.rint(values) if one.whole else values)

    def visit(self, number: int) -> dict[str, Any]:
        """The next visit of all who are left, which leaves those who go on."""
        scheme, known, count = self._scheme, self._known, len(self.people)
        for i, one in enumerate(scheme.seen):
            if not one.static:
                self._see(i, one)
        known |= leaning_of(scheme, known)
        for i in range(len(scheme.done)):
            known[Parent("action", i)] = self._value(self._nodes["action", i])
        ending, over = self._end(number)
        known[Parent("over", 0)] = over.astype(np.float64)
        known |= worth_of(scheme, known)
        reward = np.zeros(count)
        if (node := self._nodes.get(("reward", 0))) is not None:
            cut = scheme.cut(node)
            assert cut is not None
            reward = np.clip(cut.draw(self._codes(node), self._rng), *scheme.reward)
            reward = np.rint(reward) if scheme.whole_reward else reward
        seen = [
            known[Parent("static", i)]
            if one.static
            else np.where(known[Parent("missing", i)] == 1, np.nan, known[Parent("now", i)])
            for i, one in enumerate(scheme.seen)
        ]
        done = [known[Parent("action", i)] for i in range(len(scheme.done))]
        drawn = {"owner": self.people, "seen": seen, "done": done, "reward": reward, "ending": ending, "over": over}
        self._go_on(ending)
        return drawn

    def _see(self, i: int, one: Variable) -> None:
        """The value of one variable in this visit."""
        scheme, known, missing = self._scheme, self._known, np.zeros(len(self.people))
        if ("missing", i) in self._nodes:
            missing = self._codes(self._nodes["missing", i]).astype(np.float64)
        if one.duration:
            gap = self._value(self._nodes["duration", i])
            known[Parent("now", i)] = np.where(self._begins, np.clip(0.0, one.low, one.high), gap)
            known[Parent("missing", i)] = missing
            return
        before, node = known[Parent("before", i)], self._nodes["change", i]
        if scheme.regression(node) is not None:
            cut = scheme.cut(node)
            assert cut is not None
            moved = expected(scheme, node, known) + cut.draw(self._codes(node), self._rng)
            changed = one.bend(one.straighten(np.nan_to_num(before, nan=one.low)) + moved)
        else:
            changed = self._value(node)
        value = np.where(np.isnan(before), self._value(self._nodes["first", i]), changed)
        known[Parent("missing", i)] = missing
        known[Parent("now", i)] = np.where(missing == 1, before, value)

    def _end(self, number: int) -> tuple[Integers, NDArray[np.bool_]]:
        """What follows a visit, and whether it terminated; as many stop after so many as the table of numbers says."""
        count = len(self.people)
        cut, done = (self._law_of_ends(role, count) for role in ("end", "terminal"))
        alone = self._begins & (not self._scheme.copied_ends)  # a cut here would leave an episode without a step
        cut[alone] = (1.0, 0.0, 0.0)
        goes_on = cut[:, GOES_ON]
        again = np.column_stack([goes_on * done[:, GOES_ON], cut[:, BEGINS_AGAIN], goes_on * done[:, BEGINS_AGAIN]])
        stops = np.column_stack([cut[:, STOPS], goes_on * done[:, STOPS]])
        hazard = self._hazard[number] if number < len(self._hazard) else 1.0
        odds = np.clip(stops.sum(axis=1), LEAST, 1 - LEAST)
        odds /= 1 - odds
        low, high = 1e-6, 1e6
        for _ in range(50):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if (middle * odds / (1 + middle * odds)).mean() < hazard else (low, middle)
        leaves = self._rng.random(count) < middle * odds / (1 + middle * odds)
        all_leave = hazard >= 1 - 1e-9
        leaves = np.full(count, all_leave) if not 1e-9 < hazard < 1 - 1e-9 else leaves
        stops[:, 0] += 1e-12  # who leaves against the laws was cut
        places = np.arange(count)
        kind = np.where(leaves, draw(stops, places, self._rng), draw(again, places, self._rng))
        over = kind == np.where(leaves, 1, 2)
        alone &= leaves & ~over
        if self._scheme.terminals:
            over |= alone
        elif number == 0 or not all_leave:
            leaves &= ~alone
        ending = np.where(leaves, STOPS, np.where(kind > 0, BEGINS_AGAIN, GOES_ON))
        return ending.astype(np.int64), over

    def _law_of_ends(self, role: Role, count: int) -> Floats:
        node = self._nodes.get((role, 0))
        if node is None:
            return np.tile([1.0, 0.0, 0.0], (count, 1))  # nothing ends
        return self._laws[node][self._scheme.cells(node, self._known, count)]

    def _go_on(self, ending: Integers) -> None:
        """Keep those who do not stop; what was known of an episode ends with it."""
        stay = ending != STOPS
        self.people, self._begins = self.people[stay], ending[stay] == BEGINS_AGAIN
        known = {parent: values[stay] for parent, values in self._known.items()}
        fresh, new = self._nothing(len(self.people)), self._begins
        for i in range(len(self._scheme.seen)):
            now, before = known[Parent("now", i)], known[Parent("before", i)]
            known[Parent("earlier", i)] = np.where(np.isnan(before), now, before)
            known[Parent("before", i)], known[Parent("missed", i)] = now, known[Parent("missing", i)]
        for i in range(len(self._scheme.done)):
            known[Parent("last", i)] = known[Parent("action", i)]
        known[Parent("age", 0)] = known[Parent("age", 0)] + 1
        kept = {parent for parent in known if parent.kind == "static"}
        self._known = {
            parent: values if parent in kept else np.where(new, fresh[parent], values)
            for parent, values in known.items()
        }


def to_trajectories(spec: PublicSpec, scheme: Scheme, laws: Sequence[Floats], count: int, *, seed: int) -> Trajectories:
    """`count` people as a data set that belongs to nobody; propensities are not synthesized."""
    from tacit.data.trajectories import Trajectories

    drawing, drawn = PeopleDrawing(scheme, laws, count, seed), list[dict[str, Any]]()
    while len(drawing.people) and len(drawn) < scheme.most:
        drawn.append(drawing.visit(len(drawn)))
    owner = np.concatenate([one["owner"] for one in drawn])
    order = np.argsort(owner, kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([one[name] for one in drawn])[order] for name in ("owner", "reward", "ending", "over")
    }
    for name in ("seen", "done"):
        columns[name] = [np.concatenate(parts)[order] for parts in zip(*(one[name] for one in drawn), strict=True)]
    observations = _numbers(spec.observation, scheme.seen, columns["seen"])
    last = (columns["ending"] != GOES_ON) | np.append(np.diff(columns["owner"]) != 0, True)
    following = np.roll(observations, -1, axis=0)
    following[last] = observations[last]
    rows = np.flatnonzero(~last | columns["over"] | scheme.copied_ends)
    episodes = np.cumsum(np.append(0, last[:-1]))
    records: dict[str, Any] = {
        "observations": observations,
        "actions": _numbers(spec.action, scheme.done, columns["done"]),
        "rewards": columns["reward"].astype(np.float32),
        "next_observations": following,
        "terminations": columns["over"],
        "truncations": last & ~columns["over"],
    }
    if not scheme.copied_ends:  # the last step leads to the last visit
        records["truncations"] = np.roll(last & ~columns["over"], -1) & ~last
    kept = {name: column[rows] for name, column in records.items()}
    if scheme.computes_reward:
        kept["rewards"] = compute_rewards(spec, kept["observations"], kept["actions"])
    raw: dict[str, Any] = {**spec.raw(kept)}
    return Trajectories.from_arrays(
        **raw,
        unit_ids=columns["owner"][rows],
        episode_ids=episodes[rows],
        spec=dataclasses.replace(spec, propensities=False),
        simulated=True,
        copied_ends=scheme.copied_ends,
    )


def _numbers(space: Space, variables: Sequence[Variable], values: Sequence[Floats]) -> NDArray[Any]:
    """The numbers of a space [V, d] of the values of its variables."""
    if isinstance(space, Discrete):
        return np.nan_to_num(values[0]).astype(np.int64)
    wide = np.zeros((len(values[0]), space.size), np.float32)
    for variable, column in zip(variables, values, strict=True):
        variable.write(column, wide)
    return np.clip(wide, *space.float32_bounds())
