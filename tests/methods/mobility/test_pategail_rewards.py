"""What a device answers: bounds, the free second moment, locality bit for bit, rows of any kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit.data.mobility import days
from tacit.data.mobility.days import Days, spec_of
from tacit.data.mobility.grids import RegularGrid
from tacit.errors import PlanError
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS, Critic, Embedding, cell_indices
from tacit.methods.mobility.pategail.rewards import (
    CHUNK,
    Calibration,
    LinearCritic,
    LocalCritics,
    append_square,
    moments,
    pair_codes,
    person_codes,
)
from tacit.methods.mobility.simulator import StateLayout
from tacit.privacy.vault.invented import invented_rows

GRID = RegularGrid(0.0, 0.0, 0.9, 0.9, 0.1)
EMBEDDING = Embedding()
PEOPLE = 2 * CHUNK + 3  # three chunks, the last one small
KINDS = ["samples", "table", "gradient"]


def rows(people: int = PEOPLE, seed: int = 0) -> dict[str, np.ndarray]:
    """Up to three days a person, the first person none."""
    rng = np.random.default_rng(seed)
    length = 3 * DECISIONS
    found = {name: np.zeros((people, length), int) for name in ("observations", "next_observations")}
    found |= {name: np.zeros((people, length), bool) for name in ("starts", "mask")}
    for u in range(1, people):
        for day in range(1 + u % 3):
            cells = np.repeat(rng.integers(0, 5, 12), 4)
            at = slice(day * DECISIONS, (day + 1) * DECISIONS)
            found["observations"][u, at], found["next_observations"][u, at] = cells[:-1], cells[1:]
            found["mask"][u, at], found["starts"][u, day * DECISIONS] = True, True
    return found


def public(seed: int = 9, width: int = 7) -> dict[str, np.ndarray]:
    """Twenty public days, ten pairs that are asked, and slopes."""
    rng = np.random.default_rng(seed)
    codes, at = np.unique(pair_codes(rng.integers(0, 5, (20, days.SLOTS)), EMBEDDING), return_inverse=True)
    query = np.concatenate([rng.choice(len(codes), 8, replace=False), [-1, -1]])
    return {
        "codes": codes,
        "rows": rng.permutation(at.ravel()),
        "query": query,
        "weights": np.ones(10),
        "slopes": rng.normal(size=(len(codes), width)),
    }


def work(kind: Any, **fields: Any) -> LocalCritics:
    return LocalCritics(critic=Critic(hidden=(8, 8), steps=3, batch=8), embedding=EMBEDDING, kind=kind, **fields)


def asked(one: LocalCritics | LinearCritic) -> dict[str, np.ndarray]:
    found = public()
    if isinstance(one, LinearCritic) or one.kind == "table":
        found["weights"] = np.ones(one.layout.size * ACTIONS)
    return found


def rounds(one: LocalCritics | LinearCritic, given_rows: Any, seeds: np.ndarray) -> np.ndarray:
    """The answers of three rounds, one after another, and every array that is kept."""
    own, answers = one.begin(given_rows, seeds), []
    for k in range(3):
        answer, own = one(own, asked(one), seeds + np.uint64(100 * (k + 1)))
        answers.append(answer)
    kept = [np.asarray(own[name], np.float64).reshape(len(seeds), -1) for name in sorted(own)]
    return np.concatenate([*answers, *kept], axis=1)


@pytest.mark.parametrize(
    "one",
    [*(work(kind) for kind in KINDS), work("samples", variance=True), LinearCritic(embedding=EMBEDDING)],
    ids=[*KINDS, "variance", "linear"],
)
def test_a_person_s_answers_are_hers_bit_for_bit(one: LocalCritics | LinearCritic) -> None:
    seeds, everybody = np.arange(PEOPLE, dtype=np.uint64), rows()
    together = rounds(one, everybody, seeds)
    others = rows(seed=1)
    for u in (1, CHUNK, PEOPLE - 1):
        alone = {name: column[u : u + 1] for name, column in everybody.items()}
        assert np.array_equal(rounds(one, alone, seeds[u : u + 1])[0], together[u])
        mixed = {name: column.copy() for name, column in others.items()}
        for name in mixed:
            mixed[name][u] = everybody[name][u]
        assert np.array_equal(rounds(one, mixed, seeds)[u], together[u])
    assert not np.array_equal(together[1], together[4])


@pytest.mark.parametrize("kind", [*KINDS, "linear"])
def test_who_has_no_day_answers_zero(kind: str) -> None:
    one = LinearCritic(embedding=EMBEDDING) if kind == "linear" else work(kind)
    seeds = np.arange(PEOPLE, dtype=np.uint64)
    answer, _ = one(one.begin(rows(), seeds), asked(one), seeds)
    assert not answer[0].any()
    assert answer[1:].any(axis=1).all()
    assert np.isfinite(answer).all()


@pytest.mark.parametrize("kind", KINDS)
def test_any_rows_can_be_answered(kind: Any) -> None:
    decoys = invented_rows(spec_of(GRID), 6, 100, seed=0, rows_of="first")
    one, seeds = work(kind), np.arange(6, dtype=np.uint64)
    answer, _ = one(one.begin(decoys, seeds), asked(one), seeds)
    assert answer.shape == (6, one.width(asked(one)))
    assert np.isfinite(answer).all()


def test_own_pairs_are_those_of_the_labels() -> None:
    cells = np.random.default_rng(0).integers(0, 4, (5, days.SLOTS))
    people = Days(cells, np.array([0, 0, 1, 1, 1]), GRID)
    columns = people.trajectories(simulated=True)
    found, count = person_codes(stacked(columns, 2, 3), EMBEDDING)
    assert count.tolist() == [2 * DECISIONS, 3 * DECISIONS]
    first = found[0, : count[0]].reshape(2, DECISIONS)
    np.testing.assert_array_equal(first % ACTIONS, days.actions(cells[:2]))
    slot, places, stay, home = EMBEDDING.parts(first // ACTIONS)
    np.testing.assert_array_equal(slot, np.tile(np.arange(DECISIONS), (2, 1)))
    np.testing.assert_array_equal(places, days.distinct_counts(cells[:2])[:, :-1])
    np.testing.assert_array_equal(stay, np.minimum(days.stay_lengths(cells[:2])[:, :-1], EMBEDDING.longest))
    np.testing.assert_array_equal(home, days.symbols(cells[:2])[:, :-1] == 0)


def stacked(records: Any, people: int, most: int) -> dict[str, np.ndarray]:
    """Rows of simulated records as a door gives them."""
    from tacit.privacy.noise.secret import SecretNoise
    from tacit.privacy.vault.records import Reader

    return Reader(records, SecretNoise()).rows(np.arange(people), most * DECISIONS, "first")


@settings(max_examples=60, deadline=None)
@given(
    values=arrays.arrays(np.float64, (3, 12), elements=st.floats(-1e6, 1e6)),
    counts=arrays.arrays(np.int64, 12, elements=st.integers(0, 9)),
    kappa=st.floats(0.01, 10.0),
    squash=st.sampled_from(["clip", "tanh"]),
)
def test_calibrated_rewards_have_a_range(values: Any, counts: Any, kappa: float, squash: Any) -> None:
    found = Calibration(kappa=kappa, squash=squash)(values, counts)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 0.5
    shifted = Calibration(kappa=kappa, squash=squash)(values + 3.0, counts)
    if counts.sum():
        np.testing.assert_allclose(found, shifted, atol=1e-6 * (1 + np.abs(values).max()) * kappa / 0.05)


def test_calibration_forgets_the_scale_down_to_the_floor() -> None:
    values, counts = np.array([[1.0, 2.0, 4.0]]), np.ones(3)
    big, small = Calibration()(1000 * values, counts), Calibration()(values, counts)
    np.testing.assert_allclose(big, small)
    assert np.abs(Calibration()(1e-6 * values, counts)).max() < 1e-4


@settings(max_examples=100, deadline=None)
@given(
    rewards=arrays.arrays(np.float64, (2, 6), elements=st.floats(-0.5, 0.5)),
    raw=arrays.arrays(np.float64, 6, elements=st.floats(0.1, 1.0)),
)
def test_the_second_moment_is_free(rewards: Any, raw: Any) -> None:
    """The norm of weighted (r, 2 (r^2 - 1/4)) is at most sqrt(B) / 2, and two people's are at most twice that apart."""
    weights = raw * np.sqrt(6) / np.linalg.norm(raw)
    answers = append_square(rewards) * np.tile(weights, 2)
    assert np.linalg.norm(answers, axis=1).max() <= np.sqrt(6) / 2 + 1e-12
    assert np.linalg.norm(answers[0] - answers[1]) <= np.sqrt(6) + 1e-12


def test_moments_are_the_mean_and_the_variance() -> None:
    rewards = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 4))
    mean, variance = moments(append_square(rewards).mean(axis=0))
    np.testing.assert_allclose(mean, rewards.mean(axis=0))
    np.testing.assert_allclose(variance, rewards.var(axis=0))


def test_a_table_is_the_mean_of_samples() -> None:
    layout, seeds = StateLayout(), np.arange(PEOPLE, dtype=np.uint64)
    table, samples = work("table", layout=layout), work("samples")
    question = asked(samples)
    question["query"], question["weights"] = np.arange(len(question["codes"])), np.ones(len(question["codes"]))
    each, _ = samples(samples.begin(rows(), seeds), question, seeds)
    mean, _ = table(table.begin(rows(), seeds), asked(table), seeds)
    cell = cell_indices(layout, EMBEDDING, question["codes"])
    counts = np.bincount(question["rows"], minlength=len(cell))
    for k in np.unique(cell):
        np.testing.assert_allclose(mean[:, k], each[:, cell == k] @ counts[cell == k] / counts[cell == k].sum())
    assert not mean[:, np.setdiff1d(np.arange(mean.shape[1]), cell)].any()


def test_a_gradient_is_slopes_times_rewards() -> None:
    seeds, samples, gradient = np.arange(PEOPLE, dtype=np.uint64), work("samples"), work("gradient")
    question = asked(samples)
    question["query"], question["weights"] = np.arange(len(question["codes"])), np.ones(len(question["codes"]))
    each, _ = samples(samples.begin(rows(), seeds), question, seeds)
    found, _ = gradient(gradient.begin(rows(), seeds), question, seeds)
    np.testing.assert_allclose(found, each @ question["slopes"], atol=1e-9)


def test_a_linear_critic_is_the_difference_of_shares() -> None:
    one, seeds, everybody = LinearCritic(embedding=EMBEDDING), np.arange(PEOPLE, dtype=np.uint64), rows()
    answer, _ = one(one.begin(everybody, seeds), asked(one), seeds)
    codes, count = person_codes(everybody, EMBEDDING)
    made = asked(one)["codes"][asked(one)["rows"]]
    size = one.layout.size * ACTIONS
    u = 5
    mine = np.bincount(cell_indices(one.layout, EMBEDDING, codes[u, : count[u]]), minlength=size) / count[u]
    np.testing.assert_allclose(
        answer[u], mine - np.bincount(cell_indices(one.layout, EMBEDDING, made), minlength=size) / len(made)
    )


def test_critics_learn_what_their_people_do() -> None:
    """A person who never moves: her critic comes to prefer staying at home."""
    still = {name: column[:1].copy() for name, column in rows(2).items()}
    still["observations"][:], still["next_observations"][:] = 3, 3
    still["mask"][:] = True
    still["starts"][0, ::DECISIONS] = True
    one = replace(work("samples"), critic=Critic(hidden=(16, 16), steps=60, batch=32, rate=0.01))
    question, seeds = asked(one), np.arange(1, dtype=np.uint64)
    question["query"], question["weights"] = np.arange(len(question["codes"])), np.ones(len(question["codes"]))
    answer, _ = one(one.begin(still, seeds), question, seeds)
    stay = question["codes"] % ACTIONS == days.STAY
    assert answer[0, stay].mean() > answer[0, ~stay].mean() + 0.2


def test_silence_is_zero_and_keeps_everything() -> None:
    one, seeds = work("samples", zero_contribution=True), np.arange(4, dtype=np.uint64)
    own = one.begin(rows(4), seeds)
    answer, after = one(own, asked(one), seeds)
    assert not answer.any()
    assert all(np.array_equal(own[name], after[name]) for name in own)


def test_a_gradient_has_no_variance() -> None:
    with pytest.raises(PlanError, match="variance"):
        work("gradient", variance=True)
