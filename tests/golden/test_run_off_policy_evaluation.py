"""Golden runs of off-policy evaluation on a short chain: every plan, the baselines, and a choice among candidates."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.gpope.gpope_step_sizes import unit_rows
from tests.golden import runs
from tests.golden.runs import Numbers, Run, variant

from tacit import Box, Discrete, PublicSpec, Trajectories, Unit
from tacit import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation.baselines import cells, lstd
from tacit.methods.off_policy_evaluation.gpope import published_epsilon, published_sigma

AREA = "off_policy_evaluation"
STATES, UNITS = 6, 200
UNIT = Unit("trajectory", "replace_one", UNITS)
SPEC = PublicSpec(Discrete(STATES), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
LINE = PublicSpec(Box((0.0,), (5.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
PROBLEM = ope.Problem(gamma=0.95, horizon=12, return_range=(0.0, 1.0))
FEATURES = ope.OneHot(STATES - 1)
WAVES = ope.Fourier(2, (0.0,), (5.0,))
TARGET = ope.Tabular(np.tile([0.3, 0.7], (STATES, 1)))
LEANING = ope.LinearQ(WAVES, np.array([[0.0, 0.4], [0.1, -0.3], [0.2, 0.1]]))
SLOW = ope.Tabular(np.tile([0.8, 0.2], (STATES, 1)))
BASE: dict[str, Any] = {"problem": PROBLEM, "features": FEATURES}


def episodes(*, line: bool = False, units: int = UNITS) -> Trajectories:
    """Walks to the last state of a chain: action 1 goes forward with probability .8, action 0 with .3."""
    rng = np.random.default_rng(11)
    rows: list[tuple[int, int, int, bool, bool, int]] = []
    for number in range(units):
        state = int(rng.integers(STATES - 1))
        for time in range(PROBLEM.horizon):
            action = int(rng.random() < 0.5)
            after = state + int(rng.random() < (0.8 if action else 0.3))
            ended = after == STATES - 1
            rows.append((state, action, after, ended, not ended and time == PROBLEM.horizon - 1, number))
            state = after
            if ended:
                break
    names = ("seen", "action", "after", "ended", "cut", "unit")
    columns: dict[str, Any] = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    if line:
        columns |= {name: columns[name].astype(np.float32)[:, None] for name in ("seen", "after")}
    return Trajectories.from_arrays(
        observations=columns["seen"],
        actions=columns["action"],
        rewards=columns["ended"].astype(np.float32),
        next_observations=columns["after"],
        terminations=columns["ended"],
        truncations=columns["cut"],
        propensities=np.full(len(rows), 0.5, np.float32),
        unit_ids=columns["unit"],
        spec=LINE if line else SPEC,
        simulated=True,
    )


def numbers(found: ope.Evaluation) -> Numbers:
    """All numbers of an evaluation."""
    result: dict[str, Any] = {"value": found.value}
    if found.interval is not None:
        result["interval"] = [found.interval.low, found.interval.high]
    if found.theta is not None:
        result["theta"] = found.theta.tolist()
    if found.difference is not None and found.difference.interval is not None:
        ends = found.difference.interval
        result["difference"] = [found.difference.value, ends.low, ends.high]
    for name, value in found.diagnostics.items():
        result[f"diagnostics {name}"] = _flat(value)
    return result


def _flat(value: Any) -> list[float]:
    """The numbers in nested diagnostics, in order."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in _flat(one)]
    if isinstance(value, list | tuple | np.ndarray):
        return [number for one in value for number in _flat(one)]
    return [] if isinstance(value, str) or value is None else [float(value)]


def evaluation(
    plan: Any,
    policy: Any = TARGET,
    *,
    epsilon: float = 1.0,
    line: bool = False,
    relation: Any = "replace_one",
    defaults: bool = False,
    **known: Any,
) -> Run:
    """A run of one plan; its parameters are stored where they are the defaults."""

    def make(folder: Path) -> Numbers:
        unit = Unit("trajectory", relation, UNITS)
        calibrated = plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-4)
        found = ope.fit(calibrated, runs.vault(episodes(line=line), folder, unit), policy, **known).value
        return {"noise_multiplier": getattr(calibrated, "noise_multiplier", None)} | dict(numbers(found))

    run = Run(make, lambda: (plan,))
    return run if defaults else variant(run)


def priced(plan: Any) -> Run:
    """A run at the plan's own noise."""

    def make(folder: Path) -> Numbers:
        known = plan.account(unit=UNIT, delta=1e-4)
        found = ope.fit(known, runs.vault(episodes(), folder, UNIT), TARGET).value
        return {"epsilon": known.epsilon} | dict(numbers(found))

    return Run(make, lambda: ())


def without_privacy(folder: Path) -> Numbers:
    rows, on_line = unit_rows(episodes(), PROBLEM), unit_rows(episodes(line=True), PROBLEM)
    return {
        "on policy": lstd(rows, PROBLEM, FEATURES, ope.Behaviour()).tolist(),
        "off policy": lstd(rows, PROBLEM, FEATURES, TARGET).tolist(),
        "on a line": lstd(on_line, PROBLEM, WAVES, ope.Behaviour()).tolist(),
    }


def chosen(folder: Path) -> Numbers:
    candidates = [ope.Candidate(name=name, policy=one) for name, one in (("slow", SLOW), ("target", TARGET))]
    candidates.append(ope.Candidate(name="as now", policy=ope.Behaviour()))
    plan = ope.PolicySelection(problem=PROBLEM, candidates=tuple(candidates), spec=SPEC)
    found = []
    for seed in range(6):  # a choice is one number: at a small epsilon several seeds tell more of its law
        vault = runs.vault(episodes(), folder, UNIT, seed=seed, name=str(seed))
        calibrated = plan.calibrate(unit=UNIT, epsilon=0.5, delta=1e-4)
        found.append(ope.selection.fit(calibrated, vault).value.index)
    mechanism: Any = calibrated.parts()[0]
    scores = mechanism.scores(dict(unit_rows(episodes(), PROBLEM)))["scores"]
    return {"choices": found, "scores": runs.summary(scores), "sums of scores": scores.sum(axis=0).tolist()}


def of_the_paper(folder: Path) -> Numbers:
    """The published formula of GPOPE's privacy, which is no bound."""
    return {
        "epsilon": published_epsilon(1_000, 1_000, 1.0, 1e-5),
        "sigma": published_sigma(1_000, 1_000, 0.357, 1e-5),
    }


def choice_defaults() -> tuple[Any, ...]:
    two = tuple(ope.Candidate(name=name, policy=one) for name, one in (("slow", SLOW), ("target", TARGET)))
    plan = ope.PolicySelection(problem=PROBLEM, candidates=two, spec=SPEC)
    return (dataclasses.replace(plan, candidates=two),)


RUNS = {
    "residual regression, on policy": evaluation(
        ope.ResidualRegression(**BASE, on_policy=True), ope.Behaviour(), relation="add_or_remove", defaults=True
    ),
    "residual regression, off policy": evaluation(ope.ResidualRegression(**BASE, on_policy=False)),
    "residual regression, smooth prior": evaluation(
        ope.ResidualRegression(**BASE, on_policy=True, prior=ope.Smoothness(2.0)), ope.Behaviour()
    ),
    "residual regression, range finder": evaluation(
        ope.ResidualRegression(**BASE, on_policy=False, range_finder=True, shares=ope.ResidualShares())
    ),
    "residual regression, on a line": evaluation(
        ope.ResidualRegression(problem=PROBLEM, features=WAVES, on_policy=False), LEANING, line=True
    ),
    "residual regression, known behaviour": evaluation(
        ope.ResidualRegression(**BASE, on_policy=False),
        behaviour=ope.BehaviourPolicy(ope.Uniform(2), source="declared"),
    ),
    "GPOPE": evaluation(ope.Gpope(**BASE), defaults=True),
    "GPOPE, Poisson samples": evaluation(
        ope.Gpope(**BASE, mode="poisson", steps=20, batch_size=20, schedule="diminishing")
    ),
    "GPOPE, the paper's sampler": evaluation(ope.Gpope(**BASE, mode="paper", steps=20, batch_size=5)),
    "GPOPE, the paper's noise": priced(ope.Gpope.paper(**BASE, population=UNITS, steps=20, epsilon=1.0, delta=1e-4)),
    "GPOPE's published formula": Run(of_the_paper, lambda: ()),
    "importance sampling": evaluation(ope.ImportanceSampling(problem=PROBLEM), defaults=True),
    "importance sampling, lower bound": evaluation(ope.ImportanceSampling(problem=PROBLEM, sides="lower")),
    "importance sampling, a difference": evaluation(
        ope.ImportanceSampling(problem=PROBLEM, following=ope.Following(share=0.2, visits=3))
    ),
    "fitted Q": evaluation(ope.FittedQ(**BASE), defaults=True),
    "doubly robust": evaluation(ope.DoublyRobust(**BASE), defaults=True),
    "overlap": evaluation(ope.OverlapPlan(problem=PROBLEM), defaults=True),
    "LSW": evaluation(ope.Lsw(**BASE), ope.Behaviour(), defaults=True),
    "LSL": evaluation(ope.Lsl(**BASE), ope.Behaviour(), defaults=True),
    "LSW, published constants, cells of a line": evaluation(
        ope.Lsw(problem=PROBLEM, features=WAVES, cells=cells((0.0,), (5.0,), 4), constants="published"),
        ope.Behaviour(),
        line=True,
    ),
    "DP-LSTD": evaluation(ope.SufficientStatistics(**BASE, clip_norm=0.5), defaults=True),
    "DP-LSTD without a value": evaluation(
        ope.SufficientStatistics(**BASE, clip_norm=0.5, value_share=0.0), ope.Behaviour()
    ),
    "default shares and prior": Run(lambda folder: {}, lambda: (ope.ResidualShares(), ope.Smoothness(2.0))),
    "LSTD without privacy": Run(without_privacy, lambda: (lstd,)),
    "selection among candidates": Run(chosen, choice_defaults),
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
