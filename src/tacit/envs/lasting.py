"""Simulated people who stay for several rounds, so that their episodes go on from round to round. Somebody who begins
afresh in every round is only ever seen near the start of an episode. Here a person holds a slot for a public number of
rounds, whatever happens to them: when the next one begins tells nothing of anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.envs.rollouts import Array, Domain
from tacit.envs.serving import Actor, replace_nonfinite
from tacit.errors import DataError


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
