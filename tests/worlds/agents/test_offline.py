"""What the offline agents share: one contract for all of them, checked tables, stacked networks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tacit.errors import DataError, PlanError
from tacit_worlds.agents import edac, iql, offline, td3_bc
from tacit_worlds.agents.perceptrons import network_outputs

Columns = dict[str, npt.NDArray[Any]]
AGENTS: dict[str, tuple[ModuleType, Callable[..., Any]]] = {
    "iql": (iql, iql.IqlConfig),
    "td3_bc": (td3_bc, td3_bc.Td3BcConfig),
    "edac": (edac, edac.EdacConfig),
}


def bandit(target: float, rows: int = 4_000, seed: int = 0) -> Columns:
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


def corridor(rows: int = 6_000) -> Columns:
    """A line from -1 to 1 on which only the right end pays and moving right costs: the value lies in the future."""
    rng = np.random.default_rng(1)
    s, a = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    return {
        "observations": s.astype(np.float32),
        "actions": a.astype(np.float32),
        "rewards": ((s[:, 0] > 0.8) * 1.0 - 0.05 * (a[:, 0] > 0)).astype(np.float32),
        "next_observations": np.clip(s + 0.2 * a, -1, 1).astype(np.float32),
        "terminations": np.zeros(rows, bool),
    }


def agent(name: str, **changes: Any) -> tuple[ModuleType, Any]:
    """Module and a short configuration."""
    module, config = AGENTS[name]
    return module, config(**{"steps": 300, "batch": 64, "width": 32} | changes)


def actions(policy: offline.OfflinePolicies, *states: float) -> npt.NDArray[np.float32]:
    """[K, N] of a one-dimensional task."""
    return policy.act(np.array(states, np.float32)[:, None])[..., 0]


@pytest.mark.parametrize("name", AGENTS)
def test_it_finds_the_better_action_of_a_bandit(name: str) -> None:
    module, config = agent(name, learning_rate=5e-3)
    left, right = actions(module.train(bandit(0.6), config, seeds=[0]), -0.5, 0.5)[0]
    assert left < -0.4
    assert right > 0.4


@pytest.mark.parametrize("name", AGENTS)
def test_it_looks_ahead(name: str) -> None:
    changes = {"steps": 500, "learning_rate": 3e-3, "discount": 0.9, "target_rate": 0.05}
    own = {"iql": {"expectile": 0.8, "inverse_temperature": 10.0}, "td3_bc": {}, "edac": {"steps": 250, "critics": 3}}
    module, config = agent(name, **changes | own[name])
    chosen = actions(module.train(corridor(), config, seeds=[0]), *np.linspace(-0.2, 0.7, 12))
    assert chosen.min() > 0.2


@pytest.mark.parametrize("name", AGENTS)
def test_members_do_not_depend_on_their_neighbours(name: str) -> None:
    module, config = agent(name, steps=40)
    tables = [bandit(0.6), bandit(-0.6, seed=1)]
    together = module.train_tables(tables, config, seeds=[0, 1])
    alone = module.train(tables[1], config, seeds=[1])
    states = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(actions(together[1], *states)[1], actions(alone, *states)[0], atol=1e-3)
    assert [policy.members for policy in together] == [2, 2]
    assert not np.allclose(actions(together[0], *states)[0], actions(together[0], *states)[1], atol=1e-3)


@pytest.mark.parametrize("name", AGENTS)
def test_watching_changes_nothing_and_ends_at_the_last_step(name: str) -> None:
    module, config = agent(name, steps=50)
    seen: list[tuple[int, npt.NDArray[np.float32]]] = []
    watch = offline.Watch(20, lambda step, policies: seen.append((step, policies[0].act(np.zeros((1, 1))))))
    told: list[tuple[int, int]] = []
    watched = module.train(
        bandit(0.1), config, seeds=[0], watch=watch, progress=lambda done, total: told.append((done, total))
    )
    unseen = module.train(bandit(0.1), config, seeds=[0])
    assert [step for step, _ in seen] == [20, 40, 50]
    assert told == [(0, 50), (50, 50)]
    np.testing.assert_array_equal(seen[-1][1], watched.act(np.zeros((1, 1))))
    np.testing.assert_array_equal(watched.act(np.ones((1, 1))), unseen.act(np.ones((1, 1))))
    assert not np.array_equal(seen[0][1], seen[-1][1])


@pytest.mark.parametrize("name", AGENTS)
def test_statistics_come_from_the_table_alone(name: str) -> None:
    columns = bandit(0.6)
    module, config = agent(name, steps=1)
    policy = module.train(columns, config, seeds=[0])
    np.testing.assert_allclose(policy.arrays["mean"][0, 0], columns["observations"].mean(0), rtol=1e-5)
    np.testing.assert_allclose(policy.arrays["scale"][0, 0], columns["observations"].std(0), rtol=1e-4)


@pytest.mark.parametrize("name", AGENTS)
def test_a_constant_column_is_survived(name: str) -> None:
    columns = bandit(0.6)
    for field in ("observations", "next_observations"):
        columns[field] = np.concatenate([columns[field], np.full_like(columns[field], 0.1)], axis=1)
    module, config = agent(name, steps=30)
    policy = module.train(columns, config, seeds=[0])
    assert policy.arrays["scale"][0, 0, 1] == pytest.approx(1.0)
    at, near = (policy.act(np.array([[0.5, other]], np.float32)) for other in (0.1, 0.1001))
    np.testing.assert_allclose(at, near, atol=1e-2)
    columns["rewards"] = np.full_like(columns["rewards"], 0.3)
    assert np.isfinite(module.train(columns, config, seeds=[0]).act(np.zeros((1, 2)))).all()


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("kind", [np.int64, np.bool_])
def test_discrete_actions_are_refused_with_a_remedy(name: str, kind: type) -> None:
    columns = bandit(0.5)
    module, config = agent(name)
    for shape in ((-1, 1), (-1,)):
        columns["actions"] = (columns["actions"] > 0).astype(kind).reshape(shape)
        with pytest.raises(DataError, match="discrete agent") as raised:
            module.train(columns, config, seeds=[0])
        assert str(raised.value).startswith(f"{name}.train_tables: ")


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("actions", lambda a: (), "actions is missing or empty"),
        ("actions", lambda a: 1.5 * a, r"actions has a value outside \[-1, 1\]"),
        ("actions", lambda a: a[:, 0], "actions has 1 axes and not 2"),
        ("observations", lambda s: np.nan * s, "observations has a value that is NaN"),
        ("observations", lambda s: s + 1e300, "above what float32 holds"),
        ("observations", lambda s: s[:10], "observations has 10 rows, and there are 4,000 rewards"),
        ("observations", lambda s: s.astype(str), "observations is no column of numbers"),
        ("rewards", lambda r: np.float32(1.0), "rewards has 0 axes and not 1"),
        ("next_observations", lambda s: np.tile(s, (1, 2)), "next_observations has another width"),
        ("terminations", lambda end: end[:, None], "terminations has 2 axes and not 1"),
    ],
)
def test_bad_tables_are_refused_by_the_column(name: str, change: Callable[[Any], Any], what: str) -> None:
    columns = bandit(0.5)
    columns[name] = change(columns[name].astype(np.float64) if name == "observations" else columns[name])
    module, config = agent("td3_bc")
    with pytest.raises(DataError, match=f"{what}.*of one Trajectories"):
        module.train(columns, config, seeds=[0])


@pytest.mark.parametrize("name", AGENTS)
def test_a_batch_of_more_rows_than_a_table_has_is_refused(name: str) -> None:
    module, config = agent(name, batch=65)
    with pytest.raises(PlanError, match="batch is 65, and a table has 64 rows"):
        module.train_tables([bandit(0.5, rows=70), bandit(0.5, rows=64)], config, seeds=[0])


def test_tables_of_two_tasks_are_refused() -> None:
    wide = bandit(0.5)
    wide["actions"] = np.repeat(wide["actions"], 2, axis=1)
    module, config = agent("edac")
    with pytest.raises(DataError, match="different widths"):
        module.train_tables([bandit(0.5), wide], config, seeds=[0])


@pytest.mark.parametrize("name", AGENTS)
def test_nothing_to_train_is_refused(name: str) -> None:
    module, config = agent(name)
    with pytest.raises(PlanError):
        module.train(bandit(0.5), config, seeds=[])
    with pytest.raises(PlanError):
        module.train_tables([], config, seeds=[0])


@pytest.mark.parametrize(
    ("name", "change"), [("iql", {"expectile": 1.0}), ("td3_bc", {"alpha": 0.0}), ("edac", {"critics": 1})]
)
def test_bad_settings_are_refused(name: str, change: dict[str, Any]) -> None:
    others: tuple[dict[str, Any], ...] = ({"steps": 0}, {"steps": 2.5}, {"batch": "64"}, {"discount": np.nan})
    for wrong in (change, *others, {"learning_rate": 0.0}, {"target_rate": 0.0}):
        ((field, value),) = wrong.items()
        with pytest.raises(PlanError, match=f"{AGENTS[name][1].__name__}: {field} is {value!r}; expected a"):
            AGENTS[name][1](**wrong)
    with pytest.raises(PlanError):
        offline.Watch(0, lambda step, policies: None)


def test_rewards_keep_their_level_where_rows_end() -> None:
    """A shift of all rewards would change what a long life is worth."""
    columns = corridor()
    _, _, r, _, alive = next(offline.Members([columns], [0], "cpu", "test").draw_batches(4_000))
    assert abs(float(r.mean())) < 0.05
    assert float(alive.min()) == 1.0
    columns["terminations"] = np.arange(6_000) % 10 == 0
    _, _, r, _, alive = next(offline.Members([columns], [0], "cpu", "test").draw_batches(4_000))
    expected = columns["rewards"].mean() / columns["rewards"].std()
    assert float(r.mean()) == pytest.approx(expected, abs=0.06)
    assert float(alive.mean()) == pytest.approx(0.9, abs=0.03)


def test_policies_play_what_was_trained() -> None:
    members = offline.Members([bandit(0.5), bandit(0.1)], [0, 1], "cpu", "test")
    layers = members.networks((1, 8, 1)).layers
    _, second = members.policies(layers)
    x = np.array([[0.3], [-0.7]], np.float32)
    scaled = torch.from_numpy((x - second.arrays["mean"][:1]) / second.arrays["scale"][:1]).repeat(4, 1, 1)
    expected = torch.tanh(network_outputs(layers, scaled, norm=False)).numpy()[2:]
    np.testing.assert_allclose(second.act(x), expected, rtol=1e-5)


def test_noise_belongs_to_members() -> None:
    noise = offline.Members([bandit(0.5)], [3, 4], "cpu", "test").draw_normals((2, 5))
    drawn = torch.stack([next(noise) for _ in range(70)])
    assert drawn.shape == (70, 2, 2, 5)
    other = offline.Members([bandit(0.5)], [4], "cpu", "test").draw_normals((2, 5))
    torch.testing.assert_close(drawn[:, 1], torch.stack([next(other)[0] for _ in range(70)]))
    assert 0.9 < float(drawn.std()) < 1.1


def test_the_rate_is_held_and_then_falls() -> None:
    held = td3_bc.Td3BcConfig(steps=100, learning_rate=0.01, fall=0.5)
    assert [offline.learning_rate(held, step) for step in (0, 50, 75, 100)] == pytest.approx([0.01, 0.01, 0.005, 0.0])
    falling = iql.IqlConfig(steps=100, learning_rate=0.01)
    assert offline.learning_rate(falling, 50) == pytest.approx(0.005)
