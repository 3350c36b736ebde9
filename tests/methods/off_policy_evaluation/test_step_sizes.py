"""The study of step sizes: the same update as the private path, common random numbers, simulated records only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.gpope.gpope_step_sizes import iterate, mspbe, summarise, tune, unit_rows
from gpope_cases import BASE, DELTA, PROBLEM, TARGET, Chosen, open_vault, promised, simulated, unit_of

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.methods.off_policy_evaluation.algorithm import fit
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics
from tacit_worlds import chain

UNITS, STEPS = 40, 12


@pytest.mark.usefixtures("no_lattice")
@pytest.mark.parametrize(("mode", "step_size"), [("full_batch", 3.0), ("paper", 0.3)])
def test_the_study_and_the_private_path_agree(tmp_path: Path, mode: Any, step_size: float) -> None:
    """The same noise and the same samples; the vault's noise is rounded to a thousandth of itself."""
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((STEPS, 1, 78)).astype(np.float32)
    places = rng.integers(UNITS, size=(STEPS, 1, 1))
    fields: dict[str, Any] = {
        "mode": mode,
        "steps": STEPS,
        "clip_norm": 0.01,
        "value_share": 0.0,
        "noise_multiplier": 0.6,
    }
    plan = Gpope(**BASE, step_size=step_size, **fields).account(unit=unit_of(UNITS), delta=DELTA)
    vault = open_vault(tmp_path, UNITS, noise=Chosen(iter(noise), iter(places)))
    private = fit(plan, vault, TARGET).value.theta
    stats = summarise(
        BellmanStatistics(PROBLEM, TARGET, None, plan.features, "gtd"), unit_rows(simulated(UNITS), PROBLEM)
    )
    held = {name: array[None] for name, array in stats.items()} if mode == "full_batch" else stats
    steps = ((None if mode == "full_batch" else place, one) for place, one in zip(places, noise, strict=True))
    found = iterate(held, plan, steps, np.array([step_size, 1.0], np.float32), clip=0.01)
    assert private is not None
    assert np.abs(private).max() > 0.005
    np.testing.assert_allclose(found[0, 0], private, atol=1e-5)


def test_all_step_sizes_share_samples_and_noise() -> None:
    data = simulated(UNITS + 10)
    plan = Gpope(**BASE, mode="paper", steps=30, noise_multiplier=1.0, clip_norm=0.01, promise=promised(UNITS))
    many = tune(data, plan, TARGET, [0.1, 0.3, 1.0], trials=30, seed=4)
    one = tune(data, plan, TARGET, [0.3], trials=30, seed=4)
    assert many.shape == (30, 3, 39)
    np.testing.assert_allclose(many[:, 1], one[:, 0], atol=1e-6)
    assert not np.allclose(many[0], many[1])


@pytest.mark.parametrize(("mode", "batch"), [("poisson", 7), ("paper", 7)])
def test_batches_are_of_the_population(mode: Any, batch: int) -> None:
    """Noise aside, the sum over batch / divisor has the full batch's mean: the first step's theta is -beta mean(B)."""
    data = simulated(UNITS)
    plan = Gpope(
        **BASE,
        mode=mode,
        batch_size=batch,
        steps=2,
        noise_multiplier=1e-3,
        clip_norm=10.0,
        tail=0.5,
        promise=promised(UNITS),
    )
    full = Gpope(
        **BASE,
        steps=2,
        noise_multiplier=1e-6,
        clip_norm=10.0,
        tail=0.5,
        value_share=0.0,
        promise=promised(UNITS),
    )
    drawn = tune(data, plan, Behaviour(), [1.0], trials=1500, seed=0)[:, 0]
    whole = tune(data, full, Behaviour(), [1.0], trials=1, seed=0)[0, 0]
    error = drawn.std(axis=0) / np.sqrt(1500)
    assert (np.abs(drawn.mean(axis=0) - whole) <= 5 * error + 3e-3 * np.abs(whole).max()).all()


def test_divergence_is_nan_and_the_rest_stays() -> None:
    plan = Gpope(**BASE, mode="paper", steps=20, noise_multiplier=1.0, clip_norm=1e6, promise=promised(UNITS))
    theta = tune(simulated(UNITS), plan, TARGET, [1e-6, 1e36], trials=3, seed=0)
    assert np.isfinite(theta[:, 0]).all()
    assert np.isnan(theta[:, 1]).all()


def test_the_bellman_error_is_that_of_the_population() -> None:
    rows = unit_rows(simulated(20_000), PROBLEM)
    stats = summarise(BellmanStatistics(PROBLEM, Behaviour(), None, BASE["features"], "gtd"), rows)
    thetas = np.stack([np.zeros(39), np.full(39, 0.7)])
    found = mspbe(stats, thetas)
    # a horizon of 60 cuts the longest episodes, whose last state is then bootstrapped
    np.testing.assert_allclose(found, [chain.mspbe(theta) for theta in thetas], rtol=0.1)


def test_real_records_are_refused() -> None:
    columns = chain.collect(lambda s: np.full((len(s), 2), 0.5), 30, seed=0, horizon=60)
    with pytest.raises(DataError, match="not simulated"):
        unit_rows(Trajectories.from_arrays(**columns, spec=chain.spec()), PROBLEM)
