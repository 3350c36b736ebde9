"""Noisy histograms of the demo's plan against one of its training steps, and what many rows of a unit cost.

Run `python -m benchmarks.histograms`. `sum_over_step`: one sum over a Poisson sample of 10,000 of 1,000,000 units, each
with one row, over one training step: noisy gradient, Adam and moving average. `read_64_over_1`: the same sum where
at most 64 rows of a unit are read, over that where one is; each unit owns one. `owned_64_over_1`: a sum over 158 units
that own 64 rows each, over one of as many rows of a unit each. `folds_us`: microseconds a unit until the halves of
200,000 units are known.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import dataclasses
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli.data import simulate
from tacit.cli.demo_maze import DELTA, FULL, LAYOUT
from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.baselines.matching_alone import MatchingPlan
from tacit.methods.synthesis.diffusion import Denoising
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import PART, TransitionsPlan
from tacit.methods.synthesis.pretraining import pretrain
from tacit.methods.synthesis.table_matching import PART as HISTOGRAMS
from tacit.methods.synthesis.table_matching import Histograms, TableMatching
from tacit.methods.synthesis.training import TrainingState
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.maze import LAYOUTS, spec

OWNED = 64
GROUPED = 158 * OWNED
FOLDED = 200_000


def of_units(columns: dict[str, np.ndarray], unit_ids: Any) -> Trajectories:
    """Simulated records of these units."""
    fields: dict[str, Any] = dict(columns)
    return Trajectories.from_arrays(**fields, unit_ids=unit_ids, spec=spec(LAYOUTS[LAYOUT]), simulated=True)


def opened(data: Trajectories, folder: Path, name: str, population: int) -> Vault:
    """A vault whose ledger pays for everything here."""
    unit = Unit("unit", "add_or_remove", population)
    return Vault(data, Ledger(folder / f"{name}.ledger", unit, epsilon=1e9, delta=9 * DELTA, composition=SUM))


def sums(vault: Vault, matching: TableMatching) -> Callable[[], object]:
    """One sum of the histograms a call."""
    plan = MatchingPlan(matching=matching, noise_multiplier=1.0).account(unit=vault.unit, delta=DELTA)
    run, contribution = vault.reserve(plan), Histograms(matching.tables)
    return lambda: vault.noisy_sum(run, HISTOGRAMS, contribution)


def steps(vault: Vault, plan: TransitionsPlan) -> Callable[[], object]:
    """One training step a call."""
    priced = dataclasses.replace(plan, noise_multiplier=1.0).account(unit=vault.unit, delta=DELTA)
    run, model = vault.reserve(priced), pretrain(priced, Encoder.from_bounds(vault.spec), None, seed=0).model(priced)
    objective = Denoising(model.encoder, priced.noise_multiplicity, priced.P_mean, priced.P_std)
    state = TrainingState(model.network, priced)

    def step() -> None:
        gradient = vault.noisy_gradient(run, PART, [model], objective)[0]
        state.update(gradient, learning_rate=priced.learning_rate)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    matching = TableMatching.plane(spec(LAYOUTS[LAYOUT]), population=FULL.population)
    of_one = dataclasses.replace(matching, rows_per_unit=1)
    everybody = dataclasses.replace(matching, sampling_rate=1.0)
    data = simulate(LAYOUT, FULL.population, seed=0)
    grouped = {name: column[:GROUPED] for name, column in data.columns.items()}
    halved = of_units({name: column[:FOLDED] for name, column in data.columns.items()}, np.arange(FOLDED))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        many = opened(of_units(grouped, np.arange(GROUPED) // OWNED), place, "many", GROUPED // OWNED)
        single = opened(of_units(grouped, np.arange(GROUPED)), place, "single", GROUPED)
        vault = opened(data, place, "demo", FULL.population)
        seconds = timing.cpu_seconds(
            {
                "step": steps(vault, FULL.plan),
                "sum": sums(vault, matching),
                "sum, a row read": sums(vault, of_one),
                "sum, 64 rows owned": sums(many, everybody),
                "sum, a row owned": sums(single, everybody),
                "folds": lambda: Reader(halved, SecretNoise()).folds("key"),
            },
            repeats=repeats,
        )
    for name, found in seconds.items():
        print(f"{name:20s}{1000 * statistics.median(found):8.2f} ms")
    timing.report(
        {
            "benchmark": "histograms",
            "sum_over_step": timing.ratio(seconds, "sum", "step"),
            "read_64_over_1": timing.ratio(seconds, "sum", "sum, a row read"),
            "owned_64_over_1": timing.ratio(seconds, "sum, 64 rows owned", "sum, a row owned"),
            "folds_us": 1e6 * statistics.median(seconds["folds"]) / FOLDED,
            "at_most": {"sum_over_step": 0.1, "read_64_over_1": 1.2, "owned_64_over_1": 1.2, "folds_us": 1.0},
            "repeats": repeats,
        }
    )


if __name__ == "__main__":
    main()
