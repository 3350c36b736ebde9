"""Tables and picture of private policy gradients, from stores of invented rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from experiments.dppg.dppg_frontier import Cell
from experiments.lib.plots import Curve, Panel, draw
from experiments.lib.store import Store

from experiments.dppg import dppg_audit, dppg_frontier, dppg_riverswim, dppg_tables
from tacit.evaluation.report.charts import ChartAxis


def asked(key: str) -> dict[str, Any]:
    return {"key": key, "people": 8}


@pytest.fixture
def invented(tmp_path: Path) -> Store:
    return Store(tmp_path / "a.json", asked, hyperparameters="none")


def put(store: Store, key: str, **values: Any) -> None:
    store.put(key, dataset="invented", seed=0, values=values)


def row(table: str, name: str, part: int = 0) -> list[str]:
    """Cells of the row with this name, of the table's part."""
    lines = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in lines[part].split("|")[2:-1]]


def test_the_frontier_has_mean_interval_worst_and_greedy(invented: Store) -> None:
    put(invented, Cell("cart_pole", "local", 1.0).key, last_stochastic=[490.0, 500.0], last_greedy=[499.0, 500.0])
    put(invented, Cell("acrobot", "local", None).key, last_stochastic=[-90.0, -90.0], last_greedy=[-80.0, -80.0])
    table = dppg_tables.frontier(invented)
    shown = "495.0 ± 63.5 (490), 499.5"  # t of one degree of freedom: 12.706 * 7.0711 / sqrt(2)
    assert row(table, "local critic, correlated noise") == ["", shown, "", "", "", ""]
    assert row(table, "local critic, independent noise", 1) == [*[""] * 5, "-90.0 ± 0.0 (-90), -80.0"]
    assert row(table, "noise alone") == ["–", "", "–", "", "–", "–"]
    assert row(table, "64-64") == ["", "", shown, ""]
    assert row(table, "64-64 without noise, not private") == ["", "", "", "-90.0 ± 0.0 (-90), -80.0"]
    assert table.count("| epsilon 0.5 | epsilon 1 | epsilon 2 | epsilon 4 | epsilon 8 | no noise, not private |") == 2


def test_stale_cells_are_blank(invented: Store) -> None:
    cell = Cell("cart_pole", "local", 1.0)
    put(invented, cell.key, last_stochastic=[1.0, 2.0], last_greedy=[1.0, 2.0])
    assert dppg_tables.judged(invented, cell) == "1.5 ± 6.4 (1), 1.5"
    name = invented.rows[cell.key]["configuration"]
    invented.configurations[name] = {**invented.configurations[name], "people": 7}
    assert dppg_tables.judged(invented, cell) == ""


def test_table_one_has_a_row_for_each_level(invented: Store) -> None:
    put(invented, "CartPole|dppg|1", last=[400.0, 400.0, 400.0])
    put(invented, "Hopper|dppg|8", last=[50.0, 60.0, 70.0])
    put(invented, "CartPole|ppo", last=[500.0, 499.0])
    table = dppg_tables.table1(invented)
    assert row(table, "ours, stronger level") == ["400.0 ± 0.0", "", "", "", "", "60.0 ± 24.8"]
    assert row(table, "ours, weaker level") == [""] * 6
    assert row(table, "PPO, not private") == ["499.5 ± 6.4", *[""] * 5]
    assert row(table, "ours, the paper's network, weaker level") == ["–", "–", "", "", "–", "–"]
    assert row(table, "paper's recipe as first read, epsilon infinite, stronger level") == [*[""] * 4, "–", "–"]
    assert "| HalfCheetah (8, 20) |" in table


def test_every_measured_cell_has_a_place() -> None:
    assert set(dppg_tables.SWIMMERS) == {name for name, *_ in dppg_riverswim.grid()}
    lines = dppg_tables.dppg_table1.lines()
    assert set(dppg_tables.METHODS) == {method for line in lines for method, _ in line.cells}
    cells = {(cell.arm, cell.correlation) for cell in dppg_tables.dppg_frontier.grid()}
    classes = {(arm, "toeplitz") for arm in dppg_tables.CLASSES}
    assert cells <= {*dppg_tables.ARMS, *classes}


def test_riverswim_has_shares_with_their_intervals(invented: Store) -> None:
    put(invented, dppg_riverswim.key("recipe", 0.6, 1.0), greedy=[3.3973] * 19 + [0.1])
    table = dppg_tables.riverswim(invented)
    assert row(table, "ours")[0] == "95 % (75–100), 3.23 ± 0.35"  # Clopper and Pearson: 0.7513 to 0.9987
    assert row(table, "the best policy") == ["100 %, 3.40"] * 3
    assert row(table, "the best policy", 1) == ["100 %, 5.20"] * 3
    assert row(table, "ours, independent noise", 1) == ["", "", "–"]


def test_the_audit_lies_between_nothing_and_all_that_can_be_seen(invented: Store) -> None:
    runs = np.random.default_rng(0).standard_normal((2, 400))
    clean, leaking = dppg_audit.CELLS[0], dppg_audit.CELLS[3]
    put(invented, clean.key, claimed=4.38, without=runs[0].tolist(), having=(runs[1] + 1).tolist())
    put(invented, leaking.key, claimed=4.38, without=runs[0].tolist(), having=(runs[1] + 50).tolist())
    table = dppg_tables.audited(invented)
    claimed, found, mu, found_mu = row(table, "no critic, independent noise, sigma 1")
    assert (claimed, mu) == ("4.38", "1")
    assert 0 < float(found) < 4.38
    assert 0 < float(found_mu) < 1
    assert float(row(table, "shared critic, independent noise, sigma 1")[3]) > 3.5
    assert row(table, "noise alone, no canary in either half of the runs") == ["0", "0.00", "0", "0.00"]
    assert row(table, "no noise, every run distinguished") == ["∞", "5.60", "∞", "5.36"]
    assert row(table, "shared critic, correlated noise, sigma 5") == ["", "", "0.2", ""]


def test_the_short_table_takes_the_better_region(tmp_path: Path) -> None:
    poles, table, rivers = (Store(tmp_path / f"{name}.json", asked, "none") for name in "abc")
    put(rivers, dppg_riverswim.key("dppg_l2", 0.6, 1.0), greedy=[0.5, 0.5])
    put(rivers, dppg_riverswim.key("dppg_kl", 0.6, 1.0), greedy=[0.7, 0.7])
    put(poles, Cell("acrobot", "paper", 1.0, "independent").key, last_stochastic=[-500.0, -500.0])
    put(table, "Dosing-1|ceiling", last=[123.0, 123.0])
    shown = dppg_tables.short(poles, table, rivers)
    paper = row(shown, "paper's recipe as first read, **epsilon infinite**; noise of epsilon 1")
    assert paper == ["", "-500.0 ± 0.0", "", r"0.70 ± 0.00 \*"]
    assert row(shown, "ours without noise, not private") == ["", "", "123.0 ± 0.0", ""]
    assert row(shown, "ours, independent noise, epsilon 1")[2] == "–"


def test_the_picture_leaves_out_what_is_missing_and_sets_infinity_apart(invented: Store) -> None:
    for epsilon in (1.0, 8.0, None):
        put(invented, Cell("cart_pole", "local", epsilon).key, last_stochastic=[480.0, 500.0])
    put(invented, Cell("cart_pole", "paper", None, "independent").key, last_stochastic=[20.0, 40.0])
    ours, _, _, _, _, paper = dppg_tables.picture(invented)[0].curves
    assert (list(ours.x), list(ours.y), ours.spread[0]) == ([1.0, 8.0, np.inf], [490.0] * 3, (480.0, 500.0))
    assert (list(paper.x), paper.dashed, paper.name) == (
        [np.inf],
        True,
        "paper's recipe as first read, epsilon infinite",
    )
    path = invented.path.with_name("a.svg")
    draw(dppg_tables.picture(invented), "returns", path, legend=3)
    parts = [(node.get("class"), node) for node in ElementTree.parse(path).getroot().iter()]
    lines = [node for kind, node in parts if kind == "line"]
    assert len(lines) == 1 + 6  # one curve has points with finite epsilon, and the legend
    assert lines[0].get("d", "").count("L") == 1
    assert len([1 for kind, _ in parts if kind == "bar"]) == 3 + 1 + 1  # independent noise shares the one without noise
    assert sum(node.get("stroke-dasharray") is not None for node in lines) == 1


def test_marks_replace_ticks_and_infinity_has_a_place_of_its_own() -> None:
    axis = ChartAxis("epsilon", 0.5, 8.0, log=True, marks=(0.5, 2.0, 8.0, np.inf))
    assert axis.ticks() == [0.5, 2.0, 8.0, np.inf]
    np.testing.assert_allclose(axis.fraction(np.array([0.1, 0.5, 2.0, 8.0, 9.0, np.inf])), [0, 0, 0.35, 0.7, 0.7, 0.95])
    np.testing.assert_allclose(ChartAxis("", 0.0, 10.0, marks=(0.0, 5.0)).fraction(np.array([5.0, 20.0])), [0.5, 1.0])


def test_bars_of_curves_stand_beside_each_other(tmp_path: Path) -> None:
    axes = (ChartAxis("x", 0.0, 10.0), ChartAxis("y", 0.0, 10.0))
    curves = [Curve(name, [5.0], [5.0], spread=[(2.0, 8.0)]) for name in ("one", "two")]
    draw([Panel("y", "x", curves, axes=axes)], "bars", tmp_path / "a.svg", columns=1)
    nodes = list(ElementTree.parse(tmp_path / "a.svg").getroot().iter())
    first, second = (float(node.get("cx", "nan")) for node in nodes if node.get("class") == "dot")
    assert second - first == pytest.approx(3.6, abs=0.02)


@pytest.mark.parametrize(
    ("plan", "hidden", "setting"),
    [
        ({"clip_norm": 0.123}, (64, 64), r"recipe\.plan\.clip_norm"),
        ({"horizon": 77}, (64, 64), r"recipe\.plan\.horizon"),
        ({}, (64, 32), r"recipe\.policy\.network\.sizes"),
    ],
)
def test_a_row_of_another_plan_or_network_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], hidden: tuple[int, ...], setting: str
) -> None:
    key, path = Cell("cart_pole", "local", 1.0).key, tmp_path / "a.json"
    results = dppg_frontier.store(path)
    put(results, key, last_stochastic=[1.0])
    assert results.has(key)
    assert dppg_frontier.store(path).has(key)
    other = dppg_frontier.RECIPES["cart_pole"](hidden=hidden)
    other = replace(other, plan=replace(other.plan, **plan))
    monkeypatch.setitem(dppg_frontier.RECIPES, "cart_pole", lambda **_: other)
    later = dppg_frontier.store(path)
    assert not later.has(key)
    with pytest.raises(LookupError, match=setting):
        later.values(key)
