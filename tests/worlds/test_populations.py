"""Populations of experts: where they come from, what they log, and that no number depends on anybody else."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor
from tacit.data.spec import Box
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit_worlds import cart_pole, hiv, populations
from tacit_worlds.populations import ExpertActor, Kind, Name, World, logs, population, returns, variation, world

NAMES = [
    "cart_pole",
    "acrobot",
    pytest.param("lunar_lander", marks=pytest.mark.skipif(find_spec("Box2D") is None, reason="needs box2d")),
    pytest.param("hiv", marks=pytest.mark.skipif(hiv.integrate_compiled is None, reason="too slow without a compiler")),
]


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_are_the_experts_in_the_default_world(name: Name) -> None:
    """Every row is one of the simulator's, the actions are the experts' own but for the floor, and it is a dataset."""
    here = world(name)
    experts = population(here, "mixed", 30, seed=0)
    rows = logs(here, experts, trajectories=4, horizon=60, seed=1)
    Trajectories.from_arrays(**rows, spec=here.spec, simulated=True)
    assert len(np.unique(rows["unit_ids"])) == 30
    assert np.array_equal(rows["unit_ids"], rows["episode_ids"] // 4)
    lengths = np.bincount(rows["episode_ids"], minlength=120)
    assert lengths.max() == 60
    last = np.cumsum(lengths) - 1
    assert (rows["terminations"] | rows["truncations"])[last].all()
    assert (rows["terminations"] | rows["truncations"]).sum() == 120
    assert all(np.isin(rows["actions"], np.arange(here.actions)))
    inside = np.ones(len(rows["rewards"]), dtype=bool)
    inside[last] = False
    following = np.flatnonzero(inside) + 1
    assert np.array_equal(rows["next_observations"][inside], rows["observations"][following])
    greedy = experts.probabilities(rows["observations"], rows["unit_ids"]).argmax(axis=1)
    share, count = (rows["actions"] != greedy).mean(), len(greedy)
    floor = 0.02 * (here.actions - 1)
    assert abs(share - floor) < 5.0 * np.sqrt(floor / count)


def test_cart_pole_rows_follow_the_physics() -> None:
    here = world("cart_pole")
    rows = logs(here, population(here, "mixed", 20, seed=0), trajectories=2, horizon=50, seed=1)
    state = rows["observations"].astype(np.float64)
    after, paid, ended = here.domain.step(state, rows["actions"], np.random.default_rng(0))
    assert np.abs(after - rows["next_observations"]).max() < 1e-6
    assert np.array_equal(ended, rows["terminations"])
    assert np.array_equal(paid, rows["rewards"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["good", "mixed"])
def test_the_first_experts_do_not_depend_on_how_many_there_are(name: Name, kind: Kind) -> None:
    few, many = (population(world(name), kind, count, seed=3) for count in (5, 40))
    for (weight, bias), (more, biases) in zip(few.weights, many.weights, strict=True):
        assert np.array_equal(weight, more[:5])
        assert np.array_equal(bias, biases[:5])


def test_seeds_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same rows, another one others; experts are logged in chunks of whole experts."""
    here = world("cart_pole")
    experts = population(here, "good", 7, seed=0)
    monkeypatch.setattr("tacit_worlds.populations.TOGETHER", 6)
    first, again, other = (logs(here, experts, 3, 10, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["observations"], other["observations"])
    assert np.array_equal(np.unique(first["episode_ids"]), np.arange(21))
    starts = first["observations"][np.flatnonzero(np.diff(first["episode_ids"], prepend=-1))]
    assert len(np.unique(starts[:, 0])) == 21
    whole = Trajectories.from_arrays(**first, spec=here.spec, simulated=True)
    blocks = Trajectories.from_blocks(populations.log_blocks(here, experts, 3, 10, seed=1), spec=here.spec)
    assert all(np.array_equal(blocks.columns[name], column) for name, column in whole.columns.items())
    assert np.array_equal(blocks.episodes, whole.episodes)


@pytest.mark.parametrize(
    ("name", "good", "mixed"),
    [
        ("cart_pole", (990.0, 1_000.0), (600.0, 900.0)),
        ("acrobot", (-105.0, -85.0), (-260.0, -140.0)),
        pytest.param("lunar_lander", (240.0, 280.0), (-5_000.0, 200.0), marks=NAMES[2].marks),  # type: ignore[union-attr]
        pytest.param("hiv", (150.0, 180.0), (50.0, 110.0), marks=NAMES[3].marks),  # type: ignore[union-attr]
    ],
)
def test_what_the_experts_are_worth(name: Name, good: tuple[float, float], mixed: tuple[float, float]) -> None:
    """Mean greedy returns of 200 experts (landers: 20), two episodes each; the ranges are wide."""
    here, count = world(name), 20 if name == "lunar_lander" else 200
    for kind, (low, high) in (("good", good), ("mixed", mixed)):
        experts = replace(population(here, kind, count, seed=1), floor=0.0)  # type: ignore[arg-type]
        paid = returns(here, ExpertActor(experts), 2, seed=2, replicates=count)
        assert paid.shape == (count, 2)
        assert low <= paid.mean() <= high


def test_the_regulators_solve_the_riccati_equation_of_the_simulated_cart() -> None:
    """The linearisation by differences of the simulator itself gives the same gains (setting 123, first costs)."""
    cart, (state_cost, push_cost) = variation("cart_pole", 123), populations.CART_POLE_COSTS[0]
    assert (cart.gravity, cart.force) == (9.0, pytest.approx(9.5))
    assert cart.cart_mass == pytest.approx(0.95)
    step, nothing = 1e-6, np.random.default_rng(0)

    def after(state: np.ndarray, push: float) -> np.ndarray:
        pushed = replace(cart, force=push) if push > 0.0 else cart
        return pushed.step(state[None], np.ones(1), nothing)[0][0]

    light = 1e-3  # newtons, in place of a push of none
    at_rest = after(np.zeros(4), light)
    a = np.stack([(after(step * unit, light) - at_rest) / step for unit in np.eye(4)], axis=1)
    b = ((after(np.zeros(4), 2.0 * light) - at_rest) / light * cart.force)[:, None]
    p = solve_discrete_are(a, b, np.diag(state_cost), np.array([[push_cost]]))
    gains = np.linalg.solve(push_cost + b.T @ p @ b, b.T @ p @ a)[0]
    assert populations.cart_pole_gains()[123] == pytest.approx(gains, rel=1e-3)


def test_a_released_policy_is_evaluated_to_the_longer_horizon() -> None:
    """A policy that pushes against the fall of the pole, as the regulators do, keeps it up for 1,000 steps."""
    here = world("cart_pole")
    policy = Policy(Scaled(cart_pole.LOW, cart_pole.HIGH), Mlp((4, 2)), Categorical(2))
    push = -populations.cart_pole_gains()[0] * np.asarray(cart_pole.HIGH)
    theta = np.concatenate([np.stack([-push, push], axis=1).ravel(), np.zeros(2)]).astype(np.float32)
    acting = PolicyActor(policy, np.stack([theta, -theta]), greedy=True)
    paid = returns(here, acting, 3, seed=0, replicates=2)
    assert (paid[0] == 1_000.0).all()
    assert (paid[1] < 20.0).all()


def test_unknown_worlds_and_kinds_are_refused() -> None:
    with pytest.raises(DataError, match="cart_pole, acrobot"):
        world("mars")  # type: ignore[arg-type]
    here: World = world("cart_pole")
    for kind, experts in (("bad", 3), ("good", 0)):
        with pytest.raises(DataError, match="at least one expert"):
            population(here, kind, experts, seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_world_says_of_itself(name: Name) -> None:
    """Names and a box for every number of an observation, within its bounds; most returns within theirs."""
    here = world(name)
    space = here.spec.observation
    assert isinstance(space, Box)
    assert len(here.dimension_names) == here.box.size == space.size
    assert (np.asarray(here.box.low) >= space.low).all()
    assert (np.asarray(here.box.high) <= space.high).all()
    paid = returns(
        here, ExpertActor(population(here, "mixed", 20, seed=4)), 1, seed=5, replicates=20, horizon=here.horizon
    )
    low, high = here.return_bounds
    assert paid.max() <= high + (30.0 if name == "lunar_lander" else 0.0)
    assert (paid >= low).mean() >= (0.5 if name == "lunar_lander" else 1.0)
