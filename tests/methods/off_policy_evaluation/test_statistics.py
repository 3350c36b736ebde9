"""Bellman statistics against plain loops over episodes, against enumeration, and at their limits."""

import numpy as np
import pytest
from small_mdp import BEHAVIOUR, ENDS, MOVES, PROBLEM, REWARDS, TARGET, enumerate_episodes, padded

from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.gpope import direction
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.statistics import (
    BellmanStatistics,
    apply,
    constant,
    gram_norm,
    symmetric_matrix,
    upper_triangle,
)

FOURIER = Fourier(order=2, low=(0.0,), high=(1.0,))
TWO = Problem(gamma=0.9, horizon=4, episodes_per_unit=2)
WIDE = Fourier(order=19, low=(0.0,), high=(1.0,))


def apply_transposed(stats, w):
    """A_i^T w, [U, n]; w is [U, n]."""
    if "A" in stats:
        return np.einsum("uij,ui->uj", stats["A"], w)
    return np.einsum("ut,utn->un", np.einsum("utn,un->ut", stats["Z"], w), stats["D"])


def second_moment(stats, w):
    """C_i w, [U, n], of statistics made with trace "gtd"; w is [n] or [U, n]."""
    w = np.broadcast_to(w, (len(stats["b" if "b" in stats else "r"]), w.shape[-1]))
    if "C" in stats:
        return np.einsum("uij,uj->ui", stats["C"], w)
    return np.einsum("ut,utn->un", np.einsum("utn,un->ut", stats["phi"], w), stats["phi"])


class Indicators(OneHot):
    """Indicators of which every visit counts."""

    @property
    def tabular(self):
        return False


EVERY = Indicators(2)


def some_rows():
    """Units of one or two episodes of the small process; one ends by truncation, one by the horizon."""
    episodes, p = enumerate_episodes(Problem(gamma=0.9, horizon=4))
    generator = np.random.default_rng(3)
    drawn = padded([episodes[i] for i in generator.choice(len(episodes), size=12, p=p)], Problem(gamma=0.9, horizon=4))
    rows = {}
    for name, column in drawn.items():
        first, second = column[:6], column[6:]
        rows[name] = np.concatenate([first, second], axis=1)
    order = np.argsort(~rows["mask"], axis=1, kind="stable")  # the second episode follows the first without a gap
    rows = {name: np.take_along_axis(column, order, axis=1) for name, column in rows.items()}
    rows["mask"][0, 4:] = False  # this unit has one episode alone, or a part of the second
    return rows


def episodes_of(rows, unit):
    """(state, reward, next state, ended, ratio) of each step of each episode of a unit."""
    found = []
    for t in range(rows["mask"].shape[1]):
        if not rows["mask"][unit, t]:
            break
        state, action, after = (int(rows[k][unit, t]) for k in ("observations", "actions", "next_observations"))
        ratio = TARGET.table[state, action] / BEHAVIOUR.table[state, action]
        if rows["starts"][unit, t]:
            found.append([])
        found[-1].append((state, float(rows["rewards"][unit, t]), after, bool(rows["terminations"][unit, t]), ratio))
    return found


def by_loops(rows, unit, features, theta, trace):
    """x_i(theta), written as the definition reads: residual returns at each counting visit, backwards in time."""

    def phi(state):
        return features(np.array([state]))[0].astype(float)

    x, gram = np.zeros(features.size), np.zeros((features.size, features.size))
    for steps in episodes_of(rows, unit):
        residual, residuals = 0.0, []
        for state, reward, after, ended, ratio in reversed(steps):
            delta = reward + (0.0 if ended else TWO.gamma * phi(after) @ theta) - phi(state) @ theta
            residual = ratio * (delta + TWO.gamma * trace * residual)
            residuals.insert(0, residual)
        seen, total = set(), 0.0
        for (state, *_), e in zip(steps, residuals, strict=True):
            if features.tabular and state in seen:
                continue
            seen.add(state)
            total += phi(state) @ phi(state)
            weight = 1 / np.sqrt(len(seen)) if features.tabular else 1 / total
            x += weight * phi(state) * e
            gram += weight * np.outer(phi(state), phi(state))
    return x / len(episodes_of(rows, unit)), gram / len(episodes_of(rows, unit))


@pytest.mark.parametrize("features", [OneHot(2), FOURIER, WIDE], ids=["tabular", "dense", "factored"])
@pytest.mark.parametrize("trace", [1.0, 0.5, 0.0])
def test_residual_returns_are_those_of_a_plain_loop(features, trace):
    rows, summary = some_rows(), BellmanStatistics(TWO, TARGET, None, features, trace)
    stats = summary(rows)
    assert summary.dense == (features is not WIDE)
    theta = np.random.default_rng(0).normal(size=features.size)
    found = constant(stats) - apply(stats, theta)
    for unit in range(6):
        x, gram = by_loops(rows, unit, features, theta, trace)
        assert found[unit] == pytest.approx(x, abs=1e-4)
        flat = np.diag(gram) if features.tabular else upper_triangle(gram)
        assert stats["gram"][unit] == pytest.approx(flat, abs=1e-5)


@pytest.mark.parametrize("features", [OneHot(2), FOURIER, WIDE], ids=["tabular", "dense", "factored"])
def test_gtd_statistics_are_the_means_over_each_episodes_own_steps(features):
    rows = some_rows()
    stats = BellmanStatistics(TWO, TARGET, None, features, "gtd")(rows)
    generator = np.random.default_rng(1)
    theta, w = generator.normal(size=features.size), generator.normal(size=(6, features.size))
    both = np.concatenate([np.broadcast_to(theta, w.shape), w], axis=1).astype(np.float32)
    back, forward = np.split(direction(stats, both[:, None])[:, 0], 2, axis=1)
    both[:, : features.size] = 0
    moment = direction(stats, both[:, None])[:, 0, features.size :]
    for unit in range(6):
        n = features.size
        A, b, C = np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
        episodes = episodes_of(rows, unit)
        for steps in episodes:
            for state, reward, after, ended, ratio in steps:
                phi, following = features(np.array([state, after])).astype(float)
                share = 1 / (len(steps) * len(episodes))
                A += share * ratio * np.outer(phi, phi - (0.0 if ended else TWO.gamma) * following)
                b += share * ratio * reward * phi
                C += share * np.outer(phi, phi)
        assert apply(stats, theta)[unit] == pytest.approx(A @ theta, abs=1e-5)
        assert back[unit] == pytest.approx(-A.T @ w[unit], abs=1e-5)
        assert forward[unit] == pytest.approx(A @ theta + C @ w[unit] - b, abs=1e-5)
        assert moment[unit] == pytest.approx(C @ w[unit] - b, abs=1e-5)
        assert constant(stats)[unit] == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("features", [OneHot(2), EVERY], ids=["first visits", "every visit"])
@pytest.mark.parametrize("trace", [1.0, 0.7])
def test_the_true_values_have_no_residual_in_expectation(features, trace):
    """Over all episodes with their probabilities: a visit's weight does not know how its episode goes on."""
    moves = np.einsum("sa,sa,sat->st", TARGET.table, 1 - ENDS, MOVES)
    values = np.linalg.solve(np.eye(2) - 0.9 * moves, (TARGET.table * REWARDS).sum(axis=1))
    episodes, p = enumerate_episodes()
    stats = BellmanStatistics(PROBLEM, TARGET, None, features, trace)(padded(episodes))
    assert p @ (constant(stats) - apply(stats, values)) == pytest.approx(np.zeros(2), abs=1e-6)
    assert (p @ (constant(stats) - apply(stats, values + 1.0)) < -0.05).all()


def test_the_size_of_gram_matrices_is_known():
    line = [[(s, 0, s + 1, False) for s in range(k)] for k in range(1, 31)]
    rows = {name: np.zeros((30, 30), int) for name in ("observations", "actions", "next_observations", "rewards")}
    rows |= {name: np.zeros((30, 30), bool) for name in ("mask", "starts", "terminations")}
    rows["starts"][:, 0] = True
    for i, steps in enumerate(line):
        rows["mask"][i, : len(steps)] = True
        rows["observations"][i, : len(steps)] = np.arange(len(steps))
    problem, features = Problem(gamma=0.9, horizon=30), OneHot(40)
    gram = BellmanStatistics(problem, Behaviour(), None, features, 1.0)(rows)["gram"]
    expected = [np.sqrt(sum(1 / j for j in range(1, k + 1))) for k in range(1, 31)]
    assert np.linalg.norm(gram, axis=1) == pytest.approx(expected)
    assert max(expected) <= gram_norm(problem, features) == pytest.approx(np.sqrt(1 + np.log(30)))
    assert gram_norm(problem, OneHot(1)) == 1.0


def test_visits_that_weigh_alike_have_grams_of_a_trace_of_at_most_one():
    """Each visit has 1 / (horizon |phi|^2); a unit of two episodes has their mean."""
    rows = some_rows()
    stats = BellmanStatistics(TWO, TARGET, None, FOURIER, 1.0, True)(rows)
    matrices = [symmetric_matrix(gram, FOURIER.size) for gram in stats["gram"]]
    for unit, matrix in enumerate(matrices):
        episodes = episodes_of(rows, unit)
        visits = [np.array([state for state, *_ in steps]) for steps in episodes]
        expected = np.zeros_like(matrix)
        for phi in FOURIER(np.concatenate(visits)).astype(float):
            expected += np.outer(phi, phi) / (phi @ phi) / (TWO.horizon * len(episodes))
        assert matrix == pytest.approx(expected, abs=1e-6)
        assert np.trace(matrix) <= 1 + 1e-6
    assert gram_norm(TWO, FOURIER, alike=True) == 1.0


def test_extreme_ratios_and_empty_units_stay_finite():
    rows = some_rows()
    rows["propensities"] = np.full_like(rows["propensities"], 1e-30)
    rows["mask"][5] = False
    for features in (OneHot(2), FOURIER, WIDE):
        for trace in ("gtd", 1.0):
            stats = BellmanStatistics(TWO, TARGET, None, features, trace)(rows)
            assert all(np.isfinite(value).all() for value in stats.values())
            assert (constant(stats)[5] == 0).all()
            assert (apply(stats, np.ones(features.size))[5] == 0).all()


def test_on_policy_needs_no_propensities():
    rows = some_rows()
    del rows["propensities"]
    stats = BellmanStatistics(TWO, Behaviour(), None, OneHot(2), 1.0)(rows)
    assert np.isfinite(stats["A"]).all()


def test_upper_triangles_keep_the_norm():
    matrix = np.array([[1.0, 2.0], [2.0, 5.0]])
    assert upper_triangle(matrix) == pytest.approx([1.0, 2.0 * np.sqrt(2), 5.0])
    assert np.linalg.norm(upper_triangle(matrix)) == pytest.approx(np.linalg.norm(matrix))
