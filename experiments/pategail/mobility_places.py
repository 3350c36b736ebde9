"""Where people of Geolife go, with days and with people weighed alike, and what exploring by gravity changes.

A cell is one (row, epsilon, seed), as in `mobility_frontier`, on seeds that nothing else used. `gravity` is the same
release as `one_shot`, exploring by gravity, which is the default from 500 people on. `perfect` are days drawn again, of
people drawn alike for the measures that weigh people alike.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import BLANK, Json, Store, command_line, markdown, store_of
from experiments.lib.tables import kept
from experiments.pategail.mobility_runs import DRAWS, GEOLIFE, Values, World, described, generated, unit, world
from experiments.pategail.mobility_ways import WAYS, InProcess, Way, guaranteed, imitated, one_shot
from tacit.data.mobility.days import Days
from tacit.evaluation.movement import divergences

SEEDS: dict[float, tuple[int, ...]] = {2.0: tuple(range(7_200, 7_210)), math.inf: (7_200, 7_201, 7_202)}  # by epsilon
ROWS: dict[str, Way] = {
    "one_shot": WAYS["one_shot"],
    "gravity": InProcess(lambda people, epsilon: replace(one_shot(people, epsilon), exploring="gravity"), imitated),
    **{name: WAYS[name] for name in ("table", "timegeo", "markov")},
}
WORDS = {
    "one_shot": "one-shot imitation",
    "gravity": "one-shot imitation, by gravity",
    "table": "table of actions",
    "timegeo": "DP-TimeGeo",
    "markov": "DP-Markov",
}
WEIGHED: tuple[divergences.Weigh, ...] = ("people", "days")
COLUMNS = (
    ("people", "sequence", "SEQ"),
    *(("people", "robust", name) for name in ("Distance km", "Radius km", "Visits", "Slot visits", "OD")),
    *(("days", "robust", name) for name in ("Visits", "Slot visits", "OD")),
    ("days", "reference", "Radius"),
)


def configuration(key: str) -> Json:
    data: dict[str, Json] = {"data": described(GEOLIFE), "weighed": list(WEIGHED)}
    if key == "perfect":
        return data | {"draws": DRAWS}
    row, epsilon, _ = key.split("/")
    return data | guaranteed(ROWS[row].planned(GEOLIFE, float(epsilon)), unit(GEOLIFE), float(epsilon))


store = store_of(
    __file__, configuration, "defaults; whether gravity suits so few people was looked at on Geolife with other seeds"
)


def rows() -> list[str]:
    return [
        "perfect",
        *(f"{row}/{epsilon:g}/{seed}" for epsilon, seeds in SEEDS.items() for row in ROWS for seed in seeds),
    ]


def measured(here: World, days: Days, weighed: Sequence[divergences.Weigh] = WEIGHED) -> Values:
    """Every measure, by what counts alike and by set; the papers' five are against their test days, a day each."""
    found: Values = {}
    for weigh in weighed:
        sets = ("sequence", "robust") if weigh == "people" else ("sequence", "robust", "reference")
        found[weigh] = {}
        for metrics in sets:
            against = here.test if metrics == "reference" else here.judged
            values = divergences.divergences(against, days, metrics=metrics, weigh=weigh)  # type: ignore[arg-type]
            found[weigh][metrics] = {name: round(value, 6) for name, value in values.items()}
    return found


def perfect(here: World) -> Values:
    """What a simulator would make that knows every day by heart: means over draws."""
    tables: dict[divergences.Weigh, list[Values]] = {weigh: [] for weigh in WEIGHED}
    people, owner, often = np.unique(here.days.person, return_inverse=True, return_counts=True)
    for draw in range(DRAWS):
        rng, count = np.random.default_rng([draw, GEOLIFE]), len(here.days.cells)
        for weigh in WEIGHED:
            chances = 1 / often[owner] / len(people) if weigh == "people" else np.full(count, 1 / count)
            at = rng.choice(count, count, p=chances / chances.sum())
            days = Days(here.days.cells[at], np.arange(count), here.days.grid)
            tables[weigh].append(measured(here, days, (weigh,))[weigh])
    return {
        weigh: {
            metrics: {name: round(float(np.mean([one[metrics][name] for one in found])), 6) for name in values}
            for metrics, values in found[0].items()
        }
        for weigh, found in tables.items()
    }


def run_row(key: str, results: Store) -> None:
    here = world(GEOLIFE)
    if key == "perfect":
        return results.put(key, dataset=here.words, seed=0, values=perfect(here))
    row, epsilon, seed = key.split("/")
    began = time.process_time()
    (found,) = ROWS[row].simulators(here, float(epsilon), (int(seed),))
    certified: Any = found.epsilon if math.isfinite(found.epsilon) else "inf"
    values = {"certified": certified, **measured(here, generated(found.simulator, here, int(seed)))}
    results.put(key, dataset=here.words, seed=int(seed), values=values | {"seconds": time.process_time() - began})
    return None


def figures() -> Figures:
    results = store()
    for name, bound in (("OD", 0.27), ("Slot visits", 0.155)):
        values = [results.values(f"gravity/2/{seed}")["days"]["robust"][name] for seed in SEEDS[2.0]]
        words = f"Geolife, epsilon 2, by gravity: {name}"
        yield at_most(words, float(np.mean(values)), bound)


def table(results: Store) -> str:
    """Means over seeds with standard errors, every row beside itself without noise."""
    lines, real = [], kept(results, "perfect")
    lines.append(
        ["a perfect simulator (the floor)", *(BLANK if real is None else f"{real[w][m][n]:.4f}" for w, m, n in COLUMNS)]
    )
    for row, words in WORDS.items():
        for epsilon, seeds in SEEDS.items():
            found = [kept(results, f"{row}/{epsilon:g}/{seed}") for seed in seeds]
            cells = [
                BLANK if None in found else _shown([one[w][m][n] for one in found if one is not None])
                for w, m, n in COLUMNS
            ]
            lines.append([f"{words}, {'no noise' if math.isinf(epsilon) else f'epsilon {epsilon:g}'}", *cells])
    heads = [f"{name}, {'each person once' if weigh == 'people' else 'each day once'}" for weigh, _, name in COLUMNS]
    return markdown(heads, lines)


def _shown(values: list[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.4f}"


if __name__ == "__main__":
    command_line(__file__)
