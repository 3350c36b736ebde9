"""Public rows that are private rows too."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.data.overlap import RowOverlap, find_overlap
from tacit.errors import DataError
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS
from tacit_worlds.maze_public import other_rows

SPEC = PublicSpec(Box((-2.0, 0.0), (2.0, 10.0)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared")


def rows(count: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.uniform((-2.0, 0.0), (2.0, 10.0), (count, 2)).astype(np.float32),
        "actions": rng.uniform(-1.0, 1.0, (count, 1)).astype(np.float32),
        "rewards": rng.random(count).astype(np.float32),
    }


PULSE = PublicSpec(Box((30.0,), (220.0,)), Discrete(3), Box((-1.0,), (0.0,)), "physics")


def visits(people: int, seed: int, decimals: int | None) -> dict[str, Any]:
    """Eight visits of each with the pulse and a dose that it decides, rounded."""
    rng = np.random.default_rng(seed)
    pulse = (rng.normal(85, 10, (people, 1)) + rng.normal(0, 4, (people, 9)).cumsum(axis=1)).clip(31, 219)
    pulse = pulse if decimals is None else pulse.round(decimals)
    return {
        "observations": pulse[:, :-1].reshape(-1, 1).astype(np.float32),
        "actions": ((pulse > 95).astype(int) + (pulse > 110))[:, :-1].ravel(),
        "next_observations": pulse[:, 1:].reshape(-1, 1).astype(np.float32),
    }


def test_rows_of_others_do_not_overlap() -> None:
    found = find_overlap(rows(5_000, 0), rows(20_000, 1), SPEC)
    assert found == RowOverlap(5_000, 0, 0, 0.0, 0, suspicious=False)
    assert found.share == 0.0


def test_counts_against_every_pair() -> None:
    """With a coarse tolerance, so that all three kinds come up, against all differences."""
    public, private = rows(400, 0), rows(3_000, 1)
    for name in ("observations", "actions"):
        public[name][:30] = private[name][100:130]
    scaled = [np.concatenate([p["observations"] / [4.0, 10.0], p["actions"] / 2.0], axis=1) for p in (public, private)]
    gap = np.abs(scaled[0][:, None] - scaled[1]).max(axis=2).min(axis=1)
    near = int(((gap > 0) & (gap <= 0.02)).sum())
    assert 20 < near < 200
    covered = float((np.abs(scaled[0][:, None] - scaled[1]).max(axis=2).min(axis=0) <= 0.02).mean())
    assert find_overlap(public, private, SPEC, tolerance=0.02) == RowOverlap(
        400, 30, near, covered, 30, suspicious=True
    )


def test_few_private_rows_among_many_public_ones_are_found() -> None:
    public, private = rows(50_000, 0), rows(20, 1)
    for name, column in private.items():
        public[name][1_000:1_020] = column
    assert find_overlap(public, private, SPEC) == RowOverlap(50_000, 20, 0, 1.0, 20, suspicious=True)


def test_the_same_recording_under_other_rewards_is_found() -> None:
    """As D4RL's kitchen-mixed and kitchen-partial; in another order, precision and length."""
    private = rows(2_000, 0)
    order = np.random.default_rng(1).permutation(2_000)[:500]
    public = {name: column[order].astype(np.float64) for name, column in private.items()}
    public["rewards"] = 1.0 - public["rewards"]
    assert find_overlap(public, private, SPEC) == RowOverlap(500, 500, 0, 0.25, 2, suspicious=True)
    public["observations"] = np.round(public["observations"], 4)  # as a text file would have them
    found = find_overlap(public, private, SPEC)
    assert found.exact + found.near == 500
    assert found.near > 490
    assert found.suspicious


def test_both_sides_are_clipped_as_records_are() -> None:
    public = rows(10, 0)
    public["observations"][1:, 0] = 2.5
    data = Trajectories.from_arrays(
        **public,
        next_observations=public["observations"],
        terminations=np.zeros(10),
        unit_ids=":transition",
        spec=SPEC,
        simulated=True,
    )
    assert find_overlap(public, data.columns, SPEC).exact == 10


def test_common_first_states_are_chance_and_single_private_rows_are_not() -> None:
    public, private = rows(2_000, 0), rows(2_000, 1)
    for name in ("observations", "actions"):  # a simulator begins there, on both sides, again and again
        public[name][::50] = private[name][::50] = private[name][0]
    assert find_overlap(public, private, SPEC) == RowOverlap(2_000, 40, 0, 0.02, 1, suspicious=False)
    public, private = rows(2_000, 0), rows(2_000, 1)
    for name in ("observations", "actions"):
        public[name][7] = private[name][700]
    assert find_overlap(public, private, SPEC) == RowOverlap(2_000, 1, 0, 1 / 2_000, 1, suspicious=True)


@pytest.mark.parametrize("decimals", [None, 1, 0, -1])
def test_what_other_people_have_in_common_is_chance(decimals: int | None) -> None:
    """One number observed, written as exactly as may be: in whole tens nearly every row is somebody else's too."""
    found = find_overlap(visits(300, 0, decimals), visits(250, 1, decimals), PULSE)
    assert not found.suspicious
    assert found.covered < 0.02 if decimals is None else found.exact > 0
    assert (found.covered > 0.9) == (decimals == -1)


@pytest.mark.parametrize("decimals", [None, 1, 0])
def test_one_private_episode_among_many_public_ones_is_found(decimals: int | None) -> None:
    public, private = visits(2_000, 0, decimals), visits(300, 1, decimals)
    for name, column in private.items():
        public[name][6_000:6_008] = column[800:808]
    found = find_overlap(public, private, PULSE)
    assert found.longest >= 8
    assert found.suspicious


def test_next_observations_tell_rows_apart() -> None:
    public, private = rows(500, 0), rows(500, 1)
    public |= {name: private[name] for name in ("observations", "actions")}
    public["next_observations"], private["next_observations"] = (
        rows(500, 2)["observations"],
        rows(500, 3)["observations"],
    )
    assert find_overlap(public, private, SPEC) == RowOverlap(500, 0, 0, 0.0, 0, suspicious=False)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 63])
def test_the_longest_common_stretch(length: int) -> None:
    public, private = rows(300, 0), rows(200, 1)
    for name in ("observations", "actions"):
        public[name][40 : 40 + length] = private[name][100 : 100 + length]
    assert find_overlap(public, private, SPEC).longest == length


def test_discrete_values_must_agree() -> None:
    spec = dataclasses.replace(SPEC, action=Discrete(3))
    public = {**rows(90, 0), "actions": np.repeat([0, 1, 2], 30)}
    private = {**public, "actions": np.zeros(90, dtype=np.int64)}
    assert find_overlap(public, private, spec, tolerance=0.5).exact == 30
    both = dataclasses.replace(spec, observation=Discrete(5))
    with pytest.raises(DataError, match="coincide by chance"):
        find_overlap(public, private, both)


def test_a_constant_column_neither_hides_nor_makes_an_overlap() -> None:
    public, private = rows(500, 0), rows(500, 1)
    public["observations"][:, 1] = private["observations"][:, 1] = 3.0
    assert find_overlap(public, private, SPEC).share == 0.0
    assert find_overlap(public, public, SPEC).share == 1.0


def test_the_mazes_that_we_pretrain_on() -> None:
    layout = LAYOUTS["ring"]
    private = maze.collect(layout, 20_000, seed=900)
    assert find_overlap(other_rows(layout, 20_000, mazes=4, seed=901), private, maze.spec(layout)) == RowOverlap(
        20_000, 0, 0, 0.0, 0, suspicious=False
    )


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"actions": None}, {}, "the public actions are missing"),
        ({"actions": np.zeros((4, 1))}, {}, "the public actions are missing"),
        ({"observations": np.zeros((5, 3))}, {}, "the public observations are missing"),
        ({"observations": np.full((5, 2), np.nan)}, {}, "the public observations are missing, not finite"),
        ({}, {"tolerance": 1.0}, "the tolerance is out of range"),
        ({}, {"tolerance": float("nan")}, "the tolerance is out of range"),
    ],
)
def test_refusals(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    public = {name: column for name, column in {**rows(5, 0), **changes}.items() if column is not None}
    with pytest.raises(DataError, match=message):
        find_overlap(public, rows(5, 1), SPEC, **options)
