"""Policies against literal probabilities."""

import numpy as np
import pytest
from safetensors.numpy import save_file
from small_mdp import TARGET

from tacit.agents.features import Scaled
from tacit.errors import FileError, PlanError
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot
from tacit.methods.off_policy_evaluation.policies import (
    Callable,
    LinearQ,
    ModelledPolicy,
    Network,
    Tabular,
    Uniform,
    row_probabilities,
)

HERE = "tests_policies"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def left(observations):
    return np.tile([0.75, 0.25], (len(observations), 1))


def unnormalised(observations):
    return np.ones((len(observations), 2))


def test_uniform_and_tables():
    assert Uniform(4).probabilities(np.zeros((2, 3))).tolist() == [[0.25] * 4] * 2
    assert TARGET.probabilities(np.array([1, 0, 5])).tolist() == [[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]
    assert TARGET.action_probabilities(np.array([[1, 0, 5]]), np.array([[1, 1, 0]])).tolist() == [[0.8, 0.1, 0.5]]


def test_softmax_and_epsilon_greedy_over_a_linear_value():
    weights = np.array([[0.0, np.log(3.0)], [2.0, 0.0]])
    softmax = LinearQ(OneHot(2), weights)
    assert softmax.probabilities(np.array([0]))[0] == pytest.approx([0.25, 0.75])
    cooler = LinearQ(OneHot(2), weights, temperature=0.5)
    assert cooler.probabilities(np.array([0]))[0] == pytest.approx([0.1, 0.9])
    greedy = LinearQ(OneHot(2), weights, kind="epsilon_greedy", epsilon=0.2)
    assert greedy.probabilities(np.array([0, 1])) == pytest.approx(np.array([[0.1, 0.9], [0.9, 0.1]]))


def test_a_network_from_a_file_layer_by_layer(tmp_path):
    hidden, out = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32), np.array([[2.0, 0.0], [0.0, 0.0]], np.float32)
    zero = np.zeros(2, np.float32)
    layers = {"net.10.weight": out, "net.10.bias": zero, "net.2.weight": hidden, "net.2.bias": zero}
    save_file(layers, tmp_path / "policy.safetensors")
    policy = Network.load(tmp_path / "policy.safetensors")
    logit = 2.0 * max(0.0, 3.0 - 1.0)
    expected = np.exp(logit) / (np.exp(logit) + 1)
    assert policy.probabilities(np.array([[3.0, 1.0]]))[0] == pytest.approx([expected, 1 - expected])
    assert policy.actions == 2
    assert policy.probabilities(np.array([1]))[0] == pytest.approx([0.5, 0.5])  # the state 1 as an indicator: relu(-1)
    tanh = Network(policy.layers, activation="tanh").probabilities(np.array([[3.0, 1.0]]))
    assert tanh[0, 0] == pytest.approx(1 / (1 + np.exp(-2 * np.tanh(2.0))))


def test_the_users_own_function_must_return_distributions():
    assert Callable(f"{HERE}:left", 2).probabilities(np.zeros(3)).tolist() == [[0.75, 0.25]] * 3
    wrong = Callable(f"{HERE}:unnormalised", 2)
    assert wrong.probabilities(np.zeros(3)).tolist() == [[0.5, 0.5]] * 3  # behind a door nothing may be raised
    with pytest.raises(PlanError, match="distributions"):
        wrong.require_distributions(np.zeros(3))
    with pytest.raises(PlanError, match="distributions"):
        Callable(f"{HERE}:left", 3).probabilities(np.zeros(3))
    with pytest.raises(PlanError, match="cannot be imported"):
        Callable("nowhere:nothing", 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tabular(np.array([[0.5, 0.6]])),
        lambda: Tabular(np.array([[1.5, -0.5]])),
        lambda: LinearQ(OneHot(2), np.array([[np.nan]])),
        lambda: LinearQ(OneHot(2), np.zeros((2, 2)), temperature=0.0),
        lambda: LinearQ(OneHot(2), np.zeros((2, 2)), epsilon=1.5),
        lambda: Network(((np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 3)), np.zeros(2)))),
        lambda: Network(()),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(PlanError):
        make()


def test_layers_of_a_file_need_numbers(tmp_path):
    layers = {
        f"{name}.{kind}": np.zeros((2, 2) if kind == "weight" else 2) for name in "ab" for kind in ("weight", "bias")
    }
    save_file(layers, tmp_path / "policy.safetensors")
    with pytest.raises(FileError, match="numbered"):
        Network.load(tmp_path / "policy.safetensors")


def tied(kind: str):
    """Policies over 6 actions of which the first and the last tie in every state, of width 64."""
    weight = np.random.default_rng(0).normal(size=(6, 64))
    weight[5] = weight[0]
    hidden = np.random.default_rng(1).normal(size=(64, 64)) / 8
    scaled, waves = Scaled((-3.0,) * 64, (3.0,) * 64), Fourier(1, (-3.0,) * 64, (3.0,) * 64, coupled=False)
    return {
        "greedy": Network(((weight, np.zeros(6)),), greedy=True),
        "hidden": Network(((hidden, np.zeros(64)), (weight, np.zeros(6))), activation="tanh", greedy=True),
        "softmax": Network(((hidden, np.zeros(64)), (weight, np.zeros(6))), features=scaled),
        "linear": LinearQ(scaled, weight.T, kind="epsilon_greedy"),
        "modelled": ModelledPolicy(LinearQ(waves, np.tile(weight.T[:1], (65, 1))), 0.1),
        "function": Callable(f"{HERE}:by_batch", 6),
        "somebody's": Foreign(),
    }[kind]


class Foreign:
    """Not tacit's: it decides by who else is there."""

    actions = 6

    def probabilities(self, observations):
        return by_batch(observations)


def uneven(observations):
    """Nearly normalised: rows are divided by sums of nine numbers of all sizes; the first is no distribution."""
    chances = np.exp(4 * observations[:, :9].astype(np.float64))
    return np.where(observations[:, 9:] > 3, np.nan, (1 + 1e-6) * chances / chances.sum(axis=1, keepdims=True))


def test_checks_of_all_rows_at_once_are_those_of_each():
    rows = np.random.default_rng(3).normal(size=(99, 10)).astype(np.float32)
    rows[0, 9] = 9.0
    whole = row_probabilities(Callable(f"{HERE}:uneven", 9), rows)
    assert whole[0].tolist() == [1 / 9] * 9
    assert whole.sum(axis=1) == pytest.approx(np.ones(99), abs=1e-12)
    for i in range(99):
        assert np.array_equal(whole[i : i + 1], Callable(f"{HERE}:uneven", 9).probabilities(rows[i : i + 1]))


def by_batch(observations):
    return np.eye(6)[np.full(len(observations), 5 * (len(observations) % 2))]


@pytest.mark.parametrize("kind", ["greedy", "hidden", "softmax", "linear", "modelled", "function", "somebody's"])
def test_what_a_policy_does_in_a_row_does_not_depend_on_others(kind):
    policy, rows = tied(kind), np.random.default_rng(2).normal(size=(99, 64)).astype(np.float32)
    whole = row_probabilities(policy, rows)
    assert not (whole[:, 5] > whole[:, 0]).any() or kind in ("function", "somebody's")
    for start in range(1, 99):
        assert np.array_equal(row_probabilities(policy, rows[start:]), whole[start:])
    assert row_probabilities(policy, rows[:0]).shape == (0, 6)
