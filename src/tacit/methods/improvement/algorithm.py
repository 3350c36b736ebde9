"""Improvement of logged decisions.

Input: records of discrete actions with propensities behind a vault, a calibrated plan
1. look       learning half: noisy mean of columns, rewards, squares, rows of a unit -> scales         (moments.py)
2. moments    learning half: noisy sums by action of features' products, changes and rewards           (moments.py)
3. advice     clone, public points, regression under known noise, values, advice or clone              (planning.py)
              the ledger notes the policy before anybody of the judging half is read                   (vault.fix)
4. statement  judging half: noisy mean of clipped weighted returns -> value, lower bound of the gain   (statement.py)
5. release    the policy with its certificate: one Gaussian in all                                     (plan.label)
"""

from __future__ import annotations

from tacit.agents.policy_files import FeedForward
from tacit.errors import PlanError
from tacit.methods.improvement.improved import Improvement
from tacit.methods.improvement.moments import Joint, Look
from tacit.methods.improvement.plan import JUDGING, LOOK, MOMENTS, STATEMENT, ImprovementPlan
from tacit.methods.improvement.planning import advise
from tacit.methods.improvement.statement import Scores
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.origins import level_after, said_before
from tacit.privacy.vault.vault import Vault


def fit(plan: ImprovementPlan, vault: Vault) -> Release[Improvement]:
    """Learn the advice and prove what can be proven.

    What was said before of policies by the same judging people can have led to this plan, so each such statement raises
    the level of this one (`origins.level_after`).

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
    look, joint = Look(plan, vault.spec), Joint(plan, vault.spec)
    before = said_before(vault.ledger, frozenset({JUDGING}))
    level = level_after(plan.level, before)
    if level is None:
        what = f"{before} statements were made of policies by the people who are to judge this one"
        expected, remedy = "fewer, so that the level of one more can allow for its choice", "ask for a lower level"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, LOOK)
    scales = look.read(vault.noisy_sum(run, LOOK, look)[0])
    moments = joint.read(vault.noisy_sum(run, MOMENTS, joint, scales.state)[0], scales)
    advised = advise(moments, scales, plan, vault.spec)
    vault.fix(run, FeedForward.of(advised.policy, advised.advice, greedy=not advised.sampled))  # before anybody judges
    scores = Scores.of(plan, vault.spec, advised)
    statement = scores.read(vault.noisy_sum(run, STATEMENT, scores)[0], plan, level=level)
    value = Improvement(
        plan=plan,
        policy=advised.policy,
        theta=advised.advice,
        clone=advised.clone,
        changes=advised.changes,
        sampled=advised.sampled,
        scales=scales,
        moments=moments,
        statement=statement,
    )
    return vault.release(run, value, label=plan.label())
