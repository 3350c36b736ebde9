"""Private selection of synthesizers, end to end: the promise, the choice, what is saved, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import CertificateError, PlanError, PlanExhausted
from tacit.methods import selection, synthesis
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Unit

SPEC = PublicSpec(
    observation=Box((-1.0,), (1.0,)), action=Box((-1.0,), (1.0,)), reward=Box((-1.0,), (1.0,)), source="declared"
)
SPEC = dataclasses.replace(SPEC, difference=(0.5,))
UNIT = Unit("row", "add_or_remove", 4_000)
DELTA = 1e-5
SMALL = synthesis.TransitionsPlan(steps=40, sampling_rate=0.1, width=16, depth=1, warmup=2)


def rows(count: int = 4_000) -> Trajectories:
    rng = np.random.default_rng(0)
    place = rng.uniform(0.4, 0.6, (count, 1)).astype(np.float32)
    return Trajectories.from_arrays(
        observations=place,
        actions=-place,
        rewards=place[:, 0],
        next_observations=place,
        terminations=np.zeros(count, bool),
        unit_ids=np.arange(count),
        spec=SPEC,
        simulated=True,
    )


def plan_of(*candidates: Any, **fields: Any) -> selection.SelectionPlan:
    judge = synthesis.MatchingPlan(matching=synthesis.TableMatching.of(SPEC, bins=8, coarse=4))
    return selection.SelectionPlan(candidates=candidates, judge=judge, stop=10, **fields)


def vault_of(folder: Path, epsilon: float = 8.0) -> Vault:
    return Vault(rows(), Ledger(folder / "a.ledger", UNIT, epsilon=epsilon, delta=DELTA, composition=SUM))


CALIBRATED = functools.cache(
    lambda: plan_of(dataclasses.replace(SMALL, learning_rate=1e-6), SMALL).calibrate(
        unit=UNIT, epsilon=8.0, delta=DELTA
    )
)


def test_every_run_has_the_noise_with_which_the_whole_keeps_the_promise() -> None:
    plan = CALIBRATED()
    assert plans.certified_bound(plan).epsilon <= 8.0
    assert plans.certified_bound(plan).epsilon == pytest.approx(8.0, rel=2e-3)
    alone = SMALL.calibrate(unit=UNIT, epsilon=8.0, delta=DELTA)
    for one in plan.candidates:
        assert one.noise_multiplier > alone.noise_multiplier
        assert plans.certified_bound(one).epsilon <= one.epsilon
        assert 6.0 < one.epsilon < 7.0
    assert "the best of a secret number of runs" in str(plan)


def test_the_best_synthesizer_is_released_saved_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.privacy.vault.selection.draw_run_count", lambda stop, law, noise: 2)  # else up to 20
    plan, vault = CALIBRATED(), vault_of(tmp_path)
    release = selection.fit(plan, vault, attempt=synthesis.fit, judge=synthesis.Closeness(rows=2_000))
    release.certificate.verify()
    assert release.certificate.epsilon == pytest.approx(8.0, rel=2e-3)
    assert release.value.plan == plan.candidates[release.choice.candidate]
    hub.save(release, tmp_path / "model")
    again = hub.load(tmp_path / "model")
    assert again.certificate == release.certificate
    drawn, same = (one.value.sample_columns(50, seed=1) for one in (release, again))
    assert all(np.array_equal(drawn[name], same[name]) for name in drawn)
    with pytest.raises(PlanExhausted):
        selection.fit(plan, vault, attempt=synthesis.fit, judge=synthesis.Closeness())


def test_a_model_that_was_not_among_the_candidates_is_refused(tmp_path: Path) -> None:
    plan, vault = CALIBRATED(), vault_of(tmp_path)
    run = vault.reserve(plan)
    other = SMALL.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    made = synthesis.fit(
        other,
        Vault(rows(), Ledger(tmp_path / "b.ledger", UNIT, epsilon=8.0, delta=DELTA, composition=SUM)),
    ).value
    vault.next_step(run, run.plan.parts()[0].name)
    hub.save(vault.release(run, made, label=plan.label()), tmp_path / "model")
    with pytest.raises(CertificateError, match="another plan"):
        hub.load(tmp_path / "model")


def test_the_judge_finds_the_closer_synthesizer() -> None:
    """Where the noise is small, a trained network is chosen, not one that learned nothing."""
    trained = dataclasses.replace(SMALL, steps=300, learning_rate=5e-3)
    idle = dataclasses.replace(SMALL, learning_rate=1e-9)

    def fitted(plan: synthesis.TransitionsPlan, folder: Path) -> Any:
        priced = plans.account(dataclasses.replace(plan, noise_multiplier=0.3), unit=UNIT, delta=DELTA)
        return synthesis.fit(
            priced, Vault(rows(), Ledger(folder, UNIT, epsilon=1e6, delta=DELTA, composition=SUM))
        ).value

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        values = [fitted(plan, Path(folder) / f"{i}.ledger") for i, plan in enumerate((idle, trained))]
        judge = plan_of(SMALL).judge
        judge = plans.calibrate(judge, unit=UNIT, epsilon=2.0, delta=DELTA)
        scores = []
        for i, value in enumerate(values):
            ledger = Ledger(Path(folder) / f"judge{i}.ledger", UNIT, epsilon=2.0, delta=DELTA, composition=SUM)
            scores.append(synthesis.Closeness(rows=2_000)(value, judge, Vault(rows(), ledger)))
    assert scores[0] < scores[1] < 0


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"judge_share": 0.0}, "judge_share"), ({"stop": 1}, "stop"), ({"law": "poisson"}, "law")],
)
def test_parameters_out_of_range_are_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(PlanError, match=word):
        selection.SelectionPlan(candidates=(SMALL,), **fields)


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="no plan"):
        selection.SelectionPlan(candidates=("synthesis",))
    with pytest.raises(PlanError, match="no plan"):
        selection.SelectionPlan(candidates=())


def test_a_candidate_for_another_unit_is_refused() -> None:
    other = Unit("person", "add_or_remove", 4_000)
    with pytest.raises(PlanError, match="unit"):
        dataclasses.replace(CALIBRATED(), promise=Promise(other, 1.0, DELTA))
