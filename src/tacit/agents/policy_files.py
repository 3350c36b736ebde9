"""A policy in one file: a state dict in safetensors, or an ONNX graph. Files are only read, never run.

    policy.safetensors   linear layers, NAME.weight [out, in] and NAME.bias [out], numbered in their order; outputs are
                         values of the actions. What tacit writes says its activation and features in the metadata;
                         without them the network takes raw observations
    policy.onnx          the same as a graph: MatMul and Add, or Gemm, with Relu or Tanh between them and perhaps a
                         Softmax behind; `tacit export` writes such graphs

A pickle is refused by its name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents.features import Features, OneHot, Quadratic, Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.errors import FileError, PlanError
from tacit.serialization import read as read_json

Float32 = NDArray[np.float32]
Activation = Literal["relu", "tanh"]

EXPERT_FORMAT = "tacit.expert"
"""The format that the metadata of tacit's own state dicts names."""
SUFFIXES = (".safetensors", ".onnx")
_PICKLES = frozenset({".pt", ".pth", ".bin", ".pkl", ".pickle", ".joblib", ".zip", ".ckpt", ".npy", ".npz"})
_MAX_BYTES = 2**30
_IGNORED = ("Identity", "Flatten", "Dropout", "Cast")
_LAST = ("Softmax", "LogSoftmax", "ArgMax")
_ACTIVATIONS: Mapping[str, Activation] = {"Relu": "relu", "Tanh": "tanh"}


@dataclass(frozen=True)
class FeedForward:
    """The layers of one policy over discrete actions, and what is said about them."""

    layers: tuple[tuple[Float32, Float32], ...]  # (weight [in, out], bias [out]) of each
    activation: Activation | None = None  # between them; None where the file does not say, or has one layer
    features: Features | None = None  # what the first layer takes; None for raw observations
    greedy: bool = False  # whether the policy takes its best action always, and not with the softmax of the outputs

    @classmethod
    def of(cls, policy: Policy, theta: Float32, *, greedy: bool = False) -> FeedForward:
        """One policy over discrete actions with parameters theta [1, P]. Raises PlanError where the actions are
        continuous, the network is no `Mlp`, or there are several replicates."""
        network = policy.network
        if not isinstance(network, Mlp) or not isinstance(policy.head, Categorical) or len(theta) != 1:
            what = "the policy has continuous actions, another network than an Mlp, or several replicates"
            expected = "one policy over discrete actions, whose network is an Mlp"
            raise PlanError(what, where="FeedForward.of", expected=expected, remedy="take one with .replicate(r)")
        layers = tuple((layer[:-1], layer[-1]) for layer in network.layers(theta[0]))
        return cls(layers, "tanh" if len(layers) > 1 else None, policy.features, greedy)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs."""
        return (len(self.layers[0][0]), *(len(bias) for _, bias in self.layers))

    def digest(self) -> bytes:
        """Of all numbers, to find two policies that are one."""
        digest = hashlib.sha256(repr((self.sizes, self.activation)).encode())
        for weight, bias in self.layers:
            digest.update(np.ascontiguousarray(weight).tobytes())
            digest.update(np.ascontiguousarray(bias).tobytes())
        return digest.digest()


def require_safe(path: Path) -> None:
    """Refuse (FileError) a pickle by its name: reading it can run code."""
    if path.suffix.lower() in _PICKLES:
        raise file_error(path, "of a kind that can run code when it is read", "save its state dict as safetensors")


def read(path: Path) -> FeedForward:
    """Read one file. Raises FileError where there is none, or it is too large, damaged, or of another kind."""
    require_safe(path)
    if not path.is_file():
        what, expected = "there is no such file", "a .safetensors or .onnx file"
        raise FileError(what, where=str(path), expected=expected, remedy="check the path")
    if path.stat().st_size > _MAX_BYTES:
        raise file_error(path, "too large for a policy", "check what it is")
    return _read_onnx(path) if path.suffix.lower() == ".onnx" else _read_safetensors(path)


def _read_safetensors(path: Path) -> FeedForward:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
            metadata = file.metadata() or {}
        layers = _layers(tensors)
        if metadata.get("format") != EXPERT_FORMAT:
            return FeedForward(layers)
        saved = read_json(maps.Features, json.loads(metadata["features"]))
        return FeedForward(layers, "relu" if metadata["activation"] == "relu" else "tanh", saved)
    except Exception:  # whatever a hostile file leads to: no list of it would be whole
        remedy = "save the state dict of a torch.nn.Sequential of Linear layers, or export the policy to ONNX"
        raise file_error(path, "damaged, or no state dict of numbered linear layers", remedy) from None


def _layers(tensors: dict[str, NDArray[np.generic]]) -> tuple[tuple[Float32, Float32], ...]:
    names = sorted((name.removesuffix(".weight") for name in tensors if name.endswith(".weight")), key=natural_sort_key)
    numbered = len(names) == 1 or all(re.search(r"\d", name) for name in names)
    if not names or not numbered or set(tensors) != {f"{name}.{part}" for name in names for part in ("weight", "bias")}:
        raise ValueError("no numbered linear layers")
    layers = tuple(
        (np.asarray(tensors[f"{name}.weight"], np.float32).T, np.asarray(tensors[f"{name}.bias"], np.float32))
        for name in names
    )
    _require_chain(layers)
    return layers


def _require_chain(layers: tuple[tuple[Float32, Float32], ...]) -> None:
    width = len(layers[0][0]) if layers and layers[0][0].ndim == 2 else -1
    for weight, bias in layers:
        if weight.ndim != 2 or len(weight) != width or bias.shape != weight.shape[1:]:
            raise ValueError("layers that do not fit one another")
        width = len(bias)


def natural_sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """What sorts 9 before 10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def file_error(path: Path, what: str, remedy: str) -> FileError:
    """The error of a file that holds no policy."""
    expected = "a .safetensors or .onnx file, or the folder of a released policy"
    return FileError(f"it is {what}", where=str(path), expected=expected, remedy=remedy)


def _read_onnx(path: Path) -> FeedForward:
    """The layers of a graph with one input: MatMul and Add, or Gemm, Relu or Tanh between them, Softmax behind."""
    # The scaling to public bounds that `tacit export` writes in front (Sub, Mul, Clip) becomes the network's features.
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
        return _GraphReader(model.graph).read_network()
    except Exception as error:  # whatever a hostile graph leads to: no list of it would be whole
        reason = str(error) if isinstance(error, _UnsupportedGraph) else "damaged, or no multi-layer perceptron"
        what, expected = f"it is {reason}", "an ONNX graph of MatMul and Add, or Gemm, with Relu or Tanh between them"
        remedy = "export the policy's network with nothing around it, or save its state dict as safetensors"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy) from None


class _UnsupportedGraph(ValueError):
    """Something in the graph that is named in the message."""


class _GraphReader:
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
            raise _UnsupportedGraph("a graph with several inputs")
        self._value_name, self._greedy = inputs[0], False

    def read_network(self) -> FeedForward:
        layers: list[tuple[Float32, Float32]] = []
        activations: list[Activation] = []
        scaling: list[tuple[str, Any]] = []
        for node in self._path():
            kind = node.op_type
            if kind in _ACTIVATIONS:
                if len(activations) != len(layers) - 1:
                    raise _UnsupportedGraph("a graph with an activation in front of the layers, or two in a row")
                activations.append(_ACTIVATIONS[kind])
            elif kind in ("MatMul", "Gemm"):
                if len(activations) != len(layers):
                    raise _UnsupportedGraph("a graph of two layers without an activation between them")
                layers.append(self._layer(node))
            elif kind == "Add" and layers:
                weight, bias = layers[-1]
                layers[-1] = weight, bias + self._constant_value(self._constant_input(node)).reshape(-1)
            elif not layers and kind in ("Sub", "Mul"):
                scaling.append((kind, self._constant_value(self._constant_input(node))))
            elif not layers and kind == "Clip":
                scaling.append((kind, tuple(float(self._constant_value(name)) for name in node.input[1:3])))
            elif not layers and kind in ("Unsqueeze", "Equal", "Concat"):
                scaling.append((kind, self._constant_value(self._constant_input(node)) if kind == "Equal" else None))
            else:
                raise _UnsupportedGraph(f"a graph with the operator {kind}")
        if len(activations) != len(layers) - 1 or len(set(activations)) > 1:
            raise _UnsupportedGraph("a graph of several kinds of activation, or with one behind the last layer")
        chain = tuple(layers)
        _require_chain(chain)
        return FeedForward(chain, activations[0] if activations else None, _input_features(scaling), self._greedy)

    def _path(self) -> Iterator[Any]:
        """Nodes in order, up to the distribution over actions."""
        while True:
            users = [node for node in self._nodes if self._value_name in node.input]
            if not users or users[0].op_type in _LAST:
                if any(node.op_type not in _LAST for node in users):
                    raise _UnsupportedGraph("a graph that branches")
                self._greedy = {node.op_type for node in users} == {"ArgMax"}
                return
            node = users[0] if len(users) == 1 else self._skip_products(users)
            if node.op_type not in _IGNORED:
                yield node
            self._nodes.remove(node)
            self._value_name = node.output[0]

    def _skip_products(self, users: list[Any]) -> Any:
        """The Concat of a value with all products of two of its numbers, as `tacit export` writes them."""
        kinds = [node.op_type for node in users]
        if kinds != ["Gather", "Gather", "Concat"]:
            raise _UnsupportedGraph("a graph that branches")
        (i, j), concat = users[:2], users[2]
        (product,) = (node for node in self._nodes if list(node.input) == [i.output[0], j.output[0]])
        wanted = np.triu_indices(int(self._constant_value(i.input[1]).max()) + 1)
        found = [self._constant_value(node.input[1]) for node in (i, j)]
        plain = product.op_type == "Mul" and list(concat.input) == [self._value_name, product.output[0]]
        if not plain or not all(map(np.array_equal, wanted, found)):
            raise _UnsupportedGraph("a graph that branches")
        for node in (i, j, product):
            self._nodes.remove(node)
        return concat

    def _layer(self, node: Any) -> tuple[Float32, Float32]:
        options = {a.name: a.f if a.name in ("alpha", "beta") else a.i for a in node.attribute}
        weight = self._constant_value(node.input[1])
        if node.op_type == "Gemm":
            if options.get("transA") or options.get("alpha", 1.0) != 1.0 or options.get("beta", 1.0) != 1.0:
                raise _UnsupportedGraph("a Gemm with factors")
            weight = weight.T if options.get("transB") else weight
            if len(node.input) > 2:
                return weight, self._constant_value(node.input[2]).reshape(-1)
        return weight, np.zeros(weight.shape[-1], np.float32)

    def _constant_input(self, node: Any) -> str:
        (name,) = (name for name in node.input if name in self._constants)
        return str(name)

    def _constant_value(self, name: str) -> Float32:
        from onnx import TensorProto, numpy_helper

        tensor = self._constants[name]
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise _UnsupportedGraph("a graph whose numbers lie in other files")
        return np.asarray(numpy_helper.to_array(tensor), np.float32)


def _input_features(scaling: list[tuple[str, Any]]) -> Features | None:
    """The public features in front, as `tacit export` writes them."""
    # Indicators of discrete observations; or the bounds to which observations are scaled, (x - middle) * factor,
    # clipped to [-1, 1], and perhaps products of two.
    if not scaling:
        return None
    kinds = [kind for kind, _ in scaling]
    if kinds == ["Unsqueeze", "Equal"] and np.array_equal(scaling[1][1], np.arange(scaling[1][1].size)):
        return OneHot(scaling[1][1].size)
    if kinds[:3] != ["Sub", "Mul", "Clip"] or kinds[3:] not in ([], ["Concat"]) or scaling[2][1] != (-1.0, 1.0):
        raise _UnsupportedGraph("a graph with a scaling that is not tacit's")
    middle, half = scaling[0][1].astype(np.float64), 1.0 / scaling[1][1].astype(np.float64)
    low, high = tuple((middle - half).tolist()), tuple((middle + half).tolist())
    return Quadratic(low, high) if kinds[3:] else Scaled(low, high)
