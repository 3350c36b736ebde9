"""Tables and pictures of off-policy evaluation, from the raw rows; `pages` puts them in their places.

Nothing is run. A cell of the tables of values is the RMSE of V and, in brackets, the Bellman error (MSPBE) at the step,
clip or ridge of the least RMSE, and behind the slash the least MSPBE of the grid, which may be at another value: both
are picks in hindsight.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.gpope import (
    gpope_chain,
    gpope_chain_baselines,
    gpope_hiv,
    gpope_mountain_car,
    gpope_schedules,
    ope_estimators,
    ope_random_mdp,
)
from experiments.gpope.ope_methods import HARDLY_ANY_NOISE, Setting
from experiments.lib.experiment import NONE, Store, markdown
from experiments.lib.plots import IMAGES, Curve, Panel, draw

METHODS = {
    "residual": "residual return regression",
    "hardly_any_noise": "the same with nearly no noise (epsilon 100)",
    "residual_noise_only": "the same on one trajectory: noise alone",
    "residual_smooth": "with smooth values as public prior",
    "gpope": "GPOPE, full batch",
    "gpope_poisson": "GPOPE, Poisson samples (20 data sets)",
    "gpope_paper": "GPOPE, the paper's sampler",
    "gpope_published": "GPOPE as published, noise of the true epsilon",
    "dp_lstd_centred": "DP-LSTD, centred",
    "dp_lstd": "DP-LSTD",
    "dp_lsw": "DP-LSW",
    "dp_lsl": "DP-LSL",
    "best_constant": "the constant that knows the answer",
    "zero": "zero",
    "lstd": "LSTD, not private",
}
NOT_PRIVATE = ("best_constant", "zero", "lstd")
CHAIN = (
    Setting(1_000, 1.0, "add_or_remove"),
    Setting(1_000, 1.0, "replace_one"),
    Setting(1_000, 0.1, "add_or_remove"),
    Setting(1_000, 0.1, "replace_one"),
    Setting(10_000, 0.1, "add_or_remove"),
)
ESTIMATORS = {
    "residual": "residual return regression",
    "fitted_q": "fitted Q",
    "doubly_robust": "doubly robust",
    "wpdis": "weighted importance sampling",
}
OTHERS = tuple(Setting(1_000, epsilon) for epsilon in (1.0, 0.1))
DOMAINS = {
    "mountain car, on-policy": (gpope_mountain_car, gpope_mountain_car.ON),
    "mountain car, off-policy": (gpope_mountain_car, gpope_mountain_car.OFF),
    "HIV treatment, off-policy": (gpope_hiv, "hiv"),
}
MEASURES = {"distance_mean": "distance", "rmse_mean": "RMSE", "mspbe_mean": "MSPBE"}
LARGEST = 1e6  # of a curve, over its least value: what is above is left out


def errors(stores: Sequence[Store], domain: str, method: str, setting: Setting) -> str:
    """A cell: RMSE (MSPBE there / least MSPBE); a dash where the method is not run."""
    key = (Setting(setting.units) if method in NOT_PRIVATE else setting).key(domain, method)
    if method == "hardly_any_noise":
        key = Setting(setting.units, HARDLY_ANY_NOISE).key(domain, "residual")
    found = next((store.values(key) for store in stores if key in store.rows), None)
    if found is None:
        return NONE
    rmse, mspbe = (_short(float(np.mean(found[name]))) for name in ("rmse", "mspbe"))
    grid = [one for one in found.get("mspbe_mean", ()) if one is not None]
    return f"{rmse} ({mspbe} / {_short(min(grid))})" if len(grid) > 1 else f"{rmse} ({mspbe})"


def _short(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def values(stores: Sequence[Store], domain: str, settings: Sequence[Setting]) -> str:
    rows = [[words, *(errors(stores, domain, name, one) for one in settings)] for name, words in METHODS.items()]
    heads = [f"m = {one.units:,}, epsilon {one.epsilon:g}, {one.relation.replace('_', '-')}" for one in settings]
    return markdown(heads, [row for row in rows if set(row[1:]) != {NONE}])


def chain() -> str:
    """The chain, means over 100 data sets (20 of 10,000 trajectories)."""
    return values((gpope_chain.store(), gpope_chain_baselines.store()), "chain", CHAIN)


def others() -> str:
    places = DOMAINS | {"random process, off-policy": (ope_random_mdp, "random_mdp")}
    return "\n\n".join(f"{title}\n\n{values((m.store(),), name, OTHERS)}" for title, (m, name) in places.items())


def whole_policies() -> str:
    results, own, rows = ope_estimators.store(), ope_random_mdp.store(), []
    truth = results.values("random_mdp/wpdis/floor")["truth"]
    for method, words in ESTIMATORS.items():
        if method == "residual":
            epsilons = [*ope_estimators.PROMISES.values(), HARDLY_ANY_NOISE]
            keys = [Setting(1_000, epsilon).key("random_mdp", method) for epsilon in epsilons]
            keys.append(Setting(1_000, 1.0).key("random_mdp", "residual_noise_only"))
            found = [own.values(key) | {"truth": truth} for key in keys]
        else:
            found = [results.values(f"random_mdp/{method}/{promise}") for promise in ope_estimators.EPSILONS]
        rows.append([words, *(f"{ope_estimators.rmse(one):.2g}" for one in found)])
    return markdown(("epsilon 1", "epsilon 0.1", "nearly no noise", "noise alone, epsilon 1"), rows)


def steps() -> str:
    replaced = Setting(1_000, 1.0, "replace_one"), Setting(1_000, 0.1, "replace_one")
    places = {"chain": (gpope_chain_baselines, "chain"), **DOMAINS}
    panels = []
    for title, (module, domain) in places.items():
        store = module.store()
        for column, label in (("rmse_mean", "RMSE of V"), ("mspbe_mean", "MSPBE")):
            curves = [
                _curve(f"{words}, epsilon {one.epsilon:g}", store.values(one.key(domain, name)), column)
                for name, words in (("gpope", "full batch"), ("gpope_paper", "one of m"))
                for one in replaced
            ]
            nothing = float(np.mean(store.values(Setting(1_000).key(domain, "zero"))[column.removesuffix("_mean")]))
            curves.append(Curve("the value 0", curves[0].x, [nothing] * len(curves[0].x), flat=True, dashed=True))
            panels.append(Panel(f"{label}, {title}", "step size over its public default", curves))
    title = "GPOPE by step size, 1,000 trajectories, replace-one"
    draw(panels, title, IMAGES / "gpope_steps.svg")
    return f"![{title}](../images/gpope_steps.svg)"


def _curve(name: str, found: Mapping[str, Any], column: str) -> Curve:
    """Against the step size over the default, as far as it is a number and not beyond `LARGEST`."""
    base = found["grid"][found["default"]]
    points = [(step / base, value) for step, value in zip(found["grid"], found[column], strict=True) if value]
    least = min(value for _, value in points)
    kept = [(x, y) for x, y in points if y < LARGEST * least]
    return Curve(name, [x for x, _ in kept], [y for _, y in kept])


def schedules() -> str:
    """Constant against diminishing steps: squared distance from the solution, and the theorems' bounds."""
    results, blocks = gpope_schedules.store(), []
    steps = gpope_schedules.STEPS
    pairs = [(key, results.values(key)) for key in map(gpope_schedules.exact_key, (1, *steps))]
    exact = [
        ["distance", *(f"{found['distance_mean'][0]:.4g}" for _, found in pairs)],
        ["bound of Theorem 2", *(f"{gpope_schedules.bounds(*pair)[0]:.4g}" for pair in pairs)],
    ]
    blocks.append(f"exact directions, no noise\n\n{markdown(['1 step', *_heads(steps)], exact)}")
    for epsilon, clip in itertools.product(gpope_schedules.EPSILONS, gpope_schedules.CLIPS):
        rows = []
        for schedule in gpope_schedules.SCHEDULES:
            pairs = [
                (key, results.values(key))
                for key in (gpope_schedules.key(schedule, clip, count, epsilon) for count in steps)
            ]
            for column, words in MEASURES.items():
                least = (min(one for one in found[column] if one is not None) for _, found in pairs)
                rows.append([f"{schedule}: least {words}", *map(_shown, least)])
            rows.append(
                [f"{schedule}: distance at the theorem's step", *(_shown(f["distance_mean"][-1]) for _, f in pairs)]
            )
            rows.append([f"{schedule}: its bound", *(_shown(gpope_schedules.bounds(*pair)[-1]) for pair in pairs)])
        words = "no noise, not private" if epsilon is None else f"epsilon {epsilon:g}"
        blocks.append(f"{words}, clip {clip:g}\n\n{markdown(_heads(steps), rows)}")
    return "\n\n".join(blocks)


def _heads(steps: Sequence[int]) -> list[str]:
    return [f"{count:,} steps" for count in steps]


def _shown(value: float | None) -> str:
    return "diverges" if value is None else f"{value:.3g}"


PAGES: dict[str, Callable[[], str]] = {  # what `pages` shows, by the names of its places
    "gpope_chain_values": chain,
    "gpope_other_values": others,
    "ope_values": whole_policies,
    "gpope_steps": steps,
    "gpope_schedules": schedules,
}
