"""Table XIII of PrivORL, TrajScore, and what it does not see: how close every table of people is to the real one.

A cell is one table of `table2_trajectories`. Of whole trajectories: precision, recall and F1 in the codes of an
autoencoder of public trajectories, with ceiling and floor, the paper's figure (`mean_cosine`), and errors along the
trajectories and at their seams. Matching fits what Marginal measures, so that none stands alone.
"""

import functools
import math
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, store_of
from experiments.lib.table_cache import defaults, rows_of
from experiments.lib.two_samples import two_sample_test
from experiments.privorl.parts import trajectory_ways as ways
from experiments.privorl.parts.synthesis_ways import FULL, Scale
from experiments.privorl.parts.trajectory_domains import DOMAINS, People
from experiments.privorl.table2_trajectories import FEWER, OWN, SEEDS, TRANSITIONS, tables
from experiments.privorl.table3_fidelity import STRANGER, repeated
from tacit.evaluation.fidelity import ceiling, fidelity
from tacit.evaluation.report.tables import TRAJSCORE_STEPS
from tacit.evaluation.sequences import Sequences
from tacit.evaluation.trajscore import TrajectoryEncoder, train_encoder, traj_score

WORDS = "Plan.for_people of trajectories and of transitions; the autoencoder's defaults"
MEASURED = 100_000  # rows of a table whose errors against the simulator are taken
Table = tuple[str, str, float, int]


def rows() -> list[str]:
    return [ways.key(*one) for one in wanted()]


def configuration(key: str, *, scale: Scale = FULL) -> dict[str, Json]:
    domain, way, epsilon, _ = key.split("/")
    settings = defaults(two_sample_test) | classifier(scale)
    return ways.configuration(DOMAINS[domain], way, float(epsilon), scale) | {
        "classifier": {name: one for name, one in settings.items() if not name.endswith("groups")},
        "encoder": defaults(train_encoder) | autoencoder(DOMAINS[domain], scale),
        "trajscore": defaults(traj_score),
        "measured": MEASURED,
    }


store = store_of(__file__, configuration, WORDS)


def run_row(key: str, results: Store) -> None:
    domain, way, epsilon, word = key.split("/")
    here, seed = DOMAINS[domain], int(word)
    values = measured(here, way, float(epsilon), seed, FULL)
    dataset = f"simulated {domain}, {here.population} people, seed {seed}; table {way}"
    results.put(key, dataset=dataset, seed=seed, values=values)


def wanted() -> list[Table]:
    return [(domain, way, epsilon, seed) for seed in SEEDS for domain in DOMAINS for way, epsilon in tables(domain)]


def measured(here: People, way: str, epsilon: float, seed: int, scale: Scale) -> dict[str, float]:
    """Everything about one table; for the real one, another set of people in the place of the synthetic ones."""
    made, people = ways.table(here, way, epsilon, seed, scale), here.people(seed)
    real, rows = rows_of(people.columns), made.columns
    if way == "real":
        close, rows = ceiling(real, seed=seed), rows_of(here.people(STRANGER + seed).columns)
    else:
        close = fidelity(real, rows)
    told = two_sample_test(
        real,
        rows,
        real_groups=owners(people.episodes),
        synthetic_groups=groups(made, rows),
        **classifier(scale),
        seed=seed,
    ).accuracy.value
    some = {name: column[:MEASURED] for name, column in rows.items()}
    found = {"marginal": close.marginal, "correlation": close.correlation, "told_apart": told, **here.errors(some)}
    if made.sequences is not None and way != "real":
        found |= along(here, made.sequences, Sequences.of(people), seed, scale)
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def classifier(scale: Scale) -> dict[str, int]:
    """In which settings the classifier may differ from the default ones."""
    return {"steps": 100 if scale.quick else 2_000}


def autoencoder(here: People, scale: Scale) -> dict[str, int]:
    return {
        "horizon": here.longest,
        "stride": -(-here.longest // TRAJSCORE_STEPS),
        "steps": 50 if scale.quick else 1_000,
    }


def owners(episodes: np.ndarray) -> np.ndarray:
    """[T] the trajectory of each row: a classifier must not see one of them on both sides."""
    return np.repeat(np.arange(len(episodes) - 1), np.diff(episodes))


def groups(made: ways.Table, rows: dict[str, np.ndarray]) -> np.ndarray | None:
    """[T] of each row, the same number for rows of trajectories that weighting repeats."""
    if made.sequences is None:
        return repeated(rows)
    if made.columns is not rows:
        return None
    first = made.sequences.episodes[:-1]
    alike = repeated({name: column[first] for name, column in rows.items()})
    return np.repeat(alike, made.sequences.lengths)


def along(here: People, synthetic: Sequences, real: Sequences, seed: int, scale: Scale) -> dict[str, float]:
    """TrajScore with its ceiling and floor, and errors along trajectories."""
    score = traj_score(encoder(here, seed, scale), real, synthetic, seed=seed)
    found: dict[str, Any] = {
        f"{name}_{what}" if what else name: getattr(one, name)
        for what, one in (("", score.synthetic), ("ceiling", score.ceiling), ("floor", score.floor))
        for name in ("precision", "recall", "f1", "mean_cosine")
    }
    return found | here.errors_along(synthetic)


@functools.lru_cache(maxsize=2)
def encoder(here: People, seed: int, scale: Scale) -> TrajectoryEncoder:
    """Trained on public trajectories alone."""
    public = Sequences.of(here.public(seed))
    return train_encoder(public, **autoencoder(here, scale), seed=seed)


def column(results: Store, domain: str, way: str, epsilon: float, name: str) -> np.ndarray:
    """One measure of a way's tables, over seeds; empty where it has no such measure or is no part of the experiment."""
    if (way, epsilon) not in tables(domain):
        return np.zeros(0)
    found = [results.values(ways.key(domain, way, epsilon, seed)) for seed in SEEDS]
    return np.array([one[name] for one in found if name in one])


def figures() -> Figures:
    results = store()
    for domain, epsilon, bound in (("umaze", 10.0, 0.97), ("umaze", 1.0, 0.94), (FEWER, 10.0, 0.94)):
        value = column(results, domain, TRANSITIONS, epsilon, "marginal").mean()
        yield at_least(f"{domain}, epsilon {epsilon:g}: Marginal of transitions with matching", value, bound)
    for domain in (name for name in DOMAINS if name != FEWER):
        own, best = (column(results, domain, OWN, 10.0, name).mean() for name in ("f1", "f1_ceiling"))
        yield at_least(f"{domain}, epsilon 10: TrajScore F1 of tacit-j over its ceiling", own / best, 0.90)


if __name__ == "__main__":
    command_line(__file__)
