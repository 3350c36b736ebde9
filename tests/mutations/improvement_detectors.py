"""Detectors of improvements whose statement is not true or that do harm, as those of `detectors.py`.

They look at releases alone: a bandit of 1,200 people, two variants, of whom the more frequent one is the worse.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.improvement import Improvement, ImprovementPlan, Problem, fit
from tacit.methods.improvement.cloning import CloneStep, TeacherVisits
from tacit.methods.improvement.moments import Scales
from tacit.methods.off_policy_evaluation.policies import Network
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import records
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

UNITS = 1_200
SHARES, PAYS = (0.7, 0.3), (0.2, 0.8)
"""Of the two variants: how often they were shown, and how often they pay."""


def _improved(
    folder: Path, patch: pytest.MonkeyPatch, *, epsilon: float = 8.0, unit: float = 1.0, flipped: int | None = None
) -> Improvement:
    """The release of the same coins; halves are even and odd places, and a half's rewards can be turned round."""
    patch.setattr(records.Reader, "folds", lambda self, key: np.arange(self.units) % 2)
    generator = np.random.default_rng(0)
    seen = generator.uniform(-1, 1, (UNITS, 1)).astype(np.float32)
    shown = (generator.random(UNITS) < SHARES[1]).astype(np.int64)
    paid = (generator.random(UNITS) < np.array(PAYS)[shown]).astype(np.float32)
    if flipped is not None:
        paid[flipped::2] = 1 - paid[flipped::2]
    people = np.arange(UNITS)
    spec = PublicSpec(
        Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (unit,)), "declared", terminals=False, propensities=True
    )
    data = Trajectories.from_arrays(
        observations=seen,
        next_observations=seen,
        actions=shown,
        rewards=unit * paid,
        terminations=np.zeros(UNITS, bool),
        truncations=np.ones(UNITS, bool),
        propensities=np.array(SHARES, np.float32)[shown],
        unit_ids=people,
        episode_ids=people,
        spec=spec,
        simulated=True,
    )
    problem = Problem(gamma=1.0, horizon=1, return_range=(0.0, unit))
    protected = Unit("user", "add_or_remove", UNITS)
    plan = ImprovementPlan.of(spec, problem, memory=Memory((1.0,)), snr_scale=20.0)
    plan = plan.calibrate(unit=protected, epsilon=epsilon, delta=1e-5)
    name = f"{epsilon}.{unit}.{flipped}.ledger"
    with Ledger(folder / name, protected, epsilon=20.0, delta=1e-4, composition=SUM) as ledger:
        return fit(plan, Vault(data, ledger, noise=SecretNoise.for_tests(3))).value


def judges_do_not_teach(folder: Path) -> None:
    """What the judging half was paid changes no policy; what the teaching half was paid changes no mean return."""
    with pytest.MonkeyPatch.context() as patch:
        own, taught, judged = (_improved(folder, patch, flipped=half) for half in (None, 0, 1))
    assert np.array_equal(own.theta, judged.theta), "the policy depends on those who judge it"
    assert own.statement.returns == taught.statement.returns, "the statement depends on those who taught"
    assert own.statement.returns != judged.statement.returns, "the statement is not of those who judge"
    assert not np.array_equal(own.theta, taught.theta), "the policy is not of those who teach"


def policies_without_a_unit(folder: Path) -> None:
    """Paid in cents, the same people teach the same policy."""
    with pytest.MonkeyPatch.context() as patch:
        own, cents = (_improved(folder, patch, unit=unit) for unit in (1.0, 100.0))
    assert np.allclose(own.theta, cents.theta, rtol=1e-2, atol=1e-2), "the policy depends on the unit of reward"


def a_clone_weighs_units_by_themselves(folder: Path) -> None:
    """What a unit adds to a step of the clone is the same alone and beside others."""
    generator, units = np.random.default_rng(1), 8
    spec = PublicSpec(
        Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=False, propensities=True
    )
    plan = ImprovementPlan.of(spec, Problem(gamma=1.0, horizon=2, return_range=(0.0, 2.0)), memory=Memory((1.0,)))
    seen = generator.uniform(-1, 1, (units, 2, 1)).astype(np.float32)
    rows = {
        "observations": seen,
        "next_observations": np.roll(seen, -1, axis=1),
        "actions": generator.integers(0, 2, (units, 2)),
        "rewards": np.linspace(0, 1, units, dtype=np.float32)[:, None].repeat(2, axis=1),
        "terminations": np.zeros((units, 2), bool),
        "mask": np.ones((units, 2), bool),
        "starts": np.tile([True, False], (units, 1)),
    }
    scales = Scales(np.zeros(1), np.ones(1), 2.0, 0.5, 0.5, float(units))
    state = ((0.5, 1.5), scales, np.eye(plan.features), np.zeros((plan.features, 2)))
    step = CloneStep(plan, TeacherVisits(plan, spec))
    together = step(step.summary(rows), state)
    single = [{name: part[k : k + 1] for name, part in rows.items()} for k in range(units)]
    alone = [step(step.summary(each), state)[0] for each in single]
    assert np.allclose(together, alone), "a unit's part of a step depends on other units"


def halves_spend_one_gaussian(folder: Path) -> None:
    """What each half adds to, in squared sensitivities over noise, is that of the plan's one Gaussian."""
    plan = ImprovementPlan.of(
        PublicSpec(
            Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", terminals=False, propensities=True
        ),
        Problem(gamma=1.0, horizon=2, return_range=(0.0, 2.0)),
        noise_multiplier=3.0,
    )
    for fold in (0, 1):
        spent = sum(part.steps / part.noise_multiplier**2 for part in plan.parts() if part.fold == fold)
        assert abs(spent - 1 / 3.0**2) < 1e-9, "a half spends another Gaussian than the plan says"


def no_harm_without_advice(folder: Path) -> None:
    """Where the noise leaves no advice, the policy shows the worse variant no more often than the records did."""
    with pytest.MonkeyPatch.context() as patch:
        value = _improved(folder, patch, epsilon=0.3)
    seen = np.linspace(-1, 1, 101)[:, None]
    chances = Network.of(value.feed_forward()).probabilities(seen)
    pays = float((chances @ np.array(PAYS)).mean())
    logged = float(np.dot(SHARES, PAYS))
    assert pays > logged - 0.1, f"the policy pays {pays:.2f}, where the records pay {logged:.2f}"


IMPROVEMENT_DETECTORS = (
    judges_do_not_teach,
    policies_without_a_unit,
    a_clone_weighs_units_by_themselves,
    halves_spend_one_gaussian,
    no_harm_without_advice,
)
