"""Golden runs of improving on logged decisions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import Numbers, Run
from tests.methods.improvement.small_clinic import open_vault, plan_of

from tacit.methods.improvement import fit
from tacit.privacy.noise.secret import SecretNoise

AREA = "improvement"


def improved(folder: Path) -> Numbers:
    vault = open_vault(folder, units=3_000, seed=1, noise=SecretNoise.for_tests(1))
    value = fit(plan_of(advises=True).calibrate(unit=vault.unit, epsilon=4.0, delta=1e-5), vault).value
    return {
        "noise_multipliers": [part.noise_multiplier for part in value.plan.parts()],
        "theta": runs.summary(value.theta),
        "clone": runs.summary(value.clone),
        "changes": runs.summary(value.changes),
        "moments": runs.summary(value.moments.changes),
        "returns": np.array([value.statement.returns_interval.low, value.statement.returns_interval.high]).tolist(),
        "gain": value.statement.gain_interval.low,
    }


RUNS = {"a small process": Run(improved, lambda: (plan_of(),))}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
