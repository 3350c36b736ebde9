"""Tables of the experiments on whole trajectories, from the raw rows; `synthesis_pages` prints them."""

from __future__ import annotations

from collections.abc import Callable

from experiments.lib.experiment import markdown
from experiments.privorl import figure8_horizon, table2_trajectories, table13_trajscore, trajectory_audit
from experiments.privorl.parts import trajectory_ways as people
from experiments.privorl.parts.synthesis_cells import SHORT, named, shown
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
    """Returns under the guarantee of a person, one table an epsilon."""
    results, blocks = table2_trajectories.store(), []
    heads = [(domain, agent) for domain, here in PEOPLE.items() for agent in here.agents]
    for epsilon in table2_trajectories.EPSILONS:
        rows = []
        for way in table2_trajectories.NAMES:
            at = epsilon if people.WAYS[way].private else 0.0
            if not any((way, at) in table2_trajectories.tables(domain) for domain in PEOPLE):
                continue
            cells = [shown(table2_trajectories.returns, results, domain, agent, way, at) for domain, agent in heads]
            rows.append([WHOLE[way], *cells])
        head = [f"{domain.replace('_', ', ')}, {SHORT[agent]}" for domain, agent in heads]
        blocks.append(f"epsilon {epsilon:g}\n\n{markdown(head, rows)}")
    return "\n\n".join(blocks)


def table13() -> str:
    """TrajScore and what stands beside it, one block a domain and epsilon."""
    results, blocks = table13_trajscore.store(), []
    for domain in PEOPLE:
        for epsilon in sorted({at for _, at in table2_trajectories.tables(domain) if at}, reverse=True):
            rows = []
            for way, at in table2_trajectories.tables(domain):
                if at not in (0.0, epsilon):
                    continue
                own = (table13_trajscore.column, results, domain, way, at)
                cells = [shown(*own, measure, digits=3, interval=False) for measure in (*ALONG, *OF_ROWS)]
                rows.append([WHOLE[way], *cells])
            words = domain.replace("_", ", ")
            blocks.append(
                f"{words}, epsilon {epsilon:g}\n\n{markdown([named(one) for one in (*ALONG, *OF_ROWS)], rows)}"
            )
    return "\n\n".join(blocks)


def figure8() -> str:
    """By the horizon of fragments."""
    results, rows = figure8_horizon.store(), []
    measures = ("f1", "marginal", "told_apart", "inside", "at_seams", "drift", "return")
    for horizon in figure8_horizon.HORIZONS:
        digits = {"return": 1}
        cells = [
            shown(figure8_horizon.column, results, horizon, one, digits=digits.get(one, 3), interval=one == "return")
            for one in measures
        ]
        rows.append([f"{horizon} rows", *cells])
    return markdown([named(one) for one in measures], rows)


def audit_of_people() -> str:
    """What an auditor of whole people finds."""
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
