"""Tables of `mobility_frontier`.

Nothing is run: an entry that misses a seed is left blank, a dash says that it is not part of the experiment. "±" is
half of the 95 % t-interval of the mean over seeds, which are noise seeds: the days are the same. Divergences are in
nats; the floor is what a perfect simulator would have, and halves of the people are further apart than that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib.experiment import BLANK, NONE, Store, grid, markdown
from experiments.lib.tables import kept, level
from experiments.pategail import mobility_ablation, mobility_allocation, mobility_neural, mobility_noise
from experiments.pategail import mobility_frontier as frontier
from experiments.pategail.mobility_runs import GEOLIFE
from tacit.evaluation.report.tables import t_interval

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

QUOTED = {  # figures of the paper on Geolife, on another split of the people: the order of `SHOWN["reference"]`
    "PateGAIL++ without noise": ("0.0699", "0.1046", "0.0130", "0.0256", "0.0176"),
    "GAN": ("0.6931", "0.5795", "0.3191", "1.0000", "1.0000"),
    "SeqGAN": ("0.0757", "0.0881", "0.0115", "0.0752", "0.0329"),
    "Time-Geo": ("0.0544", "0.4955", "0.4116", "0.1515", "0.1461"),
    "MoveSim": ("0.0311", "0.0293", "0.0058", "0.0387", "0.0173"),
    "DiffTraj": ("0.0105", "0.3792", "0.0087", "0.0501", "0.0576"),
    "PATEGAIL, noise 0.1": (NONE, "0.6915", NONE, "0.0512", "0.2698"),
    "PateGAIL++, noise 0.1": (NONE, "0.4914", NONE, "0.0278", "0.0607"),
}
PAPERS = {name: ("reference", name) for name in SHOWN["reference"]}
"""The papers' five measures with the papers' bins, which were made for Geolife's extent of 20 degrees."""
REAL = {"perfect": "a perfect simulator (the floor)", "floor": "halves of the people (no floor)"}
NOISE = {"free": "no noise, days begin where the test days do"}
ALLOCATIONS = {
    f"{name}/{epsilon}": f"{words}, epsilon {epsilon}"
    for epsilon in ("10", "2")
    for name, words in {
        "uniform": "even noise",
        "paper": "noise by sensitivity",
        "mirrored": "noise by sensitivity, mirrored",
        "utility": "noise by use",
        "noise": "noise alone",
    }.items()
}
NEURAL = {"likelihood": "MoveSim, small, likelihood alone", "adversarial": "MoveSim, small"}
CRITICS = {
    **{f"penalty {weight}/inf": f"gradient penalty {weight}, no noise" for weight in (0, 1, 5, 10, 15, 20)},
    "spectral norm/inf": "spectral norm, no noise",
    "cross-entropy/inf": "cross-entropy critic (PATEGAIL), no noise",
    "80 % of the people/inf": "80 % of the people, no noise",
    "40 % of the people/inf": "40 % of the people, no noise",
    "silent/inf": "rewards that are zero",
    "recipe/10": "the recipe, epsilon 10",
    "40 % of the people/10": "40 % of the people, epsilon 10",
    "local/10": "noise by every device, epsilon 10",
}


def values(results: Store, people: int, row: str, epsilon: float, metrics: str, name: str) -> list[float] | None:
    """One measure over seeds; empty where the row is not run, None where one is missing."""
    seeds = frontier.seeds_of(people, row, epsilon)
    if any(kept(results, frontier.key(people, row, epsilon, seed)) is None for seed in seeds):
        return None
    return frontier.column(results, people, row, epsilon, metrics, name)


def averaged(results: Store, people: int, row: str, epsilon: float, names: Sequence[str]) -> np.ndarray:
    """The mean of measures of the order of a day over seeds; empty where the row is not run or a seed is missing."""
    found = [values(results, people, row, epsilon, "sequence", name) for name in names]
    return np.mean([one for one in found if one], axis=0) if all(found) else np.array([])


def shown(found: list[float] | None) -> str:
    """A cell of a table: mean, half of its interval and the worst seed."""
    if not found:
        return BLANK if found is None else NONE
    mean, low, _ = t_interval(found)
    return f"{mean:.4f} ± {mean - low:.4f} (worst {max(found):.3f})"


def by_epsilon(results: Store, people: int, metrics: str = "sequence", name: str = "SEQ") -> str:
    rows = {words: row for row, words in WORDS.items()}
    heads = {level(epsilon): epsilon for epsilon in frontier.EPSILONS}
    return grid(heads, rows, lambda row, epsilon: shown(values(results, people, row, epsilon, metrics, name)))


def by_measure(results: Store, people: int, epsilon: float, metrics: str) -> str:
    """Rows by measure at one epsilon, each beside itself without noise; the last column is the mean of `UNRELEASED`."""
    names = SHOWN.get(metrics) or tuple(_floor(results, people)[metrics])
    more = (frontier.UNRELEASED,) if metrics == "sequence" else ()
    groups = (*((name,) for name in names), *more)
    perfect = kept(results, f"{people}/perfect") or {}
    rows = []
    for words, one in (
        (REAL["perfect"], perfect.get(metrics, {})),
        (REAL["floor"], _floor(results, people).get(metrics, {})),
    ):
        known = (np.mean([one[name] for name in group]) if group[0] in one else None for group in groups)
        rows.append([words, *(BLANK if value is None else f"{value:.4f}" for value in known)])
    for row, words in WORDS.items():
        for noise in (epsilon, np.inf):
            seeds = [[values(results, people, row, noise, metrics, name) for name in group] for group in groups]
            cells = [NONE if [] in one else BLANK if None in one else f"{np.mean(one):.4f}" for one in seeds]
            if noise == epsilon or NONE not in cells:
                rows.append([words if noise == epsilon else f"{words}, no noise", *cells])
    return markdown([*names, *("not released" for _ in more)], rows)


def reference(results: Store, people: int) -> str:
    """The papers' five measures, a line for every row and epsilon that is run, the published figures first.

    Of Geolife with the papers' bins, and beside them those with public ones that differ; of the city with public bins.
    """
    geolife = people == GEOLIFE
    public = {f"{name}, public bins" if geolife else name: place for name, place in frontier.PUBLIC.items()}
    kept_bins = {name: place for name, place in public.items() if not geolife or place[0] == "robust"}
    columns = (PAPERS if geolife else {}) | kept_bins
    rows = [[f"{words}, quoted", *figures, *[NONE] * len(kept_bins)] for words, figures in QUOTED.items() if geolife]
    for row, words in REAL.items():
        found = kept(results, f"{people}/{row}")
        rows.append([words, *_cells(columns, [found["halves"] if row == "floor" else found] if found else None)])
    if geolife:
        for phase, words in NEURAL.items():
            neural = mobility_neural.store()
            keys = [f"{people}/{phase}/{seed}" for seed in mobility_neural.SEEDS[people]]
            rows.append([f"{words}, epsilon infinite", *_cells(columns, [neural.values(key) for key in keys])])
    for row, words in WORDS.items():
        for epsilon in frontier.EPSILONS:
            keys = [frontier.key(people, row, epsilon, seed) for seed in frontier.seeds_of(people, row, epsilon)]
            if keys:
                there = [results.values(key) for key in keys] if all(results.has(key) for key in keys) else None
                promise = "epsilon infinite" if np.isinf(epsilon) else f"epsilon {epsilon:g}"
                rows.append([f"{words}, {promise}", *_cells(columns, there)])
    return markdown(list(columns), rows)


def published() -> str:
    """PATEGAIL and PateGAIL++ as published, with the epsilon of their rewards: means over seeds."""
    results, geolife, city = mobility_noise.store(), list(PAPERS), list(frontier.PUBLIC)
    blocks = []
    for people, ways in mobility_noise.RUNS.items():
        columns, rows = (PAPERS if people == GEOLIFE else frontier.PUBLIC), []
        for way, scales in ways.items():
            for scale in scales:
                keys = [mobility_noise.run_key(people, way, scale, seed) for seed in mobility_noise.RUN_SEEDS[people]]
                values = [results.values(key) for key in keys]
                spent = float(values[0]["rewards"])
                epsilon = "infinite" if np.isinf(spent) else f"{spent:,.0f}" if spent >= 20 else f"{spent:.1f}"
                seq = f"{np.mean([one['sequence']['SEQ'] for one in values]):.4f}"
                rows.append([f"{way}, noise {scale:g}", epsilon, *_cells(columns, values), seq])
        heads = ["epsilon of the rewards", *(geolife if people == GEOLIFE else city), "SEQ"]
        where = TITLES.get(people, f"City, {people:,} people")
        seeds = len(mobility_noise.RUN_SEEDS[people])
        blocks.append(f"{where}, {seeds} seed{'s' if seeds > 1 else ''}\n\n{markdown(heads, rows)}")
    return "\n\n".join(blocks)


def _cells(columns: Mapping[str, tuple[str, str]], rows: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """The means over rows, a measure each; blank where rows are missing."""
    if rows is None:
        return [BLANK] * len(columns)
    return [f"{np.mean([row[metrics][name] for row in rows]):.4f}" for metrics, name in columns.values()]


def recipes() -> str:
    """The same of PateGAIL++ on Geolife with other noise, allocations and critics: means over seeds."""
    columns = {**PAPERS, "SEQ": ("sequence", "SEQ")}
    rows = []
    for module, said in ((mobility_noise, NOISE), (mobility_allocation, ALLOCATIONS), (mobility_ablation, CRITICS)):
        results = module.store()
        for group, words in said.items():
            keys = [key for key in module.rows() if key.rpartition("/")[0] == group]
            rows.append([words, *_cells(columns, [results.values(key) for key in keys])])
    return markdown(list(columns), rows)


def _floor(results: Store, people: int) -> dict[str, dict[str, float]]:
    found = kept(results, f"{people}/floor")
    return {} if found is None else found["halves"]
