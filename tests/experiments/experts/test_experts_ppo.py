"""The paper's experts, smaller: variations are trained once, and all methods meet the same experts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.experts.paper_experts import Training

from experiments.experts import experts_ppo


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three variations, trained for a moment."""
    monkeypatch.setattr(experts_ppo, "EXPERTS", 3)
    monkeypatch.setattr(experts_ppo, "CHUNK", 3)
    monkeypatch.setattr(experts_ppo, "FOLDER", tmp_path / "ppo")
    small = Training(steps=2_048, rates=(1e-3,), minibatches=(4,), hidden=(8,), episodes=2)
    monkeypatch.setattr(experts_ppo, "TRAINING", small)
    return tmp_path


def test_a_row_trains_its_variations_once_and_they_are_the_population(few: Path) -> None:
    results = experts_ppo.store(few / "rows.json")
    experts_ppo.run_row("train/0", results)
    worth = results.values("train/0")["worth"]
    files = sorted((few / "ppo").glob("*.npz"))
    assert [file.name for file in files] == ["0000.npz", "0001.npz", "0002.npz"]
    made = [file.stat().st_mtime_ns for file in files]
    experts_ppo.run_row("train/0", results)
    assert [file.stat().st_mtime_ns for file in files] == made
    assert results.values("train/0")["worth"] == worth
    assert min(worth) >= 8.0
    population = experts_ppo.field("ppo", 200).population
    assert (population.count, population.sizes) == (3, (4, 8, 2))
    seen = np.zeros((1, 4))
    assert population.greedy(seen).shape == (3, 1)


def test_all_kinds_of_experts_have_the_same_methods_and_seeds() -> None:
    keys = [key.split("/") for key in experts_ppo.rows()]
    assert [key[1] for key in keys if key[0] == "train"] == [str(first) for first in range(0, 1_000, 20)]
    each = {kind: [key[1:] for key in keys if key[0] == kind] for kind in experts_ppo.KINDS}
    assert each["ppo"] == each["good"] == each["mixed"]
    assert len(each["ppo"]) == 3 * len(experts_ppo.METHODS)
    asked = experts_ppo.configuration("ppo/consensus_dpsgd/200")
    assert (asked["field"]["experts"], asked["ways"]["consensus"]["experts"]) == (1_000, 1_000)
    assert asked == experts_ppo.configuration("ppo/consensus_dpsgd/202")
