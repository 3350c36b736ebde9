"""Detectors of composition as one Gaussian: what a ledger admits, against SciPy's normal distribution."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from scipy.stats import norm

from tacit.errors import BudgetExceeded
from tacit.privacy.accounting.filters import Composition
from tacit.privacy.ledger.folds import Fold
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Relation, Unit

RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")


def budget_of_gaussians(folder: Path) -> None:
    """Gaussian plans are admitted while the exact delta of all of a fold is within the budget, and not much less."""
    for relation in RELATIONS:
        for epsilon, mu in ((1.0, 0.06), (30.0, 1.4)):
            for fold in (0, 1, None):
                name = f"{relation} {epsilon} {fold}"
                with _ledger(folder / name, relation, epsilon, Composition(0)) as ledger:
                    admitted = _admitted(ledger, 60, fold, mu=mu)
                spent = _delta(mu * math.sqrt(admitted), epsilon)
                assert spent <= 1e-5, f"{name}: {admitted} plans have a delta of {spent:.2g}"
                assert _delta(mu * math.sqrt(admitted + 1), epsilon) > 1e-5, f"{name}: {admitted} plans are few"


def shares_stay_apart(folder: Path) -> None:
    """Neither kind of plan is admitted beyond its own share, whatever the other kind has left."""
    orders = (
        (None, {"epsilon": 0.05, "delta": 1e-7}, 5),
        (64.0, {"rdp": 0.01}, _renyi_plans(0.25, 2.5e-6, 64.0, 0.01)),
    )
    for order, other, fit in orders:
        for first in (True, False):
            name = f"order {order}, mus first {first}"
            with _ledger(folder / name, "add_or_remove", 1.0, Composition(0.25, order)) as ledger:
                mus = others = 0
                for kind in (first, not first):
                    if kind:
                        mus = _admitted(ledger, 60, None, mu=0.05)
                    else:
                        others = _admitted(ledger, 60, None, **other)
            spent = _delta(0.05 * math.sqrt(mus), 0.75)
            assert 0 < spent <= 7.5e-6, f"{name}: {mus} Gaussians have a delta of {spent:.2g} in a share of 7.5e-6"
            assert others == fit, f"{name}: {others} other plans fit a share of 0.25, not {fit}"


def _ledger(path: Path, relation: Relation, epsilon: float, composition: Composition) -> Ledger:
    return Ledger(path, Unit("person", relation, 1_000), epsilon=epsilon, delta=1e-5, composition=composition)


def _admitted(ledger: Ledger, most: int, fold: Fold | None, **cost: Any) -> int:
    """How many equal plans the ledger takes."""
    part = PoissonSum(name="s", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0, fold=fold)
    described = {"method": "sums", "parts": list(certificate_parts([part]))}
    for number in range(most):
        try:
            ledger.reserve(f"{cost} {number}", described, parts={"s": 1}, **{"epsilon": 0.5, "delta": 1e-6, **cost})
        except BudgetExceeded:
            return number
    return most


def _renyi_plans(epsilon: float, delta: float, order: float, rdp: float) -> int:
    """How many plans of this Rényi bound fit (arXiv:2004.00010, Proposition 12)."""
    return int((epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)) / rdp)


def _delta(mu: float, epsilon: float) -> float:
    """The exact delta of one Gaussian (arXiv:1805.06530, Theorem 8)."""
    if mu == 0:
        return 0.0
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


GAUSSIAN_DETECTORS = (budget_of_gaussians, shares_stay_apart)
