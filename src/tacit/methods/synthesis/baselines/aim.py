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
from tacit.methods.synthesis.baselines.graphical import Clique, Tree, model_cells, record_count
from tacit.methods.synthesis.baselines.plan import Measurements, TablePlan, TableSynthesizer
from tacit.methods.synthesis.plan import Progress
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import MarginalChoice
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_whole

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
        require_whole(2, degree=self.degree, rounds=self.rounds)
        require_whole(cells=self.cells, iterations=self.iterations)
        super().__post_init__()

    @property
    def quanta(self) -> int:
        """Ten a round."""
        return (CHOICE + MEASUREMENT) * self.rounds * len(self.discretisation.shape)


def fit(plan: AimPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise; arguments and errors as of `mst.fit`."""
    graphical.require_mbi()
    measurements = Measurements(plan, vault, progress)
    shape = plan.discretisation.shape
    weights = workload_weights(len(shape), plan.degree)
    measured = [measurements.marginal((column,), MEASUREMENT) for column in range(len(shape))]
    potentials = graphical.fit_proportional(shape, measured, sweeps=1)
    model, factor = Tree.from_potentials(shape, potentials), 1
    while measurements.left > 0:
        choice, measurement = CHOICE * factor, MEASUREMENT * factor
        if measurements.left < 2 * (choice + measurement):
            choice = max(1, round(measurements.left * CHOICE / (CHOICE + MEASUREMENT)))
            measurement = measurements.left - choice
        spent = 1 - (measurements.left - choice - measurement) / plan.quanta
        allowed = affordable_cliques(shape, weights, [marginal.axes for marginal in measured], int(plan.cells * spent))
        noise = math.sqrt(2 / math.pi) * measurements.deviation(measurement)
        clique = _choose(measurements, allowed, weights, model, record_count(measured), noise, choice)
        measured.append(measurements.marginal(clique, measurement))
        potentials = graphical.fit_proportional(shape, measured, sweeps=1, start=potentials)
        total, before = record_count(measured), model.marginal(clique)
        model = Tree.from_potentials(shape, potentials)
        if total * np.abs(model.marginal(clique) - before).sum() <= noise * before.size:
            factor *= 4
    tree = graphical.estimate(shape, measured, iterations=plan.iterations, start=potentials)
    return measurements.release(tree)


def workload_weights(columns: int, degree: int) -> dict[Clique, float]:
    """Each candidate's weight: how many columns it shares with the marginals of the workload, in all."""
    workload = [set(clique) for clique in combinations(range(columns), min(degree, columns))]
    candidates = [clique for size in range(1, degree + 1) for clique in combinations(range(columns), size)]
    return {clique: float(sum(len(wanted & set(clique)) for wanted in workload)) for clique in candidates}


def affordable_cliques(
    shape: Sequence[int], candidates: Sequence[Clique] | dict[Clique, float], measured_cliques: list[Clique], cells: int
) -> list[Clique]:
    """Candidates inside a clique that the model holds already, or that leave it within `cells`."""
    free = [set(clique) for clique in measured_cliques]
    return [
        clique
        for clique in candidates
        if any(set(clique) <= scope for scope in free) or model_cells(shape, [*measured_cliques, clique]) <= cells
    ]


def _choose(
    measurements: Measurements,
    allowed: list[Clique],
    weights: dict[Clique, float],
    model: Tree,
    total: float,
    noise: float,
    quanta: int,
) -> Clique:
    expected = [total * model.marginal(clique) for clique in allowed]
    offsets = [noise * counts.size for counts in expected]
    choice_weights = [weights[clique] for clique in allowed]
    drawn = measurements(MarginalChoice(tuple(allowed), expected, choice_weights, offsets, quanta))
    return allowed[int(drawn[0])]
