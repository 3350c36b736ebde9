"""Epsilon against the noise multiplier: the paper's rule and the exact one (figure 3 of arXiv:2501.19080).

One Gaussian release of a person's clipped contribution, at both deltas that the text may mean. `published` is the
classical formula where it gives less than 1, else that of Zhao et al. (arXiv:1911.12060); `k=16` a person who returns
in so many rounds, and `k=16 added up` by adding epsilons and deltas; `pool` 50 rounds, each over a Poisson sample at
rate 0.02 from a fixed pool. A row `noise` has the multiplier that an epsilon needs, by the paper's rule and exactly.
"""

import functools
from pathlib import Path

from scipy.optimize import brentq

from experiments.dppg.dppg_paper import classical_epsilon, published_epsilon, zhao_epsilon
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, Store, command_line
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event, GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.units import Relation

SIGMAS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 14.0, 20.0)
DELTAS, TARGETS, RETURNS = (1e-5, 1e-6), (0.25, 0.5, 1.0, 2.0, 5.0, 10.0), (4, 16)
ROUNDS, RATE = 50, 0.02
RELATION: Relation = "add_or_remove"


def key(sigma: float, delta: float) -> str:
    return f"delta={delta:g}/sigma={sigma:g}"


def noise_key(epsilon: float, delta: float) -> str:
    return f"noise/delta={delta:g}/epsilon={epsilon:g}"


def _epsilon(event: Event, delta: float, relation: Relation = RELATION) -> float:
    return accounting.epsilon(event, delta=delta, relation=relation).epsilon


def row(sigma: float, delta: float) -> dict[str, float]:
    once = GaussianEvent(sigma)
    pool = SelfComposedEvent(PoissonSampledEvent(RATE, once), ROUNDS)
    values = {
        "published": published_epsilon(sigma, delta),
        "classical": classical_epsilon(sigma, delta),
        "zhao": zhao_epsilon(sigma, delta),
        "exact": _epsilon(once, delta),
        "replace": _epsilon(once, delta, "replace_one"),
        "pool": _epsilon(pool, delta),
    }
    for k in RETURNS:
        values[f"k={k}"] = _epsilon(SelfComposedEvent(once, k), delta)
        values[f"k={k} added up"] = k * _epsilon(once, delta / k)
    return values


def noise(epsilon: float, delta: float) -> dict[str, float]:
    def excess(sigma: float) -> float:
        return published_epsilon(sigma, delta) - epsilon

    return {
        "published": float(brentq(excess, 0.05, 200.0)),
        "exact": accounting.calibrate(GaussianEvent, epsilon=epsilon, delta=delta, relation=RELATION),
    }


def jobs() -> Jobs:
    more = {"participations": list(RETURNS), "pool": {"rounds": ROUNDS, "rate": RATE}}
    found: Jobs = {}
    for delta in DELTAS:
        asked = {"delta": delta, "relation": RELATION}
        for sigma in SIGMAS:
            settings = {**asked, "noise_multiplier": sigma, **more}
            found |= {key(sigma, delta): (settings, functools.partial(row, sigma, delta))}
        for epsilon in TARGETS:
            settings = {**asked, "epsilon": epsilon}
            found |= {noise_key(epsilon, delta): (settings, functools.partial(noise, epsilon, delta))}
    return found


ROWS = Computed(__file__, jobs)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for delta in DELTAS:
        cells = {sigma: results.values(key(sigma, delta)) for sigma in SIGMAS}
        loose = [cell["published"] / cell["exact"] for cell in cells.values()]
        yield at_least(f"delta {delta:g}: the paper's epsilon over the exact one, at least", min(loose), 1.05)
        yield at_most(f"delta {delta:g}: the paper's epsilon over the exact one, at most", max(loose), 1.6)
        returning = max(cell["k=16"] / cell["k=16 added up"] for cell in cells.values())
        yield at_most(f"delta {delta:g}: 16 participations over the sum of 16 epsilons", returning, 0.75)
        apart = max(
            abs(cells[4 * s]["k=16"] / cells[s]["exact"] - 1) for s in (0.5, 0.75, 1.0, 1.5, 2.0, 5.0) if 4 * s in cells
        )
        yield at_most(f"delta {delta:g}: 16 participations at 4 sigma against one at sigma", apart, 2e-3)
    exact = results.values(key(1.0, 1e-5))["exact"]
    yield at_most("sigma 1, delta 1e-5: exact epsilon, distance from 4.37718", abs(exact - 4.37718), 2e-3)
    for epsilon, ratio in ((0.5, 1.88), (1.0, 1.5), (5.0, 1.24)):
        cell = results.values(noise_key(epsilon, 1e-5))
        name = f"epsilon {epsilon:g}, delta 1e-5: the paper's noise variance over the exact one"
        yield at_least(name, (cell["published"] / cell["exact"]) ** 2, ratio)


def plot(results: Store, path: Path = IMAGES / "figure3_budget.svg") -> None:
    shown = {
        "published": "the paper's rule",
        "exact": "exact",
        "replace": "exact, replace one",  # which 4 participations cost, too
        "k=16": "exact, 16 participations",
        "pool": f"{ROUNDS} Poisson samples at {RATE:g}",
    }
    panels = []
    for delta in DELTAS:
        cells = [results.values(key(sigma, delta)) for sigma in SIGMAS]
        curves = [Curve(words, SIGMAS, [cell[name] for cell in cells]) for name, words in shown.items()]
        panels.append(Panel(f"epsilon at delta {delta:g}", "noise multiplier", curves))
    draw(panels, "Epsilon against the noise multiplier", path)


if __name__ == "__main__":
    command_line(__file__)
