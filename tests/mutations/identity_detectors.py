"""Detectors of mistakes about who is one unit: what a correct library does for odd ids, twins, windows and halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from vault_cases import told_apart_by_rewards

from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader


def edits_move_no_half(folder: Path) -> None:
    """Rows of people with ids are edited, one person after another: nobody's half changes, in a vault or in shards."""
    units = [[i / 10] for i in range(30)]
    before = Reader(told_apart_by_rewards(units, range(30)), SecretNoise()).folds("key")
    for edited in range(30):
        other = [*units[:edited], [8.0, 9.0], *units[edited + 1 :]]
        after = Reader(told_apart_by_rewards(other, range(30)), SecretNoise()).folds("key")
        assert np.array_equal(before, after), "an edit of a person's rows moves a half"
        alone = Reader(told_apart_by_rewards([other[edited]], [edited]), SecretNoise()).folds("key")
        assert alone[0] == before[edited], "a shard deals its units otherwise"


IDENTITY_DETECTORS = (edits_move_no_half,)
