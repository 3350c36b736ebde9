"""Histograms of what experts are worth: the rows and the promised shares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.lib.store import Store

from experiments.experts import experts_histograms, tune_controllers
from tacit_worlds import populations
from tacit_worlds.acrobot import Acrobot


@pytest.fixture
def invented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Of every world ten good experts near the top of the range and ten mixed ones, six of them at the bottom."""
    store = Store(tmp_path / "a.json", experts_histograms.configuration, hyperparameters="none")
    monkeypatch.setattr(experts_histograms, "store", lambda: store)
    for name, (low, high) in experts_histograms.SHOWN.items():
        top, bottom = high - 0.01 * (high - low), low - 5.0
        for kind, paid in (("good", [top] * 10), ("mixed", [top] * 4 + [bottom] * 6)):
            store.put(f"{name}/{kind}", dataset="invented", seed=0, values={"greedy": paid, "logged": paid})
    return store


def test_the_promised_shares(invented: Store) -> None:
    figures = list(experts_histograms.figures())
    assert len(figures) == 12
    assert [figure.value for figure in figures[:3]] == pytest.approx([1.0, 0.6, 0.4])
    assert all(figure.holds for figure in figures)


def test_a_row_is_of_the_same_experts_again() -> None:
    rows = [experts_histograms.row("cart_pole", "mixed", 8, 2) for _ in range(2)]
    assert rows[0] == rows[1]
    assert len(rows[0]["greedy"]) == len(rows[0]["logged"]) == 8
    assert max(rows[0]["logged"]) <= 200.0 < max(rows[0]["greedy"]) <= 1_000.0


def test_the_search_for_controllers_gets_better() -> None:
    """A short one on an acrobot: from nothing, most gains never swing up, to less than 300 steps."""
    how = tune_controllers.SEARCHES["acrobot"]
    short = {"acrobot": replace(how, rounds=4, draws=20, elite=4, episodes=2)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune_controllers, "SEARCHES", short)
        found = [tune_controllers.tune("acrobot", Acrobot(), np.random.default_rng(1)) for _ in range(2)]
    assert found[0][0].shape == (6, 3)
    assert np.abs(found[0][0]).max() == pytest.approx(1.0)
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1] > -300.0


@pytest.mark.parametrize("name", ["acrobot", "hiv"])
def test_settings_are_within_the_grids(name: populations.Name) -> None:
    for seed in range(5):
        domain = tune_controllers.setting(name, np.random.default_rng(seed))
        values = (domain.lengths[0], *domain.masses) if isinstance(domain, Acrobot) else domain.penalties  # type: ignore[attr-defined]
        for value, (low, high, _) in zip(values, populations.GRIDS[name], strict=False):
            assert low <= value <= high
