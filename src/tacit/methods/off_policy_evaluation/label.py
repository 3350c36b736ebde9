"""The words of every evaluation's certificate."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.methods.off_policy_evaluation.features import Custom, Features
from tacit.methods.off_policy_evaluation.policies import Behaviour, Policy, Target
from tacit.methods.off_policy_evaluation.targets import words
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import Label


def label(
    covered: str,
    policy: Target | Release[Policy],
    target: Target,
    behaviour: Policy | None,
    *,
    features: Features | None = None,
    assumptions: Sequence[str] = (),
) -> Label:
    """A label for one evaluation.

    Args:
        covered: what the plan releases.
        policy: the evaluated policy as it was passed: itself, or a release of the same ledger.
        target: the policy itself.
        behaviour: the known behaviour policy, or None.
        features: the features that the method uses, or None.
        assumptions: further ones of the method.
    """
    released = isinstance(policy, Release)
    ratios = ["the logged propensities are the true probabilities of the logged actions"]
    if isinstance(target, Behaviour):
        ratios = []
    elif behaviour is not None:
        ratios = [f"the behaviour policy is {words(behaviour)}, and made the records"]
    own = [f"the features {features.function} were fixed without these records"] if isinstance(features, Custom) else []
    return Label(
        covered=(covered, "everything computed from the evaluation: its value, interval, value function and report"),
        not_covered=(
            "the choice of hyper-parameters: it must have been made without looking at the private records",
            "whatever the curator computes from the records outside the doors (see the ledger's notes)",
        ),
        not_protected=(
            "what is true of the population rather than of one unit, such as how good the policy is",
            "the evaluated policy, that these records were used at all, and every public parameter of the plan",
            "several units that belong to one person, where the declared unit is less than a person",
        ),
        assumptions=(
            "evaluated: " + ("a policy released under this ledger" if released else words(target)),
            *ratios,
            "no episode's discounted return lies outside the public range (for the value and the interval, not for "
            "the promise of privacy)",
            *own,
            *assumptions,
        ),
    )
