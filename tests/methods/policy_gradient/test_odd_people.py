"""What nobody may notice: odd answers and people who come again change nothing but their own contribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.envs.serving import SimulatedUsers
from tacit.methods.policy_gradient import Policy, PolicyGradientPlan, TrainedPolicies, fit
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit
from tacit_worlds import cart_pole

UNIT = Unit("person", "add_or_remove", 100)
HORIZON = 12
PLAN = PolicyGradientPlan(rounds=3, users=4, horizon=HORIZON, critic="none", noise_multiplier=0.0).account(
    unit=UNIT, delta=1e-4
)

Rows = dict[str, np.ndarray]
Change = Callable[[Rows], Rows | None]


class Tampered:
    """Simulated people; the rows of the second one of the second meeting, or the ids, are changed."""

    simulated, replicates = True, 1

    def __init__(self, rows: Change | None = None, ids: Callable[[list[str], int], list[str]] | None = None) -> None:
        self.users = SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), horizon=HORIZON, seed=0)
        self.spec, self.rows, self.ids, self.meeting = self.users.spec, rows, ids, 0

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        (people,) = self.users.arrive(count)
        return [list(people) if self.ids is None else self.ids(list(people), self.meeting)]

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> Mapping[str, np.ndarray]:
        rows = dict(self.users.serve(people, actor))
        self.meeting += 1
        if self.meeting == 2 and self.rows is not None:
            rows = {name: column.copy() for name, column in rows.items()}
            return self.rows(rows) or rows
        return rows


def learned(folder: Path, users: Tampered) -> TrainedPolicies:
    folder.mkdir()
    with (
        Ledger(folder / "ledger", UNIT, epsilon=1.0, delta=1e-4, composition=SUM) as ledger,
        Register(folder / "register", key=folder.with_name(f"{folder.name}.key")) as register,
    ):
        return fit(PLAN, UserVault(users, ledger, register), Policy.default(users.spec, (4,))).value


def away(rows: Rows) -> None:
    rows["mask"][1] = False


def set_to(name: str, value: float) -> Change:
    def change(rows: Rows) -> None:
        rows[name][1, 0] = value

    return change


def longer(rows: Rows) -> Rows:
    return {name: np.concatenate([column, column], axis=1) for name, column in rows.items()}


@pytest.mark.parametrize(
    "change",
    [
        set_to("observations", np.nan),
        set_to("next_observations", np.inf),
        set_to("rewards", np.nan),
        set_to("rewards", -np.inf),
        set_to("actions", 7),
    ],
    ids=["observation", "next observation", "reward", "infinite reward", "action"],
)
def test_numbers_that_are_none_count_as_no_answer_and_the_run_goes_on(change: Change, tmp_path: Path) -> None:
    odd, none, plain = (
        learned(tmp_path / name, Tampered(rows)) for name, rows in (("odd", change), ("away", away), ("plain", None))
    )
    assert np.array_equal(odd.last, none.last)
    assert not np.array_equal(odd.last, plain.last)
    assert np.isfinite(odd.iterates).all()


def test_a_rollout_longer_than_the_cap_is_cut(tmp_path: Path) -> None:
    odd, plain = learned(tmp_path / "odd", Tampered(longer)), learned(tmp_path / "plain", Tampered())
    assert np.array_equal(odd.last, plain.last)
    assert plain.norms.min() > 0


@pytest.mark.parametrize("again", ["same meeting", "later meeting", "unknown"])
def test_who_comes_again_or_without_an_id_contributes_zero(again: str, tmp_path: Path) -> None:
    first: list[str] = []

    def ids(people: list[str], meeting: int) -> list[str]:
        first.extend(people if not first else ())
        if meeting == 1:
            people[1] = {"same meeting": people[0], "later meeting": first[2], "unknown": ""}[again]
        return people

    odd, none = learned(tmp_path / "odd", Tampered(ids=ids)), learned(tmp_path / "away", Tampered(away))
    assert np.array_equal(odd.last, none.last)
