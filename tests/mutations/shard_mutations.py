"""Mistakes with sums over shards, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import base, sharded_vault
from tacit.privacy.vault.sharded_vault import Shard

Plant = Callable[[pytest.MonkeyPatch], None]


def all_noise_on_every_rank(patch: pytest.MonkeyPatch) -> None:
    """Each rank adds the noise of the whole sum, which is more than the plan states."""
    patch.setattr(sharded_vault, "share_std", lambda scale, ranks: scale)


def noise_is_shared_twice(patch: pytest.MonkeyPatch) -> None:
    """The standard deviation is divided by the number of ranks, and not by its root."""
    patch.setattr(sharded_vault, "share_std", lambda scale, ranks: scale / ranks)


def rank_0_adds_no_share(patch: pytest.MonkeyPatch) -> None:
    """The leader holds the ledger and thinks of nothing else."""
    mean = Shard.mean

    def broken(self: Shard, *rest: Any) -> Any:
        return mean(self if self.ranks.rank else Shard(self.records, Muted(), self.ranks), *rest)

    patch.setattr(Shard, "mean", broken)


class Muted(SecretNoise):
    """Real draws, and no Gaussian noise."""

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.zeros(size, np.float32)


def a_part_is_enough(patch: pytest.MonkeyPatch) -> None:
    """The sum of those who answered is released, with their noise alone."""
    patch.setattr(sharded_vault, "require_answers", lambda *_: None)


def shards_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether a unit lies in two shards."""
    patch.setattr(Shard, "require_disjoint", lambda *_: None)


def all_ranks_have_one_seed(patch: pytest.MonkeyPatch) -> None:
    """Every rank samples and draws noise from the same seed."""
    for module in (base, sharded_vault):
        patch.setattr(module, "SecretNoise", lambda: SecretNoise.for_tests(0))


SHARDS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("all noise on every rank", all_noise_on_every_rank, ("noise_of_ranks",)),
    ("noise is shared twice", noise_is_shared_twice, ("noise_of_ranks",)),
    ("rank 0 adds no share", rank_0_adds_no_share, ("noise_of_ranks",)),
    ("a part of the answers is enough", a_part_is_enough, ("answers_of_ranks",)),
    ("shards are not compared", shards_are_not_compared, ("units_of_shards",)),
    ("all ranks have one seed", all_ranks_have_one_seed, ("samples_of_ranks",)),
)
