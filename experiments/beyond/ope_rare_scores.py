"""Coverage of intervals for scores that are rarely large, or rarely small.

N scores are `high` with probability lambda / N and `low` otherwise; released are their sums with the noise of epsilon
at delta = .1 / N. Among laws of one mean and range, those of two values at its ends have the largest variance. A row
has the coverage of the true mean for each level and lambda: summed over the binomial law of how many scores are high,
and over the joint normal law of the noise in the residual and in its variance. Nothing is simulated. Coverage of the
hull can only be larger.
"""

import functools
import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Computed, Jobs, command_line
from tacit.methods.off_policy_evaluation import intervals
from tacit.methods.off_policy_evaluation.intervals import Sides
from tacit.methods.off_policy_evaluation.scores import SHARES
from tacit.privacy.accounting.accountants import gaussian_epsilon

LEVELS = (0.5, 0.9, 0.95, 0.975, 0.99, 0.999)
LAMBDAS = (0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.2, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0)
LAWS: dict[str, tuple[float, float, float, Sides]] = {  # high, low, floor, sides
    "rare successes, from below": (1.0, 0.0, 0.0, "lower"),
    "rare gains, from below": (1.0, -1.0, -1.0, "lower"),
    "rare losses, from below": (-1.0, 1.0, -1.0, "lower"),
    "rare gains, on both sides": (1.0, -1.0, -1.0, "both"),
    "rare losses, on both sides": (-1.0, 1.0, -1.0, "both"),
}
EPSILONS = (1.0, 4.0, 8.0, math.inf)
SIZES = (1_000, 10_000)
GRID = np.linspace(-6.5, 6.5, 261)  # of the noise in the variance, in its standard deviations

Floats = NDArray[np.float64]


def noise_of(epsilon: float, delta: float) -> tuple[float, float, float]:
    """Standard deviations of the noise in the sum, the count and the squares, when the release has all of epsilon."""
    if math.isinf(epsilon):
        return (0.0, 0.0, 0.0)
    mu = brentq(lambda one: gaussian_epsilon(delta, one) - epsilon, 1e-4, 30)
    return tuple(1 / (mu * math.sqrt(share)) for share in SHARES)  # type: ignore[return-value]


def coverage(
    units: int, rare: float, law: tuple[float, float, float, Sides], level: float, noise: tuple[float, float, float]
) -> float:
    """The probability that the true mean is accepted, exactly.

    Args:
        units: N, also the public population.
        rare: lambda.
        law: high, low, floor, sides.
        level: nominal.
        noise: standard deviations in the three sums.
    """
    (high, low, floor, sides), (a, b, d) = law, noise
    chance = rare / units
    mean = chance * high + (1 - chance) * low
    count = np.arange(min(units, int(rare + 12 * math.sqrt(rare) + 25)) + 1)
    weight = binom.pmf(count, units, chance)
    residual = count * (high - mean) + (units - count) * (low - mean)
    squares = count * (high - mean) ** 2 + (units - count) * (low - mean) ** 2
    variance, scale = a**2 + (mean * b) ** 2, math.sqrt(d**2 + (2 * mean * a) ** 2 + (mean**2 * b) ** 2)
    common = (-2 * mean * a**2 - mean**3 * b**2) / scale if scale else 0.0  # what both noises share
    grid = GRID if scale else np.zeros(1)
    share = norm.pdf(grid) / norm.pdf(grid).sum()
    spread, middle = (squares[:, None] + scale * grid).ravel(), (residual[:, None] + common * grid).ravel()

    def limit(sign: float) -> Floats:
        excess = intervals._excess(
            residual=np.full(len(spread), sign * 1e-9),
            noise=np.full(len(spread), variance),
            spread=spread,
            spread_noise=np.full(len(spread), scale),
            below=np.full(len(spread), mean - floor),
            above=np.full(len(spread), 1 - mean),
            population=units,
            z=intervals._quantile(level, sides),
            sides="both",
        )
        return np.asarray(1e-9 - excess)

    rest = math.sqrt(max(variance - common**2, 0.0))

    def below(point: Floats, closed: bool) -> Floats:
        if rest:
            return np.asarray(ndtr((point - middle) / rest))
        return np.asarray(middle <= point if closed else middle < point, np.float64)

    accepted = below(limit(1.0) + 1e-9, True)
    if sides == "both":
        accepted = accepted - below(-limit(-1.0) - 1e-9, False)
    return float(weight @ (accepted.reshape(len(count), -1) @ share))


def computed(law: str, units: int, epsilon: float) -> dict[str, list[float]]:
    noise = noise_of(epsilon, 0.1 / units)
    return {
        f"{level:g}": [round(coverage(units, rare, LAWS[law], level, noise), 6) for rare in LAMBDAS] for level in LEVELS
    }


def jobs() -> Jobs:
    found: Jobs = {}
    for law, n, epsilon in itertools.product(LAWS, SIZES, EPSILONS):
        private = "none" if math.isinf(epsilon) else f"{epsilon:g}"
        asked = dict(zip(("high", "low", "floor", "sides"), LAWS[law], strict=True)) | {"units": n, "epsilon": private}
        asked |= {"delta": 0.1 / n, "levels": list(LEVELS), "lambdas": list(LAMBDAS)}
        found |= {f"{law}/N={n}/epsilon={epsilon:g}": (asked, functools.partial(computed, law, n, epsilon))}
    return found


ROWS = Computed(__file__, jobs)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for key in rows():
        for level, found in results.values(key).items():
            yield at_least(
                f"{key}: least coverage at {level}", min(found), float(level) - (4e-4 if level == "0.999" else 5e-6)
            )


if __name__ == "__main__":
    command_line(__file__)
