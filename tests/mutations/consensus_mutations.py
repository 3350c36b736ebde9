"""Mistakes in the mechanism call `above_threshold`, planted as those of `mutations.py`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from tacit.privacy.mechanisms import above_threshold, thresholds
from tacit.privacy.mechanisms.above_threshold import AboveThreshold, Prefixes
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import isolation as callbacks
from tacit.privacy.vault.records import Reader


class _Through:
    """Secret noise, but for what is replaced."""

    def __init__(self, noise: SecretNoise, **replaced: Any) -> None:
        self.__dict__.update(replaced)
        self._noise = noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)


def _tests(patch: pytest.MonkeyPatch, broken: Any) -> None:
    """Run the tests with other noise: `broken(noise, n, horizon)`."""
    real = above_threshold.stable_lengths

    def lengths(part: Any, experts: Any, drawn: Any, noise: Any, usable: Any = None) -> Any:
        return real(part, experts, drawn, broken(noise, *drawn["mask"].shape), usable)

    patch.setattr(above_threshold, "stable_lengths", lengths)


def half_the_noise_of_tests(patch: pytest.MonkeyPatch) -> None:
    real = SecretNoise.discrete_laplace
    patch.setattr(SecretNoise, "discrete_laplace", lambda self, size, scale: real(self, size, scale // 2))


def step_noise_reused(patch: pytest.MonkeyPatch) -> None:
    """One noise for all steps of a trajectory."""

    def broken(noise: SecretNoise, n: int, horizon: int) -> Any:
        def discrete_laplace(size: int, scale: int) -> np.ndarray:
            return noise.discrete_laplace(n, scale).repeat(size // n)

        return _Through(noise, discrete_laplace=discrete_laplace)

    _tests(patch, broken)


def no_noise_on_the_threshold(patch: pytest.MonkeyPatch) -> None:
    def broken(noise: SecretNoise, n: int, horizon: int) -> Any:
        def discrete_laplace(size: int, scale: int) -> np.ndarray:
            return noise.discrete_laplace(size, scale) * (size != n)

        return _Through(noise, discrete_laplace=discrete_laplace)

    _tests(patch, broken)


def no_stop_by_chance(patch: pytest.MonkeyPatch) -> None:
    """kappa is charged for and not used."""
    _tests(patch, lambda noise, n, horizon: _Through(noise, uniform=np.ones))


def no_tail(patch: pytest.MonkeyPatch) -> None:
    """The threshold is theta + 1."""
    real = thresholds.optimise

    def optimise(*arguments: Any, **public: Any) -> Any:
        told = real(*arguments, **public)
        return dataclasses.replace(told, threshold=told.safe_count + 1)

    patch.setattr(thresholds, "optimise", optimise)


def floor_forgotten(patch: pytest.MonkeyPatch) -> None:
    """theta solves epsilon = 1 / b1 + 1 / b2 + ln(1 + 1 / theta)."""
    real = thresholds.optimise

    def optimise(*arguments: Any, **public: Any) -> Any:
        told = real(*arguments, **public)
        left = public["epsilon"] - 1 / told.threshold_scale - 1 / told.step_scale
        safe = math.ceil(thresholds.GRID / math.expm1(left)) / thresholds.GRID
        return dataclasses.replace(told, safe_count=safe, threshold=told.threshold - told.safe_count + safe)

    patch.setattr(thresholds, "optimise", optimise)


def tails_go_back_into_the_pool(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "without_holdout", lambda self, reserve, key: self)


def one_trajectory_for_two_draws(patch: pytest.MonkeyPatch) -> None:
    """A unit that is drawn again gives its first trajectory again."""
    real = Reader.draw_holdouts

    def held_out(self: Reader, reserve: int, horizon: int, key: str, size: int) -> Any:
        parts = [real(self, reserve, horizon, key, 1) for _ in range(size)]
        return {name: np.concatenate([drawn[name] for drawn, _ in parts]) for name in parts[0][0]}, parts[0][1]

    patch.setattr(Reader, "draw_holdouts", held_out)


def drawn_from_the_pooled_logs(patch: pytest.MonkeyPatch) -> None:
    """Trajectories are drawn and not experts, so that an expert with more is met more often."""
    real = Reader.draw_holdouts

    def held_out(self: Reader, reserve: int, horizon: int, key: str, size: int) -> Any:
        usable = self.episodes_per_unit() >= reserve
        share = self.episodes_per_unit() * usable
        ends = np.cumsum(share[usable])

        def integers(high: np.ndarray) -> np.ndarray:
            return np.searchsorted(ends, kept.integers(np.full(len(high), ends[-1])), side="right")

        kept, self._noise = self._noise, _Through(self._noise, integers=integers)  # type: ignore[assignment]
        try:
            return real(self, reserve, horizon, key, size)
        finally:
            self._noise = kept

    patch.setattr(Reader, "draw_holdouts", held_out)


def counted_without_a_reserve(patch: pytest.MonkeyPatch) -> None:
    """Experts that cannot be drawn are counted."""
    real = Reader.draw_holdouts

    def held_out(self: Reader, *arguments: Any) -> Any:
        drawn, usable = real(self, *arguments)
        return drawn, np.ones_like(usable)

    patch.setattr(Reader, "draw_holdouts", held_out)


def every_column_is_released(patch: pytest.MonkeyPatch) -> None:
    """Also what is not the environment's doing, such as the probability that the expert gave to its action."""
    real = Prefixes.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[Prefixes], drawn: Any, lengths: np.ndarray) -> Prefixes:
        kept = np.arange(drawn["mask"].shape[1]) < lengths[:, None]
        found = real(cls, drawn, lengths)
        rest = {name: column[kept] for name, column in drawn.items() if name not in ("mask", "starts")}
        return dataclasses.replace(found, columns={**rest, **found.columns})

    patch.setattr(Prefixes, "of", classmethod(of))


def floor_taken_at_its_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AboveThreshold, "require_floor", lambda self, floor: None)


def clones_not_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(callbacks.IsolationChecks, "try_clone", lambda self, part, clone: None)


LAW, KEPT, RESERVE, REFUSALS = "consensus_law", "consensus_thresholds", "consensus_reserve", "consensus_refusals"

CONSENSUS = (
    ("half the noise of tests", half_the_noise_of_tests, (LAW,)),
    ("step noise reused", step_noise_reused, (LAW,)),
    ("no noise on the threshold", no_noise_on_the_threshold, (LAW,)),
    ("no stop by chance", no_stop_by_chance, (LAW,)),
    ("threshold without the tail", no_tail, (KEPT,)),
    ("floor's factor forgotten", floor_forgotten, (KEPT,)),
    ("tails go back into the pool", tails_go_back_into_the_pool, (RESERVE,)),
    ("one trajectory for two draws", one_trajectory_for_two_draws, (RESERVE,)),
    ("drawn from the pooled logs", drawn_from_the_pooled_logs, (RESERVE,)),
    ("counted without a reserve", counted_without_a_reserve, (RESERVE,)),
    ("every column is released", every_column_is_released, (RESERVE,)),
    ("floor taken at its word", floor_taken_at_its_word, (REFUSALS,)),
    ("clones not tried", clones_not_tried, (REFUSALS,)),
)
