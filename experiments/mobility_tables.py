"""Tables of `experiments.mobility_frontier`: `python -m experiments.mobility_tables [--people N ...] [--epsilon E]`.

Nothing is run: an entry that misses a seed is left blank, a dash says that it is not part of the experiment. "±" is
half of the 95 % t-interval of the mean over seeds, which are noise seeds: the days are the same. Divergences are in
nats; the floor is that of real people against other real people, in halves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from experiments import mobility_frontier as frontier
from experiments.dppg_tables import BLANK, NONE, kept, markdown
from experiments.mobility_runs import GEOLIFE
from experiments.store import Store
from tacit.evaluation.statistics import interval

TITLES = {GEOLIFE: "Geolife, 83 people", 1_000: "City, 1,000 people", 9_481: "City, 9,481 people"}
WORDS = {
    "one_shot": "one-shot imitation",
    "table": "table of actions",
    "epr": "DP-EPR (four numbers)",
    "timegeo": "DP-TimeGeo",
    "markov": "DP-Markov",
    "silence": "one-shot, noise alone",
    "samples": "PateGAIL++, per sample",
    "rewards": "PateGAIL++, reward table",
    "linear": "PateGAIL++, linear critic",
    "gradient": "PateGAIL++, gradients",
    "local": "PateGAIL++, local noise",
    "noise": "PateGAIL++, noise alone",
}
SHOWN = {
    "sequence": ("SEQ", "DailyLoc", "StayLen", "HomeArr", "ActSlot", "NMove", "Bigram", "Motif"),
    "reference": ("Radius", "DailyLoc", "Distance", "G-rank", "I-rank"),
}


def values(results: Store, people: int, row: str, epsilon: float, metrics: str, name: str) -> list[float] | None:
    """One measure over seeds; empty where the row is not run, None where one is missing."""
    seeds = frontier.seeds_of(people, row, epsilon)
    if any(kept(results, frontier.key(people, row, epsilon, seed)) is None for seed in seeds):
        return None
    return frontier.column(results, people, row, epsilon, metrics, name)


def shown(found: list[float] | None) -> str:
    """A cell of a table: mean, half of its interval and the worst seed."""
    if not found:
        return BLANK if found is None else NONE
    mean, low, _ = interval(found)
    return f"{mean:.4f} ± {mean - low:.4f} (worst {max(found):.3f})"


def by_epsilon(results: Store, people: int, metrics: str = "sequence", name: str = "SEQ") -> str:
    """Rows by epsilon, one measure."""
    rows = [
        [words, *(shown(values(results, people, row, epsilon, metrics, name)) for epsilon in frontier.EPSILONS)]
        for row, words in WORDS.items()
    ]
    heads = ["no noise, not private" if np.isinf(epsilon) else f"epsilon {epsilon:g}" for epsilon in frontier.EPSILONS]
    return markdown(heads, rows)


def by_measure(results: Store, people: int, epsilon: float, metrics: str) -> str:
    """Rows by measure at one epsilon, the floor first."""
    names = SHOWN.get(metrics) or tuple(_floor(results, people)[metrics])
    floor = _floor(results, people).get(metrics, {})
    rows = [["real against real people", *(f"{floor[name]:.4f}" if name in floor else BLANK for name in names)]]
    for row, words in WORDS.items():
        cells = [values(results, people, row, epsilon, metrics, name) for name in names]
        rows.append([words, *(f"{np.mean(one):.4f}" if one else BLANK if one is None else NONE for one in cells)])
    return markdown(names, rows)


def _floor(results: Store, people: int) -> dict[str, dict[str, float]]:
    found = kept(results, f"{people}/floor")
    return {} if found is None else found["halves"]


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", nargs="+", type=int, choices=frontier.PEOPLE, default=list(frontier.PEOPLE))
    parser.add_argument("--epsilon", type=float, default=2.0)
    options = parser.parse_args(arguments)
    results = frontier.store()
    for people in options.people:
        print(f"## {TITLES[people]}\n\nSEQ, the mean of seven measures of order\n\n{by_epsilon(results, people)}\n")
        for metrics in ("sequence", "reference", "robust") if _floor(results, people) else ():
            print(
                f"{metrics}, epsilon {options.epsilon:g}\n\n{by_measure(results, people, options.epsilon, metrics)}\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
