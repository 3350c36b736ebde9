"""Audits of every method: the real code is below its certificate, and a mutation of each is above it.

Noise is seeded, so that a test that passed cannot fail by chance.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import audit_cases as broken
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from tacit import methods
from tacit.errors import CertificateError, FileError, PlanError
from tacit.evaluation import audits
from tacit.evaluation.audits import bounds, certified, library
from tacit.evaluation.audits.cases import RunRequest
from tacit.evaluation.audits.findings import AuditResult, Finding
from tacit.evaluation.audits.running import CASES, Effort, audit
from tacit.evaluation.lower_bounds import Counts
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.accountants import gaussian_epsilon
from tacit.privacy.accounting.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.mechanisms.base import certificate_parts as stated_of
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum, UserSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.units import Unit

FEW = Effort(fused=100, single=8, crowded=1)
FUSED = {"policy-gradient": 1, "policy-votes": 3, "gpope": 1, "experts": 1}
"""Methods of which many runs are made in one pass, and the seed of the noise."""
TWINS: dict[str, tuple[broken.Plant, float]] = {
    "transitions": (broken.no_clip, 0.5),
    "trajectories": (broken.no_clip, 0.5),
    "policy-gradient": (broken.no_clip, 8.0),
    "policy-votes": (broken.half_correlated, 4.0),
    "gpope": (broken.no_clip, 8.0),
    "evaluation": (broken.no_clip, 0.5),
    "movement": (broken.forgotten_scale, 0.5),
    "movement-federated": (broken.forgotten_share, 0.5),
    "experts": (broken.half_sigma, 4.0),
}
"""Method -> a mistake, and the epsilon at which it is planted: so few runs of one method show no large one."""
WHOLE = tuple(name for name in CASES if methods.find_audit(name)[1].startswith(f"{library.__name__}:"))
"""Whole methods with small plans."""
LONG = ("trajectories", "movement-federated", "evaluation", "transitions", "movement")
"""Methods whose twins take ten seconds and more; mutations of the same parts are caught in `tests/mutations`."""
PERSON, PLACE = Unit("person", "add_or_remove", 40), Unit("person", "replace_one", 40)
SUMS: dict[str, tuple[Sum, Unit, bool]] = {
    "everybody": (PoissonSum(name="a", steps=2, sampling_rate=1.0, clip_norm=2.0, noise_multiplier=0.5), PERSON, True),
    "poisson": (PoissonSum(name="a", steps=4, sampling_rate=0.5, clip_norm=0.1, noise_multiplier=0.4), PERSON, False),
    "reserve": (
        PoissonSum(name="a", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=0.4, held_out=2),
        PERSON,
        True,
    ),
    "replaced": (PoissonSum(name="a", steps=2, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0), PLACE, True),
    "fixed": (
        FixedSizeSum(name="a", steps=4, batch_size=20, population=40, clip_norm=1.0, noise_multiplier=0.8),
        PLACE,
        False,
    ),
    "met": (UserSum(name="a", steps=4, users=8, clip_norm=1.0, noise_multiplier=0.4), PERSON, True),
    "met again": (
        UserSum(name="a", steps=4, users=8, clip_norm=1.0, noise_multiplier=0.4, participations=2),
        PERSON,
        True,
    ),
    "shared": (
        DeviceSum(name="a", steps=1, devices=20, clip_norm=1.0, noise="shared", floor=20, noise_multiplier=0.3),
        PERSON,
        True,
    ),
    "laplace": (LaplaceSum(name="a", steps=1, size=3, bound=1.0, noise_multiplier=0.5), PERSON, False),
}


@pytest.mark.parametrize(("name", "noise"), FUSED.items())
def test_a_method_is_below_its_certificate_and_not_far(name: str, noise: int) -> None:
    epsilon = TWINS[name][1]
    found = audit(name, epsilon=epsilon, effort=FEW, noise=noise)
    assert found.is_upheld
    assert found.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert {finding.way for finding in found.findings} >= {"canary", "one run"}
    assert found.lower_bound >= 0.4 * epsilon


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in WHOLE],
)
def test_the_broken_twin_is_above_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, epsilon = TWINS[name]
    single = 12 if name == "transitions" else FEW.single  # one of them may look like the other world's
    effort = dataclasses.replace(FEW, crowded=0, single=single)
    assert name in FUSED or audit(name, epsilon=epsilon, effort=effort, noise=2).is_upheld  # as it is: see above
    plant(monkeypatch)
    found = audit(name, epsilon=epsilon, effort=effort, noise=2)
    assert not found.is_upheld
    assert found.lower_bound > found.epsilon


@pytest.mark.parametrize("name", SUMS)
def test_the_sums_of_a_certificate_are_rebuilt_and_tell_the_canary(name: str) -> None:
    part, unit, gaussian = SUMS[name]
    assert part_from_json(json.loads(json.dumps(stated_of([part])[0]))) == part
    case = certified.case((part,), unit, words=name)
    plan = case.plan(0.0, 1e-3, 1)
    assert bounds.is_gaussian(plans.event(plan)) == gaussian
    worlds = []
    for present in (False, True):
        passes = range(2 if case.runs_per_pass > 1 else 25)
        asked = [
            RunRequest(np.array([present]), case.runs_per_pass, i, SecretNoise.for_tests(10 * i + present))
            for i in passes
        ]
        worlds.append(np.concatenate([case.run(plan, one).scores[:, 0] for one in asked]))
    told = (worlds[1][:, None] > worlds[0]).mean()
    assert told > 0.8
    assert bounds.unconditional_bound(*worlds, delta=1e-3, confidence=0.95) <= plan.epsilon


def test_a_certificate_is_audited_on_canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = broken.certificate(tmp_path)
    found = audit(certificate.to_json(), effort=FEW, noise=3)
    assert found.certificate == certificate.digest
    assert (
        0.4 * certificate.epsilon <= found.lower_bound <= found.epsilon == pytest.approx(certificate.epsilon, rel=1e-5)
    )
    assert certificate.verify().digest == certificate.digest
    broken.half_sigma(monkeypatch)
    assert not audit(certificate.to_json(), effort=FEW, noise=3).is_upheld


def test_a_part_of_another_kind_is_left_out_and_told(tmp_path: Path) -> None:
    record = broken.certificate(tmp_path, once=(broken.HISTOGRAM,)).to_json()
    case, left_out = certified.certificate_case(record)
    assert left_out == ("bins",)
    assert case.plan(0.0, record["delta"], 1).epsilon < record["epsilon"]
    with pytest.raises(CertificateError, match="noisy sum"):
        certified.certificate_case({**record, "parts": [part for part in record["parts"] if part["name"] == "bins"]})


def test_what_is_asked_for_is_checked() -> None:
    with pytest.raises(PlanError, match="no method"):
        audit("magic", effort=FEW)
    with pytest.raises(PlanError, match="too few"):
        Effort(fused=100, single=3, crowded=0)


def gaussian(without: np.ndarray, having: np.ndarray) -> float:
    """The bound for Gaussian noise on a sum over everybody, at delta 1e-5 with 95 % confidence."""
    law = bounds.noise_law(GaussianEvent(1.0), "add_or_remove", 1e-5)
    assert law is not None
    return law(bounds.alarm_counts(without, having), 0.95)


def test_the_bound_of_a_gaussian_is_that_of_its_curve() -> None:
    n, mu = 20_000, 1.5
    rng = np.random.default_rng(0)
    without, having = rng.normal(-(mu**2) / 2, mu, n), rng.normal(mu**2 / 2, mu, n)
    found = gaussian(without, having)
    assert 0.9 * gaussian_epsilon(1e-5, mu) < found < gaussian_epsilon(1e-5, mu)
    assert gaussian(-having, having) > 0
    assert gaussian(without, without) == 0


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.1, 1.0, 10), (0.2, 2.0, 50), (1.0, 3.0, 4)])
def test_the_least_epsilon_is_below_the_certified_one_and_close(rate: float, sigma: float, steps: int) -> None:
    event = SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(sigma)), steps)
    event = event if rate < 1 else SelfComposedEvent(GaussianEvent(sigma), steps)
    certified = accounting.epsilon(event, delta=1e-5, relation="add_or_remove")
    least = bounds.least_epsilon(event, 1e-5)
    assert certified.epsilon - 0.011 < least <= certified.check_epsilon


def test_the_bound_of_samples_is_below_the_epsilon_of_the_noise_that_the_rates_were_made_with() -> None:
    """Rates of an attack that is as good as can be, of so many runs that nothing is left to chance."""
    event, runs = PoissonSampledEvent(0.5, GaussianEvent(0.8)), 2_000_000
    law = bounds.noise_law(event, "add_or_remove", 1e-5)
    assert law is not None
    threshold = np.array([1.0, 1.75])
    false = stats.norm.sf(threshold / 0.8)
    hits = 0.5 * false + 0.5 * stats.norm.sf((threshold - 1) / 0.8)
    true = accounting.epsilon(event, delta=1e-5, relation="add_or_remove").check_epsilon
    for f, h in zip(false, hits, strict=True):
        found = law(Counts(round(f * runs), runs, round(h * runs), runs), 0.5)
        assert 0.7 * true < found <= true


def test_shadow_runs_teach_a_direction_and_are_not_scored() -> None:
    rng = np.random.default_rng(1)
    shift = np.array([0.0, 3.0, 0.0])
    without, having = rng.normal(size=(100, 3)), rng.normal(size=(101, 3)) + shift
    found = bounds.shadow_scores(without, having)
    assert found is not None
    assert [len(world) for world in found] == [50, 51]
    assert found[1].mean() - found[0].mean() > 5
    last = bounds.shadow_scores(np.vstack([without[:50], 0 * without[50:]]), having)
    assert last is not None
    assert np.all(last[0] == 0)
    assert np.array_equal(last[1].shape, found[1].shape)
    assert bounds.shadow_scores(without[:, :0], having[:, :0]) is None
    assert bounds.shadow_scores(without[:20], having[:20]) is None


def _audited(**changes: Any) -> AuditResult:
    finding = Finding(way="canary", epsilon=1.0, by_law=2.5, confidence=0.975, runs=40, canaries=1, seconds=1.0)
    fields: dict[str, Any] = {
        "name": "x",
        "words": "the x",
        "unit": "person",
        "relation": "add_or_remove",
        "epsilon": 3.0,
    }
    fields |= {"delta": 1e-5, "confidence": 0.95, "findings": (finding,), "certificate": "ab", "version": "0.1"}
    return AuditResult(**fields | changes)


def test_findings_are_kept_beside_a_certificate(tmp_path: Path) -> None:
    found, other = _audited(left_out=("votes",)), _audited(certificate="cd", epsilon=2.0)
    assert (found.lower_bound, found.is_upheld, other.is_upheld) == (2.5, True, False)
    assert "REFUTED" in "".join(audits.sentences(other))
    assert "votes" in "".join(audits.sentences(found))
    certificate = tmp_path / "certificate.json"
    assert audits.load_for_certificate(certificate, "ab") == ()
    audits.save(tmp_path / audits.FILE, (found, other))
    assert audits.load(tmp_path / audits.FILE) == (found, other)
    assert audits.load_for_certificate(certificate, "ab") == (found,)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(format=1),
        lambda record: record["audits"][0].pop("unit"),
        lambda record: record["audits"][0].update(epsilon="3"),
        lambda record: record["audits"][0]["findings"][0].update(way="guessing"),
        lambda record: record["audits"][0]["findings"][0].update(epsilon=True),
        lambda record: record["audits"][0].update(findings=[]),
        lambda record: record["audits"][0].update(certificate=7),
        lambda record: record.update(audits=7),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: Any) -> None:
    path = tmp_path / audits.FILE
    audits.save(path, (_audited(),))
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(FileError):
        audits.load(path)
    path.write_text("{")
    with pytest.raises(FileError):
        audits.load(path)


def test_how_sure_a_bound_can_be() -> None:
    """Sixteen right answers of sixteen in both worlds bound mu by no more than the exact rates allow."""
    scores = np.ones(16)
    found = gaussian(-scores, scores)
    assert found == pytest.approx(gaussian_epsilon(1e-5, 2 * float(ndtri(0.025 ** (1 / 16)))), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_half_of_the_certificate_is_found(name: str) -> None:
    found = audit(name, effort=Effort(fused=800, single=300, crowded=1), noise=4)
    assert found.epsilon / 2 <= found.lower_bound <= found.epsilon
