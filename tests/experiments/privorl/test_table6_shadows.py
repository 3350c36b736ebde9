"""Shadow models on few rows: blocks are what models say, and figures ask for power and refuse what promises forbid."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.lib.attacks import tpr_bound
from experiments.lib.shadows import Block, blocks, read, scored
from experiments.lib.store import Store

from experiments.lib import table_cache
from experiments.privorl import table6_shadows as shadows


def test_a_small_block_is_run_through_the_vault_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "KEPT", tmp_path)
    sizes = {"ROWS": 40, "PUBLIC_ROWS": 4_000, "STEPS": 30, "PUBLIC_STEPS": 30, "MODELS": 4}
    for name, size in sizes.items():
        monkeypatch.setattr(shadows, name, size)
    shadows.models.cache_clear()
    results = shadows.store(tmp_path / "small.json")
    wanted = [Block("umaze", math.inf, side, 0) for side in ("shadow", "target")]
    for block in wanted:
        shadows.run_row(block.key, results)
    shadow, target = read(results, wanted)["loss"]
    assert shadow.scores.shape == target.present.shape == (4, 40)
    assert not np.array_equal(shadow.present, target.present)
    values = results.values(wanted[0].key)
    assert values["mu"] == "inf"
    assert values["mean_loss"]["out"] == pytest.approx(np.exp(-shadow.scores[~shadow.present]).mean(), rel=1e-2)
    assert values["mean_loss"]["in"] < values["mean_loss"]["start"]
    shadows.models.cache_clear()
    shadows.described.cache_clear()


def test_the_plan_without_privacy_differs_in_clip_and_noise_alone() -> None:
    here = shadows.domain("umaze")
    free, bound = (shadows.planned(here, epsilon) for epsilon in (math.inf, 10.0))
    assert (free.noise_multiplier, free.steps, free.sampling_rate) == (0.0, bound.steps, bound.sampling_rate)
    assert bound.epsilon == 10.0
    assert bound.noise_multiplier is not None
    assert bound.noise_multiplier > 1.0
    asked = [shadows.configuration(Block("umaze", epsilon, "shadow", 0).key) for epsilon in (math.inf, 10.0)]
    assert asked[0]["plan"]["plan"] == asked[1]["plan"]["plan"]
    assert asked[0] != asked[1]


def test_a_block_keeps_members_and_scores() -> None:
    def run(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        return {"seen": present + 0.123456}

    block = Block.of("any/2.5/target/3")
    assert block == Block("any", 2.5, "target", 3)
    assert block.key == "any/2.5/target/3"
    found = scored(block, run, {"s": lambda r: r["seen"]}, 6, runs=5, together=2, digits={"s": 3})
    assert [len(word) for word in found["members"]] == [6] * 5
    assert found["scores"]["s"] == [[1.12 if bit == "1" else 0.123 for bit in word] for word in found["members"]]
    seeds = [one.seed for one in blocks("any", 1.0, 4, 2)]
    assert len(set(seeds)) == 6


class Known:
    """Every model says of each row whether it is in, or nothing."""

    def __init__(self, told: bool) -> None:
        self.told = told

    def has(self, key: str) -> bool:
        return not key.startswith("medium")

    def values(self, key: str) -> dict[str, Any]:
        block = Block.of(key)
        rng = np.random.default_rng(block.seed)
        present = rng.random((16, 30)) < 0.5
        mu = math.inf if math.isinf(block.epsilon) else 1.0
        return {
            "mu": mu,
            "members": ["".join("01"[int(p)] for p in row) for row in present],
            "scores": {"loss": (present * self.told + rng.normal(0, 0.05, present.shape)).tolist()},
            "mean_loss": {"in": 0.5, "out": 0.6, "start": 0.7},
        }


def test_figures_ask_for_power_and_refuse_what_a_promise_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "store", lambda: Known(True))
    sharp = {figure.name: figure for figure in shadows.figures()}
    assert sharp["umaze, LiRA, epsilon inf: TPR at 10% FPR, lower end"].holds
    assert not sharp["umaze, loss, epsilon 10: TPR at 10% FPR, lower end"].holds
    assert sharp["umaze, loss, epsilon 10: TPR at 10% FPR, lower end"].bound == tpr_bound(1.0, 0.1)
    assert not any(name.startswith("medium") for name in sharp)
    monkeypatch.setattr(shadows, "store", lambda: Known(False))
    blind = {figure.name: figure.holds for figure in shadows.figures()}
    assert not blind["umaze, LiRA, epsilon inf: TPR at 10% FPR, lower end"]
    assert blind["umaze, loss, epsilon 10: TPR at 10% FPR, lower end"]


def test_a_line_has_the_columns_of_the_head() -> None:
    results: Any = Known(True)
    for line in shadows.lines(results, "umaze", 10.0):
        assert len(line) == 1 + len(shadows.COLUMNS)
        assert line[4:6] == ["100.0% [100.0%, 100.0%]", "38.9%"]
    assert isinstance(shadows.store(), Store)
