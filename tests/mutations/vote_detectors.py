"""Detectors for votes along public directions, as those of `detectors.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from vote_cases import DIRECTIONS, GRID, PEOPLE, ROUNDS, Some, plan, steps_of


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


VOTE_DETECTORS = (votes_of_one_person, neighbours_of_votes)
