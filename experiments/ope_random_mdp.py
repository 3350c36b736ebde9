"""Off-policy values of a random process: MSPBE and RMSE of V by residual return regression, 100 trials each.

    python -m experiments.ope_random_mdp            # resumable; two minutes of CPU on one core
    python -m experiments.ope_random_mdp --quick    # 3 trials; written under runs/quick/
    python -m experiments.check ope_random_mdp      # recompute the promised figures from the raw rows

The 20-state process of `tacit.envs.random_mdp` with its own behaviour and target policies; 1,000 trajectories, each a
unit; delta 1e-5; public range of values [0, 20]. Every trial has its own data set, ledger and noise. The method's
defaults were chosen on other processes. Where noise is large MSPBE can be worse than that of the value 0 although RMSE
is better than the best constant's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from experiments.check import Figure
from experiments.ope_methods import NOT_PRIVATE, PRIVATE, Columns, Domain, Setting
from experiments.ope_trials import run
from experiments.store import RESULTS, ROOT, Store
from tacit import off_policy_evaluation as ope
from tacit.envs import random_mdp
from tacit.units import Relation

TRIALS = 100
FIRST_SEED = 5_000_000
UNITS, EPSILONS = 1_000, (1.0, 0.1)
RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")
SOURCES = (
    "src/tacit/methods/off_policy_evaluation/problem.py",
    "src/tacit/methods/off_policy_evaluation/policies.py",
    "src/tacit/methods/off_policy_evaluation/features.py",
    "src/tacit/methods/off_policy_evaluation/logged.py",
    "src/tacit/methods/off_policy_evaluation/statistics.py",
    "src/tacit/methods/off_policy_evaluation/residual.py",
    "src/tacit/methods/off_policy_evaluation/residual_sums.py",
    "src/tacit/methods/off_policy_evaluation/gain.py",
    "src/tacit/methods/off_policy_evaluation/prior.py",
    "src/tacit/methods/off_policy_evaluation/scores.py",
    "src/tacit/methods/off_policy_evaluation/intervals.py",
    "src/tacit/envs/random_mdp.py",
    "src/tacit/envs/rollouts.py",
    "src/tacit/privacy/vault.py",
    "src/tacit/privacy/reader.py",
    "src/tacit/privacy/records.py",
    "src/tacit/privacy/clipping.py",
    "src/tacit/privacy/noise.py",
    "src/tacit/privacy/account*.py",
    "experiments/ope_methods.py",
    "experiments/ope_trials.py",
    "experiments/ope_random_mdp.py",
)


def store(path: Path = RESULTS / "ope_random_mdp.json") -> Store:
    """The result file."""
    return Store(path, SOURCES, hyperparameters="the method's defaults, chosen on other seeds and other processes")


def domain() -> Domain:
    """The random process, off-policy."""
    mdp = random_mdp.random_mdp()
    values = random_mdp.values(mdp, mdp.target)

    def collect(units: int, seed: int) -> Columns:
        return random_mdp.collect(mdp, random_mdp.tabular(mdp.behaviour), units, seed=seed)

    return Domain(
        name="random_mdp",
        spec=random_mdp.spec(),
        problem=ope.Problem(gamma=random_mdp.GAMMA, horizon=random_mdp.HORIZON, return_range=(0.0, 20.0)),
        features=ope.OneHot(random_mdp.STATES),
        policy=ope.Tabular(mdp.target),
        collect=collect,
        observations=np.arange(random_mdp.STATES),
        truth=values,
        value=float(values.mean()),
        mspbe=lambda theta: random_mdp.mspbe(mdp, theta),
    )


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    setting = Setting(UNITS, 1.0, "add_or_remove")
    value = float(np.mean(store().fresh(setting.key("random_mdp", "residual"))["rmse"]))
    return [Figure("random process, off-policy, m=1000, epsilon 1: rmse", value, 0.4, at_least=False)]


def main(arguments: list[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    results = store((ROOT / "runs" / "quick" if quick else RESULTS) / "ope_random_mdp.json")
    place, seeds = domain(), range(FIRST_SEED, FIRST_SEED + (3 if quick else TRIALS))
    for name, method in NOT_PRIVATE.items():
        run(place, name, method, Setting(UNITS), seeds, results)
    for epsilon in EPSILONS:
        for relation in RELATIONS:
            for name, method in PRIVATE.items():
                run(place, name, method, Setting(UNITS, epsilon, relation), seeds, results)


if __name__ == "__main__":
    main(sys.argv[1:])
