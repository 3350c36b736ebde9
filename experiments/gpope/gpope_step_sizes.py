"""Step sizes of GPOPE, compared on simulated records: many trials and step sizes in one pass.

Every trial's data set is a subset of the given simulated units; all step sizes of a trial share its data set, its
samples and its noise (common random numbers, so curves over step sizes are smooth). Nothing here is private, and none
may be: a step size that is chosen on private records would have to be paid for.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.methods.off_policy_evaluation.gpope import Gpope, Iterates, direction
from tacit.methods.off_policy_evaluation.policies import Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics, Stats
from tacit.privacy.gradients import clipping

Step = tuple[NDArray[np.int64] | None, NDArray[np.float32]]
"""Units of a step [T, B], or None for all; standard normal noise [T, 2n]."""

CHUNK = 256  # units whose statistics are made at a time

TOGETHER = 25  # trials that run side by side where a step draws a few units


def unit_rows(trajectories: Trajectories, problem: Problem) -> dict[str, np.ndarray]:
    """Columns [U, L, ...] of simulated records with `mask` and `starts`, as a `Summary` gets them from a vault."""
    # A unit is `problem.episodes_per_unit` successive episodes, of any owner.
    if not trajectories.simulated:
        what, expected = "the records are not simulated", "simulated records, on which anything may be tried"
        remedy = "simulate some, or take the plan's public default"
        raise DataError(what, where="step_sizes", expected=expected, remedy=remedy)
    first = trajectories.episodes[: -1 : problem.episodes_per_unit]
    last = np.append(first[1:], trajectories.episodes[-1])
    length = min(problem.rows_per_unit, int((last - first).max()))
    mask = np.arange(length) < (last - first)[:, None]
    where = first[:, None] + np.where(mask, np.arange(length), 0)
    starts = np.zeros(int(trajectories.episodes[-1]), bool)
    starts[trajectories.episodes[:-1]] = True
    columns = {name: column[where] for name, column in trajectories.columns.items()}
    return {**columns, "mask": mask, "starts": starts[where] & mask}


def summarise(summary: BellmanStatistics, rows: Stats) -> dict[str, np.ndarray]:
    parts = [
        summary({name: column[start : start + CHUNK] for name, column in rows.items()})
        for start in range(0, len(rows["mask"]), CHUNK)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def compare(
    stats: Stats, plan: Gpope, step_sizes: Sequence[float], *, clip: float, trials: int, seed: int
) -> NDArray[np.float64]:
    """GPOPE with each of the step sizes, in many trials at once: theta [trials, S, n], NaN where it left float32.

    Args:
        stats: arrays [P, ...] of simulated units, made with trace "gtd"; at least as many as the plan's population.
        plan: calibrated or priced.
        step_sizes: S positive numbers.
        clip: of a unit's direction.
        trials: how many, each with a data set of its own.
        seed: of data sets, samples and noise.
    """
    pool, population = len(next(iter(stats.values()))), plan.unit.size
    generator, sizes = np.random.default_rng(seed), np.asarray(step_sizes, np.float32)
    together = TOGETHER if plan.mode == "paper" else 1
    thetas = []
    for start in range(0, trials, together):
        count = min(together, trials - start)
        if pool == population:
            members = np.broadcast_to(np.arange(pool), (count, pool))
        else:
            members = np.stack([generator.choice(pool, population, replace=False) for _ in range(count)])
        held: Stats = {name: array[members] for name, array in stats.items()} if plan.mode == "full_batch" else stats
        thetas.append(iterate(held, plan, _draws(plan, members, generator), sizes, clip=clip))
    theta = np.concatenate(thetas).astype(np.float64)
    theta[~np.isfinite(theta).all(axis=2)] = np.nan
    return theta


def tune(
    trajectories: Trajectories, plan: Gpope, policy: Target, step_sizes: Sequence[float], *, trials: int, seed: int
) -> NDArray[np.float64]:
    """`compare` on simulated records, of which the statistics are made first."""
    stats = summarise(
        BellmanStatistics(plan.problem, policy, None, plan.features, "gtd"), unit_rows(trajectories, plan.problem)
    )
    return compare(stats, plan, step_sizes, clip=plan.resolve_clip(trajectories.spec), trials=trials, seed=seed)


def iterate(
    stats: Stats, plan: Gpope, steps: Iterable[Step], step_sizes: NDArray[np.float32], *, clip: float
) -> NDArray[np.float32]:
    """The released parameters of T trials under S step sizes, [T, S, n]."""
    # stats: statistics of all units [P, ...], which the steps draw from, or [T, m, ...] where they draw all;
    # step_sizes: [S]
    iterates: Iterates | None = None
    scale, divisor = np.float32(plan.sigma * clip / plan.divisor), np.float32(plan.divisor)
    ones, beta = np.ones((2 * plan.features.size, 1), np.float32), step_sizes[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        for units, noise in steps:
            if iterates is None:
                shape = (len(noise), len(step_sizes), noise.shape[1])
                iterates = Iterates(plan, np.zeros(shape, np.float32))
            drawn = stats if units is None else {name: array[units] for name, array in stats.items()}
            each = direction(drawn, iterates.x[:, None])
            norms = np.sqrt(np.square(each) @ ones)
            factors = clipping.coefficients(norms.ravel(), clip).reshape(norms.shape) / divisor
            each *= factors
            mean = each[:, 0] if each.shape[1] == 1 else each.sum(axis=1)
            mean += scale * noise[:, None]
            iterates.update(mean, beta)
    assert iterates is not None
    return iterates.mean


def mspbe(stats: Stats, theta: np.ndarray) -> NDArray[np.float64]:
    """(b - A theta)^T C^+ (b - A theta) with the means of A, b and C over the units; theta [..., n]."""
    A, b, C = means(stats)
    residual = b - theta @ A.T
    return np.asarray(np.einsum("...i,ij,...j->...", residual, np.linalg.pinv(C, hermitian=True), residual))


def means(stats: Stats) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A [n, n], b [n] and C [n, n], averaged over the units."""
    if "A" in stats:
        A, b, C = (stats[name].mean(axis=0, dtype=np.float64) for name in ("A", "b", "C"))
        return A, b, C
    count, n = len(stats["r"]), stats["Z"].shape[-1]
    Z, D, phi = (stats[name].reshape(-1, n).astype(np.float64) for name in ("Z", "D", "phi"))
    return Z.T @ D / count, Z.T @ stats["r"].ravel() / count, phi.T @ phi / count


def _draws(plan: Gpope, members: NDArray[np.int64], generator: np.random.Generator) -> Iterator[Step]:
    """Samples and noise of all steps: places 0 .. m - 1 of each trial stand for its members."""
    trials, population = members.shape
    for _ in range(plan.steps):
        noise = generator.standard_normal((trials, 2 * plan.features.size), np.float32)
        if plan.mode == "full_batch":
            yield None, noise
        elif plan.mode == "poisson":
            yield members[:, generator.random(population) < plan.batch_size / population], noise
        elif plan.batch_size == 1:
            yield np.take_along_axis(members, generator.integers(population, size=(trials, 1)), axis=1), noise
        else:
            places = np.argpartition(generator.random((trials, population)), plan.batch_size - 1, axis=1)[
                :, : plan.batch_size
            ]
            yield np.take_along_axis(members, places, axis=1), noise
