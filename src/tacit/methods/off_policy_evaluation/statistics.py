"""What the estimators need of each unit: sums over its own rows, computed once.

A summary turns into x_i(theta) = b_i - A_i theta for any theta. With the eligibility vectors

    Z_t = rho_t (v_t phi_t + gamma lambda Z_{t-1})      (Z = 0 before an episode; v_t the visit's weight)
    D_t = phi_t - gamma phi'_t                          (phi' = 0 after a termination, bootstrapped after a cut)

it is A_i = sum_t Z_t D_t^T and b_i = sum_t Z_t r_t, which is sum_t v_t phi_t e_t for the residual returns
e_t = rho_t (delta_t + gamma lambda e_{t+1}), delta_t = r_t - D_t . theta.

Residual return regression and fitted Q move theta by the gain of a Kalman filter whose noise variances are the privacy
noise's. The mechanisms give a noisy Gram matrix G + E and, round by round, noisy x = G d + noise, d the error of the
parameters. All noise is known, so the filter needs no step size. The Gram matrix is noisy itself: what its eigenvalues
can be is narrowed by their sign (the mean of the posterior under a flat prior on [0, inf)), and its noise times the
uncertainty of d is added to the noise of x. It all is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.logged import LoggedEpisodes, cut_episodes
from tacit.methods.off_policy_evaluation.policies import DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Problem

Float64 = NDArray[np.float64]
Stats = Mapping[str, np.ndarray]
Trace = float | Literal["gtd"]
LENGTHS = 16
"""Units are summarised together whose numbers of rows, rounded up to a multiple of this, are equal."""
ROWWISE = ("Z", "D", "r", "phi")
"""Statistics that are kept row by row."""
LARGEST = 1e15
"""Entries of eligibility vectors are cut here: products of ratios overflow, and a clip follows anyway."""


@dataclass(frozen=True, eq=False)
class BellmanStatistics:
    """Each unit's linear Bellman error, as a summary inside the vault."""

    problem: Problem  # discount, horizon and episodes
    policy: Target  # the evaluated policy
    behaviour: DiscretePolicy | None  # the known behaviour policy, or None for logged propensities
    features: Features  # phi, n numbers a state
    # "gtd" (the per-trajectory means of GTD2 and LSTD, also the second moment C: GPOPE, section 3, with one and the
    # same tau in all of them), or lambda in [0, 1]: residual returns, with the weights of `visited`
    trace: Trace = 1.0
    alike: bool = False  # whether visits weigh alike, which favours no future where nothing terminates

    @property
    def dense(self) -> bool:
        """Whether matrices are kept, by public sizes: A (and C) of n^2 numbers, or Z, D (and phi) of n a row."""
        n, rows = self.features.size, self.problem.rows_per_unit
        return 2 * n <= 3 * rows if self.trace == "gtd" else n <= 2 * rows

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L, ...] -> statistics, float32."""
        # Dense: "A" [U, n, n], "b" [U, n]; with "gtd" also "C" [U, n, n] (mean of phi phi^T, without ratios). Factored:
        # "Z" and "D" [U, L, n], "r" [U, L]; with "gtd" also "phi" [U, L, n], scaled so that C = sum phi phi^T. With
        # lambda also "gram", sum_t v_t phi_t phi_t^T, the mean over the episodes: its diagonal [U, n] where the
        # features are tabular, else its upper triangle row by row with off-diagonal entries times sqrt 2, which keeps
        # the norm, [U, n (n + 1) / 2]; and "level" [U, n + 1], the mean over the horizon's steps of a and b in
        # e_t = b_t - a_t . theta at lambda 1.
        return by_length(rows, self._statistics)

    def _statistics(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        log = cut_episodes(rows, self.problem, self.policy, self.behaviour)
        phi, next_phi = encode_rows(log, self.features)
        gamma = self.problem.gamma
        if self.trace == "gtd":
            weight = log.alive / (log.lengths * log.episodes[:, None])
            lam, visits = 0.0, phi * weight[..., None]
        else:
            horizon = self.problem.horizon if self.alike else None
            weight = visit_weights(log, phi, self.features, horizon) / log.episodes[:, None]
            lam, visits = self.trace, phi * weight[..., None]
        Z = eligibility(log, visits, gamma * lam)
        D = (phi - gamma * next_phi).astype(np.float32)
        r = log.rewards.astype(np.float32)
        if self.dense:
            result = {"A": np.matmul(Z.transpose(0, 2, 1), D), "b": np.matmul(r[:, None, :], Z)[:, 0]}
            if self.trace == "gtd":
                result["C"] = np.matmul(visits.transpose(0, 2, 1), phi)
        else:
            result = {"Z": Z, "D": D, "r": r}
            if self.trace == "gtd":
                result["phi"] = phi * np.sqrt(weight)[..., None]
        if self.trace != "gtd":
            result["gram"] = unit_grams(weight, phi, self.features)
            steps = log.alive[..., None] / (self.problem.horizon * log.episodes[:, None, None])
            z = eligibility(log, steps, gamma)[..., 0]
            result["level"] = np.concatenate([_sum(z, D), np.einsum("ul,ul->u", z, r)[:, None]], axis=1)
        return {name: value.astype(np.float32) for name, value in result.items()}


def by_length(
    rows: Mapping[str, np.ndarray], compute: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """What `compute` makes of rows [U, L, ...], each [U, ...] or [U, L, ...], without most of the padding."""
    # A unit's own number of rows decides alone how long its part is: no bit of its result depends on other units.
    mask = rows["mask"]
    lengths = np.minimum(np.maximum(-(-mask.sum(axis=1) // LENGTHS) * LENGTHS, LENGTHS), mask.shape[1])
    result: dict[str, np.ndarray] = {}
    for length in np.unique(lengths):
        units = np.flatnonzero(lengths == length)
        for name, value in compute({name: column[units, :length] for name, column in rows.items()}).items():
            padded = value.ndim > 1 and name in ROWWISE
            if name not in result:
                result[name] = np.zeros(
                    (len(mask), *((mask.shape[1],) if padded else ()), *value.shape[1 + padded :]), value.dtype
                )
            result[name][(units, slice(length)) if padded else units] = value
    return result


def apply(stats: Stats, theta: np.ndarray) -> np.ndarray:
    """A_i theta, [U, n], for theta [n]."""
    if "A" in stats:
        return np.asarray(stats["A"] @ theta.astype(np.float32))
    return _sum(stats["D"] @ theta.astype(np.float32), stats["Z"])


def constant(stats: Stats) -> np.ndarray:
    """b_i, [U, n]."""
    return stats["b"] if "b" in stats else _sum(stats["r"], stats["Z"])


def encode_rows(log: LoggedEpisodes, features: Features) -> tuple[np.ndarray, np.ndarray]:
    """phi(s) and phi(s'), [U, L, n] float32; 0 for rows that do not count, and phi(s') 0 after a termination."""
    shape = log.alive.shape

    def encode(observations: np.ndarray, counts: np.ndarray) -> np.ndarray:
        flat = features(observations.reshape(-1, *observations.shape[2:]))
        return np.asarray(flat.reshape(*shape, features.size) * counts[..., None])

    return encode(log.observations, log.alive), encode(log.next_observations, log.alive & ~log.terminations)


def visit_weights(log: LoggedEpisodes, phi: np.ndarray, features: Features, horizon: int | None = None) -> np.ndarray:
    """v [U, L], the weight of each visit, from the episode up to there alone, so that it does not favour any future."""
    # With a horizon (not tabular): 1 / (horizon |phi_t|^2), all alike; the Gram matrix has a trace of at most 1.
    # Tabular: 1 / sqrt(k) at the first visit to the episode's k-th state, else 0. Otherwise: 1 / sum_{s <= t}
    # |phi_s|^2. Either way the Gram matrix of an episode, sum_t v_t phi_t phi_t^T, has a norm from 1 to about
    # `gram_norm`.
    result = np.zeros(log.alive.shape)
    if not features.tabular:
        sizes, total = np.einsum("uln,uln->ul", phi, phi, dtype=np.float64), np.zeros(len(phi))
        if horizon is not None:
            return np.asarray(log.alive / (horizon * np.maximum(sizes, 1e-12)))
        for t in range(phi.shape[1]):
            total = np.where(log.starts[:, t], 0.0, total) + sizes[:, t]
            result[:, t] = 1 / np.maximum(total, 1e-12)
        return np.asarray(result * log.alive)
    seen, k = np.zeros((len(phi), features.size), bool), np.zeros(len(phi))
    for t in range(phi.shape[1]):
        active = phi[:, t] > 0
        seen &= ~log.starts[:, t, None]
        new = (active & ~seen).any(axis=1)
        k = np.where(log.starts[:, t], 0, k) + new
        result[:, t] = new / np.sqrt(np.maximum(k, 1))
        seen |= active
    return result


def gram_norm(problem: Problem, features: Features, *, alike: bool = False) -> float:
    """A public size of "gram": at most this where visits weigh alike or are of tables, elsewhere about this."""
    if alike:
        return 1.0
    # sqrt(1 + ln K), K the visits that can count in an episode; sum_{k <= K} 1 / k is at most 1 + ln K.
    visits = min(features.size, problem.horizon) if features.tabular else problem.horizon
    return float(np.sqrt(1 + np.log(visits)))


def eligibility(log: LoggedEpisodes, visits: np.ndarray, decay: float) -> np.ndarray:
    """Z [U, L, n] float32 from v_t phi_t [U, L, n] and gamma lambda; finite for any ratios."""
    Z = np.empty(visits.shape, np.float32)
    trace = np.zeros((visits.shape[0], visits.shape[2]))
    weight, kept = log.ratio * log.alive, decay * log.follows
    for t in range(visits.shape[1]):  # in place: a trace is as large as a processor's cache
        trace += visits[:, t]
        trace *= weight[:, t, None]
        np.minimum(trace, LARGEST, out=trace)
        np.maximum(trace, -LARGEST, out=trace)
        Z[:, t] = trace
        trace *= kept[:, t, None]
    return Z


def upper_triangle(matrices: np.ndarray) -> np.ndarray:
    """Symmetric [..., n, n] -> upper triangles [..., n (n + 1) / 2], off-diagonal entries times sqrt 2."""
    i, j = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def unit_grams(weight: np.ndarray, phi: np.ndarray, features: Features) -> np.ndarray:
    """sum_t v_t phi_t phi_t^T of each unit: its diagonal [U, n] (tabular), else its `upper_triangle`."""
    if features.tabular:
        return np.asarray(np.einsum("ul,uln->un", weight, phi, dtype=np.float64))
    return upper_triangle(np.matmul((phi * weight[..., None]).transpose(0, 2, 1), phi.astype(np.float64)))


def _sum(weights: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """sum_t weights [U, L] times vectors [U, L, n] -> [U, n]."""
    return np.asarray(np.matmul(weights[:, None, :], vectors)[:, 0])


@dataclass(frozen=True, eq=False)
class Gram:
    """A Gram matrix as far as a noisy release of it tells."""

    matrix: Float64  # its estimate, [n, n], positive semi-definite
    variances: Float64  # tabular: the variances left in its diagonal, [n]
    noise: float  # standard deviation of the noise in each released number
    tabular: bool  # whether the matrix is diagonal

    def spread(self, covariance: Float64) -> Float64:
        """Covariance [n, n] of E d, for an error E of the matrix and d of this covariance."""
        # Tabular: diagonal. Otherwise the released upper triangle has off-diagonal entries times sqrt 2, so E is a
        # Gaussian orthogonal ensemble, E[E d d^T E] = noise^2 / 2 (tr(S) I + S).
        if self.tabular:
            return np.diag(self.variances * np.diag(covariance))
        identity = np.eye(len(covariance))
        return np.asarray(self.noise**2 / 2 * (np.trace(covariance) * identity + covariance))


def read_gram(released: np.ndarray, noise: float, *, tabular: bool, n: int) -> Gram:
    """The Gram matrix in a noisy release (`BellmanStatistics` says in which form)."""
    # released: [n] or [n (n + 1) / 2]; noise: standard deviation of the noise in each of these numbers
    noise = max(noise, 1e-12)
    if tabular:
        values, variances = truncated_moments(np.asarray(released, np.float64), noise)
        return Gram(np.diag(values), variances, noise, True)
    eigenvalues, vectors = np.linalg.eigh(symmetric_matrix(released, n))
    values, variances = truncated_moments(eigenvalues, noise * math.sqrt(n / 2))
    return Gram((vectors * values) @ vectors.T, variances, noise, False)


def truncated_moments(values: Float64, noise: float) -> tuple[Float64, Float64]:
    """Mean and variance of numbers >= 0 (flat prior) that were seen with Gaussian noise: a truncated normal's."""
    from scipy.special import log_ndtr

    z = np.maximum(values / noise, -30.0)  # below, the mean would be noise / |z|, lost in rounding
    hazard = np.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
    return noise * np.maximum(z + hazard, 0.0), noise**2 * np.clip(1 - hazard * (hazard + z), 0.0, 1.0)


def update(gram: Gram, covariance: Float64, x: np.ndarray, noise: float) -> tuple[Float64, Float64]:
    """One round: the change of the parameters [n] or [n, k] and their covariance [n, n] after it."""
    # gram: G; x: [n] or [n, k], noisy G d; noise: standard deviation of the noise in each entry of x
    matrix = gram.matrix
    floor = 1e-12 * max(float(np.trace(matrix @ covariance @ matrix)), 1e-300)
    scatter = gram.spread(covariance) + (noise**2 + floor) * np.eye(len(x))
    gain = np.linalg.solve(matrix @ covariance @ matrix + scatter, matrix @ covariance).T
    after = covariance - gain @ matrix @ covariance
    return np.asarray(gain @ x), np.asarray((after + after.T) / 2)


def symmetric_matrix(vector: np.ndarray, n: int) -> Float64:
    """[n (n + 1) / 2] of `statistics.upper` -> [n, n]."""
    i, j = np.triu_indices(n)
    matrix = np.zeros((n, n))
    matrix[i, j] = vector / np.where(i == j, 1.0, np.sqrt(2.0))
    matrix[j, i] = matrix[i, j]
    return matrix
