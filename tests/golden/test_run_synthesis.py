"""Golden runs of the synthesis of transitions: tacit's own way, its ablations, the baselines and private selection."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import runs
from tests.golden.runs import TRAINED, Numbers, Run

from tacit import Box, Discrete, PublicSpec, Trajectories, Unit, selection, synthesis
from tacit.data import Column
from tacit.data.spec import space_of
from tacit.methods.synthesis import structured
from tacit.methods.synthesis.ablations import ablation, pretrained_synthesizer, with_curiosity
from tacit.methods.synthesis.baselines import aim, matching_alone, mst, pate_gan, pgm, privsyn
from tacit.methods.synthesis.baselines.pate_gan import pretrain_gan
from tacit.methods.synthesis.baselines.pate_gan_plan import GanPretraining, PateGanPlan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.people import PeoplePlan
from tacit.methods.synthesis.people import fit as people_fit

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # programs this small cost more to compile than to run

AREA = "synthesis"
UNIT = Unit("transition", "add_or_remove", 4_000)
PROMISE: dict[str, Any] = {"unit": UNIT, "epsilon": 8.0, "delta": 1e-5}
SPEC = PublicSpec(
    Box((-1.0, -1.0), (1.0, 1.0)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared", difference=(0.2, 0.2)
)
TABLE = PublicSpec(Discrete(4), Discrete(4), Box((0.0,), (1.0,)), "declared", terminals=False)
"""Columns of four values each, so that JAX compiles few programs."""
PROVENANCE = "drawn for the golden runs"
PUBLIC = synthesis.Pretraining(provenance=PROVENANCE)


def walk(seed: int, count: int = 4_000) -> dict[str, Any]:
    """Steps in the square towards the right, faster with larger actions."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-0.9, 0.6, (count, 2)).astype(np.float32)
    action = rng.uniform(-1.0, 1.0, (count, 1)).astype(np.float32)
    move = np.concatenate([0.1 + 0.1 * action, 0.05 * action], 1)
    return {
        "observations": place,
        "actions": action,
        "rewards": (0.5 + 0.5 * place[:, 0] * action[:, 0]).astype(np.float32),
        "next_observations": (place + move).astype(np.float32),
        "terminations": rng.random(count) < 0.1,
    }


def ring(seed: int, count: int = 4_000) -> dict[str, Any]:
    """Steps on a ring of four states."""
    rng = np.random.default_rng(seed)
    state = rng.choice(4, count, p=[0.4, 0.3, 0.2, 0.1])
    action = np.where(rng.random(count) < 0.7, state, rng.integers(0, 4, count))
    following = (state + action) % 4
    return {
        "observations": state,
        "actions": action,
        "rewards": (following / 4).astype(np.float32),
        "next_observations": following,
        "terminations": np.zeros(count, bool),
    }


def data(rows: dict[str, Any], spec: PublicSpec) -> Trajectories:
    return Trajectories.from_arrays(**rows, unit_ids=":transition", spec=spec, simulated=True)


def small(**changes: Any) -> synthesis.TransitionsPlan:
    """The default plan with few steps and a small network."""
    given: dict[str, Any] = {"steps": 12, "sampling_rate": 0.02, "width": 32, "depth": 2, "warmup": 3}
    return synthesis.TransitionsPlan(**{**given, **changes})


def little(**changes: Any) -> synthesis.Pretraining:
    return dataclasses.replace(PUBLIC, **{"steps": 8, "batch": 64, "warmup": 2, **changes})


def fitted(plan: synthesis.TransitionsPlan, folder: Path) -> Numbers:
    """Pre-train where the plan says so, fit, and sample."""
    start = None
    if plan.pretraining is not None:
        start = synthesis.pretrain(plan, synthesis.Encoder.from_public(SPEC, walk(7)), walk(7), seed=3)
    gradients: list[float] = []
    release = synthesis.fit(
        plan,
        runs.vault(data(walk(1), SPEC), folder, UNIT),
        pretrained=start,
        observe=lambda step, model, gradient: gradients.append(float(gradient.double().norm())),
    )
    value, found = release.value, {"noise_multiplier": plan.noise_multiplier, "gradient norms": gradients}
    if value.histograms is not None:
        found["histograms"] = runs.summary(value.histograms)
    return found | {"weights": runs.weights(value.weights)} | runs.columns(value.sample_columns(300, seed=5))


def default(folder: Path) -> Numbers:
    return fitted(small().calibrate(**PROMISE), folder)


def matching(folder: Path) -> Numbers:
    tables = synthesis.TableMatching.of(SPEC, bins=8, coarse=4, pool=2_000)
    return fitted(small(matching=tables).calibrate(**PROMISE), folder)


def pretrained(folder: Path) -> Numbers:
    return fitted(small(pretraining=little()).calibrate(**PROMISE), folder)


def appended_in_pretraining(folder: Path) -> Numbers:
    pool = synthesis.Curiosity(mode="append_pool", pool=100, sampler_steps=2)
    return fitted(small(pretraining=little(curiosity=pool)).calibrate(**PROMISE), folder)


def paper_sampler(folder: Path) -> Numbers:
    heun = dataclasses.replace(synthesis.Sampler.paper(), steps=8)
    return fitted(small(noise_multiplicity=2, sampler=heun, schedule="constant").calibrate(**PROMISE), folder)


def many_rows(folder: Path) -> Numbers:
    """People with ten rows each."""
    unit = Unit("person", "add_or_remove", 400)
    plan = synthesis.TransitionsPlan.for_people(population=400, epsilon=8.0, rows_per_unit=4)
    plan = dataclasses.replace(plan, steps=6, warmup=2, sampling_rate=0.2).calibrate(unit=unit, epsilon=8.0, delta=1e-4)
    people = Trajectories.from_arrays(**walk(1), unit_ids=np.arange(4_000) // 10, spec=SPEC, simulated=True)
    value = synthesis.fit(plan, runs.vault(people, folder, unit)).value
    return {"weights": runs.weights(value.weights)} | runs.columns(value.sample_columns(300, seed=5))


def ablated(name: Any) -> Run:
    def make(folder: Path) -> Numbers:
        plan = small(pretraining=little())
        if name == "Cur":
            plan = ablation(name, plan, **PROMISE)
            return fitted(with_curiosity(plan, synthesis.Curiosity(sampler_steps=2)).calibrate(**PROMISE), folder)
        return fitted(ablation(name, plan, **PROMISE), folder)

    return Run(make, lambda: (), TRAINED)


def ablations() -> tuple[Any, ...]:
    """What the ablations that change most are made of."""
    plan = synthesis.TransitionsPlan(pretraining=PUBLIC)
    changed = (ablation("FineCur", plan, **PROMISE), ablation("Cur", plan, **PROMISE))
    return (changed[0].curiosity, changed[1].pretraining)


def public_alone(folder: Path) -> Numbers:
    plan = small(pretraining=little())
    start = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(SPEC), walk(7), seed=3)
    return runs.columns(pretrained_synthesizer(plan, start).sample_columns(300, seed=5))


def table(module: Any, plan: Any, folder: Path) -> Numbers:
    plan = plan.calibrate(**PROMISE)
    value = module.fit(plan, runs.vault(data(ring(1), TABLE), folder, UNIT)).value
    return {"noise_multiplier": plan.noise_multiplier} | runs.columns(value.sample_columns(500, seed=5))


def graphical(module: Any, kind: Any, **changes: Any) -> Run:
    def make(folder: Path) -> Numbers:
        pytest.importorskip("mbi")
        return table(module, kind(discretisation=Discretisation(TABLE, 4), iterations=20, **changes), folder)

    return Run(make, lambda: (kind(discretisation=Discretisation(TABLE)),), TRAINED)


def gan(plan: PateGanPlan, folder: Path) -> Numbers:
    plan, start = plan.calibrate(**PROMISE), None
    if plan.pretraining is not None:
        start = pretrain_gan(plan, synthesis.Encoder.from_public(SPEC, walk(7)), walk(7), seed=3)
    value = pate_gan.fit(plan, runs.vault(data(walk(1), SPEC), folder, UNIT), pretrained=start).value
    found = {"noise_multiplier": plan.noise_multiplier, "weights": runs.weights(value.weights)}
    return found | runs.columns(value.sample_columns(300, seed=5))


def small_gan(**changes: Any) -> PateGanPlan:
    given: dict[str, Any] = {"steps": 6, "queries": 16, "teachers": 20, "width": 32, "student_width": 32, "hold": 1}
    return PateGanPlan(**{**given, "opponents": 64, **changes})


def gan_with_public_rows(folder: Path) -> Numbers:
    return gan(small_gan(pretraining=GanPretraining(provenance=PROVENANCE, steps=8, batch=64)), folder)


def paper_gan(folder: Path) -> Numbers:
    return gan(dataclasses.replace(PateGanPlan.paper(), steps=4, queries=16), folder)


def histograms_alone(folder: Path) -> Numbers:
    plan = synthesis.MatchingPlan(matching=synthesis.TableMatching.of(SPEC, bins=8, coarse=4, pool=2_000)).calibrate(
        **PROMISE
    )
    value = matching_alone.fit(plan, runs.vault(data(walk(1), SPEC), folder, UNIT)).value
    return {"histograms": runs.summary(value.histograms)} | runs.columns(value.sample_columns(300, seed=5))


HISTORY = PublicSpec(
    space_of(
        Column("sex", "category", labels=("m", "w"), static=True),
        Column("pulse", low=0, high=200, step=5, missing="flag"),
        Column("gap", "duration", low=0, high=10),
    ),
    space_of(Column("drug", "category", labels=("none", "a"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)


def whole_people(folder: Path) -> Numbers:
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(200), 1 + np.arange(200) % 5)
    last, missing = np.append(np.diff(owner) != 0, True), rng.random(len(owner)) < 0.1
    now = np.stack([owner % 2, rng.uniform(50, 150, len(owner)), missing, rng.uniform(0, 9, len(owner))], axis=1)
    following = now + np.array([0, 1, 0, 0]) * rng.normal(0, 5, (len(owner), 1))
    records = Trajectories.from_arrays(
        observations=now,
        next_observations=following,
        actions=rng.integers(0, 2, len(owner)),
        rewards=rng.random(len(owner)),
        terminations=last & (owner % 3 == 0),
        truncations=last & (owner % 3 != 0),
        unit_ids=owner,
        unit_name=UNIT.name,
        spec=HISTORY,
        simulated=True,
    )
    plan = PeoplePlan(spec=HISTORY, most=5).calibrate(**PROMISE)
    value = people_fit(plan, runs.vault(records, folder, UNIT, seed=4)).value
    return runs.columns(dict(value.sample(100, seed=5).columns))


def structured_tables(folder: Path) -> Numbers:
    worlds = [walk(7), walk(8)]
    structure = structured.choose_structure(SPEC, worlds, rows=400, multiplier=1.0)
    plan = structured.StructuredPlan(structure=structure, provenance=PROVENANCE).calibrate(**PROMISE)
    vault = runs.vault(data(walk(1), SPEC), folder, UNIT, seed=6)
    value = structured.fit(plan, vault, means=structured.public_means(structure, worlds)).value
    return {"cells": [law.size for law in value.laws]} | runs.columns(value.sample_columns(200, seed=5))


def selected(folder: Path) -> Numbers:
    judge = synthesis.MatchingPlan(matching=synthesis.TableMatching.of(SPEC, bins=8, coarse=4))
    sampler = synthesis.Sampler(steps=4)
    whole: dict[str, Any] = {"steps": 3, "sampling_rate": 1.0, "warmup": 1, "sampler": sampler, "width": 16}
    candidates = (small(**whole, learning_rate=1e-6), small(**whole))
    plan = selection.SelectionPlan(candidates=candidates, judge=judge, stop=4).calibrate(**PROMISE)
    vault = runs.vault(data(walk(1), SPEC), folder, UNIT, seed=2)
    release = selection.fit(plan, vault, attempt=synthesis.fit, judge=synthesis.Closeness(rows=200))
    sigmas = [one.noise_multiplier for one in (*plan.candidates, plan.judge)]
    return {
        "candidate": release.choice.candidate,
        "noise_multipliers": sigmas,
        "weights": runs.weights(release.value.weights),
    }


RUNS = {
    "default plan": Run(default, lambda: (synthesis.TransitionsPlan(), synthesis.fit, synthesis.pretrain), TRAINED),
    "matching": Run(matching, lambda: (synthesis.TableMatching.of(SPEC),), TRAINED),
    "pre-training": Run(pretrained, lambda: (PUBLIC,), TRAINED),
    "curiosity by appending": Run(appended_in_pretraining, lambda: (synthesis.Curiosity(),), TRAINED),
    "the paper's settings": Run(
        paper_sampler,
        lambda: (synthesis.TransitionsPlan.paper(population=800_000, provenance=PROVENANCE, epoch=100_000),),
        TRAINED,
    ),
    "plan for people": Run(
        many_rows,
        lambda: (synthesis.TransitionsPlan.for_people(population=400, epsilon=8.0, pretraining=PUBLIC),),
        TRAINED,
    ),
    **{f"ablation {name}": ablated(name) for name in ("NonPre", "NonCur", "Cur", "FineCur", "NonPriv")},
    "plan with pre-training": Run(lambda folder: {}, lambda: (synthesis.TransitionsPlan(pretraining=PUBLIC),)),
    "ablations of the default plan": Run(lambda folder: {}, ablations),
    "public rows alone": Run(public_alone, lambda: (), TRAINED),
    "whole people": Run(whole_people, lambda: (PeoplePlan(spec=HISTORY),)),
    "structured tables": Run(
        structured_tables, lambda: (structured.StructuredPlan(structure=structured.default_structure(SPEC, 400, 1.0)),)
    ),
    "MST": graphical(mst, mst.MstPlan),
    "AIM": graphical(aim, aim.AimPlan, rounds=4),
    "PGM": graphical(pgm, pgm.PgmPlan, pairs=3, triples=1),
    "PrivSyn": Run(
        lambda folder: table(
            privsyn, privsyn.PrivSynPlan(discretisation=Discretisation(TABLE, 4), records=2_000, rounds=10), folder
        ),
        lambda: (privsyn.PrivSynPlan(discretisation=Discretisation(TABLE)),),
    ),
    "PATE-GAN": Run(lambda folder: gan(small_gan(), folder), lambda: (PateGanPlan(),), TRAINED),
    "PATE-GAN after public rows": Run(gan_with_public_rows, lambda: (GanPretraining(provenance=PROVENANCE),), TRAINED),
    "PATE-GAN, the paper's settings": Run(paper_gan, lambda: (PateGanPlan.paper(),), TRAINED),
    "matching alone": Run(
        histograms_alone, lambda: (synthesis.MatchingPlan(matching=synthesis.TableMatching.of(SPEC)),)
    ),
    "private selection": Run(
        selected,
        lambda: (selection.SelectionPlan(candidates=(synthesis.TransitionsPlan(),)), synthesis.Closeness()),
        TRAINED,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_numbers(name: str, tmp_path: Path) -> None:
    runs.check_numbers(AREA, name, RUNS[name], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_default_parameters_are_the_stored_ones(name: str) -> None:
    runs.check_parameters(AREA, name, RUNS[name])


def test_every_stored_run_is_run() -> None:
    assert list(runs.stored(AREA)) == list(RUNS)


if __name__ == "__main__":
    runs.write(AREA, RUNS, sys.argv[1:])
