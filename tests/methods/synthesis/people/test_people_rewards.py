"""Whole people whose rewards are computed by the public expression of the import, and never learned."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.synthesis.people.test_whole_people import SPEC, UNIT, hospital, padded, records, released

from tacit import hub
from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.errors import DataError
from tacit.methods.synthesis.people import PeoplePlan, PeopleSynthesizer, fit
from tacit.methods.synthesis.people.plan import HISTOGRAMS, REGRESSION, TABLES
from tacit.methods.synthesis.people.scheme import default_nodes
from tacit.methods.synthesis.people.sums import NumberShares, VisitTables, read_densities
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.serialization import to_json

pytest.importorskip("duckdb")

SAID = dataclasses.replace(
    SPEC, reward_expression="-coalesce(abs(pressure - 130), 20) / 130 - if(drug = 'strong' AND ward = 'A', 0.25, 0)"
)


def fitted(folder: Path, spec: PublicSpec = SAID, data: Trajectories | None = None, **fields: Any) -> Any:
    vault = Vault(data or records(500), Ledger(folder / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM))
    return fit(PeoplePlan(spec=spec, **fields).calibrate(unit=UNIT, epsilon=8, delta=1e-5), vault)


@pytest.mark.parametrize("copies", [False, True])
def test_every_reward_is_that_of_its_row(copies: bool, tmp_path: Path) -> None:
    release = fitted(tmp_path, data=records(500, copies=copies))
    drawn = release.value.sample(400, seed=1)
    seen, drug = np.asarray(drawn.columns["observations"], np.float64), np.asarray(drawn.columns["actions"])
    off = np.where(seen[:, 3] == 1, 20, np.abs(seen[:, 2] - 130))
    expected = -off / 130 - 0.25 * ((drug == 1) & (seen[:, 4] == 0))
    np.testing.assert_allclose(drawn.columns["rewards"], np.clip(expected, -2, 0), atol=1e-6)
    assert len(np.unique(expected)) > 400
    assert drawn.spec.reward_expression == SAID.reward_expression


def test_a_reward_that_is_computed_has_no_table_and_no_share_of_the_noise() -> None:
    plan, other = PeoplePlan(spec=SAID, most=6), PeoplePlan(spec=SPEC, most=6)
    assert [node.role for node in default_nodes(other.scheme)].count("reward") == 1
    assert [node.role for node in default_nodes(plan.scheme)].count("reward") == 0
    norms = [{part.name: part.clip_norm for part in one.parts()} for one in (plan, other)]
    assert norms[0] == {HISTOGRAMS: 3**0.5, REGRESSION: 1.0, TABLES: (5 + 3 * 6) ** 0.5}
    assert norms[1] == pytest.approx({HISTOGRAMS: 2.0, REGRESSION: 1.49**0.5, TABLES: 26**0.5})
    rows = padded(hospital(200, 0), 6)
    scheme = released(rows, plan)
    for name, work in ((HISTOGRAMS, NumberShares), (TABLES, VisitTables)):
        longest = np.linalg.norm(work(scheme)(rows, None), axis=1).max()
        assert 0.5 * norms[0][name] < longest <= norms[0][name] * (1 + 1e-9)
    changed = {**rows, "rewards": rows["rewards"][::-1].copy()}
    for work in (NumberShares, VisitTables):
        np.testing.assert_array_equal(work(scheme)(rows, None), work(scheme)(changed, None))


def test_units_are_counted_without_rewards() -> None:
    rows = padded(hospital(200, 0), 6)
    for spec in (SAID, SPEC):
        scheme = PeoplePlan(spec=spec, most=6).scheme
        _, units = read_densities(scheme, NumberShares(scheme)(rows, None).sum(axis=0), 0.0)
        assert units == pytest.approx(200)


def test_where_nothing_else_is_a_number_the_reward_still_counts_units(tmp_path: Path) -> None:
    spec = PublicSpec(
        space_of(Column("ward", "category", labels=("A", "B", "C"))),
        space_of(Column("drug", "category", labels=("none", "strong"))),
        space_of(Column("reward", low=-2, high=0)),
        "declared",
        terminals=False,
        reward_expression="if(ward = 'B', -1, -0.5)",
    )
    columns = hospital(300, 0)
    wards = {name: columns[name][:, 4].astype(int) for name in ("observations", "next_observations")}
    data = Trajectories.from_arrays(**{**columns, **wards}, spec=spec, unit_name="patient", simulated=True)
    plan = PeoplePlan(spec=spec)
    assert {part.name: part.clip_norm for part in plan.parts()} == {HISTOGRAMS: 1.0, TABLES: (2 + 3 * 3) ** 0.5}
    drawn = fitted(tmp_path, spec, data).value.sample(200, seed=0).columns
    np.testing.assert_array_equal(drawn["rewards"], np.where(drawn["observations"] == 1, -1, -0.5))


def test_the_certificate_says_so_and_what_is_saved_draws_the_same(tmp_path: Path) -> None:
    release = fitted(tmp_path)
    (line,) = (line for line in release.certificate.to_json()["not_covered"] if line["code"] == "rewards_computed")
    assert line["words"] == SAID.reward_expression
    assert "rewards are computed of the sampled rows, and never learned: -coalesce" in release.certificate.to_markdown()
    hub.save(release, tmp_path / "model")
    loaded = hub.load(tmp_path / "model").value
    assert loaded.plan.spec.reward_expression == SAID.reward_expression
    for name, column in release.value.sample(50, seed=3).columns.items():
        np.testing.assert_array_equal(column, loaded.sample(50, seed=3).columns[name])
    bare = public_fields(dataclasses.replace(release.value.plan, spec=SPEC))
    with pytest.raises(ValueError, match="a scheme of another spec"):
        PeopleSynthesizer.from_saved(bare, loaded.to_json(), loaded.arrays())


def test_plans_and_schemes_without_an_expression_are_written_as_before() -> None:
    plan = PeoplePlan(spec=SPEC)
    assert "reward_expression" not in json.dumps(public_fields(plan))
    assert "rewards_computed" not in json.dumps(plan.label().not_covered)
    assert "computes_reward" not in to_json(plan.scheme)


@pytest.mark.parametrize("text", ["(SELECT 1)", "pressure / 100"])
def test_what_cannot_be_computed_is_refused_before_anything_is_spent(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"reward_expression: .*(not allowed|no number)"):
        fitted(tmp_path, dataclasses.replace(SPEC, reward_expression=text))
    assert Ledger(tmp_path / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM).left() == (20, 1e-5)


def test_without_duckdb_nothing_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError):
        fitted(tmp_path)
    assert Ledger(tmp_path / "ledger", UNIT, epsilon=20, delta=1e-5, composition=SUM).left() == (20, 1e-5)
