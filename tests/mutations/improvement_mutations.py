"""Mistakes of an improvement by which its statement is not true, planted as those of `mutations.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.methods.improvement import algorithm, cloning, moments
from tacit.methods.improvement.plan import JUDGING, LEARNING, STEP, ImprovementPlan

Plant = Callable[[pytest.MonkeyPatch], None]


def _dealt(patch: pytest.MonkeyPatch, fold: Callable[[Any], int | None]) -> None:
    """Parts that run on other halves."""
    real = ImprovementPlan.parts
    patch.setattr(
        ImprovementPlan, "parts", lambda plan: tuple(dataclasses.replace(p, fold=fold(p)) for p in real(plan))
    )


def statement_on_the_learning_half(patch: pytest.MonkeyPatch) -> None:
    """Those who taught judge."""
    _dealt(patch, lambda part: LEARNING)


def moments_on_the_judging_half(patch: pytest.MonkeyPatch) -> None:
    """Those who are to judge teach, too."""
    _dealt(patch, lambda part: JUDGING)


def everybody_teaches_and_judges(patch: pytest.MonkeyPatch) -> None:
    """No halves, as it was."""
    _dealt(patch, lambda part: None)


def rewards_in_the_user_s_unit(patch: pytest.MonkeyPatch) -> None:
    """The planner adds log-probabilities and money."""
    patch.setattr(moments.Scales, "standardise_rewards", lambda scales, rewards: np.asarray(rewards))


def clone_by_its_best_action(patch: pytest.MonkeyPatch) -> None:
    """Where no advice wins, everybody gets what most people got."""
    real = algorithm.advise

    def advise(*arguments: Any) -> Any:
        return dataclasses.replace(real(*arguments), sampled=False)

    patch.setattr(algorithm, "advise", advise)


def weights_by_rank(patch: pytest.MonkeyPatch) -> None:
    """The best are those of the rows at hand, and not those above a noisy quantile."""

    def weigh(returns: np.ndarray, ends: Any) -> np.ndarray:
        return (returns >= np.quantile(returns, 0.75)).astype(np.float64)

    patch.setattr(cloning, "unit_weights", weigh)


def noise_of_one_step(patch: pytest.MonkeyPatch) -> None:
    """All steps of the clone are paid as one."""
    real = ImprovementPlan.parts
    patch.setattr(
        ImprovementPlan,
        "parts",
        lambda plan: tuple(
            dataclasses.replace(p, noise_multiplier=p.noise_multiplier and p.noise_multiplier / 20**0.5)
            if p.name == STEP
            else p
            for p in real(plan)
        ),
    )


IMPROVEMENTS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("statement on the learning half", statement_on_the_learning_half, ("judges_do_not_teach",)),
    ("moments on the judging half", moments_on_the_judging_half, ("judges_do_not_teach",)),
    ("everybody teaches and judges", everybody_teaches_and_judges, ("judges_do_not_teach",)),
    ("rewards in the user's unit", rewards_in_the_user_s_unit, ("policies_without_a_unit",)),
    ("weights by rank", weights_by_rank, ("a_clone_weighs_units_by_themselves",)),
    ("noise of one step", noise_of_one_step, ("halves_spend_one_gaussian",)),
    ("clone by its best action", clone_by_its_best_action, ("no_harm_without_advice",)),
)
