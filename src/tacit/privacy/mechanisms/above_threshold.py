"""Consensus: beginnings of experts' trajectories that enough experts could have produced, as many steps as a noisy
threshold lets pass.

Source: N. Sharma et al., "Preserving expert-level privacy in offline reinforcement learning" (arXiv 2411.13598),
algorithms 1 and 2, mended: proof page `proofs/above_threshold.md`. The records are read by `Vault.above_threshold`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, PublicSpec
from tacit.errors import MechanismError
from tacit.privacy.accounting.events import MAX_EPSILON, ComposedEvent, EpsilonDeltaEvent, Event, SelfComposedEvent
from tacit.privacy.mechanisms import base, thresholds
from tacit.privacy.mechanisms.base import Array, EpisodeSimulator, Experts, Part, RowsOf, describe_rows, kind_field
from tacit.privacy.mechanisms.thresholds import GRID, Floor, KappaStop, PMin, Thresholds
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Clause, clause
from tacit.units import Relation, Unit
from tacit.validation import require_valid

Source = Literal["logs", "clones"]
"""Where a drawn expert's trajectory comes from: its own hold-out, or its clone, played in a public world."""

SLICE = 8
"""Time steps of all trajectories that are counted at once; those that stopped are dropped in between."""

MOST_HELD_OUT = 64
"""Trajectories of an expert that one release may keep for itself."""

_RELEASED = ("observations", "actions", "rewards", "next_observations", "terminations")

_DOWN = 1 - 2.0**-30
"""Weights are made smaller by this before they are rounded down: the count never exceeds the chances with which actions
are really drawn (from uniform numbers on a grid of 2^-52) and multiplied (in float64)."""


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(Part):
    """One release of n_r prefixes, through the call `above_threshold`; for the relation `add_or_remove`.

    n_r times: an expert is drawn (with replacement) and a trajectory of it that is used for nothing else; step by step
    the number of experts that would have acted like this all along, each weighted with its probability of doing so, is
    compared under fresh noise with a noisy threshold; the steps before the first failure are released.

    Guarantee: each prefix is (epsilon, delta)-differentially private with respect to one expert's policy, however long
    trajectories are; all of them compose (`proofs/above_threshold.md`).

    Args:
        name: the part's name inside its plan.
        trajectories: n_r.
        horizon: T, the steps of a trajectory that are looked at.
        actions: A, how many actions there are.
        experts: M, a public lower bound on the number of experts.
        floor: what keeps one unreleased action from telling an expert: `PMin` or `KappaStop`.
        epsilon, delta: of one trajectory.
        source: see `Source`.
        rows_per_unit: of how many of an expert's rows its clone is made at most, the first in order of time; 0 for
            "logs".

    Raises:
        PlanError: a parameter is out of range, or no number of experts that is sure to be there reaches the threshold.
    """

    kind: Literal["above_threshold"] = kind_field("above_threshold")
    name: str
    trajectories: int
    horizon: int
    actions: int
    experts: int
    floor: Floor
    epsilon: float
    delta: float
    source: Source
    rows_per_unit: int = 0
    steps: ClassVar[int] = 1
    relations: ClassVar[tuple[Relation, ...]] = ("add_or_remove",)
    rows: ClassVar[RowsOf] = "first"

    def __post_init__(self) -> None:
        base.require_whole(self, "trajectories", "horizon")
        for field in ("actions", "experts"):
            value = getattr(self, field)
            require_valid(f"{self.name}.{field}", value, type(value) is int and value >= 2, "a whole number >= 2")
        valid_floor = type(self.floor) in (PMin, KappaStop)
        require_valid(f"{self.name}.floor", self.floor, valid_floor, "PMin(probability) or KappaStop(probability)")
        sources = get_args(Source)
        require_valid(f"{self.name}.source", self.source, self.source in sources, " or ".join(sources))
        rows = self.rows_per_unit >= 1 if self.source == "clones" else self.rows_per_unit == 0
        require_valid(f"{self.name}.rows_per_unit", self.rows_per_unit, rows, 'at least 1 for "clones", 0 for "logs"')
        within = self.source == "clones" or self.trajectories * self.epsilon <= MAX_EPSILON
        require_valid(f"{self.name}.epsilon", self.epsilon, within, f"at most {MAX_EPSILON:g} / trajectories")
        _ = self.thresholds
        few, expected = self.held_out <= MOST_HELD_OUT, f"a hold-out of at most {MOST_HELD_OUT} for each"
        require_valid(f"{self.name}.trajectories", self.trajectories, few, expected)

    @property
    def publishes_logs(self) -> bool:
        """See `Part`."""
        return self.source == "logs"

    @property
    def event(self) -> Event:
        """n_r times (epsilon, delta), and once (0, overflow)."""
        prefixes = SelfComposedEvent(EpsilonDeltaEvent(self.epsilon, self.delta), self.trajectories)
        rare = [EpsilonDeltaEvent(0.0, self.overflow)] if self.overflow else []
        return ComposedEvent([prefixes, *rare])

    @cached_property
    def thresholds(self) -> Thresholds:
        """The threshold and its noise: the lowest threshold that epsilon and delta allow."""
        return thresholds.optimise(
            self.floor, actions=self.actions, experts=self.experts, epsilon=self.epsilon, delta=self.delta
        )

    @cached_property
    def held_out(self) -> int:
        """r, how many trajectories of each expert are kept for this release alone; 0 for "clones"."""
        if self.source == "clones":
            return 0
        price = self.trajectories * self.epsilon
        rare = 0.01 * self.trajectories * self.delta
        return thresholds.smallest_holdout(self.trajectories, self.experts, price, rare, limit=MOST_HELD_OUT)

    @property
    def overflow(self) -> float:
        """What it adds to delta that somebody could be drawn more than r times, when nothing is released."""
        if self.source == "clones":
            return 0.0
        price = self.trajectories * self.epsilon
        return thresholds.overflow_delta(self.trajectories, self.held_out, self.experts, price)

    def require_floor(self, floor: float) -> None:
        """Refuse policies that do not keep the declared floor (NaN: policies of any form).

        Raises:
            MechanismError: they say so themselves, or are clones, of which it has to be known.
        """
        declared = self.floor.probability if isinstance(self.floor, PMin) else 0.0
        unknown = math.isnan(floor) and (self.source == "logs" or not declared)
        if not (unknown or declared <= floor <= 1 / self.actions):
            what = "the policies do not keep the declared floor"
            expected = f"a floor from {declared:g} to 1 / {self.actions}"
            remedy = "give them that floor, or use KappaStop, which needs none"
            raise MechanismError(what, where=self.name, expected=expected, remedy=remedy)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        name, test, least = unit.noun, self.thresholds, self.floor.probability
        public = {"actions": self.actions, "experts": self.experts, "horizon": self.horizon}
        agreed = thresholds.longest_prefix(test, self.floor, **public)
        expected = thresholds.expected_length(test, self.floor, **public)
        if self.source == "logs":
            played = f"one of the {self.held_out:,} trajectories that are kept of each for this alone"
        else:
            rows = describe_rows(self)
            played = f"a trajectory that its clone, made from at most {rows}, plays in a public simulator"
        held = (
            f"every action has a probability of at least {least:.6g}"
            if isinstance(self.floor, PMin)
            else f"it is stopped with probability {least:.6g} before every test"
        )
        rare = f"; {self.overflow:.6g} more of delta if one is drawn too often" if self.overflow else ""
        return (
            f"{self.trajectories:,} time(s) one {name} is drawn uniformly, with replacement, and what is released of "
            f"{played} ends before the first step, of at most {self.horizon:,}, after which the {name}s that act so, "
            f"each counted with its probability and one {name} for at most 1, are fewer than "
            f"{test.threshold:.6g} of at least {self.experts:,}, under discrete Laplace noise of scale "
            f"{test.threshold_scale:.6g} for a trajectory and {test.step_scale:.6g} for a step; "
            f"with {self.actions:,} actions, where {held}, and at least {test.safe_count:.6g} {name}s behind what is "
            f"safe to show, each is ({self.epsilon:.6g}, {self.delta:.6g})-differentially private by its own "
            f"proof{rare}; if all agreed on every step, a prefix would have {expected:.3g} steps on average, "
            f"and {agreed:,} without noise"
        )

    def assumptions(self) -> tuple[Clause, ...]:
        """See `Part`."""
        known = clause("experts_known", experts=self.experts)
        if self.source == "clones":
            return (known, clause("clones_simulated"))
        floor = [clause("floor_kept", floor=self.floor.probability)] if isinstance(self.floor, PMin) else []
        return (known, clause("policies_protected"), clause("logs_drawn"), *floor)

    def not_protected(self) -> tuple[Clause, ...]:
        """See `Part`."""
        return () if self.source == "clones" else (clause("others_in_logs"), clause("who_knows_logs"))


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Released beginnings of trajectories: public.

    Args:
        columns: name -> [rows, ...], prefix after prefix: observations, actions, rewards, next_observations,
            terminations, truncations (the last row of a prefix that was cut is truncated).
        lengths: steps of each, [n_r]; 0 where nothing was released.
    """

    columns: Mapping[str, Array]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, drawn: Mapping[str, Array], lengths: NDArray[np.int64]) -> Prefixes:
        """The first `lengths` [n] steps of padded trajectories, columns [n, T, ...] with `mask` [n, T].

        Of the columns, those that the proof speaks of: a logged propensity, for one, would name its expert.
        """
        released = np.arange(drawn["mask"].shape[1]) < lengths[:, None]
        columns = {name: drawn[name][released] for name in _RELEASED}
        last = np.cumsum(lengths)[lengths > 0] - 1
        columns["truncations"] = np.zeros(len(columns["actions"]), bool)
        columns["truncations"][last] = ~columns["terminations"][last]
        return cls(columns, lengths)


def stable_lengths(
    part: AboveThreshold, experts: Experts, drawn: Mapping[str, Array], noise: SecretNoise, usable: Array | None = None
) -> NDArray[np.int64]:
    """How many steps of each trajectory pass, [n].

    Args:
        part: thresholds and floor.
        experts: the m policies that are counted.
        drawn: padded trajectories: observations [n, T, d], actions [n, T], mask [n, T], a prefix of each row.
        noise: the vault's secret source.
        usable: [m], which experts count; None is all.

    Returns:
        int64 [n], each at most the trajectory's own length.
    """
    n, horizon = drawn["mask"].shape
    full_lengths, test = drawn["mask"].sum(axis=1), part.thresholds
    noisy_bar = math.ceil(test.threshold * GRID) + noise.discrete_laplace(n, math.ceil(test.threshold_scale * GRID))
    step_noise = noise.discrete_laplace(n * horizon, math.ceil(test.step_scale * GRID)).reshape(n, horizon)
    stop = part.floor.probability if isinstance(part.floor, KappaStop) else 0.0
    halted = noise.uniform(n * horizon).reshape(n, horizon) < stop
    count = _AgreementCount(part, experts, n, np.ones(experts.count, bool) if usable is None else usable)
    lengths, active = np.zeros(n, np.int64), np.arange(n)
    for start in range(0, horizon, SLICE):
        slice_mask = drawn["mask"][active, start : start + SLICE]
        row, column = np.nonzero(slice_mask)
        where = (active[row], start + column)
        count.query_experts(drawn["observations"][where], drawn["actions"][where])
        for k in range(slice_mask.shape[1]):
            steps = np.flatnonzero(column == k)
            running = lengths[active[row[steps]]] == start + k
            steps = steps[running]
            trajectories = active[row[steps]]
            passed = count.advance(trajectories, steps) + step_noise[trajectories, start + k] >= noisy_bar[trajectories]
            lengths[trajectories] += passed & ~halted[trajectories, start + k]
        active = active[(lengths[active] == start + slice_mask.shape[1]) & (lengths[active] < full_lengths[active])]
        if not active.size:
            break
    return lengths


class _AgreementCount:
    """sum_i of the probabilities, rounded down to 1 / GRID, that expert i acts as each trajectory did so far."""

    def __init__(self, part: AboveThreshold, experts: Experts, trajectories: int, usable: Array) -> None:
        self._part, self._experts = part, experts
        self._likelihoods = np.where(usable, _DOWN, 0.0)[:, None].repeat(trajectories, axis=1)
        self._lowest = part.floor.probability if isinstance(part.floor, PMin) else 0.0
        self._highest = 1 - (part.actions - 1) * self._lowest
        self._chances = np.zeros((experts.count, 0))

    def query_experts(self, observations: Array, actions: Array) -> None:
        """Ask all experts about the steps of a slice, [S, d] and [S]."""
        p = self._experts.floor
        if math.isnan(p):
            chances = np.nan_to_num(self._experts.likelihoods(observations, actions), nan=0.0, posinf=0.0, neginf=0.0)
            self._chances = np.where(chances < self._lowest * (1 - 1e-6), 0.0, np.clip(chances, 0.0, self._highest))
        else:
            self._chances = np.where(
                self._experts.disagreements(observations, actions), p, 1 - (self._part.actions - 1) * p
            )

    def advance(self, trajectories: Array, steps: Array) -> NDArray[np.int64]:
        """The counts, in units of 1 / GRID, after one more step of each of these trajectories."""
        self._likelihoods[:, trajectories] *= self._chances[:, steps]
        counted = np.floor(self._likelihoods[:, trajectories] * GRID)
        return np.asarray(counted.sum(axis=0), np.int64)


def rollouts(
    part: AboveThreshold, experts: Experts, world: EpisodeSimulator, spec: PublicSpec, noise: SecretNoise
) -> dict[str, Array]:
    """A fresh trajectory of each of n_r experts, drawn uniformly with replacement, played in a public world.

    Returns:
        Padded columns [n_r, T, ...] and `mask` [n_r, T], clipped to the spec's bounds.
    """
    n, horizon = part.trajectories, part.horizon
    expert_indices = noise.integers(np.full(n, experts.count))
    generator = np.random.default_rng(int.from_bytes(noise.bytes(32), "little"))
    points = noise.uniform(n * horizon).reshape(horizon, n)
    state, alive, columns = world.starts(n, generator), np.arange(n), dict[str, Array]()
    observations = _clip_to_bounds(world.observe(state), spec)
    mask = np.zeros((n, horizon), bool)
    for t in range(horizon):
        cumulative = np.cumsum(experts.probabilities(observations, expert_indices[alive]), axis=1)
        action = (cumulative <= (points[t, alive] * cumulative[:, -1])[:, None]).sum(axis=1)
        state, rewards, terminated = world.step(state, action, generator)
        next_observations = _clip_to_bounds(world.observe(state), spec)
        step = {"observations": observations, "actions": action, "next_observations": next_observations}
        step |= {"rewards": np.clip(rewards, spec.reward.low[0], spec.reward.high[0]).astype(np.float32)}
        step |= {"terminations": terminated}
        for name, column in step.items():
            if name not in columns:
                columns[name] = np.zeros((n, horizon, *column.shape[1:]), column.dtype)
            columns[name][alive, t] = column
        mask[alive, t] = True
        alive, state, observations = alive[~terminated], state[~terminated], next_observations[~terminated]
        if not len(alive):
            break
    world.starts(n, np.random.default_rng(0))  # simulators of some kinds hold the states they were left in
    return {**columns, "mask": mask}


def _clip_to_bounds(observations: Array, spec: PublicSpec) -> Array:
    if isinstance(spec.observation, Box):
        return np.clip(
            observations, np.array(spec.observation.low, np.float32), np.array(spec.observation.high, np.float32)
        )
    return observations
