"""Detectors of composition as one Gaussian: what a ledger admits, against SciPy's normal distribution."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from vault_cases import GivenParts, Silent, open_vault, records, unit_of

from tacit.errors import BudgetExceeded
from tacit.privacy.accounting.filters import Composition
from tacit.privacy.ledger.folds import Fold
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Block, Blocks, grams, with_length
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
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


@dataclass(frozen=True)
class Extremes:
    """Given vectors, of which a unit's reward says the number; the zero vector for all other rewards."""

    vectors: tuple[tuple[float, ...], ...]

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        table = np.array([np.zeros(len(self.vectors[0])), *self.vectors])
        which = np.rint(rows["rewards"][:, 0]).astype(int) + 1
        return table[np.where((which > 0) & (which < len(table)), which, 0)]


SCORES: Blocks = (
    Block(kind="positive", share=0.4, size=2),
    Block(kind="constant", share=0.2, size=1),
    Block(kind="squares", share=0.4, size=2, of=0),
)
ROOT = math.sqrt(0.4)
TRIED: tuple[tuple[Blocks | None, tuple[tuple[float, ...], ...]], ...] = (
    (None, ((9.0, 0.0), (-9.0, 0.0))),
    (POSITIVE, ((9.0, 0.0), (0.0, 9.0), (-9.0, 0.0))),
    (SCORES, ((ROOT, 0.0, 0.4, 0.0, 0.0), (0.0, ROOT, 0.4, 0.0, 0.0), (9.0, 0.0, -9.0, 0.0, 0.0))),
    (with_length(0.5), ((9.0, 0.0), (-9.0, 9.0), (0.0, -9.0))),
    (grams(2), ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (-9.0, 0.0, 0.0), (0.0, 9.0, 0.0))),
    ((Block(kind="votes", width=3),), ((9.0, 0.0, 0.0), (0.0, 9.0, 0.0), (-9.0, 0.0, 9.0))),
)
"""Blocks, and vectors that a callback of a user's own might hand over."""


def distance_of_units(folder: Path) -> None:
    """Where one unit replaces another, no sum moves by more standard deviations than the certificate has."""
    unit, closest = unit_of(100, "replace_one"), 0.0
    for number, (blocks, vectors) in enumerate(TRIED):
        part = PoissonSum(name="s", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=4.0, blocks=blocks)
        sums = []
        for which in range(-1, len(vectors)):
            own = [[float(which)], [-1.0], [-1.0]]
            vault = open_vault(folder, own, unit=unit, noise=Silent(), name=f"{number} {which}")
            run = vault.reserve(plans.account(GivenParts((part,)), unit=unit, delta=1e-5))
            sums.append(vault.noisy_sum(run, "s", Extremes(vectors))[0] * unit.size)
            mu = vault.release(run, 0.0, label=Label(("a sum",), (), ())).certificate.mu
        moved = max(float(np.linalg.norm(a - b)) for a in sums for b in sums) / 4.0
        assert moved <= mu + 0.01, f"{blocks} are {moved:.4g} apart, and {mu:.4g} is stated"  # sums stand on a lattice
        closest = max(closest, mu - moved)
    assert closest < 0.01, "more is stated than any pair of units needs"


def distance_of_movers(folder: Path) -> None:
    """Who leaves one fold and enters the other meets no more of both than is stated, by a plan and by a ledger."""
    unit, delta = unit_of(1_000, "replace_one"), 1e-5
    halves = tuple(
        PoissonSum(
            name=f"on {fold}", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=3.0, fold=fold, blocks=b
        )
        for fold, b in ((0, SCORES), (1, with_length(0.999)))
    )
    plan = plans.account(GivenParts(halves), unit=unit, delta=delta)
    apart = math.sqrt(2) / 3.0
    assert _delta(apart, plan.epsilon) <= delta, f"a mover costs more than epsilon {plan.epsilon:.4g}"
    for composition in (Composition(0), SUM):
        name, spent = str(composition), [0.0, 0.0]
        with Ledger(folder / f"{name}.ledger", unit, epsilon=2.0, delta=1e-4, composition=composition) as ledger:
            vault = Vault(records([[0.5]]), ledger)
            for number in range(80):
                fold, clip = number % 2, 1.0 + number
                part = dataclasses.replace(halves[1], noise_multiplier=8.0, clip_norm=clip, fold=fold)
                try:
                    vault.reserve(plans.account(GivenParts((part,)), unit=unit, delta=1e-6))
                except BudgetExceeded:
                    break
                spent[fold] += 1 / 64
        found = _delta(math.sqrt(sum(spent)), 2.0)
        assert found <= 1e-4, f"{name}: a mover's delta is {found:.2g}"


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


GAUSSIAN_DETECTORS = (budget_of_gaussians, shares_stay_apart, distance_of_units, distance_of_movers)
