"""IQL on problems with known answers: it finds the better action, members are independent, bad tables are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tacit.agents import iql
from tacit.errors import DataError, PlanError

SHORT = iql.IqlConfig(steps=400, batch=64, width=32)


def bandit(target: float, rows: int = 4_000, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """One step, random actions, reward -(a - target * sign(s))^2."""
    rng = np.random.default_rng(seed)
    s, a = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    return {
        "observations": s.astype(np.float32),
        "actions": a.astype(np.float32),
        "rewards": -((a - target * np.sign(s)) ** 2)[:, 0].astype(np.float32),
        "next_observations": s.astype(np.float32),
        "terminations": np.ones(rows, bool),
    }


def corridor(rows: int = 6_000) -> dict[str, npt.NDArray[Any]]:
    """A line from -1 to 1 on which only the right end pays and moving right costs: the value lies in the future."""
    rng = np.random.default_rng(1)
    s, a = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    following = np.clip(s + 0.2 * a, -1, 1)
    return {
        "observations": s.astype(np.float32),
        "actions": a.astype(np.float32),
        "rewards": ((s[:, 0] > 0.8) * 1.0 - 0.05 * (a[:, 0] > 0)).astype(np.float32),
        "next_observations": following.astype(np.float32),
        "terminations": np.zeros(rows, bool),
    }


def test_it_finds_the_better_action_of_a_bandit() -> None:
    policy = iql.train(bandit(0.6), iql.IqlConfig(steps=1_500, batch=64, width=32), seeds=[0])
    left, right = policy.act(np.array([[-0.5], [0.5]], np.float32))[0, :, 0]
    assert left < -0.25
    assert right > 0.25


def test_it_looks_ahead() -> None:
    policy = iql.train(corridor(), iql.IqlConfig(steps=2_000, batch=128, width=32, discount=0.9), seeds=[0])
    actions = policy.act(np.linspace(-0.5, 0.6, 12, dtype=np.float32)[:, None])[0, :, 0]
    assert actions.mean() > 0.3


def test_members_do_not_depend_on_their_neighbours() -> None:
    tables = [bandit(0.6), bandit(-0.6, seed=1)]
    together = iql.train_tables(tables, SHORT, seeds=[0, 1])
    alone = iql.train(tables[1], SHORT, seeds=[1])
    states = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    np.testing.assert_allclose(together[1].act(states)[1], alone.act(states)[0], atol=1e-3)
    assert together[0].members == 2
    assert not np.allclose(together[0].act(states)[0], together[0].act(states)[1])


def test_statistics_come_from_the_table_alone() -> None:
    columns = bandit(0.6)
    policy = iql.train(columns, iql.IqlConfig(steps=1, batch=8, width=8), seeds=[0])
    np.testing.assert_allclose(policy.arrays["mean"][0, 0], columns["observations"].mean(0), rtol=1e-5)


def test_progress_ends_at_the_last_step() -> None:
    seen: list[tuple[int, int]] = []
    iql.train(bandit(0.1), SHORT, seeds=[0], progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 400)
    assert seen[-1] == (400, 400)


@pytest.mark.parametrize("change", [{"rewards": np.zeros(3, np.float32)}, {"actions": None}, {"observations": np.nan}])
def test_bad_tables_are_refused(change: dict[str, Any]) -> None:
    columns = bandit(0.5)
    for name, value in change.items():
        columns[name] = columns[name] * value if isinstance(value, float) else (() if value is None else value)
    with pytest.raises(DataError):
        iql.train(columns, SHORT, seeds=[0])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(PlanError):
        iql.IqlConfig(expectile=1.0)
    with pytest.raises(PlanError):
        iql.train(bandit(0.5), SHORT, seeds=[])
