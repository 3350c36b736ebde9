"""GPOPE's published formula against lower and upper truth.

One of m trajectories in each of N steps, one trajectory replaced, at delta 1e-5. `reached` is what a pair of data sets
that exists costs at least (everybody's clipped step is -h, one trajectory's is +h or -h): its privacy loss is rounded
down to a grid, so whatever bound lies below this figure is none. `poisson` is what the same noise costs if each
trajectory takes part independently at rate 1 / m. The rows "noise" have the sigma that each accountant asks for.
"""

import functools

from dp_accounting.pld import privacy_loss_distribution

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, command_line
from tacit.methods.off_policy_evaluation.gpope import published_epsilon, published_sigma
from tacit.privacy.accounting import accountants
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    Event,
    GaussianEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    flatten,
)
from tacit.units import Relation

DELTA = 1e-5
SETTINGS = (  # m, N, sigma, grid of the lower bound: N rounded losses are off by N grid steps at most
    (1_000, 1_000, 0.5, 1e-3),
    (1_000, 1_000, 0.574, 5e-4),
    (1_000, 1_000, 0.8, 1e-4),
    (1_000, 1_000, 1.0, 5e-5),
    (1_000, 1_000, 1.2, 2e-5),
    (1_000, 1_000, 1.6, 2e-5),
    (1_000, 1_000, 2.0, 1e-5),
    (1_000, 1_000, 5.0, 1e-6),
    (1_000, 10_000, 1.0, 2e-5),
    (1_000, 10_000, 5.0, 5e-7),
    (1_000, 100_000, 5.0, 2e-7),
    (100, 1_000, 2.0, 2e-5),
)
TARGETS = (0.1, 1.0)
POPULATION, STEPS = 1_000, 1_000  # m and N of the rows "noise"
FIXED: Relation = "replace_one"
POISSON: Relation = "add_or_remove"  # what neighbours differ in under either sampler


def key(m: int, n: int, sigma: float) -> str:
    return f"m={m}/N={n}/sigma={sigma:g}"


def noise_key(epsilon: float) -> str:
    return f"noise/epsilon={epsilon:g}"


def one_of_m(m: int, n: int, sigma: float) -> Event:
    """The sampler as the paper runs it."""
    step = SampledWithoutReplacementEvent(m, 1, GaussianEvent(sigma))
    return SelfComposedEvent(step, n)


def reached(m: int, n: int, sigma: float, interval: float) -> float:
    """What the achievable pair reaches at least: sums are N(-h, .) or, one time in m, N(h, .), against N(-h, .)."""
    one = privacy_loss_distribution.from_gaussian_mechanism(
        sigma / 2,  # the two centres are two clips apart
        sampling_prob=1 / m,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=interval,
    )
    return float(one.self_compose(n).get_epsilon_for_delta(DELTA))


def row(m: int, n: int, sigma: float, interval: float) -> dict[str, float]:
    event = one_of_m(m, n, sigma)
    bound = accounting.epsilon(event, delta=DELTA, relation=FIXED)
    poisson = SelfComposedEvent(PoissonSampledEvent(1 / m, GaussianEvent(sigma)), n)
    return {
        "published": published_epsilon(m, n, sigma, DELTA),
        "reached": reached(m, n, sigma, interval),
        "certified": bound.epsilon,
        "check": bound.check_epsilon,
        "renyi": accountants.renyi_epsilon(flatten(event), FIXED, DELTA),
        "poisson": accounting.epsilon(poisson, delta=DELTA, relation=POISSON).epsilon,
    }


def noise(epsilon: float) -> dict[str, float]:
    """The sigma for epsilon at m = N = 1,000: published, right, and with Poisson sampling (add or remove)."""
    sampled = PoissonSampledEvent

    def poisson(sigma: float) -> Event:
        return SelfComposedEvent(sampled(1 / POPULATION, GaussianEvent(sigma)), STEPS)

    def fixed(sigma: float) -> Event:
        return one_of_m(POPULATION, STEPS, sigma)

    return {
        "published": published_sigma(POPULATION, STEPS, epsilon, DELTA),
        "certified": accounting.calibrate(fixed, epsilon=epsilon, delta=DELTA, relation=FIXED),
        "poisson": accounting.calibrate(poisson, epsilon=epsilon, delta=DELTA, relation=POISSON),
    }


def jobs() -> Jobs:
    common = {"batch": 1, "delta": DELTA, "relations": {"fixed": FIXED, "poisson": POISSON}}
    found: Jobs = {}
    for m, n, sigma, interval in SETTINGS:
        asked = {"population": m, "steps": n, "noise_multiplier": sigma, "grid": interval}
        found |= {key(m, n, sigma): ({**asked, **common}, functools.partial(row, m, n, sigma, interval))}
    for epsilon in TARGETS:
        asked = {"epsilon": epsilon, "population": POPULATION, "steps": STEPS}
        found |= {noise_key(epsilon): ({**asked, **common}, functools.partial(noise, epsilon))}
    return found


ROWS = Computed(__file__, jobs)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for m, n, sigma, _ in SETTINGS:
        name = key(m, n, sigma)
        cell = results.values(name)
        yield at_most(f"{name}: reached / certified", cell["reached"] / cell["certified"], 1.0)
        yield at_most(f"{name}: certified / Renyi", cell["certified"] / cell["renyi"], 1.0)
        if m == n and sigma <= 1:
            yield at_least(f"{name}: reached / published", cell["reached"] / cell["published"], 8.9)
            yield at_least(f"{name}: reached / certified, too", cell["reached"] / cell["certified"], 0.96)
    middle = results.values(key(1_000, 1_000, 1.0))
    yield at_least("sigma 1, m = N = 1,000: certified, from", middle["certified"], 3.20)
    yield at_most("sigma 1, m = N = 1,000: certified, to", middle["certified"], 3.29)
    for epsilon, low, high in ((0.1, 2.77, 2.79), (1.0, 1.28, 1.30)):
        sigma = results.values(noise_key(epsilon))["certified"]
        yield at_least(f"sigma for {epsilon}, from", sigma, low)
        yield at_most(f"sigma for {epsilon}, to", sigma, high)


if __name__ == "__main__":
    command_line(__file__)
