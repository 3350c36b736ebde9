"""Simulated people who come one after another, each of them once, or a fixed pool of them who can be asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.data.spec import Box, PublicSpec
from tacit.data.visits import empty_rows
from tacit.envs.rollouts import Array, Domain
from tacit.envs.serving import Actor, serve
from tacit.errors import DataError

__all__ = ["SimulatedUsers"]


class SimulatedUsers:
    """People of a simulator: who comes next, and what they experience with an actor.

    Everything random derives from `seed`, the meeting's number and nothing else, so a run that is resumed before its
    k-th meeting (`meetings=k`) meets the same people as one that was never stopped.

    Args:
        domain: the simulator; each person's slot begins at a fresh start.
        spec: public bounds of its rows; `spec` of the users has those of the rewards of `repeat` steps.
        horizon: most steps of the simulator in a person's slot.
        repeat: public number of steps that an action is repeated for, with summed rewards.
        restarts: whether a slot goes on with another episode of the same person when one is over.
        replicates: independent copies of the experiment that are served at once.
        seed: of everything random.
        missing: probability that a person who came gives no rows (they left, or answered too late).
        pool: number of people in a fixed pool for each replicate; 0 for people who come and never return.
        meetings: how many meetings were held before.

    Attributes:
        spec: public bounds of the rows.
        simulated: True.
        replicates: R.
        slot: L, the most rows of a person: ceil(horizon / repeat).
        pool: the ids of the pool for each replicate; nothing without one.

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
        meetings: int = 0,
    ) -> None:
        if min(horizon, repeat, replicates) < 1 or min(seed, pool, meetings) < 0 or not 0.0 <= missing <= 1.0:
            raise DataError(
                "a parameter is out of range",
                where="SimulatedUsers",
                expected="horizon, repeat, replicates >= 1; seed, pool, meetings >= 0; missing in [0, 1]",
                remedy="correct the parameter",
            )
        self.spec = _repeated(spec, repeat)
        self.replicates = replicates
        self.slot = -(-horizon // repeat)
        self._domain, self._horizon, self._repeat, self._restarts = domain, horizon, repeat, restarts
        self._seed, self._missing = seed, missing
        self._arrivals = self._meetings = meetings
        self.pool = tuple(tuple(f"{seed}-{r}-pool-{i}" for i in range(pool)) for r in range(replicates if pool else 0))

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """Ids of the next `count` people of each replicate; nobody comes twice."""
        meeting, self._arrivals = self._arrivals, self._arrivals + 1
        return [[f"{self._seed}-{r}-{meeting}-{i}" for i in range(count)] for r in range(self.replicates)]

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, Array]:
        """The rows of the people of each replicate under `actor`: columns [U, L, ...] of `tacit.envs.serving.serve`, U
        all people in order, replicate by replicate. A missing person has no rows; a meeting may be empty.

        Raises:
            DataError: there is not one list of people for each replicate, or the actor's actions do not fit.
        """
        if len(people) != self.replicates:
            raise DataError(
                f"people of {len(people)} replicates are to be served",
                where="SimulatedUsers.serve",
                expected=f"one list of people for each of the {self.replicates} replicates",
                remedy="pass what arrive returned, or as many lists of the pool",
            )
        generator = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self._meetings,)))
        self._meetings += 1
        replicate = np.repeat(np.arange(self.replicates), [len(ids) for ids in people])
        if not len(replicate):
            return empty_rows(self.spec, 0, self.slot)
        gone = generator.random(len(replicate)) < self._missing
        rows = serve(
            self._domain,
            actor,
            replicate,
            horizon=self._horizon,
            repeat=self._repeat,
            restarts=self._restarts,
            generator=generator,
        )
        for column in rows.values():
            column[gone] = 0
        return rows


def _repeated(spec: PublicSpec, repeat: int) -> PublicSpec:
    """The spec with the bounds of the sum of 1 to `repeat` rewards."""
    low, high = spec.reward.low[0], spec.reward.high[0]
    return replace(spec, reward=Box((min(low, repeat * low),), (max(high, repeat * high),)))
