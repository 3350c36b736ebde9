"""UCB-VI: counts by hand, planning on a known model, learning through the door, and its certificate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.envs.rollouts import TimedDomain
from tacit.envs.serving import SimulatedUsers
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.policy_gradient.ucb_vi import EpisodeVisits, TabularPolicies, UcbVi, fit, plan_policy
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit
from tacit_worlds import river_swim

RIVER = river_swim.RiverSwim()
PLAN = UcbVi(states=6, actions=2, horizon=20, rounds=120, bonus=1.0)


@contextlib.contextmanager
def met(folder: Path, plan: UcbVi, replicates: int = 2, river: TimedDomain | None = None) -> Iterator[UserVault]:
    """A vault of swimmers."""
    domain = river or TimedDomain(RIVER, 6, 20)
    people = SimulatedUsers(domain, domain.spec(river_swim.spec()), horizon=20, replicates=replicates, seed=4)
    (folder / "ledgers").mkdir()
    (folder / "away").mkdir()
    with contextlib.ExitStack() as opened:
        ledgers = [
            opened.enter_context(
                Ledger(folder / "ledgers" / f"{r}.ledger", plan.unit, epsilon=1e6, delta=1e-4, composition=SUM)
            )
            for r in range(replicates)
        ]
        yield UserVault(
            people,
            ledgers,
            opened.enter_context(Register(folder / "ledgers" / "register", key=folder / "away" / "key")),
        )


def known(visits: float) -> np.ndarray:
    """Counters after so many visits of every pair, without any chance or noise."""
    moves, paid = RIVER.transition_model()
    return np.concatenate([(visits * moves).ravel(), (visits * paid).ravel()])[None]


def value(table: np.ndarray) -> float:
    return float(river_swim.policy_values(np.eye(2)[table], RIVER)[0, 0])


def test_counts_by_hand() -> None:
    """Two people of three steps; the second one's last step is no row."""
    rows = {
        "observations": np.array([[0, 3 + 1, 6 + 1], [2, 3 + 0, 6 + 0]]),  # S = 3
        "actions": np.array([[1, 0, 0], [1, 1, 1]]),
        "rewards": np.array([[0.5, 0.0, 2.0], [1.0, 1.0, 1.0]], np.float32),
        "next_observations": np.array([[3 + 1, 6 + 1, 9 + 0], [3 + 0, 6 + 0, 9 + 2]]),
        "mask": np.array([[True, True, True], [True, True, False]]),
    }
    found = EpisodeVisits(3, 2, 2.0)(rows, None)
    expected = np.zeros((2, 3, 2, 3))
    expected[0, 0, 1, 1] = expected[0, 1, 0, 1] = expected[0, 1, 0, 0] = 1
    expected[1, 2, 1, 0] = expected[1, 0, 1, 0] = 1
    paid = np.zeros((2, 3, 2))
    paid[0, 0, 1], paid[0, 1, 0] = 0.25, 1.0
    paid[1, 2, 1], paid[1, 0, 1] = 0.5, 0.5
    np.testing.assert_array_equal(found, np.concatenate([expected.reshape(2, 18), paid.reshape(2, 6)], axis=1))


def test_nobodys_counts_exceed_the_default_clip() -> None:
    """Twenty steps in one cell that all pay the most: sqrt(20^2 + 20^2)."""
    rows = {"observations": np.full((1, 20), 5), "actions": np.ones((1, 20), np.int64)}
    rows |= {"next_observations": np.full((1, 20), 5), "mask": np.ones((1, 20), bool)}
    found = EpisodeVisits(6, 2, 1.0)(rows | {"rewards": np.ones((1, 20), np.float32)}, None)
    (part,) = PLAN.parts()
    assert np.linalg.norm(found) == pytest.approx(part.clip_norm)


def test_a_known_model_gives_the_best_policy() -> None:
    assert value(plan_policy(PLAN, known(1e6), 0.0)[0]) == pytest.approx(3.39735, abs=1e-4)


def test_optimism_tries_what_is_unknown_and_noise_below_zero_counts_as_nothing() -> None:
    counters = known(1e3)
    counters[0, :72].reshape(6, 2, 6)[2, 0] = -50.0  # swimming left from the third place was never seen
    assert plan_policy(PLAN, counters, 5.0)[0, 0, 2] == 0
    assert plan_policy(PLAN, known(1e3), 5.0)[0, 0, 2] == 1


def test_a_table_acts_by_replicate_step_and_place() -> None:
    table = np.random.default_rng(0).integers(0, 2, (2, 20, 6))
    seen, replicate = np.array([0, 3 * 6 + 5, 19 * 6 + 2, 20 * 6 + 2]), np.array([0, 1, 1, 0])
    found = TabularPolicies(table)(seen, replicate, np.random.default_rng(0))
    np.testing.assert_array_equal(found, [table[0, 0, 0], table[1, 3, 5], table[1, 19, 2], table[0, 19, 2]])


def test_without_noise_it_learns_to_swim_right(tmp_path: Path) -> None:
    plan = replace(PLAN, noise_multiplier=0.0).account(unit=Unit("person", "add_or_remove", 1_000), delta=1e-5)
    with met(tmp_path, plan) as vault:
        release = fit(plan, vault)
        assert release.certificate.epsilon == np.inf
        with pytest.raises(PlanExhausted):
            fit(plan, vault)
    found = release.value
    assert [value(table) > 3.2 for table in found.table] == [True, True]
    counts = found.counters[:, :72].reshape(2, 6, 2, 6)
    assert (counts == np.round(counts)).all()
    assert counts.sum(axis=(1, 2, 3)).tolist() == [2_400, 2_400]
    assert found.served.shape == (40, 2, 20, 6)


@pytest.mark.parametrize("correlation", ["toeplitz", "tree"])
def test_the_counters_carry_the_noise_of_the_plan(tmp_path: Path, correlation: str) -> None:
    """Entries that nobody can reach (from place 0 to place 5) hold noise alone; the total is what one release has."""
    plan = replace(PLAN, rounds=16, correlation=correlation).calibrate(  # type: ignore[arg-type]
        unit=Unit("person", "add_or_remove", 1_000), epsilon=2.0, delta=1e-5
    )
    with met(tmp_path, plan, replicates=12) as vault:
        release = fit(plan, vault)
    assert release.certificate.epsilon == pytest.approx(2.0, rel=1e-3)
    counts = release.value.counters[:, :72].reshape(12, 6, 2, 6)
    moves, _ = RIVER.transition_model()
    assert plan.noise_multiplier is not None
    scale = plan.noise_multiplier * np.sqrt(2) * 20
    alone = counts[:, moves == 0] / scale
    roots = [math.comb(2 * k, k) / 4**k for k in range(16)]
    expected = np.square(roots).sum() if correlation == "toeplitz" else math.sqrt(5)  # a tree of five levels: its root
    assert alone.std() == pytest.approx(expected, rel=0.12)


def test_people_of_another_kind_are_refused(tmp_path: Path) -> None:
    plan = PLAN.calibrate(unit=Unit("person", "add_or_remove", 1_000), epsilon=1.0, delta=1e-5)
    with (
        met(tmp_path, plan, river=TimedDomain(RIVER, 6, 19)) as vault,
        pytest.raises(PlanError, match="126 observations"),
    ):
        fit(plan, vault)


@pytest.mark.parametrize("wrong", [{"states": 0}, {"rounds": 1.5}, {"most": 0.0}, {"bonus": -1.0}, {"clip_norm": 0.0}])
def test_what_is_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match=f"{next(iter(wrong))} is"):
        replace(PLAN, **wrong)  # type: ignore[arg-type]
