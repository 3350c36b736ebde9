"""The paper's ablations: each changes one thing, and each certificate says what it costs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.methods import synthesis
from tacit.methods.synthesis.ablations import NAMES, Name, ablation, pretrained_synthesizer, with_curiosity
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

LAYOUT = LAYOUTS["open"]
UNIT = Unit("transition", "add_or_remove", 5_000)
COLUMNS = maze.collect(LAYOUT, 5_000, agents=50, seed=3)
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")
PUBLIC = synthesis.Pretraining(provenance="simulated", steps=10, batch=32, warmup=1)
PLAN = synthesis.TransitionsPlan(steps=20, sampling_rate=0.1, width=16, depth=1, warmup=2, ema=0.9, pretraining=PUBLIC)


def changed(name: Name, plan: synthesis.TransitionsPlan = PLAN) -> synthesis.TransitionsPlan:
    return ablation(name, plan, unit=UNIT, epsilon=4.0, delta=1e-5)


def difference(one: synthesis.TransitionsPlan, other: synthesis.TransitionsPlan) -> set[str]:
    fields = {field.name for field in dataclasses.fields(one)} - {"promise", "noise_multiplier"}
    return {name for name in fields if getattr(one, name) != getattr(other, name)}


def test_each_changes_one_thing() -> None:
    curiosity = with_curiosity(PLAN, synthesis.Curiosity())
    assert difference(changed("NonPre"), PLAN) == {"pretraining"}
    assert changed("NonPre").pretraining is None
    assert difference(changed("NonCur", curiosity), PLAN) == set()
    assert difference(changed("Cur"), curiosity) == set()
    assert difference(changed("FineCur"), PLAN) == {"curiosity"}
    assert difference(changed("NonPriv"), PLAN) == {"clip_norm"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "NonPriv"])
def test_all_but_one_keep_the_promise_with_the_same_noise(name: Name) -> None:
    plan = changed(name)
    expected = PLAN.calibrate(unit=UNIT, epsilon=4.0, delta=1e-5)
    assert (plan.epsilon, plan.delta, plan.noise_multiplier) == (4.0, 1e-5, expected.noise_multiplier)
    assert synthesis.TransitionsPlan.from_json(public_fields(plan)) == plan


def test_fine_tuning_meets_an_eighth_of_generated_rows() -> None:
    """16 beside batches of 128, as in the authors' code."""
    small, paper = (
        changed("FineCur").curiosity,
        synthesis.TransitionsPlan(steps=20, sampling_rate=128 / 5_000, warmup=2),
    )
    assert small is not None
    assert small.appended == 62  # of 500
    wide = changed("FineCur", paper).curiosity
    assert wide == synthesis.Curiosity(mode="append_pool", rate=0.3, pool=1_000, appended=16)


def test_without_noise_nothing_is_promised_and_nothing_is_clipped(tmp_path: Path) -> None:
    plan = changed("NonPriv", dataclasses.replace(PLAN, clip_norm=1e-3))
    assert plan.epsilon == math.inf
    data = Trajectories.from_arrays(
        **{field: COLUMNS[field] for field in FIELDS}, unit_ids=":transition", spec=maze.spec(LAYOUT), simulated=True
    )
    vault = Vault(data, Ledger(tmp_path / "run.ledger", UNIT, epsilon=4.0, delta=1e-5, composition=SUM))
    start = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(vault.spec), COLUMNS, seed=0)
    norms: list[float] = []
    release = synthesis.fit(
        plan, vault, pretrained=start, observe=lambda step, model, gradient: norms.append(gradient.norm().item())
    )
    assert len(norms) == PLAN.steps
    assert max(norms) > 0.01  # a mean of gradients that are clipped to 1e-3 could not be that long
    assert release.certificate.epsilon == math.inf
    assert vault.ledger.spent()[0] == math.inf


def test_the_control_that_saw_public_rows_alone() -> None:
    start = synthesis.pretrain(PLAN, synthesis.Encoder.from_bounds(maze.spec(LAYOUT)), COLUMNS, seed=0)
    weights = pretrained_synthesizer(PLAN, start).weights
    assert all(torch.equal(weights[name], start.average[name]) for name in start.average)


def test_bad_names_and_plans_are_refused() -> None:
    with pytest.raises(PlanError, match="NonPre, NonCur"):
        changed("NonSense")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="no pre-training"):
        changed("Cur", synthesis.TransitionsPlan())
    with pytest.raises(PlanError, match="append_pool"):
        synthesis.TransitionsPlan(curiosity=synthesis.Curiosity(mode="replace"))
