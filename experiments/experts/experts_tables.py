"""Tables and picture of `experts_table`, from its raw rows.

Nothing is run: a row is left blank where, for some seed, a cell is missing or has another configuration. "±" is half of
the 95 % t-interval of the mean over seeds; a dash says that a method cannot be run at this epsilon. Lengths of prefixes
are the mean over all released trajectories, empty ones included, and their share that is not empty. `clones_consensus`
has a table of its own: its cells are there for some seeds only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from experiments.experts import experts_table
from experiments.experts.experts_recipes import EPSILONS
from experiments.experts.experts_table import CLONED, FREE, SEEDS, key, returns
from experiments.lib.experiment import BLANK, NONE, Store, by_level, grid, markdown, spread, stacked
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from experiments.lib.tables import kept
from tacit.evaluation.report.charts import ChartAxis
from tacit.evaluation.report.tables import t_interval
from tacit_worlds.populations import Kind, Name

TITLES: dict[Name, str] = {"cart_pole": "CartPole", "acrobot": "Acrobot", "lunar_lander": "LunarLander", "hiv": "HIV"}
PRIVATE = {
    "votes": "clone votes",
    "return_weighted": "return-weighted imitation",
    "consensus_dpsgd": "consensus and DP-SGD",
    "consensus_only": "consensus alone, best n_r",
    "dpsgd_alone": "DP-SGD alone",
}
REFERENCES = {
    "cql": "CQL, not private",
    "imitation": "return-weighted imitation, not private",
    "experts": "the experts' mean",
    "noise": "noise alone, epsilon 1",
}
RANGES: dict[Name, ChartAxis] = {  # what lies below is not shown
    "cart_pole": ChartAxis("return", 0.0, 1_050.0, marks=(0, 250, 500, 750, 1_000)),
    "acrobot": ChartAxis("return", -520.0, -60.0, marks=(-500, -400, -300, -200, -100)),
    "lunar_lander": ChartAxis("return", -500.0, 300.0, marks=(-400, -200, 0, 200)),
    "hiv": ChartAxis("return", 0.0, 200.0, marks=(0, 50, 100, 150, 200)),
}


def values(results: Store, name: str, kind: str, method: str, epsilon: float | None = None) -> list[float] | None:
    """Returns over seeds; empty where the method cannot be run, None where a cell does not count."""
    if any(kept(results, key(name, kind, method, seed)) is None for seed in SEEDS):
        return None
    return returns(results, name, kind, method, epsilon)


def shown(row: list[float] | None) -> str:
    return BLANK if row is None else spread(row) if row else NONE


def table(results: Store, name: Name, kind: Kind, epsilons: Sequence[float] = EPSILONS) -> str:
    def cell(method: str, epsilon: float) -> str:
        if method in PRIVATE:
            return shown(values(results, name, kind, method, epsilon))
        return shown(values(results, name, kind, method)) if epsilon == epsilons[0] else BLANK

    return grid(by_level(epsilons), {words: method for method, words in (PRIVATE | REFERENCES).items()}, cell)


def at_one(results: Store, kind: Kind) -> str:
    rows = {f"{words}, epsilon 1": (method, 1.0) for method, words in PRIVATE.items()}
    rows |= {words: (method, None) for method, words in REFERENCES.items()}
    worlds = {title: name for name, title in TITLES.items()}
    return grid(worlds, rows, lambda row, name: shown(values(results, name, kind, *row)))


def by_epsilon(results: Store) -> str:
    """Every method at every epsilon, one table a world and kind of experts."""
    pairs = ((name, kind) for name in TITLES for kind in get_args(Kind))
    return stacked({f"{TITLES[name]}, {kind} experts": table(results, name, kind) for name, kind in pairs})


def clones(results: Store) -> str:
    """Consensus over clones that play in a public simulator, beside consensus over logs of the same seeds."""
    rows = []
    for name, title in TITLES.items():
        for kind in get_args(Kind):
            seeds = [seed for seed in SEEDS if kept(results, key(name, kind, "clones_consensus", seed)) is not None]
            cells = []
            for epsilon in CLONED:
                own, logs = (
                    [results.values(key(name, kind, method, seed))[f"{epsilon:g}"]["return"] for seed in seeds]
                    for method in ("clones_consensus", "consensus_dpsgd")
                )
                cells.append(f"{np.mean(own):.1f} ({np.mean(logs):.1f})" if seeds else NONE)
            rows.append([f"{title}, {kind}", str(len(seeds)), *cells])
    return markdown(["runs", *(f"epsilon {epsilon:g}" for epsilon in CLONED)], rows)


def prefixes(results: Store) -> str:
    """Mean length of what consensus releases, and the share of trajectories of which anything is."""
    rows = []
    for name, title in TITLES.items():
        for kind in get_args(Kind):
            for words, method, number in (
                ("before DP-SGD", "consensus_dpsgd", None),
                ("alone, n_r = 25", "consensus_only", "n_r=25"),
                ("alone, n_r = 5", "consensus_only", "n_r=5"),
            ):
                cells = [kept(results, key(name, kind, method, seed)) for seed in SEEDS]
                rows.append([f"{title}, {kind}, {words}", *(_lengths(cells, number, epsilon) for epsilon in EPSILONS)])
    return markdown([f"epsilon {epsilon:g}" for epsilon in EPSILONS], rows)


def _lengths(cells: Sequence[dict[str, Any] | None], number: str | None, epsilon: float) -> str:
    if None in cells:
        return BLANK
    found = [(cell if number is None else cell[number]).get(f"{epsilon:g}", {}) for cell in cells if cell is not None]
    drawn = [length for one in found for length in one.get("prefixes", [])]
    return f"{np.mean(drawn):.1f} ({100 * np.mean(np.greater(drawn, 0)):.0f} %)" if drawn else NONE


def picture(results: Store) -> list[Panel]:
    """Return against epsilon: good and mixed experts beside each other, a world below the other."""
    across = ChartAxis("epsilon; bars: 95 % interval", 0.9, 11.0, log=True, marks=tuple(reversed(EPSILONS)))
    panels = []
    for name, title in TITLES.items():
        up = RANGES[name]
        for kind in get_args(Kind):
            curves = []
            for method, words in PRIVATE.items():
                seen = {epsilon: values(results, name, kind, method, epsilon) for epsilon in reversed(EPSILONS)}
                rows = {epsilon: row for epsilon, row in seen.items() if row}
                if not rows:
                    continue
                found = [t_interval(row) for row in rows.values()]
                middle, ends = [mean for mean, _, _ in found], [(low, high) for _, low, high in found]
                curves.append(Curve(words, [*rows], middle, spread=ends))
            for method in (*FREE, "experts"):
                row = values(results, name, kind, method)
                if row:
                    level = float(np.mean(row))
                    curves.append(Curve(REFERENCES[method], [0.9, 11.0], [level] * 2, flat=True, dashed=True))
            named = replace(up, label=f"{title}, {kind} experts: return")
            panels.append(Panel(named.label, across.label, curves, axes=(across, named)))
    return panels


def plot() -> None:
    title = "Return against epsilon, four worlds"
    draw(picture(experts_table.store()), title, IMAGES / "experts_table.svg", legend=3)
