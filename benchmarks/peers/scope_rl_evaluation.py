"""SCOPE-RL against tacit's off-policy evaluation, on the same logged swimmers.

The same work: the value of "always swim right" and an interval about it, from the same episodes of 20 steps, whose
actions have logged probabilities. SCOPE-RL gets its arrays ready made, the probabilities of the evaluated policy among
them, and its cheapest interval (Hoeffding's; its default is 10,000 bootstrap samples). tacit has the records in a vault
and the plan calibrated; it finds the ratios, clips, adds noise, and writes the ledger and the certificate.

- `scope_rl_importance`: per-decision importance sampling against `ImportanceSampling`, 2,000,000 rows.
- `scope_rl_fitted_q`: the direct method by d3rlpy's `DiscreteFQE`, against `FittedQ`, 20,000 rows. Both look at every
  row 20 times: FQE in batches of 1,000 through its smallest network (one hidden layer of 16), tacit in 20 noisy rounds
  of a linear Q. The size of the batch makes no difference to FQE, which draws row by row.
- `scope_rl_doubly_robust`: the same Q inside the doubly robust estimate, against `DoublyRobust`, 20,000 rows.
"""

from __future__ import annotations

from benchmarks.peers.works import Side, Work, fresh_ledger  # isort: skip  (first: it limits the threads)

import dataclasses
import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tacit import off_policy_evaluation as ope
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import collect
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.river_swim import ACTIONS, HORIZON, STATES, RiverSwim, spec

GAMMA, PASSES, BATCH, HIDDEN = 0.95, 20, 1_000, 16
BEHAVIOUR, TARGET = (0.1, 0.9), (0.0, 1.0)
PROBLEM = ope.Problem(gamma=GAMMA, horizon=HORIZON)
FEATURES = ope.OneHot(STATES)

Columns = dict[str, np.ndarray]


def logged(units: int) -> Columns:
    """One episode each of so many swimmers."""
    return collect(RiverSwim(), lambda seen: np.tile(BEHAVIOUR, (len(seen), 1)), units, seed=0, horizon=HORIZON)


def tacit_side(plan: ope.Estimator, columns: Columns, units: int) -> Side:
    """An evaluation of one vault; every call asks for another level, since no plan runs twice."""
    unit = Unit("swimmer", "add_or_remove", units)
    data = Trajectories.from_arrays(**columns, spec=dataclasses.replace(spec(), propensities=True), simulated=True)
    vault = Vault(data, fresh_ledger(unit, epsilon=100.0, delta=0.5 / units))
    calibrated = plan.calibrate(unit=unit, epsilon=1.0, delta=0.001 / units)
    target, calls = ope.Tabular(np.tile(TARGET, (STATES, 1))), itertools.count(1)

    def evaluate() -> float | None:
        asked = dataclasses.replace(calibrated, level=0.95 - 1e-6 * next(calls))
        return ope.fit(asked, vault, target).value.value

    return evaluate


def inputs(columns: Columns) -> dict[str, Any]:
    """What the estimators of SCOPE-RL take."""
    return {
        "step_per_trajectory": HORIZON,
        "action": columns["actions"],
        "reward": columns["rewards"].astype(np.float64),
        "pscore": columns["propensities"].astype(np.float64),
        "evaluation_policy_action_dist": np.tile(TARGET, (len(columns["actions"]), 1)),
        "gamma": GAMMA,
        "ci": "hoeffding",
    }


def importance(units: int) -> tuple[Side, Side]:
    """Importance sampling on both sides."""
    with warnings.catch_warnings(action="ignore"):
        from scope_rl.ope.discrete import PerDecisionImportanceSampling
    columns = logged(units)
    peer = partial(PerDecisionImportanceSampling().estimate_interval, **inputs(columns))
    return peer, tacit_side(ope.ImportanceSampling(problem=PROBLEM), columns, units)


def fitted_q(units: int) -> tuple[Side, Side]:
    """The direct method, and fitted Q evaluation."""
    with warnings.catch_warnings(action="ignore"):
        from scope_rl.ope.discrete import DirectMethod
    columns = logged(units)
    peer = with_q(DirectMethod().estimate_interval, columns)
    return peer, tacit_side(ope.FittedQ(problem=PROBLEM, features=FEATURES), columns, units)


def doubly_robust(units: int) -> tuple[Side, Side]:
    """The doubly robust estimate on both sides."""
    with warnings.catch_warnings(action="ignore"):
        from scope_rl.ope.discrete import DoublyRobust
    columns = logged(units)
    peer = with_q(DoublyRobust().estimate_interval, columns)
    return peer, tacit_side(ope.DoublyRobust(problem=PROBLEM, features=FEATURES), columns, units)


def with_q(estimate: Callable[..., object], columns: Columns) -> Side:
    """An estimator of SCOPE-RL after d3rlpy's fitted Q evaluation, which it takes its Q from."""
    import d3rlpy
    import structlog
    from d3rlpy.models.encoders import VectorEncoderFactory

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    rows = len(columns["actions"])
    seen, encoder = np.eye(STATES, dtype=np.float32)[columns["observations"]], VectorEncoderFactory([HIDDEN])
    data = d3rlpy.dataset.MDPDataset(
        seen,
        columns["actions"],
        columns["rewards"],
        columns["terminations"].astype(np.float32),
        columns["truncations"],
        action_space=d3rlpy.constants.ActionSpace.DISCRETE,
        action_size=ACTIONS,
    )
    evaluated = d3rlpy.algos.DQNConfig(encoder_factory=encoder).create(device="cpu:0")
    evaluated.build_with_dataset(data)
    last = evaluated.impl.q_function[0]._fc
    last.weight.data.zero_()
    last.bias.data.copy_(last.bias.new_tensor(TARGET))  # its best action is the evaluated policy's
    config = d3rlpy.ope.FQEConfig(gamma=GAMMA, batch_size=BATCH, learning_rate=1e-2, encoder_factory=encoder)

    def evaluate() -> object:
        steps = PASSES * rows // BATCH
        fitted = d3rlpy.ope.DiscreteFQE(algo=evaluated, config=config, device="cpu:0")
        quiet = d3rlpy.logging.NoopAdapterFactory()
        fitted.fit(data, n_steps=steps, n_steps_per_epoch=steps, show_progress=False, logger_adapter=quiet)
        q = [fitted.predict_value(seen, np.full(rows, action)) for action in range(ACTIONS)]
        return estimate(**inputs(columns), state_action_value_prediction=np.stack(q, axis=1))

    return evaluate


INSTALL = "pip install --no-deps scope-rl d3rlpy, and what they import"
WORKS = (
    Work(
        "scope_rl_importance",
        "SCOPE-RL, PDIS",
        "scope-rl",
        INSTALL,
        "importance sampling, 2,000,000 rows",
        partial(importance, 100_000),
        5,
    ),
    Work(
        "scope_rl_fitted_q",
        "SCOPE-RL, d3rlpy's FQE",
        "scope-rl",
        INSTALL,
        "fitted Q, 20 passes over 20,000 rows",
        partial(fitted_q, 1_000),
    ),
    Work(
        "scope_rl_doubly_robust",
        "SCOPE-RL, DR",
        "scope-rl",
        INSTALL,
        "doubly robust, the same rows and Q",
        partial(doubly_robust, 1_000),
    ),
)
