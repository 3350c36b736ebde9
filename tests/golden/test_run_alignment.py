"""Golden runs of aligning a language model: by a reward of completions, and by preferences between them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run
from tests.methods.alignment.small import UNIT, WRITER, Letters, people_of, plan_of

from tacit import Ledger, Register, UserVault, alignment
from tacit.agents.language.adapters import Bias
from tacit.methods.alignment import PreferencePlan, Steered, fit_preferences, pair_records
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.noise.secret import SecretNoise

AREA = "alignment"
PREFERRED = PreferencePlan.of(
    WRITER, rounds=3, pairs=2, prompt_tokens=4, tokens=5, adapter=Bias(layer=0, scale=1.0), beta=0.5, step=4.0
)
PAIRS = [("abcd", "eeeee", "xyzxy"), ("hello", "aeiou", "bcdfg"), ("words", "ooooo", "ttttt")]


def numbers_of(value: Steered) -> Numbers:
    assert value.judgement is not None
    judges = runs.summary(np.array(value.judgement.sums))
    sigma = value.plan.noise_multiplier
    return {"noise_multiplier": sigma, "iterates": runs.summary(value.iterates), "judges": judges}


def rewarded(folder: Path) -> Numbers:
    plan = plan_of(rounds=2).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    for name in ("keys", "study"):
        (folder / name).mkdir()
    register = Register(folder / "study" / "register", key=folder / "keys" / "key")
    with Ledger(folder / "study" / "ledger", UNIT, epsilon=9.0, delta=1e-4, composition=SUM) as ledger:
        vault = UserVault(
            people_of(plan, [f"p{i}" for i in range(16)]), ledger, register, noise=SecretNoise.for_tests(1)
        )
        value = alignment.fit(plan, vault, WRITER, reward=Letters()).value
    return numbers_of(value)


def preferred(folder: Path) -> Numbers:
    plan = PREFERRED.calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    records = pair_records(plan, WRITER, ["a", "a", "b"], PAIRS, simulated=True)
    value = fit_preferences(plan, runs.vault(records, folder, UNIT), WRITER).value
    return numbers_of(value)


RUNS = {
    "a reward of completions": Run(rewarded, lambda: (plan_of(),), TRAINED),
    "preferences": Run(preferred, lambda: (PREFERRED,), TRAINED),
}


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
