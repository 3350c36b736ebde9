"""A folder of experts' own policies, one entry an expert: safetensors or ONNX files, or folders of released policies.

    0.safetensors    a state dict of linear layers (see `tacit.agents.policy_files`)
    1.onnx           the same as a graph
    2/               what `tacit.hub.save` wrote of a policy

All of them have one shape, and become one `Stacked`. Files are only read, never run.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tacit import plain_files
from tacit.agents import features as maps
from tacit.agents import policy_files
from tacit.agents.features import OneHot, Scaled
from tacit.agents.policy_files import EXPERT_FORMAT, SUFFIXES, Activation, FeedForward, file_error, read, require_safe
from tacit.agents.stacked import StackedPolicies
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import DataError, FileError, PlanError

Float32 = NDArray[np.float32]


def save(experts: StackedPolicies, folder: Path) -> None:
    """Write one safetensors file for each policy; the folder appears when it is complete (see `hub.save_experts`)."""
    plain_files.require_free(folder, "folder")
    width = len(str(experts.count - 1))
    features = json.dumps(asdict(experts.features))
    metadata = {"format": EXPERT_FORMAT, "activation": experts.activation, "features": features}
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
        what, expected = "the policies could not be written", "a writable folder with free space"
        raise FileError(what, where=str(folder), expected=expected, remedy="free some space and save again") from error
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
) -> StackedPolicies:
    """Read them (see `hub.load_experts`); `read_release` reads the folder of a released policy."""
    if not isinstance(spec.action, Discrete):
        what, expected = "the actions are continuous", "a spec of discrete actions, which experts can agree on"
        raise DataError(what, where=str(folder), expected=expected, remedy="cut the actions into a few public ranges")
    paths, digests = _entries(folder), dict[bytes, str]()
    first, stacked = None, list[tuple[Float32, Float32]]()
    for k, path in enumerate(paths):
        network = _with_features(_read_released(path, read_release) if path.is_dir() else read(path), spec, path)
        if first is None:
            first, count = network, len(paths)
            stacked = [
                (np.empty((count, *weight.shape), np.float32), np.empty((count, *bias.shape), np.float32))
                for weight, bias in network.layers
            ]
        if not _is_same_kind(network, first):
            expected = "networks of the same widths, activation and features"
            raise _policy_error(path, "is of another kind than those before", expected)
        earlier = digests.setdefault(network.digest(), path.name)
        if earlier != path.name:
            what, expected = f"it holds the same policy as {earlier}, number for number", "one policy for each expert"
            remedy = "keep one of them: an expert who is there twice would count as two, and be protected as neither"
            raise DataError(what, where=str(path), expected=expected, remedy=remedy)
        for (weights, biases), (weight, bias) in zip(stacked, network.layers, strict=True):
            weights[k], biases[k] = weight, bias
    assert first is not None
    features = first.features or maps.default_features(spec.observation)
    return StackedPolicies(features, first.sizes, tuple(stacked), floor, first.activation or activation, least)


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        what, remedy = "this is a file" if folder.exists() else "there is no such folder", "check the path"
        raise FileError(what, where=str(folder), expected="a folder with one policy for each expert", remedy=remedy)
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise file_error(folder, f"a folder that cannot be read ({error.strerror})", "mend its permissions") from None
    entries = []
    for path in (folder / name for name in sorted(names, key=policy_files.natural_sort_key)):
        if path.name.startswith(".") or path.suffix.lower() == ".md":
            continue
        if not plain_files.is_inside(folder, path.name):
            raise file_error(path, "a link to outside the folder", "copy the file into the folder")
        require_safe(path)
        known = plain_files.is_plain_file(path) and path.suffix.lower() in SUFFIXES
        if not os.path.isdir(path) and (not known or plain_files.is_sparse_file(path)):
            raise file_error(path, "of a kind that holds no policy", "remove it, or move it elsewhere")
        entries.append(path)
    if not entries:
        what, expected = "there is no policy in this folder", "one .safetensors or .onnx file for each expert"
        raise FileError(what, where=str(folder), expected=expected, remedy="check the path")
    return entries


def _read_released(path: Path, read_release: Callable[[Path], Any]) -> FeedForward:
    """The policy of a folder of `hub.save`; what its certificate promises to others does not matter here."""
    value = read_release(path)
    try:
        network: FeedForward = value.feed_forward()
    except (AttributeError, PlanError):
        raise file_error(path, "no released policy over discrete actions", "save one policy for each expert") from None
    return network


def _with_features(network: FeedForward, spec: PublicSpec, path: Path) -> FeedForward:
    """The network with features in front of it: its own, or the spec's bounds."""
    assert isinstance(spec.action, Discrete)
    if not all(np.isfinite(part).all() for layer in network.layers for part in layer):
        raise _policy_error(path, "has weights that are not finite", "finite numbers")
    if network.sizes[-1] != spec.action.n:
        raise _policy_error(path, f"has {network.sizes[-1]} outputs", f"{spec.action.n}, one for each action")
    space, features = spec.observation, network.features
    if features is not None:
        if not maps.is_compatible(features, space) or network.sizes[0] != features.size:
            raise _policy_error(path, "was made for other observations", f"observations of size {space.size}")
        return network
    if network.sizes[0] != space.size:
        raise _policy_error(path, f"takes {network.sizes[0]} numbers", f"{space.size}, as an observation has")
    return network if isinstance(space, Discrete) else _absorb_scaling(network, Scaled(space.low, space.high))


def _is_same_kind(network: FeedForward, other: FeedForward) -> bool:
    """Whether two networks can be stacked; bounds that went through float32 may differ by its rounding."""
    if (network.sizes, network.activation) != (other.sizes, other.activation):
        return False
    ours, theirs = network.features, other.features
    if ours is None or theirs is None or isinstance(ours, OneHot) or isinstance(theirs, OneHot):
        return ours == theirs
    bounds = [ours.low, ours.high], [theirs.low, theirs.high]
    return ours.kind == theirs.kind and bool(np.allclose(*bounds, rtol=1e-5, atol=1e-6))


def _absorb_scaling(network: FeedForward, features: Scaled) -> FeedForward:
    """A network of raw observations as one of observations scaled to their public bounds: W x + b = W' x' + b'."""
    low, high = np.asarray(features.low), np.asarray(features.high)
    weight, bias = (part.astype(np.float64) for part in network.layers[0])
    moved = ((high - low) / 2)[:, None] * weight, bias + (low + high) / 2 @ weight
    first = (moved[0].astype(np.float32), moved[1].astype(np.float32))
    return FeedForward((first, *network.layers[1:]), network.activation, features)


def _policy_error(path: Path, what: str, expected: str) -> DataError:
    remedy = "give all experts one kind of network, for these observations and actions"
    return DataError(f"the policy {what}", where=str(path), expected=expected, remedy=remedy)
