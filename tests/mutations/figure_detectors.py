"""Detectors of stated figures that are not true, as those of `detectors.py`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from experiments.ope_rare_scores import LAWS, SHARES, coverage

from tacit.evaluation.audits.bounds import least_epsilon
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.certificate import fields, markdown

SAMPLED = SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0)), 40)
DELTA = 1e-5


def rare_scores_are_covered(folder: Path) -> None:
    """Intervals keep their level where one unit in a thousand has all of the value."""
    noise = tuple(0.5 / math.sqrt(share) for share in SHARES)
    for name, law in LAWS.items():
        for rare in (0.7, 1.5, 4.0):
            found = coverage(1_000, rare, law, 0.95, noise)  # type: ignore[arg-type]
            assert found >= 0.95 - 1e-6, f"95 % intervals of {name} cover {100 * found:.2f} %"


def figures_of_sampled_plans(folder: Path) -> None:
    """The best attack is that of the plan and not of any mechanism; a lower bound on epsilon is below it."""
    bound = accounting.epsilon(SAMPLED, delta=DELTA, relation="add_or_remove")
    worst = 100 * float(0.05 * np.exp(bound.epsilon) + DELTA)
    said = markdown.caught(fields.figures(SAMPLED, "add_or_remove", DELTA))
    assert said < 0.7 * worst, f"the best attack catches {said:.4g} %, of any mechanism {worst:.4g} %"
    least = least_epsilon(SAMPLED, DELTA)
    assert least <= bound.check_epsilon, f"a lower bound of {least:.5f} lies above epsilon, {bound.check_epsilon:.5f}"


FIGURE_DETECTORS = (rare_scores_are_covered, figures_of_sampled_plans)
