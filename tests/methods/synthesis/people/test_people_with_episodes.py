"""People of several episodes that terminate or are cut: what is drawn ends, pays and acts as the records do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.synthesis.people.test_whole_people import padded

from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import Space, space_of
from tacit.methods.synthesis.people import PeoplePlan, fit
from tacit.methods.synthesis.people.plan import HISTOGRAMS, REGRESSION, TABLES
from tacit.methods.synthesis.people.sums import (
    NumberShares,
    VisitMoments,
    VisitTables,
    read_densities,
    solve_regressions,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

NUMBERS, HORIZON, PEOPLE = ("a", "b", "c", "d"), 6, 2_000
UNIT = Unit("person", "add_or_remove", PEOPLE)
SPEC = PublicSpec(
    space_of(*(Column(name, low=-4, high=4, step=1) for name in NUMBERS)),
    space_of(Column("move", "category", labels=("left", "right", "wait"))),
    space_of(Column("reward", low=-6, high=6)),
    "declared",
)


def columns(people: int, seed: int, *, copies: bool) -> dict[str, Any]:
    """Four numbers that wander; by the sign of the last one people go left or right, and 1 in 5 waits.

    Above 1.5 in the first number an episode terminates, which pays 5 to who goes right, and -5 to others. It is cut
    after HORIZON steps.
    """
    rng, rows = np.random.default_rng(seed), list[np.ndarray]()
    for person in range(people):
        for episode in range(1 + person % 3):
            now = rng.uniform(-1.5, 1.5, 4)
            for step in range(HORIZON):
                move = 2 if rng.random() < 0.2 else int(now[3] > 0)
                over = now[0] > 1.5
                after = np.clip(0.8 * now + rng.normal(0, 0.8, 4), -4, 4)
                cut = step == HORIZON - 1 and not over
                reward = (5 if move == 1 else -5) if over else -0.1 * (move == 2)
                rows.append(np.array([person, 3 * person + episode, move, reward, over, cut, *now, *after]))
                now = after
                if over or cut:
                    break
    table = np.array(rows)
    ends = (table[:, 4] + table[:, 5]).astype(bool)
    return {
        "observations": table[:, 6:10],
        "next_observations": np.where((ends & copies)[:, None], table[:, 6:10], table[:, 10:]),
        "actions": table[:, 2].astype(int),
        "rewards": table[:, 3],
        "terminations": table[:, 4].astype(bool),
        "truncations": table[:, 5].astype(bool),
        "unit_ids": table[:, 0].astype(int),
        "episode_ids": table[:, 1].astype(int),
    }


@pytest.fixture(scope="module", params=[False, True], ids=["next", "copied"])
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any]:
    """Records, and people drawn with hardly any noise."""
    real = columns(PEOPLE, 0, copies=request.param)
    data = Trajectories.from_arrays(**real, spec=SPEC, simulated=True, copied_ends=request.param)
    ledger = Ledger(tmp_path_factory.mktemp("people") / "ledger", UNIT, epsilon=400, delta=1e-5, composition=SUM)
    plan = PeoplePlan(spec=SPEC, most=32).calibrate(unit=UNIT, epsilon=399, delta=1e-5)
    return real, fit(plan, Vault(data, ledger)).value.sample(PEOPLE, seed=1).columns


def test_as_many_episodes_terminate_and_are_cut(drawn: tuple[dict[str, Any], Any]) -> None:
    real, people = drawn
    for name in ("terminations", "truncations"):
        assert np.mean(people[name]) == pytest.approx(np.mean(real[name]), abs=0.02)
    assert len(people["rewards"]) == pytest.approx(len(real["rewards"]), rel=0.05)


@pytest.mark.parametrize("drawn", [False], indirect=True, ids=["next"])  # a copied end is told by what is done then
def test_episodes_are_cut_when_the_records_cut_them(drawn: tuple[dict[str, Any], Any]) -> None:
    ends = np.flatnonzero(drawn[1]["terminations"] | drawn[1]["truncations"])
    assert np.mean(np.diff(ends, prepend=-1) > HORIZON) < 0.05


def test_large_rewards_are_paid_where_episodes_terminate(drawn: tuple[dict[str, Any], Any]) -> None:
    real, people = drawn
    large = np.abs(people["rewards"]) > 3
    assert large.mean() == pytest.approx(np.mean(np.abs(real["rewards"]) > 3), abs=0.015)
    assert np.mean(people["terminations"][large]) > 0.98
    right = people["actions"][large] == 1
    assert np.mean((people["rewards"][large] > 0) == right) > 0.95


def test_actions_follow_the_last_number_too(drawn: tuple[dict[str, Any], Any]) -> None:
    _, people = drawn
    moves, last = np.asarray(people["actions"]), np.asarray(people["observations"])[:, 3]
    clear = (np.abs(last) > 0.7) & (moves < 2)
    assert np.mean(moves[clear] == (last[clear] > 0)) > 0.9
    assert np.mean(moves == 2) == pytest.approx(0.2, abs=0.03)


def test_a_dose_follows_the_last_number_too(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, action=space_of(Column("dose", low=0, high=4)))
    real = columns(PEOPLE, 2, copies=False)
    noise = np.random.default_rng(3).normal(0, 0.3, len(real["rewards"]))
    real["actions"] = np.clip(2 + 0.5 * real["observations"][:, 3] + noise, 0, 4)[:, None]
    data = Trajectories.from_arrays(**real, spec=spec, simulated=True)
    ledger = Ledger(tmp_path / "ledger", UNIT, epsilon=400, delta=1e-5, composition=SUM)
    plan = PeoplePlan(spec=spec, most=32).calibrate(unit=UNIT, epsilon=399, delta=1e-5)
    people = fit(plan, Vault(data, ledger)).value.sample(PEOPLE, seed=1).columns
    slopes = [np.polyfit(one["observations"][:, 3], one["actions"][:, 0], 1) for one in (real, people)]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=0.06)


@pytest.mark.parametrize("action", [SPEC.action, space_of(Column("dose", low=0, high=4))], ids=["moves", "doses"])
def test_what_a_person_adds_is_bounded_and_depends_on_nobody_else(action: Space) -> None:
    spec = dataclasses.replace(SPEC, action=action)
    plan, flat = PeoplePlan(spec=spec, most=8), columns(40, 5, copies=False)
    flat["actions"] = flat["actions"] if action is SPEC.action else flat["actions"][:, None] * 1.5
    rows = padded(flat, 8)
    ends = rows["terminations"] | rows["truncations"]
    rows["starts"] = rows["mask"] & np.concatenate([np.ones((40, 1), bool), ends[:, :-1]], axis=1)
    few = {name: column[:17] for name, column in rows.items()}
    scheme = read_densities(plan.scheme, NumberShares(plan.scheme)(rows, None).sum(axis=0), 0.0)[0]
    scheme = solve_regressions(scheme, VisitMoments(scheme)(rows, None).sum(axis=0), 0.0).with_nodes(40.0, 5.0, 0.1)
    bounds = {part.name: part.clip_norm for part in plan.parts()}
    assert bounds[REGRESSION] == pytest.approx(5.49**0.5)  # four numbers that change, what is done, and less the reward
    for name, work in ((HISTOGRAMS, NumberShares), (REGRESSION, VisitMoments), (TABLES, VisitTables)):
        vectors = work(scheme)(rows, None)
        assert np.linalg.norm(vectors, axis=1).max() <= bounds[name] * (1 + 1e-9)
        np.testing.assert_array_equal(work(scheme)(few, None), vectors[:17])
