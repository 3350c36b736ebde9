"""Earlier methods of off-policy evaluation on simulated domains, all trials of a setting at once.

What the private methods do behind the doors is done here with the same functions (`gpope_step_sizes.compare`, the
mechanisms of smooth sensitivity, `baselines.solve`, `scores.read`) on statistics that are made once for a pool of
simulated units. A trial's data set is a subset of the pool; samples and noise come from numpy's generator. Where a
method has a step size, a clip or a ridge, every value of a public grid is tried, and the best on the mean RMSE over the
trials is reported as "best": nobody could know it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from experiments.gpope import ope_methods
from experiments.gpope.gpope_step_sizes import CHUNK, compare, mspbe, summarise, unit_rows
from experiments.gpope.ope_methods import DELTA, Columns, Domain, Setting, mean, over_units, unit_of
from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import Json, Store
from experiments.lib.plots import IMAGES, draw
from tacit import off_policy_evaluation as ope
from tacit.data.trajectories import Trajectories
from tacit.methods.off_policy_evaluation import baselines, scores
from tacit.methods.off_policy_evaluation.baselines import Lsl, Lsw, lstd
from tacit.methods.off_policy_evaluation.scores import ScoreVector
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.releases import Axis
from tacit.units import Unit

SEED = 7_000_000
STEP_FACTORS = tuple(10.0 ** (k / 2) for k in range(-4, 5))
"""Of the public default step size: from a hundredth to a hundred times."""
RIDGES = tuple(c * 10.0**p for c in (0.1, 1, 10, 100, 1000) for p in (0, 0.5))  # of the population
CLIPS = (0.01, 0.1, 1.0)  # of the root mean square norm of a unit's stacked statistics in the pool
PAPER_STEPS = 1_000
POISSON: dict[str, Any] = {"mode": "poisson", "steps": 500, "batch_size": 50}
CENTRED_SHARE = 0.2  # of the precision, what the value gets that DP-LSTD is centred on
Cells = tuple[Axis, ...] | None  # public cells for DP-LSW and DP-LSL; None for one-hot features
Values = dict[str, Any]


class Pool:
    """Simulated units of a domain with what the methods need of each.

    Args:
        domain: see `ope_methods.Domain`.
        units: how many are simulated.
        seed: theirs, and that of the trials on subsets of them.
        cells: see `Cells`.
    """

    def __init__(self, domain: Domain, units: int, *, seed: int = SEED, cells: Cells = None) -> None:
        self.domain, self.units, self.seed, self.cells = domain, units, seed, cells
        self.columns = domain.collect(units, seed)
        data = Trajectories.from_arrays(**self.columns, spec=domain.spec, simulated=True)  # type: ignore[arg-type]
        self.rows = unit_rows(data, domain.problem)
        self.stats = summarise(
            BellmanStatistics(domain.problem, domain.policy, None, domain.features, "gtd"), self.rows
        )

    def subset(self, members: np.ndarray) -> Columns:
        rank = np.full(self.units, -1)
        rank[members] = np.arange(len(members))
        kept = rank[self.columns["unit_ids"]] >= 0
        return {name: column[kept] for name, column in self.columns.items()}

    def judged(self, theta: np.ndarray) -> Values:
        """For theta [..., n]: RMSE of V within the public range and of the raw V, and MSPBE of the raw V."""
        by = self.domain.yardstick
        phi = np.asarray(self.domain.features(by.observations), np.float64)
        raw = theta @ phi.T
        limits = self.domain.problem.value_range(self.domain.spec)
        error = {"rmse": np.clip(raw, *limits) - by.truth, "raw": raw - by.truth}
        found = {name: np.sqrt(np.square(one).mean(axis=-1)) for name, one in error.items()}
        if by.mspbe is None:
            return found | {"mspbe": mspbe(self.stats, theta)}
        flat = [by.mspbe(row) for row in raw.reshape(-1, raw.shape[-1])]
        return found | {"mspbe": np.reshape(flat, raw.shape[:-1])}


def draws(pool: Pool, setting: Setting, trials: int) -> Iterator[tuple[np.ndarray, np.random.Generator]]:
    """(units of the trial's data set, its generator)."""
    for trial in range(trials):
        generator = np.random.default_rng((pool.seed, setting.units, trial))
        yield generator.choice(pool.units, setting.units, replace=False), generator


def curve(pool: Pool, theta: np.ndarray, grid: np.ndarray, default: int | None = None) -> Values:
    """Means over the trials for each value of a grid, and all trials of the best one and of the default; [T, G, n].

    The best has the least mean RMSE within the public range; a value under which a trial diverged is not the best.
    """
    found = pool.judged(theta)
    values: Values = {"grid": grid, "trials": len(theta)}
    values |= {f"{name}_mean": column.mean(axis=0) for name, column in found.items()}
    values["rmse_error"] = found["rmse"].std(axis=0) / np.sqrt(len(theta))
    best = int(np.nanargmin(values["rmse_mean"]))
    values |= {"best": best, **{name: found[name][:, best] for name in ("rmse", "mspbe")}}
    if default is not None:
        values |= {"default": default, **{f"default_{name}": found[name][:, default] for name in ("rmse", "mspbe")}}
    return values


def gpope_plan(domain: Domain, **fields: Any) -> ope.Gpope:
    plan = ope.Gpope(problem=domain.problem, features=domain.features, value_share=0.0)
    return dataclasses.replace(plan, **fields)


def gpope(pool: Pool, setting: Setting, trials: int, **fields: Any) -> Values:
    plan = gpope_plan(pool.domain, **fields)
    return by_step(pool, plan.calibrate(unit=unit_of(setting), epsilon=setting.epsilon, delta=DELTA), trials)


def by_step(pool: Pool, plan: ope.Gpope, trials: int) -> Values:
    spec = pool.domain.spec
    grid = plan.resolve_step_size(spec) * np.array(STEP_FACTORS)
    theta = compare(pool.stats, plan, grid.tolist(), clip=plan.resolve_clip(spec), trials=trials, seed=pool.seed)
    return curve(pool, theta, grid, default=STEP_FACTORS.index(1.0)) | {"sigma": plan.sigma}


def published_plan(domain: Domain, setting: Setting) -> ope.Gpope:
    """The paper's sampler with the noise that the paper's formula gives."""
    return ope.Gpope.paper(
        problem=domain.problem,
        features=domain.features,
        population=setting.units,
        steps=PAPER_STEPS,
        epsilon=setting.epsilon,
        delta=DELTA,
    )


def gpope_published(pool: Pool, setting: Setting, trials: int) -> Values:
    """The paper's sampler with the published noise, and what that costs."""
    plan = published_plan(pool.domain, setting).account(unit=unit_of(setting), delta=DELTA)
    return by_step(pool, plan, trials) | {"true_epsilon": plan.epsilon}


def dp_lstd(pool: Pool, setting: Setting, trials: int, *, share: float = 0.0) -> Values:
    """Sufficient-statistics perturbation under a grid of clips; with a share for the start's value, centred on it."""
    domain = pool.domain
    plain = ope_ssp(domain, 1.0, share).calibrate(unit=unit_of(setting), epsilon=setting.epsilon, delta=DELTA)
    sigma = {part.name: float(part.noise_multiplier or 0.0) for part in plain.parts()}
    widest = scores.clip_for(setting.units, sigma.get(scores.NAME, 0.0))
    vector = ScoreVector(domain.problem, domain.policy, None, domain.spec, widest)
    points = chunked(lambda rows: vector(rows, None), pool.rows) if share else np.zeros((pool.units, 0))
    stacked = baselines.LstdVector(BellmanStatistics(domain.problem, domain.policy, None, domain.features, "gtd"), 1.0)
    zero, n = np.zeros(domain.features.size), domain.features.size
    every = chunked(lambda stats: stacked(stats, zero), pool.stats).astype(np.float32)
    typical = float(np.sqrt(np.square(every).sum(axis=1, dtype=np.float64).mean()))
    clips, theta = typical * np.array(CLIPS), np.empty((trials, len(CLIPS), n))
    for trial, (members, generator) in enumerate(draws(pool, setting, trials)):
        centre = zero
        if share:
            noisy = points[members].sum(axis=0) + sigma[scores.NAME] * generator.normal(size=points.shape[1])
            centre = domain.features.constant(scores.read(noisy, vector, sigma[scores.NAME], setting.units).value())
        own = every[members].astype(np.float64)
        own[:, n * n :] -= own[:, : n * n].reshape(-1, n, n) @ centre
        norms, noise = np.linalg.norm(own, axis=1), generator.normal(size=own.shape[1])
        for k, clip in enumerate(clips):
            scale = clip * sigma[baselines.STATISTICS] / setting.units
            total = clipping.coefficients(norms, clip) @ own / setting.units + scale * noise
            theta[trial, k] = baselines.solve(total, scale, centre)
    return curve(pool, theta, clips)


def ope_ssp(domain: Domain, clip: float, share: float) -> ope.SufficientStatistics:
    return ope.SufficientStatistics(problem=domain.problem, features=domain.features, clip_norm=clip, value_share=share)


@lru_cache(maxsize=4)
def first_visits(pool: Pool) -> np.ndarray:
    """Every unit's first visits, [P, 2, S]."""
    mechanism = (
        lsw_plan(pool.domain, pool.cells)
        .calibrate(unit=Unit("u", "replace_one", 2), epsilon=1.0, delta=DELTA)
        .mechanism()
    )
    return chunked(mechanism.contributions, pool.rows).astype(np.float32)


def lsw_plan(domain: Domain, cells: Cells, constants: Any = "tight") -> Lsw:
    return Lsw(problem=domain.problem, features=domain.features, cells=cells, constants=constants)


def lsl_plan(domain: Domain, cells: Cells, constants: Any = "tight", ridge: float | None = None) -> Lsl:
    return Lsl(problem=domain.problem, features=domain.features, cells=cells, constants=constants, ridge=ridge)


def dp_lsw(pool: Pool, setting: Setting, trials: int, *, constants: Any = "tight") -> Values:
    plan = lsw_plan(pool.domain, pool.cells, constants)
    plan = plan.calibrate(unit=unit_of(setting), epsilon=setting.epsilon, delta=DELTA)
    mechanism, visits = plan.mechanism(), first_visits(pool)
    theta = np.empty((trials, 1, pool.domain.features.size))
    for trial, (members, generator) in enumerate(draws(pool, setting, trials)):
        counts, sums = visits[members].sum(axis=0, dtype=np.float64)
        noise = generator.normal(size=theta.shape[-1])
        theta[trial, 0] = mechanism.solve(counts, sums) + mechanism.scale(counts) * noise
    return curve(pool, theta, np.array([1.0]))


def dp_lsl(pool: Pool, setting: Setting, trials: int, *, constants: Any = "tight") -> Values:
    """Regularised least squares with smooth sensitivity, under a grid of ridges."""
    domain, visits, unit = pool.domain, first_visits(pool), unit_of(setting)
    weighted = lsw_plan(domain, pool.cells).calibrate(unit=unit, epsilon=1.0, delta=DELTA)
    phi = np.asarray(weighted.mechanism().features)
    least = float(np.linalg.norm(phi, 2) ** 2) * 1.01 if constants == "published" else 0.0
    ridges = np.unique(np.maximum(least, setting.units * np.array(RIDGES)))
    plans = [lsl_plan(domain, pool.cells, constants, float(ridge)) for ridge in ridges]
    mechanisms = [p.calibrate(unit=unit, epsilon=setting.epsilon, delta=DELTA).mechanism() for p in plans]
    theta = np.empty((trials, len(ridges), domain.features.size))
    for trial, (members, generator) in enumerate(draws(pool, setting, trials)):
        counts, sums = visits[members].sum(axis=0, dtype=np.float64)
        noise = generator.normal(size=theta.shape[-1])
        for k, one in enumerate(mechanisms):
            theta[trial, k] = one.solve(counts, sums, setting.units) + one.scale(counts, setting.units) * noise
    return curve(pool, theta, ridges)


def ceiling(pool: Pool, setting: Setting, trials: int) -> Values:
    """LSTD (off-policy: WIS-LSTD at lambda 0) without privacy."""
    domain = pool.domain
    theta = [
        lstd(
            {name: column[members] for name, column in pool.rows.items()},
            domain.problem,
            domain.features,
            domain.policy,
        )
        for members, _ in draws(pool, setting, trials)
    ]
    return curve(pool, np.array(theta)[:, None], np.array([1.0]))


def residual(pool: Pool, setting: Setting, trials: int) -> Values:
    """Residual return regression through the real doors, with a ledger of its own in every trial."""
    domain = pool.domain
    plan = ope_methods.residual(domain).calibrate(unit=unit_of(setting), epsilon=setting.epsilon, delta=DELTA)
    found = [
        ope_methods.run(plan, domain, pool.subset(members), setting) for members, _ in draws(pool, setting, trials)
    ]
    return curve(pool, np.array([one.theta for one in found])[:, None], np.array([1.0]))


def zero(pool: Pool, setting: Setting, trials: int) -> Values:
    return curve(pool, np.zeros((1, 1, pool.domain.features.size)), np.array([1.0]))


def best_constant(pool: Pool, setting: Setting, trials: int) -> Values:
    """The constant of the smallest RMSE: nobody knows it without the truth."""
    theta = pool.domain.features.constant(float(pool.domain.yardstick.truth.mean()))
    return curve(pool, theta[None, None], np.array([1.0]))


@dataclass(frozen=True)
class Method:
    """A method of which all trials of a setting are run together."""

    trials: Callable[[Pool, Setting, int], Values]  # the pool, the setting, the number of trials -> values
    # of the method in a domain with public cells, for configurations
    settings: Callable[[Domain, Cells, Setting], Mapping[str, Any]]


def _gpope(**fields: Any) -> Method:
    return Method(
        partial(gpope, **fields), lambda d, cells, s: {"plan": gpope_plan(d, **fields), "step_factors": STEP_FACTORS}
    )


def _published(domain: Domain, cells: Cells, setting: Setting) -> dict[str, Any]:
    plan = published_plan(domain, setting)
    plan = dataclasses.replace(plan, noise_multiplier=round(plan.noise_multiplier, 9))
    return {"plan": plan, "step_factors": STEP_FACTORS}


def _lstd(share: float) -> Method:
    return Method(
        partial(dp_lstd, share=share), lambda d, cells, s: {"plan": ope_ssp(d, 1.0, share), "clip_factors": CLIPS}
    )


def _lsw(constants: str) -> Method:
    return Method(partial(dp_lsw, constants=constants), lambda d, cells, s: {"plan": lsw_plan(d, cells, constants)})


def _lsl(constants: str) -> Method:
    return Method(
        partial(dp_lsl, constants=constants),
        lambda d, cells, s: {"plan": lsl_plan(d, cells, constants), "ridge_factors": RIDGES},
    )


def _plain(trials: Callable[[Pool, Setting, int], Values], name: str) -> Method:
    return Method(trials, lambda d, cells, s: {"values": name})


PRIVATE: dict[str, Method] = {
    "gpope": _gpope(),
    "gpope_poisson": _gpope(**POISSON),
    "dp_lstd": _lstd(0.0),
    "dp_lstd_centred": _lstd(CENTRED_SHARE),
}
REPLACE_ONE: dict[str, Method] = {  # with the paper's sampler, for which only replacing one unit can be certified
    "gpope_paper": _gpope(mode="paper", steps=PAPER_STEPS),
    "gpope_published": Method(gpope_published, _published),
}
ON_POLICY: dict[str, Method] = {
    "dp_lsw": _lsw("tight"),
    "dp_lsw_published": _lsw("published"),
    "dp_lsl": _lsl("tight"),
    "dp_lsl_published": _lsl("published"),
}
RESIDUAL: dict[str, Method] = {
    "residual": Method(residual, lambda d, cells, s: {"plan": ope_methods.residual(d), "records": "all"})
}
NOT_PRIVATE: dict[str, Method] = {
    "lstd": _plain(ceiling, "LSTD"),
    "zero": _plain(zero, "zero"),
    "best_constant": _plain(best_constant, "best constant"),
}
METHODS: dict[str, Method] = RESIDUAL | PRIVATE | ON_POLICY | REPLACE_ONE | NOT_PRIVATE
RIVALS = ("gpope", "gpope_paper", "dp_lsw", "dp_lstd")
"""Methods that residual return regression is compared with, at their best step size, clip or ridge."""


PROMISES = tuple(Setting(m, e) for m in (300, 1_000, 3_000) for e in (1.0, 0.1))
PROMISES += tuple(Setting(1_000, e, "replace_one") for e in (1.0, 0.1))
"""Both epsilons at every size; for the paper's sampler, which needs it, replace-one at m = 1,000 too."""


@dataclass(frozen=True)
class Pooled:
    """The rows of domains whose data sets are subsets of a pool of simulated units."""

    domains: Mapping[str, Callable[[], Domain]]  # by name
    trials: Callable[[str, str, int], int]  # how many data sets of so many units, by domain and method
    pool: int = 4_000  # how many units it has
    seed: Callable[[str, str], int] = lambda domain, method: SEED  # of a pool and its data sets, by domain and method
    cells: Cells = None  # see `Cells`
    settings: tuple[Setting, ...] = PROMISES  # what is promised of how many
    own: bool = True  # whether residual return regression has rows here

    def methods(self, setting: Setting, domain: str) -> list[str]:
        one, on_policy = setting.relation == "replace_one", self.domains[domain]().on_policy
        own = ["residual"] if self.own and (on_policy or not one) else []
        return [*own, *PRIVATE, *(ON_POLICY if on_policy else ()), *(REPLACE_ONE if one else ())]

    def rows(self) -> list[str]:
        sizes, keys = dict.fromkeys(setting.units for setting in self.settings), []
        for domain in self.domains:
            keys += [Setting(m).key(domain, method) for m in sizes for method in NOT_PRIVATE]
            keys += [one.key(domain, method) for one in self.settings for method in self.methods(one, domain)]
        return keys

    def configuration(self, key: str) -> Json:
        name, method, setting = ope_methods.named(key)
        domain = self.domains[name]()
        settings = METHODS[method].settings(domain, self.cells, setting)
        count = self.trials(name, method, setting.units)
        return {"pool": self.pool, **ope_methods.asked(domain, setting, settings, count)}

    def run_row(self, key: str, results: Store) -> None:
        name, method, setting = ope_methods.named(key)
        pool = pooled(self.domains[name], self.pool, self.seed(name, method), self.cells)
        values = rounded(METHODS[method].trials(pool, setting, self.trials(name, method, setting.units)))
        dataset = f"simulated {name}, {setting.units} trajectories a trial from a pool of {pool.units}"
        results.put(key, dataset=dataset, seed=pool.seed, values=values)

    def ahead(self, results: Store, own: Store | None = None) -> Figures:
        """That residual return regression, whose rows may be elsewhere, has the smaller RMSE wherever it is run."""
        for domain in self.domains:
            for setting in self.settings:
                methods, key = self.methods(setting, domain), setting.key(domain, "residual")
                if "residual" in methods or (own is not None and key in own.rows):
                    mine = mean(own or results, domain, "residual", setting)
                    yield from ahead(mine, results, domain, setting, [name for name in RIVALS if name in methods])

    def plot(self, results: Store, kinds: Mapping[str, str], title: str, file: str) -> None:
        sizes = list(dict.fromkeys(setting.units for setting in self.settings))
        panels = [
            over_units((results,), domain, epsilon, sizes, column="rmse", title=f"RMSE of V, {kind}")
            for domain, kind in kinds.items()
            for epsilon in (1.0, 0.1)
        ]
        draw(panels, title, IMAGES / file)


@lru_cache(maxsize=1)
def pooled(domain: Callable[[], Domain], units: int, seed: int, cells: Cells) -> Pool:
    return Pool(domain(), units, seed=seed, cells=cells)


def ahead(own: float, results: Store, domain: str, setting: Setting, rivals: Iterable[str]) -> Figures:
    """That a mean RMSE is below each rival's at the same setting: the ratio is below 1."""
    where = f"{domain} m={setting.units}, epsilon {setting.epsilon:g}, {setting.relation}"
    for name in rivals:
        yield at_most(f"{where}: RMSE over that of {name}", own / mean(results, domain, name, setting), 1.0)


def rounded(values: Mapping[str, Any]) -> Values:
    """Numbers with four significant digits, arrays as lists; what is not a number as null."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, float | np.floating):
            return float(f"{value:.4g}") if np.isfinite(value) else None
        return value

    return {name: plain(value) for name, value in values.items()}


def chunked(function: Callable[[Any], np.ndarray], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    count = len(next(iter(arrays.values())))
    return np.concatenate(
        [
            function({name: column[start : start + CHUNK] for name, column in arrays.items()})
            for start in range(0, count, CHUNK)
        ]
    )
