"""A folder of experts' own policies, one entry an expert: safetensors or ONNX files, or folders of released policies.

    0.safetensors    a state dict of linear layers, NAME.weight [out, in] and NAME.bias [out], numbered in their order;
                     outputs are values of the actions. `save` adds activation and features to the metadata; without
                     them the network takes raw observations
    1.onnx           the same as a graph: MatMul and Add, or Gemm, with Relu or Tanh between them and perhaps a Softmax
                     behind; `tacit export` writes such graphs
    2/               what `tacit.hub.save` wrote of a policy

All of them have one shape, and become one `Stacked`. Files are only read, never run: a pickle is refused by its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from tacit import plain_files
from tacit.agents import features as maps
from tacit.agents.features import Features, OneHot, Scaled
from tacit.agents.stacked import Stacked
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import DataError, FileError
from tacit.serialization import read

Float32 = NDArray[np.float32]
Activation = Literal["relu", "tanh"]

_PICKLES = frozenset({".pt", ".pth", ".bin", ".pkl", ".pickle", ".joblib", ".zip", ".ckpt", ".npy", ".npz"})
_LARGEST = 2**30
"""Bytes of one file."""
_SAVED = "tacit.expert"
_IGNORED = ("Identity", "Flatten", "Dropout", "Cast")
_LAST = ("Softmax", "LogSoftmax", "ArgMax")
_ACTIVATIONS: Mapping[str, Activation] = {"Relu": "relu", "Tanh": "tanh"}


@dataclass(frozen=True)
class Network:
    """One expert's layers, and what is said about them.

    Attributes:
        layers: (weight [in, out], bias [out]) of each.
        activation: between them; None where the file does not say, or has one layer.
        features: what the first layer takes; None for raw observations.
    """

    layers: tuple[tuple[Float32, Float32], ...]
    activation: Activation | None
    features: Features | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs."""
        return (len(self.layers[0][0]), *(len(bias) for _, bias in self.layers))

    def digest(self) -> bytes:
        """Of all numbers, to find two experts that are one."""
        digest = hashlib.sha256(repr((self.sizes, self.activation)).encode())
        for weight, bias in self.layers:
            digest.update(np.ascontiguousarray(weight).tobytes())
            digest.update(np.ascontiguousarray(bias).tobytes())
        return digest.digest()


def save(experts: Stacked, folder: Path) -> None:
    """Write one safetensors file for each policy; the folder appears when it is complete (see `hub.save_experts`)."""
    if os.path.lexists(folder):
        raise FileError(
            "the folder exists already",
            where=str(folder),
            expected="a name that is still free",
            remedy="choose another folder or remove this one",
        )
    width = len(str(experts.count - 1))
    metadata = {"format": _SAVED, "activation": experts.activation, "features": json.dumps(asdict(experts.features))}
    partial = folder.with_name(f".{folder.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        for k in range(experts.count):
            tensors: dict[str, Float32] = {}
            for i, (weight, bias) in enumerate(experts.weights):
                tensors[f"{i}.weight"] = np.ascontiguousarray(weight[k].T)
                tensors[f"{i}.bias"] = np.ascontiguousarray(bias[k])
            save_file(tensors, partial / f"{k:0{width}}.safetensors", metadata=metadata)
        os.rename(partial, folder)
    except OSError as error:
        raise FileError(
            "the policies could not be written",
            where=str(folder),
            expected="a writable folder with free space",
            remedy="free some space and save again",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load(
    folder: Path,
    spec: PublicSpec,
    read_release: Callable[[Path], Any],
    *,
    activation: Activation,
    floor: float,
    least: float,
) -> Stacked:
    """Read them (see `hub.load_experts`); `read_release` reads the folder of a released policy."""
    if not isinstance(spec.action, Discrete):
        raise DataError(
            "the actions are continuous",
            where=str(folder),
            expected="a spec of discrete actions, which experts can agree on",
            remedy="cut the actions into a few public ranges",
        )
    paths, seen = _entries(folder), dict[bytes, str]()
    first, stacked = None, list[tuple[Float32, Float32]]()
    for k, path in enumerate(paths):
        network = _fitted(_read(path, read_release), spec, path)
        if first is None:
            first, count = network, len(paths)
            stacked = [
                (np.empty((count, *weight.shape), np.float32), np.empty((count, *bias.shape), np.float32))
                for weight, bias in network.layers
            ]
        if not _one_kind(network, first):
            expected = "networks of the same widths, activation and features"
            raise _unlike(path, "is of another kind than those before", expected)
        earlier = seen.setdefault(network.digest(), path.name)
        if earlier != path.name:
            raise DataError(
                f"it holds the same policy as {earlier}, number for number",
                where=str(path),
                expected="one policy for each expert",
                remedy="keep one of them: an expert who is there twice would count as two, and be protected as neither",
            )
        for (weights, biases), (weight, bias) in zip(stacked, network.layers, strict=True):
            weights[k], biases[k] = weight, bias
    assert first is not None
    features = first.features or maps.default(spec.observation)
    return Stacked(features, first.sizes, tuple(stacked), floor, first.activation or activation, least)


def _entries(folder: Path) -> list[Path]:
    """The experts of a folder, 9 before 10."""
    if not folder.is_dir():
        raise FileError(
            "this is a file" if folder.exists() else "there is no such folder",
            where=str(folder),
            expected="a folder with one policy for each expert",
            remedy="check the path",
        )
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise _bad(folder, f"a folder that cannot be read ({error.strerror})", "mend its permissions") from None
    entries = []
    for path in (folder / name for name in sorted(names, key=_natural)):
        if path.name.startswith(".") or path.suffix.lower() == ".md":
            continue
        if not plain_files.inside(folder, path.name):
            raise _bad(path, "a link to outside the folder", "copy the file into the folder")
        if path.suffix.lower() in _PICKLES:
            raise _bad(path, "of a kind that can run code when it is read", "save its state dict as safetensors")
        known = plain_files.plain(path) and path.suffix.lower() in (".safetensors", ".onnx")
        if not os.path.isdir(path) and (not known or plain_files.hollow(path)):
            raise _bad(path, "of a kind that holds no policy", "remove it, or move it elsewhere")
        entries.append(path)
    if not entries:
        raise FileError(
            "there is no policy in this folder",
            where=str(folder),
            expected="one .safetensors or .onnx file for each expert",
            remedy="check the path",
        )
    return entries


def _read(path: Path, read_release: Callable[[Path], Any]) -> Network:
    if path.is_dir():
        return _released(path, read_release)
    if path.stat().st_size > _LARGEST:
        raise _bad(path, "too large for a policy", "check what it is")
    if path.suffix.lower() == ".onnx":
        return _onnx(path)
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
            metadata = file.metadata() or {}
        layers = _layers(tensors)
        if metadata.get("format") != _SAVED:
            return Network(layers, None, None)
        saved = read(maps.Features, json.loads(metadata["features"]))
        return Network(layers, "relu" if metadata["activation"] == "relu" else "tanh", saved)
    except Exception:  # whatever a hostile file leads to: no list of it would be whole
        remedy = "save the state dict of a torch.nn.Sequential of Linear layers, or export the policy to ONNX"
        raise _bad(path, "damaged, or no state dict of numbered linear layers", remedy) from None


def _layers(tensors: dict[str, NDArray[np.generic]]) -> tuple[tuple[Float32, Float32], ...]:
    names = sorted((name.removesuffix(".weight") for name in tensors if name.endswith(".weight")), key=_natural)
    numbered = len(names) == 1 or all(re.search(r"\d", name) for name in names)
    if not names or not numbered or set(tensors) != {f"{name}.{part}" for name in names for part in ("weight", "bias")}:
        raise ValueError("no numbered linear layers")
    layers = tuple(
        (np.asarray(tensors[f"{name}.weight"], np.float32).T, np.asarray(tensors[f"{name}.bias"], np.float32))
        for name in names
    )
    require_chain(layers)
    return layers


def require_chain(layers: tuple[tuple[Float32, Float32], ...]) -> None:
    """Refuse layers that do not fit one another.

    Raises:
        ValueError: a weight is no matrix, a bias no vector of its width, or a layer does not take what comes before.
    """
    width = len(layers[0][0]) if layers and layers[0][0].ndim == 2 else -1
    for weight, bias in layers:
        if weight.ndim != 2 or len(weight) != width or bias.shape != weight.shape[1:]:
            raise ValueError("layers that do not fit one another")
        width = len(bias)


def _released(path: Path, read_release: Callable[[Path], Any]) -> Network:
    """The policy of a folder of `hub.save`; what its certificate promises to others does not matter here."""
    value = read_release(path)
    kind = type(value).__module__.split(".")
    policy = getattr(value, "policy", None)
    if policy is None or value.replicates != 1 or policy.to_json()["head"]["kind"] != "categorical":
        raise _bad(path, "no released policy over discrete actions", "save one policy for each expert")
    theta = value.theta if "experts" in kind else value.last
    layers = tuple((layer[:-1], layer[-1]) for layer in policy.network.layers(theta[0]))
    return Network(layers, "tanh" if len(layers) > 1 else None, policy.features)


def _fitted(network: Network, spec: PublicSpec, path: Path) -> Network:
    """The network with features in front of it: its own, or the spec's bounds."""
    assert isinstance(spec.action, Discrete)
    if not all(np.isfinite(part).all() for layer in network.layers for part in layer):
        raise _unlike(path, "has weights that are not finite", "finite numbers")
    if network.sizes[-1] != spec.action.n:
        raise _unlike(path, f"has {network.sizes[-1]} outputs", f"{spec.action.n}, one for each action")
    space, features = spec.observation, network.features
    if features is not None:
        if not maps.fits(features, space) or network.sizes[0] != features.size:
            raise _unlike(path, "was made for other observations", f"observations of size {space.size}")
        return network
    if network.sizes[0] != space.size:
        raise _unlike(path, f"takes {network.sizes[0]} numbers", f"{space.size}, as an observation has")
    return network if isinstance(space, Discrete) else _moved(network, Scaled(space.low, space.high))


def _one_kind(network: Network, other: Network) -> bool:
    """Whether two networks can be stacked; bounds that went through float32 may differ by its rounding."""
    if (network.sizes, network.activation) != (other.sizes, other.activation):
        return False
    ours, theirs = network.features, other.features
    if ours is None or theirs is None or isinstance(ours, OneHot) or isinstance(theirs, OneHot):
        return ours == theirs
    bounds = [ours.low, ours.high], [theirs.low, theirs.high]
    return ours.kind == theirs.kind and bool(np.allclose(*bounds, rtol=1e-5, atol=1e-6))


def _moved(network: Network, features: Scaled) -> Network:
    """A network of raw observations as one of observations scaled to their public bounds: W x + b = W' x' + b'."""
    low, high = np.asarray(features.low), np.asarray(features.high)
    weight, bias = (part.astype(np.float64) for part in network.layers[0])
    moved = ((high - low) / 2)[:, None] * weight, bias + (low + high) / 2 @ weight
    first = (moved[0].astype(np.float32), moved[1].astype(np.float32))
    return Network((first, *network.layers[1:]), network.activation, features)


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def _bad(path: Path, what: str, remedy: str) -> FileError:
    expected = "a .safetensors or .onnx file, or the folder of a released policy"
    return FileError(f"it is {what}", where=str(path), expected=expected, remedy=remedy)


def _unlike(path: Path, what: str, expected: str) -> DataError:
    remedy = "give all experts one kind of network, for these observations and actions"
    return DataError(f"the policy {what}", where=str(path), expected=expected, remedy=remedy)


def _onnx(path: Path) -> Network:
    """The layers of a graph with one input: MatMul and Add, or Gemm, Relu or Tanh between them, Softmax behind.

    The scaling to public bounds that `tacit export` writes in front (Sub, Mul, Clip) becomes the network's features.

    Raises:
        FileError: the file is damaged, its numbers lie in other files, or the graph is of another kind.
    """
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
        return _Reader(model.graph).network()
    except Exception as error:  # whatever a hostile graph leads to: no list of it would be whole
        reason = str(error) if isinstance(error, _Unknown) else "damaged, or no multi-layer perceptron"
        raise FileError(
            f"it is {reason}",
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
        chain = tuple(layers)
        require_chain(chain)
        return Network(chain, between[0] if between else None, _scaling(front))

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
        from onnx import TensorProto, numpy_helper

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
