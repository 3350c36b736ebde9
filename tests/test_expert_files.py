"""A folder of experts' own policies: state dicts, ONNX graphs and released policies become one stack, or a sentence."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

from tacit import hub
from tacit.agents.features import OneHot, Scaled
from tacit.agents.stacked import StackedPolicies
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError, FileError, TacitError
from test_hub_experts import FEATURES, SPEC, released, votes


def stacked(count: int = 5, sizes: tuple[int, ...] = (2, 4, 3), activation: Any = "tanh") -> StackedPolicies:
    rng = np.random.default_rng(1)
    layers = [(rng.normal(size=(count, a, b)), rng.normal(size=(count, b))) for a, b in itertools.pairwise(sizes)]
    weights = tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers)
    return StackedPolicies(FEATURES, sizes, weights, activation=activation)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_saved_policies_come_back(tmp_path: Path, activation: str) -> None:
    ours = stacked(12, activation=activation)
    hub.save_experts(ours, tmp_path / "experts")
    assert sorted(path.name for path in (tmp_path / "experts").iterdir())[:3] == [
        *("00.safetensors", "01.safetensors", "02.safetensors"),
    ]
    theirs = hub.load_experts(tmp_path / "experts", SPEC, floor=0.1)
    assert (theirs.sizes, theirs.activation, theirs.floor) == (ours.sizes, activation, 0.1)
    for (w, b), (v, c) in zip(ours.weights, theirs.weights, strict=True):
        assert np.array_equal(w, v)
        assert np.array_equal(b, c)
    with pytest.raises(FileError, match="exists already"):
        hub.save_experts(ours, tmp_path / "experts")


def write(folder: Path, name: str, *, scale: float = 1.0, sizes: tuple[int, ...] = (2, 4, 3)) -> Path:
    """A state dict as PyTorch's Sequential has it, of raw observations."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng([*name.encode()])
    tensors: dict[str, np.ndarray] = {}
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        tensors[f"{2 * i}.weight"] = (scale * rng.normal(size=(b, a))).astype(np.float32)
        tensors[f"{2 * i}.bias"] = rng.normal(size=b).astype(np.float32)
    save_file(tensors, folder / name)
    return folder / name


def test_networks_of_raw_observations_act_the_same_behind_scaled_ones(tmp_path: Path) -> None:
    for name in ("2.safetensors", "10.safetensors"):
        write(tmp_path / "experts", name)
    read = hub.load_experts(tmp_path / "experts", spaced((-4.0, 0.0), (2.0, 1.0)))
    seen = np.random.default_rng(2).uniform((-4, 0), (2, 1), (64, 2)).astype(np.float32)
    for k, name in enumerate(("2.safetensors", "10.safetensors")):  # 2 before 10
        layers = load_file(tmp_path / "experts" / name)
        hidden = np.maximum(seen @ layers["0.weight"].T + layers["0.bias"], 0)
        outputs = hidden @ layers["2.weight"].T + layers["2.bias"]
        clear = np.diff(np.sort(outputs, axis=1))[:, -1] > 1e-4
        assert clear.sum() > 50
        assert np.array_equal(read.greedy(seen)[k][clear], outputs.argmax(axis=1)[clear])


def test_exported_graphs_and_released_policies_are_experts_too(tmp_path: Path) -> None:
    release = released(tmp_path, votes())
    folder = tmp_path / "experts"
    folder.mkdir()
    hub.to_onnx(release, folder / "0.onnx")
    other = dataclasses.replace(release, value=dataclasses.replace(release.value, theta=-release.value.theta))
    hub.save(other, folder / "1")
    read = hub.load_experts(folder, SPEC)
    seen = np.random.default_rng(3).uniform(-1, 1, (40, 2)).astype(np.float32)
    at, rng = np.zeros(40, np.int64), np.random.default_rng(0)
    for k, value in enumerate((release.value, other.value)):
        assert np.array_equal(read.greedy(seen)[k], value.actor()(seen, at, rng))


def graph(path: Path, nodes: list[Any], constants: dict[str, Any], inputs: tuple[str, ...] = ("x",)) -> Path:
    """An ONNX file with these nodes; not checked, as a stranger's would not be."""
    path.parent.mkdir(exist_ok=True)
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2]) for name in inputs]
    leaving = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, ["N", 3])]
    kept = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "policy", entries, leaving, kept)), path)
    return path


W, B, V, C = (
    np.arange(8.0).reshape(2, 4) / 8,
    np.array([0.1, -0.2, 0.3, 0]),
    np.arange(12.0).reshape(4, 3) / 12,
    [0, 1, 2],
)
CONSTANTS = {"w": W, "b": B, "v": V, "c": C, "wt": W.T, "one": np.ones(2)}


def node(kind: str, *inputs: str, out: str, **options: Any) -> Any:
    return helper.make_node(kind, list(inputs), [out], **options)


@pytest.mark.parametrize("kind", ["Relu", "Tanh"])
def test_a_graph_as_pytorch_writes_it_is_read(tmp_path: Path, kind: str) -> None:
    nodes = [
        node("Flatten", "x", out="f"),
        node("Gemm", "f", "wt", "b", out="h", transB=1),
        node(kind, "h", out="a"),
        node("MatMul", "a", "v", out="m"),
        node("Add", "c", "m", out="o"),
        node("Softmax", "o", out="p"),
    ]
    graph(tmp_path / "experts" / "0.onnx", nodes, CONSTANTS)
    read = hub.load_experts(tmp_path / "experts", SPEC)
    assert (read.sizes, read.activation) == ((2, 4, 3), kind.lower())
    for (w, b), (v, c) in zip(read.weights, ((W, B), (V, C)), strict=True):
        np.testing.assert_allclose(w[0], v, rtol=1e-6)
        np.testing.assert_allclose(b[0], c, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Loop", "x", out="o")], "a graph with the operator Loop"),
        ([node("MatMul", "x", "w", out="h"), node("MatMul", "h", "v", out="o")], "without an activation between"),
        ([node("Relu", "x", out="h"), node("MatMul", "h", "w", out="o")], "an activation in front"),
        ([node("MatMul", "x", "w", out="h"), node("Relu", "h", out="o")], "with one behind the last layer"),
        (
            [
                *(node("MatMul", "x", "w", out="h"), node("Relu", "h", out="r"), node("Tanh", "h", out="t")),
                node("Add", "r", "t", out="o"),
            ],
            "a graph that branches",
        ),
        ([node("Gemm", "x", "w", out="o", alpha=2.0)], "a Gemm with factors"),
        ([node("Mul", "x", "one", out="h"), node("MatMul", "h", "w", out="o")], "a scaling that is not tacit's"),
        ([node("MatMul", "x", "lost", out="o")], "no multi-layer perceptron"),
        ([node("MatMul", "x", "v", out="o"), node("Add", "o", "b", out="p")], "no multi-layer perceptron"),
    ],
)
def test_other_graphs_are_named(tmp_path: Path, nodes: list[Any], message: str) -> None:
    graph(tmp_path / "experts" / "0.onnx", nodes, CONSTANTS)
    with pytest.raises(FileError, match=message):
        hub.load_experts(tmp_path / "experts", SPEC)


def test_a_graph_of_two_inputs_or_with_its_numbers_elsewhere_is_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x", "w", out="o")]
    path = graph(tmp_path / "experts" / "0.onnx", nodes, CONSTANTS, inputs=("x", "y"))
    with pytest.raises(FileError, match="several inputs"):
        hub.load_experts(tmp_path / "experts", SPEC)
    model = onnx.load(graph(path, nodes, CONSTANTS))
    for tensor in model.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../../secret")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileError, match="numbers lie in other files"):
        hub.load_experts(tmp_path / "experts", SPEC)
    path.write_bytes(b"no graph at all")
    with pytest.raises(FileError, match="damaged"):
        hub.load_experts(tmp_path / "experts", SPEC)


def wrong(folder: Path, second: str) -> Path:
    """A sound expert, 0.safetensors, and one that is not."""
    write(folder, "0.safetensors")
    match second:
        case "wider":
            write(folder, "1.safetensors", sizes=(2, 5, 3))
        case "same":
            (folder / "1.safetensors").write_bytes((folder / "0.safetensors").read_bytes())
        case "infinite":
            write(folder, "1.safetensors", scale=np.inf)
        case "truncated":
            (folder / "1.safetensors").write_bytes((folder / "0.safetensors").read_bytes()[:-9])
        case "unnumbered":
            tensors = load_file(write(folder, "1.safetensors"))
            names = {"0.weight": "in.weight", "0.bias": "in.bias", "2.weight": "out.weight", "2.bias": "out.bias"}
            save_file({names[name]: part for name, part in tensors.items()}, folder / "1.safetensors")
        case "encoder":
            tensors = load_file(write(folder, "1.safetensors"))
            save_file({**tensors, "encoder": np.zeros((3, 2, 2), np.float32)}, folder / "1.safetensors")
        case "pickle":
            (folder / "1.pt").write_bytes(pickle.dumps(0))
        case "notes":
            (folder / "1.csv").write_text("a,b")
        case "link":
            (folder.parent / "far.safetensors").write_bytes((folder / "0.safetensors").read_bytes())
            (folder / "1.safetensors").symlink_to(folder.parent / "far.safetensors")
        case "folder":
            (folder / "1").mkdir()
        case "features":
            hub.save_experts(dataclasses.replace(stacked(), features=Scaled((-2.0, -1.0), (1.0, 1.0))), folder / "more")
            (folder / "more" / "0.safetensors").rename(folder / "1.safetensors")
            for path in (folder / "more").iterdir():
                path.unlink()
            (folder / "more").rmdir()
    return folder


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("wider", "1.safetensors: the policy is of another kind than those before"),
        ("same", "1.safetensors: it holds the same policy as 0.safetensors, number for number"),
        ("infinite", "1.safetensors: the policy has weights that are not finite"),
        ("truncated", "1.safetensors: it is damaged, or no state dict of numbered linear layers"),
        ("unnumbered", "1.safetensors: it is damaged, or no state dict of numbered linear layers"),
        ("encoder", "1.safetensors: it is damaged, or no state dict of numbered linear layers"),
        ("pickle", "1.pt: it is of a kind that can run code when it is read"),
        ("notes", "1.csv: it is of a kind that holds no policy"),
        ("link", "1.safetensors: it is a link to outside the folder"),
        ("folder", "model.safetensors: the file is missing"),
        ("features", "1.safetensors: the policy is of another kind than those before"),
    ],
)
def test_what_is_wrong_with_an_expert_is_told(tmp_path: Path, second: str, message: str) -> None:
    with pytest.raises(TacitError, match=message):
        hub.load_experts(wrong(tmp_path / "experts", second), SPEC)


def test_readme_and_hidden_files_are_no_experts(tmp_path: Path) -> None:
    write(tmp_path / "experts", "0.safetensors")
    (tmp_path / "experts" / "README.md").write_text("who they are")
    (tmp_path / "experts" / ".DS_Store").write_text("")
    assert hub.load_experts(tmp_path / "experts", SPEC).count == 1


def spaced(low: tuple[float, ...], high: tuple[float, ...]) -> PublicSpec:
    return dataclasses.replace(SPEC, observation=Box(low, high))


def test_policies_of_another_world_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "experts", "0.safetensors")
    with pytest.raises(DataError, match="takes 2 numbers; expected 1, as an observation has"):
        hub.load_experts(tmp_path / "experts", spaced((-1.0,), (1.0,)))
    with pytest.raises(DataError, match="has 3 outputs; expected 2, one for each action"):
        hub.load_experts(tmp_path / "experts", dataclasses.replace(SPEC, action=Discrete(2)))
    with pytest.raises(DataError, match="the actions are continuous"):
        hub.load_experts(tmp_path / "experts", dataclasses.replace(SPEC, action=Box((0.0,), (1.0,))))
    read = hub.load_experts(tmp_path / "experts", dataclasses.replace(SPEC, observation=Discrete(2)))
    assert (read.sizes, read.features) == ((2, 4, 3), OneHot(2))
    hub.save_experts(stacked(), tmp_path / "saved")
    with pytest.raises(DataError, match="was made for other observations"):
        hub.load_experts(tmp_path / "saved", spaced((-1.0,), (1.0,)))


def test_a_folder_without_policies_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    told = {"empty": "there is no policy in this folder", "file": "this is a file", "none": "there is no such folder"}
    for name, message in told.items():
        with pytest.raises(FileError, match=message):
            hub.load_experts(tmp_path / name, SPEC)
