"""The exponential mechanism: its law against exact probabilities, neighbours, and scores that misbehave."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.errors import PlanError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.releases import GRID, NoisyMaximum
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Relation, Unit


@dataclass(frozen=True)
class Given:
    """The scores are in the rows themselves."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"scores": rows["rewards"]}


def rows_of(scores: np.ndarray) -> dict[str, np.ndarray]:
    return {"rewards": np.asarray(scores, np.float64), "mask": np.ones(np.shape(scores), bool)}


def mechanism(epsilon: float = 0.5, candidates: int = 3) -> NoisyMaximum:
    return NoisyMaximum(name="choice", scores=Given(), candidates=candidates, epsilon=epsilon, rows_per_unit=4)


def unit(relation: Relation = "add_or_remove") -> Unit:
    return Unit("person", relation, 100)


def probabilities(scores: np.ndarray, rate: float) -> np.ndarray:
    weight = np.exp(rate * scores.sum(axis=0))
    return np.asarray(weight / weight.sum())


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_the_law_is_the_exact_softmax(relation: Relation) -> None:
    scores = np.array([[0.25, 1.0, 0.5], [0.5, 1.0, 0.0], [0.125, 0.75, 1.0], [1.0, 0.5, 0.5]])
    expected = probabilities(scores, 0.5 if relation == "add_or_remove" else 0.25)
    noise, chosen, draws = SecretNoise.for_tests(1), np.zeros(3), 20_000
    for _ in range(draws):
        chosen[mechanism().release([rows_of(scores[:2]), rows_of(scores[2:])], noise, unit(relation))[0]] += 1
    statistic = ((chosen - draws * expected) ** 2 / (draws * expected)).sum()
    assert statistic < chi2.ppf(0.999, 2)
    other = probabilities(scores, 0.25 if relation == "add_or_remove" else 0.5)
    assert ((chosen - draws * other) ** 2 / (draws * other)).sum() > chi2.ppf(0.999, 2)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_neighbours_differ_by_at_most_epsilon_and_nearly_so(relation: Relation) -> None:
    rest, epsilon, worst = np.array([[0.3, 0.9, 0.2]] * 30), 0.5, 0.0
    rate = epsilon if relation == "add_or_remove" else epsilon / 2
    corners = [np.array([corner]) for corner in itertools.product((0.0, 1.0), repeat=3)]
    base = [rest] if relation == "add_or_remove" else [np.concatenate([rest, corner]) for corner in corners]
    for old, corner in itertools.product(base, corners):
        new = np.concatenate([rest, corner])
        ratio = np.log(probabilities(new, rate) / probabilities(old, rate))
        worst = max(worst, float(np.abs(ratio).max()))
    assert 0.9 * epsilon < worst <= epsilon + 1e-12


def test_scores_are_brought_into_the_range_and_onto_the_grid() -> None:
    scores = np.array([[math.nan, math.inf, -math.inf], [2.0, -3.0, 1 / 3]])
    result = mechanism().contributions(rows_of(scores))
    np.testing.assert_array_equal(result, [[0, 1, 0], [1, 0, math.floor(GRID / 3) / GRID]])


def test_without_units_all_are_alike_and_with_many_the_best_wins() -> None:
    noise = SecretNoise.for_tests(2)
    seen = {int(mechanism().release([], noise, unit())[0]) for _ in range(60)}
    assert seen == {0, 1, 2}
    clear = rows_of(np.tile([0.1, 0.2, 0.9], (500, 1)))
    assert {int(mechanism().release([clear], noise, unit())[0]) for _ in range(20)} == {2}


def test_its_event_is_pure_and_its_certificate_says_so() -> None:
    own = mechanism(1.5)
    assert accounting.epsilon(own.event, delta=1e-9, relation="replace_one").epsilon == pytest.approx(1.5, abs=1e-6)
    assert certificate_parts([own])[0]["delta"] == 0.0
    assert certificate_parts([own])[0]["kind"] == "noisy_max"
    assert own.size == 3


def test_values_out_of_range_are_refused() -> None:
    for wrong in ({"candidates": 1}, {"epsilon": 0.0}, {"epsilon": 1e3}):
        with pytest.raises(PlanError):
            mechanism(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        mechanism(candidates=4).contributions(rows_of(np.zeros((2, 3))))
