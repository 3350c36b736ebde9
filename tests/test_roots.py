"""The root finder, against SciPy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from tacit.roots import find_root

CURVES: dict[str, tuple[Callable[[float], float], float, float, float]] = {
    "a line": (lambda x: 3 * x - 1, -5.0, 7.0, 1 / 3),
    "a cube": (lambda x: x**3 - 2, 0.0, 100.0, 2 ** (1 / 3)),
    "a triple root": (lambda x: (x - 0.3) ** 3, -1.0, 2.0, 0.3),
    "an exponential": (lambda x: math.exp(-x) - 1e-9, 0.0, 700.0, math.log(1e9)),
    "a kink": (lambda x: max(x - 0.1, 1e3 * (x - 0.1)), -4.0, 1.0, 0.1),
    "infinite at one end": (lambda x: math.log(x) if x > 0 else -math.inf, 0.0, 9.0, 1.0),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9, 0.0])
def test_it_finds_the_root_within_the_tolerance(name: str, tolerance: float) -> None:
    f, low, high, root = CURVES[name]
    points: list[float] = []

    def counted(x: float) -> float:
        points.append(x)
        return f(x)

    assert abs(find_root(counted, low, high, tolerance=tolerance) - root) <= tolerance + 1e-14 * abs(root) + 1e-15
    assert low <= min(points)
    assert max(points) <= high
    assert len(points) < 150


def test_it_agrees_with_scipy() -> None:
    for goal in (1e-12, 1e-3, 0.4):
        ours = find_root(lambda x, goal=goal: float(ndtr(-x)) - goal, -1.0, 40.0, tolerance=1e-12)
        assert ours == pytest.approx(brentq(lambda x, goal=goal: ndtr(-x) - goal, -1.0, 40.0, xtol=1e-13), abs=2e-12)


@given(st.floats(-1, 1), st.floats(0.1, 9), st.booleans())
def test_the_root_of_a_monotone_curve(root: float, power: float, falls: bool) -> None:
    def f(x: float) -> float:
        return (-1 if falls else 1) * math.copysign(abs(x - root) ** power, x - root)

    assert find_root(f, -1.0, 1.0, tolerance=1e-9) == pytest.approx(root, abs=1e-9 + 1e-15 ** (1 / max(power, 1)))


def test_a_step_is_found_at_its_edge() -> None:
    assert find_root(lambda x: 1.0 if x >= 0.7 else -1.0, 0.0, 1.0, tolerance=1e-8) == pytest.approx(0.7, abs=1e-8)


@pytest.mark.parametrize("f", [lambda x: x + 3, lambda x: math.nan], ids=["one sign", "NaN"])
def test_without_a_change_of_sign_there_is_no_answer(f: Callable[[float], float]) -> None:
    with pytest.raises(ValueError, match="one sign"):
        find_root(f, -1.0, 1.0, tolerance=1e-6)
