"""Wrong calls of off-policy evaluation; none of them spends anything."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from wrong_calls import DELTA, PRIVATE_ID, SPEC, UNIT, WrongCall, columns, data, ledger

from tacit import off_policy_evaluation as ope
from tacit.data import Trajectories
from tacit.privacy.vault.vault import Vault

LOGGED = dataclasses.replace(SPEC, propensities=True)
PROBLEM = ope.Problem(gamma=0.9, horizon=2)
FEATURES = ope.Fourier(1, (-4.0,), (4.0,))


def logs(**changes: Any) -> Trajectories:
    """The three records, with the propensities of their actions."""
    return Trajectories.from_arrays(**columns(**({"propensities": [0.5, 0.25, 1.0], "spec": LOGGED} | changes)))


def estimate(
    folder: Path, plan: ope.Estimator, records: Trajectories, policy: Any, behaviour: ope.BehaviourPolicy | None = None
) -> None:
    """Calibrate and run."""
    with ledger(folder) as own:
        ready = plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
        ope.fit(ready, Vault(records, own), policy, behaviour=behaviour)


def gamma_above_one(folder: Path) -> None:
    ope.Problem(gamma=1.5, horizon=2)


def horizon_of_zero(folder: Path) -> None:
    ope.Problem(gamma=0.9, horizon=0)


def inverted_range(folder: Path) -> None:
    ope.Problem(gamma=0.9, horizon=2, return_range=(1.0, 0.0))


def propensities_missing(folder: Path) -> None:
    logs(propensities=None)


def propensity_of_zero(folder: Path) -> None:
    logs(propensities=[0.5, 0.0, 1.0])


def other_policy_without_propensities(folder: Path) -> None:
    estimate(folder, ope.ImportanceSampling(problem=PROBLEM), data(), ope.Uniform(3))


def policy_of_other_actions(folder: Path) -> None:
    estimate(folder, ope.ImportanceSampling(problem=PROBLEM), logs(), ope.Uniform(2))


def policy_that_is_no_distribution(folder: Path) -> None:
    ope.Tabular(np.array([[0.9, 0.9]]))


def policy_that_cannot_be_imported(folder: Path) -> None:
    ope.Callable("no_such_package:policy", actions=3)


def behaviour_policy_without_a_source(folder: Path) -> None:
    fitted = ope.BehaviourPolicy(ope.Uniform(3))
    estimate(folder, ope.ImportanceSampling(problem=PROBLEM), logs(), ope.Uniform(3), fitted)


def on_policy_plan_for_another_policy(folder: Path) -> None:
    plan = ope.ResidualRegression(problem=PROBLEM, features=FEATURES, on_policy=True)
    estimate(folder, plan, logs(), ope.Uniform(3))


def fitted_q_of_the_behaviour_policy(folder: Path) -> None:
    estimate(folder, ope.FittedQ(problem=PROBLEM, features=FEATURES), logs(), ope.Behaviour())


def one_hot_features_of_numbers(folder: Path) -> None:
    plan = ope.ResidualRegression(problem=PROBLEM, features=ope.OneHot(4), on_policy=True)
    estimate(folder, plan, logs(), ope.Behaviour())


def features_of_another_width(folder: Path) -> None:
    plan = ope.ResidualRegression(problem=PROBLEM, features=ope.Fourier(1, (-4.0, 0.0), (4.0, 1.0)), on_policy=True)
    estimate(folder, plan, logs(), ope.Behaviour())


def least_squares_without_a_range(folder: Path) -> None:
    ope.Lsw(problem=PROBLEM, features=ope.OneHot(4))


def one_of_m_when_a_unit_is_added_or_removed(folder: Path) -> None:
    plan = ope.Gpope(problem=PROBLEM, features=FEATURES, mode="paper", value_share=0.0)
    plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


def evaluation_of_another_version(folder: Path) -> None:
    ope.Evaluation.from_json({"method": PRIVATE_ID})


EVALUATION_CALLS: tuple[WrongCall, ...] = (
    gamma_above_one,
    horizon_of_zero,
    inverted_range,
    propensities_missing,
    propensity_of_zero,
    other_policy_without_propensities,
    policy_of_other_actions,
    policy_that_is_no_distribution,
    policy_that_cannot_be_imported,
    behaviour_policy_without_a_source,
    on_policy_plan_for_another_policy,
    fitted_q_of_the_behaviour_policy,
    one_hot_features_of_numbers,
    features_of_another_width,
    least_squares_without_a_range,
    one_of_m_when_a_unit_is_added_or_removed,
    evaluation_of_another_version,
)
