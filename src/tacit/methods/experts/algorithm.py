"""Learning from experts: one `fit` for every kind of plan."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents.policies import PolicyActor
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.experts import imitation, votes
from tacit.methods.experts.anchors import sample_visited_states
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import LearnedPolicies
from tacit.methods.experts.votes import Votes
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import EpisodeSimulator
from tacit.privacy.vault.invented import invented_rows, try_public
from tacit.privacy.vault.vault import Vault

AnyPlan = Votes | ReturnWeighted | Consensus


def fit(
    plan: AnyPlan, vault: Vault, world: EpisodeSimulator | None = None, *, anchors: NDArray[Any] | None = None
) -> Release[LearnedPolicies]:
    """Learn a policy from experts under a plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit: `Votes`, `ReturnWeighted` or `Consensus`.
        vault: the experts' logs, one unit an expert, and the ledger.
        world: a public simulator, where the plan needs one.
        anchors: the public states of a plan with `anchors.Given`.

    Raises:
        PlanError: the actions are continuous, or plan, world, anchors and records do not fit each other.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if not isinstance(vault.spec.action, Discrete):
        what, expected = "the records have continuous actions", "discrete actions, which experts can agree on"
        remedy = "cut the actions into a few public ranges and log their numbers"
        raise PlanError(what, where="experts.fit", expected=expected, remedy=remedy)
    _require_fit(plan, vault.spec, world)
    if isinstance(plan, Consensus):
        from tacit.methods.experts import training

        return training.fit(plan, vault, world)
    if isinstance(plan, ReturnWeighted):
        if world is not None:
            what, expected = "a world was passed to imitation, which needs none", "world= with a plan that plays in it"
            raise PlanError(what, where="experts.fit", expected=expected, remedy="leave world= out")
        return imitation.fit(plan, vault)
    return votes.fit(plan, vault, world, anchors=anchors)


def _require_fit(plan: AnyPlan, spec: PublicSpec, world: object) -> None:
    """Refuse what would fail after the charge: clones of other records, and worlds that cannot be played in."""
    clone = None if isinstance(plan, ReturnWeighted) else plan.clone
    if clone is not None and not (
        maps.is_compatible(clone.features, spec.observation) and getattr(spec.action, "n", None) == clone.actions
    ):
        what = "the clones are not for these experts' observations and actions"
        expected = "features of the records' observations, and as many actions as the records have"
        remedy = "build the clone for the spec of the vault"
        raise PlanError(what, where="experts.fit", expected=expected, remedy=remedy)
    if world is not None and not all(hasattr(world, name) for name in ("starts", "step", "observe")):
        what = f"a {type(world).__name__} is no simulator"
        expected = "world= with the methods starts, step and observe, such as tacit_worlds.cart_pole.CartPole()"
        remedy = 'pass that, or populations.world("...").domain'
        raise PlanError(what, where="experts.fit", expected=expected, remedy=remedy)
    if world is None or isinstance(plan, ReturnWeighted):
        return
    plan.policy.require_fit(spec)
    actor = PolicyActor(plan.policy, plan.policy.initial_parameters(np.random.default_rng(0), 1))
    form, simulator = invented_rows(spec, 1, 1, seed=0)["observations"].shape, cast(Any, world)
    try_public(
        lambda: sample_visited_states(actor, simulator, 1, spec, horizon=plan.horizon, explore=1.0, seed=0),
        lambda states: states.shape == form,
        f"random actions in {type(world).__name__} give no states of these records",
        where="experts.fit",
        expected=f"observations of shape {form[2:]}, as the records'",
        remedy="pass the world of these records",
    )
