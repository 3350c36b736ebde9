"""A dataset with a constant column: from its records to an agent, and nothing on the way divides by zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.data import Box, PublicSpec, Trajectories
from tacit.evaluation.fidelity import fidelity
from tacit.methods import synthesis
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.agents import iql

ROWS, LEVEL = 2_000, 0.25
UNIT = Unit("transition", "add_or_remove", ROWS)
PLAN: dict[str, Any] = {"steps": 12, "sampling_rate": 0.1, "width": 16, "depth": 1, "warmup": 2, "ema": 0.9}
DECLARED = (0.1, 0.1)


def spec(difference: tuple[float, ...] | None) -> PublicSpec:
    return PublicSpec(
        Box((-1.0, 0.0), (1.0, 1.0)), Box((-1.0, -1.0), (1.0, 1.0)), Box((0.0,), (1.0,)), "declared", False, difference
    )


def table(seed: int) -> dict[str, Any]:
    """The second observation, the second action and the reward never change."""
    rng = np.random.default_rng(seed)
    seen, action = (np.column_stack([rng.uniform(-0.8, 0.8, ROWS), np.full(ROWS, LEVEL)]) for _ in range(2))
    following = seen + 0.1 * np.column_stack([action[:, 0], np.zeros(ROWS)])
    columns = {"observations": seen, "actions": action, "rewards": np.full(ROWS, 0.5), "next_observations": following}
    return {name: column.astype(np.float32) for name, column in columns.items()} | {
        "terminations": np.zeros(ROWS, dtype=bool)
    }


@pytest.mark.parametrize("difference", [None, DECLARED])
def test_it_survives_encoding(difference: tuple[float, ...] | None) -> None:
    columns = table(0)
    encoder = synthesis.Encoder.from_public(spec(difference), table(1))
    rows = {name: torch.from_numpy(column) for name, column in columns.items()}
    encoded = encoder.encode(rows, torch.zeros(ROWS, encoder.bounded_size))
    assert torch.isfinite(encoded).all()
    assert encoded.abs().max() < 10.0
    for name, column in encoder.decode(encoded).items():
        np.testing.assert_allclose(column.numpy(), columns[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("difference", [None, DECLARED])
def test_it_survives_synthesis_measures_and_agents(difference: tuple[float, ...] | None, tmp_path: Path) -> None:
    real, public = table(0), table(1)
    data = Trajectories.from_arrays(**real, unit_ids=":transition", spec=spec(difference), simulated=True)
    pretraining = synthesis.Pretraining(provenance="simulated", steps=20, warmup=2)
    plan = synthesis.TransitionsPlan(**PLAN, pretraining=pretraining).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    encoder = synthesis.Encoder.from_public(data.spec, public)
    start = synthesis.pretrain(plan, encoder, public, seed=0)
    with Ledger(tmp_path / "a.ledger", UNIT, epsilon=8.0, delta=1e-5, composition=SUM) as ledger:
        value = synthesis.fit(plan, Vault(data, ledger), pretrained=start).value
    columns = value.sample_columns(500, seed=0)
    assert all(np.isfinite(column).all() for column in columns.values())
    measured = fidelity(real, columns)
    assert 0.0 < measured.marginal < 1.0
    assert np.isfinite(measured.correlation)
    names = ("observations", "actions", "rewards", "next_observations", "terminations")
    for made in (real, {name: columns[name] for name in names}):
        agent = iql.train(made, iql.IqlConfig(steps=20, batch=16, width=8), seeds=[0])
        assert np.isfinite(agent.act(np.array([[0.3, LEVEL], [0.3, 0.9]]))).all()
