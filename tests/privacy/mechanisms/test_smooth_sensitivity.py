"""Smooth sensitivity: the first visits, the bounds against brute force, the Gaussian constants against exact tails."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.errors import PlanError
from tacit.privacy.accounting.events import EpsilonDeltaEvent
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.smooth_sensitivity import RegularisedLoss, Visits, WeightedStates
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Unit

AXIS = Axis("observations", 0, (-0.5, 0.5, 1.5))
VISITS = Visits((AXIS,), gamma=0.5, horizon=10, low=0.0, high=2.0)
WEIGHTS = (1.0, 3.0)
PHI = ((1.0, 0.5), (0.0, 2.0))
SMALL: dict[str, Any] = {
    "name": "theta",
    "visits": VISITS,
    "features": PHI,
    "weights": WEIGHTS,
    "epsilon": 1.0,
    "delta": 0.01,
    "rows_per_unit": 10,
}
UNITS = [
    (seen, returns)
    for seen in itertools.product((0, 1), repeat=2)
    for returns in itertools.product((0.0, 2.0), repeat=2)
]
"""What one unit can add: which of two states it visits, and the largest or smallest return from each."""


def rows(*episodes: list[tuple[float, float]], length: int = 8) -> dict[str, np.ndarray]:
    """One unit of the given episodes of (state, reward)."""
    flat = [row for episode in episodes for row in episode]
    starts = [i == 0 for episode in episodes for i in range(len(episode))]
    pad = length - len(flat)
    return {
        "observations": np.array([[s for s, _ in flat] + [0] * pad]),
        "rewards": np.array([[r for _, r in flat] + [9.0] * pad], np.float32),
        "starts": np.array([starts + [False] * pad]),
        "mask": np.array([[True] * len(flat) + [False] * pad]),
    }


class Zero(SecretNoise):
    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.zeros(size, np.float32)


class One(SecretNoise):
    """Everything that is drawn lies one standard deviation above its mean."""

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.ones(size, np.float32)


def totals(units: list[tuple[tuple[int, ...], tuple[float, ...]]]) -> tuple[np.ndarray, np.ndarray]:
    seen = np.array([unit[0] for unit in units], float).reshape(-1, 2)
    returns = np.array([unit[1] for unit in units]).reshape(-1, 2)
    return seen.sum(0), (seen * returns).sum(0)


def test_first_visits_hold_the_discounted_return_after_the_first_visit() -> None:
    found = VISITS(rows([(0, 1), (1, 0), (0, 1)]))
    np.testing.assert_allclose(found, [[[1, 1], [1 + 0 + 0.25, 0.5]]])


def test_returns_stop_at_the_end_of_an_episode_at_the_horizon_and_at_the_range() -> None:
    np.testing.assert_allclose(VISITS(rows([(0, 1)], [(1, 1), (1, 1)])), [[[1, 1], [1.0, 1.5]]])
    short = dataclasses.replace(VISITS, horizon=2)
    np.testing.assert_allclose(short(rows([(0, 1), (0, 1), (1, 1)])), [[[1, 0], [1.5, 0]]])
    np.testing.assert_allclose(VISITS(rows([(0, 50), (1, -7)])), [[[1, 1], [2.0, 0.0]]])


def test_cells_are_the_product_of_the_axes() -> None:
    grid = Visits((AXIS, Axis("observations", 1, (0.0, 1.0, 2.0, 3.0))), 1.0, 5, -1.0, 1.0)
    assert grid.states == 6
    one = rows([(0, 1)], length=1) | {"observations": np.array([[[1.0, 2.5]]])}
    assert np.flatnonzero(grid(one)[0, 0]).tolist() == [5]


def test_the_published_numbers() -> None:
    part = WeightedStates(**SMALL | {"delta": 1e-5, "epsilon": 0.1})
    assert part.alpha == pytest.approx(5 * math.sqrt(2 * math.log(2e5)) / 0.1)
    assert part.beta == pytest.approx(0.025 / (2 + math.log(2e5)))
    lsl = RegularisedLoss(**SMALL, ridge=50.0, constants="published")
    norm = np.linalg.norm(PHI, 2)
    counts = np.array([3.0, 0.0])
    c = norm * 3 / math.sqrt(100)
    psi = max(
        math.exp(-k * lsl.beta) * (c * math.sqrt(min(3 + k, 5) + 3 * min(k, 5)) + math.sqrt(10)) ** 2 for k in range(6)
    )
    assert lsl.psi(counts, 5) == pytest.approx(psi)
    assert lsl.scale(counts, 5) == pytest.approx(2 * lsl.alpha * 2 * norm / (50 - norm**2 * 3) * math.sqrt(psi))
    lsw = WeightedStates(**SMALL, constants="published")
    psi = max(math.exp(-k * lsw.beta) * (1 / max(3 - k, 1) ** 2 + 3) for k in range(4))
    assert lsw.psi(counts) == pytest.approx(psi)


@pytest.mark.parametrize("constants", ["published", "tight"])
def test_no_neighbour_is_further_than_the_sensitivity_and_psi_is_smooth(constants: str) -> None:
    """Every data set of two units and one neighbour: replaced, removed or added."""
    lsw = WeightedStates(**SMALL, constants=constants)
    lsl = RegularisedLoss(**SMALL, ridge=40.0, constants=constants)
    span = VISITS.span
    inverse = np.linalg.norm(np.linalg.pinv(np.sqrt(WEIGHTS)[:, None] * np.array(PHI)), 2)

    @cache
    def found(*units: Any) -> tuple[Any, ...]:
        counts, sums = totals(list(units))
        states = lsw.solve(counts, sums), lsw.psi(counts)
        return *states, lsl.solve(counts, sums, 2), lsl.scale(counts, 2), lsl.psi(counts, 2)

    for one, other, third in itertools.product(UNITS, UNITS, [*UNITS, None]):
        theta, here, ridge, spread, psi = found(one, other)
        theta_there, there, ridge_there, spread_there, psi_there = found(one) if third is None else found(one, third)
        assert math.dist(theta, theta_there) <= inverse * span * math.sqrt(min(here, there)) + 1e-9
        assert max(here / there, there / here) <= math.exp(2 * lsw.beta) * (1 + 1e-12)
        assert math.dist(ridge, ridge_there) <= min(spread, spread_there) / lsl.alpha + 1e-9
        assert max(psi / psi_there, psi_there / psi) <= math.exp(2 * lsl.beta) * (1 + 1e-12)


def test_a_sensitivity_without_its_smoothing_would_be_caught() -> None:
    lsw = dataclasses.replace(WeightedStates(**SMALL))
    local = [float(np.square(1 / np.maximum(np.array(c, float), 1)) @ WEIGHTS) for c in ((2, 2), (1, 1))]
    assert local[1] > math.exp(2 * lsw.beta) * local[0]


@pytest.mark.parametrize(("size", "epsilon", "delta"), [(1, 1.0, 0.5), (1, 0.1, 1e-5), (39, 1.0, 1e-5), (36, 0.5, 0.1)])
def test_the_gaussian_constants_keep_their_promise_exactly(size: int, epsilon: float, delta: float) -> None:
    """Pr[privacy loss > epsilon] of N(0, I) against N(shift, e^(2 l) I), |shift| = 1/alpha, l = +-beta."""
    shift = epsilon / (5 * math.sqrt(2 * math.log(2 / delta)))
    beta = epsilon / 4 / (size + math.log(2 / delta))
    for stretch in (beta, -beta):
        a = math.exp(-2 * stretch)  # loss = size l + (a |z - s|^2 - |z|^2) / 2, a square around -a s / (1 - a)
        centre, curve = a * shift / (a - 1), (a - 1) / 2
        rest = size * stretch + 0.5 * a * shift**2 - curve * centre**2
        radius = (epsilon - rest) / curve
        law = stats.ncx2(size, centre**2)
        assert (law.sf(radius) if curve > 0 else law.cdf(radius)) <= delta


def test_noise_has_the_scale_of_the_bound_and_a_public_grid() -> None:
    part = WeightedStates(**SMALL)
    unit = Unit("patient", "replace_one", 50)
    chunks = [rows([(0, 1), (1, 1)], length=10)] * 3
    counts, sums = np.array([3.0, 3.0]), 3 * np.array([1.5, 1.0])
    noise = SecretNoise.for_tests(1)
    drawn = np.array([part.release(chunks, noise, unit) for _ in range(1_500)])
    centre = part.solve(counts, sums)
    np.testing.assert_allclose(part.release(chunks, Zero(), unit), centre, atol=part.scale(np.full(2, 50.0)) / 1000)
    deviation = (part.release(chunks, One(), unit) - centre) / part.scale(counts)
    np.testing.assert_allclose(deviation, 1.0, rtol=2e-3)
    scaled = (drawn - centre) / part.scale(counts)
    assert stats.kstest(scaled[:, 0], "norm").pvalue > 1e-4
    assert abs(np.square(scaled).mean() - 1) < 0.1
    assert abs(np.corrcoef(scaled.T)[0, 1]) < 0.1
    grid = 2.0 ** (math.frexp(part.scale(np.full(2, 50.0)))[1] - 11)
    assert np.array_equal(drawn / grid, np.rint(drawn / grid))


def test_without_noise_the_regressions_are_the_textbook_ones() -> None:
    counts, sums = np.array([4.0, 2.0]), np.array([6.0, 1.0])
    np.testing.assert_allclose(np.array(PHI) @ WeightedStates(**SMALL).solve(counts, sums), [1.5, 0.5])
    ridge, population = 40.0, 10
    matrix = np.vstack(
        [np.array(PHI) * np.sqrt(np.array(WEIGHTS) * counts / population)[:, None], np.eye(2) * math.sqrt(2)]
    )
    target = np.concatenate([np.array([1.5, 0.5]) * np.sqrt(np.array(WEIGHTS) * counts / population), np.zeros(2)])
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    np.testing.assert_allclose(RegularisedLoss(**SMALL, ridge=ridge).solve(counts, sums, population), expected)


def test_no_records_is_noise_of_the_largest_scale() -> None:
    unit = Unit("patient", "replace_one", 50)
    part = RegularisedLoss(**SMALL, ridge=30.0)
    np.testing.assert_array_equal(part.release([], Zero(), unit), [0, 0])
    assert WeightedStates(**SMALL).psi(np.zeros(2)) == 4.0


def test_the_certificate_and_the_event_say_the_same() -> None:
    part = RegularisedLoss(**SMALL, ridge=30.0)
    assert part.event == EpsilonDeltaEvent(1.0, 0.01)
    (said,) = certificate_parts([part])
    assert (said["kind"], said["epsilon"], said["delta"]) == ("smooth_sensitivity", 1.0, 0.01)
    assert part_from_json(said).event == part.event


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 1.01},
        {"epsilon": 0.0},
        {"delta": 0.6},
        {"weights": (1.0, 0.0)},
        {"weights": (1.0,)},
        {"features": ((0.0,), (0.0,))},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        WeightedStates(**SMALL | wrong)


def test_the_published_ridge_has_a_lower_limit_and_the_tight_one_has_none() -> None:
    with pytest.raises(PlanError, match="more than"):
        RegularisedLoss(**SMALL, ridge=1.0, constants="published")
    assert RegularisedLoss(**SMALL, ridge=1.0).scale(np.ones(2), 5) > 0


def test_noise_far_above_the_public_grid_leaves_no_lattice_of_its_own() -> None:
    """At 2^17 times the least scale, a release is no nearer to float32 noise about its own theta than about another."""
    mechanism = WeightedStates(**SMALL)
    least = mechanism.scale(np.full(2, 1e5))
    scale, grid, noise = 2.0**17 * least, 2.0 ** (math.frexp(least)[1] - 11), SecretNoise.for_tests(1)
    released = mechanism._add_noise(np.full(20_000, 0.3), scale, least, noise)

    def on_lattice(theta: float) -> float:
        drawn = (released - theta) / (scale * (1 + SLACK))
        return float((np.abs(drawn.astype(np.float32) - drawn) < 0.6 * grid / scale).mean())

    assert on_lattice(0.3) == pytest.approx(on_lattice(0.3 + 1000.3 * grid), abs=0.02)


@dataclasses.dataclass(frozen=True)
class Understated(Visits):
    """Visits that claim a smaller span than they have."""

    @property
    def span(self) -> float:
        return 1e-9


def test_visits_of_the_users_own_are_refused() -> None:
    visits = VISITS
    own = Understated(visits.axes, visits.gamma, visits.horizon, visits.low, visits.high)
    with pytest.raises(PlanError, match="Understated"):
        WeightedStates(**SMALL | {"visits": own})
