"""Mistakes by which people learn from each other behind the mechanism calls, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.envs import serving
from tacit.methods.policy_gradient import contributions, local_updates
from tacit.privacy.vault import user_vault

Plant = Callable[[pytest.MonkeyPatch], None]


def shared_critic(patch: pytest.MonkeyPatch) -> None:
    """Everybody's critic has the scale of the returns of all who were met so far."""
    real, past = contributions.fit_person_values, [0.0]

    def own_fit(rows: Any, targets: Any, *rest: Any) -> Any:
        past.append(float(np.nanmean(targets)))
        return real(rows, targets, *rest) * (1 + np.mean(past))

    patch.setattr(contributions, "fit_person_values", own_fit)


def shared_adam(patch: pytest.MonkeyPatch) -> None:
    """The moments of one optimiser go from person to person."""
    kept: dict[tuple[int, ...], np.ndarray] = {}
    begin, ascend = local_updates._Adam.__init__, local_updates._Adam.ascend

    def init(self: Any, training: Any, theta: np.ndarray, moments: Any) -> None:
        begin(self, training, theta, moments)
        self._first += kept.get(theta.shape[1:], np.float32(0))

    def step(self: Any, phi: np.ndarray, gradient: np.ndarray) -> None:
        ascend(self, phi, gradient)
        kept[phi.shape[1:]] = self._first.mean(0)

    patch.setattr(local_updates._Adam, "__init__", init)
    patch.setattr(local_updates._Adam, "ascend", step)


def running_normaliser(patch: pytest.MonkeyPatch) -> None:
    """Rewards are divided by the spread of all rewards seen so far."""
    real, past = user_vault.enrolled_rows, [np.array([0.0, 1.0])]

    def enrolled_rows(*arguments: Any) -> dict[str, np.ndarray]:
        rows = real(*arguments)
        past.append(rows["rewards"][rows["mask"]])
        return {**rows, "rewards": rows["rewards"] / np.concatenate(past).std()}

    patch.setattr(user_vault, "enrolled_rows", enrolled_rows)


def shared_generator(patch: pytest.MonkeyPatch) -> None:
    """One stream of random numbers for all meetings, of which a longer episode takes more."""
    real, streams = serving.serve, dict[int, np.random.Generator]()

    def serve(domain: Any, *arguments: Any, generator: np.random.Generator, **rest: Any) -> Any:
        generator = streams.setdefault(id(domain), np.random.default_rng(3))
        return real(domain, *arguments, generator=generator, **rest)

    patch.setattr(serving, "serve", serve)


LATER = "later_meetings"

LEARNING: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("shared critic", shared_critic, (LATER,)),
    ("shared Adam", shared_adam, (LATER,)),
    ("running normaliser", running_normaliser, (LATER,)),
    ("shared generator", shared_generator, (LATER,)),
)
