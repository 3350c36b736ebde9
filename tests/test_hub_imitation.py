"""Simulators of movement in a folder: they come back and draw the same days, whatever method released them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tacit import hub
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid, H3Grid, RegularGrid
from tacit.envs.movement import FixedPolicy
from tacit.envs.spaces import JumpLaw
from tacit.errors import CertificateError, DataError, FileError
from tacit.hub.values import KINDS
from tacit.methods import mobility
from tacit.methods.mobility import Simulator, StartDistribution, StateLayout, TablePolicy, baselines
from tacit.methods.mobility.baselines import BlockChain
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

GRID = RegularGrid(0.0, 0.0, 0.09, 0.09, 0.01)
UNIT = Unit("person", "add_or_remove", 60)


def days(grid: Grid = GRID) -> Days:
    """Three days each of fifty people who go back and forth between two cells of their own."""
    rng = np.random.default_rng(0)
    places = rng.integers(grid.size, size=(50, 2))
    out = (np.arange(48) >= 16) & (np.arange(48) < 34)
    return Days(np.repeat(places[:, out.astype(int)], 3, axis=0), np.repeat(np.arange(50), 3), grid)


def released(folder: Path, model: str) -> Release[Any]:
    with Ledger(folder / "ledger", UNIT, epsilon=4.0, delta=1e-3, composition=SUM) as ledger:
        vault = Vault(days().trajectories(simulated=True), ledger)
        if model == "one-shot":
            quick = mobility.Matching(rounds=1, days=200)
            plan = mobility.OneShotPlan(days=3, matching=quick).calibrate(unit=UNIT, epsilon=4.0, delta=1e-3)
            return mobility.fit(plan, vault, grid=GRID)
        plan = baselines.BaselinePlan(model=model, days=3).calibrate(unit=UNIT, epsilon=4.0, delta=1e-3)
        return baselines.fit(plan, vault, grid=GRID)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[Simulator]:
    return released(tmp_path_factory.mktemp("one-shot"), "one-shot")


@pytest.fixture
def folder(release: Release[Simulator], tmp_path: Path) -> Path:
    hub.save(release, tmp_path / "simulator", notes={"zone": "UTC"})
    return tmp_path / "simulator"


def test_a_simulator_comes_back_and_draws_the_same_days(release: Release[Simulator], folder: Path) -> None:
    loaded = hub.load(folder)
    assert isinstance(loaded.value, Simulator)
    assert loaded.certificate == release.certificate
    assert loaded.value.grid == GRID
    assert np.array_equal(loaded.value.generate(300, seed=5).cells, release.value.generate(300, seed=5).cells)
    assert hub.notes(folder) == {"zone": "UTC"}
    assert json.loads((folder / hub.CONFIG).read_text())["plan"] == release.certificate.to_json()["plan"]
    card = " ".join((folder / hub.CARD).read_text().split())
    assert release.certificate.sentence in card
    assert "NOT TO BE USED: maps" in card


@pytest.mark.parametrize("model", ["epr", "markov"])
def test_baselines_come_back(model: str, tmp_path: Path) -> None:
    release = released(tmp_path, model)
    hub.save(release, tmp_path / "simulator")
    loaded = hub.load(tmp_path / "simulator").value
    assert isinstance(loaded, BlockChain if model == "markov" else Simulator)
    assert np.array_equal(loaded.generate(200, seed=3).cells, release.value.generate(200, seed=3).cells)


def test_hexagons_and_four_actions_come_back() -> None:
    hexagons = H3Grid(39.9, 116.3, 40.0, 116.4, 7)
    table = np.random.default_rng(1).dirichlet(np.ones(4), size=(2, StateLayout(times=4).size))
    law = JumpLaw(hexagons, (0.5, 2.0, 8.0), (0.25, 0.75))
    policy = TablePolicy(StateLayout(times=4), table)
    ours = Simulator(hexagons, policy, StartDistribution.uniform(hexagons), law, "stay")
    fields, arrays = KINDS["imitation"].pack(ours)
    theirs = KINDS["imitation"].unpack(json.loads(json.dumps(fields)), arrays)
    assert isinstance(theirs, Simulator)
    assert (theirs.grid, theirs.invalid, theirs.space) == (hexagons, "stay", law)
    assert np.array_equal(theirs.generate(50, seed=2).cells, ours.generate(50, seed=2).cells)


def test_parts_of_another_kind_have_no_file(release: Release[Simulator], tmp_path: Path) -> None:
    value = release.value
    own = Simulator(value.grid, FixedPolicy((0.2,) * 5), value.starts, value.space)
    with pytest.raises(DataError, match="the policy of the simulator is a FixedPolicy"):
        hub.save(Release(own, release.certificate), tmp_path / "own")
    assert list(tmp_path.iterdir()) == []


CHANGES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "rows that do not add up": ("policy", lambda table: table * 0.5),
    "a table of other buckets": ("policy", lambda table: table[:, 1:]),
    "a number that is none": ("starts", lambda p: np.where(np.arange(len(p)) == 0, np.nan, p)),
    "edges that fall": ("space.edges", lambda edges: edges[::-1]),
    "singles": ("starts", lambda p: p.astype(np.float32)),
}


@pytest.mark.parametrize(("name", "change"), CHANGES.values(), ids=list(CHANGES))
def test_arrays_of_another_simulator_are_refused(
    name: str, change: Callable[[np.ndarray], np.ndarray], folder: Path
) -> None:
    arrays = load_file(folder / hub.MODEL)
    save_file(arrays | {name: np.ascontiguousarray(change(arrays[name]))}, folder / hub.MODEL)
    refreshed(folder)
    with pytest.raises(FileError, match="edited or of another kind"):
        hub.load(folder)


def test_an_edited_file_is_refused(folder: Path) -> None:
    config = json.loads((folder / hub.CONFIG).read_text())
    config["simulator"]["grid"]["south"] = 1.0
    (folder / hub.CONFIG).write_text(json.dumps(config))
    with pytest.raises(FileError, match="edited or of another kind"):
        hub.load(folder)


def test_a_certificate_of_another_plan_is_refused(folder: Path) -> None:
    config = json.loads((folder / hub.CONFIG).read_text())
    config["plan"]["days"] = 4
    (folder / hub.CONFIG).write_text(json.dumps(config))
    refreshed(folder)
    with pytest.raises(CertificateError, match="that of another plan"):
        hub.load(folder)


def test_a_chain_of_other_blocks_is_refused() -> None:
    chain = BlockChain(GRID, 2, (3, 1), np.array([0.5, 0.5]), np.full((2, 2), 0.5))
    fields, arrays = KINDS["imitation"].pack(chain)
    found = KINDS["imitation"].unpack(fields, arrays)
    assert np.array_equal(found.generate(9).cells, chain.generate(9).cells)
    words = fields["simulator"]
    for changed in (
        (words | {"vocabulary": [3, 3]}, arrays),
        (words | {"vocabulary": [3, 25]}, arrays),
        (words, arrays | {"chain": np.eye(3)}),
        (words, arrays | {"chain": np.array([[0.5, 0.4], [0.5, 0.5]])}),
        (words, arrays | {"more": np.ones(1)}),
    ):
        with pytest.raises(ValueError, match=r"other blocks|another value|no probabilities"):
            KINDS["imitation"].unpack({"simulator": changed[0]}, changed[1])


def refreshed(folder: Path) -> None:
    """Make the digest fit the files again."""
    config = json.loads((folder / hub.CONFIG).read_text())
    config["sha256"] = hub._digest(folder / hub.MODEL, config)
    (folder / hub.CONFIG).write_text(json.dumps(config))
