"""From a plan to what people add to its parts."""

from __future__ import annotations

from tacit.agents import features as maps
from tacit.agents.features import Quadratic, Scaled
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, Value
from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient import fisher
from tacit.methods.policy_gradient.advantages import Advantages
from tacit.methods.policy_gradient.contributions import CriticGradient, EpisodeGradient
from tacit.methods.policy_gradient.local_training import Training
from tacit.methods.policy_gradient.local_updates import CriticUpdates, LocalUpdates
from tacit.methods.policy_gradient.plan import CRITIC, POLICY, Plan
from tacit.privacy.mechanisms.base import Contribution


def advantages(plan: Plan, policy: Policy) -> Advantages:
    """How a plan makes advantages; a local critic is quadratic in the policy's features of a continuous observation."""
    own = None
    if plan.critic == "local":
        own = Quadratic(*_box(policy.features)) if isinstance(policy.features, Scaled) else policy.features
    return Advantages(
        gamma=plan.gamma,
        trace=plan.trace,
        reward_rate=plan.reward_rate,
        scale=plan.return_scale,
        own=own,
        ridge=plan.ridge,
        standardised=plan.standardised,
    )


def contributions(plan: Plan, policy: Policy, critic: Value | None) -> dict[str, Contribution]:
    """For each part of the plan what a person adds to it."""
    how = advantages(plan, policy)
    kappa, local = plan.kappa if plan.critic == "private" else 0.0, plan.local
    if local is None:
        one: Contribution = EpisodeGradient(policy, how, plan.entropy, critic, kappa)
        taught: Contribution | None = CriticGradient(critic, how) if critic is not None else None
    else:
        training = Training(learning_rate=local.learning_rate, epochs=local.epochs, minibatches=local.minibatches)
        one = LocalUpdates(policy, how, training, local.entropy, "ratio", local.seeded, critic, kappa)
        taught = CriticUpdates(critic, how, training) if critic is not None else None
    found = {POLICY: one}
    if plan.critic == "shared" and taught is not None:
        found[CRITIC] = taught
    if plan.fisher is not None:
        found[fisher.PART] = plan.fisher.contribution(policy)
    return found


def critic_of(plan: Plan, policy: Policy, spec: PublicSpec, critic: Value | None, *, given: bool) -> Value | None:
    """The plan's critic, or None where it has none.

    Raises:
        PlanError: a public critic is missing, or a critic is given that the plan does not use.
    """
    uses = plan.critic in ("private", "public", "shared")
    if (critic is not None and not uses) or (plan.critic == "public" and (critic is None or not given)):
        raise PlanError(
            "a public critic is missing" if uses else f"a critic is given, and the plan's is {plan.critic!r}",
            where="policy_gradient.learn",
            expected="critic= and critic_start= with a public critic, no critic= with a local one or none",
            remedy="pass what the plan uses",
        )
    if critic is not None or not uses:
        return critic
    scaled = policy.features if isinstance(policy.features, Scaled) else maps.default(spec.observation)
    if plan.critic == "shared":
        return Value(scaled, Mlp((scaled.size, 64, 64, 1), gain=1.0))
    wide = Quadratic(*_box(scaled)) if isinstance(scaled, Scaled) else scaled
    return Value(wide, Mlp((wide.size, 1), gain=0.0))


def _box(features: Scaled) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return features.low, features.high
