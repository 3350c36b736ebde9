"""PateGAIL++: a policy of movement from the noisy rewards of critics that never leave their people's devices.

Input: devices behind a vault; a calibrated plan (T, N, kind, critics, PPO, sigma)
1. release where days begin and how far people go                                  (imitation.starts, imitation.jumps)
2. for k = 1 .. T:
3.     play public days with the policy; states hold no places                     (training.Learner.play)
4.     every device trains its critic against them on its own days, and answers:
       rewards calibrated to [-1/2, 1/2], times public weights         (rewards.py, critics.py, allocation.py)
5.     R <- (sum of clipped answers + noise) / N, over the weights                 (vault.noisy_sum)
6.     PPO on the public days with R; the weights' moving average follows          (training.Learner.learn)
7. release the averaged policy, the starts and the jumps: whatever is generated is post-processing
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.grids import Grid
from tacit.envs import movement
from tacit.errors import PlanError
from tacit.methods.imitation.jumps import JUMPS, JumpSums
from tacit.methods.imitation.pategail.allocation import Allocate, weights
from tacit.methods.imitation.pategail.embedding import ACTIONS, DECISIONS, cells_of
from tacit.methods.imitation.pategail.label import label
from tacit.methods.imitation.pategail.plan import CRITICS, Plan
from tacit.methods.imitation.pategail.rewards import moments
from tacit.methods.imitation.pategail.smoothing import Smoothed
from tacit.methods.imitation.pategail.training import Learner, Rollouts
from tacit.methods.imitation.simulator import Simulator
from tacit.methods.imitation.starts import STARTS, HomeSums
from tacit.privacy.callbacks import Contribution
from tacit.privacy.devices import Work
from tacit.privacy.federated_vault import FederatedVault
from tacit.privacy.release import Release
from tacit.privacy.run import exhausted

Array = NDArray[Any]
Float64 = NDArray[np.float64]

Progress = Callable[[int, int], None]
"""Called after each round with (rounds done, rounds in all): both are public."""

_KEPT = 10
"""Rounds whose smoothed rewards are remembered."""
_EVEN = 0.01
"""Added to the share of a cell by which a linear critic's differences are divided."""


def fit(
    plan: Plan,
    vault: FederatedVault,
    *,
    grid: Grid,
    starts: movement.Starts | None = None,
    space: movement.Space | None = None,
    allocate: Allocate | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Release[Simulator]:
    """Learn a simulator of movement from people's critics, under the plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: the devices and the ledger.
        grid: the public grid of the records' cells.
        starts, space: where days begin and exploring leads, public, for a plan with starts "given" alone.
        allocate: the caller's split of a round's budget, for a plan with the allocation "own" alone.
        seed: of the public rollouts and first weights.
        progress: called after each round.

    Raises:
        PlanError: the arguments do not fit the plan, or the grid not the records.
        PlanExhausted: the plan was run before under this ledger. BudgetExceeded: the ledger cannot pay.
    """
    _require_fit(plan, vault, grid, starts, space, allocate)
    run = vault.reserve(plan)
    if vault.steps_left(run, CRITICS) < plan.rounds:
        raise exhausted(run, CRITICS)
    known, rng = works(plan, grid), np.random.default_rng(seed)
    if starts is None or space is None:
        homes, jumps = known[STARTS], known[JUMPS]
        assert isinstance(homes, HomeSums)
        assert isinstance(jumps, JumpSums)
        starts = homes.read(vault.noisy_sum(run, STARTS, homes)[0], plan.noise_of(STARTS))
        space = jumps.read(vault.noisy_sum(run, JUMPS, jumps)[0], plan.noise_of(JUMPS))
    learner = Learner(plan.ppo, plan.embedding, last=plan.last, seed=seed)
    asking = Asking(plan, learner, allocate, rng)
    for k in range(plan.rounds):
        played = learner.play(plan.days, rng)
        public = asking.question(played)
        asking.hear(vault.noisy_sum(run, CRITICS, known[CRITICS], public)[0], played)
        for update in range(plan.updates):
            asking.follow(learner.play(plan.days, rng) if update else played)
        if progress is not None:
            progress(k + 1, plan.rounds)
    simulator = Simulator(grid=grid, policy=learner.table(averaged=True), starts=starts, space=space)
    return vault.release(run, simulator, label=label(plan))


def works(plan: Plan, grid: Grid) -> dict[str, Work | Contribution]:
    """What every device computes for each part of a calibrated plan: what devices and server agree on before."""
    found: dict[str, Work | Contribution] = {CRITICS: plan.work()}
    if plan.starts != "given":
        found[STARTS] = HomeSums.sized(grid, plan.people, plan.noise_of(STARTS))
        found[JUMPS] = JumpSums.sized(grid)
    return found


@dataclass(eq=False)
class Asking:
    """What the server asks in a round, and what it makes of the answer; all of it public.

    Args:
        plan: the plan.
        learner: the policy.
        allocate: the caller's allocation.
        rng: of the order of public rows.
    """

    plan: Plan
    learner: Learner
    allocate: Allocate | None
    rng: np.random.Generator
    _weights: Float64 | None = None
    _codes: Array | None = None
    _query: Array | None = None
    _prices: list[Callable[[Array], Float64]] = field(default_factory=list)
    _table: Float64 | None = None
    _sum: Float64 | None = None
    _gradient: Float64 | None = None
    _heard: int = 0

    def question(self, played: Rollouts) -> dict[str, Array]:
        """The public arrays of a round (see `rewards`)."""
        plan, codes = self.plan, np.unique(played.codes)
        rows = np.searchsorted(codes, played.codes.ravel())
        counts = np.bincount(rows, minlength=len(codes))
        public: dict[str, Array] = {"codes": codes, "rows": self.rng.permutation(rows)}
        if plan.kind == "gradient":
            public["slopes"] = self.learner.slopes(played, codes)
            return public
        if plan.kind == "samples":
            query = self._pairs(rows, counts)
            public["query"] = np.full(plan.queries, -1)
            public["query"][: len(query)] = query
            share = counts[query] / counts.sum()
            pilot = self._price(codes[query])
            self._codes, self._query = codes, query
        else:
            cells = cells_of(plan.layout, plan.embedding, codes)
            share = np.bincount(cells, counts, plan.layout.size * ACTIONS) / counts.sum()
            pilot = np.zeros(len(share)) if self._table is None else np.clip(self._table, -0.5, 0.5)
        self._weights = weights(plan.allocation, pilot, share, self.allocate)
        self._weights *= np.sqrt(plan.asked / len(self._weights))  # fewer pairs: the norm may be that of all
        public["weights"] = np.zeros(plan.asked)
        public["weights"][: len(self._weights)] = self._weights
        return public

    def hear(self, answer: Float64, played: Rollouts) -> None:
        """Take up a released mean."""
        plan = self.plan
        self._heard += 1
        if plan.kind == "gradient":
            self._gradient = answer
            return
        assert self._weights is not None
        if plan.kind == "samples":
            keep = np.arange(len(self._weights))
            answer = answer[np.concatenate([keep, plan.queries + keep])] if plan.beta else answer[keep]
        w = np.tile(self._weights, 2) if plan.beta else self._weights
        rewards = answer / w
        if plan.beta:
            mean, variance = moments(rewards)
            rewards = mean - plan.beta * np.sqrt(variance)
        if plan.kind == "samples":
            self._hear_pairs(rewards)
        elif plan.kind == "linear":
            known = rewards + self._shares(played)  # of all people, in every cell: the same in all rounds
            self._table = known if self._table is None else self._table + (known - self._table) / self._heard
        else:
            self._table = self._averaged(np.clip(rewards, -0.5, 0.5))

    def follow(self, played: Rollouts) -> None:
        """One round of learning on public days, with the rewards as they are known."""
        plan = self.plan
        if plan.kind == "gradient":
            assert self._gradient is not None
            self.learner.climb(self._gradient)
        elif plan.kind == "samples":
            assert self._codes is not None
            codes = np.unique(played.codes)
            rewards = self._price(codes)[np.searchsorted(codes, played.codes)]
            seen = None if plan.smooth else np.isin(played.codes, self._codes[self._query])
            self.learner.learn(played, rewards, seen)
        else:
            assert self._table is not None
            table = self._table
            if plan.kind == "linear":
                share = self._shares(played)
                table = (table - share) / (share + _EVEN)
            self.learner.learn(played, table[cells_of(plan.layout, plan.embedding, played.codes)])

    def _pairs(self, rows: Array, counts: Array) -> Array:
        """Which of the distinct pairs are asked: those most often played; in the paper's mode every row of its own."""
        if self.plan.laplace is not None or not self.plan.smooth:
            return np.asarray(rows[: self.plan.queries])
        return np.argsort(-counts, kind="stable")[: self.plan.queries]

    def _hear_pairs(self, rewards: Float64) -> None:
        plan = self.plan
        assert self._codes is not None
        assert self._query is not None
        assert self._weights is not None
        asked = self._codes[self._query]
        if plan.smooth:
            variance = np.square(plan.noise_of(CRITICS) / self._weights)
            price: Callable[[Array], Float64] = Smoothed.of(plan.embedding, asked, rewards, variance)
        else:
            found, at = np.unique(asked, return_inverse=True)
            price = Looked(found, np.bincount(at, rewards) / np.bincount(at))
        self._prices = [price, *self._prices[: _KEPT - 1]] if plan.memory else [price]

    def _price(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]: the average over the rounds that are remembered, 0 before the first."""
        if not self._prices:
            return np.zeros(len(codes))
        shares = self.plan.memory ** np.arange(len(self._prices))
        mean = sum(share * price(codes) for share, price in zip(shares, self._prices, strict=True)) / shares.sum()
        return np.asarray(np.clip(mean, -0.5, 0.5))

    def _averaged(self, released: Float64) -> Float64:
        decay = self.plan.memory
        before = np.zeros(len(released)) if self._sum is None else self._sum
        self._sum = decay * before + (1 - decay) * released
        return self._sum / (1 - decay**self._heard)

    def _shares(self, played: Rollouts) -> Float64:
        cells = cells_of(self.plan.layout, self.plan.embedding, played.codes.ravel())
        return np.bincount(cells, minlength=self.plan.layout.size * ACTIONS) / cells.size


@dataclass(frozen=True, eq=False)
class Looked:
    """Rewards as they were released: 0 where nothing was asked.

    Args:
        codes: [B] rising.
        rewards: [B].
    """

    codes: Array
    rewards: Float64

    def __call__(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]."""
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.rewards[at], 0.0)


def _require_fit(
    plan: Plan,
    vault: FederatedVault,
    grid: Grid,
    starts: movement.Starts | None,
    space: movement.Space | None,
    allocate: Allocate | None,
) -> None:
    given = (starts is not None, space is not None)
    if given != ((True, True) if plan.starts == "given" else (False, False)):
        raise _refused(
            "the plan and starts=, space= do not fit each other",
            'both with a plan of starts="given", and neither with another',
        )
    if (plan.allocation == "own") != (allocate is not None):
        raise _refused("the plan and allocate= do not fit each other", 'allocate= with allocation="own" alone')
    size = getattr(vault.spec.observation, "n", None)
    if size != grid.size or getattr(vault.spec.action, "n", None) != ACTIONS:
        raise _refused("the records are not days on this grid", f"cells 0 .. {grid.size - 1} and {ACTIONS} actions")
    if plan.rows_per_unit < DECISIONS:
        raise _refused("a person's rows are fewer than a day's", f"rows_per_unit of at least {DECISIONS}")


def _refused(what: str, expected: str) -> PlanError:
    return PlanError(what, where="pategail.fit", expected=expected, remedy="change the plan or the arguments")
