"""What Thompson sampling is worth, from the logs of a uniformly random recommender: real clicks, real propensities.

Needs the sample of the Open Bandit Dataset (`pip install --no-deps obp==0.4.1`): for each of three campaigns 10,000
impressions of the policy `random`, which are private (no visitor is named, so that a unit is an impression), and 10,000
of `bts` (Bernoulli Thompson sampling), which count as public. Evaluated is the average of Thompson sampling over the
week, one table item x position, from the propensities that the bts log publishes (`thompson`).

The yardstick is the click rate of the bts log itself. It holds 42 to 69 clicks, so it is known to about 15 % only; the
random log has 38 to 46, so that even without privacy an estimate is off by a fifth of the value (`standard_error` in
the row `nonprivate`). `noise only` has the same plans on the log with every click erased. Nothing was tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import numpy as np

from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.data.sources import open_bandit
from tacit.data.trajectories import Trajectories
from tacit.methods import off_policy_evaluation as ope
from tacit.units import Unit

DELTA, EPSILONS, SEEDS = 1e-6, (0.1, 1.0, 10.0), 10
SAMPLE = "obp 0.4.1"
UNIT = Unit("impression", "add_or_remove", 10_000)
Columns = Mapping[str, np.ndarray]


def configuration(key: str) -> Json:
    campaign, *rest = key.split("/")
    name = cast(open_bandit.Campaign, campaign)
    data = {"campaign": name, "sample": SAMPLE, "spec": open_bandit.spec(name), "target": "mean of bts over the week"}
    asked = {"data": describe(data), "unit": describe(UNIT)}
    if rest == ["nonprivate"]:
        return asked | {"estimates": "without privacy"}
    placeholder = np.full((1, 2), 0.5)
    described = describe(plans(placeholder))
    described["unclipped"]["clip"] = "the largest ratio"  # of the target, which is data
    promise = {"epsilon": float(rest[0].removeprefix("epsilon=")), "delta": DELTA, "unit": UNIT}
    return asked | {"plans": described, "records": ["all", "without clicks"], "guarantee": describe(promise)}


store = store_of(__file__, configuration, "the defaults of every plan; clips from public numbers")


def rows() -> list[str]:
    return [key for campaign in get_args(open_bandit.Campaign) for key in keys(campaign, range(SEEDS))]


def keys(campaign: open_bandit.Campaign, seeds: range) -> list[str]:
    private = [f"{campaign}/epsilon={epsilon:g}/seed={seed}" for epsilon in EPSILONS for seed in seeds]
    return [f"{campaign}/nonprivate", *private]


def thompson(campaign: open_bandit.Campaign) -> np.ndarray:
    """[3, items] how likely each item was in each position, averaged over the week of the bts log.

    The log shows the propensity of the item that was chosen, so high ones are seen too often: weighting each by its
    inverse makes the average over the week right (a harmonic mean). Rows are normalised.
    """
    log = open_bandit.read(campaign, "bts").columns
    cells = log["observations"] * open_bandit.ITEMS[campaign] + log["actions"]
    size = open_bandit.POSITIONS * open_bandit.ITEMS[campaign]
    inverse = np.bincount(cells, 1 / log["propensities"].astype(np.float64), size)
    counts = np.bincount(cells, minlength=size)
    table = np.divide(counts, inverse, out=np.zeros(size), where=counts > 0).reshape(open_bandit.POSITIONS, -1)
    result: np.ndarray = table / table.sum(axis=1, keepdims=True)
    return result


def nonprivate(log: Columns, target: np.ndarray) -> dict[str, float]:
    """Plain estimates without privacy: importance sampling, self-normalised, clicks by item, doubly robust."""
    position, item, click = log["observations"], log["actions"], log["rewards"].astype(np.float64)
    ratio = target[position, item] / log["propensities"].astype(np.float64)
    cells = position * target.shape[1] + item
    shown, clicked = np.bincount(cells, minlength=target.size), np.bincount(cells, click, target.size)
    rate = np.divide(clicked, shown, out=np.zeros(target.size), where=shown > 0).reshape(target.shape)
    direct = (target * rate).sum(axis=1)[position]
    weighted = ratio * click
    return {
        "pdis": float(weighted.mean()),
        "wpdis": float(weighted.sum() / ratio.sum()),
        "direct": float(direct.mean()),
        "doubly_robust": float((direct + ratio * (click - rate[position, item])).mean()),
        "standard_error": float(weighted.std() / np.sqrt(len(weighted))),
        "effective_sample_size": float(ratio.sum() ** 2 / (ratio**2).sum()),
        "largest_ratio": float(ratio.max()),
    }


def plans(target: np.ndarray) -> dict[str, ope.Plan]:
    """The plans by name, all with their defaults.

    `unclipped`: importance sampling whose clip is the largest ratio there can be, which is public here: the random
    policy's propensities are 1 / items.
    """
    problem, features = ope.Problem(gamma=1.0, horizon=1), ope.OneHot(open_bandit.POSITIONS)
    return {
        "pdis": ope.ImportanceSampling(problem=problem, weighting="pdis"),
        "wpdis": ope.ImportanceSampling(problem=problem),
        "unclipped": ope.ImportanceSampling(problem=problem, clip=float(target.max() * target.shape[1])),
        "residual": ope.ResidualRegression(problem=problem, features=features, on_policy=False),
        "fitted_q": ope.FittedQ(problem=problem, features=features),
        "doubly_robust": ope.DoublyRobust(problem=problem, features=features),
    }


def measure(plan: ope.Plan, epsilon: float, log: Trajectories, target: np.ndarray) -> dict[str, float]:
    """Value and interval of one run through the real doors, with a ledger of its own."""
    calibrated = plan.calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)
    with vaults.vault(log, UNIT, epsilon, DELTA) as doors:
        found = ope.fit(calibrated, doors, ope.Tabular(target)).value
    return {"value": float(found.value), "low": float(found.interval.low), "high": float(found.interval.high)}


def run_row(key: str, results: Store) -> None:
    name, *rest = key.split("/")
    campaign = cast(open_bandit.Campaign, name)
    target, dataset = thompson(campaign), f"Open Bandit sample ({SAMPLE}), {campaign}"
    log, values, seed = open_bandit.read(campaign).columns, dict[str, Any](), 0
    if rest == ["nonprivate"]:
        clicks = open_bandit.read(campaign, "bts").columns["rewards"].astype(np.float64)
        values = {"truth": float(clicks.mean()), "truth_standard_error": float(clicks.std() / np.sqrt(len(clicks)))}
        values |= {"behaviour": float(log["rewards"].mean())} | nonprivate(log, target)
    else:
        epsilon, seed = float(rest[0].removeprefix("epsilon=")), int(rest[1].removeprefix("seed="))
        columns: dict[str, Any] = {**log, "rewards": np.zeros(len(log["rewards"]))}
        clickless = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=open_bandit.spec(campaign))
        for method, plan in plans(target).items():
            values[method] = measure(plan, epsilon, open_bandit.read(campaign), target)
            values[f"{method}, noise only"] = measure(plan, epsilon, clickless, target)
    results.put(key, dataset=dataset, seed=seed, values=values)


def column(results: Store, campaign: str, epsilon: float, method: str, key: str = "value") -> np.ndarray:
    cells = (results.values(f"{campaign}/epsilon={epsilon:g}/seed={seed}") for seed in range(SEEDS))
    return np.array([cell[method][key] for cell in cells])


def rmse(results: Store, campaign: str, epsilon: float, method: str, against: str = "truth") -> float:
    """Root mean squared error of a method over seeds, against a number of the row `nonprivate`."""
    error = column(results, campaign, epsilon, method) - results.values(f"{campaign}/nonprivate")[against]
    return float(np.sqrt(np.mean(error**2)))


def coverage(results: Store, campaign: str, epsilon: float, method: str) -> float:
    """Share of seeds whose interval holds the click rate of the bts log."""
    low, high = (column(results, campaign, epsilon, method, key) for key in ("low", "high"))
    truth = results.values(f"{campaign}/nonprivate")["truth"]
    return float(np.mean((low <= truth) & (truth <= high)))


def figures() -> Figures:
    results, held = store(), []
    for campaign in get_args(open_bandit.Campaign):
        top = results.values(f"{campaign}/nonprivate")
        known = float(np.hypot(top["standard_error"], top["truth_standard_error"]))
        without = abs(top["wpdis"] - top["truth"]) / known
        yield at_most(f"{campaign}: error without privacy in standard errors", without, 2.0)
        private = rmse(results, campaign, 10.0, "wpdis") / known
        yield at_most(f"{campaign}: error of wpdis at epsilon 10 in the same", private, 2.0)
        share = rmse(results, campaign, 10.0, "wpdis") / rmse(results, campaign, 10.0, "wpdis, noise only")
        yield at_most(f"{campaign}: the same against noise only", share, 0.6)
        high = float(np.median(column(results, campaign, 1.0, "unclipped", "high")))
        yield at_most(f"{campaign}: upper end of unclipped at epsilon 1", high, 0.1)
        held += [coverage(results, campaign, e, name) for e in EPSILONS for name in plans(np.full((1, 2), 0.5))]
    yield at_least("share of all intervals that hold the bts log's click rate", float(np.mean(held)), 0.95)


if __name__ == "__main__":
    command_line(__file__)
