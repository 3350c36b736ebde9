"""Matching without a model: columns by themselves, and what tables of several columns add."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tacit import hub
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError, PlanError, PlanExhausted
from tacit.methods.synthesis import TableMatching
from tacit.methods.synthesis.baselines import matching_alone
from tacit.methods.synthesis.baselines.matching_alone import MatchedColumns, MatchingPlan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
UNIT = Unit("person", "add_or_remove", 500)
MATCHING = TableMatching.of(SPEC, bins=8, pool=5_000)
PLAN = MatchingPlan(matching=MATCHING).calibrate(unit=UNIT, epsilon=10.0, delta=1e-4)


def vault_of(folder: Path) -> Vault:
    rng = np.random.default_rng(0)
    observations = rng.beta(2, 4, 4_000).astype(np.float32)
    data = Trajectories.from_arrays(
        observations=observations[:, None],
        actions=(observations > 0.3).astype(np.int64),
        rewards=observations,
        next_observations=observations[:, None],
        terminations=np.zeros(4_000, bool),
        unit_ids=np.repeat(np.arange(400), 10),
        spec=SPEC,
        simulated=True,
    )
    return Vault(data, Ledger(folder / "ledger", UNIT, epsilon=30.0, delta=1e-3, composition=SUM))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[MatchedColumns]:
    return matching_alone.fit(PLAN, vault_of(tmp_path_factory.mktemp("matching")))


def related(value: MatchedColumns) -> float:
    rows = value.sample_columns(4_000, seed=1)
    return float(np.corrcoef(rows["observations"][:, 0], rows["rewards"])[0, 1])


def test_tables_of_pairs_relate_columns_that_are_drawn_by_themselves(release: Release[MatchedColumns]) -> None:
    rows = release.value.sample_columns(4_000, seed=1)
    assert abs(rows["observations"].mean() - 1 / 3) < 0.03
    assert related(release.value) > 0.7
    alone = dataclasses.replace(PLAN, matching=dataclasses.replace(MATCHING, joint=()))
    columns = MatchedColumns(alone, release.value.histograms[: sum(alone.matching.sizes)])
    assert abs(related(columns)) < 0.1
    assert columns.sample(30).simulated


def test_the_certificate_verifies_and_a_second_fit_is_refused(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    certificate = matching_alone.fit(PLAN, vault).certificate
    assert certificate.verify().epsilon <= 10.0
    assert "histograms" in certificate.lines("covered")[0]
    with pytest.raises(PlanExhausted):
        matching_alone.fit(PLAN, vault)


def test_bins_of_other_bounds_are_refused(tmp_path: Path) -> None:
    other = TableMatching.of(dataclasses.replace(SPEC, reward=Box((0.0,), (2.0,))))
    with pytest.raises(PlanError, match="other public bounds"):
        matching_alone.fit(dataclasses.replace(PLAN, matching=other), vault_of(tmp_path))


def test_it_is_saved_and_comes_back(release: Release[MatchedColumns], tmp_path: Path) -> None:
    hub.save(release, tmp_path / "model")
    loaded = hub.load(tmp_path / "model").value
    assert loaded.plan == PLAN == MatchingPlan.from_json(public_fields(PLAN))
    ours, theirs = release.value.sample_columns(50, seed=2), loaded.sample_columns(50, seed=2)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    (tmp_path / "model" / hub.MODEL).write_bytes(b"")
    with pytest.raises(FileError):
        hub.load(tmp_path / "model")


def test_other_fields_are_refused() -> None:
    with pytest.raises(PlanError, match="missing or unknown"):
        MatchingPlan.from_json(public_fields(PLAN) | {"bins": 3})
    with pytest.raises(ValueError, match="other bins"):
        MatchedColumns(PLAN, np.zeros(3))
