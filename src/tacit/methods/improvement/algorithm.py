"""Improvement of logged decisions.

Input: records of discrete actions with propensities behind a vault, a calibrated plan
1. look       learning half: noisy mean of columns, rewards, squares, rows of a unit -> scales         (moments.py)
2. clone      learning half: tally of returns, products of features, 20 Newton steps                    (cloning.py)
3. moments    learning half: noisy sums by action of features' products, changes and rewards           (moments.py)
4. advice     public points, regression under known noise, values, advice or clone                     (planning.py)
              the ledger notes the policy before anybody of the judging half is read                   (vault.fix)
5. statement  judging half: noisy mean of clipped weighted returns -> value, lower bound of the gain   (statement.py)
6. release    the policy with its certificate: one Gaussian in all                                     (plan.label)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, PolicyActor
from tacit.agents.policy_files import FeedForward
from tacit.data.memory import Memory
from tacit.methods.improvement.cloning import fit_clone
from tacit.methods.improvement.moments import JointMoments, Moments, ScaleMoments, Scales
from tacit.methods.improvement.plan import JUDGING, LOOK, MOMENTS, STATEMENT, ImprovementPlan
from tacit.methods.improvement.planning import advise
from tacit.methods.improvement.statement import Statement, StatementScores
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.origins import require_level
from tacit.privacy.vault.vault import Vault

State = tuple[NDArray[np.float64], NDArray[np.int64]]
"""What `predict` carries from one observation to the next: memories [N, d], and how many observations they hold [N]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Improvement:
    """The release; everything in it is public.

    Args:
        plan: under which it was learned.
        policy: what the parameters are of; it acts on memories.
        theta: parameters of the advice, [1, P]; those of the clone where the advice is dropped.
        clone: parameters of the clone, [1, P].
        changes: share of the likely visits where the clone would take a and the advice b, [A, A].
        sampled: whether the policy is the clone and draws its actions as the records do: by the learning half's own
            private estimate the advice is not above the records' decisions.
        scales, moments: what the noisy sums said; no moments where the clone is the policy.
        statement: what the records prove.
    """

    plan: ImprovementPlan
    policy: Policy
    theta: Float32
    clone: Float32
    changes: NDArray[np.float64]
    sampled: bool
    scales: Scales
    moments: Moments | None
    statement: Statement

    replicates = 1

    def __repr__(self) -> str:
        return f"Improvement({self.policy.parameters:,} parameters, {self.statement.verdict})"

    @property
    def memory(self) -> Memory:
        """What the policy acts on: play it in `envs.rollouts.MemoryDomain`."""
        return self.plan.memory

    def actor(self, *, clone: bool = False) -> PolicyActor:
        """Act on memories as the release does: with its best action, or `sampled`. The clone alone as it is sampled."""
        return PolicyActor(self.policy, self.clone if clone else self.theta, greedy=not (clone or self.sampled))

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
        observations = np.atleast_2d(np.asarray(observation, np.float64))
        memories, count = (observations, np.zeros(len(observations), np.int64)) if state is None else state
        if episode_start is not None:
            count = np.where(np.atleast_1d(episode_start), 0, count)
        count = count + 1
        memories = self.memory.update(memories, observations, count)
        acting = self.actor()
        actions, _ = acting.predict(memories.astype(np.float32), deterministic=deterministic, generator=generator)
        return (actions[0] if np.ndim(observation) == 1 else actions), (memories, count)

    def feed_forward(self) -> FeedForward:
        """The layers of the policy on memories, which takes its best action, or is `sampled`."""
        return FeedForward.of(self.policy, self.theta, greedy=not self.sampled)


def fit(plan: ImprovementPlan, vault: Vault) -> Release[Improvement]:
    """Learn the advice and prove what can be proven.

    What was said before of policies by the same judging people can have led to this plan, so each such statement raises
    the level of this one (`origins.corrected_level`).

    Args:
        plan: calibrated for the vault's unit.
        vault: the records as they are, without a memory (the plan's own is applied within), and their ledger.

    Raises:
        PlanError: the records do not fit the plan, or have no propensities, or too much was said before of the people
            who judge; nothing is spent.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    plan.require(vault.spec)
    scale_moments, joint_moments = ScaleMoments(plan, vault.spec), JointMoments(plan, vault.spec)
    level = require_level(vault.ledger, frozenset({JUDGING}), plan.level, where=f"{plan.method} plan")
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, LOOK)
    scales = scale_moments.read(vault.noisy_sum(run, LOOK, scale_moments)[0])
    clone, geometry = fit_clone(plan, vault.spec, scales, vault, run)
    moments = None
    if plan.advises:
        moments = joint_moments.read(vault.noisy_sum(run, MOMENTS, joint_moments, scales)[0], scales)
    result = advise(moments, scales, clone, geometry, plan, vault.spec)
    policy = FeedForward.of(result.policy, result.advice, greedy=not result.sampled)
    vault.record_policy(run, policy)  # before anybody judges
    scores = StatementScores.of(plan, vault.spec, result)
    statement = scores.read(vault.noisy_sum(run, STATEMENT, scores)[0], plan, level=level)
    value = Improvement(
        plan=plan,
        policy=result.policy,
        theta=result.advice,
        clone=result.clone,
        changes=result.changes,
        sampled=result.sampled,
        scales=scales,
        moments=moments,
        statement=statement,
    )
    return vault.release(run, value, label=plan.label())
