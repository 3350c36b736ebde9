"""Policies that experts taught in a folder: they come back as they were, with votes and prefixes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from safetensors.numpy import load_file, save_file

from tacit import hub
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError, PlanError
from tacit.hub.values import KINDS
from tacit.methods import experts
from tacit.methods.experts import LinearClone, ReturnWeight, ReturnWeighted, UniformAnchors, Votes
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.learned import LearnedPolicies, promise_scope
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.privacy.mechanisms.thresholds import KappaStop
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((-1.0, -1.0), (1.0, 1.0)), Discrete(3), Box((0.0,), (1.0,)), "declared")
FEATURES = Scaled((-1.0, -1.0), (1.0, 1.0))
POLICY = Policy(FEATURES, Mlp((2, 3), gain=0.0), Categorical(3))
UNIT = Unit("doctor", "add_or_remove", 100)
CLONE = LinearClone(features=FEATURES, actions=3)


def logs() -> Trajectories:
    """Forty doctors with one episode of five rows each."""
    rng, rows = np.random.default_rng(0), 200
    return Trajectories.from_arrays(
        observations=rng.uniform(-1, 1, (rows, 2)),
        actions=rng.integers(3, size=rows),
        rewards=rng.random(rows),
        next_observations=rng.uniform(-1, 1, (rows, 2)),
        terminations=np.arange(rows) % 5 == 4,
        unit_ids=np.arange(rows) // 5,
        spec=SPEC,
        simulated=True,
    )


def released(folder: Path, plan: Any) -> Release[LearnedPolicies]:
    ready = plan.calibrate(unit=UNIT, epsilon=4.0, delta=1e-3)
    with Ledger(folder / "ledger", UNIT, epsilon=4.0, delta=1e-3, composition=SUM) as ledger:
        return experts.fit(ready, Vault(logs(), ledger))


def votes() -> Votes:
    anchors = UniformAnchors(low=(-1.0, -1.0), high=(1.0, 1.0), count=20)
    return Votes(anchors=anchors, clone=CLONE, policy=POLICY, weight=ReturnWeight(low=0.0, high=5.0))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[LearnedPolicies]:
    return released(tmp_path_factory.mktemp("votes"), votes())


@pytest.fixture
def folder(release: Release[LearnedPolicies], tmp_path: Path) -> Path:
    hub.save(release, tmp_path / "policy", notes={"environment": "ward"})
    return tmp_path / "policy"


def test_votes_come_back(release: Release[LearnedPolicies], folder: Path) -> None:
    loaded = hub.load(folder)
    assert loaded.certificate == release.certificate
    assert isinstance(loaded.value, LearnedPolicies)
    assert (loaded.value.plan, loaded.value.policy) == (release.value.plan, release.value.policy)
    assert np.array_equal(loaded.value.theta, release.value.theta)
    ours, theirs = release.value.agreement, loaded.value.agreement
    assert ours is not None
    assert theirs is not None
    assert np.array_equal(ours.states, theirs.states)
    assert np.array_equal(ours.shares, theirs.shares)
    assert loaded.value.prefixes is None
    assert hub.notes(folder) == {"environment": "ward"}


def test_imitation_comes_back_without_votes(tmp_path: Path) -> None:
    plan = ReturnWeighted(policy=POLICY, weight=ReturnWeight(low=0.0, high=5.0), steps=3)
    release = released(tmp_path, plan)
    hub.save(release, tmp_path / "policy")
    loaded = hub.load(tmp_path / "policy").value
    assert loaded.plan == release.value.plan
    assert loaded.agreement is None
    assert np.array_equal(loaded.theta, release.value.theta)


def test_prefixes_come_back(release: Release[LearnedPolicies]) -> None:
    columns = {"actions": np.array([0, 2, 1]), "rewards": np.array([0.5, 1.0, 0.0], np.float32)}
    nothing = {name: column[:0] for name, column in columns.items()}
    kept = (Prefixes(columns, np.array([2, 0, 1])), Prefixes(nothing, np.array([0])))
    theta = np.repeat(release.value.theta, 2, axis=0)
    fields, weights = KINDS["experts"].pack(
        dataclasses.replace(release.value, theta=theta, agreement=None, prefixes=kept)
    )
    config = {"plan": release.certificate.to_json()["plan"], **fields}
    loaded = KINDS["experts"].unpack(config, weights).prefixes
    assert loaded is not None
    for ours, theirs in zip(kept, loaded, strict=True):
        assert np.array_equal(ours.lengths, theirs.lengths)
        assert set(ours.columns) == set(theirs.columns)
        assert all(np.array_equal(ours.columns[name], theirs.columns[name]) for name in columns)
    with pytest.raises(ValueError, match="columns that are not released"):
        KINDS["experts"].unpack(config, weights | {"prefixes.0.propensities": np.zeros(3)})
    told = Prefixes({**columns, "propensities": np.zeros(3)}, np.array([2, 0, 1]))
    with pytest.raises(PlanError, match="columns that are not released"):
        KINDS["experts"].pack(dataclasses.replace(release.value, prefixes=(told,)))
    with pytest.raises(ValueError, match="prefixes of other lengths"):
        KINDS["experts"].unpack(config, weights | {"prefixes.0.lengths": np.array([9])})


def test_the_card_says_what_is_protected(release: Release[LearnedPolicies], folder: Path) -> None:
    card = " ".join((folder / hub.CARD).read_text().split())
    assert release.certificate.sentence in card
    assert "What is protected: the log of every doctor" in card
    assert "evidence about any one doctor" in card


def test_prefixes_of_logs_protect_the_policies_alone() -> None:
    plan = Consensus(
        policy=POLICY,
        trajectories=2,
        horizon=5,
        experts=90,
        floor=KappaStop(0.1),
        stable_fraction=1.0,
        expected_batch_size=9,
    )
    plans = {clone: dataclasses.replace(plan, clone=clone) for clone in (None, CLONE)}
    ready = {clone: one.calibrate(unit=UNIT, epsilon=8.0, delta=1e-3) for clone, one in plans.items()}
    assert promise_scope(ready[None]) == "policies"
    assert promise_scope(ready[CLONE]) == "logs"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("theta", lambda array: array[:, :-1]),
        ("theta", lambda array: array * np.float32(np.nan)),
        ("theta", lambda array: array.astype(np.float64)),
        ("agreement.shares", lambda array: array[:, :3]),
        ("agreement.shares", lambda array: array * np.inf),
        ("stowaway", lambda _: np.zeros(3)),
    ],
)
def test_arrays_that_do_not_fit_are_refused_even_with_a_right_digest(
    folder: Path, name: str, change: Callable[[Any], np.ndarray]
) -> None:
    arrays = load_file(folder / hub.MODEL)
    with np.errstate(invalid="ignore"):
        arrays[name] = np.ascontiguousarray(change(arrays.get(name)))
    save_file(arrays, folder / hub.MODEL)
    config = json.loads((folder / hub.CONFIG).read_text())
    config["sha256"] = hub._digest(folder / hub.MODEL, config)
    (folder / hub.CONFIG).write_text(json.dumps(config))
    with pytest.raises(FileError, match="edited"):
        hub.load(folder)


def test_the_onnx_model_acts_the_same(release: Release[LearnedPolicies], tmp_path: Path) -> None:
    hub.to_onnx(release, tmp_path / "policy.onnx")
    seen = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    (greedy,) = onnxruntime.InferenceSession(tmp_path / "policy.onnx").run(["greedy"], {"observations": seen})
    assert np.array_equal(greedy, release.value.actor()(seen, np.zeros(50, np.int64), np.random.default_rng(0)))
    with pytest.raises(PlanError, match="no average"):
        hub.to_onnx(release, tmp_path / "other.onnx", average=True)
