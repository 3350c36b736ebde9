"""Episodes of many people at once under an actor: their rows, or their returns.

All people of all replicates go in step: one call of the actor and one of the simulator advance everybody. People whose
episodes are over wait in the batch until an eighth of it does and are then left out, in order, so that the replicates
of the rest stay sorted; the simulator never steps them. An actor is never shown a number that is not finite (it sees 0
instead); the rows keep it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, PublicSpec
from tacit.data.visits import empty_rows
from tacit.envs.rollouts import Array, Domain, FloatArray
from tacit.errors import DataError

WAITING = 0.125
"""Share of a batch whose episodes may be over before it is made smaller."""

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]


class Actor(Protocol):
    """What people are served with."""

    def __call__(self, observations: Array, replicate: Codes, generator: np.random.Generator) -> Array:
        """Actions [N] int64 or [N, a] float32 for observations [N, d] float32 or [N] int64 of replicates [N]."""


@runtime_checkable
class EpisodicActor(Actor, Protocol):
    """An actor that differs from episode to episode (`policy_gradient.votes.Tried`). In place of replicates it takes (r
    places + u) episodes + e for episode e of the person in place u of replicate r."""

    @property
    def places(self) -> int:
        """N, the most people of a replicate."""

    @property
    def episodes(self) -> int:
        """How many each person plays, every one from a fresh start."""

    @property
    def length(self) -> int:
        """The most decisions of one of them."""


@dataclass(frozen=True)
class _Decision:
    """One decision of the people `slot` [n] that are in the batch; only the rows of `live` [n] count."""

    slot: Codes
    live: Mask
    observations: Array
    actions: Array
    rewards: FloatArray
    next_observations: Array
    terminated: Mask
    truncated: Mask


def serve(
    domain: Domain,
    actor: Actor,
    replicate: npt.ArrayLike,
    *,
    horizon: int,
    repeat: int = 1,
    restarts: bool = False,
    generator: np.random.Generator,
) -> dict[str, Array]:
    """One slot of each of U people: an episode from a fresh start, or several until the slot is full.

    A decision holds for `repeat` steps of the simulator, fewer where the episode or the slot ends before; its reward is
    the sum of theirs. A slot has L = ceil(horizon / repeat) decisions. What the end of the slot stops is truncated, not
    terminated, and so is what a domain with a limit of its own (`truncated`, as `tacit.envs.gym_domain` has) stops.

    Args:
        domain: the simulator.
        actor: chooses the actions of people of a replicate.
        replicate: [U], which replicate each person belongs to, rising.
        horizon: most steps of the simulator in a slot.
        repeat: public number of steps that an action is repeated for.
        restarts: whether a slot goes on with a new episode when one is over.
        generator: of the starts, the actions and the dynamics; the same arguments give the same rows.

    Returns:
        Columns [U, L] or [U, L, ...]: observations and next_observations (float32, or int64 where they are discrete),
        actions, rewards float32, terminations, truncations and mask bool. A person's rows are the first ones of theirs,
        mask says how many, and behind them everything is 0.

    Raises:
        DataError: a parameter is not positive, there is nobody, or the actor's actions do not fit.
    """
    people = np.asarray(replicate, dtype=np.int64)
    rows: dict[str, Array] = {}
    for t, decision in enumerate(_run_decisions(domain, actor, people, horizon, repeat, restarts, generator)):
        if not rows:
            rows = _allocate_rows(len(people), -(-horizon // repeat), decision)
        everybody = len(decision.slot) == len(people) and bool(decision.live.all())
        live = slice(None) if everybody else decision.live
        slot = slice(None) if everybody else decision.slot[decision.live]
        rows["observations"][slot, t] = decision.observations[live]
        rows["actions"][slot, t] = decision.actions[live]
        with np.errstate(over="ignore"):
            rows["rewards"][slot, t] = decision.rewards[live]
        rows["next_observations"][slot, t] = decision.next_observations[live]
        rows["terminations"][slot, t] = decision.terminated[live]
        rows["truncations"][slot, t] = decision.truncated[live]
        rows["mask"][slot, t] = True
    return rows


def returns(
    domain: Domain,
    actor: Actor,
    replicates: int,
    episodes: int,
    *,
    horizon: int,
    repeat: int = 1,
    generator: np.random.Generator,
) -> FloatArray:
    """Undiscounted returns [R, episodes] of single episodes of fresh people, as `serve` has them, without their
    rows."""
    total = np.zeros(max(replicates, 0) * max(episodes, 0))
    people = np.repeat(np.arange(max(replicates, 0)), max(episodes, 0))
    for decision in _run_decisions(domain, actor, people, horizon, repeat, False, generator):
        total[decision.slot[decision.live]] += decision.rewards[decision.live]
    return total.reshape(replicates, episodes)


def _run_decisions(
    domain: Domain,
    actor: Actor,
    replicate: Codes,
    horizon: int,
    repeat: int,
    restarts: bool,
    generator: np.random.Generator,
) -> Iterator[_Decision]:
    if not len(replicate) or horizon < 1 or repeat < 1:
        what = "there is nobody to serve or nothing to serve them with"
        expected = "at least one person, a horizon and a repeat of at least 1"
        remedy = "ask for more people or give a longer horizon"
        raise DataError(what, where="tacit.envs.serving", expected=expected, remedy=remedy)
    slot, live = np.arange(len(replicate)), np.ones(len(replicate), dtype=bool)
    state = domain.starts(len(slot), generator)
    observations = domain.observe(state)
    decisions = -(-horizon // repeat)
    for t in range(decisions):
        actions = np.asarray(actor(replace_nonfinite(observations), replicate, generator))
        if len(actions) != len(slot) or actions.ndim > 2:
            what = "the actor's actions do not fit the observations"
            expected = "one action for each observation, [N] or [N, a]"
            remedy = "return as many actions as there are observations"
            raise DataError(what, where="tacit.envs.serving", expected=expected, remedy=remedy)
        steps = min(repeat, horizon - t * repeat)
        state, rewards, terminated, truncated = _advance(domain, state, actions, live, steps, generator)
        next_observations = domain.observe(state)
        if t == decisions - 1:
            truncated = live & ~terminated
        yield _Decision(slot, live, observations, actions, rewards, next_observations, terminated, truncated)
        done, observations = terminated | truncated, next_observations
        if not done.any() or t == decisions - 1:
            continue
        if restarts:
            state, observations = state.copy(), next_observations.copy()
            state[done] = fresh = domain.starts(int(done.sum()), generator)
            observations[done] = domain.observe(fresh)
            continue
        live = live & ~done
        left = int(live.sum())
        if not left:
            return
        if left <= (1.0 - WAITING) * len(live):
            slot, replicate, state, observations = slot[live], replicate[live], state[live], observations[live]
            live = live[live]


def _advance(
    domain: Domain, state: Array, action: Array, live: Mask, steps: int, generator: np.random.Generator
) -> tuple[Array, FloatArray, Mask, Mask]:
    """States, summed rewards, terminations and truncations after one decision; only the live ones move."""
    limit_reached: Any = getattr(domain, "truncated", None)
    total = np.zeros(len(state))
    terminated, truncated = np.zeros((2, len(state)), dtype=bool)
    active = np.flatnonzero(live)
    for _ in range(steps):
        if len(active) == len(state):
            state, rewards, ends = domain.step(state, action, generator)
            with np.errstate(invalid="ignore"):
                total = total + rewards
            terminated = ends
            if limit_reached is not None:
                truncated = limit_reached(state) & ~ends
        else:
            part, rewards, ends = domain.step(state[active], action[active], generator)
            state = state.copy()
            state[active] = part
            with np.errstate(invalid="ignore"):
                total[active] += rewards
            terminated[active] = ends
            if limit_reached is not None:
                truncated[active] = limit_reached(part) & ~ends
        active = np.flatnonzero(live & ~terminated & ~truncated)
        if not len(active):
            break
    return state, total, terminated, truncated


def replace_nonfinite(observations: Array) -> Array:
    """Observations as an actor sees them: with 0 in the place of numbers that are not finite."""
    if observations.dtype.kind != "f":
        return observations
    finite = np.isfinite(observations)
    return observations if finite.all() else np.where(finite, observations, np.float32(0.0))


def _allocate_rows(people: int, decisions: int, decision: _Decision) -> dict[str, Array]:
    action_dtype = np.int64 if decision.actions.dtype.kind in "iu" else np.float32

    def column(like: Array, dtype: npt.DTypeLike) -> Array:
        return np.zeros((people, decisions, *like.shape[1:]), dtype=dtype)

    return {
        "observations": column(decision.observations, decision.observations.dtype),
        "actions": column(decision.actions, action_dtype),
        "rewards": column(decision.rewards, np.float32),
        "next_observations": column(decision.next_observations, decision.next_observations.dtype),
        "terminations": column(decision.terminated, np.bool_),
        "truncations": column(decision.truncated, np.bool_),
        "mask": column(decision.live, np.bool_),
    }


# Simulated people who come one after another, each of them once, or a fixed pool of them who can be asked again.


class SimulatedUsers:
    """People of a simulator: who comes next, and what they experience with an actor.

    Everything random derives from `seed`, the round's number and nothing else, so a run that is resumed before its k-th
    round (`rounds=k`) meets the same people as one that was never stopped.

    Args:
        domain: the simulator; each person's slot begins at a fresh start.
        spec: public bounds of its rows; `spec` of the users has those of the rewards of `repeat` steps.
        horizon: most steps of the simulator in a person's slot.
        repeat: public number of steps that an action is repeated for, with summed rewards.
        restarts: whether a slot goes on with another episode of the same person when one is over.
        replicates: R, independent copies of the experiment that are served at once.
        seed: of everything random.
        missing: probability that a person who came gives no rows (they left, or answered too late).
        pool: number of people in a fixed pool for each replicate; 0 for people who come and never return. As an
            attribute their ids.
        rounds: how many rounds were held before.

    Raises:
        DataError: a parameter is out of range.
    """

    simulated = True

    def __init__(
        self,
        domain: Domain,
        spec: PublicSpec,
        *,
        horizon: int,
        repeat: int = 1,
        restarts: bool = False,
        replicates: int = 1,
        seed: int,
        missing: float = 0.0,
        pool: int = 0,
        rounds: int = 0,
    ) -> None:
        if min(horizon, repeat, replicates) < 1 or min(seed, pool, rounds) < 0 or not 0.0 <= missing <= 1.0:
            what = "a parameter is out of range"
            expected = "horizon, repeat, replicates >= 1; seed, pool, rounds >= 0; missing in [0, 1]"
            raise DataError(what, where="SimulatedUsers", expected=expected, remedy="correct the parameter")
        low, high = spec.reward.low[0], spec.reward.high[0]  # of a sum of 1 to `repeat` rewards
        self.spec = replace(spec, reward=Box((min(low, repeat * low),), (max(high, repeat * high),)))
        self.replicates = replicates
        self.slot = -(-horizon // repeat)
        self._domain, self._horizon, self._repeat, self._restarts = domain, horizon, repeat, restarts
        self._seed, self._missing = seed, missing
        self._arrivals = self._rounds = rounds
        self.pool = tuple(tuple(f"{seed}-{r}-pool-{i}" for i in range(pool)) for r in range(replicates if pool else 0))

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """Ids of the next `count` people of each replicate; nobody comes twice."""
        round_, self._arrivals = self._arrivals, self._arrivals + 1
        return [[f"{self._seed}-{r}-{round_}-{i}" for i in range(count)] for r in range(self.replicates)]

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, Array]:
        """The rows of the people of each replicate under `actor`: columns [U, L, ...] of `serve`, U all people in
        order, replicate by replicate. A missing person has no rows; a round may be empty. Raises DataError where there
        is not one list of people for each replicate, or the actor's actions do not fit."""
        if len(people) != self.replicates:
            what = f"people of {len(people)} replicates are to be served"
            expected = f"one list of people for each of the {self.replicates} replicates"
            remedy = "pass what arrive returned, or as many lists of the pool"
            raise DataError(what, where="SimulatedUsers.serve", expected=expected, remedy=remedy)
        generator = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self._rounds,)))
        self._rounds += 1
        replicate = np.repeat(np.arange(self.replicates), [len(ids) for ids in people])
        if not len(replicate):
            return empty_rows(self.spec, 0, self.slot)
        absent = generator.random(len(replicate)) < self._missing
        horizon, restarts = self._horizon, self._restarts
        if isinstance(actor, EpisodicActor):
            place = np.concatenate([np.arange(len(ids)) for ids in people]) % actor.places
            first = (replicate * actor.places + place) * actor.episodes
            replicate = (first[:, None] + np.arange(actor.episodes)).ravel()
            horizon, restarts = min(horizon, actor.length * self._repeat), False
        rows = serve(
            self._domain, actor, replicate, horizon=horizon, repeat=self._repeat, restarts=restarts, generator=generator
        )
        if isinstance(actor, EpisodicActor):
            rows = _join_episodes(rows, actor.episodes)
        for column in rows.values():
            column[absent] = 0
        return rows


def _join_episodes(rows: dict[str, Array], episodes: int) -> dict[str, Array]:
    """Columns [U episodes, L, ...], one row of them an episode, as [U, episodes L, ...], each person's rows first."""
    people = len(rows["mask"]) // episodes
    mask = rows["mask"].reshape(people, -1)
    order = np.argsort(~mask, axis=1, kind="stable")
    person = np.arange(people)[:, None]
    return {name: column.reshape(*mask.shape, *column.shape[2:])[person, order] for name, column in rows.items()}


class LastingUsers:
    """People in slots whose episodes go on with the next round; `stay` rounds belong to one person.

    Slots change hands one after another, slot u before the rounds t with t + u divisible by `stay`, and always at a
    round's start. An episode that is over is followed by another one of the same person; the last one is cut when they
    leave. The people are in this process alone: a run of theirs cannot be taken up in another. `stay` is ceil(episode /
    horizon), so that a whole episode fits: a round has `horizon` steps, an episode `episode`. Other arguments and
    attributes as of `SimulatedUsers`.
    """

    simulated = True

    def __init__(
        self, domain: Domain, spec: PublicSpec, *, horizon: int, episode: int, replicates: int = 1, seed: int
    ) -> None:
        if min(horizon, episode, replicates) < 1 or seed < 0:
            what, expected = "a parameter is out of range", "horizon, episode, replicates >= 1; seed >= 0"
            raise DataError(what, where="LastingUsers", expected=expected, remedy="correct the parameter")
        self.spec, self.replicates, self.stay = spec, replicates, -(-episode // horizon)
        self._domain, self._horizon, self._episode, self._seed = domain, horizon, episode, seed
        self._round, self._state, self._age = 0, np.zeros(0), np.zeros(0, np.int64)

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """Who holds the slots 0 .. count - 1 of each replicate in the next round."""
        turns = [(self._round + slot) // self.stay for slot in range(count)]
        return [[f"{self._seed}-{r}-{slot}-{turn}" for slot, turn in enumerate(turns)] for r in range(self.replicates)]

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, Array]:
        """One round of everybody who was named by `arrive`: columns [U, horizon, ...], replicate by replicate."""
        replicate = np.repeat(np.arange(len(people)), [len(ids) for ids in people])
        slots = np.concatenate([np.arange(len(ids)) for ids in people])
        if len(people) != self.replicates or (self._round and len(slots) != len(self._age)):
            what = f"{len(slots)} people of {len(people)} replicates are to be served"
            expected = f"those of the round before, of {self.replicates} replicates"
            remedy = "pass what arrive returned, with the same count in every round"
            raise DataError(what, where="LastingUsers.serve", expected=expected, remedy=remedy)
        generator = np.random.default_rng([self._seed, self._round])
        fresh = (self._round + slots) % self.stay == 0 if self._round else np.ones(len(slots), bool)
        leaving = (self._round + 1 + slots) % self.stay == 0
        self._begin_episodes(fresh, generator)
        self._round += 1
        steps = []
        for t in range(self._horizon):
            observations = self._domain.observe(self._state)
            actions = np.asarray(actor(replace_nonfinite(observations), replicate, generator))
            self._state, rewards, terminated = self._domain.step(self._state, actions, generator)
            self._age += 1
            truncated = ~terminated & ((self._age >= self._episode) | (leaving & (t == self._horizon - 1)))
            steps.append((observations, actions, rewards, self._domain.observe(self._state), terminated, truncated))
            self._begin_episodes(terminated | truncated, generator)
        names = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")
        rows = {name: np.stack(column, axis=1) for name, column in zip(names, zip(*steps, strict=True), strict=True)}
        return rows | {"mask": np.ones((len(slots), self._horizon), bool)}

    def _begin_episodes(self, mask: Array, generator: np.random.Generator) -> None:
        if not mask.any():
            return
        state = self._domain.starts(int(mask.sum()), generator)
        if not len(self._age):
            self._state, self._age = state, np.zeros(len(mask), np.int64)
            return
        self._state, self._age = self._state.copy(), np.where(mask, 0, self._age)
        self._state[mask] = state
