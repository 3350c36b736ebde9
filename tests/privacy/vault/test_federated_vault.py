"""The door to people's devices: sums as they would be in the clear, every step once, never fewer answers than noise."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_cases import (
    DELTA,
    PARTS,
    PEOPLE,
    PUBLIC,
    SPEC,
    UNIT,
    Coupled,
    OnePlan,
    Remembering,
    exact,
    ledger,
    people,
    priced,
)

from tacit.errors import DataError, LedgerError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import LaplaceEvent, SelfComposedEvent
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.device_sums import (
    DeviceSum,
    LaplaceSum,
    answers,
    is_admissible,
    release_mean,
    sum_over_all,
)
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.devices import Answer, Device, Query, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault

KINDS = sorted(PARTS)
LABEL = Label(covered=("rewards",), not_covered=("nothing",), not_protected=("nothing",))


def vault_of(folder: Path, *, count: int = PEOPLE, chunk: int = 5, name: str = "ledger") -> FederatedVault:
    return FederatedVault(StackedDevices(people(count), chunk=chunk), ledger(folder, name))


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_sum_is_that_of_all_answers(kind: str, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    run = vault.reserve(priced(kind, 0.0))
    for step in range(4):
        mean = vault.noisy_sum(run, "sum", Remembering(), PUBLIC)
        assert mean.shape == (1, 3)
        assert mean[0] == pytest.approx(exact(step), abs=1e-5)  # the grids are finer
    with pytest.raises(PlanExhausted):
        vault.noisy_sum(run, "sum", Remembering(), PUBLIC)
    assert vault.ledger.void_reason is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_how_many_people_are_stacked_does_not_matter(kind: str, chunk: int, tmp_path: Path) -> None:
    vault = vault_of(tmp_path, chunk=chunk)
    run = vault.reserve(priced(kind, 0.0))
    vault.noisy_sum(run, "sum", Remembering(), PUBLIC)
    assert vault.noisy_sum(run, "sum", Remembering(), PUBLIC)[0] == pytest.approx(exact(1), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_people_without_records_add_nothing_and_the_divisor_stays(kind: str, tmp_path: Path) -> None:
    vault = vault_of(tmp_path, count=7)
    run = vault.reserve(priced(kind, 0.0))
    assert vault.noisy_sum(run, "sum", Remembering(), PUBLIC)[0] == pytest.approx(exact(0, count=7), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_has_the_declared_size(kind: str) -> None:
    """Standard deviation of the released mean over many numbers: sigma C / N, sqrt(2) b / N, or sigma C / sqrt(N)."""
    noise, size = SecretNoise(), 16_000 if kind == "laplace" else 4_000  # whose tails are heavier
    part: Any = dataclasses.replace(PARTS[kind], noise_multiplier=3.0)
    if kind == "laplace":
        part = dataclasses.replace(part, size=size)
    total = answers(part, np.zeros((PEOPLE, size)), noise).sum(axis=0)
    spread = release_mean(part, total, UNIT, noise).std()
    expected = {"laplace": math.sqrt(2), "device": math.sqrt(PEOPLE)}.get(kind, 1.0) * 3.0 / PEOPLE
    assert spread == pytest.approx(expected, rel=0.06)  # five standard errors, or more


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wild", [1e300, np.inf, np.nan, -7.0])
def test_an_answer_is_bounded_whatever_it_holds(kind: str, wild: float) -> None:
    part = dataclasses.replace(PARTS[kind], noise_multiplier=0.0)
    vectors = np.array([[0.25, 0.0, 0.5], [wild, 0.125, 0.0]])
    sent = answers(part, vectors, SecretNoise())
    mean = [release_mean(part, row, UNIT, SecretNoise()) * PEOPLE for row in sent]
    assert mean[0] == pytest.approx(vectors[0], abs=1e-4)
    bound = np.abs(mean[1]).max() if kind == "laplace" else np.linalg.norm(mean[1])
    assert bound <= 1.0 + 1e-12
    if not math.isfinite(wild):
        assert (mean[1] == 0).all()


@pytest.mark.parametrize("d", [1, 10, 1000])
def test_rounding_to_the_grid_leaves_the_norm_within_the_clip(d: int) -> None:
    part = dataclasses.replace(PARTS["shared"], noise_multiplier=0.0)
    assert isinstance(part, DeviceSum)
    vectors = np.random.default_rng(0).normal(size=(200, d)) * 10
    whole = answers(part, vectors, SecretNoise())
    squares = (whole**2).sum(axis=1)
    assert (squares <= 4**part.bits).all()
    assert (squares[np.linalg.norm(vectors, axis=1) > 1] > 0.999 * 4**part.bits).all()


def test_shares_are_provisioned_for_the_floor() -> None:
    """Of 12 devices whose floor is 3, any 3 together add the whole noise; all 12 add four times its variance."""
    part = DeviceSum(
        name="sum", steps=1, devices=12, clip_norm=2.0, noise="shared", noise_multiplier=5.0, floor=3, rows_per_unit=6
    )
    drawn = answers(part, np.zeros((3, 5_000)), SecretNoise()).sum(axis=0)
    assert (drawn * 2.0 / 2**part.bits).std() == pytest.approx(10.0, rel=0.06)
    assert part.variance == math.ceil((5.0 * 2**16) ** 2 / 3)


class Fewer:
    """Devices of which some never answer."""

    def __init__(self, devices: StackedDevices, answered: int) -> None:
        self._devices, self._answered = devices, answered
        self.spec, self.simulated, self.assumptions = devices.spec, devices.simulated, devices.assumptions

    def enter(self, population: int) -> object:
        return self._devices.enter(population)

    def ask(self, query: Query) -> Answer:
        return Answer(self._devices.ask(query).total, self._answered)


def test_too_few_answers_abort_the_step_which_stays_charged(tmp_path: Path) -> None:
    vault = FederatedVault(Fewer(StackedDevices(people()), PEOPLE - 1), ledger(tmp_path))
    run = vault.reserve(priced("shared", 4.0))
    with pytest.raises(MechanismError, match=f"{PEOPLE - 1} devices answered"):
        vault.noisy_sum(run, "sum", Remembering(), PUBLIC)
    assert vault.steps_left(run, "sum") == 3
    assert vault.ledger.claimed(run.plan_id, "sum") == 1


def test_devices_of_the_users_own_are_named_in_the_certificate(tmp_path: Path) -> None:
    vault = FederatedVault(Fewer(StackedDevices(people()), PEOPLE), ledger(tmp_path))
    run = vault.reserve(priced("server", 6.0))
    release = vault.release(run, vault.noisy_sum(run, "sum", Remembering(), PUBLIC), label=LABEL)
    assert any("user's Fewer asks" in said for said in release.certificate.lines("assumptions"))


def test_with_noise_by_the_server_whoever_is_missing_adds_nothing(tmp_path: Path) -> None:
    vault = FederatedVault(Fewer(StackedDevices(people()), 0), ledger(tmp_path))
    run = vault.reserve(priced("server", 4.0))
    assert np.isfinite(vault.noisy_sum(run, "sum", Remembering(), PUBLIC)).all()


def test_a_work_that_couples_people_is_refused_before_a_step_is_claimed(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    run = vault.reserve(priced("server", 4.0))
    with pytest.raises(MechanismError, match="another unit's"):
        vault.noisy_sum(run, "sum", Coupled(), PUBLIC)
    assert not vault.has_started(run)


@dataclasses.dataclass(frozen=True)
class Writing(Remembering):
    def __call__(self, own: Any, public: Any, seeds: Any) -> Any:
        public["scratch"][: len(seeds)] = own["mean"]
        return super().__call__(own, public, seeds)


def test_no_work_writes_into_public_arrays(tmp_path: Path) -> None:
    vault, scratch = vault_of(tmp_path), np.zeros(50)
    run = vault.reserve(priced("server", 4.0))
    with pytest.raises(ValueError, match="read-only"):
        vault.noisy_sum(run, "sum", Writing(), PUBLIC | {"scratch": scratch})
    assert not scratch.any()
    assert not vault.has_started(run)


@dataclasses.dataclass(frozen=True)
class Failing(Remembering):
    def begin(self, rows: Any, seeds: Any) -> dict[str, Any]:
        if (rows["rewards"] * rows["mask"]).sum() in DECOYS:
            return super().begin(rows, seeds)
        raise ValueError(f"a value of hers is {rows['rewards'].max()}")


DECOYS = frozenset[float]()


def test_nothing_of_a_failure_on_records_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = vault_of(tmp_path)
    run = vault.reserve(priced("server", 4.0))
    monkeypatch.setattr(type(vault._checks), "try_work", lambda *_: 3)
    with pytest.raises(MechanismError, match=r"ValueError.*nothing was released") as refused:
        vault.noisy_sum(run, "sum", Failing(), PUBLIC)
    assert "hers" not in str(refused.value)
    assert refused.value.__context__ is None


@pytest.mark.parametrize(
    "public", [{"weights": np.array([np.nan, 1.0])}, {"weights": np.array(["a"])}, {"weights": [0.5, 0.5]}]
)
def test_public_arrays_are_finite_numbers(public: dict[str, Any], tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    run = vault.reserve(priced("server", 4.0))
    with pytest.raises((MechanismError, TypeError)):
        vault.noisy_sum(run, "sum", Remembering(), public)


@pytest.mark.parametrize(
    "part",
    [
        PoissonSum(name="sum", steps=1, sampling_rate=0.5, clip_norm=1.0, rows="first"),
        PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0),
        PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, rows="first", fold=0),
        PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, rows="first", held_out=1),
    ],
    ids=["sampled", "rows drawn anew", "a half", "a reserve"],
)
def test_only_sums_over_all_devices_are_served(part: PoissonSum, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    with pytest.raises(MechanismError, match="not a sum over all devices"):
        vault.reserve(plans.account(OnePlan(part=part, noise_multiplier=4.0), unit=UNIT, delta=DELTA))
    assert vault.ledger.spent() == (0.0, 0.0)


def test_device_sums_are_for_no_other_vault(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="does not serve"):
        Vault(people(), ledger(tmp_path)).reserve(priced("device", 4.0))


def test_more_people_than_the_population_are_refused(tmp_path: Path) -> None:
    few = dataclasses.replace(UNIT, population=PEOPLE - 1)
    with pytest.raises(DataError, match="more people"):
        FederatedVault(
            StackedDevices(people()),
            Ledger(tmp_path / "few", few, epsilon=1.0, delta=DELTA, composition=SUM),
        )


def test_records_enter_one_vault_and_answer_it_alone(tmp_path: Path) -> None:
    devices, part = StackedDevices(people(simulated=False)), priced("server", 0.0).parts()[0]
    asked = Query("plan", part, 0, Remembering(), PUBLIC, 3)
    for _ in ("before", "after"):
        with pytest.raises(DataError, match="does not come from the vault"):
            devices.ask(asked)
        with pytest.raises(DataError, match="copied"):
            copy.deepcopy(devices)
        if devices._key is None:
            FederatedVault(devices, ledger(tmp_path))
    with pytest.raises(DataError, match="in a vault already"):
        FederatedVault(devices, ledger(tmp_path, "second"))


def test_seeded_devices_void_the_ledger(tmp_path: Path) -> None:
    devices = StackedDevices(people(), noise=SecretNoise.for_tests(1))
    vault = FederatedVault(devices, ledger(tmp_path))
    assert "seeded" in str(vault.ledger.void_reason)


@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_says_who_is_trusted_and_is_recomputed(kind: str, tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    plan = priced(kind, 6.0)
    run = vault.reserve(plan)
    release = vault.release(run, vault.noisy_sum(run, "sum", Remembering(), PUBLIC), label=LABEL)
    assert release.certificate.verify().epsilon == pytest.approx(plan.epsilon, rel=1e-5)
    said = " ".join(release.certificate.lines("assumptions"))
    assert ("adds its share" in said) == (kind == "shared")
    assert "one curator" in said


def test_shared_noise_is_priced_as_the_same_gaussian_and_a_little_more() -> None:
    server, shared = priced("server", 6.0), priced("shared", 6.0)
    assert server.epsilon < shared.epsilon < 1.2 * server.epsilon


def test_sums_that_do_not_fit_32_bits_are_refused() -> None:
    with pytest.raises(PlanError, match="fit 32 bits"):
        DeviceSum(name="sum", steps=1, devices=40_000, clip_norm=1.0, noise="shared", noise_multiplier=1.0)
    with pytest.raises(PlanError, match="share of noise"):
        DeviceSum(name="sum", steps=1, devices=9, clip_norm=1.0, noise="shared", noise_multiplier=0.02, bits=8)
    with pytest.raises(PlanError, match="drawn exactly"):
        DeviceSum(name="sum", steps=1, devices=2, clip_norm=1.0, noise="shared", noise_multiplier=4.0, bits=24)


def test_laplace_noise_that_cannot_be_drawn_is_refused_in_the_plan() -> None:
    with pytest.raises(PlanError, match="can be drawn"):
        LaplaceSum(name="sum", steps=1, size=3, bound=1.0, noise_multiplier=2.0**20)
    LaplaceSum(name="sum", steps=1, size=3, bound=1.0, noise_multiplier=2.0**20 - 1)


TOGETHER = LaplaceSum(name="sum", steps=3, size=4, bound=1.0, noise_multiplier=2.0, most=2)


def test_an_answer_is_bounded_in_all_numbers_together() -> None:
    """Sum of absolute values at most 2, each at most 1; whole steps never lengthen it, and 0.5 in each number fits."""
    given = np.array(
        [[5.0, -5.0, 5.0, 5.0], [0.5, 0.5, -0.5, 0.5], [1.0, 1 / 3, 1 / 3, 1 / 3], [np.nan, 0.0, 0.0, 0.0]]
    )
    sent = answers(TOGETHER, given, SecretNoise()) / 2.0**20
    assert sent[0] == pytest.approx([0.5, -0.5, 0.5, 0.5], abs=1e-6)
    assert (np.abs(sent).sum(axis=1) <= 2).all()
    np.testing.assert_array_equal(sent[1], given[1])
    assert sent[2] == pytest.approx(given[2], abs=1e-6)
    assert not sent[3].any()
    steps = 2**20
    assert is_admissible(TOGETHER, 4, np.array([steps, steps, 0, 0]))
    assert not is_admissible(TOGETHER, 4, np.array([steps, steps, 1, 0]))


def test_numbers_that_are_bounded_together_cost_as_many_at_their_bound() -> None:
    assert TOGETHER.event == SelfComposedEvent(LaplaceEvent(2.0), 6)
    assert dataclasses.replace(TOGETHER, most=None).event == SelfComposedEvent(LaplaceEvent(2.0), 12)
    for most in (0, 5, 1.5):
        with pytest.raises(PlanError, match="most"):
            dataclasses.replace(TOGETHER, most=most)


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.3, 0.7), (0.1, 0.9), (0.0, 1.0)])
def test_no_split_of_an_answer_is_dearer_than_one_number_at_its_bound(one: float, other: float) -> None:
    """Two numbers that together move by one bound, noise of scale 0.5: their exact profile, by integration."""
    x = np.linspace(-12.0, 13.0, 2501)
    densities = [np.exp(-np.abs(x - at) / 0.5) for at in (0.0, one, other)]
    unmoved, by_one, by_other = (density / density.sum() for density in densities)
    part = LaplaceSum(name="sum", steps=1, size=2, bound=1.0, noise_multiplier=0.5, most=1)
    for epsilon in (0.0, 0.7, 1.5):
        exact = np.maximum(np.outer(unmoved, unmoved) - math.exp(epsilon) * np.outer(by_one, by_other), 0.0).sum()
        certified = accounting.delta(part.event, epsilon=epsilon, relation="add_or_remove")
        smaller, total = 2 * min(one, other), 2.0
        closed = 1 - math.exp((epsilon - total) / 2) * (1 + min(smaller, (total - epsilon) / 2) / 2)
        assert exact == pytest.approx(closed, abs=3e-3)  # the formula of the proof page
        assert certified >= closed - 1e-9


@pytest.mark.parametrize("people", [83, 9_481, 100_000])
def test_one_call_makes_a_sum_that_fits_for_any_number_of_people(people: int) -> None:
    unit = dataclasses.replace(UNIT, population=people)
    for noise in ("server", "shared", "device"):
        part = sum_over_all(people, name="sum", clip_norm=1.0, noise_multiplier=None, noise=noise)  # type: ignore[arg-type]
        plan = plans.calibrate(OnePlan(part=part), unit=unit, epsilon=2.0, delta=1e-6)
        assert plan.epsilon == 2.0
        (found,) = plan.parts()
        assert found.divisor(unit) == people


@pytest.mark.parametrize("floor", [1, 10, 900])
def test_a_low_floor_takes_a_coarser_grid(floor: int) -> None:
    unit = dataclasses.replace(UNIT, population=1_000)

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Shared(OnePlan):
        def parts(self) -> tuple[Any, ...]:
            sigma = self.noise_multiplier
            return (sum_over_all(1_000, name="s", clip_norm=1.0, noise_multiplier=sigma, noise="shared", floor=floor),)

    plan = plans.calibrate(Shared(part=PARTS["shared"]), unit=unit, epsilon=0.1, delta=1e-6)
    (part,) = plan.parts()
    assert part.floor == floor
    assert 2 * 1_000 * (2**part.bits + 12 * part.share) < 2**32


# -- one person's device -------------------------------------------------------------------------------------------


def device(folder: Path, kind: str = "server", person: int = 3, noise: float = 4.0, **more: Any) -> Device:
    plan = priced(kind, noise)
    return Device(people(1, first=person), ledger(folder, f"device{person}"), plan, {"sum": Remembering()}, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_devices_add_up_to_what_one_process_sums(kind: str, tmp_path: Path) -> None:
    everybody = [device(tmp_path, kind, person, noise=0.0) for person in range(PEOPLE)]
    vault = vault_of(tmp_path)
    run = vault.reserve(priced(kind, 0.0))
    part: Any = run.sum_part("sum")
    for step in range(2):
        sent = [one.answer(one.plan_id, "sum", step, PUBLIC, 3) for one in everybody]
        together = release_mean(part, np.sum(sent, axis=0), UNIT, SecretNoise())
        assert together == pytest.approx(vault.noisy_sum(run, "sum", Remembering(), PUBLIC)[0], abs=1e-12)


def test_a_step_is_answered_once(tmp_path: Path) -> None:
    one = device(tmp_path)
    one.answer(one.plan_id, "sum", 0, PUBLIC, 3)
    with pytest.raises(LedgerError, match="answered before"):
        one.answer(one.plan_id, "sum", 0, PUBLIC, 3)
    one.answer(one.plan_id, "sum", 2, PUBLIC, 3)  # she was away for step 1
    for step in (1, 2):
        with pytest.raises(LedgerError, match="answered before"):
            one.answer(one.plan_id, "sum", step, PUBLIC, 3)
    for step in (4, -1, True, 2.5):
        with pytest.raises(LedgerError, match="not one of the plan's"):
            one.answer(one.plan_id, "sum", step, PUBLIC, 3)  # type: ignore[arg-type]


def test_a_device_that_is_built_again_remembers_what_it_answered(tmp_path: Path) -> None:
    one = device(tmp_path, noise=0.0)
    one.answer(one.plan_id, "sum", 0, PUBLIC, 3)
    one.ledger.close()
    again = device(tmp_path, noise=0.0, state=one.state())
    with pytest.raises(LedgerError, match="answered before"):
        again.answer(again.plan_id, "sum", 0, PUBLIC, 3)
    assert again.answer(again.plan_id, "sum", 1, PUBLIC, 3)[2] == 2 / 8  # asked for the second time


@pytest.mark.parametrize(("plan_id", "part", "error"), [("another", "sum", LedgerError), (None, "other", PlanError)])
def test_other_queries_are_refused_and_claim_nothing(
    plan_id: str | None, part: str, error: type[Exception], tmp_path: Path
) -> None:
    one = device(tmp_path)
    with pytest.raises(error):
        one.answer(plan_id or one.plan_id, part, 0, PUBLIC, 3)
    with pytest.raises(MechanismError, match="not finite"):
        one.answer(one.plan_id, "sum", 0, {"weights": np.array([np.inf, 0.0])}, 3)
    assert not one.ledger.claimed(one.plan_id, "sum")


def test_a_work_that_fails_on_her_rows_answers_zero_under_the_same_noise(tmp_path: Path) -> None:
    plan = priced("shared", 4.0)
    failing = Device(people(1), ledger(tmp_path, "failing"), plan, {"sum": Failing()})
    sent = [failing.answer(failing.plan_id, "sum", step, PUBLIC, 3) for step in range(2)]
    assert all(answer.dtype == np.int64 for answer in sent)
    assert not np.array_equal(*sent)  # noise, and nothing else
    quiet = Device(people(1), ledger(tmp_path, "quiet"), priced("shared", 0.0), {"sum": Failing()})
    assert (quiet.answer(quiet.plan_id, "sum", 0, PUBLIC, 3) == 0).all()
    assert quiet.state() == {}
    other = Device(people(1), ledger(tmp_path, "other"), priced("shared", 0.0), {"sum": Remembering()})
    assert (other.answer(other.plan_id, "sum", 0, PUBLIC, 5) == np.zeros(5)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_without_records_answers_like_any_other(kind: str, tmp_path: Path) -> None:
    def without(name: str, noise: float) -> Device:
        return Device(None, ledger(tmp_path, name), priced(kind, noise), {"sum": Remembering()})

    quiet, loud = without("quiet", 0.0), without("loud", 4.0)
    assert (quiet.answer(quiet.plan_id, "sum", 0, PUBLIC, 3) == 0).all()
    sent = loud.answer(loud.plan_id, "sum", 0, PUBLIC, 3)
    assert (sent != 0).all() == (kind in ("shared", "device"))
    assert sent.dtype == device(tmp_path, kind).answer(loud.plan_id, "sum", 0, PUBLIC, 3).dtype
    with pytest.raises(LedgerError, match="answered before"):
        loud.answer(loud.plan_id, "sum", 0, PUBLIC, 3)


def test_a_device_holds_one_person_who_can_pay(tmp_path: Path) -> None:
    plan = priced("server", 4.0)
    with pytest.raises(LedgerError, match="one person"):
        Device(people(2), ledger(tmp_path), plan, {"sum": Remembering()})
    with pytest.raises(LedgerError, match="works"):
        Device(people(1), ledger(tmp_path), plan, {})
    with pytest.raises(Exception, match="epsilon"):
        Device(people(1), ledger(tmp_path, "poor", epsilon=plan.epsilon / 2), plan, {"sum": Remembering()})


def test_spec_is_that_of_the_devices(tmp_path: Path) -> None:
    assert vault_of(tmp_path).spec == SPEC
