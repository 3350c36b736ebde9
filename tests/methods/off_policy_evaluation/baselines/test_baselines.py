"""Earlier methods on the chain: fixed points, closed forms of their solutions, promises, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.gpope.gpope_step_sizes import unit_rows

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation import baselines
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.baselines import Lsl, Lsw, SufficientStatistics, cells, lstd, middles, solve
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.policies import Behaviour, Tabular
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import chain

PROBLEM = Problem(gamma=0.99, horizon=100, return_range=(0.0, 1.0))
FEATURES = OneHot(39)
BASE: dict[str, Any] = {"problem": PROBLEM, "features": FEATURES}
STATES = np.arange(39)


class Silent(SecretNoise):
    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.zeros(size, np.float32)


def simulated(units: int, seed: int = 0) -> Trajectories:
    columns = chain.collect(lambda s: np.full((len(s), 2), 0.5), units, seed=seed, horizon=100)
    return Trajectories.from_arrays(**columns, spec=chain.spec(), simulated=True)


def open_vault(folder: Path, units: int = 200, noise: SecretNoise | None = None, epsilon: float = 1e6) -> Vault:
    unit = Unit("trajectory", "replace_one", units)
    ledger = Ledger(folder / "a.ledger", unit, epsilon=epsilon, delta=0.5 / units, composition=SUM)
    return Vault(simulated(units), ledger, noise=noise)


def test_lstd_finds_the_values_on_and_off_policy() -> None:
    rows = unit_rows(simulated(3000), PROBLEM)
    on = lstd(rows, PROBLEM, FEATURES, Behaviour())
    off = lstd(rows, PROBLEM, FEATURES, Tabular(np.tile([0.7, 0.3], (40, 1))))
    assert np.sqrt(np.mean((on - chain.values()) ** 2)) < 0.02
    assert np.sqrt(np.mean((off - chain.values()) ** 2)) < 0.03
    assert not np.allclose(on, off)


def test_lstd_of_two_transitions_by_hand() -> None:
    """State 0 (reward 1) to state 1 (reward 3) to the end; target twice as likely to act so: V1 = 3, V0 = 1 + 3/2."""
    spec = PublicSpec(
        observation=Discrete(3), action=Discrete(2), reward=Box((0.0,), (5.0,)), source="declared", propensities=True
    )
    data = Trajectories.from_arrays(
        observations=np.array([0, 1]),
        actions=np.array([0, 1]),
        rewards=np.array([1.0, 3.0]),
        next_observations=np.array([1, 2]),
        terminations=np.array([False, True]),
        propensities=np.array([0.5, 0.25]),
        unit_ids=np.array([0, 0]),
        spec=spec,
        simulated=True,
    )
    problem = Problem(gamma=0.5, horizon=2)
    theta = lstd(unit_rows(data, problem), problem, OneHot(3), Tabular(np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])))
    np.testing.assert_allclose(theta, [2.5, 3.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(("share", "bound"), [(0.0, 0.65), (0.2, 0.2)])
def test_sufficient_statistics_are_lstd_with_a_ridge(tmp_path: Path, share: float, bound: float) -> None:
    """RMSE of zero values: 0.71. No noise is added, but the ridge is that of the plan's."""
    vault = open_vault(tmp_path, 400, noise=Silent())
    plan = SufficientStatistics(**BASE, clip_norm=2.0, value_share=share, noise_multiplier=1e-2)
    unit = vault.unit
    priced = SufficientStatistics(**BASE, clip_norm=2.0, value_share=share).calibrate(
        unit=unit, epsilon=100.0, delta=1e-4
    )
    assert priced.noise_multiplier is not None
    found = fit(priced, vault, Behaviour()).value
    error = np.sqrt(np.mean((found.values(STATES) - chain.values()) ** 2))
    assert error < bound
    assert (found.interval is None) == (share == 0.0)
    assert plan.parts()[-1].noise_multiplier == pytest.approx(1e-2 / math.sqrt(1 - share))


def test_the_ridge_is_that_of_the_noise() -> None:
    rng = np.random.default_rng(0)
    A, b, centre = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=3), np.array([1.0, 2.0, 3.0])
    noisy = np.concatenate([A.ravel(), b - A @ centre])
    np.testing.assert_allclose(solve(noisy, 0.0, centre), np.linalg.solve(A, b), atol=1e-9)
    matrix = np.vstack([A, 0.2 * math.sqrt(3) * np.eye(3)])
    target = np.concatenate([b - A @ centre, np.zeros(3)])
    np.testing.assert_allclose(solve(noisy, 0.2, centre), centre + np.linalg.lstsq(matrix, target, rcond=None)[0])


def test_factored_statistics_are_stacked_alike() -> None:
    short = Problem(gamma=0.9, horizon=4)
    features = Fourier(order=20, low=(0.0,), high=(39.0,))
    rows = unit_rows(simulated(3), short)
    stacked = baselines.LstdVector(BellmanStatistics(short, Behaviour(), None, features, "gtd"), 0.5)
    stats = stacked.summary(rows)
    assert "Z" in stats
    A = np.einsum("uln,ulk->unk", stats["Z"], stats["D"])
    b = np.einsum("uln,ul->un", stats["Z"], stats["r"])
    state = np.linspace(0, 1, 21)
    expected = np.concatenate([A.reshape(3, -1), b - A @ state], axis=1) / 0.5
    np.testing.assert_allclose(stacked(stats, state), expected, atol=1e-5)


def test_least_squares_without_noise_are_first_visit_monte_carlo(tmp_path: Path) -> None:
    """An independent loop over units and states. The door's grid is public, and coarse where noise must be large."""
    vault = open_vault(tmp_path, 400, noise=Silent())
    rows = unit_rows(simulated(400), PROBLEM)
    sums, counts = np.zeros(39), np.zeros(39)
    for i in range(400):
        alive = int(rows["mask"][i].sum())
        for s in np.unique(rows["observations"][i, :alive]):
            t = int(np.argmax(rows["observations"][i] == s))
            sums[s] += (0.99 ** np.arange(alive - t) * rows["rewards"][i, t:alive]).sum()
            counts[s] += 1
    means = sums / np.maximum(counts, 1)
    one = Lsw(**BASE).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    np.testing.assert_allclose(fit(one, vault, Behaviour()).value.values(STATES), means, atol=0.01)
    (part,) = Lsl(**BASE, ridge=1e-6).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4).parts()
    mechanism: Any = part
    totals = mechanism.contributions(rows).sum(axis=0)
    np.testing.assert_allclose(mechanism.solve(*totals, 400), means, atol=1e-5)
    (part,) = Lsl(**BASE).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4).parts()
    assert part.ridge == 400.0  # type: ignore[attr-defined]


def test_more_than_epsilon_one_is_neither_used_nor_paid(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, epsilon=3.0)
    plan = Lsl(**BASE).calibrate(unit=vault.unit, epsilon=2.5, delta=1e-4)
    assert plan.epsilon == 1.0
    release = fit(plan, vault, Behaviour())
    assert release.certificate.epsilon == pytest.approx(1.0)
    assert vault.ledger.plans()[0].epsilon == pytest.approx(1.0)
    assert np.isfinite(release.value.values(STATES)).all()
    (part,) = release.certificate.parts
    assert (part["kind"], part["epsilon"], release.certificate.method) == ("smooth_sensitivity", 1.0, "DP-LSL")
    with pytest.raises(PlanExhausted):
        fit(plan, vault, Behaviour())


def test_public_cells_of_a_continuous_observation(tmp_path: Path) -> None:
    axes = cells((0.0, -1.0), (2.0, 1.0), 2)
    np.testing.assert_allclose(middles(axes), [[0.5, -0.5], [0.5, 0.5], [1.5, -0.5], [1.5, 0.5]])
    plan = Lsw(problem=PROBLEM, features=Fourier(order=1, low=(0.0, -1.0), high=(2.0, 1.0)), cells=axes)
    spec = PublicSpec(
        observation=Box((0.0, -1.0), (2.0, 1.0)), action=Discrete(2), reward=Box((0.0,), (1.0,)), source="declared"
    )
    rng = np.random.default_rng(0)
    observations = rng.uniform((0, -1), (2, 1), (90, 2))
    data = Trajectories.from_arrays(
        observations=observations,
        actions=np.zeros(90, int),
        rewards=rng.random(90),
        next_observations=observations,
        terminations=np.tile([False, False, True], 30),
        unit_ids=np.repeat(np.arange(30), 3),
        spec=spec,
        simulated=True,
    )
    unit = Unit("patient", "add_or_remove", 30)
    vault = Vault(data, Ledger(tmp_path / "a.ledger", unit, epsilon=2, delta=0.02, composition=SUM))
    release = fit(plan.calibrate(unit=unit, epsilon=0.5, delta=0.01), vault, Behaviour())
    assert release.value.values(observations[:7]).shape == (7,)
    assert release.certificate.epsilon == pytest.approx(0.5)


def test_refusals(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, 30)
    with pytest.raises(PlanError, match="only the policy that made the records"):
        fit(Lsw(**BASE).calibrate(unit=vault.unit, epsilon=1, delta=0.01), vault, Tabular(np.full((40, 2), 0.5)))
    with pytest.raises(PlanError, match="return_range"):
        Lsw(problem=Problem(gamma=0.9, horizon=3), features=FEATURES)
    with pytest.raises(PlanError, match="cells"):
        Lsl(problem=PROBLEM, features=Fourier(order=1, low=(0.0,), high=(1.0,)))
    with pytest.raises(PlanError, match="calibrated"):
        Lsw(**BASE).parts()
    with pytest.raises(PlanError, match="more than"):
        Lsl(**BASE, ridge=0.5, constants="published").calibrate(unit=vault.unit, epsilon=1, delta=0.01)
    with pytest.raises(PlanError, match="epsilon"):
        Lsw(**BASE).account(unit=vault.unit, delta=0.01)
    for wrong in ({"clip_norm": 0.0}, {"clip_norm": 1.0, "value_share": 1.0}, {"clip_norm": 1.0, "level": 0.2}):
        with pytest.raises(PlanError):
            SufficientStatistics(**BASE, **wrong)
