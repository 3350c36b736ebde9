"""Experts of a study: logs, a folder of policies, or simulated ones, by the words of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import hub
from tacit.errors import DataError, PlanError
from tacit_worlds import populations

TINY: dict[str, Any] = {"world": "cart_pole", "episodes": 3, "horizon": 30, "epsilon": 8.0, "delta": 1e-3}


def test_simulated_experts_need_no_records_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release = tacit.Study(None, unit="expert").learn(experts=40, **TINY)
    assert release.certificate.simulated
    assert release.certificate.unit["population"] == 40
    assert release.value.theta.shape == (1, release.value.policy.parameters)
    assert list(tmp_path.iterdir()) == []
    world = populations.world("cart_pole")
    plan = tacit.Study(None, unit="expert", population=50).plan("learn", **{**TINY, "world": world})
    assert plan.unit.population == 50


def test_policies_of_a_folder_are_played_in_the_world(tmp_path: Path) -> None:
    pilots = tmp_path / "pilots"
    hub.save_experts(populations.population(populations.world("cart_pole"), "good", 40, seed=1), pilots)
    study = tacit.Study(pilots, unit="pilot", population=50, budget_epsilon=8.0, budget_sampled=1)
    release = study.learn(method="return-weighted", steps=2, **TINY)
    assert (release.certificate.simulated, release.certificate.unit["name"]) == (False, "pilot")
    assert study.ledger is not None
    assert study.ledger.spent()[0] == pytest.approx(8.0, rel=1e-3)
    assert np.isfinite(release.value.theta).all()


def test_all_that_is_missing_is_named_in_one_answer(tmp_path: Path) -> None:
    study = tacit.Study(tmp_path, unit="expert")
    with pytest.raises(PlanError, match="population=, world= and present= are missing"):
        study.plan("learn", method="consensus", epsilon=1.0)
    with pytest.raises(PlanError, match="there are no experts; expected a folder, or world= cart_pole"):
        tacit.Study(None, unit="expert").plan("learn", epsilon=1.0)
    with pytest.raises(PlanError, match="there is no method 'vote'"):
        study.plan("learn", method="vote", epsilon=1.0)


def test_other_verbs_have_nothing_to_learn_from_policies(tmp_path: Path) -> None:
    for records in (None, tmp_path):
        with pytest.raises(DataError, match="there are no records"):
            tacit.Study(records, unit="pilot", population=9).improve(epsilon=1.0, gamma=1.0, horizon=3)
