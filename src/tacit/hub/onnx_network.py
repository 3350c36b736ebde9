"""A multi-layer perceptron out of an ONNX graph, whose nodes are read one by one and never run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tacit.agents.features import Scaled
from tacit.errors import FileError
from tacit.hub.expert_files import Activation, Float32, Network, require_chain

_IGNORED = ("Identity", "Flatten", "Dropout", "Cast")
_LAST = ("Softmax", "LogSoftmax", "ArgMax")
_ACTIVATIONS: Mapping[str, Activation] = {"Relu": "relu", "Tanh": "tanh"}


def read(path: Path) -> Network:
    """The layers of a graph with one input: MatMul and Add, or Gemm, Relu or Tanh between them, Softmax behind.

    The scaling to public bounds that `tacit export` writes in front (Sub, Mul, Clip) becomes the network's features.

    Raises:
        FileError: the file is damaged, its numbers lie in other files, or the graph is of another kind.
    """
    try:
        model = onnx.load(str(path), load_external_data=False)
        return _Reader(model.graph).network()
    except Exception as error:  # whatever a hostile graph leads to: no list of it would be whole
        told = str(error) if isinstance(error, _Unknown) else "damaged, or no multi-layer perceptron"
        raise FileError(
            f"it is {told}",
            where=str(path),
            expected="an ONNX graph of MatMul and Add, or Gemm, with Relu or Tanh between them",
            remedy="export the policy's network with nothing around it, or save its state dict as safetensors",
        ) from None


class _Unknown(ValueError):
    """Something in the graph that is named in the message."""


class _Reader:
    """Follows the one path of values from the input to the outputs."""

    def __init__(self, graph: Any) -> None:
        constants: dict[str, Any] = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = next(a.t for a in node.attribute if a.name == "value")
        self._constants = constants
        self._nodes = [node for node in graph.node if node.op_type != "Constant"]
        inputs = [entry.name for entry in graph.input if entry.name not in constants]
        if len(inputs) != 1:
            raise _Unknown("a graph with several inputs")
        self._at = inputs[0]

    def network(self) -> Network:
        """What the path computes."""
        layers: list[tuple[Float32, Float32]] = []
        between: list[Activation] = []
        front: list[tuple[str, Any]] = []
        for node in self._path():
            kind = node.op_type
            if kind in _ACTIVATIONS:
                if len(between) != len(layers) - 1:
                    raise _Unknown("a graph with an activation in front of the layers, or two in a row")
                between.append(_ACTIVATIONS[kind])
            elif kind in ("MatMul", "Gemm"):
                if len(between) != len(layers):
                    raise _Unknown("a graph of two layers without an activation between them")
                layers.append(self._layer(node))
            elif kind == "Add" and layers:
                layers[-1] = (layers[-1][0], layers[-1][1] + self._number(self._other(node)).reshape(-1))
            elif not layers and kind in ("Sub", "Mul"):
                front.append((kind, self._number(self._other(node))))
            elif not layers and kind == "Clip":
                front.append((kind, tuple(float(self._number(name)) for name in node.input[1:3])))
            else:
                raise _Unknown(f"a graph with the operator {kind}")
        if len(between) != len(layers) - 1 or len(set(between)) > 1:
            raise _Unknown("a graph of several kinds of activation, or with one behind the last layer")
        found = tuple(layers)
        require_chain(found)
        return Network(found, between[0] if between else None, _scaling(front))

    def _path(self) -> Iterator[Any]:
        """Nodes in order, up to the distribution over actions."""
        while True:
            users = [node for node in self._nodes if self._at in node.input]
            if not users or users[0].op_type in _LAST:
                if any(node.op_type not in _LAST for node in users):
                    raise _Unknown("a graph that branches")
                return
            if len(users) > 1:
                raise _Unknown("a graph that branches")
            (node,) = users
            if node.op_type not in _IGNORED:
                yield node
            self._nodes.remove(node)
            self._at = node.output[0]

    def _layer(self, node: Any) -> tuple[Float32, Float32]:
        options = {a.name: a.f if a.name in ("alpha", "beta") else a.i for a in node.attribute}
        weight = self._number(node.input[1])
        if node.op_type == "Gemm":
            if options.get("transA") or options.get("alpha", 1.0) != 1.0 or options.get("beta", 1.0) != 1.0:
                raise _Unknown("a Gemm with factors")
            weight = weight.T if options.get("transB") else weight
            if len(node.input) > 2:
                return weight, self._number(node.input[2]).reshape(-1)
        return weight, np.zeros(weight.shape[-1], np.float32)

    def _other(self, node: Any) -> str:
        """The constant among a node's two inputs."""
        (name,) = (name for name in node.input if name in self._constants)
        return str(name)

    def _number(self, name: str) -> Float32:
        tensor = self._constants[name]
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise _Unknown("a graph whose numbers lie in other files")
        return np.asarray(numpy_helper.to_array(tensor), np.float32)


def _scaling(front: list[tuple[str, Any]]) -> Scaled | None:
    """The public bounds to which observations are scaled: (x - middle) * factor, clipped to [-1, 1]."""
    if not front:
        return None
    if [kind for kind, _ in front] != ["Sub", "Mul", "Clip"] or front[2][1] != (-1.0, 1.0):
        raise _Unknown("a graph with a scaling that is not tacit's")
    middle, half = front[0][1].astype(np.float64), 1.0 / front[1][1].astype(np.float64)
    return Scaled(tuple((middle - half).tolist()), tuple((middle + half).tolist()))
