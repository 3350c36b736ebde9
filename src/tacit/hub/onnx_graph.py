"""A released policy as an ONNX model: observation in, distribution over actions out, public scaling included. The graph
is written operator by operator (opset 17), so that any runtime plays it without tacit and without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tacit.agents.features import Features, OneHot, Quadratic
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box
from tacit.errors import FileError, PlanError

_OPSET, _IR = 17, 8
"""Old enough for runtimes of several years."""


class _Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names = (f"t{index}" for index in range(1_000_000))

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = next(self._names)
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **options: Any) -> str:
        out = name or next(self._names)
        self.nodes.append(helper.make_node(operator, list(inputs), [out], **options))
        return out


def write(policy: Policy, theta: np.ndarray, path: str | os.PathLike[str], notes: Sequence[tuple[str, str]]) -> None:
    """Write one policy.

    Inputs and outputs, N observations at once: `observations` float32 [N, d], or int64 [N] where they are discrete.
    Discrete actions: `probabilities` [N, n] and `greedy` int64 [N]. Continuous ones: `mean` and `std` [N, a] of the
    normal distribution whose draws are clipped to the bounds, and `greedy` [N, a], the mean so clipped.

    Args:
        policy: whose network is an `Mlp`.
        theta: its parameters [P].
        path: the file; it must not exist.
        notes: written into the model's metadata.

    Raises:
        PlanError: the network is of another kind.
        FileError: the file exists or cannot be written.
    """
    if not isinstance(policy.network, Mlp):
        what = f"the policy's network is a {type(policy.network).__name__}"
        expected, remedy = "an Mlp", "export a module of your own with torch.onnx"
        raise PlanError(what, where="hub.to_onnx", expected=expected, remedy=remedy)
    path, graph = Path(path), _Graph()
    x, entry = _add_features(graph, policy.features)
    network, head = policy.split(np.asarray(theta, np.float32)[None])
    layers = policy.network.layers(network[0])
    for index, layer in enumerate(layers):
        x = graph.add("Add", graph.add("MatMul", x, graph.constant(layer[:-1])), graph.constant(layer[-1]))
        x = graph.add("Tanh", x) if index < len(layers) - 1 else x
    outputs = list(_add_head(graph, policy.head, x, head[0]))
    body = helper.make_graph(graph.nodes, "policy", [entry], outputs, graph.constants)
    model = helper.make_model(
        body, producer_name="tacit", ir_version=_IR, opset_imports=[helper.make_opsetid("", _OPSET)]
    )
    helper.set_model_props(model, dict(notes))
    onnx.checker.check_model(model, full_check=True)
    try:
        with path.open("xb") as file:
            file.write(model.SerializeToString())
    except OSError as error:
        what = "the file exists already or cannot be written"
        expected, remedy = "a name that is still free, in a writable folder", "choose another name"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy) from error


def _add_features(graph: _Graph, features: Features) -> tuple[str, Any]:
    if isinstance(features, OneHot):
        entry = helper.make_tensor_value_info("observations", TensorProto.INT64, ["N"])
        column = graph.add("Unsqueeze", "observations", graph.constant([1], np.int64))
        matches = graph.add("Equal", column, graph.constant(np.arange(features.n), np.int64))
        return graph.add("Cast", matches, to=TensorProto.FLOAT), entry
    entry = helper.make_tensor_value_info("observations", TensorProto.FLOAT, ["N", len(features.low)])
    low, high = np.asarray(features.low, np.float32), np.asarray(features.high, np.float32)
    moved = graph.add("Sub", "observations", graph.constant((low + high) / 2))
    wide = graph.add("Mul", moved, graph.constant(2 / (high - low)))
    x = graph.add("Clip", wide, graph.constant(-1), graph.constant(1))
    if not isinstance(features, Quadratic):
        return x, entry
    i, j = (graph.constant(index, np.int64) for index in np.triu_indices(len(features.low)))
    products = graph.add("Mul", graph.add("Gather", x, i, axis=1), graph.add("Gather", x, j, axis=1))
    return graph.add("Concat", x, products, axis=1), entry


def _add_head(graph: _Graph, head: Any, x: str, log_std: np.ndarray) -> Iterator[Any]:
    if isinstance(head, Categorical):
        graph.add("Softmax", x, name="probabilities", axis=1)
        graph.add("ArgMax", x, name="greedy", axis=1, keepdims=0)
        yield helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", head.actions])
        yield helper.make_tensor_value_info("greedy", TensorProto.INT64, ["N"])
        return
    assert isinstance(head, Gaussian)
    shape = ["N", head.outputs]
    low, high = (graph.constant(bound) for bound in Box(head.low, head.high).float32_bounds())
    mean = graph.add("Add", x, graph.constant(head.mean), name="mean")
    spread = head.std * (np.exp(log_std) if head.learned_std else np.ones(head.outputs))
    graph.add("Expand", graph.constant(spread), graph.add("Shape", x), name="std")
    graph.add("Max", graph.add("Min", mean, high), low, name="greedy")
    for name in ("mean", "std", "greedy"):
        yield helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
