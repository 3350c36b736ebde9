"""Pictures and tables of private policy gradients, from the raw rows of their experiments.

Nothing is run: a cell whose row is missing or has another configuration is left blank, one that no experiment has is a
dash. "±" is half of the 95 % t-interval of the mean over replicates; shares have Clopper and Pearson's. A cell of the
frontier is the mean, in brackets the worst replicate, and the mean with the most probable actions.
"""

import functools
from typing import Any

import numpy as np

from experiments.dppg import dppg_audit, dppg_fair, dppg_frontier, dppg_riverswim, dppg_table1
from experiments.dppg.dppg_frontier import Cell
from experiments.lib.experiment import BLANK, NONE, Store, grid, markdown, spread, stacked
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from experiments.lib.tables import INFINITE, column, kept, level
from tacit.evaluation.lower_bounds import LowerBounds, audit, highest_rate, lowest_rate
from tacit.evaluation.report.charts import ChartAxis, span
from tacit_worlds import river_swim
from tacit_worlds.river_swim import RiverSwim

LEVELS: tuple[float, ...] = (*sorted(dppg_frontier.EPSILONS), INFINITE)
TITLES = {"cart_pole": "CartPole", "acrobot": "Acrobot"}
ARMS = {
    ("local", "toeplitz"): "local critic, correlated noise",
    ("local", "independent"): "local critic, independent noise",
    ("private", "toeplitz"): "private critic, correlated noise",
    ("private", "independent"): "private critic, independent noise",
    ("none", "toeplitz"): "no critic, correlated noise",
    ("none", "independent"): "no critic, independent noise",
    ("paper", "independent"): "paper's recipe as first read, epsilon infinite",
    ("noise", "toeplitz"): "noise alone",
}
DRAWN = (*list(ARMS)[:3], ("noise", "toeplitz"), ("none", "toeplitz"), ("paper", "independent"))
"""In the order of the colours."""
RETURNS = {
    "cart_pole": ChartAxis("CartPole: mean return", 0.0, 510.0, marks=tuple(range(0, 501, 100))),
    "acrobot": ChartAxis("Acrobot: mean return", -510.0, -60.0, marks=tuple(range(-500, -99, 100))),
}
CLASSES = {
    "local": "64-64",
    "small": "8",
    "linear": "log-linear",
    "full_slot": "64-64, further episodes up to 500 steps",
    "without": "64-64 without noise, not private",
    "noise": "noise alone",
}
METHODS = {
    "ppo": "PPO, not private",
    "a2c": "A2C, not private",
    "ceiling": "ours without noise, not private",
    "no_noise": "ours without noise, largest clip, not private",
    "dppg": "ours",
    "dppg_mlp": "ours, the paper's network",
    "paper": "paper's recipe as first read, epsilon infinite",
    "start": "before the first round",
    "random": "random actions",
    "noise_only": "noise alone, stronger level",
}
SWIMMERS = {
    "recipe": "ours",
    "iid": "ours, independent noise",
    "repeat_1": "ours, actions not repeated",
    "unrepeated": "ours, actions not repeated, wider clip and entropy",
    "standardised": "ours, returns standardised",
    "few": "ours, 400 people",
    "dppg_l2": "paper's L2 region, no critic",
    "dppg_kl": "paper's KL region, no critic, public information",
    "dppg_kl_own": "paper's KL region, no critic, private information",
    "ucb_mf_1600": "UCB-VI, correlated noise",
    "ucb_mf_short_1600": "UCB-VI, correlated noise, short clip",
    "ucb_tree_1600": "UCB-VI, binary tree",
    "ucb_mf_4000": "UCB-VI, correlated noise, 4,000 people",
    "ucb_mf_short_4000": "UCB-VI, correlated noise, short clip, 4,000 people",
    "ucb_tree_4000": "UCB-VI, binary tree, 4,000 people",
    "noise": "noise alone, our recipe",
    "dppg_noise": "noise alone, paper's L2 region",
}


def frontier_cell(task: str, arm: str, epsilon: float, correlation: str = "toeplitz") -> Cell:
    """Without noise it has no correlation, and is kept under one of them."""
    if epsilon == INFINITE:
        return Cell(task, arm, None, "independent" if arm == "paper" else "toeplitz")
    return Cell(task, arm, epsilon, correlation)


def judged(results: Store, cell: Cell) -> str:
    """Mean (worst replicate), greedy."""
    if cell not in dppg_frontier.grid():
        return NONE
    values = kept(results, cell.key)
    if values is None:
        return BLANK
    returns = values["last_stochastic"]
    return f"{spread(returns)} ({min(returns):.0f}), {np.mean(values['last_greedy']):.1f}"


def frontier(results: Store) -> str:
    """A table for each task: arms by epsilon; and one of policy classes."""
    levels, arms = {level(epsilon): epsilon for epsilon in LEVELS}, {words: pair for pair, words in ARMS.items()}

    def by_arm(task: str) -> str:
        cells = functools.partial(frontier_cell, task)
        return grid(levels, arms, lambda pair, epsilon: judged(results, cells(pair[0], epsilon, pair[1])))

    def of_class(arm: str, place: tuple[str, float]) -> str:
        task, epsilon = place
        own = ("local", INFINITE) if arm == "without" else (arm, epsilon)
        return judged(results, frontier_cell(task, *own))

    places = [*(("cart_pole", least) for least in reversed(dppg_frontier.LEAST)), ("cart_pole", 1.0), ("acrobot", 1.0)]
    heads = {f"{TITLES[task]}, {level(epsilon)}": (task, epsilon) for task, epsilon in places}
    classes = grid(heads, {words: arm for arm, words in CLASSES.items()}, of_class)
    tables = {title: by_arm(task) for task, title in TITLES.items()}
    return stacked(tables | {"Classes of policies, local critic, correlated noise": classes})


def picture(results: Store) -> list[Panel]:
    """Return against epsilon, a panel for each task; what is missing is left out."""
    panels = []
    for task in TITLES:
        curves = []
        for arm, correlation in DRAWN:
            cells = [kept(results, frontier_cell(task, arm, epsilon, correlation).key) for epsilon in LEVELS]
            seen = {at: cell["last_stochastic"] for at, cell in zip(LEVELS, cells, strict=True) if cell}
            means = [float(np.mean(returns)) for returns in seen.values()]
            ends = [(min(returns), max(returns)) for returns in seen.values()]
            curves.append(Curve(ARMS[arm, correlation], [*seen], means, spread=ends, dashed=arm == "paper"))
        across = ChartAxis("epsilon; bars: worst to best run", LEVELS[0] / 1.25, LEVELS[-2], log=True, marks=LEVELS)
        panels.append(Panel(RETURNS[task].label, across.label, curves, axes=(across, RETURNS[task])))
    return panels


def table1(results: Store) -> str:
    """Methods by tasks; the stronger and the weaker level have rows of their own."""
    lines = dppg_table1.lines()
    rows = []
    for method, words in METHODS.items():
        for place, note in ((None, ""), (0, ", stronger level"), (1, ", weaker level")):
            levels = [None if place is None else line.epsilons[place] for line in lines]
            cells = [
                column(results, line.key(method, at), "last") if (method, at) in line.cells else NONE
                for line, at in zip(lines, levels, strict=True)
            ]
            if set(cells) != {NONE}:
                rows.append([words + note, *cells])
    head = [f"{line.task.name} ({line.epsilons[0]:g}, {line.epsilons[1]:g})" for line in lines]
    return "In brackets the stronger and the weaker epsilon.\n\n" + markdown(head, rows)


def success(values: dict[str, Any], last: float) -> str:
    """Share of greedy policies that are nearly the best, its interval, and the mean of their values."""
    greedy = values["greedy"]
    share, count = dppg_riverswim.success(greedy, last), len(greedy)
    good = round(share * count)
    low, high = lowest_rate(good, count, 0.025), highest_rate(good, count, 0.025)
    return f"{100 * share:.0f} % ({100 * low:.0f}–{100 * high:.0f}), {spread(greedy, 2)}"


def riverswim(results: Store) -> str:
    """A table for each probability of staying at the right bank: methods by epsilon."""
    heads = {level(epsilon): epsilon for epsilon in dppg_riverswim.EPSILONS} | {level(INFINITE): None}
    rows = {"the best policy": "best"} | {words: name for name, words in SWIMMERS.items()}

    def cell(name: str, epsilon: float | None, last: float) -> str:
        if name == "best":
            return f"100 %, {river_swim.optimal_values(RiverSwim(last))[0, 0]:.2f}"
        values = kept(results, dppg_riverswim.key(name, last, epsilon))
        missing = BLANK if (name, last, epsilon) in dppg_riverswim.grid() else NONE
        return success(values, last) if values else missing

    tables = {last: grid(heads, rows, functools.partial(cell, last=last)) for last in dppg_riverswim.ENDS}
    return stacked({f"RiverSwim, stays at the right bank with {last:g}": shown for last, shown in tables.items()})


def audited(results: Store) -> str:
    """Lower bounds of the attack, between the most that so many runs can show and what they show of nothing."""
    rows, runs = [], dppg_audit.RUNS
    most = _audit(np.zeros(runs), np.ones(runs))
    rows.append(["no noise, every run distinguished", "∞", f"{most.epsilon:.2f}", "∞", f"{most.mu:.2f}"])
    for cell in dppg_audit.CELLS:
        noise = "correlated" if cell.correlation == "toeplitz" else "independent"
        critic = "no" if cell.critic == "none" else cell.critic
        values = kept(results, cell.key)
        row = [f"{critic} critic, {noise} noise, sigma {cell.sigma:g}", BLANK, BLANK, f"{1 / cell.sigma:g}", BLANK]
        if values is not None:
            found = dppg_audit.found(values)
            row[1], row[2], row[4] = f"{values['claimed']:.2f}", f"{found.epsilon:.2f}", f"{found.mu:.2f}"
        rows.append(row)
    values = kept(results, dppg_audit.CELLS[0].key)
    row = ["noise alone, no canary in either half of the runs", "0", BLANK, "0", BLANK]
    if values is not None:
        half = len(values["without"]) // 2
        nothing = _audit(np.array(values["without"][:half]), np.array(values["without"][half:]))
        row[2], row[4] = f"{nothing.epsilon:.2f}", f"{nothing.mu:.2f}"
    return markdown(
        ["claimed epsilon", "audited epsilon, at least", "claimed mu", "audited mu, at least"], [*rows, row]
    )


def _audit(without: np.ndarray, having: np.ndarray) -> LowerBounds:
    return audit(without, having, delta=dppg_audit.DELTA, confidence=dppg_audit.CONFIDENCE)


def short(poles: Store, table: Store, rivers: Store) -> str:
    dosing = next(line for line in dppg_table1.lines() if line.task.name == "Dosing-1")
    regions = [column(rivers, dppg_riverswim.key(name, 0.6, 1.0), "greedy", 2) for name in ("dppg_l2", "dppg_kl")]
    best = max(regions, key=lambda text: float(text.split()[0]) if text else -INFINITE)

    def row(words: str, arm: str, epsilon: float, dose: str, river: str, correlation: str = "toeplitz") -> list[str]:
        keys = [frontier_cell(task, arm, epsilon, correlation).key for task in TITLES]
        return [words, *(column(poles, key, "last_stochastic") for key in keys), dose, river]

    def dose(method: str, at: float | None = None) -> str:
        return column(table, dosing.key(method, at), "last")

    def river(name: str, epsilon: float | None = 1.0) -> str:
        return column(rivers, dppg_riverswim.key(name, 0.6, epsilon), "greedy", 2)

    paper, note = "paper's recipe as first read, **epsilon infinite**; noise of epsilon 1", "its two trust regions"
    rows = [
        row("**ours, epsilon 1**", "local", 1.0, dose("dppg", 1.0), river("recipe")),
        row("ours, independent noise, epsilon 1", "local", 1.0, NONE, river("iid"), "independent"),
        row(paper, "paper", 1.0, dose("paper", 1.0), rf"{best} \*", "independent"),
        row("ours without noise, not private", "local", INFINITE, dose("ceiling"), river("recipe", None)),
        row("noise alone", "noise", 1.0, dose("noise_only"), river("noise")),
    ]
    head = ["CartPole", "Acrobot", "Dosing-1", "RiverSwim"]
    return markdown(head, rows) + f"\n\n\\* The better of {note}, without its critic: epsilon 1."


LEARNING = {  # curves of the fair table
    "paper, no noise": ("reproduced", "inf"),
    "paper, noise of a claimed 1": ("reproduced", "1"),
    "paper, honest, epsilon 1": ("honest", "1"),
    "ours, no noise": ("ours", "inf"),
    "ours, epsilon 1": ("ours", "1"),
}


def learning(results: Store) -> list[Panel]:
    """Mean return on fresh people against steps of the simulator, of the fair table's rows that there are."""
    panels = []
    for name in dppg_fair.lines():
        curves, values = [], list[float]()
        for words, (arm, noise) in LEARNING.items():
            row = kept(results, f"{name}/{arm}/{noise}")
            if row is not None:
                curves.append(
                    Curve(words, [max(1, step) for step in row["steps"]], row["curve"], dashed=noise == "inf")
                )
                values += row["curve"]
        if curves:
            across = span("steps of the simulator", np.zeros(1), np.array([float(dppg_fair.STEPS)]))
            panels.append(Panel(name, across.label, curves, (across, span(f"{name}, return", np.array(values)))))
    return panels


def plot() -> None:
    poles = picture(dppg_frontier.store())
    draw(poles, "Return against epsilon in CartPole and Acrobot", IMAGES / "dppg_frontier.svg", legend=3)
    draw(learning(dppg_fair.store()), "Learning curves of the fair table", IMAGES / "dppg_learning.svg", legend=3)
