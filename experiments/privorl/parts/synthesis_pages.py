"""Tables and pictures of the experiments on synthesis, from the raw rows.

`pages` puts them into docs/results/. Nothing is run: a row whose cells are missing for some seed is left
blank, a dash says that it is not part of the experiment. Returns are interquartile means over seeds with 95 % bootstrap
intervals.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from experiments.beyond import people_hospitals
from experiments.lib.experiment import NONE, Store, at_each, by_level, grid, markdown, stacked
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from experiments.lib.statistics import bootstrap
from experiments.privorl import (
    ablation_medium,
    figure4_ablation,
    figure6_curves,
    figure8_horizon,
    figure9_learning,
    table1_half_cheetah,
    table1_kitchen,
    table1_mazes,
    table1_transitions,
    table1_trivial,
    table2_trajectories,
    table3_fidelity,
    table5_curiosity,
    table11_cost,
    table12_size,
    table13_trajscore,
    table14_accounting,
    trajectory_audit,
)
from experiments.privorl.parts import synthesis_variants as variants
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts import trajectory_ways as people
from experiments.privorl.parts.synthesis_cells import SHORT, Values, by_measure, shown, title
from experiments.privorl.parts.trajectory_domains import DOMAINS as PEOPLE
from experiments.privorl.tuning import tune_kitchen
from tacit.evaluation.report.charts import ChartAxis

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


OF_PEOPLE: dict[str, Callable[[], str]] = {
    "table2_trajectories": table2,
    "table13_trajscore": table13,
    "figure8_horizon": figure8,
    "trajectory_audit": audit_of_people,
}


WORDS = {
    "real": "real rows, no privacy",
    "raked": "**tacit**",
    "raked_of": "**tacit**, with the histograms of any task",
    "tacit": "tacit without matching",
    "raking_alone": "matching without a model",
    "mst": "MST",
    "pgm_paper": "PGM as the paper ran it",
    "aim": "AIM",
    "aim_3": "AIM with sets of three columns",
    "aim_wide": "AIM, two rounds a column",
    "privsyn": "PrivSyn",
    "pate_gan": "PATE-GAN",
    "pre_pate_gan": "PrePATE-GAN",
    "pretraining": "public rows alone",
    "noise_only": "noise alone",
    "independent": "real columns, permuted",
    "non_pre": "without pre-training",
    "cur": "curious pre-training, rate 0.3",
    "cur_append": "curious pre-training, rows appended",
    "fine_cur": "curious fine-tuning",
    "non_priv": "no noise, not private",
}
UNTAUGHT = {"still": "standing still, nothing learned", "random": "random joint speeds, nothing learned"}
TRIVIAL = {"push": "best constant push, nothing learned", "straight": "straight at the goal, nothing learned"}
MEASURES = ("marginal", "correlation", "told_apart", "in_wall", "next_position", "next_velocity", "reward_error")
WITHOUT_WALLS = ("marginal", "correlation", "told_apart", "next_state", "reward_error")


def _private(results: Store, column: Values, ways_of: Iterable[str], epsilons: Sequence[float]) -> str:
    rows = {{**WORDS, **UNTAUGHT}[way]: way for way in ways_of}
    return grid(by_level(epsilons), rows, lambda way, at: shown(column, results, way, ways.at(way, at)))


def _with_level(rows: Iterable[tuple[str, float]]) -> dict[str, tuple[str, float]]:
    found = [(way, ways.at(way, epsilon)) for way, epsilon in rows]
    return {WORDS[way] + (f", epsilon {at:g}" if at else ""): (way, at) for way, at in found}


def table1() -> str:
    results, control = table1_transitions.store(), table1_trivial.store()
    heads = [(part.domain, agent) for part in table1_transitions.PARTS if part.group == "own" for agent in part.agents]
    columns = {f"{title(domain)}, {SHORT[agent]}": (domain, agent) for domain, agent in heads}
    rows = {WORDS[way]: way for group in table1_transitions.GROUPS.values() for way in group}
    rows |= {words: policy for policy, words in TRIVIAL.items()}

    def cell(way: str, domain: str, agent: str, epsilon: float) -> str:
        if way not in TRIVIAL:
            return shown(table1_transitions.returns, results, domain, agent, way, ways.at(way, epsilon))
        return shown(table1_trivial.returns, control, domain, way) if domain in table1_trivial.MAZES else NONE

    return at_each(table1_transitions.EPSILONS, lambda e: grid(columns, rows, lambda way, head: cell(way, *head, e)))


def mazes() -> str:
    """Ceilings, and returns of every method with the agents of long training, one table an epsilon."""
    results, control = table1_mazes.store(), table1_trivial.store()
    heads = [(domain, agent) for domain in table1_mazes.DOMAINS for agent in table1_mazes.agents_of(domain)]
    columns = {f"{domain}, {SHORT[agent.removesuffix('_long')]}": (domain, agent) for domain, agent in heads}
    rows = {WORDS[way]: way for way in table1_mazes.WAYS} | {words: policy for policy, words in TRIVIAL.items()}
    rows["others, real rows of D4RL"] = "public"

    def cell(way: str, domain: str, agent: str, epsilon: float) -> str:
        if way == "public":
            return f"{table1_mazes.PUBLIC[domain, agent]:.1f}"
        if way in TRIVIAL:
            return shown(table1_trivial.returns, control, domain, way, table1_mazes.SEEDS)
        return shown(table1_mazes.column, results, domain, agent, way, ways.at(way, epsilon))

    return at_each(table1_mazes.EPSILONS, lambda e: grid(columns, rows, lambda way, head: cell(way, *head, e)))


def half_cheetah() -> str:
    here = table1_half_cheetah
    return _private(here.store(), here.column, (*here.WAYS, *here.TRIVIAL), here.EPSILONS)


def kitchen() -> str:
    """Returns in the kitchen, and what agents return there that learned from public rows."""
    public = tune_kitchen.table(tune_kitchen.store())
    returns = table1_kitchen.table(table1_kitchen.store(), {**WORDS, **UNTAUGHT})
    return f"{returns}\n\nPublic tasks, agents of public demonstrations\n\n{public}"


def table3() -> str:
    """Closeness and errors of every table, one block a domain and epsilon."""
    column = functools.partial(table3_fidelity.column, table3_fidelity.store())

    def table(domain: str, epsilon: float) -> str:
        measures = MEASURES if domain in table3_fidelity.MAZES else WITHOUT_WALLS
        found = [way for name, way, *_ in table3_fidelity.tables() if name == domain]
        rows = {WORDS[way]: (way, ways.at(way, epsilon)) for way in found}
        return by_measure(measures, rows, functools.partial(column, domain))

    domains = dict.fromkeys(name for name, *_ in table3_fidelity.tables())
    levels = by_level(table1_transitions.EPSILONS).items()
    return stacked({f"{title(domain)}, {words}": table(domain, at) for domain in domains for words, at in levels})


def rows_of(rows: Iterable[tuple[str, float]]) -> str:
    """One table of variants: return, Marginal, Correlation and the error of the next position."""
    measures = ("return", "return_far", "marginal", "correlation", "next_position")
    return by_measure(measures, _with_level(rows), lambda *row: variants.column(variants.row(*row[:2]), *row[2:]))


def table4() -> str:
    returns = functools.partial(table1_transitions.returns, table1_transitions.store())
    rows = _with_level([("raked", 10.0), ("raked", 1.0), *((way, 1.0) for way in table1_transitions.CONTROLS)])
    heads = {f"{domain}, IQL": domain for domain in ("umaze", "medium")}
    return grid(heads, rows, lambda row, domain: shown(returns, domain, "iql", *row))


def figure4() -> str:
    return rows_of((way, epsilon) for epsilon in figure4_ablation.EPSILONS for way in figure4_ablation.WAYS)


def medium() -> str:
    return _private(ablation_medium.store(), ablation_medium.column, ablation_medium.SHOWN, ablation_medium.EPSILONS)


def table7() -> str:
    return rows_of([("real", 0.0), ("non_priv", 0.0), *((way, e) for way in ("tacit", "raked") for e in (10.0, 1.0))])


def figure6() -> str:
    panels = []
    rates = [figure6_curves.RATES[rate] for rate in figure6_curves.RATES]
    for measure, label in (("return", "return (IQL)"), ("marginal", "Marginal")):
        by_rate = [variants.column(variants.row(way, 10.0), measure) for way in rates]
        by_epsilon = {
            way: [variants.column(variants.row(way, e), measure) for e in figure6_curves.EPSILONS]
            for way in figure6_curves.CURVES
        }
        free = variants.column(variants.row("non_priv", 0.0), measure)
        by_epsilon["tacit"].append(free)
        at = (*figure6_curves.EPSILONS, math.inf)
        low, high = _range([*by_rate, *(one for found in by_epsilon.values() for one in found)])
        up = ChartAxis(label, low, high)
        panels += [
            Panel(
                f"umaze, {label}, by curiosity rate",
                "rate",
                [_curve("without matching", tuple(figure6_curves.RATES), by_rate)],
                (ChartAxis("curiosity rate", 0.0, 0.5), up),
            ),
            Panel(
                f"umaze, {label}, by epsilon",
                "epsilon",
                [
                    _curve("tacit" if way == "raked" else "without matching", at[: len(found)], found)
                    for way, found in by_epsilon.items()
                ],
                (ChartAxis("epsilon", 0.2, 20.0, log=True, marks=at), up),
            ),
        ]
    return picture(panels, "Returns and Marginal by curiosity rate and by epsilon", "synthesis_curves.svg")


def table11() -> str:
    column, units = functools.partial(table11_cost.column, table11_cost.store()), {"CPU s": "cpu_s", "MiB": "peak_mib"}
    heads = {f"{stage}, {unit}": (stage, name) for stage in table11_cost.STAGES for unit, name in units.items()}
    rows = {WORDS[way]: way for way in table11_cost.METHODS}
    return grid(heads, rows, lambda way, head: shown(column, way, *head, digits=0, interval=False))


def table12() -> str:
    column = functools.partial(table12_size.column, table12_size.store())
    rows = {WORDS[way]: way for way in table12_size.WAYS}
    heads = {f"{size:,} rows": size for size in table12_size.SIZES}
    return grid(heads, rows, lambda way, size: shown(column, way, size))


def figure9() -> str:
    results, steps = figure9_learning.store(), np.arange(1, figure9_learning.LOOKS + 1) / figure9_learning.LOOKS
    found = [figure9_learning.curves(results, *one) for one in figure9_learning.TABLES]
    names = ["real rows" if way == "real" else f"tacit, epsilon {e:g}" for way, e in figure9_learning.TABLES]
    curves = [_curve(name, tuple(steps), list(values.T)) for name, values in zip(names, found, strict=True)]
    axes = ChartAxis("share of the training", 0.0, 1.0), ChartAxis("return (TD3+BC)", *_range(found))
    panel = Panel("medium, TD3+BC while it learns", "share of the training", curves, axes)
    title = "Learning curves on real and synthetic rows"
    return picture([panel], title, "synthesis_learning.svg", columns=1, legend=2)


def table14() -> str:
    """Noise multipliers by both accountants, and what the paper's own numbers mean."""
    results, rows = table14_accounting.store(), []
    for name in table14_accounting.SETTINGS:
        noise = [results.values(f"{name}/epsilon={epsilon:g}") for epsilon in table14_accounting.EPSILONS]
        printed = results.values(f"{name}/table X")
        pairs = [f"{one['renyi']:.3f} / {one['certified']:.3f}" for one in noise]
        rows.append([name, *pairs, *(f"{printed[key]:.2f}" for key in ("sigma", "printed", "as run"))])
    heads = [f"noise at epsilon {epsilon:g}, Rényi / certified" for epsilon in table14_accounting.EPSILONS]
    return markdown([*heads, "noise in table X", "its epsilon as printed", "its epsilon over the steps run"], rows)


def picture(panels: Sequence[Panel], title: str, name: str, **settings: int) -> str:
    """Draw under docs/images/; the link to it from a page in docs/results/."""
    draw(panels, title, IMAGES / name, **settings)
    return f"![{title}](../images/{name})"


def _curve(name: str, x: Sequence[float], values: Sequence[np.ndarray]) -> Curve:
    found = [bootstrap(one) for one in values]
    return Curve(name, x, [one.value for one in found], spread=[(one.low, one.high) for one in found])


def _range(values: Sequence[np.ndarray]) -> tuple[float, float]:
    joined = np.concatenate([np.ravel(one) for one in values])
    room = 0.05 * (np.ptp(joined) or 1.0)
    return float(joined.min() - room), float(joined.max() + room)


PAGES: dict[str, Callable[[], str]] = {
    "people_hospitals": lambda: people_hospitals.words_of(people_hospitals.store()),
    "table1_transitions": table1,
    "table1_mazes": mazes,
    "table1_half_cheetah": half_cheetah,
    "table1_kitchen": kitchen,
    "table3_fidelity": table3,
    "table4_pretraining": table4,
    "figure4_ablation": figure4,
    "table5_curiosity": lambda: rows_of((way, table5_curiosity.EPSILON) for way in table5_curiosity.WAYS),
    "ablation_medium": medium,
    "figure6_curves": figure6,
    "table7_nonprivate": table7,
    "figure9_learning": figure9,
    "table11_cost": table11,
    "table12_size": table12,
    "table14_accounting": table14,
    **OF_PEOPLE,
}
