"""AIM (arXiv:2201.12677): round after round, the marginal that the present model fits worst for its price.

A round takes ten quanta: one chooses a marginal by the exponential mechanism, nine measure it. Where a measurement
taught less than its noise, later rounds take four times as many quanta (half the noise, twice the epsilon of a choice).
Between rounds the model is refitted by proportional fitting, at the end through `mbi`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from tacit.methods.synthesis.baselines import graphical
from tacit.methods.synthesis.baselines.graphical import Clique, Tree, model_cells, records
from tacit.methods.synthesis.baselines.plan import Measurements, TablePlan, TableSynthesizer
from tacit.methods.synthesis.plan import Progress
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import Choice
from tacit.privacy.vault.vault import Vault
from tacit.validation import whole

CHOICE, MEASUREMENT = 1, 9
"""Quanta of a first round: 10 % and 90 % of the budget, as published."""


@dataclass(frozen=True, kw_only=True)
class AimPlan(TablePlan):
    """AIM on public bins."""

    method: ClassVar[str] = "synthesis of transitions (AIM)"
    source: ClassVar[str] = "AIM: An Adaptive and Iterative Mechanism (arXiv:2201.12677)"
    choices: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("mbi",)

    degree: int = 2
    """the workload is all marginals of so many columns; they and all smaller ones are candidates."""
    rounds: int = 16
    """rounds per column, if none took more than the first (the paper's 16)."""
    cells: int = 2**18
    """largest model: cells of the cliques of its junction tree; the part of it that may be used grows with the budget
    spent."""
    iterations: int = 500
    """of mirror descent at the end (post-processing)."""

    def __post_init__(self) -> None:
        whole(2, degree=self.degree, rounds=self.rounds)
        whole(cells=self.cells, iterations=self.iterations)
        super().__post_init__()

    @property
    def quanta(self) -> int:
        """Ten a round."""
        return (CHOICE + MEASUREMENT) * self.rounds * len(self.discretisation.shape)


def fit(plan: AimPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise; arguments and errors as of `mst.fit`."""
    graphical.require_mbi()
    ask = Measurements(plan, vault, progress)
    shape = plan.discretisation.shape
    weights = workload_weights(len(shape), plan.degree)
    measured = [ask.marginal((column,), MEASUREMENT) for column in range(len(shape))]
    potentials = graphical.proportional(shape, measured, sweeps=1)
    model, factor = Tree.from_potentials(shape, potentials), 1
    while ask.left > 0:
        choice, measurement = CHOICE * factor, MEASUREMENT * factor
        if ask.left < 2 * (choice + measurement):
            choice = max(1, round(ask.left * CHOICE / (CHOICE + MEASUREMENT)))
            measurement = ask.left - choice
        spent = 1 - (ask.left - choice - measurement) / plan.quanta
        allowed = affordable(shape, weights, [marginal.axes for marginal in measured], int(plan.cells * spent))
        noise = math.sqrt(2 / math.pi) * ask.deviation(measurement)
        clique = _choose(ask, allowed, weights, model, records(measured), noise, choice)
        measured.append(ask.marginal(clique, measurement))
        potentials = graphical.proportional(shape, measured, sweeps=1, start=potentials)
        total, before = records(measured), model.marginal(clique)
        model = Tree.from_potentials(shape, potentials)
        if total * np.abs(model.marginal(clique) - before).sum() <= noise * before.size:
            factor *= 4
    tree = graphical.estimate(shape, measured, iterations=plan.iterations, start=potentials)
    return ask.release(tree)


def workload_weights(columns: int, degree: int) -> dict[Clique, float]:
    """Each candidate's weight: how many columns it shares with the marginals of the workload, in all."""
    workload = [set(clique) for clique in combinations(range(columns), min(degree, columns))]
    candidates = [clique for size in range(1, degree + 1) for clique in combinations(range(columns), size)]
    return {clique: float(sum(len(wanted & set(clique)) for wanted in workload)) for clique in candidates}


def affordable(
    shape: Sequence[int], candidates: Sequence[Clique] | dict[Clique, float], held: list[Clique], cells: int
) -> list[Clique]:
    """Candidates inside a clique that the model holds already, or that leave it within `cells`."""
    free = [set(clique) for clique in held]
    return [
        clique
        for clique in candidates
        if any(set(clique) <= scope for scope in free) or model_cells(shape, [*held, clique]) <= cells
    ]


def _choose(
    ask: Measurements,
    allowed: list[Clique],
    weights: dict[Clique, float],
    model: Tree,
    total: float,
    noise: float,
    quanta: int,
) -> Clique:
    expected = [total * model.marginal(clique) for clique in allowed]
    offsets = [noise * counts.size for counts in expected]
    drawn = ask(Choice(tuple(allowed), expected, [weights[clique] for clique in allowed], offsets, quanta))
    return allowed[int(drawn[0])]
