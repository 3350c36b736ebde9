"""The online vault: who contributes, how often, under which noise, and what refuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from user_cases import LENGTH, Earned, Scripted, open_user_vault, priced, user_sum
from vault_cases import Named, Silent, begun, unit_of

from tacit.errors import LedgerError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.user_vault import UserVault

LABEL = Label(covered=("the sums",), not_covered=(), not_protected=())


def actor(*_: Any) -> np.ndarray:
    return np.zeros(1)


def sums(vault: UserVault, plan: Any, rounds: int, part: str = "policy") -> list[np.ndarray]:
    run = vault.reserve(plan)
    results = []
    for _ in range(rounds):
        vault.enroll(run, actor)
        results.append(vault.noisy_sum(run, part, Earned()) * 4)
    return results


def test_contributions_are_clipped_summed_and_divided_by_the_public_number(tmp_path: Path) -> None:
    users = Scripted([[["ann", "bob", "cy"]]], {"ann": [1.0, 2.0], "bob": [4.0], "cy": [9.0, 9.0, 9.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    run = vault.reserve(priced(user_sum(clip_norm=10.0)))
    vault.enroll(run, actor)
    assert vault.noisy_sum(run, "policy", Earned()) == pytest.approx((3 + 4 + 10) / 4, rel=2e-4)
    assert users.met == [([["ann", "bob", "cy"]], actor)]


def test_who_comes_again_is_served_and_contributes_zero(tmp_path: Path) -> None:
    rounds = [[["ann", "bob", "ann"]], [["ann", "cy"]], [["bob", ""]]]
    users = Scripted(rounds, {"ann": [1.0], "bob": [2.0], "cy": [4.0], "": [5.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    got = sums(vault, priced(user_sum()), 3)
    assert np.ravel(got) == pytest.approx([3.0, 4.0, 0.0], abs=1e-2)
    assert [people for people, _ in users.met] == rounds


def test_participations_are_counted_up_to_the_public_cap(tmp_path: Path) -> None:
    users = Scripted([[["ann"]]] * 4, {"ann": [1.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    got = sums(vault, priced(user_sum(steps=4, participations=2)), 4)
    assert np.ravel(got) == pytest.approx([1.0, 1.0, 0.0, 0.0], abs=1e-2)


def test_another_plan_counts_anew_and_is_charged_anew(tmp_path: Path) -> None:
    users = Scripted([[["ann"]]] * 2, {"ann": [1.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    one, other = priced(user_sum(steps=1)), priced(user_sum(steps=1, noise_multiplier=2.0))
    assert sums(vault, one, 1)[0] == pytest.approx(1.0, abs=1e-2)
    before = vault.ledger.spent()[0]
    assert sums(vault, other, 1)[0] == pytest.approx(1.0, abs=1e-2)
    assert vault.ledger.spent()[0] > before


@pytest.mark.parametrize("answer", [[math.nan], [1.0, math.inf], [], [1.0] * 3 + [-math.inf]])
def test_bad_or_missing_answers_contribute_zero_and_the_run_goes_on(tmp_path: Path, answer: list[float]) -> None:
    users = Scripted([[["ann", "bob"]], [["cy"]]], {"ann": answer, "bob": [2.0], "cy": [3.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    assert np.ravel(sums(vault, priced(user_sum()), 2)) == pytest.approx([2.0, 3.0], abs=1e-2)


def test_nobody_comes_and_noise_alone_is_released(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    got = sums(vault, priced(user_sum()), 3)
    assert any(value[0, 0] != 0 for value in got)  # each is 0 in one of some thousand runs: noise lies on a lattice


def test_rows_beyond_the_cap_are_not_read(tmp_path: Path) -> None:
    users = Scripted([[["ann"]]], {"ann": [1.0] * 9}, length=9)
    assert sums(open_user_vault(tmp_path, users, noise=Silent()), priced(user_sum()), 1)[0] == pytest.approx(
        LENGTH, abs=1e-2
    )


def test_rewards_are_clipped_to_the_public_bounds(tmp_path: Path) -> None:
    users = Scripted([[["ann"]]], {"ann": [1e9]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    assert sums(vault, priced(user_sum(clip_norm=100.0)), 1)[0] == pytest.approx(10.0, abs=0.1)


def test_replicates_do_not_share_people_and_are_paid_by_their_own_ledgers(tmp_path: Path) -> None:
    users = Scripted([[["ann"], ["ann", "bob"]]], {"ann": [1.0], "bob": [2.0]}, replicates=2)
    vault = open_user_vault(tmp_path, users, noise=Silent())
    assert np.ravel(sums(vault, priced(user_sum()), 1)[0]) == pytest.approx([1.0, 3.0], abs=1e-2)
    assert vault.ledgers[0].spent() == vault.ledgers[1].spent() != (0, 0)


@pytest.mark.parametrize("correlation", ["independent", "toeplitz", "tree"])
def test_noise_has_the_stated_size_in_every_step(tmp_path: Path, correlation: Any) -> None:
    from tacit.privacy.noise.correlated import coefficients, inverse, sensitivity

    steps, width = 8, 20_000
    vault = open_user_vault(tmp_path, Scripted([], {}))
    run = vault.reserve(priced(user_sum(steps=steps, clip_norm=3.0, noise_multiplier=2.0, correlation=correlation)))
    noise = []
    for _ in range(steps):
        vault.enroll(run, actor)
        noise.append(vault.noisy_sum(run, "policy", Earned(width))[0] * 4)
    expected = {
        "independent": np.ones(steps),
        "toeplitz": np.sqrt(np.cumsum(inverse(coefficients(steps)) ** 2)),
        "tree": np.sqrt([1, 2, 1, 3, 1, 2, 1, 4]),
    }[correlation]
    got = np.std(noise, axis=1) / (6.0 * sensitivity(correlation, steps, 1))
    assert got == pytest.approx(expected, rel=0.03)


def test_a_meeting_serves_each_part_once(tmp_path: Path) -> None:
    users = Scripted([[["ann"]], [["bob"]]], {"ann": [1.0], "bob": [1.0]})
    vault = open_user_vault(tmp_path, users)
    run = vault.reserve(priced(user_sum(), user_sum(name="critic")))
    with pytest.raises(LedgerError, match="no round"):
        vault.noisy_sum(run, "policy", Earned())
    vault.enroll(run, actor)
    vault.noisy_sum(run, "policy", Earned())
    vault.noisy_sum(run, "critic", Earned())
    for part in ("policy", "critic"):
        with pytest.raises(LedgerError, match="no round"):
            vault.noisy_sum(run, part, Earned())
    other = vault.reserve(priced(user_sum(noise_multiplier=3.0)))
    vault.enroll(run, actor)
    with pytest.raises(LedgerError, match="no round"):
        vault.noisy_sum(other, "policy", Earned())


@dataclass(frozen=True)
class Spoiling:
    """What people earned; the first one's rewards are written over everybody's, but not over those of the trials."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        earned = Earned()(rows, state)
        if not rows["observations"].any():
            rows["rewards"][:] = rows["rewards"][:1]
        return earned


def test_what_a_callback_writes_into_rows_does_not_reach_the_next_part(tmp_path: Path) -> None:
    users = Scripted([[["ann", "bob"]]], {"ann": [5.0], "bob": [1.0]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    run = vault.reserve(priced(user_sum(), user_sum(name="critic")))
    vault.enroll(run, actor)
    assert vault.noisy_sum(run, "policy", Spoiling()) * 4 == pytest.approx(6, rel=2e-4)
    assert vault.noisy_sum(run, "critic", Earned()) * 4 == pytest.approx(6, rel=2e-4)


def test_a_plan_ends(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    plan = priced(user_sum(steps=2))
    sums(vault, plan, 2)
    with pytest.raises(PlanExhausted):
        vault.enroll(vault.reserve(plan), actor)


def test_a_later_process_opens_a_fresh_block_and_knows_who_came(tmp_path: Path) -> None:
    rewards = {"ann": [1.0], "bob": [2.0]}
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], rewards), noise=Silent())
    plan = priced(user_sum())
    assert sums(vault, plan, 1)[0] == pytest.approx(1.0, abs=1e-2)
    vault.ledger.close()
    vault._register.close()
    later = open_user_vault(tmp_path, Scripted([[["ann", "bob"]]], rewards), noise=Silent())
    assert sums(later, plan, 1)[0] == pytest.approx(2.0, abs=1e-2)
    assert later.steps_left(later.reserve(plan), "policy") == 1


def test_who_was_reserved_and_never_released_has_contributed(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]], [["ann"]]], {"ann": [1.0]}), noise=Silent())
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, actor)  # and nothing is released
    vault.enroll(run, actor)
    assert vault.noisy_sum(run, "policy", Earned()) == pytest.approx(0.0, abs=1e-2)


def test_an_older_register_is_refused(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]] * 2, {"ann": [1.0]}))
    plan = priced(user_sum())
    sums(vault, plan, 1)
    vault.ledger.close()
    (tmp_path / "ledgers/new").mkdir()
    fresh = Register(tmp_path / "ledgers/new/b.register", key=tmp_path / "keys/b.key")
    ledger = Ledger(tmp_path / "ledgers/a0.ledger")
    again = UserVault(Scripted([[["ann"]]], {"ann": [1.0]}), ledger, fresh)
    with pytest.raises(LedgerError, match="does not contain the head"):
        again.reserve(plan)


def test_a_register_goes_with_one_ledger(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}))
    vault.reserve(priced(user_sum()))
    other = Ledger(tmp_path / "ledgers/other.ledger", unit_of(), epsilon=1e6, delta=5e-3, composition=SUM)
    again = UserVault(Scripted([[["ann"]]], {"ann": [1.0]}), other, vault._register)
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        again.reserve(priced(user_sum()))
    assert other.spent() == (0, 0)


def test_a_key_in_the_ledgers_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ledgers").mkdir()
    unit = unit_of()
    ledger = Ledger(tmp_path / "ledgers/a.ledger", unit, epsilon=1, delta=1e-3, composition=SUM)
    register = Register(tmp_path / "elsewhere/a.register", key=tmp_path / "ledgers/a.key")
    with pytest.raises(LedgerError, match="key lies in a ledger's folder"):
        UserVault(Scripted([], {}), ledger, register)


def test_private_people_have_one_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="several ledgers"):
        open_user_vault(tmp_path, Scripted([], {}, simulated=False, replicates=2))


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ((user_sum(), user_sum(name="critic", users=5)), "disagree"),
        (
            (user_sum(), PoissonSum(name="p", steps=1, sampling_rate=0.5, clip_norm=1.0, noise_multiplier=1.0)),
            "disagree",
        ),
        ((user_sum(steps=30),), "120 contributions"),
        (
            (PoissonSum(name="p", steps=1, sampling_rate=0.5, clip_norm=1.0, noise_multiplier=1.0, rows="first"),),
            "pool",
        ),
    ],
)
def test_plans_that_fit_no_meeting_are_refused_before_they_are_charged(
    tmp_path: Path, parts: tuple[Any, ...], match: str
) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    with pytest.raises(PlanError, match=match):
        vault.reserve(priced(*parts))
    assert vault.ledger.spent() == (0, 0)


def test_other_kinds_of_part_belong_to_another_vault(tmp_path: Path) -> None:
    from vault_cases import open_vault

    unit = unit_of(relation="replace_one")
    part = FixedSizeSum(name="f", steps=1, batch_size=2, population=100, clip_norm=1.0, noise_multiplier=1.0)
    vault = open_user_vault(tmp_path, Scripted([], {}), unit=unit)
    with pytest.raises(PlanError):
        vault.reserve(priced(part, unit=unit))
    with pytest.raises(PlanError, match="does not serve"):
        open_vault(tmp_path, [[1.0]], name="disk").reserve(priced(user_sum()))


def test_a_pool_is_sampled_in_secret(tmp_path: Path) -> None:
    pool = [f"p{i}" for i in range(50)]
    users = Scripted([], {person: [float(i)] for i, person in enumerate(pool)}, pool=[[*pool, "p0"]])
    vault = open_user_vault(tmp_path, users, noise=Silent())
    part = PoissonSum(
        name="p", steps=40, sampling_rate=0.2, clip_norm=1.0, noise_multiplier=1.0, rows_per_unit=LENGTH, rows="first"
    )
    run = vault.reserve(priced(part))
    for _ in range(40):
        vault.enroll(run, actor)
        total = vault.noisy_sum(run, "p", Named(60))
        assert total.sum() * 20 == pytest.approx(len(users.met[-1][0][0]), abs=0.5)
    drawn = [len(people[0]) for people, _ in users.met]
    assert 5 < np.mean(drawn) < 15
    assert all(len(set(people[0])) == len(people[0]) for people, _ in users.met)


@settings(max_examples=60, deadline=None)
@given(
    answers=st.lists(
        st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=LENGTH), min_size=1, max_size=4
    ),
    changed=st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=LENGTH),
)
def test_one_person_moves_the_sum_by_at_most_the_clip(
    tmp_path_factory: Any, answers: list[list[float]], changed: list[float]
) -> None:
    people = [f"p{i}" for i in range(len(answers))]
    totals = []
    for first in (answers[0], changed, []):
        rewards = dict(zip(people, [first, *answers[1:]], strict=True))
        vault = open_user_vault(tmp_path_factory.mktemp("v"), Scripted([[people]], rewards), noise=Silent())
        totals.append(sums(vault, priced(user_sum(clip_norm=2.0)), 1)[0][0, 0])
        for held in (vault.ledger, vault._register):
            held.close()
    grid = 2.0**-9  # of the rounding
    assert abs(totals[0] - totals[2]) <= 2.0 + grid
    assert abs(totals[1] - totals[2]) <= 2.0 + grid


def test_the_certificate_states_both_relations_and_who_is_met(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}))
    run = vault.reserve(priced(user_sum(noise_multiplier=4.0, participations=1)))
    certificate = vault.release(begun(vault, run), "value", label=LABEL).certificate
    certificate.verify()
    record = certificate.to_json()
    both = {row["relation"]: row["epsilon"] for row in record["relations"]}
    assert both["replace_one"] > 1.9 * both["add_or_remove"]
    assert "as a register of contributions keeps" in certificate.to_markdown()
    assert any("register" in text for text in certificate.lines("assumptions"))
    assert "replace_one" in certificate.to_markdown()
    assert record["event"] == {"kind": "composed", "events": [{"kind": "gaussian", "noise_multiplier": 4.0}]}


def test_no_noise_is_labelled_infinite_and_voids_the_ledger(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}))
    plan = priced(user_sum(), user_sum(name="critic", noise_multiplier=0.0))
    assert plan.epsilon == math.inf
    run = vault.reserve(plan)
    vault.enroll(run, actor)
    assert vault.noisy_sum(run, "critic", Earned()) == pytest.approx(0.25)
    certificate = vault.release(run, "value", label=LABEL).certificate
    assert not certificate.private
    assert vault.ledger.void_reason is not None


def test_columns_of_another_shape_are_refused(tmp_path: Path) -> None:
    users = Scripted([[["ann"]]], {"ann": [1.0]})
    serve = users.serve
    users.serve = lambda people, actor: {**serve(people, actor), "actions": np.zeros((1, LENGTH, 2))}  # type: ignore[method-assign]
    vault = open_user_vault(tmp_path, users)
    with pytest.raises(MechanismError, match="actions"):
        vault.enroll(vault.reserve(priced(user_sum())), actor)


@pytest.mark.parametrize("exact", [False, True])
def test_twins_who_come_have_one_cap_unless_they_are_said_to_be_two(exact: bool, tmp_path: Path) -> None:
    spelled = ["Anna", "anna", "\uff21nna", " Anna\u2028"]
    users = Scripted([[spelled]], {name: [1.0] for name in spelled})
    if exact:
        users.unit_key = "exact"  # type: ignore[attr-defined]
    vault = open_user_vault(tmp_path, users, noise=Silent())
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, actor)
    assert vault.noisy_sum(run, "policy", Earned())[0] * 4 == pytest.approx(3.0 if exact else 1.0, abs=1e-2)
    release = vault.release(run, 1.0, label=LABEL)
    said = [line for line in release.certificate.lines("assumptions") if "invisible characters" in line]
    assert len(said) == exact
