"""The accounting table: for each pair (kinds of event together, relation) the bound's accountant and its check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import AccountingError
from tacit.privacy.accounting import accountants, approximate, concentrated, quadrature
from tacit.privacy.accounting import selection as selection_accounting
from tacit.privacy.accounting.approximate import Array
from tacit.privacy.accounting.events import (
    MAX_EPSILON,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    Leaves,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SelectionEvent,
    ZcdpEvent,
)
from tacit.roots import find_root
from tacit.units import Relation

# The independent checks of the accounting table: delta -> epsilon, by other ways than the certified figures.


def closed_form(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Plain Gaussians: the exact profile."""
    return accountants.gaussian_epsilon(delta, accountants.gaussian_mu(leaves, relation))


def fourier(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Gaussians, some of them sampled: centred quadrature."""
    return max(grid.epsilon(delta) for grid in quadrature.estimate(leaves, relation))


def response(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Mechanisms with proofs of their own: the privacy loss distribution of their dominating pair."""
    epsilon_deltas, _ = approximate.split(leaves, relation)
    distribution = approximate.pessimistic_pld(epsilon_deltas, approximate.grid_interval(epsilon_deltas))
    with np.errstate(all="ignore"):
        return max(0.0, float(distribution.get_epsilon_for_delta(delta)))


def mixed_epsilon(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Gaussians next to mechanisms with proofs of their own: `approximate`'s formula, the answers conditioned on."""
    # The Gaussians' profile is the exact one where none is sampled, else that of centred quadrature.
    epsilon_deltas, gaussians = approximate.split(leaves, relation)
    directions = approximate.compose(epsilon_deltas)
    share = directions[0].conditional_delta(delta)
    if all(isinstance(leaf, GaussianEvent) for leaf, _ in gaussians):
        mu = accountants.gaussian_mu(gaussians, relation)
        high = accountants.gaussian_epsilon(share / 2, mu)
        return max(
            _solve(one, lambda epsilon: accountants.gaussian_delta(epsilon, mu), share, high) for one in directions
        )
    grids = quadrature.estimate(gaussians, relation)
    pairs = zip(directions * (3 - len(directions)), grids * (3 - len(grids)), strict=True)  # of one, both are alike
    return max(_solve(one, grid.profile, share, max(float(grid.losses[-1]), 0.0)) for one, grid in pairs)


def _solve(responses: approximate.Responses, profile: Callable[[Array], Array], share: float, high: float) -> float:
    """Where the formula's falling sum reaches the share; 0 where it is below already there, inf where it never is."""
    # profile: D of the formula, at several epsilons; share: of delta, given that no bit is revealed; high: where D is
    # small enough
    high = high + float(responses.losses[-1])

    def excess(epsilon: float) -> float:
        return float(responses.masses @ profile(epsilon - responses.losses)) - share

    if share <= 0 or excess(high) > 0:
        return math.inf
    return 0.0 if excess(0.0) <= 0 else find_root(excess, 0.0, high, tolerance=1e-9)


def selected(leaves: Leaves, relation: Relation, delta: float) -> float:
    """The best of several runs: what the checks of its candidates make of it."""

    def run(candidate: Leaves, at: float) -> float:
        return find_row(candidate, relation).check(candidate, relation, at)

    return selection_accounting.epsilon(leaves, delta, run)


Kind = Literal[
    "gaussian",
    "poisson_gaussian",
    "fixed_size_gaussian",
    "epsilon_delta",
    "epsilon_delta_gaussian",
    "epsilon_delta_poisson_gaussian",
    "epsilon_delta_fixed_size_gaussian",
    "laplace",
    "laplace_gaussian",
    "laplace_poisson_gaussian",
    "zcdp",
    "zcdp_gaussian",
    "zcdp_laplace",
    "zcdp_laplace_gaussian",
    "selection",
]

Family = Literal["losses", "own", "curve", "selection"]
"""Where certified figures come from: a privacy loss distribution, mechanisms' own proofs, a Renyi curve, or what is
certified of the runs of a selection."""

MAX_LAPLACE_EPSILON = 6_000.0
PLD = "privacy loss distribution, pessimistic (dp-accounting)"
FOURIER = "privacy random variable, centred quadrature (tacit)"
CLOSED_FORM = "closed form of the Gaussian (tacit)"
OWN_PROOF = "closed form of randomised response (tacit)"
RESPONSE = "privacy loss distribution of randomised response (dp-accounting)"
MIXED = "closed form of randomised response over the other steps' profile (tacit)"
CONVERSION = "conversion of the Renyi curve at the best of many orders (dp-accounting)"
SOLVED = "delta of the Renyi curve, solved for epsilon (tacit)"

SELECTED = "profile of repeated selection, over certified epsilons of a run (tacit)"
SELECTED_CHECKED = "the same, over the figures that check those"

_ACCOUNTANTS: Mapping[Family, str] = {"losses": PLD, "own": OWN_PROOF, "curve": CONVERSION, "selection": SELECTED}


@dataclass(frozen=True)
class AccountingRule:
    """How one pair is accounted for."""

    check_accountant: str  # the check's name
    check: Callable[[Leaves, Relation, float], float]  # (leaves, relation, delta) -> epsilon
    family: Family = "losses"  # where the certified figures come from
    # the largest epsilon that is certified. Sums of many Laplace numbers have losses within known bounds, so that the
    # grids stay exact far beyond what is of use to anybody; it is certified so that it can be stated.
    largest_epsilon: float = MAX_EPSILON

    @property
    def accountant(self) -> str:
        """The name of the accountant of the certified figures."""
        return _ACCOUNTANTS[self.family]


_EXACT = AccountingRule(CLOSED_FORM, closed_form)
_SAMPLED = AccountingRule(FOURIER, fourier)
_OWN = AccountingRule(RESPONSE, response, "own")
_MIXED = AccountingRule(MIXED, mixed_epsilon)
_LAPLACE = AccountingRule(FOURIER, fourier, largest_epsilon=MAX_LAPLACE_EPSILON)
_CURVE = AccountingRule(SOLVED, concentrated.solve_epsilon, "curve")
_SELECTION = AccountingRule(SELECTED_CHECKED, selected, "selection")

TABLE: Mapping[tuple[Kind, Relation], AccountingRule] = {
    ("gaussian", "add_or_remove"): _EXACT,
    ("gaussian", "replace_one"): _EXACT,
    ("poisson_gaussian", "add_or_remove"): _SAMPLED,
    ("poisson_gaussian", "replace_one"): _SAMPLED,
    ("fixed_size_gaussian", "replace_one"): _SAMPLED,
    ("epsilon_delta", "add_or_remove"): _OWN,
    ("epsilon_delta", "replace_one"): _OWN,
    ("epsilon_delta_gaussian", "add_or_remove"): _MIXED,
    ("epsilon_delta_gaussian", "replace_one"): _MIXED,
    ("epsilon_delta_poisson_gaussian", "add_or_remove"): _MIXED,
    ("epsilon_delta_poisson_gaussian", "replace_one"): _MIXED,
    ("epsilon_delta_fixed_size_gaussian", "replace_one"): _MIXED,
    ("laplace", "add_or_remove"): _LAPLACE,
    ("laplace", "replace_one"): _LAPLACE,
    ("laplace_gaussian", "add_or_remove"): _LAPLACE,
    ("laplace_gaussian", "replace_one"): _LAPLACE,
    ("laplace_poisson_gaussian", "add_or_remove"): _SAMPLED,
    ("laplace_poisson_gaussian", "replace_one"): _SAMPLED,
    ("zcdp", "add_or_remove"): _CURVE,
    ("zcdp", "replace_one"): _CURVE,
    ("zcdp_gaussian", "add_or_remove"): _CURVE,
    ("zcdp_gaussian", "replace_one"): _CURVE,
    ("zcdp_laplace", "add_or_remove"): _CURVE,
    ("zcdp_laplace", "replace_one"): _CURVE,
    ("zcdp_laplace_gaussian", "add_or_remove"): _CURVE,
    ("zcdp_laplace_gaussian", "replace_one"): _CURVE,
    ("selection", "add_or_remove"): _SELECTION,
    ("selection", "replace_one"): _SELECTION,
}


def event_kind(leaves: Leaves) -> str:
    """The kinds of the leaves, joined; a sampled Gaussian takes plain ones in. It need not be one that `TABLE` has."""
    kinds = {type(leaf) for leaf, _ in leaves}
    names = [
        name
        for name, event in (
            ("selection" if sum(count for _, count in leaves) == 1 else "several_selections", SelectionEvent),
            ("zcdp", ZcdpEvent),
            ("epsilon_delta", EpsilonDeltaEvent),
            ("epsilon_delta", RandomizedResponseEvent),
            ("laplace", LaplaceEvent),
        )
        if event in kinds
    ]
    names = list(dict.fromkeys(names))  # an answer that is turned round is no kind of its own
    if SampledWithoutReplacementEvent in kinds:
        names.append("fixed_size_gaussian")
    elif PoissonSampledEvent in kinds:
        names.append("poisson_gaussian")
    elif GaussianEvent in kinds:
        names.append("gaussian")
    return "_".join(names)


def find_row(leaves: Leaves, relation: Relation) -> AccountingRule:
    """The row of the leaves under the relation."""
    pair = (event_kind(leaves), relation)
    if pair not in TABLE:
        what = f"no certified bound exists for the pair {pair}" if leaves else "the event has no steps"
        expected = "one of " + ", ".join(f"({mechanism}, {under})" for mechanism, under in TABLE)
        remedy = "describe the mechanism with events that the table knows"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)
    return TABLE[pair]  # type: ignore[index]
