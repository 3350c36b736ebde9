"""Dosing against SciPy's integrator and filter, a plain Runge-Kutta method, and figures of the simulator it follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import odeint
from scipy.signal import savgol_filter

from tacit.envs.serving import returns, serve
from tacit_worlds import dosing
from tacit_worlds.dosing import Dosing, integrate, meal_curve

Array = npt.NDArray[np.float64]
NOTHING = np.random.default_rng(0)


def rates(body: Array, time: float, dose: float, meal: float) -> Array:
    """Per minute, written down once more."""
    g, x, i, s1, s2, q = body
    return np.array(
        [
            -0.0317 * (g - 291.0) - 0.029 * x * g + 0.8 * 0.012 / 12.0 * q + 0.8 / 12.0 * meal,
            0.0123 * (i - x),
            -0.09 * i + dose,
            dose - 0.18 * s1,
            0.18 * (s1 - s2),
            0.18 * s2 - 0.012 * q,
        ]
    )


def bodies(n: int, seed: int) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(seed)
    usual = np.array([80.0, 33.33, 33.33, 25.0, 25.0, 250.0])
    body = usual + generator.normal(size=(n, 6)) * [15.0, 10.0, 10.0, 5.0, 5.0, 30.0]
    return body, generator.uniform(0.0, 10.0, n), generator.uniform(800.0, 1700.0, n)


def test_ten_minutes_are_those_of_scipy() -> None:
    """Errors up to 3e-4 mg/dL with 20 substeps; a day of ten minutes under random doses drifts no further than 1e-2."""
    body, dose, meal = bodies(50, 0)
    ours = integrate(body, dose, meal)
    for i in range(50):
        theirs = odeint(rates, body[i], [0.0, 10.0], args=(dose[i], meal[i]), rtol=1e-10, atol=1e-10)[-1]
        assert ours[i] == pytest.approx(theirs, abs=1e-2)
    one = body[:1]
    theirs = one[0]
    for u, d in zip(np.tile(dose, 3)[:143], np.tile(meal, 3)[:143], strict=True):
        one = integrate(one, np.array([u]), np.array([d]))
        theirs = odeint(rates, theirs, [0.0, 10.0], args=(u, d), rtol=1e-10, atol=1e-10)[-1]
        assert one[0] == pytest.approx(theirs, abs=1e-2)


@pytest.mark.parametrize("substeps", [10, 20])
def test_the_method_is_runge_kuttas(substeps: int) -> None:
    body, dose, meal = bodies(20, 1)
    ours, length = integrate(body, dose, meal, substeps), 10.0 / substeps
    for i in range(20):
        now = body[i]
        for _ in range(substeps):
            first = rates(now, 0.0, dose[i], meal[i])
            second = rates(now + 0.5 * length * first, 0.0, dose[i], meal[i])
            third = rates(now + 0.5 * length * second, 0.0, dose[i], meal[i])
            fourth = rates(now + length * third, 0.0, dose[i], meal[i])
            now = now + length / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
        assert ours[i] == pytest.approx(now, rel=1e-10)


def test_steady_states() -> None:
    dose = np.array([2.8, 3.0, 3.5])
    body = np.tile([80.0, 33.0, 33.0, 20.0, 20.0, 250.0], (3, 1))
    for _ in range(300):
        body = integrate(body, dose, np.full(3, 1000.0))
    assert body[:, 0] == pytest.approx([81.5, 76.2, 65.7], abs=0.05)
    assert body[:, 1] == pytest.approx(dose / 0.09)
    assert body[:, 5] == pytest.approx(dose / 0.012)


def test_a_lasting_largest_dose_stays_finite() -> None:
    domain = Dosing()
    state = domain.starts(5, np.random.default_rng(0))
    for _ in range(300):
        state, paid, _ = domain.step(state, np.full((5, 1), 99.0), NOTHING)
    assert paid.tolist() == [-1.0] * 5
    assert (state[:, 0] > 10.0).all()
    assert (state[:, 0] < 40.0).all()
    assert state[:, 1] == pytest.approx(np.full(5, 10.0 / 0.09), rel=1e-3)


def test_rewards_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    glucose = np.array([80.0, 87.0, 65.0, 64.9, 105.0, 105.1])
    monkeypatch.setattr(dosing, "integrate", lambda body, dose, meal: np.stack([glucose] + [glucose] * 5, axis=1))
    domain = Dosing(personal=False)
    _, paid, ended = domain.step(np.zeros((6, 10)), np.zeros(6), NOTHING)
    expected = [
        1.0,
        1.0 - np.tanh(1.0) ** 2,
        1.0 - np.tanh(15.0 / 7.0) ** 2,
        -1.0,
        1.0 - np.tanh(25.0 / 7.0) ** 2,
        -1.0,
    ]
    assert paid == pytest.approx(expected)
    assert not ended.any()


def test_the_same_day_for_everybody() -> None:
    domain = Dosing(personal=False)
    state = domain.starts(3, np.random.default_rng(0))
    meals = []
    for _ in range(143):
        meals.append(domain.observe(state)[:, 6])
        state, _, _ = domain.step(state, np.full((3, 1), 3.0), NOTHING)
    curve = np.array(meals)
    assert (curve == curve[:, :1]).all()
    day = curve[:, 0]
    peaks = np.flatnonzero((day[1:-1] > day[:-2]) & (day[1:-1] > day[2:])) + 1
    assert day[peaks] == pytest.approx([1632.0, 1603.0, 1593.0], abs=0.01)
    assert (peaks + 1).tolist() == [45, 82, 117]
    assert day[:40].tolist() == [1000.0] * 40
    assert day[peaks[0] + 3] == pytest.approx(1000.0 + 632.0 * np.exp(-1.0))
    assert day.min() == 1000.0


def test_personal_days() -> None:
    """10,000 days: how often there is each meal, when, and how much."""
    spikes, above = dosing._draw_meals(np.full(10_000, 1000.0), np.random.default_rng(0))
    assert (above != 0).mean(axis=0) == pytest.approx([0.95, 0.2, 0.95, 0.2, 0.95, 0.2], abs=0.02)
    assert spikes.min(axis=0).tolist() == [31, 55, 67, 85, 100, 121]
    assert spikes.max(axis=0).tolist() == [55, 61, 79, 97, 118, 133]
    assert np.median(spikes, axis=0) == pytest.approx([43, 58, 73, 91, 109, 127], abs=1.5)
    amount = [above[above[:, k] != 0, k].mean() for k in range(6)]
    assert amount == pytest.approx([1500.0, 250.0, 1800.0, 250.0, 1800.0, 250.0], rel=0.02)
    assert not ((spikes[:, 0] == spikes[:, 1]) & (above[:, 0] != 0) & (above[:, 1] != 0)).any()


def test_a_personal_curve_is_scipys_filter() -> None:
    generator = np.random.default_rng(3)
    base = generator.uniform(800.0, 1200.0, 20)
    spikes, above = dosing._draw_meals(base, generator)
    places = np.arange(145.0)
    for i in range(20):
        raw = np.full(145, base[i])
        eaten = above[i] != 0
        raw[spikes[i, eaten].astype(int)] += above[i, eaten]
        expected = np.maximum(savgol_filter(raw, 11, 3), base[i])
        ours = meal_curve(places, *(np.repeat(part[i : i + 1], 145, axis=0) for part in (base, spikes, above)))
        assert ours == pytest.approx(expected)


def test_what_people_see() -> None:
    """The last meal and the one before, the glucose before; every number is the state's, ten minutes on."""
    domain = Dosing()
    first = domain.starts(4, np.random.default_rng(0))
    after, _, _ = domain.step(first, np.full(4, 2.0), NOTHING)
    seen, before = domain.observe(after), domain.observe(first)
    assert seen.dtype == np.float32
    assert np.array_equal(seen[:, 7], before[:, 0])
    assert np.array_equal(seen[:, 8], before[:, 6])
    assert np.array_equal(seen[:, :6], integrate(first[:, :6], np.full(4, 2.0), after[:, 8]).astype(np.float32))
    assert len(np.unique(before[:, 6])) == 4
    assert before[:, 6].tolist() == before[:, 8].tolist()
    low, high = np.array(dosing.LOW), np.array(dosing.HIGH)
    assert ((seen >= low) & (seen <= high)).all()


def test_a_day_under_a_simple_rule() -> None:
    """Doses in proportion to the excess of glucose are worth more than a fixed dose, and 143 decisions make a day."""

    def rule(gain: float) -> Any:
        return lambda seen, replicate, generator: (3.0 + gain * (seen[:, :1] - 80.0)).astype(np.float32)

    options: dict[str, Any] = {"horizon": dosing.HORIZON, "generator": np.random.default_rng(0)}
    for personal in (False, True):
        fixed = returns(Dosing(personal), rule(0.0), 1, 200, **options)
        steered = returns(Dosing(personal), rule(0.1), 1, 200, **options)
        assert steered.mean() > fixed.mean() + 10.0
        assert 100.0 < steered.mean() < 143.0
    rows = serve(Dosing(), rule(0.1), [0, 0], **options)
    assert rows["actions"].shape == (2, 143, 1)
    assert rows["truncations"].sum() == 2
    assert rows["mask"].all()
