"""Stacked policies against one network at a time, and against themselves in other company."""

import itertools

import numpy as np
import pytest

from tacit.agents.features import Scaled
from tacit.agents.networks import Mlp
from tacit.agents.stacked import StackedPolicies
from tacit.errors import PlanError

BOX = Scaled((-1.0,) * 3, (1.0,) * 3)
SHAPES = [(3, 2), (3, 4), (3, 17, 5), (3, 32, 16, 8, 4)]


def _stack(sizes, experts=7, seed=0, **how):
    generator = np.random.default_rng(seed)
    weights = [
        (generator.normal(size=(experts, n, k)).astype(np.float32), generator.normal(size=(experts, k)).astype("f4"))
        for n, k in itertools.pairwise(sizes)
    ]
    return StackedPolicies(BOX, sizes, tuple(weights), **how)


def _states(rows, actions, seed=1):
    generator = np.random.default_rng(seed)
    return generator.uniform(-1, 1, (rows, 3)), generator.integers(actions, size=rows)


def _outputs(stack, expert, observations):
    """Of one expert, in float64."""
    x = BOX(observations).astype(np.float64)
    for i, (weight, bias) in enumerate(stack.weights):
        if i:
            x = np.tanh(x) if stack.activation == "tanh" else np.maximum(x, 0)
        x = x @ weight[expert].astype(np.float64) + bias[expert]
    return x


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_chances_are_those_of_one_network_at_a_time(sizes, activation):
    observations, actions = _states(300, sizes[-1])
    soft = _stack(sizes, floor=float("nan"), activation=activation)
    hard = _stack(sizes, floor=0.05, activation=activation)
    given, kept = soft.likelihoods(observations, actions), hard.likelihoods(observations, actions)
    assert given.dtype == kept.dtype == np.float64
    for k in range(7):
        out = _outputs(soft, k, observations)
        p = np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(given[k], p[np.arange(300), actions], rtol=2e-4, atol=1e-6)
        expected = np.where(out.argmax(axis=1) == actions, 1 - (sizes[-1] - 1) * 0.05, 0.05)
        assert (kept[k] == expected).all()
    assert (hard.disagreements(observations, actions) == (kept == 0.05)).all()
    assert (hard.greedy(observations) == actions).sum() == (kept != 0.05).sum()


@pytest.mark.parametrize("floor", [0.0, 0.1, float("nan")])
@pytest.mark.parametrize("sizes", SHAPES)
def test_an_expert_is_drawn_with_the_very_probabilities_that_it_is_counted_with(sizes, floor):
    stack = _stack(sizes, floor=floor)
    observations, _ = _states(90, sizes[-1])
    which = np.random.default_rng(2).integers(7, size=90)
    which[:40] = 3
    p = stack.probabilities(observations, which)
    assert p.shape == (90, sizes[-1])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    for action in range(sizes[-1]):
        given = stack.likelihoods(observations, np.full(90, action))
        np.testing.assert_array_equal(p[:, action], given[which, np.arange(90)])


def test_least_is_mixed_in():
    stack = _stack((3, 4), floor=float("nan"), least=0.2)
    observations, _ = _states(50, 4)
    p = stack.probabilities(observations, np.zeros(50, int))
    plain = _stack((3, 4), floor=float("nan")).probabilities(observations, np.zeros(50, int))
    np.testing.assert_allclose(p, 0.2 + 0.2 * plain, rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("sizes", SHAPES)
def test_an_experts_bits_do_not_depend_on_the_others(sizes, rows):
    stack = _stack(sizes, experts=60, floor=float("nan"))
    observations, actions = _states(rows, sizes[-1])
    whole = stack.likelihoods(observations, actions)
    without = np.delete(np.arange(60), 17)
    mixed = np.random.default_rng(3).permutation(60)
    for chosen in (without, mixed, np.array([17]), np.array([59, 0]), slice(1, None, 2)):
        np.testing.assert_array_equal(stack.take(chosen).likelihoods(observations, actions), whole[chosen])


@pytest.mark.parametrize("sizes", [*SHAPES, (3, 64, 64, 2), (3, 512, 256, 64, 4)])
def test_an_experts_bits_do_not_depend_on_the_other_states(sizes):
    stack = _stack(sizes, experts=3, floor=float("nan"))
    observations, actions = _states(1100, sizes[-1])
    whole = stack.likelihoods(observations, actions)
    generator = np.random.default_rng(4)
    for rows in (1, 2, 15, 16, 17, 40, 250, 1099):
        some = generator.permutation(1100)[:rows]
        np.testing.assert_array_equal(stack.likelihoods(observations[some], actions[some]), whole[:, some])


def test_an_experts_bits_do_not_depend_on_where_its_weights_lie():
    mlp = Mlp((3, 17, 5))
    theta = np.random.default_rng(0).normal(size=(9, mlp.parameters)).astype(np.float32)
    theta[:] = theta[0]
    observations, actions = _states(50, 5)
    stack = StackedPolicies.from_mlp(BOX, mlp, theta, floor=float("nan"))
    assert len({row.ctypes.data % 64 for row in stack.weights[0][0]}) > 1
    given = stack.likelihoods(observations, actions)
    assert (given == given[0]).all()


def test_chunks_change_no_bit(monkeypatch):
    stack = _stack((3, 32, 16, 8, 4), experts=40, floor=float("nan"))
    observations, actions = _states(100, 4)
    whole = stack.likelihoods(observations, actions)
    for held, blocks in ((1, 1), (32 * 300, 3), (2**30, 2**10)):
        monkeypatch.setattr("tacit.agents.stacked._CHUNK_NUMBERS", held)
        monkeypatch.setattr("tacit.agents.stacked._BLOCKS", blocks)
        np.testing.assert_array_equal(stack.likelihoods(observations, actions), whole)


def test_of_equal_outputs_the_first_is_best():
    weights = ((np.zeros((1, 3, 3)), np.array([[0.0, 1.0, 1.0]])),)
    stack = StackedPolicies(BOX, (3, 3), weights, floor=0.25)
    assert stack.greedy(np.zeros((2, 3))).tolist() == [[1, 1]]
    np.testing.assert_array_equal(stack.probabilities(np.zeros((1, 3)), [0]), [[0.25, 0.5, 0.25]])


def test_no_states_and_no_rows():
    stack = _stack((3, 4), floor=float("nan"))
    assert stack.likelihoods(np.zeros((0, 3)), np.zeros(0, int)).shape == (7, 0)
    assert stack.greedy(np.zeros((0, 3))).shape == (7, 0)
    assert stack.probabilities(np.zeros((0, 3)), np.zeros(0, int)).shape == (0, 4)


def test_from_mlp_reads_the_parameters_in_place():
    mlp = Mlp((3, 16, 2))
    theta = np.random.default_rng(0).normal(size=(5, mlp.parameters)).astype(np.float32)
    stack = StackedPolicies.from_mlp(BOX, mlp, theta)
    observations, _ = _states(64, 2)
    out, _ = mlp.forward(theta, BOX(observations)[None].repeat(5, axis=0))
    np.testing.assert_array_equal(stack.greedy(observations), out.argmax(axis=2))
    assert all(np.shares_memory(array, theta) for pair in stack.weights for array in pair)


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": (4, 2)},
        {"sizes": (3, 1)},
        {"sizes": (3, 5, 2)},
        {"weights": ()},
        {"floor": 0.5},
        {"floor": -0.1},
        {"least": 0.1},
        {"activation": "gelu"},
        {"weights": ((np.full((2, 3, 2), np.nan), np.zeros((2, 2))),)},
    ],
)
def test_bad_input_is_refused(change):
    good = {"features": BOX, "sizes": (3, 2), "weights": ((np.ones((2, 3, 2)), np.zeros((2, 2))),), "floor": 0.0}
    StackedPolicies(**good)
    with pytest.raises(PlanError):
        StackedPolicies(**(good | change))
