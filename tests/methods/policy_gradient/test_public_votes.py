"""Votes along public directions: who plays what, what a person adds, and what is learnt, resumed and promised."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from user_cases import open_user_vault
from vault_cases import unit_of
from vote_cases import DIRECTIONS, GRID, LENGTH, PEOPLE, POLICY, ROUNDS, Some, plan, steps_of

from tacit import hub
from tacit.agents.policies import Policy
from tacit.envs.gym_domain import GymDomain
from tacit.envs.serving import SimulatedUsers
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.policy_gradient import Ramp, VotesPlan, fit, recipes, votes
from tacit.units import Unit
from tacit_worlds.cart_pole import CartPole
from tacit_worlds.cart_pole import spec as pole

EVERYBODY = [list(range(PEOPLE))] * ROUNDS


def rows_of(rewards: list[list[float]], ended: list[bool], place: int = 0) -> dict[str, np.ndarray]:
    """The rows of one person, whose episodes have these rewards; which of them ended."""
    flat = np.concatenate([np.array(episode) for episode in rewards])[None]
    ends, starts = np.zeros(flat.shape, bool), np.zeros(flat.shape, bool)
    last = np.cumsum([len(episode) for episode in rewards])
    starts[0, [0, *last[:-1]]] = True
    ends[0, last - 1] = ended
    return {
        "rewards": flat,
        "starts": starts,
        "mask": np.ones(flat.shape, bool),
        "terminations": np.zeros(flat.shape, bool),
        "truncations": ends,
        "replicate": np.array([0]),
        "place": np.array([place]),
    }


def of_places(places: int, p: int, parameters: int) -> votes.VoteDirections:
    """The directions of place u are those axes of the space that begin with axis u."""
    axes = np.eye(parameters)
    return votes.VoteDirections(np.array([[np.roll(axes, -u, axis=0)[:p] for u in range(places)]]))


def test_a_vote_is_the_sign_of_the_difference_of_returns() -> None:
    rows = rows_of([[1.0, 2.0], [2.5], [0.0], [-1.0, 0.5, 0.25]], [True] * 4, place=1)
    found = votes.Ballot(0.0, True, 2)(rows, of_places(2, 2, 5))
    assert found.tolist() == [[0.0, 1.0, 1.0, 0.0, 0.0]]  # 3 > 2.5 along axis 1, and 0 > -0.25 along axis 2


def test_an_offset_counts_decisions() -> None:
    rows = rows_of([[1.0, 1.0, 1.0], [2.5]], [True] * 2)
    plain, less = (votes.Ballot(offset, True, 1)(rows, of_places(1, 1, 2))[0, 0] for offset in (0.0, -0.5))
    assert (plain, less) == (1.0, -1.0)  # 3 and 2.5; 1.5 and 2.0


@pytest.mark.parametrize(
    ("rewards", "ended"),
    [
        ([[1.0], [1.0]], [True, True]),  # a tie
        ([[2.0], [1.0]], [True, False]),  # the meeting was over before the episode was
        ([[2.0]], [True]),  # one episode of the pair alone
    ],
)
def test_a_pair_that_decides_nothing_adds_nothing(rewards: list[list[float]], ended: list[bool]) -> None:
    assert not votes.Ballot(0.0, True, 1)(rows_of(rewards, ended), of_places(1, 1, 3)).any()


def test_votes_that_do_not_count_add_nothing_and_fewer_are_stretched() -> None:
    rows = rows_of([[1.0], [0.0]], [True, True])
    assert not votes.Ballot(0.0, False, 1)(rows, of_places(1, 1, 3)).any()
    assert np.linalg.norm(votes.Ballot(0.0, True, 4)(rows, of_places(1, 1, 3))) == pytest.approx(2.0)


def test_directions_are_orthonormal_and_a_function_of_public_numbers() -> None:
    drawn = votes.draw_directions(plan(), 6, 2, 3)
    assert drawn.shape == (2, PEOPLE, DIRECTIONS, 6)
    assert np.einsum("rnpd,rnqd->rnpq", drawn, drawn) == pytest.approx(
        np.broadcast_to(np.eye(DIRECTIONS), (2, PEOPLE, DIRECTIONS, DIRECTIONS)), abs=1e-12
    )
    assert np.array_equal(
        drawn[:1], votes.draw_directions(plan(), 6, 1, 3)
    )  # also where other replicates are not there
    for other in (votes.draw_directions(plan(), 6, 2, 4), votes.draw_directions(plan(seed=1), 6, 2, 3)):
        assert np.abs(np.einsum("rnpd,rnpd->rnp", drawn, other)).max() < 1 - 1e-6
    assert np.abs(np.einsum("pd,pd->p", drawn[0, 0], drawn[0, 1])).max() < 1 - 1e-6


def test_directions_point_everywhere_alike() -> None:
    drawn = votes.draw_directions(plan(users=4_000, directions=1), 3, 1, 0)[0, :, 0]
    assert (drawn**2).mean(axis=0) == pytest.approx(np.full(3, 1 / 3), abs=0.03)  # 6 standard deviations
    assert drawn.T @ drawn / len(drawn) == pytest.approx(np.eye(3) / 3, abs=0.03)


def test_the_sum_holds_everybodys_votes_on_what_they_played(tmp_path: Path) -> None:
    users, voted = Some(EVERYBODY, replicates=2), plan()
    released = steps_of(tmp_path, users, voted)
    for k in range(ROUNDS):
        own = users.votes(k, voted.radius).reshape(2, PEOPLE, -1)
        assert np.linalg.norm(own, axis=2) == pytest.approx(np.full((2, PEOPLE), math.sqrt(DIRECTIONS)), rel=1e-5)
        assert released[k] == pytest.approx(own.sum(axis=1), abs=GRID)


def test_a_step_is_the_mean_vote_times_what_makes_it_independent_of_the_size(tmp_path: Path) -> None:
    users, voted = Some(EVERYBODY), plan(step=0.4)
    released = steps_of(tmp_path, users, voted)
    before, after = (users.actors[k].acting.theta.reshape(PEOPLE, -1, 6).mean(axis=(0, 1)) for k in (1, 2))
    factor = 0.4 * (1 - 1 / ROUNDS) * math.sqrt(POLICY.parameters) / DIRECTIONS / PEOPLE
    assert after - before == pytest.approx(factor * released[1, 0], abs=1e-5)  # pairs are opposite: their mean is theta


def test_fewer_votes_in_a_later_round_make_steps_of_the_same_scale(tmp_path: Path) -> None:
    users, voted = Some(EVERYBODY), plan(directions=Ramp(first=DIRECTIONS, last=1), schedule="constant", average=1.0)
    assert [voted.directions_at(k) for k in range(ROUNDS)] == [3, 3, 2, 2, 1, 1]
    assert (voted.bound, voted.parts()[0].clip_norm) == (math.sqrt(3), math.sqrt(3))
    steps_of(tmp_path, users, voted)
    assert [actor.episodes for actor in users.actors] == [6, 6, 4, 4, 2, 2]


def test_lengths_go_in_a_straight_line_and_set_the_rows_of_a_meeting() -> None:
    rising = plan(episode_length=Ramp(first=100, last=400), directions=1, rounds=4)
    assert [rising.length_at(k) for k in range(4)] == [100, 200, 300, 400]
    assert (rising.horizon, rising.parts()[0].rows_per_unit) == (800, 800)
    assert plan(rounds=1, episode_length=Ramp(first=7, last=9)).length_at(0) == 7


def test_votes_learn_what_pays(tmp_path: Path) -> None:
    voted = plan(rounds=20, users=PEOPLE, step=0.5, noise_multiplier=1.0)
    vault = open_user_vault(tmp_path, Some(EVERYBODY * 4), unit=unit_of(1_000))  # type: ignore[arg-type]
    release = fit(voted, vault, POLICY)
    bias = release.value.last[0, 4:]  # weights [2, 2], then a bias for each action
    assert bias[0] - bias[1] > 1.0  # the noise in the difference has a standard deviation of about 0.3
    assert release.value.actor().greedy
    assert release.value.people.tolist() == [PEOPLE * k for k in range(21)]
    release.certificate.verify()


def test_a_resumed_run_asks_for_the_same_directions(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    users = Some(EVERYBODY)
    first = open_user_vault(tmp_path, users, unit=unit_of(1_000))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        fit(plan(), first, POLICY, folder=tmp_path, progress=stop)
    first.ledger.close()
    first._register.close()
    later = Some(EVERYBODY, rounds=3)
    again = open_user_vault(tmp_path, later, unit=unit_of(1_000))  # type: ignore[arg-type]
    with pytest.raises(PlanExhausted):
        fit(plan(), again, POLICY)
    release = fit(plan(), again, POLICY, folder=tmp_path, resume=True)
    assert len(later.actors) == ROUNDS - 3
    moved = later.actors[0].acting.theta.reshape(PEOPLE, DIRECTIONS, 2, -1)
    steps = (moved[:, :, 0] - moved[:, :, 1]) / (2 * plan().radius)
    assert steps == pytest.approx(votes.draw_directions(plan(), POLICY.parameters, 1, 3)[0], abs=1e-5)
    release.certificate.verify()


def test_a_release_is_saved_and_read(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Some(EVERYBODY), unit=unit_of(1_000))  # type: ignore[arg-type]
    voted = plan(episode_length=Ramp(first=1, last=LENGTH))
    release = fit(voted, vault, POLICY)
    hub.save(release, tmp_path / "release")
    back = hub.load(tmp_path / "release")
    assert back.value.plan == voted
    assert np.array_equal(back.value.average, release.value.average)
    words = back.certificate.lines("not_covered")
    assert "the directions of the votes: drawn with the public seed 0, for a round and a place" in words


def test_people_who_do_not_come_leave_the_others_their_places(tmp_path: Path) -> None:
    class Few(Some):
        def arrive(self, count: int) -> Any:
            return [ids[:2] for ids in super().arrive(count)]

    users = Few(EVERYBODY, replicates=2)
    steps_of(tmp_path, users, plan(rounds=1))
    played = users.actors[0].acting.theta.reshape(2, PEOPLE, 2 * DIRECTIONS, -1)
    rewards = users.rows[0]["rewards"].reshape(2, 2, 2 * DIRECTIONS, LENGTH)[..., 0]
    seen = users.rows[0]["observations"].reshape(2, 2, 2 * DIRECTIONS, LENGTH, 2)[..., 0, :]
    weights, bias = played[:, :2, :, :4].reshape(2, 2, 6, 2, 2), played[:, :2, :, 4:]
    action = np.einsum("ruedo,rued->rueo", weights, seen) + bias
    assert rewards == pytest.approx(action[..., 0] - action[..., 1], abs=1e-5)


@pytest.mark.parametrize("domain", [CartPole(), GymDomain("CartPole-v1")], ids=["batched", "Gymnasium"])
def test_any_environment_is_played_in_episodes_of_public_length(domain: Any) -> None:
    users = SimulatedUsers(domain, pole(), horizon=500, seed=1)
    policy, voted = (
        Policy.default(pole(), ()),
        VotesPlan(rounds=1, users=3, directions=2, episode_length=30, radius=0.1),
    )
    asked = votes.VoteDirections(votes.draw_directions(voted, policy.parameters, 1, 0))
    actor = votes.trial_actor(voted, policy, policy.initial_parameters(np.random.default_rng(0), 1), asked, 0)
    rows = users.serve(users.arrive(3), actor)
    ends = (rows["terminations"] | rows["truncations"]) & rows["mask"]
    assert rows["mask"].shape == (3, 120)
    assert ends.sum(axis=1).tolist() == [4, 4, 4]
    assert np.array_equal(rows["mask"], np.logical_and.accumulate(rows["mask"], axis=1))
    starts = np.flatnonzero(np.append(True, ends[0, :-1]) & rows["mask"][0])
    assert (np.abs(rows["observations"][0, starts]) <= 0.05).all()  # where every pole begins
    assert (np.diff([*starts, rows["mask"][0].sum()]) <= 30).all()


def test_a_policy_with_too_few_parameters_is_refused(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Some(EVERYBODY), unit=unit_of(1_000))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="7 directions are orthonormal only where there are as many parameters, not 6"):
        fit(plan(directions=7), vault, POLICY)
    assert vault.ledger.spent() == (0.0, 0.0)


def test_the_price_is_one_gaussian_whatever_the_votes_are() -> None:
    unit = Unit("rider", "add_or_remove", 1_600)
    few, many = (
        VotesPlan(rounds=100, users=16, directions=p).calibrate(unit=unit, epsilon=8.0, delta=1e-5) for p in (1, 9)
    )
    assert few.noise_multiplier == many.noise_multiplier == pytest.approx(0.600, abs=5e-4)
    assert (few.bound, many.bound) == (1.0, 3.0)


def test_recipes_have_the_promised_sizes() -> None:
    for name, size, people in (("HalfCheetah-v5", 108, 1_600), ("Hopper-v5", 36, 2_880)):
        recipe = recipes.VOTED[name]()
        assert recipe.policy.parameters == size
        assert recipe.plan.users * recipe.plan.rounds == people
    general = recipes.general_votes(pole(), horizon=500, repeat=2)
    assert general.plan.horizon == 500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"directions": 0}, "directions is 0"),
        ({"episode_length": 2.5}, "episode_length is 2.5"),
        ({"radius": 0.0}, "radius is 0.0"),
        ({"offset": math.nan}, "offset is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"rounds": 0}, "participations is 1"),
        ({"schedule": "none"}, "schedule is 'none'"),
    ],
)
def test_parameters_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(plan(), **changes)
    with pytest.raises(PlanError, match="first is 0"):
        Ramp(first=0, last=3)
