"""The door `above_threshold`: what passes without noise, what a reserve is used for, and what is refused."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from expert_cases import (
    EXPERTS,
    Cloned,
    Counting,
    Names,
    Steppers,
    Still,
    Whole,
    everything,
    logs,
    part,
    plan_of,
    vault_of,
)

from tacit.errors import DataError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.mechanisms.above_threshold import stable_lengths
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader

# -- what passes ------------------------------------------------------------------------------------------------------


def test_without_noise_a_prefix_ends_where_the_count_falls_below_the_threshold(tmp_path: Path) -> None:
    one = part()
    few = int(np.ceil(one.thresholds.threshold)) - 1  # who go on after 7 steps: one too few
    limits = np.r_[np.full(200 - few, 7.0), np.full(few, 1e6)]
    vault = vault_of(tmp_path, logs(200), Steppers(limits), noise=Still())
    run = vault.reserve(plan_of(one))
    (prefixes,) = vault.above_threshold(run, "consensus")
    assert prefixes.lengths.tolist() == [7, 7, 7, 7]
    assert prefixes.columns["observations"].shape == (28, 1)
    assert prefixes.columns["observations"][:7, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert prefixes.columns["truncations"].tolist() == [False] * 6 + [True] + [False] * 6 + [True] + [False] * 6 + [
        True
    ] + [False] * 6 + [True]
    with pytest.raises(PlanExhausted):
        vault.above_threshold(run, "consensus")


def test_a_whole_episode_passes_where_all_agree(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(200), Steppers(np.full(200, 1e6)), noise=Still())
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(part(horizon=50))), "consensus")
    assert prefixes.lengths.tolist() == [20] * 4
    assert prefixes.columns["terminations"].sum() == 4
    assert not prefixes.columns["truncations"].any()


def test_a_logged_propensity_is_not_released(tmp_path: Path) -> None:
    """It is the drawn expert's own number, which the proof says nothing of."""
    vault = vault_of(tmp_path, logs(200, propensities=True), Steppers(np.full(200, 1e6)), noise=Still())
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(part())), "consensus")
    released = ["actions", "next_observations", "observations", "rewards", "terminations", "truncations"]
    assert sorted(prefixes.columns) == released


def test_a_floor_lets_the_count_fall_by_its_power() -> None:
    """200 experts who agree: (1 - p)^k 200, whether disagreements are counted or chances multiplied."""
    one = part(floor=PMin(0.05), horizon=40)
    steps = np.arange(40, dtype=np.float32)[None, :, None].repeat(2, axis=0)
    drawn = {"observations": steps, "actions": np.ones((2, 40), np.int64), "mask": np.ones((2, 40), bool)}
    expected = int(np.floor(np.log(one.thresholds.threshold / 200) / np.log(0.95)))
    assert 1 < expected < 30
    experts = Steppers(np.full(200, 1e6), floor=0.05)
    assert stable_lengths(one, experts, drawn, Still()).tolist() == [expected] * 2
    soft = Steppers(np.full(200, 1e6), floor=float("nan"))
    object.__setattr__(soft, "likelihoods", lambda o, a: np.full((200, len(a)), 0.95))
    assert stable_lengths(one, soft, drawn, Still()).tolist() == [expected] * 2


@pytest.mark.parametrize("value", [float("nan"), -1.0, float("inf"), 0.01])
def test_chances_that_are_none_count_as_zero(value: float) -> None:
    """Numbers that are no probabilities, or below the floor that was declared, never raise and never count."""
    one = part(floor=PMin(0.05), horizon=10)
    steps = np.arange(10, dtype=np.float32)[None, :, None]
    drawn = {"observations": steps, "actions": np.ones((1, 10), np.int64), "mask": np.ones((1, 10), bool)}
    odd = Steppers(np.full(200, 1e6), floor=float("nan"))
    object.__setattr__(odd, "likelihoods", lambda o, a: np.full((200, len(a)), value))
    assert stable_lengths(one, odd, drawn, Still()).tolist() == [0]


def test_the_noise_is_drawn_anew_for_every_step() -> None:
    """A count at the threshold passes each test with probability 1/2: prefixes are geometric, not all or nothing."""
    one = part(
        horizon=30,
        floor=KappaStop(0.01),
        epsilon=2.0,
        experts=1_000,
        trajectories=400,
        source="clones",
        rows_per_unit=1,
    )
    steps = np.arange(30, dtype=np.float32)[None, :, None].repeat(400, axis=0)
    drawn = {"observations": steps, "actions": np.ones((400, 30), np.int64), "mask": np.ones((400, 30), bool)}
    level = Steppers(np.full(int(one.thresholds.threshold), 1e6))
    lengths = stable_lengths(one, level, drawn, SecretNoise.for_tests(3))
    assert 0.3 < np.mean(lengths == 0) < 0.7
    assert np.count_nonzero((lengths > 0) & (lengths < 30)) > 100


# -- the reserve ------------------------------------------------------------------------------------------------------


def test_pool_and_reserve_share_no_episode(tmp_path: Path) -> None:
    one = part()
    r = one.held_out
    assert r >= 2
    vault = vault_of(tmp_path, logs(150, episodes=r + 3), Steppers(np.full(150, 1e6)), noise=Still())
    pool = everything(held_out=r, clip_norm=2.0, rows_per_unit=400, rows="first")
    assert certificate_parts([pool])[0]["held_out"] == r
    (prefixes,) = vault.above_threshold(vault.reserve(plan_of(one)), "consensus")
    drawn = set(np.rint(prefixes.columns["rewards"] * 100).astype(int).tolist())
    rest = vault.noisy_sum(vault.reserve(plan_of(pool)), "sum", Names())[0] * EXPERTS.size
    seen = set(np.flatnonzero(rest > 75).tolist())
    assert drawn
    assert not drawn & seen
    assert len(seen) == 3
    assert rest[sorted(seen)] == pytest.approx(150, abs=1)


def test_a_reserve_depends_on_nothing_but_the_number_of_episodes() -> None:
    """The same split for an expert, no matter who the others are; units without a pool vanish from it."""
    own = [8, 5, 8, 3, 8]
    few, many = (Reader(logs(n, episodes=own[:n]), SecretNoise()) for n in (3, 5))
    for reader in (few, many):
        rows = reader.without_holdout(5, "key").rows(np.arange(2), 400, "first")
        assert [len(np.unique(rows["rewards"][u, rows["mask"][u]])) for u in range(2)] == [3, 3]
    kept = [np.unique(r.without_holdout(5, "key").rows(np.arange(2), 400, "first")["rewards"][1]) for r in (few, many)]
    assert np.array_equal(*kept)
    assert (
        few.without_holdout(5, "key").units,
        many.without_holdout(5, "key").units,
        many.without_holdout(9, "key").units,
    ) == (2, 3, 0)


def test_an_expert_that_is_drawn_again_gives_another_episode_and_then_nothing() -> None:
    reader = Reader(logs(1, episodes=4), SecretNoise())
    drawn, usable = reader.draw_holdouts(4, 20, "key", 4)
    assert sorted(np.rint(drawn["rewards"][:, 0] * 100).astype(int)) == [0, 1, 2, 3]
    assert usable.tolist() == [True]
    drawn, _ = reader.draw_holdouts(4, 20, "key", 5)
    assert not drawn["mask"].any()
    drawn, usable = Reader(logs(3, episodes=[4, 2, 3]), SecretNoise()).draw_holdouts(3, 5, "key", 3)
    assert usable.tolist() == [True, False, True]
    assert drawn["mask"].shape == (3, 5)


def test_an_expert_with_too_few_episodes_is_not_counted_either(tmp_path: Path) -> None:
    one = part(experts=100)
    r = one.held_out
    vault = vault_of(tmp_path, logs(190, episodes=[r] * 100 + [r - 1] * 90), Steppers(np.full(190, 1e6)), noise=Still())
    assert one.thresholds.threshold <= 100
    run = vault.reserve(plan_of(part(experts=100)))
    usable = vault._records.reader().draw_holdouts(r, 20, "k", 4)[1]
    assert usable.sum() == 100
    (prefixes,) = vault.above_threshold(run, "consensus")
    assert prefixes.lengths.tolist() == [20] * 4


# -- which plans may share the records --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["prefixes", "sum"])
def test_a_plan_that_reads_the_reserve_is_refused_beside_the_release(tmp_path: Path, first: str) -> None:
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    both = [plan_of(part()), plan_of(everything())]
    before, after = both if first == "prefixes" else both[::-1]
    vault.reserve(before)
    held = vault.ledger.plans()
    with pytest.raises(PlanError, match="held_out"):
        vault.reserve(after)
    assert vault.ledger.plans() == held
    if first == "prefixes":
        vault.reserve(plan_of(everything(held_out=part().held_out)))
    vault.reserve(before)  # reopened


def test_a_second_release_from_the_same_logs_is_refused(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    vault.reserve(plan_of(part()))
    with pytest.raises(PlanError, match="twice"):
        vault.reserve(plan_of(part(trajectories=3)))


def test_a_plan_whose_own_parts_meet_in_the_reserve_is_refused(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    with pytest.raises(PlanError, match="held_out"):
        vault.reserve(plan_of(part(), part(name="again")))


def test_clones_leave_no_reserve_to_guard(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(150), noise=Still())
    run = vault.reserve(plan_of(part(source="clones", rows_per_unit=100)))
    vault.reserve(plan_of(everything()))
    (prefixes,) = vault.above_threshold(run, "consensus", clone=Cloned(), world=Counting())
    assert prefixes.lengths.tolist() == [20] * 4  # every clone acts like its log: 1 in all of 0 .. 19
    assert (prefixes.columns["actions"] == 1).all()


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_public_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    silent = vault_of(tmp_path, logs(150), name="silent")
    with pytest.raises(PlanError, match="no policies"):
        silent.reserve(plan_of(part()))
    with pytest.raises(PlanError, match="counts on 3 actions"):
        silent.reserve(plan_of(part(source="clones", rows_per_unit=9, actions=3)))
    assert silent.ledger.plans() == []
    with pytest.raises(DataError, match="one policy"):
        vault_of(tmp_path, logs(3), Steppers(np.zeros(2)), name="two")
    with pytest.raises(PlanError, match="relation"):
        plan_of(part(), unit=replace(EXPERTS, relation="replace_one"))


@pytest.mark.parametrize(("experts", "episodes"), [(50, 8), (150, 1)])
def test_how_many_experts_there_are_is_answered_once_and_for_the_price_of_a_plan(
    tmp_path: Path, experts: int, episodes: int
) -> None:
    """Who could ask for nothing whether there are M experts would find their number, and so miss the last one."""
    vault = vault_of(tmp_path, logs(experts, episodes=episodes), Steppers(np.full(experts, 1e6)))
    run = vault.reserve(plan_of(part()))
    with pytest.raises(MechanismError, match="fewer experts than"):
        vault.above_threshold(run, "consensus")
    assert len(vault.ledger.plans()) == 1
    assert "fewer experts" in str(vault.ledger.void_reason)
    with pytest.raises(PlanExhausted):
        vault.above_threshold(run, "consensus")


def test_two_plans_that_exclude_each_other_are_not_admitted_at_once(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    admitted, start = [], threading.Barrier(2)

    def reserve(plan: Any) -> None:
        start.wait()
        with contextlib.suppress(PlanError):
            admitted.append(vault.reserve(plan))

    threads = [threading.Thread(target=reserve, args=(plan_of(one),)) for one in (part(), everything())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 1


def test_the_call_must_fit_the_source(tmp_path: Path) -> None:
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    run = vault.reserve(plan_of(part()))
    with pytest.raises(MechanismError, match="logs"):
        vault.above_threshold(run, "consensus", clone=Cloned(), world=Counting())
    cloned = vault_of(tmp_path, logs(150), name="cloned")
    run = cloned.reserve(plan_of(part(source="clones", rows_per_unit=100)))
    for given in ({}, {"clone": Cloned()}, {"world": Counting()}):
        with pytest.raises(MechanismError, match="clones"):
            cloned.above_threshold(run, "consensus", **given)
    with pytest.raises(MechanismError, match="another unit's rows"):
        cloned.above_threshold(run, "consensus", clone=Whole(), world=Counting())
    assert not cloned.has_started(run)


@pytest.mark.parametrize("floor", [0.0, 0.01, 0.6])
def test_policies_below_the_declared_floor_are_refused_before_the_claim(tmp_path: Path, floor: float) -> None:
    """An action that one expert never takes would tell, with probability 1 / m, that it is not there."""
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6), floor=floor))
    run = vault.reserve(plan_of(part(floor=PMin(0.05))))
    with pytest.raises(MechanismError, match="floor"):
        vault.above_threshold(run, "consensus")
    assert not vault.has_started(run)
    cloned = vault_of(tmp_path, logs(150), name="cloned")
    run = cloned.reserve(plan_of(part(source="clones", rows_per_unit=100, floor=PMin(0.05))))
    with pytest.raises(MechanismError, match="floor"):
        cloned.above_threshold(run, "consensus", clone=Cloned(), world=Counting())
    assert not cloned.has_started(run)


def test_a_floor_that_nobody_knows_is_an_assumption_of_logs_alone() -> None:
    part(floor=PMin(0.05)).require_floor(float("nan"))
    part(source="clones", rows_per_unit=1).require_floor(float("nan"))
    with pytest.raises(MechanismError):
        part(source="clones", rows_per_unit=1, floor=PMin(0.05)).require_floor(float("nan"))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.02},
        {"trajectories": 0},
        {"horizon": 0},
        {"actions": 1},
        {"experts": 1},
        {"source": "nowhere"},
        {"rows_per_unit": 3},
        {"source": "clones"},
        {"floor": PMin(0.4), "actions": 3},
        {"floor": SimpleNamespace(probability=0.1)},
        {"epsilon": 200.0},
        {"trajectories": 130, "experts": 40, "epsilon": 3.0},
    ],
)
def test_parameters_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        part(**changes)
