"""The whole of PATE-GAN and PrePATE-GAN on small simulated data: what they learn, owe, keep and refuse."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, PlanError, PlanExhausted, TacitError
from tacit.evaluation.fidelity import fidelity
from tacit.methods.synthesis.baselines import pate_gan
from tacit.methods.synthesis.baselines.pate_gan import (
    GanPretraining,
    GanSynthesizer,
    PateGanPlan,
    RealRows,
    build,
    waves,
)
from tacit.methods.synthesis.encoding import Encoder
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

LAYOUT = LAYOUTS["open"]
SPEC = maze.spec(LAYOUT)
UNIT = Unit("transition", "add_or_remove", 20_000)
COLUMNS = maze.collect(LAYOUT, 20_000, agents=100, seed=3)
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations")
ENCODER = Encoder.from_bounds(SPEC)
NARROW = PublicSpec(
    Box((-1.0,), (1.0,)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared", terminals=False, difference=(0.1,)
)
PRETRAINING = GanPretraining(provenance="simulated", steps=20, batch=64)


def vault_of(
    folder: Path,
    columns: Mapping[str, np.ndarray],
    spec: PublicSpec = SPEC,
    name: str = "run",
    noise: SecretNoise | None = None,
) -> Vault:
    data = Trajectories.from_arrays(
        **{field: columns[field] for field in FIELDS}, unit_ids=":transition", spec=spec, simulated=True
    )
    return Vault(
        data,
        Ledger(folder / f"{name}.ledger", UNIT, epsilon=60.0, delta=4e-5, composition=SUM),
        noise=noise,
    )


def plan_of(*, epsilon: float = 8.0, **fields: Any) -> PateGanPlan:
    small = {"steps": 8, "queries": 32, "teachers": 20, "width": 32, "student_width": 32, "opponents": 64, "hold": 0}
    return PateGanPlan(**{**small, **fields}).calibrate(unit=UNIT, epsilon=epsilon, delta=1e-5)


def narrow_rows(count: int = 5_000) -> dict[str, np.ndarray]:
    """Rows that fill a small part of the bounds of `NARROW`."""
    rng = np.random.default_rng(0)
    columns = {
        "observations": rng.normal(0.6, 0.1, (count, 1)).clip(-1, 0.95),
        "actions": rng.normal(-0.5, 0.2, (count, 1)).clip(-1, 1),
        "rewards": rng.uniform(0.0, 0.3, count),
    }
    columns["next_observations"] = columns["observations"] + 0.05
    rows = {name: column.astype(np.float32) for name, column in columns.items()}
    return {**rows, "terminations": np.zeros(count, bool)}


def gain(value: GanSynthesizer, real: Mapping[str, np.ndarray]) -> float:
    """By how much Marginal is above that of a generator with random weights."""
    learned, before = (fidelity(real, one.sample_columns(2_000, seed=0)).marginal for one in (value, untrained(value)))
    return learned - before


def untrained(value: GanSynthesizer) -> GanSynthesizer:
    """The same with the random weights that training began with."""
    return dataclasses.replace(value, weights=dict(build(value.plan, value.encoder, seed=0)[0].named_parameters()))


def off(value: GanSynthesizer, real: Mapping[str, np.ndarray]) -> float:
    """How far the means of its columns are from those of the real rows, added up."""
    columns = value.sample_columns(2_000, seed=0)
    return sum(abs(float(columns[name].mean() - real[name].mean())) for name in ("observations", "actions", "rewards"))


def test_it_learns(tmp_path: Path) -> None:
    rates = {"teacher_rate": 1e-2, "student_rate": 3e-3, "generator_rate": 1e-2}
    plan = plan_of(steps=120, teachers=200, teacher_width=16, generator_batch=64, ema=0.9, **rates)
    real = narrow_rows()
    release = pate_gan.fit(plan, vault_of(tmp_path, real, NARROW, noise=SecretNoise.for_tests(0)))
    assert off(release.value, real) < 0.75 * off(untrained(release.value), real)


def test_it_keeps_its_promise(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    release = pate_gan.fit(plan_of(), vault_of(tmp_path, narrow_rows(), NARROW), progress=lambda *of: done.append(of))
    assert release.certificate.verify().epsilon <= 8.0
    assert any("random weights" in line for line in release.certificate.lines("not_covered"))
    assert done == [(step, 8) for step in range(1, 9)]


def test_all_it_knows_of_the_records_are_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def votes(self: Vault, run: Any, part: str, encode: Any, generated: Any, *, against: Any) -> torch.Tensor:
        assert not generated.requires_grad
        assert len(against) == 64
        return generated[:, 0].sigmoid()

    monkeypatch.setattr(Vault, "teacher_votes", votes)
    monkeypatch.setattr(Vault, "release", lambda self, run, value, *, label: value)
    other = {name: column[::-1].copy() for name, column in COLUMNS.items() if name in FIELDS}
    one, same = (pate_gan.fit(plan_of(), vault_of(tmp_path, c, name=n)) for c, n in ((COLUMNS, "a"), (other, "b")))
    seeded = pate_gan.fit(plan_of(), vault_of(tmp_path, other, name="c"), seed=1)
    for name, value in one.weights.items():  # type: ignore[attr-defined]
        assert torch.equal(value, same.weights[name])  # type: ignore[attr-defined]
    assert any(not torch.equal(v, seeded.weights[n]) for n, v in one.weights.items())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("labels", "expected"), [("shares", {0.4, 1.3, -0.2}), ("majority", {0.0, 1.0})])
def test_labels_are_shares_or_majorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str, expected: set[float]
) -> None:
    seen: set[float] = set()
    shares, loss = torch.tensor([0.4, 1.3, -0.2] * 11)[:32], pate_gan.student_loss

    def watched(student: Any, rows: torch.Tensor, labels: torch.Tensor, *, penalty: float) -> torch.Tensor:
        seen.update(labels.round(decimals=4).tolist())
        assert torch.isfinite(rows).all()
        return loss(student, rows, labels, penalty=penalty)

    monkeypatch.setattr(Vault, "teacher_votes", lambda *_, **__: shares)
    monkeypatch.setattr(Vault, "release", lambda self, run, value, *, label: value)
    monkeypatch.setattr(pate_gan, "student_loss", watched)
    pate_gan.fit(plan_of(labels=labels), vault_of(tmp_path, COLUMNS))
    assert {round(label, 4) for label in seen} == expected


def test_a_plan_is_run_once(tmp_path: Path) -> None:
    vault, plan = vault_of(tmp_path, COLUMNS), plan_of()
    pate_gan.fit(plan, vault)
    with pytest.raises(PlanExhausted):
        pate_gan.fit(plan, vault)

    def stop(step: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pate_gan.fit(plan_of(steps=9), vault, progress=stop)
    with pytest.raises(PlanExhausted):
        pate_gan.fit(plan_of(steps=9), vault)


def test_pretraining_learns_public_rows_and_is_kept(tmp_path: Path) -> None:
    config = dataclasses.replace(PRETRAINING, steps=100, learning_rate=1e-2)
    plan = plan_of(pretraining=config, hold=7)
    real, losses = narrow_rows(), []
    start = pate_gan.pretrain_gan(
        plan, Encoder.from_bounds(NARROW), real, seed=0, progress=lambda *step: losses.append(step[2])
    )
    assert len(losses) == 100
    release = pate_gan.fit(plan, vault_of(tmp_path, real, NARROW), pretrained=start)
    for name, value in release.value.weights.items():
        torch.testing.assert_close(value, start.generator[name], atol=1e-3, rtol=0)
    assert gain(release.value, real) > 0.3
    assert any("simulated" in line for line in release.certificate.lines("not_covered"))


def test_pretraining_is_the_one_declared(tmp_path: Path) -> None:
    vault, plan = vault_of(tmp_path, COLUMNS), plan_of(pretraining=PRETRAINING)
    start = pate_gan.pretrain_gan(plan, ENCODER, COLUMNS, seed=0)
    with pytest.raises(PlanError, match="not the pre-training"):
        pate_gan.fit(plan, vault)
    with pytest.raises(PlanError, match="not the pre-training"):
        pate_gan.fit(plan_of(), vault, pretrained=start)
    with pytest.raises(PlanError, match="another network"):
        pate_gan.fit(dataclasses.replace(plan, student_width=16), vault, pretrained=start)
    other = dataclasses.replace(SPEC, difference=(1.0, 1.0, 1.0, 1.0))
    with pytest.raises(PlanError, match="other public bounds"):
        pate_gan.fit(plan, vault_of(tmp_path, COLUMNS, other, "other"), pretrained=start)
    with pytest.raises(DataError, match="does not pre-train"):
        pate_gan.pretrain_gan(plan_of(), ENCODER, COLUMNS, seed=0)
    assert vault.ledger.spent()[0] == 0.0


def test_categories_terminals_and_a_constant_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spec = PublicSpec(Box((-1.0, 0.0), (1.0, 4.0)), Discrete(3), Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.1))
    observations = np.stack([rng.uniform(-1, 1, 500), np.full(500, 2.0)], 1).astype(np.float32)
    columns = {
        "observations": observations,
        "actions": rng.integers(3, size=500),
        "rewards": rng.random(500).astype(np.float32),
        "next_observations": observations,
        "terminations": rng.random(500) < 0.1,
    }
    value = pate_gan.fit(plan_of(harmonics=1), vault_of(tmp_path, columns, spec)).value
    rows = value.sample_columns(300, seed=0)
    assert {rows[name].shape for name in ("actions", "rewards", "terminations", "truncations")} == {(300,)}
    assert rows["actions"].dtype == np.int64
    assert rows["terminations"].dtype == bool
    assert rows["observations"].shape == rows["next_observations"].shape == (300, 2)
    sampled = value.sample(50, seed=3)
    assert sampled.simulated
    assert len(sampled.columns["rewards"]) == 50


def test_teachers_see_rows_as_the_generator_makes_them() -> None:
    rows = {name: COLUMNS[name][:7, None] for name in FIELDS} | {"mask": np.ones((7, 1), bool)}
    seen = RealRows(ENCODER, 1)({**rows, "replicate": np.zeros(7, np.int64)}, None)
    own = {name: torch.from_numpy(COLUMNS[name][:7]) for name in FIELDS}
    encoded = ENCODER.encode(own, torch.zeros(7, ENCODER.bounded_size))
    np.testing.assert_array_equal(seen, waves(encoded, 1).numpy())


def test_a_value_survives_saving() -> None:
    plan, encoder = plan_of(pretraining=PRETRAINING), Encoder.from_public(SPEC, COLUMNS)
    start = pate_gan.pretrain_gan(plan, encoder, COLUMNS, seed=0)
    value = GanSynthesizer(plan, encoder, start.generator)
    fields, arrays = json.loads(json.dumps([public_fields(plan), value.to_json()])), value.arrays()
    again = GanSynthesizer.from_saved(*fields, arrays)
    assert again.plan == plan
    one, same = value.sample_columns(50, seed=1), again.sample_columns(50, seed=1)
    assert all(np.array_equal(one[name], same[name]) for name in one)
    name = next(iter(arrays))
    for wrong in (arrays[name][:1], arrays[name] * np.nan, arrays[name].astype(np.float64)):
        with pytest.raises(ValueError, match="finite float32"):
            GanSynthesizer.from_saved(*fields, {**arrays, name: wrong})
    with pytest.raises(ValueError, match="finite float32"):
        GanSynthesizer.from_saved(*fields, {})
    with pytest.raises(TacitError):
        GanSynthesizer.from_saved({**fields[0], "width": 0}, fields[1], arrays)


def test_the_papers_setting_runs(tmp_path: Path) -> None:
    plan = dataclasses.replace(PateGanPlan.paper(), steps=3).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    assert (plan.teachers, plan.labels, plan.width, plan.depth) == (15, "majority", 141, 3)
    rows = pate_gan.fit(plan, vault_of(tmp_path, COLUMNS)).value.sample_columns(10, seed=0)
    assert all(np.isfinite(column).all() for column in rows.values())
