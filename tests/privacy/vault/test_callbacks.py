"""What callbacks may hold and where they are tried, and that nothing about the records is told when they misbehave."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from vault_cases import SPEC, GivenParts, Regression, Silent, open_vault, priced

from tacit.data.columns import Column
from tacit.data.spec import Discrete, space_of
from tacit.errors import MechanismError
from tacit.methods.off_policy_evaluation.scores import score_blocks
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.smooth_sensitivity import Visits
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.invented import edge_rows, invented_rows
from tacit.privacy.vault.isolation import foreign_names
from tacit.privacy.vault.removal import Harness, VectorViews
from tacit.validation import require_valid

RARE = np.float32(9.8765)


@dataclass(frozen=True)
class Logarithm:
    """Warns where a reward is the rare one."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.log(np.abs(rows["rewards"] - RARE) + 0.0)


@pytest.mark.parametrize("strict", [False, True])
def test_a_warning_behind_the_door_is_neither_shown_nor_raised(tmp_path: Path, strict: bool) -> None:
    vault = open_vault(tmp_path, [[1.0], [float(RARE)]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault._checks.try_contribution(run.sum_part("sum"), Logarithm(), None)
    with warnings.catch_warnings(record=True) as said, np.errstate(all="raise" if strict else "warn"):
        warnings.simplefilter("error" if strict else "always")
        value = vault.noisy_sum(run, "sum", Logarithm())
    assert not said
    assert value[0, 0] * 100 == pytest.approx(1.0, abs=0.01)  # the other unit's, clipped; minus infinity counts as 0


@dataclass(frozen=True)
class Telling:
    """Passes a record to a check of tacit's, which repeats it."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        require_valid("reward", rows["rewards"].max(), bool((rows["rewards"] != RARE).all()), "another one")
        return rows["rewards"]


def test_an_error_of_tacits_own_is_not_heard_either(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [float(RARE)]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    assert vault.noisy_sum(run, "sum", Telling())[0, 0] * 100 == pytest.approx(1.0, abs=0.01)


@dataclass(frozen=True)
class Table:
    """Looks states up in a table that is one too short."""

    def __call__(self, rows: Mapping[str, np.ndarray], _: object) -> np.ndarray:
        return np.zeros((499, 1))[rows["observations"][:, 0]]


def table(rows: Mapping[str, np.ndarray], units: np.ndarray) -> VectorViews:
    return VectorViews([Table()(rows, units)])


def test_a_callback_that_fails_at_the_edge_of_the_bounds_fails_on_decoys() -> None:
    spec = dataclasses.replace(SPEC, observation=Discrete(500), difference=None)
    with pytest.raises(IndexError):
        Harness(table, spec, 1, "drawn", 1, where="sum").try_at_length()
    Harness(table, dataclasses.replace(spec, observation=Discrete(499)), 1, "drawn", 1, where="sum").try_at_length()


def test_the_edges_are_the_ends_the_middle_and_every_discrete_value() -> None:
    batches = list(edge_rows(SPEC, units=5, rows_per_unit=2))
    rewards, actions = (np.concatenate([rows[name].ravel() for rows in batches]) for name in ("rewards", "actions"))
    assert {-10, 0, 10} == set(rewards.tolist())
    assert {0, 1, 2} == set(actions.tolist())
    assert all(rows["observations"].shape == (5, 2, 1) and rows["mask"].all() for rows in batches)
    states = dataclasses.replace(SPEC, observation=Discrete(3_000), difference=None, propensities=True)
    seen = {s for rows in edge_rows(states, 5, 7, "first") for s in rows["observations"].ravel().tolist()}
    assert seen == {*range(1_000), *range(2_000, 3_000)}


class Model:
    """A mutable object of the user's."""


@dataclass(frozen=True, eq=False)
class Holding:
    held: Any = None

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["rewards"]


def test_whatever_a_callback_holds_is_named_and_what_can_grow_is_refused(tmp_path: Path) -> None:
    assert foreign_names(Holding((Holding(Model()), Logarithm, np.float32(1), 2))) == {"Holding", "Model", "Logarithm"}
    assert foreign_names(Visits((Axis("observations", 0, (0.0, 1.0)),), 0.9, 3, 0.0, 1.0)) == set()
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    for held in ([], {}, set(), (1, Holding([]))):
        with pytest.raises(MechanismError, match="can carry state"):
            vault.noisy_sum(run, "sum", Holding(held))
    vault.noisy_sum(run, "sum", Holding(Model()))
    assert vault._checks.foreign_names == {"Holding", "Model"}


@dataclass(frozen=True)
class Misshapen:
    """Answers that are no vector a unit, of this kind."""

    kind: str

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        rewards = rows["rewards"][:, :1]
        if self.kind == "no vectors":
            return rewards[:, 0]
        if self.kind == "a unit too few":
            return rewards[1:]
        return np.repeat(rewards, 2 if abs(rewards).max() == 10 else 1, axis=1)  # as many numbers as the records say


@pytest.mark.parametrize(
    ("kind", "message"),
    [("no vectors", r"shape \(\d+,\)"), ("a unit too few", "returned"), ("wider at the bounds", "trial|shape")],
)
def test_answers_that_are_no_vector_a_unit_are_refused_before_a_step_is_claimed(
    kind: str, message: str, tmp_path: Path
) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=message):
        vault.noisy_sum(run, "sum", Misshapen(kind))
    assert not vault.has_started(run)


@dataclass(frozen=True)
class Counted:
    """The sign of a reward, counted."""

    sizes: tuple[int, ...] = (3,)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        return [1 + np.sign(rows["rewards"]).astype(int)]


def test_gradients_and_counts_of_rows_lie_in_no_other_blocks(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    part = PoissonSum(
        name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0, blocks=score_blocks(on_policy=True)
    )
    run = vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-4))
    with pytest.raises(MechanismError, match="would have to lie in blocks"):
        vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], Regression())
    with pytest.raises(MechanismError, match="blocks that are no counts"):
        vault.noisy_sum(run, "sum", Counted())
    assert not vault.has_started(run)


def test_half_of_the_invented_people_come_to_numbered_visits() -> None:
    columns = (Column("visit", "integer", 1, 12), Column("dose", "number", 0.0, 1.0))
    spec = dataclasses.replace(SPEC, observation=space_of(*columns), difference=None)
    for horizon in (1, 3):
        rows = invented_rows(spec, 4, 5, seed=1, horizon=horizon)
        visit, after = (rows[name][..., 0].reshape(4, 5, -1)[:, :, 0] for name in ("observations", "next_observations"))
        assert (np.diff(visit[::2]) == (visit[::2, :-1] < 12)).all()
        assert (after[::2] == np.minimum(visit[::2] + 1, 12)).all()
        assert not (np.diff(visit[1::2]) == 1).all()
        assert (visit >= 1).all()
        assert (visit <= 12).all()
