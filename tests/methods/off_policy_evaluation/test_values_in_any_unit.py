"""Values follow the unit of reward: r -> a r for every method, and r -> a r + b where an episode is one step."""

import dataclasses

import numpy as np
import pytest
from small_mdp import PROBLEM, SPEC, TARGET, simulate, unit_of

from tacit.data.spec import Box
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation import (
    Behaviour,
    DoublyRobust,
    FittedQ,
    Gpope,
    ImportanceSampling,
    OneHot,
    Problem,
    ResidualRegression,
    fit,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import records
from tacit.privacy.vault.vault import Vault

UNITS = 600
METHODS = {
    "importance": lambda problem: (ImportanceSampling(problem=problem, weighting="pdis"), TARGET),
    "weighted importance": lambda problem: (ImportanceSampling(problem=problem), TARGET),
    "returns": lambda problem: (ImportanceSampling(problem=problem), Behaviour()),
    "fitted Q": lambda problem: (FittedQ(problem=problem, features=OneHot(2)), TARGET),
    "doubly robust": lambda problem: (DoublyRobust(problem=problem, features=OneHot(2)), TARGET),
    "residuals": lambda problem: (
        ResidualRegression(problem=problem, features=OneHot(2), on_policy=False),
        TARGET,
    ),
    "residuals of the records": lambda problem: (
        ResidualRegression(problem=problem, features=OneHot(2), on_policy=True),
        Behaviour(),
    ),
    "GPOPE": lambda problem: (Gpope(problem=problem, features=OneHot(2)), TARGET),
}
FROM_ZERO = {"GPOPE"}
"""Published methods that start at 0, and so pull towards it."""


def evaluated(folder, method, problem, a, b):
    """The evaluation of the same people, coins and halves, in another unit of reward."""
    columns = simulate(UNITS, 3)
    if problem.horizon == 1:  # every step is an episode of its own
        columns = {
            name: column[np.unique(columns["unit_ids"], return_index=True)[1]] for name, column in columns.items()
        }
        columns["terminations"] = np.ones(UNITS, bool)
        columns["truncations"] = np.zeros(UNITS, bool)
    columns["rewards"] = (a * columns["rewards"] + b).astype(np.float32)
    low, high = (a * end + b for end in (SPEC.reward.low[0], SPEC.reward.high[0]))
    spec = dataclasses.replace(SPEC, reward=Box((low,), (high,)))
    unit = unit_of(UNITS)
    plan, target = METHODS[method](problem)
    plan = plan.calibrate(unit=unit, epsilon=2.0, delta=1e-4)
    data = Trajectories.from_arrays(**columns, spec=spec, simulated=True)
    with Ledger(folder / f"{a}.{b}.ledger", unit, epsilon=9.0, delta=1e-3, composition=SUM) as ledger:
        return fit(plan, Vault(data, ledger, noise=SecretNoise.for_tests(5)), target).value


@pytest.fixture(autouse=True)
def _the_same_halves(monkeypatch):
    """Of the ledgers' own, which differ."""
    monkeypatch.setattr(records.Reader, "folds", lambda self, key: np.arange(self.units) % 2)


@pytest.mark.parametrize("a", [0.01, 128.0])
@pytest.mark.parametrize("method", METHODS)
def test_values_are_multiples_where_rewards_are(tmp_path, method, a):
    own, other = (evaluated(tmp_path, method, PROBLEM, factor, 0.0) for factor in (1.0, a))
    check(own, other, a, 0.0)


@pytest.mark.parametrize(("a", "b"), [(1.0, 7.0), (20.0, -5.0)])
@pytest.mark.parametrize("method", [name for name in METHODS if name not in FROM_ZERO])
def test_values_move_with_rewards_where_an_episode_is_one_step(tmp_path, method, a, b):
    problem = Problem(gamma=0.0, horizon=1)
    own, other = (evaluated(tmp_path, method, problem, *unit) for unit in ((1.0, 0.0), (a, b)))
    check(own, other, a, b)


def check(own, other, a, b):
    """Numbers of the second are a times those of the first, and b more."""
    near = {"rel": 2e-3, "abs": 2e-3 * a}
    assert other.limits == pytest.approx(tuple(a * end + b for end in own.limits), **near)
    if own.value is not None:
        assert other.value == pytest.approx(a * own.value + b, **near)
        ends = [(one.interval.low, one.interval.high) for one in (own, other)]
        assert ends[1] == pytest.approx(tuple(a * end + b for end in ends[0]), **near)
    if own.theta is not None:
        np.testing.assert_allclose(other.theta, a * own.theta + b, rtol=2e-3, atol=2e-3 * a)
