"""What of a visit depends on what: two numbers that move together, and a reward that a late column decides."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.synthesis.people.test_whole_people import padded

from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.evaluation.sequences import Sequences
from tacit.methods.synthesis.people import PeoplePlan, fit
from tacit.methods.synthesis.people.scheme import Node, Parent, RewardModel, Scheme, default_nodes
from tacit.methods.synthesis.people.sums import (
    NumberShares,
    VisitMoments,
    read_densities,
    solve_regressions,
    state_of,
    worth_of,
)
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

PEOPLE, VISITS = 2_000, 5
UNIT = Unit("patient", "add_or_remove", PEOPLE)
SPEC = PublicSpec(
    space_of(
        Column("systolic", low=60, high=260, step=10),
        Column("diastolic", low=30, high=160, step=6),
        Column("marker", low=-3, high=3, step=1),
    ),
    space_of(Column("drug", "category", labels=("none", "one", "two"))),
    space_of(Column("benefit", low=-2, high=2)),
    "declared",
    terminals=False,
)


def columns(people: int, seed: int) -> dict[str, Any]:
    """Diastolic is .6 of systolic; drug `one` helps where the last column is above 0, and harms where it is below."""
    rng = np.random.default_rng(seed)
    systolic = np.cumsum(rng.normal(0, 8, (people, VISITS)), axis=1) + rng.normal(145, 12, (people, 1))
    diastolic, marker = 0.6 * systolic + rng.normal(0, 2, systolic.shape), rng.normal(0, 1, systolic.shape)
    drug = rng.integers(0, 3, systolic.shape)
    benefit = np.where(drug == 1, np.sign(marker), 0) + rng.normal(0, 0.2, systolic.shape)
    numbers = np.stack([systolic, diastolic, marker], axis=2).reshape(-1, 3)
    numbers = np.clip(numbers, (60, 30, -3), (260, 160, 3))
    last = np.tile(np.arange(VISITS) == VISITS - 1, people)
    owners = np.repeat(np.arange(people), VISITS)
    return {
        "observations": numbers,
        "next_observations": np.where(last[:, None], numbers, np.roll(numbers, -1, axis=0)),
        "actions": drug.ravel(),
        "rewards": np.clip(benefit.ravel(), -2, 2),
        "terminations": np.zeros(len(owners), bool),
        "truncations": last,
        "unit_ids": owners,
        "episode_ids": owners,
    }


def drawn(folder: Path, epsilon: float, spec: PublicSpec = SPEC) -> Trajectories:
    data = Trajectories.from_arrays(
        **columns(PEOPLE, 0), spec=spec, unit_name="patient", simulated=True, copied_ends=True
    )
    ledger = Ledger(folder / "ledger", UNIT, epsilon=2 * epsilon, delta=1e-5, composition=SUM)
    plan = PeoplePlan(spec=spec, most=8).calibrate(unit=UNIT, epsilon=epsilon, delta=1e-5)
    return fit(plan, Vault(data, ledger)).value.sample(PEOPLE, seed=1)


def exact_scheme(rows: dict[str, Any], spec: PublicSpec = SPEC) -> Scheme:
    """Densities and regressions without noise."""
    scheme = dataclasses.replace(PeoplePlan(spec=spec, most=8).scheme, copied_ends=True)
    scheme, _ = read_densities(scheme, NumberShares(scheme)(rows, None).sum(axis=0), 0.0)
    return solve_regressions(scheme, VisitMoments(scheme)(rows, None).sum(axis=0), 0.0)


def test_two_numbers_begin_and_move_together(tmp_path: Path) -> None:
    people = drawn(tmp_path, 50.0)
    numbers, owners = np.asarray(people.columns["observations"]), Sequences.of(people).owners
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    assert np.corrcoef(numbers[first, 0], numbers[first, 1])[0, 1] > 0.75  # in the records .98
    moves = (numbers[1:] - numbers[:-1])[owners[1:] == owners[:-1]]
    assert np.corrcoef(moves[:, 0], moves[:, 1])[0, 1] > 0.6  # in the records .86


def test_a_reward_follows_what_an_action_and_the_last_column_do_together(tmp_path: Path) -> None:
    people = drawn(tmp_path, 20.0)
    marker, drug = np.asarray(people.columns["observations"])[:, 2], np.asarray(people.columns["actions"])
    reward = np.asarray(people.columns["rewards"])
    means = [reward[(drug == 1) & (np.sign(marker) == sign)].mean() for sign in (-1, 1)]
    assert means[0] < -0.5  # in the records -1 and 1
    assert means[1] > 0.5
    assert abs(reward[drug != 1].mean()) < 0.1


def test_the_expected_reward_is_that_of_least_squares() -> None:
    rows = padded(columns(200, 3), 8)
    scheme = exact_scheme(rows)
    visits = scheme.visits_of(rows)
    worth = state_of(scheme, visits)[Parent("worth", 0)] * 2  # in halves of -2 .. 2
    high = visits.seen[2] > 1
    given = visits.done[0] == 1
    assert worth[given & high].mean() > 0.7
    assert worth[given & (visits.seen[2] < -1)].mean() < -0.7
    assert np.abs(worth[~given]).mean() < 0.2
    assert scheme.worth is not None
    assert scheme.worth.mean * 2 == pytest.approx(worth.mean(), abs=0.01)  # of units that weigh alike
    assert scheme.worth.spread * 2 == pytest.approx(worth.std(), rel=0.1)


def test_expected_rewards_are_cut_as_a_normal_is() -> None:
    np.testing.assert_allclose(RewardModel((), 0.1, 0.2).quantiles(4), [-0.034898, 0.1, 0.234898], atol=1e-6)


def test_bins_are_halved_before_what_a_number_depends_on_is_forgotten() -> None:
    scheme = exact_scheme(padded(columns(200, 3), 8))
    reward = next(node for node in default_nodes(scheme) if node.role == "reward")
    assert reward.parents == (Parent("worth", 0, 2), Parent("now", 0), Parent("action", 0))
    nodes = {
        node.role: node
        for node in scheme.with_nodes(1_000, 5.0, 10.0).nodes
        if node.index == 1 or node.role == "reward"
    }
    assert nodes["reward"] == Node("reward", 0, (Parent("worth", 0),), coarse=True)
    assert nodes["first"] == Node("first", 1, (Parent("now", 0),), coarse=True)
    assert scheme.size(nodes["first"]) * 2 == scheme.size(dataclasses.replace(nodes["first"], coarse=None))


def test_nothing_is_expected_of_a_reward_that_is_computed() -> None:
    pytest.importorskip("duckdb")
    rows = padded(columns(50, 3), 8)
    scheme = exact_scheme(rows, dataclasses.replace(SPEC, reward_expression="if(drug = 'one', 1, 0)"))
    assert scheme.worth is None
    assert worth_of(scheme, {}) == {}


def test_what_follows_what_is_said_in_words() -> None:
    scheme = exact_scheme(padded(columns(200, 3), 8)).with_nodes(1_000, 5.0, 10.0)
    assert scheme.dependence() == (
        ("number of visits", "nothing"),
        ("first systolic", "nothing"),
        ("first diastolic", "systolic"),
        ("first marker", "diastolic"),
        ("systolic", "the last drug, all numbers known by then"),
        ("diastolic", "the last drug, all numbers known by then"),
        ("marker", "the last drug, all numbers known by then"),
        ("drug", "the likeliest drug by all columns, systolic"),
        ("reward", "what all columns and the action let expect"),
        ("cut of an episode", "systolic, drug"),
    )
