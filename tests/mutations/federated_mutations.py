"""Mistakes with sums over devices, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms import device_sums as device_parts
from tacit.privacy.mechanisms.device_sums import DeviceSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import federated_vault
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.removal import Harness

Plant = Callable[[pytest.MonkeyPatch], None]


def shares_for_everybody(patch: pytest.MonkeyPatch) -> None:
    """Each share is divided among the devices once more than it should be."""
    real = DeviceSum.variance.fget
    assert real is not None
    patch.setattr(DeviceSum, "variance", property(lambda self: max(256, real(self) // self.devices)))


def server_forgets_its_noise(patch: pytest.MonkeyPatch) -> None:
    """The mean of the answers is released as it is."""
    patch.setattr(federated_vault, "release_mean", lambda part, total, unit, noise: total / unit.size)


def laplace_of_the_mean(patch: pytest.MonkeyPatch) -> None:
    """The scale is taken as that of the mean where it is that of the sum (the papers' reading)."""
    real = device_parts.laplace_scale
    patch.setattr(device_parts, "laplace_scale", lambda multiplier: real(multiplier / 12))


def workers_share_a_generator(patch: pytest.MonkeyPatch) -> None:
    """Every draw starts from the same state, as in forked workers that were never seeded again."""

    def again(self: SecretNoise, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.asarray(np.random.default_rng(0).normal(0, scale, size), np.float32)

    patch.setattr(SecretNoise, "gaussian", again)


def answers_are_not_bounded(patch: pytest.MonkeyPatch) -> None:
    """The critics' numbers are added up as they are."""
    patch.setattr(device_parts, "clip_rows", lambda vectors, clip: np.asarray(vectors, np.float64))


def numbers_are_not_bounded(patch: pytest.MonkeyPatch) -> None:
    """The same for the numbers under Laplace noise."""

    def unbounded(part: Any, vectors: Any) -> Any:
        return np.rint(vectors / part.bound * 2.0**device_parts.GRID_BITS).astype(np.int64)

    patch.setattr(device_parts, "_bound_to_grid", unbounded)


def floor_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """The sum is released, no matter who answers."""
    patch.setattr(federated_vault, "_require_enough", lambda *_: None)


def aborted_steps_are_free(patch: pytest.MonkeyPatch) -> None:
    """A step is claimed when its answer is there."""
    patch.setattr(federated_vault.FederatedVault, "_take", lambda *_: None)


def devices_keep_no_ledger(patch: pytest.MonkeyPatch) -> None:
    """A device believes the server that a step is new."""
    patch.setattr(Ledger, "claim", lambda self, plan_id, part, count: range(count))


def works_are_not_tried(patch: pytest.MonkeyPatch) -> None:
    """Whatever the work is, it is run."""
    patch.setattr(Harness, "_require_near", lambda *_: None)


def seeds_by_place(patch: pytest.MonkeyPatch) -> None:
    """A device's seeds are those of its place among all that are there."""

    def seeds(self: StackedDevices) -> Any:
        return np.frombuffer(self._noise.bytes(8 * self._reader.units), np.uint64)

    patch.setattr(StackedDevices, "_seeds", seeds)


FEDERATED: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("shares for everybody", shares_for_everybody, ("noise_of_devices",)),
    ("server forgets its noise", server_forgets_its_noise, ("noise_of_devices",)),
    ("laplace of the mean", laplace_of_the_mean, ("noise_of_devices",)),
    ("workers share a generator", workers_share_a_generator, ("noise_of_devices",)),
    ("answers are not bounded", answers_are_not_bounded, ("one_device_more",)),
    ("numbers are not bounded", numbers_are_not_bounded, ("one_device_more",)),
    ("floor is not kept", floor_is_not_kept, ("fewer_answers_than_shares",)),
    ("aborted steps are free", aborted_steps_are_free, ("fewer_answers_than_shares",)),
    ("devices keep no ledger", devices_keep_no_ledger, ("queries_repeated",)),
    ("works are not tried", works_are_not_tried, ("devices_apart",)),
    ("seeds by place", seeds_by_place, ("seeds_of_devices",)),
)
