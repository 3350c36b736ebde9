"""Figures and tables of learning from experts, from a store of invented rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from experiments.experts.experts_recipes import EPSILONS, recipes
from experiments.experts.experts_table import METHODS, SEEDS, key, returns
from experiments.lib.plots import draw
from experiments.lib.store import Store

from experiments.experts import experts_table, experts_tables


@pytest.fixture
def invented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store(tmp_path / "a.json", experts_table.configuration, hyperparameters="none")
    monkeypatch.setattr(experts_table, "store", lambda: found)
    return found


def put(store: Store, method: str, values: dict[str, Any], *, name: str = "hiv", kind: str = "good") -> None:
    """The same values for all seeds, but for what grows by one with each."""
    for more, seed in enumerate(SEEDS):
        store.rows[key(name, kind, method, seed)] = {"values": _grown(values, more), "configuration": None}


def _grown(values: Any, more: int) -> Any:
    if isinstance(values, dict):
        return {name: value if name == "prefixes" else _grown(value, more) for name, value in values.items()}
    return values + more if isinstance(values, float) else values  # lists stay


def each(value: float, **others: Any) -> dict[str, Any]:
    return {f"{epsilon:g}": {"return": value, **others} for epsilon in EPSILONS}


def full(store: Store, **changed: dict[str, Any]) -> None:
    """Every cell of every world and population."""
    usual: dict[str, dict[str, Any]] = {method: each(90.0) for method in METHODS}
    usual |= {"votes": each(100.0), "consensus_only": {"n_r=25": each(50.0), "n_r=5": each(60.0)}}
    usual |= {"cql": {"return": 100.0}, "imitation": {"return": 80.0}}
    usual |= {name: {"returns": [10.0, 20.0]} for name in ("noise", "experts")}
    for name in experts_tables.TITLES:
        for kind in ("good", "mixed"):
            for method, values in (usual | changed).items():
                put(store, method, values, name=name, kind=kind)


def test_returns_are_one_number_a_seed(invented: Store) -> None:
    put(invented, "votes", each(100.0))
    put(invented, "imitation", {"return": 5.0})
    put(invented, "consensus_only", {"n_r=25": each(50.0), "n_r=5": each(60.0)})
    put(invented, "consensus_dpsgd", each(70.0) | {"1": {"unreachable": True}})
    assert returns(invented, "hiv", "good", "votes", 10.0) == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert returns(invented, "hiv", "good", "imitation") == [5.0, 6.0, 7.0, 8.0, 9.0]
    assert returns(invented, "hiv", "good", "consensus_only", 1.0)[0] == 60.0
    assert returns(invented, "hiv", "good", "consensus_dpsgd", 1.0) == []
    with pytest.raises(LookupError, match="hiv/mixed/votes"):
        returns(invented, "hiv", "mixed", "votes", 10.0)


def test_figures_hold_where_votes_lead_and_miss_where_they_do_not(invented: Store) -> None:
    full(invented, consensus_dpsgd=each(90.0) | {"1": {"unreachable": True}})
    figures = list(experts_table.figures())
    assert len(figures) == 4 * 3 + 4 * (3 * 5 - 1)  # epsilon 1 of one rival cannot be run
    assert all(figure.holds for figure in figures)
    by_name = {figure.name: figure.value for figure in figures}
    assert by_name["acrobot, good: votes at epsilon 1 behind the best without privacy, percent"] == 0.0
    late = by_name["acrobot, mixed: return_weighted at epsilon 1 behind the best without privacy, percent"]
    assert late == pytest.approx(100 * 10 / 102)
    assert by_name["hiv, mixed, epsilon 5: votes ahead of consensus_only by [40.0, 40.0]"] == 40.0
    tie = "hiv, good, epsilon 5: votes ahead of consensus_only by [40.0, 40.0], where the target, 0, is missed: a tie"
    assert by_name[tie] == 40.0
    full(invented, dpsgd_alone=each(100.5))
    missed = [figure for figure in experts_table.figures() if not figure.holds]
    assert {figure.value for figure in missed} == {-0.5}
    assert len(missed) == 4 * 5


def test_tables_show_means_lengths_and_what_cannot_be_run(invented: Store, tmp_path: Path) -> None:
    full(invented, consensus_dpsgd=each(90.0, prefixes=[0, 4]) | {"1": {"unreachable": True}})
    lines = experts_tables.table(invented, "hiv", "good").splitlines()
    assert lines[2] == "| clone votes |" + " 102.0 ± 2.0 |" * 5
    assert lines[4] == "| consensus and DP-SGD |" + " 92.0 ± 2.0 |" * 4 + " – |"
    assert lines[7] == "| CQL, not private | 102.0 ± 2.0 |" + "  |" * 4
    lengths = experts_tables.prefixes(invented).splitlines()
    assert lengths[2] == "| CartPole, good, before DP-SGD |" + " 2.0 (50 %) |" * 4 + " – |"
    draw(experts_tables.picture(invented), "a", tmp_path / "a.svg", legend=3)
    assert len(ElementTree.parse(tmp_path / "a.svg").getroot().findall("{http://www.w3.org/2000/svg}svg")) == 8


def test_recipes_name_plans_of_their_kind() -> None:
    for name in experts_tables.TITLES:
        ways = recipes(name)
        assert ways.noisy.private_steps == ways.noisy.steps
        assert ways.alone_with(5).private_steps == 0
        assert {ways.mixed_at(epsilon).trajectories for epsilon in EPSILONS} == {25, 20, 12, 5, 3}


@pytest.mark.parametrize("change", [{"steps": 999}, {"clip_norm": 0.123}])
def test_a_row_of_another_recipe_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    results = experts_table.store(tmp_path / "a.json")
    first, second = (key("hiv", "good", "dpsgd_alone", seed) for seed in SEEDS[:2])
    assert results.configuration(first) == results.configuration(second)
    results.put(first, dataset="invented", seed=SEEDS[0], values=each(1.0))
    assert results.has(first)
    usual = recipes("hiv")
    other = replace(usual, noisy=replace(usual.noisy, **change))
    monkeypatch.setattr(experts_table, "recipes", lambda name: other)
    later = experts_table.store(tmp_path / "a.json")
    assert not later.has(first)
    with pytest.raises(LookupError, match=next(iter(change))):
        later.values(first)
