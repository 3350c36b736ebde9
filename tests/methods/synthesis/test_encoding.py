"""Encoding: round trips, the difference, atoms on the bounds, discrete and terminal fields."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError
from tacit.methods.synthesis.encoding import Encoder

CONTINUOUS = PublicSpec(
    observation=Box((0.0, -5.0), (4.0, 5.0)),
    action=Box((-1.0,), (1.0,)),
    reward=Box((0.0,), (1.0,)),
    source="physics",
    terminals=False,
    difference=(0.02, 0.2),
)
DISCRETE = PublicSpec(
    observation=Discrete(5), action=Discrete(3), reward=Box((-1.0,), (1.0,)), source="environment", terminals=True
)
MIXED = PublicSpec(
    observation=Box((-2.0,), (2.0,)),
    action=Discrete(4),
    reward=Box((0.0,), (10.0,)),
    source="declared",
    difference=(0.5,),
)
SPECS = [CONTINUOUS, DISCRETE, MIXED]


def rows_within(spec: PublicSpec, shape: tuple[int, ...], seed: int) -> dict[str, torch.Tensor]:
    """Random rows, a third of whose Box numbers lie on a bound."""
    rng = np.random.default_rng(seed)

    def field(space: Box | Discrete) -> torch.Tensor:
        if isinstance(space, Discrete):
            return torch.as_tensor(rng.integers(space.n, size=shape))
        low, high = np.array(space.low, np.float32), np.array(space.high, np.float32)
        values = low + (high - low) * rng.random((*shape, space.size)).astype(np.float32)
        where = rng.integers(6, size=values.shape)
        return torch.as_tensor(np.where(where == 0, low, np.where(where == 1, high, values)))

    return {
        "observations": field(spec.observation),
        "actions": field(spec.action),
        "rewards": field(spec.reward)[..., 0],
        "next_observations": field(spec.observation),
        "terminations": torch.as_tensor(rng.random(shape) < (0.5 if spec.terminals else 0.0)),
    }


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(7,), (3, 2), (0,)]), spread_seed=st.integers(0, 99))
def test_decoding_undoes_encoding(spec: PublicSpec, seed: int, shape: tuple[int, ...], spread_seed: int) -> None:
    encoder = Encoder.from_bounds(spec)
    rows = rows_within(spec, shape, seed)
    spread = torch.randn(*shape, encoder.bounded_size, generator=torch.Generator().manual_seed(spread_seed))
    decoded = encoder.decode(encoder.encode(rows, spread))
    assert decoded.keys() == rows.keys()
    for name, column in rows.items():
        assert decoded[name].shape == column.shape, name
        assert decoded[name].dtype == column.dtype, name
        if column.dtype != torch.float32:
            assert torch.equal(decoded[name], column), name
        elif name == "next_observations":
            # An observation on its bound is spread, and its difference is added to the clipped value again.
            assert torch.allclose(decoded[name], column, atol=1e-4), name
        else:
            assert torch.allclose(decoded[name], column, atol=1e-5), name


def test_values_on_a_bound_return_to_it_exactly() -> None:
    encoder = Encoder.from_bounds(CONTINUOUS)
    rows = {
        "observations": torch.tensor([[4.0, -5.0]]),
        "actions": torch.tensor([[1.0]]),
        "rewards": torch.tensor([0.0]),
        "next_observations": torch.tensor([[4.0, -5.0]]),
        "terminations": torch.tensor([False]),
    }
    decoded = encoder.decode(encoder.encode(rows, torch.tensor([[-2.0, 1.0, 0.3, -0.7]])))
    for name, column in rows.items():
        assert torch.equal(decoded[name], column), name


def test_literal_encoding() -> None:
    """[0, 4] has center 2 and uniform deviation 4/sqrt(12); the next state is (next - now) / difference."""
    rows = {
        "observations": torch.tensor([[1.0, 2.5]]),
        "actions": torch.tensor([[1.0]]),
        "rewards": torch.tensor([0.25]),
        "next_observations": torch.tensor([[1.03, 2.3]]),
    }
    encoder = Encoder.from_bounds(CONTINUOUS)
    root = math.sqrt(12)
    expected = [(1 - 2) * root / 4, 2.5 * root / 10, root / 2, -0.25 * root, 1.5, -1.0]
    assert encoder.size == 6
    still = encoder.encode(rows, torch.zeros(1, 4))
    assert still[0].tolist() == pytest.approx(expected, abs=1e-5)
    # Only the action lies on a bound: it moves outwards by |-2| * 0.3 standard units, the others stay.
    moved = encoder.encode(rows, torch.full((1, 4), -2.0))
    expected[2] += 0.6
    assert moved[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_discrete_and_terminal_fields() -> None:
    encoder = Encoder.from_bounds(DISCRETE)
    rows = {
        "observations": torch.tensor([4]),
        "actions": torch.tensor([0]),
        "rewards": torch.tensor([0.0]),
        "next_observations": torch.tensor([1]),
        "terminations": torch.tensor([True]),
    }
    encoded = encoder.encode(rows, torch.zeros(1, 1))
    assert encoded.tolist() == [[-1, -1, -1, -1, 1, 1, -1, -1, 0, -1, 1, -1, -1, -1, 1]]
    noisy = encoder.decode(encoded + 0.45)
    assert noisy["terminations"].tolist() == [True]
    assert encoder.decode(encoded - 0.51)["terminations"].tolist() == [False]
    assert noisy["observations"].tolist() == [4]


@pytest.mark.parametrize("spec", SPECS)
def test_decoding_anything_stays_within_the_bounds(spec: PublicSpec) -> None:
    encoder = Encoder.from_bounds(spec)
    wild = 50 * torch.randn(200, encoder.size, generator=torch.Generator().manual_seed(0))
    decoded = encoder.decode(wild)
    for name, space in (
        ("observations", spec.observation),
        ("next_observations", spec.observation),
        ("actions", spec.action),
    ):
        if isinstance(space, Discrete):
            assert decoded[name].min() >= 0
            assert decoded[name].max() < space.n
        else:
            assert (decoded[name] >= torch.tensor(space.low)).all()
            assert (decoded[name] <= torch.tensor(space.high)).all()
    assert spec.terminals or not decoded["terminations"].any()


def test_rows_do_not_meet() -> None:
    """Encoding is elementwise: another row's value changes nothing, bit for bit."""
    encoder = Encoder.from_bounds(CONTINUOUS)
    rows, others = rows_within(CONTINUOUS, (6,), 0), rows_within(CONTINUOUS, (6,), 1)
    spread = torch.randn(6, encoder.bounded_size, generator=torch.Generator().manual_seed(2))
    changed = {name: torch.cat([others[name][:1], column[1:]]) for name, column in rows.items()}
    one, two = encoder.encode(rows, spread), encoder.encode(changed, spread)
    assert torch.equal(one[1:], two[1:])
    assert not torch.equal(one[:1], two[:1])


def test_step_size_from_public_rows() -> None:
    spec = dataclasses.replace(CONTINUOUS, difference=None)
    rng = np.random.default_rng(0)
    now = rng.random((10_000, 2)).astype(np.float32)
    columns: dict[str, Any] = {
        "observations": now,
        "next_observations": now
        + np.array([0.03, 0.7], np.float32) * rng.standard_normal((10_000, 2)).astype(np.float32),
        "rewards": rng.random(10_000),
    }
    encoder = Encoder.from_public(spec, columns)
    assert encoder.scale[4:] == pytest.approx((0.03, 0.7), rel=0.03)
    assert encoder.scale[:4] == Encoder.from_bounds(CONTINUOUS).scale[:4]
    declared = Encoder.from_public(CONTINUOUS, columns)
    assert declared.scale[4:] == (0.02, 0.2)


def test_public_rows_that_never_move_do_not_divide_by_zero() -> None:
    spec = dataclasses.replace(CONTINUOUS, difference=None)
    still = np.ones((10, 2), np.float32)
    encoder = Encoder.from_public(spec, {"observations": still, "next_observations": still, "rewards": still[:, 0]})
    assert encoder.scale[4:] == pytest.approx((4e-6, 1e-5))


def needles(count: int, seed: int) -> np.ndarray:
    """Rewards exp(-distance) of far-away states: three quarters lie within a hundredth of the range."""
    return np.exp(-np.random.default_rng(seed).uniform(0, 12, count)).astype(np.float32)


def with_rewards(rewards: np.ndarray) -> dict[str, Any]:
    seen = np.zeros((len(rewards), 2), np.float32)
    return {"observations": seen, "next_observations": seen, "actions": np.zeros((len(rewards), 1)), "rewards": rewards}


def test_rewards_are_bent_by_public_ones_and_come_back() -> None:
    encoder = Encoder.from_public(CONTINUOUS, with_rewards(needles(50_000, 0)))
    rows = {name: torch.as_tensor(column) for name, column in with_rewards(needles(20_000, 1)).items()}
    encoded = encoder.encode(rows, torch.zeros(20_000, encoder.bounded_size))
    rewards = encoded[:, 3]
    assert rewards.abs().max() <= 2.5 + 1e-4
    assert 0.6 < rewards.std() < 1.2
    straight = Encoder.from_bounds(CONTINUOUS).encode(rows, torch.zeros(20_000, encoder.bounded_size))
    near = rows["rewards"] < 0.01
    assert near.sum() > 10_000
    assert rewards[near].std() > 8 * straight[near, 3].std()
    assert torch.equal(encoded[:, [0, 1, 2, 4, 5]], straight[:, [0, 1, 2, 4, 5]])
    torch.testing.assert_close(encoder.decode(encoded)["rewards"], rows["rewards"], rtol=1e-4, atol=1e-6)
    assert Encoder.from_json(encoder.to_json()) == encoder


def test_bent_rewards_on_a_bound_are_spread_outwards() -> None:
    encoder = Encoder.from_public(CONTINUOUS, with_rewards(needles(50_000, 0)))
    rows = {name: torch.as_tensor(column) for name, column in with_rewards(np.float32([0.0, 1.0])).items()}
    encoded = encoder.encode(rows, torch.ones(2, encoder.bounded_size))
    assert encoded[:, 3].tolist() == pytest.approx([-2.8, 2.8], abs=1e-5)
    assert encoder.decode(encoded)["rewards"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("values", [[0.5], [0.0, 1.0], [0.0, 0.25, 0.5]])
def test_rewards_of_a_few_values_are_not_bent(values: list[float]) -> None:
    rewards = np.random.default_rng(0).choice(np.float32(values), 10_000)
    assert Encoder.from_public(CONTINUOUS, with_rewards(rewards)) == Encoder.from_bounds(CONTINUOUS)


def test_public_rewards_beyond_the_private_bounds_count_as_the_bounds() -> None:
    rewards = 3 * np.random.default_rng(0).random(10_000) - 1
    assert Encoder.from_public(CONTINUOUS, with_rewards(rewards)) == Encoder.from_bounds(CONTINUOUS)
    few = np.concatenate([rewards[:10], needles(10_000, 0)])
    knots = Encoder.from_public(CONTINUOUS, with_rewards(few)).reward_knots
    assert (knots[0], knots[-1]) == (0.0, 1.0)


def test_undeclared_step_size_is_an_error() -> None:
    with pytest.raises(DataError, match="typical size of a step"):
        Encoder.from_bounds(dataclasses.replace(CONTINUOUS, difference=None))


@pytest.mark.parametrize(("center", "scale"), [((0.0,) * 6, (1.0,) * 5), ((0.0,) * 6, (0.0,) * 6)])
def test_constants_that_do_not_fit_are_an_error(center: tuple[float, ...], scale: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="do not fit"):
        Encoder(CONTINUOUS, center, scale)


def test_what_takes_few_values_is_decoded_to_them() -> None:
    plain = Encoder.from_bounds(
        PublicSpec(
            observation=Box((0.0, 0.0), (9.0, 9.0)),
            action=Box((-1.0,), (1.0,)),
            reward=Box((-1.0,), (1.0,)),
            difference=(1.0, 1.0),
            source="declared",
        )
    )
    encoder = dataclasses.replace(plain, atoms=((0.0, 1.0, 5.0), (), (-0.5, 0.25)))
    rows = {
        "observations": torch.tensor([[0.4, 3.3], [0.6, 3.3], [2.9, 3.3], [9.0, 0.0]]),
        "actions": torch.zeros(4, 1),
        "rewards": torch.tensor([-1.0, -0.2, -0.1, 0.9]),
        "next_observations": torch.tensor([[0.4, 3.4], [2.0, 3.4], [4.0, 3.4], [3.1, 0.0]]),
        "terminations": torch.zeros(4, dtype=torch.bool),
    }
    found = encoder.decode(encoder.encode(rows, torch.zeros(4, encoder.bounded_size)))
    assert found["observations"][:, 0].tolist() == [0.0, 1.0, 1.0, 5.0]
    assert found["rewards"].tolist() == [-0.5, -0.5, 0.25, 0.25]
    assert found["next_observations"][:, 0].tolist() == [0.0, 1.0, 1.0, 0.0]  # the step of each from where it is now
    torch.testing.assert_close(found["observations"][:, 1], rows["observations"][:, 1])
    assert torch.equal(encoder.encode(rows, torch.zeros(4, 4)), plain.encode(rows, torch.zeros(4, 4)))
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


@pytest.mark.parametrize(
    "atoms", [((0.0, 1.0),), ((), (), (), ()), ((1.0, 0.0), (), ()), ((), (), (0.0, float("nan")))]
)
def test_atoms_that_do_not_fit_are_an_error(atoms: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(DataError, match="do not fit"):
        dataclasses.replace(Encoder.from_bounds(CONTINUOUS), atoms=atoms)


@pytest.mark.parametrize("knots", [(0.0, 1.0), tuple([0.0] * 21), tuple(1.0 + 1e-12 * i for i in range(21))])
def test_knots_that_do_not_rise_are_an_error(knots: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="do not fit"):
        dataclasses.replace(Encoder.from_bounds(CONTINUOUS), reward_knots=knots)


@pytest.mark.parametrize("spec", SPECS)
def test_json_round_trip(spec: PublicSpec) -> None:
    encoder = Encoder.from_bounds(spec)
    assert Encoder.from_json(encoder.to_json()) == encoder
    before = {name: value for name, value in encoder.to_json().items() if name not in ("reward_knots", "atoms")}
    assert Encoder.from_json(before) == encoder  # as versions wrote it that bent no rewards
