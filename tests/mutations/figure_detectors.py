"""Detectors of stated figures that are not true, as those of `detectors.py`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from experiments.beyond.ope_rare_scores import LAWS, SHARES, coverage

from tacit import off_policy_evaluation as ope
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.evaluation.audits.bounds import least_epsilon
from tacit.methods.off_policy_evaluation.difference import SHARES as SCORE_SHARES
from tacit.methods.off_policy_evaluation.difference import DifferenceScores
from tacit.methods.off_policy_evaluation.scores import FIT
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.privacy.certificate import fields, markdown
from tacit.privacy.gradients import clipping

SAMPLED = SelfComposedEvent(PoissonSampledEvent(0.05, GaussianEvent(1.0)), 40)
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
    said = markdown.catch_percent(fields.figures(SAMPLED, "add_or_remove", DELTA))
    assert said < 0.7 * worst, f"the best attack catches {said:.4g} %, of any mechanism {worst:.4g} %"
    least = least_epsilon(SAMPLED, DELTA)
    assert least <= bound.check_epsilon, f"a lower bound of {least:.5f} lies above epsilon, {bound.check_epsilon:.5f}"


def long_sums_lose_nothing(folder: Path) -> None:
    """What many small contributions add to a large sum is all there: 200 blocks of 0.1 on top of 2^53."""
    sums, lost = np.full((1, 1), 2.0**53), np.zeros((1, 1))
    for _ in range(200):
        clipping.clipped_sums(np.full((1024, 1), 0.1 / 1024), 1.0, np.zeros(1024, np.int64), 1, sums, lost)
    kept = float(sums[0, 0] - 2.0**53) + float(lost[0, 0])
    assert abs(kept - 20) < 1e-9, f"of 20 clips {kept:.4g} are in the sum"


def cut_differences_only_fall(folder: Path) -> None:
    """Ten decisions of a fair coin; only heads, which pay 0 in the first two and 1 in the other three, are followed."""
    rewards, actions = np.array([0.0, 0, 1, 1, 1, 1, 1, 0, 0, 0]), np.repeat([1, 0], 5)
    rows = {
        "observations": np.zeros((10, 1), np.int64),
        "next_observations": np.zeros((10, 1), np.int64),
        "actions": actions[:, None],
        "rewards": rewards[:, None],
        "terminations": np.ones((10, 1), bool),
        "propensities": np.full((10, 1), 0.5),
        "mask": np.ones((10, 1), bool),
        "starts": np.ones((10, 1), bool),
    }
    spec = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
    problem, following = ope.Problem(gamma=1.0, horizon=1), ope.Following(share=1.0)
    for most in (1.0, 10.0):
        clip = following.clip(spec, problem, most)
        heads = ope.Tabular(np.array([[0.0, 1.0]] * 2))
        vector = DifferenceScores(problem, heads, None, following, (0.0, 1.0), clip)(rows, None)
        gain, loss = clip * vector[:, :2].mean(axis=0) / (FIT * math.sqrt(SCORE_SHARES[0]))
        assert gain <= 0.1 + 1e-9, f"heads gain .1, and their scores {gain:.3g}"
        assert loss <= -0.1 + 1e-3, f"heads lose -.1, and their scores {loss:.3g}"


FIGURE_DETECTORS = (
    cut_differences_only_fall,
    long_sums_lose_nothing,
    rare_scores_are_covered,
    figures_of_sampled_plans,
)
