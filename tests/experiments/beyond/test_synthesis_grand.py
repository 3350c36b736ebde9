"""The grand judge, and the experiment that asks it: order, resumption, and configurations of their own."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.beyond.synthesis_grand import MeanPolicies, checkpoints_of, judge, pooled, spread
from experiments.lib.store import Store
from experiments.privorl.parts.synthesis_domains import DOMAINS
from experiments.privorl.parts.synthesis_mazes import Pooled
from experiments.privorl.parts.synthesis_returns import Cell, config
from experiments.privorl.parts.synthesis_ways import QUICK, WAYS, configuration
from scipy import stats

from experiments.beyond import synthesis_grand
from experiments.lib import table_cache
from experiments.privorl import table1_mazes
from tacit_worlds import maze
from tacit_worlds.agents.offline import OfflinePolicies
from tacit_worlds.maze_evaluation import evaluate
from tacit_worlds.maze_layouts import LAYOUTS


def constant(*actions: float) -> OfflinePolicies:
    """Policies whose action is one number each."""
    shape = (len(actions), 1, 1)
    arrays = {"mean": np.zeros(shape), "scale": np.ones(shape), "weight0": np.zeros(shape)}
    arrays["bias0"] = np.arctanh(np.reshape(actions, shape))
    return OfflinePolicies({name: array.astype(np.float32) for name, array in arrays.items()})


def test_the_mean_policy_acts_with_the_mean_of_agents_and_checkpoints() -> None:
    checkpoints = [constant(0.1, 0.2, 0.3, 0.4), constant(0.5, 0.6, 0.7, 0.8)]
    groups = [pooled(checkpoints, agents) for agents in (slice(4), slice(0, 2), slice(2, 4))]
    found = MeanPolicies(groups).act(np.zeros((3, 5, 1)))
    assert found.shape == (3, 5, 1)
    assert found[:, 0, 0] == pytest.approx([0.45, 0.35, 0.55], abs=1e-6)


def test_checkpoints_are_the_last_three_eighths() -> None:
    assert checkpoints_of(16_000) == (10_000, 12_000, 14_000, 16_000)
    assert checkpoints_of(100) == (62, 75, 87, 100)


def test_the_spread_is_that_of_one_group() -> None:
    assert spread([10.0, 20.0], [12.0, 16.0]) == pytest.approx(np.sqrt((4 + 16) / 2 / 2))


def test_agents_of_several_tables_in_one_stack_are_judged_table_by_table() -> None:
    layout = LAYOUTS["umaze"]
    tables = [table_cache.rows_of(maze.collect(layout, 2_000, seed=seed)) for seed in (0, 1)]
    settings = config("umaze", "td3_bc_long", QUICK)
    both = judge("grand", layout, tables, settings, seed=5, starts=3, scale=QUICK)
    alone = judge("grand", layout, tables[1:], settings, seed=5, starts=3, scale=QUICK)
    assert [len(one["singles"]) for one in both] == [4, 4]
    assert both[1]["grand"] == pytest.approx(alone[0]["grand"], abs=0.5)
    assert both[1]["single"] == pytest.approx(np.mean(both[1]["singles"]), abs=0.01)
    assert set(judge("iql_long", layout, tables[:1], settings, seed=5, starts=3, scale=QUICK)[0]) == {
        "single",
        "singles",
    }


def test_seeds_are_fresh_and_cells_come_alike_for_all_ways() -> None:
    assert not set(synthesis_grand.SEEDS) & {*table1_mazes.SEEDS, 13, 14}
    keys = synthesis_grand.rows()
    assert len(keys) == len(set(keys))
    groups = synthesis_grand.together([cell.key for cell in synthesis_grand.cells()])
    assert [key for group in groups for key in group] == [cell.key for cell in synthesis_grand.cells()]
    first = [
        [f"large/grand/{way}/{10 if way != 'real' else 0}/21" for way in synthesis_grand.WAYS],
        [f"large/grand/{way}/1/21" for way in synthesis_grand.WAYS if way != "real"],
    ]
    assert groups[:2] == first
    assert [group[0] for group in groups[2:5]] == [
        "medium/grand/real/0/21",
        "medium/grand/structured/1/21",
        "large/grand/real/0/22",
    ]
    assert len(groups) == 5 * 2 * 2 + 2 + 5 * 2 * 2 + 5 * 2 + 2 * 2  # those without noise are last
    assert sum(cell.again for cell in synthesis_grand.cells()) == 6
    assert set(synthesis_grand.WAYS) <= set(WAYS)


def test_pooled_public_rows_have_a_configuration_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"large": 1, "large_rows": 300, "small": 2, "small_rows": 100}
    former, here = DOMAINS["large"], Pooled("large", population=500, public_rows=500, **sizes)
    assert former.rows["type"] == "Maze"
    assert "small" not in former.rows
    assert (here.rows["type"], here.rows["small"]) == ("Pooled", 2)
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    worlds = here.worlds(21)
    assert [len(world["rewards"]) for world in worlds] == [300, 100, 100]
    made = here.public(21)
    np.testing.assert_array_equal(made["observations"][:300], worlds[0]["observations"])
    assert not np.array_equal(worlds[1]["rewards"], worlds[2]["rewards"])
    rows, notes = WAYS["structured"].table(here, math.inf, 21, QUICK)
    assert (notes["epsilon"], notes["noise_multiplier"]) == ("inf", 0.0)
    assert len(rows["rewards"]) == QUICK.rows
    assert configuration(here, "structured", math.inf)["guarantee"]["epsilon"] == "inf"  # type: ignore[index, call-overload]


def test_a_row_holds_returns_closeness_and_costs_and_its_second_group_needs_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis_grand, "DOMAINS", {"umaze": Pooled("umaze", population=3_000)})
    monkeypatch.setattr(synthesis_grand, "AGAIN", (synthesis_grand.Cell("umaze", "grand", "real", 0.0, 21, 1),))
    results = synthesis_grand.store(tmp_path / "rows.json")
    keys = ["umaze/grand/real/0/21", "umaze/grand/real/0/21/1"]
    for key in keys:
        synthesis_grand.run_rows([key], results, scale=QUICK)
    first, again = map(results.values, keys)
    assert {"grand", "grand_a", "grand_b", "single", "marginal", "in_wall", "action_follows", "told_apart"} <= set(
        first
    )
    assert set(first["cpu_s"]) == {"agents", "measures", "table"}
    assert first["rows"] == again["rows"]
    assert first["singles"] != again["singles"]
    assert synthesis_grand.spreads(results).tolist() == [[first["grand"], again["grand"]]]
    again["rows"] = "another"
    with pytest.raises(LookupError, match="different tables"):
        synthesis_grand.spreads(results)
    synthesis_grand.run_rows(["umaze/straight/21"], results)
    straight = evaluate(
        LAYOUTS["umaze"], synthesis_grand.TRIVIAL["straight"](LAYOUTS["umaze"]), starts="all", seed=21, episodes=150
    )
    assert results.values("umaze/straight/21")["return"] == round(float(straight[0]), 2)


def test_the_table_and_the_plan_say_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "rows.json", lambda key: None, "none")

    def values(grand: float) -> dict[str, Any]:
        return {"grand": grand, "single": 50.0, "cpu_s": {"agents": 72.0, "measures": 6.0, "table": 20.0}, "rows": "a"}

    for seed, (real, other) in enumerate([(100.0, 50.0), (200.0, 50.0)], start=21):
        for way, epsilon, grand in (("real", 0.0, real), ("privsyn", 10.0, other)):
            key = Cell("large", "grand", way, epsilon, seed).key
            results.rows[key] = {"values": values(grand), "configuration": None}
    lines = synthesis_grand.table(results).splitlines()
    half = stats.t.ppf(0.975, 1) * 0.125  # of shares .5 and .25
    assert f"| privsyn | 50.0 ± 0.0 | 0.38 ± {half:.2f} | 50.0 ± 0.0 |  |  |  |  |  | 2 |" in lines
    known = [line for line in lines if line.startswith("Standard deviation of a grand return on the same rows: ")]
    assert "not known: " in known[0]
    assert "large, no noise and no promise" not in lines
    results.rows[synthesis_grand.NOISELESS[0].key] = {"values": values(150.0), "configuration": None}
    silent = synthesis_grand.table(results).partition("large, no noise and no promise")[2]
    assert "| structured | 150 | 1.5 | 50 |" in silent


def test_real_rows_are_held_against_the_straight_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Store(tmp_path / "rows.json", lambda key: None, "none")
    monkeypatch.setattr(synthesis_grand, "store", lambda: results)
    for domain in ("large", "medium"):
        for seed in synthesis_grand.SEEDS:
            results.rows[f"{domain}/straight/{seed}"] = {"values": {"return": 100.0}, "configuration": None}
            results.rows[f"{domain}/grand/real/0/{seed}"] = {"values": {"grand": 90.0 + seed}, "configuration": None}
    assert [(figure.value, figure.holds) for figure in synthesis_grand.figures()] == [(13.0, True)] * 2


class Made:
    """A store of grand returns: structured tables return 10 more than AIM, and 0, 2 or 4 more than PrivSyn."""

    def __init__(self, seeds: tuple[int, ...]) -> None:
        self.rows = {}
        for seed, domain, at in itertools.product(seeds, ("large", "medium"), (10.0, 1.0)):
            base = {"structured": 100.0, "aim_3": 90.0 - seed / 100, "privsyn": 100.0 - 2 * (seed - seeds[0])}
            self.rows |= {Cell(domain, "grand", way, at, seed).key: {"grand": one} for way, one in base.items()}

    def has(self, key: str) -> bool:
        return key in self.rows

    def values(self, key: str) -> dict[str, float]:
        return self.rows[key]


def test_rivals_are_compared_data_set_by_data_set_with_holm_s_correction() -> None:
    lines = synthesis_grand.comparisons(Made((21, 22, 23))).splitlines()[2:]
    assert lines[0].startswith("| aim_3 | 4 of 4 | 3 | 10.2 | ")
    # Differences 0, 2, 4: t = 2 sqrt(3) / 2 with two degrees of freedom.
    assert lines[1] == f"| privsyn | 4 of 4 | 3 | 2.0 | {2 * stats.t.sf(np.sqrt(3), 2):.4f} |"
    small = 2 * stats.t.sf(10.22 / (0.01 / np.sqrt(3)), 2)
    assert float(lines[0].split("|")[-2]) == pytest.approx(2 * small, abs=1e-4)
    alone = synthesis_grand.comparisons(Made((21,))).splitlines()[2:]
    assert alone[1] == "| privsyn | 0 of 4 | 1 | 0.0 |  |"
