"""Released baselines on disk: what was saved comes back, and numbers that do not fit are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tacit import hub
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError
from tacit.hub.manifest import MANIFEST
from tacit.methods.synthesis.baselines import pate_gan, privsyn
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
UNIT = Unit("person", "add_or_remove", 1_000)


def fitted(method: str, folder: Path) -> Release[Any]:
    generator = np.random.default_rng(0)
    data = Trajectories.from_arrays(
        observations=generator.uniform(0.1, 0.9, (60, 1)),
        actions=generator.integers(0, 2, 60),
        rewards=generator.uniform(0.1, 0.9, 60),
        next_observations=generator.uniform(0.1, 0.9, (60, 1)),
        terminations=np.zeros(60, bool),
        unit_ids=":transition",
        spec=SPEC,
        simulated=True,
    )
    if method == "privsyn":
        module: Any = privsyn
        plan: Any = privsyn.PrivSynPlan(discretisation=Discretisation(SPEC, bins=4))
    else:
        module = pate_gan
        plan = pate_gan.PateGanPlan(steps=2, teachers=2, hold=0, width=8, student_width=8, queries=4, opponents=8)
    plan = plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-5)
    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=1e-5, composition=SUM) as ledger:
        release: Release[Any] = module.fit(plan, Vault(data, ledger))
        return release


@pytest.fixture(scope="module", params=["privsyn", "pate-gan"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release[Any]:
    return fitted(request.param, tmp_path_factory.mktemp("hub"))


def test_a_saved_baseline_comes_back(release: Release[Any], tmp_path: Path) -> None:
    hub.save(release, tmp_path / "model")
    loaded = hub.load(tmp_path / "model")
    assert type(loaded.value) is type(release.value)
    assert loaded.value.plan == release.value.plan
    assert loaded.certificate == release.certificate
    ours, theirs = (one.value.sample_columns(30, seed=3) for one in (release, loaded))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert loaded.value.sample(5).counts()["transitions"] == 5
    assert release.certificate.sentence in (tmp_path / "model" / hub.CARD).read_text()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        hub.CARD,
        hub.CERTIFICATE,
        hub.CONFIG,
        MANIFEST,
        hub.MODEL,
    ]


def outside(arrays: dict[str, np.ndarray]) -> None:
    """A weight that is no number, or a cell outside the bins."""
    array = max(arrays.values(), key=lambda one: one.size)
    array.reshape(-1)[0] = np.nan if array.dtype.kind == "f" else 99


def narrower(arrays: dict[str, np.ndarray]) -> None:
    largest = max(arrays, key=lambda name: arrays[name].size)
    arrays[largest] = np.ascontiguousarray(arrays[largest][..., :-1])


def fewer(arrays: dict[str, np.ndarray]) -> None:
    arrays.pop(next(iter(arrays)))


def other_numbers(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """The arrays changed, with a digest that fits them: as somebody would who knows the format."""
    arrays = load_file(folder / hub.MODEL)
    change(arrays)
    save_file(arrays, folder / hub.MODEL)
    config = json.loads((folder / hub.CONFIG).read_text())
    config["sha256"] = hub._digest(folder / hub.MODEL, config)
    (folder / hub.CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize("change", [outside, narrower, fewer])
def test_numbers_that_do_not_fit_are_refused(
    release: Release[Any], tmp_path: Path, change: Callable[[dict[str, np.ndarray]], None]
) -> None:
    hub.save(release, tmp_path / "model")
    other_numbers(tmp_path / "model", change)
    with pytest.raises(FileError, match="of another kind"):
        hub.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["Popen", "PrivSynPlan", "fit", 3])
def test_no_other_class_is_ever_called(release: Release[Any], tmp_path: Path, name: object) -> None:
    hub.save(release, tmp_path / "model")
    path = tmp_path / "model" / hub.CONFIG
    config = json.loads(path.read_text())
    config["synthesizer"]["class"] = name
    config["sha256"] = hub._digest(tmp_path / "model" / hub.MODEL, config)
    path.write_text(json.dumps(config))
    with pytest.raises(FileError, match=f"of the method '{name}', which this tacit does not have"):
        hub.load(tmp_path / "model")
