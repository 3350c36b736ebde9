"""Attacks on the online vault, each of which worked once or was tried in vain."""

from __future__ import annotations

import itertools
import math
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats
from user_cases import LENGTH, Earned, Scripted, open_user_vault, priced, user_sum
from vault_cases import Silent, begun, unit_of

from tacit.agents.heads import Categorical
from tacit.data.visits import Visit, visit_rows
from tacit.errors import CertificateError, LedgerError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger.register import Register
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.correlated import Correlation
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import isolation
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.user_vault import UserVault

LABEL = Label(covered=("the sums",), not_covered=(), not_protected=())
SECRET = 7.125


@dataclass(frozen=True)
class Still:
    """An actor without a memory."""

    def __call__(self, seen: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.zeros(len(seen), np.int64)


STILL = Still()


def closed(vault: UserVault) -> None:
    vault.ledger.close()
    vault._register.close()


# -- one person, one register ------------------------------------------------------------------------------------------


def test_a_ledger_goes_with_one_register_from_its_first_reservation(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}))
    register = Register(tmp_path / "ledgers/b.register", key=tmp_path / "keys/b.key")
    other = UserVault(Scripted([[["ann"]]], {"ann": [1.0]}), vault.ledger, register)
    plan = priced(user_sum())
    vault.reserve(plan)
    with pytest.raises(LedgerError, match="does not contain the head"):
        other.reserve(plan)


def test_a_register_rolled_back_to_the_middle_of_a_claimed_block_is_refused(tmp_path: Path) -> None:
    unit, files = unit_of(2000), ("a.register", "a.register.lock")
    plan = priced(user_sum(steps=400), unit=unit)
    users = Scripted([[["zoe"]], [["ann"]]], {"ann": [1.0]}, simulated=False)
    vault = open_user_vault(tmp_path, users, unit=unit)
    run = vault.reserve(plan)
    for _ in range(2):
        for name in files:
            shutil.copy(tmp_path / "ledgers" / name, tmp_path / name)
        vault.enroll(run, STILL)
        vault.noisy_sum(run, "policy", Earned())
    assert not vault.is_block_end(run, "policy")
    closed(vault)
    for name in files:
        shutil.copy(tmp_path / name, tmp_path / "ledgers" / name)
    again = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}, simulated=False), unit=unit)
    with pytest.raises(LedgerError, match="does not contain the head"):
        again.reserve(plan)


@dataclass(frozen=True)
class Waiting:
    """Lets two threads pass the trial on decoys together."""

    number: int
    gate: ClassVar[threading.Barrier] = threading.Barrier(2)
    passed: ClassVar[threading.local] = threading.local()

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if not hasattr(self.passed, "once"):
            self.passed.once = True
            self.gate.wait(10)
        return Earned()(rows, state)


def test_of_two_threads_one_releases_the_meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "fingerprint", lambda callback: b"")  # its gate opens between two calls
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [1.0]}))
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, STILL)
    results: list[object] = []

    def release(number: int) -> None:
        try:
            results.append(vault.noisy_sum(run, "policy", Waiting(number)))
        except LedgerError as error:
            results.append(error)

    threads = [threading.Thread(target=release, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(result).__name__ for result in results) == ["LedgerError", "ndarray"]
    assert vault.steps_left(run, "policy") == 2


@dataclass(frozen=True)
class Shifty(PrivatePlan):
    """A plan whose part depends on something that is no field of it."""

    method: ClassVar[str] = "shifty"
    source: ClassVar[str] = "tests"
    participations: ClassVar[int] = 1
    noise_multiplier: float | None = 1.0

    def parts(self) -> tuple[Part, ...]:
        return (user_sum(noise_multiplier=self.noise_multiplier, participations=self.participations),)


def test_a_plan_that_is_reopened_has_the_parts_that_were_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    plan = plans.account(Shifty(), unit=unit_of(), delta=1e-4)
    vault.reserve(plan)
    identity = plans.plan_id(plan)
    monkeypatch.setattr(Shifty, "participations", 3)
    assert plans.plan_id(plan) != identity  # another plan, which is paid for by itself
    before = vault.ledger.spent()[0]
    vault.reserve(plan)
    assert vault.ledger.spent()[0] > 1.5 * before


# -- what one person moves, under the noise that is really drawn -------------------------------------------------------


class Basis(SecretNoise):
    """The i-th vector that is drawn is the i-th unit vector: releases show how draws were mixed."""

    drawn = 0

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        vector = np.zeros(size, np.float32)
        if size:
            vector[self.drawn] = 1.0
            self.drawn += 1
        return vector


@dataclass(frozen=True)
class Failing:
    """Zeros on decoys, and no result on people when `fails`."""

    width: int
    fails: bool

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if self.fails and (rows["rewards"] == SECRET).any():
            raise MemoryError
        return np.zeros((len(rows["mask"]), self.width))


@pytest.mark.parametrize("participations", [1, 2, 6])
@pytest.mark.parametrize(
    ("correlation", "decay"),
    [("independent", (1.0,)), ("toeplitz", (1.0,)), ("toeplitz", (1.0, 0.5)), ("toeplitz", (0.7,)), ("tree", (1.0,))],
)
def test_no_choice_of_meetings_moves_the_releases_by_more_than_one_gaussian(
    tmp_path: Path, correlation: Correlation, decay: tuple[float, ...], participations: int
) -> None:
    """Seven steps: the third fails behind the door, and after the fourth another process goes on."""
    steps, sigma, clip, noise = 7, 2.0, 10.0, Basis()
    part = user_sum(
        steps=steps,
        noise_multiplier=sigma,
        clip_norm=clip,
        correlation=correlation,
        decay=decay,
        participations=participations,
    )
    plan, rows = priced(part), []
    for block in (range(4), range(4, steps)):
        users = Scripted([[[f"p{t}"]] for t in block], {f"p{t}": [SECRET] for t in block})
        vault = open_user_vault(tmp_path, users, noise=noise)
        run = vault.reserve(plan)
        for t in block:
            vault.enroll(run, STILL)
            if t == 2:
                with pytest.raises(MechanismError):
                    vault.noisy_sum(run, "policy", Failing(steps, True))
            else:
                rows.append(vault.noisy_sum(run, "policy", Failing(steps, False))[0] * part.users)
        closed(vault)
    mixed = np.array(rows) / clip  # [released, drawn]: the noise in units of the clip is mixed @ standard normals
    precision = np.linalg.inv(mixed @ mixed.T)
    worst = 0.0
    for shift in map(np.array, itertools.product((-1.0, 0.0, 1.0), repeat=len(rows))):
        if np.count_nonzero(shift) <= participations:
            worst = max(worst, float(shift @ precision @ shift))
    assert worst <= 1.01 / sigma**2


def test_parts_of_one_meeting_compose_as_gaussians_do(tmp_path: Path) -> None:
    parts = user_sum(noise_multiplier=2.0), user_sum(name="critic", noise_multiplier=3.0, correlation="tree")
    plan = priced(*parts)
    epsilon, mu = plan.epsilon, math.hypot(1 / 2, 1 / 3)
    assert epsilon is not None
    exact = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert exact == pytest.approx(1e-4, rel=0.01)
    assert exact <= 1e-4


# -- what is told ------------------------------------------------------------------------------------------------------


def test_no_representation_shows_what_people_did(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [SECRET]}))
    vault.enroll(vault.reserve(priced(user_sum())), STILL)
    for value in (vault, vault._batch, vault._register, vault._noise):
        assert str(SECRET) not in repr(value)
        assert "ann" not in repr(value)


class Telling(Scripted):
    """Users whose code fails with an id in its message."""

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        raise KeyError("ann has come twice")


def test_what_the_users_own_code_fails_with_is_not_shown(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Telling([], {}, simulated=False))
    with pytest.raises(MechanismError) as caught:
        vault.enroll(vault.reserve(priced(user_sum())), STILL)
    assert "ann" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@dataclass(frozen=True)
class Bounding:
    """Calls the core's own code with what it saw, which refuses it in so many words."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        most = float(rows["rewards"].max())
        clipping.require_clip(-most if most == SECRET else 1.0)
        return Earned()(rows, state)


def test_an_error_that_a_callback_met_in_the_core_is_not_seen(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["ann"]]], {"ann": [SECRET]}, simulated=True), noise=Silent())
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, STILL)
    assert vault.noisy_sum(run, "policy", Bounding()) == 0.0


@dataclass
class Keeping:
    """An actor that keeps what it is shown."""

    seen: list[np.ndarray]

    def __call__(self, seen: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        self.seen.append(seen)
        return np.zeros(len(seen), np.int64)


def test_real_people_are_not_served_with_an_actor_that_could_keep_what_it_sees(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}, simulated=False))
    run = vault.reserve(priced(user_sum()))
    with pytest.raises(MechanismError, match="can carry state"):
        vault.enroll(run, Keeping([]))
    vault.enroll(run, STILL)


def test_an_actor_of_the_users_own_is_named(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, STILL)
    said = vault.release(begun(vault, run), 0, label=LABEL).certificate.lines("assumptions")
    assert sum("Still" in text for text in said) == 2


def test_a_callback_of_the_users_own_is_named_by_a_later_process(tmp_path: Path) -> None:
    plan = priced(user_sum())
    vault = open_user_vault(tmp_path, Scripted([], {}))
    run = vault.reserve(plan)
    vault.enroll(run, STILL)
    vault.noisy_sum(run, "policy", Earned())
    closed(vault)
    later = open_user_vault(tmp_path, Scripted([], {}))
    certificate = later.release(later.reserve(plan), 0, label=LABEL).certificate
    assert any("Earned" in text for text in certificate.lines("assumptions"))


def test_every_plan_of_a_process_names_its_own_callbacks_and_actors(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    runs = [vault.reserve(priced(user_sum(noise_multiplier=sigma))) for sigma in (1.0, 2.0)]
    for run in runs:
        vault.enroll(run, STILL)
        vault.noisy_sum(run, "policy", Earned())
    for run in runs:
        assumptions = vault.release(run, 0, label=LABEL).certificate.lines("assumptions")
        for name in ("Earned", "Still"):
            assert any(name in text for text in assumptions), name


# -- plans that cannot be kept -----------------------------------------------------------------------------------------


def test_a_decay_without_a_proof_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    with pytest.raises(PlanError, match="increases"):
        vault.reserve(priced(user_sum(decay=(1.0, 1.0, 1.0))))
    assert vault.ledger.spent() == (0, 0)


def test_a_part_that_an_earlier_process_finished_is_exhausted(tmp_path: Path) -> None:
    plan = priced(user_sum(), user_sum(name="short", steps=1))
    vault = open_user_vault(tmp_path, Scripted([], {}))
    run = vault.reserve(plan)
    vault.enroll(run, STILL)
    vault.noisy_sum(run, "short", Earned())
    closed(vault)
    later = open_user_vault(tmp_path, Scripted([], {}))
    run = later.reserve(plan)
    later.enroll(run, STILL)
    with pytest.raises(PlanExhausted):
        later.noisy_sum(run, "short", Earned())
    later.noisy_sum(run, "policy", Earned())


def test_one_draw_from_a_pool_is_summed_once(tmp_path: Path) -> None:
    users = Scripted([], {"ann": [1.0], "bob": [1.0]}, pool=[["ann", "bob"]])
    vault = open_user_vault(tmp_path, users, noise=Silent())
    part = PoissonSum(
        name="p", steps=4, sampling_rate=0.5, clip_norm=1.0, noise_multiplier=1.0, rows_per_unit=LENGTH, rows="first"
    )
    run = vault.reserve(priced(part))
    vault.enroll(run, STILL)
    vault.noisy_sum(run, "p", Earned())
    with pytest.raises(LedgerError, match="no round"):
        vault.noisy_sum(run, "p", Earned())


# -- forged certificates -----------------------------------------------------------------------------------------------

Edit = Callable[[dict[str, Any]], object]
EDITS: dict[str, Edit] = {
    "fewer participations": lambda r: r["parts"][0].update(participations=1),
    "correlation": lambda r: r["parts"][0].update(correlation="tree"),
    "noise": lambda r: r["parts"][0].update(noise_multiplier=40.0),
    "noise and event": lambda r: (
        r["parts"][0].update(noise_multiplier=40.0),
        r["event"]["events"][0].update(noise_multiplier=40.0),
    ),
    "a part left out": lambda r: r["parts"].pop(),
    "a relation left out": lambda r: r["relations"].pop(),
    "the wrong relation": lambda r: [row.update(relation="add_or_remove") for row in r["relations"]],
    "the cheaper relation": lambda r: r["relations"][1].update(epsilon=r["relations"][0]["epsilon"]),
    "users": lambda r: r["parts"][0].update(users=1),
    "kind": lambda r: r["parts"][0].update(kind="poisson_sum", sampling_rate=0.01),
    "clauses": lambda r: r["assumptions"].pop(0),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_part_does_not_verify(tmp_path: Path, name: str) -> None:
    vault = open_user_vault(tmp_path, Scripted([], {}))
    plan = priced(user_sum(noise_multiplier=4.0, participations=2), user_sum(name="critic", participations=2))
    record = vault.release(begun(vault, vault.reserve(plan)), 0, label=LABEL).certificate.to_json()
    EDITS[name](record)
    record["digest"] = certificate_json.digest(record)
    with pytest.raises(CertificateError):
        Certificate.from_json(record).verify()


# -- one person's numbers ----------------------------------------------------------------------------------------------


def test_a_row_alone_has_the_same_bits_as_among_others() -> None:
    outputs = np.random.default_rng(0).normal(size=(40, 1, 12)).astype(np.float32)
    head, free = Categorical(12), np.zeros((40, 0), np.float32)
    actions, weight = np.zeros((40, 1), np.int64), np.ones((40, 1), np.float32)
    together, _ = head.slopes(outputs, free, actions, weight, 0.1)
    for i in range(40):
        one = slice(i, i + 1)
        alone, _ = head.slopes(outputs[one], free[one], actions[one], weight[one], 0.1)
        assert np.array_equal(alone, together[one])


class Deployed(Scripted):
    """People, one of whom sent a visit of another width."""

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, np.ndarray]:
        good = Visit(observations=np.zeros((3, 1)), actions=np.zeros(2), rewards=np.ones(2))
        broken = Visit(observations=np.zeros((3, 2)), actions=np.zeros(2), rewards=np.ones(2))
        return visit_rows({"ann": good, "bob": broken}, people, self.spec, LENGTH)


def test_a_person_who_sends_another_width_counts_as_zero(tmp_path: Path) -> None:
    vault = open_user_vault(tmp_path, Deployed([[["ann", "bob"]]], {}, simulated=False), noise=Silent())
    run = vault.reserve(priced(user_sum()))
    vault.enroll(run, STILL)
    assert vault.noisy_sum(run, "policy", Earned()) * 4 == pytest.approx(2.0, abs=1e-2)


def test_ids_are_told_apart_by_replicate_and_compared_as_text(tmp_path: Path) -> None:
    users = Scripted([[["7"], ["7"]], [[7], ["7"]]], {"7": [1.0]}, replicates=2)  # type: ignore[list-item]
    vault = open_user_vault(tmp_path, users, noise=Silent())
    run = vault.reserve(replace(priced(user_sum())))
    got = []
    for _ in range(2):
        vault.enroll(run, STILL)
        got.append(np.ravel(vault.noisy_sum(run, "policy", Earned()) * 4))
    assert np.array(got) == pytest.approx(np.array([[1.0, 1.0], [0.0, 0.0]]), abs=1e-2)
