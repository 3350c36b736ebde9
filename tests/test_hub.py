"""Releases on disk: the round trip, and every way in which a folder can be damaged, edited or lead elsewhere."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit import hub
from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import CertificateError, FileError
from tacit.hub import values
from tacit.methods.synthesis import Synthesizer, TableMatching, TransitionsPlan, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(
    Box((0.0, 0.0), (1.0, 1.0)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.1)
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[Synthesizer]:
    generator = np.random.default_rng(0)
    data = Trajectories.from_arrays(
        observations=generator.uniform(0.1, 0.9, (40, 2)),
        actions=generator.uniform(-0.9, 0.9, (40, 1)),
        rewards=generator.uniform(0.1, 0.9, 40),
        next_observations=generator.uniform(0.1, 0.9, (40, 2)),
        terminations=np.zeros(40, bool),
        unit_ids=":transition",
        spec=SPEC,
        simulated=True,
    )
    unit = Unit("person", "add_or_remove", 1_000)
    plan = TransitionsPlan(steps=2, sampling_rate=1.0, warmup=0, width=8, depth=1, noise_multiplier=4.0).account(
        unit=unit, delta=1e-5
    )
    path = tmp_path_factory.mktemp("hub") / "ledger"
    with Ledger(path, unit, epsilon=9.0, delta=1e-4, composition=SUM) as ledger:
        return fit(plan, Vault(data, ledger))


@pytest.fixture
def folder(release: Release[Synthesizer], tmp_path: Path) -> Path:
    hub.save(release, tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_release_comes_back(release: Release[Synthesizer], folder: Path) -> None:
    loaded = hub.load(folder)
    assert loaded.certificate == release.certificate
    assert loaded.value.plan == release.value.plan
    assert loaded.value.encoder == release.value.encoder
    assert all(torch.equal(loaded.value.weights[name], weight) for name, weight in release.value.weights.items())
    ours, theirs = release.value.sample_columns(5, seed=3), loaded.value.sample_columns(5, seed=3)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [hub.CARD, hub.CERTIFICATE, hub.CONFIG, hub.MANIFEST, hub.MODEL]
    )
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in folder.iterdir())


def test_the_card_states_the_promise(release: Release[Synthesizer], folder: Path) -> None:
    card = " ".join((folder / hub.CARD).read_text().split())
    assert release.certificate.sentence in card
    assert "evidence about any one person" in card


def test_a_taken_place_is_left_alone(release: Release[Synthesizer], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        hub.save(release, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_failed_save_leaves_nothing(
    release: Release[Synthesizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hub, "save_file", full)
    with pytest.raises(FileError, match="could not be written"):
        hub.save(release, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def resize(value: dict[str, object]) -> None:
    plan = value["plan"]
    assert isinstance(plan, dict)
    plan["width"] = 16


def rescale(value: dict[str, object]) -> None:
    encoder = value["encoder"]
    assert isinstance(encoder, dict)
    encoder["scale"] = [2 * size for size in encoder["scale"]]


@pytest.mark.parametrize("name", [hub.MODEL, hub.CONFIG, hub.CERTIFICATE])
@pytest.mark.parametrize("kept", [0, 0.5, None])
def test_a_missing_or_truncated_file_is_refused(folder: Path, name: str, kept: float | None) -> None:
    path = folder / name
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises((FileError, CertificateError), match=r"truncated|cannot be read"):
        hub.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (resize, "another plan"),
        (rescale, "edited"),
        (lambda value: value.update(kind="other"), "of the kind 'other', which this tacit does not have"),
        (lambda value: value.update(more=1), "of another kind"),
        (lambda value: value.pop("sha256"), "of another kind"),
        (lambda value: value.update(sha256="0" * 64), "edited"),
    ],
)
def test_an_edited_configuration_is_refused(
    folder: Path, change: Callable[[dict[str, object]], object], message: str
) -> None:
    edit(folder / hub.CONFIG, change)
    with pytest.raises((FileError, CertificateError), match=message):
        hub.load(folder)


def test_one_changed_bit_of_the_weights_is_refused(folder: Path) -> None:
    raw = bytearray((folder / hub.MODEL).read_bytes())
    raw[-1] ^= 1
    (folder / hub.MODEL).write_bytes(raw)
    with pytest.raises(FileError, match="edited"):
        hub.load(folder)


def test_an_edited_certificate_is_refused(folder: Path) -> None:
    edit(folder / hub.CERTIFICATE, lambda value: value.update(epsilon=0.1))
    with pytest.raises(CertificateError, match="'digest' is not that of the fields"):
        hub.load(folder)


def test_an_oversized_configuration_is_not_read(folder: Path) -> None:
    with (folder / hub.CONFIG).open("a") as file:
        file.write(" " * 1_000_001)
    with pytest.raises(FileError, match="of another kind"):
        hub.load(folder)


@pytest.mark.parametrize("name", [hub.MODEL, hub.CONFIG, hub.CERTIFICATE])
def test_a_link_to_elsewhere_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    with pytest.raises(FileError, match="missing, truncated"):
        hub.load(folder)


def test_released_histograms_come_back_and_those_of_another_plan_are_refused(release: Release[Synthesizer]) -> None:
    matching = TableMatching.of(SPEC, bins=4, coarse=4, pool=500)
    unit = Unit("person", "add_or_remove", 1_000)
    plan = replace(release.value.plan, matching=matching).account(unit=unit, delta=1e-5)
    histograms = np.full(sum(matching.sizes), 0.01)
    value = replace(release.value, plan=plan, histograms=histograms, sums=1)
    kind = values.KINDS["synthesis"]
    arrays = kind.pack(value)[1]
    config = {"plan": public_fields(plan), "encoder": value.encoder.to_json()}
    loaded = kind.unpack(config, arrays)
    assert loaded.histograms is not None
    np.testing.assert_array_equal(loaded.histograms, histograms)
    ours, theirs = value.sample_columns(20, seed=1), loaded.sample_columns(20, seed=1)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    with pytest.raises(ValueError, match="another plan"):
        kind.unpack(config, {**arrays, values.HISTOGRAMS: histograms[1:]})
    with pytest.raises(ValueError, match="another plan"):
        kind.unpack({**config, "plan": public_fields(release.value.plan)}, arrays)
