"""Answers of people who are met, each turned round by itself before it leaves the vault."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from user_cases import LENGTH, Earned, Scripted, open_user_vault, priced, user_sum
from vault_cases import unit_of
from vote_cases import DIRECTIONS, PEOPLE, POLICY, ROUNDS, Some, plan

from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.methods.policy_gradient import VotesPlan, fit, votes
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.user_vault import UserVault


@dataclass(frozen=True)
class Signs:
    """What a person earned, in each of so many answers with another sign."""

    answers: int = 2

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.asarray(Earned()(rows, state) * np.where(np.arange(self.answers) % 2, -1.0, 1.0))


def part(**fields: Any) -> RandomizedResponses:
    few: dict[str, Any] = {"name": "answers", "steps": 2, "users": 4, "answers": 2, "rows_per_unit": LENGTH}
    return RandomizedResponses(**few | {"noise_multiplier": 0.0} | fields)


def actor(*_: Any) -> np.ndarray:
    return np.zeros(1)


def opened(folder: Path, rounds: list[list[str]], **rewards: list[float]) -> UserVault:
    return open_user_vault(folder, Scripted([[ids] for ids in rounds], rewards), noise=SecretNoise.for_tests(1))


def test_places_keep_their_answers_and_coins_stand_where_there_are_none(tmp_path: Path) -> None:
    vault = opened(tmp_path, [["ann", "bob", "cyd"], ["bob"]], ann=[3.0], bob=[-9.0], cyd=[np.nan])
    run, coins = vault.reserve(priced(part())), []
    vault.enroll(run, actor)
    first = vault.randomized(run, "answers", Signs())
    assert first.shape == (1, 4, 2)
    assert first[0, :2].tolist() == [[1, -1], [-1, 1]]
    coins += first[0, 2:].ravel().tolist()
    vault.enroll(run, actor)
    coins += vault.randomized(run, "answers", Signs()).ravel().tolist()  # bob has answered before
    assert set(coins) == {-1, 1}
    with pytest.raises(LedgerError):
        vault.randomized(run, "answers", Signs())


def test_what_the_plan_does_not_pay_for_is_refused(tmp_path: Path) -> None:
    vault = opened(tmp_path, [["ann"]], ann=[1.0])
    run = vault.reserve(priced(part(answers=1)))
    vault.enroll(run, actor)
    with pytest.raises(MechanismError, match="2 answers of one person"):
        vault.randomized(run, "answers", Signs())
    with pytest.raises(PlanError):
        vault.noisy_sum(run, "answers", Signs())
    assert vault.randomized(run, "answers", Signs(1))[0, 0].tolist() == [1]
    with pytest.raises(PlanError, match="more than the population can fill"):
        vault.reserve(priced(part(steps=1_000)))


def test_one_person_moves_own_answers_alone(tmp_path: Path) -> None:
    released = []
    for name, own in (("more", 5.0), ("less", -5.0), ("none", 0.0)):
        (tmp_path / name).mkdir()
        vault = opened(tmp_path / name, [["ann", "bob", "cyd"]], ann=[own], bob=[1.0], cyd=[-1.0])
        run = vault.reserve(priced(part(noise_multiplier=0.5)))
        vault.enroll(run, actor)
        released.append(vault.randomized(run, "answers", Signs())[0])
    for one in released[1:]:
        np.testing.assert_array_equal(one[1:], released[0][1:])  # the same noise, the same others


@dataclass(frozen=True)
class Leaking:
    """What a person earned, and a trace of what everybody earned, which trials let pass for rounding."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        own = Earned()(rows, state)
        return np.asarray(own + 1e-11 * own.sum())


@dataclass(frozen=True)
class Weighted:
    """A sum that is 0 but for rounding, which depends on how many are added up together."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.asarray((rows["rewards"] * rows["mask"]) @ np.array([[0.1], [0.2], [-0.3], [0.0]]))


@dataclass(frozen=True)
class Moving:
    """Tries to move everybody who earned something to the first place."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        earned = Earned()(rows, state)
        rows["place"][:] = np.where(earned[:, 0] > 0, 0, rows["place"])
        return np.ones_like(earned)


@pytest.mark.parametrize(
    ("contribution", "own", "others"),
    [(Leaking(), [9.0], [0.0]), (Leaking(), [-9.0], [0.0]), (Weighted(), [7.0] * 3, [7.0] * 3)],
    ids=["leaking up", "leaking down", "weighted"],
)
def test_no_trace_of_one_person_is_in_the_signs_of_others(
    contribution: Any, own: list[float], others: list[float], tmp_path: Path
) -> None:
    others_of = []
    for name in ("there", "silent"):
        (tmp_path / name).mkdir()
        ids = [f"p{i}" for i in range(40)]
        rewards = dict.fromkeys(ids[1:], others) | {"p0": own if name == "there" else []}
        users = Scripted([[ids]], rewards)
        vault = open_user_vault(tmp_path / name, users, noise=SecretNoise.for_tests(1))
        run = vault.reserve(priced(part(users=40, answers=1, noise_multiplier=0.05)))
        vault.enroll(run, actor)
        others_of.append(vault.randomized(run, "answers", contribution)[0, 1:])
    np.testing.assert_array_equal(*others_of)


def test_nobody_is_moved_to_another_place(tmp_path: Path) -> None:
    vault = opened(tmp_path, [["ann", "bob", "cyd"]], ann=[1.0], bob=[1.0], cyd=[1.0])
    run = vault.reserve(priced(part(answers=1)))
    vault.enroll(run, actor)
    assert vault.randomized(run, "answers", Moving())[0, :3].tolist() == [[1], [1], [1]]


def test_sums_and_answers_are_not_mixed_with_another_number_of_people(tmp_path: Path) -> None:
    vault = opened(tmp_path, [["ann"]], ann=[1.0])
    with pytest.raises(PlanError, match="disagree on who is enrolled"):
        vault.reserve(priced(part(noise_multiplier=1.0), user_sum(name="sum", users=5)))


# Votes of which each is turned round by itself.

EVERYBODY = [list(range(PEOPLE))] * ROUNDS


def of_votes(folder: Path) -> UserVault:
    folder.mkdir(exist_ok=True)
    users: Any = Some(EVERYBODY)
    return open_user_vault(folder, users, unit=unit_of(1_000))


def test_without_noise_randomised_votes_are_the_votes(tmp_path: Path) -> None:
    moved = [
        fit(plan(answers=answers, noise_multiplier=0.0), of_votes(tmp_path / answers), POLICY).value.iterates
        for answers in ("summed", "randomized")
    ]
    np.testing.assert_allclose(moved[0], moved[1], atol=0.01)
    assert np.abs(np.diff(moved[1], axis=0)).max() > 0.1


def test_what_only_sums_have_is_refused() -> None:
    with pytest.raises(PlanError, match="correlation, decay"):
        plan(answers="randomized", correlation="tree")


def test_a_run_is_certified_at_the_price_of_its_answers(tmp_path: Path) -> None:
    drawn = VotesPlan(
        rounds=ROUNDS, users=PEOPLE, directions=DIRECTIONS, episode_length=4, radius=0.5, answers="randomized"
    )
    voted = drawn.calibrate(unit=unit_of(1_000), epsilon=6.0, delta=1e-4)
    # The dearer direction at so small a delta: of p coins none is what was answered, 2^-p against (2 q)^-p.
    assert math.tanh(0.5 / voted.noise_multiplier) == pytest.approx(1 - math.exp(-6 / DIRECTIONS), rel=0.02)
    release: Release[Any] = fit(voted, of_votes(tmp_path), POLICY)
    release.certificate.verify()
    assert release.certificate.epsilon <= 6.0
    assert release.certificate.to_json()["parts"][0]["kind"] == "randomized_responses"
    assert "fair coin" in release.certificate.to_markdown()


def test_the_mean_of_randomised_votes_is_the_ballots() -> None:
    voted, noise = plan(answers="randomized", noise_multiplier=1.0), SecretNoise.for_tests(5)
    asked = votes.VoteDirections(votes.draw_directions(voted, POLICY.parameters, 1, 0))
    answers = np.random.default_rng(2).choice([-1.0, 0.0, 1.0], (1, PEOPLE, DIRECTIONS))
    found = [votes.estimate_mean(voted, voted.responses().randomize(answers, noise), asked)[0] for _ in range(4_000)]
    exact = np.einsum("np,npd->d", answers[0], asked.directions[0]) / PEOPLE
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - exact) < 6 * error).all()
