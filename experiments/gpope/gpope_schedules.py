"""Constant and diminishing steps of GPOPE on the chain, beside the bounds of Theorems 2 and 3 of its paper.

The paper's sampler (arXiv:1902.00174), noise calibrated to the number of steps N; trials share their samples and noise
over a grid of steps beta or beta / i. The theorems speak of the last iterates:

    xi = (theta - theta*, w - w*) of the population, xi_1 of theta = w = 0, V = E|Delta|^2 <= G^2 + 2 n (h sigma)^2
    Theorem 2 (beta):    E|xi|^2 <= (1 - beta l)^(2 N) (|xi_1|^2 - C) + C,   C = beta V / (2 l - beta l^2)
    Theorem 3 (eta/(l i), eta > 1):   E|xi|^2 <= max(|xi_1|^2, eta^2 V / ((eta - 1) l^2)) / N

with l the least and L the largest real part of an eigenvalue of Q = [0 -A^T; A C]; Lemma 2, which both rest on, asks
for steps of at most 1 / L. G^2 is measured: the largest mean squared deviation from the population's direction on the
way. The paper's trace of the noise's covariance is read as 2 n (h sigma)^2. `exact` has neither sampling nor noise.
"""

import functools
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from experiments.gpope import gpope_chain, ope_methods
from experiments.gpope.gpope_chain_baselines import POOLED
from experiments.gpope.ope_baselines import SEED, gpope_plan, pooled, rounded
from experiments.gpope.ope_methods import DELTA, TRIALS, Setting, unit_of
from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import Json, Store, command_line, store_of
from tacit import off_policy_evaluation as ope
from tacit.methods.off_policy_evaluation.gpope import Iterates, Schedule, direction
from tacit.privacy.gradients import clipping
from tacit_worlds import chain

Array = npt.NDArray[np.float64]

UNITS, STEPS = 1_000, (100, 1_000, 10_000)
EPSILONS = (None, 1.0, 0.1)  # None: no noise, not private
CLIPS = (0.01, 1.0)
SCHEDULES: tuple[Schedule, ...] = ("constant", "diminishing")
FACTORS = tuple(10.0 ** (k / 2) for k in range(-6, 5))
"""Of the step under which all clipped steps in one direction cover the public range of values."""
ETA = 2.0  # of Theorem 3's own steps, eta / (l i)
LOOKS = 100  # steps at which G^2 is measured, evenly on a logarithmic scale


def key(schedule: Schedule, clip: float, steps: int, epsilon: float | None) -> str:
    return f"{schedule}/clip={clip:g}/steps={steps}/epsilon={'none' if epsilon is None else f'{epsilon:g}'}"


def exact_key(steps: int) -> str:
    return f"constant/exact/steps={steps}"


def of(name: str) -> tuple[Schedule, float | None, int, float | None]:
    """Schedule, clip (None: exact), steps and epsilon of a key."""
    schedule, clip, steps, *promise = name.split("/")
    epsilon = promise[0].removeprefix("epsilon=") if promise else "none"
    return (
        cast(Schedule, schedule),
        None if clip == "exact" else float(clip.removeprefix("clip=")),
        int(steps.removeprefix("steps=")),
        None if epsilon == "none" else float(epsilon),
    )


def rows() -> list[str]:
    noisy = [key(s, clip, n, e) for n in STEPS for clip in CLIPS for e in EPSILONS for s in SCHEDULES]
    return [*(exact_key(n) for n in (1, *STEPS)), *noisy]


def configuration(name: str) -> Json:
    schedule, clip, steps, epsilon = of(name)
    setting = Setting(UNITS, epsilon, "replace_one")
    method = {
        "plan": None if clip is None else plan_of(schedule, clip, steps),
        "step_factors": FACTORS,
        "eta": ETA,
        "looks": LOOKS,
        "steps": steps,
    }
    asked = ope_methods.asked(gpope_chain.domain(), setting, method, 1 if clip is None else TRIALS)
    return {"pool": POOLED.pool, **asked}


store = store_of(__file__, configuration, "a public grid of step sizes, all of which are shown; nothing is chosen")


def plan_of(schedule: Schedule, clip: float, steps: int) -> ope.Gpope:
    return gpope_plan(gpope_chain.domain(), mode="paper", schedule=schedule, steps=steps, clip_norm=clip)


@functools.cache
def spectrum() -> tuple[float, float]:
    """l and L: the least and the largest real part of an eigenvalue of the population's Q."""
    a, _, c = chain.expected_moments()
    real = np.linalg.eigvals(np.block([[np.zeros_like(a), -a.T], [a, c]])).real
    return float(real.min()), float(real.max())


def solution() -> Array:
    """theta* beside w* [2n]; A is invertible, so that w* is 0."""
    a, b, _ = chain.expected_moments()
    return np.concatenate([np.linalg.solve(a, b), np.zeros(len(b))])


def constant_bound(step: float, steps: int, least: float, variance: float, start: float) -> float:
    """Theorem 2: E|xi|^2 after `steps` steps of one size, from |xi_1|^2 = `start`."""
    floor = step * variance / (2 * least - step * least**2)
    return float((1 - step * least) ** (2 * steps) * (start - floor) + floor)


def diminishing_bound(eta: float, steps: int, least: float, variance: float, start: float) -> float:
    """Theorem 3: the same after steps of eta / (least i); eta > 1."""
    return float(max(start, eta**2 * variance / ((eta - 1) * least**2)) / steps)


def step_sizes(plan: ope.Gpope) -> Array:
    """The grid [G], and last the theorems' own step: the largest that Lemma 2 allows, or eta over l."""
    least, largest = spectrum()
    clip = plan.resolve_clip(gpope_chain.domain().spec)
    reach = float(np.linalg.norm(plan.features.constant(1.0))) / (clip * float(plan.weights.sum()))
    return np.array(
        [*(factor * reach for factor in FACTORS), 1 / largest if plan.schedule == "constant" else ETA / least]
    )


def row(schedule: Schedule, clip: float, steps: int, epsilon: float | None) -> dict[str, Any]:
    """All trials under all step sizes: means over the trials, one number a step size."""
    pool, plan = pooled(gpope_chain.domain, POOLED.pool, SEED, None), plan_of(schedule, clip, steps)
    unit = unit_of(Setting(UNITS, epsilon, "replace_one"))
    sigma = 0.0 if epsilon is None else plan.calibrate(unit=unit, epsilon=epsilon, delta=DELTA).sigma
    grid, generator, trials = step_sizes(plan), np.random.default_rng((SEED, steps)), TRIALS
    n, beta = plan.features.size, grid.astype(np.float32)[:, None]
    members = np.stack([generator.choice(pool.units, UNITS, replace=False) for _ in range(trials)])
    expected = dict(zip("AbC", (one.astype(np.float32) for one in chain.expected_moments()), strict=True))
    looks = set(np.geomspace(1, steps, LOOKS).astype(int).tolist())
    iterates = Iterates(plan, np.zeros((trials, len(grid), 2 * n), np.float32))
    deviation, clipped = np.zeros(len(grid)), np.zeros(len(grid))
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(1, steps + 1):
            drawn = np.take_along_axis(members, generator.integers(UNITS, size=(trials, 1)), axis=1)[:, 0]
            noise = generator.standard_normal((trials, 1, 2 * n), np.float32)
            each = direction({name: array[drawn] for name, array in pool.stats.items()}, iterates.x)
            norms = np.linalg.norm(each, axis=2)
            each *= clipping.coefficients(norms.ravel(), clip).reshape(*norms.shape, 1)
            clipped += (norms > clip).mean(axis=0) / steps
            if i in looks:
                apart = np.square(each - direction(expected, iterates.x)).sum(axis=2, dtype=np.float64).mean(axis=0)
                deviation = np.maximum(deviation, apart)
            iterates.update(each + np.float32(sigma * clip) * noise, beta)
        distance = np.square(iterates.x - solution()).sum(axis=2)
        released = pool.judged(iterates.mean.astype(np.float64))
    return {
        "grid": grid,
        "distance_mean": distance.mean(axis=0),
        "distance_error": distance.std(axis=0) / np.sqrt(trials),
        "rmse_mean": released["raw"].mean(axis=0),
        "mspbe_mean": released["mspbe"].mean(axis=0),
        "deviation": deviation,
        "clipped": clipped,
        "noise": 2 * n * (sigma * clip) ** 2,
        "sigma": sigma,
    }


def exact(steps: int) -> dict[str, Any]:
    """The population's own directions at the largest step that Lemma 2 allows."""
    a, b, c = chain.expected_moments()
    own, step, x = np.block([[np.zeros_like(a), -a.T], [a, c]]), 1 / spectrum()[1], np.zeros(2 * len(b))
    for _ in range(steps):
        x = x - step * (own @ x - np.concatenate([np.zeros_like(b), b]))
    return {"grid": [step], "distance_mean": [float(np.square(x - solution()).sum())], "noise": 0.0, "deviation": [0.0]}


def bounds(name: str, values: dict[str, Any]) -> list[float | None]:
    """The theorem's bound for each step size of a row; None where its conditions on the step do not hold."""
    schedule, _, steps, _ = of(name)
    (least, largest), start = spectrum(), float(np.square(solution()).sum())
    found: list[float | None] = []
    for step, deviation in zip(values["grid"], values["deviation"], strict=True):
        allowed = step <= 1.001 / largest if schedule == "constant" else step * least > 1
        if deviation is None or not allowed:
            found.append(None)
        elif schedule == "constant":
            found.append(constant_bound(step, steps, least, deviation + values["noise"], start))
        else:
            found.append(diminishing_bound(step * least, steps, least, deviation + values["noise"], start))
    return found


def figures() -> Figures:
    """What Theorem 2 promises without sampling and noise, from 100 steps on, as measured distance over its bound."""
    results = store()
    for steps in STEPS:
        name = exact_key(steps)
        values = results.values(name)
        (bound,) = bounds(name, values)
        assert bound is not None
        yield at_most(f"exact, {steps} steps: distance over Theorem 2", values["distance_mean"][0] / bound, 1.0)


def run_row(name: str, results: Store) -> None:
    schedule, clip, steps, epsilon = of(name)
    values = rounded(exact(steps) if clip is None else row(schedule, clip, steps, epsilon))
    dataset = f"simulated chain, {UNITS} trajectories a trial from a pool of {POOLED.pool}"
    results.put(name, dataset="none" if clip is None else dataset, seed=SEED, values=values)


if __name__ == "__main__":
    command_line(__file__)
