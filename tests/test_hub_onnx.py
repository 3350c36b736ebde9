"""Policies as ONNX models: ONNX Runtime computes what tacit computes, scaling and bounds included."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tacit.agents.features import Features, OneHot, Quadratic, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.policy_files import FeedForward
from tacit.errors import FileError, PlanError
from tacit.hub import onnx_graph
from tacit.methods.off_policy_evaluation import Network

LOW, HIGH = (-4.8, -4.0, -0.418), (4.8, 4.0, 0.25)
FEATURES = {"scaled": Scaled(LOW, HIGH), "quadratic": Quadratic(LOW, HIGH), "one-hot": OneHot(5)}
HEADS = {
    "categorical": Categorical(3),
    "gaussian": Gaussian((-1.0, 0.0), (1.0, 5.0), (0.0, 1.0), 0.5),
    "learned spread": Gaussian((-1.0, 0.0), (1.0, 5.0), (0.0, 1.0), 0.5, learned_std=True),
}


def case(features: Features, head: Any, hidden: tuple[int, ...]) -> tuple[Policy, np.ndarray, np.ndarray]:
    """A policy, parameters [P] of ordinary size, and 40 observations, some of them outside the bounds."""
    generator = np.random.default_rng(3)
    policy = Policy(features, Mlp((features.size, *hidden, head.outputs)), head)
    theta = 0.4 * generator.normal(size=policy.parameters).astype(np.float32)
    if isinstance(features, OneHot):
        return policy, theta, generator.integers(0, features.n, 40)
    return policy, theta, generator.uniform(-6, 6, (40, len(features.low))).astype(np.float32)


def played(path: Path, observations: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"observations": observations}), strict=True))


@pytest.mark.parametrize("hidden", [(), (16, 8)], ids=["log-linear", "mlp"])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
def test_the_runtime_computes_the_same(features: Features, head: Any, hidden: tuple[int, ...], tmp_path: Path) -> None:
    policy, theta, observations = case(features, head, hidden)
    onnx_graph.write(policy, theta, tmp_path / "policy.onnx", [])
    found = played(tmp_path / "policy.onnx", observations)

    x = np.asarray(policy.features(observations), np.float64)  # the layers again, in float64
    network, own = policy.split(theta[None])
    views = policy.network.layers(network[0])  # type: ignore[attr-defined]
    for index, layer in enumerate(views):
        x = x @ layer[:-1].astype(np.float64) + layer[-1]
        x = np.tanh(x) if index < len(views) - 1 else x
    greedy = policy.act(theta[None], observations, np.zeros(40, np.int64), np.random.default_rng(0), greedy=True)
    assert found["greedy"].dtype == greedy.dtype
    np.testing.assert_allclose(found["greedy"], greedy, atol=1e-6)
    if isinstance(head, Categorical):
        shares = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found["probabilities"], shares, atol=1e-6)
        return
    np.testing.assert_allclose(found["mean"], np.asarray(head.mean) + x, atol=2e-6)
    spread = 0.5 * np.exp(own[0]) if head.learned_std else np.full(2, 0.5)
    np.testing.assert_allclose(found["std"], np.tile(spread, (40, 1)), rtol=1e-6)


def test_one_observation_is_a_batch_of_one(tmp_path: Path) -> None:
    policy, theta, observations = case(FEATURES["scaled"], HEADS["categorical"], (4,))
    onnx_graph.write(policy, theta, tmp_path / "policy.onnx", [])
    whole, single = (played(tmp_path / "policy.onnx", rows) for rows in (observations, observations[:1]))
    np.testing.assert_allclose(single["probabilities"], whole["probabilities"][:1], atol=1e-6)


def test_the_model_tells_what_was_promised_and_keeps_to_old_operators(tmp_path: Path) -> None:
    policy, theta, _ = case(FEATURES["scaled"], HEADS["categorical"], ())
    onnx_graph.write(policy, theta, tmp_path / "policy.onnx", [("promise", "epsilon 1")])
    model = onnx.load(tmp_path / "policy.onnx")
    assert {entry.key: entry.value for entry in model.metadata_props} == {"promise": "epsilon 1"}
    assert model.opset_import[0].version == 17
    assert model.ir_version == 8


def test_a_taken_name_is_left_alone(tmp_path: Path) -> None:
    policy, theta, _ = case(FEATURES["scaled"], HEADS["categorical"], ())
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileError, match="exists already or cannot be written"):
        onnx_graph.write(policy, theta, tmp_path / "taken", [])
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_module_of_ones_own_is_refused(tmp_path: Path) -> None:
    import torch

    from tacit.agents.torch_network import TorchNetwork

    network = TorchNetwork(torch.nn.Linear(3, 3), inputs=3)
    policy = Policy(FEATURES["scaled"], network, HEADS["categorical"])
    theta = np.zeros(policy.parameters, np.float32)
    with pytest.raises(PlanError, match="expected an Mlp; export a module of your own"):
        onnx_graph.write(policy, theta, tmp_path / "policy.onnx", [])


@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_what_tacit_exports_is_read_again(features: Features, hidden: tuple[int, ...], tmp_path: Path) -> None:
    policy, theta, seen = case(features, HEADS["categorical"], hidden)
    onnx_graph.write(policy, theta, tmp_path / "policy.onnx", ())
    shown = played(tmp_path / "policy.onnx", seen)
    read = Network.load(tmp_path / "policy.onnx")
    assert type(read.features) is type(features)
    kept = FeedForward.of(policy, theta[None])
    for network in (read, Network.of(kept)):
        np.testing.assert_allclose(network.probabilities(seen), shown["probabilities"], atol=2e-5)
    greedy = Network.of(dataclasses.replace(kept, greedy=True)).probabilities(seen)
    assert greedy.tolist() == np.eye(3)[shown["greedy"]].tolist()


def test_a_graph_that_ends_with_its_best_action_is_greedy(tmp_path: Path) -> None:
    policy, theta, seen = case(FEATURES["scaled"], HEADS["categorical"], (6,))
    onnx_graph.write(policy, theta, tmp_path / "policy.onnx", ())
    model = onnx.load(tmp_path / "policy.onnx")
    model.graph.node.remove(next(node for node in model.graph.node if node.op_type == "Softmax"))
    onnx.save(model, tmp_path / "greedy.onnx")
    expected = np.eye(3)[played(tmp_path / "policy.onnx", seen)["greedy"]]
    assert Network.load(tmp_path / "greedy.onnx").probabilities(seen).tolist() == expected.tolist()


def test_policies_that_are_no_layers_over_actions_are_refused() -> None:
    policy, theta, _ = case(FEATURES["scaled"], HEADS["gaussian"], (6,))
    with pytest.raises(PlanError, match="continuous actions"):
        FeedForward.of(policy, theta[None])
    policy, theta, _ = case(FEATURES["scaled"], HEADS["categorical"], (6,))
    with pytest.raises(PlanError, match="several replicates"):
        FeedForward.of(policy, np.stack([theta, theta]))
