"""Who takes part in a step: exact Poisson sampling of units, and of at most L rows inside each unit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tacit.errors import PlanError
from tacit.privacy.noise.secret import SecretNoise

Int64 = npt.NDArray[np.int64]


def poisson_sample(population: int, rate: float, noise: SecretNoise) -> Int64:
    """Each of `population` units is drawn independently with probability `rate`, in O(population * rate) work.

    The gaps between successive drawn units are geometric: floor(E / -ln(1 - rate)) units are passed over before each
    one, E a standard exponential (L. Devroye, "Non-Uniform Random Variate Generation", 1986, X.2). Drawing goes on
    until a gap passes the last unit.

    Guarantee:
        From ideal secret words every subset S has probability rate^|S| (1 - rate)^(population - |S|), up to float64:
        a gap of g units has its probability rate (1 - rate)^g to a relative (2^-63 e^E + 2^-48 (1 + E)) / rate with
        E = -g ln(1 - rate), that is 1e-13 / rate as far as g = 10 / rate.

    Edge cases:
        | case | what happens |
        |---|---|
        | rate 1 | everyone, without a draw |
        | rate so small that a gap overflows | the gap is cut at `population`: nobody |
        | population 0 | an empty sample |
        | an empty sample | returned as such; the door still adds noise |

    Args:
        population: the number of units to draw from.
        rate: inclusion probability in (0, 1].
        noise: the secret generator that also makes the noise.

    Returns:
        Sorted indices in 0 .. population - 1, int64.

    Raises:
        PlanError: the rate is not in (0, 1].
    """
    if not 0 < rate <= 1:
        raise PlanError(
            f"the sampling rate is {'over 1' if rate > 1 else 'not above 0'}",
            where="poisson_sample",
            expected="0 < rate <= 1, the probability that one unit takes part in one step",
            remedy="use expected batch / population, with a batch that is no larger than the population",
        )
    if rate == 1 or population == 0:
        return np.arange(population)
    expected = population * rate
    draws = math.ceil(expected + 6 * math.sqrt(expected) + 16)
    last, parts = np.int64(-1), []
    while last < population:
        with np.errstate(over="ignore"):
            passed_over = np.floor(noise.exponential(draws) / -math.log1p(-rate))
        parts.append(last + np.cumsum(np.minimum(passed_over, population).astype(np.int64) + 1))
        last = parts[-1][-1]
    drawn = np.concatenate(parts)
    assert drawn[-1] >= population, "the last gap must pass the last unit"
    return drawn[: np.searchsorted(drawn, population)]


def rows_within_units(
    offsets: Int64, units: Int64, rows_per_unit: int, noise: SecretNoise
) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """At most L rows of each unit, uniformly without replacement, each unit independently of the others.

    R. Floyd's subset sampling (J. Bentley, "A sample of brilliance", CACM 30 (1987) 754), for all units at once.

    Guarantee:
        Every subset of size min(L, n) of a unit's n rows has exactly the same probability, whatever the other units
        hold. A row of one unit never stands in another's place: padding repeats the unit's own first row, masked out.

    Edge cases:
        | case | what happens |
        |---|---|
        | a unit with n <= L rows | all of them, then padding |
        | no units | arrays of shape [0, L] |

    Args:
        offsets: [units + 1]; unit u owns positions offsets[u] .. offsets[u + 1] - 1 of the rows ordered by unit, at
            least one.
        units: [U] indices of units.
        rows_per_unit: L, at least 1.
        noise: the secret generator.

    Returns:
        Positions [U, L] int64, sorted inside each unit, and mask [U, L], True where the row counts.

    Raises:
        PlanError: L is below 1.
    """
    if rows_per_unit < 1:
        raise PlanError(
            "rows_per_unit is below 1",
            where="rows_within_units",
            expected="how many rows of one unit may enter one step",
            remedy="pass a whole number of at least 1",
        )
    first = offsets[units]
    count = offsets[units + 1] - first
    column = np.arange(rows_per_unit)
    mask = column < count[:, None]
    chosen = np.where(mask, column, 0)
    large = np.flatnonzero(count > rows_per_unit)
    subset = np.full((large.size, rows_per_unit), -1, np.int64)
    for k in range(rows_per_unit):
        newest = count[large] - rows_per_unit + k
        candidate = noise.integers(newest + 1)
        taken = (subset[:, :k] == candidate[:, None]).any(axis=1)
        subset[:, k] = np.where(taken, newest, candidate)
    chosen[large] = np.sort(subset, axis=1)
    return first[:, None] + chosen, mask
