"""Policy and statement follow the unit of reward: r -> a r always, and r -> a r + b where no course ends early."""

import dataclasses

import numpy as np
import pytest
from small_clinic import MEMORY, PROBLEM, SPEC, columns, courses

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.improvement import ImprovementPlan, Problem, fit
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import records
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

UNITS = 1_500


def clinic():
    """Courses that end early."""
    listed, chances = courses()
    generator = np.random.default_rng(4)
    owners = np.repeat(np.arange(UNITS), generator.integers(1, 3, UNITS))
    drawn = [listed[k] for k in generator.choice(len(listed), len(owners), p=chances / chances.sum())]
    return columns(drawn, owners.tolist()), SPEC, PROBLEM, MEMORY


def steady():
    """Courses of three visits, all of them; the second action pays where the first column is above 0, and later."""
    return _invented(3)


def bandit():
    """One visit a course, one course a person; the flag of its end says nothing."""
    table, spec, problem, memory = _invented(1)
    return table, dataclasses.replace(spec, terminals=True), problem, memory


def _invented(horizon):
    generator = np.random.default_rng(5)
    rows = UNITS * horizon
    seen = generator.normal(size=(rows, 2)).clip(-3, 3).astype(np.float32)
    actions = (generator.random(rows) < 0.3).astype(np.int64)
    paid = (generator.random(rows) < np.where((seen[:, 0] > 0) == (actions == 1), 0.8, 0.2)).astype(np.float32)
    owner = np.repeat(np.arange(UNITS), horizon)
    last = np.arange(rows) % horizon == horizon - 1
    table = {
        "observations": seen,
        "next_observations": np.roll(seen, -1, axis=0),
        "actions": actions,
        "rewards": paid,
        "terminations": np.zeros(rows, bool),
        "truncations": last,
        "propensities": np.where(actions == 1, 0.3, 0.7).astype(np.float32),
        "unit_ids": owner,
        "episode_ids": owner,
    }
    spec = PublicSpec(
        Box((-3.0, -3.0), (3.0, 3.0)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=False, propensities=True
    )
    problem = Problem(gamma=0.9, horizon=horizon, return_range=(0.0, 0.5 + 0.6 * horizon))
    return table, spec, problem, Memory((1.0, 1.0))


WORLDS = {"clinic": clinic, "steady": steady, "bandit": bandit}


def improved(folder, world, a=1.0, b=0.0, epsilon=8.0):
    """The release of the same people, coins and halves, in another unit of reward."""
    table, spec, problem, memory = WORLDS[world]()
    table["rewards"] = (a * table["rewards"] + b).astype(np.float32)
    low, high = (a * end + b for end in (spec.reward.low[0], spec.reward.high[0]))
    assert problem.return_range is not None
    wide = tuple(a * end + b * problem.discounted_length for end in problem.return_range)
    spec = dataclasses.replace(spec, reward=Box((low,), (high,)))
    plan = ImprovementPlan.of(spec, dataclasses.replace(problem, return_range=wide), memory=memory, snr_scale=20.0)
    unit = Unit("patient", "add_or_remove", UNITS)
    plan = plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-5)
    data = Trajectories.from_arrays(**table, spec=spec, simulated=True)
    with Ledger(folder / f"{world}.{a}.{b}.ledger", unit, epsilon=20.0, delta=1e-4, composition=SUM) as ledger:
        return fit(plan, Vault(data, ledger, noise=SecretNoise.for_tests(8))).value, problem


@pytest.fixture(autouse=True)
def _the_same_halves(monkeypatch):
    """Of the ledgers' own, which differ."""
    monkeypatch.setattr(records.Reader, "folds", lambda self, key: np.arange(self.units) % 2)


CASES = [(world, a, 0.0) for world in WORLDS for a in (0.01, 100.0)]
CASES += [(world, a, b) for world in ("steady", "bandit") for a, b in ((1.0, -20.0), (30.0, 7.0))]


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
@pytest.mark.parametrize(("world", "a", "b"), CASES)
def test_policy_and_statement_follow_the_unit(tmp_path, world, a, b, epsilon):
    own, problem = improved(tmp_path, world, epsilon=epsilon)
    other, _ = improved(tmp_path, world, a, b, epsilon=epsilon)
    assert own.sampled == other.sampled
    assert np.array_equal(own.theta, own.clone) == (epsilon == 0.3) or world != "clinic"
    size = np.abs(own.theta).max()
    np.testing.assert_allclose(other.theta, own.theta, rtol=5e-3, atol=5e-3 * size)
    np.testing.assert_allclose(other.clone, own.clone, rtol=1e-5, atol=1e-5)
    seen = np.random.default_rng(0).uniform(-1, 2, (500, len(own.memory.rates)))
    same = own.predict(seen, deterministic=True)[0] == other.predict(seen, deterministic=True)[0]
    assert same.mean() > 0.99
    moved = b * problem.discounted_length
    one, two, near = own.statement, other.statement, {"rel": 1e-3, "abs": 1e-3 * a}
    assert two.verdict == one.verdict
    assert two.gain == pytest.approx(a * one.gain, **near)
    assert two.gain_interval.low == pytest.approx(a * one.gain_interval.low, **near)
    assert two.returns == pytest.approx(a * one.returns + moved, **near)
    assert two.returns_interval.high == pytest.approx(a * one.returns_interval.high + moved, **near)


def test_the_worlds_of_this_page_teach_something(tmp_path):
    own, _ = improved(tmp_path, "bandit")
    actions, _ = own.predict(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert actions.tolist() == [1, 0]
