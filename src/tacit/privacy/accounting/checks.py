"""The independent checks of the accounting table: delta -> epsilon, by other ways than the certified figures."""

from __future__ import annotations

import math
from collections.abc import Callable

from dp_accounting import dp_event
from scipy.optimize import brentq

from tacit.privacy.accounting import accountants, approximate, quadrature
from tacit.privacy.accounting.approximate import Array
from tacit.privacy.accounting.events import Leaves
from tacit.units import Relation


def closed_form(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Plain Gaussians: the exact profile."""
    return accountants.gaussian_epsilon(delta, accountants.gaussian_mu(leaves, relation))


def fourier(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Gaussians, some of them sampled: centred quadrature."""
    return max(grid.epsilon(delta) for grid in quadrature.estimate(leaves, relation))


def response(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Mechanisms with proofs of their own: the privacy loss distribution of their dominating pair."""
    distribution = approximate.pessimistic(leaves, approximate.grid_interval(leaves))
    return max(0.0, float(distribution.get_epsilon_for_delta(delta)))


def mixed(leaves: Leaves, relation: Relation, delta: float) -> float:
    """Gaussians next to mechanisms with proofs of their own: the formula of `approximate`, the answers conditioned on.

    The Gaussians' profile is the exact one where none is sampled, else that of centred quadrature.
    """
    own, gaussians = approximate.split(leaves)
    responses = approximate.compose(own)
    share, top = responses.share(delta), float(responses.losses[-1])
    if all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf, _ in gaussians):
        mu = accountants.gaussian_mu(gaussians, relation)
        high = top + accountants.gaussian_epsilon(share / 2, mu)
        return _solve(responses, lambda epsilon: accountants.gaussian_delta(epsilon, mu), share, high)
    grids = quadrature.estimate(gaussians, relation)
    return max(_solve(responses, grid.profile, share, top + max(float(grid.losses[-1]), 0.0)) for grid in grids)


def _solve(responses: approximate.Responses, beside: Callable[[Array], Array], share: float, high: float) -> float:
    """Where the falling sum of the formula reaches the share; 0 where it is below already there, inf where it never is.

    Args:
        responses: the answers.
        beside: D of the formula, at several epsilons.
        share: of delta, given that no bit is revealed.
        high: an epsilon at which the sum is no longer above the share.
    """

    def excess(epsilon: float) -> float:
        return float(responses.masses @ beside(epsilon - responses.losses)) - share

    if share <= 0 or excess(high) > 0:
        return math.inf
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, high, xtol=1e-9))
