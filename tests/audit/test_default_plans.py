"""Audits of the mechanisms of plans with default options: below the certificate, above it where something is broken.

Noise is seeded, so that a test that passed cannot fail by chance.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.evaluation import lower_bounds as rates
from tacit.evaluation.audits import bounds, mechanisms
from tacit.evaluation.audits.cases import Case, RunRequest
from tacit.evaluation.audits.findings import AuditResult
from tacit.evaluation.audits.running import CASES, Effort, audit
from tacit.methods import METHODS
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.noise import secret
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records
from tacit.units import Promise, Unit

pytestmark = pytest.mark.usefixtures("own_callbacks")

FEW = Effort(fused=100, single=8, crowded=1)
WHOLE = ("matching", "mst", "privsyn", "dr", "improvement", "one-shot", "pategail")
"""Cases of sums over everybody, of every kind of part and call."""
LONG = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("privorl@0.1", "dp-sgd@0.1", "privorl-j@1", "privorl@1", "dp-sgd@1")
]
"""Of hundreds of steps and more."""


@pytest.fixture
def coarse_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws of sampled sums on a coarser grid, which rounds losses down: a bound that is lower, and so still one."""
    monkeypatch.setattr(bounds, "FINEST", 5e-4)
    monkeypatch.setattr(bounds, "HALVINGS", 5)


LAWS: dict[str, Any] = {}
"""By their events, which are asked for twice."""


def crowd(case: Case, factor: float = 1.0, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray], Any]:
    """Scores and digits of canaries that are out, and in, at epsilon 8 with so many times the noise; and the law."""
    plan = case.plan(8.0, 1e-5, case.crowd)
    event = plans.event(plan)
    if repr(event) not in LAWS:
        LAWS[repr(event)] = bounds.noise_law(event, "add_or_remove", 1e-5)
    law = LAWS[repr(event)]
    present = np.random.default_rng(seed).random(case.crowd) < 0.5
    used = plan if factor == 1 else mechanisms.with_noise(plan, factor)
    seen = case.run(used, RunRequest(present, seed=seed, noise=SecretNoise.for_tests(seed)))
    assert seen.digits is not None
    return (
        [seen.scores[0][~present], seen.scores[0][present]],
        [seen.digits[0][~present], seen.digits[0][present]],
        law,
    )


def test_every_method_of_the_command_line_has_a_case() -> None:
    audited = {method.plan for method in METHODS if method.audits}
    assert [method.name for method in METHODS if method.plan not in audited] == []
    assert len(CASES) >= 20
    assert all(CASES[name]().name == name for name in CASES)


@pytest.mark.usefixtures("coarse_bounds")
@pytest.mark.parametrize("name", [*WHOLE, "privorl-j@0.1", *LONG])
def test_three_quarters_of_the_noise_are_refuted_and_all_of_it_is_not(name: str) -> None:
    case = CASES[name]()
    counted = bounds.tuned_alarm_counts if name.endswith("@0.1") else bounds.alarm_counts
    whole, _, law = crowd(case, seed=1)
    weak, *_ = crowd(case, factor=0.75, seed=2)
    assert 4.0 < law(counted(*whole), 0.9875) <= 8.0 < law(counted(*weak), 0.9875)


def twice_the_rate(patch: pytest.MonkeyPatch) -> None:
    """Samples are drawn at twice the declared rate."""
    real = secret.poisson_sample
    patch.setattr(records, "poisson_sample", lambda count, rate, noise: real(count, min(1.0, 2 * rate), noise))


def counted_twice(patch: pytest.MonkeyPatch) -> None:
    """Every unit that is drawn contributes twice."""
    real = records.SealedRecords._draw_units

    def drawn(self: records.SealedRecords, part: Sum) -> tuple[np.ndarray, np.ndarray]:
        replicate, units = real(self, part)
        return np.repeat(replicate, 2), np.repeat(units, 2)

    patch.setattr(records.SealedRecords, "_draw_units", drawn)


@pytest.mark.usefixtures("coarse_bounds")
@pytest.mark.parametrize("plant", [twice_the_rate, counted_twice])
@pytest.mark.parametrize("name", ["privorl-people", pytest.param("privorl-j@0.1", marks=pytest.mark.slow), *LONG[:2]])
def test_a_wrong_rate_and_a_double_count_are_refuted(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    worlds, _, law = crowd(CASES[name]())
    assert law(bounds.tuned_alarm_counts(*worlds), 0.9875) > 8.0


@pytest.mark.parametrize("name", ["matching", "dr", "epr"])
def test_a_double_count_is_refuted_where_everybody_takes_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted_twice(monkeypatch)
    worlds, _, law = crowd(CASES[name]())
    assert law(bounds.alarm_counts(*worlds), 0.9875) > 8.0


@pytest.mark.slow  # a few steps of every door are tried so in tests/privacy/vault/test_released_bits.py
def test_digits_tell_nothing_behind_the_lattice_and_everything_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["privorl-j@1"]()
    _, hidden, law = crowd(case)
    assert law(bounds.alarm_counts(*hidden), 0.9875) == 0.0
    monkeypatch.setattr("tacit.privacy.noise.secret.step", lambda scale: 0.0)
    _, bare, law = crowd(case)
    assert law(bounds.alarm_counts(*bare), 0.9875) > 8.0


def test_the_last_digits_of_small_sums() -> None:
    """A canary of 1: sums below 1/2 that are multiples of 2^-24, and others."""
    total = np.array([1.5, 0.25, 0.25 + 2.0**-26, 2.0**-5, 0.0])
    told = mechanisms.digit_ratios(total, 1.0, 1.0)
    assert told == pytest.approx([0.0, 2 * math.log(2), math.log(1e-9), 5 * math.log(2), 0.0])
    half = mechanisms.digit_ratios(total[1:3], 1.0, 0.5)
    assert half == pytest.approx([math.log(0.5 * 4 + 0.5), math.log(0.5)])


def test_the_bound_of_a_sampled_sum_is_that_of_its_law() -> None:
    """Scores of the mechanism's own law, drawn without a vault: the bound is below its epsilon, and not far."""
    rate, sigma, steps, canaries = 0.2, 1.0, 50, 20_000
    event = SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(sigma)), steps)
    rng = np.random.default_rng(0)

    def scores(inside: bool, noise: float) -> np.ndarray:
        total = np.zeros(canaries)
        for _ in range(steps):
            seen = noise * rng.normal(size=canaries) + inside * (rng.random(canaries) < rate)
            total += np.log(1 - rate + rate * np.exp((seen - 0.5) / sigma**2))
        return total

    law = bounds.noise_law(event, "add_or_remove", 1e-5)
    assert law is not None
    certified = accounting.epsilon(event, delta=1e-5, relation="add_or_remove").epsilon
    found = law(bounds.tuned_alarm_counts(scores(False, sigma), scores(True, sigma)), 0.95)
    assert 0.85 * certified < found < certified
    assert law(bounds.tuned_alarm_counts(scores(False, 0.9 * sigma), scores(True, 0.9 * sigma)), 0.95) > certified
    assert law(rates.Counts(10, 100, 10, 100), 0.95) == 0.0
    assert bounds.noise_law(event, "replace_one", 1e-5) is None


def test_the_log_odds_of_a_choice() -> None:
    counts = rates.Counts(0, 59, 59, 59)  # at 95 % together: rates of at most 1 - 0.025^(1/59) and at least its rest
    miss = 1 - 0.025 ** (1 / 59)
    assert bounds.choice_law(counts, 0.95) == pytest.approx(2 * math.log((1 - miss) / miss))
    assert bounds.choice_law(rates.Counts(5, 10, 5, 10), 0.95) == 0.0


@pytest.mark.parametrize("name", ["lsl", "ucb-vi", "alignment", pytest.param("pate-gan", marks=pytest.mark.slow)])
def test_one_canary_a_run_is_below_its_certificate(name: str) -> None:
    found = audit(name, effort=FEW, noise=3)
    assert found.is_upheld
    assert found.kinds


def test_the_power_is_the_largest_factor_that_is_refuted() -> None:
    found: AuditResult = audit("matching", effort=FEW, noise=5)
    assert found.is_upheld
    assert found.power is not None
    assert 0.75 <= found.power < 1
    assert {finding.way for finding in found.findings} == {"one run", "digits"}


def test_a_case_says_how_a_part_is_weakened() -> None:
    unit = Unit("person", "add_or_remove", 100)
    plan = CASES["dr"]().plan(8.0, 1e-5, 10)
    weak = mechanisms.with_noise(dataclasses.replace(plan, promise=Promise(unit, 8.0, 1e-5)), 0.5)
    assert [b.noise_multiplier / a.noise_multiplier for a, b in zip(plan.queries, weak.queries, strict=True)] == (
        pytest.approx([0.5] * len(plan.queries))
    )
    assert weak.epsilon > 16.0
    (choice,) = mechanisms.with_noise(CASES["choice"]().plan(8.0, 1e-5, 1), 0.5).queries
    assert choice.epsilon == 16.0
