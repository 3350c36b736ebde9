"""Detectors for sums over shards, as those of `detectors.py`; ranks are threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from shard_cases import SIGMA, Threads, dealt, p_of_law, released_steps, shard, together
from vault_cases import Named, Rewards, priced

from tacit.errors import DataError
from tacit.privacy.vault.sharded_vault import Int64, ShardedVault

RARE = 1e-7  # p-values below this are no accident


def noise_of_ranks(folder: Path) -> None:
    """Whatever the number of ranks, their shares together have the law that the accountant assumes."""
    for ranks in (2, 4):
        (folder / str(ranks)).mkdir()
        p = p_of_law(released_steps(folder / str(ranks), ranks))
        assert p > RARE, f"the noise of {ranks} ranks does not follow its law: p {p:.1e}"


def units_of_shards(folder: Path) -> None:
    """A person in two shards would have twice her clip."""
    shards = [shard([[1.0], [2.0]], ["ann", "bob"]), shard([[3.0], [1.0]], ["carl", "ann"])]

    def reserved(vault: ShardedVault) -> None:
        vault.reserve(priced(vault, noise_multiplier=SIGMA))

    result, _ = together(folder, shards, reserved)
    assert isinstance(result, DataError), "a unit in two shards was not noticed"


@dataclass(frozen=True)
class Stale(Threads):
    """Rank 1 answers as `settings` says."""

    how: str = "twice"
    earlier: list[Int64] = field(default_factory=list)

    def gather(self, numbers: Int64) -> list[Int64]:
        if self.rank != 1 or numbers.ndim > 1:
            return super().gather(numbers)
        self.earlier.append(numbers)
        late = self.earlier[-2] if len(self.earlier) > 1 else numbers
        return super().gather({"twice": 2 * numbers, "late": late, "never": 0 * numbers}[self.how])


def answers_of_ranks(folder: Path) -> None:
    """A rank that answers twice, late or never burns the step, and every later one."""
    for how in ("twice", "late", "never"):

        def two_sums(vault: ShardedVault, how: str = how) -> list[str]:
            run = vault.reserve(priced(vault, noise_multiplier=SIGMA, steps=300))
            left = []
            for _ in range(3):
                try:
                    vault.noisy_sum(run, "sum", Rewards())
                    left.append("released")
                except Exception as error:
                    left.append(type(error).__name__)
            return left

        (folder / how).mkdir()
        shards, before = dealt([[1.0]] * 8, 2), 1 if how == "late" else 0
        result, _ = together(folder / how, shards, two_sums, ranks_of=lambda m, r, how=how: Stale(m, r, how))
        expected = ["released"] * before + ["MechanismError"] + ["LedgerError"] * (2 - before)
        assert result == expected, f"a rank answered {how}: {result}"


def samples_of_ranks(folder: Path) -> None:
    """Who takes part on one rank tells nothing of who does on another."""
    people = [[float(i)] for i in range(10)] * 2
    shards = [shard(people[:10], range(10)), shard(people[10:], range(10, 20))]

    def drawn(vault: ShardedVault) -> np.ndarray:
        run = vault.reserve(priced(vault, noise_multiplier=0.0, sampling_rate=0.5, steps=20, clip_norm=2.0))
        return np.stack([vault.noisy_sum(run, "sum", Named(10))[0] for _ in range(20)]) * 50

    result, _ = together(folder, shards, drawn)
    if isinstance(result, Exception):
        raise result
    counts = np.rint(result)
    assert (counts == 1).any(), "the ranks draw the same people"


SHARD_DETECTORS = (noise_of_ranks, units_of_shards, answers_of_ranks, samples_of_ranks)
