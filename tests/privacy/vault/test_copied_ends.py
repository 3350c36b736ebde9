"""Last rows whose next observation is their own copy: what they do to an effect, and who refuses or leaves them out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from vault_cases import GivenParts, Silent

import tacit
from tacit.cli import main
from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.data.trajectories import how_read
from tacit.errors import DataError
from tacit.methods.selection import SelectionPlan
from tacit.methods.synthesis import MatchingPlan, TableMatching, TransitionsPlan
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.marginals import Marginal, Marginals
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.study.records import Source

pytest.importorskip("duckdb")

SPEC = PublicSpec(
    observation=space_of(Column("pressure", low=50, high=250, step=5)),
    action=space_of(Column("drug", "category", labels=("no", "yes"))),
    reward=space_of(Column("calm", low=-1, high=0)),
    source="declared",
    terminals=False,
)
UNIT = tacit.Unit("patient", "add_or_remove", 100)
DRUG, CHANGE = Axis("actions", 0, (-0.5, 0.5, 1.5)), Axis("differences", 0, (-15.0, -5.0, 5.0))
READING: dict[str, Any] = {"time": "hour", "reward": "0"}
PRIVSYN: dict[str, Any] = {"method": "privsyn", "epsilon": 4.0, "bins": 4}


def visits() -> pd.DataFrame:
    """Ten patients with the drug, which takes 10 from the pressure in every hour, and ten without; four visits each."""
    patients, hours = np.divmod(np.arange(80), 4)
    treated = patients % 2 == 1
    drug = np.where(treated, "yes", "no")
    return pd.DataFrame({"patient": patients, "hour": hours, "pressure": 160 - 10 * hours * treated, "drug": drug})


def read(store: Path | None = None, **reading: Any) -> Trajectories:
    return Trajectories.from_frame(visits(), unit="patient", spec=SPEC, store=store, **READING, **reading)


def counts(data: Trajectories, folder: Path) -> np.ndarray:
    """What the marginals of a vault see of drug and change, where its noise is silent [2, 2]."""
    part = Marginals(name="cells", steps=1, axes=(DRUG, CHANGE), noise_multiplier=5.0, rows_per_unit=4)
    with Ledger(folder / "ledger", UNIT, epsilon=8, delta=1e-3, composition=SUM) as ledger:
        vault = Vault(data, ledger, noise=Silent())
        run = vault.reserve(plans.account(GivenParts((part,)), unit=UNIT, delta=1e-4))
        return vault.noisy_marginals(run, "cells", Marginal((0, 1), 1))


@pytest.mark.parametrize(
    ("last", "expected", "effect"),
    [("keep", [[0, 10], [7.5, 2.5]], -7.5), ("drop", [[0, 10], [10, 0]], -10)],
)
def test_a_copy_shrinks_the_effect_by_its_share(
    last: str, expected: list[list[float]], effect: float, tmp_path: Path
) -> None:
    seen = counts(read(next=last), tmp_path)
    assert seen == pytest.approx(np.array(expected), abs=1e-4)
    assert -10 * seen[1, 0] / seen[1].sum() == pytest.approx(effect, abs=1e-4)


def test_how_they_were_read_stays_with_the_records(tmp_path: Path) -> None:
    for last, said in (("keep", True), ("drop", None)):
        read(tmp_path / last, next=last).save(tmp_path / f"copy of {last}")
        for name in (last, f"copy of {last}"):
            assert json.loads((tmp_path / name / "spec.json").read_text()).get("copied_ends") is said
            assert how_read(Trajectories.open(tmp_path / name))["copied_ends"] is bool(said)


def test_a_vault_refuses_plans_of_single_steps_before_any_charge(tmp_path: Path) -> None:
    step = TransitionsPlan(steps=40, sampling_rate=1.0)
    candidates = (step, dataclasses.replace(step, steps=50))
    choice = SelectionPlan(candidates=candidates, judge=MatchingPlan(matching=TableMatching.of(SPEC)))
    with Ledger(tmp_path / "ledger", UNIT, epsilon=8, delta=1e-3, composition=SUM) as ledger:
        vault = Vault(read(next="keep"), ledger)
        for plan in (step, choice):
            with pytest.raises(DataError, match="the next observation of each episode's last row is its own copy"):
                vault.reserve(plan.calibrate(unit=UNIT, epsilon=2, delta=1e-4))
        assert ledger.plans() == []
        vault.reserve(plans.account(GivenParts((whole(),)), unit=UNIT, delta=1e-4))


def test_a_folder_is_refused_and_read_again_under_the_same_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path / "kept", next="keep")
    words = ["--unit", "patient", "--population", "100", "--epsilon", "4", "--budget-epsilon", "8"]
    words += ["--budget-sampled", "0.5", "--method", "privsyn", "--bins", "4", "--rows", "9"]
    assert main(["synthesize", "kept", *words, "--out", "run", "--dry-run"]) == 2
    assert main(["synthesize", "kept", *words, "--out", "run"]) == 2
    assert "import them again with --next drop" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    study = tacit.Study("kept", unit="patient", population=100, budget_epsilon=8.0, budget_sampled=1)
    assert study.plan("synthesize", method="privorl-j", epsilon=2.0).epsilon == pytest.approx(2.0, rel=0.01)
    memory = tacit.Study(read(next="keep"), unit="patient", population=100, ledger=tmp_path / "ledger")
    with pytest.raises(DataError, match='next="drop"'):
        memory.plan("synthesize", **PRIVSYN)


def test_a_table_is_read_without_them_where_single_steps_are_learned(tmp_path: Path) -> None:
    words: dict[str, Any] = {"population": 100, "ledger": tmp_path / "ledger", "budget_epsilon": 8.0}
    study = tacit.Study(
        visits(), unit="patient", spec=SPEC, budget_sampled=0.5, **words, **READING, next="keep", simulated=True
    )
    source: Source = study.curator.source
    assert source.open_steps is not None
    assert [len(data.columns["rewards"]) for data in (source.open(), source.open_steps())] == [80, 60]
    said = "Nothing is learned from the last row of an episode that is cut: its next observation is not known."
    assert said in str(study.request("synthesize", **PRIVSYN))
    assert said not in str(study.request("synthesize", method="privorl-j", epsilon=2.0))
    assert study.synthesize(**PRIVSYN).certificate.epsilon == pytest.approx(4.0, rel=0.01)


def test_public_records_are_held_to_the_same(tmp_path: Path) -> None:
    read(tmp_path / "public", next="keep")
    read(tmp_path / "private", next="drop")
    study = tacit.Study(tmp_path / "private", unit="patient", population=100, budget_epsilon=8.0, budget_sampled=1)
    words = {"public": tmp_path / "public", "provenance": "invented"}
    with pytest.raises(DataError, match=f"{tmp_path / 'public'}: the next observation"):
        study.plan("synthesize", **PRIVSYN, **words)


def whole() -> Marginals:
    return Marginals(name="cells", steps=1, axes=(DRUG, CHANGE), noise_multiplier=50.0)
