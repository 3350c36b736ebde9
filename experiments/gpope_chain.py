"""Private values of the 40-state chain: MSPBE and RMSE of V, 100 trials each.

    python -m experiments.gpope_chain            # resumable; an hour of CPU on one core
    python -m experiments.gpope_chain --quick    # 3 trials at m = 200; written under runs/quick/
    python -m experiments.check gpope_chain      # recompute the promised figures from the raw rows

Unit: one trajectory; delta 1e-5. On-policy, tabular (39 states that are not absorbing), as in the paper (arXiv:
1902.00174, figure 1): MSPBE is that of the population, in closed form, and RMSE is over the states' exact values. Every
trial has its own data set, ledger and noise; seeds are used nowhere else. Methods: see `experiments.ope_methods`.
`zero` and `best_constant` are no estimates: the errors of the value 0 and of the best constant.

Public range of values: [0, 1], as there is one reward of 1 at the end. Hyper-parameters are the methods' defaults.
Earlier methods on the chain: `experiments.gpope_chain_baselines`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from experiments import ope_methods
from experiments.check import Figure
from experiments.ope_methods import NOT_PRIVATE, PRIVATE, Columns, Domain, Setting
from experiments.ope_trials import run
from experiments.store import RESULTS, ROOT, Store
from tacit import off_policy_evaluation as ope
from tacit.envs import chain
from tacit.envs.rollouts import uniform
from tacit.units import Relation

TRIALS = 100
FIRST_SEED = 5_000_000
UNITS, EPSILONS = (100, 300, 1_000, 3_000, 10_000), (1.0, 0.1)
RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")
SOURCES = (
    "src/tacit/methods/off_policy_evaluation/problem.py",
    "src/tacit/methods/off_policy_evaluation/features.py",
    "src/tacit/methods/off_policy_evaluation/logged.py",
    "src/tacit/methods/off_policy_evaluation/statistics.py",
    "src/tacit/methods/off_policy_evaluation/residual.py",
    "src/tacit/methods/off_policy_evaluation/residual_sums.py",
    "src/tacit/methods/off_policy_evaluation/gain.py",
    "src/tacit/methods/off_policy_evaluation/prior.py",
    "src/tacit/methods/off_policy_evaluation/scores.py",
    "src/tacit/methods/off_policy_evaluation/intervals.py",
    "src/tacit/envs/chain.py",
    "src/tacit/envs/rollouts.py",
    "src/tacit/privacy/vault.py",
    "src/tacit/privacy/reader.py",
    "src/tacit/privacy/records.py",
    "src/tacit/privacy/clipping.py",
    "src/tacit/privacy/noise.py",
    "src/tacit/privacy/account*.py",
    "experiments/ope_methods.py",
    "experiments/ope_trials.py",
    "experiments/gpope_chain.py",
)


def store(path: Path = RESULTS / "gpope_chain.json") -> Store:
    """The result file."""
    return Store(path, SOURCES, hyperparameters="the methods' defaults, chosen on other seeds and other domains")


def collect(units: int, seed: int) -> Columns:
    """Fresh trajectories of the chain."""
    return chain.collect(uniform(chain.ACTIONS), units, seed=seed)


def domain() -> Domain:
    """The chain, on-policy."""
    states = np.arange(chain.STATES - 1)
    return Domain(
        name="chain",
        spec=chain.spec(),
        problem=ope.Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0)),
        features=ope.OneHot(chain.STATES - 1),
        policy=ope.Behaviour(),
        collect=collect,
        observations=states,
        truth=chain.values(),
        value=float(chain.values().mean()),
        mspbe=chain.mspbe,
        prior=ope.Smoothness(13.0),
    )


METHODS = PRIVATE | {"residual_smooth": ope_methods.private(ope_methods.residual_smooth)}


def grid() -> list[tuple[str, Setting]]:
    """Every cell, the promised ones first."""
    promised = [Setting(1_000, e, r) for e in EPSILONS for r in RELATIONS]
    others = [Setting(m, e, r) for m in UNITS for e in EPSILONS for r in RELATIONS]
    settings = dict.fromkeys([*promised, Setting(10_000, 0.1, "add_or_remove"), *others])
    return [(name, Setting(m)) for m in UNITS for name in NOT_PRIVATE] + [(n, s) for s in settings for n in METHODS]


def mean(results: Store, name: str, setting: Setting, column: str) -> float:
    """The mean over the trials of a cell."""
    return float(np.mean(results.fresh(setting.key("chain", name))[column]))


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, out = store(), []
    promised = (
        (Setting(1_000, 1.0, "add_or_remove"), 2e-5, 0.035),
        (Setting(1_000, 1.0, "replace_one"), 6e-5, 0.06),
        (Setting(1_000, 0.1, "add_or_remove"), 1.5e-3, 0.13),
        (Setting(10_000, 0.1, "add_or_remove"), 1.5e-5, 0.03),
    )
    for setting, mspbe, rmse in promised:
        name = f"chain m={setting.units}, epsilon {setting.epsilon:g}, {setting.relation}"
        for column, bound in (("mspbe", mspbe), ("rmse", rmse)):
            value = mean(results, "residual", setting, column)
            out.append(Figure(f"{name}: {column}", value, bound, at_least=False))
    return out


def main(arguments: list[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *NOT_PRIVATE], choices=[*METHODS, *NOT_PRIVATE])
    options = parser.parse_args(arguments)
    results = store((ROOT / "runs" / "quick" if options.quick else RESULTS) / "gpope_chain.json")
    cells = [(name, setting) for name, setting in grid() if name in options.methods]
    if options.quick:
        promise = {name: (1.0, "add_or_remove") if name in METHODS else () for name in options.methods}
        cells = [(name, Setting(200, *promise[name])) for name in options.methods]
    place = domain()
    for name, setting in cells:
        method, trials = (METHODS | NOT_PRIVATE)[name], 3 if options.quick else TRIALS
        run(place, name, method, setting, range(FIRST_SEED, FIRST_SEED + trials), results)


if __name__ == "__main__":
    main(sys.argv[1:])
