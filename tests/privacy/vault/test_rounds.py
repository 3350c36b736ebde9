"""Rounds of a pool: a public function of each one's own id, and of nothing else; and people who come by themselves."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from round_cases import EXPECTED, PEOPLE, POOL, ROUNDS, SLACK, Marked, close, marks, opened, plan_of, rounds_of, still
from user_cases import LENGTH, Earned, Scripted, priced
from vault_cases import unit_of

from tacit.errors import DataError, LedgerError, PlanError
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label

LABEL = Label(covered=("the sums",), not_covered=(), not_protected=())


def of_hash(person: str, seed: str, period: int) -> int:
    """The turn of an id, written down from the definition."""
    name = hashlib.blake2b(person.encode(), digest_size=16).digest()
    key = hashlib.blake2b(seed.encode(), digest_size=64).digest()
    word = hashlib.blake2b(name, key=key, digest_size=8, person=b"round").digest()
    return (int.from_bytes(word, "little") >> 32) * period >> 32


def served_in(users: Scripted) -> list[list[str]]:
    return [people[0] for people, _ in users.met]


def test_a_round_is_a_public_hash_of_the_id_and_everybody_has_one(tmp_path: Path) -> None:
    users, plan = Scripted([], marks(POOL), pool=[POOL]), plan_of()
    vault = opened(tmp_path, users)
    run = vault.reserve(plan)
    for _ in range(ROUNDS):
        vault.enroll(run, still)
        vault.noisy_sum(run, "policy", Marked())
    turns = {person: of_hash(person, plans.plan_id(plan), ROUNDS) for person in POOL}
    assert served_in(users) == [sorted(p for p in POOL if turns[p] == t) for t in range(ROUNDS)]
    assert len({len(people) for people in served_in(users)}) > 1  # the divisor is not how many came


def test_one_person_less_changes_one_round_by_one_clip(tmp_path: Path) -> None:
    whole = rounds_of(tmp_path / "whole", POOL)
    assert whole.sum() == pytest.approx(PEOPLE, abs=PEOPLE * SLACK)
    for place, person in enumerate(POOL):
        moved = whole - rounds_of(tmp_path / person, POOL[:place] + POOL[place + 1 :])
        norms = np.linalg.norm(moved, axis=1)
        assert (norms > SLACK).sum() == 1
        assert norms.sum() <= 1 + SLACK
        assert moved[:, place].sum() == pytest.approx(1, abs=SLACK)


def test_another_person_changes_two_rounds_by_a_clip_each_at_most(tmp_path: Path) -> None:
    whole, changed = rounds_of(tmp_path / "whole", POOL), set()
    for place in range(4):
        other = f"p{PEOPLE + place}"
        moved = whole - rounds_of(tmp_path / other, [*POOL[:place], *POOL[place + 1 :], other])
        norms = np.linalg.norm(moved, axis=1)
        changed.add(int((norms > SLACK).sum()))
        assert norms.sum() <= 2 + SLACK
    assert changed <= {1, 2}
    assert 2 in changed


def test_neither_order_nor_white_space_moves_anybody(tmp_path: Path) -> None:
    expected = rounds_of(tmp_path / "plain", POOL)
    for name, people in (("reversed", POOL[::-1]), ("spaced", [f" {person} " for person in POOL])):
        np.testing.assert_array_equal(rounds_of(tmp_path / name, people), expected)


def test_a_later_process_goes_on_with_the_next_round_and_others_who_left_change_nothing(tmp_path: Path) -> None:
    plan, expected, found = plan_of(), rounds_of(tmp_path / "whole", POOL), []
    for pool in (POOL, POOL, POOL):
        vault = opened(tmp_path / "parts", Scripted([], marks(pool), pool=[pool]))
        run = vault.reserve(plan)
        vault.enroll(run, still)
        found.append(vault.noisy_sum(run, "policy", Marked())[0] * EXPECTED)
        close(vault)
    np.testing.assert_array_equal(found, expected[:3])


def test_who_may_contribute_k_times_comes_every_period(tmp_path: Path) -> None:
    plan = plan_of(steps=5, participations=2, users=8)
    sums = rounds_of(tmp_path, POOL, plan=plan)
    turns = [of_hash(person, plans.plan_id(plan), 3) for person in POOL]  # 5 rounds, twice each at most: every third
    expected = np.array([[turn == t % 3 for turn in turns] for t in range(5)])
    np.testing.assert_allclose(sums[:, :PEOPLE], expected, atol=SLACK)
    assert expected.sum(axis=0).max() == 2


def test_a_round_that_was_not_released_is_lost_to_its_people(tmp_path: Path) -> None:
    users = Scripted([], marks(POOL), pool=[POOL])
    vault = opened(tmp_path, users)
    run = vault.reserve(plan_of())
    vault.enroll(run, still)
    vault.enroll(run, still)
    assert served_in(users)[0] == served_in(users)[1]
    assert not (np.abs(vault.noisy_sum(run, "policy", Marked())) > SLACK).any()


class Placed:
    """Served by places."""

    places, episodes, length = 4, 2, 2

    def __call__(self, *_: Any) -> np.ndarray:
        return np.zeros(1)


def test_a_pool_that_changes_between_rounds_is_as_it_was_checked(tmp_path: Path) -> None:
    users = Scripted([], marks(POOL), pool=[POOL])
    vault = opened(tmp_path, users)
    run = vault.reserve(plan_of())
    for pool in ([*POOL, "P1"], [], [POOL, POOL], [POOL[::-1]]):
        users.pool = pool if pool and isinstance(pool[0], list) else [pool]
        vault.enroll(run, still)
        vault.noisy_sum(run, run.plan.parts()[0].name, Marked())
    assert sorted(person for (those,), _ in users.met for person in those) == sorted(POOL)
    users.pool = [[*POOL, "P1"]]
    with pytest.raises(DataError, match="two unit ids"):
        vault.reserve(plan_of(clip_norm=2.0))
    close(vault)


def test_what_a_pool_cannot_have_is_refused(tmp_path: Path) -> None:
    answers = RandomizedResponses(name="a", steps=1, users=4, answers=1, noise_multiplier=1.0, rows_per_unit=LENGTH)
    vault = opened(tmp_path, Scripted([], marks(POOL), pool=[POOL]))
    with pytest.raises(PlanError, match="one place for their answers"):
        vault.reserve(priced(answers))
    with pytest.raises(LedgerError, match="no places"):
        vault.enroll(vault.reserve(plan_of()), Placed())
    close(vault)
    for name, pool, match in (("many", POOL * 1, "larger than the declared"), ("two", POOL, "number of pools")):
        unit = unit_of(20) if name == "many" else unit_of()
        users = Scripted([], marks(pool), pool=[pool] if name == "many" else [pool, pool])
        with pytest.raises(PlanError, match=match):
            opened(tmp_path / name, users, unit=unit).reserve(plan_of(unit, users=4))


def test_twins_in_a_pool_are_refused_and_one_id_is_one_person(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="differ by case"):
        opened(tmp_path, Scripted([], marks(["p1", "P1"]), pool=[["p1", "P1"]])).reserve(plan_of())
    sums = rounds_of(tmp_path / "spelled", ["p1", " p1", "p1 "])
    assert sums.sum() == pytest.approx(1, abs=SLACK)


@dataclass
class Exact(Scripted):
    """People whose ids differ by case alone, on purpose."""

    unit_key: str = "exact"


def test_people_who_differ_by_case_on_purpose_do_not_share_a_cap(tmp_path: Path) -> None:
    pool, sums = ["P1", "p1", "P2", "p2", "P3", "p3"], []
    for name, people in (("whole", pool), ("gone", pool[1:])):
        users = Exact([], marks(pool), pool=[people])
        vault, plan = opened(tmp_path / name, users), plan_of()
        run = vault.reserve(plan)
        for _ in range(ROUNDS):
            vault.enroll(run, still)
            sums.append(vault.noisy_sum(run, "policy", Marked()).sum() * EXPECTED)
        said = vault.release(run, "value", label=LABEL).certificate
        said.verify()
        assert "ids that differ by case" in " ".join(said.lines("assumptions"))
        close(vault)
    moved = np.abs(np.subtract(*np.reshape(sums, (2, ROUNDS))))
    assert np.sort(moved) == pytest.approx([0, 0, 0, 1], abs=SLACK)


# People who come by themselves.


def test_everybody_who_comes_is_served_and_contributes(tmp_path: Path) -> None:
    sums = rounds_of(tmp_path, POOL, arriving=[POOL[:10], [], POOL[10:], []])
    assert sums.sum(axis=1) == pytest.approx([10, 0, 14, 0], abs=14 * SLACK)


def test_who_leaves_a_full_round_lets_nobody_in(tmp_path: Path) -> None:
    whole = rounds_of(tmp_path / "whole", POOL, arriving=[POOL[:9], POOL[9:], [], []])
    gone = rounds_of(tmp_path / "gone", POOL, arriving=[POOL[1:9], POOL[9:], [], []])
    norms = np.linalg.norm(whole - gone, axis=1)
    assert norms == pytest.approx([1, 0, 0, 0], abs=SLACK)


def test_who_stands_behind_the_places_answers_nothing_and_may_come_again(tmp_path: Path) -> None:
    part = RandomizedResponses(name="a", steps=2, users=2, answers=1, noise_multiplier=0.0, rows_per_unit=LENGTH)
    users = Scripted([[["ann", "bob", "cyd"]], [["cyd", "ann"]]], {"ann": [1.0], "bob": [1.0], "cyd": [-1.0]})
    vault = opened(tmp_path, users)
    run = vault.reserve(priced(part))
    vault.enroll(run, still)
    assert vault.randomized(run, "a", Earned())[0, :, 0].tolist() == [1, 1]
    vault.enroll(run, still)
    assert vault.randomized(run, "a", Earned())[0, 0, 0] == -1
    assert served_in(users) == [["ann", "bob", "cyd"], ["cyd", "ann"]]
