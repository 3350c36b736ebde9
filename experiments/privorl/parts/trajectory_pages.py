"""Tables of the experiments on whole trajectories, from the raw rows; `synthesis_pages` prints them."""

import functools
from collections.abc import Callable

from experiments.lib.experiment import at_each, by_level, grid, markdown, stacked
from experiments.privorl import figure8_horizon, table2_trajectories, table13_trajscore, trajectory_audit
from experiments.privorl.parts import trajectory_ways as people
from experiments.privorl.parts.synthesis_cells import SHORT, by_measure, shown, title
from experiments.privorl.parts.trajectory_domains import DOMAINS as PEOPLE

WHOLE = {
    "real": "real trajectories, no privacy",
    "tacit_j": "**tacit-j**: whole trajectories, conditioned on noisy histograms",
    "by_gradients": "whole trajectories, by noisy gradients",
    "raked": "rows of such trajectories, each weighted for itself",
    "raked_by_gradients": "**transitions with matching**",
    "dp_transformer": "DP-Transformer",
    "unet": "temporal U-Net",
    "raking_alone": "matching without a model",
}
ALONG = ("f1", "f1_ceiling", "f1_floor", "precision", "recall", "mean_cosine", "inside", "at_seams")
OF_ROWS = ("marginal", "correlation", "told_apart", "next_position", "in_wall")


def table2() -> str:
    here, results = table2_trajectories, table2_trajectories.store()
    heads = [(domain, agent) for domain, one in PEOPLE.items() for agent in one.agents]
    columns = {f"{title(domain, ', ')}, {SHORT[agent]}": (domain, agent) for domain, agent in heads}
    run = {one for domain in PEOPLE for one in here.tables(domain)}

    def table(epsilon: float) -> str:
        levels = {way: epsilon if people.WAYS[way].private else 0.0 for way in here.NAMES}
        rows = {WHOLE[way]: (way, at) for way, at in levels.items() if (way, at) in run}
        return grid(columns, rows, lambda row, head: shown(here.returns, results, *head, *row))

    return at_each(here.EPSILONS, table)


def table13() -> str:
    """TrajScore and what stands beside it, one block a domain and epsilon."""
    results, blocks = table13_trajscore.store(), {}
    for domain in PEOPLE:
        column = functools.partial(table13_trajscore.column, results, domain)
        tables = table2_trajectories.tables(domain)
        for words, epsilon in by_level(sorted({at for _, at in tables if at}, reverse=True)).items():
            rows = {WHOLE[way]: (way, at) for way, at in tables if at in (0.0, epsilon)}
            blocks[f"{title(domain, ', ')}, {words}"] = by_measure((*ALONG, *OF_ROWS), rows, column)
    return stacked(blocks)


def figure8() -> str:
    measures = ("f1", "marginal", "told_apart", "inside", "at_seams", "drift", "return")
    rows = {f"{horizon} rows": (horizon,) for horizon in figure8_horizon.HORIZONS}
    return by_measure(measures, rows, functools.partial(figure8_horizon.column, figure8_horizon.store()))


def audit_of_people() -> str:
    results, rows = trajectory_audit.store(), []
    for way, runs in trajectory_audit.RUNS.items():
        bound = trajectory_audit.found(results, way, runs)
        rows.append([way, f"{runs}", f"{bound.gaussian_epsilon:.2f}", f"{trajectory_audit.EPSILON:g}"])
    return markdown(("runs", "epsilon is at least", "promised"), rows)


PAGES: dict[str, Callable[[], str]] = {
    "table2_trajectories": table2,
    "table13_trajscore": table13,
    "figure8_horizon": figure8,
    "trajectory_audit": audit_of_people,
}
