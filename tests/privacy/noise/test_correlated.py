"""Correlated noise against dense matrices: its law, its sensitivity by brute force, and what it refuses."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from ledger_cases import in_child

from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.privacy.noise.correlated import CorrelatedNoise, Correlation, coefficients, inverse, sensitivity
from tacit.privacy.noise.secret import SecretNoise

CASES = [
    ("independent", (1.0,)),
    ("tree", (1.0,)),
    ("toeplitz", (1.0,)),
    ("toeplitz", (0.5,)),
    ("toeplitz", (0.0,)),
    ("toeplitz", (1.0, 0.9)),
    ("toeplitz", (1.0, 1.0)),
]


def dense(correlation: Correlation, steps: int, decay: Sequence[float]) -> np.ndarray:
    """C, written down from its definition."""
    if correlation == "tree":
        nodes = np.zeros((steps, steps))
        for t in range(1, steps + 1):
            length = next(2**level for level in range(20, -1, -1) if t % 2**level == 0)
            nodes[t - 1, t - length : t] = 1
        return nodes
    if correlation == "independent":
        return np.eye(steps)
    # the Toeplitz square root: (C C) x is what gradient steps with these decays make of x
    result, target = np.eye(steps), np.eye(steps)
    for r in decay:
        target = np.linalg.solve(np.eye(steps) - r * np.eye(steps, k=-1), target)
    for d in range(1, steps):  # diagonal by diagonal: 2 c_d + (terms already known) = target_d
        known = (result @ result)[d, 0]
        result += (target[d, 0] - known) / 2 * np.eye(steps, k=-d)
    np.testing.assert_allclose(result @ result, target, atol=1e-12)
    return result


class Tape:
    """Noise that was written down beforehand."""

    seeded = True

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = list(rows.astype(np.float32))

    def gaussian(self, size: int, scale: float = 1.0, out: np.ndarray | None = None) -> np.ndarray:
        if size == 0:
            return np.empty(0, np.float32)
        row = self.rows.pop(0) * np.float32(scale)
        if out is not None:
            out[:] = row
        return row


@pytest.mark.parametrize(("correlation", "decay"), CASES)
@pytest.mark.parametrize("steps", [1, 2, 7, 13])
def test_noise_is_c_inverse_z(correlation: Correlation, decay: tuple[float, ...], steps: int) -> None:
    z = np.random.default_rng(0).standard_normal((steps, 5)).astype(np.float32)
    noise = CorrelatedNoise(correlation, steps, 2, decay, Tape(z))
    drawn = np.stack([noise.next_noise(5, 3.0) for _ in range(steps)])
    expected = 3.0 * sensitivity(correlation, steps, 2, decay) * np.linalg.solve(dense(correlation, steps, decay), z)
    np.testing.assert_allclose(drawn, expected, rtol=1e-5, atol=1e-5)
    assert noise.steps_left == 0


@pytest.mark.parametrize(("correlation", "decay"), CASES)
@pytest.mark.parametrize("steps", range(1, 9))
def test_sensitivity_is_the_worst_case_over_every_choice_of_steps(
    correlation: Correlation, decay: tuple[float, ...], steps: int
) -> None:
    c = dense(correlation, steps, decay)
    worst = {
        j: max(float(np.sum(c[:, list(chosen)].sum(1) ** 2)) for chosen in itertools.combinations(range(steps), j))
        for j in range(1, steps + 1)
    }
    for k in range(1, steps + 3):
        mine = sensitivity(correlation, steps, k, decay)
        assert mine == pytest.approx(math.sqrt(max(k / j * worst[j] for j in worst if j <= k)), rel=1e-12)
        for first in range(min(k, steps) + 1):  # the other participations fall into a second block, with fresh noise
            second = min(k - first, steps)
            assert worst.get(first, 0.0) + worst.get(second, 0.0) <= mine**2 * (1 + 1e-12)


@pytest.mark.parametrize("correlation", ["tree", "toeplitz"])
def test_contributions_of_any_direction_move_c_x_by_no_more(correlation: Correlation) -> None:
    draw = np.random.default_rng(1)
    c = dense(correlation, 12, (1.0,))
    for _ in range(200):
        k = int(draw.integers(1, 6))
        x = np.zeros((12, 3))
        x[draw.choice(12, k, replace=False)] = draw.standard_normal((k, 3))
        x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
        assert np.linalg.norm(c @ x) <= sensitivity(correlation, 12, k) + 1e-12


@pytest.mark.parametrize(("correlation", "decay"), CASES)
def test_one_who_leaves_and_one_who_comes_elsewhere_move_c_x_by_two_at_most(
    correlation: Correlation, decay: tuple[float, ...]
) -> None:
    """Over all pairs of sets of steps, and vectors along one line in either direction or across each other."""
    for steps, most in ((9, 1), (6, 2), (5, 3)):
        strategy, bound = dense(correlation, steps, decay), 2 * sensitivity(correlation, steps, most, decay)
        sets = [chosen for size in range(1, most + 1) for chosen in itertools.combinations(range(steps), size)]
        columns = np.array([strategy[:, chosen].sum(axis=1) for chosen in sets])
        grams = columns @ columns.T
        squares = np.diag(grams)[:, None] + np.diag(grams)[None]
        assert np.sqrt((squares + 2 * grams).max()) <= bound * (1 + 1e-12)  # against each other: -x leaves, x comes
        assert np.sqrt((squares - 2 * grams).max()) <= bound
        assert np.sqrt(squares.max()) <= bound
        for least in (0.0, 1 / 9, 1 / 3, 1.0):  # of x y over the clips: counts, votes for ten and for four, anything
            apart = math.sqrt(2 + 2 * least) * sensitivity(correlation, steps, most, decay)
            assert np.sqrt((squares + 2 * least * grams).max()) <= apart * (1 + 1e-12)
    whole = dense(correlation, 9, decay)
    same = max(np.linalg.norm(2 * whole[:, j]) for j in range(9))
    assert same == pytest.approx(2 * sensitivity(correlation, 9, 1, decay))  # nothing less than two would do


def test_coefficients_of_running_sums_are_central_binomials() -> None:
    expected = [math.comb(2 * k, k) / 4**k for k in range(9)]
    np.testing.assert_allclose(coefficients(9), expected, rtol=1e-13)
    np.testing.assert_allclose(inverse(coefficients(9)), [-e / (2 * k - 1) for k, e in enumerate(expected)], rtol=1e-13)


@pytest.mark.parametrize("decay", [(1.0,), (0.3,), (1.0, 0.9), (1.0, 0.5, 0.1), (1.0, 1.0)])
def test_inverse_is_the_inverse(decay: tuple[float, ...]) -> None:
    c = coefficients(300, decay)
    identity = np.convolve(c, inverse(c))[:300]
    np.testing.assert_allclose(identity, np.eye(1, 300)[0], atol=1e-12)


@pytest.mark.parametrize(
    ("steps", "largest", "one_step", "column"),
    [(64, 2.39, 1.74, 1.55), (500, 3.04, 1.97, 1.75), (2000, 3.49, 2.11, 1.87)],
)
def test_running_sums_carry_the_noise_of_the_published_table(
    steps: int, largest: float, one_step: float, column: float
) -> None:
    """Square-root factorisation of running sums; a rounded closed form, not of this code."""
    c = coefficients(steps)
    assert sensitivity("toeplitz", steps, 1) == pytest.approx(column, abs=0.006)
    assert column * np.linalg.norm(np.cumsum(inverse(c))) == pytest.approx(largest, abs=0.02)
    assert column * np.linalg.norm(inverse(c)) == pytest.approx(one_step, abs=0.02)


def test_drawn_running_sums_have_that_spread() -> None:
    noise = CorrelatedNoise("toeplitz", 500, 1, (1.0,), SecretNoise.for_tests(3))
    total, squares = np.zeros(4000), []
    for _ in range(500):
        step = noise.next_noise(4000, 2.0)
        total += step
        squares.append(float(np.mean(total**2)) / 4)
    assert math.sqrt(squares[-1]) == pytest.approx(3.04, rel=0.05)
    assert math.sqrt(np.mean(squares)) == pytest.approx(2.88, rel=0.05)
    assert float(np.std(step)) / 2 == pytest.approx(1.97, rel=0.05)
    assert abs(np.corrcoef(total[::2], total[1::2])[0, 1]) < 0.1


def test_noise_matched_to_momentum_ends_below_noise_matched_to_sums() -> None:
    """The spread of theta after 200 ascent steps with momentum 0.9, for matrices matched to it and to plain sums."""
    spread = {}
    workload = np.convolve(np.ones(200), 0.9 ** np.arange(200))[:200]
    for decay in ((1.0, 0.9), (1.0,)):
        rows = np.convolve(workload, inverse(coefficients(200, decay)))[:200]
        spread[decay] = sensitivity("toeplitz", 200, 1, decay) * np.linalg.norm(rows)
    assert spread[(1.0, 0.9)] < 0.9 * spread[(1.0,)]


def test_independent_noise_costs_the_root_of_the_participations() -> None:
    noise = CorrelatedNoise("independent", 40, 9, (1.0,), SecretNoise.for_tests(4))
    drawn = np.stack([noise.next_noise(2000, 1.0) for _ in range(40)])
    assert drawn.std() == pytest.approx(3.0, rel=0.02)
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.1


@pytest.mark.parametrize("decay", [(), (1.1,), (-0.1,), (math.nan,), (1.0, 0.9, 0.9)])
def test_decays_without_a_proof_are_refused(decay: tuple[float, ...]) -> None:
    with pytest.raises(PlanError):
        coefficients(10, decay)
    with pytest.raises(PlanError):
        CorrelatedNoise("toeplitz", 10, 1, decay, SecretNoise())


@pytest.mark.parametrize(("correlation", "steps", "most"), [("toeplitz", 0, 1), ("tree", 3, 0), ("white", 3, 1)])
def test_parameters_out_of_range_are_refused(correlation: Correlation, steps: int, most: int) -> None:
    with pytest.raises(PlanError):
        sensitivity(correlation, steps, most)


@pytest.mark.parametrize("correlation", ["independent", "toeplitz", "tree"])
def test_steps_and_size_are_kept(correlation: Correlation) -> None:
    noise = CorrelatedNoise(correlation, 3, 1, (1.0,), SecretNoise())
    noise.next_noise(4, 1.0)
    with pytest.raises(MechanismError):
        noise.next_noise(5, 1.0)
    for bad in (math.nan, -1.0, math.inf):
        with pytest.raises(PlanError):
            noise.next_noise(4, bad)
    assert noise.steps_left == 2
    assert not noise.next_noise(4, 0.0).any()
    noise.next_noise(4, 1.0)
    with pytest.raises(MechanismError):
        noise.next_noise(4, 1.0)


def test_it_cannot_be_copied_or_told() -> None:
    noise = CorrelatedNoise("toeplitz", 3, 1, (1.0,), SecretNoise())
    noise.next_noise(2, 1.0)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(MechanismError):
            attempt(noise)
    assert repr(noise) == "CorrelatedNoise('toeplitz', steps=3, left=2)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_cannot_draw_a_step_that_its_parent_draws_too() -> None:
    noise = CorrelatedNoise("toeplitz", 3, 1, (1.0,), SecretNoise())
    noise.next_noise(2, 1.0)

    def child() -> None:
        try:
            noise.next_noise(2, 1.0)
        except MechanismError as error:
            raise LedgerError("refused", where="", expected="", remedy="") from error

    assert in_child(child) == 3
    noise.next_noise(2, 1.0)
