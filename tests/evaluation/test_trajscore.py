"""Codes of trajectories, manifolds of codes, and what a score says of copies, collapse and rows in any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from tacit.errors import DataError
from tacit.evaluation.sequences import Sequences
from tacit.evaluation.trajscore import (
    ManifoldCloseness,
    TrajectoryEncoder,
    mean_cosine,
    precision_recall,
    reconstruction_error,
    train_encoder,
    traj_score,
)

HORIZON = 12


def waves(count: int, seed: int, *, low: float = 0.5, high: float = 2.0) -> Sequences:
    """Sines of 6 to 12 steps whose frequency and phase are the trajectory's own; the action is the slope's sign."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(6, HORIZON + 1, count)
    ends = np.append(0, np.cumsum(lengths))
    time = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    speed, phase = (np.repeat(generator.uniform(*bounds, count), lengths) for bounds in ((low, high), (0.0, 2 * np.pi)))
    observations = np.sin(0.5 * speed * time + phase)[:, None]
    columns = {
        "observations": observations,
        "actions": (np.cos(0.5 * speed * time + phase) > 0).astype(np.int64),
        "rewards": np.abs(observations[:, 0]),
        "next_observations": np.sin(0.5 * speed * (time + 1) + phase)[:, None],
    }
    return Sequences(columns, ends)


@pytest.fixture(scope="module")
def encoder() -> TrajectoryEncoder:
    return train_encoder(waves(600, 0), horizon=HORIZON, size=8, width=32, steps=400)


def test_manifolds_are_those_of_another_implementation() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.normal(size=(300, 3)), generator.normal(0.7, 1.2, size=(400, 3))

    def inside(points: np.ndarray, manifold: np.ndarray, k: int) -> float:
        radius = NearestNeighbors(n_neighbors=k).fit(manifold).kneighbors()[0][:, -1]  # a point is not its own
        near = NearestNeighbors(radius=radius.max()).fit(manifold)
        distances, indices = near.radius_neighbors(points)
        return float(np.mean([(d <= radius[i]).any() for d, i in zip(distances, indices, strict=True)]))

    for k in (1, 3, 7):
        found = precision_recall(one, other, neighbours=k)
        assert found == pytest.approx((inside(other, one, k), inside(one, other, k)))
        assert found == precision_recall(other, one, neighbours=k)[::-1]
        assert 0.1 < found[0] < 0.99


def test_manifolds_of_a_few_points() -> None:
    line = np.array([[0.0], [1.0], [3.0]])  # balls to the nearest neighbour: [-1, 1], [0, 2] and [1, 5]
    assert precision_recall(line, np.array([[-1.5], [4.5], [9.0], [2.5]]), neighbours=1)[0] == 0.5
    assert precision_recall(line, line, neighbours=1) == (1.0, 1.0)
    assert ManifoldCloseness(0.5, 1.0, 0.0).f1 == pytest.approx(2 / 3)
    assert ManifoldCloseness(0.0, 0.0, 1.0).f1 == 0.0


def test_mean_cosine_is_the_mean_over_all_pairs_and_rewards_collapse() -> None:
    generator = np.random.default_rng(1)
    one, other = generator.normal(0.3, 1.0, (30, 4)), generator.normal(0.3, 1.0, (20, 4))
    pairs = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a in one for b in other]
    assert mean_cosine(one, other) == pytest.approx(np.mean(pairs))
    towards_the_mean = max(other, key=lambda code: mean_cosine(one, code[None]))
    assert mean_cosine(one, np.tile(towards_the_mean, (20, 1))) > mean_cosine(one, other)
    assert mean_cosine(one, np.zeros((5, 4))) == 0.0


def test_fresh_trajectories_reach_the_ceiling_and_their_rows_alone_the_floor(encoder: TrajectoryEncoder) -> None:
    real = waves(800, 1)
    found = traj_score(encoder, real, waves(500, 2))
    assert found.count == 400
    assert abs(found.synthetic.f1 - found.ceiling.f1) < 0.05
    assert 0.8 < found.ceiling.f1 < 1.0
    assert found.floor.f1 < 0.5 * found.ceiling.f1
    assert found.floor.mean_cosine > found.ceiling.mean_cosine  # PrivORL's figure prefers the floor
    assert traj_score(encoder, real, real.shuffle_rows(5)).synthetic.f1 == pytest.approx(found.floor.f1, abs=0.1)


def test_precision_and_recall_tell_what_is_wrong(encoder: TrajectoryEncoder) -> None:
    real = waves(800, 1)
    collapsed = traj_score(encoder, real, waves(1, 2).pick(np.zeros(400, np.int64)))
    assert collapsed.synthetic.recall < 0.02
    narrow = traj_score(encoder, real, waves(400, 2, low=0.5, high=0.9)).synthetic
    assert narrow.precision > 0.8
    assert narrow.recall < 0.6
    fast = traj_score(encoder, waves(800, 1, low=0.5, high=0.9), waves(400, 2)).synthetic
    assert fast.precision < 0.6
    assert fast.recall > 0.8


def test_what_lies_beyond_the_end_is_not_seen(encoder: TrajectoryEncoder) -> None:
    """Codes depend on a trajectory's own seen steps: not on its neighbours in the table, the padding or late steps."""
    some = waves(30, 3)
    alone = np.concatenate([encoder.embed(some.pick(np.array([index]))) for index in range(30)])
    np.testing.assert_allclose(encoder.embed(some), alone, atol=1e-5)
    public = waves(50, 0)
    for settings, unseen in (
        ({"horizon": HORIZON, "stride": 3}, some.times % 3 != 0),
        ({"horizon": 4}, some.times >= 4),
    ):
        partial = train_encoder(public, size=2, width=8, steps=2, **settings)
        other = {name: np.array(column) for name, column in some.columns.items()}
        other["observations"][unseen] = 9.0
        changed = Sequences(other, some.episodes)
        np.testing.assert_array_equal(partial.codes(changed), partial.codes(some))
        assert not np.allclose(encoder.codes(changed), encoder.codes(some))


def test_padding_counts_only_in_the_entry_that_says_so() -> None:
    """Two steps of two features: the second one is padding, whose nines are not seen."""
    padded = torch.tensor([[3.0, 4.0, 1.0, 0.0, 0.0, 0.0]])
    found = torch.tensor([[3.0, 5.0, 1.0, 9.0, 9.0, 0.5]])
    assert float(reconstruction_error(found, padded, 2)) == (1.0 + 0.25) / 4


def test_codes_know_the_length(encoder: TrajectoryEncoder) -> None:
    """A straight line through the codes of fresh trajectories tells most of how long they are."""
    some = waves(500, 4)
    codes = np.column_stack([encoder.embed(some), np.ones(500)])
    told = codes @ np.linalg.lstsq(codes, some.lengths, rcond=None)[0]
    assert np.var(told - some.lengths) < 0.5 * np.var(some.lengths)


def test_public_codes_are_standard_and_the_seed_decides() -> None:
    public = waves(100, 0)
    one, again, other = (train_encoder(public, horizon=8, size=3, width=8, steps=5, seed=s) for s in (0, 0, 1))
    codes = one.embed(public)
    np.testing.assert_allclose(codes.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(codes.std(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(codes, again.embed(public))
    assert not np.allclose(codes, other.embed(public))


def test_too_few_trajectories_and_bad_settings_are_refused(encoder: TrajectoryEncoder) -> None:
    for real, synthetic in ((7, 50), (50, 3)):
        with pytest.raises(DataError, match="too few trajectories"):
            traj_score(encoder, waves(real, 1), waves(synthetic, 2))
    for points, k in ((3, 3), (5, 0)):
        with pytest.raises(DataError, match="too few points"):
            precision_recall(np.zeros((5, 1)), np.zeros((points, 1)), neighbours=k)
    with pytest.raises(DataError, match="below 1"):
        train_encoder(waves(5, 0), horizon=0)
    continuous = waves(20, 1)
    columns = {**continuous.columns, "actions": np.zeros(len(continuous.columns["rewards"]), np.float32)}
    with pytest.raises(DataError, match="different columns"):
        encoder.codes(Sequences(columns, continuous.episodes))
