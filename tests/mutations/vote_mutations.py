"""Mistakes with votes along public directions, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.methods.policy_gradient import votes
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.vault import user_vault

Plant = Callable[[pytest.MonkeyPatch], None]


def directions_not_orthonormal(patch: pytest.MonkeyPatch) -> None:
    """Directions of length 1 that nobody made orthogonal."""

    def directions(plan: Any, parameters: int, replicates: int, round_: int) -> np.ndarray:
        drawn = np.random.default_rng(round_).standard_normal(
            (replicates, plan.users, plan.directions_at(round_), parameters)
        )
        return np.asarray(drawn / np.linalg.norm(drawn, axis=3, keepdims=True))

    patch.setattr(votes, "draw_directions", directions)


def directions_from_data(patch: pytest.MonkeyPatch) -> None:
    """The seed of the directions is what everybody earned so far."""
    real, enrolled, earned = votes.draw_directions, user_vault.enrolled_rows, [0]

    def enrolled_rows(*arguments: Any) -> dict[str, np.ndarray]:
        rows = enrolled(*arguments)
        earned[0] += int(abs(rows["rewards"].sum()) * 1_000)
        return rows

    def directions(plan: Any, parameters: int, replicates: int, round_: int) -> np.ndarray:
        return real(plan, parameters, replicates, round_ + earned[0])

    patch.setattr(user_vault, "enrolled_rows", enrolled_rows)
    patch.setattr(votes, "draw_directions", directions)


def places_of_those_who_answer(patch: pytest.MonkeyPatch) -> None:
    """Places are counted among those who answered, so that one person's silence moves all others behind."""
    real = user_vault.enrolled_rows

    def enrolled_rows(*arguments: Any) -> dict[str, np.ndarray]:
        rows = real(*arguments)
        return rows | {"place": np.arange(len(rows["place"]))}

    patch.setattr(user_vault, "enrolled_rows", enrolled_rows)


def places_mixed(patch: pytest.MonkeyPatch) -> None:
    """People play along the directions of the place next to theirs, and vote along their own."""
    real = votes.trial_actor

    def tried(plan: Any, policy: Any, theta: Any, asked: Any, round_: int) -> Any:
        return real(plan, policy, theta, votes.VoteDirections(np.roll(asked.directions, 1, axis=1)), round_)

    patch.setattr(votes, "trial_actor", tried)


def _released(patch: pytest.MonkeyPatch, broken: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Answers are (given, as they should be released) -> released."""
    real = RandomizedResponses.randomize

    def randomized(part: RandomizedResponses, answers: np.ndarray, noise: Any) -> np.ndarray:
        return broken(np.sign(answers).astype(np.int8), real(part, answers, noise))

    patch.setattr(RandomizedResponses, "randomize", randomized)


def answers_not_turned_round(patch: pytest.MonkeyPatch) -> None:
    """Who answers is believed; only silence gets a coin."""
    _released(patch, lambda given, honest: np.where(given == 0, honest, given))


def half_of_the_chance(patch: pytest.MonkeyPatch) -> None:
    """Every second answer that was turned round is turned back."""

    def broken(given: np.ndarray, honest: np.ndarray) -> np.ndarray:
        second = np.arange(given.size).reshape(given.shape) % 2 == 0
        return np.where((given == 0) | second, honest, given)

    _released(patch, broken)


def silence_shows(patch: pytest.MonkeyPatch) -> None:
    """Who does not answer has a 0."""
    _released(patch, lambda given, honest: honest * (given != 0))


VOTES: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("directions not orthonormal", directions_not_orthonormal, ("votes_of_one_person",)),
    ("directions from data", directions_from_data, ("later_meetings",)),
    ("places of those who answer", places_of_those_who_answer, ("votes_of_one_person", "neighbours_of_votes")),
    ("places mixed", places_mixed, ("votes_of_one_person",)),
    ("answers not turned round", answers_not_turned_round, ("randomized_answers",)),
    ("half of the chance", half_of_the_chance, ("randomized_answers",)),
    ("silence shows", silence_shows, ("randomized_answers",)),
)
