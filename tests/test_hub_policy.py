"""Released policies in a folder: they come back as they were, and nothing edited passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from tacit import hub
from tacit.envs.serving import SimulatedUsers
from tacit.errors import FileError, PlanError
from tacit.methods.policy_gradient import Policy, PolicyGradientPlan, TrainedPolicies, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit
from tacit_worlds import cart_pole

UNIT = Unit("person", "add_or_remove", 100)
NOTES = {"environment": "CartPole-v1", "repeat": 1}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[TrainedPolicies]:
    folder = tmp_path_factory.mktemp("policy")
    (folder / "run").mkdir()
    plan = PolicyGradientPlan(rounds=4, users=3, horizon=12, reward_rate=1.0).calibrate(
        unit=UNIT, epsilon=4.0, delta=1e-4
    )
    users = SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), horizon=12, seed=0)
    with (
        Ledger(folder / "run" / "ledger", UNIT, epsilon=4.0, delta=1e-4, composition=SUM) as ledger,
        Register(folder / "run" / "register", key=folder / "key") as register,
    ):
        return fit(plan, UserVault(users, ledger, register), Policy.default(users.spec, (8,)))


@pytest.fixture
def folder(release: Release[TrainedPolicies], tmp_path: Path) -> Path:
    hub.save(release, tmp_path / "policy", notes=NOTES)
    return tmp_path / "policy"


def test_a_saved_policy_comes_back(release: Release[TrainedPolicies], folder: Path) -> None:
    loaded = hub.load(folder)
    assert loaded.certificate == release.certificate
    assert isinstance(loaded.value, TrainedPolicies)
    assert (loaded.value.plan, loaded.value.policy) == (release.value.plan, release.value.policy)
    for name in ("last", "average", "norms", "iterates", "people"):
        ours, theirs = getattr(release.value, name), getattr(loaded.value, name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs), name
    assert hub.notes(folder) == NOTES
    seen = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    for average in (False, True):
        ours, theirs = (
            value.actor(average=average)(seen, np.zeros(6, np.int64), np.random.default_rng(1))
            for value in (release.value, loaded.value)
        )
        assert np.array_equal(ours, theirs)


def test_the_card_says_how_to_play_and_what_was_promised(release: Release[TrainedPolicies], folder: Path) -> None:
    card = (folder / hub.CARD).read_text()
    assert release.certificate.sentence in card
    assert "tacit play ." in card
    assert "evidence about any one person" in " ".join(card.split())


def test_a_release_without_notes_has_none(release: Release[TrainedPolicies], tmp_path: Path) -> None:
    hub.save(release, tmp_path / "plain")
    assert hub.notes(tmp_path / "plain") == {}


def widen(config: dict[str, object]) -> None:
    config["policy"]["network"]["sizes"] = [4, 9, 2]  # type: ignore[index]


def rename(config: dict[str, object]) -> None:
    config["notes"]["environment"] = "Acrobot-v1"  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (widen, "edited"),
        (rename, "edited"),
        (lambda config: config.update(kind="synthesis"), "of another kind"),
        (lambda config: config.update(notes=3), "of another kind"),
        (lambda config: config["plan"].update(epsilon=0.1), "another plan"),
    ],
)
def test_an_edited_configuration_is_refused(
    folder: Path, change: Callable[[dict[str, object]], object], message: str
) -> None:
    config = json.loads((folder / hub.CONFIG).read_text())
    change(config)
    (folder / hub.CONFIG).write_text(json.dumps(config))
    with pytest.raises(Exception, match=message) as caught:
        hub.load(folder)
    assert type(caught.value).__module__ == "tacit.errors"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("last", lambda array: array[:, :-1]),
        ("last", lambda array: np.concatenate([array, array])),
        ("average", lambda array: array * np.float32(np.nan)),
        ("people", lambda array: array.astype(np.int32)),
        ("norms", lambda array: array[:2]),
    ],
)
def test_parameters_that_do_not_fit_are_refused_even_with_a_right_digest(
    folder: Path, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    arrays = load_file(folder / hub.MODEL)
    save_file(arrays | {name: np.ascontiguousarray(change(arrays[name]))}, folder / hub.MODEL)
    config = json.loads((folder / hub.CONFIG).read_text())
    config["sha256"] = hub._digest(folder / hub.MODEL, config)
    (folder / hub.CONFIG).write_text(json.dumps(config))
    with pytest.raises(FileError, match="edited or of another kind"):
        hub.load(folder)


def test_a_policy_becomes_an_onnx_model_with_its_promise(release: Release[TrainedPolicies], tmp_path: Path) -> None:
    for average in (False, True):
        hub.to_onnx(release, tmp_path / f"{average}.onnx", average=average)
    told = {entry.key: entry.value for entry in onnx.load(tmp_path / "True.onnx").metadata_props}
    assert told["promise"] == release.certificate.sentence
    assert (tmp_path / "True.onnx").read_bytes() != (tmp_path / "False.onnx").read_bytes()


def test_only_one_policy_becomes_an_onnx_model(release: Release[TrainedPolicies], tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="the release of one policy"):
        hub.to_onnx(Release("text", release.certificate), tmp_path / "policy.onnx")


def test_a_value_of_neither_kind_has_no_folder(release: Release[TrainedPolicies], tmp_path: Path) -> None:
    with pytest.raises(FileError, match="a value of type str has no folder"):
        hub.save(Release("text", release.certificate), tmp_path / "text")
    assert list(tmp_path.iterdir()) == []
