"""Figures and pages of synthesis, from stores of invented rows; how tables are kept and who is trained together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.store import ROOT, Store
from experiments.lib.tables import BLANK, NONE
from experiments.privorl.parts import (
    synthesis_mazes,
    synthesis_pages,
    synthesis_returns,
    synthesis_variants,
)
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_agents import MAZE
from experiments.privorl.parts.synthesis_domains import DOMAINS

from experiments.lib import pages, table_cache
from experiments.privorl import table1_transitions, table3_fidelity, table4_pretraining
from tacit.errors import DataError

LEVELS = {
    "real": 80.0,
    "raked": 78.0,
    "tacit": 77.0,
    "mst": 40.0,
    "aim": 45.0,
    "privsyn": 10.0,
    "pate_gan": 0.0,
    "pre_pate_gan": 5.0,
}
ERRORS = ("in_wall", "next_position", "next_velocity", "reward_error")


def _keep(store: Store, key: str, values: dict[str, float]) -> None:
    store.rows[key] = {"values": values, "configuration": None}


@pytest.fixture
def table1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Returns: a level of the way, a little for the seed, less at epsilon 1."""
    store = Store(tmp_path / "table1.json", synthesis_returns.configuration, "none")
    for cell in (cell for part in table1_transitions.PARTS for cell in part.cells()):
        level = LEVELS.get(cell.way, -10.0) + cell.seed - (5.0 if cell.epsilon == 1.0 else 0.0)
        _keep(store, cell.key, {"return": level})
    monkeypatch.setattr(table1_transitions, "store", lambda path=None: store)
    return store


@pytest.fixture
def table3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Measures: tacit (matched) and AIM are close, the others have better marginals and worse correlations."""
    store = Store(tmp_path / "table3.json", table3_fidelity.configuration, "none")
    for domain, way, epsilon, seed in table3_fidelity.tables():
        marginal, correlation = (0.98, 0.995) if way in ("raked", "aim") else (1.0, 0.9)
        errors = dict.fromkeys(ERRORS, 0.5 if way == "raked" else 1.0)
        values = {"marginal": marginal, "correlation": correlation, "told_apart": 0.7, **errors}
        _keep(store, ways.key(domain, way, epsilon, seed), values)
    monkeypatch.setattr(table3_fidelity, "store", lambda path=None: store)
    return store


def test_promises_of_table_1_are_recomputed_from_all_seeds(table1: Store) -> None:
    found = {figure.name: figure for figure in table1_transitions.figures()}
    share = next(figure for name, figure in found.items() if "umaze, epsilon 1:" in name)
    assert share.value == pytest.approx((73.0 + 2.0) / (80.0 + 2.0))
    assert all(figure.holds for figure in found.values())
    for seed in (0, 1, 2):
        table1.rows[f"medium/td3_bc/privsyn/1/{seed}"]["values"]["return"] = 99.0
    lost = [figure for figure in table1_transitions.figures() if not figure.holds]
    assert [figure.value for figure in lost] == [pytest.approx(75.0 - 99.0), 1.0]
    del table1.rows["medium/td3_bc/privsyn/1/2"]
    with pytest.raises(LookupError, match="missing"):
        list(table1_transitions.figures())


def test_promises_of_tables_3_and_4(table1: Store, table3: Store) -> None:
    found = list(table3_fidelity.figures())
    assert all(figure.holds for figure in found)
    assert len(found) == 5 * 2 + 3 + 2
    assert all(figure.holds for figure in table4_pretraining.figures())
    for seed in range(5):
        table3.rows[f"medium/raked/10/{seed}"]["values"]["marginal"] = 0.955
    assert [figure.name for figure in table3_fidelity.figures() if not figure.holds] == [
        "medium, epsilon 10: marginal",
        "medium, epsilon 10: marginal less AIM's",
    ]


def test_pages_say_what_is_missing_and_what_is_no_part_of_the_experiment(table1: Store, table3: Store) -> None:
    del table1.rows["medium/iql/aim/10/1"]
    first = synthesis_pages.table1().split("\n\n")[1].splitlines()
    assert first[0].count("umaze") == 3
    aim = next(line for line in first if line.startswith("| AIM")).split(" | ")
    assert aim[1] == "46.0 [45.0, 47.0]"
    assert aim[4] == BLANK
    paper = next(line for line in first if "paper ran it" in line)
    assert paper.count(NONE) == 6
    assert "| **tacit** | 0.980 | 0.995 | 0.700 | 0.500 |" in synthesis_pages.table3()
    assert "| noise alone, epsilon 1 | -14.0 [-15.0, -13.0] |" in synthesis_pages.table4()


def test_tables_find_their_places_once_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pages.TABLES, "table11_cost", lambda: "| a |")
    text = "x\n<!-- results: table11_cost -->\n\n<!-- results: other -->\ny\n<!-- end -->\n"
    once = pages.filled(text)
    assert once.splitlines()[1:6] == ["<!-- results: table11_cost -->", "", "| a |", "", "<!-- end -->"]
    assert once.endswith("<!-- results: other -->\ny\n<!-- end -->\n")
    assert pages.filled(once) == once


def test_cells_are_each_named_once_and_what_promises_nothing_has_no_epsilon() -> None:
    keys = [cell.key for part in table1_transitions.PARTS for cell in part.cells()]
    assert len(keys) == len(set(keys))
    assert table1_transitions.PARTS[0].cells()[:3] == [
        synthesis_returns.Cell("umaze", "iql", "real", 0.0, 0),
        synthesis_returns.Cell("umaze", "iql", "raked", 10.0, 0),
        synthesis_returns.Cell("umaze", "iql", "raked", 1.0, 0),
    ]
    assert len(synthesis_variants.both(("non_priv", "tacit"), (10.0, 1.0))) == 9


def _asked(key: str) -> str:
    return json.dumps(synthesis_returns.configuration(key), sort_keys=True)


def test_rows_of_one_setting_differ_in_their_seeds_alone() -> None:
    for way in ("tacit", "raked", "mst", "pate_gan", "raking_alone"):
        assert _asked(f"umaze/iql/{way}/10/0") == _asked(f"umaze/iql/{way}/10/1") == _asked(f"umaze/iql/{way}/10/0/2")
        assert _asked(f"umaze/iql/{way}/10/0") != _asked(f"umaze/iql/{way}/1/0")
        assert _asked(f"umaze/iql/{way}/10/0") != _asked(f"medium/iql/{way}/10/0")
        assert _asked(f"umaze/iql/{way}/10/0") != _asked(f"umaze/td3_bc/{way}/10/0")


@pytest.mark.parametrize(
    ("agent", "setting"), [("iql", {"steps": 1_000}), ("td3_bc", {"steps": 160}), ("iql", {"width": 32})]
)
def test_an_agent_of_other_steps_or_width_makes_the_row_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, setting: dict[str, int]
) -> None:
    store = Store(tmp_path / "a.json", synthesis_returns.configuration, "none")
    key = f"umaze/{agent}/raked/10/0"
    store.put(key, dataset="invented", seed=0, values={"return": 1.0})
    changed = {**MAZE, agent: replace(MAZE[agent], **setting)}
    monkeypatch.setattr(synthesis_returns, "MAZE", changed)
    later = Store(store.path, synthesis_returns.configuration, "none")
    assert not later.has(key)
    with pytest.raises(LookupError, match=next(iter(setting))):
        later.values(key)


@pytest.fixture
def uncached() -> Iterator[None]:
    """Configurations are cached; what a test changes is forgotten after it."""
    yield
    ways.configuration.cache_clear()


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("setting", [{"clip_norm": 0.5}, {"steps": 900}])
def test_a_plan_of_another_clip_or_other_steps_makes_the_row_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, float]
) -> None:
    store = Store(tmp_path / "a.json", synthesis_returns.configuration, "none")
    key = "umaze/iql/raked/10/0"
    store.put(key, dataset="invented", seed=0, values={"return": 1.0})
    real = ways.base
    monkeypatch.setattr(ways, "base", lambda here, scale: replace(real(here, scale), **setting))
    ways.configuration.cache_clear()
    later = Store(store.path, synthesis_returns.configuration, "none")
    with pytest.raises(LookupError, match=f"plan.{next(iter(setting))}"):
        later.values(key)


def test_tables_are_made_once_for_one_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    made = []

    def make() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        made.append(1)
        return {"rewards": np.arange(3.0)}, {"fit": {"cpu_s": 1.5}}

    for steps in (1, 1, 2):
        columns, notes = table_cache.kept("umaze/tacit/10/0", {"steps": steps}, make)
        assert columns["rewards"].tolist() == [0.0, 1.0, 2.0]
        assert notes == {"fit": {"cpu_s": 1.5}}
    assert len(made) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_memory_is_that_of_the_function_alone() -> None:
    """In a process of its own: memory that other tests gave back would be used again."""
    code = (
        "import numpy as np; from experiments.lib.table_cache import metered; held = np.ones(20_000_000); "
        "print(*metered(lambda: np.ones(5_000_000).sum())[1].values())"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    cpu_s, peak_mib = map(float, told.stdout.split())
    assert 30 <= peak_mib <= 80 or np.isnan(peak_mib)
    assert cpu_s < 2


class Small(synthesis_mazes.Maze):
    """A maze of few rows."""

    def returns(self, policies: Any, seed: int) -> dict[str, np.ndarray]:
        """Not judged."""
        return {"return": np.full(policies.members, float(seed))}


def test_one_stack_for_each_agent_and_seed_and_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "a.json", lambda key: {"key": key}, "none")
    stacks: list[tuple[str, int, int]] = []
    real = synthesis_returns.train

    def train(domain: str, agent: str, tables: Any, seed: int, scale: Any) -> Any:
        stacks.append((agent, len(tables), seed))
        return real(domain, agent, tables, seed, scale)

    monkeypatch.setattr(synthesis_returns, "train", train)
    monkeypatch.setattr(synthesis_returns, "config", lambda domain, agent, scale: replace(MAZE[agent], steps=3))
    domains = {"umaze": Small("umaze", population=2_000, public_rows=2_000)}
    wanted = synthesis_returns.cells("umaze", ("iql", "td3_bc"), ("real", "independent"), (), (0, 1))
    synthesis_returns.fill(store, wanted[:6], ways.QUICK, domains)
    synthesis_returns.fill(store, wanted, ways.QUICK, domains)
    assert stacks == [("iql", 2, 0), ("td3_bc", 2, 0), ("iql", 2, 1), ("td3_bc", 2, 1)]
    assert synthesis_returns.column(store, wanted).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_own_files_take_the_place_of_simulated_rows_and_are_looked_at_for_overlap(tmp_path: Path) -> None:
    import h5py

    task = synthesis_mazes.Maze("umaze", population=400, public_rows=400)
    rows = task.private(0)
    path, other = tmp_path / "mine.hdf5", tmp_path / "other.hdf5"
    for file, columns in ((path, rows), (other, task.private(1))):
        with h5py.File(file, "w") as target:
            for name in ("observations", "actions", "rewards"):
                target[name] = columns[name]
            target["terminals"] = target["timeouts"] = np.zeros(len(columns["rewards"]), bool)
    (own,) = table1_transitions.owned([f"umaze={path}"], [], ["umaze=500"])
    assert (own.name, own.population, own.delta) == ("own_umaze", 500, 0.1 / 500)
    assert np.array_equal(own.private(3)["actions"], rows["actions"][: len(own.private(3)["actions"])])
    assert own.spec == task.spec
    (with_public,) = table1_transitions.owned([f"umaze={path}"], [f"umaze={other}"], [])
    assert len(with_public.public(0)["rewards"]) > 300
    assert other.name in with_public.provenance
    (same,) = table1_transitions.owned([f"umaze={path}"], [f"umaze={path}"], [])
    with pytest.raises(DataError, match="public"):
        same.public(0)


def test_a_table_whose_rows_all_lie_in_walls_is_measured() -> None:
    corners = np.zeros((5, 4), np.float32)
    rows = {"observations": corners, "actions": corners[:, :2], "rewards": corners[:, 0], "next_observations": corners}
    rows["terminations"] = np.zeros(5, np.bool_)
    assert table3_fidelity._errors(DOMAINS["umaze"], rows) == {"in_wall": 1.0}
