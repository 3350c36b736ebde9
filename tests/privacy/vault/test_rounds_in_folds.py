"""People of two folds: some are met to teach and others to judge, nobody for both; the dearer fold is what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from round_cases import POOL, SLACK, Marked, close, marks, opened, still
from user_cases import Scripted, priced, user_sum
from vault_cases import unit_of

from tacit.data import unit_keys
from tacit.errors import LedgerError, PlanError
from tacit.privacy import deals
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.vault import plan as plans
from tacit.serialization import to_json

TEACH, JUDGE = "teach", "judge"


def parts_of(**judging: Any) -> tuple[UserSum, UserSum]:
    """Three rounds of 4 people who teach, and one of 6 who judge."""
    few: dict[str, Any] = {"clip_norm": 1.0, "noise_multiplier": 1.0}
    teach = user_sum(name=TEACH, steps=3, users=4, fold=0, **few)
    return teach, user_sum(**{"name": JUDGE, "steps": 1, "users": 6, "fold": 1, **few, **judging})


def turns(run: Any) -> list[set[str]]:
    """Who is met in which round of 4, 4, 4 and 6 shares, by the public deal."""
    place = deals.choose(unit_keys.names(POOL), run.plan_id, 9, purpose="round")
    ends = np.array([2, 4, 6, 9])
    return [{p for p, at in zip(POOL, place, strict=True) if np.searchsorted(ends, at, "right") == k} for k in range(4)]


def test_rounds_of_either_fold_have_their_share_of_the_people(tmp_path: Path) -> None:
    vault = opened(tmp_path, Scripted([], marks(POOL), pool=[POOL]))
    run = vault.reserve(priced(*parts_of()))
    dealt, found = turns(run), []
    assert sorted(person for those in dealt for person in those) == sorted(POOL)
    for name, users in ((TEACH, 4), (TEACH, 4), (TEACH, 4), (JUDGE, 6)):
        vault.enroll(run, still)
        with pytest.raises(LedgerError, match="no round of which this part was not released"):
            vault.noisy_sum(run, JUDGE if name == TEACH else TEACH, Marked())
        total = vault.noisy_sum(run, name, Marked())[0] * users
        found.append({f"p{i}" for i in np.flatnonzero(total > 1 - SLACK)})
    assert found == dealt
    close(vault)


def test_of_those_who_come_by_themselves_nobody_is_in_both_folds(tmp_path: Path) -> None:
    rounds = [["p0", "p1"], ["p2"], [], ["p1", "p3"]]
    vault = opened(tmp_path, Scripted([[those] for those in rounds], marks(POOL)))
    run = vault.reserve(priced(*parts_of()))
    for _ in range(3):
        vault.enroll(run, still)
        vault.noisy_sum(run, TEACH, Marked())
    vault.enroll(run, still)
    judged = vault.noisy_sum(run, JUDGE, Marked())[0] * 6
    assert np.flatnonzero(judged > 1 - SLACK).tolist() == [3]
    close(vault)


def test_a_deal_without_folds_is_what_it_was(tmp_path: Path) -> None:
    vault = opened(tmp_path, users := Scripted([], marks(POOL), pool=[POOL]))
    run = vault.reserve(priced(user_sum(steps=4, users=6, clip_norm=1.0)))
    place = deals.choose(unit_keys.names(POOL), run.plan_id, 4, purpose="round")
    for k in range(4):
        vault.enroll(run, still)
        vault.noisy_sum(run, "policy", Marked())
        assert set(users.met[-1][0][0]) == {p for p, at in zip(POOL, place, strict=True) if at == k}
    close(vault)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_both_folds_cost_what_the_dearer_one_costs(relation: Any) -> None:
    unit = unit_of(1_000, relation)

    def epsilon(*parts: UserSum) -> float:
        return plans.account(priced(*parts, unit=unit), unit=unit, delta=1e-5).epsilon

    teach, judge = parts_of()
    alone = epsilon(user_sum(clip_norm=1.0))
    assert epsilon(teach, judge) == pytest.approx(alone, rel=1e-9)
    assert epsilon(*parts_of(noise_multiplier=9.0)) == pytest.approx(alone, rel=1e-9)
    assert epsilon(*parts_of(noise_multiplier=0.5)) > 1.9 * alone


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (parts_of()[:1], "disagree on who is enrolled"),
        ((parts_of()[0], user_sum(name=JUDGE, users=4, clip_norm=1.0)), "disagree on who is enrolled"),
        (parts_of(rows_per_unit=2), "disagree on who is enrolled"),
        (parts_of(users=90), "102 contributions are more than the population can fill"),
    ],
)
def test_plans_that_do_not_fit_are_refused(parts: Any, message: str, tmp_path: Path) -> None:
    vault = opened(tmp_path, Scripted([], marks(POOL), pool=[POOL]))
    with pytest.raises(PlanError, match=message):
        vault.reserve(priced(*parts))
    close(vault)


def test_a_fold_is_stated_where_there_is_one() -> None:
    assert "fold" not in to_json(user_sum())
    assert to_json(parts_of()[1])["fold"] == 1
    assert "over all author(s) of fold 1 of two, which share nobody, that are met for it" in (
        parts_of()[1].describe(unit_of(100)).replace(unit_of(100).noun, "author")
    )
    with pytest.raises(PlanError, match="None, or 0 or 1 with one participation"):
        user_sum(fold=1, participations=2)
