"""Membership inference: who can be found to have been among the people that a release was made from?

An attacker who knows a person's records, the population and the code looks at a release and wants to know whether that
person was in it. Shadow runs, each with a random half of the people, teach the attacker how its score of a person is
distributed with and without that person (LiRA: Carlini et al., arXiv:2112.03570); target runs, which it has not seen,
tell how well it does. People who are left out stay in the public population and add nothing: the bounds are those of
adding or removing one person; under replacement mu is twice as large. What an attack finds bounds privacy from below
and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.data.mobility import days as movement
from tacit.data.mobility.days import LAST, SLOTS, Days
from tacit.envs.movement import MovementPolicy, possible_actions
from tacit.errors import DataError
from tacit.evaluation.lower_bounds import Counts, Rate, epsilon_lower_bound, mu_lower_bound
from tacit.evaluation.membership import roc_area

Floats = NDArray[np.float64]
Presence = NDArray[np.bool_]
Released = Mapping[str, NDArray[Any]]
Run = Callable[[Presence, int], Released]
"""(who is present [R, U], seed) -> what R independent runs of the method released, arrays [R, ...]."""
Score = Callable[[Released], Floats]
"""What R runs released -> one score a run and person, [R, U], higher where the person seems to be present."""


@dataclass(frozen=True)
class Trials:
    """Runs whose members are known."""

    present: Presence  # [S, U], who was in which run
    scores: Floats  # [S, U], what the attacker's score said

    def __post_init__(self) -> None:
        if self.present.shape != self.scores.shape or self.present.ndim != 2 or not np.isfinite(self.scores).all():
            raise _data_error("scores and members do not fit", "finite scores [runs, people], and as many members")


@dataclass(frozen=True)
class AttackResult:
    """How well an attack did on target runs."""

    # auc, auc_low, auc_high: area under the curve over all people and runs, with a bootstrap interval over runs
    auc: float
    auc_low: float
    auc_high: float
    # tpr, tpr_low, tpr_high: share of present people found at a false alarm rate of `fpr`, with such an interval
    tpr: float
    tpr_low: float
    tpr_high: float
    fpr: float  # that rate
    exposed: int  # which person the shadow runs say is found most easily
    exposed_auc: float  # that person's own area under the curve over the target runs
    # epsilon, mu: Clopper-Pearson lower bounds from that person's target runs, which are independent trials of a test
    # that was fixed on the shadow runs: of epsilon at `delta`, whatever the mechanism is, and of mu if it is mu-GDP
    epsilon: float
    mu: float
    delta: float  # delta, confidence: at which they hold
    confidence: float


def auc_bound(mu: float) -> float:
    """The largest area under the curve that mu-GDP allows any test: Phi(mu / sqrt 2). The curve of every test lies
    below Phi(Phi^-1(false alarms) + mu) (Dong, Roth & Su, arXiv:1905.02383), which is concave, so that pooling people
    cannot lift it above either."""
    return float(special.ndtr(mu / math.sqrt(2)))


def tpr_bound(mu: float, fpr: float) -> float:
    """The largest hit rate that mu-GDP allows any test at a false alarm rate in (0, 1)."""
    return float(special.ndtr(special.ndtri(fpr) + mu))


def run_trials(
    run: Run, scores: Mapping[str, Score], people: int, *, runs: int, seed: int, together: int = 16
) -> dict[str, Trials]:
    """Runs with random halves of the people, and every score's view of them.

    Args:
        run: the method; called with `together` runs at a time.
        scores: attacks by name; all see the same releases.
        people: U.
        runs: S.
        seed: of members and runs; every block of runs gets a seed of its own.
        together: how many runs one call makes.

    Each person is in each run with probability 1/2, independently of all others.
    """
    present = np.random.default_rng([seed, 0]).random((runs, people)) < 0.5
    scored: dict[str, list[Floats]] = {name: [] for name in scores}
    for block, first in enumerate(range(0, runs, together)):
        members = present[first : first + together]
        released = run(members, int(np.random.default_rng([seed, 1, block]).integers(2**62)))
        for name, score in scores.items():
            scored[name].append(score(released))
            if scored[name][-1].shape != members.shape:
                expected = f"one number a run and person, {members.shape}"
                raise _data_error(f"a score has shape {scored[name][-1].shape}", expected)
    return {name: Trials(present, np.concatenate(rows)) for name, rows in scored.items()}


def likelihood_ratios(shadow: Trials, target: Trials) -> Floats:
    """LiRA: [T, U] log-likelihood ratios of presence to absence, from Gaussians fitted to each person's shadow runs.
    Both worlds of a person get the same variance, the mean of the two: noise of known size has it. Raises DataError
    where a person was present, or absent, in fewer than two shadow runs."""
    sides = []
    for side in (shadow.present, ~shadow.present):
        count = side.sum(axis=0)
        if count.min() < 2:
            raise _data_error("there are too few shadow runs", "each person present in at least two, and absent in two")
        mean = (shadow.scores * side).sum(axis=0) / count
        variance = (np.square(shadow.scores - mean) * side).sum(axis=0) / (count - 1)
        sides.append((mean, variance))
    (having, having_variance), (without, without_variance) = sides
    floor = np.square(1e-9 * (1 + np.abs(having) + np.abs(without)))
    variance = (having_variance + without_variance) / 2 + floor
    return np.asarray((target.scores - (having + without) / 2) * (having - without) / variance)


def attack(
    shadow: Trials, target: Trials, *, delta: float, confidence: float = 0.95, fpr: float = 0.01, seed: int = 0
) -> AttackResult:
    """LiRA on target runs, calibrated on shadow runs of the same method and population.

    Args:
        shadow, target: no run is in both.
        delta: at which epsilon is bounded.
        confidence: of each interval, and of each bound.
        fpr: false alarm rate at which hits are counted.
        seed: of the bootstrap.
    """
    ratios, shadow_ratios = likelihood_ratios(shadow, target), likelihood_ratios(shadow, shadow)
    exposed = int(np.argmax(_separation(shadow_ratios, shadow.present)))
    exposed_ratios, members = ratios[:, exposed], target.present[:, exposed]
    shadow_pair = shadow_ratios[:, exposed], shadow.present[:, exposed]
    trials = Trials(target.present, ratios)
    auc = bootstrap_runs(RankedScores.roc_area, trials, confidence=confidence, seed=seed)
    tpr = bootstrap_runs(lambda ranked, times: ranked.hit_rate(fpr, times), trials, confidence=confidence, seed=seed)
    return AttackResult(
        auc=auc.value,
        auc_low=auc.low,
        auc_high=auc.high,
        tpr=tpr.value,
        tpr_low=tpr.low,
        tpr_high=tpr.high,
        fpr=fpr,
        exposed=exposed,
        exposed_auc=roc_area(exposed_ratios, members),
        epsilon=_bound(
            shadow_pair, (exposed_ratios, members), lambda c: epsilon_lower_bound(c, delta=delta, confidence=confidence)
        ),
        mu=_bound(shadow_pair, (exposed_ratios, members), lambda c: mu_lower_bound(c, confidence=confidence)),
        delta=delta,
        confidence=confidence,
    )


@dataclass(frozen=True)
class RankedScores:
    """Scores in falling order, for measures that count each run a number of times."""

    run: NDArray[np.int64]  # [N], whose score it is, run by run
    present: Presence  # [N], whether the person was in that run
    ends: NDArray[np.int64]  # [G], the place of the last of each group of equal scores

    @classmethod
    def of(cls, scores: Floats, present: Presence) -> RankedScores:
        """Scores [T, ...] of runs, and members of the same shape."""
        flat = scores.ravel()
        order = np.argsort(-flat)
        ends = np.append(np.flatnonzero(np.diff(flat[order])), flat.size - 1)
        return cls(order // (flat.size // len(scores)), present.ravel()[order], ends)

    def roc_area(self, times: NDArray[np.int64] | None = None) -> float:
        """Area under the curve: how often a present score is above an absent one, ties counting half. `times` [T] says
        how often each run counts; once without. Raises DataError where nobody is present, or nobody absent."""
        having, without = self._counts(times)
        if not having[-1] or not without[-1]:
            raise _data_error("there is only one side to tell", "at least one present and one absent score")
        below = 2 * without[-1] - without - np.append(0, without[:-1])  # twice, ties once
        return float((np.diff(having, prepend=0) * below).sum() / (2 * having[-1] * without[-1]))

    def hit_rate(self, fpr: float, times: NDArray[np.int64] | None = None) -> float:
        """Share of present scores above the lowest threshold with at most the share `fpr` of absent ones above it."""
        having, without = self._counts(times)
        most = min(int(fpr * without[-1]), without[-1] - 1)
        threshold = int(np.searchsorted(without, most, side="right"))  # the group of the absent score at that place
        return float(np.append(0, having)[threshold] / having[-1])

    def _counts(self, times: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Present and absent scores down to the end of each group, [G] each."""
        counted = np.ones(len(self.run), np.int64) if times is None else times[self.run]
        everybody, having = np.cumsum(counted), np.cumsum(counted * self.present)
        return having[self.ends], (everybody - having)[self.ends]


def bootstrap_runs(
    measure: Callable[[RankedScores, NDArray[np.int64]], float],
    judged_trials: Trials,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = 400,
) -> Rate:
    """A measure such as `RankedScores.roc_area` over all runs once, with percentiles over resampled runs. People of one
    run share its noise, runs share nothing. The people are the same in all: other people are not covered."""
    rng, runs = np.random.default_rng(seed), len(judged_trials.scores)
    ranked = RankedScores.of(judged_trials.scores, judged_trials.present)
    resampled = [measure(ranked, np.bincount(rng.integers(runs, size=runs), minlength=runs)) for _ in range(draws)]
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Rate(measure(ranked, np.ones(runs, np.int64)), float(low), float(high))


def _separation(ratios: Floats, present: Presence) -> Floats:
    """[U], the distance of each person's mean scores with and without, in standard deviations."""
    having = np.where(present, ratios, np.nan)
    without = np.where(present, np.nan, ratios)
    spread = np.sqrt((np.nanvar(having, axis=0) + np.nanvar(without, axis=0)) / 2) + 1e-12
    return np.asarray((np.nanmean(having, axis=0) - np.nanmean(without, axis=0)) / spread)


def _bound(shadow: tuple[Floats, Presence], target: tuple[Floats, Presence], bound: Callable[[Counts], float]) -> float:
    """The bound from the tested runs, at the threshold and in the direction that give the best on the taught ones."""
    scores = np.unique(shadow[0])
    thresholds = np.concatenate([[-np.inf], (scores[1:] + scores[:-1]) / 2, [np.inf]])
    choices = [(sign, threshold) for sign in (1, -1) for threshold in thresholds]
    sign, threshold = max(choices, key=lambda choice: bound(_count(*shadow, *choice)))
    return bound(_count(*target, sign, threshold))


def _count(scores: Floats, present: Presence, sign: int, threshold: float) -> Counts:
    """Alarms above the threshold; or, with sign -1, alarms of absence at or below it."""
    alarms = scores > threshold
    if sign < 0:
        alarms, present = ~alarms, ~present
    return Counts(int(alarms[~present].sum()), int((~present).sum()), int(alarms[present].sum()), int(present.sum()))


def _data_error(what: str, expected: str) -> DataError:
    return DataError(what, where="attacks", expected=expected, remedy="correct the arguments of the attack")


# Scores of membership for releases about movement: what an attacker computes for each person whose days it knows.


Ints = NDArray[np.int64]
MIN_PROBABILITY = 1e-6
"""The least probability of an action: what a policy rules out is no proof of absence."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The people whose membership is asked, and their days."""

    days: Days  # the attacker's knowledge; codes of people are 0 .. U - 1.
    people: int  # U
    max_days: int = 10  # how many days of a person are compared with generated ones, at most (the first ones)
    _states: tuple[Ints, Ints] = field(init=False, repr=False)
    _steps: dict[int, tuple[Ints, NDArray[np.bool_]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cells = self.days.cells
        stay, places = movement.stay_lengths(cells)[:, :-1], movement.distinct_counts(cells)[:, :-1]
        home = cells[:, :-1] == cells[:, :1]
        named, inverse = np.unique((places * (SLOTS + 1) + stay) * 2 + home, return_inverse=True)
        object.__setattr__(self, "_states", (named, inverse.reshape(stay.shape)))
        ends = LAST, LAST + 1
        steps = {n: (movement.actions(cells, last=n > LAST), possible_actions(cells, actions=n)) for n in ends}
        object.__setattr__(self, "_steps", steps)

    def log_likelihoods(self, policy: MovementPolicy) -> Floats:
        """Log-likelihood of each day's actions [D], given where it starts; the type of day is summed out. What is
        impossible in a state is ruled out, as it is when days are played."""
        named, state = self._states
        place, home = np.divmod(named, 2)
        distinct, stay = np.divmod(place, SLOTS + 1)
        by_kind = np.zeros((policy.kinds, len(state)))
        for kind in range(policy.kinds):
            for slot in range(SLOTS - 1):
                probabilities = policy.probabilities(np.full(len(named), kind), slot, distinct, stay, home.astype(bool))
                actions, allowed = self._steps[probabilities.shape[1]]
                numbers = probabilities[state[:, slot]] * allowed[:, slot]
                chosen = np.take_along_axis(numbers, actions[:, slot, None], axis=1)[:, 0]
                share = chosen / np.maximum(numbers.sum(axis=1), MIN_PROBABILITY)
                by_kind[kind] += np.log(np.maximum(share, MIN_PROBABILITY))
        return np.asarray(special.logsumexp(by_kind, axis=0) - np.log(policy.kinds))

    def person_means(self, values: Floats, chosen: Ints | None = None) -> Floats:
        """Of values of days [D], or of the chosen ones of them, of a person's days [U]; 0 for a person without any."""
        person = self.days.person if chosen is None else self.days.person[chosen]
        totals = np.bincount(person, weights=values, minlength=self.people)
        return np.asarray(totals / np.maximum(np.bincount(person, minlength=self.people), 1))

    def first_days(self) -> Ints:
        """Indices of each person's first days."""
        order = np.argsort(self.days.person, kind="stable")
        sorted_ = self.days.person[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_, sorted_)
        return order[rank < self.max_days]


@dataclass(frozen=True, eq=False)
class DayLikelihood:
    """White-box: mean log-likelihood of a person's days under the released policies, `policy` [R] of objects."""

    candidates: Candidates

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who = self.candidates
        return np.stack([who.person_means(who.log_likelihoods(policy)) for policy in released["policy"]])


@dataclass(frozen=True, eq=False)
class ContributionDirection:
    """White-box: what a released sum, `sum` [R, d], says of each person's own contribution (Fisher's discriminant).

    The attacker knows what everybody would add and how large the noise is, not who is present: seen from one person,
    the others are noise too, with the covariance of coins over their contributions. An attacker who also knows the
    others needs no shadow runs: its area under the curve is Phi(mu / sqrt 2) with mu = |contribution| / noise.
    """

    contributions: Floats  # [U, d], clipped as the method clips them
    noise: float  # standard deviation in the sum

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        contributions = self.contributions
        inner = contributions @ contributions.T  # (noise^2 + C^T C / 4)^-1 C^T = C^T (noise^2 + C C^T / 4)^-1
        ridge = max(self.noise**2, 1e-9 * float(np.diag(inner).max(initial=0.0)))
        mixed = ridge * np.eye(len(contributions)) + inner / 4
        return np.asarray(np.linalg.solve(mixed, contributions @ np.asarray(released["sum"]).T).T, np.float64)


@dataclass(frozen=True, eq=False)
class NearestDay:
    """Black-box: minus the mean distance (slots in different cells) of a person's days to the nearest generated day,
    `days` [R, n, 48]."""

    candidates: Candidates

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who, chosen = self.candidates, self.candidates.first_days()
        cells = who.days.cells[chosen].astype(np.int32)
        rows = []
        for generated in released["days"]:
            synthetic, least = np.asarray(generated, np.int32), np.empty(len(cells))
            for first in range(0, len(cells), 64):
                apart = cells[first : first + 64, None, :] != synthetic
                least[first : first + 64] = apart.sum(axis=2).min(axis=1)
            rows.append(who.person_means(-least, chosen))
        return np.stack(rows)


@dataclass(frozen=True, eq=False)
class DayOverlap:
    """Black-box: how often generated days, `days` [R, n, 48], are where a person is, in logarithms."""

    candidates: Candidates  # the people
    slots: tuple[int, ...] = tuple(range(SLOTS))  # the slots looked at; (0,) asks only where days start

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who, slots = self.candidates, list(self.slots)
        rows = []
        for generated in released["days"]:
            counts = np.bincount(np.asarray(generated)[:, slots].ravel(), minlength=who.days.grid.size)
            rows.append(who.person_means(np.log1p(counts[who.days.cells[:, slots]]).mean(axis=1)))
        return np.stack(rows)
