"""The experiment of attacks: one small run of a cell, and figures from rows whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.table6_attack import CELLS, SCORES, Cell

from experiments.lib import table_cache
from experiments.privorl import table6_attack as table6
from tacit.evaluation.canaries import leap_canaries
from tacit.methods import synthesis
from tacit.methods.synthesis import ablations
from tacit.methods.synthesis.table_matching import cell_codes
from tacit.privacy.gradients import clipping
from tacit.units import Unit


def test_a_cell_is_run_attacked_and_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    monkeypatch.setattr(table6, "TOLD", 60)
    domain, base = table6.domain, ways.base
    monkeypatch.setattr(table6, "domain", lambda *given: replace(domain(*given), public_rows=1_000))
    short = synthesis.Pretraining(provenance="simulated", steps=25, batch=128)
    monkeypatch.setattr(ways, "base", lambda *given: replace(base(*given), width=16, pretraining=short))
    ablation = ablations.ablation  # to memorise rows it is given 10,000 steps

    def cut(name: Any, plan: synthesis.TransitionsPlan, **promise: Any) -> synthesis.TransitionsPlan:
        return ablation(name, replace(plan, steps=25), **promise)

    monkeypatch.setattr(ablations, "ablation", cut)
    cell = Cell("umaze", "memorised")
    values = table6.run(cell, ways.QUICK)
    assert len(values["present"]) == table6.CANARIES // 10
    lengths = {name: len(one) for name, one in values["scores"].items()}
    assert lengths == dict.fromkeys(SCORES[:-1], table6.CANARIES // 10)
    for kind in ("hits", "bare_hits"):
        for hits, alarms in table6.rates(values, kind).values():
            assert 0 <= hits.low <= hits.value <= hits.high <= 1
            assert 0 <= alarms.value <= 1
    row = table6.line(cell, values)
    assert len(row) == 1 + len(table6.COLUMNS)
    assert row[:3] == ["umaze", "memorised", "none"]


def test_released_histograms_are_told_from_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary is told by the shares of its cells: the first three are all that was counted."""
    spec = Maze("umaze").spec
    matching = synthesis.TableMatching.of(spec, bins=4, coarse=4, pool=500)
    plan = synthesis.TransitionsPlan(steps=2, warmup=0, width=16, depth=1, matching=matching)
    plan = plan.calibrate(unit=Unit("transition", "add_or_remove", 1_000), epsilon=1.0, delta=1e-5)
    start = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(spec), None, seed=0)
    canaries = leap_canaries(spec, 6, seed=1)
    codes = cell_codes(matching.tables, canaries)
    shares = [np.bincount(code[:3], minlength=size) / 3 for code, size in zip(codes, matching.sizes, strict=True)]
    value = synthesis.Synthesizer(plan, start.encoder, start.average, np.concatenate(shares), 1)
    told = table6.counted(value, canaries, seed=0)
    assert told[:3].mean() > told[3:].mean()


@pytest.mark.parametrize("way", table6.WAYS)
def test_where_noise_hides_nobody_laws_tell_who_is_in(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "kept", lambda name, configuration, make: make())
    monkeypatch.setattr("experiments.privorl.parts.synthesis_mazes.kept", lambda name, configuration, make: make())
    monkeypatch.setattr(table6, "POPULATION", 1_000)
    monkeypatch.setattr(table6, "CANARIES", 64)
    monkeypatch.setattr(table6, "PEOPLE", 60)
    values = table6.run(Cell("umaze", way, table6.SURE), ways.QUICK)
    told, present = np.array(values["scores"]["loss"]), np.array([bit == "1" for bit in values["present"]])
    assert (told[present][:, None] > told[~present]).mean() > 0.7  # .5 by chance, give or take .07
    hits = table6.rates(values)[0.1][0]
    assert 0 <= hits.low <= hits.value <= hits.high <= 1
    assert table6.configuration(f"umaze/{way}/400/0")["delta"] == values["delta"]


def values_of(right: float, hits: int) -> dict[str, Any]:
    """200 canaries, a share of which every score finds, and so many hits of 1,000 rows at 100 and 10 alarms."""
    present = np.arange(200) % 2 == 0
    told = np.where(np.arange(200) < 200 * right, present, ~present)
    scores = dict.fromkeys(SCORES, (told + np.linspace(0, 0.1, 200)).tolist())
    counts = [[0.1, hits, 1_000, 100, 1_000], [0.01, hits // 10, 1_000, 10, 1_000]]
    bare = [[0.1, 110, 1_000, 100, 1_000], [0.01, 11, 1_000, 10, 1_000]]
    return {
        "delta": 1e-7,
        "present": "".join("01"[int(p)] for p in present),
        "scores": scores,
        "hits": counts,
        "bare_hits": bare,
    }


def test_figures_refuse_what_tells_too_much_and_a_twin_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept:
        def __init__(self, right: float, hits: int) -> None:
            self.row = values_of(right, hits)

        def values(self, key: str) -> dict[str, Any]:
            assert key in {cell.key for cell in CELLS}
            return self.row

    monkeypatch.setattr(table6, "store", lambda: Kept(1.0, 600))
    broken = {figure.name: figure.holds for figure in table6.figures()}
    assert not broken["umaze, tacit, epsilon 1: audited epsilon (sums)"]
    assert not broken["umaze, tacit, epsilon 1: TPR at 10% FPR, lower end"]
    assert broken["umaze, tacit, epsilon 10: TPR at 10% FPR, lower end"]
    assert broken["umaze, no clipping, epsilon 1: audited epsilon (pursuit)"]
    for way in table6.WAYS:
        assert not broken[f"umaze, {way}, epsilon 1: audited epsilon (loss)"]
    assert broken["umaze, memorised: TPR at 10% FPR, lower end"]
    monkeypatch.setattr(table6, "store", lambda: Kept(0.5, 100))
    blind = {figure.name: figure.holds for figure in table6.figures()}
    assert blind["umaze, tacit, epsilon 1: audited epsilon (sums)"]
    assert not blind["umaze, no clipping, epsilon 1: audited epsilon (pursuit)"]
    assert not blind["umaze, structured, epsilon 400, of nobody hidden: audited epsilon"]
    assert not blind["umaze, memorised: TPR at 10% FPR, lower end"]


def test_the_twin_clips_nothing_and_only_inside() -> None:
    real = clipping.coefficients
    with table6.unclipped():
        np.testing.assert_array_equal(clipping.coefficients(np.array([0.5, 1e6]), 1.0), [1.0, 1.0])
    assert clipping.coefficients is real
