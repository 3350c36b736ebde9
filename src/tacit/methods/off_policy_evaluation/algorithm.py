"""One function for every method: the plan says which."""

from __future__ import annotations

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import doubly_robust, fitted_q, gpope, importance, overlap, residual
from tacit.methods.off_policy_evaluation.baselines import lsl, lsw, ssp
from tacit.methods.off_policy_evaluation.baselines.lsl import Lsl
from tacit.methods.off_policy_evaluation.baselines.lsw import Lsw
from tacit.methods.off_policy_evaluation.baselines.ssp import SufficientStatistics
from tacit.methods.off_policy_evaluation.doubly_robust import DoublyRobust
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.features import Custom, ends
from tacit.methods.off_policy_evaluation.fitted_q import FittedQ
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Policy, Target
from tacit.methods.off_policy_evaluation.residual import ResidualRegression
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault

Plan = (
    ResidualRegression
    | ImportanceSampling
    | FittedQ
    | DoublyRobust
    | Overlap
    | Gpope
    | SufficientStatistics
    | Lsw
    | Lsl
)


def estimate(
    plan: Plan, vault: Vault, policy: Target | Release[Policy], *, behaviour: BehaviourPolicy | None = None
) -> Release[Evaluation]:
    """Evaluate a policy as the plan says.

    Args:
        plan: calibrated for the vault's unit (`plan.calibrate(unit=vault.unit, epsilon=..., delta=...)`).
        vault: the records and their ledger.
        policy: `Behaviour()` for the policy that made the records, a public policy, or a release of the same ledger.
        behaviour: the known behaviour policy; None takes the logged propensities.

    Raises:
        PlanError: the policy or the behaviour is not public, or the plan does not fit them or the records.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if isinstance(plan, Plan) and not isinstance(plan, ImportanceSampling | Overlap):
        tried = ends(vault.spec.observation)  # features that do not fit are refused before anything is charged
        plan.features.require_finite(tried) if isinstance(plan.features, Custom) else plan.features(tried)
    match plan:
        case ResidualRegression():
            return residual.evaluate(plan, vault, policy, behaviour)
        case Gpope():
            return gpope.evaluate(plan, vault, policy, behaviour)
        case ImportanceSampling():
            return importance.evaluate(plan, vault, policy, behaviour)
        case Overlap():
            return overlap.evaluate(plan, vault, policy, behaviour)
        case FittedQ():
            return fitted_q.evaluate(plan, vault, policy, behaviour)
        case DoublyRobust():
            return doubly_robust.evaluate(plan, vault, policy, behaviour)
        case SufficientStatistics():
            return ssp.evaluate(plan, vault, policy, behaviour)
        case Lsw():
            return lsw.evaluate(plan, vault, policy, behaviour)
        case Lsl():
            return lsl.evaluate(plan, vault, policy, behaviour)
        case _:
            raise PlanError(
                f"{type(plan).__name__} is no plan of off-policy evaluation",
                where="off_policy_evaluation.estimate",
                expected="a plan of tacit.off_policy_evaluation",
                remedy="use ResidualRegression, the default",
            )
