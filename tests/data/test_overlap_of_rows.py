"""Public rows that are private rows too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import Box, Discrete, PublicSpec, Trajectories, overlap
from tacit.data.overlap import Overlap, find, refuse
from tacit.envs import maze
from tacit.envs.maze_layouts import LAYOUTS
from tacit.envs.maze_public import other_rows
from tacit.errors import DataError
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

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
    assert find(rows(5_000, 0), rows(20_000, 1), SPEC) == Overlap(5_000, 0, 0, 0.0, 0)
    assert refuse(rows(5_000, 0), rows(20_000, 1), SPEC).share == 0.0


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
    assert find(public, private, SPEC, tolerance=0.02) == Overlap(400, 30, near, covered, 30)


def test_few_private_rows_among_many_public_ones_are_refused() -> None:
    public, private = rows(50_000, 0), rows(20, 1)
    for name, column in private.items():
        public[name][1_000:1_020] = column
    assert find(public, private, SPEC) == Overlap(50_000, 20, 0, 1.0, 20)
    for apart in (False, True):  # so long a stretch is never tolerated
        with pytest.raises(DataError, match="also among the private records, several in a row"):
            refuse(public, private, SPEC, apart=apart)


def test_the_same_recording_under_other_rewards_is_refused() -> None:
    """As D4RL's kitchen-mixed and kitchen-partial; in another order, precision and length."""
    private = rows(2_000, 0)
    order = np.random.default_rng(1).permutation(2_000)[:500]
    public = {name: column[order].astype(np.float64) for name, column in private.items()}
    public["rewards"] = 1.0 - public["rewards"]
    assert find(public, private, SPEC) == Overlap(500, 500, 0, 0.25, 2)
    public["observations"] = np.round(public["observations"], 4)  # as a text file would have them
    found = find(public, private, SPEC)
    assert found.exact + found.near == 500
    assert found.near > 490
    with pytest.raises(DataError, match="public rows may be private ones too") as caught:
        refuse(public, private, SPEC)
    assert "500" not in str(caught.value)
    assert "pre-train on other people's rows" in caught.value.remedy
    assert "--public-is-apart" in caught.value.remedy
    assert refuse(public, private, SPEC, apart=True) == found


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
    assert find(public, data.columns, SPEC).exact == 10


def test_common_first_states_pass_and_single_private_rows_do_not() -> None:
    public, private = rows(2_000, 0), rows(2_000, 1)
    for name in ("observations", "actions"):  # a simulator begins there, on both sides, again and again
        public[name][::50] = private[name][::50] = private[name][0]
    assert refuse(public, private, SPEC) == Overlap(2_000, 40, 0, 0.02, 1)
    public, private = rows(2_000, 0), rows(2_000, 1)
    for name in ("observations", "actions"):
        public[name][7] = private[name][700]
    with pytest.raises(DataError, match="public rows may be private ones too"):
        refuse(public, private, SPEC)


@pytest.mark.parametrize("decimals", [None, 1, 0, -1])
def test_what_other_people_have_in_common_by_chance_passes(decimals: int | None) -> None:
    """One number observed, written as exactly as may be: in whole tens nearly every row is somebody else's too."""
    found = refuse(visits(300, 0, decimals), visits(250, 1, decimals), PULSE)
    assert found.covered < 0.02 if decimals is None else found.exact > 0
    assert (found.covered > 0.9) == (decimals == -1)


@pytest.mark.parametrize("decimals", [None, 1, 0])
def test_one_private_episode_among_many_public_ones_is_refused(decimals: int | None) -> None:
    public, private = visits(2_000, 0, decimals), visits(300, 1, decimals)
    for name, column in private.items():
        public[name][6_000:6_008] = column[800:808]
    with pytest.raises(DataError, match="several in a row bit for bit"):
        refuse(public, private, PULSE, apart=True)


def test_next_observations_tell_rows_apart() -> None:
    public, private = rows(500, 0), rows(500, 1)
    public |= {name: private[name] for name in ("observations", "actions")}
    public["next_observations"], private["next_observations"] = (
        rows(500, 2)["observations"],
        rows(500, 3)["observations"],
    )
    assert refuse(public, private, SPEC) == Overlap(500, 0, 0, 0.0, 0)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 63])
def test_the_longest_common_stretch(length: int) -> None:
    public, private = rows(300, 0), rows(200, 1)
    for name in ("observations", "actions"):
        public[name][40 : 40 + length] = private[name][100 : 100 + length]
    assert find(public, private, SPEC).longest == length


def test_discrete_values_must_agree() -> None:
    spec = dataclasses.replace(SPEC, action=Discrete(3))
    public = {**rows(90, 0), "actions": np.repeat([0, 1, 2], 30)}
    private = {**public, "actions": np.zeros(90, dtype=np.int64)}
    assert find(public, private, spec, tolerance=0.5).exact == 30
    both = dataclasses.replace(spec, observation=Discrete(5))
    with pytest.raises(DataError, match="coincide by chance"):
        find(public, private, both)


def test_a_constant_column_neither_hides_nor_makes_an_overlap() -> None:
    public, private = rows(500, 0), rows(500, 1)
    public["observations"][:, 1] = private["observations"][:, 1] = 3.0
    assert find(public, private, SPEC).share == 0.0
    assert find(public, public, SPEC).share == 1.0


def test_the_mazes_that_we_pretrain_on() -> None:
    layout = LAYOUTS["ring"]
    private = maze.collect(layout, 20_000, seed=900)
    assert find(other_rows(layout, 20_000, mazes=4, seed=901), private, maze.spec(layout)) == Overlap(
        20_000, 0, 0, 0.0, 0
    )


def test_behind_a_vault(tmp_path: Path) -> None:
    """Real records are compared by the curator alone, and the ledger notes it."""
    unit, private, reason = Unit("transition", "add_or_remove", 1_000), rows(50, 0), "overlap with public rows"
    columns = {**private, "next_observations": private["observations"], "terminations": np.zeros(50)}
    data = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=SPEC)
    with Ledger(tmp_path / "a.ledger", unit, epsilon=1.0, delta=1e-6) as ledger:
        vault = Vault(data, ledger)
        found: Any = vault.nonprivate(lambda columns: overlap.find(private, columns, SPEC), reason=reason)
        assert found == Overlap(50, 50, 0, 1.0, 50)


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
        find(public, rows(5, 1), SPEC, **options)
