"""Stitched trajectories: no jump at a stitch, an end of their own, never longer than the longest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from trajectory_cases import CLINIC, WAITING, maze_episodes, small

from tacit.data.spec import PublicSpec
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.trajectories.algorithm import TrajectorySynthesizer, to_trajectories
from tacit.methods.synthesis.trajectories.pretraining import pretrain
from tacit.methods.synthesis.trajectories.stitching import Stitched

PLANS = {
    "transformer": small(longest=30),
    "autoregressive": small(longest=30, network="autoregressive", rows_per_token=1, mixture=2),
}
SPECS = {"maze": maze_episodes(1).spec, "clinic": CLINIC, "discrete": WAITING}


def sampled(spec: PublicSpec, kind: str = "transformer", count: int = 40) -> tuple[TrajectorySynthesizer, Stitched]:
    start = pretrain(PLANS[kind], Encoder.from_bounds(spec), None, seed=0)
    value = TrajectorySynthesizer(PLANS[kind], start.encoder, start.starts, start.fragments)
    return value, value.sample_trajectories(count, seed=1)


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("where", SPECS)
def test_rows_follow_each_other_across_seams_and_end_once(kind: str, where: str) -> None:
    _, stitched = sampled(SPECS[where], kind)
    columns, episodes = stitched.columns, stitched.episodes
    assert len(episodes) == 41
    last = np.zeros(episodes[-1], bool)
    last[episodes[1:] - 1] = True
    assert np.array_equal(columns["observations"][1:][~last[:-1]], columns["next_observations"][:-1][~last[:-1]])
    assert np.array_equal(columns["terminations"] | columns["truncations"], last)
    assert np.diff(episodes).max() <= 30
    assert set((stitched.stitches - episodes[np.searchsorted(episodes, stitched.stitches, side="right") - 1]) % 8) <= {
        0
    }
    assert not np.isin(stitched.stitches, episodes).any()


def test_batches_are_joined_and_the_set_keeps_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.methods.synthesis.trajectories.algorithm.BATCH", 15)
    value, stitched = sampled(SPECS["clinic"])
    data = to_trajectories(stitched, value.encoder)
    assert data.simulated
    assert np.array_equal(data.episodes, stitched.episodes)
    assert np.array_equal(data.columns["rewards"], stitched.columns["rewards"])
    assert np.isin(stitched.stitches, np.arange(stitched.episodes[-1])).all()


def test_a_model_that_always_goes_on_is_cut_off_at_the_longest() -> None:
    value, _ = sampled(SPECS["maze"])
    weights = dict(value.fragments)
    weights["endings.scores.bias"] = weights["endings.scores.bias"].clone()
    weights["endings.scores.bias"][0] = 1e4
    lengths = np.diff(dataclasses.replace(value, fragments=weights).sample_trajectories(10, seed=0).episodes)
    assert (lengths == 30).all()


def test_states_stay_inside_the_public_bounds() -> None:
    _, stitched = sampled(SPECS["maze"])
    low, high = SPECS["maze"].observation.float32_bounds()  # type: ignore[union-attr]
    for name in ("observations", "next_observations"):
        assert ((stitched.columns[name] >= low) & (stitched.columns[name] <= high)).all()
    assert torch.from_numpy(stitched.columns["rewards"]).isfinite().all()
