"""How long consensus prefixes can be: threshold and length against epsilon, experts and floor, before any data.

No record is read and nothing is drawn: the figures are those that a plan prints. A cell has m experts, n_r released
prefixes and the epsilon that all of them may cost at delta 1 / (2 m), half of it for the prefixes' own deltas. For each
floor and number of actions it has the threshold of experts, also by basic composition, the longest prefix if all
experts agree, and the expected one if 100, 98 or 90 % do. A floor whose threshold is above m is left out.
"""

import functools
import itertools
from typing import Any

from scipy.optimize import brentq

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, command_line, describe
from tacit.errors import PlanError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import EpsilonDeltaEvent, SelfComposedEvent
from tacit.privacy.mechanisms import thresholds
from tacit.privacy.mechanisms.thresholds import Floor, KappaStop, PMin

EPSILONS, TRAJECTORIES, EXPERTS = (1.0, 2.0, 5.0, 7.5, 10.0), (5, 25, 100), (300, 1_000, 3_000, 10_000)
PROBABILITIES, ACTIONS, HORIZON = (0.01, 0.02, 0.05, 0.1), (2, 4), 200
AGREEMENTS = (1.0, 0.98, 0.9)
SHARE, OWN, OVERFLOW = 0.5, 0.5, 0.01
"""Delta times m, the prefixes' own part of delta, and how much of that the reserve may add."""


def key(experts: int, trajectories: int, epsilon: float) -> str:
    return f"m={experts}/n={trajectories}/epsilon={epsilon:g}"


def floors() -> dict[str, Floor]:
    """The paper's floor and the one that needs no smallest probability of an action."""
    return {f"p_min={p:g}": PMin(p) for p in PROBABILITIES} | {f"kappa={p:g}": KappaStop(p) for p in PROBABILITIES}


def trajectory_epsilon(epsilon: float, trajectories: int, experts: int) -> float:
    """The largest epsilon of one prefix for which all of them cost epsilon at delta 1 / (2 m)."""
    delta = SHARE / experts

    def excess(one: float) -> float:
        event = SelfComposedEvent(EpsilonDeltaEvent(one, OWN * delta / trajectories), trajectories)
        return accounting.epsilon(event, delta=delta, relation="add_or_remove").epsilon - epsilon

    return float(brentq(excess, epsilon / trajectories, 10 * epsilon / trajectories, xtol=1e-9))


def cell(experts: int, trajectories: int, epsilon: float) -> dict[str, Any]:
    one, delta = trajectory_epsilon(epsilon, trajectories, experts), SHARE * OWN / experts / trajectories
    reserve = thresholds.smallest_holdout(
        trajectories, experts, trajectories * one, OVERFLOW * trajectories * delta, limit=trajectories
    )
    found: dict[str, Any] = {
        "trajectory": one,
        "basic": epsilon / trajectories,
        "reserve": reserve,
        "overflow": thresholds.overflow_delta(trajectories, reserve, experts, trajectories * one),
    }
    for name, floor in floors().items():
        for actions in ACTIONS:
            row = lengths(floor, actions, experts, one, delta)
            if row is not None:
                basic = lengths(floor, actions, experts, epsilon / trajectories, delta / OWN)
                found[f"{name}/A={actions}"] = row | {"basic": None if basic is None else basic["threshold"]}
    return found


def lengths(floor: Floor, actions: int, experts: int, epsilon: float, delta: float) -> dict[str, Any] | None:
    """Threshold and lengths; None where the threshold is out of reach."""
    try:
        told = thresholds.optimise(floor, actions=actions, experts=experts, epsilon=epsilon, delta=delta)
    except PlanError:
        return None
    public = {"actions": actions, "experts": experts, "horizon": HORIZON}
    return {
        "threshold": told.threshold,
        "safe": told.safe_count,
        "longest": thresholds.longest_prefix(told, floor, **public),
        "expected": [thresholds.expected_length(told, floor, **public, agreement=share) for share in AGREEMENTS],
    }


def jobs() -> Jobs:
    common = {
        "floors": describe(floors()),
        "actions": list(ACTIONS),
        "horizon": HORIZON,
        "agreements": list(AGREEMENTS),
        "shares of delta": {"all": SHARE, "own": OWN, "overflow": OVERFLOW},
    }
    return {
        key(m, n, e): ({"experts": m, "trajectories": n, "epsilon": e, **common}, functools.partial(cell, m, n, e))
        for m, n, e in itertools.product(EXPERTS, TRAJECTORIES, EPSILONS)
    }


ROWS = Computed(__file__, jobs, "a grid, none chosen")
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row

# n_r, epsilon, then (threshold, longest) at p_min .01 and .05 with two actions, .02 with four, and threshold at kappa
# .02; for basic composition the thresholds alone; None where the threshold is out of reach. m = 3,000.
PLANNING = (
    (25, 5.0, ((833, 128), (344, 42), (537, 28), 538), (1093, 444, 700, 707)),
    (100, 5.0, ((1878, 47), (779, 26), (1212, 15), 1234), (None, 1908, 2997, None)),
    (25, 10.0, ((441, 191), (187, 54), (288, 38), 281), (None, None, None, None)),
    (5, 1.0, (None, None, None, None), (1043, 412, 658, 666)),
)


def figures() -> Figures:
    results = store()
    names = ("p_min=0.01/A=2", "p_min=0.05/A=2", "p_min=0.02/A=4", "kappa=0.02/A=2")
    for n, epsilon, planned, basics in PLANNING:
        values = results.values(key(3_000, n, epsilon))
        for name, row, basic in zip(names, planned, basics, strict=True):
            threshold, longest = row if isinstance(row, tuple) else (row, None)
            where, got = f"m 3,000, n {n}, epsilon {epsilon:g}, {name}", values[name]
            if threshold is not None:
                off = abs(got["threshold"] / threshold - 1)
                yield at_most(f"{where}: threshold off the planning table by", off, 0.01)
            if longest is not None:
                yield at_most(f"{where}: longest off by", abs(got["longest"] - longest), 2)
            if basic is not None and got["basic"] is not None:
                ratio = abs(got["basic"] / basic - 1)
                yield at_most(f"{where}: threshold by basic composition off by", ratio, 0.005)
    paper = results.values(key(3_000, 25, 10.0))
    yield at_least("m 3,000, n 25, epsilon 10, kappa 0.02: expected steps", paper["kappa=0.02/A=2"]["expected"][0], 30)
    reached = sum(isinstance(value, dict) for value in results.values(key(1_000, 100, 1.0)).values())
    yield at_most("m 1,000, n 100, epsilon 1: floors within reach", reached, 0)
    for experts in EXPERTS:
        for n in TRAJECTORIES:
            cells = [results.values(key(experts, n, epsilon)) for epsilon in EPSILONS]
            gains = [one["trajectory"] / one["basic"] for one in cells]
            yield at_least(f"m {experts:,}, n {n}: optimal over basic epsilon of a prefix", min(gains), 1.0)
            spent = max(one["overflow"] * experts for one in cells)
            yield at_most(f"m {experts:,}, n {n}: overflow times m", spent, 3e-3)


if __name__ == "__main__":
    command_line(__file__)
