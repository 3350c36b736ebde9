"""Detectors for votes along public directions, as those of `detectors.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from user_cases import LENGTH, Earned, Scripted, open_user_vault, priced
from vote_cases import DIRECTIONS, GRID, PEOPLE, ROUNDS, Some, plan, steps_of

from tacit.privacy.mechanisms.responses import RandomizedResponses


def votes_of_one_person(folder: Path) -> None:
    """One person adds votes along what was played: exactly sqrt(p) long, without a clip."""
    alone = [[k % PEOPLE] for k in range(ROUNDS)]
    users, voted = Some(alone), plan()
    released = steps_of(folder, users, voted)[:, 0]
    for k, (who,) in enumerate(alone):
        own = users.votes(k, voted.radius)[who]
        length = np.linalg.norm(released[k])
        assert abs(length - DIRECTIONS**0.5) < 2 * GRID, f"one person's votes are {length:.4f} long"
        assert np.allclose(released[k], own, atol=GRID), "votes are not along what was played"


def neighbours_of_votes(folder: Path) -> None:
    """Without one person the sum of a round moves by that person's votes: everybody else keeps their place."""
    everybody = [list(range(PEOPLE))] * ROUNDS
    without = [everybody[0][1:], *everybody[1:]]
    sums = [steps_of(folder / name, Some(some), plan())[0] for name, some in (("with", everybody), ("less", without))]
    moved = np.linalg.norm(sums[0] - sums[1])
    assert moved <= DIRECTIONS**0.5 + 4 * GRID, f"one person moved the sum of votes by {moved:.3f}"


def randomized_answers(folder: Path) -> None:
    """Every answer is turned round as often as the part says, and where there is none, coins are thrown."""
    part = RandomizedResponses(
        name="answers", steps=1, users=100, answers=80, noise_multiplier=0.5, rows_per_unit=LENGTH
    )
    ids = [f"p{i}" for i in range(50)]
    vault = open_user_vault(folder, Scripted([[ids]], {name: [1.0] for name in ids}))
    run = vault.reserve(priced(part))
    vault.enroll(run, lambda *_: np.zeros(1))
    released = vault.randomized(run, "answers", Same(part.answers))[0]
    vault.ledger.close()
    vault._register.close()
    assert released.shape == (100, 80)
    assert set(np.unique(released)) == {-1, 1}, "an answer is neither yes nor no"
    for where, chance in (("answered", part.flip_probability), ("silent", 0.5)):
        turned = float(np.mean((released[:50] if where == "answered" else released[50:]) == -1))
        slack = 6 * (chance * (1 - chance) / 4_000) ** 0.5
        assert abs(turned - chance) < slack, f"{turned:.3f} of those who {where} are -1, not {chance:.3f}"


@dataclass(frozen=True)
class Same:
    """So many answers of a person, all as the sum of rewards says."""

    answers: int

    def __call__(self, rows: Any, state: Any) -> np.ndarray:
        return np.repeat(Earned()(rows, state), self.answers, axis=1)


VOTE_DETECTORS = (votes_of_one_person, neighbours_of_votes, randomized_answers)
