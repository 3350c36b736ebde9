"""Days that are played: labels are the actions taken, masks, returns ~ visits, and a sound environment."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.mobility.days import (
    EXPLORE,
    HOME,
    LAST,
    RETURN,
    SLOTS,
    STAY,
    actions,
    distinct_counts,
    stay_lengths,
    symbols,
)
from tacit.data.mobility.grids import RegularGrid, haversine_km
from tacit.envs.movement import FixedPolicy, play, rollout
from tacit.envs.movement_env import MovementEnv
from tacit.envs.spaces import GravityLaw, JumpLaw, RankLaw
from tacit.errors import DataError

GRID = RegularGrid(39.0, 116.0, 40.0, 117.0, 0.01)
JUMPS = JumpLaw(GRID, (1.0, 5.0, 20.0), (0.5, 0.5))
MIDDLE = 50 * 101 + 50
FOUR, FIVE = (0.54, 0.12, 0.17, 0.17), (0.54, 0.12, 0.17, 0.08, 0.09)


class Next:
    """Exploring leads to the next cell."""

    def explore(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return cells + 1


class Middle:
    """Days begin in the middle."""

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(n, MIDDLE)


class Random:
    """Any probabilities, of its own for each state; it sees what labelling sees."""

    kinds = 3

    def __init__(self, seed: int, number: int) -> None:
        self.table = np.random.default_rng(seed).dirichlet(np.full(number, 0.4), (3, 4, 5, 5, 2))
        self.seen: list[tuple[np.ndarray, ...]] = []

    def probabilities(
        self, kind: np.ndarray, slot: int, distinct: np.ndarray, stay: np.ndarray, home: np.ndarray
    ) -> np.ndarray:
        self.seen.append((distinct.copy(), stay.copy(), home.copy()))
        return self.table[kind, slot % 4, distinct % 5, stay % 5, home.astype(int)]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([4, 5]))
def test_the_label_of_a_played_day_is_the_action_taken(seed: int, number: int) -> None:
    policy = Random(seed, number)
    days = rollout(policy, JUMPS, np.full(20, MIDDLE), np.random.default_rng(seed))
    assert (actions(days.cells, last=number == 5) == days.actions).all()
    for t, (count, stay, home) in enumerate(policy.seen):
        assert (count == distinct_counts(days.cells)[:, t]).all()
        assert (stay == stay_lengths(days.cells)[:, t]).all()
        assert (home == (symbols(days.cells)[:, t] == 0)).all()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([4, 5]))
def test_with_the_papers_semantics_a_label_is_the_action_or_what_came_of_it(seed: int, number: int) -> None:
    near = RankLaw(GRID, np.arange(MIDDLE - 20, MIDDLE + 20), ranks=6)
    days = rollout(Random(seed, number), near, np.full(20, MIDDLE), np.random.default_rng(seed), invalid="stay")
    label, taken = actions(days.cells, last=number == 5), days.actions
    other = label != taken
    # an explore can find a place of today or its own cell, and anything impossible is a stay
    assert (label[other & (taken != EXPLORE)] == STAY).all()
    assert (label[taken == STAY] == STAY).all()


def test_a_day_by_hand() -> None:
    class Plan:
        kinds = 1
        order = (EXPLORE, EXPLORE, LAST, RETURN, HOME, LAST, RETURN, STAY)

        def probabilities(
            self, kind: np.ndarray, slot: int, distinct: np.ndarray, stay: np.ndarray, home: np.ndarray
        ) -> np.ndarray:
            wish = self.order[slot] if slot < len(self.order) else STAY
            return np.broadcast_to(np.array([1e-300 if a == STAY else float(a == wish) for a in range(5)]), (1, 5))

    days = play(Plan(), Next(), np.array([100]), np.random.default_rng(0))
    # in 101 after home, 102, the only earlier place is the last one: a return is impossible; from home LAST is 101
    assert days[0, :9].tolist() == [100, 101, 102, 101, 101, 100, 101, 102, 102]
    assert (days[0, 9:] == 102).all()


def test_impossible_actions_are_masked_or_stays() -> None:
    starts = np.full(50, MIDDLE)
    only = {a: FixedPolicy(tuple(float(b == a) for b in range(5))) for a in range(5)}
    for a in (HOME, RETURN, LAST):
        for invalid in ("mask", "stay"):
            days = play(only[a], JUMPS, starts, np.random.default_rng(0), invalid=invalid)  # type: ignore[arg-type]
            assert (days == MIDDLE).all()
    half = FixedPolicy((0.0, 0.5, 0.5, 0.0))
    masked = actions(play(half, JUMPS, starts, np.random.default_rng(0)))
    assert (masked[:, 0] == EXPLORE).all()
    papers = actions(play(half, JUMPS, starts, np.random.default_rng(0), invalid="stay"))
    assert 0.2 < (papers[:, 0] == STAY).mean() < 0.8


def test_returns_go_to_places_by_their_slots() -> None:
    """Four slots in B, two in C, then one in D: a return from E, where D is the last place, is to B twice as often."""

    class Plan:
        kinds = 1

        def __init__(self, number: int) -> None:
            self.number = number

        def probabilities(
            self, kind: np.ndarray, slot: int, distinct: np.ndarray, stay: np.ndarray, home: np.ndarray
        ) -> np.ndarray:
            act = {0: EXPLORE, 4: EXPLORE, 6: EXPLORE, 7: EXPLORE, 8: RETURN}.get(slot, STAY)
            return np.broadcast_to((np.arange(self.number) == act).astype(float), (len(kind), self.number))

    n = 9_000
    days = play(Plan(5), Next(), np.zeros(n, dtype=int), np.random.default_rng(0))
    assert days[0, :9].tolist() == [0, 1, 1, 1, 1, 2, 2, 3, 4]
    shares = np.bincount(days[:, 9], minlength=5) / n
    np.testing.assert_allclose(shares, [0, 2 / 3, 1 / 3, 0, 0], atol=0.02)
    four = play(Plan(4), Next(), np.zeros(n, dtype=int), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(four[:, 9], minlength=5) / n, [0, 4 / 7, 2 / 7, 1 / 7, 0], atol=0.02)


def test_day_types_are_uniform_and_known_to_the_policy() -> None:
    class Typed:
        kinds = 4

        def probabilities(
            self, kind: np.ndarray, slot: int, distinct: np.ndarray, stay: np.ndarray, home: np.ndarray
        ) -> np.ndarray:
            go = (slot == kind).astype(float)
            return np.stack([1 - go, go, 0 * go, 0 * go], axis=1)

    days = rollout(Typed(), Next(), np.zeros(4_000, dtype=int), np.random.default_rng(0))
    assert (np.argmax(days.actions == EXPLORE, axis=1) == days.kinds).all()
    np.testing.assert_allclose(np.bincount(days.kinds) / 4_000, 0.25, atol=0.03)


def test_the_same_seed_gives_the_same_days() -> None:
    def days(seed: int) -> np.ndarray:
        return play(FixedPolicy(FIVE), JUMPS, np.full(10, MIDDLE), np.random.default_rng(seed))

    assert (days(3) == days(3)).all()
    assert (days(3) != days(4)).any()
    assert play(FixedPolicy(FIVE), JUMPS, np.zeros(0, dtype=int), np.random.default_rng(0)).shape == (0, SLOTS)


def test_an_explore_that_finds_nothing_new_is_a_stay() -> None:
    class Same:
        def explore(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return cells

    days = rollout(FixedPolicy((0.0, 1.0, 0.0, 0.0)), Same(), np.array([5]), np.random.default_rng(0))
    assert (days.cells == 5).all()
    assert (days.actions == EXPLORE).all()


@pytest.mark.parametrize("numbers", [(0.5, 0.5), (0.5, -0.5, 1, 0), (0, 0, 0, 0), (np.nan, 1, 0, 0)])
def test_bad_probabilities_are_refused(numbers: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="probabilities"):
        play(FixedPolicy(numbers), JUMPS, np.array([0]), np.random.default_rng(0))


def test_jumps_have_their_distances() -> None:
    cells = np.full(4_000, MIDDLE)
    found = JUMPS.explore(cells, np.random.default_rng(0))
    km = haversine_km(GRID.centres(cells), GRID.centres(found))
    assert (found != cells).all()
    assert 0.5 < km.min() < 1.6
    assert km.max() < 21
    assert abs((km < 5).mean() - 0.5) < 0.03
    turn = GRID.centres(found) - GRID.centres(cells)
    assert (np.abs(np.sign(turn).mean(axis=0)) < 0.05).all()


def test_jumps_stay_on_the_grid_or_do_not_happen() -> None:
    corner = JUMPS.explore(np.zeros(500, dtype=int), np.random.default_rng(0))
    assert corner.min() > 0
    assert corner.max() < GRID.size
    away = JumpLaw(GRID, (1_000.0, 2_000.0), (1.0,))
    assert (away.explore(np.arange(5), np.random.default_rng(0)) == np.arange(5)).all()


def test_gravity_takes_directions_in_proportion_to_what_is_there() -> None:
    law = JumpLaw(GRID, (30.0, 30.0001), (1.0,))
    east = GRID.centres(np.arange(GRID.size))[:, 1] > 116.5
    here = np.full(25_000, MIDDLE)
    found = GravityLaw(law, 1, np.where(east, 3.0, 1.0)).explore(here, np.random.default_rng(0))
    km = haversine_km(GRID.centres(here), GRID.centres(found))
    assert np.abs(km - 30).max() < 1, "the distance is the law's, up to half a cell"
    assert east[found].mean() == pytest.approx(3.2 / 4.4, abs=0.015)  # half of the directions each; the mean is 2
    nobody = GravityLaw(law, 1, np.zeros(GRID.size)).explore(here[:100], np.random.default_rng(0))
    assert (nobody != MIDDLE).all(), "where nobody lives anywhere, the law of distances alone decides"


def test_gravity_leaves_nobody_outside() -> None:
    law = GravityLaw(JUMPS, 5, np.ones(GRID.coarse_grid(5).size))
    corner = law.explore(np.zeros(500, dtype=int), np.random.default_rng(0))
    assert corner.min() > 0
    assert corner.max() < GRID.size
    away = GravityLaw(JumpLaw(GRID, (1_000.0, 2_000.0), (1.0,)), 5, law.attraction)
    assert (away.explore(np.arange(5), np.random.default_rng(0)) == np.arange(5)).all()
    assert len(law.explore(np.zeros(0, dtype=int), np.random.default_rng(0))) == 0


def test_jumps_as_json() -> None:
    values = json.loads(json.dumps(JUMPS.to_json()))
    assert JumpLaw.from_json(values) == JUMPS
    for wrong in (None, {}, {**values, "kind": "ranks"}, {**values, "edges": "1, 2"}, {**values, "extra": 1}):
        with pytest.raises(DataError, match="law of jumps"):
            JumpLaw.from_json(wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="of a grid"):
        JumpLaw.from_json({**values, "grid": {}})


def test_ranks_follow_their_law() -> None:
    places = np.array([0, 1, 3, 7])  # a row of cells: from 0 the ranks are 0, 1, 3, 7
    law = RankLaw(GRID, places[::-1], alpha=1.0, ranks=3)
    found = law.explore(np.zeros(20_000, dtype=int), np.random.default_rng(0))
    np.testing.assert_allclose(
        np.bincount(found, minlength=8)[[0, 1, 3, 7]] / 20_000, [6 / 11, 3 / 11, 2 / 11, 0], atol=0.01
    )
    strange = RankLaw(GRID, places, ranks=1).explore(np.array([2, 8, 9_000]), np.random.default_rng(0))
    assert set(strange[:1].tolist()) <= {1, 3}
    assert strange[1:].tolist() == [7, 7]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RankLaw(GRID, np.zeros(0, dtype=int)),
        lambda: RankLaw(GRID, np.array([1, 1])),
        lambda: RankLaw(GRID, np.array([GRID.size])),
        lambda: JumpLaw(GRID, (0.0, 1.0), (1.0,)),
        lambda: JumpLaw(GRID, (1.0, 2.0), (0.5,)),
        lambda: JumpLaw(GRID, (2.0, 1.0), (1.0,)),
        lambda: MovementEnv(GRID, JUMPS, Middle(), actions=3),
        lambda: MovementEnv(GRID, JUMPS, Middle()).reset(options={"start": GRID.size}),
    ],
)
def test_bad_parameters_are_refused(make: object) -> None:
    with pytest.raises(DataError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("number", [4, 5])
def test_the_environment_is_sound_and_labels_agree(number: int) -> None:
    arguments = {"grid": GRID, "space": JUMPS, "starts": Middle(), "actions": number}
    env = MovementEnv(**arguments)
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Movement-v0", entry_point=MovementEnv, kwargs=arguments)
    check_env(env)
    rng = np.random.default_rng(0)
    for seed in range(5):
        seen, info = env.reset(seed=seed)
        rows, taken, masks, over = [seen], [], [], False
        while not over:
            action = rng.integers(number)
            masks.append(info["possible"].tolist())
            taken.append(action if info["possible"][action] else STAY)
            seen, paid, ended, over, info = env.step(action)
            assert (paid, ended) == (0.0, False)
            assert env.observation_space.contains(seen)
            rows.append(seen)
        day = np.array(rows)[None, :, 3]
        assert day.shape == (1, SLOTS)
        assert actions(day, last=number == 5)[0].tolist() == taken
        assert (
            np.array(rows)[:, :3].tolist()
            == np.stack([np.arange(SLOTS), distinct_counts(day)[0], stay_lengths(day)[0]], 1).tolist()
        )
    assert env.reset(options={"start": 7})[0].tolist() == [0, 1, 1, 7]
