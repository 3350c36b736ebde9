"""The door `teacher_votes`: each unit teaches one teacher, counts have the stated noise, and runs are not resumed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from vault_cases import GivenParts, Silent, begun, open_vault, records, unit_of

from tacit.errors import CertificateError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.accounting.events import GaussianEvent, flatten
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.markdown import mechanisms
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.teachers import Teachers
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label, Run
from tacit.privacy.vault.vault import Vault

FAKE = torch.linspace(-4, 4, 8)[:, None].repeat(1, 2)


@dataclass(frozen=True)
class Encode:
    """Observation and reward."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.concatenate([rows["observations"][:, 0], rows["rewards"][:, :1] / 5], axis=1)


@dataclass(frozen=True)
class Whitened:
    """Couples units."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        rewards = rows["rewards"][:, :1]
        return np.asarray(rewards - rewards.mean())


def part(**fields: Any) -> TeacherVotes:
    return TeacherVotes(**{"name": "votes", "steps": 4, "queries": 8, "teachers": 3, "noise_multiplier": 2.0, **fields})


def opened(
    folder: Path, units: Sequence[Sequence[float]], *, noise: SecretNoise | None = None, name: str = "a", **fields: Any
) -> tuple[Vault, Run]:
    vault = open_vault(folder, units, noise=noise, unit=unit_of(5_000), name=name)
    return vault, vault.reserve(plans.account(GivenParts((part(**fields),)), unit=vault.unit, delta=1e-5))


def test_teachers_learn_what_real_rows_look_like(tmp_path: Path) -> None:
    units = [[5.0 + i % 3] for i in range(300)]
    vault, run = opened(tmp_path, units, noise=Silent(), steps=60, learning_rate=1e-2)
    unlike, alike = torch.tensor([[0.0, -3.0]]).repeat(4, 1), torch.tensor([[0.2, 1.2]]).repeat(4, 1)
    for _ in range(60):
        shares = vault.teacher_votes(run, "votes", Encode(), torch.cat([unlike, alike]), against=unlike)
    assert shares.dtype == torch.float32
    assert shares.shape == (8,)
    assert shares[:4].max() < 0.01
    assert shares[4:].min() > 0.99


def test_one_unit_changes_one_teacher_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    for replaced in (0, 17, 39):
        changed = rows.copy()
        changed[replaced] = 1e6
        votes = []
        for vectors in (rows, changed):
            noise = SecretNoise.for_tests(3)
            teachers = Teachers(part(noise_multiplier=0.0, teachers=10), vectors, noise)
            shares = [teachers.votes(FAKE, FAKE, noise) for _ in range(6)]
            votes.append(([layer.detach() for layer in teachers._layers], torch.stack(shares)))
        differ = torch.stack([(a != b).flatten(1).any(1) for a, b in zip(votes[0][0], votes[1][0], strict=True)]).any(0)
        assert differ.sum() == 1
        assert float((votes[0][1] - votes[1][1]).abs().max()) <= 1 / 10 + 1e-3


def test_a_teacher_without_units_sees_nobody() -> None:
    weights = []
    for value in (0.0, 1e38):
        noise = SecretNoise.for_tests(5)
        teachers = Teachers(part(noise_multiplier=0.0, teachers=6), np.full((1, 2), value, np.float32), noise)
        for _ in range(3):
            teachers.votes(FAKE, FAKE, noise)
        weights.append([layer.detach() for layer in teachers._layers])
    alike = torch.stack([(a == b).flatten(1).all(1) for a, b in zip(*weights, strict=True)]).all(0)
    assert alike.sum() == 5


def test_a_count_has_the_noise_of_all_queries(tmp_path: Path) -> None:
    fields = {"queries": 5_000, "noise_multiplier": 4.0, "teachers": 1, "steps": 2, "updates": 1}
    vault, run = opened(tmp_path, [[1.0]], **fields)
    fake = torch.full((5_000, 2), 3.0)
    noisy = vault.teacher_votes(run, "votes", Encode(), fake).double().numpy()
    votes = (noisy - round(noisy.mean())) / (4.0 * np.sqrt(5_000))
    assert stats.kstest(votes, "norm", args=(0, 1)).pvalue > 1e-5 or abs(noisy.mean()) < 20
    assert np.std(noisy) == pytest.approx(4.0 * np.sqrt(5_000), rel=0.05)


def test_the_price_does_not_depend_on_data_or_queries() -> None:
    assert flatten(part(queries=8).event) == flatten(part(queries=512).event) == ((GaussianEvent(2.0, 1.0), 4),)


def test_steps_end_and_another_process_cannot_go_on(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    vault.teacher_votes(run, "votes", Encode(), FAKE)
    vault.ledger.close()
    with Ledger(tmp_path / "a.ledger", vault.unit, epsilon=1e6, delta=0.5 / 5_000, composition=SUM) as ledger:
        again = Vault(records([[1.0]] * 9), ledger)
        with pytest.raises(PlanExhausted):
            again.teacher_votes(again.reserve(run.plan), "votes", Encode(), FAKE)


def test_a_run_has_no_more_than_its_batches(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9, steps=2)
    for _ in range(2):
        vault.teacher_votes(run, "votes", Encode(), FAKE)
    with pytest.raises(PlanExhausted):
        vault.teacher_votes(run, "votes", Encode(), FAKE)


def test_two_threads_deal_the_units_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, real = [], Teachers.__init__

    def slow(self: Teachers, *given: Any) -> None:
        made.append(self)
        time.sleep(0.2)
        real(self, *given)

    monkeypatch.setattr(Teachers, "__init__", slow)
    vault, run = opened(tmp_path, [[1.0]] * 9)
    with ThreadPoolExecutor(2) as pool:
        votes = [pool.submit(vault.teacher_votes, run, "votes", Encode(), FAKE) for _ in range(2)]
        assert all(vote.result().shape == (8,) for vote in votes)
    assert len(made) == 1


def test_nobody_and_huge_rows_are_survived() -> None:
    rows = np.array([[np.finfo(np.float32).max] * 2, [0, 0]], np.float32)
    noise = SecretNoise.for_tests(1)
    assert Teachers(part(), rows[:0], noise).votes(FAKE, FAKE, noise).isfinite().all()
    assert Teachers(part(), rows, noise).votes(FAKE, FAKE, noise).isfinite().all()


@pytest.mark.parametrize("fake", [FAKE[:7], FAKE[:, :1], FAKE * np.inf])
def test_public_rows_that_do_not_fit_take_nothing(tmp_path: Path, fake: torch.Tensor) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    with pytest.raises(MechanismError, match="rows to vote on"):
        vault.teacher_votes(run, "votes", Encode(), fake)
    with pytest.raises(MechanismError, match="rows to vote on"):
        vault.teacher_votes(run, "votes", Encode(), FAKE, against=fake[:0])
    assert not vault.has_started(run)


def test_callbacks_that_couple_units_are_refused(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    with pytest.raises(MechanismError):
        vault.teacher_votes(run, "votes", Whitened(), FAKE[:, :1])
    assert not vault.has_started(run)


@pytest.mark.parametrize(
    "fields", [{"teachers": 0}, {"queries": 0}, {"learning_rate": 0.0}, {"noise_multiplier": -1.0}]
)
def test_parts_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        part(**fields)


def test_a_certificate_recomputes_its_epsilon(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    certificate = vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate
    assert certificate.verify().epsilon == pytest.approx(run.bound.epsilon, rel=1e-5)
    (words,) = mechanisms(certificate.to_json())
    assert "teaches one of 3 teachers" in words


@pytest.mark.parametrize("fake", [FAKE.double(), FAKE.long()])
def test_numbers_of_another_type_take_nothing(tmp_path: Path, fake: torch.Tensor) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    for given, against in ((fake, None), (FAKE, fake)):
        with pytest.raises(MechanismError, match="rows to vote on"):
            vault.teacher_votes(run, "votes", Encode(), given, against=against)
    assert not vault.has_started(run)


def test_teachers_learn_where_nobody_else_does(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    with torch.no_grad():
        assert vault.teacher_votes(run, "votes", Encode(), FAKE).shape == (8,)


@pytest.mark.parametrize("field", ["queries", "teachers", "width"])
def test_a_certificate_of_absurd_size_is_refused(tmp_path: Path, field: str) -> None:
    vault, run = opened(tmp_path, [[1.0]] * 9)
    fields = vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate.to_json()
    fields["parts"][0][field] = 10**400
    with pytest.raises(CertificateError):
        Certificate.from_json(fields).verify()
