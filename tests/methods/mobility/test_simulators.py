"""Simulators: days out of numbers and a seed, and files without code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.mobility.days import actions
from tacit.data.mobility.grids import RegularGrid
from tacit.envs import movement
from tacit.envs.spaces import JumpLaw
from tacit.errors import DataError
from tacit.methods.mobility.places import StartDistribution
from tacit.methods.mobility.simulator import Simulator, StateLayout, TablePolicy

GRID = RegularGrid(0, 0, 0.3, 0.3, 0.01)
LAYOUT = StateLayout(times=2)


def simulator(**fields: Any) -> Simulator:
    table = np.random.default_rng(0).dirichlet(np.ones(5), (3, LAYOUT.size))
    parts: dict[str, Any] = {
        "grid": GRID,
        "policy": TablePolicy(LAYOUT, table),
        "starts": StartDistribution.uniform(GRID),
        "space": JumpLaw(GRID, (1.0, 3.0, 9.0), (0.7, 0.3)),
    }
    return Simulator(**(parts | fields))


def test_days_are_a_function_of_the_seed() -> None:
    made = simulator()
    one, again, other = made.generate(50, seed=3), made.generate(50, seed=3), made.generate(50, seed=4)
    np.testing.assert_array_equal(one.cells, again.cells)
    assert not np.array_equal(one.cells, other.cells)
    assert one.cells.shape == (50, 48)
    assert one.grid == GRID
    assert len(np.unique(one.person)) == 50


def test_the_policy_decides_what_days_look_like() -> None:
    home = simulator(policy=movement.FixedPolicy((1.0, 0.0, 0.0, 0.0, 0.0))).generate(20)
    assert (home.cells == home.cells[:, :1]).all()
    masked = simulator(policy=movement.FixedPolicy((0.0, 0.0, 1.0, 0.0, 0.0)))
    assert (actions(masked.generate(5).cells) == 0).all()  # home at home is impossible, and nothing else is left


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    made, path = simulator(invalid="stay", gravity=True), tmp_path / "city.json"
    made.save(path)
    found = Simulator.load(path)
    np.testing.assert_array_equal(found.generate(30, seed=1).cells, made.generate(30, seed=1).cells)
    assert (found.invalid, found.gravity) == ("stay", True)
    parts = {"grid", "policy", "starts", "space", "invalid", "gravity"}
    assert set(json.loads(path.read_text())) == {"format", "version"} | parts


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path, values = tmp_path / "broken.json", simulator().to_json()
    path.write_bytes(b"\x80\x04")
    with pytest.raises(DataError, match="not JSON"):
        Simulator.load(path)
    for broken in ([], {}, values | {"version": 2}):
        with pytest.raises(DataError, match="this version"):
            Simulator.from_json(broken)  # type: ignore[arg-type]
    for name in ("grid", "policy", "starts", "space"):
        with pytest.raises(DataError):
            Simulator.from_json({key: value for key, value in values.items() if key != name})


def test_what_a_file_cannot_hold_is_named() -> None:
    with pytest.raises(DataError, match="FixedPolicy"):
        simulator(policy=movement.FixedPolicy((0.25, 0.25, 0.25, 0.25))).to_json()


@pytest.mark.parametrize("days", [0, -1, 2.5, "9"])
def test_numbers_of_days_that_are_none(days: Any) -> None:
    with pytest.raises(DataError, match="days is"):
        simulator().generate(days)
    with pytest.raises(DataError, match="impossible actions"):
        simulator(invalid="never")
