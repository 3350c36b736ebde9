"""Codes of ids: those of one dictionary, whatever way they are found."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.unit_keys import Codes


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_codes_are_those_of_a_table_whatever_the_order(kind: str) -> None:
    """Files that are sorted each, ids that come back, chunks in any order: against one dictionary."""
    rng = np.random.default_rng(3)
    for trial in range(60):
        names = rng.permutation(60)
        parts = [np.sort(part) for part in np.array_split(names, 4)]
        if trial % 3 == 1:
            parts.append(parts[trial % 4][:2])  # ids of an earlier file
        if trial % 3 == 2:
            parts.append(rng.permutation(80))
        codes, table = Codes(), dict[object, int]()
        for part in parts:
            for chunk in np.array_split(np.repeat(part, rng.integers(1, 3, len(part))), 2):
                ids = chunk if kind == "numbers" else np.array([f"p{one}" for one in chunk], object)
                expected = [table.setdefault(one, len(table)) for one in ids.tolist()]
                assert codes.encode(ids).tolist() == expected
        assert codes.count == len(table)
