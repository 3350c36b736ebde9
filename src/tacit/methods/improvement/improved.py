"""What an improvement hands out: the advice, the clone of the records' decisions, the moments and the statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Acting, Float32, Policy
from tacit.agents.policy_files import FeedForward
from tacit.data.memory import Memory
from tacit.methods.improvement.moments import Moments, Scales
from tacit.methods.improvement.plan import ImprovementPlan
from tacit.methods.improvement.statement import Statement

State = tuple[NDArray[np.float64], NDArray[np.int64]]
"""What `predict` carries from one observation to the next: memories [N, d], and how many observations they hold [N]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Improvement:
    """The release; everything in it is public.

    Args:
        plan: under which it was learned.
        policy: what the parameters are of; it acts on memories.
        theta: parameters of the advice, [1, P]; those of the clone where the advice is dropped.
        clone: parameters of the clone of the records' own decisions, [1, P].
        changes: share of the likely visits where the clone would take a and the advice b, [A, A].
        sampled: whether the policy is the clone and draws its actions as the records do: by the learning half's own
            private estimate the advice is not above the records' decisions.
        scales, moments: what the noisy sums said.
        statement: what the records prove.
    """

    plan: ImprovementPlan
    policy: Policy
    theta: Float32
    clone: Float32
    changes: NDArray[np.float64]
    sampled: bool
    scales: Scales
    moments: Moments
    statement: Statement

    replicates = 1

    def __repr__(self) -> str:
        return f"Improvement({self.policy.parameters:,} parameters, {self.statement.verdict})"

    @property
    def memory(self) -> Memory:
        """What the policy acts on: play it in `envs.rollouts.Remembered`."""
        return self.plan.memory

    def actor(self, *, clone: bool = False) -> Acting:
        """Act on memories as the release does: with its best action, or `sampled`. The clone alone as it is sampled."""
        return Acting(self.policy, self.clone if clone else self.theta, greedy=not (clone or self.sampled))

    def predict(
        self,
        observation: NDArray[Any],
        state: State | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        generator: np.random.Generator | None = None,
    ) -> tuple[NDArray[Any], State]:
        """Act as a recurrent model of Stable-Baselines3 does.

        Args:
            observation: one, [d], or N of them, [N, d], as they are recorded: without a memory.
            state: what the last call returned; None at the start.
            episode_start: which of the N begin an episode here, [N].
            deterministic: the best action of a clone that is sampled, too; of it nothing is known.
            generator: of random actions; None takes a fresh one.

        Returns:
            The action, or actions [N], and the state for the next call.
        """
        seen = np.atleast_2d(np.asarray(observation, np.float64))
        held, count = (seen, np.zeros(len(seen), np.int64)) if state is None else state
        if episode_start is not None:
            count = np.where(np.atleast_1d(episode_start), 0, count)
        count = count + 1
        held = self.memory.after(held, seen, count)
        acting = self.actor()
        actions, _ = acting.predict(held.astype(np.float32), deterministic=deterministic, generator=generator)
        return (actions[0] if np.ndim(observation) == 1 else actions), (held, count)

    def feed_forward(self) -> FeedForward:
        """The layers of the policy on memories, which takes its best action, or is `sampled`."""
        return FeedForward.of(self.policy, self.theta, greedy=not self.sampled)
